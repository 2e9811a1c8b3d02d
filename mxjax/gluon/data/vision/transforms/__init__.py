"""Image transforms: blocks that map an image (height, width, channels), or a batch of images, to another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..... import image, level
from .....base import numeric_types
from .....util import is_np_array
from ....block import Block, HybridBlock
from ....nn import HybridSequential, Sequential
from ._both import (
    CropResize,
    ImageFunction,
    ImageOp,
    Normalize,
    RandomBrightness,
    RandomColorJitter,
    RandomContrast,
    RandomHue,
    RandomLighting,
    RandomRotation,
    RandomSaturation,
    Resize,
    Rotate,
    ToTensor,
)

if TYPE_CHECKING:
    from .....ndarray import NDArray
    from .....ops.params import DTypeLike
    from ...._types import Size

__all__ = ["Cast", "CenterCrop", "Compose", "CropResize", "HybridCompose", "Normalize", "RandomApply",
           "RandomBrightness", "RandomColorJitter", "RandomContrast", "RandomFlipLeftRight", "RandomFlipTopBottom",
           "RandomHue", "RandomLighting", "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize", "Rotate",
           "ToTensor"]

images = image  # a module of this package, MXNet 2's, has the name, too


class Compose(Sequential):
    """Applies several transforms in sequence; adjacent HybridBlocks are compiled together.

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
    """Applies several hybrid transforms in sequence, as one compiled graph.

    Args:
        transforms: hybrid blocks.

    Raises:
        ValueError: a transform is not a HybridBlock.

    Example:
        >>> HybridCompose([Resize(4), ToTensor()])(mx.nd.ones((6, 8, 3), dtype="uint8")).shape
        (3, 4, 4)
    """

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"{type(transform).__name__} is not a HybridBlock: use Compose")
            self.add(transform)
        self.hybridize()


def _front(F: ModuleType) -> Any:  # noqa: N803
    """Returns where the operators are: F, or its NumPy namespace's extensions."""
    return F.npx if is_np_array() else F


class Cast(HybridBlock):
    """Converts to another dtype.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: DTypeLike = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: ModuleType, x: NDArray) -> Any:  # noqa: N803
        """Converts x."""
        return _front(F).cast(x, self._dtype)


class RandomFlipLeftRight(ImageOp):
    """Mirrors left and right with probability 1/2."""

    _op = "random_flip_left_right"

    def __init__(self) -> None:
        super().__init__()


class RandomFlipTopBottom(ImageOp):
    """Mirrors top and bottom with probability 1/2."""

    _op = "random_flip_top_bottom"

    def __init__(self) -> None:
        super().__init__()


def _size(size: Size) -> Sequence[int]:
    return (size, size) if isinstance(size, numeric_types) else size


class CenterCrop(ImageFunction):
    """Crops the center, and enlarges it if the image is too small; x: (H, W, C).

    Args:
        size: (width, height), or a number for both.
        interpolation: as in `Resize`.
    """

    def __init__(self, size: Size, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_size(size), interpolation)

    def _changed(self, x: NDArray) -> Any:
        return images.center_crop(x, *self._args)[0]


class RandomResizedCrop(ImageFunction):
    """Crops a random rectangle and resizes it; x: (H, W, C).

    Args:
        size: (width, height) of the result, or a number for both.
        scale: bounds of the rectangle's area, relative to the image's.
        ratio: bounds of its aspect ratio, width / height.
        interpolation: as in `Resize`.
    """

    def __init__(self, size: Size, scale: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_size(size), scale, ratio, interpolation)

    def _changed(self, x: NDArray) -> Any:
        return images.random_size_crop(x, *self._args)[0]


class RandomApply(Sequential):
    """Applies transforms with a given probability.

    Args:
        transforms: the transforms.
        p: the probability.
    """

    def __init__(self, transforms: Callable, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: NDArray) -> Any:
        """Returns x, transformed or unchanged."""
        return x if self.p < random.random() else self.transforms(x)


if not TYPE_CHECKING and level.fix("mxjax.gluon") == 2:  # checkers see level 1: the same names, as MXNet 2 has them
    from . import composed, image
    from .composed import *  # noqa: F403
    from .image import *  # noqa: F403

    __all__ = ["Compose", "HybridCompose", *composed.__all__, *image.__all__]
