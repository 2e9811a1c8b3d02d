"""Forms of primitives that move numbers: shapes, slices, gathers, scatters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .program import Array, Aval, need

__all__ = ["PLACES"]


def _reshape(params: dict, ins: list, out: Aval) -> Callable:
    order = params.get("dimensions") if "new_sizes" in params else None
    return lambda x: (x if order is None else x.transpose(order)).reshape(out.shape)


def _column(rank: int, sizes: dict[int, int]) -> list[int]:
    """Returns a shape of ones except for these sizes."""
    return [sizes.get(i, 1) for i in range(rank)]


def _broadcast(params: dict, ins: list, out: Aval) -> Callable:
    column = _column(len(out.shape), dict(zip(params["broadcast_dimensions"], ins[0].shape, strict=True)))
    return lambda x: np.broadcast_to(x.reshape(column), out.shape)


def _iota(params: dict, ins: list, out: Aval) -> Callable:
    size = out.shape[params["dimension"]]
    column = _column(len(out.shape), {params["dimension"]: size})
    return lambda: np.broadcast_to(np.arange(size).astype(out.dtype).reshape(column), out.shape)


def _slice(params: dict, ins: list, out: Aval) -> Callable:
    steps = params["strides"] or (1,) * len(out.shape)
    part = tuple(map(slice, params["start_indices"], params["limit_indices"], steps))
    return lambda x: x[part]


def _pad(params: dict, ins: list, out: Aval) -> Callable:
    whole, into, kept = [], [], []  # sizes before cropping; position of the array; kept part
    for (low, high, between), size in zip(params["padding_config"], ins[0].shape, strict=True):
        spread = size + max(size - 1, 0) * between
        whole.append(spread + max(low, 0) + max(high, 0))
        into.append(slice(max(low, 0), max(low, 0) + spread, between + 1))
        kept.append(slice(max(-low, 0), whole[-1] - max(-high, 0)))

    def pad(x: Array, value: Array) -> Any:
        result = np.full(whole, value, x.dtype)
        result[tuple(into)] = x
        return result[tuple(kept)]
    return pad


def _dynamic_update_slice(params: dict, ins: list, out: Aval) -> Callable:
    def update(x: Array, new: Array, *starts: Array) -> Any:
        x = np.array(x)
        x[_window(x.shape, starts, new.shape)] = new
        return x
    return update


def _window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Returns a window, moved so that it is inside the array."""
    begins = [min(max(int(s), 0), size - part) for s, size, part in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + part) for b, part in zip(begins, sizes, strict=True))


def _windows(shape: Sequence[int], sizes: Sequence[int], rank: int, along: Sequence[int], flat: Sequence[int],
             moved: Sequence[int], shared: dict[int, int]) -> Callable[[Any], tuple[tuple, Any]]:
    """Positions of windows of an array, for gather and scatter.

    Args:
        shape: shape of the array.
        sizes: sizes of the windows.
        rank: number of axes of the gathered values: axes of the windows (`along`) and of the indices.
        flat: axes of the array that windows do not have.
        moved: axes of the array that the last axis of the indices refers to.
        shared: axes of the array that are axes of the indices.

    Returns:
        function of the indices: (an index of the array, a mask of windows inside it), in the order of the values
    """
    batch = [i for i in range(rank) if i not in along]
    windows = iter(along)
    offsets = [np.zeros((), np.int64) if d in flat or d in shared else
               np.arange(size).reshape(_column(rank, {next(windows): size})) for d, size in enumerate(sizes)]

    def places(indices: Array) -> tuple[tuple, Any]:
        result, inside = list(offsets), np.ones((), bool)
        counts = indices.shape[:-1]
        for d, axis in shared.items():
            result[d] = np.arange(shape[d]).reshape(_column(rank, {batch[axis]: shape[d]}))
        for k, d in enumerate(moved):
            start = indices[..., k].astype(np.int64).reshape(_column(rank, dict(zip(batch, counts, strict=True))))
            most = shape[d] - sizes[d]
            inside = inside & (start >= 0) & (start <= most)
            result[d] = result[d] + np.clip(start, 0, most)
        return tuple(result), inside
    return places


