"""The optimizers of MXNet 2: their defaults, the formulas of `step`, the operators of `fused_step`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from . import adaptive
from .base import _aggregation_size, _is_half
from .stepping import ByStep, Optimizer, zeros

if TYPE_CHECKING:
    from ..base import Key
    from ..ndarray import NDArray

__all__ = ["AdaBelief", "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "GroupAdaGrad",
           "LAMB", "LANS", "LARS", "NAG", "Nadam", "RMSProp", "SGD", "SGLD", "Signum", "Test"]

_List = Sequence[Any]


def _refuse_renamed(kwargs: dict[str, Any], **now: str) -> None:
    for name in now:
        if kwargs.get(name) is not None:
            raise DeprecationWarning(f"parameter {name!r} is called {now[name]!r} in MXNet 2")


# ------------------------------------------------------------ stochastic gradient descent
def _moved(grad: NDArray, state: NDArray | None, lr: float, momentum: float) -> NDArray:
    """Returns the new momentum, which is kept where there is one."""
    change = -lr * grad
    if state is not None:
        state[:] = momentum * state + change
        change = state
    return change


class _Momentum(ByStep):
    """A weight with one state, its momentum, whose fused operators exist for float32 copies of weights, too."""

    _operators: tuple[str, str]  # without and with momentum
    momentum: float
    lazy_update: bool

    def create_state(self, index: Key, weight: NDArray) -> NDArray | None:
        stype = weight.stype if getattr(self, "lazy_update", False) else "default"
        return zeros(weight, stype) if self.momentum else None

    def update_multi_precision(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        if self.use_fused_step:
            self.update(indices, weights, grads, states)
        else:
            super().update_multi_precision(indices, weights, grads, states)

    def _is_one_call(self, weight: NDArray) -> bool:
        return self.use_fused_step and "_operator" in vars(type(self))  # 16-bit weights have an operator of their own

    @staticmethod
    def _state_arrays(state: NDArray | tuple[NDArray | None, ...] | None) -> tuple:
        parts = state[::-1] if isinstance(state, tuple) else (state,)
        return tuple([part for part in parts if part is not None])

    def _check(self, lazy_update: bool) -> None:
        if lazy_update and not self.use_fused_step:
            raise AssertionError(f"{type(self).__name__}: lazy_update requires use_fused_step=True")
        if lazy_update and self.multi_precision:
            raise AssertionError(f"{type(self).__name__}: lazy_update requires multi_precision=False")
        self.lazy_update = lazy_update


def _operator_of(self: _Momentum, weight: NDArray,
                 state: NDArray | tuple[NDArray | None, ...] | None) -> tuple[str, dict[str, Any]]:
    mixed = isinstance(state, tuple)
    moved = (state[1] if mixed else state) is not None
    options = {"momentum": self.momentum} if moved else {}
    return "mp_" * mixed + self._operators[moved], {**self._grad_options(), **options}


class SGD(_Momentum):
    """Stochastic gradient descent: state <- momentum * state - lr * (grad + wd * weight), weight += it.

    Args:
        learning_rate: learning rate.
        momentum: factor of the momentum; 0 for none.
        lazy_update: for row-sparse gradients, touch only the rows they have.
        multi_precision, use_fused_step, aggregate_num, **kwargs: as in `Optimizer`.
    """

    _operators = "sgd_update", "sgd_mom_update"

    def __init__(self, learning_rate: float = 0.1, momentum: float = 0.0, lazy_update: bool = False,
                 multi_precision: bool = False, use_fused_step: bool = True, aggregate_num: float = 1,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, multi_precision=multi_precision, aggregate_num=aggregate_num,
                         use_fused_step=use_fused_step, **kwargs)
        self._check(lazy_update)
        self.momentum = momentum

    _operator = _operator_of
    _fused_rates = Optimizer._rates  # MXNet's SGD asks for all rates at once

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray | None, lr: float, wd: float,
              t: int) -> None:
        weight[:] += _moved(self._gradient(weight, grad, wd), state, lr, self.momentum)


class NAG(_Momentum):
    """Nesterov's accelerated gradient (Sutskever et al., 2013).

    Args:
        learning_rate: learning rate.
        momentum: factor of the momentum; 0 gives plain SGD.
        multi_precision, use_fused_step, **kwargs: as in `Optimizer`.
    """

    _operators = "sgd_update", "nag_mom_update"

    def __init__(self, learning_rate: float = 0.1, momentum: float = 0.9, multi_precision: bool = False,
                 use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, multi_precision=multi_precision, use_fused_step=use_fused_step,
                         **kwargs)
        self.momentum = momentum

    _operator = _operator_of

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray | None, lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        change = _moved(grad, state, lr, self.momentum)
        weight[:] += change if state is None else self.momentum * change - lr * grad


class LARS(_Momentum):
    """SGD whose rate is scaled per layer by eta * |weight| / (|grad| + wd * |weight| + epsilon) (You et al., 2017).

    Biases, gammas and betas keep the plain rate.

    Args:
        learning_rate: learning rate.
        momentum, lazy_update: as in `SGD`.
        eta: coefficient of the scale.
        epsilon: added to its denominator.
        use_fused_step, aggregate_num, **kwargs: as in `Optimizer`.
    """

    _operators = "sgd_update", "sgd_mom_update"

    def __init__(self, learning_rate: float = 0.1, momentum: float = 0.0, eta: float = 0.001, epsilon: float = 1e-8,
                 lazy_update: bool = False, use_fused_step: bool = True, aggregate_num: float = 1,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, aggregate_num=aggregate_num,
                         **kwargs)
        self._check(lazy_update)
        self.momentum = momentum
        self.eta = eta
        self.epsilon = epsilon

    def _scale(self, index: Key, weight: NDArray, grad: NDArray, wd: float) -> float:
        """The factor on a weight's rate; 1 where a norm is 0 or not finite."""
        if str(self.idx2name.get(index, index)).endswith(("gamma", "beta", "bias")):
            return 1.0
        size, slope = (float(nd.norm(a.astype("float32")).asscalar()) for a in (weight, grad))
        slope *= abs(self.rescale_grad)
        if not (size > 0 and slope > 0 and math.isfinite(size) and math.isfinite(slope)):
            return 1.0
        return self.eta * size / (slope + wd * size + self.epsilon)

    def fused_step(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        self._update_count(list(indices))
        for index, weight, grad, state, lr, wd in zip(indices, weights, grads, states, self._get_lrs(indices),
                                                      self._get_wds(indices), strict=True):
            name, options = _operator_of(self, weight, state)
            if not name.startswith("mp_"):
                options["lazy_update"] = self.lazy_update
            getattr(nd, name)(weight, grad, *self._state_arrays(state), out=weight, wd=wd,
                              lr=lr * self._scale(index, weight, grad, wd), **options)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray | None, lr: float, wd: float,
              t: int) -> None:
        lr *= self._scale(index, weight, grad, wd)
        weight[:] += _moved(self._gradient(weight, grad, wd), state, lr, self.momentum)


