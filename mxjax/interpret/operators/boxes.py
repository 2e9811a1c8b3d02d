"""Suppression of overlapping boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..direct import Work, need, numpy_form
from ..program import Array

__all__ = ["center_size", "corners", "greedy", "overlap"]

_PAIRS = 1 << 14  # pairs of boxes whose overlaps fit into the processor's cache
_BOX = 2e3  # elements that could be computed in the time of one box's calls
_SORTED = 40.0  # and in that of sorting one box


def corners(boxes: Array) -> Array:
    """Returns the corners of boxes given by centres and sizes."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate([centre - half, centre + half], -1)


def center_size(boxes: Array) -> Array:
    """Returns the centres and sizes of boxes given by corners."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([(low + high) / 2, high - low], -1)


def greedy(alive: Array, values: Array, apart: Callable[[Array, Array], Array], classes: Array | None) -> Array:
    """Returns which boxes are left if each, from the first on, suppresses later ones from which it is not apart.

    Args:
        alive: (n,) which boxes take part.
        values: (k, n) coordinates and sizes.
        apart: function(values (k, m, 1), values (k, 1, n)) -> (m, n): whether boxes do not suppress others.
        classes: (n,) classes of boxes that do not suppress each other; None: all boxes are of one class.
    """
    left = alive.copy()
    for kind in [None] if classes is None else np.unique(classes[alive]):
        members = np.flatnonzero(alive if kind is None else alive & (classes == kind))
        mine, own = values[:, members], np.ones(len(members), bool)
        rows = max(1, _PAIRS // len(members)) if len(members) else 1  # boxes that are compared at once
        for start in range(0, len(members), rows):
            chosen = start + np.flatnonzero(own[start:start + rows])
            for i, others in zip(chosen.tolist(), apart(mine[:, chosen, None], mine[:, None, start:]), strict=True):
                if own[i]:
                    own[i + 1:] &= others[i + 1 - start:]
        left[members] = own
    return left


def overlap(lhs: Array, rhs: Array) -> Array:
    """Returns the intersection over union of boxes (left, top, right, bottom, area); NaN for two empty boxes."""
    (a, b, c, d, one), (e, f, g, h, other) = lhs, rhs
    shared = np.maximum(np.minimum(c, g) - np.maximum(a, e), 0) * np.maximum(np.minimum(d, h) - np.maximum(b, f), 0)
    return shared / (one + other - shared)


def _kept(p: dict[str, Any], boxes: Array, limit: int) -> tuple[Array, Array]:
    """Returns the order of the kept boxes and then others, and which of these are kept, for one set of boxes."""
    scores, places = boxes[:, p["score_index"]], boxes[:, p["coord_start"]:p["coord_start"] + 4]
    valid = scores > p["valid_thresh"]
    if p["id_index"] >= 0:
        valid &= boxes[:, p["id_index"]] != p["background_id"]
    best = np.argsort(-np.where(valid, scores, -np.inf), kind="stable")
    top = best[:limit]
    places = (places if p["in_format"] == "corner" else corners(places))[top]
    sides = places[:, 2:] - places[:, :2]
    size = np.where((sides < 0).any(-1), 0, sides[:, 0] * sides[:, 1])
    classes = None if p["force_suppress"] or p["id_index"] < 0 else boxes[top, p["id_index"]].astype(np.int32)
    left = np.zeros(len(boxes), bool)
    left[:limit] = greedy(valid[top], np.stack([*places.T, size]),
                          lambda lhs, rhs: ~(overlap(lhs, rhs) > p["overlap_thresh"]), classes)
    first = np.argsort(~left, kind="stable")
    return best[first], left[first]


def _chosen(p: dict[str, Any], data: Array) -> tuple[Array, Array, Array]:
    """Returns the boxes (sets, n, k), and `_kept` of each set."""
    used = [p["score_index"], *range(p["coord_start"], p["coord_start"] + 4)]
    used += [p["id_index"]] if p["id_index"] >= 0 else []
    need(data.ndim > 1 and data.size and len(set(used)) == len(used) and 0 <= min(used) and max(used) < data.shape[-1])
    need(np.isfinite(data).all())
    count, width = data.shape[-2:]
    limit = count if p["topk"] < 0 else min(p["topk"], count)
    need(limit > 0)
    boxes = data.reshape(-1, count, width)
    kept = [_kept(p, each, limit) for each in boxes]
    return boxes, np.stack([order for order, _ in kept]), np.stack([left for _, left in kept])


def _slope(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], data: Array) -> list[Any]:
    """Returns the gradients of the kept boxes at their original positions."""
    boxes, order, left = _chosen(p, data)
    grad = np.zeros_like(boxes)
    if out_grads[0] is not None:
        np.put_along_axis(grad, order[..., None], np.where(left[..., None], out_grads[0].reshape(boxes.shape), 0), 1)
    return [grad.reshape(data.shape)]


def _work(p: dict[str, Any], data: tuple) -> Work:
    *sets, count, _ = data
    limit = count if p["topk"] < 0 else min(p["topk"], count)
    return Work(math.prod(sets) * (_SORTED * count + limit * (_BOX + 20.0 * limit)), operations=200)


@numpy_form("_contrib_box_nms", backward=_slope, work=_work)
def _box_nms(p: dict[str, Any], data: Array) -> Any:
    boxes, order, left = _chosen(p, data)
    result = np.take_along_axis(boxes, order[..., None], 1)
    if p["in_format"] != p["out_format"]:
        before = result[..., p["coord_start"]:p["coord_start"] + 4]
        after = center_size(before) if p["out_format"] == "center" else corners(before)
        before[...] = np.where(before[..., :1] < 0, before, after)  # as MXNet has it
    record = order + np.arange(len(boxes))[:, None] * boxes.shape[1]
    return (np.where(left[..., None], result, -1).astype(data.dtype).reshape(data.shape),
            np.where(left, record, -1).astype(data.dtype).reshape(*data.shape[:-1], 1))
