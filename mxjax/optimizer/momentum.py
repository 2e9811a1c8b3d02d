"""Gradient descent with or without momentum: SGD and its variants."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .. import ndarray as nd
from .._support.bounded import bounded_cache
from .base import Optimizer, _aggregation_size, _is_half, _is_list, _need_arrays, _Stepwise, _zeros, register

if TYPE_CHECKING:
    from ..base import Key
    from ..context import Context
    from ..ndarray import NDArray

__all__ = ["SGD", "ccSGD", "NAG", "Signum", "LARS", "LBSGD", "DCASGD", "SGLD"]


class _Momentum(Optimizer):
    """A weight with one state, its momentum, updated by one of four fused operators.

    The state is the momentum (None when `momentum` is 0), for a 16-bit weight under `multi_precision` the pair
    (momentum, float32 copy).
    """

    _operators: ClassVar[tuple[str, str]]  # without and with momentum; "mp_" before them for 16-bit weights
    lazy_update = False

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Key, weight: NDArray) -> NDArray | None:
        return _zeros(weight, weight.stype if self.lazy_update else "default") if self.momentum else None

    def create_state_multi_precision(self, index: Key, weight: NDArray) -> Any:
        if self._uses_master(weight):
            master = weight.astype("float32")
            return self.create_state(index, master), master
        return self.create_state(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_impl(index, weight, grad, state, multi_precision=False)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        first = weight[0] if _is_list(index) else weight
        self._update_impl(index, weight, grad, state, multi_precision=self.multi_precision and _is_half(first))

    def _update_impl(self, indices: Any, weights: Any, grads: Any, states: Any, multi_precision: bool = False) -> None:
        """Updates one weight or several; MXNet's name, because subclasses override it."""
        if not _is_list(indices):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        for weight, grad in zip(weights, grads, strict=True):
            _need_arrays(weight, grad)
        self._update_count(indices)
        self._update_many(indices, list(weights), list(grads), list(states), multi_precision)

    def _update_many(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray], states: list[Any],
                     multi_precision: bool) -> None:
        for weight, grad, state, lr, wd in zip(weights, grads, states, self._get_lrs(indices),
                                               self._get_wds(indices), strict=True):
            self._apply(weight, grad, state, multi_precision, lr=lr, wd=wd)

    def _is_one_call(self, weight: NDArray) -> bool:
        return "_operator" in vars(type(self))  # 16-bit weights have an operator of their own

    @staticmethod
    def _state_arrays(state: NDArray | tuple[NDArray | None, ...] | None) -> tuple:
        if isinstance(state, tuple):
            return state if state[0] is not None else state[1:]
        return () if state is None else (state,)

    def _apply(self, weight: NDArray, grad: NDArray, state: Any,
               multi_precision: bool, **options: Any) -> None:
        """Update one parameter by the fitting operator."""
        momentum = state[0] if multi_precision else state
        name = self._operators[momentum is not None]
        if momentum is not None:
            options["momentum"] = self.momentum
        if multi_precision:
            name, arrays = f"mp_{name}", [array for array in state if array is not None]
        else:
            arrays = [] if momentum is None else [momentum]
        getattr(nd, name)(weight, grad, *arrays, out=weight, **options, **self._grad_options())


def _operator_of(self: _Momentum, weight: NDArray,
                 state: NDArray | tuple[NDArray | None, ...] | None) -> tuple[str, dict[str, Any]]:
    """The `_operator` of classes with one; see `Optimizer._state_arrays`."""
    mixed = isinstance(state, tuple)
    momentum = state[0] if mixed else state
    options: dict[str, Any] = {"rescale_grad": self.rescale_grad}
    if momentum is not None:
        options["momentum"] = self.momentum
    if self.clip_gradient:
        options["clip_gradient"] = self.clip_gradient
    name = self._operators[momentum is not None]
    return f"mp_{name}" if mixed else name, options


