"""The augmentation of an image (BGR) and its objects by `ImageDetRecordIter` before normalization."""

from __future__ import annotations

import math

import numpy as np

from .._support import images as _pixels
from ..base import MXNetError
from ._draws import Random
from .image_augment import jitter_hls, method
from .image_parameters import DetParameters

__all__ = ["DetAugmenter", "Objects"]

Box = tuple[float, float, float, float]  # left, top, width, height, in parts of the image


class Objects:
    """A detection label: header, then for each object its class, left, top, right and bottom edge, and more.

    Args:
        raw: length of the header, values per object, the rest of the header, objects one after the other.

    Raises:
        MXNetError: the label is malformed.
    """

    def __init__(self, raw: np.ndarray) -> None:
        if len(raw) < 7:
            raise MXNetError(f"a detection label must have at least 7 values, got {len(raw)}")
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or width < 5 or (len(raw) - header) % width:
            raise MXNetError(f"a detection label of {len(raw)} values cannot have a header of {header} and objects of "
                             f"{width} values")
        self.header = raw[:header]
        objects = raw[header:].reshape(-1, width).copy()
        self.rows = objects[(objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])]

    def to_array(self) -> np.ndarray:
        """The raw label again, without invalid objects."""
        return np.concatenate([self.header, self.rows.ravel()])

    def mirror(self) -> None:
        """Mirrors left and right."""
        self.rows[:, [1, 3]] = 1 - self.rows[:, [3, 1]]

    def project(self, box: Box) -> None:
        """Changes to the coordinates of a box, and clips objects to it."""
        x, y, width, height = box
        edges = (self.rows[:, 1:5] - (x, y, x, y)) / (width, height, width, height)
        self.rows[:, 1:5] = np.concatenate([np.maximum(edges[:, :2], 0), np.minimum(edges[:, 2:], 1)], axis=1)

    def crop(self, box: Box, bounds: list[tuple[float, float]], overlap_thresh: float | None) -> bool:
        """Changes to the coordinates of a box, if it is acceptable.

        Args:
            box: the box.
            bounds: of intersection over union, and of the intersection's part of the box and of the object; one
                object must keep within them.
            overlap_thresh: objects of which no more than this part remains are dropped; None: those whose middle is
                outside.

        Returns:
            Whether the box was accepted; otherwise nothing is changed.
        """
        if not len(self.rows):
            return True
        x, y, width, height = box
        left, top, right, bottom = self.rows[:, 1:5].T
        common = np.maximum(np.minimum(right, x + width) - np.maximum(left, x), 0) * \
            np.maximum(np.minimum(bottom, y + height) - np.maximum(top, y), 0)
        own = (right - left) * (bottom - top)
        measures = (common / (width * height + own - common), common / (width * height), common / own)
        fine = np.ones(len(own), bool)
        for measure, (low, high) in zip(measures, bounds, strict=True):
            if low > 0 or high < 1:
                fine &= (measure >= low) & (measure <= high)
        if overlap_thresh is None:
            middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
            kept = (middle_x >= x) & (middle_x < x + width) & (middle_y >= y) & (middle_y < y + height)
        else:
            kept = common / own > overlap_thresh
        if not fine.any() or not kept.any():
            return False
        self.rows = self.rows[kept]
        self.project(box)
        return True


