"""Optimizers that scale each weight's step by the history of its gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from .base import _aggregation_size, _is_half, _is_list, _Stepwise, _zeros, register

if TYPE_CHECKING:
    from ..base import Key
    from ..ndarray import NDArray

__all__ = ["Adam", "Adamax", "Nadam", "AdaGrad", "AdaDelta", "RMSProp", "FTML", "Ftrl", "LAMB", "LANS", "AdamW",
           "AdaBelief"]


class _TwoMoments(_Stepwise):
    """An optimizer that keeps running averages of the gradient and of its square (or size)."""

    lazy_update = False

    def __init__(self, learning_rate: float, beta1: float, beta2: float, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        stype = weight.stype if self.lazy_update else "default"
        return _zeros(weight, stype), _zeros(weight, stype)

    def _decayed_grad(self, weight: NDArray, grad: NDArray, wd: float) -> NDArray:
        """The rescaled gradient with decay, then clipped."""
        return self._clipped(grad * self.rescale_grad + wd * weight)


@register
class Adam(_TwoMoments):
    """Adam: weight -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * mean / (sqrt(var) + epsilon).

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        lazy_update: for row-sparse gradients, touch only the rows they have.
        **kwargs: as in `Optimizer`; the decay is added to the gradient.

    Source:
        Kingma & Ba, Adam, 2015; MXNet's operator adam_update.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def _operator(self, weight: NDArray, state: tuple[NDArray, NDArray]) -> tuple[str, dict[str, Any]]:
        return "adam_update", {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon,
                               **self._grad_options()}

    def _operator_rates(self, indices: list[Any], lrs: list[float], wds: list[float]) -> list[float]:
        counts = list(map(self._index_update_count.__getitem__, indices))
        factors = {t: math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t) for t in set(counts)}
        return [lr * factors[t] for lr, t in zip(lrs, counts, strict=True)] + wds

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        lr *= math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)
        nd.adam_update(weight, grad, *state, out=weight, lr=lr, wd=wd, beta1=self.beta1, beta2=self.beta2,
                       epsilon=self.epsilon, lazy_update=self.lazy_update, **self._grad_options())


@register
class Adamax(_TwoMoments):
    """Adam with the infinity norm of past gradients instead of the root mean square.

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay of the average gradient and of the largest one.
        **kwargs: as in `Optimizer`.

    Source:
        Kingma & Ba, Adam, 2015, section 7.
    """

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._decayed_grad(weight, grad, wd)
        mean, largest = state
        mean[:] = self.beta1 * mean + (1 - self.beta1) * grad
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(grad))
        weight -= lr / (1 - self.beta1 ** t) * mean / largest


@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum.

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        schedule_decay: decay of the momentum's schedule.
        **kwargs: as in `Optimizer`.

    Source:
        Dozat, Incorporating Nesterov Momentum into Adam, 2016. As in MXNet, the product of the
        schedule runs over the updates of all parameters together, not of each parameter separately.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def momentum_at(self, t: int) -> float:
        return self.beta1 * (1 - 0.5 * 0.96 ** (t * self.schedule_decay))

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad = self._decayed_grad(weight, grad, wd)
        now, following = self.momentum_at(t), self.momentum_at(t + 1)
        self.m_schedule *= now
        mean, var = state
        mean[:] = self.beta1 * mean + (1 - self.beta1) * grad
        var[:] = self.beta2 * var + (1 - self.beta2) * grad * grad
        ahead = (1 - now) / (1 - self.m_schedule) * grad + following / (1 - self.m_schedule * following) * mean
        weight -= lr * ahead / (nd.sqrt(var / (1 - self.beta2 ** t)) + self.epsilon)


