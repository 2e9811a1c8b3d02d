"""Sensible arguments: by a parameter's name and type, and for operators whose arguments belong together, one by one."""

import re

import hunt_recipes_rest

NONE = object()  # leave the parameter out
INDEX_NAMES = {"indices", "index", "label", "idx", "a_indices", "condition", "sequence_length"}
NUMBERS = (0.5, 1.0, 2.0, -1.0, 0.0, 0.25, 3, 1, 2, 1e-3)
DTYPE_NAMES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8")


def parameter(d, target, name, kind, shape):
    """A value for the parameter `name` of type `kind`, where the first input has `shape`; NONE leaves it out."""
    nd = len(shape)
    axis = lambda: d.int(-nd, nd - 1) if nd and not d.once_in(12) else d.int(-nd - 1, nd + 1)
    axes = lambda: {"tuple": sorted({d.int(0, max(nd - 1, 0)) - nd * d.once_in(4) for _ in range(d.int(0, 3))})}
    if kind.startswith("{"):
        choices = re.findall(r"'([^']*)'|None", kind.split("}")[0])
        named = [c for c in choices if c and c not in ("None", "bfloat16")]
        return d.of(named + [None] * (target.numpy and "None" in kind.split("}")[0]) or [""])
    if name in ("axis", "dim", "axis1", "axis2", "dim1", "dim2", "start_axis", "batch_axis"):
        if kind.startswith("Shape"):
            return d.of([axis, axes, axes, lambda: None])()
        if "None" in kind and d.once_in(4):
            return None
        if kind.startswith(",") and d.once_in(4):
            return d.of([axes, lambda: None])()
        return axis()
    if name in ("num_weights", "num_tensors", "num_arrays", "num_args"):  # 0 ends MXNet's process
        return d.int(1, 3)
    if name in ("axes",):
        order = list(range(nd))
        for i in range(nd - 1, 0, -1):
            j = d.int(0, i)
            order[i], order[j] = order[j], order[i]
        return d.of([{"tuple": order}, {"tuple": order}, axes()])
    if name in ("source", "destination"):
        return axis()
    if name == "dtype":
        named = d.of(DTYPE_NAMES + (("bool",) if target.numpy else ()))
        return d.of([named, named, {"type": named}])
    if name in ("shape", "newshape", "size", "dimensions", "new_shape", "dims"):
        return d.of([{"tuple": list(reversed(shape))}, {"tuple": [-1]}, {"tuple": list(shape) + [1]},
                     {"tuple": [0, -1]}, {"tuple": [d.int(1, 3) for _ in range(d.int(0, 3))]}, d.int(1, 6),
                     {"tuple": [-1] + list(shape)[1:]}, {"tuple": [d.int(-4, 3) for _ in range(d.int(1, 3))]}])
    if name in ("begin", "end", "step"):
        return {"tuple": [d.of([None, 0, 1, 2, -1, 3]) if name != "step" else d.of([None, 1, 2, -1])
                          for _ in range(nd)]}
    if name in ("reps", "repeats"):
        return d.of([d.int(0, 3), {"tuple": [d.int(1, 2) for _ in range(nd)]}]) if name == "reps" else d.int(0, 3)
    if name == "pad_width":
        if target.numpy:
            return {"tuple": [{"tuple": [d.int(0, 2), d.int(0, 2)]} for _ in range(nd)]}
        return {"tuple": [0, 0, 0, 0] + [d.int(0, 2) for _ in range(2 * max(nd - 2, 0))]}
    if name in ("indices_or_sections", "sections", "num_outputs"):
        return d.of([1, 2, 3, {"tuple": [1]}, {"tuple": [1, 2]}] if name != "num_outputs" else [1, 2, 3])
    if name in ("a_min", "a_max"):
        return d.of([-1.0, 0.5, 2.0, 0] + ([None] if target.numpy else []))
    if name in ("keepdims", "exclude", "squeeze_axis", "endpoint", "retstep", "increasing", "returned"):
        return d.once_in(2)
    if name in ("ddof", "k", "offset", "decimals", "n", "shift", "num", "N", "M", "m", "deg", "minlength", "kth"):
        return d.int(-2, 4) if name in ("k", "offset", "decimals", "shift") else d.int(0, 5)
    if name in ("x", "x1", "x2", "b", "a", "y", "v", "weights", "values", "to_end", "to_begin", "fill_value", "scalar",
                "obj", "indices", "q", "rhs", "lhs", "prepend", "append", "condition"):
        if kind.startswith(("float", "double")):
            return d.of(NUMBERS)
        return d.of([d.of(NUMBERS), d.int(-2, 3), {"array": {"shape": list(shape), "seed": d.int(0, 3)}},
                     {"array": {"shape": [2], "dtype": "int64", "values": "index"}}])
    if name in ("mode", "side", "kind", "interpolation", "method", "UPLO", "ord"):
        return d.of({"mode": ["clip", "wrap", "raise", "constant", "edge", "reflect", "valid", "full"],
                     "side": ["left", "right"], "kind": [None, "stable"], "UPLO": ["L", "U"],
                     "ord": [None, 1, 2, "fro", {"float": "inf"}]}.get(name, ["linear", "lower", "higher", "nearest",
                                                                          "midpoint"]))
    if kind.startswith("boolean") or re.search(r"default=(True|False)$", kind):
        return d.once_in(2)
    if kind.startswith("Shape") or "tuple of <long>" in kind:
        return {"tuple": [d.int(0, 3) for _ in range(d.int(1, 3))]}
    if kind.startswith("tuple of"):
        return {"tuple": [d.of(NUMBERS) for _ in range(d.int(1, 3))]}
    if kind.startswith(("int", "long")):
        return d.int(0 if "non-negative" in kind else -1, 4)
    if kind.startswith(("float", "double", "real")):
        return d.of(NUMBERS)
    if kind.startswith(","):
        return d.of([d.of(NUMBERS), d.int(-1, 4), d.once_in(2), NONE])
    return NONE


