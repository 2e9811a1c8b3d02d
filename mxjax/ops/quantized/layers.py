"""Layers of quantized networks: 8-bit integers in, 32-bit or 8-bit integers out, with ranges (see `conversion`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax

from ..._xla.processor import multiplies_bytes
from ...base import MXNetError
from ..by_device import BYTE_CONVOLUTION, MOST_KERNEL, by_device
from ..common import Array, no_gradient, size_of
from ..infer import filled, first, mark
from ..nn._correlation import dimension_numbers
from ..nn.convolution import (
    Layout,
    _check_spatial,
    _checked,
    _convolved,
    _grouped,
    _has_windows,
    _per_axis,
    _pooled,
    _pooling,
    _weight_shape,
    convolution,
)
from ..nn.layers import fully_connected_data, fully_connected_shape
from ..nn.recurrent import _inputs as rnn_inputs
from ..nn.recurrent import _outputs as rnn_outputs
from ..nn.recurrent import output_shapes as rnn_shapes
from ..nn.recurrent import rnn
from ..np.rearranging import npx_reshape
from ..params import Count, Double, DType, Fraction, Lengths, Shape
from ..registry import get, register
from ..shape.rearranging import reshape
from .conversion import BYTES, larger, need, quantized, ranged, steps, types

_OUTPUTS = {"num_outputs": 3, "output_names": lambda p: ["output", "min_output", "max_output"],
            "FGradient": no_gradient}
_RANGES = ("min_data", "max_data", "min_weight", "max_weight", "min_bias", "max_bias", "min_lhs", "max_lhs")


def _one(p: dict[str, Any], x: tuple) -> tuple[int]:
    return (1,)


def _layer_inputs(p: dict[str, Any]) -> list[str]:
    names = ["data", "weight"] if p["no_bias"] else ["data", "weight", "bias"]
    return names + [f"{edge}_{name}" for name in names for edge in ("min", "max")]


def _layer_types(operator: str, **allowed: tuple[str, ...]) -> Any:
    return types("int32", operator, dict.fromkeys(("data", "weight", "bias"), "int8"), weight=("int8",),
                 bias=("int8",), **allowed)


def _parts(operator: str, no_bias: bool, *arrays: Array | None) -> dict[str, Array]:
    """The inputs by name; without a bias those behind it come earlier.

    Raises:
        MXNetError: one is not of the dtype that it must have.
    """
    a = dict(zip(_layer_inputs({"no_bias": no_bias}), [a for a in arrays if a is not None], strict=True))
    need(operator, BYTES, data=a["data"])
    need(operator, ("int8",), weight=a["weight"], bias=a.get("bias"))
    return a


def _product_range(data: Array, a: dict[str, Array]) -> Array:
    """The end of the range of the int32 product."""
    unit = 255 if data.dtype == jnp.uint8 else 127
    return larger(a["min_data"], a["max_data"]) / unit * (larger(a["min_weight"], a["max_weight"]) / 127) * 2.0**31


def _bias(a: dict[str, Array]) -> Array:
    """The bias in steps of the product."""
    scale = {name: steps(a[name].dtype) / larger(a[f"min_{name}"], a[f"max_{name}"])
             for name in ("data", "weight", "bias")}
    return (a["bias"].astype(jnp.float32) * (scale["data"] * scale["weight"] / scale["bias"])).astype(jnp.int32)


def _same(data: Array, weight: Array) -> tuple[Array, Array]:
    """Both as int8, or where the data are uint8 as int32: XLA multiplies equal dtypes."""
    return (data, weight) if data.dtype == weight.dtype else (data.astype(jnp.int32), weight.astype(jnp.int32))


def _signed(data: Array) -> Array:
    """uint8 as int8: each number less 128. Accelerators multiply int8 fast, and no mixed dtypes."""
    return lax.bitcast_convert_type(data ^ jnp.uint8(128), jnp.int8)


def _product(left: Array, right: Array) -> Array:
    """left · rightᵀ over the last axes, exact in int32; right is an int8 matrix."""
    def product(left: Array, right: Array) -> Array:
        return lax.dot_general(left, right, (((left.ndim - 1,), (1,)), ((), ())), preferred_element_type=jnp.int32)

    def of_bytes(left: Array, right: Array) -> Array:
        if left.dtype == right.dtype:
            return product(left, right)
        return product(_signed(left), right) + 128 * right.sum(1, dtype=jnp.int32)
    return by_device(left, right, cpu=lambda left, right: product(*_same(left, right)), default=of_bytes)


def _in_floats(data: Array, weight: Array, axes: tuple[int, int], native: Callable[[Array, Array], Array],
               **params: Any) -> Array:
    """An integer convolution by float ones, which XLA has fast: exact, for no sum reaches 2**24.

    axes: of the channels in data and weight; where a sum could become larger, they are taken in several parts.
    native: the convolution of integers, if the sum cannot be divided. params: of `Convolution`.
    """
    channels = weight.shape[axes[1]]
    largest = (255 if data.dtype == jnp.uint8 else 128) * 128 * (math.prod(weight.shape[1:]) // channels)  # per channel
    step = 2**24 // largest

    def floats(*arrays: Array) -> Array:
        out = convolution(*(a.astype(jnp.float32) for a in arrays), **params)
        return jnp.rint(out).astype(jnp.int32)  # a GPU's library may take a transform that rounds
    if step >= channels:
        return floats(data, weight)
    if step == 0 or params["num_group"] > 1:
        return native(data, weight)
    parts = [floats(*(lax.slice_in_dim(a, k, min(k + step, channels), axis=axis)
                      for a, axis in zip((data, weight), axes, strict=True))) for k in range(0, channels, step)]
    return sum(parts[1:], parts[0])


def _multiplied_as_bytes(data: Array, weight: Array, kernel: tuple, dilate: tuple, pad: tuple) -> bool:
    """Returns whether oneDNN has a fast implementation of a convolution of these 8-bit integers, exact on this
    processor.
    """
    return multiplies_bytes() and math.prod(kernel) <= MOST_KERNEL and \
        all(isinstance(n, int) and n for n in (*data.shape, *weight.shape)) and \
        all(2 * p <= d * (k - 1) for k, d, p in zip(kernel, dilate, pad, strict=True))


@functools.lru_cache(maxsize=1024)
def _of_bytes(stride: tuple, dilate: tuple, pad: tuple, groups: int, numbers: tuple[str, str, str]) -> Callable:
    """The convolution as a function that a pass makes oneDNN's."""
    def function(data: Array, weight: Array) -> Array:
        return lax.conv_general_dilated(
            data.astype(jnp.int32), weight.astype(jnp.int32), stride, [(p, p) for p in pad], rhs_dilation=dilate,
            dimension_numbers=numbers, feature_group_count=groups)
    function.__name__ = BYTE_CONVOLUTION
    return jax.jit(function)


