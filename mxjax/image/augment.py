"""Image augmenters for classification, which map an image (height, width, channels) to another.

Each one defines `_change`, which runs on the host. A chain of augmenters converts an image from and
to an NDArray only once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support import images as _pixels
from .._support.images import GREY, PCA_VALUES, PCA_VECTORS
from ..ndarray import NDArray
from .functions import center_crop, host, like, random_crop, random_size_crop, renamed_area

if TYPE_CHECKING:
    from ..ops.params import DTypeLike
    from .functions import Image

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
           "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "LightingAug",
           "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug",
           "SequentialAug"]

IMAGENET_MEAN = (123.68, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)
_GREY = np.array(GREY, np.float32)


class Described:
    """Base of augmenters, which remember their arguments and serialize them as JSON."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: host(value).tolist() if isinstance(value, (NDArray, np.ndarray)) else value
                        for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Returns name and arguments as JSON; a list if the augmenter contains others."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base of augmenters. Subclasses define `__call__(image) -> image`.

    Args:
        kwargs: the arguments, for `dumps`.
    """

    _in_place = False  # whether an image of floats is written over, as by MXNet

    def __call__(self, src: Image) -> Any:
        """Returns the augmented image, an NDArray or NumPy array like `src`."""
        return like(self._change(host(src)), src, src if isinstance(src, NDArray) and self._writes_over(src) else None)

    def _writes_over(self, src: Image) -> bool:
        return self._in_place and isinstance(src, NDArray) and np.issubdtype(src.dtype, np.floating)

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        """The changed image, on the host; `pixels` must not be written to."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


def chain(augmenters: Iterable[Any], src: Image) -> Any:
    """Applies built-in and user-defined augmenters to an image; returns `src` itself if all of them work in place."""
    image = src
    for augmenter in augmenters:
        ours = isinstance(augmenter, Augmenter) and type(augmenter).__call__ is Augmenter.__call__
        if ours and not (image is src and augmenter._writes_over(src)):
            pixels = host(image)
            changed = augmenter._change(pixels)
            image = image if changed is pixels else changed
        else:
            image = augmenter(image if isinstance(image, NDArray) else like(image, src))
    return like(image, src) if isinstance(src, NDArray) and not isinstance(image, NDArray) else image


