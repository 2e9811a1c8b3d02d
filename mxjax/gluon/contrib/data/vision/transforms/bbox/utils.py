"""The arithmetic of boxes: NumPy arrays (boxes, 4 or more), whose first columns are left, top, right and bottom."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["bbox_clip_xyxy", "bbox_crop", "bbox_flip", "bbox_iou", "bbox_random_crop_with_constraints", "bbox_resize",
           "bbox_translate", "bbox_xywh_to_xyxy", "bbox_xyxy_to_xywh"]

_CONSTRAINTS = ((0.1, None), (0.3, None), (0.5, None), (0.7, None), (0.9, None), (None, 1))


def _need(size: Sequence[Any], length: int, name: str) -> None:
    if len(size) != length:
        raise ValueError(f"{name} must have {length} numbers, got {len(size)}")


def bbox_crop(bbox: np.ndarray, crop_box: Sequence[float | None] | None = None,
              allow_outside_center: bool = True) -> np.ndarray:
    """Clips boxes to a crop of an image and converts them to the crop's coordinates.

    Args:
        bbox: the boxes.
        crop_box: (left, top, width, height) of the crop. None, or None for one of them, means no
            bound.
        allow_outside_center: keep boxes whose center is outside.

    Example:
        >>> bbox_crop(np.array([[0.0, 0, 5, 5], [8, 8, 9, 9]]), (2, 2, 4, 4))
        array([[0., 0., 3., 3.]])
    """
    if crop_box is None:
        return bbox.copy()
    _need(crop_box, 4, "crop_box")
    left, top, width, height = crop_box
    low = np.array([left or 0, top or 0])
    high = low + [width or np.inf, height or np.inf]
    centers = (bbox[:, :2] + bbox[:, 2:4]) / 2
    kept = allow_outside_center | ((low <= centers) & (centers < high)).all(axis=1)
    cut = bbox.copy()
    cut[:, :2], cut[:, 2:4] = np.maximum(bbox[:, :2], low) - low, np.minimum(bbox[:, 2:4], high) - low
    return cut[kept & (cut[:, :2] < cut[:, 2:4]).all(axis=1)]


def bbox_flip(bbox: np.ndarray, size: Sequence[float], flip_x: bool = False, flip_y: bool = False) -> np.ndarray:
    """Mirrors boxes with their image.

    Args:
        bbox: the boxes.
        size: (width, height) of the image.
        flip_x, flip_y: swap left and right, top and bottom.
    """
    _need(size, 2, "size")
    bbox = bbox.copy()
    for axis, flip in enumerate((flip_x, flip_y)):
        if flip:
            bbox[:, [axis, axis + 2]] = size[axis] - bbox[:, [axis + 2, axis]]
    return bbox


def bbox_resize(bbox: np.ndarray, in_size: Sequence[float], out_size: Sequence[float]) -> np.ndarray:
    """Resizes boxes with their image; returns floats.

    Args:
        bbox: the boxes.
        in_size, out_size: (width, height) before and after.
    """
    _need(in_size, 2, "in_size")
    _need(out_size, 2, "out_size")
    bbox = bbox.astype(float)
    bbox[:, :4] *= np.tile(np.divide(out_size, in_size), 2)
    return bbox


def bbox_translate(bbox: np.ndarray, x_offset: float = 0, y_offset: float = 0) -> np.ndarray:
    """Moves boxes.

    Args:
        bbox: the boxes.
        x_offset, y_offset: to the right and down.
    """
    bbox = bbox.copy()
    bbox[:, :4] += np.array([x_offset, y_offset] * 2, bbox.dtype)
    return bbox


def bbox_iou(bbox_a: np.ndarray, bbox_b: np.ndarray, offset: float = 0) -> np.ndarray:
    """Returns the intersection over union of each pair of boxes, (boxes of a, boxes of b).

    Args:
        bbox_a, bbox_b: boxes.
        offset: number to add to widths and heights: 1 if right and bottom are inclusive.

    Raises:
        IndexError: boxes with fewer than 4 columns.
    """
    if min(bbox_a.shape[1], bbox_b.shape[1]) < 4:
        raise IndexError(f"boxes must have 4 columns or more, got {bbox_a.shape} and {bbox_b.shape}")
    low = np.maximum(bbox_a[:, None, :2], bbox_b[:, :2])
    high = np.minimum(bbox_a[:, None, 2:4], bbox_b[:, 2:4])
    both = np.prod(high - low + offset, axis=2) * (low < high).all(axis=2)
    of_a, of_b = (np.prod(box[:, 2:4] - box[:, :2] + offset, axis=1) for box in (bbox_a, bbox_b))
    return both / (of_a[:, None] + of_b - both)


def _converted(boxes: Sequence[float] | np.ndarray, convert: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A box as a tuple, or an array of them, converted."""
    if isinstance(boxes, tuple | list):
        if len(boxes) != 4:
            raise IndexError(f"a box must have 4 numbers, got {len(boxes)}")
        return tuple(convert(np.array([boxes]))[0])
    if not isinstance(boxes, np.ndarray):
        raise TypeError(f"expected a list, a tuple or a NumPy array, got {type(boxes).__name__}")
    if boxes.size % 4:
        raise IndexError(f"boxes must have 4 columns, got {boxes.shape}")
    return convert(boxes)


