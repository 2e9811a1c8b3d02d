"""Iterators over the images in record files, decoded and augmented by threads ahead of their use."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import recordio
from .._support import images as _host
from .._support.files import numbered_lines
from ..base import MXNetError
from ._draws import Draws, Random
from .creator import creator
from .image_augment import Augmenter
from .image_det_augment import DetAugmenter
from .image_parameters import DetParameters, ImageParameters, RecordParameters
from .record_batches import RecordBatches
from .record_source import Contents, open_records

__all__ = ["ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1"]

_log = logging.getLogger(__name__)  # the root logger's first call configures it, which is the script's


def _pixels(record: bytes, channels: int) -> tuple[recordio.IRHeader, np.ndarray]:
    """Header and image (height, width, channels) uint8, BGR, of a record.

    Raises:
        MXNetError: there is no image in it, or one with other channels.
    """
    header, content = recordio.unpack(record)
    if not content:
        raise MXNetError("the record contains no image")
    cv2 = _host.cv2()
    flags = {1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR, 4: cv2.IMREAD_UNCHANGED}
    if channels not in flags:
        raise MXNetError(f"data_shape must begin with 1, 3 or 4 channels, got {channels}")
    # as MXNet, which decodes JPEGs by themselves, without regard to how the camera was held
    flag = flags[channels] | (cv2.IMREAD_IGNORE_ORIENTATION if channels != 4 else 0)
    pixels = _host.unpacked(np.frombuffer(content, np.uint8), flag)
    if pixels is None:
        raise MXNetError("the image cannot be decoded")
    pixels = _host.shaped(pixels)
    if pixels.shape[2] != channels:
        raise MXNetError(f"expected an image with {channels} channels, got {pixels.shape[2]}")
    return header, pixels


def _planes(pixels: np.ndarray, mirrored: bool) -> np.ndarray:
    """The channels of an image (height, width, channels) uint8, in RGB order: (channels, height, width).

    In few calls: after each one a thread waits for Python's lock, which the other decoders want as well.
    """
    cv2 = _host.cv2()
    pixels = np.ascontiguousarray(pixels) if pixels.strides[1:] != (pixels.shape[2], 1) else pixels
    if mirrored:
        pixels = cv2.flip(pixels, 1, np.empty(pixels.shape, np.uint8)).reshape(pixels.shape)
    planes = np.empty((pixels.shape[2], *pixels.shape[:2]), np.uint8)
    cv2.mixChannels([pixels], list(planes), [0, 2, 1, 1, 2, 0, 3, 3][:2 * len(planes)] if len(planes) > 2 else [0, 0])
    return planes


def read_labels(path: str, width: int) -> dict[int, np.ndarray] | None:
    """Labels by the images' numbers, of an image list; None without one.

    Raises:
        MXNetError: the list is not there or damaged.
    """
    if not path:
        return None
    try:
        lines = list(numbered_lines(path, "an image list"))
    except OSError as error:
        raise MXNetError(f"cannot read image list {path}: {error.strerror}") from error
    labels = {}
    for number, line in lines:
        words = line.split()
        if not words:
            continue
        try:
            values = np.array(words[1:1 + width if width > 0 else -1], np.float32)
            labels[int(words[0])] = values
        except ValueError as error:
            raise MXNetError(f"invalid image list {path} at line {number}: {error}") from error
        if len(values) < width:
            raise MXNetError(f"invalid image list {path} at line {number}: expected {width} labels, got {len(values)}")
    return labels


def _label(header: recordio.IRHeader, labels: dict[int, np.ndarray] | None) -> np.ndarray:
    """A record's label: the list's, or its own."""
    if labels is None:
        return np.atleast_1d(np.asarray(header.label, np.float32))
    if header.id not in labels:
        raise MXNetError(f"the image list has no label for number {header.id}")
    return labels[header.id]


def _on_black(pixels: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Returns the image at the top left of a black one of that height and width."""
    rows, columns = pixels.shape[:2]
    if (rows, columns) == tuple(size):
        return pixels
    canvas = np.zeros((*size, pixels.shape[2]), np.uint8)
    canvas[:rows, :columns] = pixels
    return canvas


