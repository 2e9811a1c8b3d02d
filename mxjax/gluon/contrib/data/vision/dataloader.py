"""Loaders of images, with or without bounding boxes, from record files and lists, with the usual augmentation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from ..... import numpy as np
from ....block import Block, HybridBlock
from ....data import DataLoader
from ....data.batchify import Group, Pad, Stack
from ....data.vision.datasets import ImageListDataset, ImageRecordDataset
from ....data.vision.transforms.composed import Cast
from ....data.vision.transforms.image import (
    CenterCrop,
    Normalize,
    RandomColorJitter,
    RandomCrop,
    RandomFlipLeftRight,
    RandomGray,
    RandomLighting,
    RandomResizedCrop,
    Resize,
    ToTensor,
)
from ....nn import HybridSequential, Sequential
from .transforms.bbox import bbox

if TYPE_CHECKING:
    from .....ndarray import NDArray
    from ....data.sampler import Sampler

__all__ = ["ImageBboxDataLoader", "ImageDataLoader", "create_image_augment"]

_MEAN, _STD = [123.68, 116.28, 103.53], [58.395, 57.12, 57.375]  # of ImageNet's colours


def _colours(brightness: float, contrast: float, saturation: float, hue: float, pca_noise: float,
             rand_gray: float) -> list[Block]:
    """Returns random changes of colours, those that are asked for."""
    blocks: list[Block] = []
    if brightness or contrast or saturation or hue:
        blocks.append(RandomColorJitter(brightness, contrast, saturation, hue))
    if pca_noise > 0:
        blocks.append(RandomLighting(pca_noise))
    if rand_gray > 0:
        blocks.append(RandomGray(rand_gray))
    return blocks


def _to_tensor(mean: bool | Sequence[float] | None, std: bool | Sequence[float] | None, dtype: str) -> list[Block]:
    """Returns the transforms from an image to a tensor."""
    mean, std = _MEAN if mean is True else mean, _STD if std is True else std
    for name, value in (("mean", mean), ("std", std)):
        if value is not None and not isinstance(value, tuple | list):
            raise AssertionError(f"{name} must be True or a number for each channel, got {value!r}")
    blocks: list[Block] = [ToTensor()]
    if mean is not None or std is not None:
        blocks.append(Normalize(0.0 if mean is None else mean, 1.0 if std is None else std))
    return [*blocks, Cast(dtype)]


def _method(inter_method: int) -> int:
    return numpy.random.randint(0, 5) if inter_method == 10 else inter_method


def create_image_augment(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False, rand_resize: bool = False,
                         rand_mirror: bool = False, mean: bool | Sequence[float] | None = None,
                         std: bool | Sequence[float] | None = None, brightness: float = 0, contrast: float = 0,
                         saturation: float = 0, hue: float = 0, pca_noise: float = 0, rand_gray: float = 0,
                         inter_method: int = 2, dtype: str = "float32") -> HybridSequential:
    """Returns a sequence of the usual image transforms.

    Args:
        data_shape: (channels, height, width) of the result.
        resize: length of the shorter edge, before cropping; 0: not resized.
        rand_crop: crop at a random position; otherwise the center.
        rand_resize: crop a rectangle that also has a random size.
        rand_mirror: mirror left and right, half of the time.
        mean, std: numbers by channel to normalize by, or True for ImageNet's.
        brightness, contrast, saturation, hue: as in `transforms.RandomColorJitter`.
        pca_noise: as in `transforms.RandomLighting`.
        rand_gray: probability of converting the image to grey.
        inter_method: OpenCV's interpolation number; 10: a random one.
        dtype: of the result.

    Raises:
        AssertionError: rand_resize without rand_crop, or another mean or std.
    """
    if rand_resize and not rand_crop:
        raise AssertionError("rand_resize requires rand_crop")
    method, size = _method(inter_method), (data_shape[2], data_shape[1])
    crop = RandomResizedCrop if rand_resize else RandomCrop if rand_crop else CenterCrop
    net = HybridSequential()
    if resize > 0:
        net.add(Resize(resize, interpolation=method))
    net.add(crop(size, interpolation=method))
    if rand_mirror:
        net.add(RandomFlipLeftRight(0.5))
    net.add(Cast(), *_colours(brightness, contrast, saturation, hue, pca_noise, rand_gray),
             *_to_tensor(mean, std, dtype))
    return net


def create_bbox_augment(data_shape: Sequence[int], rand_crop: float = 0, rand_pad: float = 0, rand_gray: float = 0,
                        rand_mirror: bool = False, mean: bool | Sequence[float] | None = None,
                        std: bool | Sequence[float] | None = None, brightness: float = 0, contrast: float = 0,
                        saturation: float = 0, pca_noise: float = 0, hue: float = 0, inter_method: int = 2,
                        max_aspect_ratio: float = 2, area_range: tuple[float, float] = (0.3, 3.0),
                        max_attempts: int = 50, pad_val: float | Sequence[float] = (127, 127, 127),
                        dtype: str = "float32") -> Sequential:
    """Returns a sequence of the usual transforms of images with bounding boxes.

    Args:
        data_shape: (channels, height, width) of the images.
        rand_crop, rand_pad: probabilities of cropping the image and of padding it.
        rand_mirror: mirror left and right, half of the time.
        max_aspect_ratio: largest ratio of the longer side of the crop to the shorter.
        area_range: (smallest area of the crop, largest area of the padded image), relative to the
            image's.
        max_attempts: attempts to crop.
        pad_val: colour of the padding.
        rand_gray, mean, std, brightness, contrast, saturation, pca_noise, hue, inter_method, dtype: as in
            `create_image_augment`.
    """
    net = Sequential()
    if rand_crop > 0:
        net.add(bbox.ImageBboxRandomCropWithConstraints(p=rand_crop, min_scale=area_range[0], max_scale=1.0,
                                                         max_aspect_ratio=max_aspect_ratio, max_trial=max_attempts))
    if rand_mirror:
        net.add(bbox.ImageBboxRandomFlipLeftRight(0.5))
    if rand_pad > 0:
        net.add(bbox.ImageBboxRandomExpand(p=rand_pad, max_ratio=area_range[1], fill=pad_val))
    net.add(bbox.ImageBboxResize(data_shape[2], data_shape[1], interp=_method(inter_method)),
             *_colours(brightness, contrast, saturation, hue, pca_noise, rand_gray), *_to_tensor(mean, std, dtype))
    return net


class BboxLabelTransform(Block):
    """Converts a label of an image list to rows (left, top, right, bottom, class, ...).

    Args:
        coord_normalized: the label's coordinates are relative to the width and height.

    Raises:
        ValueError: on call, if the label is not a header followed by rows of at least five numbers.
    """

    def __init__(self, coord_normalized: bool = True) -> None:
        super().__init__()
        self._coord_normalized = coord_normalized

    def forward(self, img: NDArray, label: NDArray | numpy.ndarray) -> tuple[Any, Any]:
        numbers = (label if isinstance(label, numpy.ndarray) else label.asnumpy()).flatten()
        header, width = int(numbers[0]), int(numbers[1])
        if width < 5:
            raise ValueError(f"a label must have at least 5 numbers per object, got {width}")
        if len(numbers) < header + 5 or (len(numbers) - header) % width:
            raise ValueError(f"a label must consist of a header of {header} numbers and rows of {width}, got "
                             f"{len(numbers)} numbers")
        rows = numbers[header:].reshape(-1, width)
        rows[:, :5] = rows[:, [1, 2, 3, 4, 0]]
        if self._coord_normalized:
            rows[:, :4] *= (img.shape[1], img.shape[0]) * 2
        return img, np.array(rows, dtype=rows.dtype)


class ImageDataLoader:
    """Loads images from a record file or a list, transforms them and groups them into batches.

    Args:
        batch_size: images in a batch.
        data_shape: (channels, height, width).
        path_imgrec: the record file; its index must be in the same directory.
        path_imglist: a file that lists images, below `path_root`.
        imglist: the list itself.
        part_index, num_parts: load only part `part_index` of `num_parts`.
        aug_list: transforms, instead of those of `create_image_augment`.
        dtype: dtype of the labels: int32, float32, int64 or float64.
        shuffle, sampler, last_batch, batch_sampler, batchify_fn, num_workers, pin_memory, pin_device_id, prefetch,
            thread_pool, timeout, try_nopython: as in `gluon.data.DataLoader`.
        **kwargs: for `create_image_augment`.

    Raises:
        AssertionError: there is no source of images, or the dtype is another one.
        ValueError: aug_list is neither blocks nor a block.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
                 path_imglist: str | None = None, path_root: str = ".", part_index: int = 0, num_parts: int = 1,
                 aug_list: Block | list[Block] | None = None, imglist: list | None = None, dtype: str = "float32",
                 shuffle: bool = False, sampler: Sampler | None = None, last_batch: str | None = None,
                 batch_sampler: Sampler | None = None, batchify_fn: Callable | None = None, num_workers: int = 0,
                 pin_memory: bool = False, pin_device_id: int = 0, prefetch: int | None = None,
                 thread_pool: bool = False, timeout: float = 120, try_nopython: bool | None = None,
                 **kwargs: Any) -> None:
        dataset = _dataset(path_imgrec, path_imglist, path_root, imglist, part_index, num_parts, dtype)
        changed = dataset.transform_first(_blocks(aug_list, lambda: create_image_augment(data_shape, **kwargs)))
        self._iter = DataLoader(changed, batch_size, shuffle, sampler, last_batch, batch_sampler, batchify_fn,
                                num_workers, pin_memory, pin_device_id, prefetch, thread_pool, timeout,
                                try_nopython=try_nopython)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iter)

    def __len__(self) -> int:
        return len(self._iter)


