"""Operators on boxes and regions of images: in each library a function of the written source (`Dialect.tensors`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .shared import Dialect
from .steps import EmittedNode, Ref, Table

__all__ = ["register"]


def register(op: Table, d: Dialect, helpers: dict[str, str]) -> None:
    """Adds the operators to a target's table; helpers: the functions' texts."""
    for names, emitter in _EMITTERS.items():
        op(*names.split())(lambda c, e=emitter: e(c, d, helpers))


def _box_nms(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    p, count = c.p, c.shape()[-2]
    c.need(not c.uses(1), "its second output")
    c.need(p["in_format"] == p["out_format"], "formats that differ")
    most = count if p["topk"] < 0 else min(p["topk"], count)
    if most < 1:
        return c.ref()
    arguments = f"overlap={p['overlap_thresh']!r}, least={float(p['valid_thresh'])!r}, most={most}"
    for name, key, default in (("start", "coord_start", 2), ("score", "score_index", 1), ("kind", "id_index", -1),
                               ("background", "background_id", -1), ("across", "force_suppress", False)):
        arguments += "" if p[key] == default else f", {name}={p[key]}"
    arguments += ", centred=True" if p["in_format"] == "center" else ""
    return c.expr(f"box_nms({{0}}, {arguments})", c.ref(), helper=helpers["box_nms"])


def _box_iou(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    pair = c.refs
    if c.p["format"] == "center":
        pair = [c.expr("corners({0})", r, helper=helpers["corners"]) for r in pair]
    return c.expr("box_iou({0}, {1})", *pair, helper=helpers["box_iou"])


def _box_decode(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    p, (data, anchor) = c.p, c.refs
    if p["format"] == "corner":
        anchor = c.expr("centres({0})", anchor, helper=helpers["centres"])
    limit = f", {p['clip']!r}" if p["clip"] > 0 else ""
    stds = ", ".join(repr(float(p[f"std{i}"])) for i in range(4))
    return c.expr(f"box_decode({{0}}, {{1}}, ({stds}){limit})", data, anchor, helper=helpers["box_decode"])


def _pair(sizes: Any) -> tuple[int, ...]:
    return (*sizes, *sizes)[:2]


def _roi_align(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    p = c.p
    arguments = f"{_pair(p['pooled_size'])}, {float(p['spatial_scale'])!r}"
    arguments += f", samples={p['sample_ratio']}" if p["sample_ratio"] > 0 else ""
    arguments += "".join(f", {name}=True" for name, key in (("sensitive", "position_sensitive"), ("aligned", "aligned"))
                     if p[key])
    return c.expr(f"roi_align({{0}}, {{1}}, {arguments})", *c.refs, helper=helpers["roi_align"])


def _roi_pooling(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    arguments = f"{_pair(c.p['pooled_size'])}, {float(c.p['spatial_scale'])!r}"
    return c.expr(f"roi_pool({{0}}, {{1}}, {arguments})", *c.refs, helper=helpers["roi_pool"])


def _anchors(stride: int, ratios: tuple[float, ...], scales: tuple[float, ...]) -> np.ndarray:
    """The boxes around the first cell by corners, both ends included, in single precision as the operator has them."""
    results = []
    for ratio in np.asarray(ratios, np.float32):
        width = np.floor(np.sqrt(np.floor(np.float32(stride * stride) / ratio)) + np.float32(0.5))
        height = np.floor(width * ratio + np.float32(0.5))
        results += [[-(width * s - 1) / 2, -(height * s - 1) / 2, (width * s - 1) / 2, (height * s - 1) / 2]
                    for s in np.asarray(scales, np.float32)]
    return np.array(results, np.float32) + np.float32((stride - 1) / 2)


def _proposal(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> list[Ref]:
    p = c.p
    boxes = [tuple(float(n) for n in row) for row in _anchors(p["feature_stride"], p["ratios"], p["scales"])]
    table = c.expr(f"{d.tensors['array']}({boxes})")
    total = len(boxes) * c.shape()[2] * c.shape()[3]
    before = min(p["rpn_pre_nms_top_n"], total) if p["rpn_pre_nms_top_n"] > 0 else total
    arguments = (f"stride={p['feature_stride']}, before={before}, after={p['rpn_post_nms_top_n']}, "
             f"overlap={p['threshold']!r}, least={p['rpn_min_size']}{', by_corners=True' if p['iou_loss'] else ''}")
    return c.expr(f"propose({{0}}, {{1}}, {{2}}, {{3}}, {arguments})", *c.refs, table, results=2,
                  helper=helpers["propose"])


def _sampler(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    return c.expr(helpers["sample"], *c.refs, helper=helpers["sample_helper"])


def _grid(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    height, width = c.out_shape()[2:]
    if c.p["transform_type"] == "warp":
        return c.expr(helpers["warp"].replace("{height}", str(height)).replace("{width}", str(width)), c.ref())
    return _affine(c, c.ref(), (height, width), helpers)


def _affine(c: EmittedNode, matrices: Ref, size: tuple[int, ...], helpers: dict[str, str]) -> Ref:
    text = helpers["affine"].replace("{height}", str(size[0])).replace("{width}", str(size[1]))
    return c.expr(text, matrices, helper=helpers["affine_helper"])


def _transformer(c: EmittedNode, d: Dialect, helpers: dict[str, str]) -> Ref:
    data, matrices = c.refs
    grid = _affine(c, matrices, tuple(c.p["target_shape"]), helpers)
    return c.expr(helpers["sample"], data, grid, helper=helpers["sample_helper"])


_EMITTERS = {
    "_contrib_box_nms": _box_nms, "_contrib_box_iou": _box_iou, "_contrib_box_decode": _box_decode,
    "_contrib_ROIAlign": _roi_align, "ROIPooling": _roi_pooling, "_contrib_Proposal _contrib_MultiProposal": _proposal,
    "BilinearSampler": _sampler, "GridGenerator": _grid, "SpatialTransformer": _transformer,
}