class _Normalizer:
    """Mean, deviation, scale, and random contrast and illumination of the channels.

    Args:
        p: the iterator's parameters.
        dtype: of the result: float32 (all of it), int8 (the mean only, rounded) or uint8 (nothing).
        contrast, illumination: bounds of the random changes.
    """

    def __init__(self, p: RecordParameters, dtype: np.dtype, contrast: float = 0.0, illumination: float = 0.0) -> None:
        self._dtype, self._scale, self._contrast, self._illumination = dtype, p.scale, contrast, illumination
        self._mean = np.array([p.mean_r, p.mean_g, p.mean_b, p.mean_a], np.float32)[:, None, None]
        std = np.array([p.std_r, p.std_g, p.std_b, p.std_a])[:, None, None]
        self._std = np.where(std > 0, std, 1.0)

    def use(self, mean_image: np.ndarray) -> None:
        """Takes an image (channels, height, width) for the mean."""
        self._mean = mean_image

    def __call__(self, planes: np.ndarray, out: np.ndarray, rng: Draws | Random) -> None:
        """Writes normalized channels (channels, height, width) to `out`."""
        if self._dtype == np.uint8:
            out[:] = planes
            return
        mean = self._mean[:len(planes)]
        if self._dtype == np.int8:
            out[:] = np.clip(planes - np.round(mean), -128, 127)
            return
        contrast = (1 + rng.uniform(-self._contrast, self._contrast)) * self._scale
        light = rng.uniform(-self._illumination, self._illumination) * self._scale
        np.subtract(planes, mean, out=out, dtype=np.float32)
        if (self._std != contrast).any():
            out *= (contrast / self._std[:len(planes)]).astype(np.float32)
        if light:
            out += (light / self._std[:len(planes)]).astype(np.float32)


def _use_mean_image(p: ImageParameters | DetParameters, normalize: _Normalizer,
                    augmented: Callable[[bytes, Draws | Random], np.ndarray]) -> None:
    """Gives the normalizer the mean image, which is computed and stored where its file is missing."""
    if not p.mean_img:
        return
    if os.path.exists(p.mean_img):
        stored = nd.load(p.mean_img)
        arrays = list(stored.values()) if isinstance(stored, dict) else stored
        if len(arrays) != 1 or arrays[0].shape != tuple(p.data_shape):
            raise MXNetError(f"mean image {p.mean_img} must contain one array of shape {tuple(p.data_shape)}, got "
                             f"{[array.shape for array in arrays]}")
        normalize.use(arrays[0].asnumpy())
        return
    if p.verbose:
        _log.info("cannot find %s: creating the mean image, which takes a while", p.mean_img)
    total, count, contents = np.zeros(p.data_shape), 0, Contents()
    for record in open_records(p.path_imgrec, p.path_imgidx, p.part_index, p.num_parts, False, 0).round(0):
        total += _planes(augmented(contents(record), Random(count)), False)
        count += 1
    if not count:
        raise MXNetError(f"there are no images in {p.path_imgrec}")
    normalize.use((total / count).astype(np.float32))
    nd.save(p.mean_img, {"mean_img": nd.array(total / count)})


def _of_python(rng: Draws | Random) -> Random:
    """Returns Python's generator, which is the one there is without `seed_aug`."""
    if not isinstance(rng, Random):
        raise TypeError("ImageDetRecordIter does not support seed_aug: it uses Python's random generator")
    return rng


def _check(p: RecordParameters, name: str) -> None:
    """Raises MXNetError for parameters without an iterator; logs the files and the number of threads."""
    if not p.path_imgrec:
        raise MXNetError(f"{name}: path_imgrec is required")
    if len(p.data_shape) != 3 or 0 in p.data_shape:
        raise MXNetError(f"{name}: data_shape must be (channels, height, width), got {p.data_shape}")
    if p.verbose:
        _log.info("%s: %s, use %d threads for decoding..", name, p.path_imgrec, p.threads)


