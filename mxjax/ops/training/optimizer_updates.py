"""Fused optimizer updates: each returns the new weight and the new values of its states.

A rule is a pure function `rule(weight, grad, *states, **options) -> (new weight, *new states)`; the operators that work
on a 16-bit weight with its float32 copy (`mp_`) and on many weights at once (`multi_`) are made from it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax.numpy as jnp
from jax import lax

from ... import level
from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, gives
from ..infer import agree, elementwise, typed, unify
from ..params import Count, DoubleScalar, Range, Scalar, Scalars
from ..registry import register

Rule = Callable[..., Any]


# ------------------------------------------------------------ how operators are made from a rule
def _arrays(rule: Rule, mixed: bool, tail: Sequence[str]) -> list[str]:
    """Names of the arrays that each weight has: weight, grad, states; mixed: and the float32 copy of the weight."""
    names = [n for n, p in inspect.signature(rule).parameters.items() if p.kind is not p.KEYWORD_ONLY]
    return [n for n in names if n not in tail] + ["weight32"] * mixed


def _options(rule: Rule) -> dict[str, tuple[Any, Any]]:
    """Type and default of a rule's options."""
    return {n: (rule.__annotations__[n], p.default) for n, p in inspect.signature(rule).parameters.items()
            if p.kind is p.KEYWORD_ONLY}


def _declare(compute: Rule, inputs: Sequence[str] | None, options: dict[str, tuple[Any, Any]]) -> None:
    """Gives a function of `*arrays, **options` the signature that the registry reads (no inputs: any number)."""
    kind = inspect.Parameter
    rows = [kind("data", kind.VAR_POSITIONAL)] if inputs is None else [kind(n, kind.POSITIONAL_ONLY) for n in inputs]
    rows += [kind(n, kind.KEYWORD_ONLY, default=default) for n, (_, default) in options.items()]
    compute.__signature__ = inspect.Signature(rows)
    compute.__annotations__ = {n: hint for n, (hint, _) in options.items()}


def _apply(rule: Rule, mixed: bool, arrays: Sequence[Array], **options: Any) -> tuple[Array, ...]:
    """A rule on (weight, grad, *states); mixed: on the last of the states, the float32 copy of the weight.

    Returns the new weight, the new states and, where the rule gives one, the new gradient, each in the dtype it had.
    """
    _check_shapes(*arrays)
    before = [arrays[0], *arrays[2:], arrays[1]]

    def update(weight: Array, grad: Array, *states: Array) -> tuple[Array, ...]:
        if mixed:
            *rest, master = states
            new, *after = _tuple(rule(master, grad.astype(master.dtype), *rest, **options))
            after = [new, *after, new]
        else:
            after = _tuple(rule(weight, grad, *states, **_rounded(options, (weight, *states))))
        return tuple(new.astype(old.dtype) for new, old in zip(after, before, strict=False))
    if mixed or arrays[0].dtype != jnp.bfloat16:
        return update(*arrays)
    # a TPU's arithmetic is float32's, and rounding each number of `options` to bfloat16 first is a launch of its own
    return by_device(*arrays, default=update, tpu=lambda *arrays: update(*[a.astype(jnp.float32) for a in arrays]))


def _check_shapes(*arrays: Array) -> None:
    """Raises MXNetError unless a weight, its gradient and its states have one shape."""
    if len({a.shape for a in arrays}) > 1:
        raise MXNetError("the weight, its gradient and its states must have one shape, got "
                         f"{', '.join([str(a.shape) for a in arrays])}")


