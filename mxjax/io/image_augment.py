"""The augmentation of `ImageRecordIter` before normalization: sizes, crops, rotations, colours (all BGR)."""

from __future__ import annotations

import math

import numpy as np

from .._support import images as _pixels
from ..base import MXNetError
from ._draws import Draws, Random
from .image_parameters import ImageParameters

__all__ = ["Augmenter", "jitter_hls"]

_PCA = _pixels.PCA_VECTORS * _pixels.PCA_VALUES
_UNBOUNDED = 1e10


def method(number: int, old: tuple[int, int], new: tuple[float, float], rng: Draws | Random) -> int:
    """OpenCV's interpolation for a resize from `old` to `new` (width, height); 9 and 10 as in `image.imresize`."""
    if number == 10:
        return rng.randint(0, 4)
    return _pixels.interpolation(number, (old[1], old[0], new[1], new[0]))


def jitter_hls(pixels: np.ndarray, hue: int, lightness: int, saturation: int) -> np.ndarray:
    """Adds to the channels of the HLS colour space."""
    cv2 = _pixels.cv2()
    hls = cv2.cvtColor(pixels, cv2.COLOR_BGR2HLS).astype(np.int16)
    hls = np.clip(hls + np.array([hue, lightness, saturation], np.int16), 0, (180, 255, 255)).astype(np.uint8)
    return cv2.cvtColor(hls, cv2.COLOR_HLS2BGR)


