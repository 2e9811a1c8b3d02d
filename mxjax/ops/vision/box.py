"""Bounding boxes: overlap, non-maximum suppression, matching, encoding."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..common import Array, need_float
from ..infer import exact, filled, first
from ..params import Scalar
from ..reduce._order import order
from ..registry import register
from ._boxes import areas, center_size, corners, pairwise_iou, product, shared_with, suppress, unseen

_Format = Literal["corner", "center"]


def _need(operator: str, what: str, array: Array, ndim: int, exact: bool = False) -> None:
    """Raises MXNetError unless the array is floats, of (at least) `ndim` dimensions, of boxes."""
    need_float(operator, array)
    if array.ndim < ndim or exact and array.ndim != ndim or array.shape[-1] != 4:
        raise MXNetError(f"operator {operator}: {what} must have {ndim}{'' if exact else ' or more'} dimensions, the "
                         f"last one of size 4, got shape {array.shape}")


def _check_columns(shape: tuple[int, ...], coord_start: int, score_index: int, id_index: int) -> None:
    if len(shape) < 2 or shape[-1] < 5 + (id_index >= 0):
        raise MXNetError("operator box_nms: data must have 2 or more dimensions, the last one of size "
                         f"{5 + (id_index >= 0)} or more, got shape {shape}")
    width, taken = shape[-1], range(coord_start, coord_start + 4)
    if coord_start < 0 or taken[-1] >= width:
        raise MXNetError(f"operator box_nms: the coordinates {list(taken)} are out of range for boxes of {width}")
    for name, index in (("score_index", score_index), *((("id_index", id_index),) if id_index >= 0 else ())):
        if not 0 <= index < width or index in taken:
            raise MXNetError(f"operator box_nms: {name} {index} is out of range for boxes of {width} numbers with "
                             f"coordinates {list(taken)}")
    if id_index == score_index:
        raise MXNetError(f"operator box_nms: id_index and score_index must differ, both are {id_index}")


def _columns_fit(p: dict[str, Any], shape: tuple[int, ...]) -> bool:
    _check_columns(shape, p["coord_start"], p["score_index"], p["id_index"])
    return True


@register("_contrib_box_nms", aliases=("_contrib_box_non_maximum_suppression",), num_outputs=2, num_visible=1,
          FPartialShape=exact(lambda p, x: [x, (*x[:-1], 1)], _columns_fit, partly=False))
def box_nms(data: Array, *, overlap_thresh: float = 0.5, valid_thresh: float = 0, topk: int = -1, coord_start: int = 2,
            score_index: int = 1, id_index: int = -1, background_id: int = -1, force_suppress: bool = False,
            in_format: _Format = "corner", out_format: _Format = "corner") -> tuple[Array, Array]:
    """Non-maximum suppression of boxes (..., n, k): kept boxes in descending order of score, then rows of -1.

    A box has k numbers: a score, four consecutive coordinates, optionally a class, and further values. Gradients are
    passed to the original positions of the kept boxes.
    """
    need_float("box_nms", data)
    _check_columns(data.shape, coord_start, score_index, id_index)
    count, width = data.shape[-2:]
    limit = count if topk < 0 else min(topk, count)
    if limit < 1:
        return data, jnp.arange(data.size // max(width, 1), dtype=data.dtype).reshape(*data.shape[:-1], 1)
    boxes = data.reshape(-1, count, width)

    def kept(boxes: Array) -> tuple[Array, Array]:
        """(order of the kept boxes and then others, which of these are kept) for one set of boxes."""
        scores, places = boxes[:, score_index], boxes[:, coord_start:coord_start + 4]
        valid = scores > valid_thresh
        if id_index >= 0:
            valid &= boxes[:, id_index] != background_id
        best = order(jnp.where(valid, scores, -jnp.inf), descending=True)
        top = best[:limit]
        places = (places if in_format == "corner" else corners(places))[top]
        size, classes = areas(places), boxes[top, id_index].astype(jnp.int32)

        shared_by = shared_with(places)

        def suppressed_by(i: Array) -> Array:
            shared = shared_by(i)
            over = shared / (size[i] + size - shared) > overlap_thresh
            return over if force_suppress or id_index < 0 else over & (classes == classes[i])
        left = jnp.pad(suppress(valid[top], suppressed_by), (0, count - limit))
        first = order(~left)
        return best[first], left[first]
    chosen, left = jax.vmap(kept)(lax.stop_gradient(boxes))
    result = jnp.take_along_axis(boxes, chosen[..., None], 1)
    if in_format != out_format:
        before = result[..., coord_start:coord_start + 4]
        after = center_size(before) if out_format == "center" else corners(before)
        after = jnp.where(before[..., :1] < 0, before, after)  # as MXNet has it
        result = result.at[..., coord_start:coord_start + 4].set(unseen(after, before))
    record = chosen + jnp.arange(len(boxes))[:, None] * count
    return (jnp.where(left[..., None], result, -1).reshape(data.shape),
            jnp.where(left, record, -1).astype(data.dtype).reshape(*data.shape[:-1], 1))


@register("_contrib_box_iou")
def box_iou(lhs: Array, rhs: Array, *, format: _Format = "corner") -> Array:
    """Intersection over union of each box of lhs (..., 4) with each of rhs (..., 4); gradients are zero."""
    _need("box_iou", "lhs", lhs, 2)
    _need("box_iou", "rhs", rhs, 2)
    pair = [lax.stop_gradient(b if format == "corner" else corners(b)).reshape(-1, 4) for b in (lhs, rhs)]
    return pairwise_iou(*pair).reshape(lhs.shape[:-1] + rhs.shape[:-1])


@register("_contrib_bipartite_matching", num_outputs=2, FPartialShape=lambda p, x: [x[:-1], x[:-2] + x[-1:]])
def bipartite_matching(data: Array, *, is_ascend: bool = False, threshold: Scalar,
                       topk: int = -1) -> tuple[Array, Array]:
    """Greedy matching of rows and columns of scores (..., n, m), best score first, while better than `threshold`.

    Returns the column of each row and the row of each column, or -1 if unmatched; gradients are zero. As in MXNet,
    `topk` allows one additional match.
    """
    need_float("bipartite_matching", data)
    rows, cols = data.shape[-2:]
    if not rows * cols:  # nothing to match: zeros, as in MXNet
        return jnp.zeros(data.shape[:-1], data.dtype), jnp.zeros((*data.shape[:-2], cols), data.dtype)
    scores = lax.stop_gradient(-data if is_ascend else data).reshape(-1, rows, cols)
    least = -threshold if is_ascend else threshold
    most = min(rows, cols, topk + 1 if topk > 0 else rows)

    def match(scores: Array) -> tuple[Array, Array]:
        def step(_: Any, state: tuple) -> tuple:
            row_of, col_of, free = state
            best = jnp.argmax(jnp.where(free, scores, -jnp.inf))
            r, c = jnp.divmod(best, cols)
            good = free[r, c] & (scores[r, c] > least)
            row_of = jnp.where(good, row_of.at[c].set(r), row_of)
            col_of = jnp.where(good, col_of.at[r].set(c), col_of)
            return row_of, col_of, jnp.where(good, free.at[r].set(False).at[:, c].set(False), False)
        start = jnp.full(cols, -1), jnp.full(rows, -1), jnp.ones((rows, cols), bool)
        return lax.fori_loop(0, most, step, start)[:2]
    row_of, col_of = jax.vmap(match)(scores)
    shape = data.shape[:-2]
    return col_of.astype(data.dtype).reshape(*shape, rows), row_of.astype(data.dtype).reshape(*shape, cols)


@register("_contrib_box_encode", num_outputs=2,
          infer_shape=filled(means=lambda p, x: (4,), stds=lambda p, x: (4,)))
def box_encode(samples: Array, matches: Array, anchors: Array, refs: Array, means: Array,
               stds: Array) -> tuple[Array, Array]:
    """Regression targets of anchors (B, N, 4) for the boxes refs (B, M, 4) that `matches` (B, N) names; corners.

    Returns targets and masks (B, N, 4): zero where `samples` (B, N) is not positive. Gradients are zero.
    """
    _need("box_encode", "anchors", anchors, 3)
    _need("box_encode", "refs", refs, 3)
    index = matches.astype(jnp.int32)[..., None]
    ref = center_size(jnp.take_along_axis(refs, index, 1, mode="clip"))
    anchor = center_size(anchors)
    offsets = (ref[..., :2] - anchor[..., :2]) / anchor[..., 2:]
    targets = jnp.concatenate([offsets, jnp.log(ref[..., 2:] / anchor[..., 2:])], -1)
    chosen = jnp.broadcast_to(samples[..., None] > 0.5, targets.shape)
    targets = jnp.where(chosen, (targets - means) / stds, 0)
    return lax.stop_gradient(targets).astype(anchors.dtype), chosen.astype(anchors.dtype)


@register("_contrib_box_decode", FPartialShape=first)
def box_decode(data: Array, anchors: Array, *, std0: float = 1.0, std1: float = 1.0, std2: float = 1.0,
               std3: float = 1.0, clip: float = -1.0, format: _Format = "center") -> Array:
    """Decodes predicted offsets data (B, N, 4) from anchors (1, N, 4) to boxes as corners; gradients are zero."""
    _need("box_decode", "data", data, 3, exact=True)
    _need("box_decode", "anchors", anchors, 3)
    data, anchors = lax.stop_gradient((data, anchors))
    anchor = (center_size(anchors) if format == "corner" else anchors).reshape(-1, data.shape[1], 4)[:1]
    scaled = data * jnp.array([std0, std1, std2, std3], data.dtype)
    log_size = jnp.minimum(scaled[..., 2:], clip) if clip > 0 else scaled[..., 2:]
    centre = product(scaled[..., :2], anchor[..., 2:]) + anchor[..., :2]
    return corners(jnp.concatenate([centre, product(jnp.exp(log_size), anchor[..., 2:])], -1))
