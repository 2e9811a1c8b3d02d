"""Normalization by batch, layer, group, instance, sum of squares, and neighbouring channels.

The first four share their arithmetic: arrays with three axes, of which the first and the last are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

Sizes = tuple[int, ...]


# ------------------------------------------------------------ the arithmetic that they share
def _sum(x: Array) -> Any:
    """Returns the sums over the first and the last of three axes, with these axes kept."""
    return x.sum(2, keepdims=True).sum(0, keepdims=True) if x.shape[2] > 1 else x.sum(0, keepdims=True)


def _sum_of_products(x: Array, y: Array) -> Any:
    if x.shape[2] == 1:
        return np.einsum("abc,abc->b", x, y)[None, :, None]
    return np.einsum("abc,abc->ab", x, y).sum(0)[None, :, None]


def _centred(x: Array, out: Array) -> tuple[Any, Any, Any]:
    """Returns the differences from the mean, in `out`, the mean and the variance."""
    count = x.dtype.type(len(x) * x.shape[2])
    mean = _sum(x) / count
    centred = np.subtract(x, mean, out=out)
    return centred, mean, _sum_of_products(centred, centred) / count


def _scale(var: Array, eps: float) -> Any:
    return 1 / np.sqrt(var + var.dtype.type(eps))


def _standardized(x: Array, gamma: Array, beta: Array, eps: float, shape: Sizes) -> tuple[Any, Any, Any, Any]:
    """Returns gamma·(x - mean) / sqrt(var + eps) + beta in this shape, mean, variance and 1 / sqrt(var + eps)."""
    whole = np.empty(shape, x.dtype)  # not a view, which would be copied
    out, mean, var = _centred(x, whole.reshape(x.shape))
    scale = _scale(var, eps)
    if gamma.shape[2] == 1:
        out *= scale * gamma
    else:
        out *= scale
        out *= gamma
    out += beta
    return whole, mean, var, scale


def _gradients(out_grad: Array, x: Array, gamma: Array, eps: float, by_x: bool, shape: Sizes) -> tuple[Any, Any, Any]:
    """Returns the gradients of x (if asked for, in this shape), gamma and beta (in that of gamma)."""
    whole = np.empty(shape, x.dtype)
    unit, _, var = _centred(x, whole.reshape(x.shape))
    scale = _scale(var, eps)
    unit *= scale
    inside = gamma.shape[2] > 1  # it varies along the averaged axes
    by_gamma = np.einsum("abc,abc->c", out_grad, unit)[None, None] if inside else _sum_of_products(out_grad, unit)
    by_beta = out_grad.sum((0, 1), keepdims=True) if inside else _sum(out_grad)
    if not by_x:
        return None, by_gamma, by_beta
    count = x.dtype.type(len(x) * x.shape[2])
    pulled, factor, first, second = out_grad, scale * gamma, by_beta, by_gamma
    if inside:
        pulled, factor = out_grad * gamma, scale
        first, second = _sum(pulled), _sum_of_products(pulled, unit)
    unit *= second / count
    out = np.subtract(pulled, unit, out=unit)
    out -= first / count
    out *= factor
    return whole, by_gamma, by_beta


# ------------------------------------------------------------ batch normalization
def _by_channel(p: dict[str, Any], x: Array) -> tuple[Any, int]:
    """Returns a view (before, channel, after), and the number of channels."""
    axis = p.get("axis", 1)
    axis += x.ndim * (axis < 0)
    need(x.size and 0 <= axis < x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1), x.shape[axis]


def _vectors(count: int, *arrays: Array) -> list[Any]:
    """Returns vectors along the second of three axes."""
    need(all(a.shape == (count,) for a in arrays))
    return [a.reshape(1, -1, 1) for a in arrays]


def _is_of_batch(p: dict[str, Any]) -> bool:
    return p["_train"] and not p["use_global_stats"]


def _batch_norm(second: Callable[[Any, Any], Any]) -> Callable[..., tuple]:
    """Returns the operator; second: function(variance, 1 / sqrt(variance + eps)) -> its third output."""
    def forward(p: dict[str, Any], x: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array) -> tuple:
        data, count = _by_channel(p, x)
        gamma, beta, mean, var = _vectors(count, gamma, beta, moving_mean, moving_var)
        if p["fix_gamma"]:
            gamma = np.ones_like(gamma)
        if _is_of_batch(p):
            out, mean, var, scale = _standardized(data, gamma, beta, p["eps"], x.shape)
            keep, rest = x.dtype.type(p["momentum"]), x.dtype.type(1 - p["momentum"])
            moving_mean, moving_var = (keep * old + rest * new.ravel() for old, new in
                                       ((moving_mean, mean), (moving_var, var)))
        else:
            scale = _scale(var, p["eps"])
            out = np.empty(x.shape, x.dtype)
            part = np.subtract(data, mean, out=out.reshape(data.shape))
            part *= scale * gamma
            part += beta
        moments = [mean.ravel(), second(var, scale).ravel()] if p["output_mean_var"] else []
        return (out, *moments, moving_mean[...], moving_var[...])
    return forward


def _batch_gradients(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, gamma: Array,
                     beta: Array, moving_mean: Array, moving_var: Array) -> list[Any]:
    need(out_grads[0] is not None)
    data, count = _by_channel(p, x)
    factor, mean, var = _vectors(count, gamma, moving_mean, moving_var)
    out_grad = out_grads[0].reshape(data.shape)
    if p["fix_gamma"]:
        factor = np.ones_like(factor)
    by_x = by_gamma = by_beta = None
    if not (needs_grad[0] or needs_grad[1]):
        by_beta = _sum(out_grad)
    elif _is_of_batch(p):
        by_x, by_gamma, by_beta = _gradients(out_grad, data, factor, p["eps"], needs_grad[0], x.shape)
    else:
        scale = _scale(var, p["eps"])
        by_x, by_beta = out_grad * (scale * factor) if needs_grad[0] else None, _sum(out_grad)
        by_gamma = _sum_of_products(data - mean, out_grad) * scale if needs_grad[1] else None
    if p["fix_gamma"] and by_gamma is not None:
        by_gamma = np.zeros_like(by_gamma)
    return [by_x if by_x is None else by_x.reshape(x.shape), None if by_gamma is None else by_gamma.ravel(),
            by_beta.ravel(), np.zeros_like(moving_mean), np.zeros_like(moving_var)]


def _batch_reads(p: dict[str, Any], needs_grad: Sequence[bool]) -> list[bool]:
    learns, of_batch = needs_grad[1] and not p["fix_gamma"], _is_of_batch(p)
    return [learns or needs_grad[0] and of_batch, needs_grad[0] and not p["fix_gamma"], False, learns and not of_batch,
            (learns or needs_grad[0]) and not of_batch]


def _passes(count: int) -> Callable[..., Work]:
    """Returns the work of this number of passes over the data."""
    return lambda p, x, *rest: Work(count * math.prod(x), operations=30.0)


for _name, _second in [("BatchNorm", lambda var, scale: scale), ("BatchNorm_v1", lambda var, scale: var),
                       ("_contrib_SyncBatchNorm", lambda var, scale: var)]:
    numpy_form(_name, backward=_batch_gradients, reads=_batch_reads, work=_passes(5))(_batch_norm(_second))


# ------------------------------------------------------------ layer, group and instance normalization
Rows = Callable[[dict[str, Any], Any, Sequence[Any]], tuple[Any, list[Any]]]


def _layers(p: dict[str, Any], x: Array, vectors: Sequence[Any]) -> tuple[Any, list[Any]]:
    need(x.ndim and x.size and -x.ndim <= p["axis"] < x.ndim)
    moved = np.moveaxis(x, p["axis"], -1)
    need(all(v.shape == moved.shape[-1:] for v in vectors))
    return moved.reshape(1, -1, moved.shape[-1]), [v.reshape(1, 1, -1) for v in vectors]


def _groups(count: Callable[[dict[str, Any], Any], int]) -> Rows:
    def rows(p: dict[str, Any], x: Array, vectors: Sequence[Any]) -> tuple[Any, list[Any]]:
        need(x.ndim > 2 and x.size)
        groups = count(p, x)
        need(groups > 0 and x.shape[1] % groups == 0)
        return x.reshape(1, len(x) * groups, -1), [np.tile(v, (1, len(x), 1)) for v in _vectors(groups, *vectors)]
    return rows


def _normalized(name: str, rows: Rows, moments: Callable[[dict[str, Any], Any, Any], Any]) -> None:
    """Registers the normalization of each row.

    Args:
        name: the operator.
        rows: function(parameters, data, vectors) -> the data as (1, row, elements), the vectors likewise.
        moments: function(parameters, data, numbers of rows) -> these as outputs.
    """
    def shape(p: dict[str, Any], x: Array) -> Sizes:
        """Returns the shape of the data with the axis moved to the end."""
        return np.moveaxis(x, p.get("axis", -1), -1).shape

    def forward(p: dict[str, Any], x: Array, gamma: Array, beta: Array) -> Any:
        data, (gamma, beta) = rows(p, x, (gamma, beta))
        out, mean, _, scale = _standardized(data, gamma, beta, p["eps"], shape(p, x))
        out = np.moveaxis(out, -1, p.get("axis", -1))
        return (out, moments(p, x, mean), moments(p, x, 1 / scale)) if p.get("output_mean_var") else out

    def backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, gamma: Array,
                 beta: Array) -> list[Any]:
        need(out_grads[0] is not None)
        data, (factor,) = rows(p, x, (gamma,))
        out_grad, _ = rows(p, out_grads[0], ())
        if needs_grad[0] or needs_grad[1]:
            result = _gradients(out_grad, data, factor, p["eps"], needs_grad[0], shape(p, x))
        else:
            result = None, None, out_grad.sum((0, 1)) if factor.shape[2] > 1 else _sum(out_grad)
        return [None if result[0] is None else np.moveaxis(result[0], -1, p.get("axis", -1)),
                *[None if a is None else a.reshape(-1, len(gamma)).sum(0) for a in result[1:]]]
    numpy_form(name, backward=backward, work=_passes(5), reads=lambda p, needs_grad: [
        needs_grad[0] or needs_grad[1], needs_grad[0], False])(forward)


def _kept_axis(p: dict[str, Any], x: Array, numbers: Array) -> Any:
    shape = list(x.shape)
    shape[p["axis"]] = 1
    return numbers.reshape(shape)


_normalized("LayerNorm", _layers, _kept_axis)
_normalized("GroupNorm", _groups(lambda p, x: p["num_groups"]), lambda p, x, numbers: numbers.reshape(len(x), -1))
_normalized("InstanceNorm", _groups(lambda p, x: x.shape[1]), lambda p, x, numbers: numbers)


# ------------------------------------------------------------ norms without parameters
def _norm(p: dict[str, Any], x: Array) -> tuple[Any, tuple[int, ...]]:
    """Returns the root of the sums of squares, and the axes of the sums."""
    need(x.size and (x.ndim > 2 or p["mode"] == "instance" and x.ndim > 0))
    axes = {"instance": tuple(range(1, x.ndim)), "channel": (1,), "spatial": tuple(range(2, x.ndim))}[p["mode"]]
    return np.sqrt(np.square(x).sum(axes, keepdims=True) + x.dtype.type(p["eps"])), axes


def _l2_gradient(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    norm, axes = _norm(p, x)
    unit = x / norm
    along = (out_grads[0] * unit).sum(axes, keepdims=True)
    unit *= along
    out = np.subtract(out_grads[0], unit, out=unit)
    out /= norm
    return [out]


@numpy_form("L2Normalization", backward=_l2_gradient, reads=lambda p, needs_grad: [True], work=_passes(4))
def _l2_normalized(p: dict[str, Any], x: Array) -> Any:
    return x / _norm(p, x)[0]


def _neighbours(x: Array, size: int) -> Any:
    """Returns sums of this number of channels around each channel."""
    half = min((size - 1) // 2, x.shape[1] - 1)  # as many before as after, also for even numbers
    out = x.copy()
    for step in range(1, half + 1):
        out[:, step:] += x[:, :-step]
        out[:, :-step] += x[:, step:]
    return out


def _lrn_norm(p: dict[str, Any], x: Array) -> Any:
    need(x.size and x.ndim > 1 and not p["output_norm"])
    norm = _neighbours(np.square(x), p["nsize"])
    norm *= x.dtype.type(float(p["alpha"]) / p["nsize"])
    norm += x.dtype.type(float(p["knorm"]))
    return norm


def _lrn_gradient(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    norm = _lrn_norm(p, x)
    out = out_grads[0] * norm ** x.dtype.type(-p["beta"])
    pulled = out * x
    pulled /= norm
    back = _neighbours(pulled, p["nsize"])
    back *= x
    back *= x.dtype.type(2 * p["beta"] * float(p["alpha"]) / p["nsize"])
    out -= back
    return [out]


@numpy_form("LRN", backward=_lrn_gradient, reads=lambda p, needs_grad: [True],
            work=lambda p, x: Work((20 + 2 * p["nsize"]) * math.prod(x)))
def _lrn(p: dict[str, Any], x: Array) -> Any:
    return x * _lrn_norm(p, x) ** x.dtype.type(-p["beta"])