class DCASGD(ByStep):
    """Asynchronous SGD that compensates a gradient's delay by lamda * grad² * (weight - weight at
    which it was computed).

    Zheng et al., 2017.

    Args:
        learning_rate: learning rate.
        momentum: factor of the momentum; 0 for none.
        lamda: strength of the compensation.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.1, momentum: float = 0.0, lamda: float = 0.04,
                 use_fused_step: bool = False, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, Any] = {}
        self.lamda = lamda

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray | None, NDArray]:
        return (zeros(weight) if self.momentum else None), weight.copy()

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray | None, NDArray], lr: float,
              wd: float, t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        moving, previous = state
        change = _moved(grad + self.lamda * nd.square(grad) * (weight - previous), moving, lr, self.momentum)
        previous[:] = weight
        weight[:] += change


class SGLD(ByStep):
    """Stochastic gradient Langevin dynamics: half a gradient step plus normal noise of variance lr.

    Patterson & Teh, 2013.

    Args:
        learning_rate: learning rate.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.1, use_fused_step: bool = False, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: None, lr: float, wd: float, t: int) -> None:
        weight[:] -= lr / 2 * self._gradient(weight, grad, wd)
        weight[:] += nd.random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context)


class Signum(ByStep):
    """Descends along the sign of the gradient or, with momentum, of the momentum (Bernstein et al., 2018).

    Args:
        learning_rate: learning rate.
        momentum: factor of the momentum; 0 gives SignSGD.
        wd_lh: decay applied to the weight itself rather than to the gradient.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
                 use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Key, weight: NDArray) -> NDArray | None:
        return zeros(weight, weight.stype) if self.momentum else None

    def _operator(self, weight: NDArray, state: NDArray | None) -> tuple[str, dict[str, Any]]:
        if state is None:
            return "signsgd_update", self._grad_options()
        return "signum_update", {"momentum": self.momentum, "wd_lh": self.wd_lh, **self._grad_options()}

    def _operator_rates(self, indices: list[Any], lrs: list[float], wds: list[float]) -> list[float]:
        added = 0.0 if self.momentum else self.wd_lh
        return lrs + [wd + added for wd in wds]

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray | None, lr: float, wd: float,
              t: int) -> None:
        if state is None:
            weight[:] = (1 - lr * (wd + self.wd_lh)) * weight - lr * nd.sign(grad)
            return
        state[:] = self.momentum * state - (1 - self.momentum) * self._gradient(weight, grad, wd)
        weight[:] = (1 - lr * self.wd_lh) * weight + lr * nd.sign(state)


# ------------------------------------------------------------ adaptive rates
def _average(old: NDArray, new: NDArray, decay: float) -> None:
    """Makes an array its moving average with a new one."""
    old[:] = decay * old + (1.0 - decay) * new


class _TwoMoments(ByStep):
    """An optimizer that keeps moving averages of the gradient and of its square (or size)."""

    beta1: float
    beta2: float

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        stype = weight.stype if getattr(self, "lazy_update", False) else "default"
        return zeros(weight, stype), zeros(weight, stype)

    def _corrections(self, t: int) -> tuple[float, float]:
        """Returns the divisors of the averages, which began at 0."""
        return 1.0 - self.beta1 ** t, 1.0 - self.beta2 ** t


class Adam(_TwoMoments):
    """Adam: weight -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * mean / (sqrt(var) + epsilon) (Kingma & Ba, 2015).

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        lazy_update: for row-sparse gradients, touch only the rows they have.
        use_fused_step, **kwargs: as in `Optimizer`; the decay is added to the clipped gradient.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 lazy_update: bool = False, use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        if lazy_update and not self.use_fused_step:
            raise AssertionError("Adam: lazy_update requires use_fused_step=True")
        self.lazy_update = lazy_update
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _operator(self, weight: NDArray, state: tuple[NDArray, NDArray]) -> tuple[str, dict[str, Any]]:
        return "adam_update", {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon,
                               **self._grad_options()}

    _operator_rates = adaptive.Adam._operator_rates

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        mean, var = state
        _average(mean, grad, self.beta1)
        _average(var, nd.square(grad), self.beta2)
        first, second = self._corrections(t)
        weight[:] -= lr * math.sqrt(second) / first * (mean / (nd.sqrt(var) + self.epsilon))


