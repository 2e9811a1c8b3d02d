"""Export of operators that move, pick and shape values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._export import ExportedNode, converter
from ._to_elemwise import folded

_FAR = np.iinfo(np.int64).max


def target_shape(c: ExportedNode, pattern: Sequence[int]) -> str:
    """The shape that MXNet's special codes 0, -1, -2, -3 and -4 mean, as a tensor."""
    shape = c.out_shape()
    if None not in shape:
        return c.const(shape)
    if min(pattern) >= -1 and all(code or i < c.ndim() for i, code in enumerate(pattern)):
        return c.const(pattern)  # ONNX reads 0 and -1 alike
    parts: list[str] = []
    place, codes = 0, list(pattern)
    while codes:
        code = codes.pop(0)
        if code == -2:
            parts.append(c.dims(c.inputs[0], range(place, c.ndim())))
            place = c.ndim()
        elif code == -3:
            parts.append(c.op("Mul", *(c.dims(c.inputs[0], [place + i]) for i in (0, 1))))
            place += 2
        elif code == -4:
            whole, sizes = c.dims(c.inputs[0], [place]), [codes.pop(0), codes.pop(0)]
            for i, size in enumerate(sizes):
                parts.append(c.const([size]) if size > 0 else c.op("Div", whole, c.const([sizes[1 - i]])))
            place += 1
        else:
            parts.append(c.dims(c.inputs[0], [place]) if code == 0 else c.const([code]))
            place += 1
    return c.op("Concat", *parts, axis=0)


@converter("Reshape")
def _reshape(c: ExportedNode) -> str:
    c.need(not c.p["reverse"] or None not in c.out_shape(), "reverse=True with dynamic shapes")
    return c.op("Reshape", c.inputs[0], target_shape(c, c.p["shape"] or c.p["target_shape"]))


@converter("_np_reshape", "_npx_reshape")
def _np_reshape(c: ExportedNode) -> str:
    return c.op("Reshape", c.inputs[0], c.const(c.static(c.out_shape())))


@converter("Flatten")
def _flatten(c: ExportedNode) -> str:
    return c.op("Flatten", c.inputs[0], axis=1)


@converter("reshape_like")
def _reshape_like(c: ExportedNode) -> str:
    ends = ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")
    if all(c.p.get(end) is None for end in ends):
        return c.op("Reshape", c.inputs[0], c.op("Shape", c.inputs[1]))
    return c.op("Reshape", c.inputs[0], c.const(c.static(c.out_shape())))


@converter("transpose", "_np_transpose")
def _transpose(c: ExportedNode) -> str:
    axes = c.p["axes"] or range(c.ndim())[::-1]
    return c.op("Transpose", c.inputs[0], perm=[c.axis(a) for a in axes])


@converter("SwapAxis")
def _swap(c: ExportedNode) -> str:
    order = list(range(c.ndim()))
    a, b = c.axis(c.p["dim1"]), c.axis(c.p["dim2"])
    order[a], order[b] = b, a
    return c.op("Transpose", c.inputs[0], perm=order)


@converter("expand_dims")
def _expand_dims(c: ExportedNode) -> str:
    return c.op("Unsqueeze", c.inputs[0], c.const([c.p["axis"]]))


@converter("squeeze", "_np_squeeze")
def _squeeze(c: ExportedNode) -> str:
    axis = c.p["axis"]
    axes = [i for i, n in enumerate(c.shape()) if n == 1] if axis is None else \
        [c.axis(a) for a in (axis if isinstance(axis, tuple) else (axis,))]
    result = c.op("Squeeze", c.inputs[0], c.const(axes))
    return c.op("Reshape", result, c.const([1])) if len(axes) == c.ndim() and len(c.out_shape()) == 1 else result


def cut(c: ExportedNode, data: str, parts: dict[int, tuple[Any, Any, Any]]) -> str:
    """A slice: {axis: (begin, end, step)}, None for the ends."""
    columns = [(axis, begin, end, step or 1) for axis, (begin, end, step) in parts.items()]
    begins = [(0 if step > 0 else _FAR) if begin is None else begin for _, begin, _, step in columns]
    ends = [(_FAR if step > 0 else -_FAR) if end is None else end for _, _, end, step in columns]
    return c.op("Slice", data, c.const(begins), c.const(ends), c.const([axis for axis, *_ in columns]),
                c.const([step for *_, step in columns]))


