"""Optimizer updates: the new weight and the new states.

A rule is a function(numbers, weight, grad, *states) -> (new weight, *new states), as in the operators' own formulas;
the operators on a 16-bit weight with its float32 copy and on many weights at once use the same rule. Large arrays are
computed in blocks, whose temporaries stay in the processor's cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import level
from ..direct import Work, need, numpy_form
from ..program import Array
from .shapes import FLOATS

__all__: list[str] = []

Rule = Callable[..., Sequence[Any]]
_BLOCK = 1 << 17  # elements of each array that are computed at a time; with fewer, calls of NumPy cost too much


# ------------------------------------------------------------ how operators are made from a rule
def _work(p: dict, *shapes: tuple[int, ...]) -> Work:
    return Work(0.7 * sum([math.prod(shape) for shape in shapes]))


def _numbers(p: dict, dtype: np.dtype) -> SimpleNamespace:
    """Returns the parameters, with numbers in the dtype of the weight."""
    return SimpleNamespace(**{name: value if isinstance(value, bool | tuple | str) else dtype.type(value)
                              for name, value in p.items()})


def _updated(rule: Rule, numbers: SimpleNamespace, arrays: Sequence[Any], mixed: bool) -> tuple:
    """Returns a rule's results; `mixed`: it applies to the last array, the float32 copy of the first."""
    step = functools.partial(_of_copy if mixed else rule, *[rule] * mixed, numbers)
    need(len({a.shape for a in arrays}) == 1)
    size = arrays[0].size
    if size <= _BLOCK:
        return tuple(step(*arrays))
    flat, made = [a.reshape(-1) for a in arrays], []
    for begin in range(0, size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        results = step(*[a[part] for a in flat])
        made = made or [np.empty(arrays[0].shape, r.dtype) for r in results]
        for whole, result in zip(made, results, strict=True):
            whole.reshape(-1)[part] = result
    return tuple(made)


def _of_copy(rule: Rule, numbers: SimpleNamespace, weight: Array, grad: Array, *states: Array) -> Sequence[Any]:
    master = states[-1]
    states = states[:-1]
    new, *after = rule(numbers, master, grad.astype(master.dtype), *states)
    return new.astype(weight.dtype), *after, new


def _need_copies(arrays: Sequence[Any]) -> None:
    """Raises Unknown unless weight and gradient have the same dtype, and the states float32."""
    need(arrays[0].dtype == arrays[1].dtype and all([a.dtype == np.float32 for a in arrays[2:]]))


def _single(name: str, rule: Rule, mixed: bool = False, tail: int = 0) -> None:
    """Registers an update of one weight; the last `tail` arrays are not states, and come first in the rule."""
    @numpy_form(name, mixed=mixed, work=_work)
    def update(p: dict, *arrays: Array) -> tuple:
        own = arrays[:len(arrays) - tail]
        if mixed:
            _need_copies(own)
        bound = functools.partial(_with_tail, rule, arrays[len(own):]) if tail else rule
        return _updated(bound, _numbers(p, own[-1].dtype), own, mixed)


def _with_tail(rule: Rule, tail: Sequence[Any], numbers: SimpleNamespace, *arrays: Array) -> Sequence[Any]:
    return rule(numbers, *tail, *arrays)


def _multi(name: str, rule: Rule, each: dict[str, str], width: int, mixed: bool = False, preloaded: bool = False,
           tail: int = 0, count: str = "num_weights") -> None:
    """Registers an update of many weights.

    Args:
        name: of the operator.
        rule: rule for one weight.
        each: numbers that differ between weights, and the name of their list.
        width: number of arrays per weight.
        mixed: one of these is the float32 copy.
        preloaded: these numbers are the last arrays.
        tail: number of last arrays that all weights share, which come first in the rule.
        count: parameter for the number of weights.
    """
    @numpy_form(name, mixed=mixed, work=_work)
    def update(p: dict, *arrays: Array) -> tuple:
        number = p[count]
        rest = arrays[number * width:]
        many = {**p, **dict(zip(each.values(), rest, strict=True))} if preloaded else p
        need(all([len(many[values]) == number for values in each.values()]))
        shared = {n: v for n, v in p.items() if n not in each.values()}
        weights, states = [], []
        for i in range(number):
            own = arrays[i * width:(i + 1) * width]
            if mixed:
                _need_copies(own)
            numbers = _numbers({**shared, **{one: many[values][i] for one, values in each.items()}}, own[-1].dtype)
            bound = functools.partial(_with_tail, rule, rest) if tail else rule
            new, *after = bound(numbers, *own) if rule in _WHOLE else _updated(bound, numbers, own, mixed)
            weights.append(new)
            states += after
        return (*weights, *states)


def _clipped(x: Array, limit: float) -> Any:
    """Clips a temporary to [-limit, limit]; a negative limit means no clipping."""
    return np.clip(x, -limit, limit, out=x) if limit >= 0 else x


def _rescaled(n: SimpleNamespace, grad: Array) -> Any:
    return _clipped(grad * n.rescale_grad, n.clip_gradient)


def _step(n: SimpleNamespace, grad: Array) -> Any:
    """Returns the rescaled, clipped gradient times the rate."""
    if n.clip_gradient < 0:
        return grad * (n.rescale_grad * n.lr)
    g = _rescaled(n, grad)
    g *= n.lr
    return g


def _decayed(n: SimpleNamespace, weight: Array, grad: Array, limit: float) -> Any:
    """Returns the rescaled gradient with weight decay: MXNet 1.x clips their sum, 2.0 only the gradient."""
    g = grad * n.rescale_grad
    if level.current() == 2:
        g = _clipped(g, limit)
        g += weight * n.wd
        return g
    g += weight * n.wd
    return _clipped(g, limit)


def _root(squares: Array, epsilon: float) -> Any:
    """Returns a nonzero root: MXNet 1.x adds epsilon before the root is taken, 2.0 afterwards."""
    return np.sqrt(squares + epsilon) if level.current() == 1 else np.sqrt(squares) + epsilon


def _average(old: Array, new: Array, decay: float) -> Any:
    """Returns the exponential moving average."""
    result = old * decay
    result += new * (1 - decay)
    return result


# ------------------------------------------------------------ stochastic gradient descent
def _sgd(n: SimpleNamespace, weight: Array, grad: Array) -> Sequence[Any]:
    new = weight * (1 - n.lr * n.wd)
    new -= _step(n, grad)
    return (new,)


def _sgd_mom(n: SimpleNamespace, weight: Array, grad: Array, mom: Array) -> Sequence[Any]:
    mom = mom * n.momentum
    mom -= weight * (n.lr * n.wd)
    mom -= _step(n, grad)
    return weight + mom, mom


def _sgd_of_many(n: SimpleNamespace, weight: Array, grad: Array) -> Sequence[Any]:
    return (weight + (weight * (-n.lr * n.wd) - _step(n, grad)),)


for _name, _rule, _of_many, _width in [("sgd_update", _sgd, _sgd_of_many, 2),
                                       ("sgd_mom_update", _sgd_mom, _sgd_mom, 3)]:
    for _mixed in (False, True):
        _single("mp_" * _mixed + _name, _rule, _mixed)
        for _preloaded in (False, True):
            _multi("preloaded_" * _preloaded + "multi_" + "mp_" * _mixed + _name, _of_many, {"lr": "lrs", "wd": "wds"},
                   _width + _mixed, _mixed, _preloaded)


def _nag_mom(n: SimpleNamespace, weight: Array, grad: Array, mom: Array) -> Sequence[Any]:
    step = (_rescaled(n, grad) + weight * n.wd) * n.lr
    mom = mom * n.momentum - step
    return weight + mom * n.momentum - step, mom


def _nag_mom_over(n: SimpleNamespace, weight: Array, grad: Array, mom: Array) -> Sequence[Any]:
    """Computes the update as MXNet 1.x, where the new weight replaces the old one before the state is computed."""
    new, kept = _nag_mom(n, weight, grad, mom)
    return new, kept - (new - weight) * (n.lr * n.wd) if level.current() == 1 else kept


def _signsgd(n: SimpleNamespace, weight: Array, grad: Array) -> Sequence[Any]:
    return (weight * (1 - n.lr * n.wd) - np.sign(grad) * n.lr,)


def _signum(n: SimpleNamespace, weight: Array, grad: Array, mom: Array) -> Sequence[Any]:
    mom = _average(mom, weight * -n.wd - _rescaled(n, grad), n.momentum)
    return weight * (1 - n.lr * n.wd_lh) + np.sign(mom) * n.lr, mom


_single("nag_mom_update", _nag_mom)
_single("nag_mom_update in place", _nag_mom_over)
_single("mp_nag_mom_update", _nag_mom_over, mixed=True)
_single("signsgd_update", _signsgd)
_single("signum_update", _signum)


# ------------------------------------------------------------ adaptive rates
def _adam(n: SimpleNamespace, weight: Array, grad: Array, mean: Array, var: Array) -> Sequence[Any]:
    g = _decayed(n, weight, grad, n.clip_gradient)
    mean, var = _average(mean, g, n.beta1), var * n.beta2
    var += g * (1 - n.beta2) * g  # so that the square of a large gradient is not infinite
    return weight - mean * n.lr / (np.sqrt(var) + n.epsilon), mean, var


def _adamw_and_gradient(n: SimpleNamespace, scale: Array, weight: Array, grad: Array, mean: Array,
                        var: Array) -> Sequence[Any]:
    scale = scale.reshape(-1)[0]
    if not np.isfinite(scale) or scale == 0:
        return weight, mean, var, grad
    g = _clipped(grad * weight.dtype.type(scale), n.clip_gradient)
    mean, var = _average(mean, g, n.beta1), _average(var, g * g, n.beta2)
    return weight - (mean * n.lr / (np.sqrt(var) + n.epsilon) + weight * n.wd) * n.eta, mean, var, g


def _adamw(n: SimpleNamespace, *arrays: Array) -> Sequence[Any]:
    return _adamw_and_gradient(n, *arrays)[:3]


def _ftml(n: SimpleNamespace, weight: Array, grad: Array, d: Array, v: Array, z: Array) -> Sequence[Any]:
    g = _decayed(n, weight, grad, n.clip_grad)
    v = _average(v, g * g, n.beta2)
    denominator = (np.sqrt(v / (1 - n.beta2 ** n.t)) + n.epsilon) * ((1 - n.beta1 ** n.t) / n.lr)
    z = _average(z, g, n.beta1) - (denominator - d * n.beta1) * weight
    return -z / denominator, denominator, v, z


def _ftrl(n: SimpleNamespace, weight: Array, grad: Array, z: Array, squares: Array) -> Sequence[Any]:
    g = _rescaled(n, grad)
    new_squares = squares + g * g
    root = np.sqrt(new_squares)
    z = z + g - (root - np.sqrt(squares)) * weight / n.lr
    new = (np.sign(z) * n.lamda1 - z) / ((root + n.beta) / n.lr + n.wd)
    new[np.abs(z) <= n.lamda1] = 0
    return new, z, new_squares


def _rmsprop(n: SimpleNamespace, weight: Array, grad: Array, squares: Array) -> Sequence[Any]:
    g = _decayed(n, weight, grad, n.clip_gradient)
    squares = _average(squares, g * g, n.gamma1 if level.current() == 1 else n.rho)
    return _clipped(weight - g * n.lr / _root(squares, n.epsilon), n.clip_weights), squares


def _rmspropalex(n: SimpleNamespace, weight: Array, grad: Array, squares: Array, mean: Array,
                 delta: Array) -> Sequence[Any]:
    g = _decayed(n, weight, grad, n.clip_gradient)
    one = level.current() == 1
    kept, decay, momentum = [squares, mean], *((n.gamma1, n.gamma2) if one else (n.rho, n.momentum))
    squares, mean = kept if one else kept[::-1]  # in MXNet 2, the mean comes first
    squares, mean = _average(squares, g * g, decay), _average(mean, g, decay)
    delta = delta * momentum - g * n.lr / np.sqrt(squares - mean * mean + n.epsilon)
    return _clipped(weight + delta, n.clip_weights), *((squares, mean) if one else (mean, squares)), delta


def _adagrad(n: SimpleNamespace, weight: Array, grad: Array, history: Array) -> Sequence[Any]:
    g = _rescaled(n, grad)
    history = history + g * g
    return weight - (g / _root(history, n.epsilon) + weight * n.wd) * n.lr, history


_single("adam_update", _adam)
_single("_adamw_update", _adamw_and_gradient, tail=1)
_single("_mp_adamw_update", _adamw, mixed=True, tail=1)
for _mixed in (False, True):
    _multi("_multi" + "_mp" * _mixed + "_adamw_update", _adamw, {"lr": "lrs", "wd": "wds", "eta": "etas"}, 4 + _mixed,
           _mixed, tail=1)
_single("ftml_update", _ftml)
_single("ftrl_update", _ftrl)
_single("rmsprop_update", _rmsprop)
_single("rmspropalex_update", _rmspropalex)
_single("_sparse_adagrad_update", _adagrad)


@numpy_form("_contrib_group_adagrad_update")
def _group_adagrad(p: dict, weight: Array, grad: Array, history: Array) -> tuple:
    need(weight.size and weight.shape == grad.shape and history.size == len(weight))
    n = _numbers(p, weight.dtype)
    g = _rescaled(n, grad)
    history = history + np.square(g).reshape(len(g), -1).mean(1).reshape(history.shape)
    g /= _root(history, n.epsilon).reshape(-1, *(1,) * (weight.ndim - 1))
    g *= n.lr
    return np.subtract(weight, g, out=g), history


# ------------------------------------------------------------ rates by layer
def _direction(n: SimpleNamespace, weight: Array, grad: Array, mean: Array, var: Array) -> Sequence[Any]:
    g = _rescaled(n, grad)
    mean, var = _average(mean, g, n.beta1), _average(var, g * g, n.beta2)
    m, v = (mean / (1 - n.beta1 ** n.t), var / (1 - n.beta2 ** n.t)) if n.bias_correction else (mean, var)
    return m / (np.sqrt(v) + n.epsilon) + weight * n.wd, mean, var


def _scaled_step(n: SimpleNamespace, weight: Array, g: Array, r1: Array, r2: Array) -> Any:
    if n.lower_bound >= 0:
        r1 = max(r1, n.lower_bound)
    if n.upper_bound >= 0:
        r1 = min(r1, n.upper_bound)
    ratio = weight.dtype.type(1 if r1 == 0 or r2 == 0 else r1 / r2)
    return weight - g * (n.lr * ratio)


def _sum_of_squares(x: Array) -> Any:
    """Returns the sum of squares of an array's numbers as float32."""
    flat, total = x.reshape(-1), 0.0
    for begin in range(0, x.size, _BLOCK):
        part = flat[begin:begin + _BLOCK].astype(np.float32, copy=False)
        total += float(np.dot(part, part))
    return np.float32(total)


def _norm(x: Array) -> Any:
    return np.sqrt(_sum_of_squares(x))


def _lamb(n: SimpleNamespace, weight: Array, grad: Array, mean: Array, var: Array) -> Sequence[Any]:
    g, mean, var = _updated(_direction, n, (weight, grad, mean, var), False)
    return _scaled_step(n, weight, g, _norm(weight), _norm(g)), mean, var


def _mp_lamb(n: SimpleNamespace, weight: Array, grad: Array, mean: Array, var: Array, master: Array) -> Sequence[Any]:
    g, mean, var = _updated(_direction, n, (master, grad.astype(master.dtype), mean, var), False)
    new = _scaled_step(n, master, g, _norm(weight), _norm(g))
    return new.astype(weight.dtype), mean, var, new


_WHOLE = (_lamb, _mp_lamb)  # rules that need the whole weight

_single("lamb_update_phase1", _direction)
for _name, _rule, _mixed in [("_multi_lamb_update", _lamb, False), ("_multi_mp_lamb_update", _mp_lamb, True)]:
    _multi(_name, _rule, {"lr": "learning_rates", "wd": "wds", "t": "step_count"}, 4 + _mixed, _mixed,
           count="num_tensors")


@numpy_form("mp_lamb_update_phase1", mixed=True)
def _mp_phase1(p: dict, weight: Array, grad: Array, mean: Array, var: Array, master: Array) -> tuple:
    _need_copies((weight, grad, mean, var, master))
    return _updated(_direction, _numbers(p, master.dtype), (master, grad.astype(master.dtype), mean, var), False)


@numpy_form("lamb_update_phase2")
def _phase2(p: dict, weight: Array, g: Array, r1: Array, r2: Array) -> Any:
    need(weight.shape == g.shape and r1.size == r2.size == 1)
    return _scaled_step(_numbers(p, weight.dtype), weight, g, r1.reshape(-1)[0], r2.reshape(-1)[0])


@numpy_form("mp_lamb_update_phase2", mixed=True)
def _mp_phase2(p: dict, weight: Array, g: Array, r1: Array, r2: Array, master: Array) -> tuple:
    need({a.dtype for a in (g, r1, r2, master)} == {np.dtype("f4")})
    return _phase2(p, master, g, r1, r2).astype(weight.dtype), master


@numpy_form("multi_lars")
def _multi_lars(p: dict, rates: Array, weights: Array, grads: Array, decays: Array) -> Any:
    n = _numbers(p, rates.dtype)
    weight, grad = np.sqrt(weights), np.sqrt(grads)
    ratio = weight * n.eta / (grad * n.rescale_grad + decays * weight + n.eps)
    return np.where((weight > 0) & (grad > 0), rates * ratio, rates)


# ------------------------------------------------------------ many arrays at once
@numpy_form("multi_sum_sq", mixed=True)
def _multi_sum_sq(p: dict, *arrays: Array) -> Any:
    need(arrays and all([a.dtype in FLOATS or a.dtype == np.float16 for a in arrays]))
    return np.array([_sum_of_squares(a) for a in arrays], np.float32)


@numpy_form("reset_arrays", mixed=True)
def _reset(p: dict, *arrays: Array) -> tuple:
    return tuple([np.zeros(a.shape, a.dtype) for a in arrays])


def _finite(arrays: Sequence[Any], before: Sequence[Any]) -> Any:
    good = all([np.isfinite(a).all() for a in arrays]) and all([(a != 0).all() for a in before])
    return np.array([good], np.float32)


@numpy_form("multi_all_finite", mixed=True)
def _multi_all_finite(p: dict, *arrays: Array) -> Any:
    return _finite(arrays[:p["num_arrays"]], arrays[p["num_arrays"]:])


@numpy_form("all_finite", mixed=True)
def _all_finite(p: dict, x: Array, before: Array | None = None) -> Any:
    return _finite([x], [] if before is None else [before])
