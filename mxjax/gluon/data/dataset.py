"""Data sets with indexed samples, and data sets derived from others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ... import recordio
from ..._support.frames import column, columns
from ...ndarray import NDArray
from ..block import HybridBlock
from .sampler import FilterSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from .._types import Indexed

__all__ = ["ArrayDataset", "Dataset", "HasHandle", "RecordFileDataset", "SimpleDataset"]


class HasHandle:
    """Base of objects that have a counterpart in C++ in MXNet 2."""

    def __mx_handle__(self) -> Self:
        """Returns the object itself, which does all that its counterpart in MXNet 2 does."""
        return self


class Dataset(HasHandle):
    """Base of data sets. Subclasses define `__getitem__`, by index, and `__len__`. Arrays and lists
    also work as data sets."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def filter(self, fn: Callable[[Any], bool]) -> Dataset:
        """Returns the samples for which `fn(sample)` is true. `fn` runs immediately; the samples
        are fetched again when used."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Returns one of `num_shards` parts of (nearly) equal length.

        Raises:
            AssertionError: `index` is not in [0, num_shards).
        """
        if not 0 <= index < num_shards:
            raise AssertionError(f"shard {index} of {num_shards} is out of bounds: it must be in [0, num_shards)")
        least, longer = divmod(len(self), num_shards)
        return _SampledDataset(self, SequentialSampler(least + (index < longer), least * index + min(index, longer)))

    def take(self, count: int | None) -> Dataset:
        """Returns the first `count` samples, or all if there are fewer or `count` is None."""
        return _SampledDataset(self, SequentialSampler(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler: Sampler) -> Dataset:
        """Returns the samples that a sampler selects, in its order.

        Raises:
            TypeError: `sampler` is not a Sampler.
        """
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sampler must be a gluon.data.Sampler, got {type(sampler).__name__}")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable, lazy: bool = True) -> Dataset:
        """Applies a function to each sample.

        Args:
            fn: function of a sample, or of its elements if samples are tuples.
            lazy: call it whenever a sample is fetched; otherwise on all samples now.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn: Callable, lazy: bool = True) -> Dataset:
        """Applies a function to the first element of each sample; arguments as in `transform`."""
        return self.transform(_TransformFirst(fn), lazy)

    def in_float32(self) -> Dataset | None:
        """Returns this data set as MXNet 2's C++ loader reads it; used by `DataLoader`, not part of MXNet's interface.

        NumPy arrays and lists are float32 there; NDArrays keep their dtype.

        Returns:
            The new data set, or None if that loader cannot read this one, because it contains no
            numeric arrays or its functions are not hybrid blocks.
        """
        return None


class SimpleDataset(Dataset):
    """Wraps anything with `__len__` and `__getitem__` as a data set.

    Args:
        data: list, array, ...
    """

    def __init__(self, data: Indexed) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]

    def in_float32(self) -> Dataset | None:
        known = type(self) is SimpleDataset and isinstance(self._data, (NDArray, np.ndarray))
        data = _numbers(self._data) if known else None
        return None if data is None else SimpleDataset(data)


class _LazyTransformDataset(SimpleDataset):
    """Another data set's samples after a function."""

    def __init__(self, data: Indexed, fn: Callable) -> None:
        super().__init__(data)
        self._fn = fn

    def __getitem__(self, idx: int) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)

    def in_float32(self) -> Dataset | None:
        function = self._fn.function if isinstance(self._fn, _TransformFirst) else self._fn
        data = _in_float32(self._data) if isinstance(function, HybridBlock) else None
        return None if data is None else _LazyTransformDataset(data, self._fn)


class _TransformFirst:
    """Applies a function to the first argument and hands on the others."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, first: object, *rest: object) -> Any:
        return (self.function(first), *rest) if rest else self.function(first)


class _SampledDataset(Dataset):
    """Some of another data set's samples."""

    def __init__(self, dataset: Indexed, sampler: Sampler | Sequence[int]) -> None:
        self._dataset, self._sampler = dataset, sampler
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._sampler)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]

    def in_float32(self) -> Dataset | None:
        data = _in_float32(self._dataset)
        return None if data is None else _SampledDataset(data, self._indices)


class ArrayDataset(Dataset):
    """Combines arrays of equal length: sample i is (x1[i], x2[i], ...), or x1[i] if there is only one.

    Args:
        args: arrays, lists or data sets of equal length; pandas, polars or Arrow series, read by
            position; data frames, each column of which becomes one element, in order.

    Raises:
        AssertionError: there are no arrays, or their lengths differ.

    Example:
        >>> ArrayDataset([1, 2], ["a", "b"])[1]
        (2, 'b')
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise AssertionError("ArrayDataset needs at least one array")
        parts = [part for data in args for part in _parts(data)]
        self._length = len(parts[0])
        for i, data in enumerate(parts):
            if len(data) != self._length:
                raise AssertionError(f"all arrays must have the same length: the first one has {self._length}, number "
                                     f"{i + 1} has {len(data)}")
        # numbers come out of a NumPy array at once, one by one out of an NDArray
        self._data = [data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data for data in parts]

    def __getitem__(self, idx: int) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length

    def in_float32(self) -> Dataset | None:
        parts = [part.in_float32() if isinstance(part, Dataset) else _numbers(part) for part in self._data]
        return None if any(part is None for part in parts) else ArrayDataset(*parts)


def _parts(data: object) -> list[Any]:
    """Returns the columns of a data set, array, series or frame."""
    frame = columns(data)
    if frame is None:
        values = column(data)
        return [data if values is None else values]
    if not frame:
        raise ValueError("ArrayDataset: the frame has no columns")
    return list(frame.values())


def _in_float32(data: object) -> Dataset | None:
    return data.in_float32() if isinstance(data, Dataset) else None


def _numbers(data: object) -> Any:
    """Returns an NDArray itself, other numbers as a NumPy array in float32, and None for anything else."""
    if isinstance(data, NDArray):
        return data
    try:
        return np.asarray(data, np.float32)
    except (TypeError, ValueError):
        return None


class RecordFileDataset(Dataset):
    """The records of a record file, as bytes.

    Args:
        filename: path of the ".rec" file; its ".idx" index must be in the same directory.

    Raises:
        MXNetError: as `recordio.MXIndexedRecordIO`.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: int) -> bytes:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """A data set kept in a folder, and downloaded to it where it is not there yet.

    Args:
        root: the folder.
        transform: function(image, label) applied to each sample, or None.
    """

    _data: Any = None
    _label: Any = None

    def __init__(self, root: str | os.PathLike[str], transform: Callable | None) -> None:
        self._transform = transform
        self._root = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def __getitem__(self, idx: int) -> Any:
        sample = self._data[idx], self._label[idx]
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)

    def in_float32(self) -> Dataset | None:
        parts = [None] if self._transform else [_numbers(self._data), _numbers(self._label)]
        return None if any(part is None for part in parts) else ArrayDataset(*parts)

    def _get_data(self) -> None:
        """Sets `_data` and `_label`."""
        raise NotImplementedError(f"{type(self).__name__} must define _get_data")
