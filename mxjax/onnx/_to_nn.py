"""Export of layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._export import ExportedNode, converter, definite
from ._to_elemwise import reduce

_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign"}


def _window(c: ExportedNode) -> dict[str, Any]:
    """Attributes of a sliding window."""
    dims = len(c.p["kernel"])
    layout = c.p.get("layout")
    c.need(layout is None or layout.startswith("NC"), f"layout {layout}; ONNX has channels first")
    pad = list(c.p["pad"] or (0,) * dims)
    return {"kernel_shape": list(c.p["kernel"]), "strides": list(c.p["stride"] or (1,) * dims), "pads": pad + pad}


@converter("Convolution", "Convolution_v1")
def _convolution(c: ExportedNode) -> str:
    return c.op("Conv", *c.inputs, **_window(c), dilations=list(c.p["dilate"] or (1,) * len(c.p["kernel"])),
                group=c.p["num_group"])


@converter("Deconvolution")
def _deconvolution(c: ExportedNode) -> str:
    window, dims = _window(c), len(c.p["kernel"])
    dilate, adjust = list(c.p["dilate"] or (1,) * dims), list(c.p["adj"] or (0,) * dims)
    if c.p["target_shape"]:
        sizes = c.static(c.shape()[2:], "the size of the image")
        over = [s * (n - 1) + d * (k - 1) + 1 - t for n, k, s, d, t in zip(
            sizes, window["kernel_shape"], window["strides"], dilate, c.p["target_shape"], strict=True)]
        window["pads"], adjust = [(o + 1) // 2 for o in over] * 2, [o % 2 for o in over]
    return c.op("ConvTranspose", *c.inputs, **window, dilations=dilate, group=c.p["num_group"], output_padding=adjust)


@converter("FullyConnected")
def _fully_connected(c: ExportedNode) -> str:
    data = c.inputs[0]
    if c.p["flatten"] or c.ndim() == 2:
        data = data if c.ndim() == 2 else c.op("Flatten", data, axis=1)
        return c.op("Gemm", data, *c.inputs[1:], transB=1)
    product = c.op("MatMul", data, c.op("Transpose", c.inputs[1], perm=[1, 0]))
    return c.op("Add", product, c.inputs[2]) if c.has(2) else product


@converter("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def _batch_norm(c: ExportedNode) -> str:
    c.need(c.p.get("axis", 1) in (1, 1 - c.ndim()) or c.ndim() == 2, f"axis {c.p.get('axis')}")
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    data, gamma, *others = c.inputs
    if c.p["fix_gamma"]:
        gamma = c.const(np.ones(c.static(c.shape(1)), c.dtype(1)), c.dtype(1))
    result = c.op("BatchNormalization", data, gamma, *others, epsilon=float(c.p["eps"]))
    return c.op("Relu", result) if c.op_type.endswith("ReLU") else result


@converter("Pooling", "Pooling_v1")
def _pooling(c: ExportedNode) -> str:
    pool_type, data = c.p["pool_type"], c.inputs[0]
    c.need(pool_type in ("max", "avg", "sum", "lp"), f"pool_type {pool_type}")
    c.need((c.p.get("layout") or "NC").startswith("NC"), f"layout {c.p.get('layout')}")
    power = {"p": int(c.p["p_value"])} if pool_type == "lp" else {}
    if c.p["global_pool"]:
        if pool_type == "sum":
            return reduce(c, "ReduceSum", data, list(range(2, c.ndim())), True)
        op_types = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}
        return c.op(op_types[pool_type], data, **power)
    window, full = _window(c), c.p["pooling_convention"] == "full"
    c.need(c.p["pooling_convention"] in ("valid", "full"), f"pooling_convention {c.p['pooling_convention']}")
    counted = c.p.get("count_include_pad") in (None, True) or pool_type == "sum"
    sizes, results = definite(c.shape()[2:]), definite(c.out_shape()[2:])
    if full and sizes is not None and results is not None:
        pads = window["pads"][:len(c.p["kernel"])]
        steps = list(zip(sizes, results, c.p["kernel"], window["strides"], pads, strict=True))
        full = any((out - 1) * s + k > n + 2 * p for n, out, k, s, p in steps)
        # the largest values of ONNX are those inside
        if full and (pool_type != "max" or any(k < s + p for _, _, k, s, p in steps)):
            return _full_pooling(c, window, counted, sizes, results)
    c.need(not full or pool_type in ("max", "avg"),
           f"pool_type {pool_type!r} with pooling_convention 'full', and dynamic shapes")
    if pool_type == "lp":
        return c.op("LpPool", data, **window, **power)
    window["ceil_mode"] = int(full)
    if pool_type == "max":
        return c.op("MaxPool", data, **window)
    result = c.op("AveragePool", data, **window, count_include_pad=int(counted))
    return result if pool_type == "avg" else c.op("Mul", result, c.scalar(math.prod(c.p["kernel"])))


def _full_pooling(c: ExportedNode, window: dict[str, Any], counted: bool, sizes: tuple[int, ...],
                  results: tuple[int, ...]) -> str:
    """Pooling whose last windows may reach beyond the padding, or lie there as a whole, which ONNX does not have: the
    image is padded until they fit.
    """
    pool_type = c.p["pool_type"]
    kernel, strides, pads = window["kernel_shape"], window["strides"], window.pop("pads")[:len(sizes)]
    ends = [(out - 1) * s + k - n - p for out, s, k, n, p in zip(results, strides, kernel, sizes, pads, strict=True)]
    least = (np.iinfo if c.dtype().kind in "iu" else np.finfo)(c.dtype()).min if pool_type == "max" else 0
    data = c.op("Pad", c.inputs[0], c.const([0, 0, *pads, 0, 0, *ends]), c.scalar(least))
    if pool_type == "max":
        return c.op("MaxPool", data, **window)
    if pool_type == "lp":
        return c.op("LpPool", data, **window, p=int(c.p["p_value"]))
    result = c.op("Mul", c.op("AveragePool", data, **window), c.scalar(math.prod(kernel)))
    if pool_type == "sum":
        return result
    counts = np.ones(())
    for out, s, k, n, p in zip(results, strides, kernel, sizes, pads, strict=True):
        begin = np.arange(out) * s - p
        end = np.minimum(begin + k, n + p)
        along = end - begin if counted else np.minimum(end, n) - np.maximum(begin, 0)
        counts = counts[..., None] * along
    return c.op("Div", result, c.const(np.where(counts == 0, 1, counts), c.dtype()))


@converter("_contrib_AdaptiveAvgPooling2D")
def _adaptive(c: ExportedNode) -> str:
    size = c.p["output_size"] or (1, 1)
    size = tuple(size) * (2 if len(size) == 1 else 1)
    if size == (1, 1):
        return c.op("GlobalAveragePool", c.inputs[0])
    image = c.static(c.shape()[2:], "the size of the image")
    c.need(not any(n % k for n, k in zip(image, size, strict=True)), f"an output {size} that does not divide {image}")
    steps = [n // k for n, k in zip(image, size, strict=True)]
    return c.op("AveragePool", c.inputs[0], kernel_shape=steps, strides=steps)


@converter("Activation")
def _activation(c: ExportedNode) -> str:
    return c.op(_ACTIVATIONS[c.p["act_type"]], c.inputs[0])


def gelu(c: ExportedNode, data: str) -> str:
    """x · (1 + erf(x / sqrt 2)) / 2."""
    half = c.op("Mul", data, c.scalar(0.5))
    return c.op("Mul", half, c.op("Add", c.op("Erf", c.op("Mul", data, c.scalar(0.5 ** 0.5))), c.scalar(1)))


@converter("LeakyReLU")
def _leaky_relu(c: ExportedNode) -> str:
    act_type, data, slope = c.p["act_type"], c.inputs[0], float(c.p["slope"])
    if act_type == "gelu":
        return gelu(c, data)
    if act_type == "selu":
        return c.op("Selu", data)
    if act_type == "prelu":
        alpha = c.inputs[1]
        if c.ndim(1) == 1 and c.ndim() > 2:
            alpha = c.op("Reshape", alpha, c.const([-1] + [1] * (c.ndim() - 2)))
        return c.op("PRelu", data, alpha)
    if act_type == "rrelu":
        slope = float(c.p["lower_bound"] + c.p["upper_bound"]) / 2
    return c.op("Elu" if act_type == "elu" else "LeakyRelu", data, alpha=slope)


def _softmax(c: ExportedNode, data: str, axis: int) -> str:
    op_type = {"softmax": "Softmax", "softmin": "Softmax", "log_softmax": "LogSoftmax"}[c.op_type]
    if c.p["temperature"] not in (None, 1.0):
        data = c.op("Div", data, c.scalar(c.p["temperature"]))
    if c.op_type == "softmin":
        data = c.op("Neg", data)
    return c.op(op_type, data, axis=axis)


@converter("softmax", "softmin", "log_softmax")
def _softmaxes(c: ExportedNode) -> str:
    axis = c.axis(c.p["axis"])
    data = c.inputs[0]
    if c.p.get("use_length"):
        shape = c.const([1 if i == axis else 0 for i in range(c.ndim())])
        lengths = c.op("Unsqueeze", c.cast(c.inputs[1], "int64"), c.const([axis]))
        numbers = c.op("Range", c.const(0), c.op("Squeeze", c.dims(data, [axis]), c.const([0])), c.const(1))
        numbers = c.op("Reshape", numbers, c.const([-1 if i == axis else 1 for i in range(c.ndim())]))
        inside = c.op("Less", numbers, c.op("Reshape", lengths, shape))
        result = _softmax(c, c.op("Where", inside, data, c.scalar(-1e30 if c.dtype() != np.float16 else -6e4)), axis)
        result = c.op("Where", inside, result, c.scalar(0))
    else:
        result = _softmax(c, data, axis)
    return result if c.out_dtype() == c.dtype() else c.cast(result, c.out_dtype())


@converter("SoftmaxOutput", "SoftmaxActivation")
def _softmax_output(c: ExportedNode) -> str:
    channel = c.p.get("multi_output") or c.p.get("mode") == "channel"
    return c.op("Softmax", c.inputs[0], axis=1 if channel else -1)


converter("LogisticRegressionOutput")(lambda c: c.op("Sigmoid", c.inputs[0]))
converter("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput")(lambda c: c.op("Identity", c.inputs[0]))
converter("Dropout")(lambda c: c.op("Identity", c.inputs[0]))


@converter("LayerNorm")
def _layer_norm(c: ExportedNode) -> str:
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    axis, (data, gamma, beta) = c.axis(c.p["axis"]), c.inputs
    if axis == c.ndim() - 1:
        return c.op("LayerNormalization", data, gamma, beta, axis=-1, epsilon=float(c.p["eps"]))
    centred = c.op("Sub", data, reduce(c, "ReduceMean", data, [axis], True))
    variance = reduce(c, "ReduceMean", c.op("Mul", centred, centred), [axis], True)
    normal = c.op("Div", centred, c.op("Sqrt", c.op("Add", variance, c.scalar(c.p["eps"]))))
    shape = c.const([-1] + [1] * (c.ndim() - axis - 1))
    return c.op("Add", c.op("Mul", normal, c.op("Reshape", gamma, shape)), c.op("Reshape", beta, shape))


@converter("InstanceNorm")
def _instance_norm(c: ExportedNode) -> str:
    return c.op("InstanceNormalization", *c.inputs, epsilon=float(c.p["eps"]))


@converter("GroupNorm")
def _group_norm(c: ExportedNode) -> str:
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    groups, (data, gamma, beta) = c.p["num_groups"], c.inputs
    ones, zeros = (c.const(np.full(groups, n), c.dtype()) for n in (1, 0))
    grouped = c.op("Reshape", data, c.const([0, groups, -1]))
    normal = c.op("InstanceNormalization", grouped, ones, zeros, epsilon=float(c.p["eps"]))
    shape = c.const([-1] + [1] * (c.ndim() - 2))
    if c.shape(1) != (c.shape()[1],):  # one factor for each group
        grouped = c.op("Add", c.op("Mul", normal, c.op("Reshape", gamma, c.const([-1, 1]))),
                       c.op("Reshape", beta, c.const([-1, 1])))
        return c.op("Reshape", grouped, c.op("Shape", data))
    normal = c.op("Reshape", normal, c.op("Shape", data))
    return c.op("Add", c.op("Mul", normal, c.op("Reshape", gamma, shape)), c.op("Reshape", beta, shape))


@converter("L2Normalization")
def _l2_normalization(c: ExportedNode) -> str:
    axes = {"instance": list(range(1, c.ndim())), "channel": [1], "spatial": list(range(2, c.ndim()))}[c.p["mode"]]
    total = reduce(c, "ReduceSum", c.op("Mul", c.inputs[0], c.inputs[0]), axes, True)
    return c.op("Div", c.inputs[0], c.op("Sqrt", c.op("Add", total, c.scalar(c.p["eps"]))))


@converter("LRN")
def _lrn(c: ExportedNode) -> str:
    return c.op("LRN", c.inputs[0], alpha=float(c.p["alpha"]), beta=float(c.p["beta"]), bias=float(c.p["knorm"]),
                size=c.p["nsize"])


def _turned(c: ExportedNode, index: int, wanted: bool) -> str:
    """An input with its last two axes exchanged, where that is wanted."""
    n = c.ndim(index)
    return c.op("Transpose", c.inputs[index], perm=[*range(n - 2), n - 1, n - 2]) if wanted else c.inputs[index]


@converter("dot", "batch_dot", "_npi_matmul", "_np_dot")
def _dot(c: ExportedNode) -> str:
    left, right = (bool(c.p.get(name)) for name in ("transpose_a", "transpose_b"))
    plain = c.op_type in ("batch_dot", "_npi_matmul") or (c.ndim(1) <= 2 and not (left and c.ndim(0) != 2))
    c.need(plain and not (right and c.ndim(1) < 2), f"a product of {c.ndim(0)} and {c.ndim(1)} dimensions")
    result = c.op("MatMul", _turned(c, 0, left), _turned(c, 1, right))
    return c.op("Reshape", result, c.const([1])) if c.op_type == "dot" and c.ndim(0) == c.ndim(1) == 1 else result


@converter("_linalg_gemm2", "_linalg_gemm")
def _gemm(c: ExportedNode) -> str:
    c.need(c.p["axis"] == -2, "axis other than -2")
    product = c.op("MatMul", _turned(c, 0, c.p["transpose_a"]), _turned(c, 1, c.p["transpose_b"]))
    if c.p["alpha"] != 1:
        product = c.op("Mul", product, c.scalar(c.p["alpha"]))
    return c.op("Add", product, c.op("Mul", c.inputs[2], c.scalar(c.p["beta"]))) if c.has(2) else product


def _heads(c: ExportedNode, index: int, parts: int) -> list[str]:
    """(time, batch, heads · parts · size) as `parts` values (batch, heads, time, size)."""
    split = c.op("Reshape", c.inputs[index], c.const([0, 0, c.p["heads"], parts, -1]))
    turned = c.op("Transpose", split, perm=[3, 1, 2, 0, 4])
    result = c.op("Split", turned, outputs=parts, axis=0) if parts > 1 else [turned]
    return [c.op("Squeeze", name, c.const([0])) for name in result]


def _flat_heads(c: ExportedNode, data: str) -> str:
    """(batch, heads, a, b) -> (batch · heads, a, b)."""
    tail = c.op("Slice", c.op("Shape", data), c.const([2]), c.const([4]))
    return c.op("Reshape", data, c.op("Concat", c.const([-1]), tail, axis=0))


@converter("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def _attention_scores(c: ExportedNode) -> str:
    query, key = _heads(c, 0, 3)[:2] if "selfatt" in c.op_type else (_heads(c, 0, 1)[0], _heads(c, 1, 2)[0])
    size = c.op("Cast", c.op("Slice", c.op("Shape", query), c.const([3]), c.const([4])), to=1)
    query = c.op("Div", query, c.op("Sqrt", size) if c.dtype() == np.float32 else c.cast(c.op("Sqrt", size), c.dtype()))
    return _flat_heads(c, c.op("MatMul", query, c.op("Transpose", key, perm=[0, 1, 3, 2])))


@converter("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def _attention_values(c: ExportedNode) -> str:
    values = _heads(c, 0, 3 if "selfatt" in c.op_type else 2)[-1]
    tail = c.op("Slice", c.op("Shape", c.inputs[1]), c.const([1]), c.const([3]))
    attention = c.op("Reshape", c.inputs[1], c.op("Concat", c.const([-1, c.p["heads"]]), tail, axis=0))
    result = c.op("Transpose", c.op("MatMul", attention, values), perm=[2, 0, 1, 3])
    return c.op("Reshape", result, c.const([0, 0, -1]))


@converter("UpSampling")
def _up_sampling(c: ExportedNode) -> str:
    c.need(c.p["sample_type"] == "nearest" and len(c.inputs) == 1, "sample_type 'bilinear', or several inputs")
    scales = c.const([1, 1, c.p["scale"], c.p["scale"]], np.float32)
    return c.op("Resize", c.inputs[0], "", scales, mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")


@converter("_contrib_BilinearResize2D")
def _bilinear_resize(c: ExportedNode) -> str:
    size = c.static(c.out_shape()[2:], "the size of the result")
    sizes = c.op("Concat", c.dims(c.inputs[0], [0, 1]), c.const(size), axis=0)
    corners = c.p.get("align_corners", True)
    return c.op("Resize", c.inputs[0], "", "", sizes, mode="linear",
                coordinate_transformation_mode="align_corners" if corners else "half_pixel")