class _Aggregated(_Momentum):
    """SGD arithmetic on up to `MXNET_OPTIMIZER_AGGREGATION_SIZE` parameters per call."""

    _operators = "sgd_update", "sgd_mom_update"

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum, **kwargs)
        self.lazy_update = lazy_update
        self.aggregate_num = _aggregation_size(default=256)  # MXNet: 4; for XLA many are one program

    def _apply(self, weight: NDArray, grad: NDArray, state: Any,
               multi_precision: bool, **options: Any) -> None:
        if not multi_precision:
            options["lazy_update"] = self.lazy_update
        super()._apply(weight, grad, state, multi_precision, **options)

    def _apply_many(self, weights: list[NDArray], grads: list[NDArray], states: list[Any], multi_precision: bool,
                    lrs: NDArray, wds: NDArray, **options: Any) -> None:
        """Update dense parameters by one operator; the rates are arrays, so that new ones compile nothing new."""
        states = states if multi_precision else [(state,) for state in states]
        flat = [array for weight, grad, state in zip(weights, grads, states, strict=True)
                for array in (weight, grad, *state) if array is not None]
        if self.momentum:
            options = {"momentum": self.momentum, **options}
        operator = "preloaded_multi_" + "mp_" * multi_precision + self._operators[self.momentum != 0]
        getattr(nd, operator)(*flat, lrs, wds, out=weights, num_weights=len(weights), **options,
                              **self._grad_options())


@bounded_cache(64)
def _rates(values: tuple[float, ...], ctx: Context) -> NDArray:
    """Learning rates or decays as an array; kept, because they are the same in most updates."""
    return nd.array(values, ctx=ctx, dtype="float32")


def _all_dense(*lists: list[NDArray]) -> bool:
    return all(array.stype == "default" for arrays in lists for array in arrays)


@register
class SGD(_Aggregated):
    """Stochastic gradient descent: momentum <- momentum_factor * momentum - lr * (grad + wd * weight), weight += it.

    Args:
        momentum: factor of the momentum; 0 for none.
        lazy_update: for row-sparse gradients, touch only the rows they have.
        **kwargs: as in `Optimizer`.

    Source:
        MXNet's operators sgd_update, sgd_mom_update and their multi_ and mp_ variants.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum, lazy_update, **kwargs)

    _operator = _operator_of

    def _update_many(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray], states: list[Any],
                     multi_precision: bool) -> None:
        if not _all_dense(weights, grads):
            super()._update_many(indices, weights, grads, states, multi_precision)
            return
        ctx = weights[0].context
        self._apply_many(weights, grads, states, multi_precision, _rates(tuple(self._get_lrs(indices)), ctx),
                         _rates(tuple(self._get_wds(indices)), ctx))


@register
class ccSGD(SGD):  # noqa: N801  MXNet's name
    """Deprecated name of `SGD`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    _operator = _operator_of


@register
class NAG(_Momentum):
    """Nesterov's accelerated gradient.

    Args:
        momentum: factor of the momentum; 0 gives plain SGD.
        **kwargs: as in `Optimizer`.

    Source:
        MXNet's operator nag_mom_update; Sutskever et al., 2013.
    """

    _operators = "sgd_update", "nag_mom_update"

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(momentum, **kwargs)

    def _update_many(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray], states: list[Any],
                     multi_precision: bool) -> None:
        # the rates one at a time, as in MXNet: a subclass may define `_get_lr` alone
        for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
            self._apply(weight, grad, state, multi_precision, lr=self._get_lr(index), wd=self._get_wd(index))

    _operator = _operator_of