@register
class AdaGrad(_Stepwise):
    """Scales by the root of the summed squares of all gradients: weight -= lr * (grad / sqrt(sum + eps) + wd * weight).

    Args:
        eps: added under the root.
        **kwargs: as in `Optimizer`.

    Source:
        Duchi et al., Adaptive Subgradient Methods, 2011.
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Key, weight: NDArray) -> NDArray:
        return _zeros(weight, weight.stype)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float, t: int) -> None:
        if grad.stype == "row_sparse":
            nd.sparse.adagrad_update(weight, grad, state, out=weight, lr=lr, wd=wd, epsilon=self.float_stable_eps,
                                     **self._grad_options())
            return
        grad = self._clipped(grad * self.rescale_grad)
        state += nd.square(grad)
        weight -= lr * (grad / nd.sqrt(state + self.float_stable_eps) + wd * weight)


@register
class AdaDelta(_Stepwise):
    """AdaDelta: scales steps by the root mean square of previous steps instead of a learning rate.

    Args:
        rho: decay of the averages of squared gradients and squared steps.
        epsilon: added to both averages before the roots.
        **kwargs: as in `Optimizer`.

    Source:
        Zeiler, ADADELTA, 2012.
    """

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return _zeros(weight), _zeros(weight)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray], lr: float, wd: float,
              t: int) -> None:
        grad *= self.rescale_grad  # in place, as in MXNet: the gradient is scaled afterwards
        grad = self._clipped(grad)
        grads, steps = state
        grads[:] = self.rho * grads + (1 - self.rho) * grad * grad
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(grads + self.epsilon) * grad
        steps[:] = self.rho * steps + (1 - self.rho) * step * step
        weight -= step + wd * weight


@register
class RMSProp(_Stepwise):
    """Scales by the root mean square of recent gradients.

    Args:
        learning_rate: learning rate.
        gamma1: decay of the average of squared gradients.
        gamma2: momentum, only of the centered form.
        epsilon: added to the denominator.
        centered: subtract the squared mean (Graves' form) from the mean square.
        clip_weights: bound of the weights' absolute values; None for no bound.
        **kwargs: as in `Optimizer`.

    Source:
        Tieleman & Hinton, 2012; Graves, Generating Sequences With Recurrent Neural Networks, 2013 (eq. 38-45);
        MXNet's operators rmsprop_update and rmspropalex_update.
    """

    def __init__(self, learning_rate: float = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False, clip_weights: float | None = None,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, ...]:
        return tuple(_zeros(weight, weight.stype) for _ in range(3 if self.centered else 1))

    def _operator(self, weight: NDArray, state: tuple[NDArray, ...]) -> tuple[str, dict[str, Any]]:
        options = {"gamma1": self.gamma1, "epsilon": self.epsilon, **self._grad_options()}
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        if self.centered:
            return "rmspropalex_update", {"gamma2": self.gamma2, **options}
        return "rmsprop_update", options


@register
class FTML(_Stepwise):
    """Follow the moving leader.

    Args:
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        **kwargs: as in `Optimizer`.

    Source:
        Zheng & Kwok, Follow the Moving Leader in Deep Learning, 2017; MXNet's operator ftml_update.
    """

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        return _zeros(weight), _zeros(weight), _zeros(weight)

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: tuple[NDArray, NDArray, NDArray], lr: float,
              wd: float, t: int) -> None:
        # this operator has its own name for the bound
        options: dict[str, Any] = {"clip_grad": self.clip_gradient} if self.clip_gradient else {}
        nd.ftml_update(weight, grad, *state, out=weight, lr=lr, wd=wd, t=t, beta1=self.beta1, beta2=self.beta2,
                       epsilon=self.epsilon, rescale_grad=self.rescale_grad, **options)


@register
class Ftrl(_Stepwise):
    """Follow the regularized leader, per coordinate; sets weights with little evidence to exactly 0.

    Args:
        lamda1: L1 strength.
        learning_rate: learning rate.
        beta: added to the scale, smooths early steps.
        **kwargs: as in `Optimizer`; wd is the L2 strength.

    Source:
        McMahan et al., Ad Click Prediction, 2013; MXNet's operator ftrl_update.
    """

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1 = lamda1
        self.beta = beta
        self.lr = learning_rate

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        return _zeros(weight, weight.stype), _zeros(weight, weight.stype)

    def _operator(self, weight: NDArray, state: tuple[NDArray, NDArray]) -> tuple[str, dict[str, Any]]:
        return "ftrl_update", {"lamda1": self.lamda1, "beta": self.beta, **self._grad_options()}


class _Listed(_TwoMoments):
    """An optimizer with operators for several weights at a time, which `_call` calls."""

    alike_alone = True

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_impl(index, weight, grad, state, multi_precision=False)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        first = weight[0] if _is_list(index) else weight
        self._update_impl(index, weight, grad, state, multi_precision=self.multi_precision and _is_half(first))

    def _update_impl(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool = False) -> None:
        """Updates one weight or several; MXNet's name, because subclasses override it."""
        if not _is_list(index):
            index, weight, grad, state = [index], [weight], [grad], [state]
        index, weight = list(index), list(weight)
        self._update_count(index)
        if multi_precision:
            state = [(*moments, master) for master, moments in state]
        flat = [array for w, g, own in zip(weight, grad, state, strict=True) for array in (w, g, *own)]
        self._call("mp_" if multi_precision else "", flat, weight, index)

    def _call(self, form: str, arrays: list[NDArray], out: list[NDArray], indices: list[Any]) -> None:
        """Updates weights that have been counted.

        Args:
            form: "mp_" where there are float32 copies of the weights, else "".
            arrays: weight, gradient and states of each weight.
            out, indices: the weights.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _call")


class _ByNorms(_Listed):
    """An optimizer whose steps are as long as the bounded norm of the weight."""

    lazy_update = True  # only so that the states have the weight's storage type
    _name: str  # in the operators' names

    def __init__(self, learning_rate: float, beta1: float, beta2: float, epsilon: float, lower_bound: float | None,
                 upper_bound: float | None, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def _own_options(self) -> dict[str, Any]:
        """Returns the operators' parameters that only this optimizer has."""
        return {}

    def _call(self, form: str, arrays: list[NDArray], out: list[NDArray], indices: list[Any]) -> None:
        bounds = {name: value for name in ("lower_bound", "upper_bound") if (value := getattr(self, name))}
        rates = self._rates(indices)
        getattr(nd._internal, f"_multi_{form}{self._name}_update")(
            *arrays, out=out, num_tensors=len(indices), learning_rates=rates[:len(indices)],
            wds=rates[len(indices):], step_count=[self._index_update_count[i] for i in indices], beta1=self.beta1,
            beta2=self.beta2, epsilon=self.epsilon, **self._own_options(), **bounds, **self._grad_options())


@register
class LAMB(_ByNorms):
    """LAMB: Adam's direction, scaled per layer to the norm of the weight.

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        lower_bound, upper_bound: bounds of the weight's norm in the scale; None for no bound.
        bias_correction: correct the averages for their initialization to 0.
        **kwargs: as in `Optimizer`.

    Source:
        You et al., Large Batch Optimization for Deep Learning, 2020; MXNet's operator _multi_lamb_update.
    """

    _name = "lamb"

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: float | None = None, upper_bound: float | None = None,
                 bias_correction: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, lower_bound, upper_bound, **kwargs)
        self.bias_correction = bias_correction
        self.aggregate_num = max(1, min(45, _aggregation_size(default=45)))

    def _own_options(self) -> dict[str, Any]:
        return {"bias_correction": self.bias_correction}

    def _rates(self, indices: list[Any]) -> list[float]:
        # one at a time, as in MXNet: a subclass may define `_get_lr` alone
        return [self._get_lr(index) for index in indices] + [self._get_wd(index) for index in indices]