class Adamax(_TwoMoments):
    """Adam with the infinity norm of past gradients instead of the root mean square (Kingma & Ba, 2015, section 7).

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay of the average gradient and of the largest one.
        epsilon: added to the denominator.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 use_fused_step: bool = False, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        mean, largest = state
        _average(mean, grad, self.beta1)
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(grad))
        weight[:] -= lr / (1.0 - self.beta1 ** t) * (mean / (largest + self.epsilon))


class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum (Dozat, 2016); its schedule runs over the updates of all parameters together.

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        schedule_decay: decay of the momentum's schedule.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 schedule_decay: float = 0.004, use_fused_step: bool = False, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    momentum_at = adaptive.Nadam.momentum_at

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        now, following = self.momentum_at(t), self.momentum_at(t + 1)
        self.m_schedule *= now
        mean, var = state
        _average(mean, grad, self.beta1)
        _average(var, nd.square(grad), self.beta2)
        ahead = following / (1.0 - self.m_schedule * following) * mean + (1.0 - now) / (1.0 - self.m_schedule) * grad
        weight[:] -= lr * (ahead / (nd.sqrt(var / self._corrections(t)[1]) + self.epsilon))


class AdaGrad(ByStep):
    """Scales by the root of the summed squares of all gradients: weight -= lr * grad / (sqrt(sum) + epsilon).

    Duchi et al., 2011.

    Args:
        learning_rate: learning rate.
        epsilon: added to the root.
        use_fused_step, **kwargs: as in `Optimizer`; only row-sparse gradients have a fused step.

    Raises:
        DeprecationWarning: epsilon is passed under its old name, eps.
    """

    def __init__(self, learning_rate: float = 0.01, epsilon: float = 1e-6, use_fused_step: bool = True,
                 **kwargs: Any) -> None:
        _refuse_renamed(kwargs, eps="epsilon")
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.epsilon = epsilon

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        return zeros(weight, weight.stype, "float32")

    def fused_step(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        for one in zip(indices, weights, grads, states, strict=True):
            if one[2].stype != "row_sparse":
                self.step(*[[part] for part in one])
                continue
            index, weight, grad, state = one
            self._update_count(index)
            self._update_rows(weight, grad, state, self._get_lr(index), self._get_wd(index))

    def _update_rows(self, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float) -> None:
        nd.sparse.adagrad_update(weight, grad, state, out=weight, lr=lr, wd=wd, epsilon=self.epsilon,
                                 **self._grad_options())

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float, t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        state[:] += nd.square(grad)
        weight[:] -= lr * (grad / (nd.sqrt(state) + self.epsilon))


class GroupAdaGrad(AdaGrad):
    """AdaGrad with one scale per row: the summed mean squares of the row's gradients.

    Args:
        learning_rate, epsilon, use_fused_step, **kwargs: as in `AdaGrad`; weight decay is not supported.

    Raises:
        AssertionError: the weight is not a matrix, or weight decay is set.
    """

    def __init__(self, learning_rate: float = 0.01, epsilon: float = 1e-6, use_fused_step: bool = True,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate, epsilon, use_fused_step, **kwargs)

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        if len(weight.shape) != 2:
            raise AssertionError("GroupAdaGrad requires weights of 2 dimensions; parameter "
                                 f"{index} has shape {weight.shape}")
        return nd.zeros((weight.shape[0], 1), weight.context, stype=weight.stype)

    def _refuse_decay(self, wd: float) -> None:
        if wd != 0:
            raise AssertionError(f"GroupAdaGrad does not support weight decay, got wd={wd}")

    def _update_rows(self, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float) -> None:
        self._refuse_decay(wd)
        nd.contrib.group_adagrad_update(weight, grad, state, out=weight, lr=lr, epsilon=self.epsilon,
                                        **self._grad_options())

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float, t: int) -> None:
        self._refuse_decay(wd)
        grad = self._clipped(grad * self.rescale_grad)
        state[:] += nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight[:] -= lr * nd.broadcast_div(grad, nd.sqrt(state) + self.epsilon)


class AdaDelta(ByStep):
    """AdaDelta: grad times the root mean square of the steps divided by that of the gradients.

    Zeiler, 2012.

    Args:
        learning_rate: factor of the steps.
        rho: decay of the averages of squared gradients and squared steps.
        epsilon: added to both averages before the roots.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 1.0, rho: float = 0.9, epsilon: float = 1e-6,
                 use_fused_step: bool = False, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return zeros(weight, dtype="float32"), zeros(weight, dtype="float32")

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        grads, steps = state
        _average(grads, nd.square(grad), self.rho)
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(grads + self.epsilon) * grad
        _average(steps, nd.square(step), self.rho)
        weight[:] -= lr * step


