"""Files of ndarrays."""

from __future__ import annotations

import os
from typing import Any

import numpy

from .. import level
from ..array import creation as _utils
from ..array import file_format
from ..array.dense import NDArray
from ..numpy import from_dlpack, ndarray
from ..util import is_np_array, is_np_shape

__all__ = ["from_dlpack", "from_numpy", "load", "save", "savez", "to_dlpack_for_read", "to_dlpack_for_write"]


def _need_np(what: str) -> None:
    if not (is_np_shape() and is_np_array()):
        raise ValueError(f"Cannot {what} `mxnet.numpy.ndarray` in legacy mode. Please activate numpy semantics by "
                         "calling `npx.set_np()` in the global scope before calling this function.")


def save(file: str | os.PathLike, arr: Any) -> None:
    """Saves an ndarray, a list of ndarrays or a dictionary of named ndarrays in MXNet's format.

    At level 2 it saves one array in NumPy's format, `.npy`, and `savez` several.

    Args:
        file: path of the file.
        arr: the ndarray, the list (or tuple), or the dictionary by name.

    Raises:
        ValueError: NumPy semantics are off (`npx.set_np()` turns them on), or the data is of another type.
        TypeError: the list or dictionary contains another type.

    Example:
        >>> mx.npx.set_np()
        >>> mx.npx.save("saved.params", {"weight": mx.np.array([1, 2])})
        >>> mx.npx.load("saved.params")
        {'weight': array([1., 2.])}
        >>> mx.npx.reset_np()
    """
    if level.current() == 2:
        if not isinstance(arr, NDArray):
            raise ValueError(f"save expects one array, got {type(arr).__name__}; use savez for several")
        file_format.write_numpy(os.fspath(file), arr)
        return
    _need_np("save")
    values = list(arr.values()) if isinstance(arr, dict) else arr if isinstance(arr, (list, tuple)) else [arr]
    if not isinstance(arr, (list, tuple, dict, ndarray)):
        raise ValueError("data needs to either be a ndarray, dict of (str, ndarray) pairs or a list of ndarrays.")
    if any(not isinstance(v, ndarray) for v in values):
        raise TypeError("Only accepts dict str->ndarray or list of ndarrays")
    _utils.save(file, arr)


def load(file: str | os.PathLike) -> Any:
    """Loads the ndarrays of a file.

    Args:
        file: path of the file.

    Returns:
        A list, or a dictionary if the arrays have names; at level 2 also a single array.

    Raises:
        ValueError: NumPy semantics are off; `npx.set_np()` turns them on.
        OSError: the file does not exist.
        MXNetError: the file does not contain arrays.

    Example:
        >>> mx.npx.set_np()
        >>> mx.npx.save("saved.params", [mx.np.array([1, 2]), mx.np.zeros(2)])
        >>> mx.npx.load("saved.params")
        [array([1., 2.]), array([0., 0.])]
        >>> mx.npx.reset_np()
    """
    _need_np("load")
    result = _utils.load(file)
    if isinstance(result, dict):
        return {name: array.as_np_ndarray() for name, array in result.items()}
    if len(result) == 1 and level.current() == 2:
        return result[0].as_np_ndarray()
    return [array.as_np_ndarray() for array in result]


def savez(file: str | os.PathLike, *args: NDArray, **kwds: NDArray) -> None:
    """Saves named ndarrays in MXNet's format; at level 2 as an `.npz` archive of NumPy.

    Args:
        file: path of the file.
        args: ndarrays, which get the names "arr_0", "arr_1", ...
        kwds: ndarrays by name.

    Raises:
        ValueError: NumPy semantics are off, or a name is used twice.
        TypeError: an argument is not an ndarray.

    Example:
        >>> mx.npx.set_np()
        >>> mx.npx.savez("saved.params", mx.np.array([1]), weight=mx.np.array([2]))
        >>> mx.npx.load("saved.params")
        {'weight': array([2.]), 'arr_0': array([1.])}
        >>> mx.npx.reset_np()
    """
    named = {f"arr_{i}": a for i, a in enumerate(args)}
    twice = named.keys() & kwds.keys()
    if twice:
        raise ValueError(f"savez: two arrays have the name {min(twice)}")
    if level.current() == 1:
        save(file, {**kwds, **named})
        return
    wrong = [k for k, v in (kwds | named).items() if not isinstance(v, NDArray)]
    if wrong:
        raise TypeError(f"savez expects arrays, but {wrong[0]} is not an array")
    file_format.write_numpy(os.fspath(file), kwds | named)


def from_numpy(ndarray: numpy.ndarray, zero_copy: bool = True) -> Any:
    """An ndarray with the values of a NumPy array; see `mx.nd.from_numpy`.

    Args:
        ndarray: the NumPy array; C-contiguous if `zero_copy` is set.
        zero_copy: whether to share its memory if the device is the host; the NumPy array becomes read-only.

    Returns:
        An ndarray.

    Raises:
        ValueError: `zero_copy` is set and the array is not C-contiguous.

    Example:
        >>> mx.npx.from_numpy(np.array([1, 2], dtype="float32"))
        array([1., 2.])
    """
    return _utils.from_numpy(ndarray, zero_copy).as_np_ndarray()


def to_dlpack_for_read(data: NDArray) -> Any:
    """A DLPack capsule of an ndarray, for reading.

    Args:
        data: the ndarray.

    Returns:
        The capsule, which shares the memory.

    Example:
        >>> mx.npx.from_dlpack(mx.npx.to_dlpack_for_read(mx.np.array([1, 2])))
        array([1., 2.])
    """
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """A DLPack capsule of an ndarray, for writing.

    Args:
        data: the ndarray.

    Returns:
        The capsule.

    Example:
        >>> mx.npx.from_dlpack(mx.npx.to_dlpack_for_write(mx.np.array([1, 2])))
        array([1., 2.])
    """
    return data.to_dlpack_for_write()
