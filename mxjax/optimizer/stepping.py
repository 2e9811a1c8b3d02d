"""`Optimizer` of MXNet 2: weights are passed in lists, and a step is one formula or one fused operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from ..array.creation import zeros_later
from . import base
from .base import _is_half, _is_list

if TYPE_CHECKING:
    from ..base import Key
    from ..lr_scheduler import LRScheduler
    from ..ndarray import NDArray
    from ..ops.params import DTypeLike
    from ..symbol import Symbol

__all__ = ["Optimizer"]


class Optimizer(base.Optimizer):
    """Base of all optimizers, which update weights in place from their gradients and states.

    Subclasses define `create_state` and `step`, and `fused_step` if fused operators exist.

    Args:
        rescale_grad: factor on every gradient, usually 1 / batch size.
        param_idx2name: the parameters' names by index.
        wd: weight decay.
        clip_gradient: bound of the rescaled gradient's absolute values; None for no bound.
        learning_rate: learning rate, 0.01 by default; with a schedule, its initial rate.
        lr_scheduler: schedule that gives the rate from the number of updates.
        sym: network whose variables provide `__lr_mult__` and `__wd_mult__`.
        begin_num_update: number of previous updates.
        multi_precision: keep a float32 copy of each 16-bit weight and update that one.
        param_dict: gluon Parameters by index, which provide `lr_mult` and `wd_mult`.
        aggregate_num: number of weights per `update`, 1 by default.
        use_fused_step: call `fused_step` instead of `step`.

    Example:
        >>> class PlainDescent(Optimizer):
        ...     def step(self, indices, weights, grads, states):
        ...         for index, weight, grad in zip(indices, weights, grads):
        ...             self._update_count(index)
        ...             weight -= self._get_lr(index) * grad
    """

    takes_lists = True
    _decayed = ("",)  # all names decay by default

    def __init__(self, rescale_grad: float = 1.0, param_idx2name: dict[int, str] | None = None, wd: float = 0.0,
                 clip_gradient: float | None = None, learning_rate: float | None = None,
                 lr_scheduler: LRScheduler | None = None, sym: Symbol | None = None, begin_num_update: int = 0,
                 multi_precision: bool = False, param_dict: dict[int, Any] | None = None,
                 aggregate_num: float | None = None, use_fused_step: bool | None = None, **kwargs: Any) -> None:
        super().__init__(rescale_grad=rescale_grad, param_idx2name=param_idx2name, wd=wd, clip_gradient=clip_gradient,
                         learning_rate=learning_rate, lr_scheduler=lr_scheduler, sym=sym,
                         begin_num_update=begin_num_update, multi_precision=multi_precision, param_dict=param_dict,
                         **kwargs)
        self.aggregate_num = 1 if aggregate_num is None else aggregate_num
        self.use_fused_step = bool(use_fused_step)

    def step(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
             states: Sequence[Any]) -> None:
        """Updates weights and states by the optimizer's formula.

        Args:
            indices: the parameters' indices.
            weights, grads: arrays of equal shapes.
            states: results of `create_state`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def fused_step(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
                   states: Sequence[Any]) -> None:
        """Updates weights and states by fused operators; arguments as in `step`."""
        raise NotImplementedError(f"{type(self).__name__} must define fused_step, or be created with "
                                  f"use_fused_step=False")

    def update(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
            self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
            states: Sequence[Any]) -> None:
        """Calls `fused_step` or `step`, depending on `use_fused_step`.

        Args:
            indices, weights, grads, states: as in `step`.

        Raises:
            TypeError: an argument is not a list.
        """
        if not _is_list(indices):
            raise TypeError(f"{type(self).__name__}.update expects lists of indices, weights, gradients and states, "
                            f"got "
                            f"{type(indices).__name__} as indices")
        (self.fused_step if self.use_fused_step else self.step)(indices, weights, grads, states)

    def update_multi_precision(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
            self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
            states: Sequence[Any]) -> None:
        """Like `update`, with states of `create_state_multi_precision`."""
        half = [self.multi_precision and _is_half(weight) for weight in weights]
        precise = [state[0] if is_half else weight
                   for is_half, weight, state in zip(half, weights, states, strict=True)]
        self.update(indices, precise,
                    [grad.astype("float32") if is_half else grad for is_half, grad in zip(half, grads, strict=True)],
                    [state[1] if is_half else state for is_half, state in zip(half, states, strict=True)])
        for is_half, master, weight in zip(half, precise, weights, strict=True):
            if is_half:
                master.copyto(weight)

    def _is_one_call(self, weight: NDArray) -> bool:
        return self.use_fused_step and super()._is_one_call(weight)

    def _set_current_device(self, device_id: int) -> None:
        """Counts updates for this device from here on."""
        self._set_current_context(device_id)


class ByStep(Optimizer):
    """An optimizer defined by `_step`, a formula for one weight, and `_operator`, the equivalent operator."""

    lazy_update: bool  # of optimizers whose operators support row-sparse gradients

    def step(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
             states: Sequence[Any]) -> None:
        for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
            self._update_count(index)
            self._step(index, weight, grad, state, self._get_lr(index), self._get_wd(index),
                       self._index_update_count[index])

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: Any, lr: float, wd: float, t: int) -> None:
        """Updates one weight for the `t`-th time (from 1)."""
        raise NotImplementedError(f"{type(self).__name__} must define _step")

    def _operator(self, weight: NDArray, state: Any) -> tuple[str, dict[str, Any]]:
        """The operator that updates a weight, and its parameters but lr and wd; abstract: not all have one."""
        raise NotImplementedError(f"{type(self).__name__} has no fused step: create it with use_fused_step=False")

    def fused_step(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
                   states: Sequence[Any]) -> None:
        self._update_count(list(indices))
        rates = self._fused_rates(list(indices))
        for weight, grad, state, lr, wd in zip(weights, grads, states, rates, rates[len(indices):], strict=False):
            self._by_operator(weight, grad, state, lr, wd)

    def _fused_rates(self, indices: list[Any]) -> list[float]:
        # one at a time, as in MXNet: a subclass may define `_get_lr` alone
        return self._operator_rates(indices, [self._get_lr(index) for index in indices],
                                    [self._get_wd(index) for index in indices])

    def _by_operator(self, weight: NDArray, grad: NDArray, state: object, lr: float, wd: float) -> None:
        """Calls the operator."""
        name, options = self._operator(weight, state)
        if hasattr(self, "lazy_update") and not name.startswith("mp_"):
            options["lazy_update"] = self.lazy_update
        getattr(nd, name)(weight, grad, *self._state_arrays(state), out=weight, lr=lr, wd=wd, **options)

    def _gradient(self, weight: NDArray, grad: NDArray, wd: float = 0.0) -> NDArray:
        """The gradient, rescaled in place, clipped, and with the decay."""
        grad *= self.rescale_grad
        grad = self._clipped(grad)
        if wd:
            grad += wd * weight
        return grad


def zeros(weight: NDArray, stype: str = "default", dtype: DTypeLike | None = None) -> NDArray:
    """Creates a state of zeros with the shape of a weight."""
    dtype = dtype or weight.dtype
    if stype == "default":
        return nd.NDArray(zeros_later(weight.shape, weight.context, dtype).chunk)
    return nd.zeros(weight.shape, weight.context, dtype=dtype, stype=stype)
