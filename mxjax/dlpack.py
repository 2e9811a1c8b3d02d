"""`mx.dlpack`: factories of the functions that exchange arrays with other libraries without copying."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from .ndarray import NDArray, from_dlpack, from_numpy, to_dlpack_for_read, to_dlpack_for_write
from .numpy import ndarray as _np_ndarray

__all__ = ["DLDeviceType", "ndarray_from_dlpack", "ndarray_from_numpy", "ndarray_to_dlpack_for_read",
           "ndarray_to_dlpack_for_write"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices, as DLPack numbers them."""

    DLCPU = 1
    DLGPU = 2
    DLCPUPINNED = 3
    DLOPENCL = 4
    DLVULKAN = 7
    DLMETAL = 8
    DLVPI = 9
    DLROCM = 10
    DLEXTDEV = 12


def _as(array_cls: type, array: NDArray) -> Any:
    return array.as_np_ndarray() if issubclass(array_cls, _np_ndarray) else array.as_nd_ndarray()


def ndarray_from_dlpack(array_cls: type) -> Callable[[Any], Any]:
    """Returns `from_dlpack(x)`, which creates arrays of this class from objects that export DLPack.

    Args:
        array_cls: `mx.nd.NDArray` or `mx.np.ndarray`.
    """
    return lambda dlpack: _as(array_cls, from_dlpack(dlpack))


def ndarray_from_numpy(array_cls: type, array_create_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `from_numpy(ndarray, zero_copy=True)`, which makes arrays of this class of NumPy's.

    Args:
        array_cls: `mx.nd.NDArray` or `mx.np.ndarray`.
        array_create_fn: makes the array where it is to be a copy: function(array, dtype=...).
    """
    def convert(ndarray: np.ndarray, zero_copy: bool = True) -> Any:
        if not zero_copy:
            return array_create_fn(ndarray, dtype=ndarray.dtype)
        return _as(array_cls, from_numpy(ndarray))
    return convert


def ndarray_to_dlpack_for_read() -> Callable[[Any], Any]:
    """Returns `to_dlpack_for_read(array)`."""
    return to_dlpack_for_read


def ndarray_to_dlpack_for_write() -> Callable[[Any], Any]:
    """Returns `to_dlpack_for_write(array)`."""
    return to_dlpack_for_write