class RMSProp(ByStep):
    """Scales by the root mean square of recent gradients (Tieleman & Hinton, 2012; centered: Graves, 2013).

    Args:
        learning_rate: learning rate.
        rho: decay of the average of squared gradients.
        momentum: factor of the momentum, only of the centered form.
        epsilon: added to the denominator.
        centered: subtract the squared mean from the mean square.
        clip_weights: bound of the weights' absolute values; None for no bound.
        use_fused_step, **kwargs: as in `Optimizer`.

    Raises:
        DeprecationWarning: rho or momentum is passed under its old name, gamma1 or gamma2.
    """

    def __init__(self, learning_rate: float = 0.001, rho: float = 0.9, momentum: float = 0.9, epsilon: float = 1e-8,
                 centered: bool = False, clip_weights: float | None = None, use_fused_step: bool = True,
                 **kwargs: Any) -> None:
        _refuse_renamed(kwargs, gamma1="rho", gamma2="momentum")
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.rho = rho
        self.momentum = momentum
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Key, weight: NDArray) -> NDArray | tuple[NDArray, ...]:
        arrays = [zeros(weight, weight.stype, "float32") for _ in range(3 if self.centered else 1)]
        return tuple(arrays) if self.centered else arrays[0]

    def _operator(self, weight: NDArray, state: NDArray | tuple[NDArray, ...]) -> tuple[str, dict[str, Any]]:
        options = {"rho": self.rho, "epsilon": self.epsilon, **self._grad_options()}
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        if self.centered:
            return "rmspropalex_update", {"momentum": self.momentum, **options}
        return "rmsprop_update", options

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: Any, lr: float,
              wd: float, t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        if self.centered:
            mean, var, change = state
            _average(mean, grad, self.rho)
            _average(var, nd.square(grad), self.rho)
            change[:] = self.momentum * change - lr * grad / nd.sqrt(var - nd.square(mean) + self.epsilon)
            weight[:] += change
        else:
            _average(state, nd.square(grad), self.rho)
            weight[:] -= lr * (grad / (nd.sqrt(state) + self.epsilon))
        if self.clip_weights:
            weight[:] = nd.clip(weight, -self.clip_weights, self.clip_weights)