class _Integers(NamedTuple):
    """Convolutions of 8-bit integers in int32.

    numbers: JAX's description of the layouts; stride, dilate, pad: for each spatial axis; groups: their number.
    """

    numbers: tuple[str, str, str]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]
    groups: int

    @property
    def axes(self) -> list[int]:
        """The spatial axes of the data."""
        return [axis for axis, name in enumerate(self.numbers[0]) if name not in "NC"]

    def native(self, data: Array, weight: Array, around: tuple[int, ...] | None = None) -> Array:
        """Convolves integers as XLA does; around: another padding."""
        return lax.conv_general_dilated(
            *_same(data, weight), self.stride, [(p, p) for p in (self.pad if around is None else around)],
            rhs_dilation=self.dilate, dimension_numbers=self.numbers, feature_group_count=self.groups,
            preferred_element_type=jnp.int32)

    def of_bytes(self, data: Array, weight: Array) -> Array:
        """Convolves int8, uint8 data as well."""
        if data.dtype == weight.dtype:
            return self.native(data, weight)
        edges = [(0, 0, 0)] * data.ndim
        for axis, count in zip(self.axes, self.pad, strict=True):
            edges[axis] = (count, count, 0)
        padded = lax.pad(_signed(data), jnp.int8(-128), edges)  # zero as int8
        sums = weight.sum(tuple([i for i, name in enumerate(self.numbers[1]) if name != "O"]), dtype=jnp.int32)
        channel = self.numbers[0].index("C")
        return self.native(padded, weight, (0,) * len(self.pad)) + 128 * jnp.expand_dims(sums, [
            axis for axis in range(data.ndim) if axis != channel])

    def as_product(self, data: Array, weight: Array) -> Array:
        """Convolves windows of one place, without padding and groups."""
        index = [slice(None)] * data.ndim
        for axis, count in zip(self.axes, self.stride, strict=True):
            index[axis] = slice(None, None, count)
        channel = self.numbers[0].index("C")
        rows = jnp.moveaxis(data[tuple(index)], channel, -1)
        return jnp.moveaxis(_product(rows, weight.reshape(len(weight), -1)), -1, channel)


