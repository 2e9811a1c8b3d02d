"""Transforms of an image (height, width, channels) together with its boxes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....... import ndarray as nd
from ....... import numpy as mx_np
from ....... import numpy_extension as npx
from .......util import is_np_array
from ......block import Block
from .utils import bbox_crop, bbox_flip, bbox_random_crop_with_constraints, bbox_resize, bbox_translate

if TYPE_CHECKING:
    from .......ndarray import NDArray

__all__ = ["ImageBboxCrop", "ImageBboxRandomCropWithConstraints", "ImageBboxRandomExpand",
           "ImageBboxRandomFlipLeftRight", "ImageBboxResize"]


def _images() -> Any:
    return npx.image if is_np_array() else nd.image


def _array(values: np.ndarray) -> Any:
    """float32, as `array` makes of NumPy's."""
    return mx_np.array(values, dtype="float32") if is_np_array() else nd.array(values)


class ImageBboxRandomFlipLeftRight(Block):
    """Mirrors left and right.

    Args:
        p: how likely.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: NDArray, bbox: NDArray) -> tuple[Any, Any]:
        """Returns image and boxes, mirrored or unchanged."""
        if len(bbox.shape) != 2 or bbox.shape[1] < 4:
            raise AssertionError(f"boxes must have the shape (boxes, 4 or more), got {bbox.shape}")
        if random.random() >= self.p:
            return img, bbox
        return _images().flip_left_right(img), _array(bbox_flip(bbox.asnumpy(), (img.shape[-2], 0), flip_x=True))


class ImageBboxCrop(Block):
    """Crops a rectangle if the image is larger.

    Args:
        crop: (left, top, width, height).
        allow_outside_center: keep boxes whose center is outside.
    """

    def __init__(self, crop: tuple[int, int, int, int], allow_outside_center: bool = False) -> None:
        super().__init__()
        if len(crop) != 4 or min(crop[:2]) < 0 or min(crop[2:]) <= 0:
            raise AssertionError(f"crop must be (left >= 0, top >= 0, width > 0, height > 0), got {crop}")
        self._crop, self._allow_outside_center = tuple(crop), allow_outside_center

    def forward(self, img: NDArray, bbox: NDArray) -> tuple[Any, Any]:
        """The part of the image, and the boxes in it."""
        left, top, width, height = self._crop
        if left + width >= img.shape[-2] or top + height >= img.shape[-3]:
            return img, bbox
        return _images().crop(img, *self._crop), _array(bbox_crop(bbox.asnumpy(), self._crop,
                                                                  self._allow_outside_center))


class ImageBboxRandomCropWithConstraints(Block):
    """Crops a rectangle that `bbox_random_crop_with_constraints` draws.

    Args:
        p: how likely.
        min_scale, max_scale, max_aspect_ratio, constraints, max_trial: see there.
    """

    def __init__(self, p: float = 0.5, min_scale: float = 0.3, max_scale: float = 1, max_aspect_ratio: float = 2,
                 constraints: Iterable[tuple[float | None, float | None]] | None = None, max_trial: int = 50) -> None:
        super().__init__()
        self.p = p
        self._args = (min_scale, max_scale, max_aspect_ratio, constraints, max_trial)

    def forward(self, img: NDArray, bbox: NDArray) -> tuple[Any, Any]:
        """The part of the image, and the boxes in it."""
        if random.random() > self.p:
            return img, bbox
        size = img.shape[-2], img.shape[-3]
        within, part = bbox_random_crop_with_constraints(bbox.asnumpy(), size, *self._args)
        return (img, bbox) if part == (0, 0, *size) else (_images().crop(img, *part), _array(within))


class ImageBboxRandomExpand(Block):
    """Places the image at a random position in a larger one.

    Args:
        p: how likely.
        max_ratio: largest ratio of the new sides to the old ones.
        fill: value of the padding: a number, or one per channel.
        keep_ratio: keep the aspect ratio.
    """

    def __init__(self, p: float = 0.5, max_ratio: float = 4, fill: float | Sequence[float] = 0,
                 keep_ratio: bool = True) -> None:
        super().__init__()
        self.p = p
        self._max_ratio, self._fill, self._keep_ratio = max_ratio, fill, keep_ratio

    def forward(self, img: NDArray, bbox: NDArray) -> tuple[Any, Any]:
        """Returns the larger image and the boxes in it."""
        if self._max_ratio <= 1 or random.random() > self.p:
            return img, bbox
        if len(img.shape) != 3:
            raise NotImplementedError(f"expected an image (height, width, channels), got {img.shape}")
        h, w, channels = img.shape
        if np.size(self._fill) not in (1, channels):
            raise ValueError(f"fill has {np.size(self._fill)} numbers for {channels} channels")
        ratio = random.uniform(1, self._max_ratio)
        tall = int(h * (ratio if self._keep_ratio else random.uniform(1, self._max_ratio)))
        wide = int(w * ratio)
        top, left = random.randint(0, tall - h), random.randint(0, wide - w)
        larger = np.empty((tall, wide, channels), img.dtype)
        larger[:] = self._fill
        larger[top:top + h, left:left + w] = img.asnumpy()
        make = mx_np.array if is_np_array() else nd.array
        return make(larger, dtype=img.dtype), _array(bbox_translate(bbox.asnumpy(), left, top))


class ImageBboxResize(Block):
    """Resizes an image and its boxes.

    Args:
        width, height: of the result.
        interp: OpenCV's interpolation number; -1: a random one.
    """

    def __init__(self, width: int, height: int, interp: int = 1) -> None:
        super().__init__()
        self._size, self._interp = (width, height), interp

    def forward(self, img: NDArray, bbox: NDArray) -> tuple[Any, Any]:
        """Returns the resized image and boxes."""
        if len(img.shape) != 3:
            raise NotImplementedError(f"expected an image (height, width, channels), got {img.shape}")
        interp = random.randint(0, 4) if self._interp == -1 else self._interp
        resized = _images().resize(img, self._size, False, interp)
        return resized, _array(bbox_resize(bbox.asnumpy(), (img.shape[-2], img.shape[-3]), self._size))
