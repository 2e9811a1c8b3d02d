"""Augmenters and the iterator for object detection.

A label is an array (objects, 5 or more): class, left, top, right and bottom edge relative to width
    and height, ...
"""

from __future__ import annotations

import logging
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._support import images as _pixels
from ..base import MXNetError, Unfit, numeric_types
from .augment import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Augmenter,
    Described,
    ForceResizeAug,
    ResizeAug,
    colour_augmenters,
    colour_constant,
)
from .functions import copyMakeBorder, fixed_crop, host, like
from .iter import ImageIter

if TYPE_CHECKING:
    from .functions import Image

__all__ = ["CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug",
           "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug", "ImageDetIter"]

Bounds: TypeAlias = float | Sequence[float]  # two numbers, or one for both


class DetAugmenter(Described):
    """Base of augmenters for detection. Subclasses define `__call__(image, label) -> (image, label)`.

    Args:
        kwargs: the arguments, for `dumps`.
    """

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and label."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class DetBorrowAug(DetAugmenter):
    """Wraps an augmenter for classification that does not move objects.

    Args:
        augmenter: the augmenter.

    Raises:
        TypeError: the argument is not an augmenter.
    """

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError(f"Borrowing from invalid Augmenter {type(augmenter).__name__}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> list:
        """Returns the name and the augmenter's description."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and the unchanged label."""
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Applies one of several augmenters, or none.

    Args:
        aug_list: augmenters.
        skip_prob: probability of applying none.

    Raises:
        ValueError: an element is not an augmenter for detection.
    """

    def __init__(self, aug_list: DetAugmenter | list[DetAugmenter] | tuple[DetAugmenter, ...],
                 skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for augmenter in self.aug_list:
            if not isinstance(augmenter, DetAugmenter):
                raise ValueError(f"Allow DetAugmenter in list only, got {type(augmenter).__name__}")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> list:
        """Returns the name and the augmenters' descriptions."""
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.aug_list]]

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and label."""
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrors left and right.

    Args:
        p: the probability.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and label."""
        if random.random() < self.p:
            src = like(host(src)[:, ::-1], src)
            label[:, [1, 3]] = 1.0 - label[:, [3, 1]]
        return src, label


