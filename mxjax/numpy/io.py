"""Reading arrays from text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import chosen
from ._ndarray import array

__all__ = ["genfromtxt"]


def genfromtxt(*args: Any, **kwargs: Any) -> Any:
    """`numpy.genfromtxt` as an ndarray.

    Args:
        args: a path, a file, or a sequence of lines; then the arguments of NumPy's function.
        kwargs: its keyword arguments, such as `delimiter` and `dtype`; `ctx` is the context of the result.

    Returns:
        An ndarray with the dtype of NumPy's result.

    Raises:
        OSError: the file does not exist.
        ValueError: the lines have different numbers of columns.

    Example:
        >>> mx.np.genfromtxt(["1,2", "3,4"], delimiter=",", dtype="float32")
        array([[1., 2.],
               [3., 4.]])
    """
    ctx = chosen(kwargs.pop("ctx", None))
    values = np.genfromtxt(*args, **kwargs)
    return array(values, dtype=kwargs.get("dtype") or values.dtype, ctx=ctx)