@converter("slice")
def _slice(c: ExportedNode) -> str:
    steps = c.p["step"] or (None,) * len(c.p["begin"])
    return cut(c, c.inputs[0], dict(enumerate(zip(c.p["begin"], c.p["end"], steps, strict=True))))


@converter("slice_axis")
def _slice_axis(c: ExportedNode) -> str:
    return cut(c, c.inputs[0], {c.axis(c.p["axis"]): (c.p["begin"], c.p["end"], 1)})


@converter("Crop")
def _crop(c: ExportedNode) -> str:
    image, size = c.static(c.shape()[2:], "the size of the image"), c.static(c.out_shape()[2:])
    middle = [(whole - part) // 2 for whole, part in zip(image, size, strict=True)]
    start = middle if c.p["center_crop"] else c.p["offset"]
    return cut(c, c.inputs[0], {axis + 2: (begin, begin + n, 1) for axis, (begin, n) in
                                enumerate(zip(start, size, strict=True))})


@converter("slice_like")
def _slice_like(c: ExportedNode) -> str:
    axes = [c.axis(a) for a in c.p["axes"]] or list(range(c.ndim()))
    return c.op("Slice", c.inputs[0], c.const([0] * len(axes)), c.dims(c.inputs[1], axes), c.const(axes))


@converter("Concat", "_rnn_param_concat")
def _concat(c: ExportedNode) -> str:
    return c.op("Concat", *c.inputs, axis=c.p["dim"])


@converter("_npi_concatenate")
def _concatenate(c: ExportedNode) -> str:
    if c.p["axis"] is None:
        return c.op("Concat", *(c.op("Reshape", name, c.const([-1])) for name in c.inputs), axis=0)
    return c.op("Concat", *c.inputs, axis=c.p["axis"])


@converter("stack", "_npi_stack")
def _stack(c: ExportedNode) -> str:
    axis = c.const([c.p["axis"]])
    return c.op("Concat", *(c.op("Unsqueeze", name, axis) for name in c.inputs), axis=c.p["axis"])


def _split(c: ExportedNode, axis: int, sizes: list[int] | None, count: int, squeeze: bool) -> list[str]:
    lengths = [] if sizes is None else [c.const(sizes)]
    result = c.op("Split", c.inputs[0], *lengths, outputs=count, axis=axis)
    result = [result] if count == 1 else result
    return [c.op("Squeeze", name, c.const([axis])) for name in result] if squeeze else result


@converter("SliceChannel")
def _slice_channel(c: ExportedNode) -> list[str]:
    return _split(c, c.p["axis"], None, c.p["num_outputs"], c.p["squeeze_axis"])


@converter("_split_v2")
def _split_v2(c: ExportedNode) -> list[str]:
    axis = c.axis(c.p["axis"])
    if c.p["sections"]:
        return _split(c, axis, None, c.p["sections"], c.p["squeeze_axis"])
    starts = [*c.p["indices"], *c.static(c.shape()[axis:axis + 1], "the split axis")]
    return _split(c, axis, [b - a for a, b in zip(starts, starts[1:], strict=False)], len(starts) - 1,
                  c.p["squeeze_axis"])


@converter("tile")
def _tile(c: ExportedNode) -> str:
    reps, data = list(c.p["reps"]), c.inputs[0]
    if len(reps) > c.ndim():
        data = c.op("Unsqueeze", data, c.const(list(range(len(reps) - c.ndim()))))
    return c.op("Tile", data, c.const([1] * (c.ndim() - len(reps)) + reps))


@converter("repeat")
def _repeat(c: ExportedNode) -> str:
    data, axis = c.inputs[0], c.p["axis"]
    if axis is None:
        data, axis, ndim = c.op("Reshape", data, c.const([-1])), 0, 1
    else:
        axis, ndim = c.axis(axis), c.ndim()
    wide = c.op("Tile", c.op("Unsqueeze", data, c.const([axis + 1])),
                c.const([c.p["repeats"] if i == axis + 1 else 1 for i in range(ndim + 1)]))
    return c.op("Reshape", wide, c.const([0] * axis + [-1] + [n if n else 0 for n in c.out_shape()[axis + 1:]]))


@converter("Pad")
def _pad(c: ExportedNode) -> str:
    width = c.p["pad_width"]
    return c.op("Pad", c.inputs[0], c.const([*width[::2], *width[1::2]]), c.scalar(c.p["constant_value"] or 0),
                mode=c.p["mode"])


@converter("broadcast_to", "_npi_broadcast_to")
def _broadcast_to(c: ExportedNode) -> str:
    return c.op("Expand", c.inputs[0], c.const([n or 1 for n in c.p["shape"]]))


@converter("broadcast_axis")
def _broadcast_axis(c: ExportedNode) -> str:
    wide = [1] * c.ndim()
    for axis, size in zip(c.p["axis"], c.p["size"], strict=True):
        wide[c.axis(axis)] = size
    return c.op("Expand", c.inputs[0], c.const(wide))


@converter("broadcast_like")
def _broadcast_like(c: ExportedNode) -> str:
    if not c.p["lhs_axes"]:
        return c.op("Expand", c.inputs[0], c.op("Shape", c.inputs[1]))
    pairs = {c.axis(a): c.axis(b, 1) for a, b in zip(c.p["lhs_axes"], c.p["rhs_axes"], strict=True)}
    parts = [c.dims(c.inputs[1], [pairs[i]]) if i in pairs else c.const([1]) for i in range(c.ndim())]
    return c.op("Expand", c.inputs[0], c.op("Concat", *parts, axis=0))


def indices(c: ExportedNode, index: int, size: int | None, mode: str = "clip") -> str:
    """An input as int64 indices into an axis of this size."""
    result = c.cast(c.inputs[index], "int64")
    if mode == "wrap":
        c.need(size is not None, "mode='wrap' needs a known axis")
        return c.op("Mod", result, c.const(size))
    if size is None:
        return c.op("Max", result, c.const(0))
    return c.op("Min", c.op("Max", result, c.const(0)), c.const(size - 1))


@converter("take")
def _take(c: ExportedNode) -> str:
    axis = c.axis(c.p["axis"])
    return c.op("Gather", c.inputs[0], indices(c, 1, c.shape()[axis], c.p["mode"]), axis=axis)


@converter("Embedding", "_contrib_SparseEmbedding")
def _embedding(c: ExportedNode) -> str:
    return c.op("Gather", c.inputs[1], indices(c, 0, c.p["input_dim"]), axis=0)


@converter("pick")
def _pick(c: ExportedNode) -> str:
    if c.p["axis"] is None:
        return c.op("GatherElements", c.op("Reshape", c.inputs[0], c.const([-1])), c.cast(c.inputs[1], "int64"), axis=0)
    axis = c.axis(c.p["axis"])
    places = indices(c, 1, c.shape()[axis], c.p["mode"])
    if c.ndim(1) < c.ndim():
        places = c.op("Unsqueeze", places, c.const([axis]))
    result = c.op("GatherElements", c.inputs[0], places, axis=axis)
    return result if c.p["keepdims"] else c.op("Squeeze", result, c.const([axis]))


@converter("gather_nd")
def _gather_nd(c: ExportedNode) -> str:
    places = c.op("Transpose", c.cast(c.inputs[1], "int64"), perm=[*range(1, c.ndim(1)), 0])
    return c.op("GatherND", c.inputs[0], places)


@converter("one_hot")
def _one_hot(c: ExportedNode) -> str:
    values = c.const([c.p["off_value"], c.p["on_value"]], c.out_dtype())
    return c.op("OneHot", c.cast(c.inputs[0], "int64"), c.const([c.p["depth"]]), values, axis=-1)


@converter("depth_to_space")
def _depth_to_space(c: ExportedNode) -> str:
    return c.op("DepthToSpace", c.inputs[0], blocksize=c.p["block_size"], mode="DCR")


@converter("space_to_depth")
def _space_to_depth(c: ExportedNode) -> str:
    return c.op("SpaceToDepth", c.inputs[0], blocksize=c.p["block_size"])


@converter("reverse", "_npi_flip")
def _reverse(c: ExportedNode) -> str:
    axis = c.p["axis"]
    axes = range(c.ndim()) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return cut(c, c.inputs[0], {c.axis(a): (None, None, -1) for a in axes})


@converter("shape_array")
def _shape_array(c: ExportedNode) -> str:
    return c.op("Shape", c.inputs[0])


@converter("size_array")
def _size_array(c: ExportedNode) -> str:
    return c.op("Reshape", c.op("Size", c.inputs[0]), c.const([1]))


@converter("_contrib_arange_like")
def _arange_like(c: ExportedNode) -> str:
    if None not in c.shape():
        return folded(c)
    c.need(isinstance(c.p["axis"], int) and c.p.get("repeat", 1) == 1, "dynamic shapes without axis, or with repeat")
    count = c.op("Squeeze", c.dims(c.inputs[0], [c.axis(c.p["axis"])]), c.const([0]))
    numbers = c.cast(c.op("Range", c.const(0), count, c.const(1)), c.dtype())
    return c.op("Add", c.op("Mul", numbers, c.scalar(c.p["step"])), c.scalar(c.p["start"]))


def _sorted(c: ExportedNode, count: Any, axis: int, ascending: bool) -> list[str]:
    """(values, places) of the largest, or smallest, ones."""
    return c.op("TopK", c.inputs[0], count, outputs=2, axis=axis, largest=int(not ascending), sorted=1)


@converter("topk")
def _topk(c: ExportedNode) -> Any:
    c.need(c.p["axis"] is not None, "axis must be given")
    axis = c.axis(c.p["axis"])
    count = c.const([c.p["k"]]) if c.p["k"] > 0 else c.dims(c.inputs[0], [axis])
    values, places = _sorted(c, count, axis, c.p["is_ascend"])
    c.need(c.p["ret_typ"] != "mask", "ret_typ='mask'")
    result = {"value": [values], "both": [values, c.cast(places, c.out_dtype(-1 + len(c.node.output_names())))]}
    return result.get(c.p["ret_typ"]) or c.cast(places, c.out_dtype())


@converter("sort", "argsort")
def _sort(c: ExportedNode) -> str:
    c.need(c.p["axis"] is not None, "axis must be given")
    axis = c.axis(c.p["axis"])
    values, places = _sorted(c, c.dims(c.inputs[0], [axis]), axis, c.p["is_ascend"])
    return values if c.op_type == "sort" else c.cast(places, c.out_dtype())


@converter("_np_cumsum")
def _cumsum(c: ExportedNode) -> str:
    if c.p["axis"] is None:
        return c.op("CumSum", c.op("Reshape", c.inputs[0], c.const([-1])), c.const(0))
    return c.op("CumSum", c.inputs[0], c.const(c.p["axis"]))


def before(c: ExportedNode, data: str, axis: int, ndim: int, lengths: str, batch_axis: int) -> str:
    """Booleans that broadcast against the data: whether the place on an axis is before the batch's length."""
    count = c.op("Squeeze", c.dims(data, [axis]), c.const([0]))
    shape = [-1 if i == axis else 1 for i in range(ndim)]
    numbers = c.op("Reshape", c.op("Range", c.const(0), count, c.const(1)), c.const(shape))
    others = [-1 if i == batch_axis else 1 for i in range(ndim)]
    return c.op("Less", numbers, c.op("Reshape", c.cast(lengths, "int64"), c.const(others)))


@converter("SequenceMask")
def _sequence_mask(c: ExportedNode) -> str:
    if not c.p["use_sequence_length"]:
        return c.op("Identity", c.inputs[0])
    inside = before(c, c.inputs[0], c.p["axis"], c.ndim(), c.inputs[1], 1 - c.p["axis"])
    return c.op("Where", inside, c.inputs[0], c.scalar(c.p["value"]))


@converter("SequenceReverse")
def _sequence_reverse(c: ExportedNode) -> str:
    if not c.p["use_sequence_length"]:
        return cut(c, c.inputs[0], {0: (None, None, -1)})
    return c.op("ReverseSequence", c.inputs[0], c.cast(c.inputs[1], "int64"), time_axis=0, batch_axis=1)


@converter("SequenceLast")
def _sequence_last(c: ExportedNode) -> str:
    axis = c.p["axis"]
    if not c.p["use_sequence_length"]:
        return c.op("Gather", c.inputs[0], c.const(-1), axis=axis)
    data = c.op("Transpose", c.inputs[0], perm=[1, 0, *range(2, c.ndim())]) if axis == 0 else c.inputs[0]
    last = c.op("Sub", c.cast(c.inputs[1], "int64"), c.const(1))
    return c.op("GatherND", data, c.op("Unsqueeze", last, c.const([1])), batch_dims=1)
