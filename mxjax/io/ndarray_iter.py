"""Iteration over arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError, Precondition
from ..ndarray import CSRNDArray, NDArray
from .base import DataBatch, DataDesc, DataIter
from .state import check_order, check_state, plain
from .utils import _getdata_by_idx, _has_instance, _init_data, _is_dataset, _slice_along_batch_axis, _take

__all__ = ["NDArrayIter"]


class NDArrayIter(DataIter):
    """An iterator over batches of arrays.

    Args:
        data: NDArray, numpy.ndarray (as float32), h5py.Dataset, CSRNDArray, or a series of pandas, polars or Arrow; or
            a list or dict of these; or a data frame, whose columns become named arrays.
        label: the same.
        batch_size: number of samples in a batch.
        shuffle: whether to shuffle in each epoch, by NumPy's global generator; not for datasets on disk.
        last_batch_handle: treatment of an incomplete last batch: "pad" fills it with samples from the beginning,
            "discard" drops it, "roll_over" moves its samples to the next epoch.
        data_name, label_name: default names, if `data` and `label` have none.
        layout: a letter for each axis; "N" is the batch axis.

    Raises:
        ValueError: the arrays have different lengths, or `last_batch_handle` is unknown.
        MXNetError: `batch_size` is less than 1.
        NotImplementedError: there is a CSRNDArray, and `last_batch_handle` is not "discard".

    Example:
        >>> batches = NDArrayIter(np.arange(6).reshape(3, 2), np.arange(3), batch_size=2)
        >>> [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches]
        [([0.0, 1.0], 0), ([2.0, 0.0], 1)]
    """

    def __init__(self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad", data_name: str = "data", label_name: str = "softmax_label",
                 layout: str = "NCHW") -> None:
        super().__init__(batch_size)
        if batch_size < 1:
            raise MXNetError(f"NDArrayIter: batch_size must be 1 or more, got {batch_size}")
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle must be 'pad', 'discard' or 'roll_over', got {last_batch_handle!r}")
        self.data = _init_data(data, allow_empty=False, default_name=data_name)
        self.label = _init_data(label, allow_empty=True, default_name=label_name)
        if last_batch_handle != "discard" and _has_instance(self.data + self.label, CSRNDArray):
            raise NotImplementedError("NDArrayIter takes a CSRNDArray only with last_batch_handle='discard'")
        self.layout = layout
        self.num_data = self.data[0][1].shape[self._axis]
        for name, array in self.data + self.label:
            if array.shape[self._axis] < self.num_data:  # further ones are not used, as in MXNet
                raise ValueError(f"{name} has {array.shape[self._axis]} samples, but {self.data[0][0]} has "
                                 f"{self.num_data}")
        self.idx = np.arange(self.num_data)
        self._order = self.idx  # of the arrays as they are now; never written to
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.num_source = len(self.data) + len(self.label)
        self._rest: dict[bool, list[NDArray]] = {}  # by whether labels: samples rolled over
        self._rest_rows = self.idx[:0]  # their numbers
        self.cursor = -batch_size
        self.reset()

    @property
    def _axis(self) -> int:
        """The batch axis in `layout`, which programs may set later."""
        return DataDesc.get_batch_axis(self.layout)

    @property
    def data_list(self) -> list[Any]:
        """All arrays, data first."""
        return [array for _, array in self.data + self.label]

    def _describe(self, source: list[tuple[str, Any]]) -> list[DataDesc]:
        axis = self._axis
        return [DataDesc(name, (*array.shape[:axis], self.batch_size, *array.shape[axis + 1:]), array.dtype,
                         layout=self.layout) for name, array in source]

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the labels."""
        return self._describe(self.label)

    def hard_reset(self) -> None:
        """Restarts from the beginning, and drops samples that were rolled over."""
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size
        self._rest = {}

    def reset(self) -> None:
        """Restarts from the beginning; with "roll_over" the remaining samples come first."""
        if self.shuffle:
            self._shuffle_data()
        left_over = self.num_data - self.batch_size < self.cursor < self.num_data
        if self.last_batch_handle == "roll_over" and left_over:
            self.cursor -= self.num_data + self.batch_size
        else:
            self.cursor = -self.batch_size

    def _shuffle_data(self) -> None:
        self.idx = self.idx.copy()  # states may have the one before
        np.random.shuffle(self.idx)
        self._order = self._order[self.idx]
        self.data = _getdata_by_idx(self.data, self.idx, self._axis)
        self.label = _getdata_by_idx(self.label, self.idx, self._axis)

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        if data[0].shape[self._axis] != self.batch_size:
            rows = self._order[max(self.cursor, 0):self.cursor + self.batch_size]
            self._rest_rows = rows if self.cursor >= 0 else np.concatenate([self._rest_rows, rows])
            self._rest = {False: data, True: label}
            raise StopIteration
        return DataBatch(data=data, label=label, pad=self.getpad(), index=None)

    def _settings(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "length": self.num_data, "batch_size": self.batch_size,
                "shuffle": bool(self.shuffle), "last_batch_handle": self.last_batch_handle}

    def _state(self) -> dict[str, Any]:
        """The state with arrays: made for each batch where one reads ahead."""
        rest = self._rest_rows if self._rest and self.last_batch_handle == "roll_over" else None
        return {**self._settings(), "cursor": self.cursor, "rest": rest,
                "order": self._order if self.shuffle else None, "idx": self.idx if self.shuffle else None}

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the epoch.

        With `shuffle` it includes the order: two lists with as many numbers as there are samples. The orders of later
        epochs come from NumPy's global generator. To reproduce them, store its state too (`numpy.random.get_state`),
        and restore it after `load_state_dict`.

        Returns:
            Numbers, texts and lists, which can be stored as JSON.
        """
        return plain(self._state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the position at which `state_dict` was called.

        Args:
            state: the result of `state_dict` of an iterator over the same arrays with the same settings.

        Raises:
            ValueError: the state belongs to another length or other settings; the message names the difference.
        """
        name = type(self).__name__
        check_state(name, state, self._settings(), ("cursor", "rest", "order", "idx"))
        order, idx = self._order, self.idx
        if self.shuffle:
            order, idx = (check_order(name, key, state[key], self.num_data) for key in ("order", "idx"))
        rest = np.asarray(state["rest"] or [], np.int64)
        if not isinstance(state["cursor"], int) or not np.isin(rest, order).all():
            raise ValueError(f"{name}: the cursor or the rest of this state is damaged")
        if self.shuffle:
            moved = np.argsort(self._order)[order]  # where the samples are now
            self.data = _getdata_by_idx(self.data, moved, self._axis)
            self.label = _getdata_by_idx(self.label, moved, self._axis)
        self._order, self.idx, self.cursor, self._rest_rows = order, idx, state["cursor"], rest
        where = np.argsort(order)[rest]
        self._rest = {} if state["rest"] is None else \
            {labels: [_take(array, where, self._axis) for _, array in (self.label if labels else self.data)]
             for labels in (False, True)}

    def _batchify(self, labels: bool) -> list[NDArray]:
        source = [array for _, array in (self.label if labels else self.data)]
        begin, end = self.cursor, self.cursor + self.batch_size
        if begin >= self.num_data:
            raise Precondition("the iterator is at its end; call reset()")
        if begin < 0 and self.last_batch_handle == "roll_over" and end > 0:
            first = self._rest.pop(labels)
            return [nd.concat(old, self._piece(array, 0, end), dim=self._axis)
                    for old, array in zip(first, source, strict=True)]
        if end > self.num_data and self.last_batch_handle == "pad":
            return [_take(array, np.arange(begin, end) % self.num_data, self._axis) for array in source]
        return [self._piece(array, begin, min(end, self.num_data)) for array in source]

    def _piece(self, array: Any, begin: int, end: int) -> NDArray:
        if self.shuffle and _is_dataset(array):
            return _take(array, self.idx[begin:end])
        return _slice_along_batch_axis(array, slice(begin, end), self._axis)

    def getdata(self) -> list[NDArray]:
        return self._batchify(labels=False)

    def getlabel(self) -> list[NDArray]:
        return self._batchify(labels=True)

    def getpad(self) -> int:
        """Number of samples that fill the last batch of "pad", or that were rolled over into the first."""
        end = self.cursor + self.batch_size
        if self.last_batch_handle == "pad":
            return max(0, end - self.num_data)
        return -self.cursor if self.last_batch_handle == "roll_over" and self.cursor < 0 < end else 0
