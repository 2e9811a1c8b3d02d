"""Activation functions: Activation and the LeakyReLU family."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._random.mersenne import Source
from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, broadcast, in_float, need_float
from ..infer import elementwise, exact, first, known, unify
from ..params import Scalar
from ..random import _draw
from ..registry import get, register


def _softplus_series(x: Array) -> Array:
    """log(1 + e) is 2 atanh(e / (2 + e)): a series, in a quarter of the time of XLA's log1p."""
    e = jnp.exp(-jnp.abs(x))
    ratio = e * lax.integer_pow(e + 2, -1)  # up to 1/3
    square, total = ratio * ratio, x.dtype.type(1 / 15)
    for odd in range(13, 0, -2):
        total = total * square + x.dtype.type(1 / odd)
    return jnp.maximum(x, 0) + 2 * ratio * total


def _gelu(x: Array) -> Array:
    """By erf on CPUs, whose loops vectorize it, elsewhere by erfc: a TPU keeps less of it for the backward pass."""
    return by_device(x, cpu=lambda x: x * 0.5 * (1 + lax.erf(x * np.sqrt(0.5).astype(x.dtype))),
                     default=functools.partial(jax.nn.gelu, approximate=False))


@jax.custom_jvp
def _softplus(x: Array) -> Array:
    series = _softplus_series if x.dtype == jnp.float32 else jax.nn.softplus
    return by_device(x, cpu=series, default=jax.nn.softplus)


_softplus.defjvps(lambda tangent, y, x: tangent * jax.nn.sigmoid(x))  # JAX's takes six times as long on a CPU

_ACTIVATIONS = {
    "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "softrelu": _softplus, "softsign": jax.nn.soft_sign,
    "tanh": jnp.tanh, "log_sigmoid": lambda x: -_softplus(-x), "mish": lambda x: x * jnp.tanh(_softplus(x)),
}


@register("Activation", aliases=("_npx_activation",), infer_shape=elementwise,
          keeps_result_when=lambda p: p["act_type"] == "relu")
def activation(data: Array, *, act_type: Literal["log_sigmoid", "mish", "relu", "sigmoid", "softrelu", "softsign",
                                                 "tanh"]) -> Array:
    """Applies an element-wise activation function.

    relu: max(x, 0); sigmoid: 1 / (1 + exp(-x)); softrelu: log(1 + exp(x)); softsign: x / (1 + |x|); tanh;
    log_sigmoid: the logarithm of sigmoid; mish: x·tanh(softrelu(x)).
    data: any shape, float -> the same shape and dtype.
    """
    need_float("Activation", data)
    function = _ACTIVATIONS[act_type]
    return function(data) if act_type == "relu" else in_float(function, data)


def _leaky(data: Array, slope: Any) -> Array:
    """x where positive, slope·x elsewhere (also at 0, so that the derivative there is the slope)."""
    return jnp.where(data > 0, data, data * slope)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@jax.custom_jvp
def _selu(data: Array) -> Array:
    return jnp.where(data > 0, _SELU_SCALE * data, _SELU_SCALE * _SELU_ALPHA * jnp.expm1(data))


# MXNet's slope for negative x is scale·(alpha + y); the derivative would be scale·alpha + y.
_selu.defjvps(lambda tangent, y, x: tangent * _SELU_SCALE * jnp.where(x > 0, 1, _SELU_ALPHA + y))


def _channel_aligned(gamma: Array, data: Array) -> Array:
    """gamma with axes of size 1 added, so that it lines up with the first two axes of data."""
    shape, rest = [1] * data.ndim, list(gamma.shape)
    for axis in reversed(range(min(2, data.ndim))):
        if rest and rest[-1] in (data.shape[axis], 1):
            shape[axis] = rest.pop()
    if rest:
        raise MXNetError(f"LeakyReLU: gamma of shape {gamma.shape} does not broadcast to data of shape {data.shape}")
    return gamma.reshape(shape)


def _leaky_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    for i, out in enumerate(outs):
        ins[0] = outs[i] = unify(ins[0], out)
    if params["act_type"] == "prelu" and ins[0] is not None and known(ins[0][1:2]) and ins[1] is None:
        ins[1] = ins[0][1:2]


def _is_random(params: dict[str, Any]) -> bool:
    return params["act_type"] == "rrelu"


def _slopes(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
    """FDraw of LeakyReLU: the slopes of rrelu."""
    data = inputs[0]
    if not (train and _is_random(params)):
        return None
    dtype, low = np.dtype(data.dtype), np.float32(params["lower_bound"])
    drawn = source.parallel_uniform(math.prod(data.shape), dtype != np.float32).astype(dtype)
    return (drawn * dtype.type(np.float32(params["upper_bound"]) - low) + dtype.type(low)).reshape(data.shape)


@register("LeakyReLU", FDraw=_slopes, aliases=("_npx_leaky_relu",), infer_shape=_leaky_shapes,
          FPartialShape=exact(first, lambda p, x, *gamma: not gamma or gamma[0] in (x[1:2], (1,))),
          FResourceRequest=("random",), train_when=_is_random,
          inputs=lambda p: ["data", "gamma"] if p["act_type"] == "prelu" else ["data"],
          num_outputs=lambda p: 1 + _is_random(p),
          output_names=lambda p: ["output", "mask"][:1 + _is_random(p)])
def leaky_relu(data: Array, gamma: Array | None = None, *,
               act_type: Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"] = "leaky", slope: Scalar = 0.25,
               lower_bound: Scalar = 0.125, upper_bound: Scalar = 0.333999991, _train: bool = False,
               _key: Any = None) -> Array | tuple[Array, Array]:
    """x where positive; elsewhere

    leaky: slope·x; prelu: gamma·x with a learnt gamma for each channel (axis 1); elu: slope·(exp(x) - 1);
    selu: the self-normalizing elu (arXiv:1706.02515); rrelu: s·x with s drawn from [lower_bound, upper_bound] in
    training, and their mean otherwise (arXiv:1505.00853; s is the second output). gelu is x times the cumulative normal
    distribution function of x (arXiv:1606.08415).

    data: any shape, float; gamma: (channel,) or broadcastable to the first two axes -> the shape of data.
    """
    need_float("LeakyReLU", data)
    factor, low, high = (jnp.asarray(v).astype(data.dtype) for v in (slope, lower_bound, upper_bound))
    if act_type == "rrelu":
        if isinstance(_key, _draw.Drawn) and _train:
            slopes = _key.values
        elif _train:
            slopes = low + (high - low) * _draw.uniform(_key, data.shape, data.dtype)
        else:
            slopes = jnp.broadcast_to((low + high) / 2, data.shape)
        return _leaky(data, slopes), slopes
    if act_type == "prelu":
        return _leaky(data, broadcast(_channel_aligned(cast(Array, gamma), data), data.shape))
    if act_type == "elu":
        return in_float(lambda x: jnp.where(x > 0, x, factor.astype(x.dtype) * jnp.expm1(jnp.where(x > 0, 0, x))), data)
    return _leaky(data, factor) if act_type == "leaky" else in_float({"selu": _selu, "gelu": _gelu}[act_type], data)


# The learnt slope starts at 0.25 (arXiv:1502.01852) by default.
get("LeakyReLU").set_attr("FSetInputVarAttrOnCompose", {"gamma": {"__init__": '["Constant", {"value": 0.25}]'}})