class DetAugmenter:
    """Applies the parameters of `ImageDetRecordIter`, in MXNet's order.

    Args:
        p: the parameters.

    Raises:
        MXNetError: parameters contradict each other.
    """

    _samplers = ("crop_scales", "crop_aspect_ratios", "crop_overlaps", "crop_sample_coverages",
                 "crop_object_coverages")

    def __init__(self, p: DetParameters) -> None:
        self._p = p
        if p.inter_method not in (0, 1, 2, 3, 4, 9, 10):
            raise MXNetError(f"invalid inter_method {p.inter_method}: valid value 0,1,2,3,4,9,10")
        count = p.num_crop_sampler

        def spread(name: str) -> tuple:
            values = getattr(p, name)
            if len(values) not in (1, count):
                raise MXNetError(f"{name}: got {len(values)} values for {count} crop samplers")
            return values * (count if len(values) == 1 else 1)
        self._bounds = [list(zip(spread("min_" + name), spread("max_" + name), strict=True))
                        for name in self._samplers]
        self._trials = spread("max_crop_trials")
        for name, bounds in zip(self._samplers, self._bounds, strict=True):
            if any(low > high or low < 0 for low, high in bounds):
                raise MXNetError(f"min_{name} must not be negative or greater than max_{name}, got {bounds}")

    def __call__(self, pixels: np.ndarray, label: np.ndarray, rng: Random) -> tuple[np.ndarray, np.ndarray]:
        """(image (height, width, channels) uint8, label)."""
        p, cv2 = self._p, _pixels.cv2()
        if p.resize != -1:
            height, width = pixels.shape[:2]
            size = (p.resize, p.resize * height // width) if height > width else \
                (p.resize * width // height, p.resize)
            pixels = self._resize(pixels, size, rng)
        objects = Objects(label)
        pixels = self._colours(pixels, rng)
        if p.rand_mirror_prob > 0 and rng.random() < p.rand_mirror_prob:
            objects.mirror()
            pixels = _pixels.shaped(cv2.flip(pixels, 1))
        if p.rand_pad_prob > 0 and p.max_pad_scale > 1 and rng.random() < p.rand_pad_prob:
            pixels = self._pad(pixels, objects, rng)
        if p.rand_crop_prob > 0 and p.num_crop_sampler > 0 and rng.random() < p.rand_crop_prob:
            pixels = self._crop(pixels, objects, rng)
        return self._fit(pixels, rng), objects.to_array()

    def _resize(self, pixels: np.ndarray, size: tuple[int, int], rng: Random) -> np.ndarray:
        return _pixels.resize(np.ascontiguousarray(pixels), *size,
                            method(self._p.inter_method, pixels.shape[1::-1], size, rng))

    def _colours(self, pixels: np.ndarray, rng: Random) -> np.ndarray:
        p = self._p

        def draw(limit: float, probability: float) -> float:
            value = rng.uniform(-1, 1) * limit
            return value if rng.random() < probability else 0
        hue, saturation, lightness, contrast = (
            draw(getattr(p, "max_random_" + name), getattr(p, f"random_{name}_prob"))
            for name in ("hue", "saturation", "illumination", "contrast"))
        if int(hue) or int(saturation) or int(lightness):
            pixels = jitter_hls(pixels, int(hue), int(lightness), int(saturation))
        if abs(contrast) > 1e-3:
            pixels = _pixels.shaped(_pixels.cv2().addWeighted(pixels, 1 + contrast, pixels, 0, 0))
        return pixels

    def _pad(self, pixels: np.ndarray, objects: Objects, rng: Random) -> np.ndarray:
        """Puts the image at a random place of a larger one."""
        p = self._p
        scale = rng.uniform(1, p.max_pad_scale)
        if scale < 1.05:
            return pixels
        x, y = rng.uniform(0, scale - 1), rng.uniform(0, scale - 1)
        objects.project((-x, -y, scale, scale))
        rows, columns = pixels.shape[:2]
        return _pixels.border(pixels, int(y * rows), int((scale - y - 1) * rows), int(x * columns),
                            int((scale - x - 1) * columns), 16, values=(p.fill_value,) * 3)

    def _crop(self, pixels: np.ndarray, objects: Objects, rng: Random) -> np.ndarray:
        """Cuts out a box that one of the samplers finds, tried in random order."""
        p = self._p
        rows, columns = pixels.shape[:2]
        thresh = p.emit_overlap_thresh if p.crop_emit_mode == "overlap" else None
        for i in rng.sample(range(p.num_crop_sampler), p.num_crop_sampler):
            scales, ratios, *bounds = (values[i] for values in self._bounds)
            for _ in range(self._trials[i]):
                box = self._box(scales, ratios, columns / rows, rng)
                if objects.crop(box, bounds, thresh):
                    x, y = int(box[0] * columns), int(box[1] * rows)
                    return pixels[y:y + max(int(box[3] * rows), 1), x:x + max(int(box[2] * columns), 1)]
        return pixels

    @staticmethod
    def _box(scales: tuple[float, float], ratios: tuple[float, float], image_ratio: float, rng: Random) -> Box:
        scale = rng.uniform(*scales) + 1e-12
        low, high = max(ratios[0] / image_ratio, scale ** 2), min(ratios[1] / image_ratio, 1 / scale ** 2)
        ratio = math.sqrt(rng.uniform(low, high))
        width, height = min(1.0, scale * ratio), min(1.0, scale / ratio)
        return rng.uniform(0, 1 - width), rng.uniform(0, 1 - height), width, height

    def _fit(self, pixels: np.ndarray, rng: Random) -> np.ndarray:
        """Resizes by `resize_mode`."""
        p = self._p
        _, height, width = p.data_shape
        if p.resize_mode == "force":
            return self._resize(pixels, (width, height), rng)
        ratio = min(height / pixels.shape[0], width / pixels.shape[1])
        if p.resize_mode == "shrink" and ratio >= 1:
            return pixels
        return self._resize(pixels, (int(ratio * pixels.shape[1]), int(ratio * pixels.shape[0])), rng)
