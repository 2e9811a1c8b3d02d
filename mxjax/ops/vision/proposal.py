"""Region proposal networks: proposals from the scores and offsets of anchors (Faster R-CNN, arXiv:1506.01497)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..common import Array
from ..infer import filled
from ..params import Floats
from ..reduce._order import order
from ..registry import register
from ._boxes import product, shared_with, suppress


def _anchors(stride: int, ratios: tuple[float, ...], scales: tuple[float, ...]) -> np.ndarray:
    """Anchors (ratios * scales, 4) by corners, both ends included, around the first cell of the feature map."""
    size, rows = float(stride), []
    for ratio in np.asarray(ratios, np.float32):
        width = np.floor(np.sqrt(np.floor(np.float32(size * size) / ratio)) + np.float32(0.5))
        for scale in np.asarray(scales, np.float32):
            w = width * scale
            h = np.floor(w / scale * ratio + np.float32(0.5)) * scale
            rows.append([-(w - 1) / 2, -(h - 1) / 2, (w - 1) / 2, (h - 1) / 2])
    return np.array(rows, np.float32) + np.float32((size - 1) / 2)


def _propose(operator: str, cls_prob: Array, bbox_pred: Array, im_info: Array, pre: int, post: int, threshold: float,
             min_size: int, scales: tuple[float, ...], ratios: tuple[float, ...], stride: int,
             iou_loss: bool) -> tuple[Array, Array]:
    """(proposals (images * post, 5), their scores (images * post, 1))."""
    images, channels, height, width = cls_prob.shape
    count = len(scales) * len(ratios)
    if channels != 2 * count or bbox_pred.shape != (images, 4 * count, height, width):
        raise MXNetError(f"operator {operator}: for {count} anchors cls_prob must have {2 * count} channels and "
                         f"bbox_pred must have {4 * count}, got shapes {cls_prob.shape} and {bbox_pred.shape}")
    refuse_result((8, height, width, count), np.float32)
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    shift = np.stack([x, y, x, y], -1)[:, :, None].astype(np.float32) * stride
    anchors = jnp.asarray((_anchors(stride, ratios, scales) + shift).reshape(-1, 4))
    total = len(anchors)
    first = min(pre, total) if pre > 0 else total

    def of_one(scores: Array, deltas: Array, info: Array) -> tuple[Array, Array]:
        deltas = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
        scores = scores[count:].transpose(1, 2, 0).reshape(-1)
        if iou_loss:
            boxes = anchors + deltas
        else:
            size = anchors[:, 2:] - anchors[:, :2] + 1
            centre = product(deltas[:, :2], size) + anchors[:, :2] + 0.5 * (size - 1)
            half = 0.5 * (product(jnp.exp(deltas[:, 2:]), size) - 1)
            boxes = jnp.concatenate([centre - half, centre + half], -1)
        limits = jnp.stack([info[1], info[0], info[1], info[0]]) - 1
        boxes = jnp.maximum(jnp.minimum(boxes, limits), 0)
        real = (info[:2] / stride).astype(jnp.int32)  # beyond that the image is padding
        padding = jnp.asarray(np.repeat(np.stack([y, x], -1).reshape(-1, 2), count, 0)) >= real
        least = min_size * info[2]
        small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(-1)
        grown = boxes + jnp.stack([-least, -least, least, least]) / 2
        boxes = jnp.where(small[:, None], grown, boxes)
        scores = jnp.where(padding.any(-1) | small, -1, scores)
        best = order(scores, descending=True)[:first]
        boxes, scores = boxes[best], scores[best]
        sides = boxes[:, 2:] - boxes[:, :2] + 1
        area, shared_by = product(sides[:, 0], sides[:, 1]), shared_with(boxes, 1)

        def suppressed_by(i: Array) -> Array:
            shared = shared_by(i)
            return shared / (area[i] + area - shared) > threshold
        most = min(post, first)
        left = suppress(jnp.ones(first, bool), suppressed_by, most)
        kept = order(~left)
        index = kept[jnp.arange(post) % jnp.minimum(left.sum(), most)]  # too few are repeated
        return boxes[index], scores[index]
    # one image after the other: the results do not depend on the size of the batch
    boxes, scores = lax.map(lambda image: of_one(*image), lax.stop_gradient((cls_prob, bbox_pred, im_info)))
    image = jnp.broadcast_to(jnp.arange(images, dtype=boxes.dtype)[:, None, None], (images, post, 1))
    return jnp.concatenate([image, boxes], -1).reshape(-1, 5), scores.reshape(-1, 1)


_ATTRIBUTES = {"num_outputs": 2, "num_visible": lambda p: 2 if p["output_score"] else 1,
               "output_names": lambda p: ["output", "score"],
               "infer_shape": filled(bbox_pred=lambda p, x: (x[0], 2 * x[1], *x[2:]), im_info=lambda p, x: (x[0], 3))}


@register("_contrib_Proposal", **_ATTRIBUTES)
def proposal(cls_prob: Array, bbox_pred: Array, im_info: Array, *, rpn_pre_nms_top_n: int = 6000,
             rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16,
             scales: Floats = (4.0, 8.0, 16.0, 32.0), ratios: Floats = (0.5, 1.0, 2.0), feature_stride: int = 16,
             output_score: bool = False, iou_loss: bool = False) -> tuple[Array, Array]:
    """Proposals for one image: (rpn_post_nms_top_n, 5) with the image's number 0 and corners, and their scores.

    Args:
        cls_prob: (1, 2 * anchors, H, W), the scores of the background first.
        bbox_pred: (1, 4 * anchors, H, W) offsets.
        im_info: (1, 3) height, width and scale of the image.
        rpn_pre_nms_top_n, rpn_post_nms_top_n: numbers of best proposals to keep before and after suppression.
        threshold: overlap from which the box with the lower score is suppressed.
        rpn_min_size: smaller boxes, at the scale of the original image, come last.
        scales, ratios, feature_stride: parameters of the anchors.
        output_score: whether the scores are a second output.
        iou_loss: whether the offsets are those of the corners.

    Gradients are zero.
    """
    if cls_prob.shape[0] != 1:
        raise MXNetError(f"operator Proposal takes one image, got {cls_prob.shape[0]}; use MultiProposal for several")
    return _propose("Proposal", cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold,
                    rpn_min_size, scales, ratios, feature_stride, iou_loss)


@register("_contrib_MultiProposal", **_ATTRIBUTES)
def multi_proposal(cls_prob: Array, bbox_pred: Array, im_info: Array, *, rpn_pre_nms_top_n: int = 6000,
                   rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16,
                   scales: Floats = (4.0, 8.0, 16.0, 32.0), ratios: Floats = (0.5, 1.0, 2.0), feature_stride: int = 16,
                   output_score: bool = False, iou_loss: bool = False) -> tuple[Array, Array]:
    """`Proposal` for a batch: (images * rpn_post_nms_top_n, 5) with the image's number in the first column."""
    return _propose("MultiProposal", cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold,
                    rpn_min_size, scales, ratios, feature_stride, iou_loss)