def _range(value: float | Sequence[float], what: str) -> Sequence[float]:
    """Bounds; a number is both."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, numeric_types):
        raise Unfit(f"{what} must be a number or a tuple of two bounds, got {value!r}")
    return value, value


def _valid(area_range: Sequence[float], aspect_ratio_range: Sequence[float], least: float, name: str) -> bool:
    """Returns whether ranges can be used; warns where not."""
    for what, (low, high), fine in (("area_range", area_range, area_range[1] > least),
                                    ("aspect_ratio_range", aspect_ratio_range, aspect_ratio_range[0] > 0)):
        if not fine or low > high:
            warnings.warn(f"{name} does nothing because {what} is {(low, high)}", stacklevel=3)
            return False
    return True


def _areas(boxes: np.ndarray) -> np.ndarray:
    """Areas of boxes (n, 4): left, top, right, bottom."""
    return np.maximum(0, boxes[:, 3] - boxes[:, 1]) * np.maximum(0, boxes[:, 2] - boxes[:, 0])


class DetRandomCropAug(DetAugmenter):
    """Crops a random rectangle that contains enough of the objects. Liu et al., SSD, ECCV 2016.

    Args:
        min_object_covered: minimum fraction of each intersected object that must be inside the
            rectangle.
        aspect_ratio_range: bounds of its aspect ratio, width / height.
        area_range: bounds of its area, relative to the image's.
        min_eject_coverage: objects are dropped if a smaller fraction of them remains.
        max_attempts: number of rectangles to try; if none is suitable, the image is not changed.
    """

    def __init__(self, min_object_covered: float = 0.1, aspect_ratio_range: Bounds = (0.75, 1.33),
                 area_range: Bounds = (0.05, 1.0), min_eject_coverage: float = 0.3, max_attempts: int = 50) -> None:
        aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range")
        area_range = _range(area_range, "area_range")
        super().__init__(min_object_covered=min_object_covered, aspect_ratio_range=aspect_ratio_range,
                         area_range=area_range, min_eject_coverage=min_eject_coverage, max_attempts=max_attempts)
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.max_attempts, self.aspect_ratio_range, self.area_range = max_attempts, aspect_ratio_range, area_range
        self.enabled = _valid(area_range, aspect_ratio_range, 0, "DetRandomCropAug")

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and label."""
        height, width = src.shape[:2]
        if self.enabled and height > 0 and width > 0:
            for _ in range(self.max_attempts):
                box = self._propose(height, width)
                if box is None:
                    continue
                remaining = self._remaining(label, box, height, width)
                if remaining is not None:
                    return fixed_crop(src, *box), remaining
        return src, label

    def _propose(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """A random rectangle (x, y, width, height) within the bounds; None where this attempt gives none."""
        least, most = (bound * height * width for bound in self.area_range)
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        h, max_h = int(round(math.sqrt(least / ratio))), int(round(math.sqrt(most / ratio)))
        if round(max_h * ratio) > width:
            max_h = int((width + 0.4999999) / ratio)
        max_h = min(max_h, height)
        h = min(h, max_h)
        if h < max_h:
            h = random.randint(h, max_h)
        if int(round(h * ratio)) * h < least:  # rounding has made it too small, or too large
            h += 1
        if int(round(h * ratio)) * h > most:
            h -= 1
        w = int(round(h * ratio))
        if not (least <= w * h <= most and 0 <= w <= width and 0 <= h <= height):
            return None
        y, x = random.randint(0, height - h), random.randint(0, width - w)
        return x, y, w, h

    def _remaining(self, label: np.ndarray, box: tuple[int, int, int, int], height: int,
                   width: int) -> np.ndarray | None:
        """The label of a rectangle; None where it keeps too little of the objects."""
        if box[2] * box[3] < 2:
            return None
        x, y, w, h = box[0] / width, box[1] / height, box[2] / width, box[3] / height
        areas = _areas(label[:, 1:])
        large = areas * width * height > 2
        if not large.any():
            return None
        seen = np.stack([np.maximum(label[:, 1], x), np.maximum(label[:, 2], y), np.minimum(label[:, 3], x + w),
                         np.minimum(label[:, 4], y + h)], axis=1)
        covered = _areas(seen)[large] / areas[large]
        covered = covered[covered > 0]
        if not covered.size or covered.min() <= self.min_object_covered:
            return None
        out = label.copy()
        out[:, 1:5] = np.clip((out[:, 1:5] - (x, y, x, y)) / (w, h, w, h), 0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            coverage = _areas(out[:, 1:]) * w * h / areas
        keep = (out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2]) & (coverage > self.min_eject_coverage)
        return out[keep] if keep.any() else None


class DetRandomPadAug(DetAugmenter):
    """Places the image at a random position in a larger one.

    Args:
        aspect_ratio_range: bounds of the larger image's aspect ratio, width / height.
        area_range: bounds of its area, relative to the original image's.
        max_attempts: number of attempts; if none is suitable, the image is not changed.
        pad_val: colour of the padding: a number, or one per channel.
    """

    def __init__(self, aspect_ratio_range: Bounds = (0.75, 1.33), area_range: Bounds = (1.0, 3.0),
                 max_attempts: int = 50, pad_val: float | Sequence[float] = (128, 128, 128)) -> None:
        aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range")
        area_range = _range(area_range, "area_range")
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts,
                         pad_val=pad_val)
        if not isinstance(pad_val, (list, tuple, *numeric_types)):
            raise Unfit(f"pad_val must be a number or one per channel, got {pad_val!r}")
        self.pad_val = (pad_val,) * 3 if isinstance(pad_val, numeric_types) else pad_val
        self.aspect_ratio_range, self.area_range, self.max_attempts = aspect_ratio_range, area_range, max_attempts
        self.enabled = _valid(area_range, aspect_ratio_range, 1.0, "DetRandomPadAug")

    def __call__(self, src: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Returns the augmented image and label."""
        height, width = src.shape[:2]
        if not self.enabled or height <= 0 or width <= 0:
            return src, label
        for _ in range(self.max_attempts):
            box = self._propose(height, width)
            if box is not None:
                x, y, w, h = box
                label = label.copy()
                label[:, 1:5] = (label[:, 1:5] * (width, height, width, height) + (x, y, x, y)) / (w, h, w, h)
                return copyMakeBorder(src, y, h - y - height, x, w - x - width, 16, values=self.pad_val), label
        return src, label

    def _propose(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Place of the image and size of the larger one (x, y, width, height), or None."""
        least, most = (bound * height * width for bound in self.area_range)
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        h, max_h = int(round(math.sqrt(least / ratio))), int(round(math.sqrt(most / ratio)))
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = min(max(h, height), max_h)
        if h < max_h:
            h = random.randint(h, max_h)
        w = int(round(h * ratio))
        if h - height < 2 or w - width < 2:  # hardly any border
            return None
        y, x = random.randint(0, h - height), random.randint(0, w - width)
        return x, y, w, h


def CreateMultiRandCropAugmenter(min_object_covered: float | list[float] = 0.1,  # noqa: N802
                                 aspect_ratio_range: Bounds | list[Bounds] = (0.75, 1.33),
                                 area_range: Bounds | list[Bounds] = (0.05, 1.0),
                                 min_eject_coverage: float | list[float] = 0.3, max_attempts: int | list[int] = 50,
                                 skip_prob: float = 0) -> DetRandomSelectAug:
    """Creates several `DetRandomCropAug`s, of which one is applied at random.

    Args:
        min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts: their
            arguments; a list contains one value per augmenter.
        skip_prob: probability of applying none.

    Raises:
        AssertionError: the lists' lengths differ.
    """
    columns = [value if isinstance(value, list) else [value] for value in
               (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)]
    count = max(map(len, columns))
    if any(len(column) not in (1, count) for column in columns):
        raise AssertionError(f"lists of arguments must have the same length, got {[len(column) for column in columns]}")
    rows = zip(*(column * (count // len(column)) for column in columns), strict=True)
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob=skip_prob)


def CreateDetAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: float = 0, rand_pad: float = 0,  # noqa: N802
                       rand_gray: float = 0, rand_mirror: bool = False, mean: bool | Image | None = None,
                       std: bool | Image | None = None, brightness: float = 0, contrast: float = 0,
                       saturation: float = 0, pca_noise: float = 0, hue: float = 0, inter_method: int = 2,
                       min_object_covered: float | list[float] = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
                       area_range: Any = (0.05, 3.0), min_eject_coverage: float | list[float] = 0.3,
                       max_attempts: Any = 50,
                       pad_val: float | Sequence[float] = (127, 127, 127)) -> list[DetAugmenter]:
    """Creates a list of augmenters for detection.

    Args:
        data_shape, resize, rand_gray, rand_mirror, mean, std, brightness, contrast, saturation, pca_noise, hue,
            inter_method: as in `CreateAugmenter`.
        rand_crop, rand_pad: probabilities of cropping and of padding the image.
        min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts: as in
            `CreateMultiRandCropAugmenter`; the last bound of `area_range` is that of the larger image.
        pad_val: colour of the padding.
    """
    augmenters: list[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        augmenters.append(CreateMultiRandCropAugmenter(min_object_covered, aspect_ratio_range, area_range,
                                                       min_eject_coverage, max_attempts, skip_prob=1 - rand_crop))
    if rand_mirror > 0:
        augmenters.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        augmenters.append(DetRandomSelectAug([pad], 1 - rand_pad))
    borrowed = [ForceResizeAug((data_shape[2], data_shape[1]), inter_method),
                *colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std)]
    return augmenters + [DetBorrowAug(augmenter) for augmenter in borrowed]


class ImageDetIter(ImageIter):
    """Iterates over batches of images (batch, channels, height, width) float32 and labels (batch, objects, 5 or more).

    A raw label consists of the length of the header (2 or more), the number of values per object (5
    or more), the rest of the header, and the objects in sequence. Batches contain no headers, and
    labels are padded with -1 to the largest number of objects of an image in this part (with
    several processes, `reshape` all to one number). Images without a valid object are skipped.

    Args:
        batch_size, data_shape, path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts,
            imglist, data_name, label_name, last_batch_handle: as in `ImageIter`.
        aug_list: augmenters; by default `CreateDetAugmenter(data_shape, **kwargs)`.

    Raises:
        RuntimeError: a label is invalid.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
                 path_imglist: str | None = None, path_root: str | None = None, path_imgidx: str | None = None,
                 shuffle: bool = False, part_index: int = 0, num_parts: int = 1, aug_list: list | None = None,
                 imglist: list | None = None, data_name: str = "data", label_name: str = "label",
                 last_batch_handle: str = "pad", **kwargs: Any) -> None:
        super().__init__(batch_size=batch_size, data_shape=data_shape, path_imgrec=path_imgrec,
                         path_imglist=path_imglist, path_root=path_root, path_imgidx=path_imgidx, shuffle=shuffle,
                         part_index=part_index, num_parts=num_parts, aug_list=[], imglist=imglist,
                         data_name=data_name, label_name=label_name, last_batch_handle=last_batch_handle)
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _check_valid_label(self, label: np.ndarray) -> None:
        """Raises RuntimeError where a label has a wrong shape or no valid object."""
        if label.ndim != 2 or label.shape[1] < 5:
            raise RuntimeError(f"Label with shape (1+, 5+) required, {label} received.")
        if not ((label[:, 0] >= 0) & (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])).any():
            raise RuntimeError("Invalid label occurs.")

    def _estimate_label_shape(self) -> tuple[int, int]:
        """(largest number of objects, values per object): reads all labels."""
        count = width = 0
        self.reset()
        while True:
            try:
                label = self._parse_label(self.next_sample()[0])
            except StopIteration:
                break
            count, width = max(count, label.shape[0]), label.shape[1]
        self.reset()
        return count, width

    def _parse_label(self, label: Image) -> np.ndarray:
        """The valid objects of a raw label; raises MXNetError where it has a wrong form or there are none."""
        raw = np.ravel(host(label))
        if raw.size < 7 or not np.isfinite(raw[:2]).all():
            raise MXNetError(f"Label shape is invalid: {raw.shape}; a label must have at least 7 values")
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or not 5 <= width <= raw.size or (raw.size - header) % width:
            raise MXNetError(f"Label shape {raw.shape} inconsistent with annotation width {width} (header {header}).")
        objects = raw[header:].reshape(-1, width)
        valid = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
        if not valid.any():
            raise MXNetError("Encounter sample with no valid label.")
        return objects[valid]

    def reshape(self, data_shape: Sequence[int] | None = None, label_shape: Sequence[int] | None = None) -> None:
        """Changes the shape of the images, or of the labels: (objects, values per object)."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self.provide_label[0][0], (self.batch_size, *label_shape))]
            self.label_shape = tuple(label_shape)

    def _empty_label(self) -> np.ndarray:
        return np.full(self.provide_label[0][1], -1, np.float32)

    def _fill(self, data: np.ndarray, label: np.ndarray, row: int, sample: tuple[Any, bytes]) -> bool:
        raw, encoded = sample
        image = self.imdecode(encoded)
        try:
            self.check_valid_image([image])
            image, objects = self.augmentation_transform(image, self._parse_label(raw))
            self._check_valid_label(objects)
        except MXNetError:
            raise
        except RuntimeError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return False
        data[row] = host(self.postprocess_data(image))
        label[row] = -1
        label[row, :len(objects)] = objects
        return True

    def augmentation_transform(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet's signature
            self, data: Image, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Applies the augmenters to an image and its label."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Raises ValueError unless a label shape is (objects, values per object) and at least as
        large as the current one."""
        if len(label_shape) != 2:
            raise ValueError(f"label_shape should have length 2, got {tuple(label_shape)}")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not "
                             "allowed.")
        if label_shape[1] != self.provide_label[0][1][2]:
            raise ValueError(f"label_shape object width inconsistent: {self.provide_label[0][1][2]} vs "
                             f"{label_shape[1]}.")

    def draw_next(self, color: tuple | None = None, thickness: int = 2, mean: bool | Image | None = None,  # noqa: N803
                  std: bool | Image | None = None, clip: bool = True, waitKey: int | None = None,
                  window_name: str = "draw_next", id2labels: dict[int, str] | None = None) -> Iterator[np.ndarray]:
        """Iterates over images with their boxes drawn.

        Args:
            color: RGB colour of the boxes; None: random.
            thickness: thickness of their lines.
            mean, std: normalization of the augmenters to undo (True: ImageNet's).
            clip: clip values to [0, 255].
            waitKey: show each image in a window for this number of milliseconds (0: until a key is
                pressed).
            window_name: name of the window.
            id2labels: names of the classes.

        Yields:
            Images (height, width, 3) uint8, BGR.
        """
        shift = colour_constant(mean, IMAGENET_MEAN, "mean")
        scale = colour_constant(std, IMAGENET_STD, "std")
        cv2 = _pixels.cv2()
        while True:
            try:
                raw, encoded = self.next_sample()
            except StopIteration:
                return
            image = self.imdecode(encoded)
            try:
                self.check_valid_image([image])
                objects = self._parse_label(raw)
            except RuntimeError as error:
                logging.debug("Invalid image, skipping:  %s", error)
                continue
            image, objects = self.augmentation_transform(image, objects)
            pixels = host(image) * (1 if scale is None else host(scale)) + (0 if shift is None else host(shift))
            pixels = np.clip(pixels, 0, 255) if clip else pixels
            pixels = np.ascontiguousarray(pixels[:, :, ::-1], np.uint8)
            for box in objects:
                _draw(cv2, pixels, box, color, thickness, id2labels or {})
            if waitKey is not None:
                cv2.imshow(window_name, pixels)
                cv2.waitKey(waitKey)
            yield pixels

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Sets the label shapes of this iterator and another one to the larger of the two; returns the other one.

        Raises:
            AssertionError: `it` is not an ImageDetIter, or its objects have another number of
                values.
        """
        if not isinstance(it, ImageDetIter):
            raise AssertionError(f"Synchronize with invalid iterator {type(it).__name__}.")
        if self.label_shape[1] != it.label_shape[1]:
            raise AssertionError(f"object width mismatch: {self.label_shape[1]} and {it.label_shape[1]}")
        shape = max(self.label_shape, it.label_shape)
        if verbose and self.label_shape != it.label_shape:
            logging.info("Resized label_shape to (%d, %d).", *shape)
        for one in (self, it):
            if one.label_shape != shape:
                one.reshape(None, shape)
        return it


def _draw(cv2: ModuleType, pixels: np.ndarray, box: np.ndarray, color: tuple | None, thickness: int,
          names: dict[int, str]) -> None:
    """Draws an object's box and its class's name into an image, BGR."""
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = (int(edge) for edge in box[1:5] * (width, height, width, height))
    if x1 < 0:
        return
    shade = tuple(color[::-1]) if color else tuple(np.random.rand(3) * 255)
    cv2.rectangle(pixels, (x1, y1), (x2, y2), shade, thickness)
    name = names.get(int(box[0]))
    if name is not None:
        font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.5
        text_height = cv2.getTextSize(name, font, scale, 2)[0][1]
        cv2.putText(pixels, name, (x1 + 5, y1 + text_height + 5), font, scale, (255, 255, 255), 2)