class Augmenter:
    """Applies the parameters of `ImageRecordIter`, in MXNet's order.

    Args:
        p: the parameters.

    Raises:
        MXNetError: parameters exclude each other.
    """

    def __init__(self, p: ImageParameters) -> None:
        self._p = p
        if p.inter_method not in (0, 1, 2, 3, 4, 9, 10):
            raise MXNetError(f"invalid inter_method {p.inter_method}: valid value 0,1,2,3,4,9,10")
        if p.min_aspect_ratio is None:
            self._ratios = (1 - p.max_aspect_ratio, 1 + p.max_aspect_ratio)
        else:
            self._ratios = (p.min_aspect_ratio, p.max_aspect_ratio)
        self._angles = [int(angle) for angle in p.rotate_list.split(",")] if p.rotate_list else []
        scaled = (p.min_random_scale, p.max_random_scale) != (1, 1)
        sized = (p.min_crop_size, p.max_crop_size) != (-1, -1)
        if p.random_resized_crop and (scaled or sized or p.rand_crop):
            raise MXNetError("random_resized_crop cannot be combined with min_random_scale, max_random_scale, "
                             "min_crop_size, max_crop_size or rand_crop")
        self._sized = sized
        self._affine = (p.max_rotate_angle > 0 or p.max_shear_ratio > 0 or p.rotate > 0 or self._angles or scaled
                        or (not p.random_resized_crop and self._ratios != (1, 1))
                        or p.max_img_size != _UNBOUNDED or p.min_img_size != 0)
        if self._affine and p.inter_method == 0:
            raise MXNetError("inter_method 0 cannot rotate, shear or scale: valid value 1,2,3,4,9,10")

    def __call__(self, pixels: np.ndarray, rng: Draws | Random) -> np.ndarray:
        """The image (height, width, channels) uint8 in the size of `data_shape`."""
        p = self._p
        if p.resize != -1:
            height, width = pixels.shape[:2]
            size = (p.resize, p.resize * height // width) if height > width else \
                (p.resize * width // height, p.resize)
            pixels = self._resize(pixels, size, rng)
        if self._affine:
            pixels = self._warp(pixels, rng)
        if p.pad > 0:
            pixels = _pixels.border(pixels, p.pad, p.pad, p.pad, p.pad, values=(p.fill_value,) * 3)
        pixels = self._cropped(pixels, rng)
        if p.brightness > 0 or p.contrast > 0 or p.saturation > 0:
            pixels = self._jitter(pixels, rng)
        if p.random_h or p.random_s or p.random_l:
            hue, saturation, lightness = (int(limit * (2 * (rng.random() + 4 * rng.random()) / 5 - 1))
                                          for limit in (p.random_h, p.random_s, p.random_l))
            pixels = jitter_hls(pixels, hue, lightness, saturation)
        if p.pca_noise > 0:
            noise = _PCA @ [rng.gauss(0, p.pca_noise) for _ in range(3)]
            pixels = np.clip(pixels + noise[::-1], 0, 255).astype(np.uint8)
        return pixels

    def _resize(self, pixels: np.ndarray, size: tuple[int, int], rng: Draws | Random) -> np.ndarray:
        return _pixels.resize(pixels, *size, method(self._p.inter_method, pixels.shape[1::-1], size, rng))

    def _warp(self, pixels: np.ndarray, rng: Draws | Random) -> np.ndarray:
        """Shear, rotation, scale and aspect ratio, about the middle."""
        p = self._p
        height, width = pixels.shape[:2]
        shear = rng.uniform(-p.max_shear_ratio, p.max_shear_ratio)
        angle = rng.randint(-p.max_rotate_angle, p.max_rotate_angle)
        if p.rotate > 0:
            angle = p.rotate
        if self._angles:
            angle = rng.choice(self._angles)
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        scale = ratio = 1.0
        if not p.random_resized_crop:
            scale = rng.uniform(p.min_random_scale, p.max_random_scale)
            ratio = rng.uniform(*self._ratios)
        tall = 2 * scale / (1 + ratio)
        wide = ratio * tall
        size = [max(p.min_img_size, min(p.max_img_size, scale * edge)) for edge in (width, height)]
        turn = np.array([[tall * cos - shear * sin * wide, tall * sin + shear * cos * wide],
                         [-sin * wide, cos * wide]])
        shift = (np.array(size) - turn @ (width, height)) / 2
        matrix = np.concatenate([turn, shift[:, None]], axis=1).astype(np.float32)
        flags = method(p.inter_method, (width, height), (size[0], size[1]), rng)
        return _pixels.shaped(_pixels.cv2().warpAffine(pixels, matrix, (int(size[0]), int(size[1])), flags=flags,
                                                    borderValue=(p.fill_value,) * 3))

    def _cropped(self, pixels: np.ndarray, rng: Draws | Random) -> np.ndarray:
        p = self._p
        _, height, width = p.data_shape
        if p.random_resized_crop:
            box = self._random_box(pixels, rng)
            if box is not None:
                return self._resize(_cut(pixels, *box), (width, height), rng)
        elif self._sized:
            if min(pixels.shape[:2]) < p.max_crop_size or p.max_crop_size < p.min_crop_size:
                raise MXNetError(f"input image size {pixels.shape[1::-1]} smaller than max_crop_size {p.max_crop_size}")
            size = rng.randint(p.min_crop_size, p.max_crop_size)
            return self._resize(self._place(pixels, size, size, rng), (width, height), rng)
        rows, columns = pixels.shape[:2]
        flags = method(p.inter_method, (columns, rows), (width, height), rng)
        if rows < height:
            pixels = _pixels.resize(pixels, int(height / rows * columns), height, flags)
        rows, columns = pixels.shape[:2]
        if columns < width:
            pixels = _pixels.resize(pixels, width, int(width / columns * rows), flags)
        if pixels.shape[0] < height or pixels.shape[1] < width:
            raise MXNetError(f"input image size {pixels.shape[1::-1]} smaller than input shape {(width, height)}")
        return self._place(pixels, width, height, rng)

    def _place(self, pixels: np.ndarray, width: int, height: int, rng: Draws | Random) -> np.ndarray:
        """A rectangle at a random place, or from the middle."""
        free = pixels.shape[1] - width, pixels.shape[0] - height
        y, x = (rng.randint(0, free[1]), rng.randint(0, free[0])) if self._p.rand_crop else (free[1] // 2, free[0] // 2)
        return _cut(pixels, x, y, width, height)

    def _random_box(self, pixels: np.ndarray, rng: Draws | Random) -> tuple[int, int, int, int] | None:
        """A random rectangle (x, y, width, height) for a resized crop; None after ten attempts, or without bounds."""
        p = self._p
        areas = (p.min_random_area, p.max_random_area)
        if areas == (1, 1) and self._ratios == (1, 1):
            return None
        if not (0 < self._ratios[0] <= self._ratios[1] and areas[0] <= areas[1]):
            raise MXNetError(f"invalid bounds: aspect ratio {self._ratios}, area {areas}")
        rows, columns = pixels.shape[:2]
        for _ in range(10):
            area, ratio = rng.uniform(*areas) * rows * columns, rng.uniform(*self._ratios)
            height, width = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if rng.random() > 0.5:
                height, width = width, height
            if height <= rows and width <= columns:
                y = rng.randint(0, rows - height)
                return rng.randint(0, columns - width), y, width, height
        return None

    def _jitter(self, pixels: np.ndarray, rng: Draws | Random) -> np.ndarray:
        """Brightness, contrast and saturation, in random order."""
        cv2, p = _pixels.cv2(), self._p
        factors = {name: np.float32(1 + rng.uniform(-limit, limit)) for name, limit in
                   (("brightness", p.brightness), ("contrast", p.contrast), ("saturation", p.saturation))}
        names = list(factors)
        rng.shuffle(names)
        for name in names:
            alpha = factors[name]
            if name == "brightness":
                pixels = cv2.LUT(pixels, _scaled(alpha))
                continue
            grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
            if name == "contrast":
                pixels = cv2.LUT(pixels, _scaled(alpha, (1 - alpha) * np.float32(cv2.mean(grey)[0])))
            else:
                pixels = cv2.addWeighted(pixels, float(alpha), cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR),
                                         float(1 - alpha), 0)
        return pixels


def _scaled(factor: np.float32, summand: np.float32 = np.float32(0)) -> np.ndarray:
    """Returns the scaled values of pixels."""
    return np.clip(np.rint(np.arange(256, dtype=np.float32) * factor + summand), 0, 255).astype(np.uint8)


def _cut(pixels: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    return pixels[y:y + height, x:x + width]
