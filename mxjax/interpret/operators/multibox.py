"""Training targets and detections of single shot detection (SSD)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..direct import Work, need
from ..program import Array
from .boxes import center_size, corners, greedy, overlap
from .shapes import constant

__all__: list[str] = []

_SORTED = 40.0  # elements that could be computed in the time of sorting one


def _with_areas(boxes: Array) -> Array:
    """Returns left, top, right, bottom and area of boxes (n, 4), by rows; sides may be negative."""
    left, top, right, bottom = boxes.T
    return np.stack([left, top, right, bottom, (right - left) * (bottom - top)])


# ------------------------------------------------------------ targets
def _matches(shared: Array) -> Array:
    """Returns the label of each anchor in pairs of the largest overlaps, taken one after the other; -1 for others."""
    match, left = np.full(len(shared), -1), shared.copy()
    for _ in range(shared.shape[1]):
        anchor, label = divmod(int(left.argmax()), left.shape[1])
        if not left[anchor, label] > 1e-6:
            break
        match[anchor] = label
        left[anchor], left[:, label] = -1, -1
    return match


def _hardest(p: dict[str, Any], positive: Array, most: Array, scores: Array) -> Array:
    """Returns the anchors without an object whose scores for the background are the lowest."""
    exp = np.exp(scores - scores.max(0))
    hard = np.where(~positive & (most < p["negative_mining_thresh"]), exp[0] / exp.sum(0), np.inf)
    count = int(min(np.float32(positive.sum()) * np.float32(p["negative_mining_ratio"]), len(positive)))
    negative = np.zeros(len(positive), bool)
    negative[np.argsort(hard, kind="stable")[:count]] = True
    return negative & (hard < np.inf)


def _target(p: dict[str, Any], anchors: Array, label: Array, scores: Array) -> tuple[Array, Array, Array]:
    """Returns offsets and masks (A, 4) and classes (A,) of one image."""
    real = np.cumsum(label[:, 0] == -1) == 0
    if not real.any():
        shape = anchors.shape
        return np.zeros(shape), np.zeros(shape), np.full(len(anchors), p["ignore_label"])
    shared = np.nan_to_num(overlap(_with_areas(anchors)[:, :, None], _with_areas(label[:, 1:5])[:, None]))
    shared[:, ~real] = -1
    match, best, most = _matches(shared), shared.argmax(1), shared.max(1)
    positive = match >= 0
    if p["overlap_threshold"] > 0:
        positive |= most > p["overlap_threshold"]
    negative = _hardest(p, positive, most, scores) if p["negative_mining_ratio"] > 0 else ~positive
    chosen = label[np.where(match < 0, best, match)]
    anchor, box = center_size(anchors), center_size(chosen[:, 1:5])
    offsets = np.concatenate([(box[:, :2] - anchor[:, :2]) / anchor[:, 2:], np.log(box[:, 2:] / anchor[:, 2:])], -1)
    mask = np.broadcast_to(positive[:, None], offsets.shape)
    return (np.where(mask, offsets / np.array(p["variances"], anchors.dtype), 0), mask,
            np.where(positive, chosen[:, 0] + 1, np.where(negative, 0, p["ignore_label"])))


def _target_work(p: dict[str, Any], anchor: tuple, label: tuple, scores: tuple) -> Work:
    (_, priors, _), (images, labels, _), (_, classes, _) = anchor, label, scores
    return Work(images * priors * (labels * (30.0 + 3 * labels) + 6 * classes + _SORTED), operations=250)


@constant("_contrib_MultiBoxTarget", mixed=False, work=_target_work)
def _multibox_target(p: dict[str, Any], anchor: Array, label: Array, scores: Array) -> Any:
    need(anchor.ndim == label.ndim == scores.ndim == 3 and anchor.shape[::2] == (1, 4) and label.shape[1] > 0 and
         label.shape[2] >= 5 and scores.shape[::2] == (label.shape[0], anchor.shape[1]) and scores.size)
    need(np.isfinite(anchor).all() and np.isfinite(label).all())
    rows = [_target(p, anchor[0], *each) for each in zip(label, scores, strict=True)]
    return tuple([np.stack(part).reshape(len(label), -1).astype(anchor.dtype) for part in zip(*rows, strict=True)])


# ------------------------------------------------------------ detections
def _detected(p: dict[str, Any], scores: Array, offsets: Array, prior: Array) -> Array:
    """Returns the rows (A, 6) of one image."""
    score = np.maximum(scores[1:].max(0), -1)
    chosen = np.flatnonzero((score > -1) & (score >= p["threshold"]))
    number, prior = len(chosen), prior[chosen]
    scaled = offsets.reshape(-1, 4)[chosen] * np.array(p["variances"], offsets.dtype)
    boxes = corners(np.concatenate([scaled[:, :2] * prior[:, 2:] + prior[:, :2], np.exp(scaled[:, 2:]) * prior[:, 2:]],
                                   -1))
    rows = np.full((len(score), 6), -1, scores.dtype)
    rows[:number, 0], rows[:number, 1] = scores[1:, chosen].argmax(0), score[chosen]
    rows[:number, 2:] = np.clip(boxes, 0, 1) if p["clip"] else boxes
    if not 0 < p["nms_threshold"] <= 1:
        return rows
    kept = min(number, p["nms_topk"]) if p["nms_topk"] > 0 else number
    best = rows[:number][np.argsort(-rows[:number, 1], kind="stable")[:kept]]
    rows[:, 0] = -1
    rows[:kept] = best
    left = greedy(np.ones(kept, bool), _with_areas(best[:, 2:]),
                  lambda lhs, rhs: ~(overlap(lhs, rhs) >= p["nms_threshold"]),
                  None if p["force_suppress"] else best[:, 0])
    rows[:kept, 0] = np.where(left, best[:, 0], -1)
    return rows


def _detection_work(p: dict[str, Any], scores: tuple, places: tuple, anchor: tuple) -> Work:
    images, classes, priors = scores
    limit = min(p["nms_topk"], priors) if p["nms_topk"] > 0 else priors
    pairs = limit * limit / (1 if p["force_suppress"] else max(classes - 1, 1))  # compared in each class
    return Work(images * (priors * (2 * classes + 60 + _SORTED) + 6.0 * pairs), operations=200)


@constant("_contrib_MultiBoxDetection", mixed=False, work=_detection_work)
def _multibox_detection(p: dict[str, Any], scores: Array, places: Array, anchor: Array) -> Any:
    need(scores.ndim == anchor.ndim == 3 and scores.shape[1] > 1 and scores.shape[2] and
         places.shape == (len(scores), 4 * scores.shape[2]) and len(anchor) and
         anchor.shape[1:] == (scores.shape[2], 4))
    need(np.isfinite(scores).all() and np.isfinite(places).all() and np.isfinite(anchor).all())
    prior = center_size(anchor[0])
    return np.stack([_detected(p, *each, prior) for each in zip(scores, places, strict=True)])