def _tensor(shape, **more):
    return dict({"shape": list(shape)}, **more)


def _index(shape, below=3, **more):
    return dict({"shape": list(shape), "values": "index", "below": below, "grad": False}, **more)


def _convolution(d):
    nd = d.of([1, 2, 2, 3])
    kernel, groups = [d.int(1, 3) for _ in range(nd)], d.of([1, 1, 2])
    filters, channels = 2 * d.int(1, 2), 2
    data = [d.int(1, 2), channels] + [d.int(3, 5) for _ in range(nd)]
    params = {"kernel": {"tuple": kernel}, "num_filter": filters, "num_group": groups}
    for name, low, high in (("stride", 1, 2), ("pad", 0, 2), ("dilate", 1, 2)):
        if d.once_in(3):
            params[name] = {"tuple": [d.int(low, high) for _ in range(nd)]}
    inputs = [_tensor(data), _tensor([filters, channels // groups] + kernel)]
    if d.once_in(2):
        params["no_bias"] = True
    else:
        inputs.append(_tensor([filters]))
    return inputs, params


def _deconvolution(d):
    inputs, params = _convolution(d)
    filters, groups, channels = params["num_filter"], params["num_group"], 2
    inputs[1]["shape"][:2] = [channels, filters // groups]
    params.setdefault("no_bias", False)
    nd = len(params["kernel"]["tuple"])
    if d.once_in(3):
        params["adj"] = {"tuple": [d.int(0, 1) for _ in range(nd)]}
    if d.once_in(6):
        params["target_shape"] = {"tuple": [d.int(3, 8) for _ in range(nd)]}
    return inputs, params


def _pooling(d):
    nd = d.of([1, 2, 2, 3])
    params = {"pool_type": d.of(["max", "avg", "sum", "lp"])}
    if params["pool_type"] == "lp":
        params["p_value"] = d.int(1, 3)
    if d.once_in(5):
        params["global_pool"] = True
    if not params.get("global_pool") or d.once_in(2):
        params["kernel"] = {"tuple": [d.int(1, 3) for _ in range(nd)]}
    for name, low, high in (("stride", 1, 3), ("pad", 0, 1)):
        if d.once_in(2):
            params[name] = {"tuple": [d.int(low, high) for _ in range(nd)]}
    if d.once_in(3):
        params["pooling_convention"] = d.of(["valid", "full", "same"])
    if d.once_in(3):
        params["count_include_pad"] = d.once_in(2)
    return [_tensor([d.int(1, 2), 2] + [d.int(3, 5) for _ in range(nd)])], params


def _dense(d):
    data, units = list(d.of([(2, 3), (2, 3, 2), (1, 4), (3,)])), d.int(1, 3)
    flatten = d.once_in(2)
    width = 1
    for n in data[1:] if flatten else data[-1:]:
        width *= n
    inputs = [_tensor(data), _tensor([units, width])]
    params = {"num_hidden": units, "flatten": flatten}
    if d.once_in(2):
        params["no_bias"] = True
    else:
        inputs.append(_tensor([units]))
    return inputs, params


def _norm_of(parts, stats=0):
    def make(d):
        data = list(d.of([(2, 3), (2, 3, 2), (2, 2, 3, 3), (1, 4)]))
        axis = d.of([1, 1, -1, 0])
        inputs = [_tensor(data)] + [_tensor([data[axis]]) for _ in range(parts)]
        inputs += [_tensor([data[axis]], values="positive", grad=False) for _ in range(stats)]
        params = {"axis": axis}
        if d.once_in(3):
            params["eps"] = d.of([1e-3, 1e-5, 0.1])
        return inputs, params
    return make


def _group_norm(d):
    groups = d.int(1, 2)
    data = [2, 4] + d.of([[], [3], [2, 2]])
    return [_tensor(data), _tensor([4]), _tensor([4])], {"num_groups": groups, "eps": d.of([1e-3, 1e-5])}


def _instance_norm(d):
    data = list(d.of([(2, 3, 2), (1, 2, 3, 3), (2, 3)]))
    return [_tensor(data), _tensor([data[1]]), _tensor([data[1]])], {"eps": d.of([1e-3, 1e-5])}


def _batch_norm(d):
    inputs, params = _norm_of(2, 2)(d)
    for name in ("fix_gamma", "use_global_stats", "output_mean_var"):
        if d.once_in(3):
            params[name] = d.once_in(2)
    params["momentum"] = d.of([0.9, 0.5])
    return inputs, params


def _rnn(d):
    mode, layers, both = d.of(["rnn_relu", "rnn_tanh", "lstm", "gru"]), d.int(1, 2), d.once_in(3)
    steps, batch, width, units = d.int(1, 3), d.int(1, 2), d.int(1, 2), d.int(1, 2)
    gates, sides, size = {"lstm": 4, "gru": 3}.get(mode, 1), 1 + both, 0
    for layer in range(layers):
        size += sides * gates * units * ((width if not layer else units * sides) + units + 2)
    inputs = [_tensor([steps, batch, width]), _tensor([size], values="unit"), _tensor([layers * sides, batch, units])]
    if mode == "lstm":
        inputs.append(_tensor([layers * sides, batch, units]))
    return inputs, {"mode": mode, "num_layers": layers, "bidirectional": both, "state_size": units,
                    "state_outputs": d.once_in(2)}


def _embedding(d):
    rows, width = d.int(2, 4), d.int(1, 3)
    return [_index(list(d.of([(2,), (2, 3), (1, 1)])), rows + d.of([0, 0, 2]),
                   dtype=d.of(["float32", "int32", "int64"])), _tensor([rows, width])], \
        {"input_dim": rows, "output_dim": width}


def _take(d):
    data = list(d.of([(3, 2), (3,), (2, 3, 2)]))
    axis = d.int(-len(data), len(data) - 1)
    return [_tensor(data), _index(list(d.of([(2,), (2, 2), (1,)])), 2 + 3 * d.once_in(3),
                                  dtype=d.of(["float32", "int32", "int64"]))], \
        {"axis": axis, "mode": d.of(["clip", "wrap", "clip"])}


def _pick(d):
    data = list(d.of([(2, 3), (3, 2), (2, 3, 2)]))
    axis, keep = d.int(-len(data), len(data) - 1), d.once_in(2)
    index = list(data)
    if keep:
        index[axis] = 1
    else:
        del index[axis]
    return [_tensor(data), _index(index, data[axis] + 2 * d.once_in(4), dtype=d.of(["float32", "int32"]))], \
        {"axis": axis, "keepdims": keep, "mode": d.of(["clip", "wrap"])}


def _gather_nd(d):
    depth = d.int(1, 2)
    return [_tensor([2, 3, 2]), _index([depth, d.int(1, 3)], 2, dtype=d.of(["float32", "int32", "int64"]))], {}


def _scatter_nd(d):
    depth, count = d.int(1, 2), d.int(1, 2)
    shape = [3, 2, 2]
    return [_tensor([count] + shape[depth:]), {"shape": [depth, count], "dtype": "int32", "grad": False,
            "data": [[i + (j if depth > 3 else 0) for i in range(count)] for j in range(depth)]}], \
        {"shape": {"tuple": shape}}


def _sequence(with_value):
    def make(d):
        use, axis = d.once_in(2), d.of([0, 0, 1])
        data = [3, 2] + d.of([[], [2], [1, 2]])
        if not with_value and with_value is not None:
            axis = 0
        inputs = [_tensor(data)]
        params = {"use_sequence_length": use, "axis": axis}
        if use:
            inputs.append({"shape": [data[1 - axis]], "grad": False, "values": "index", "below": data[axis],
                           "dtype": d.of(["float32", "int32"])})
        if with_value:
            params["value"] = d.of([0.0, -1.5])
        if with_value is False:
            params.pop("axis")
        return inputs, params
    return make


def _output(d):
    classes = d.int(2, 3)
    multi = d.once_in(3)
    data = [2, classes] + ([2] if multi else [])
    label = [2] + ([2] if multi else [])
    params = {"multi_output": True} if multi else {}
    for name, values in (("grad_scale", [0.5, 2.0]), ("use_ignore", [True]), ("ignore_label", [0, 1]),
                         ("normalization", ["batch", "valid", "null"]), ("out_grad", [True]), ("smooth_alpha", [0.1]),
                         ("preserve_shape", [True])):
        if d.once_in(4):
            params[name] = d.of(values)
    return [_tensor(data), _index(label, classes)], params


def _svm(d):
    return [_tensor([2, 3]), _index([2], 3)], {"margin": d.of([1.0, 0.5]), "use_linear": d.once_in(2),
                                             "regularization_coefficient": d.of([1.0, 0.5])}


def _regression(d):
    shape = list(d.of([(2, 3), (2, 1), (3,)]))
    return [_tensor(shape), _tensor(shape if not d.once_in(4) else shape[:1], grad=False)], \
        {"grad_scale": d.of([1.0, 0.5])}


def _dot(d):
    ta, tb, k = d.once_in(3), d.once_in(3), d.int(1, 3)
    left, right = ([k, 2] if ta else [2, k]), ([3, k] if tb else [k, 3])
    if d.once_in(5):
        left, ta = [k], False
    if d.once_in(5):
        right, tb = [k], False
    return [_tensor(left), _tensor(right)], {"transpose_a": ta, "transpose_b": tb}


def _batch_dot(d):
    ta, tb, k = d.once_in(3), d.once_in(3), d.int(1, 3)
    return [_tensor([2] + ([k, 2] if ta else [2, k])), _tensor([2] + ([3, k] if tb else [k, 3]))], \
        {"transpose_a": ta, "transpose_b": tb}


def _gemm(with_c):
    def make(d):
        ta, tb, k, batch = d.once_in(3), d.once_in(3), d.int(1, 3), d.of([[], [2]])
        inputs = [_tensor(batch + ([k, 2] if ta else [2, k])), _tensor(batch + ([3, k] if tb else [k, 3]))]
        params = {"transpose_a": ta, "transpose_b": tb, "alpha": d.of([1.0, 0.5])}
        if with_c:
            inputs.append(_tensor(batch + [2, 3]))
            params["beta"] = d.of([1.0, -0.5, 0.0])
        return inputs, params
    return make


def _square(**more):
    def make(d):
        return [_tensor(d.of([[2, 2], [3, 3], [2, 2, 2], [1, 1]]), **more)], {}
    return make


def _definite(d):
    n = d.int(1, 2)
    data = [[2.0]] if n == 1 else [[2.0, 0.5], [0.5, 1.0]]
    return [{"shape": [n, n], "data": data}], {}


def _triangle(d):
    right, t, lower = d.once_in(2), d.once_in(2), not d.once_in(3)
    data = [[2.0, 0.0], [0.5, 1.0]] if lower else [[2.0, 0.5], [0.0, 1.0]]
    return [{"shape": [2, 2], "data": data}, _tensor([3, 2] if right else [2, 3])], \
        {"rightside": right, "transpose": t, "lower": lower, "alpha": d.of([1.0, 0.5])}


def _slice(d):
    shape = list(d.of([(4,), (3, 4), (2, 3, 2)]))
    count = d.int(1, len(shape))
    ends = lambda: {"tuple": [d.of([None, 0, 1, 2, -1, -2, 4]) for _ in range(count)]}
    params = {"begin": ends(), "end": ends()}
    if d.once_in(2):
        params["step"] = {"tuple": [d.of([None, 1, 2, -1, -2]) for _ in range(count)]}
    return [_tensor(shape)], params


def _slice_axis(d):
    shape = list(d.of([(4,), (3, 4), (2, 3, 2)]))
    return [_tensor(shape)], {"axis": d.int(-len(shape), len(shape) - 1), "begin": d.int(-2, 2),
                              "end": d.of([None, 1, 2, 3, -1])}


def _slice_assign(d):
    inputs, params = _slice(d)
    return [inputs[0], _tensor([1] * len(inputs[0]["shape"]) if d.once_in(2) else inputs[0]["shape"])], params


def _concat(name):
    def make(d):
        shape = list(d.of([(2, 3), (2, 1, 3), (3,)]))
        axis, inputs = d.int(0, len(shape) - 1), []
        for _ in range(d.int(1, 3)):
            inputs.append(_tensor([d.int(1, 3) if i == axis else n for i, n in enumerate(shape)]))
        return inputs, {name: axis - (len(shape) if d.once_in(3) else 0)}
    return make


def _pad(d):
    shape = list(d.of([(1, 2, 3, 3), (1, 1, 2, 3, 2)]))
    mode = d.of(["constant", "edge", "reflect"])
    widths = [0, 0, 0, 0] + [d.int(0, 2) for _ in range(2 * len(shape) - 4)]
    return [_tensor(shape)], {"mode": mode, "pad_width": {"tuple": widths}, "constant_value": d.of([0.0, 1.5])}


def _pictures(extra=lambda d: {}, channels=(1, 2)):
    def make(d):
        return [_tensor([d.int(1, 2), d.of(channels), d.int(2, 4), d.int(2, 4)])], extra(d)
    return make


def _roi(d):
    rois = [[0, 0, 0, 2, 2], [0, 1, 1, 3, 2]][:d.int(1, 2)]
    return [_tensor([1, 2, 4, 4]), {"shape": [len(rois), 5], "data": rois, "grad": False}], \
        {"pooled_size": {"tuple": [d.int(1, 2), d.int(1, 2)]}, "spatial_scale": d.of([1.0, 0.5])}


def _update(states, low=False):
    """Optimizer updates: weight, gradient and so many states, all of one shape (low: states are float32 copies)."""
    def make(d):
        shape = list(d.of([(2, 3), (3,)]))
        inputs = [_tensor(shape, grad=False), _tensor(shape, grad=False)]
        inputs += [_tensor(shape, values="positive", grad=False) for _ in range(states)]
        if low:
            for i in inputs[2:]:
                i["dtype"] = "float32"
            for i in inputs[:2]:
                i["dtype"] = "float16"
        params = {"lr": d.of([0.1, 1.0, 0.01])}
        for name, values in (("wd", [0.1, 0.01]), ("rescale_grad", [0.5, 2.0]), ("clip_gradient", [0.5, 1.0])):
            if d.once_in(2):
                params[name] = d.of(values)
        return inputs, params
    return make


def _ctc(d):
    steps, batch, classes = 4, 2, 3
    return [_tensor([steps, batch, classes + 1]), {"shape": [batch, 2], "data": [[1, 2], [2, 0]], "grad": False}], \
        {"blank_label": "first"}


def _layer_axis(d):
    shape = list(d.of([(2, 3), (2, 3, 2), (3,)]))
    params = {"axis": d.int(-len(shape), len(shape) - 1)}
    if d.once_in(3):
        params["temperature"] = d.of([0.5, 2.0])
    if d.once_in(6):
        params["dtype"] = d.of(["float16", "float32", "float64"])
    return [_tensor(shape)], params


def _space(d):
    return [_tensor([1, 4, 2, 4])], {"block_size": d.of([1, 2])}


def _grid(d):
    kind = d.of(["affine", "warp"])
    return [_tensor([1, 6] if kind == "affine" else [1, 2, 2, 3])], {"transform_type": kind,
                                                                    "target_shape": {"tuple": [2, 3]}}


def _sampler(d):
    return [_tensor([1, 2, 3, 3]), _tensor([1, 2, 2, 2], values="unit")], {}


def _transformer(d):
    return [_tensor([1, 2, 3, 3]), _tensor([1, 6], values="unit")], \
        {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": {"tuple": [2, 3]}}


def _boxes(d):
    return [{"shape": [1, 3, 6], "grad": True, "data": [[[0, .9, 0, 0, 2, 2], [1, .8, 0, 0, 2, 1.5],
                                                         [0, .7, 1, 1, 3, 3]]]}], \
        {"overlap_thresh": d.of([0.1, 0.5]), "coord_start": 2, "score_index": 1, "id_index": d.of([-1, 0]),
         "force_suppress": d.once_in(2), "topk": d.of([-1, 2])}


def _iou(d):
    return [_tensor([2, 4], values="positive"), _tensor([3, 4], values="positive")], \
        {"format": d.of(["corner", "center"])}


RECIPES = {
    **hunt_recipes_rest.RECIPES,
    "Convolution": _convolution, "Convolution_v1": _convolution, "Deconvolution": _deconvolution, "Pooling": _pooling,
    "Pooling_v1": _pooling, "FullyConnected": _dense, "LayerNorm": _norm_of(2), "GroupNorm": _group_norm,
    "InstanceNorm": _instance_norm, "BatchNorm": _batch_norm, "RNN": _rnn, "Embedding": _embedding, "take": _take,
    "pick": _pick, "gather_nd": _gather_nd, "scatter_nd": _scatter_nd, "SequenceMask": _sequence(True),
    "SequenceLast": _sequence(None), "SequenceReverse": _sequence(False), "SoftmaxOutput": _output, "SVMOutput": _svm,
    "LinearRegressionOutput": _regression, "LogisticRegressionOutput": _regression,
    "MAERegressionOutput": _regression, "dot": _dot, "batch_dot": _batch_dot, "_linalg_gemm": _gemm(True),
    "_linalg_gemm2": _gemm(False), "_linalg_det": _square(), "_linalg_slogdet": _square(),
    "_linalg_inverse": _square(values="normal"), "_linalg_potrf": _definite, "_linalg_potri": _definite,
    "_linalg_sumlogdiag": _square(values="positive"), "_linalg_trmm": _triangle, "_linalg_trsm": _triangle,
    "_linalg_syrk": _square(), "slice": _slice, "slice_axis": _slice_axis, "_slice_assign": _slice_assign,
    "Concat": _concat("dim"), "stack": None, "Pad": _pad, "ROIPooling": _roi, "_contrib_ROIAlign": _roi,
    "sgd_update": _update(0), "sgd_mom_update": _update(1), "adam_update": _update(2), "nag_mom_update": _update(1),
    "mp_sgd_update": _update(1, True), "mp_sgd_mom_update": _update(2, True), "mp_nag_mom_update": _update(2, True),
    "rmsprop_update": _update(1), "rmspropalex_update": _update(3), "ftrl_update": _update(2), "ftml_update": None,
    "signsgd_update": _update(0), "signum_update": _update(1), "_sparse_adagrad_update": None, "CTCLoss": _ctc,
    "softmax": _layer_axis, "log_softmax": _layer_axis, "softmin": _layer_axis, "depth_to_space": _space,
    "space_to_depth": _space, "GridGenerator": _grid, "BilinearSampler": _sampler, "SpatialTransformer": _transformer,
    "LRN": _pictures(lambda d: {"nsize": d.of([1, 3])}), "_contrib_box_nms": _boxes, "_contrib_box_iou": _iou,
    "UpSampling": _pictures(lambda d: {"scale": d.int(1, 3), "sample_type": "nearest"}),
    "_contrib_BilinearResize2D": _pictures(lambda d: {"height": d.int(1, 5), "width": d.int(1, 5)}),
    "_contrib_AdaptiveAvgPooling2D": _pictures(lambda d: {"output_size": {"tuple": [d.int(1, 3), d.int(1, 3)]}}),
    "im2col": _pictures(lambda d: {"kernel": {"tuple": [2, 2]}, "stride": {"tuple": [d.int(1, 2)] * 2}}),
    "SwapAxis": None,
}
for alias, name in (("_npx_convolution", "Convolution"), ("_npx_pooling", "Pooling"),
                    ("_npx_fully_connected", "FullyConnected"), ("_npx_layer_norm", "LayerNorm"),
                    ("_npx_batch_norm", "BatchNorm"), ("_npx_rnn", "RNN"), ("_npx_embedding", "Embedding"),
                    ("_npx_pick", "pick"), ("_npx_batch_dot", "batch_dot"), ("_npx_deconvolution", "Deconvolution"),
                    ("_npx_gather_nd", "gather_nd"), ("_npx_sequence_mask", "SequenceMask"),
                    ("_npx_softmax", "softmax"), ("_npx_log_softmax", "log_softmax")):
    RECIPES[alias] = RECIPES[name]
