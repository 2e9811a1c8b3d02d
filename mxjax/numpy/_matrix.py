"""Functions that rearrange, join, cut, extend and multiply arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..base import integer_types
from ..util import check_ufunc_options
from ._create import full
from ._dispatch import call, flavour_of, is_array, is_number

__all__ = ["append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "column_stack",
           "concatenate", "copy", "diag", "diagflat", "diagonal", "diff", "dot", "dsplit", "dstack", "ediff1d",
           "einsum", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "inner", "matmul", "moveaxis",
           "outer", "pad", "polyval", "ravel", "repeat", "reshape", "resize", "roll", "rot90", "row_stack", "split",
           "squeeze", "stack", "swapaxes", "tensordot", "tile", "trace", "transpose", "tril", "vdot", "vsplit",
           "vstack"]


# ------------------------------------------------------------ shape and axes
def reshape(a: Any, newshape: Any, order: str = "C", out: Any = None) -> Any:
    """A copy with another shape; one dimension may be -1."""
    return call("_np_reshape", [a], out, newshape=newshape, order=order)


def ravel(x: Any, order: str = "C") -> Any:
    """A copy of one dimension.

    Raises:
        NotImplementedError: `order` is not "C".
    """
    if order != "C":
        raise NotImplementedError(f"order {order} is not supported")
    return np.reshape(x, -1) if is_number(x) else reshape(x, -1)


def transpose(a: Any, axes: Any = None, out: Any = None) -> Any:
    """The axes in another order (None: reversed).

    Raises:
        ValueError: an axis is named twice.
    """
    if isinstance(axes, (tuple, list)) and len(set(axes)) < len(axes):
        raise ValueError(f"transpose: axes={tuple(axes)} names an axis twice")
    return call("_np_transpose", [a], out, axes=axes)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    return call("_npi_swapaxes", [a], dim1=axis1, dim2=axis2)


def moveaxis(a: Any, source: Any, destination: Any, out: Any = None) -> Any:
    """Axes moved to other positions; the others keep their order."""
    return call("_np_moveaxis", [a], out, source=source, destination=destination)


def expand_dims(a: Any, axis: int) -> Any:
    """A new axis of size 1."""
    return call("_npi_expand_dims", [a], axis=axis)


def squeeze(a: Any, axis: Any = None, out: Any = None) -> Any:
    """Without axes of size 1: all of them, or those given."""
    return call("_np_squeeze", [a], out, axis=axis)


def flip(m: Any, axis: Any = None, out: Any = None) -> Any:
    """The order of the elements along axes (None: all) reversed."""
    return np.flip(m, axis) if is_number(m) else call("_npi_flip", [m], out, axis=axis)


def flipud(m: Any) -> Any:
    """`flip` along the first axis."""
    return flip(m, 0)


def fliplr(m: Any) -> Any:
    """`flip` along the second axis."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotated by 90 degrees k times in the plane of two axes."""
    return call("_npi_rot90", [m], k=k, axes=axes)


def roll(a: Any, shift: Any, axis: Any = None, out: Any = None) -> Any:
    """Elements moved along axes (None: of the flattened array); those that leave come in at the other end."""
    return call("_np_roll", [a], out, shift=shift, axis=axis)


def broadcast_to(array: Any, shape: Any) -> Any:
    """The array, or number, repeated to a shape."""
    if is_number(array):
        return full(flavour_of([]), shape, array)
    return call("_npi_broadcast_to", [array], shape=shape)


def _at_least(ndim: int, arys: tuple) -> Any:
    return call(f"_np_atleast_{ndim}d", list(arys), num_args=len(arys))


def atleast_1d(*arys: Any) -> Any:
    """The arrays with at least one dimension; a list where there are several."""
    return _at_least(1, arys)


def atleast_2d(*arys: Any) -> Any:
    """The arrays with at least two dimensions; a list where there are several."""
    return _at_least(2, arys)


def atleast_3d(*arys: Any) -> Any:
    """The arrays with at least three dimensions; a list where there are several."""
    return _at_least(3, arys)


def copy(a: Any, out: Any = None) -> Any:
    """A copy."""
    return call("_np_copy", [a], out)


