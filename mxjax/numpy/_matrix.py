"""Functions that rearrange and multiply arrays, including those of `_joins`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import level
from ..array.creation import array as to_ndarray
from ..base import integer_types
from ..ops.params import ShapeLike
from ..util import check_ufunc_options
from ._create import full
from ._dispatch import ArrayOrSymbol, Axes, Operand, call, is_array, is_number, namespace_of
from ._joins import (
    append,
    array_split,
    column_stack,
    concat,
    concatenate,
    dsplit,
    dstack,
    hsplit,
    hstack,
    pad,
    repeat,
    resize,
    row_stack,
    split,
    stack,
    tile,
    vsplit,
    vstack,
)

__all__ = ["append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "column_stack", "concat",
           "concatenate", "copy", "cross", "diag", "diagflat", "diagonal", "diff", "dot", "dsplit", "dstack",
           "ediff1d", "einsum", "expand_dims", "fill_diagonal", "flip", "fliplr", "flipud", "hsplit", "hstack",
           "inner", "kron", "matmul", "moveaxis", "outer", "pad", "permute_dims", "polyval", "ravel", "repeat",
           "reshape", "resize", "roll", "rot90", "row_stack", "split", "squeeze", "stack", "swapaxes", "tensordot",
           "tile", "trace", "transpose", "tril", "triu", "vdot", "vsplit", "vstack"]


# ------------------------------------------------------------ shape and axes
def reshape(a: ArrayOrSymbol, newshape: ShapeLike, order: str = "C", out: ArrayOrSymbol | None = None) -> Any:
    """A copy with another shape.

    Args:
        a: ndarray or symbol.
        newshape: int or tuple of ints with the same number of elements; one of them may be -1, which is inferred. At
            level 2 the numbers from -2 to -6 have the same meaning as in `npx.reshape`.
        order: "C".
        out: ndarray to write to.

    Returns:
        An ndarray of the new shape.

    Raises:
        TypeError: `a` is not an ndarray or symbol.
        MXNetError: the number of elements does not match the shape, or `order` is not "C".

    Example:
        >>> mx.np.reshape(mx.np.arange(6), (2, -1))
        array([[0., 1., 2.],
               [3., 4., 5.]])
    """
    sizes = newshape if isinstance(newshape, tuple | list) else [newshape]
    coded = any(isinstance(size, integer_types) and size < -1 for size in sizes) and level.current() == 2
    return call("_npx_reshape" if coded else "_np_reshape", [a], out, newshape=newshape, order=order)


def ravel(x: ArrayOrSymbol, order: str = "C") -> Any:
    """A one-dimensional copy.

    Args:
        x: ndarray, symbol or number.
        order: "C".

    Returns:
        A vector; for a number, a NumPy array.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.ravel(mx.np.array([[1, 2], [3, 4]]))
        array([1., 2., 3., 4.])
    """
    if order != "C":
        raise NotImplementedError(f"order {order} is not supported")
    return np.reshape(x, -1) if is_number(x) else reshape(x, -1)


def transpose(a: ArrayOrSymbol, axes: Axes = None, out: ArrayOrSymbol | None = None) -> Any:
    """Permutes the axes.

    Args:
        a: ndarray or symbol.
        axes: the old axis for each new one; None to reverse the axes.
        out: ndarray to write to.

    Returns:
        A copy with permuted axes.

    Raises:
        ValueError: an axis is named twice.
        MXNetError: an axis is missing.

    Example:
        >>> mx.np.transpose(mx.np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1., 4.],
               [2., 5.],
               [3., 6.]])
        >>> mx.np.transpose(mx.np.zeros((1, 2, 3)), (0, 2, 1)).shape
        (1, 3, 2)
    """
    if isinstance(axes, (tuple, list)) and len(set(axes)) < len(axes):
        raise ValueError(f"transpose: axes={tuple(axes)} contains a repeated axis")
    return call("_np_transpose", [a], out, axes=axes)


def permute_dims(a: ArrayOrSymbol, axes: Axes = None) -> Any:
    """An alias of `transpose`.

    Args:
        a: ndarray or symbol.
        axes: the old axis for each new one; None to reverse the axes.

    Returns:
        A copy with permuted axes.

    Raises:
        ValueError: an axis is named twice.
        MXNetError: an axis is missing.

    Example:
        >>> mx.np.permute_dims(mx.np.zeros((1, 2, 3)), (0, 2, 1)).shape
        (1, 3, 2)
    """
    return transpose(a, axes)


def swapaxes(a: ArrayOrSymbol, axis1: int, axis2: int) -> Any:
    """Exchanges two axes.

    Args:
        a: ndarray or symbol.
        axis1, axis2: the axes.

    Returns:
        A copy with the axes exchanged.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.swapaxes(mx.np.zeros((1, 2, 3)), 0, 2).shape
        (3, 2, 1)
    """
    return call("_npi_swapaxes", [a], dim1=axis1, dim2=axis2)


def moveaxis(a: ArrayOrSymbol, source: int | Sequence[int], destination: int | Sequence[int],
             out: ArrayOrSymbol | None = None) -> Any:
    """Moves axes to other positions; the others keep their order.

    Args:
        a: ndarray or symbol.
        source: int or tuple of ints: positions of the axes.
        destination: int or tuple of ints: their new positions.
        out: ndarray to write to.

    Returns:
        A copy with permuted axes.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.moveaxis(mx.np.zeros((1, 2, 3)), 0, -1).shape
        (2, 3, 1)
    """
    return call("_np_moveaxis", [a], out, source=source, destination=destination)


def expand_dims(a: ArrayOrSymbol, axis: int) -> Any:
    """Adds an axis of size 1.

    Args:
        a: ndarray or symbol.
        axis: position of the axis in the result.

    Returns:
        A copy with one additional axis.

    Raises:
        MXNetError: the axis is out of range.

    Example:
        >>> mx.np.expand_dims(mx.np.array([1, 2]), 1)
        array([[1.],
               [2.]])
    """
    return call("_npi_expand_dims", [a], axis=axis)


def squeeze(a: ArrayOrSymbol, axis: Axes = None, out: ArrayOrSymbol | None = None) -> Any:
    """Removes axes of size 1.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes of size 1.
        out: ndarray to write to.

    Returns:
        A copy without the axes.

    Raises:
        MXNetError: an axis has a size other than 1.

    Example:
        >>> mx.np.squeeze(mx.np.zeros((1, 3, 1))).shape
        (3,)
        >>> mx.np.squeeze(mx.np.zeros((1, 3, 1)), axis=0).shape
        (3, 1)
    """
    return call("_np_squeeze", [a], out, axis=axis)


def flip(m: Operand, axis: int | tuple[int, ...] | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Reverses the order of the elements along axes.

    Args:
        m: ndarray, symbol or number.
        axis: int or tuple of ints; None for all axes.
        out: ndarray to write to.

    Returns:
        A copy of the same shape.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.flip(mx.np.array([[1, 2], [3, 4]]), axis=1)
        array([[2., 1.],
               [4., 3.]])
    """
    return np.flip(m, axis) if is_number(m) else call("_npi_flip", [m], out, axis=axis)