class SequentialAug(Augmenter):
    """Applies augmenters in sequence.

    Args:
        ts: the augmenters.
    """

    def __init__(self, ts: list[Augmenter]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> list:
        """Returns the name and the augmenters' descriptions."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src: Image) -> Any:
        """Returns the augmented image."""
        return chain(self.ts, src)


class RandomOrderAug(SequentialAug):
    """Applies augmenters in random order.

    Args:
        ts: the augmenters, a list.
    """

    def __call__(self, src: Image) -> Any:
        """Returns the augmented image."""
        random.shuffle(self.ts)
        return chain(self.ts, src)


class ResizeAug(Augmenter):
    """Resizes so that the shorter edge has a given length.

    Args:
        size: that length.
        interp: as in `imresize`.
    """

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return _pixels.resize_short(pixels, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resizes to a given size, ignoring the aspect ratio.

    Args:
        size: (width, height) of the result.
        interp: as in `imresize`.
    """

    def __init__(self, size: Sequence[int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        width, height = self.size
        return _pixels.resize(pixels, width, height, self.interp)


class RandomCropAug(ForceResizeAug):
    """Crops a rectangle of size (width, height) at a random position; arguments as in `random_crop`."""

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return random_crop(pixels, self.size, self.interp)[0]


class CenterCropAug(ForceResizeAug):
    """Crops the center, of size (width, height); arguments as in `center_crop`."""

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return center_crop(pixels, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crops a random rectangle and resizes it; arguments as in `random_size_crop`."""

    def __init__(self, size: Sequence[int], area: float | Sequence[float], ratio: tuple[float, float], interp: int = 2,
                 **kwargs: Any) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.ratio, self.interp = size, ratio, interp
        self.area = renamed_area(area, kwargs, "RandomSizedCropAug")

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return random_size_crop(pixels, self.size, self.area, self.ratio, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Multiplies by a random factor from [1 - brightness, 1 + brightness].

    Args:
        brightness: largest deviation of the factor from 1.
    """

    _in_place = True

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return _blend(pixels, 1.0 + random.uniform(-self.brightness, self.brightness), 0)


class ContrastJitterAug(Augmenter):
    """Blends with the image's mean grey, by a random factor from [1 - contrast, 1 + contrast].

    Args:
        contrast: largest deviation of the factor from 1.
    """

    _in_place = True

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        return _blend(pixels, alpha, np.float32(1.0 - alpha) * np.mean(pixels @ _GREY))


class SaturationJitterAug(Augmenter):
    """Blends with the grey image, by a random factor from [1 - saturation, 1 + saturation].

    Args:
        saturation: largest deviation of the factor from 1.
    """

    _in_place = True

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        return _blend(pixels, alpha, np.float32(1.0 - alpha) * (pixels @ _GREY)[:, :, None])


def _blend(pixels: np.ndarray, alpha: float, other: np.ndarray | np.floating | float) -> np.ndarray:
    """alpha * pixels + other, in the image's dtype."""
    return _as(pixels.dtype, pixels * np.float32(alpha) + other)


def _as(dtype: np.dtype, pixels: np.ndarray) -> np.ndarray:
    """Returns pixels in a dtype; values outside of an integer dtype become its nearest number."""
    if dtype.kind in "iu":
        pixels = np.clip(pixels, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return pixels.astype(dtype, copy=False)


class HueJitterAug(Augmenter):
    """Rotates the hue by a random angle from [-hue, hue] times 180 degrees (in the YIQ colour space).

    https://beesbuzz.biz/code/hsv_color_transforms.php

    Args:
        hue: the largest angle, in half turns.
    """

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue
        self.tyiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
        self.ityiq = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        alpha = random.uniform(-self.hue, self.hue) * np.pi
        turn = np.array([[1, 0, 0], [0, np.cos(alpha), -np.sin(alpha)], [0, np.sin(alpha), np.cos(alpha)]])
        return _as(pixels.dtype, pixels @ (self.ityiq @ turn @ self.tyiq).T.astype(np.float32))


class ColorJitterAug(RandomOrderAug):
    """Changes brightness, contrast and saturation randomly, in random order.

    Args:
        brightness, contrast, saturation: as in `BrightnessJitterAug`, `ContrastJitterAug` and
            `SaturationJitterAug`; 0: no change.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        jitters = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation))
        super().__init__([jitter(amount) for jitter, amount in jitters if amount > 0])


class LightingAug(Augmenter):
    """Adds noise along the principal components of colours. Krizhevsky et al., NIPS 2012.

    Args:
        alphastd: the noise's standard deviation.
        eigval, eigvec: the components, (3,) and (3, 3).
    """

    _in_place = True

    def __init__(self, alphastd: float, eigval: np.ndarray, eigvec: np.ndarray) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return _blend(pixels, 1.0, (host(self.eigvec) * alpha @ host(self.eigval)).astype(np.float32))


class ColorNormalizeAug(Augmenter):
    """Computes (image - mean) / std.

    Args:
        mean, std: one number per channel, or None.
    """

    _in_place = True

    def __init__(self, mean: Image | None, std: Image | None) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (None if v is None else np.asarray(host(v), np.float32) for v in (mean, std))

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        if self.mean is not None:
            pixels = pixels - self.mean
        return pixels if self.std is None else pixels / self.std


class RandomGrayAug(Augmenter):
    """Converts images to grey (three equal channels).

    Args:
        p: the probability.
    """

    _weights = np.array([[0.21] * 3, [0.72] * 3, [0.07] * 3], np.float32)

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return _as(pixels.dtype, pixels @ self._weights) if random.random() < self.p else pixels


class HorizontalFlipAug(Augmenter):
    """Mirrors left and right.

    Args:
        p: the probability.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return pixels[:, ::-1] if random.random() < self.p else pixels


class CastAug(Augmenter):
    """Converts to another dtype.

    Args:
        typ: the dtype.
    """

    def __init__(self, typ: DTypeLike = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return pixels.astype(self.typ)


def colour_constant(value: bool | Image | None, imagenet: Sequence[float], what: str) -> Any:
    """Returns a mean or standard deviation: None, ImageNet's for True, or the given array.

    Raises:
        AssertionError: it is not an array of 1 or 3 values.
    """
    if value is None:
        return None
    if value is True:
        return np.array(imagenet, np.float32)
    if not isinstance(value, (np.ndarray, NDArray)) or value.shape[0] not in (1, 3):
        raise AssertionError(f"{what} must be True or an array of 1 or 3 numbers, got {value!r}")
    return value


def colour_augmenters(brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float,
                      rand_gray: float, mean: bool | Image | None, std: bool | Image | None) -> list[Augmenter]:
    """Returns the augmenters that follow the geometric ones: conversion to float32, colours, normalization."""
    augmenters: list[Augmenter] = [CastAug()]
    if brightness or contrast or saturation:
        augmenters.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        augmenters.append(HueJitterAug(hue))
    if pca_noise > 0:
        augmenters.append(LightingAug(pca_noise, PCA_VALUES, PCA_VECTORS))
    if rand_gray > 0:
        augmenters.append(RandomGrayAug(rand_gray))
    shift, scale = colour_constant(mean, IMAGENET_MEAN, "mean"), colour_constant(std, IMAGENET_STD, "std")
    if shift is not None or scale is not None:
        augmenters.append(ColorNormalizeAug(shift, scale))
    return augmenters


def CreateAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False, rand_resize: bool = False,  # noqa: N802
                    rand_mirror: bool = False, mean: bool | Image | None = None, std: bool | Image | None = None,
                    brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0,
                    pca_noise: float = 0, rand_gray: float = 0, inter_method: int = 2) -> list[Augmenter]:
    """Creates a list of augmenters for classification.

    Args:
        data_shape: (channels, height, width) of the result.
        resize: length of the shorter edge after an initial resize; 0: no resize.
        rand_crop: crop at a random position instead of the center.
        rand_resize: crop with random size and aspect ratio; requires `rand_crop`.
        rand_mirror: mirror with probability 1/2.
        mean, std: per channel, the number to subtract and the one to divide by; True for
            ImageNet's.
        brightness, contrast, saturation, hue: largest random changes.
        pca_noise: standard deviation of the noise of `LightingAug`.
        rand_gray: probability of converting to grey.
        inter_method: `interp` of `imresize`.

    Raises:
        AssertionError: `rand_resize` is set without `rand_crop`, or `mean` or `std` is invalid.
    """
    if rand_resize and not rand_crop:
        raise AssertionError("rand_resize requires rand_crop=True")
    augmenters: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        augmenters.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        augmenters.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    return augmenters + colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std)
