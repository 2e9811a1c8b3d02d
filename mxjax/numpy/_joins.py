"""Functions that join, split, repeat and pad arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import integer_types
from ..ops.params import ShapeLike
from ._dispatch import ArrayOrSymbol, Operand, call, is_number, namespace_of

__all__ = ["append", "array_split", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack",
           "pad", "repeat", "resize", "row_stack", "split", "stack", "tile", "vsplit", "vstack"]


# ------------------------------------------------------------ joins and pieces
def _listed(arrays: Any) -> list[Any]:
    if not hasattr(arrays, "__getitem__") and hasattr(arrays, "__iter__"):
        raise ValueError(f"expected iterable for arrays but got {type(arrays)}")
    return list(arrays)


def concatenate(seq: Iterable[ArrayOrSymbol], axis: int | None = 0, out: ArrayOrSymbol | None = None) -> Any:
    """Joins arrays along an axis.

    Args:
        seq: sequence of ndarrays or symbols, of equal shapes except along that axis.
        axis: the axis; None to join the flattened arrays.
        out: ndarray to write to.

    Returns:
        The joined ndarray.

    Raises:
        TypeError: an element is of another type, such as a list.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.concatenate([mx.np.ones((1, 2)), mx.np.zeros((2, 2))])
        array([[1., 1.],
               [0., 0.],
               [0., 0.]])
    """
    return _joined("_npi_concatenate", list(seq), out, axis)


def _joined(name: str, arrays: list[Any], out: ArrayOrSymbol | None = None, axis: int | None = 0) -> Any:
    # axis=None differs from the operator's default, so it does not pass through `call`
    return namespace_of(arrays).call(name, arrays, {"axis": "None" if axis is None else axis, "num_args": len(arrays)},
                                   out)


def append(arr: ArrayOrSymbol, values: Operand, axis: int | None = None) -> Any:
    """Appends an array to another one; see `concatenate`.

    Args:
        arr: ndarray or symbol.
        values: ndarray or symbol to append.
        axis: the axis; None to join the flattened arrays.

    Returns:
        The joined ndarray.

    Raises:
        TypeError: an element is of another type, such as a list.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.append(mx.np.array([[1, 2]]), mx.np.array([3]))
        array([1., 2., 3.])
    """
    return _joined("_npi_concatenate", [arr, values], None, axis)


def concat(seq: Iterable[ArrayOrSymbol], axis: int | None = 0, out: ArrayOrSymbol | None = None) -> Any:
    """An alias of `concatenate`.

    Args:
        seq: sequence of ndarrays or symbols.
        axis: the axis; None to join the flattened arrays.
        out: ndarray to write to.

    Returns:
        An ndarray.

    Example:
        >>> mx.np.concat([mx.np.array([1, 2]), mx.np.array([3])])
        array([1., 2., 3.])
    """
    return concatenate(seq, axis, out)


def stack(arrays: Iterable[ArrayOrSymbol], axis: int = 0, out: ArrayOrSymbol | None = None) -> Any:
    """Joins arrays of one shape along a new axis.

    Args:
        arrays: sequence of ndarrays or symbols.
        axis: position of the new axis.
        out: ndarray to write to.

    Returns:
        An ndarray with one additional axis.

    Raises:
        ValueError: `arrays` is a generator.
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.stack([mx.np.array([1, 2]), mx.np.array([3, 4])], axis=1)
        array([[1., 3.],
               [2., 4.]])
    """
    return _joined("_npi_stack", _listed(arrays), out, axis)


def vstack(arrays: Iterable[ArrayOrSymbol], out: ArrayOrSymbol | None = None) -> Any:
    """Joins arrays along the first axis; vectors count as rows.

    Args:
        arrays: sequence of ndarrays or symbols.
        out: ndarray to write to.

    Returns:
        An ndarray of at least two dimensions.

    Raises:
        ValueError: `arrays` is a generator.
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.vstack([mx.np.array([1, 2]), mx.np.array([[3, 4]])])
        array([[1., 2.],
               [3., 4.]])
    """
    arrays = _listed(arrays)
    return call("_npi_vstack", arrays, out, num_args=len(arrays))


def row_stack(arrays: Iterable[ArrayOrSymbol]) -> Any:
    """An alias of `vstack`.

    Args:
        arrays: sequence of ndarrays or symbols.

    Returns:
        An ndarray of at least two dimensions.

    Raises:
        ValueError: `arrays` is a generator.
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.row_stack([mx.np.array([1, 2]), mx.np.array([3, 4])])
        array([[1., 2.],
               [3., 4.]])
    """
    return vstack(arrays)


def hstack(arrays: Iterable[ArrayOrSymbol]) -> Any:
    """Joins arrays along the second axis, vectors along the first.

    Args:
        arrays: sequence of ndarrays or symbols.

    Returns:
        The joined ndarray.

    Raises:
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.hstack([mx.np.array([[1], [2]]), mx.np.array([[3], [4]])])
        array([[1., 3.],
               [2., 4.]])
    """
    arrays = list(arrays)
    return call("_npi_hstack", arrays, num_args=len(arrays))


def dstack(arrays: Iterable[ArrayOrSymbol]) -> Any:
    """Joins arrays along the third axis; (n,) counts as (1, n, 1), (m, n) as (m, n, 1).

    Args:
        arrays: sequence of ndarrays or symbols.

    Returns:
        An ndarray of at least three dimensions.

    Raises:
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.dstack([mx.np.array([1, 2]), mx.np.array([3, 4])])
        array([[[1., 3.],
                [2., 4.]]])
    """
    arrays = list(arrays)
    return call("_npi_dstack", arrays, num_args=len(arrays))


def column_stack(tup: Iterable[ArrayOrSymbol]) -> Any:
    """Joins arrays along the second axis; vectors count as columns.

    Args:
        tup: sequence of ndarrays or symbols.

    Returns:
        An ndarray of at least two dimensions.

    Raises:
        TypeError: an element is not an ndarray or symbol.
        MXNetError: the shapes differ.

    Example:
        >>> mx.np.column_stack([mx.np.array([1, 2]), mx.np.array([3, 4])])
        array([[1., 3.],
               [2., 4.]])
    """
    tup = list(tup)
    return call("_npi_column_stack", tup, num_args=len(tup))


def _pieces(indices_or_sections: int | Sequence[int]) -> dict[str, Any]:
    if isinstance(indices_or_sections, integer_types):
        return {"indices": (), "sections": indices_or_sections}
    if isinstance(indices_or_sections, (list, set, tuple)):
        return {"indices": (0, *indices_or_sections), "sections": 0}
    raise ValueError("indices_or_sections must be either int, or tuple / list / set of ints")


def _split(name: str, ary: ArrayOrSymbol, axis: int, pieces: dict[str, Any]) -> list[Any]:
    result = call(name, [ary], axis=axis, squeeze_axis=False, **pieces)
    return result if isinstance(result, list) else [result]


def split(ary: ArrayOrSymbol, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Splits an array into equal pieces along an axis, or at the given indices.

    Args:
        ary: ndarray or symbol.
        indices_or_sections: an int (the number of pieces), or a tuple, list or set of ints (the indices at which the
            second and later pieces begin).
        axis: the axis.

    Returns:
        A list of copies.

    Raises:
        ValueError: the axis cannot be divided equally, or `indices_or_sections` is of another type, such as an ndarray.

    Example:
        >>> mx.np.split(mx.np.arange(4), 2)
        [array([0., 1.]), array([2., 3.])]
        >>> mx.np.split(mx.np.arange(4), [1])
        [array([0.]), array([1., 2., 3.])]
    """
    pieces = _pieces(indices_or_sections)
    if hasattr(ary, "shape") and pieces["sections"] and ary.shape[axis] % pieces["sections"]:
        raise ValueError("array split does not result in an equal division")
    return _split("_npi_split", ary, axis, pieces)