def flipud(m: ArrayOrSymbol) -> Any:
    """Reverses the order of the elements along the first axis.

    Args:
        m: ndarray or symbol with at least one axis.

    Returns:
        A copy of the same shape.

    Raises:
        MXNetError: `m` has no axis.

    Example:
        >>> mx.np.flipud(mx.np.array([[1, 2], [3, 4]]))
        array([[3., 4.],
               [1., 2.]])
    """
    return flip(m, 0)


def fliplr(m: ArrayOrSymbol) -> Any:
    """Reverses the order of the elements along the second axis.

    Args:
        m: ndarray or symbol with at least two axes.

    Returns:
        A copy of the same shape.

    Raises:
        MXNetError: `m` has fewer than two axes.

    Example:
        >>> mx.np.fliplr(mx.np.array([[1, 2], [3, 4]]))
        array([[2., 1.],
               [4., 3.]])
    """
    return flip(m, 1)


def rot90(m: ArrayOrSymbol, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotates an array by 90 degrees in the plane of two axes.

    Args:
        m: ndarray or symbol with at least two axes.
        k: number of rotations.
        axes: the plane of the rotation, which goes from the first axis towards the second.

    Returns:
        A copy; an odd `k` exchanges the lengths of the two axes.

    Raises:
        MXNetError: the axes are equal, or out of range.

    Example:
        >>> mx.np.rot90(mx.np.array([[1, 2], [3, 4]]))
        array([[2., 4.],
               [1., 3.]])
    """
    return call("_npi_rot90", [m], k=k, axes=axes)


def roll(a: ArrayOrSymbol, shift: int | Sequence[int], axis: Axes = None, out: ArrayOrSymbol | None = None) -> Any:
    """Rolls the elements along axes; those beyond the end reappear at the beginning.

    Args:
        a: ndarray or symbol.
        shift: int or tuple of ints: number of places.
        axis: int or tuple of ints; None for the flattened array.
        out: ndarray to write to.

    Returns:
        A copy of the same shape.

    Raises:
        MXNetError: an axis is out of range.

    Example:
        >>> mx.np.roll(mx.np.array([1, 2, 3, 4]), 1)
        array([4., 1., 2., 3.])
        >>> mx.np.roll(mx.np.array([[1, 2, 3], [4, 5, 6]]), -1, axis=1)
        array([[2., 3., 1.],
               [5., 6., 4.]])
    """
    return call("_np_roll", [a], out, shift=shift, axis=axis)


def broadcast_to(array: ArrayOrSymbol, shape: ShapeLike) -> Any:
    """Broadcasts an array or number to a shape.

    Args:
        array: ndarray, symbol or number.
        shape: int or tuple of ints: the target shape.

    Returns:
        A copy of that shape.

    Raises:
        MXNetError: the array does not broadcast to the shape.

    Example:
        >>> mx.np.broadcast_to(mx.np.array([1, 2]), (2, 2))
        array([[1., 2.],
               [1., 2.]])
    """
    if is_number(array):
        return full(namespace_of([]), shape, array)
    return call("_npi_broadcast_to", [array], shape=shape)


def _at_least(ndim: int, arys: tuple) -> Any:
    arrays = list(arys)
    if level.current() == 2:
        arrays = [a if is_array(a) else to_ndarray(a, dtype="float32").as_np_ndarray() for a in arys]
    return call(f"_np_atleast_{ndim}d", arrays, num_args=len(arrays))


def atleast_1d(*arys: ArrayOrSymbol) -> Any:
    """Converts arrays to arrays with at least one dimension.

    Args:
        arys: ndarrays or symbols; at level 2 also numbers and lists, which become float32 arrays.

    Returns:
        An ndarray, or a list of ndarrays for several arguments.

    Raises:
        TypeError: an argument is of another type.

    Example:
        >>> mx.np.atleast_1d(mx.np.array(3))
        array([3.])
    """
    return _at_least(1, arys)


def atleast_2d(*arys: ArrayOrSymbol) -> Any:
    """Converts arrays to arrays with at least two dimensions; vectors become rows.

    Args:
        arys: ndarrays or symbols; at level 2 also numbers and lists, which become float32 arrays.

    Returns:
        An ndarray, or a list of ndarrays for several arguments.

    Raises:
        TypeError: an argument is of another type.

    Example:
        >>> mx.np.atleast_2d(mx.np.array([1, 2]))
        array([[1., 2.]])
    """
    return _at_least(2, arys)


def atleast_3d(*arys: ArrayOrSymbol) -> Any:
    """Converts arrays to arrays with at least three dimensions: (n,) to (1, n, 1), (m, n) to (m, n, 1).

    Args:
        arys: ndarrays or symbols; at level 2 also numbers and lists, which become float32 arrays.

    Returns:
        An ndarray, or a list of ndarrays for several arguments.

    Raises:
        TypeError: an argument is of another type.

    Example:
        >>> [a.shape for a in mx.np.atleast_3d(mx.np.zeros(2), mx.np.zeros((2, 3)))]
        [(1, 2, 1), (2, 3, 1)]
    """
    return _at_least(3, arys)


def copy(a: ArrayOrSymbol, out: ArrayOrSymbol | None = None) -> Any:
    """A copy.

    Args:
        a: ndarray or symbol.
        out: ndarray to write to.

    Returns:
        An ndarray with its own memory.

    Raises:
        TypeError: `a` is of another type.

    Example:
        >>> a = mx.np.array([1, 2])
        >>> b = mx.np.copy(a)
        >>> b[0] = 9
        >>> a
        array([1., 2.])
    """
    return call("_np_copy", [a], out)


# ------------------------------------------------------------ diagonals and differences
def diag(array: ArrayOrSymbol, k: int = 0, out: ArrayOrSymbol | None = None) -> Any:
    """The k-th diagonal of a matrix, or a matrix with this vector on it.

    Args:
        array: ndarray or symbol of one or two dimensions.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        out: ndarray to write to.

    Returns:
        A vector for a matrix; for a vector, a matrix with zeros elsewhere.

    Raises:
        MXNetError: the array has no dimension, or more than two.

    Example:
        >>> mx.np.diag(mx.np.array([[1, 2], [3, 4]]))
        array([1., 4.])
        >>> mx.np.diag(mx.np.array([5, 6]))
        array([[5., 0.],
               [0., 6.]])
    """
    return call("_np_diag", [array], out, k=k)


def diagflat(array: ArrayOrSymbol, k: int = 0) -> Any:
    """A matrix with the flattened array on its k-th diagonal.

    Args:
        array: ndarray or symbol.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.

    Returns:
        A square matrix with zeros elsewhere.

    Example:
        >>> mx.np.diagflat(mx.np.array([5, 6]), k=1)
        array([[0., 5., 0.],
               [0., 0., 6.],
               [0., 0., 0.]])
    """
    return call("_np_diagflat", [array], k=k)


def diagonal(a: ArrayOrSymbol, offset: int = 0, axis1: int = 0, axis2: int = 1,
             out: ArrayOrSymbol | None = None) -> Any:
    """The diagonals of the matrices in two axes.

    Args:
        a: ndarray or symbol with at least two axes.
        offset: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        axis1, axis2: axes of the matrices' rows and columns.
        out: ndarray to write to.

    Returns:
        A copy of the diagonals along a new last axis, which replaces the two axes.

    Raises:
        MXNetError: there are fewer than two axes, or the two axes are the same.

    Example:
        >>> mx.np.diagonal(mx.np.array([[1, 2, 3], [4, 5, 6]]), offset=1)
        array([2., 6.])
    """
    return call("_np_diagonal", [a], out, offset=offset, axis1=axis1, axis2=axis2)


def trace(a: ArrayOrSymbol, offset: int = 0, axis1: int = 0, axis2: int = 1, out: ArrayOrSymbol | None = None) -> Any:
    """The sums of the diagonals of the matrices in two axes.

    Args:
        a: ndarray or symbol with at least two axes.
        offset: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        axis1, axis2: axes of the matrices' rows and columns.
        out: ndarray to write to.

    Returns:
        An ndarray without the two axes.

    Raises:
        MXNetError: there are fewer than two axes, or the two axes are the same.

    Example:
        >>> mx.np.trace(mx.np.array([[1, 2], [3, 4]]))
        array(5.)
    """
    return call("_np_trace", [a], out, offset=offset, axis1=axis1, axis2=axis2)


def triu(m: ArrayOrSymbol, k: int = 0) -> Any:
    """The elements on and above a diagonal, and zeros below it.

    Args:
        m: ndarray or symbol (..., rows, columns); a vector represents the square matrix with this vector as every row.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.

    Returns:
        An ndarray of the same shape and dtype.

    Example:
        >>> mx.np.triu(mx.np.array([[1, 2], [3, 4]]))
        array([[1., 2.],
               [0., 4.]])
    """
    return call("_npi_triu", [m], k=k)


def fill_diagonal(a: ArrayOrSymbol, val: float | list[float], wrap: bool = False) -> None:
    """Fills the main diagonal in place.

    Args:
        a: ndarray: a matrix, or an array of more axes, all of one size.
        val: a number, or a list of numbers that is repeated to fill the diagonal.
        wrap: whether the diagonal restarts after the last column, below a gap of one row.

    Raises:
        TypeError: `a` is not an ndarray, or `val` is of another type.
        MXNetError: `a` is a vector, or has more than two axes of different sizes, or `val` is empty.

    Example:
        >>> a = mx.np.zeros((2, 2))
        >>> mx.np.fill_diagonal(a, [1, 2])
        >>> a
        array([[1., 0.],
               [0., 2.]])
    """
    if not is_array(a):
        raise TypeError(f"fill_diagonal: type {type(a)} not supported")
    values = val if isinstance(val, list) else [val]
    if not all(is_number(v) for v in values):
        raise TypeError("fill_diagonal: val must be a number or a list of numbers, got "
                        f"{type(next(v for v in values if not is_number(v)))}")
    call("_npi_fill_diagonal", [a], a, val=tuple(map(float, values)), wrap=wrap)


def kron(a: ArrayOrSymbol, b: ArrayOrSymbol) -> Any:
    """The Kronecker product: `b` times each element of `a`.

    Args:
        a, b: ndarrays or symbols of one dtype.

    Returns:
        An ndarray; the size of each axis is the product of both sizes.

    Raises:
        TypeError: a or b is of another type.
        MXNetError: the dtypes differ.

    Example:
        >>> mx.np.kron(mx.np.array([1, 10]), mx.np.array([1, 2]))
        array([ 1.,  2., 10., 20.])
    """
    return call("_npi_kron", [a, b])


def cross(a: ArrayOrSymbol, b: ArrayOrSymbol, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Any:
    """The cross products of vectors.

    Args:
        a, b: ndarrays or symbols of vectors of 2 or 3 elements, float32 or float64.
        axisa, axisb: the axes of the vectors.
        axisc: the axis of the products in the result; not used if both vectors have 2 elements.
        axis: sets `axisa`, `axisb` and `axisc`.

    Returns:
        An ndarray of the products.

    Raises:
        TypeError: a or b is of another type.
        MXNetError: the vectors have another length, or the dtypes differ or are integers.

    Example:
        >>> mx.np.cross(mx.np.array([1, 0, 0]), mx.np.array([0, 1, 0]))
        array([0., 0., 1.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    return call("_npi_cross", [a, b], axisa=axisa, axisb=axisb, axisc=axisc)


def tril(m: ArrayOrSymbol, k: int = 0) -> Any:
    """The elements on and below a diagonal, and zeros above it.

    Args:
        m: ndarray or symbol: matrices in the last two axes; a vector represents the square matrix with this vector as
            every row.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.

    Returns:
        A copy of the same shape.

    Example:
        >>> mx.np.tril(mx.np.array([[1, 2], [3, 4]]))
        array([[1., 0.],
               [3., 4.]])
    """
    return call("_npi_tril", [m], k=k)


def diff(a: ArrayOrSymbol, n: int = 1, axis: int = -1, prepend: Operand | None = None,
         append: Operand | None = None) -> Any:
    """The n-th differences of adjacent elements along an axis.

    Args:
        a: ndarray or symbol.
        n: number of times to take differences.
        axis: the axis; it becomes shorter by n.
        prepend, append: only None.

    Returns:
        The differences: each element minus the one before it.

    Raises:
        NotImplementedError: `prepend` or `append` is given.
        MXNetError: `n` is negative.

    Example:
        >>> mx.np.diff(mx.np.array([1, 2, 4, 7]))
        array([1., 2., 3.])
        >>> mx.np.diff(mx.np.array([1, 2, 4, 7]), n=2)
        array([1., 1.])
    """
    if prepend is not None or append is not None:
        raise NotImplementedError("prepend and append options are not supported yet")
    return call("_npi_diff", [a], n=n, axis=axis)


def ediff1d(ary: ArrayOrSymbol, to_end: Operand | None = None, to_begin: Operand | None = None) -> Any:
    """The differences of adjacent elements of the flattened array.

    Args:
        ary: ndarray or symbol.
        to_end: ndarray or number to append.
        to_begin: ndarray or number to prepend.

    Returns:
        A vector.

    Example:
        >>> mx.np.ediff1d(mx.np.array([1, 2, 4]), to_begin=0)
        array([0., 1., 2.])
    """
    params = {f"{name}_{'arr_given' if is_array(value) else 'scalar'}": True if is_array(value) else value
              for name, value in (("to_begin", to_begin), ("to_end", to_end))}
    return call("_npi_ediff1d", [ary, *(v for v in (to_begin, to_end) if is_array(v))], **params)


# ------------------------------------------------------------ products
def dot(a: ArrayOrSymbol, b: ArrayOrSymbol, out: ArrayOrSymbol | None = None) -> Any:
    """The dot product: in general, sums over the last axis of a and the second to last axis of b.

    Args:
        a, b: ndarrays or symbols; zero-dimensional ones are treated as numbers.
        out: ndarray to write to.

    Returns:
        An ndarray: of vectors (n,), (n,) -> (); of matrices (m, k), (k, n) -> (m, n).

    Raises:
        TypeError: an argument is of another type, such as a Python number.
        MXNetError: the summed axes have different lengths.

    Example:
        >>> mx.np.dot(mx.np.array([1, 2]), mx.np.array([3, 4]))
        array(11.)
        >>> mx.np.dot(mx.np.array([[1, 2], [3, 4]]), mx.np.array([1, 1]))
        array([3., 7.])
    """
    return call("_np_dot", [a, b], out)


def matmul(a: ArrayOrSymbol, b: ArrayOrSymbol, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
    """The matrix product over the last two axes; the others broadcast. This is the function of `a @ b`.

    Args:
        a, b: ndarrays or symbols of at least one dimension; a vector is treated as a row on the left and as a column on
            the right.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options; only their defaults are supported.

    Returns:
        An ndarray: (..., m, k), (..., k, n) -> (..., m, n).

    Raises:
        TypeError: an argument is of another type, such as a number, or an option is unknown.
        MXNetError: the shapes do not fit.
        NotImplementedError: an option does not have its default value.

    Example:
        >>> mx.np.matmul(mx.np.array([[1, 2], [3, 4]]), mx.np.array([[0, 1], [1, 0]]))
        array([[2., 1.],
               [4., 3.]])
        >>> mx.np.matmul(mx.np.ones((5, 2, 3)), mx.np.ones((3, 4))).shape
        (5, 2, 4)
    """
    check_ufunc_options("matmul", kwargs)
    return call("_npi_matmul", [a, b], out)


def tensordot(a: ArrayOrSymbol, b: ArrayOrSymbol, axes: Any = 2) -> Any:
    """Sums of products over axes.

    Args:
        a, b: ndarrays or symbols.
        axes: an int n (the last n axes of a, the first n of b), or a pair of axes or lists of axes.

    Returns:
        An ndarray with the other axes of a, then those of b.

    Raises:
        ValueError: `axes` is neither, or its lists have different lengths.
        MXNetError: the summed axes have different lengths.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> mx.np.tensordot(a, a, 2)
        array(30.)
        >>> mx.np.tensordot(a, a, ([1], [1]))
        array([[ 5., 11.],
               [11., 25.]])
    """
    if np.isscalar(axes):
        return call("_npi_tensordot_int_axes", [a, b], axes=axes)
    if len(axes) != 2:
        raise ValueError("Axes must consist of two arrays.")
    first, second = ((n,) if isinstance(n, integer_types) else tuple(n) for n in axes)
    if len(first) != len(second):
        raise ValueError("Axes length mismatch")
    return call("_npi_tensordot", [a, b], a_axes_summed=first, b_axes_summed=second)


def inner(a: ArrayOrSymbol, b: ArrayOrSymbol) -> Any:
    """Sums of products over the last axes.

    Args:
        a, b: ndarrays or symbols of at least one dimension.

    Returns:
        An ndarray with the other axes of a, then those of b.

    Raises:
        MXNetError: the last axes differ in length, or there is none.

    Example:
        >>> mx.np.inner(mx.np.array([[1, 2], [3, 4]]), mx.np.array([1, 10]))
        array([21., 43.])
    """
    return tensordot(a, b, (-1, -1))


def outer(a: ArrayOrSymbol, b: ArrayOrSymbol) -> Any:
    """The outer product: all products of an element of a and one of b.

    Args:
        a, b: ndarrays or symbols, which are flattened.

    Returns:
        A matrix with a row for each element of a.

    Example:
        >>> mx.np.outer(mx.np.array([1, 2]), mx.np.array([3, 4, 5]))
        array([[ 3.,  4.,  5.],
               [ 6.,  8., 10.]])
    """
    return tensordot(reshape(a, -1), reshape(b, -1), 0)


def vdot(a: ArrayOrSymbol, b: ArrayOrSymbol) -> Any:
    """The dot product of the flattened arrays.

    Args:
        a, b: ndarrays or symbols with the same number of elements.

    Returns:
        A zero-dimensional ndarray.

    Raises:
        MXNetError: the numbers of elements differ.

    Example:
        >>> mx.np.vdot(mx.np.array([[1, 2], [3, 4]]), mx.np.ones((2, 2)))
        array(10.)
    """
    return tensordot(reshape(a, -1), reshape(b, -1), 1)


def einsum(*operands: str | ArrayOrSymbol, **kwargs: Any) -> Any:
    """Sums of products in Einstein's notation: `einsum("ij,jk->ik", a, b)`.

    A repeated letter denotes axes that are multiplied with each other. Letters that are missing after the arrow are
    summed over.

    Args:
        operands: the letters, then the ndarrays or symbols.
        kwargs: `out`, and `optimize` (whether to search for the best order).

    Returns:
        An ndarray with the axes after the arrow.

    Raises:
        MXNetError: the axes of a letter have different lengths.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> mx.np.einsum("ij,j->i", a, mx.np.array([1, 1]))
        array([3., 7.])
        >>> mx.np.einsum("ii", a)
        array(5.)
    """
    subscripts, arrays = operands[0], list(operands[1:])
    return call("_npi_einsum", arrays, kwargs.get("out"), subscripts=subscripts,
                optimize=operator.index(bool(kwargs.get("optimize", False))), num_args=len(arrays))


def polyval(p: ArrayOrSymbol, x: ArrayOrSymbol) -> Any:
    """Evaluates the polynomial with coefficients p at x.

    Args:
        p: vector of coefficients, the highest power first.
        x: ndarray or symbol of points.

    Returns:
        The values, of the shape of x.

    Raises:
        TypeError: p or x is of another type, such as a list or a number.

    Example:
        >>> mx.np.polyval(mx.np.array([1, 0, -1]), mx.np.array([2, 3]))
        array([3., 8.])
    """
    return call("_npi_polyval", [p, x])
