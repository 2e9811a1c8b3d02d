"""Functions that select, find, order, insert and remove elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import level
from ..base import integer_types
from ._dispatch import IMPERATIVE, ArrayOrSymbol, Operand, call, is_array, is_number, namespace_of

__all__ = ["argsort", "delete", "diag_indices_from", "flatnonzero", "insert", "may_share_memory", "nonzero", "shape",
           "shares_memory", "sort", "take", "unique", "unravel_index", "where"]


def shape(a: ArrayOrSymbol) -> tuple[int, ...]:
    """Lengths of the axes.

    Args:
        a: ndarray.

    Returns:
        A tuple of ints.

    Example:
        >>> mx.np.shape(mx.np.zeros((2, 3)))
        (2, 3)
    """
    return a.shape


def take(a: ArrayOrSymbol, indices: ArrayOrSymbol, axis: int | None = None, mode: str = "raise",
         out: ArrayOrSymbol | None = None) -> Any:
    """Takes the elements at the given indices along an axis.

    Args:
        a: ndarray or symbol.
        indices: ndarray of indices, of any shape and numeric dtype.
        axis: the axis; None to index the flattened array.
        mode: treatment of indices out of range: "raise" an error, "clip" them to the range, or "wrap" them around.
        out: ndarray to write to.

    Returns:
        The elements; the axes of `indices` replace `axis`.

    Raises:
        NotImplementedError: an unsupported mode.
        MXNetError: an index is out of range and mode is "raise".

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4], [5, 6]])
        >>> mx.np.take(a, mx.np.array([2, 0]), axis=0)
        array([[5., 6.],
               [1., 2.]])
        >>> mx.np.take(a, mx.np.array([9]), mode="clip")
        array([6.])
    """
    if mode not in ("wrap", "clip", "raise"):
        raise NotImplementedError(f"function take does not support mode '{mode}'")
    if axis is None:
        a, axis = call("_npi_reshape", [a], newshape=-1), 0
    return call("_npi_take", [a, indices], out, axis=axis, mode=mode)


def where(condition: Any, x: Operand | None = None, y: Operand | None = None) -> Any:
    """Selects x where the condition is nonzero, y elsewhere; without x and y, returns the nonzero indices.

    Args:
        condition: ndarray, symbol or number.
        x, y: ndarrays, symbols or numbers that broadcast with the condition.

    Returns:
        An ndarray of the broadcast shape; without x and y, the result of `nonzero`.

    Raises:
        MXNetError: the shapes do not broadcast.

    Example:
        >>> a = mx.np.array([-1, 2, -3])
        >>> mx.np.where(a > 0, a, 0)
        array([0., 2., 0.])
        >>> mx.np.where(a < 0)
        (array([0, 2], dtype=int64),)
    """
    if x is None and y is None:
        return nonzero(condition)
    if is_number(condition):
        return x if condition != 0 else y
    if is_number(x) and is_number(y):
        return call("_npi_where_scalar2", [condition], x=float(x), y=float(y))
    if is_number(x):
        return call("_npi_where_lscalar", [condition, y], scalar=x)
    if is_number(y):
        return call("_npi_where_rscalar", [condition, x], scalar=y)
    return call("_npi_where", [condition, x, y])


def flatnonzero(a: ArrayOrSymbol) -> Any:
    """Indices of the nonzero elements in the flattened array.

    Args:
        a: ndarray.

    Returns:
        An int64 vector.

    Example:
        >>> mx.np.flatnonzero(mx.np.array([[0, 7], [8, 0]]))
        array([1, 2], dtype=int64)
    """
    return nonzero(a.reshape(-1))[0]


def nonzero(a: ArrayOrSymbol) -> tuple[Any, ...]:
    """Indices of the nonzero elements.

    Args:
        a: ndarray.

    Returns:
        A tuple with an int64 vector of indices for each axis.

    Example:
        >>> a = mx.np.array([[0, 7], [8, 0]])
        >>> mx.np.nonzero(a)
        (array([0, 1], dtype=int64), array([1, 0], dtype=int64))
        >>> a[mx.np.nonzero(a)]
        array([7., 8.])
    """
    if a.ndim == 0:
        a = a.reshape(1)
    return tuple(call("_npi_nonzero", [a]).T[i] for i in range(a.ndim))


def unique(ar: ArrayOrSymbol, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None) -> Any:
    """The sorted unique values.

    Args:
        ar: ndarray or symbol.
        return_index: whether to return the index of the first occurrence of each value.
        return_inverse: whether to return, for each element, the index of its value among the unique values.
        return_counts: whether to return the number of occurrences of each value.
        axis: compares slices along this axis; None compares the elements of the flattened array.

    Returns:
        The values, or a tuple of the values and the requested int64 vectors, in the order of the arguments.

    Example:
        >>> values, counts = mx.np.unique(mx.np.array([3, 1, 3]), return_counts=True)
        >>> values
        array([1., 3.])
        >>> counts
        array([1, 2], dtype=int64)
    """
    result = call("_npi_unique", [ar], return_index=return_index, return_inverse=return_inverse,
                  return_counts=return_counts, axis=axis)
    return tuple(result) if isinstance(result, list) else result


def sort(a: ArrayOrSymbol, axis: int | None = -1, kind: str | None = None,
         order: str | Sequence[str] | None = None) -> Any:
    """Sorts the values along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        kind: has no effect.
        order: only None.

    Returns:
        A sorted copy.

    Raises:
        NotImplementedError: `order` is given.

    Example:
        >>> mx.np.sort(mx.np.array([[3, 1, 2], [6, 5, 4]]))
        array([[1., 2., 3.],
               [4., 5., 6.]])
    """
    return _ordered("_npi_sort", a, axis, order)


def argsort(a: ArrayOrSymbol, axis: int | None = -1, kind: str | None = None,
            order: str | Sequence[str] | None = None) -> Any:
    """The indices that sort the array along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        kind: has no effect.
        order: only None.

    Returns:
        An int64 ndarray of indices with the shape of `a`.

    Raises:
        NotImplementedError: `order` is given.

    Example:
        >>> mx.np.argsort(mx.np.array([30, 10, 20]))
        array([1, 2, 0], dtype=int64)
    """
    return _ordered("_npi_argsort", a, axis, order, dtype="int64")


def _ordered(name: str, a: ArrayOrSymbol, axis: int | None, order: str | Sequence[str] | None, **params: Any) -> Any:
    if order is not None:
        raise NotImplementedError("order not supported here")
    return call(name, [a], axis="None" if axis is None else axis, **params)


def unravel_index(indices: ArrayOrSymbol, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Converts indices of the flattened array to coordinates.

    Args:
        indices: ndarray of ints, or an int.
        shape: shape of the array that the indices refer to.
        order: "C".

    Returns:
        A tuple with the coordinates (an ndarray, or an int) for each dimension of `shape`.

    Raises:
        NotImplementedError: `order` is not "C".
        MXNetError: an index is out of range or not an integer. Level 2 checks neither, and returns the dtype of the
            indices.

    Example:
        >>> rows, columns = mx.np.unravel_index(mx.np.array([1, 5], dtype="int64"), (2, 3))
        >>> rows
        array([0, 1], dtype=int64)
        >>> columns
        array([1, 2], dtype=int64)
    """
    if order != "C":
        raise NotImplementedError("Do not support column-major (Fortran-style) order at this moment")
    if is_number(indices):
        return np.unravel_index(indices, shape)
    # MXNet 2's default dtype is float32, also of positions; its operator is that of NDArrays
    name = "_unravel_index" if level.current() == 2 else "_npi_unravel_index_fallback"
    result = call(name, [indices], shape=shape)
    return tuple(result[i] for i in range(np.size(shape)))