def _gather(params: dict, ins: list, out: Aval) -> Callable:
    numbers, shape = params["dimension_numbers"], ins[0].shape
    need(math.prod(shape) > 0)
    places = _windows(shape, params["slice_sizes"], len(out.shape), numbers.offset_dims,
                      numbers.collapsed_slice_dims, numbers.start_index_map,
                      dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)))
    fill, kind = params["fill_value"], out.dtype.kind
    if fill is None:
        fill = np.nan if kind == "f" else True if kind == "b" else \
            np.iinfo(out.dtype).min if kind == "i" else np.iinfo(out.dtype).max
    drops = jax.lax.GatherScatterMode.from_any(params["mode"]) == jax.lax.GatherScatterMode.FILL_OR_DROP

    def gather(x: Array, indices: Array) -> Any:
        index, inside = places(indices)
        result = np.broadcast_to(x[index], out.shape)
        return np.where(inside, result, np.asarray(fill, x.dtype)) if drops and not inside.all() else result
    return gather


def _scattering(combine: Callable[[Any, tuple, Any], None]) -> Callable:
    """Returns the form of a scatter whose function(array, index, new values) changes the array."""
    def make(params: dict, ins: list, out: Aval) -> Callable:
        numbers, shape, new = params["dimension_numbers"], ins[0].shape, ins[2].shape
        need(math.prod(shape) > 0 and math.prod(new) > 0)
        flat = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        windows = iter(numbers.update_window_dims)
        sizes = [1 if d in flat else new[next(windows)] for d in range(len(shape))]
        places = _windows(shape, sizes, len(new), numbers.update_window_dims, numbers.inserted_window_dims,
                          numbers.scatter_dims_to_operand_dims, dict(zip(
                              numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)))
        clips = jax.lax.GatherScatterMode.from_any(params["mode"]) == jax.lax.GatherScatterMode.CLIP

        def scatter(x: Array, indices: Array, updates: Array) -> Any:
            index, inside = places(indices)
            inside = np.broadcast_to(True if clips else inside, new)
            x = np.array(x)
            combine(x, tuple(np.broadcast_to(i, new)[inside] for i in index), updates[inside])
            return x
        return scatter
    return make


def _put(x: Array, index: tuple, new: Array) -> None:
    x[index] = new


PLACES: dict[str, Callable[[dict, list, Any], Callable]] = {
    "reshape": _reshape, "squeeze": _reshape, "expand_dims": _reshape, "broadcast_in_dim": _broadcast, "iota": _iota,
    "slice": _slice, "pad": _pad, "gather": _gather,
    "dynamic_slice": lambda p, ins, out: lambda x, *starts: x[_window(x.shape, starts, out.shape)],
    "dynamic_update_slice": _dynamic_update_slice,
    "dim_as_value": lambda p, ins, out: lambda: np.asarray(p["dim"], out.dtype),
    "transpose": lambda p, ins, out: lambda x: x.transpose(p["permutation"]),
    "rev": lambda p, ins, out: lambda x: np.flip(x, p["dimensions"]),
    "concatenate": lambda p, ins, out: lambda *xs: np.concatenate(xs, p["dimension"]),
    "stack": lambda p, ins, out: lambda *xs: np.stack(xs, p["axis"]),
    "tile": lambda p, ins, out: lambda x: np.tile(x, p["reps"]),
    "split": lambda p, ins, out: lambda x: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"]),
    "unstack": lambda p, ins, out: lambda x: list(np.moveaxis(x, p["axis"], 0)),
    "scatter": _scattering(_put),
    **{f"scatter{sign}{name}": _scattering(ufunc.at) for sign in "-_" for name, ufunc in
       (("add", np.add), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum))},
}