@register
class LANS(_ByNorms):
    """LAMB on gradients of norm 1, with Nesterov's momentum.

    Args:
        learning_rate: learning rate.
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        lower_bound, upper_bound: bounds of the weight's norm in the scale; None for no bound.
        aggregate_num: number of weights to update at a time, at most 45.
        use_fused_step: use one operator; mxjax always does.
        **kwargs: as in `Optimizer`.

    Source:
        Zheng et al., Accelerated Large Batch Optimization of BERT Pretraining in 54 minutes, 2020; MXNet 2's operator
        _multi_lans_update.
    """

    _name = "lans"

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: float | None = None, upper_bound: float | None = None,
                 aggregate_num: int = 4, use_fused_step: bool = True, **kwargs: Any) -> None:
        if aggregate_num > 45:
            raise AssertionError(f"LANS updates at most 45 weights at a time, got aggregate_num={aggregate_num}")
        super().__init__(learning_rate, beta1, beta2, epsilon, lower_bound, upper_bound, **kwargs)
        self.aggregate_num = aggregate_num
        self.use_fused_step = use_fused_step

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, NDArray]:
        mean, var = super().create_state(index, weight)
        return (mean.astype("float32"), var.astype("float32")) if _is_half(weight) else (mean, var)


class _Corrected(_Listed):
    """An optimizer whose rates correct its averages for having begun at 0."""

    _name: str  # in the operators' names

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
                 correct_bias: bool = True, use_fused_step: bool = True, **kwargs: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.correct_bias = correct_bias
        self.use_fused_step = use_fused_step
        self.aggregate_num = max(1, min(50, _aggregation_size(default=4)))

    def _corrected(self, indices: list[Any], rates: list[float]) -> list[float]:
        if self.correct_bias:
            counts = [self._index_update_count[index] for index in indices]
            rates = [lr * math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)
                     for lr, t in zip(rates, counts, strict=True)]
        return rates

    def _call(self, form: str, arrays: list[NDArray], out: list[NDArray], indices: list[Any]) -> None:
        self._multi(form, arrays, out, self._corrected(indices, self._get_lrs(indices)), self._get_wds(indices))

    def _multi(self, form: str, arrays: list[NDArray], out: list[NDArray], rates: list[float],
               decays: list[float]) -> None:
        options = self._grad_options()
        scale = options.pop("rescale_grad")  # an array may come from a loss scaler
        if not isinstance(scale, nd.NDArray):
            scale = nd.full((1,), scale, out[0].context)
        getattr(nd._internal, f"_multi_{form}{self._name}_update")(
            *arrays, scale.as_in_context(out[0].context), out=out, num_weights=len(out), lrs=[1.0] * len(out),
            wds=decays, etas=rates, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **options)