@register
class Signum(_Stepwise):
    """Descends along the sign of the gradient or, with momentum, of the momentum.

    Args:
        learning_rate: learning rate.
        momentum: factor of the momentum; 0 gives SignSGD.
        wd_lh: decay applied to the weight itself rather than to the gradient (Loshchilov & Hutter).
        **kwargs: as in `Optimizer`.

    Source:
        Bernstein et al., signSGD, 2018; MXNet's operators signsgd_update and signum_update.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Key, weight: NDArray) -> NDArray | None:
        return _zeros(weight, weight.stype) if self.momentum else None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_impl(index, weight, grad, state)

    def _update_impl(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Updates one weight; MXNet's name, because subclasses override it."""
        super().update(index, weight, grad, state)

    def _operator(self, weight: NDArray, state: NDArray | None) -> tuple[str, dict[str, Any]]:
        if state is None:
            return "signsgd_update", self._grad_options()
        return "signum_update", {"momentum": self.momentum, "wd_lh": self.wd_lh, **self._grad_options()}


@register
class LARS(_Aggregated):
    """SGD whose rate is scaled per layer by eta * |weight| / (|grad| + wd * |weight| + eps).

    Biases, gammas and betas keep the plain rate.

    Args:
        momentum, lazy_update: as in `SGD`.
        eta: coefficient of the scale.
        eps: added to its denominator.
        momentum_correction: rescale the momentum when the learning rate changes.
        **kwargs: as in `Optimizer`.

    Source:
        You et al., Large Batch Training of Convolutional Networks, 2017.
    """

    _decayed = ("_weight",)

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, eta: float = 0.001, eps: float = 0,
                 momentum_correction: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum, lazy_update, **kwargs)
        if momentum and momentum_correction:  # which MXNet makes for the first of as many weights alone
            self.aggregate_num = _aggregation_size(default=4)
        self.momentum_correction = momentum_correction
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        lr = self.learning_rate
        self.last_lr, self.cur_lr = (lr if self.cur_lr is None else self.cur_lr), lr
        return self.multiplied(lr, "lr_mult", indices)

    def _update_many(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray], states: list[Any],
                     multi_precision: bool) -> None:
        rates, decays = self._get_lrs(indices), self._get_wds(indices)
        ctx = weights[0].context
        names = [str(self.idx2name.get(index, index)) for index in indices]
        scaled = [i for i, name in enumerate(names) if not name.endswith(("gamma", "beta", "bias"))]
        order = scaled + [i for i in range(len(indices)) if i not in set(scaled)]
        rates, decays = ([values[i] for i in order] for values in (rates, decays))
        weights, grads = ([arrays[i] for i in order] for arrays in (weights, grads))
        states = [states[i] for i in order]
        lrs, wds = (_rates(tuple(values), ctx) for values in (rates, decays))
        n = len(scaled)
        if n:
            of_weights, of_grads = (nd.multi_sum_sq(*arrays[:n], num_arrays=n) for arrays in (weights, grads))
            scaled_lrs = nd.multi_lars(lrs[:n], of_weights, of_grads, wds[:n], eta=self.eta, eps=self.eps,
                                       rescale_grad=self.rescale_grad)
            lrs = scaled_lrs if n == len(order) else nd.concat(scaled_lrs, lrs[n:], dim=0)
        options = {}
        if self.momentum and self.momentum_correction and self.last_lr and self.cur_lr is not None:
            options["momentum"] = self.momentum * (self.cur_lr / self.last_lr)
        self._apply_many(weights, grads, states, multi_precision, lrs, wds, **options)


