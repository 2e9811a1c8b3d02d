"""Image transforms that both API levels share, and how each level calls them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..... import image, level
from .....util import is_np_array
from ....block import Block, HybridBlock

if TYPE_CHECKING:
    from .....ndarray import NDArray
    from ...._types import Size

__all__ = ["CropResize", "Normalize", "RandomBrightness", "RandomColorJitter", "RandomContrast", "RandomHue",
           "RandomLighting", "RandomRotation", "RandomSaturation", "Resize", "Rotate", "ToTensor"]

_LEVEL = level.fix("mxjax.gluon")


def _and_others(changed: object, args: tuple) -> Any:
    """Returns an image with the further arguments, such as a label, as MXNet 2 does."""
    return (changed, *args) if args else changed


class ImageOp(HybridBlock):
    """A transform by operators of `F.image`: `_op` with `_args`, unless a subclass overrides `_changed`."""

    _op = ""
    _args: tuple = ()

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        """Returns x, transformed by operators of `images`."""
        return getattr(images, self._op)(x, *self._args)

    if _LEVEL == 2:
        def forward(self, x: NDArray, *args: object) -> Any:
            """Returns the transformed x and the further arguments."""
            from ..... import numpy_extension  # at this level alone
            return _and_others(self._changed(x, numpy_extension.image), args)
    else:
        def hybrid_forward(self, F: ModuleType, x: NDArray) -> Any:  # noqa: N803
            """x, transformed."""
            return self._changed(x, (F.npx if is_np_array() else F).image)


class ImageFunction(Block):
    """A transform by a function of `mx.image`, which cannot be part of a graph."""

    def _changed(self, x: NDArray) -> Any:
        """Returns x, transformed."""
        raise NotImplementedError(f"{type(self).__name__} must define _changed")

    def forward(self, x: NDArray, *args: object) -> Any:
        """Transforms x; level 2 also returns the other arguments."""
        if args and _LEVEL == 1:
            raise TypeError(f"{type(self).__name__} expects an image, got {1 + len(args)} arguments")
        return _and_others(self._changed(x), args)


class ToTensor(ImageOp):
    """Converts (H, W, C) or (N, H, W, C) in [0, 255] to float32 (C, H, W) or (N, C, H, W) in [0, 1]."""

    _op = "to_tensor"

    def __init__(self) -> None:
        super().__init__()


class Normalize(ImageOp):
    """Computes (x - mean) / std per channel; x: (C, H, W) or (N, C, H, W) float.

    Args:
        mean, std: a number, or one per channel.
    """

    _op = "normalize"

    def __init__(self, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        self._args = (mean, std)


class Resize(ImageOp):
    """Resizes images; x: (H, W, C) or (N, H, W, C).

    Args:
        size: (width, height), or a number for both.
        keep_ratio: keep the aspect ratio; a single `size` is then the length of the shorter edge.
        interpolation: OpenCV's interpolation number; 1 is bilinear.
    """

    _op = "resize"

    def __init__(self, size: Size, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (size, keep_ratio, interpolation)


class CropResize(ImageOp):
    """Crops a rectangle and resizes it; x: (H, W, C) or (N, H, W, C).

    Args:
        x, y: left and upper edge.
        width, height: size of the rectangle.
        size: (width, height) of the result, a number for both, or None: not resized.
        interpolation: as in `Resize`.
    """

    def __init__(self, x: int, y: int, width: int, height: int, size: Size | None = None,
                 interpolation: int | None = None) -> None:
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size, self._interpolation = size, 1 if interpolation is None else interpolation

    def _changed(self, x: NDArray, images: ModuleType) -> Any:
        out = images.crop(x, *self._rectangle)
        return images.resize(out, self._size, False, self._interpolation) if self._size else out


class RandomBrightness(ImageOp):
    """Multiplies by a random factor from [max(0, 1 - brightness), 1 + brightness].

    Args:
        brightness: largest deviation of the factor from 1.
    """

    _op = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - brightness), 1 + brightness)


class RandomContrast(ImageOp):
    """Changes the contrast by a random factor from [max(0, 1 - contrast), 1 + contrast].

    Args:
        contrast: largest deviation of the factor from 1.
    """

    _op = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - contrast), 1 + contrast)


class RandomSaturation(ImageOp):
    """Changes the saturation by a random factor from [max(0, 1 - saturation), 1 + saturation].

    Args:
        saturation: largest deviation of the factor from 1.
    """

    _op = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - saturation), 1 + saturation)


class RandomHue(ImageOp):
    """Shifts the hue by a random factor from [max(0, 1 - hue), 1 + hue].

    Args:
        hue: largest deviation of the factor from 1.
    """

    _op = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - hue), 1 + hue)


class RandomColorJitter(ImageOp):
    """Changes brightness, contrast, saturation and hue at random, in random order.

    Args:
        brightness, contrast, saturation, hue: as in `RandomBrightness`, `RandomContrast` ...
    """

    _op = "random_color_jitter"

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)


class RandomLighting(ImageOp):
    """Adds noise along the principal components of ImageNet's colours. Krizhevsky et al., NIPS 2012.

    Args:
        alpha: the noise's standard deviation.
    """

    _op = "random_lighting"

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._args = (alpha,)


def _float32(x: NDArray) -> Any:
    if x.dtype != np.float32:
        raise TypeError(f"rotations require float32 images, got {np.dtype(x.dtype)}: apply ToTensor first")
    return x


class Rotate(ImageFunction):
    """Rotates; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        rotation_degrees: the angle.
        zoom_in: zoom in until no padding is visible.
        zoom_out: zoom out until the whole image is visible.

    Raises:
        TypeError: on call, if x is not float32.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def _changed(self, x: NDArray) -> Any:
        return image.imrotate(_float32(x), *self._args)


class RandomRotation(ImageFunction):
    """Rotates by a random angle; x: (C, H, W) or (N, C, H, W) float32.

    Args:
        angle_limits: (smallest, largest) angle in degrees.
        zoom_in, zoom_out: as in `Rotate`.
        rotate_with_proba: probability of a rotation.

    Raises:
        ValueError: the limits are not in order, or the probability is not in [0, 1].
        TypeError: on call, if x is not float32.
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

    def forward(self, x: NDArray, *args: object) -> Any:
        """Returns x, rotated or unchanged."""
        # without the other arguments where nothing is rotated, as in MXNet
        return x if np.random.random() > self._rotate_with_proba else super().forward(x, *args)

    def _changed(self, x: NDArray) -> Any:
        return image.random_rotate(_float32(x), *self._args)


for _name in __all__:
    globals()[_name].__module__ = __package__  # where pickles and users find them