@partial(creator, parameters=ImageParameters)
def ImageRecordIter(p: ImageParameters) -> RecordBatches:  # noqa: N802
    """An iterator over the images of record files: data (batch, channels, height, width), RGB.

    Args:
        path_imgrec: the record file; without an index also several files, separated by ";", or a directory.
        path_imgidx: its index.
        path_imglist: an image list, whose labels replace those of the records.
        label_width: number of values of a label; 1 results in labels of shape (batch,).
        data_shape: (channels, height, width) of an image; 1, 3 or 4 channels.
        batch_size: number of images in a batch.
        round_batch: whether to fill the last batch with images from the beginning (the next epoch then starts after
            those images); otherwise its last images are zeros, and `pad` is their number.
        shuffle: whether to shuffle the images in each epoch: all of them if there is an index, else within chunks of 64
            MB.
        seed: seed of shuffling and augmentation.
        seed_aug: seed of the augmentation; it is then the same in each epoch, and identical to MXNet's.
        shuffle_chunk_size, shuffle_chunk_seed: without an index, the size in MB and the seed of the chunks whose order
            is shuffled as well.
        num_parts, part_index: number of disjoint parts, and the index of the one to read; with an index their numbers
            of records differ by at most one, without one they have about the same number of bytes.
        preprocess_threads: number of decoding threads, at most one for each core; more than 4 are replaced by as many
            processes once these have started.
        prefetch_buffer: number of batches to prefetch.
        dtype: "float32" (default); "uint8": not normalized; "int8": only the rounded mean subtracted.
        resize: length to which the shorter edge is resized first; -1 for none.
        rand_crop: whether to crop at a random position instead of the centre.
        random_resized_crop, min_random_area, max_random_area: crop of random size and aspect ratio, and the bounds of
            its relative area.
        min_crop_size, max_crop_size: bounds of the size of a random square crop, which is then resized.
        max_rotate_angle, rotate, rotate_list: maximum angle of a random rotation in degrees; a fixed angle; a list of
            angles ("0,90") of which one is drawn.
        min_aspect_ratio, max_aspect_ratio: bounds of width over height; without the first one, the maximum deviation
            from 1.
        max_shear_ratio, min_random_scale, max_random_scale, min_img_size, max_img_size: bounds of shear, scale, and
            the edges after that.
        pad, fill_value: width and grey value of a border.
        brightness, contrast, saturation, pca_noise, random_h, random_s, random_l: strength of random colour changes.
        inter_method: interpolation, as in `image.imresize`.
        mirror, rand_mirror: mirror the images, or each with probability 1/2.
        mean_r, mean_g, mean_b, mean_a, std_r, std_g, std_b, std_a: subtracted from, and divided by, the channels.
        mean_img: file with a mean image to subtract instead; computed from the images of this part if it is missing.
        scale, max_random_contrast, max_random_illumination: factor of the result, and bounds of random changes.
        verbose: whether to log the files that are read.
        data_name, label_name: names of data and label.
        aug_seq, ctx, device_id: accepted for compatibility with MXNet.

    Raises:
        MXNetError: a file is missing, damaged or of another type (the message names file and record), or parameters
            exclude each other. Errors of a decoding thread are raised when the batch is requested.
    """
    _check(p, "ImageRecordIter")
    dtype = np.dtype(p.dtype or "float32")
    labels = read_labels(p.path_imglist, p.label_width)
    augment, normalize = Augmenter(p), _Normalizer(p, dtype, p.max_random_contrast, p.max_random_illumination)

    def augmented(record: bytes, rng: Draws | Random) -> np.ndarray:
        return augment(_pixels(record, p.data_shape[0])[1], rng)

    def load(record: bytes, rng: Draws | Random, data: np.ndarray, label: np.ndarray) -> int:
        header, pixels = _pixels(record, p.data_shape[0])
        values = _label(header, labels)
        if len(values) != p.label_width:
            raise MXNetError(f"the record has {len(values)} labels, but label_width is {p.label_width}")
        label[:] = values
        pixels = augment(pixels, rng)
        normalize(_planes(pixels, p.mirror or p.rand_mirror and rng.coin()), data, rng)
        return 0  # MXNet does not number these
    if dtype != np.uint8:
        _use_mean_image(p, normalize, augmented)
    return RecordBatches(p, p.label_width, load, dtype, "ImageRecordIter")


