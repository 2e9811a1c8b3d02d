"""Files of ndarrays."""

from __future__ import annotations

import os
from typing import Any

from ..array import creation as _utils
from ..numpy import ndarray
from ..util import is_np_array, is_np_shape

__all__ = ["load", "save"]


def _need_np(what: str) -> None:
    if not (is_np_shape() and is_np_array()):
        raise ValueError(f"Cannot {what} `mxnet.numpy.ndarray` in legacy mode. Please activate numpy semantics by "
                         "calling `npx.set_np()` in the global scope before calling this function.")


def save(file: str | os.PathLike, arr: Any) -> None:
    """Saves an ndarray, a list of ndarrays or a dictionary of named ndarrays in MXNet's format.

    Args:
        file: path of the file.
        arr: the ndarray, the list (or tuple), or the dictionary by names.

    Raises:
        ValueError: NumPy semantics are off (`npx.set_np()` turns them on), or the data is something else.
        TypeError: there is something else in the list or dictionary.

    Example:
        >>> mx.npx.set_np()
        >>> mx.npx.save("saved.params", {"weight": mx.np.array([1, 2])})
        >>> mx.npx.load("saved.params")
        {'weight': array([1., 2.])}
        >>> mx.npx.reset_np()
    """
    _need_np("save")
    values = list(arr.values()) if isinstance(arr, dict) else arr if isinstance(arr, (list, tuple)) else [arr]
    if not isinstance(arr, (list, tuple, dict, ndarray)):
        raise ValueError("data needs to either be a ndarray, dict of (str, ndarray) pairs or a list of ndarrays.")
    if any(not isinstance(v, ndarray) for v in values):
        raise TypeError("Only accepts dict str->ndarray or list of ndarrays")
    _utils.save(file, arr)


def load(file: str | os.PathLike) -> Any:
    """The ndarrays of a file.

    Args:
        file: path of the file.

    Returns:
        A list, or a dictionary where they have names.

    Raises:
        ValueError: NumPy semantics are off; `npx.set_np()` turns them on.
        OSError: there is no such file.
        MXNetError: the file is no file of arrays.

    Example:
        >>> mx.npx.set_np()
        >>> mx.npx.save("saved.params", [mx.np.array([1, 2]), mx.np.zeros(2)])
        >>> mx.npx.load("saved.params")
        [array([1., 2.]), array([0., 0.])]
        >>> mx.npx.reset_np()
    """
    _need_np("load")
    found = _utils.load(file)
    if isinstance(found, dict):
        return {name: array.as_np_ndarray() for name, array in found.items()}
    return [array.as_np_ndarray() for array in found]
