"""Normalization and slicing of the arrays that users pass to iterators."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray as nd
from .._support.frames import column, columns
from ..base import Unfit
from ..ndarray import CSRNDArray, NDArray

__all__: list[str] = []


def _is_dataset(value: Any) -> bool:
    """Returns whether a value is an h5py.Dataset, which is read piece by piece (h5py need not be installed)."""
    return type(value).__module__.startswith("h5py.") and hasattr(value, "id")


def _init_data(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, Any]]:
    """Pairs of name and array, in the order of names.

    Args:
        data: an array, a list of arrays, arrays by name, a frame (its columns by name), or None.
        allow_empty: whether None and [] are all right.
        default_name: name of a single array; several in a list become "_0_name", "_1_name", ...
    """
    if data is None:
        data = []
    frame = columns(data)
    if frame is not None:
        data = frame
    if isinstance(data, np.ndarray | NDArray) or _is_dataset(data) or column(data) is not None:
        data = [data]
    if isinstance(data, list):
        if not data and not allow_empty:
            raise Unfit(f"{default_name}: there is no array")
        named = {f"_{i}_{default_name}": array for i, array in enumerate(data)}
        data = {default_name: data[0]} if len(data) == 1 else named
    if not isinstance(data, dict):
        raise TypeError(f"{default_name} must be an NDArray, numpy.ndarray, h5py.Dataset, or a list or dict of them, "
                        f"got {type(data).__name__}")
    pairs = []
    for name, array in sorted(data.items()):
        if not isinstance(array, NDArray) and not _is_dataset(array):
            values = column(array)
            try:
                array = nd.array(array if values is None else values)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{name} must be an NDArray, numpy.ndarray or h5py.Dataset, got "
                                f"{type(array).__name__}: {error}") from error
        pairs.append((name, array))
    return pairs


def _has_instance(data: list[tuple[str, Any]], dtype: type) -> bool:
    """Returns whether one of the named arrays is of a class."""
    return any(isinstance(array, dtype) for _, array in data)


def _getdata_by_idx(data: list[tuple[str, Any]], idx: np.ndarray, axis: int = 0) -> list[tuple[str, Any]]:
    """The named arrays with their samples in another order; datasets on disk as they are."""
    return [(name, array if _is_dataset(array) else _take(array, idx, axis)) for name, array in data]


def _take(array: Any, idx: np.ndarray, axis: int = 0) -> NDArray:
    """The samples of these numbers."""
    if isinstance(array, CSRNDArray):
        return nd.sparse.array(array.asscipy()[idx], ctx=array.context)
    if _is_dataset(array):  # h5py wants increasing numbers, each once
        result, where = np.unique(idx, return_inverse=True)
        return nd.array(array[result][where])
    return array[(*[slice(None)] * axis, idx)]


def _slice_along_batch_axis(data: Any, s: slice, batch_axis: int = 0) -> NDArray:
    """A copy of some consecutive samples; one compiled program serves every position."""
    if _is_dataset(data):
        return nd.array(data[s])
    if isinstance(data, CSRNDArray):
        return data[s]
    piece = data[(*[slice(None)] * batch_axis, s)]
    batch = nd.from_jax(piece.to_jax(), piece.context)  # not a view: writing to a batch must not change the data
    return batch if type(data) is NDArray else batch.as_np_ndarray()
