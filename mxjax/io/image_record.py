"""Iterators over the images in record files, decoded and augmented by threads ahead of their use."""

from __future__ import annotations

import logging
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from .. import _pixels as _host
from .. import ndarray as nd
from .. import recordio
from .._files import numbered_lines
from ..base import MXNetError
from ._draws import Draws, Random
from .creator import creator
from .image_augment import Augmenter
from .image_det_augment import DetAugmenter
from .image_parameters import DetParameters, ImageParameters, RecordParameters
from .record_source import Record, open_records
from .state import check_count

__all__ = ["ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1"]

_log = logging.getLogger(__name__)  # the root logger's first call configures it, which is the script's


class _Loading:
    """A batch that threads are filling.

    Args:
        data, label: to be filled.
        pad: number of filling samples.
        wrapped: whether they are the next round's first ones.
        end: (round, number in it) of the record behind the batch.
    """

    def __init__(self, data: np.ndarray, label: np.ndarray, pad: int, wrapped: bool, end: tuple[int, int]) -> None:
        self.data, self.label, self.pad, self.wrapped, self.end = data, label, pad, wrapped, end
        self.index = np.zeros(len(data), np.uint64)
        self.parts: list[Future] = []


def _shut_down(*pools: ThreadPoolExecutor) -> None:
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)


