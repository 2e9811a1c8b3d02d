"""Operators of mx.np that select, search, insert and remove elements."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ...base import MXNetError
from ..common import Array, chosen, converted, gives, no_gradient, normalized
from ..infer import broadcasted, elementwise, first
from ..params import DoubleScalar, DType, MaybeDouble, Scalar, Shape, np_dtype
from ..registry import register


# ------------------------------------------------------------ choosing
@register("_npi_where", infer_type=chosen, FPartialShape=broadcasted)
def where(condition: Array, x: Array, y: Array) -> Array:
    """Selects x where the condition is nonzero, y elsewhere, with broadcasting."""
    return jnp.where(condition != 0, x, y)


@register("_npi_where_lscalar", infer_type=chosen, FPartialShape=broadcasted)
def where_lscalar(condition: Array, x: Array, *, scalar: DoubleScalar = 0.0) -> Array:
    """Selects a number where the condition is nonzero, x elsewhere."""
    return jnp.where(condition != 0, converted(scalar, x.dtype), x)


@register("_npi_where_rscalar", infer_type=chosen, FPartialShape=broadcasted)
def where_rscalar(condition: Array, y: Array, *, scalar: DoubleScalar = 0.0) -> Array:
    """Selects y where the condition is nonzero, a number elsewhere."""
    return jnp.where(condition != 0, y, converted(scalar, y.dtype))


@register("_npi_where_scalar2", infer_shape=elementwise, infer_type=gives("float32"))
def where_scalar2(condition: Array, *, x: DoubleScalar = 0.0, y: DoubleScalar = 0.0) -> Array:
    """Selects the number x where the condition is nonzero, y elsewhere; float32."""
    return jnp.where(condition != 0, converted(x, jnp.float32), converted(y, jnp.float32))


# ------------------------------------------------------------ boolean masks
def _aligned(name: str, data: Array, mask: Array, start: int) -> Array:
    """The mask with an axis of size 1 for every axis of data that it does not cover."""
    if mask.shape != data.shape[start:start + mask.ndim]:
        raise MXNetError(f"operator {name}: a mask of shape {mask.shape} does not match the axes from {start} of "
                         f"{data.shape}")
    return (mask != 0).reshape((1,) * start + mask.shape + (1,) * (data.ndim - start - mask.ndim))


@register("_npi_boolean_mask_assign_scalar", infer_type=gives(lambda p: None, None, "bool"), FPartialShape=first)
def boolean_mask_assign_scalar(data: Array, mask: Array, *, value: Scalar = 0.0, start_axis: int = 0) -> Array:
    """Sets elements of data to a number where the mask is true; the mask covers the axes from `start_axis` on."""
    where_true = _aligned("_npi_boolean_mask_assign_scalar", data, mask, start_axis)
    return jnp.where(where_true, converted(value, data.dtype), data)


@register("_npi_boolean_mask_assign_tensor", eager=True, infer_type=gives(lambda p: None, None, "bool"),
          FPartialShape=first)
def boolean_mask_assign_tensor(data: Array, mask: Array, value: Array, *, start_axis: int = 0) -> Array:
    """Replaces the elements of data where the mask is true by those of `value`, in order or broadcast."""
    _aligned("_npi_boolean_mask_assign_tensor", data, mask, start_axis)
    if mask.ndim == 0:
        return boolean_mask_assign_tensor(data[None], mask[None], value)[0]
    places = (slice(None),) * start_axis + (np.asarray(mask) != 0,)
    target = data.at[places]
    return target.set(jnp.broadcast_to(value.astype(data.dtype), target.get().shape))


@register("_npx_nonzero", aliases=("_npi_nonzero",), eager=True, x64=True, infer_type=gives("int64"),
          FGradient=no_gradient)
def nonzero(x: Array) -> np.ndarray:
    """Indices of the nonzero elements, one row for each: (count, dimensions) int64."""
    return np.argwhere(np.atleast_1d(np.asarray(x))).astype(np.int64)


@register("_npx_constraint_check", eager=True, infer_type=gives("bool"))
def constraint_check(input: Array, *, msg: str = "Constraint violated.") -> Array:
    """Checks that all elements are true.

    Raises:
        ValueError: an element is false; the message is `msg`.
    """
    if not isinstance(input, Tracer) and not np.all(np.asarray(input)):
        raise ConstraintError(msg)
    return jnp.all(input)


class ConstraintError(MXNetError, ValueError):
    """A constraint that a program has put on values does not hold."""


# ------------------------------------------------------------ adding and setting at places
class PlaceError(MXNetError, IndexError):
    """A place that is not in the array."""


def _places(name: str, a: Array, ind: Array) -> Array:
    """Returns the coordinates (dimensions, count) of `ind`."""
    if ind.dtype not in (jnp.int32, jnp.int64):
        raise MXNetError(f"operator {name}: ind must have dtype int32 or int64, got {ind.dtype}")
    places = ind.reshape(1, -1) if ind.ndim < 2 else ind
    if places.ndim > 2 or len(places) > a.ndim:
        raise PlaceError(f"operator {name}: ind must have a row of indices for each of the leading axes of a, got "
                         f"shape {ind.shape} for {a.shape}")
    return places


def _at_places(name: str, doc: str, change: Callable[[Any, Array], Array]) -> None:
    """Registers `name`: a, with change(places, val) at the places."""
    def compute(a: Array, ind: Array, val: Array) -> Array:
        places = _places(name, a, ind)
        if val.dtype != a.dtype:
            raise MXNetError(f"operator {name}: a and val must have the same dtype, got {a.dtype} and {val.dtype}")
        part = (places.shape[1], *a.shape[len(places):])
        try:
            values = jnp.broadcast_to(val, part)
        except ValueError:
            raise MXNetError(f"operator {name}: val of shape {val.shape} does not broadcast to {part}, the part of a "
                             "selected by ind") from None
        return change(a.at[tuple(places)], values)
    compute.__doc__ = (f"a, where {doc}.\n\na: any shape; ind: (dimensions, count) or (count,), int: coordinates on "
                       "the leading axes of a; val: broadcasts to (count, *the other axes of a).")

    def refuse(params: dict[str, Any], inputs: Sequence[Array], outputs: Sequence[Array]) -> Exception | None:
        a, places = inputs[0], np.atleast_2d(np.asarray(inputs[1]))
        for axis, (row, size) in enumerate(zip(places, a.shape, strict=False)):
            bad = row[(row < 0) | (row >= size)]
            if bad.size:
                return PlaceError(f"operator {name}: index {bad[0]} is out of range for axis {axis} of size {size}")
        return None
    register(name, infer_type=gives(lambda p: None, None, "int64", None), FPartialShape=first, FRefuse=refuse)(compute)


_at_places("_npx_index_add", "val is added at the places ind", lambda at, val: at.add(val, mode="drop"))
_at_places("_npx_index_update", "val stands at the places ind", lambda at, val: at.set(val, mode="drop"))


# ------------------------------------------------------------ finding
def _unique_count(params: dict[str, Any]) -> int:
    return 1 + params["return_index"] + params["return_inverse"] + params["return_counts"]


@register("_npi_unique", eager=True, FGradient=no_gradient, x64=True, num_outputs=_unique_count,
          infer_type=gives((None, "int64", "int64", "int64")))
def unique(data: Array, *, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None) -> tuple[np.ndarray, ...]:
    """The sorted unique values, the indices of their first occurrences, the inverse indices, and the counts.

    With an axis, the unique slices along it.
    """
    if data.ndim == 0:
        data = data.reshape(1)
    result = np.unique(np.asarray(data), return_index, return_inverse, return_counts,
                       None if axis is None else normalized(axis, data.ndim))
    values, *others = result if isinstance(result, tuple) else (result,)
    return values, *[f.reshape(-1).astype(np.int64) for f in others]


@register("_npi_diag_indices_from", x64=True, infer_type=gives("int64"))
def diag_indices_from(data: Array) -> Array:
    """Indices of the main diagonal of an array whose axes have equal lengths: (dimensions, n) int64."""
    if data.ndim < 2 or len(set(data.shape)) != 1:
        raise MXNetError("operator _npi_diag_indices_from: there must be at least two axes, all of the same size; got "
                         f"shape {data.shape}")
    return jnp.broadcast_to(jnp.arange(data.shape[0], dtype=jnp.int64), (data.ndim, data.shape[0]))


def _unless_inside(params: dict[str, Any], inputs: Any, outputs: Any) -> MXNetError | None:
    """FRefuse: positions that the shape does not have."""
    positions, size = np.asarray(inputs[0]), math.prod(params["shape"])
    wrong = positions[(positions < 0) | (positions >= size)]
    return MXNetError(f"operator unravel_index: index {wrong[0]} is out of range for shape {params['shape']} with "
                      f"{size} elements") if wrong.size else None


@register("_npi_unravel_index_fallback", infer_shape=lambda p, ins, outs: None, FRefuse=_unless_inside)
def unravel_index(data: Array, *, shape: Shape) -> Array:
    """Converts indices of the flattened array to coordinates: (...) -> (dimensions, ...).

    Raises:
        MXNetError: the indices are not integers, or are out of range.
    """
    if not jnp.issubdtype(data.dtype, jnp.integer):
        raise MXNetError(f"operator unravel_index takes integers, got {data.dtype}")
    return jnp.stack(jnp.unravel_index(data, shape)).astype(data.dtype)


@register("_npi_share_memory", infer_type=gives("bool"))
def share_memory(a: Array, b: Array) -> Array:
    """Returns whether two values are one buffer; views are compared before their values come here."""
    return jnp.asarray(a is b)


# ------------------------------------------------------------ inserting and removing
def selected_places(name: str, size: int, start: int | None, stop: int | None, step: int | None,
                    int_ind: int | None, obj: Array | np.ndarray | None) -> np.ndarray:
    """Returns the positions on an axis that an int, a slice or an array of ints selects.

    Raises:
        MXNetError: a position is out of range.
    """
    if obj is not None:
        given = np.asarray(obj).astype(np.int64)
        if "delete" in name:  # as in MXNet, negative positions and those out of range name nothing
            given = given[(given >= 0) & (given < size)]
    elif int_ind is not None:
        given = np.asarray(int_ind)
    else:
        return np.arange(*slice(start, stop, step).indices(size))
    limit = size if "insert" in name else size - 1
    if given.size and (given.min() < -size or given.max() > limit):
        raise MXNetError(f"operator {name}: indices {given.tolist()} are out of range for an axis of size {size}")
    return np.where(given < 0, given + size, given)


def _along(array: Array, axis: int | None) -> tuple[Array, int]:
    return (array.ravel(), 0) if axis is None else (array, normalized(axis, array.ndim))


def _always(params: dict[str, Any]) -> bool:
    """Imperative calls are not compiled: each position would be a program of its own."""
    return True


@register("_npi_delete", inputs=lambda p: ["arr"] if _of_slice(p) or p["int_ind"] is not None else ["arr", "obj"],
          eager_when=_always,
          infer_type=gives(lambda p: None, None, "int64"))
def delete(arr: Array, obj: Array | None = None, *, start: int | None = None, stop: int | None = None,
           step: int | None = None, int_ind: int | None = None, axis: int | None = None) -> Array:
    """Removes slices along an axis (None: of the flattened array)."""
    arr, axis = _along(arr, axis)
    gone = selected_places("_npi_delete", arr.shape[axis], start, stop, step, int_ind, obj)
    return jnp.take(arr, np.setdiff1d(np.arange(arr.shape[axis]), gone), axis)


def _of_slice(params: dict[str, Any]) -> bool:
    return any(params[n] is not None for n in ("start", "stop", "step"))


def _insertion(kind: str, eager: bool) -> None:
    name = f"_npi_insert_{kind}"

    def names(params: dict[str, Any]) -> list[str]:
        given = ["arr"] + ["values"] * (params["val"] is None)
        return given + ["obj"] * (kind == "tensor")

    def insert(arr: Array, *others: Array, val: MaybeDouble, start: int | None, stop: int | None, step: int | None,
               int_ind: int | None, axis: int | None) -> Array:
        there = [o for o in others if o is not None]
        obj = there.pop() if kind == "tensor" else None
        arr, axis = _along(arr, axis)
        size = arr.shape[axis]
        places = selected_places(name, size, start, stop, step, int_ind, obj)
        values = others[0].astype(arr.dtype) if val is None else jnp.asarray(np.asarray(val).astype(arr.dtype))
        if places.size == 1:  # one position takes as many slices as there are values, as in NumPy
            values = values.reshape((1,) * (arr.ndim - values.ndim) + values.shape)
            if places.ndim == 0:
                values = jnp.moveaxis(values, 0, axis)
            places = np.full(values.shape[axis], places)
        shape = (*arr.shape[:axis], len(places), *arr.shape[axis + 1:])
        order = np.argsort(np.concatenate([np.arange(size), places - 0.5]), kind="stable")
        return jnp.take(jnp.concatenate([arr, jnp.broadcast_to(values, shape)], axis), order, axis)
    kinds = inspect.Parameter
    optional: Any = int | None
    insert.__signature__ = inspect.Signature(
        [kinds("arr", kinds.POSITIONAL_OR_KEYWORD), *(kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None)
                                                      for n in ("values", "obj")[:1 + (kind == "tensor")])]
        + [kinds(n, kinds.KEYWORD_ONLY, default=None) for n in ("val", "start", "stop", "step", "int_ind", "axis")])
    insert.__annotations__ = {"val": MaybeDouble,
                              **dict.fromkeys(("start", "stop", "step", "int_ind", "axis"), optional)}
    insert.__doc__ = (f"The array with values (a number `val`, or an input) inserted before positions of an axis "
                      f"(None: of the flattened array) that {kind} says.")
    attrs: dict[str, Any] = {"eager": True} if eager else {"eager_when": _always}
    register(name, inputs=names, **attrs,
             infer_type=gives(lambda p: None, None, None, "int64"))(insert)


_insertion("scalar", False)
_insertion("slice", False)
_insertion("tensor", True)


@register("_npi_resize_fallback")
def resize(data: Array, *, new_shape: Shape) -> Array:
    """Changes the shape; repeats the elements if the new shape has more."""
    return jnp.resize(data, new_shape)


@register("_npi_empty_like_fallback", infer_type=gives(lambda p: None if p["dtype"] is None else p["dtype"]))
def empty_like(prototype: Array, *, dtype: DType | None = None, order: str = "C", subok: bool = False,
               shape: Shape | None = None) -> Array:
    """An array with the shape and dtype of another one, and unspecified values (zeros)."""
    return jnp.zeros(prototype.shape, np_dtype(dtype or prototype.dtype))


@register("_npi_advanced_indexing")
def advanced_indexing(data: Array, indices: Array) -> Array:
    """Selects rows of an array by an array of indices, as `x[indices]`; MXNet 2."""
    return jnp.take(data, indices.astype(jnp.int32), axis=0, mode="wrap")
