"""Arithmetic on NumPy arrays that matches MXNet's C++ bit for bit.

NumPy's own functions differ from the C library's in the last bit, and between versions and
processors. In rejection sampling, a single bit can decide how many random numbers are drawn.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["c_function", "c_number", "erf", "mixed"]

# places in the table of functions that NumPy offers to C: these never move
_MAKE = 1
_LOOPS = {("d", 1): 5, ("f", 1): 6, ("f", 2): 14, ("d", 2): 15}


@cache
def c_function(name: str, inputs: int = 1) -> Callable[..., Any]:
    """Returns a function of the C library as a ufunc; NumPy's or SciPy's function if that is unavailable.

    Args:
        name: its name in C; names that end with f are for float32, others and "erf" for float64.
        inputs: number of its arguments, 1 or 2.
    """
    try:
        return _ufunc(name, inputs)
    except (AttributeError, OSError):  # another Python, or C library
        import scipy.special  # 0.2 s to import

        return {"erf": scipy.special.erf, "exp": np.exp, "lgamma": scipy.special.gammaln, "log": np.log,
                "pow": np.power, "tan": np.tan}[name if _is_double(name) else name.removesuffix("f")]


def _is_double(name: str) -> bool:
    return name == "erf" or not name.endswith("f")


def _ufunc(name: str, inputs: int) -> np.ufunc:
    kind = "d" if _is_double(name) else "f"
    function = ctypes.cast(getattr(_library(), name), ctypes.c_void_p)
    offered = _offered()
    loops, data = (ctypes.c_void_p * 1)(offered[_LOOPS[kind, inputs]]), (ctypes.c_void_p * 1)(function.value)
    types = (ctypes.c_char * 3)(*[np.dtype(kind).num] * 3)
    called = name.encode()
    _kept.append((loops, data, types, called))  # NumPy refers to them as long as the ufunc exists: forever
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3, *[ctypes.c_int] * 4, ctypes.c_char_p,
                             ctypes.c_void_p, ctypes.c_int)(offered[_MAKE])
    return make(loops, data, types, 1, inputs, 1, -1, called, None, 0)


def erf(x: np.ndarray) -> np.ndarray:
    """Returns the error function of floats of any size. SciPy's takes 0.3 s to import."""
    if x.dtype == np.float64:
        return c_function("erf")(x)
    return c_function("erff")(x.astype(np.float32, copy=False)).astype(x.dtype, copy=False)


def mixed(operation: np.ufunc, x: object, y: object) -> np.ndarray:
    """Applies an operation to two dtypes: with half precision the result is half precision, and
    integers are converted to the other float dtype."""
    x, y = np.asarray(x), np.asarray(y)
    if np.float16 in (x.dtype, y.dtype):
        with np.errstate(over="ignore"):
            return operation(x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    if x.dtype.kind in "iu" and y.dtype.kind == "f":
        x = x.astype(y.dtype)
    elif y.dtype.kind in "iu" and x.dtype.kind == "f":
        y = y.astype(x.dtype)
    return operation(x, y)


def c_number(value: Any, dtype: Any) -> np.ndarray:
    """Casts a number to a dtype like C on x86; narrow integers wrap around.

    NaN and numbers that do not fit in 32 (64) bits become the smallest integer of that size.
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        return np.asarray(value, dtype)
    whole = np.int64 if dtype.itemsize == 8 or dtype == np.uint32 else np.int32
    least = int(np.iinfo(whole).min)
    return np.asarray(int(value) if abs(value) < -float(least) else least, whole).astype(dtype)


_kept: list[Any] = []


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)


@cache
def _offered() -> Any:
    """NumPy's table. Source: NumPy's manual, "UFunc API"."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))  # an own prototype: everybody shares those of ctypes.pythonapi
    # NumPy's stubs omit its C interface.
    table = pointer(np._core._multiarray_umath._UFUNC_API, None)  # pyright: ignore[reportAttributeAccessIssue]
    return ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