def array_split(ary: ArrayOrSymbol, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Splits an array like `split`, but the first pieces may be longer by one.

    Args:
        ary: ndarray or symbol.
        indices_or_sections: an int (the number of pieces), or a tuple, list or set of ints (the indices at which the
            second and later pieces begin).
        axis: the axis.

    Returns:
        A list of copies.

    Raises:
        ValueError: `indices_or_sections` is of another type, such as an ndarray.

    Example:
        >>> mx.np.array_split(mx.np.arange(3), 2)
        [array([0., 1.]), array([2.])]
    """
    return _split("_npi_split", ary, axis, _pieces(indices_or_sections))


def _need_dimensions(name: str, ary: ArrayOrSymbol, ndim: int) -> None:
    if hasattr(ary, "shape") and len(ary.shape) < ndim:
        raise ValueError(f"{name} only works on arrays of {ndim} or more dimensions")


def hsplit(ary: ArrayOrSymbol, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """Splits an array along the second axis, or a vector along the first; see `split`.

    Args:
        ary: ndarray or symbol of at least one dimension.
        indices_or_sections: an int (the number of pieces), or a tuple, list or set of ints (the indices at which the
            second and later pieces begin).

    Returns:
        A list of copies.

    Raises:
        ValueError: `indices_or_sections` is of another type, or `ary` is zero-dimensional.
        MXNetError: the axis cannot be divided equally.

    Example:
        >>> left, right = mx.np.hsplit(mx.np.array([[1, 2], [3, 4]]), 2)
        >>> right
        array([[2.],
               [4.]])
    """
    _need_dimensions("hsplit", ary, 1)
    return _split("_npi_hsplit", ary, 1, _pieces(indices_or_sections))


def vsplit(ary: ArrayOrSymbol, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """Splits an array along the first axis; see `split`.

    Args:
        ary: ndarray or symbol of at least two dimensions.
        indices_or_sections: an int (the number of pieces), or a tuple, list or set of ints (the indices at which the
            second and later pieces begin).

    Returns:
        A list of copies.

    Raises:
        ValueError: the axis cannot be divided equally, `indices_or_sections` is of another type, or `ary` has too few
            dimensions.

    Example:
        >>> above, below = mx.np.vsplit(mx.np.array([[1, 2], [3, 4]]), 2)
        >>> below
        array([[3., 4.]])
    """
    _need_dimensions("vsplit", ary, 2)
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayOrSymbol, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """Splits an array along the third axis; see `split`.

    Args:
        ary: ndarray or symbol of at least three dimensions.
        indices_or_sections: an int (the number of pieces), or a tuple, list or set of ints (the indices at which the
            second and later pieces begin).

    Returns:
        A list of copies.

    Raises:
        ValueError: the axis cannot be divided equally, `indices_or_sections` is of another type, or `ary` has too few
            dimensions.

    Example:
        >>> [a.shape for a in mx.np.dsplit(mx.np.zeros((1, 2, 4)), [3])]
        [(1, 2, 3), (1, 2, 1)]
    """
    _need_dimensions("dsplit", ary, 3)
    return split(ary, indices_or_sections, 2)


# ------------------------------------------------------------ repetition and padding
def repeat(a: ArrayOrSymbol, repeats: int, axis: int | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Repeats each element along an axis.

    Args:
        a: ndarray or symbol.
        repeats: number of repetitions, one int for all elements.
        axis: the axis; None for the flattened array.
        out: ndarray to write to.

    Returns:
        An ndarray; the axis is `repeats` times as long.

    Raises:
        MXNetError: `repeats` is not an int, or is negative.

    Example:
        >>> mx.np.repeat(mx.np.array([[1, 2], [3, 4]]), 2, axis=1)
        array([[1., 1., 2., 2.],
               [3., 3., 4., 4.]])
    """
    return call("_np_repeat", [a], out, repeats=repeats, axis=axis)


def tile(A: ArrayOrSymbol, reps: int | Sequence[int]) -> Any:  # noqa: N803
    """Repeats the array along each axis.

    Args:
        A: ndarray, symbol or number.
        reps: int or tuple of ints: number of repetitions along each of the last axes.

    Returns:
        An ndarray; for a number, a NumPy array.

    Example:
        >>> mx.np.tile(mx.np.array([1, 2]), (2, 2))
        array([[1., 2., 1., 2.],
               [1., 2., 1., 2.]])
    """
    return np.tile(A, reps) if is_number(A) else call("_npi_tile", [A], reps=reps)


def resize(a: ArrayOrSymbol, new_shape: ShapeLike) -> Any:
    """Changes the shape; repeats the elements, in order, if the new shape has more.

    Args:
        a: ndarray or symbol.
        new_shape: int or tuple of ints, of any size.

    Returns:
        An ndarray of that shape.

    Example:
        >>> mx.np.resize(mx.np.array([1, 2, 3]), (2, 2))
        array([[1., 2.],
               [3., 1.]])
    """
    return call("_npi_resize_fallback", [a], new_shape=new_shape)


_PAD_OPTIONS = {"constant": ("constant_values", 0), "edge": (), "maximum": ("stat_length", None),
                "minimum": ("stat_length", None), "reflect": ("reflect_type", "even"),
                "symmetric": ("reflect_type", "even")}


def pad(x: ArrayOrSymbol, pad_width: int | Sequence[Any] | None = None, mode: str = "constant", **kwargs: Any) -> Any:
    """Pads the array before and after each axis.

    Args:
        x: ndarray or symbol.
        pad_width: a tuple with a pair (before, after) for each axis. For arrays, a single pair applies to all axes.
        mode: "constant", "edge", "reflect", "symmetric", "maximum" or "minimum".
        kwargs: `constant_values`, a number, if mode is "constant"; defaults to 0.

    Returns:
        A padded copy.

    Raises:
        TypeError: pad_width is not a tuple of ints, or `constant_values` is not a number.
        ValueError: an unknown mode, or an option that the mode does not have.

    Example:
        >>> mx.np.pad(mx.np.ones((1, 2)), ((1, 0), (0, 1)), constant_values=7)
        array([[7., 7., 7.],
               [1., 1., 7.]])
        >>> mx.np.pad(mx.np.array([1, 2, 3]), ((2, 0),), mode="reflect")
        array([3., 2., 1., 2., 3.])
    """
    if not isinstance(pad_width, tuple) or np.asarray(pad_width).dtype.kind != "i":
        raise TypeError("`pad_width` must be a tuple of integral type.")
    if mode not in _PAD_OPTIONS:
        raise ValueError(f"mode {{{mode!r}}} is not supported.")
    option = _PAD_OPTIONS[mode]
    for key, value in kwargs.items():
        if key not in option[:1]:
            raise ValueError(f"unsupported keyword arguments for mode '{mode}': {{{key!r}}}")
        if mode != "constant" and value not in (option[1], None):
            raise ValueError(f"unsupported {key} '{value}'")
    values = kwargs.get("constant_values", 0)
    if not is_number(values):
        raise TypeError(f"unsupported constant_values type: {{{type(values).__name__!r}}}.")
    if np.shape(pad_width) in ((2,), (1, 2)) and hasattr(x, "ndim"):
        pad_width = (tuple(np.ravel(pad_width).tolist()),) * x.ndim
    return call("_npi_pad", [x], pad_width=pad_width, mode=mode, constant_value=values)