@register
class AdamW(_Corrected):
    """Adam with decoupled weight decay: weight -= rate * (mean / (sqrt(var) + epsilon) + wd * weight).

    Args:
        learning_rate: learning rate; the rate is lr * sqrt(1 - beta2^t) / (1 - beta1^t).
        beta1, beta2: decay rates of the averages of the gradient and of its square.
        epsilon: added to the denominator.
        correct_bias: use this corrected rate; otherwise the rate is lr.
        use_fused_step: False to apply the decay to the weight after the step.
        **kwargs: as in `Optimizer`.

    Source:
        Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019; MXNet 2's operator _multi_adamw_update.
    """

    _name = "adamw"

    def _call(self, form: str, arrays: list[NDArray], out: list[NDArray], indices: list[Any]) -> None:
        if self.use_fused_step:
            super()._call(form, arrays, out, indices)
            return
        rates, decays = self._corrected(indices, self._get_lrs(indices)), self._get_wds(indices)
        self._multi(form, arrays, out, rates, [0.0] * len(out))
        width = len(arrays) // len(out)
        for i, (weight, lr, wd) in enumerate(zip(out, rates, decays, strict=True)):
            if wd > 0:
                precise = arrays[(i + 1) * width - 1] if form else weight
                precise -= lr * wd * precise
                if form:
                    precise.copyto(weight)


@register
class AdaBelief(_Corrected):
    """Adam that divides by the deviation of gradients from their average: weight -= rate * mean /
    (sqrt(var) + epsilon).

    Args:
        learning_rate: learning rate; the rate is lr * sqrt(1 - beta2^t) / (1 - beta1^t).
        beta1, beta2: decay of the averages of the gradient and of its squared distance from that average.
        epsilon: added to the denominator, and to var at each update.
        correct_bias: use this corrected rate; otherwise the rate is lr.
        use_fused_step: use one operator; mxjax always does.
        **kwargs: as in `Optimizer`; the decay is added to the gradient.

    Source:
        Zhuang et al., AdaBelief Optimizer, 2020; MXNet 2's operator _multi_adabelief_update.
    """

    _name = "adabelief"