class ImageBboxDataLoader:
    """Loads images with boxes. A batch contains images and rows (left, top, right, bottom, class, ...), padded with -1.

    Args:
        coord_normalized: coordinates in the labels are relative to the width and height.
        batch_size, data_shape, path_imgrec, path_imglist, path_root, part_index, num_parts, aug_list, imglist, dtype,
            shuffle, sampler, last_batch, batch_sampler, batchify_fn, num_workers, pin_memory, pin_device_id, prefetch,
            thread_pool, timeout, try_nopython: as in `ImageDataLoader`.
        **kwargs: for `create_bbox_augment`.

    Raises:
        AssertionError, ValueError: as in `ImageDataLoader`.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
                 path_imglist: str | None = None, path_root: str = ".", part_index: int = 0, num_parts: int = 1,
                 aug_list: Block | list[Block] | None = None, imglist: list | None = None,
                 coord_normalized: bool = True, dtype: str = "float32", shuffle: bool = False,
                 sampler: Sampler | None = None, last_batch: str | None = None, batch_sampler: Sampler | None = None,
                 batchify_fn: Callable | None = None, num_workers: int = 0, pin_memory: bool = False,
                 pin_device_id: int = 0, prefetch: int | None = None, thread_pool: bool = False, timeout: float = 120,
                 try_nopython: bool | None = None, **kwargs: Any) -> None:
        dataset = _dataset(path_imgrec, path_imglist, path_root, imglist, part_index, num_parts, dtype)
        both = Sequential()
        both.add(BboxLabelTransform(coord_normalized),
                 _blocks(aug_list, lambda: create_bbox_augment(data_shape, **kwargs)))
        if batchify_fn is None:
            padded = Pad(val=-1)
            padded._warned = True  # images are arrays anyway
            batchify_fn = Group(Stack(), padded)
        self._iter = DataLoader(dataset.transform(both), batch_size, shuffle, sampler, last_batch, batch_sampler,
                                batchify_fn, num_workers, pin_memory, pin_device_id, prefetch, thread_pool, timeout,
                                try_nopython=try_nopython)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iter)

    def __len__(self) -> int:
        return len(self._iter)


def _dataset(path_imgrec: str | None, path_imglist: str | None, path_root: str, imglist: list | None, part_index: int,
             num_parts: int, dtype: str) -> Any:
    """Returns a data set of (image, label)."""
    if not (path_imgrec or path_imglist or isinstance(imglist, list)):
        raise AssertionError("specify the images by path_imgrec, path_imglist or imglist")
    if dtype not in ("int32", "float32", "int64", "float64"):
        raise AssertionError(f"{dtype} label not supported")
    logging.info("loading images of %s", path_imgrec or path_imglist or "a list")
    result = ImageRecordDataset(path_imgrec, flag=1) if path_imgrec else \
        ImageListDataset(path_root, path_imglist or imglist, flag=1)
    return result.shard(num_parts, part_index) if num_parts > 1 else result


def _blocks(blocks: Block | list[Block] | None, default: Callable[[], Block]) -> Block:
    """Returns transforms as one block, hybridized."""
    if blocks is None:
        net = default()
    elif isinstance(blocks, list):
        net = HybridSequential() if all(isinstance(block, HybridBlock) for block in blocks) else Sequential()
        net.add(*blocks)
    elif isinstance(blocks, Block):
        net = blocks
    else:
        raise ValueError(f"aug_list must be a Block or a list of them, got {type(blocks).__name__}")
    net.hybridize()
    return net