@register("_contrib_quantized_conv", **_OUTPUTS, inputs=_layer_inputs, infer_type=_layer_types("quantized_conv"),
          infer_shape=filled(weight=_weight_shape, bias=lambda p, x: (p["num_filter"],),
                             **dict.fromkeys(_RANGES, _one)), FPartialShape=ranged(_convolved, _grouped))
def quantized_conv(data: Array, weight: Array, bias: Array | None = None, min_data: Array | None = None,
                   max_data: Array | None = None, min_weight: Array | None = None, max_weight: Array | None = None,
                   min_bias: Array | None = None, max_bias: Array | None = None, *,
                   kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = (),
                   num_filter: Count, num_group: Count = 1, workspace: int = 1024, no_bias: bool = False,
                   cudnn_tune: Literal["fastest", "limited_workspace", "off"] | None = None, cudnn_off: bool = False,
                   layout: Layout = None) -> tuple[Array, Array, Array]:
    """`Convolution` of int8 or uint8 data with int8 weight and bias, exact in int32; with the ranges of all of them."""
    a = _parts("quantized_conv", no_bias, data, weight, bias, min_data, max_data, min_weight, max_weight, min_bias,
               max_bias)
    dims = len(kernel)
    _check_spatial("quantized_conv", data.shape, kernel)
    numbers = dimension_numbers(dims, layout)

    steps = _Integers(numbers, _per_axis("stride", stride, dims, 1), _per_axis("dilate", dilate, dims, 1),
                      _per_axis("pad", pad, dims, 0), num_group)

    def floats(data: Array, weight: Array) -> Array:
        return _in_floats(data, weight, (numbers[0].index("C"), numbers[1].index("I")), steps.native,
                          kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_filter=num_filter,
                          num_group=num_group, layout=layout)

    def library(data: Array, weight: Array) -> Array:
        checked = _checked(data, weight, None, kernel, stride, dilate, pad, num_filter, num_group, layout)
        if not _multiplied_as_bytes(data, weight, kernel, *checked[1:]):
            return floats(data, weight)
        return _of_bytes(*checked, num_group, numbers)(data, weight)

    # of 8-bit integers cuDNN's convolutions have floats as results; a product is cuBLAS's
    on_gpu = floats if num_group > 1 or max(kernel) > 1 or any(steps.pad) else steps.as_product
    out = by_device(data, weight, cpu=floats, onednn=library, cuda=on_gpu, rocm=floats, default=steps.of_bytes)
    edge = _product_range(data, a)
    if not no_bias:
        bias = _bias(a)
        out = out + (bias if numbers[2][-1] == "C" else bias.reshape(-1, *(1,) * dims))
    return out, -edge, edge


@register("_contrib_quantized_fully_connected", **_OUTPUTS, inputs=_layer_inputs,
          infer_type=_layer_types("quantized_fully_connected", data=BYTES),
          infer_shape=filled(fully_connected_data,
                             weight=lambda p, x: (p["num_hidden"], size_of(x[1:]) if p["flatten"] else x[-1]),
                             bias=lambda p, x: (p["num_hidden"],), **dict.fromkeys(_RANGES, _one)),
          FPartialShape=ranged(fully_connected_shape, lambda p, x, *_: len(x) > 0))
