"""Importers of ONNX operators: layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..symbol import Symbol
from ._folding import every_input
from ._import import ImportedNode, importer

importer("MatMul")(lambda c: c.op("_npi_matmul", c.sym(0), c.sym(1)))
importer("Einsum")(lambda c: c.op("_npi_einsum", *every_input(c), subscripts=c.attr("equation").replace(" ", "")))
importer("GlobalAveragePool")(lambda c: c.op("Pooling", c.sym(0), kernel=(1, 1), global_pool=True, pool_type="avg"))
importer("GlobalLpPool")(lambda c: _lp_pooling(c, c.sym(0), kernel=(1, 1), global_pool=True))
importer("GlobalMaxPool")(lambda c: c.op("Pooling", c.sym(0), kernel=(1, 1), global_pool=True, pool_type="max"))
importer("LRN")(lambda c: c.op("LRN", c.sym(0), alpha=c.attr("alpha", 1e-4), beta=c.attr("beta", 0.75),
                               knorm=c.attr("bias", 1.0), nsize=c.attr("size")))
importer("InstanceNormalization")(lambda c: c.op("InstanceNorm", c.sym(0), c.sym(1), c.sym(2),
                                                 eps=c.attr("epsilon", 1e-5)))


@importer("Softmax", "LogSoftmax")
def _softmax(c: ImportedNode) -> Symbol:
    axis, shape = c.attr("axis", -1 if c.opset >= 13 else 1), c.shape(0)
    name = "softmax" if c.op_type == "Softmax" else "log_softmax"
    if c.opset >= 13 or axis == -1 or shape is not None and axis % len(shape) == len(shape) - 1:
        return c.op(name, c.sym(0), axis=axis)
    if axis < 0:
        axis %= len(c.given(shape, "an axis from the end of an unknown shape"))
    flat = c.op("Reshape", c.sym(0), shape=(*(0,) * axis, -1))  # all axes from this one on are one
    return c.op("reshape_like", c.op(name, flat, axis=-1), c.sym(0))


@importer("Hardmax")
def _hardmax(c: ImportedNode) -> Symbol:
    axis, shape = c.attr("axis", -1 if c.opset >= 13 else 1), c.given(c.shape(0), "an unknown shape")
    axis %= len(shape)
    if c.opset < 13:  # all axes from this one on are one
        flat = c.op("Reshape", c.sym(0), shape=(math.prod(shape[:axis]), -1))
        one = c.op("one_hot", c.op("argmax", flat, axis=1), depth=math.prod(shape[axis:]))
        return c.op("Reshape", one, shape=shape)
    one = c.op("one_hot", c.op("argmax", c.sym(0), axis=axis), depth=shape[axis])
    order = list(range(len(shape) - 1))
    return c.op("transpose", one, axes=(*order[:axis], len(shape) - 1, *order[axis:]))


@importer("LpNormalization")
def _lp_normalization(c: ImportedNode) -> Symbol:
    norm = c.op("norm", c.sym(0), ord=c.attr("p", 2), axis=c.attr("axis", -1), keepdims=True)
    return c.op("broadcast_div", c.sym(0), norm + (norm == 0))  # nothing stays nothing


def _padded(c: ImportedNode, kernel: Sequence[int], fill: float = 0.0) -> tuple[Symbol, tuple[int, ...]]:
    """Returns (data, padding): unequal padding is added to the data beforehand."""
    dims, mode = len(kernel), c.attr("auto_pad", "NOTSET")
    pads = c.attr("pads", (0,) * (2 * dims))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        shape = c.given(c.shape(0), f"auto_pad {mode} of an unknown shape")
        strides, dilations = (c.attr(name, (1,) * dims) for name in ("strides", "dilations"))
        total = [max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
                 for n, k, s, d in zip(shape[2:], kernel, strides, dilations, strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = (*small, *large) if mode == "SAME_UPPER" else (*large, *small)
    if pads[:dims] == pads[dims:]:
        return c.sym(0), tuple(pads[:dims])
    width = [0, 0, 0, 0, *(n for pair in zip(pads[:dims], pads[dims:], strict=True) for n in pair)]
    return c.op("Pad", c.sym(0), mode="constant", pad_width=tuple(width), constant_value=fill), (0,) * dims


@importer("Conv")
def _conv(c: ImportedNode) -> Symbol:
    weight = c.given(c.shape(1), "weights of an unknown shape")
    kernel = c.attr("kernel_shape", weight[2:])
    data, pad = _padded(c, kernel)
    rest = [c.sym(i) for i in range(1, len(c.inputs)) if c.has(i)]
    return c.op("Convolution", data, *rest, kernel=kernel, stride=c.attr("strides", ()), pad=pad,
                dilate=c.attr("dilations", ()), num_filter=weight[0], num_group=c.attr("group", 1),
                no_bias=len(rest) == 1)


@importer("ConvTranspose")
def _conv_transpose(c: ImportedNode) -> Symbol:
    weight = c.given(c.shape(1), "weights of an unknown shape")
    kernel = c.attr("kernel_shape", weight[2:])
    pads = c.attr("pads", (0,) * (2 * len(kernel)))
    c.need(pads[:len(kernel)] == pads[len(kernel):] and c.attr("auto_pad", "NOTSET") == "NOTSET"
           and "output_shape" not in c.attrs, "uneven padding, auto_pad or output_shape")
    rest = [c.sym(i) for i in range(1, len(c.inputs)) if c.has(i)]
    return c.op("Deconvolution", c.sym(0), *rest, kernel=kernel, stride=c.attr("strides", ()),
                pad=pads[:len(kernel)], dilate=c.attr("dilations", ()), adj=c.attr("output_padding", ()),
                num_filter=weight[1] * c.attr("group", 1), num_group=c.attr("group", 1), no_bias=len(rest) == 1)


@importer("MaxPool", "AveragePool", "LpPool")
def _pool(c: ImportedNode) -> Symbol:
    pool_type = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[c.op_type]
    kernel = c.attr("kernel_shape")
    data, pad = _padded(c, kernel, -3e38 if pool_type == "max" else 0.0)
    counted = bool(c.attr("count_include_pad", 0))
    c.need(pool_type == "max" or data is c.sym(0) or counted, "uneven padding that does not count")
    c.need(set(c.attr("dilations", (1,))) == {1}, "dilations")
    strides, full = c.attr("strides", (1,) * len(kernel)), bool(c.attr("ceil_mode", 0))
    window = {"kernel": kernel, "stride": strides, "pad": pad, "pooling_convention": "full" if full else "valid"}
    if pool_type == "lp":
        result = _lp_pooling(c, data, **window)
    else:
        extra = {"count_include_pad": counted} if pool_type == "avg" else {}
        result = c.op("Pooling", data, pool_type=pool_type, **window, **extra)
    if not full or all(k >= s + p for k, s, p in zip(kernel, strides, pad, strict=True)):
        return result  # no window can begin behind the image
    c.need(c.shape(0) is not None, "ceil_mode with such strides and an unknown shape")
    _, outs, _ = data.infer_shape_partial(**{k: v for k, v in c.shapes.items() if k in data.list_inputs()})
    for axis, (n, k, s, p) in enumerate(zip(outs[0][2:], kernel, strides, pad, strict=True), 2):
        count = -(-(n + 2 * p - k) // s) + 1
        if (count - 1) * s >= n + p:  # MXNet's last window, but not ONNX's, may begin behind the image
            result = c.op("slice_axis", result, axis=axis, begin=0, end=count - 1)
    return result


def _lp_pooling(c: ImportedNode, data: Symbol, **window: Any) -> Symbol:
    """The p-th root of the sum of |x|^p."""
    power = c.attr("p", 2)
    total = c.op("Pooling", c.op("_power_scalar", c.op("abs", data), scalar=power), pool_type="sum", **window)
    return c.op("_power_scalar", total, scalar=1 / power)


@importer("BatchNormalization")
def _batch_norm(c: ImportedNode) -> Symbol:
    result = c.op("BatchNorm", *(c.sym(i) for i in range(5)), fix_gamma=False, eps=c.attr("epsilon", 1e-5),
                  momentum=c.attr("momentum", 0.9))
    return result[0]


@importer("LayerNormalization")
def _layer_norm(c: ImportedNode) -> Symbol:
    c.need(c.attr("axis", -1) == -1 or (c.shape(0) or ())[c.attr("axis"):] == (c.shape(0) or (0,))[-1:], "several axes")
    beta = c.sym(2) if c.has(2) else \
        c.param(np.zeros(c.given(c.shape(1), "a scale of an unknown shape"), np.float32), "beta")
    return c.op("LayerNorm", c.sym(0), c.sym(1), beta, axis=-1, eps=c.attr("epsilon", 1e-5))


@importer("GroupNormalization")
def _group_norm(c: ImportedNode) -> Symbol:
    groups, eps = c.attr("num_groups"), c.attr("epsilon", 1e-5)
    if c.shape(1) == (groups,):
        return c.op("GroupNorm", c.sym(0), c.sym(1), c.sym(2), num_groups=groups, eps=eps)
    shape = c.given(c.shape(0), "factors for channels of an unknown shape")
    one, nothing = (c.param(np.full(groups, n, np.float32), name) for n, name in ((1, "gamma"), (0, "beta")))
    scale, shift = (c.op("Reshape", c.sym(i), shape=(1, -1, *(1,) * (len(shape) - 2))) for i in (1, 2))
    normal = c.op("GroupNorm", c.sym(0), one, nothing, num_groups=groups, eps=eps)
    return c.op("broadcast_add", c.op("broadcast_mul", normal, scale), shift)


@importer("Gemm")
def _gemm(c: ImportedNode) -> Symbol:
    alpha, beta = c.attr("alpha", 1.0), c.attr("beta", 1.0)
    left, right, weight = bool(c.attr("transA", 0)), bool(c.attr("transB", 0)), c.shape(1)
    bias = c.shape(2) if c.has(2) else None
    if alpha == beta == 1 and right and not left and weight is not None and bias in (None, weight[:1]):
        rest = [c.sym(i) for i in range(1, 2 + c.has(2))]
        return c.op("FullyConnected", c.sym(0), *rest, num_hidden=weight[0], no_bias=not c.has(2), flatten=False)
    product = c.op("dot", c.sym(0), c.sym(1), transpose_a=left, transpose_b=right) * alpha
    return c.op("broadcast_add", product, c.sym(2) * beta) if c.has(2) else product


@importer("Resize", "Upsample")
def _resize(c: ImportedNode) -> Symbol:
    what = "data of an unknown shape, or not of 4 dimensions"
    shape, last = c.given(c.shape(0), what), len(c.inputs) - 1
    c.need(len(shape) == 4, what)
    if c.has(3):
        size = c.value(3)[2:].tolist()
    else:
        scales = c.value(last) if last else np.asarray(c.attr("scales"))
        size = [int(n * s) for n, s in zip(shape[2:], scales[2:].tolist(), strict=True)]
    default = "half_pixel" if c.opset >= 11 else "asymmetric"
    places = c.attr("coordinate_transformation_mode", default)
    if c.attr("mode", "nearest") == "nearest":
        rounding = c.attr("nearest_mode", "round_prefer_floor" if c.opset >= 11 else "floor")
        c.need((places, rounding) == ("asymmetric", "floor") or places == "half_pixel" and rounding.startswith("round"),
               f"nearest neighbours with {places} and {rounding}")
        c.need(size[0] // shape[2] == size[1] // shape[3] and not size[0] % shape[2] and not size[1] % shape[3],
               f"nearest neighbours from {shape[2:]} to {size}")
        return c.op("UpSampling", c.sym(0), scale=size[0] // shape[2], sample_type="nearest", num_args=1)
    c.need(c.attr("mode") == "linear" and places in ("half_pixel", "align_corners") and not c.attr("antialias", 0),
           f"mode {c.attr('mode')} with {places}")
    return c.op("_contrib_BilinearResize2D", c.sym(0), height=size[0], width=size[1],
                align_corners=places == "align_corners")
