"""Optimizers of `SVRGModule`: one for the parameters, and one that assigns the gradients over all data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import optimizer as opt

if TYPE_CHECKING:
    from ...base import Key
    from ...ndarray import NDArray
    from ...optimizer.base import Optimizer

__all__: list[str] = []

_BASE = ("rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate", "lr_scheduler", "sym",
         "begin_num_update", "multi_precision", "param_dict")


@opt.register
class _AssignmentOptimizer(opt.Optimizer):
    """Puts the gradient in the weight's place."""

    def update(self, index: Key, weight: NDArray, grad: NDArray, state: Any) -> None:
        weight[:] = grad


@opt.register
class _SVRGOptimizer(opt.Optimizer):
    """Updates parameters by another optimizer, and assigns keys with "full" in their names: gradients over all data.

    Args:
        default_optimizer: the other optimizer, or its name.
        kwargs: its arguments.
    """

    def __init__(self, default_optimizer: Optimizer | str, **kwargs: Any) -> None:
        super().__init__(**{name: value for name, value in kwargs.items() if name in _BASE})
        self.default_opt = opt.create(default_optimizer, **kwargs) if isinstance(default_optimizer, str) else \
            default_optimizer
        self.aux_opt = opt.create(_AssignmentOptimizer.__name__)

    def _of(self, index: Key) -> opt.Optimizer:
        """The optimizer for a parameter, given by its number or name."""
        name = self.idx2name.get(index, index)
        return self.aux_opt if "full" in str(name) else self.default_opt

    def update(self, index: Key, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._of(index).update(index, weight, grad, state)

    def create_state(self, index: Key, weight: NDArray) -> Any:
        return self._of(index).create_state(index, weight)
