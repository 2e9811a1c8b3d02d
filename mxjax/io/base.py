"""Common parts of data iterators: descriptions, batches, the interface of iterators; iterators of a given length."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import WrongKind
from ..ndarray import NDArray
from .state import check_count, check_state, need_state

__all__ = ["DataDesc", "DataBatch", "DataIter", "ResizeIter"]


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, dtype and layout of an input; a tuple of the first two.

    Args:
        name: the variable's name.
        shape: its shape, including the batch axis.
        dtype: dtype of its values.
        layout: a letter for each axis; "N" is the batch axis.

    Example:
        >>> desc = DataDesc("data", (32, 3, 8, 8))
        >>> name, shape = desc
        >>> shape[DataDesc.get_batch_axis(desc.layout)]
        32
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: tuple[int, ...], dtype: Any = np.float32,
                layout: str | None = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, shape)
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Returns the position of "N" in a layout; 0 without a layout, -1 without "N"."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[tuple[str, tuple[int, ...]]],
                 types: Sequence[tuple[str, Any]] | None) -> list[DataDesc]:
        """Creates descriptions from lists of (name, shape) and (name, dtype)."""
        dtypes = dict(types) if types is not None else {}
        return [DataDesc(name, shape, dtypes[name]) if dtypes else DataDesc(name, shape) for name, shape in shapes]


def described(shapes: Iterable[Any]) -> list[DataDesc]:
    """Descriptions from descriptions or tuples of name, shape and perhaps dtype and layout.

    Raises:
        TypeError: a shape is not a tuple.
    """
    descs = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in shapes]
    for desc in descs:
        if not isinstance(desc.shape, tuple | list):
            raise TypeError(f"the shape of {desc.name} must be a tuple, got {type(desc.shape).__name__}")
    return descs


class DataBatch:
    """A batch of samples.

    Args:
        data: list of arrays.
        label: list of arrays.
        pad: number of samples at the end that only fill the batch.
        index: indices of the samples.
        bucket_key: the bucket of the batch, for `BucketingModule`.
        provide_data, provide_label: descriptions of data and label, if they change from batch to batch.
    """

    def __init__(self, data: list[NDArray] | None, label: list[NDArray] | None = None, pad: int | None = None,
                 index: Any = None, bucket_key: Any = None, provide_data: list[DataDesc] | None = None,
                 provide_label: list[DataDesc] | None = None) -> None:
        for what, arrays in (("data", data), ("label", label)):
            if arrays is not None and not isinstance(arrays, list | tuple):
                raise WrongKind(f"{what} must be a list of NDArrays, got {type(arrays).__name__}")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        labels = [x.shape for x in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[x.shape for x in self.data or ()]} label shapes: {labels}"


class DataIter:
    """Base class of all data iterators.

    A subclass defines `provide_data` and `provide_label` (lists of DataDesc), `reset`, and either `next`, or
    `iter_next` with `getdata`, `getlabel`, `getpad` and `getindex`.

    Args:
        batch_size: number of samples in a batch.
    """

    # sequences of DataDesc, or of tuples of name, shape and perhaps dtype and layout; Any, for a subclass has them
    # as attributes or as properties
    provide_data: Any
    provide_label: Any
    default_bucket_key: Any  # of iterators whose batches have bucket keys

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Restarts from the beginning."""

    def next(self) -> DataBatch:
        """Returns the next batch.

        Raises:
            StopIteration: there is no further batch.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        return False

    def getdata(self) -> Any:
        """Data of the current batch: a list of arrays, or one array for an `MXDataIter`; None by default."""
        return None

    def getlabel(self) -> Any:
        """Labels of the current batch, in the form of `getdata`."""
        return None

    def getindex(self) -> Any:
        """Indices of the samples of the current batch, or None."""
        return None

    def getpad(self) -> int | None:
        """Number of samples at the end of the current batch that only fill it, or None."""
        return None


class _CurrentBatchIter(DataIter):
    """An iterator whose `iter_next` puts a whole batch into `current_batch`."""

    current_batch: DataBatch | None = None

    def _batch(self) -> DataBatch:
        """Returns the batch; AttributeError before the first one."""
        if self.current_batch is None:
            raise AttributeError(f"{type(self).__name__} has no current batch: call next() or iter_next() first")
        return self.current_batch

    def getdata(self) -> list[NDArray] | None:
        return self._batch().data

    def getlabel(self) -> list[NDArray] | None:
        return self._batch().label

    def getindex(self) -> Any:
        return self._batch().index

    def getpad(self) -> int | None:
        return self._batch().pad


class ResizeIter(_CurrentBatchIter):
    """Changes the number of batches per epoch of an iterator: truncates its epochs, or restarts it.

    Args:
        data_iter: the iterator.
        size: number of batches in an epoch.
        reset_internal: whether `reset` resets `data_iter` too.

    Example:
        >>> longer = ResizeIter(some_iter, 100)  # doctest: +SKIP
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, with the state of the iterator as "data_iter"; raises TypeError if it has none."""
        inner = need_state("ResizeIter", self.data_iter).state_dict()
        return {"kind": "ResizeIter", "size": self.size, "cur": self.cur, "data_iter": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the position of a `state_dict`; raises ValueError if the state does not match."""
        data_iter = need_state("ResizeIter", self.data_iter)
        check_state("ResizeIter", state, {"kind": "ResizeIter", "size": self.size}, ("cur", "data_iter"))
        cur = check_count("ResizeIter", "cur", state["cur"], self.size)
        data_iter.load_state_dict(state["data_iter"])
        self.cur = cur

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True
