"""Export of operators on boxes and regions."""

from __future__ import annotations

import numpy as np

from ._export import ExportedNode, converter
from ._to_elemwise import reduce
from ._to_shape import cut


@converter("_contrib_box_nms")
def _box_nms(c: ExportedNode) -> list[str]:
    """Rows in order of score; NonMaxSuppression on classes that are moved apart; the kept rows first."""
    p = c.p
    c.need(p["in_format"] == p["out_format"], "in_format other than out_format")
    c.need(p["background_id"] == -1 or p["id_index"] < 0, "background_id")
    count, width = c.static(c.shape()[-2:], "the number of boxes")
    limit = count if p["topk"] < 0 else min(p["topk"], count)
    first = p["coord_start"]
    boxes = c.op("Reshape", c.inputs[0], c.const([-1, count, width]))

    def column(data: str, index: int, size: int = 1) -> str:
        return cut(c, data, {2: (index, index + size, 1)})

    def rows(data: str, order: str) -> str:
        return c.op("GatherElements", data, c.op("Expand", order, c.op("Shape", data)), axis=1)
    _, order = c.op("TopK", column(boxes, p["score_index"]), c.const([count]), outputs=2, axis=1)
    ordered = rows(boxes, order)
    some = cut(c, ordered, {1: (0, limit, 1)})
    places, scores = column(some, first, 4), c.op("Transpose", column(some, p["score_index"]), perm=[0, 2, 1])
    if p["id_index"] >= 0 and not p["force_suppress"]:
        span = c.op("Sub", reduce(c, "ReduceMax", places, None, True), reduce(c, "ReduceMin", places, None, True))
        apart = c.op("Mul", column(some, p["id_index"]), c.op("Add", c.op("Mul", span, c.scalar(2)), c.scalar(1)))
        end = c.op("Mul", apart, c.scalar(0)) if p["in_format"] == "center" else apart  # sizes do not move
        places = c.op("Add", places, c.op("Concat", apart, apart, end, end, axis=2))
    value = c.op("NonMaxSuppression", places, scores, c.const([limit]),
                 c.const([p["overlap_thresh"]], np.float32), c.const([p["valid_thresh"]], np.float32),
                 center_point_box=int(p["in_format"] == "center"))
    where = c.op("Gather", value, c.const([0, 2]), axis=1)
    nothing = c.op("Expand", c.const(0, np.float32), cut(c, c.op("Shape", ordered), {0: (0, 2, 1)}))
    ones = c.op("Expand", c.const(1, np.float32), cut(c, c.op("Shape", where), {0: (0, 1, 1)}))
    kept, places = c.op("TopK", c.op("ScatterND", nothing, where, ones), c.const([count]), outputs=2, axis=1)
    last = [c.op("Unsqueeze", name, c.const([2])) for name in (kept, places)]
    result = c.op("Where", c.cast(last[0], "bool"), rows(ordered, last[1]), c.scalar(-1))
    return [c.op("Reshape", result, c.op("Shape", c.inputs[0]))]


@converter("_contrib_box_decode")
def _box_decode(c: ExportedNode) -> str:
    p = c.p
    data = c.op("Mul", c.inputs[0], c.const([p["std0"], p["std1"], p["std2"], p["std3"]], c.dtype()))
    anchors = c.inputs[1]

    def halves(value: str) -> list[str]:
        return [cut(c, value, {2: (i, i + 2, 1)}) for i in (0, 2)]
    start, size = halves(anchors)
    if p["format"] == "corner":
        size = c.op("Sub", size, start)
        start = c.op("Add", start, c.op("Mul", size, c.scalar(0.5)))
    shift, scale = halves(data)
    if p["clip"] > 0:
        scale = c.op("Min", scale, c.scalar(p["clip"]))
    middle = c.op("Add", c.op("Mul", shift, size), start)
    half = c.op("Mul", c.op("Mul", c.op("Exp", scale), size), c.scalar(0.5))
    return c.op("Concat", c.op("Sub", middle, half), c.op("Add", middle, half), axis=2)


@converter("ROIPooling")
def _roi_pooling(c: ExportedNode) -> str:
    return c.op("MaxRoiPool", *c.inputs, pooled_shape=list(c.p["pooled_size"]),
                spatial_scale=float(c.p["spatial_scale"]))


@converter("_contrib_ROIAlign")
def _roi_align(c: ExportedNode) -> str:
    c.need(not c.p["position_sensitive"], "position_sensitive=True")
    rows = cut(c, c.inputs[1], {1: (1, 5, 1)})
    batch = c.cast(c.op("Squeeze", cut(c, c.inputs[1], {1: (0, 1, 1)}), c.const([1])), "int64")
    height, width = c.p["pooled_size"]
    value = c.op("RoiAlign", c.inputs[0], rows, c.op("Max", batch, c.const(0)), output_height=height,
                 output_width=width, sampling_ratio=max(c.p["sample_ratio"], 0),
                 spatial_scale=float(c.p["spatial_scale"]),
                 coordinate_transformation_mode="half_pixel" if c.p.get("aligned") else "output_half_pixel")
    there = c.op("Reshape", c.op("Less", batch, c.const(0)), c.const([-1, 1, 1, 1]))  # regions of no image
    return c.op("Where", there, c.scalar(0), value)
