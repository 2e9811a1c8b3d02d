"""Augmenters of images for classification: objects that take an image (height, width, channels) and give another.

Each defines `_change`, on the host; a chain of them takes an image out of its NDArray once, and puts it back once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support import images as _pixels
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
_PCA_VALUES = np.array([55.46, 4.794, 1.148])  # of ImageNet's colours
_PCA_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
_GREY = np.array([0.299, 0.587, 0.114], np.float32)


class Described:
    """The common part of augmenters: they remember their arguments, and write them as JSON."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: host(value).tolist() if isinstance(value, (NDArray, np.ndarray)) else value
                        for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Name and arguments, as JSON; a list where the augmenter contains others."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base of augmenters: a subclass defines `__call__(image) -> image`.

    Args:
        kwargs: the arguments, for `dumps`.
    """

    _in_place = False  # whether an image of floats is written over, as by MXNet

    def __call__(self, src: Image) -> Any:
        """The changed image; an NDArray (or NumPy array) as `src` is."""
        return like(self._change(host(src)), src, src if isinstance(src, NDArray) and self._writes_over(src) else None)

    def _writes_over(self, src: Image) -> bool:
        return self._in_place and isinstance(src, NDArray) and np.issubdtype(src.dtype, np.floating)

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        """The changed image, on the host; `pixels` must not be written to."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


def chain(augmenters: Iterable[Any], src: Image) -> Any:
    """An image after augmenters, ours and users' own; `src` itself where all of them write over it or leave it."""
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
    """Augmenters one after the other.

    Args:
        ts: the augmenters.
    """

    def __init__(self, ts: list[Augmenter]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> list:
        """Name, and the augmenters' descriptions."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src: Image) -> Any:
        """The changed image."""
        return chain(self.ts, src)


class RandomOrderAug(SequentialAug):
    """Augmenters in random order.

    Args:
        ts: the augmenters, a list.
    """

    def __call__(self, src: Image) -> Any:
        """The changed image."""
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
    """Resizes, whatever the proportions.

    Args:
        size: (width, height).
        interp: as in `imresize`.
    """

    def __init__(self, size: Sequence[int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        width, height = self.size
        return _pixels.resize(pixels, width, height, self.interp)


class RandomCropAug(ForceResizeAug):
    """Cuts out a rectangle of size (width, height) at a random place; arguments as `random_crop`."""

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return random_crop(pixels, self.size, self.interp)[0]


class CenterCropAug(ForceResizeAug):
    """Cuts out the middle, of size (width, height); arguments as `center_crop`."""

    def _change(self, pixels: np.ndarray) -> np.ndarray:
        return center_crop(pixels, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Cuts out a random rectangle and resizes it; arguments as `random_size_crop`."""

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
        brightness: how far from 1.
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
        contrast: how far from 1.
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
        saturation: how far from 1.
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
    """Pixels in a dtype; what an integer dtype cannot have becomes its nearest number."""
    if dtype.kind in "iu":
        pixels = np.clip(pixels, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return pixels.astype(dtype, copy=False)


class HueJitterAug(Augmenter):
    """Turns the hue by a random angle from [-hue, hue] times 180 degrees (in the YIQ colour space).

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
    """Random brightness, contrast and saturation, in random order.

    Args:
        brightness, contrast, saturation: as in `BrightnessJitterAug` and its like; 0: left alone.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation))
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


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
    """(image - mean) / std.

    Args:
        mean, std: one number for each channel, or None.
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
    """Makes grey (in three equal channels).

    Args:
        p: how probably.
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
        p: how probably.
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


def colour_constant(given: bool | Image | None, imagenet: Sequence[float], what: str) -> Any:
    """A mean or standard deviation: None, ImageNet's for True, or what was given.

    Raises:
        AssertionError: it is no array of 1 or 3 values.
    """
    if given is None:
        return None
    if given is True:
        return np.array(imagenet, np.float32)
    if not isinstance(given, (np.ndarray, NDArray)) or given.shape[0] not in (1, 3):
        raise AssertionError(f"{what} must be True or an array of 1 or 3 numbers, got {given!r}")
    return given


def colour_augmenters(brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float,
                      rand_gray: float, mean: bool | Image | None, std: bool | Image | None) -> list[Augmenter]:
    """The augmenters behind those that change the geometry: to float32, then the colours, then normalization."""
    augmenters: list[Augmenter] = [CastAug()]
    if brightness or contrast or saturation:
        augmenters.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        augmenters.append(HueJitterAug(hue))
    if pca_noise > 0:
        augmenters.append(LightingAug(pca_noise, _PCA_VALUES, _PCA_VECTORS))
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
    """A list of augmenters for classification.

    Args:
        data_shape: (channels, height, width) of the result.
        resize: resize first so that the shorter edge has this length; 0: do not.
        rand_crop: cut out at random, not from the middle.
        rand_resize: cut out with random size and proportions; needs `rand_crop`.
        rand_mirror: mirror half of the time.
        mean, std: numbers to subtract and to divide by, for each channel; True for ImageNet's.
        brightness, contrast, saturation, hue: how far these change at random.
        pca_noise: standard deviation of the noise of `LightingAug`.
        rand_gray: how probably to make grey.
        inter_method: `interp` of `imresize`.

    Raises:
        AssertionError: `rand_resize` without `rand_crop`; `mean` or `std` has a wrong form.
    """
    if rand_resize and not rand_crop:
        raise AssertionError("rand_resize needs rand_crop=True")
    augmenters: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        augmenters.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        augmenters.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    return augmenters + colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std)
