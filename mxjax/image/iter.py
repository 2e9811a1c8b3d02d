"""The image iterator: batches of augmented images from a record file, an image list or single files."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import recordio
from .._support.files import numbered_lines, reading
from ..array.dense import _from_host
from ..base import MXNetError, numeric_types
from ..context import cpu
from ..io.base import DataBatch, DataIter
from ..io.state import check_count, check_state, part_of, plain
from ..ndarray import NDArray
from .augment import CreateAugmenter, chain
from .functions import array_class, host, imdecode, like

if TYPE_CHECKING:
    from .functions import Image

__all__ = ["ImageIter"]


class ImageIter(DataIter):
    """Iterates over batches of images (batch, channels, height, width) float32 and labels.

    Args:
        batch_size: images in a batch.
        data_shape: (3, height, width) of an image.
        label_width: number of labels per image.
        path_imgrec: a record file; or
        path_imglist: an image list, with lines "number<tab>label ...<tab>path"; or
        imglist: a list of [label or list of labels, path].
        path_root: directory to which the paths of both lists are relative.
        path_imgidx: the record file's index; needed for shuffling and parts.
        shuffle: draw a new order each epoch.
        part_index, num_parts: use only one of several parts of equal length; remaining images are
            in no part. If there are fewer images than parts, all parts together contain each image
            once.
        aug_list: augmenters; by default `CreateAugmenter(data_shape, **kwargs)`.
        data_name, label_name: names of data and label.
        dtype: dtype of the labels.
        last_batch_handle: treatment of the last images if they do not fill a batch: "pad" the batch
            from the beginning, "discard" them, or "roll_over" to the next epoch.

    Raises:
        AssertionError: there is no source of images, or arguments conflict.
        ValueError: `data_shape` is invalid.
        RuntimeError: while iterating, if an image cannot be decoded; the message names it.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], label_width: int = 1,
                 path_imgrec: str | None = None, path_imglist: str | None = None, path_root: str | None = None,
                 path_imgidx: str | None = None, shuffle: bool = False, part_index: int = 0, num_parts: int = 1,
                 aug_list: list | None = None, imglist: list | None = None, data_name: str = "data",
                 label_name: str = "softmax_label", dtype: str = "float32", last_batch_handle: str = "pad",
                 **kwargs: Any) -> None:
        super().__init__()
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise AssertionError(f"{type(self).__name__} needs path_imgrec, path_imglist or imglist")
        if dtype not in ("int32", "float32", "int64", "float64"):
            raise AssertionError(f"{dtype} label not supported; known: int32, float32, int64, float64")
        self.check_data_shape(data_shape)
        self._label_dtype = dtype
        self.imgrec: recordio.MXRecordIO | None = None
        self.imgidx: list[Any] | None = None
        if path_imgrec and path_imgidx:
            self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = recordio.MXRecordIO(path_imgrec, "r")
        self.imglist = self._read_list(path_imglist) if path_imglist else \
            self._take_list(imglist) if isinstance(imglist, list) else None
        self.path_root = path_root
        self.batch_size, self.data_shape, self.label_width = batch_size, tuple(data_shape), label_width
        self.provide_data = [(data_name, (batch_size, *data_shape))]
        self.provide_label = [(label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))]
        self.shuffle = shuffle
        self.seq = self.imgidx if self.imgrec is not None else list(self.imglist or ())
        self._part = num_parts, part_index
        if self.seq is None:
            if shuffle or num_parts > 1:
                raise AssertionError("shuffle and num_parts require the index of the record file: path_imgidx")
        elif num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise AssertionError(f"part_index must be in [0, {num_parts}), got {part_index}")
            whole = len(self.seq) - len(self.seq) % num_parts or len(self.seq)
            self.seq = self.seq[part_of(whole, num_parts, part_index)]
        self.auglist = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.last_batch_handle = last_batch_handle
        self.num_image = None if self.seq is None else len(self.seq)
        self.hard_reset()

    @property
    def _records(self) -> recordio.MXRecordIO:
        """The record file, which an iterator without an order of images reads one record after the other."""
        if self.imgrec is None:
            raise RuntimeError(f"{type(self).__name__} has neither an order of images nor a record file: "
                               "its seq and its imgrec are None")
        return self.imgrec

    def _read_list(self, path: str) -> dict[Any, tuple[np.ndarray, str]]:
        """An image list from a file: label and path by number."""
        entries = {}
        for number, line in numbered_lines(path, "an image list"):
            try:
                key, *labels, name = line.strip().split("\t")
                entries[int(key)] = np.array(labels, self._label_dtype), name
            except (ValueError, OverflowError) as error:
                raise MXNetError(f"{path}, line {number}: expected number, labels and path, separated by tabs "
                                 f"({error})") from error
        return entries

    def _take_list(self, images: list) -> dict[Any, tuple[np.ndarray, str]]:
        """An image list from a list: label and path by number, as text."""
        def label(entry: Sequence[Any]) -> np.ndarray:
            first = entry[:-1] if len(entry) > 2 or isinstance(entry[0], numeric_types) else entry[0]
            return np.array(first.asnumpy() if isinstance(first, NDArray) else first, self._label_dtype)
        return {str(number): (label(entry), entry[-1]) for number, entry in enumerate(images, start=1)}

    def reset(self) -> None:
        """Restarts from the beginning; with "roll_over", after the images that began this epoch."""
        if self.seq is not None and self.shuffle:
            self.seq = list(self.seq)  # states may have the one before
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._cache is None:
            if self.imgrec is not None:
                self.imgrec.reset()
            self.cur = 0
            self._allow_read = True

    def hard_reset(self) -> None:
        """Restarts from the beginning and discards images left over from the last epoch."""
        self._cache: tuple[np.ndarray, np.ndarray, int] | None = None
        self.reset()

    def next_sample(self) -> tuple[Any, bytes]:
        """Returns label and encoded image of the next sample; labels of lists are NDArrays.

        Raises:
            StopIteration: there are no more samples.
        """
        if not self._allow_read:
            raise StopIteration
        again = self.last_batch_handle != "discard"
        if self.seq is None or self.num_image is None:
            record = self._records.read()
            if record is None:
                if again:
                    self._records.reset()
                raise StopIteration
            header, image = recordio.unpack(record)
            return header.label, image
        if self.cur >= self.num_image:
            if again:
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        label = None
        if self.imglist is not None:
            label, name = self.imglist[key]
            label = self._array(label)
            if self.imgrec is None:
                return label, self.read_image(name)
        # a record file whose images have an order has an index
        header, image = recordio.unpack(cast(recordio.MXIndexedRecordIO, self._records).read_idx(key))
        return header.label if label is None else label, image

    def _fill(self, data: np.ndarray, label: np.ndarray, row: int, sample: tuple[Any, bytes]) -> bool:
        """Puts a sample into a batch's row; False where it is invalid and skipped."""
        target, encoded = sample
        image = self.imdecode(encoded)
        try:
            self.check_valid_image(image)
        except RuntimeError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return False
        data[row] = host(self.postprocess_data(self.augmentation_transform(image)))
        values = np.ravel(host(target))
        if values.size != label[row].size:
            raise ValueError(f"{self._current()} has {values.size} labels, but label_width is {self.label_width}")
        label[row] = values.reshape(label[row].shape)
        return True

    def _batchify(self, batch_data: np.ndarray, batch_label: np.ndarray, start: int = 0) -> int:
        """Fills a batch from row `start` on; the number of rows that are full then."""
        row = start
        while row < self.batch_size:
            try:
                sample = self.next_sample()
            except StopIteration:
                if not row:
                    raise
                break
            row += self._fill(batch_data, batch_label, row, sample)
        return row

    def _empty_label(self) -> np.ndarray:
        return np.zeros(self.provide_label[0][1], np.float32)

    def next(self) -> DataBatch:
        """Returns the next batch."""
        begin = self._position()
        if self._cache is not None:
            data, label, count = self._cache
        else:
            data, label = np.zeros((self.batch_size, *self.data_shape), np.float32), self._empty_label()
            count = self._batchify(data, label)
        pad = self.batch_size - count
        if pad:
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and self._cache is None:
                self._cache = data, label, count
                self._cached = begin if self.seq is None else self.seq[begin:]
                raise StopIteration
            self._batchify(data, label, count)
            if self.last_batch_handle == "pad":
                self._allow_read = False
            self._cache = None
        return DataBatch([self._array(data)], [self._array(label)], pad=pad)

    def _position(self) -> int:
        """Returns where the next sample is: its number in the order, or its offset in a record file without an index.
        """
        return self._records.handle.tell() if self.seq is None else self.cur

    def _settings(self) -> dict[str, Any]:
        length = {"bytes": os.path.getsize(self._records.uri)} if self.seq is None else {"length": self.num_image}
        return {"kind": type(self).__name__, **length, "batch_size": self.batch_size, "shuffle": bool(self.shuffle),
                "last_batch_handle": self.last_batch_handle, "num_parts": self._part[0], "part_index": self._part[1]}

    def _state(self) -> dict[str, Any]:
        """The state with the order itself, not a copy: made for each batch where one reads ahead."""
        return {**self._settings(), "position": self._position(), "allow_read": self._allow_read,
                "cached": None if self._cache is None else self._cached, "order": self.seq if self.shuffle else None}

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the epoch.

        With `shuffle`, the state contains the order, a list of the indices of all images. The
        orders of later epochs and the random numbers of augmenters come from the global generators
        of `random` and `numpy.random`. To reproduce them, save the states of these generators, too,
        and restore them after `load_state_dict`.

        Returns:
            JSON-compatible numbers, strings and lists.
        """
        return plain(self._state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from where `state_dict` was called; images left over for the next epoch
        ("roll_over") are read again.

        Args:
            state: result of `state_dict` of an iterator over the same images with the same
                settings.

        Raises:
            ValueError: the state belongs to other images or settings; the message names what
                differs.
        """
        name = type(self).__name__
        check_state(name, state, self._settings(), ("position", "allow_read", "cached", "order"))
        order, cached = state["order"] if self.shuffle else self.seq, state["cached"]
        if self.shuffle and (not isinstance(order, list) or
                             sorted(map(str, order)) != sorted(map(str, self.seq or ()))):
            raise ValueError(f"{name}: the order in this state is not an order of these images")
        if cached is not None and self.seq is not None and not set(cached) <= set(order or ()):
            raise ValueError(f"{name}: the cached images in this state are not among these images")
        position = check_count(name, "position", state["position"], state.get("bytes", self.num_image))
        self._cache = None
        if cached is not None:
            self._go_to(cached, 0) if self.seq is not None else self._go_to(None, check_count(name, "cached", cached))
            data, label = np.zeros((self.batch_size, *self.data_shape), np.float32), self._empty_label()
            try:
                self._cache, self._cached = (data, label, self._batchify(data, label)), cached
            except StopIteration:  # augmenters have rejected all of them this time
                self._cache, self._cached = (data, label, 0), cached
        self._go_to(order, position)
        self._allow_read = bool(state["allow_read"])

    def _go_to(self, order: list[Any] | None, position: int) -> None:
        """Has the next sample be one of an order, or the one at an offset."""
        self._allow_read = True
        if order is None:
            self._records.handle.seek(position)
        else:
            self.seq, self.num_image, self.cur = order, len(order), position

    @staticmethod
    def _array(values: np.ndarray) -> NDArray:
        return _from_host(values, cpu(), array_class())

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raises ValueError unless a shape is (3, height, width)."""
        if len(data_shape) != 3:
            raise ValueError(f"data_shape should have length 3, with dimensions CxHxW; got {tuple(data_shape)}")
        if data_shape[0] != 3:
            raise ValueError(f"This iterator expects inputs to have 3 channels; got data_shape {tuple(data_shape)}")

    def check_valid_image(self, data: Sequence[Image] | Image) -> None:
        """Raises RuntimeError if an image has no shape."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """Decodes an image.

        Raises:
            RuntimeError: decoding failed; the message names the image.
        """
        try:
            return imdecode(s)
        except Exception as error:
            raise RuntimeError(f"Broken image {self._current()}, {error}") from error

    def _current(self) -> str:
        """The name of the last sample read."""
        if self.seq is None:
            return f"in {self._records.uri}, before offset {self._records.handle.tell()}"
        key = self.seq[self.cur - 1]  # the last one's where `cur` is back at 0
        if self.imglist is not None:
            return f"filename: {self.imglist[key][1]}"
        return f"index: {key} of {self._records.uri}"

    def read_image(self, fname: str) -> bytes:
        """Reads the bytes of an image file."""
        path = os.path.join(self.path_root or "", fname)
        with reading(path, "an image"), open(path, "rb") as file:
            return file.read()

    def augmentation_transform(self, data: Image) -> Any:
        """Applies the augmenters to an image."""
        return chain(self.auglist, data)

    def postprocess_data(self, datum: Image) -> Any:
        """Transposes (height, width, channels) to (channels, height, width)."""
        return like(host(datum).transpose(2, 0, 1), datum)
