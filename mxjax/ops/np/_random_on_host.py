"""Draws of `mx.np.random` as MXNet makes them on CPUs, to the bit: all from the twister that is read in order.

If the operator computes with the draws, so that gradients pass to its inputs, they are noise: float32 numbers of
the distribution without parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..._random.mersenne import Source
from ..._support.c_math import c_function, mixed
from ..params import np_dtype
from ..random.on_host import Draw, rounded, size_of

__all__ = ["bernoulli", "choice", "distribution", "multinomial", "multivariate_normal", "stretches"]


def _log(values: np.ndarray) -> np.ndarray:
    """In float64."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return c_function("log")(values.astype(np.float64))


def _to_one_over(base: np.ndarray, a: np.ndarray) -> np.ndarray:
    exponent = mixed(np.divide, np.float64(1), a).astype(a.dtype)
    return c_function("powf", 2)(base, exponent.astype(np.float32))


# -------------------------------------------------------------------- distributions
def _logit(source: Source, count: int) -> np.ndarray:
    drawn = source.uniform(count)
    return (_log(drawn) - _log(1 - drawn)).astype(np.float32)


def _minus_log(source: Source, count: int) -> np.ndarray:
    """Returns the value in float32, since MXNet's compiler computes intermediate values in it."""
    with np.errstate(divide="ignore"):
        return -c_function("logf")(source.uniform(count))


def _laplace(source: Source, count: int) -> np.ndarray:
    centred = source.uniform(count) - np.float32(0.5)
    return (-np.sign(centred) * _log(1 - 2 * np.abs(centred))).astype(np.float32)


# (source, count) -> float32
_NOISE: dict[str, Callable[[Source, int], np.ndarray]] = {
    "uniform": Source.uniform,
    "normal": Source.normal,
    "logistic": _logit,
    "gumbel": lambda source, count: (-_log(-_log(source.uniform(count)))).astype(np.float32),
    "laplace": _laplace,
    "exponential": _minus_log,
    "rayleigh": lambda source, count: np.sqrt(-2 * _log(source.uniform(count))).astype(np.float32),
}