@register
class LBSGD(_Momentum):
    """SGD for large batches: sums gradients over `batch_scale` batches and warms up the learning rate.

    Args:
        momentum, multi_precision: as in `SGD`.
        warmup_strategy: growth of the rate's multiplier to `batch_scale`: "linear", "power2" or
            "sqrt"; or "lars" for a multiplier from the norms of weight and gradient.
        warmup_epochs: epochs of the warm-up.
        batch_scale: number of batches between two updates.
        updates_per_epoch: updates in an epoch.
        begin_epoch: first epoch.
        num_epochs: ignored, as in MXNet.
        **kwargs: as in `Optimizer`.

    Source:
        MXNet's LBSGD; Goyal et al., Accurate, Large Minibatch SGD, 2017.
    """

    _operators = "sgd_update", "sgd_mom_update"

    def __init__(self, momentum: float = 0.0, multi_precision: bool = False, warmup_strategy: str = "linear",
                 warmup_epochs: int = 5, batch_scale: int = 1, updates_per_epoch: int = 32, begin_epoch: int = 0,
                 num_epochs: int = 60, **kwargs: Any) -> None:
        super().__init__(momentum, multi_precision=multi_precision, **kwargs)
        logging.info("Large-batch SGD: batch_scale=%f, warmup_epochs=%d, warmup_strategy=%s, updates_per_epoch=%d",
                     batch_scale, warmup_epochs, warmup_strategy, updates_per_epoch)
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Any, dict[str, Any]] = {}
        self.adaptive = False
        self.admult = 1

    # the 16-bit state is the general (float32 copy, momentum) here, as in MXNet
    create_state_multi_precision = Optimizer.create_state_multi_precision
    update_multi_precision = Optimizer.update_multi_precision

    def _warmup_multiplier(self, updates: int) -> float:
        duration = self.warmup_epochs * self.updates_per_epoch
        if updates >= duration:
            return float(self.batch_scale)
        progress = updates / duration
        curves = {"linear": progress, "power2": progress ** 2, "sqrt": math.sqrt(progress)}
        return 1.0 + (self.batch_scale - 1) * curves.get(self.warmup_strategy, 0.0)

    def _lars_multiplier(self, weight: NDArray, grad: NDArray, wd: float) -> float:
        weight2, grad2 = (float((array * array).sum().asscalar()) for array in (weight, grad))
        return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100.0)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        lr, wd = self._get_lr(index), self._get_wd(index)  # before counting, as in MXNet
        self._update_count(index)
        before = self.cumgrads.get(index, {"cum_grad": 0, "num_cums": self.init_updates})
        summed = {"cum_grad": before["cum_grad"] + grad, "num_cums": before["num_cums"] + 1}
        self.cumgrads[index] = summed
        if summed["num_cums"] % self.batch_scale:
            return
        grad = summed["cum_grad"] / self.batch_scale
        if self.warmup_strategy == "lars":
            lr *= self._lars_multiplier(weight, grad, wd)
        else:
            lr *= self._warmup_multiplier(summed["num_cums"])
        self._apply(weight, grad, state, multi_precision=False, lr=lr, wd=wd)
        summed["cum_grad"] = 0


@register
class DCASGD(_Stepwise):
    """Asynchronous SGD that compensates a gradient's delay by lamda * grad² * (weight - weight at
    which it was computed).

    Args:
        momentum: factor of the momentum; 0 for none.
        lamda: strength of the compensation.
        **kwargs: as in `Optimizer`.

    Source:
        Zheng et al., Asynchronous Stochastic Gradient Descent with Delay Compensation, 2017.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, Any] = {}
        self.lamda = lamda

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray | None, NDArray]:
        return (_zeros(weight) if self.momentum else None), weight.copy()

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray | None, NDArray], lr: float,
              wd: float, t: int) -> None:
        grad = self._clipped(grad * self.rescale_grad)
        momentum, previous = state
        change = -lr * (grad + wd * weight + self.lamda * grad * grad * (weight - previous))
        if momentum is not None:
            momentum[:] = change = self.momentum * momentum + change
        previous[:] = weight
        weight += change


@register
class SGLD(_Stepwise):
    """Stochastic gradient Langevin dynamics: half a gradient step plus normal noise of variance lr.

    Args:
        **kwargs: as in `Optimizer`.

    Source:
        Patterson & Teh, Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex, 2013.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: None, lr: float, wd: float, t: int) -> None:
        grad = self._clipped(grad * self.rescale_grad)
        weight -= lr / 2 * (grad + wd * weight)
        weight += nd.random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context)