def diag_indices_from(arr: ArrayOrSymbol) -> Any:
    """Indices of the main diagonal of an array whose axes have equal lengths.

    Args:
        arr: ndarray or symbol with at least two axes, all of one length.

    Returns:
        A tuple with an int64 vector for each axis; for a symbol, whose number of axes is not known yet, one symbol
        (axes, n).

    Raises:
        MXNetError: the axes have different lengths, or there is only one axis.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> a[mx.np.diag_indices_from(a)]
        array([1., 4.])
    """
    result = call("_npi_diag_indices_from", [arr])
    return tuple(result) if isinstance(result, IMPERATIVE.kind) else result


def shares_memory(a: Any, b: Any, max_work: int | None = None) -> bool:
    """Returns whether two arrays are overlapping views of the same memory.

    Args:
        a, b: ndarrays.
        max_work: has no effect.

    Returns:
        A bool.

    Raises:
        TypeError: a or b is not an ndarray.

    Example:
        >>> a = mx.np.arange(4)
        >>> mx.np.shares_memory(a, a[1:3]), mx.np.shares_memory(a[:2], a[2:])
        (True, False)
    """
    namespace_of([a]).check("shares_memory", [a, b])
    if a.chunk is not b.chunk:
        return False
    (start, end), (other, stop) = (((x.region[0] if x.region else 0), (x.region[0] if x.region else 0) + x.size)
                                   for x in (a, b))
    return start < stop and other < end


