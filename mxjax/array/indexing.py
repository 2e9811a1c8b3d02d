"""Indexing: interpretation of keys, views, and kernels for reads and writes at other keys.

A key becomes a list with an item per dimension of the array. There are three forms, each a family of kernels that are
cached by structure only, so that a loop over positions compiles once:

    box      ints and step-1 slices: a dynamic slice; where it is contiguous, a view (no copy at all)
    strided  some slice has another step: static slices
    gather   some item is an index array
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from .._support.bounded import bounded_cache
from ..base import WrongShape
from ..eager.handle import Handle
from ..interpret.direct import need, to_dtype
from ..kernel.bound_form import FunctionForm
from ..kernel.kernel import Kernel
from ..ops.common import Array
from ..ops.params import np_dtype

__all__ = ["Selection", "selection", "view_kernel", "write_view_kernel"]


class Selection(NamedTuple):
    """The selection of a key.

    kind: "box", "strided" or "gather"; starts, sizes: the box; shape: the result's shape ("box" and "strided");
    items: static structure of the others; arrays: index arrays; offset: element offset of a contiguous box or None.
    """

    kind: str
    shape: tuple[int, ...]
    starts: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    items: tuple = ()
    arrays: tuple = ()
    offset: int | None = None


def _is_array(item: object) -> bool:
    return isinstance(item, (list, np.ndarray)) or isinstance(item, Handle) or hasattr(item, "__jax_array__") \
        or type(item).__module__.startswith("jax")


def selection(key: object, shape: tuple[int, ...], scalars: bool = False, masks: bool = False,
         writing: bool = False) -> Selection:
    """Determines the elements that `key` selects of an array of `shape`.

    Args:
        key: any key of NumPy: ints, slices, None, Ellipsis, lists, ranges, arrays, booleans, tuples of those.
        scalars: a single element has the shape () rather than (1,), as under `mx.np_shape`.
        masks: booleans are masks, as in `mx.np`; for classic arrays see `_without_booleans`.
        writing: the key is the target of an assignment.

    Raises:
        IndexError: too many indices, an index out of bounds.
        ValueError: a key of another kind.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = [list(i) if isinstance(i, (tuple, range)) else i for i in items]
    if any(map(_is_boolean, items)):
        exact = not writing and (len(items) == len(shape) or not isinstance(key, tuple))
        items = _without_masks(items, shape) if masks else _without_booleans(items, exact)
    used = sum(1 for i in items if i is not None and i is not Ellipsis and not isinstance(i, bool))
    if used > len(shape):
        raise IndexError(f"too many indices: {used} for an array of {len(shape)} dimensions")
    gaps = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = [slice(None)] * (len(shape) - used)
    place = gaps[0] if gaps else len(items)
    items[place:place + 1] = fill
    gather = any(_is_array(i) or isinstance(i, bool) for i in items if i is not None)
    return _gather(items, shape) if gather else _basic(items, shape, scalars)


