"""Functions that select, find, order, insert and remove elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import integer_types
from ._dispatch import IMPERATIVE, call, flavour_of, is_array, is_number

__all__ = ["argsort", "delete", "diag_indices_from", "insert", "may_share_memory", "nonzero", "shape", "shares_memory",
           "sort", "take", "unique", "unravel_index", "where"]


def shape(a: Any) -> tuple[int, ...]:
    """Lengths of the axes."""
    return a.shape


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """Elements at positions along an axis (None: of the flattened array).

    mode: "raise" refuses positions out of range, "clip" limits them, "wrap" counts modulo the size.

    Raises:
        NotImplementedError: another mode.
    """
    if mode not in ("wrap", "clip", "raise"):
        raise NotImplementedError(f"function take does not support mode '{mode}'")
    if axis is None:
        a, axis = call("_npi_reshape", [a], newshape=-1), 0
    return call("_npi_take", [a, indices], out, axis=axis, mode=mode)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition is nonzero, y elsewhere; without x and y the positions where it is.

    x, y: ndarrays or numbers.
    """
    if x is None and y is None:
        return nonzero(condition)
    if is_number(condition):
        return x if condition != 0 else y
    if is_number(x) and is_number(y):
        return call("_npi_where_scalar2", [condition], x=float(x), y=float(y))
    if is_number(x):
        return call("_npi_where_lscalar", [condition, y], scalar=float(x))
    if is_number(y):
        return call("_npi_where_rscalar", [condition, x], scalar=float(y))
    return call("_npi_where", [condition, x, y])


def nonzero(a: Any) -> tuple[Any, ...]:
    """Positions of the nonzero elements: an int64 vector for each axis."""
    if a.ndim == 0:
        a = a.reshape(1)
    return tuple(call("_npi_nonzero", [a]).T[i] for i in range(a.ndim))


def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None) -> Any:
    """The different values in order; on demand the positions of the first ones, each element's place, and counts."""
    result = call("_npi_unique", [ar], return_index=return_index, return_inverse=return_inverse,
                  return_counts=return_counts, axis=axis)
    return tuple(result) if isinstance(result, list) else result


def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The values in order along an axis (None: of the flattened array).

    Raises:
        NotImplementedError: `order` is given.
    """
    return _ordered("_npi_sort", a, axis, order)


def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The positions (int64) that sort the array along an axis (None: of the flattened array)."""
    return _ordered("_npi_argsort", a, axis, order, dtype="int64")


def _ordered(name: str, a: Any, axis: int | None, order: Any, **params: Any) -> Any:
    if order is not None:
        raise NotImplementedError("order not supported here")
    return call(name, [a], axis="None" if axis is None else axis, **params)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Coordinates out of positions in the flattened array: an ndarray for each dimension of `shape`.

    Raises:
        NotImplementedError: `order` is not "C".
    """
    if order != "C":
        raise NotImplementedError("Do not support column-major (Fortran-style) order at this moment")
    if is_number(indices):
        return np.unravel_index(indices, shape)
    found = call("_npi_unravel_index_fallback", [indices], shape=shape)
    return tuple(found[i] for i in range(np.size(shape)))


def diag_indices_from(arr: Any) -> Any:
    """Positions of the main diagonal of an array with equal axes: an int64 vector for each axis.

    Of a symbol, whose number of axes nobody knows yet: the vectors as one symbol (axes, n).
    """
    found = call("_npi_diag_indices_from", [arr])
    return tuple(found) if isinstance(found, IMPERATIVE.kind) else found


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays are views of one memory that overlap."""
    flavour_of([a]).check("shares_memory", [a, b])
    if a._chunk is not b._chunk:
        return False
    (start, end), (other, stop) = (((x._view[0] if x._view else 0), (x._view[0] if x._view else 0) + x.size)
                                   for x in (a, b))
    return start < stop and other < end


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """As `shares_memory`."""
    return shares_memory(a, b, max_work)


# ------------------------------------------------------------ inserting and removing
def _place(obj: Any) -> dict[str, Any]:
    """The parameters that an int or a slice means."""
    if isinstance(obj, slice):
        return {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}
    if isinstance(obj, integer_types):
        return {"int_ind": obj}
    if is_array(obj):
        return {}
    raise TypeError(f"'obj' can not support type {type(obj)}")


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without the slices at `obj` (int, slice or ndarray of ints) of an axis (None: flattened)."""
    place = _place(obj)
    return call("_npi_delete", [arr] if place else [arr, obj], axis=axis, **place)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values (ndarray or number) inserted before `obj` (int, slice or ndarray of ints) of an axis.

    Raises:
        TypeError: `values` or `obj` is something else.
    """
    place = _place(obj)
    if not is_number(values) and not is_array(values):
        raise TypeError(f"'values' can not support type {type(values)}")
    inputs = [arr] if is_number(values) else [arr, values]
    kind = "tensor" if not place else "scalar" if "int_ind" in place else "slice"
    return call(f"_npi_insert_{kind}", inputs if place else [*inputs, obj], axis=axis,
                val=values if is_number(values) else None, **place)