def quantized_fully_connected(data: Array, weight: Array, bias: Array | None = None, min_data: Array | None = None,
                              max_data: Array | None = None, min_weight: Array | None = None,
                              max_weight: Array | None = None, min_bias: Array | None = None,
                              max_bias: Array | None = None, *, num_hidden: Count, no_bias: bool = False,
                              flatten: bool = True) -> tuple[Array, Array, Array]:
    """`FullyConnected` of int8 or uint8 data with int8 weight and bias, exact in int32; with the ranges of them."""
    a = _parts("quantized_fully_connected", no_bias, data, weight, bias, min_data, max_data, min_weight, max_weight,
               min_bias, max_bias)
    out = _product(data.reshape(len(data), -1) if flatten else data, weight)
    edge = _product_range(data, a)
    return out if no_bias else out + _bias(a), -edge, edge


def _through(operator: str) -> dict[str, Any]:
    return {**_OUTPUTS, "infer_type": types(lambda p, ins: ins[0], operator),
            "infer_shape": lambda p, ins, outs: ins.__setitem__(slice(1, 3), [(1,), (1,)])}


@register("_contrib_quantized_act", FPartialShape=ranged(first, lambda p, *_: p["act_type"] == "relu"),
          **_through("quantized_act"))
def quantized_act(data: Array, min_data: Array, max_data: Array, *,
                  act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]) -> tuple[Array, Array, Array]:
    """`Activation` of integers; only relu, as in MXNet."""
    if act_type != "relu":
        raise MXNetError(f"operator quantized_act supports act_type 'relu' only, got {act_type!r}")
    need("quantized_act", BYTES, data=data)
    return jnp.maximum(data, 0), min_data, max_data


@register("_contrib_quantized_flatten",
          FPartialShape=ranged(lambda p, x, *_: (*x[:1], size_of(x[1:])), lambda p, x, *_: len(x) > 0, False),
          **_through("quantized_flatten"))
def quantized_flatten(data: Array, min_data: Array, max_data: Array) -> tuple[Array, Array, Array]:
    """`Flatten` of integers."""
    return data.reshape(len(data), size_of(data.shape[1:])), min_data, max_data


@register("_contrib_quantized_reshape", aliases=("quantized_reshape",), **_through("quantized_reshape"))
def classic_quantized_reshape(data: Array, min_data: Array, max_data: Array, *, shape: Shape = (),
                              reverse: bool = False, target_shape: Shape = (),
                              keep_highest: bool = False) -> tuple[Array, Array, Array]:
    """`Reshape` of integers."""
    return reshape(data, shape=shape, reverse=reverse, target_shape=target_shape, keep_highest=keep_highest), \
        min_data, max_data


@register("_npx_quantized_reshape", **_through("quantized_reshape"))
def quantized_reshape(data: Array, min_data: Array, max_data: Array, *, newshape: Shape, reverse: bool = False,
                      order: str = "C") -> tuple[Array, Array, Array]:
    """`npx.reshape` of integers."""
    return npx_reshape(data, newshape=newshape, reverse=reverse, order=order), min_data, max_data


@register("_npx_quantized_transpose", aliases=("_contrib_quantized_transpose", "quantized_transpose"),
          **_through("quantized_transpose"))
def quantized_transpose(data: Array, min_data: Array, max_data: Array, *,
                        axes: Shape | None = None) -> tuple[Array, Array, Array]:
    """`np.transpose` of integers."""
    need("quantized_transpose", BYTES, data=data)
    if axes is not None and sorted(a % max(data.ndim, 1) for a in axes) != list(range(data.ndim)):
        raise MXNetError(f"operator quantized_transpose: axes={axes} must contain each axis of {data.shape} exactly "
                         "once")
    return jnp.transpose(data, axes), min_data, max_data