def _is_boolean(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    return _is_array(item) and not isinstance(item, list) and np.dtype(item.dtype) == bool \
        or isinstance(item, list) and bool(item) and isinstance(item[0], (bool, np.bool_))


def _without_booleans(items: list[Any], exact: bool) -> list[Any]:
    """Returns the key of a classic array with numbers for its booleans.

    Lists and arrays of booleans are the positions 0 and 1. So are True and False if `exact` and all other items are
    numbers, that is, if a single element or row is read. In every other key they have no effect (`x[False] = 3` writes
    all of `x`).
    """
    for item in items:
        if isinstance(item, np.bool_):
            raise ValueError(f"NDArray does not support slicing with key {item} of type {type(item)}; "
                             "use a bool or int")
    if not (exact and all(isinstance(i, (int, np.integer)) for i in items)):
        items = [i for i in items if not isinstance(i, bool)]
    return [_as_number(i) if _is_boolean(i) else i for i in items]


def _as_number(item: Any) -> Any:
    if isinstance(item, bool):
        return int(item)
    return np.asarray(item.asnumpy() if hasattr(item, "asnumpy") else item).astype(np.int64)


def _without_masks(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Returns the items with each mask replaced by index arrays of its true elements, one per axis."""
    masks = [np.asarray(i.asnumpy() if hasattr(i, "asnumpy") else i) if _is_boolean(i) else None for i in items]
    used = sum(0 if i is None or i is Ellipsis else 1 if m is None else m.ndim
               for i, m in zip(items, masks, strict=True))
    result, axis = [], 0
    for item, mask in zip(items, masks, strict=True):
        if mask is None:
            result.append(item)
            axis += len(shape) - used if item is Ellipsis else item is not None
        elif mask.ndim == 0:
            result.append(bool(mask))
        elif mask.shape != shape[axis:axis + mask.ndim]:
            raise IndexError(f"a boolean index of shape {mask.shape} does not match axes {axis} ... of an array of "
                             f"shape {shape}")
        else:
            result += np.unravel_index(np.flatnonzero(mask), mask.shape)  # `nonzero` takes three times as long
            axis += mask.ndim
    return result


def _position(item: Any, size: int, axis: int) -> int:
    try:
        index = item.__index__()
    except (AttributeError, TypeError):
        raise ValueError(f"an index must be an int, a slice, None, Ellipsis or an array, got {item!r}") from None
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index % size


def _basic(items: list[Any], shape: tuple[int, ...], scalars: bool) -> Selection:
    starts, sizes, result, static, box, axis = [], [], [], [], True, 0
    for item in items:
        if item is None:
            result.append(1)
            static.append(None)
            continue
        size = shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            length = len(range(start, stop, step))
            box = box and (step == 1 or length <= 1)
            static.append((start, stop if stop >= 0 else None, step))
            result.append(length)
        else:
            start, length = _position(item, size, axis), 1
            static.append(start)
        starts.append(start if length else 0)
        sizes.append(length)
        axis += 1
    if not result and not scalars:
        result = [1]
    shape_out = tuple(result)
    if not box:
        return Selection("strided", shape_out, items=tuple(static))
    return Selection("box", shape_out, tuple(starts), tuple(sizes), offset=_offset(starts, sizes, shape))


def _offset(starts: list[int], sizes: list[int], shape: tuple[int, ...]) -> int | None:
    """Returns the element offset of a box if it is contiguous in memory, else None."""
    first = next((n for n, s in enumerate(sizes) if s != 1), len(sizes))
    if any(sizes[n] != shape[n] for n in range(first + 1, len(shape))):
        return None
    offset = 0
    for start, size in zip(starts, shape, strict=True):
        offset = offset * size + start
    return offset


def _gather(items: list[Any], shape: tuple[int, ...]) -> Selection:
    static, arrays, axis = [], [], 0
    for item in items:
        if item is None or isinstance(item, bool):
            static.append(item)
            continue
        size = shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            static.append((start, stop if stop >= 0 else None, step))
        elif _is_array(item):
            arrays.append(_index_array(item, size, axis))
            static.append("array")
        else:
            arrays.append(np.asarray(_position(item, size, axis), np.int32))
            static.append("array")
        axis += 1
    return Selection("gather", (), items=tuple(static), arrays=tuple(arrays))


def _index_array(item: Any, size: int, axis: int) -> Any:
    if not isinstance(item, (list, np.ndarray)):
        value = item.read() if isinstance(item, Handle) else item
        if not isinstance(value, Tracer):  # XLA would use the nearest valid element
            _check_bounds(np.asarray(value), size, axis)
        return item
    array = item if isinstance(item, np.ndarray) else \
        np.asarray([i.asscalar() if hasattr(i, "asscalar") else i for i in item])
    if array.size == 0:
        return array.astype(np.int32)
    if array.dtype.kind not in "iuf":
        raise IndexError(f"an index array must contain integers, got dtype {array.dtype}")
    _check_bounds(array, size, axis)
    return array.astype(np.int32 if size < 2**31 else np.int64)


def _check_bounds(indices: np.ndarray, size: int, axis: int) -> None:
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < -size or high >= size:
            raise IndexError(f"index {low if low < -size else high} is out of bounds for axis {axis} with size {size}")


def _subscript(items: tuple, arrays: tuple) -> tuple:
    remaining = iter(arrays)
    return tuple(slice(*i) if isinstance(i, tuple) else _integers(next(remaining)) if i == "array" else i
                 for i in items)


def _gathered(data: Array | np.ndarray, items: tuple, arrays: tuple) -> Any:
    """Returns the elements at index arrays."""
    kept, new = _beside_arrays(items)
    result = data[_subscript(kept, arrays)]
    if kept is items:
        return result
    return np.expand_dims(result, tuple(new)) if isinstance(result, np.ndarray) else jnp.expand_dims(result, new)


def _beside_arrays(items: tuple) -> tuple[tuple, list[int]]:
    """Returns the index arrays, and the positions of new axes in the key without them.

    For adjacent index arrays, MXNet indexes without the new axes and inserts them there: `x[rows, None]` has the shape
    (1, rows, ...). An assigned value may have them or not.
    """
    new = [n for n, item in enumerate([item for item in items if item != "array"]) if item is None]
    places = [n for n, item in enumerate(items) if item == "array"]
    if not new or True in items or False in items:
        return items, []
    apart = places[-1] - places[0] >= len(places)
    return items if apart else tuple([item for item in items if item is not None]), new


def _integers(array: Array) -> Any:
    return array if jnp.issubdtype(array.dtype, jnp.integer) else array.astype(jnp.int32)


def _slice(begin: tuple, end: tuple, step: tuple = ()) -> tuple[str, dict]:
    return "slice", {"begin": begin, "end": end, "step": step}


@bounded_cache(4096)
def view_kernel(shape: tuple[int, ...]) -> Kernel:
    """Returns fn(array, element offset) -> the elements of `shape` from there on, in memory order."""
    count = math.prod(shape)

    def fn(data: Array, offset: Array) -> tuple:
        if data.size == count:
            return (data.reshape(shape),)
        return (lax.dynamic_slice(data.reshape(-1), (offset,), (count,)).reshape(shape),)

    def moves(data: np.ndarray, offset: np.ndarray | int) -> np.ndarray:
        return data.reshape(-1)[int(offset):int(offset) + count].reshape(shape)

    def back(head: np.ndarray, source: tuple[int, ...], offset: np.ndarray | int) -> np.ndarray:
        grad = np.zeros(math.prod(source), head.dtype)
        grad[int(offset):int(offset) + count] = head.ravel()
        return grad.reshape(source)

    def operators(offset: Any) -> list[tuple[str, dict[str, Any]]]:
        return [("reshape", {"shape": (-1,)}), _slice((int(offset),), (int(offset) + count,)),
                ("reshape", {"shape": shape})]
    return Kernel("view", fn, 1, 1, form=FunctionForm(moves, back), options={"any_size": True}, operators=operators)


@bounded_cache(4096)
def write_view_kernel(shape: tuple[int, ...]) -> Kernel:
    """Returns fn(array, value, element offset) -> the array with the elements of `shape` replaced from there on."""
    count = math.prod(shape)

    def fn(data: Array, value: Array, offset: Array) -> tuple:
        value = jnp.broadcast_to(value, shape).astype(data.dtype).reshape(-1)
        if data.size == value.size:
            return (value.reshape(data.shape),)
        return (lax.dynamic_update_slice(data.reshape(-1), value, (offset,)).reshape(data.shape),)

    def writes(data: np.ndarray, value: np.ndarray, offset: np.ndarray | int) -> np.ndarray:
        result = data.copy()
        result.reshape(-1)[int(offset):int(offset) + count].reshape(shape)[...] = _fitting(value, data.dtype, shape)
        return result
    return Kernel("view assignment", fn, 2, 1, form=FunctionForm(writes, copies=True), options={"any_size": True})


@bounded_cache(4096)
def read_kernel(selection: str, shape: tuple[int, ...], sizes: tuple[int, ...], items: tuple, count: int) -> Kernel:
    """Returns fn(array, *index arrays, *starts) -> the selected elements."""
    def fn(data: Array, *rest: Array) -> tuple:
        if selection == "box":
            return (lax.dynamic_slice(data, rest, sizes).reshape(shape),)
        if selection == "strided":
            return (data[_subscript(items, rest)].reshape(shape),)
        return (_gathered(data, items, rest),)

    def moves(data: np.ndarray, *rest: np.ndarray | int) -> np.ndarray:
        if selection == "gather":
            _need_inside(items, rest, data.shape)
            return _gathered(data, items, rest)
        return data[_place(selection, sizes, items, rest)].reshape(shape)

    def back(head: np.ndarray, source: tuple[int, ...], *rest: np.ndarray | int) -> np.ndarray:
        size = math.prod(source)
        if selection == "gather":
            need(size <= _FEW and head.dtype.kind == "f" and head.size)
            places = moves(np.arange(size).reshape(source), *rest)
            return np.bincount(places.ravel(), head.ravel(), size).reshape(source).astype(head.dtype)
        grad = np.zeros(source, head.dtype)
        part = grad[_place(selection, sizes, items, rest)]  # a view
        part[...] = head.reshape(part.shape)
        return grad

    def box(*starts: Array) -> list:
        begin = tuple(map(int, starts))
        return [_slice(begin, tuple(b + n for b, n in zip(begin, sizes, strict=True))), ("reshape", {"shape": shape})]

    def strided() -> list:
        parts = [i if isinstance(i, tuple) else (i, i + 1, 1) for i in items if i is not None]
        return [_slice(*zip(*parts, strict=True)), ("reshape", {"shape": shape})]
    return Kernel("indexing", fn, 1 + count, 1, form=FunctionForm(moves, back),
                  options={"any_size": selection == "gather"},
                  operators={"box": box, "strided": strided}.get(selection))


_FEW = 1 << 20  # elements up to which the gradient at index arrays uses the positions of all elements


def _place(selection: str, sizes: tuple[int, ...], items: tuple, rest: Sequence[Any]) -> tuple:
    """Returns the NumPy key for `rest`: index arrays or, for a box, its starts."""
    if selection == "box":
        return tuple([slice(int(b), int(b) + n) for b, n in zip(rest, sizes, strict=True)])
    return _subscript(items, tuple(map(np.asarray, rest)))


def _need_inside(items: tuple, arrays: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Leaves index arrays that are out of range and were computed in the same program to XLA."""
    remaining = iter(arrays)
    for item, size in zip([i for i in items if i is not None and not isinstance(i, bool)], shape, strict=False):
        array = np.asarray(next(remaining)) if item == "array" else np.zeros(0)
        need(not array.size or array.min() >= -size and array.max() < size)


@bounded_cache(4096)
def write_kernel(selection: str, shape: tuple[int, ...], sizes: tuple[int, ...], items: tuple, count: int) -> Kernel:
    """Returns fn(array, value, *index arrays, *starts) -> the array with the selected elements replaced."""
    def aligned(value: Array | np.ndarray, target: tuple[int, ...]) -> Any:
        """Returns the value in the shape `made` of the selected elements, without the new axes that indexing omits."""
        kept, new = _beside_arrays(items) if selection == "gather" else (items, ())
        seen = target
        if kept is items and new:  # the axes of the index arrays come first
            new = [axis + len(target) - len(items) + items.count("array") for axis in new]
            seen = tuple([n for axis, n in enumerate(target) if axis not in new])
        if value.ndim == len(seen) + len(new) and all(value.shape[axis] == 1 for axis in new):
            value = value.squeeze(tuple(new))
        return _fitted(value, seen).reshape(target)

    def fn(data: Array, value: Array, *rest: Array) -> tuple:
        value = jnp.asarray(value).astype(data.dtype)
        if selection == "box":
            return (lax.dynamic_update_slice(data, _fitted(value, shape).reshape(sizes), rest),)
        where = data.at[_subscript(kept_items(), rest)]
        return (where.set(aligned(value, where.get().shape)),)

    def kept_items() -> tuple:
        return _beside_arrays(items)[0] if selection == "gather" else items

    def writes(data: np.ndarray, value: np.ndarray, *rest: np.ndarray | int) -> np.ndarray:
        result, value = data.copy(), to_dtype(value, data.dtype)
        if selection == "gather":
            _need_inside(items, rest, data.shape)
        place = _place(selection, sizes, kept_items(), rest)
        part = result[place]
        result[place] = _fitted(value, shape).reshape(sizes) if selection == "box" else aligned(value, part.shape)
        return result
    return Kernel("index assignment", fn, 2 + count, 1, form=FunctionForm(writes, copies=True))


@bounded_cache(1024)
def fill_kernel(shape: tuple[int, ...], dtype: str) -> Kernel:
    """Returns fn(value) -> an array of this shape and dtype filled with it."""
    def fn(value: Array) -> tuple:
        return (_fitted(jnp.asarray(value).astype(dtype), shape),)
    return Kernel("assignment", fn, 1, 1, form=FunctionForm(lambda value: _fitting(value, np_dtype(dtype), shape)))


def _fitting(value: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a NumPy value in a dtype and shape; leaves invalid ones to XLA."""
    return _fitted(to_dtype(value, dtype), shape)


def _fitted(value: Any, shape: tuple[int, ...]) -> Any:
    """Returns `value` broadcast to `shape`; additional leading axes of size 1 are dropped, as in NumPy."""
    if value.ndim > len(shape) and value.shape[:value.ndim - len(shape)] == (1,) * (value.ndim - len(shape)):
        value = value.reshape(value.shape[value.ndim - len(shape):])
    if len(value.shape) > len(shape) or any(
            n not in (1, size) for n, size in zip(value.shape[::-1], shape[::-1], strict=False)):
        raise WrongShape(f"operator index assignment: cannot assign an array of shape {tuple(value.shape)} to a "
                         f"selection of shape {tuple(shape)}")
    return np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else jnp.broadcast_to(value, shape)