class FTML(ByStep):
    """Follow the moving leader (Zheng & Kwok, 2017).

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.0025, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8,
                 use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        return zeros(weight), zeros(weight), zeros(weight)

    def fused_step(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        options = {"clip_grad": self.clip_gradient} if self.clip_gradient else {}  # this operator's own name for it
        for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
            self._update_count(index)
            nd.ftml_update(weight, grad, *state, out=weight, lr=self._get_lr(index), wd=self._get_wd(index),
                           t=self._index_update_count[index], beta1=self.beta1, beta2=self.beta2,
                           epsilon=self.epsilon, rescale_grad=self.rescale_grad, **options)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray, NDArray], lr: float,
              wd: float, t: int) -> None:
        grad = self._gradient(weight, grad, wd)
        d, v, z = state
        _average(v, nd.square(grad), self.beta2)
        denominator = (1.0 - self.beta1 ** t) / lr * (nd.sqrt(v / (1.0 - self.beta2 ** t)) + self.epsilon)
        sigma = denominator - self.beta1 * d
        d[:] = denominator
        z[:] = self.beta1 * z + (1.0 - self.beta1) * grad - sigma * weight
        weight[:] = -z / d


class Ftrl(ByStep):
    """Follow the regularized leader, per coordinate; sets weights with little evidence to exactly 0.

    McMahan et al., Ad Click Prediction, 2013.

    Args:
        learning_rate: learning rate.
        lamda1: L1 strength.
        beta: added to the scale, smooths early steps.
        use_fused_step, **kwargs: as in `Optimizer`; wd is the L2 strength.
    """

    def __init__(self, learning_rate: float = 0.1, lamda1: float = 0.01, beta: float = 1.0,
                 use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return zeros(weight, weight.stype, "float32"), zeros(weight, weight.stype, "float32")

    def _operator(self, weight: NDArray, state: tuple[NDArray, NDArray]) -> tuple[str, dict[str, Any]]:
        return "ftrl_update", {"lamda1": self.lamda1, "beta": self.beta, **self._grad_options()}

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad)
        z, squares = state
        before = nd.sqrt(squares)
        squares[:] += nd.square(grad)
        root = nd.sqrt(squares)
        z[:] += grad - (root - before) / lr * weight
        weight[:] = -nd.sign(z) * nd.maximum(nd.abs(z) - self.lamda1, 0) / ((root + self.beta) / lr + wd)


# ------------------------------------------------------------ several weights at a time
class _Listed(ByStep):
    """An optimizer with an operator for several weights, which level 1 has, too."""

    if TYPE_CHECKING:  # a method of the class of level 1
        def _update_impl(self, index: list[Key], weight: list[NDArray], grad: list[NDArray], state: list[Any],
                         multi_precision: bool = False) -> None: ...

    def fused_step(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        self._update_impl(list(indices), list(weights), list(grads), list(states), multi_precision=False)


class _ByNorms(_Listed):
    """An optimizer whose steps are as long as the bounded norm of the weight."""

    _rates = Optimizer._rates

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return zeros(weight, weight.stype, "float32"), zeros(weight, weight.stype, "float32")

    def update_multi_precision(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        if self.use_fused_step:
            self.update(indices, weights, grads, states)
        else:
            super().update_multi_precision(indices, weights, grads, states)

    def fused_step(self, indices: _List, weights: _List, grads: _List, states: _List) -> None:
        self._update_impl(list(indices), list(weights), list(grads), list(states),
                          multi_precision=self.multi_precision and _is_half(weights[0]))

    def _settle(self, beta1: float, beta2: float, epsilon: float, lower_bound: float | None,
                upper_bound: float | None) -> None:
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        if self.aggregate_num > 45:
            raise AssertionError(f"{type(self).__name__} updates at most 45 weights at a time, got aggregate_num="
                                 f"{self.aggregate_num}")

    def _bounded_norm(self, weight: NDArray) -> NDArray:
        norm = weight.norm()
        if self.lower_bound is not None:
            norm = nd.maximum(norm, self.lower_bound)
        return norm if self.upper_bound is None else nd.minimum(norm, self.upper_bound)

    @staticmethod
    def _descend(weight: NDArray, norm: NDArray, direction: NDArray, lr: float) -> None:
        """Moves a weight by a rate times its norm; by the direction itself where one of both is 0."""
        ratio = norm / direction.norm()
        ratio = nd.where(1 - ratio / ratio, nd.ones_like(ratio), ratio)  # not a number: true
        weight[:] -= nd.broadcast_mul(direction, lr * ratio)

    def _averaged(self, grad: NDArray, state: tuple[NDArray, NDArray], t: int,
                  correct: bool) -> tuple[NDArray, NDArray]:
        """(mean, sqrt(var) + epsilon) after a gradient more."""
        mean, var = state
        _average(mean, grad, self.beta1)
        _average(var, nd.square(grad), self.beta2)
        if correct:
            mean, var = mean / (1.0 - self.beta1 ** t), var / (1.0 - self.beta2 ** t)
        return mean, nd.sqrt(var) + self.epsilon


class LAMB(_ByNorms, adaptive.LAMB):  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
    """LAMB: Adam's direction, scaled per layer to the norm of the weight (You et al., 2020).

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        lower_bound, upper_bound: bounds of the weight's norm in the scale; None for no bound.
        bias_correction: correct the averages for their initialization to 0.
        aggregate_num: number of weights to update at a time, at most 45.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
                 lower_bound: float | None = None, upper_bound: float | None = None, bias_correction: bool = True,
                 aggregate_num: int = 4, use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, aggregate_num=aggregate_num, use_fused_step=use_fused_step,
                         **kwargs)
        self._settle(beta1, beta2, epsilon, lower_bound, upper_bound)
        self.bias_correction = bias_correction

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        mean, root = self._averaged(self._gradient(weight, grad), state, t, self.bias_correction)
        self._descend(weight, self._bounded_norm(weight), mean / root + wd * weight, lr)