@register("_contrib_quantized_pooling", FPartialShape=ranged(
    _pooled, lambda p, x, *_: _has_windows(p, x) and p["pool_type"] in ("avg", "max")), **_through("quantized_pooling"))
def quantized_pooling(data: Array, min_data: Array, max_data: Array, *, kernel: Lengths = (),
                      pool_type: Literal["avg", "lp", "max", "sum"] = "max", global_pool: bool = False,
                      cudnn_off: bool = False, pooling_convention: Literal["full", "same", "valid"] = "valid",
                      stride: Lengths = (), pad: Shape = (), p_value: int | None = None,
                      count_include_pad: bool | None = None, layout: Layout = None) -> tuple[Array, Array, Array]:
    """`Pooling` of integers: the maximum, or the rounded average."""
    if pool_type not in ("max", "avg"):
        raise MXNetError(f"operator quantized_pooling supports pool_type 'max' and 'avg' only, got {pool_type!r}")
    need("quantized_pooling", BYTES, data=data)
    pooled = _pooling(data.astype(jnp.float32), kernel=kernel, pool_type=pool_type, global_pool=global_pool,
                      pooling_convention=pooling_convention, stride=stride, pad=pad,
                      count_include_pad=count_include_pad, layout=layout)
    return quantized(pooled, data.dtype), min_data, max_data


@register("_contrib_quantized_embedding", **_OUTPUTS,
          infer_type=types("int8", "quantized_embedding", {"weight": "int8"}, weight=("int8",)),
          infer_shape=filled(weight=lambda p, x: (p["input_dim"], p["output_dim"]), min_weight=_one, max_weight=_one))
def quantized_embedding(data: Array, weight: Array, min_weight: Array, max_weight: Array, *, input_dim: Count,
                        output_dim: Count, dtype: DType = "float32",
                        sparse_grad: bool = False) -> tuple[Array, Array, Array]:
    """`Embedding` with int8 weight."""
    need("quantized_embedding", ("int8",), weight=weight)
    return jnp.take(weight, data.astype(jnp.int32), axis=0, mode="clip"), min_weight, max_weight


def _concat_inputs(p: dict[str, Any]) -> list[str]:
    names = [f"arg{i}" for i in range(p["num_args"])]
    return names + [f"{name}_{edge}" for name in names for edge in ("min", "max")]


def _concat_types(p: dict[str, Any], ins: list, outs: list) -> None:
    count = p["num_args"]
    need("quantized_concat", BYTES, **{f"arg{i}": dtype for i, dtype in enumerate(ins[:count])})
    need("quantized_concat", ("float32",), **dict(zip(_concat_inputs(p)[count:], ins[count:], strict=False)))
    ins[count:] = ["float32"] * len(ins[count:])
    outs[:] = [t or d for t, d in zip(outs, ("int8" if "int8" in ins[:count] else ins[0], "float32", "float32"),
                                      strict=True)]


@register("_contrib_quantized_concat", **_OUTPUTS, variadic="num_args", inputs=_concat_inputs,
          infer_type=_concat_types)
def quantized_concat(*data: Array, num_args: int, dim: int = 1) -> tuple[Array, Array, Array]:
    """`Concat` of integers, brought to a common range; data: the arrays, then minimum and maximum of each."""
    arrays, lows, highs = data[:num_args], data[num_args::2], data[num_args + 1::2]
    need("quantized_concat", BYTES, **{f"arg{i}": a for i, a in enumerate(arrays)})
    dtype = jnp.int8 if any(a.dtype == jnp.int8 for a in arrays) else arrays[0].dtype
    low = jnp.minimum(jnp.concatenate([v.reshape(1) for v in lows]).min(), 0).reshape(1)
    high = jnp.maximum(jnp.concatenate([v.reshape(1) for v in highs]).max(), 0).reshape(1)
    scale = steps(dtype) / larger(low, high)
    parts = [quantized(a.astype(jnp.float32) * (scale / (steps(a.dtype) / larger(lo, hi))), dtype)
             for a, lo, hi in zip(arrays, lows, highs, strict=True)]
    return jnp.concatenate(parts, dim), low, high


