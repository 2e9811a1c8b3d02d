"""Activations, and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._support.c_math import erf
from ..direct import Work, need, numpy_form
from ..program import Array, Unknown
from .elementwise import sigmoid, summed_to, tanh

__all__: list[str] = []

def _where(holds: Array, x: Array) -> Any:
    """Returns x where the condition is true, else 0. It uses bits, because np.where takes ten times as long for
    irregular conditions."""
    out = np.empty(x.shape, x.dtype)
    bits = out.view(f"i{x.itemsize}")
    np.copyto(bits, holds)
    np.negative(bits, out=bits)
    bits &= x.view(bits.dtype)
    return out


def _mish_gate(x: Array) -> Any:
    return np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _mish_slope(g: Array, x: Array) -> Any:
    gate = _mish_gate(x)
    return g * (gate + x * (1 - np.square(gate)) * sigmoid(x))


_ACTIVATIONS = {  # function of x; function of the output's gradient and x
    "relu": (lambda x: np.maximum(x, 0), lambda g, x: _where(x > 0, g)),
    "tanh": (tanh, lambda g, x: g * (1 - np.square(tanh(x)))),
    "sigmoid": (sigmoid, lambda g, x: g * ((s := sigmoid(x)) * (1 - s))),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda g, x: g / np.square(1 + np.abs(x))),
    "log_sigmoid": (lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), lambda g, x: g * sigmoid(-x)),
    "mish": (lambda x: x * _mish_gate(x), _mish_slope),
    "softrelu": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), lambda g, x: g * sigmoid(x)),
}


@numpy_form("Activation", reads=lambda p, needs_grad: [True],
            backward=lambda p, out_grads, needs_grad, x: [_ACTIVATIONS[p["act_type"]][1](out_grads[0], x)])
def _activation(p: dict[str, Any], x: Array) -> Any:
    return _ACTIVATIONS[p["act_type"]][0](x)


# ------------------------------------------------------------ those with a slope for negative numbers
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805  # of selu


def _slope(p: dict[str, Any], x: Array) -> Any:
    return x.dtype.type(float(p["slope"]))


def _exponential(x: Array, factor: Array | float) -> Any:
    """Returns factor·(exp(x) - 1), with x replaced by 0 where it is positive."""
    out = np.expm1(np.minimum(x, 0))
    out *= factor
    return out


def _joined(positive: Array, negative: Array) -> Any:
    """Returns the sum of a part that is 0 for negative numbers and a part that is 0 for positive ones."""
    negative += positive
    return negative


def _slopes(x: Array, negative: Array) -> Any:
    """Returns 1 where x is positive, else the given numbers, which are overwritten."""
    positive = (x > 0).astype(x.dtype)
    negative *= 1 - positive
    negative += positive
    return negative


def _leaking(x: Array, slope: Array | float) -> Any:
    return _joined(np.maximum(x, 0), np.minimum(x, 0) * slope)


def _selu(p: dict[str, Any], x: Array) -> Any:
    scale = x.dtype.type(_SCALE)
    return _joined(scale * np.maximum(x, 0), _exponential(x, scale * x.dtype.type(_ALPHA)))


def _selu_slope(p: dict[str, Any], x: Array) -> Any:
    """Returns MXNet's slope: scale·(alpha + y) for negative numbers, with the output y."""
    scale, alpha = x.dtype.type(_SCALE), x.dtype.type(_ALPHA)
    return scale * _slopes(x, alpha + _exponential(x, scale * alpha))


def _distribution(x: Array) -> Any:
    """Returns the normal distribution function."""
    out = erf(x * x.dtype.type(math.sqrt(0.5)))
    out += 1
    out *= x.dtype.type(0.5)
    return out


def _gelu_slope(p: dict[str, Any], x: Array) -> Any:
    density = np.exp(np.square(x) * x.dtype.type(-0.5))
    density *= x.dtype.type(1 / math.sqrt(2 * math.pi))
    density *= x
    return _distribution(x) + density


_LEAKY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # functions(parameters, x) of value and slope
    "leaky": (lambda p, x: _leaking(x, _slope(p, x)),
              lambda p, x: _slopes(x, np.full(x.shape, _slope(p, x)))),
    "elu": (lambda p, x: _joined(np.maximum(x, 0), _exponential(x, _slope(p, x))),
            lambda p, x: _slopes(x, np.exp(np.minimum(x, 0)) * _slope(p, x))),
    "selu": (_selu, _selu_slope),
    "gelu": (lambda p, x: x * _distribution(x), _gelu_slope),
}


def _aligned(x: Array, gamma: Array) -> Any:
    """Returns the learned slopes, broadcast along the channels."""
    need(x.ndim > 1 and gamma.shape in (x.shape[1:2], (1,)))
    return gamma.reshape(-1, *(1,) * (x.ndim - 2))


def _leaky_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                    gamma: Array | None = None) -> list[Any]:
    kind, out_grad = p["act_type"], out_grads[0]
    need(kind != "rrelu")
    if kind != "prelu":
        return [out_grad * _LEAKY[kind][1](p, x)]
    if gamma is None:
        raise Unknown
    slopes = _aligned(x, gamma)
    return [out_grad * _slopes(x, np.broadcast_to(slopes, x.shape).copy()) if needs_grad[0] else None,
            summed_to(_where(~(x > 0), out_grad * x), slopes.shape).reshape(gamma.shape) if needs_grad[1] else None]


@numpy_form("LeakyReLU", backward=_leaky_backward, work=lambda p, x, *gamma: Work(
    math.prod(x) * (8 if p["act_type"] in ("elu", "selu", "gelu") else 3)),
            reads=lambda p, needs_grad: [True, needs_grad[0]][:len(needs_grad)])
def _leaky(p: dict[str, Any], x: Array, gamma: Array | None = None) -> Any:
    kind = p["act_type"]
    need(kind != "rrelu" and x.size)
    if kind != "prelu":
        return _LEAKY[kind][0](p, x)
    if gamma is None:
        raise Unknown
    return _leaking(x, _aligned(x, gamma))


# ------------------------------------------------------------ dropout
def _kept(p: dict[str, Any], x: Array) -> Any:
    """Returns the factors of dropout, (0 or 1) / (1 - p); None if it is not active."""
    if p["p"] == 0 or not (p["_train"] or p["mode"] == "always"):
        return None
    key = p.get("_key", ())
    need(p["p"] < 1 and len(key) == 1)  # drawn on the host
    return np.asarray(key[0]) * x.dtype.type(1 / (np.float32(1) - np.float32(p["p"])))


def _dropout_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    need(out_grads[0] is not None)
    mask = _kept(p, x)
    return [out_grads[0] if mask is None else out_grads[0] * mask]


@numpy_form("Dropout", backward=_dropout_backward, reads=lambda p, needs_grad: [False])
def _dropout(p: dict[str, Any], x: Array) -> Any:
    mask = _kept(p, x)
    out = x[...] if mask is None else x * mask
    if not p["output_mask"]:
        return out
    return out, np.zeros_like(x) if mask is None else np.broadcast_to(mask, x.shape)
