"""Dtypes: their limits and casts between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ops.params import DTypeLike
from ._dispatch import ArrayOrSymbol, is_array
from .multiarray import result_type as result_type

__all__ = ["can_cast", "iinfo"]


class finfo_obj(NamedTuple):  # noqa: N801  MXNet's name
    """Limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float


class iinfo_obj(NamedTuple):  # noqa: N801  MXNet's name
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int


def _dtype_of(value: Any) -> Any:
    return np.dtype(value.dtype) if is_array(value) else value


def can_cast(from_: object, to: DTypeLike) -> bool:
    """Returns whether a dtype can be cast to another one without loss.

    Args:
        from_: a dtype, an ndarray (for its dtype), or a number, which must itself be representable.
        to: the dtype.

    Returns:
        A bool.

    Example:
        >>> mx.np.can_cast("int8", "int32"), mx.np.can_cast("float64", "float32")
        (True, False)
    """
    given, to = _dtype_of(from_), np.dtype(_dtype_of(to))
    if isinstance(given, int) and to.kind in "iu":
        limits = np.iinfo(to)
        return bool(limits.min <= given <= limits.max)
    return bool(np.can_cast(np.min_scalar_type(given) if isinstance(given, (int, float)) else given, to))


def finfo(dtype: DTypeLike | ArrayOrSymbol) -> finfo_obj:
    """Limits of a floating-point dtype.

    Args:
        dtype: the dtype, or an ndarray (for its dtype).

    Returns:
        A named tuple of `bits`, `eps`, `max`, `min` and `smallest_normal`.

    Raises:
        ValueError: the dtype is not a floating-point type.

    Example:
        >>> mx.np.type_functions.finfo("float16").max
        65504.0
    """
    limits = np.finfo(_dtype_of(dtype))
    return finfo_obj(limits.bits, *(float(v) for v in (limits.eps, limits.max, limits.min, limits.tiny)))


def iinfo(dtype: DTypeLike | ArrayOrSymbol) -> iinfo_obj:
    """Limits of an integer dtype.

    Args:
        dtype: the dtype, or an ndarray (for its dtype).

    Returns:
        A named tuple of `bits`, `max` and `min`.

    Raises:
        ValueError: the dtype is not an integer type.

    Example:
        >>> mx.np.iinfo("int8")
        iinfo_obj(bits=8, max=127, min=-128)
    """
    limits = np.iinfo(_dtype_of(dtype))
    return iinfo_obj(limits.bits, int(limits.max), int(limits.min))