_PAIR = {**_OUTPUTS, "infer_shape": lambda p, ins, outs: ins.__setitem__(slice(2, 6), [(1,)] * 4)}


def _calibrated(p: dict[str, Any]) -> bool:
    return p["min_calib_range"] is not None and p["max_calib_range"] is not None


def _sum_type(p: dict[str, Any], ins: list) -> str:
    return ("uint8" if ins[:2] == ["uint8", "uint8"] else "int8") if _calibrated(p) else "int32"


@register("_contrib_quantized_elemwise_add", **_PAIR, FPartialShape=ranged(first),
          infer_type=types(_sum_type, "quantized_elemwise_add", lhs=BYTES, rhs=BYTES))
def quantized_elemwise_add(lhs: Array, rhs: Array, lhs_min: Array, lhs_max: Array, rhs_min: Array, rhs_max: Array, *,
                           min_calib_range: float | None = None,
                           max_calib_range: float | None = None) -> tuple[Array, Array, Array]:
    """The sum of integers: 8 bits for a calibrated range, else int32 for the sum of the ranges."""
    need("quantized_elemwise_add", BYTES, lhs=lhs, rhs=rhs)
    known = {"min_calib_range": min_calib_range, "max_calib_range": max_calib_range}
    dtype = _sum_type(known, [str(lhs.dtype), str(rhs.dtype)])
    edges = larger(lhs_min, lhs_max), larger(rhs_min, rhs_max)
    if _calibrated(known):
        edge, low, high = larger(min_calib_range, max_calib_range), min_calib_range, max_calib_range
    else:
        edge = edges[0] + edges[1]
        low, high = -edge, edge
    total = cast(Array, sum(a.astype(jnp.float32) * (e / edge * (steps(dtype) / steps(a.dtype)))
                            for a, e in zip((lhs, rhs), edges, strict=True)))
    low, high = (jnp.asarray(v, jnp.float32).reshape(1) for v in (low, high))
    return quantized(total, dtype), low, high


def _product_type(p: dict[str, Any], ins: list) -> str:
    return "float32" if p["enable_float_output"] else "int8" if _calibrated(p) else "int32"


@register("_contrib_quantized_elemwise_mul", **_PAIR, FPartialShape=ranged(first),
          infer_type=types(_product_type, "quantized_elemwise_mul"),
          num_visible=lambda p: 1 if p["enable_float_output"] else 3)
def quantized_elemwise_mul(lhs: Array, rhs: Array, lhs_min: Array, lhs_max: Array, rhs_min: Array, rhs_max: Array, *,
                           min_calib_range: float | None = None, max_calib_range: float | None = None,
                           enable_float_output: bool = False) -> tuple[Array, Array, Array]:
    """The product of 8-bit integers: as floats, as int8 for a calibrated range, or exact in int32."""
    need("quantized_elemwise_mul", BYTES, lhs=lhs, rhs=rhs)
    product = lhs.astype(jnp.int32) * rhs.astype(jnp.int32)
    edges = larger(lhs_min, lhs_max), larger(rhs_min, rhs_max)
    level = edges[0] / steps(lhs.dtype) * (edges[1] / steps(rhs.dtype))
    zero = jnp.zeros(1, jnp.float32)
    if enable_float_output:
        return product.astype(jnp.float32) * level, zero, zero
    if min_calib_range is not None and max_calib_range is not None:
        scaled = product.astype(jnp.float32) * (level * (127.5 / larger(min_calib_range, max_calib_range)))
        return scaled.astype(jnp.int32).astype(jnp.int8), zero + min_calib_range, zero + max_calib_range
    edge = edges[0] / int(steps(lhs.dtype)) * (edges[1] / int(steps(rhs.dtype))) * 2.0**31
    return product, -edge, edge


