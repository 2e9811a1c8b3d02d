"""Importers of ONNX operators: boxes and regions."""

from __future__ import annotations

from ..symbol import Symbol
from ._import import ImportedNode, importer

importer("MaxRoiPool")(lambda c: c.op("ROIPooling", c.sym(0), c.sym(1), pooled_size=c.attr("pooled_shape"),
                                      spatial_scale=c.attr("spatial_scale", 1.0)))


@importer("RoiAlign")
def _roi_align(c: ImportedNode) -> Symbol:
    mode = c.attr("coordinate_transformation_mode", "half_pixel" if c.opset >= 16 else "output_half_pixel")
    c.need(c.attr("mode", "avg") == "avg", "mode max")
    batch = c.op("expand_dims", c.op("Cast", c.sym(2), dtype="float32"), axis=1)
    return c.op("_contrib_ROIAlign", c.sym(0), c.op("Concat", batch, c.sym(1), dim=1),
                pooled_size=(c.attr("output_height", 1), c.attr("output_width", 1)),
                spatial_scale=c.attr("spatial_scale", 1.0), sample_ratio=c.attr("sampling_ratio", 0) or -1,
                aligned=mode == "half_pixel")


@importer("NonMaxSuppression")
def _nms(c: ImportedNode) -> Symbol:
    """Returns rows (batch, class, box) of the kept boxes, in order of score per class; values decide how many."""
    most = int(c.value(2).item()) if c.has(2) else 0
    shape = c.given(c.shape(1) if most > 0 else None,
                    "an unknown number of boxes, or max_output_boxes_per_class of 0")
    overlap, least = (float(c.value(i).item()) if c.has(i) else d for i, d in ((3, 0.0), (4, -3e38)))
    scores, boxes = c.op("expand_dims", c.sym(1), axis=3), c.sym(0)
    if not c.attr("center_point_box", 0):  # two corners, any two
        ends = [c.op("slice_axis", boxes, axis=2, begin=i, end=i + 2) for i in (0, 2)]
        boxes = c.op("Concat", c.op("broadcast_minimum", *ends), c.op("broadcast_maximum", *ends), dim=2)
    boxes = c.op("broadcast_like", c.op("expand_dims", boxes, axis=1), scores, lhs_axes=(1,), rhs_axes=(1,))
    numbers = [c.op("Reshape", c.op("_contrib_arange_like", scores, axis=axis), shape=place)
               for axis, place in enumerate([(-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1)])]
    rows = c.op("Concat", scores, boxes, *[c.op("broadcast_like", n, scores) for n in numbers], dim=3)
    form = "center" if c.attr("center_point_box", 0) else "corner"
    kept = c.op("_contrib_box_nms", rows, overlap_thresh=overlap, valid_thresh=least, coord_start=1, score_index=0,
                in_format=form, out_format=form)
    kept = c.op("slice_axis", kept, axis=2, begin=0, end=min(most, shape[2]))  # dropped boxes are -1, at the end
    kept = c.op("Reshape", c.op("slice_axis", kept, axis=3, begin=5, end=8), shape=(-1, 3))
    there = c.op("Reshape", c.op("slice_axis", kept, axis=1, begin=0, end=1), shape=(-1,))
    there = c.op("_greater_equal_scalar", there, scalar=0)
    return c.op("Cast", c.op("_contrib_boolean_mask", kept, there), dtype="int64")