# ------------------------------------------------------------ joins, pieces, repetition
def _listed(arrays: Any) -> list[Any]:
    if not hasattr(arrays, "__getitem__") and hasattr(arrays, "__iter__"):
        raise ValueError(f"expected iterable for arrays but got {type(arrays)}")
    return list(arrays)


def concatenate(seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Joins arrays along an axis (None: their flattened elements)."""
    return _joined("_npi_concatenate", list(seq), out, axis)


def _joined(name: str, arrays: list[Any], out: Any = None, axis: int | None = 0) -> Any:
    # axis=None differs from the operator's default, so it does not pass through `call`
    return flavour_of(arrays).call(name, arrays, {"axis": "None" if axis is None else axis, "num_args": len(arrays)},
                                   out)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`concatenate` of two arrays."""
    return _joined("_npi_concatenate", [arr, values], None, axis)


def stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Joins arrays of one shape along a new axis."""
    return _joined("_npi_stack", _listed(arrays), out, axis)


def vstack(arrays: Any, out: Any = None) -> Any:
    """Joins arrays along the first axis; vectors count as rows."""
    arrays = _listed(arrays)
    return call("_npi_vstack", arrays, out, num_args=len(arrays))


def row_stack(arrays: Any) -> Any:
    """As `vstack`."""
    return vstack(arrays)


def hstack(arrays: Any) -> Any:
    """Joins arrays along the second axis, vectors along the first."""
    arrays = list(arrays)
    return call("_npi_hstack", arrays, num_args=len(arrays))


def dstack(arrays: Any) -> Any:
    """Joins arrays along the third axis."""
    arrays = list(arrays)
    return call("_npi_dstack", arrays, num_args=len(arrays))


def column_stack(tup: Any) -> Any:
    """Joins arrays along the second axis; vectors count as columns."""
    tup = list(tup)
    return call("_npi_column_stack", tup, num_args=len(tup))


def _pieces(indices_or_sections: Any) -> dict[str, Any]:
    if isinstance(indices_or_sections, integer_types):
        return {"indices": (), "sections": indices_or_sections}
    if isinstance(indices_or_sections, (list, set, tuple)):
        return {"indices": (0, *indices_or_sections), "sections": 0}
    raise ValueError("indices_or_sections must be either int, or tuple / list / set of ints")


def _split(name: str, ary: Any, axis: int, pieces: dict[str, Any]) -> list[Any]:
    result = call(name, [ary], axis=axis, squeeze_axis=False, **pieces)
    return result if isinstance(result, list) else [result]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal pieces along an axis, or pieces that begin at the given indices.

    Raises:
        ValueError: the axis does not divide.
    """
    pieces = _pieces(indices_or_sections)
    if hasattr(ary, "shape") and pieces["sections"] and ary.shape[axis] % pieces["sections"]:
        raise ValueError("array split does not result in an equal division")
    return _split("_npi_split", ary, axis, pieces)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`; the first pieces may be longer by one."""
    return _split("_npi_split", ary, axis, _pieces(indices_or_sections))


def _need_dimensions(name: str, ary: Any, ndim: int) -> None:
    if hasattr(ary, "shape") and len(ary.shape) < ndim:
        raise ValueError(f"{name} only works on arrays of {ndim} or more dimensions")


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the second axis, of vectors along the first."""
    _need_dimensions("hsplit", ary, 1)
    return _split("_npi_hsplit", ary, 1, _pieces(indices_or_sections))


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the first axis."""
    _need_dimensions("vsplit", ary, 2)
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """`split` along the third axis."""
    _need_dimensions("dsplit", ary, 3)
    return split(ary, indices_or_sections, 2)


def repeat(a: Any, repeats: int, axis: int | None = None, out: Any = None) -> Any:
    """Each element `repeats` times along an axis (None: of the flattened array)."""
    return call("_np_repeat", [a], out, repeats=repeats, axis=axis)


def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    """The array repeated `reps` times along each axis."""
    return np.tile(A, reps) if is_number(A) else call("_npi_tile", [A], reps=reps)


def resize(a: Any, new_shape: Any) -> Any:
    """The elements repeated as often as the new shape needs."""
    return call("_npi_resize_fallback", [a], new_shape=new_shape)


_PAD_OPTIONS = {"constant": ("constant_values", 0), "edge": (), "maximum": ("stat_length", None),
                "minimum": ("stat_length", None), "reflect": ("reflect_type", "even"),
                "symmetric": ("reflect_type", "even")}


def pad(x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
    """The array with values added before and after each axis.

    Args:
        x: ndarray.
        pad_width: a tuple with a pair (before, after) for each axis.
        mode: "constant" (with `constant_values`, a number), "edge", "reflect", "symmetric", "maximum" or "minimum".

    Raises:
        TypeError: pad_width is no tuple of ints.
        ValueError: another mode, or an option it does not have.
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
    return call("_npi_pad", [x], pad_width=pad_width, mode=mode, constant_value=values)


# ------------------------------------------------------------ diagonals and differences
def diag(array: Any, k: int = 0, out: Any = None) -> Any:
    """The k-th diagonal of a matrix, or a matrix with this vector on it."""
    return call("_np_diag", [array], out, k=k)


def diagflat(array: Any, k: int = 0) -> Any:
    """A matrix with the flattened array on its k-th diagonal."""
    return call("_np_diagflat", [array], k=k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None) -> Any:
    """The diagonals of the matrices in two axes, as a new last axis."""
    return call("_np_diagonal", [a], out, offset=offset, axis1=axis1, axis2=axis2)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None) -> Any:
    """The sums of the diagonals of the matrices in two axes."""
    return call("_np_trace", [a], out, offset=offset, axis1=axis1, axis2=axis2)


def tril(m: Any, k: int = 0) -> Any:
    """What is on and below the k-th diagonal, zeros above."""
    return call("_npi_tril", [m], k=k)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along an axis.

    Raises:
        NotImplementedError: prepend or append.
    """
    if prepend is not None or append is not None:
        raise NotImplementedError("prepend and append options are not supported yet")
    return call("_npi_diff", [a], n=n, axis=axis)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in the flattened array, with arrays or numbers put before and after them."""
    params = {f"{name}_{'arr_given' if is_array(value) else 'scalar'}": True if is_array(value) else value
              for name, value in (("to_begin", to_begin), ("to_end", to_end))}
    return call("_npi_ediff1d", [ary, *(v for v in (to_begin, to_end) if is_array(v))], **params)


# ------------------------------------------------------------ products
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Product of vectors, matrices or numbers; else sums over the last axis of a and the second to last of b."""
    return call("_np_dot", [a, b], out)


def matmul(a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    """Matrix products over the last two axes, the others broadcast; vectors count as rows and columns."""
    check_ufunc_options("matmul", kwargs)
    return call("_npi_matmul", [a, b], out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products over axes.

    axes: an int n (the last n of a, the first n of b), or a pair of axes or lists of axes.

    Raises:
        ValueError: `axes` is neither.
    """
    if np.isscalar(axes):
        return call("_npi_tensordot_int_axes", [a, b], axes=axes)
    if len(axes) != 2:
        raise ValueError("Axes must consist of two arrays.")
    first, second = ((n,) if isinstance(n, integer_types) else tuple(n) for n in axes)
    if len(first) != len(second):
        raise ValueError("Axes length mismatch")
    return call("_npi_tensordot", [a, b], a_axes_summed=first, b_axes_summed=second)


def inner(a: Any, b: Any) -> Any:
    """Sums of products over the last axes."""
    return tensordot(a, b, (-1, -1))


def outer(a: Any, b: Any) -> Any:
    """All products of an element of a with one of b."""
    return tensordot(reshape(a, -1), reshape(b, -1), 0)


def vdot(a: Any, b: Any) -> Any:
    """The product of the flattened arrays."""
    return tensordot(reshape(a, -1), reshape(b, -1), 1)


def einsum(*operands: Any, **kwargs: Any) -> Any:
    """Sums of products in Einstein's notation: `einsum("ij,jk->ik", a, b)`.

    kwargs: `out`, and `optimize` (False or True: look for the best order).
    """
    subscripts, arrays = operands[0], list(operands[1:])
    return call("_npi_einsum", arrays, kwargs.get("out"), subscripts=subscripts,
                optimize=operator.index(bool(kwargs.get("optimize", False))), num_args=len(arrays))


def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients p, the highest power first, at x."""
    return call("_npi_polyval", [p, x])
