"""Transforms of images as MXNet 2 has them: `mx.np` arrays in and out; what is given beside the image is given back."""

from __future__ import annotations

from typing import Any

import numpy

from ..... import image
from ..... import numpy as np
from ..... import numpy_extension as npx
from .....base import numeric_types
from ....block import Block, HybridBlock

__all__ = ["CenterCrop", "CropResize", "Normalize", "RandomBrightness", "RandomColorJitter", "RandomContrast",
           "RandomCrop", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomGray", "RandomHue", "RandomLighting",
           "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize", "Rotate", "ToTensor"]


class _Image:
    """A transform whose `_changed` is the image's; `forward` gives its other arguments back."""

    def forward(self, x: Any, *args: Any) -> Any:
        changed = self._changed(x)
        return (changed, *args) if args else changed

    def _changed(self, x: Any) -> Any:
        """Returns the image, transformed."""
        raise NotImplementedError(f"{type(self).__name__} must define _changed")


class _ImageOp(_Image, HybridBlock):
    """A transform that is one operator of `npx.image`."""

    _op = ""
    _args: tuple = ()

    def _changed(self, x: Any) -> Any:
        return getattr(npx.image, self._op)(x, *self._args)


def _size(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, numeric_types) else tuple(size)


class ToTensor(_ImageOp):
    """(H, W, C) or (N, H, W, C) in [0, 255] to float32 (C, H, W) or (N, C, H, W) in [0, 1]."""

    _op = "to_tensor"

    def __init__(self) -> None:
        super().__init__()


class Normalize(_ImageOp):
    """(x - mean) / std by channel; x: (C, H, W) or (N, C, H, W) float.

    Args:
        mean, std: numbers, or one for each channel.
    """

    _op = "normalize"

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._args = (mean, std)


class Resize(_ImageOp):
    """Resizes; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        keep_ratio: with a number: it is the shorter edge's length, and the longer one's follows.
        interpolation: OpenCV's number of the method; 1 is bilinear.
    """

    _op = "resize"

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (size, keep_ratio, interpolation)


class CropResize(_Image, HybridBlock):
    """Cuts out a rectangle and resizes it; x: (H, W, C) or (N, H, W, C).

    Args:
        x, y: left and upper edge.
        width, height: size of the rectangle.
        size: (width, height) of the result, a number for both, or None: not resized.
        interpolation: as in `Resize`.
    """

    def __init__(self, x: int, y: int, width: int, height: int, size: Any = None,
                 interpolation: int | None = None) -> None:
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size, self._interpolation = size, 1 if interpolation is None else interpolation

    def _changed(self, x: Any) -> Any:
        out = npx.image.crop(x, *self._rectangle)
        return npx.image.resize(out, self._size, False, self._interpolation) if self._size else out


class CenterCrop(_ImageOp):
    """Cuts out the middle, and enlarges where that is too small; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        interpolation: as in `Resize`.
    """

    _op = "random_crop"

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._args = ((0.5, 0.5), (0.5, 0.5), *_size(size), interpolation)