class LANS(_ByNorms, adaptive.LANS):  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
    """LAMB on gradients of norm 1, with Nesterov's momentum (Zheng et al., 2020).

    Args:
        learning_rate, beta1, beta2, epsilon, lower_bound, upper_bound, aggregate_num, use_fused_step, **kwargs: as in
            `LAMB`.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
                 lower_bound: float | None = None, upper_bound: float | None = None, aggregate_num: int = 4,
                 use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, aggregate_num=aggregate_num, use_fused_step=use_fused_step,
                         **kwargs)
        self._settle(beta1, beta2, epsilon, lower_bound, upper_bound)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad *= self.rescale_grad
        grad[:] = nd.broadcast_div(grad, grad.norm())
        grad = self._clipped(grad)
        mean, root = self._averaged(grad, state, t, True)
        norm = self._bounded_norm(weight)
        self._descend(weight, norm, mean / root + wd * weight, lr * self.beta1)
        self._descend(weight, norm, grad / root + wd * weight, lr * (1 - self.beta1))


class _Corrected(_Listed):
    """An optimizer whose rates correct its averages for having begun at 0."""

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return zeros(weight), zeros(weight)

    def _settle(self, beta1: float, beta2: float, epsilon: float, correct_bias: bool) -> None:
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.correct_bias = correct_bias
        self.aggregate_num = max(1, min(50, _aggregation_size(default=4)))


class AdamW(_Corrected, adaptive.AdamW):  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
    """Adam with decoupled weight decay: weight -= rate * (mean / (sqrt(var) + epsilon) + wd * weight).

    Loshchilov & Hutter, 2019. Without the fused step, the decay applies to the weight after the
    step.

    Args:
        learning_rate: learning rate; the rate is lr * sqrt(1 - beta2^t) / (1 - beta1^t).
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        correct_bias: use this corrected rate; otherwise the rate is lr.
        use_fused_step, **kwargs: as in `Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
                 correct_bias: bool = True, use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self._settle(beta1, beta2, epsilon, correct_bias)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._gradient(weight, grad)
        mean, var = state
        _average(mean, grad, self.beta1)
        _average(var, nd.square(grad), self.beta2)
        lr = self._corrected([index], [lr])[0]
        weight[:] -= lr * (mean / (nd.sqrt(var) + self.epsilon))
        if wd > 0:
            weight[:] -= lr * wd * weight


class AdaBelief(_Corrected, adaptive.AdaBelief):  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's names
    """Adam that divides by the deviation of gradients from their average: weight -= rate * mean /
    (sqrt(var) + epsilon).

    Zhuang et al., 2020.

    Args:
        learning_rate: learning rate; the rate is lr * sqrt(1 - beta2^t) / (1 - beta1^t).
        beta1, beta2: decay of the averages of the gradient and of its squared distance from that average.
        epsilon: added to the denominator, and to var at each update.
        correct_bias: use this corrected rate; otherwise the rate is lr.
        use_fused_step, **kwargs: as in `Optimizer`; the decay is added to the gradient before it is clipped.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
                 correct_bias: bool = True, use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self._settle(beta1, beta2, epsilon, correct_bias)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad *= self.rescale_grad
        grad += wd * weight
        grad = self._clipped(grad)
        mean, var = state
        _average(mean, grad, self.beta1)
        _average(var, nd.square(grad - mean), self.beta2)
        var[:] += self.epsilon
        weight[:] -= self._corrected([index], [lr])[0] * (mean / (nd.sqrt(var) + self.epsilon))


class Test(ByStep):
    """Plain descent with an unused state, for tests.

    Args:
        **kwargs: as in `Optimizer`.
    """

    __test__ = False  # no test case, whatever pytest makes of the name

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        return zeros(weight, dtype="float32")

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float, t: int) -> None:
        weight[:] -= lr * (self.rescale_grad * grad + wd * weight)


def register_all() -> None:
    """Registers these optimizers under their names, each in its module of MXNet 2."""
    Optimizer.opt_registry.clear()
    places = {"AdamW": "adamW", "GroupAdaGrad": "contrib", "Test": "optimizer"}
    for name in __all__:
        cls = globals()[name]
        cls.__module__ = f"{__package__}.{places.get(name, name.lower())}"
        Optimizer.opt_registry[name.lower()] = cls