def may_share_memory(a: object, b: object, max_work: int | None = None) -> bool:
    """An alias of `shares_memory`, which is exact here.

    Args:
        a, b: ndarrays.
        max_work: has no effect.

    Returns:
        A bool.

    Raises:
        TypeError: a or b is not an ndarray.

    Example:
        >>> a = mx.np.arange(4)
        >>> mx.np.may_share_memory(a, a.copy())
        False
    """
    return shares_memory(a, b, max_work)


# ------------------------------------------------------------ inserting and removing
def _place(obj: int | slice | Sequence[int] | ArrayOrSymbol) -> dict[str, Any]:
    """The parameters of an int or a slice."""
    if isinstance(obj, slice):
        return {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}
    if isinstance(obj, integer_types):
        return {"int_ind": obj}
    if is_array(obj):
        return {}
    raise TypeError(f"'obj' can not support type {type(obj)}")


def delete(arr: ArrayOrSymbol, obj: int | slice | Sequence[int] | ArrayOrSymbol, axis: int | None = None) -> Any:
    """Removes slices along an axis.

    Args:
        arr: ndarray or symbol.
        obj: int, slice, or ndarray of ints: the indices of the slices to remove.
        axis: the axis; None for the flattened array.

    Returns:
        A smaller copy.

    Raises:
        TypeError: `obj` is of another type.
        MXNetError: an int is out of range.

    Example:
        >>> a = mx.np.array([[1, 2, 3], [4, 5, 6]])
        >>> mx.np.delete(a, 1, axis=1)
        array([[1., 3.],
               [4., 6.]])
        >>> mx.np.delete(a, slice(0, 4))
        array([5., 6.])
    """
    place = _place(obj)
    return call("_npi_delete", [arr] if place else [arr, obj], axis=axis, **place)


def insert(arr: ArrayOrSymbol, obj: int | slice | Sequence[int] | ArrayOrSymbol, values: Operand,
           axis: int | None = None) -> Any:
    """Inserts values before the given indices along an axis.

    Args:
        arr: ndarray or symbol.
        obj: int, slice, or ndarray of ints: the indices before which to insert.
        values: ndarray that broadcasts to the inserted part, or a number.
        axis: the axis; None for the flattened array.

    Returns:
        A larger copy, of the dtype of `arr`.

    Raises:
        TypeError: `values` or `obj` is of another type.
        MXNetError: an int is out of range, or `values` does not broadcast.

    Example:
        >>> mx.np.insert(mx.np.array([1, 2, 4]), 2, 3)
        array([1., 2., 3., 4.])
        >>> mx.np.insert(mx.np.ones((2, 2)), 0, mx.np.array([8, 9]), axis=0)
        array([[8., 9.],
               [1., 1.],
               [1., 1.]])
    """
    place = _place(obj)
    if not is_number(values) and not is_array(values):
        raise TypeError(f"'values' can not support type {type(values)}")
    inputs = [arr] if is_number(values) else [arr, values]
    kind = "tensor" if not place else "scalar" if "int_ind" in place else "slice"
    return call(f"_npi_insert_{kind}", inputs if place else [*inputs, obj], axis=axis,
                val=values if is_number(values) else None, **place)