def _gamma(source: Source, count: int, a: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Marsaglia and Tsang's method, but for all numbers in each round, also for those that are found already."""
    log = c_function("logf")
    small = np.broadcast_to(a < 1, count)
    d = np.broadcast_to(mixed(np.add, a, np.where(a < 1, 2 / 3, -1 / 3)).astype(np.float64), count)
    c = 1 / np.sqrt(9 * d)
    result = np.full(count, -1.0)
    while (missing := result < 0).any():
        drawn, normal = source.uniform(2 * count, True), source.normal(2 * count, True)[::2]
        u, square, v = drawn[::2], normal * normal, (1 + c * normal)
        v = v * v * v
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = 0.5 * square + d * (1 - v + log(v.astype(np.float32)))
            good = (u <= 1 - 0.0331 * square * square) | (log(u.astype(np.float32)) < chance)
        value = mixed(np.multiply, d * v, scale).astype(np.float64)
        if small.any():
            exponent = mixed(np.divide, np.float64(1), a)
            value = np.where(small, value * c_function("powf", 2)(drawn[1::2].astype(np.float32),
                                                                   exponent.astype(np.float32)), value)
        result = np.where(missing & good & (v > 0), value, result)
    return result


def _pareto(source: Source, count: int, a: np.ndarray) -> np.ndarray:
    drawn = _minus_log(source, count) if a.ndim else -_log(source.uniform(count))
    return mixed(np.subtract, c_function("exp")(mixed(np.divide, drawn, a).astype(np.float64)), a.dtype.type(1))


# (source, count, *parameters: numbers, or vectors of that length) -> a vector
_VALUES: dict[str, Callable[..., np.ndarray]] = {
    "uniform": lambda source, count, low, high: low + source.uniform(count) * (high - low),
    "exponential": lambda source, count, scale: -_log(source.uniform(count)) * scale,
    "gamma": _gamma,
    "pareto": _pareto,
    "weibull": lambda source, count, a: _to_one_over(_minus_log(source, count), a),
    "powerd": lambda source, count, a: _to_one_over(1 - source.uniform(count + 1)[:-1], a),  # MXNet draws one too many
}


def _numbers(name: str, source: Source, count: int, parameters: list[np.ndarray]) -> np.ndarray:
    if name in _VALUES:
        return _VALUES[name](source, count, *parameters)
    drawn = _NOISE[name](source, count) * parameters[-1]
    return parameters[0] + drawn if len(parameters) > 1 else drawn


def stretches(shape: Sequence[int], size: Sequence[int]) -> bool:
    """Tells shapes that broadcast to a size."""
    return len(shape) <= len(size) and all([n in (1, m) for n, m in zip(shape[::-1], size[::-1], strict=False)])


def distribution(name: str, names: Sequence[str], shape_of: Callable[..., tuple[int, ...]]) -> Draw:
    """FDraw of a distribution: the numbers, or where there are inputs and noise is enough for these, that.

    Args:
        name: of the distribution.
        names: of its parameters.
        shape_of: function(params, *shapes of the inputs) -> the shape of the result.
    """
    def draw(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
        size_of(params["size"])
        shape, dtype = shape_of(params, *[x.shape for x in inputs]), np_dtype(params.get("dtype", "float32"))
        if not all([stretches(x.shape, shape) for x in inputs]):
            return None  # which the operator refuses
        count = math.prod(shape)
        if inputs and name in _NOISE:
            return _NOISE[name](source, count).reshape(shape)
        given = iter([np.broadcast_to(x, shape).reshape(-1) for x in inputs])
        like = inputs[0].dtype if inputs else np.float32
        parameters: list[Any] = [next(given) if params[n] is None else np.float32(params[n]).astype(like)
                                 for n in names]
        if inputs and not all([(p > 0).all() for p in parameters]):
            return None
        return rounded(_numbers(name, source, count, parameters), shape, dtype)
    return draw


# -------------------------------------------------------------------- choices
def bernoulli(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_npi_bernoulli`: the threshold of a probability or logit; for a number the results."""
    shape = size_of(inputs[0].shape if inputs and params["size"] is None else params["size"] or ())
    bounds = (_logit if params["is_logit"] else Source.uniform)(source, math.prod(shape)).reshape(shape)
    if inputs:
        return bounds
    number = np.float32(params["logit" if params["is_logit"] else "prob"])
    return (number > bounds).astype(np_dtype(params["dtype"]))


def choice(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
    """FDraw of `_npi_choice`."""
    shape = size_of(params["size"] or ())
    count, of = math.prod(shape), inputs[0].size if params["a"] is None else params["a"]
    weights = inputs[-1] if params["weighted"] else None
    if of < 1 or weights is not None and weights.shape != (of,) or not params["replace"] and count > of:
        return None  # which the operator refuses
    if params["replace"]:
        if weights is None:
            return (source.twister.take(count).astype(np.int64) % of).reshape(shape)
        sums = list(accumulate(weights, lambda x, y: np.float32(x + y), initial=np.float32(0)))[1:]
        return np.searchsorted(sums, source.uniform(count)).reshape(shape)
    if weights is not None:
        log = c_function("logf")
        with np.errstate(divide="ignore"):
            keys = -log(-log(source.uniform(of))) + log(weights.astype(np.float32))
        return np.argsort(-keys, kind="stable")[:count].reshape(shape)
    return _different(source, of, count).reshape(shape)


def _different(source: Source, of: int, count: int) -> np.ndarray:
    """Returns different numbers below `of`: the last ones swap with others, and are the result or are left out."""
    last = min(count, of - count)
    numbers, first = list(range(of)), of - last
    places = source.twister.take(last).astype(np.int64) % np.arange(first + 1, of + 1)
    for i, place in enumerate(places.tolist(), first):
        if place < first:
            numbers[place], numbers[i] = numbers[i], numbers[place]
    return np.array(numbers[of - count:] if 2 * count < of else numbers[:count], np.int64)


def multinomial(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_npi_multinomial`."""
    weights = inputs[0] if params["pvals"] is None else np.array(params["pvals"], np.float64)
    shape, each, classes = size_of(params["size"] or ()), params["n"], len(weights)
    count = math.prod(shape)
    if not count * classes:
        return np.zeros((*shape, classes), np.int64)
    drawn = source.uniform(count * each + (0 if inputs else classes), True)  # numbers make MXNet draw too many
    drawn, sums = drawn[:count * each].astype(weights.dtype), np.cumsum(weights, dtype=weights.dtype)
    result = np.searchsorted(sums, drawn, "right")
    result = np.minimum(result, classes - 1).reshape(count, each) + classes * np.arange(count)[:, None]
    return np.bincount(result.reshape(-1), minlength=count * classes).reshape(*shape, classes)


def multivariate_normal(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_npi_mvn_fallback`: independent standard normal numbers."""
    mean, covariance = inputs
    shape = size_of(params["size"] or ()) + np.broadcast_shapes(mean.shape, covariance.shape[:-1])
    return source.normal(math.prod(shape)).reshape(shape)