def bbox_xywh_to_xyxy(xywh: Sequence[float] | np.ndarray) -> Any:
    """Converts (left, top, width, height) to (left, top, right, bottom), where right and bottom are inclusive.

    Args:
        xywh: a list or tuple of four, or an array (boxes, 4).
    """
    return _converted(xywh, lambda b: np.hstack([b[:, :2], b[:, :2] + np.maximum(0, b[:, 2:4] - 1)]))


def bbox_xyxy_to_xywh(xyxy: Sequence[float] | np.ndarray) -> Any:
    """Inverse of `bbox_xywh_to_xyxy`.

    Args:
        xyxy: a list or tuple of four, or an array (boxes, 4).
    """
    return _converted(xyxy, lambda b: np.hstack([b[:, :2], b[:, 2:4] - b[:, :2] + 1]))


def bbox_clip_xyxy(xyxy: Sequence[float] | np.ndarray, width: float, height: float) -> Any:
    """Clips boxes to an image.

    Args:
        xyxy: a list or tuple of four, or an array (boxes, 4).
        width, height: of the image.
    """
    most = np.array([width - 1, height - 1] * 2)
    return _converted(xyxy, lambda b: np.minimum(most, np.maximum(0, b[:, :4])).astype(b.dtype))


def bbox_random_crop_with_constraints(bbox: np.ndarray, size: Sequence[int], min_scale: float = 0.3,
                                      max_scale: float = 1, max_aspect_ratio: float = 2,
                                      constraints: Iterable[tuple[float | None, float | None]] | None = None,
                                      max_trial: int = 50) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """Draws a random crop that contains boxes, as in the training of SSD. Liu et al., 2016, arXiv:1512.02325.

    Args:
        bbox: the boxes.
        size: (width, height) of the image.
        min_scale, max_scale: bounds of the crop's sides, relative to the image's.
        max_aspect_ratio: largest aspect ratio of the crop.
        constraints: pairs of bounds for the intersection over union of boxes and crop; one pair is
            drawn.
        max_trial: number of attempts per pair.

    Returns:
        (boxes within the crop, (left, top, width, height) of the crop).
    """
    width, height = size
    candidates = [(0, 0, width, height)]
    for low, high in _CONSTRAINTS if constraints is None else constraints:
        bounds = (-np.inf if low is None else low, np.inf if high is None else high)
        for _ in range(max_trial):
            part = _part(width, height, random.uniform(min_scale, max_scale), max_aspect_ratio)
            if not len(bbox):
                return bbox, part
            edges = np.array([[part[0], part[1], part[0] + part[2], part[1] + part[3]]])
            iou = bbox_iou(bbox, edges)
            if bounds[0] <= iou.min() and iou.max() <= bounds[1]:
                candidates.append(part)
                break
    random.shuffle(candidates)
    for part in candidates:
        within = bbox_crop(bbox, part, allow_outside_center=False)
        if within.size:
            return within, part
    return bbox, (0, 0, width, height)


def _part(width: int, height: int, scale: float, max_aspect_ratio: float) -> tuple[int, int, int, int]:
    """A rectangle (left, top, width, height) of a scale, at a random place."""
    ratio = random.uniform(max(1 / max_aspect_ratio, scale * scale), min(max_aspect_ratio, 1 / (scale * scale)))
    w, h = min(width, int(width * scale * ratio ** 0.5)), min(height, int(height * scale / ratio ** 0.5))
    return random.randint(0, width - w), random.randint(0, height - h), w, h