def _rounded(options: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
    """Returns options with numbers of float16 where all arrays are so, as MXNet has them (1 - beta)."""
    if any(a.dtype != jnp.float16 for a in arrays):
        return options
    floats = [n for n, v in options.items() if jnp.result_type(v).name.startswith("float")]
    return options | {n: jnp.asarray(options[n], jnp.float16) for n in floats}


def _tuple(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _agree(ins: list, outs: list, i: int, width: int) -> None:
    """The arrays of weight i have one shape."""
    for shape in ins[i * width:(i + 1) * width]:
        outs[i] = unify(outs[i], shape)
    ins[i * width:(i + 1) * width] = [outs[i]] * width


def _single(name: str, rule: Rule, aliases: Sequence[str] = (), *, mixed: bool = False,
            tail: Sequence[str] = (), writes_gradient: bool = False, in_place: Rule | None = None) -> None:
    """Registers an update of one weight: inputs weight, grad, states (mixed: also weight32) and `tail`.

    With `writes_gradient` the rule's last result is a new value of grad; `in_place` is the rule where the result is
    written over the weight.
    """
    names = _arrays(rule, mixed, tail)

    def compute(*inputs: Array, _rule: Rule = rule, **options: Any) -> tuple[Array, ...]:
        options.update(zip(tail, inputs[len(names):], strict=True))
        return _apply(_rule, mixed, inputs[:len(names)], **options)
    _declare(compute, [*names, *tail], _options(rule))
    compute.__doc__ = (inspect.getdoc(rule) or "") + "\n\nComputed on the float32 copy of the weight." * mixed
    wide = names[2:] if mixed else ()
    register(name, aliases=aliases, FInPlace=in_place and functools.partial(compute, _rule=in_place),
             mutates=(*names[2:], *["grad"] * writes_gradient), arguments_changed=("grad",),
             infer_shape=lambda params, ins, outs: _agree(ins, outs, 0, len(names)),
             infer_type=typed(**dict.fromkeys([*wide, *tail], "float32")))(compute)


def _multi(name: str, rule: Rule, each: dict[str, str], *, mixed: bool = False, preloaded: bool = False,
           tail: Sequence[str] = (), count: str = "num_weights") -> None:
    """Registers an update of many weights: inputs weight, grad, states of the first, then of the second, ...

    Args:
        each: options of the rule that each weight has its own value of, and the name of all of them together.
        preloaded: these values are arrays, the last inputs, not parameters.
        tail: arguments of the rule that all weights share, the last inputs.
        count: the parameter that counts the weights.
    """
    names = _arrays(rule, mixed, tail)
    width, last = len(names), [*tail, *(each.values() if preloaded else ())]
    copies = "weight32" in names

    def inputs(params: dict[str, Any]) -> list[str]:
        return [f"{n}_{i}" for i in range(params[count]) for n in names] + last

    def shapes(params: dict[str, Any], ins: list, outs: list) -> None:
        for i in range(params[count]):
            _agree(ins, outs, i, width)

    def types(params: dict[str, Any], ins: list, outs: list) -> None:
        """Weights and gradients have one dtype, each pair of its own where there are float32 copies of weights."""
        first = next((t for t in (*ins[:params[count] * width:width], *outs) if t), None)
        for i in range(params[count]):
            own = slice(i * width, i * width + 2) if copies else slice(0, params[count] * width)
            common = agree(ins[own]) or outs[i] or first
            ins[own] = [t or common for t in ins[own]]
            outs[i] = outs[i] or common
        ins[:] = [t or "float32" for t in ins]

    def compute(*arrays: Array, **options: Any) -> tuple[Array, ...]:
        number = options.pop(count)
        options.update(zip(last, arrays[number * width:], strict=True))
        values = {one: options.pop(many) for one, many in each.items()}
        for one, many in each.items():
            if len(values[one]) != number:
                raise MXNetError(f"operator {name}: got {len(values[one])} {many} for {number} weights")
        weights, states = [], []
        for i in range(number):
            new, *after = _apply(rule, mixed, arrays[i * width:(i + 1) * width], **options,
                                 **{one: value[i] for one, value in values.items()})
            weights.append(new)
            states += after
        return (*weights, *states)
    options = {each.get(n, n): (Scalars, inspect.Parameter.empty) if n in each else row
               for n, row in _options(rule).items() if not (preloaded and n in each)}
    _declare(compute, None, {**options, count: (Count, 1)})
    compute.__doc__ = (f"{inspect.getdoc(rule)}\n\nFor `{count}` weights at once: the inputs are {', '.join(names)} of "
                       f"the first, then of the second, and so on{', then ' * bool(last)}{', '.join(last)}.")
    register(name, variadic=count, own_count=True, num_outputs=lambda p: p[count], inputs=inputs, infer_shape=shapes,
             infer_type=types,
             mutates=lambda p: tuple(f"{n}_{i}" for i in range(p[count]) for n in names[2:]))(compute)


def _clipped(x: Array, limit: Any) -> Array:
    """x limited to [-limit, limit]; a negative limit is none."""
    most = jnp.where(limit >= 0, limit, jnp.inf).astype(x.dtype)
    return lax.clamp(-most, x, most)


def _decayed(weight: Array, grad: Array, wd: Any, rescale_grad: Any, limit: Any) -> Array:
    """The rescaled gradient with the weight's decay: MXNet 1.x limits their sum, 2.0 the gradient alone."""
    if level.current() == 1:
        return _clipped(rescale_grad * grad + wd * weight, limit)
    return _clipped(rescale_grad * grad, limit) + wd * weight


def _root(squares: Array, epsilon: Any) -> Array:
    """A root that is not 0: MXNet 1.x adds epsilon before it is taken, 2.0 afterwards."""
    return jnp.sqrt(squares + epsilon) if level.current() == 1 else jnp.sqrt(squares) + epsilon


def _average(old: Array, new: Array, decay: Any) -> Array:
    """The exponential moving average."""
    return decay * old + (1 - decay) * new


# ------------------------------------------------------------ stochastic gradient descent
def _sgd(weight: Array, grad: Array, *, lr: Scalar, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
         clip_gradient: Scalar = -1.0) -> Array:
    """weight - lr·(g + wd·weight) where g is rescale_grad·grad limited to ±clip_gradient (negative: no limit)."""
    return (1 - lr * wd) * weight - lr * _clipped(rescale_grad * grad, clip_gradient)


def _sgd_mom(weight: Array, grad: Array, mom: Array, *, lr: Scalar, momentum: Scalar = 0.0, wd: Scalar = 0.0,
             rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, Array]:
    """mom = momentum·mom - lr·(g + wd·weight), then weight + mom; g is the rescaled, clipped gradient."""
    mom = momentum * mom - lr * wd * weight - lr * _clipped(rescale_grad * grad, clip_gradient)
    return weight + mom, mom


def _sgd_of_many(weight: Array, grad: Array, *, lr: Scalar, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
                 clip_gradient: Scalar = -1.0) -> Array:
    """As `sgd_update`, rounded otherwise: weight + (-lr·wd·weight - lr·g), as with a momentum of 0."""
    return weight + (-lr * wd * weight - lr * _clipped(rescale_grad * grad, clip_gradient))


def _lazy(rule: Rule) -> Rule:
    """The rule with the option `lazy_update`, which only matters for sparse gradients."""
    def lazy(*arrays: Array, lazy_update: bool, **options: Any) -> Any:
        return rule(*arrays, **options)
    _declare(lazy, _arrays(rule, False, ()), {**_options(rule), "lazy_update": ("bool", True)})
    lazy.__doc__ = rule.__doc__
    return lazy


for _name, _rule, _of_many in [("sgd_update", _sgd, _sgd_of_many), ("sgd_mom_update", _sgd_mom, _sgd_mom)]:
    _single(_name, _lazy(_rule), (f"_sparse_{_name}",))
    _single(f"mp_{_name}", _lazy(_rule), mixed=True)
    for _mixed in (False, True):
        for _preloaded in (False, True):
            _multi("preloaded_" * _preloaded + "multi_" + "mp_" * _mixed + _name, _of_many, {"lr": "lrs", "wd": "wds"},
                   mixed=_mixed, preloaded=_preloaded)


def _nag_mom(weight: Array, grad: Array, mom: Array, *, lr: Scalar, momentum: Scalar = 0.0, wd: Scalar = 0.0,
             rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, Array]:
    """Nesterov's gradient: with s = lr·(g + wd·weight), mom = momentum·mom - s, then weight + momentum·mom - s."""
    step = lr * (_clipped(rescale_grad * grad, clip_gradient) + wd * weight)
    mom = momentum * mom - step
    return weight + momentum * mom - step, mom


def _nag_mom_over(weight: Array, grad: Array, mom: Array, *, lr: Scalar, momentum: Scalar = 0.0, wd: Scalar = 0.0,
                  rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, Array]:
    """As `nag_mom_update`, but with MXNet 1.x's momentum, which contains the new weight, as s was overwritten."""
    new, kept = _nag_mom(weight, grad, mom, lr=lr, momentum=momentum, wd=wd, rescale_grad=rescale_grad,
                         clip_gradient=clip_gradient)
    return new, kept - lr * wd * (new - weight) if level.current() == 1 else kept


def _signsgd(weight: Array, grad: Array, *, lr: Scalar, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
             clip_gradient: Scalar = -1.0) -> Array:
    """(1 - lr·wd)·weight - lr·sign(grad) (arXiv:1802.04434); rescaling and clipping do not change the sign."""
    return (1 - lr * wd) * weight - lr * jnp.sign(grad)


def _signum(weight: Array, grad: Array, mom: Array, *, lr: Scalar, momentum: Scalar = 0.0, wd: Scalar = 0.0,
            rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0, wd_lh: Scalar = 0.0) -> tuple[Array, Array]:
    """mom = momentum·mom - (1 - momentum)·(g + wd·weight), then (1 - lr·wd_lh)·weight + lr·sign(mom)."""
    mom = _average(mom, -wd * weight - _clipped(rescale_grad * grad, clip_gradient), momentum)
    return (1 - lr * wd_lh) * weight + lr * jnp.sign(mom), mom


_single("nag_mom_update", _nag_mom, in_place=_nag_mom_over)
_single("mp_nag_mom_update", _nag_mom_over, mixed=True)
_single("signsgd_update", _signsgd)
_single("signum_update", _signum)


# ------------------------------------------------------------ adaptive rates
def _adam(weight: Array, grad: Array, mean: Array, var: Array, *, lr: Scalar, beta1: Scalar = 0.9,
          beta2: Scalar = 0.999, epsilon: Scalar = 1e-8, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
          clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """Adam without bias correction (arXiv:1412.6980): weight - lr·mean / (sqrt(var) + epsilon).

    mean and var are moving averages (beta1, beta2) of g and g², g = rescale_grad·grad + wd·weight, clipped.
    """
    g = _decayed(weight, grad, wd, rescale_grad, clip_gradient)
    mean, var = _average(mean, g, beta1), beta2 * var + (1 - beta2) * g * g  # g² may be beyond float16
    return weight - lr * mean / (jnp.sqrt(var) + epsilon), mean, var


_single("adam_update", _lazy(_adam), ("_sparse_adam_update",))


def _adamw_and_gradient(weight: Array, grad: Array, mean: Array, var: Array, rescale_grad: Array, *, lr: Scalar,
                        beta1: Scalar = 0.9, beta2: Scalar = 0.999, epsilon: Scalar = 1e-8, wd: Scalar = 0.0,
                        eta: Scalar, clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """Adam with decoupled weight decay (arXiv:1711.05101): weight - eta·(lr·mean / (sqrt(var) + epsilon) + wd·weight).

    rescale_grad: the first value of this array; if it is 0 or not finite (overflow of gradients), nothing changes.
    """
    scale = rescale_grad.ravel()[0]
    g = _clipped(scale.astype(weight.dtype) * grad, clip_gradient)
    new_mean, new_var = _average(mean, g, beta1), _average(var, g * g, beta2)
    new = weight - eta * (lr * new_mean / (jnp.sqrt(new_var) + epsilon) + wd * weight)
    return _unless_overflown(scale, (new, new_mean, new_var, g), (weight, mean, var, grad))


def _unless_overflown(scale: Array, new: Sequence[Array], old: Sequence[Array]) -> tuple[Array, ...]:
    """The new values, or the old ones where the gradients' scale is 0 or not finite."""
    valid = jnp.isfinite(scale) & (scale != 0)
    return tuple(jnp.where(valid, a, b) for a, b in zip(new, old, strict=True))


def _adabelief_and_gradient(weight: Array, grad: Array, mean: Array, var: Array, rescale_grad: Array, *, lr: Scalar,
                            beta1: Scalar = 0.9, beta2: Scalar = 0.999, epsilon: Scalar = 1e-8, wd: Scalar = 0.0,
                            eta: Scalar, clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """AdaBelief without bias correction (arXiv:2010.07468): weight - eta·lr·mean / (sqrt(var) + epsilon).

    mean is the moving average of g = rescale_grad·grad + wd·weight, clipped; var is that of (g - mean)², and epsilon is
    added to it at each update. rescale_grad: the first value of this array; if it is 0 or not finite (overflow of
    gradients), nothing changes.
    """
    scale = rescale_grad.ravel()[0]
    g = _clipped(scale.astype(weight.dtype) * grad + wd * weight, clip_gradient)
    new_mean = _average(mean, g, beta1)
    new_var = _average(var, jnp.square(g - new_mean), beta2) + epsilon
    new = weight - eta * (lr * new_mean / (jnp.sqrt(new_var) + epsilon))
    return _unless_overflown(scale, (new, new_mean, new_var, g), (weight, mean, var, grad))


def _without_gradient(rule: Rule) -> Rule:
    @functools.wraps(rule)
    def update(*arrays: Array, **options: Any) -> tuple[Array, ...]:
        return rule(*arrays, **options)[:3]
    return update


# in MXNet the one for a single weight in full precision leaves the rescaled, clipped gradient in grad
for _name, _rule in [("adamw", _adamw_and_gradient), ("adabelief", _adabelief_and_gradient)]:
    _single(f"_{_name}_update", _rule, tail=("rescale_grad",), writes_gradient=True)
    _single(f"_mp_{_name}_update", _without_gradient(_rule), mixed=True, tail=("rescale_grad",))
    for _mixed in (False, True):
        _multi("_multi" + "_mp" * _mixed + f"_{_name}_update", _without_gradient(_rule),
               {"lr": "lrs", "wd": "wds", "eta": "etas"}, mixed=_mixed, tail=("rescale_grad",))


def _ftml(weight: Array, grad: Array, d: Array, v: Array, z: Array, *, lr: Scalar,
          beta1: Annotated[Scalar, Range(0, 1)] = 0.6, beta2: Annotated[Scalar, Range(0, 1)] = 0.999,
          epsilon: DoubleScalar = 1e-8, t: Scalar, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
          clip_grad: Scalar = -1.0) -> tuple[Array, ...]:
    """Follow the moving leader (Zheng & Kwok, ICML 2017); t counts the updates from 1."""
    g = _decayed(weight, grad, wd, rescale_grad, clip_grad)
    v = _average(v, g * g, beta2)
    denominator = (1 - beta1 ** t) / lr * (jnp.sqrt(v / (1 - beta2 ** t)) + epsilon)
    z = _average(z, g, beta1) - (denominator - beta1 * d) * weight
    return -z / denominator, denominator, v, z


def _ftrl(weight: Array, grad: Array, z: Array, n: Array, *, lr: Scalar, lamda1: Scalar = 0.01, beta: Scalar = 1.0,
          wd: Scalar = 0.0, rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """Follow the regularized leader, FTRL-Proximal (McMahan et al., KDD 2013); lamda1 is the L1 penalty."""
    g = _clipped(rescale_grad * grad, clip_gradient)
    squares = n + g * g
    z = z + g - (jnp.sqrt(squares) - jnp.sqrt(n)) * weight / lr
    new = (jnp.sign(z) * lamda1 - z) / ((beta + jnp.sqrt(squares)) / lr + wd)
    return jnp.where(jnp.abs(z) <= lamda1, 0, new), z, squares


def _rmsprop(weight: Array, grad: Array, n: Array, *, lr: Scalar, gamma1: Scalar = 0.95, epsilon: Scalar = 1e-8,
             wd: Scalar = 0.0, rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0,
             clip_weights: Scalar = -1.0) -> tuple[Array, Array]:
    """weight - lr·g / sqrt(n + epsilon) with n the moving average of g² (Tieleman & Hinton, 2012)."""
    g = _decayed(weight, grad, wd, rescale_grad, clip_gradient)
    n = _average(n, g * g, gamma1)
    return _clipped(weight - lr * g / _root(n, epsilon), clip_weights), n


def _rmspropalex(weight: Array, grad: Array, n: Array, g: Array, delta: Array, *, lr: Scalar, gamma1: Scalar = 0.95,
                 gamma2: Scalar = 0.9, epsilon: Scalar = 1e-8, wd: Scalar = 0.0, rescale_grad: Scalar = 1.0,
                 clip_gradient: Scalar = -1.0, clip_weights: Scalar = -1.0) -> tuple[Array, ...]:
    """RMSProp that divides by the standard deviation and has momentum (arXiv:1308.0850, equations 38 to 45)."""
    new = _decayed(weight, grad, wd, rescale_grad, clip_gradient)
    n, g = _average(n, new * new, gamma1), _average(g, new, gamma1)
    delta = gamma2 * delta - lr * new / jnp.sqrt(n - g * g + epsilon)
    return _clipped(weight + delta, clip_weights), n, g, delta


def _rmspropalex_mean_first(weight: Array, grad: Array, n: Array, g: Array, delta: Array, *, lr: Scalar,
                            gamma1: Scalar = 0.95, gamma2: Scalar = 0.9, epsilon: Scalar = 1e-8, wd: Scalar = 0.0,
                            rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0,
                            clip_weights: Scalar = -1.0) -> tuple[Array, ...]:
    """RMSProp that divides by the standard deviation and has momentum (arXiv:1308.0850, equations 38 to 45).

    n is the moving average of gradients and g that of their squares, contrary to their names.
    """
    new, squares, mean, delta = _rmspropalex(weight, grad, g, n, delta, lr=lr, gamma1=gamma1, gamma2=gamma2, wd=wd,
                                             epsilon=epsilon, rescale_grad=rescale_grad, clip_gradient=clip_gradient,
                                             clip_weights=clip_weights)
    return new, mean, squares, delta


def _adagrad(weight: Array, grad: Array, history: Array, *, lr: Scalar, epsilon: Scalar = 1e-7, wd: Scalar = 0.0,
             rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, Array]:
    """weight - lr·(g / sqrt(history + epsilon) + wd·weight) with history the sum of g² (Duchi et al., JMLR 2011)."""
    g = _clipped(rescale_grad * grad, clip_gradient)
    history = history + g * g
    return weight - lr * (g / _root(history, epsilon) + wd * weight), history


def _named(rule: Rule, names: dict[str, str]) -> Rule:
    """The rule with other names for some of its options."""
    def named(*arrays: Array, **options: Any) -> Any:
        return rule(*arrays, **{n: options[names.get(n, n)] for n in _options(rule)})
    _declare(named, _arrays(rule, False, ()), {names.get(n, n): row for n, row in _options(rule).items()})
    named.__doc__ = rule.__doc__
    return named


def _register_rmsprop(api: int) -> None:
    """MXNet 2 has other names for the decays, and the means before the squares."""
    names = {} if api == 1 else {"gamma1": "rho", "gamma2": "momentum"}
    _single("rmsprop_update", _named(_rmsprop, names))
    _single("rmspropalex_update", _named(_rmspropalex if api == 1 else _rmspropalex_mean_first, names))


_single("ftml_update", _ftml)
_single("ftrl_update", _ftrl, ("_sparse_ftrl_update",))
level.follow(_register_rmsprop)
_single("_sparse_adagrad_update", _adagrad)


@register("_contrib_group_adagrad_update", mutates=("history",))
def group_adagrad_update(weight: Array, grad: Array, history: Array, *, lr: Scalar, rescale_grad: Scalar = 1.0,
                         clip_gradient: Scalar = -1.0, epsilon: Scalar = 1e-5) -> tuple[Array, Array]:
    """AdaGrad with one rate for each row: history is the sum of the mean of g² over each row of the weight.

    weight, grad: (rows, ...); history: one value for each row.
    """
    g = _clipped(rescale_grad * grad, clip_gradient)
    history = history + jnp.mean((g * g).reshape(g.shape[0], -1), axis=1).reshape(history.shape)
    scale = _root(history, epsilon).reshape((-1,) + (1,) * (weight.ndim - 1))
    return weight - lr * g / scale, history


# ------------------------------------------------------------ rates by layer
def _lamb_direction(weight: Array, grad: Array, mean: Array, var: Array, *, beta1: Scalar = 0.9,
                    beta2: Scalar = 0.999, epsilon: Scalar = 1e-6, t: Scalar, bias_correction: bool = True,
                    wd: Scalar, rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """The first half of LAMB (arXiv:1904.00962): the direction m / (sqrt(v) + epsilon) + wd·weight.

    m and v are mean and var, moving averages of g and g², after t updates corrected for their start at 0.
    """
    g = _clipped(rescale_grad * grad, clip_gradient)
    mean, var = _average(mean, g, beta1), _average(var, g * g, beta2)
    m, v = (mean / (1 - beta1 ** t), var / (1 - beta2 ** t)) if bias_correction else (mean, var)
    return m / (jnp.sqrt(v) + epsilon) + wd * weight, mean, var


def _lamb_step(weight: Array, g: Array, r1: Array, r2: Array, lr: Any, lower_bound: Any, upper_bound: Any) -> Array:
    """weight - lr·(r1 / r2)·g; r1, limited to the bounds, and r2 are the norms of weight and direction g."""
    _check_shapes(weight, g)
    if r1.size != 1 or r2.size != 1:
        raise MXNetError(f"r1 and r2 must have one element, got the shapes {r1.shape} and {r2.shape}")
    return weight - lr * _trust(r1, r2, lower_bound, upper_bound).astype(weight.dtype) * g


def _trust(r1: Array, r2: Array, lower_bound: Any, upper_bound: Any) -> Array:
    """r1 / r2, with r1 limited to the bounds; 1 where a norm is 0."""
    r1, r2 = r1.ravel()[0], r2.ravel()[0]
    r1 = jnp.where(lower_bound >= 0, jnp.maximum(r1, lower_bound), r1)
    r1 = jnp.where(upper_bound >= 0, jnp.minimum(r1, upper_bound), r1)
    return jnp.where((r1 == 0) | (r2 == 0), 1, r1 / jnp.where(r2 == 0, 1, r2))


def _lamb(weight: Array, grad: Array, mean: Array, var: Array, *, lr: Scalar, beta1: Scalar = 0.9,
          beta2: Scalar = 0.999, epsilon: Scalar = 1e-6, wd: Scalar, rescale_grad: Scalar = 1.0,
          lower_bound: Scalar = -1.0, upper_bound: Scalar = -1.0, clip_gradient: Scalar = -1.0,
          bias_correction: bool = True, t: Scalar) -> tuple[Array, ...]:
    """LAMB (arXiv:1904.00962): Adam's direction, scaled for each weight by the ratio of norms of weight and direction.

    step_count: the number of updates of each weight, including this one.
    """
    return _lamb_scaled(_norm(weight), weight, grad, mean, var, lr, lower_bound, upper_bound, beta1=beta1, beta2=beta2,
                        epsilon=epsilon, t=t, wd=wd, bias_correction=bias_correction, rescale_grad=rescale_grad,
                        clip_gradient=clip_gradient)


def _norm(x: Array) -> Array:
    return jnp.sqrt(jnp.sum(jnp.square(x.astype(jnp.float32))))


def _lamb_scaled(r1: Array, weight: Array, grad: Array, mean: Array, var: Array, lr: Any, lower_bound: Any,
                 upper_bound: Any, **options: Any) -> tuple[Array, ...]:
    g, mean, var = _lamb_direction(weight, grad, mean, var, **options)
    return _lamb_step(weight, g, r1, _norm(g), lr, lower_bound, upper_bound), mean, var


def _mp_lamb(weight: Array, grad: Array, mean: Array, var: Array, weight32: Array, **options: Any) -> tuple[Array, ...]:
    """The rule on the float32 copy of the weight, with the norm of the weight itself."""
    new, mean, var = _lamb_scaled(_norm(weight), weight32, grad.astype(jnp.float32), mean, var, **options)
    return new, mean, var, new


_declare(_mp_lamb, [*_arrays(_lamb, False, ()), "weight32"], _options(_lamb))
_mp_lamb.__doc__ = f"{inspect.getdoc(_lamb)}\n\nComputed on the float32 copy, with the norm of the weight itself."


def _lans(weight: Array, grad: Array, mean: Array, var: Array, *, lr: Scalar, beta1: Scalar = 0.9,
          beta2: Scalar = 0.999, epsilon: Scalar = 1e-6, wd: Scalar, rescale_grad: Scalar = 1.0,
          lower_bound: Scalar = -1.0, upper_bound: Scalar = -1.0, clip_gradient: Scalar = -1.0,
          t: Scalar) -> tuple[Array, ...]:
    """LANS (arXiv:2006.13484): LAMB on gradients of norm 1, with Nesterov's momentum.

    Two steps, along the averages (beta1 of it) and along the gradient (1 - beta1 of it), are each scaled by the ratio
    of norms of weight and direction. step_count: the number of updates of each weight, including this one. A zero
    gradient has no direction and makes the weight NaN.
    """
    return _lans_scaled(_norm(weight), weight, grad, mean, var, lr, lower_bound, upper_bound, beta1=beta1, beta2=beta2,
                        epsilon=epsilon, t=t, wd=wd, rescale_grad=rescale_grad, clip_gradient=clip_gradient)


def _lans_scaled(r1: Array, weight: Array, grad: Array, mean: Array, var: Array, lr: Any, lower_bound: Any,
                 upper_bound: Any, *, beta1: Any, beta2: Any, epsilon: Any, t: Any, wd: Any, rescale_grad: Any,
                 clip_gradient: Any) -> tuple[Array, ...]:
    g = rescale_grad * grad
    g = _clipped(g / _norm(g).astype(g.dtype), clip_gradient)
    mean, var = _average(mean, g, beta1), _average(var, g * g, beta2)
    below, new = jnp.sqrt(var / (1 - beta2 ** t)) + epsilon, weight
    for share, direction in [(beta1, mean / (1 - beta1 ** t)), (1 - beta1, g)]:
        direction = direction / below + wd * weight
        ratio = _trust(r1, _norm(direction), lower_bound, upper_bound)
        new = new - lr * share * ratio.astype(weight.dtype) * direction
    return new, mean, var


def _mp_lans(weight: Array, grad: Array, mean: Array, var: Array, weight32: Array, **options: Any) -> tuple[Array, ...]:
    """The rule on the float32 copy of the weight, with the norm of the weight itself."""
    new, mean, var = _lans_scaled(_norm(weight), weight32, grad.astype(jnp.float32), mean, var, **options)
    return new, mean, var, new


_declare(_mp_lans, [*_arrays(_lans, False, ()), "weight32"], _options(_lans))
_mp_lans.__doc__ = f"{inspect.getdoc(_lans)}\n\nComputed on the float32 copy, with the norm of the weight itself."

_single("lamb_update_phase1", _lamb_direction)
for _name, _rule in [("_multi_lamb_update", _lamb), ("_multi_mp_lamb_update", _mp_lamb),
                     ("_multi_lans_update", _lans), ("_multi_mp_lans_update", _mp_lans)]:
    _multi(_name, _rule, {"lr": "learning_rates", "wd": "wds", "t": "step_count"}, count="num_tensors")


@register("mp_lamb_update_phase1", mutates=("mean", "var"), infer_shape=elementwise,
          infer_type=typed("float32", mean="float32", var="float32", weight32="float32"))
def mp_lamb_update_phase1(weight: Array, grad: Array, mean: Array, var: Array, weight32: Array, *, beta1: Scalar = 0.9,
                          beta2: Scalar = 0.999, epsilon: Scalar = 1e-6, t: Scalar, bias_correction: bool = True,
                          wd: Scalar, rescale_grad: Scalar = 1.0, clip_gradient: Scalar = -1.0) -> tuple[Array, ...]:
    """`lamb_update_phase1` on the float32 copy of the weight; the direction is float32."""
    _check_shapes(weight, grad, mean, var, weight32)
    return _lamb_direction(weight32, grad.astype(weight32.dtype), mean, var, beta1=beta1, beta2=beta2, epsilon=epsilon,
                           t=t, bias_correction=bias_correction, wd=wd, rescale_grad=rescale_grad,
                           clip_gradient=clip_gradient)


@register("lamb_update_phase2")
def lamb_update_phase2(weight: Array, g: Array, r1: Array, r2: Array, *, lr: Scalar, lower_bound: Scalar = -1.0,
                       upper_bound: Scalar = -1.0) -> Array:
    """The second half of LAMB: weight - lr·(r1 / r2)·g.

    g: the direction of `lamb_update_phase1`; r1, r2: (1,), the norms of weight (limited to the bounds that are not
    negative) and g; a norm of 0 makes their ratio 1.
    """
    return _lamb_step(weight, g, r1, r2, lr, lower_bound, upper_bound)


@register("mp_lamb_update_phase2", mutates=("weight32",),
          infer_type=typed(g="float32", r1="float32", r2="float32", weight32="float32"))
def mp_lamb_update_phase2(weight: Array, g: Array, r1: Array, r2: Array, weight32: Array, *, lr: Scalar,
                          lower_bound: Scalar = -1.0, upper_bound: Scalar = -1.0) -> tuple[Array, Array]:
    """`lamb_update_phase2` on the float32 copy of the weight."""
    # MXNet 1.9 leaves weight32 as it was
    return _lamb_step(weight32, g, r1, r2, lr, lower_bound, upper_bound).astype(weight.dtype), weight32


@register("multi_lars", infer_shape=elementwise)
def multi_lars(lrs: Array, weights_sum_sq: Array, grads_sum_sq: Array, wds: Array, *, eta: Scalar, eps: Scalar,
               rescale_grad: Scalar = 1.0) -> Array:
    """The rates of LARS (arXiv:1708.03888): lr·eta·|w| / (rescale_grad·|g| + wd·|w| + eps); lr where a norm is 0.

    lrs, wds and the sums of squares of weights and gradients: (number of layers,) float32 -> the same shape.
    """
    weight, grad = jnp.sqrt(weights_sum_sq), jnp.sqrt(grads_sum_sq)
    valid = (weight > 0) & (grad > 0)
    ratio = eta * weight / (jnp.where(valid, grad * rescale_grad + wds * weight, 1) + eps)
    return jnp.where(valid, lrs * ratio, lrs)


# ------------------------------------------------------------ many arrays at once
def _listed(params: dict[str, Any]) -> list[str]:
    return [f"array_{i}" for i in range(params["num_arrays"])]


@register("multi_sum_sq", variadic="num_arrays", own_count=True, inputs=_listed, infer_type=gives("float32"))
def multi_sum_sq(*data: Array, num_arrays: Count) -> Array:
    """Sums of squares of the arrays -> (num_arrays,) float32."""
    return jnp.stack([jnp.sum(jnp.square(a.astype(jnp.float32))) for a in data])


@register("reset_arrays", variadic="num_arrays", own_count=True, inputs=_listed, num_outputs=0,
          infer_type=gives(None), mutates=lambda p: tuple(_listed(p)))
def reset_arrays(*data: Array, num_arrays: Count) -> tuple[Array, ...]:
    """Sets all arrays to zero."""
    return tuple(jnp.zeros_like(a) for a in data)


def _goes_on(params: dict[str, Any]) -> bool:
    return not params["init_output"]


@register("multi_all_finite", variadic="num_arrays", own_count=True, inputs=_listed, FTakesOut=_goes_on,
          FPartialShape=lambda p, *_: (1,), infer_type=gives("float32"))
def multi_all_finite(*data: Array, num_arrays: Count = 1, init_output: bool = True) -> Array:
    """Checks that all values of all arrays are finite: 1 if so, else 0 -> (1,) float32.

    With `init_output` off, the previous value of `out` must be 1 as well, to check many arrays in several calls.
    """
    finite = [jnp.all(jnp.isfinite(a)) for a in data[:num_arrays]]
    before = [jnp.all(a != 0) for a in data[num_arrays:]]
    return jnp.all(jnp.stack(finite + before), keepdims=True).astype(jnp.float32)


@register("all_finite", FTakesOut=_goes_on, hidden=("before",), infer_type=gives("float32"))
def all_finite(data: Array, before: Array | None = None, *, init_output: bool = True) -> Array:
    """Checks that all values are finite: 1 if so, else 0 -> (1,) float32; see `multi_all_finite`."""
    return multi_all_finite(*[a for a in (data, before) if a is not None], num_arrays=1, init_output=init_output)