def _of_dtype(name: str, dtype: str) -> Callable:
    """`ImageRecordIter` under a name of its own, with a fixed dtype."""
    def function(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(f"{name} can only accept keyword arguments")
        return ImageRecordIter(**{**kwargs, "dtype": dtype})
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`ImageRecordIter` with dtype=\"{dtype}\"."
    return function


ImageRecordUInt8Iter = _of_dtype("ImageRecordUInt8Iter", "uint8")
ImageRecordInt8Iter = _of_dtype("ImageRecordInt8Iter", "int8")
ImageRecordIter_v1 = _of_dtype("ImageRecordIter_v1", "float32")
ImageRecordUInt8Iter_v1 = _of_dtype("ImageRecordUInt8Iter_v1", "uint8")


@partial(creator, parameters=DetParameters)
def ImageDetRecordIter(p: DetParameters) -> RecordBatches:  # noqa: N802
    """An iterator over the images of record files for object detection.

    A label is (channels, height and width of the image in the batch, number of values that follow; then the raw label:
    length of its header, values per object, rest of the header, objects), padded to one width.

    Args:
        path_imglist, path_imgrec, data_shape, preprocess_threads, verbose, num_parts, part_index,
            shuffle_chunk_size, shuffle_chunk_seed, shuffle, seed, batch_size, round_batch, prefetch_buffer, resize,
            fill_value, inter_method, mean_img, mean_r, mean_g, mean_b, mean_a, std_r, std_g, std_b, std_a, scale,
            data_name, label_name: as in `ImageRecordIter`.
        label_width: number of values of a raw label; -1 if it varies.
        label_pad_width, label_pad_value: width to which labels are padded (0 for that of the longest in this part, so
            several processes should use one explicit width), and the padding value.
        rand_crop_prob: probability of a random crop by one of `num_crop_sampler` samplers, whose bounds are:
        min_crop_scales, max_crop_scales, min_crop_aspect_ratios, max_crop_aspect_ratios: of the box;
        min_crop_overlaps, max_crop_overlaps, min_crop_sample_coverages, max_crop_sample_coverages,
            min_crop_object_coverages, max_crop_object_coverages: of intersection over union with an object, and of
            the intersection's part of the box and of the object.
        num_crop_sampler: number of samplers; each bound is one number, or one for each sampler.
        crop_emit_mode: drop objects whose "center" is outside, or that "overlap" by no more than
        emit_overlap_thresh.
        max_crop_trials: number of attempts of each sampler.
        rand_pad_prob, max_pad_scale: probability of placing the image into a larger one, and its maximum scale.
        max_random_hue, max_random_saturation, max_random_illumination, max_random_contrast and their probabilities:
            strength and probability of random colour changes.
        rand_mirror_prob: probability of mirroring.
        resize_mode: "force" resizes to data_shape; "shrink" keeps the aspect ratio and only shrinks; "fit" keeps the
            aspect ratio and also enlarges.
        aug_seq, ctx, dtype: accepted for compatibility with MXNet.

    Raises:
        MXNetError: as in `ImageRecordIter`; also if a label is malformed or wider than `label_pad_width`.
    """
    _check(p, "ImageDetRecordIter")
    labels = read_labels(p.path_imglist, p.label_width)
    augment, normalize = DetAugmenter(p), _Normalizer(p, np.dtype(np.float32))

    def raw(header: recordio.IRHeader) -> np.ndarray:
        values = _label(header, labels)
        if p.label_width > 0 and len(values) != p.label_width:
            raise MXNetError(f"the record has {len(values)} labels, but label_width is {p.label_width}")
        return values
    widest, contents = 0, Contents()
    for record in open_records(p.path_imgrec, "", p.part_index, p.num_parts, False, 0).round(0):
        try:
            widest = max(widest, len(raw(recordio.unpack(contents(record))[0])))
        except MXNetError as error:
            raise MXNetError(f"{record.file}, {record.place}: {error}") from error
    if 0 < p.label_pad_width < widest:
        raise MXNetError(f"ImageDetRecordIter: label_pad_width {p.label_pad_width} is smaller than the width of the "
                         f"longest label, {widest}")
    width = max(p.label_pad_width, widest)

    def augmented(record: bytes, rng: Draws | Random) -> np.ndarray:
        header, pixels = _pixels(record, p.data_shape[0])
        return _on_black(augment(pixels, raw(header), _of_python(rng))[0], p.data_shape[1:])

    def load(record: bytes, rng: Draws | Random, data: np.ndarray, label: np.ndarray) -> int:
        header, pixels = _pixels(record, p.data_shape[0])
        pixels, values = augment(pixels, raw(header), _of_python(rng))
        rows, columns = pixels.shape[:2]
        label[:] = p.label_pad_value
        label[:4] = p.data_shape[0], rows, columns, len(values)
        label[4:4 + len(values)] = values
        normalize(_planes(_on_black(pixels, p.data_shape[1:]), False), data, rng)
        return header.id
    _use_mean_image(p, normalize, augmented)
    return RecordBatches(p, width + 4, load, np.float32, "ImageDetRecordIter")