@register("_contrib_quantized_batch_norm", **_OUTPUTS, FPartialShape=ranged(first),
          infer_type=types("int8", "quantized_batch_norm", data=BYTES), mutates=("moving_mean", "moving_var"),
          infer_shape=filled(**dict.fromkeys(("gamma", "beta", "moving_mean", "moving_var"),
                                             lambda p, x: (x[p["axis"]],)), min_data=_one, max_data=_one))
def quantized_batch_norm(data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array,
                         min_data: Array, max_data: Array, *, eps: Double = 1e-3, momentum: float = 0.9,
                         fix_gamma: bool = True, use_global_stats: bool = False, output_mean_var: bool = False,
                         axis: int = 1, cudnn_off: bool = False, min_calib_range: float | None = None,
                         max_calib_range: float | None = None) -> tuple[Array, ...]:
    """`BatchNorm` of integers with the moving mean and variance, as int8 for a calibrated range."""
    if min_calib_range is None or max_calib_range is None:
        raise MXNetError("operator quantized_batch_norm requires min_calib_range and max_calib_range")
    need("quantized_batch_norm", BYTES, data=data)
    edge = larger(min_calib_range, max_calib_range)
    factor = gamma / jnp.sqrt(moving_var + eps)
    scale = factor * (larger(min_data, max_data) / edge)
    shift = (beta - moving_mean * factor) * (127.5 / edge)
    values = data if data.dtype == jnp.int8 else quantized(data.astype(jnp.float32) * (127.5 / 255.5), jnp.int8)
    shape = [-1 if i == axis % data.ndim else 1 for i in range(data.ndim)]
    out = quantized(values.astype(jnp.float32) * scale.reshape(shape) + shift.reshape(shape), jnp.int8)
    edges = (jnp.full(1, v, jnp.float32) for v in (min_calib_range, max_calib_range))
    return out, *edges, moving_mean, moving_var


def _rnn_inputs(p: dict[str, Any]) -> list[str]:
    return [*rnn_inputs(p), "data_scale", "data_shift"]


def _rnn_types(p: dict[str, Any], ins: list, outs: list) -> None:
    ins[:] = [t or ("uint8" if i == 0 else "float32") for i, t in enumerate(ins)]
    outs[:] = [t or "float32" for t in outs]


def _rnn_shapes(p: dict[str, Any], ins: list, outs: list, names: Any = ()) -> None:
    get("RNN").get_attr("FInferShape")(p, ins, outs, names)
    ins[-2:] = [(1,), (1,)]


mark(_rnn_shapes, wants_names=True)


@register("_contrib_quantized_rnn", FPartialShape=rnn_shapes, inputs=_rnn_inputs, infer_type=_rnn_types,
          infer_shape=_rnn_shapes,
          num_outputs=lambda p: len(rnn_outputs(p)), output_names=rnn_outputs)
def quantized_rnn(data: Array, parameters: Array, state: Array, state_cell: Array | None = None,
                  data_scale: Array | None = None, data_shift: Array | None = None, *,
                  state_size: Count, num_layers: Count, bidirectional: bool = False,
                  mode: Literal["gru", "lstm", "rnn_relu", "rnn_tanh"], p: Fraction = 0.0, state_outputs: bool = False,
                  projection_size: int | None = None, lstm_state_clip_min: Double | None = None,
                  lstm_state_clip_max: Double | None = None, lstm_state_clip_nan: bool = False,
                  use_sequence_length: bool = False) -> Array | tuple[Array, ...]:
    """`RNN` of data that `quantize_asym` made uint8, with their scale and shift (1,); computed in floats."""
    if use_sequence_length:
        raise MXNetError("operator quantized_rnn does not support use_sequence_length")
    *rest, scale, shift = (a for a in (parameters, state, state_cell, data_scale, data_shift) if a is not None)
    return rnn((data.astype(jnp.float32) - shift) / scale, *rest, state_size=state_size, num_layers=num_layers,
               bidirectional=bidirectional, mode=mode, state_outputs=state_outputs, projection_size=projection_size,
               lstm_state_clip_min=lstm_state_clip_min, lstm_state_clip_max=lstm_state_clip_max,
               lstm_state_clip_nan=lstm_state_clip_nan)