class RandomCrop(_ImageOp):
    """Cuts out a rectangle at a random place; x: (H, W, C), without padding also (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        pad: zeros around the image before: a number, or (above, below, left, right).
        pad_value: what is put there instead of 0.
        interpolation: as in `Resize`, where the image is too small.
    """

    _op = "random_crop"

    def __init__(self, size: Any, pad: Any = None, pad_value: int = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._args = ((0, 1), (0, 1), *_size(size), interpolation)
        self._pad_value = pad_value
        if isinstance(pad, int):
            pad = (pad,) * 4
        if pad is not None and len(pad) < 4:
            raise AssertionError(f"pad must be a number or four, got {pad}")
        self._pad = pad and ((pad[0], pad[1]), (pad[2], pad[3]), (0, 0))

    def _changed(self, x: Any) -> Any:
        if self._pad:
            x = np.pad(x, pad_width=self._pad, mode="constant", constant_values=self._pad_value)
        return super()._changed(x)


class RandomResizedCrop(_Image, HybridBlock):
    """Cuts out a random rectangle and resizes it; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height) of the result, or a number for both.
        scale: bounds of the rectangle's part of the area, or the lower one.
        ratio: bounds of its width over height.
        interpolation: as in `Resize`.
    """

    def __init__(self, size: Any, scale: Any = (0.08, 1.0), ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
                 interpolation: int = 1) -> None:
        super().__init__()
        width, height = _size(size)
        self._kwargs = {"width": width, "height": height, "ratio": ratio, "interp": interpolation, "max_trial": 10,
                        "area": (scale, 1.0) if isinstance(scale, numeric_types) else scale}

    def _changed(self, x: Any) -> Any:
        return npx.image.random_resized_crop(x, **self._kwargs)


class _RandomFlip(_Image, HybridBlock):
    _op = ""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _changed(self, x: Any) -> Any:
        if self.p <= 0:
            return x
        if self.p >= 1:
            return getattr(npx.image, self._op)(x)
        return getattr(npx.image, f"random_{self._op}")(x, p=self.p)


class RandomFlipLeftRight(_RandomFlip):
    """Mirrors left and right.

    Args:
        p: how probably.
    """

    _op = "flip_left_right"


class RandomFlipTopBottom(_RandomFlip):
    """Mirrors top and bottom.

    Args:
        p: how probably.
    """

    _op = "flip_top_bottom"


class RandomBrightness(_ImageOp):
    """Multiplies by a random factor from [max(0, 1 - brightness), 1 + brightness].

    Args:
        brightness: how far from 1.
    """

    _op = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - brightness), 1 + brightness)


class RandomContrast(_ImageOp):
    """Changes the contrast by a random factor from [max(0, 1 - contrast), 1 + contrast].

    Args:
        contrast: how far from 1.
    """

    _op = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - contrast), 1 + contrast)


class RandomSaturation(_ImageOp):
    """Changes the saturation by a random factor from [max(0, 1 - saturation), 1 + saturation].

    Args:
        saturation: how far from 1.
    """

    _op = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - saturation), 1 + saturation)


class RandomHue(_ImageOp):
    """Turns the hue by a random factor from [max(0, 1 - hue), 1 + hue].

    Args:
        hue: how far from 1.
    """

    _op = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - hue), 1 + hue)


class RandomColorJitter(_ImageOp):
    """Changes brightness, contrast, saturation and hue at random, in random order.

    Args:
        brightness, contrast, saturation, hue: as in `RandomBrightness` and its like.
    """

    _op = "random_color_jitter"

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)


class RandomLighting(_ImageOp):
    """Adds noise along the principal components of ImageNet's colours. Krizhevsky et al., NIPS 2012.

    Args:
        alpha: the noise's standard deviation.
    """

    _op = "random_lighting"

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._args = (alpha,)


class RandomGray(_Image, HybridBlock):
    """Makes an image grey, as float32; x: (H, W, 3).

    Args:
        p: how probably.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _changed(self, x: Any) -> Any:
        x = x.astype("float32")
        weights = np.concatenate([np.full((3, 1), part) for part in (0.2989, 0.587, 0.114)], axis=1)
        return np.where(self.p < np.random.uniform(), x, np.dot(x, weights))


class Rotate(_Image, Block):
    """Rotates; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        rotation_degrees: the angle.
        zoom_in: so far that nothing of the outside is seen.
        zoom_out: so far that the whole image is seen.

    Raises:
        TypeError: when used: x is not float32.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def _changed(self, x: Any) -> Any:
        _check_float32(x)
        return image.imrotate(x, *self._args)


class RandomRotation(_Image, Block):
    """Rotates by a random angle; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        angle_limits: (smallest, largest) angle in degrees.
        zoom_in, zoom_out: as in `Rotate`.
        rotate_with_proba: how probably.

    Raises:
        ValueError: the limits are not in order, or the probability is none.
        TypeError: when used: x is not float32.
    """

    def __init__(self, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False,
                 rotate_with_proba: float = 1.0) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any, *args: Any) -> Any:
        # without the other arguments where nothing is rotated, as in MXNet
        return x if numpy.random.random() > self._rotate_with_proba else super().forward(x, *args)

    def _changed(self, x: Any) -> Any:
        _check_float32(x)
        return image.random_rotate(x, *self._args)


def _check_float32(x: Any) -> None:
    if x.dtype != numpy.float32:
        raise TypeError(f"rotations take float32 images, got {numpy.dtype(x.dtype)}: put them behind ToTensor")