class _Images:
    """Batches of the images of a record file; a `Source`.

    Args:
        p: the iterator's parameters.
        label_width: values of a label.
        load: function(record, its number in the round, random numbers, data row, label row) -> its index; fills the
            rows.
        dtype: of the data.
    """

    def __init__(self, p: RecordParameters, label_width: int, load: Callable, dtype: Any) -> None:
        self.batch_size, self._p, self._load, self._dtype = p.batch_size, p, load, np.dtype(dtype)
        self._label_width = label_width
        self._records = open_records(p.path_imgrec, p.path_imgidx, p.part_index, p.num_parts, p.shuffle,
                                     p.added_to_seed + p.seed, p.shuffle_chunk_size, p.shuffle_chunk_seed)
        self._reader = ThreadPoolExecutor(1, "records")
        self._decoders = ThreadPoolExecutor(p.threads, "decode")
        weakref.finalize(self, _shut_down, self._reader, self._decoders)
        self.extent = self._records.extent
        self._ahead: deque[Future] = deque()
        self._current: _Loading | None = None
        self._end, self._wrapped = (0, 0), False  # where what was asked for ends, and whether the epoch does so too
        self._begin_round(0)  # from here on the reader's thread keeps the round: it is ahead
        self._ended = False
        self._read_ahead()

    def _read_ahead(self) -> None:
        while len(self._ahead) < max(self._p.prefetch_buffer, 1):
            self._ahead.append(self._reader.submit(self._read))

    def _read(self) -> _Loading | None:
        """Reads the next batch's records and has them decoded; None where the round is over. In the reader's thread."""
        if self._ended:
            return None
        records = list(islice(self._round, self.batch_size))
        missing = self.batch_size - len(records)
        if missing:
            self._ended = True
        if not records:
            return None
        wrapped = bool(missing) and self._p.round_batch
        numbers = self._take_numbers(len(records))
        if wrapped:
            self._begin_round(self._rounds + 1)
            rest = list(islice(self._round, missing))
            if len(rest) < missing:
                raise MXNetError(f"number of input images must be bigger than the batch size {self.batch_size} in "
                                 f"{self._p.path_imgrec}")
            records += rest
            numbers += self._take_numbers(len(rest))
        batch = _Loading(np.zeros((self.batch_size, *self._p.data_shape), self._dtype),
                         np.zeros((self.batch_size, self._label_width), np.float32), missing, wrapped,
                         (self._rounds, self._number))
        share = -(-len(records) // self._p.threads)
        for begin in range(0, len(records), share):
            batch.parts.append(self._decoders.submit(self._decode, batch, records, numbers,
                                                     range(begin, min(begin + share, len(records)))))
        return batch

    def _take_numbers(self, count: int) -> list[tuple[int, int]]:
        """(round, number in it) of the next records."""
        first = self._number
        self._number += count
        return [(self._rounds, number) for number in range(first, self._number)]

    def _begin_round(self, number: int, start: int = 0) -> None:
        self._round: Iterator[Record] = self._records.round(number, start)
        self._rounds, self._number = number, start

    def _decode(self, batch: _Loading, records: list[Record], numbers: list[tuple[int, int]], rows: range) -> None:
        """Fills some rows of a batch. In a decoder's thread."""
        seed = self._p.seed_aug
        for row in rows:
            record, (turn, number) = records[row], numbers[row]
            rng = Random(f"{self._p.seed}/{turn}/{number}") if seed is None else \
                Draws(self._p.added_to_seed + seed + self._place(record, row))
            try:
                batch.index[row] = self._load(record, rng, batch.data[row], batch.label[row])
            except (MXNetError, ValueError, _host.cv2().error) as error:
                raise MXNetError(f"{record.file}, {record.place}: {error}") from error

    def _place(self, record: Record, row: int) -> int:
        """MXNet's number for a record among those that it reads together: a batch with an index, else a chunk.

        A chunk is counted from the row of the batch that it begins in; or behind the batch, where it is shuffled.
        """
        if record.number is None:
            return row
        return record.number + (self.batch_size if self._p.shuffle else (row - record.number) % self.batch_size)

    def next(self) -> bool:
        """Go to the next batch; whether there is one."""
        self._read_ahead()
        batch = self._ahead.popleft().result()
        if batch is None:
            return False
        self._current = batch
        self._end, self._wrapped = batch.end, batch.wrapped
        for part in batch.parts:
            part.result()
        self._read_ahead()
        return True

    def batch(self) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
        """Data, labels, number of filling samples, and the samples' numbers."""
        label = self._current.label
        return self._current.data, label[:, 0] if label.shape[1] == 1 else label, self._current.pad, \
            self._current.index

    def position(self) -> dict[str, Any]:
        """The round and the number in it of the record behind the current batch; whether the epoch is over there."""
        return {"round": self._end[0], "number": self._end[1], "wrapped": self._wrapped}

    def go_to(self, position: dict[str, Any]) -> None:
        """Go behind a batch."""
        turn, number = (check_count("an iterator over records", name, position[name]) for name in ("round", "number"))
        self._restart(turn, number, bool(position["wrapped"]))

    def reset(self) -> None:
        """Go before the first batch; behind the samples that filled up the last one, where there were such."""
        turn, number = self._end
        self._restart(*((turn, number) if self._wrapped else (turn + 1, 0)), False)

    def _restart(self, turn: int, number: int, ended: bool) -> None:
        """Reads on from a record of a round, or nothing where the epoch is over there."""
        def begin() -> None:  # in the reader's thread
            self._begin_round(turn, number)
            self._ended = ended
        for ahead in self._ahead:
            ahead.cancel()
        self._reader.submit(begin).result()
        self._ahead.clear()
        self._current, self._end, self._wrapped = None, (turn, number), ended
        self._read_ahead()


def _pixels(record: Record, channels: int) -> tuple[recordio.IRHeader, np.ndarray]:
    """Header and image (height, width, channels) uint8, BGR, of a record.

    Raises:
        MXNetError: there is no image in it, or one with other channels.
    """
    header, content = recordio.unpack(record.content)
    if not content:
        raise MXNetError("the record holds no image")
    cv2 = _host.cv2()
    flags = {1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR, 4: cv2.IMREAD_UNCHANGED}
    if channels not in flags:
        raise MXNetError(f"data_shape must begin with 1, 3 or 4 channels, got {channels}")
    # as MXNet, which decodes JPEGs by themselves, without regard to how the camera was held
    flag = flags[channels] | (cv2.IMREAD_IGNORE_ORIENTATION if channels != 4 else 0)
    pixels = _host.unpacked(np.frombuffer(content, np.uint8), flag)
    if pixels is None:
        raise MXNetError("the image cannot be decoded")
    pixels = _host._shaped(pixels)
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


def _read_labels(path: str, width: int) -> dict[int, np.ndarray] | None:
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
            raise MXNetError(f"invalid image list {path} at line {number}: {len(values)} labels, not {width}")
    return labels


def _label(header: recordio.IRHeader, labels: dict[int, np.ndarray] | None) -> np.ndarray:
    """A record's label: the list's, or its own."""
    if labels is None:
        return np.atleast_1d(np.asarray(header.label, np.float32))
    if header.id not in labels:
        raise MXNetError(f"the image list has no label for number {header.id}")
    return labels[header.id]


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


def _use_mean_image(p: RecordParameters, normalize: _Normalizer,
                    augmented: Callable[[Record, Draws | Random], np.ndarray]) -> None:
    """Gives the normalizer the mean image, which is computed and stored where its file is missing."""
    if not p.mean_img:
        return
    if os.path.exists(p.mean_img):
        stored = nd.load(p.mean_img)
        arrays = list(stored.values()) if isinstance(stored, dict) else stored
        if len(arrays) != 1 or arrays[0].shape != tuple(p.data_shape):
            raise MXNetError(f"mean image {p.mean_img} must hold one array of shape {tuple(p.data_shape)}, got "
                             f"{[array.shape for array in arrays]}")
        normalize.use(arrays[0].asnumpy())
        return
    if p.verbose:
        _log.info("cannot find %s: creating the mean image, which takes a while", p.mean_img)
    total, count = np.zeros(p.data_shape), 0
    for record in open_records(p.path_imgrec, p.path_imgidx, p.part_index, p.num_parts, False, 0).round(0):
        total += _planes(augmented(record, Random(count)), False)
        count += 1
    if not count:
        raise MXNetError(f"there are no images in {p.path_imgrec}")
    normalize.use((total / count).astype(np.float32))
    nd.save(p.mean_img, {"mean_img": nd.array(total / count)})


def _check(p: RecordParameters, name: str) -> None:
    """Raises MXNetError for what no iterator can be made of; says what is read, and by how many threads."""
    if not p.path_imgrec:
        raise MXNetError(f"{name}: path_imgrec must be given")
    if len(p.data_shape) != 3 or 0 in p.data_shape:
        raise MXNetError(f"{name}: data_shape must be (channels, height, width), got {p.data_shape}")
    if p.verbose:
        _log.info("%s: %s, use %d threads for decoding..", name, p.path_imgrec, p.threads)


@partial(creator, parameters=ImageParameters)
def ImageRecordIter(p: ImageParameters) -> _Images:  # noqa: N802
    """An iterator over the images of record files: data (batch, channels, height, width), RGB.

    Args:
        path_imgrec: the record file; without an index also several, with ";" between them, or a folder.
        path_imgidx: its index.
        path_imglist: an image list, whose labels replace the records' own.
        label_width: values of a label; 1 gives labels of shape (batch,).
        data_shape: (channels, height, width) of an image; 1, 3 or 4 channels.
        batch_size: images in a batch.
        round_batch: fill the last batch up from the beginning (the next round then starts behind those images);
            otherwise its last images are zeros, and `pad` says how many.
        shuffle: take the images in another order each round: of all images where there is an index, else 64 MB of
            them at a time.
        seed: of shuffling and augmentation.
        seed_aug: seed of the augmentation that makes it the same each round, and MXNet's.
        shuffle_chunk_size, shuffle_chunk_seed: without an index: MB of the pieces whose order is shuffled as well.
        num_parts, part_index: use only one of several parts, which together have each record once; with an index their
            numbers of records differ by one at most, without one their numbers of bytes are about the same.
        preprocess_threads: threads that decode, at most one for each core.
        prefetch_buffer: how many batches to load ahead.
        dtype: "float32" (default); "uint8": not normalized; "int8": only the rounded mean subtracted.
        resize: length of the shorter edge, first of all; -1: leave it.
        rand_crop: cut out at a random place, not from the middle.
        random_resized_crop, min_random_area, max_random_area: cut out a rectangle of random size and proportions.
        min_crop_size, max_crop_size: cut out a square of random size; then resized.
        max_rotate_angle, rotate, rotate_list: rotate by up to that many degrees; by a fixed angle; by one of a list
            ("0,90").
        min_aspect_ratio, max_aspect_ratio: bounds of width over height; without the first one: how far from 1.
        max_shear_ratio, min_random_scale, max_random_scale, min_img_size, max_img_size: bounds of shear, scale, and
            the edges after that.
        pad, fill_value: width and grey of a border.
        brightness, contrast, saturation, pca_noise, random_h, random_s, random_l: how far the colours change.
        inter_method: interpolation, as in `image.imresize`.
        mirror, rand_mirror: mirror, or half of the time.
        mean_r, mean_g, mean_b, mean_a, std_r, std_g, std_b, std_a: subtracted from, and divided by, the channels.
        mean_img: file with an image to subtract instead; made of this part's images where it is missing.
        scale, max_random_contrast, max_random_illumination: factor of the result, and bounds of random changes.
        verbose: log what is read.
        data_name, label_name: names of data and label.
        aug_seq, ctx, device_id: kept for MXNet's sake.

    Raises:
        MXNetError: a file is missing, damaged or holds something else (names file and record); parameters exclude
            each other. What happens in a thread appears when the batch is asked for.
    """
    _check(p, "ImageRecordIter")
    dtype = np.dtype(p.dtype or "float32")
    labels = _read_labels(p.path_imglist, p.label_width)
    augment, normalize = Augmenter(p), _Normalizer(p, dtype, p.max_random_contrast, p.max_random_illumination)

    def augmented(record: Record, rng: Draws | Random) -> np.ndarray:
        return augment(_pixels(record, p.data_shape[0])[1], rng)

    def load(record: Record, rng: Draws | Random, data: np.ndarray, label: np.ndarray) -> int:
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
    return _Images(p, p.label_width, load, dtype)


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
def ImageDetRecordIter(p: DetParameters) -> _Images:  # noqa: N802
    """An iterator over the images of record files for object detection.

    A label is (channels, height and width of the image as it stands in the batch, number of values that follow; then
    the raw label: length of its header, values per object, rest of the header, objects), filled up to one width.

    Args:
        path_imglist, path_imgrec, data_shape, preprocess_threads, verbose, num_parts, part_index,
            shuffle_chunk_size, shuffle_chunk_seed, shuffle, seed, batch_size, round_batch, prefetch_buffer, resize,
            fill_value, inter_method, mean_img, mean_r, mean_g, mean_b, mean_a, std_r, std_g, std_b, std_a, scale,
            data_name, label_name: as in `ImageRecordIter`.
        label_width: values of a raw label; -1: they differ.
        label_pad_width, label_pad_value: width that labels are filled up to (0: that of the longest in this part, so
            several processes should be given one width), and with what.
        rand_crop_prob: how probably to cut out a box, by one of `num_crop_sampler` samplers, whose bounds are:
        min_crop_scales, max_crop_scales, min_crop_aspect_ratios, max_crop_aspect_ratios: of the box;
        min_crop_overlaps, max_crop_overlaps, min_crop_sample_coverages, max_crop_sample_coverages,
            min_crop_object_coverages, max_crop_object_coverages: of intersection over union with an object, and of
            the intersection's part of the box and of the object.
        num_crop_sampler: how many samplers; bounds are one number, or one for each of them.
        crop_emit_mode: drop objects whose "center" is outside, or that "overlap" by no more than
        emit_overlap_thresh.
        max_crop_trials: attempts of each sampler.
        rand_pad_prob, max_pad_scale: how probably to put the image into a larger one, and how large.
        max_random_hue, max_random_saturation, max_random_illumination, max_random_contrast and their probabilities:
            how far the colours change, and how probably.
        rand_mirror_prob: how probably to mirror.
        resize_mode: "force" to the size of data_shape; "shrink" into it, keeping proportions; "fit": likewise, also
            enlarging.
        aug_seq, ctx, dtype: kept for MXNet's sake.

    Raises:
        MXNetError: as `ImageRecordIter`, and where a label has another form or is wider than `label_pad_width`.
    """
    _check(p, "ImageDetRecordIter")
    labels = _read_labels(p.path_imglist, p.label_width)
    augment, normalize = DetAugmenter(p), _Normalizer(p, np.dtype(np.float32))

    def raw(record: Record, header: recordio.IRHeader) -> np.ndarray:
        values = _label(header, labels)
        if p.label_width > 0 and len(values) != p.label_width:
            raise MXNetError(f"{record.file}, {record.place}: the record has {len(values)} labels, but label_width is "
                             f"{p.label_width}")
        return values
    widest = max((len(raw(record, recordio.unpack(record.content)[0]))
                  for record in open_records(p.path_imgrec, "", p.part_index, p.num_parts, False, 0).round(0)),
                 default=0)
    if 0 < p.label_pad_width < widest:
        raise MXNetError(f"ImageDetRecordIter: label_pad_width {p.label_pad_width} is smaller than the width of the "
                         f"longest label, {widest}")
    width = max(p.label_pad_width, widest)

    def augmented(record: Record, rng: Draws | Random) -> np.ndarray:
        header, pixels = _pixels(record, p.data_shape[0])
        return augment(pixels, raw(record, header), rng)[0]

    def load(record: Record, rng: Draws | Random, data: np.ndarray, label: np.ndarray) -> int:
        header, pixels = _pixels(record, p.data_shape[0])
        pixels, values = augment(pixels, raw(record, header), rng)
        rows, columns = pixels.shape[:2]
        label[:] = p.label_pad_value
        label[:4] = p.data_shape[0], rows, columns, len(values)
        label[4:4 + len(values)] = values
        normalize(_planes(pixels, False), data[:, :rows, :columns], rng)
        return header.id
    _use_mean_image(p, normalize, augmented)
    return _Images(p, width + 4, load, np.float32)
