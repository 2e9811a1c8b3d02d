"""Single shot detection (SSD): prior boxes, training targets, detections."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..common import Array, need_float
from ..infer import exact
from ..params import Floats
from ..reduce._order import order
from ..registry import register
from ._boxes import center_size, corners, product, suppress

_VARIANCES = (0.1, 0.1, 0.2, 0.2)


@register("_contrib_MultiBoxPrior", aliases=("_npx_multibox_prior",))
def multibox_prior(data: Array, *, sizes: Floats = (1.0,), ratios: Floats = (1.0,), clip: bool = False,
                   steps: Floats = (-1.0, -1.0), offsets: Floats = (0.5, 0.5)) -> Array:
    """Prior boxes (1, H * W * (sizes + ratios - 1), 4), as relative corners, at each position of data (N, C, H, W).

    At each position: the first ratio with all sizes, then the first size with the other ratios.
    """
    if data.ndim < 4:
        raise MXNetError(f"operator MultiBoxPrior: data must have the shape (N, C, H, W), got shape {data.shape}")
    if not sizes or not ratios or len(steps) != 2 or len(offsets) != 2 or not all(0 <= o <= 1 for o in offsets):
        raise MXNetError("operator MultiBoxPrior: sizes and ratios must not be empty, steps and offsets must be two "
                         f"numbers, and offsets must be in [0, 1]; got {sizes}, {ratios}, {steps}, {offsets}")
    if steps[0] * steps[1] < 0:
        raise MXNetError(f"operator MultiBoxPrior: steps must both be set (y, x), got {steps}")
    height, width = data.shape[2:4]
    single = np.float32
    step_y, step_x = map(single, steps if steps[0] > 0 else (1 / height, 1 / width))
    pairs = [(s, ratios[0]) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]
    size, root = np.array([p[0] for p in pairs], single), np.sqrt(np.array([p[1] for p in pairs], single))
    refuse_result((4, height, width, len(pairs), 4), single)  # with intermediate values
    half = np.stack([size * single(height) / single(width) * root / 2, size / root / 2], -1)
    y = (np.arange(height, dtype=single) + single(offsets[0])) * step_y
    x = (np.arange(width, dtype=single) + single(offsets[1])) * step_x
    centre = np.stack(np.broadcast_arrays(x[None], y[:, None]), -1)[:, :, None]
    boxes = np.concatenate([centre - half, centre + half], -1).reshape(1, -1, 4)
    return jnp.asarray(np.clip(boxes, 0, 1) if clip else boxes, data.dtype)


def _target_shapes(p: dict[str, Any], anchor: tuple, label: tuple, *_: Any) -> list[tuple]:
    return [(label[0], 4 * anchor[1]), (label[0], 4 * anchor[1]), (label[0], anchor[1])]


def _target_fits(p: dict[str, Any], anchor: tuple, label: tuple, scores: tuple) -> bool:
    return len(anchor) == len(label) == len(scores) == 3 and anchor[::2] == (1, 4) and label[2] >= 5 and \
        scores[::2] == (label[0], anchor[1])


def _detection_shape(p: dict[str, Any], scores: tuple, places: tuple, anchor: tuple) -> tuple:
    return scores[0], anchor[1], 6


def _detection_fits(p: dict[str, Any], scores: tuple, places: tuple, anchor: tuple) -> bool:
    return len(scores) == len(anchor) == 3 and places == (scores[0], 4 * scores[2]) and anchor[1:] == (scores[2], 4)


@register("_contrib_MultiBoxTarget", aliases=("_npx_multibox_target",), num_outputs=3,
          FPartialShape=exact(_target_shapes, _target_fits),
          output_names=lambda p: ["loc_target", "loc_mask", "cls_target"])
def multibox_target(anchor: Array, label: Array, cls_pred: Array, *, overlap_threshold: float = 0.5,
                    ignore_label: float = -1.0, negative_mining_ratio: float = -1.0,
                    negative_mining_thresh: float = 0.5, minimum_negative_samples: int = 0,
                    variances: Floats = _VARIANCES) -> tuple[Array, Array, Array]:
    """Training targets of prior boxes for labels.

    Args:
        anchor: (1, A, 4), as corners.
        label: (B, L, 5 or more): class, corners; rows from the first class -1 on are padding.
        cls_pred: (B, classes, A) scores, the background first; for mining of hard negatives.
        overlap_threshold: minimum overlap of a positive anchor that is not the best one of a label.
        ignore_label: class target of anchors that are neither positive nor chosen as negative.
        negative_mining_ratio: negatives per positive; if not positive, all anchors without an object.
        negative_mining_thresh: upper bound of the overlap of negatives.
        minimum_negative_samples: not used, as in MXNet on CPU.
        variances: the location targets are divided by these.

    Returns:
        Location targets and masks (B, A * 4), class targets (B, A): 0 background, class + 1. Gradients are zero.
    """
    for name, array in (("anchor", anchor), ("label", label), ("cls_pred", cls_pred)):
        need_float("MultiBoxTarget", array)
        if array.ndim != 3:
            raise MXNetError(f"operator MultiBoxTarget: {name} must have 3 dimensions, got shape {array.shape}")
    if anchor.shape[0] != 1 or anchor.shape[2] != 4 or label.shape[2] < 5 or cls_pred.shape[2] != anchor.shape[1]:
        raise MXNetError("operator MultiBoxTarget: the shapes must be (1, anchors, 4), (batch, labels, at least 5) and "
                         f"(batch, classes, anchors), got {anchor.shape}, {label.shape}, {cls_pred.shape}")
    anchors, label, cls_pred = lax.stop_gradient((anchor[0], label, cls_pred))
    total, labels, (count, dtype) = len(anchors), label.shape[1], (len(anchors), anchor.dtype)

    def of_one(label: Array, cls_pred: Array) -> tuple[Array, Array, Array]:
        real = jnp.cumsum(label[:, 0] == -1) == 0
        overlap = jnp.where(real, _overlap(anchors.T[:, :, None], label[:, 1:5].T[:, None]), -1)

        def best_left(_: Any, state: tuple) -> tuple:
            match, open_labels = state
            left = jnp.where(open_labels & (match < 0)[:, None], overlap, -1)
            a, k = jnp.divmod(jnp.argmax(left), labels)
            good = left[a, k] > 1e-6
            return (jnp.where(good, match.at[a].set(k), match),
                    jnp.where(good, open_labels.at[k].set(False), open_labels))
        match, _ = lax.fori_loop(0, labels, best_left, (jnp.full(total, -1), real))
        positive, best, most = match >= 0, jnp.argmax(overlap, 1), overlap.max(1)
        if overlap_threshold > 0:
            positive |= most > overlap_threshold
        match = jnp.where(match < 0, best, match)
        negative = ~positive
        if negative_mining_ratio > 0:
            wanted = (positive.sum() * negative_mining_ratio).astype(jnp.int32)
            background = jax.nn.softmax(cls_pred, 0)[0]
            hardness = jnp.where(negative & (most < negative_mining_thresh), background, jnp.inf)
            rank = order(order(hardness))
            negative = (rank < wanted) & (hardness < jnp.inf)
        chosen = label[match]
        offsets = _encoded(anchors, chosen[:, 1:5], variances)
        mask = jnp.broadcast_to(positive[:, None] & real.any(), (count, 4))
        classes = jnp.where(positive, chosen[:, 0] + 1, jnp.where(negative, 0, ignore_label))
        return (jnp.where(mask, offsets, 0).reshape(-1), mask.astype(dtype).reshape(-1),
                jnp.where(real.any(), classes, ignore_label))
    offsets, mask, classes = jax.vmap(of_one)(label, cls_pred)
    return offsets.astype(dtype), mask.astype(dtype), classes.astype(dtype)


def _overlap(lhs: Array, rhs: Array) -> Array:
    """Intersection over union of boxes (xmin, ymin, xmax, ymax) along the first axis; sides are taken as they come."""
    (a, b, c, d), (e, f, g, h) = lhs, rhs
    wide, tall = jnp.minimum(c, g) - jnp.maximum(a, e), jnp.minimum(d, h) - jnp.maximum(b, f)
    shared = product(jnp.maximum(wide, 0), jnp.maximum(tall, 0))
    union = product(c - a, d - b) + product(g - e, h - f) - shared
    return jnp.where(union > 0, shared / jnp.where(union > 0, union, 1), 0)


def _encoded(anchors: Array, boxes: Array, variances: tuple[float, ...]) -> Array:
    anchor, box = center_size(anchors), center_size(boxes)
    offsets = (box[:, :2] - anchor[:, :2]) / anchor[:, 2:]
    sizes = jnp.log(box[:, 2:] / anchor[:, 2:])
    return jnp.concatenate([offsets, sizes], -1) / jnp.array(variances, anchors.dtype)


@register("_contrib_MultiBoxDetection", aliases=("_npx_multibox_detection",),
          FPartialShape=exact(_detection_shape, _detection_fits))
def multibox_detection(cls_prob: Array, loc_pred: Array, anchor: Array, *, clip: bool = True, threshold: float = 0.01,
                       background_id: int = 0, nms_threshold: float = 0.5, force_suppress: bool = False,
                       variances: Floats = _VARIANCES, nms_topk: int = -1) -> Array:
    """Detections from the predictions for prior boxes, after non-maximum suppression.

    Args:
        cls_prob: (B, classes, A), the background first.
        loc_pred: (B, A * 4) offsets.
        anchor: (1, A, 4), as corners.
        clip: whether to clip corners to [0, 1].
        threshold: minimum probability of an object.
        background_id: not used, as in MXNet on CPU.
        nms_threshold: overlap from which the less probable box is suppressed; no suppression if not in (0, 1].
        force_suppress: whether boxes of different classes suppress each other.
        variances: the offsets are multiplied by these.
        nms_topk: maximum number of detections, if positive.

    Returns:
        (B, A, 6): class, probability, corners; class -1 marks rows without a detection. Gradients are zero.
    """
    for name, array, ndim in (("cls_prob", cls_prob, 3), ("loc_pred", loc_pred, 2), ("anchor", anchor, 3)):
        need_float("MultiBoxDetection", array)
        if array.ndim != ndim:
            raise MXNetError(f"operator MultiBoxDetection: {name} must have {ndim} dimensions, got {array.ndim}")
    count = cls_prob.shape[2]
    if loc_pred.shape[1] != count * 4 or anchor.shape[1:] != (count, 4):
        raise MXNetError("operator MultiBoxDetection: the shapes must be (batch, classes, anchors), (batch, anchors * "
                         f"4) and (1, anchors, 4), got {cls_prob.shape}, {loc_pred.shape}, {anchor.shape}")
    cls_prob, loc_pred, anchor = lax.stop_gradient((cls_prob, loc_pred, anchor))
    prior, places = center_size(anchor[0]), jnp.arange(count)

    def of_one(probability: Array, offsets: Array) -> Array:
        best = jnp.argmax(probability[1:], 0)
        score = jnp.maximum(probability[1:].max(0), -1)
        result = (score > -1) & (score >= threshold)
        scaled = offsets.reshape(-1, 4) * jnp.array(variances, offsets.dtype)
        boxes = corners(jnp.concatenate([product(scaled[:, :2], prior[:, 2:]) + prior[:, :2],
                                         jnp.exp(scaled[:, 2:]) * prior[:, 2:]], -1))
        rows = jnp.column_stack([best, score, jnp.clip(boxes, 0, 1) if clip else boxes]).astype(cls_prob.dtype)
        rows = jnp.where(result[:, None], rows, -1)[order(~result)]
        if not 0 < nms_threshold <= 1:
            return rows
        number = result.sum()
        kept = jnp.minimum(number, nms_topk) if nms_topk > 0 else number
        ordered = rows[order(jnp.where(places < number, rows[:, 1], -jnp.inf), descending=True)]
        rows = jnp.where((places < kept)[:, None], ordered, rows.at[:, 0].set(-1))

        most = min(nms_topk, count) if nms_topk > 0 else count
        kind, _, *boxes = rows[:most].T
        boxes = jnp.stack(boxes)  # column by column

        def suppressed_by(i: Array) -> Array:
            over = _overlap(boxes[:, i], boxes) >= nms_threshold
            return over if force_suppress else over & (kind == kind[i])
        left = suppress(places[:most] < kept, suppressed_by)
        return rows.at[:most, 0].set(jnp.where(left, kind, -1))
    return jax.vmap(of_one)(cls_prob, loc_pred)
