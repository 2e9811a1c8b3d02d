"""A simple optimizer with predictable results, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Optimizer, _zeros, register

if TYPE_CHECKING:
    from ..base import Key
    from ..ndarray import NDArray

__all__ = ["Test"]


@register
class Test(Optimizer):
    """Adds the rescaled gradient to the weight and keeps the weight as state.

    Args:
        **kwargs: as in `Optimizer`.
    """

    __test__ = False  # no test case, whatever pytest makes of the name

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        return _zeros(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        weight += grad * self.rescale_grad
        state[:] = weight
