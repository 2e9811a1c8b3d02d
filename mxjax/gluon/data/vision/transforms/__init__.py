"""Transforms of images: blocks that take an image (height, width, channels), or a batch of them, and give another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..... import image, level
from .....base import numeric_types
from .....util import is_np_array
from ....block import Block, HybridBlock
from ....nn import HybridSequential, Sequential

__all__ = ["Cast", "CenterCrop", "Compose", "CropResize", "HybridCompose", "Normalize", "RandomApply",
           "RandomBrightness", "RandomColorJitter", "RandomContrast", "RandomFlipLeftRight", "RandomFlipTopBottom",
           "RandomHue", "RandomLighting", "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize", "Rotate",
           "ToTensor"]


class Compose(Sequential):
    """Transforms one after the other; neighbours that are HybridBlocks are compiled together.

    Args:
        transforms: blocks.

    Example:
        >>> both = Compose([CenterCrop(4), ToTensor()])
        >>> both(mx.nd.ones((6, 8, 3), dtype="uint8")).shape
        (3, 4, 4)
    """

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        run: list[HybridBlock] = []
        for transform in (*transforms, None):
            if isinstance(transform, HybridBlock):
                run.append(transform)
                continue
            if len(run) == 1:
                self.add(run[0])
            elif run:
                together = HybridSequential()
                together.add(*run)
                together.hybridize()
                self.add(together)
            run = []
            if transform is not None:
                self.add(transform)


class HybridCompose(HybridSequential):
    """Transforms one after the other, all of them hybrid, as one compiled graph.

    Args:
        transforms: hybrid blocks.

    Raises:
        ValueError: a transform is no HybridBlock.

    Example:
        >>> HybridCompose([Resize(4), ToTensor()])(mx.nd.ones((6, 8, 3), dtype="uint8")).shape
        (3, 4, 4)
    """

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"{type(transform).__name__} is no HybridBlock: use Compose")
            self.add(transform)
        self.hybridize()


def _front(F: Any) -> Any:  # noqa: N803
    """Returns where the operators are: F, or its NumPy flavour's extensions."""
    return F.npx if is_np_array() else F


class Cast(HybridBlock):
    """Converts to another dtype.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """x, converted."""
        return _front(F).cast(x, self._dtype)


class _ImageOp(HybridBlock):
    """A transform that is one operator of `F.image`."""

    _op = ""
    _args: tuple = ()

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """x, transformed."""
        return getattr(_front(F).image, self._op)(x, *self._args)


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


class CropResize(HybridBlock):
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

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """The part of x."""
        images = _front(F).image
        out = images.crop(x, *self._rectangle)
        return images.resize(out, self._size, False, self._interpolation) if self._size else out


class RandomFlipLeftRight(_ImageOp):
    """Mirrors left and right, half of the time."""

    _op = "random_flip_left_right"

    def __init__(self) -> None:
        super().__init__()


class RandomFlipTopBottom(_ImageOp):
    """Mirrors top and bottom, half of the time."""

    _op = "random_flip_top_bottom"

    def __init__(self) -> None:
        super().__init__()


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


def _size(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, numeric_types) else size


class _ImageFunction(Block):
    """A transform that is one function of `mx.image`."""

    _function: Callable
    _args: tuple = ()

    def forward(self, x: Any) -> Any:
        """x, transformed."""
        out = self._function(x, *self._args)
        return out[0] if isinstance(out, tuple) else out


class CenterCrop(_ImageFunction):
    """Cuts out the middle, and enlarges where that is too small; x: (H, W, C).

    Args:
        size: (width, height), or a number for both.
        interpolation: as in `Resize`.
    """

    _function = staticmethod(image.center_crop)

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_size(size), interpolation)


class RandomResizedCrop(_ImageFunction):
    """Cuts out a random rectangle and resizes it; x: (H, W, C).

    Args:
        size: (width, height) of the result, or a number for both.
        scale: bounds of the rectangle's part of the area.
        ratio: bounds of its width over height.
        interpolation: as in `Resize`.
    """

    _function = staticmethod(image.random_size_crop)

    def __init__(self, size: Any, scale: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_size(size), scale, ratio, interpolation)


def _check_float32(x: Any) -> None:
    if x.dtype != np.float32:
        raise TypeError(f"rotations take float32 images, got {np.dtype(x.dtype)}: put them behind ToTensor")


class Rotate(_ImageFunction):
    """Rotates; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        rotation_degrees: the angle.
        zoom_in: so far that nothing of the outside is seen.
        zoom_out: so far that the whole image is seen.

    Raises:
        TypeError: when used: x is not float32.
    """

    _function = staticmethod(image.imrotate)

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any) -> Any:
        """x, rotated."""
        _check_float32(x)
        return super().forward(x)


class RandomRotation(_ImageFunction):
    """Rotates by a random angle; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        angle_limits: (smallest, largest) angle in degrees.
        zoom_in, zoom_out: as in `Rotate`.
        rotate_with_proba: how probably.

    Raises:
        ValueError: the limits are not in order, or the probability is none.
        TypeError: when used: x is not float32.
    """

    _function = staticmethod(image.random_rotate)

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

    def forward(self, x: Any) -> Any:
        """x, rotated or not."""
        if np.random.random() > self._rotate_with_proba:
            return x
        _check_float32(x)
        return super().forward(x)


class RandomApply(Sequential):
    """Applies transforms, or does not.

    Args:
        transforms: what to apply.
        p: how probably.
    """

    def __init__(self, transforms: Callable, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any) -> Any:
        """x, transformed or not."""
        return x if self.p < random.random() else self.transforms(x)


if level.fix("mxjax.gluon") == 2:  # the same names, as MXNet 2 has them
    from . import composed, image
    from .composed import *  # noqa: F403
    from .image import *  # noqa: F403

    __all__ = ["Compose", "HybridCompose", *composed.__all__, *image.__all__]
