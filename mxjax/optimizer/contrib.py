"""Contributed optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import level
from .. import ndarray as nd
from ..base import Unfit
from .base import _Stepwise, register

if TYPE_CHECKING:
    from ..base import Key
    from ..ndarray import NDArray

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(_Stepwise):
    """AdaGrad with one scale per row: the summed mean squares of the row's gradients.

    Args:
        eps: added under the root.
        **kwargs: as in `Optimizer`; weight decay is not supported.

    Raises:
        ValueError: the weight is not a matrix, or weight decay is set.

    Source:
        MXNet's operator contrib.group_adagrad_update.
    """

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        if len(weight.shape) != 2:
            raise Unfit(f"GroupAdaGrad requires weights of 2 dimensions; parameter {index} has shape "
                               f"{weight.shape}")
        return nd.zeros((weight.shape[0], 1), weight.context, dtype=weight.dtype, stype=weight.stype)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float, t: int) -> None:
        if wd != 0:
            raise Unfit(f"GroupAdaGrad does not support weight decay, got wd={wd}")
        if grad.stype == "row_sparse":
            nd.contrib.group_adagrad_update(weight, grad, state, out=weight, lr=lr, epsilon=self.float_stable_eps,
                                            **self._grad_options())
            return
        grad = self._clipped(grad * self.rescale_grad)
        state += nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight -= lr * grad / nd.sqrt(state + self.float_stable_eps)


if level.fix("mxjax.optimizer") == 2:
    from .steps import GroupAdaGrad  # noqa: F811  # pyright: ignore[reportAssignmentType]  the other level's class
