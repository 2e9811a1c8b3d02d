"""Sorting and the largest values."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, is_float, normalized, size_of
from ..infer import exact
from ..params import DType, np_dtype
from ..registry import register
from ._order import keys, order
from ._ties import LONGEST_STABLE
from ._unstable import unstable

_PART = 8  # of up to this part of the values the first ones are chosen, of more all are sorted


def _last(data: Array, axis: int | None) -> tuple[Array, int]:
    """The data with the axis moved to the end, and its place before; without an axis the flattened data."""
    if axis is None:
        return data.ravel(), 0
    axis = normalized(axis, data.ndim)
    return jnp.moveaxis(data, axis, -1), axis


def _stable(data: Array, count: int, ascending: bool) -> Array:
    """Positions of the first `count` values in order along the last axis; equal values keep their order."""
    if count * _PART > data.shape[-1]:
        return order(data, not ascending)[..., :count]
    key = lax.stop_gradient(data)
    if ascending and is_float(key.dtype):
        key = jnp.where(jnp.isnan(key), -jnp.inf, -key)  # NaN counts as the largest, as in `order`
    elif ascending:
        key = ~key  # reverses the order of integers without overflow
    return lax.optimization_barrier(lax.top_k(key, count)[1])  # XLA sorts everything where it sees several parts of it


def _positions(data: Array, count: int, ascending: bool) -> tuple[Array, Array]:
    """Positions of the first `count` values in order along the last axis, twice.

    In the first equal values keep their order, which is enough for the values. The second are MXNet's, which on CPUs
    brings equal values into another order.
    """
    data, size = lax.stop_gradient(data), data.shape[-1]
    whole = count * _PART > size
    if count <= 1 or whole and size <= LONGEST_STABLE:
        result = _stable(data, count, ascending)
        return result, result

    def on_cpus(data: Array, stable: Array) -> Array:
        values = jnp.take_along_axis(data, stable, -1)
        tied = (values[..., 1:] == values[..., :-1]).any()
        return lax.cond(tied, lambda data: unstable(keys(data, not ascending), count, whole),
                        lambda _: stable[..., :count], data)
    more = _stable(data, min(count + 1, size), ascending)  # the last one may be tied with the next
    stable = more[..., :count]
    return stable, by_device(data, more, default=lambda data, more: more[..., :count], cpu=on_cpus)


@jax.custom_jvp
def _taken(data: Array, stable: Array, positions: Array) -> Array:
    """The values of the last axis at the positions, where their gradients go; the other order of equals is faster."""
    return jnp.take_along_axis(data, stable, -1)


@_taken.defjvp
def _taken_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    return _taken(*primals), jnp.take_along_axis(tangents[0], primals[2], -1)


def _same_or_flat(p: dict[str, Any], x: tuple) -> tuple:
    """The shape of the data, or without an axis that of the flattened data (FPartialShape)."""
    return (size_of(x),) if p["axis"] is None else x


def _has_axis(p: dict[str, Any], x: tuple) -> bool:
    return p["axis"] is None or -len(x) <= p["axis"] < len(x)


@register("sort", aliases=("_npi_sort",), output_names=lambda p: ["output0"],
          FPartialShape=exact(_same_or_flat, _has_axis, partly=False))
def sort(data: Array, *, axis: int | None = -1, is_ascend: bool = True) -> Array:
    """Sorts the values along an axis, or all of them with axis=None."""
    last, axis = _last(data, axis)
    return jnp.moveaxis(_taken(last, *_positions(last, last.shape[-1], is_ascend)), -1, axis)


@register("argsort", aliases=("_npi_argsort",), FPartialShape=exact(_same_or_flat, _has_axis, partly=False))
def argsort(data: Array, *, axis: int | None = -1, is_ascend: bool = True, dtype: DType = "float32") -> Array:
    """The indices that sort the data along an axis; with more than 16 values, the sort may not be stable."""
    last, axis = _last(data, axis)
    return jnp.moveaxis(_positions(last, last.shape[-1], is_ascend)[1], -1, axis).astype(np_dtype(dtype))


def _topk_types(params: dict[str, Any], ins: list, outs: list) -> None:
    indices = params["dtype"]
    wanted = {"indices": [indices], "mask": [ins[0]]}.get(params["ret_typ"], [ins[0], indices])
    outs[:] = [known or t for known, t in zip(outs, wanted, strict=True)]


def _chosen_shapes(p: dict[str, Any], x: tuple) -> list[tuple]:
    """The shapes of the outputs of `topk` (FPartialShape)."""
    if p["ret_typ"] == "mask":
        return [x]
    whole = _same_or_flat(p, x)
    axis = normalized(-1 if p["axis"] is None else p["axis"], len(whole))
    shape = (*whole[:axis], p["k"] if p["k"] > 0 else whole[axis], *whole[axis + 1:])
    return [shape] if p["ret_typ"] == "indices" else [shape, shape]


@register("topk", aliases=("_npx_topk",), infer_type=_topk_types, FPartialShape=exact(
    _chosen_shapes, lambda p, x: _has_axis(p, x) and p["k"] <= (size_of(x) if p["axis"] is None else x[p["axis"]]),
    partly=False),
          num_outputs=lambda p: 2 if p["ret_typ"] in ("value", "both") else 1,
          num_visible=lambda p: 2 if p["ret_typ"] == "both" else 1)
def topk(data: Array, *, axis: int | None = -1, k: int = 1,
         ret_typ: Literal["both", "indices", "mask", "value"] = "indices", is_ascend: bool = False,
         dtype: DType = "float32") -> Any:
    """The k largest (smallest with `is_ascend`) values along an axis, in order.

    ret_typ: the kind of result: the values, their indices (in `dtype`), both, or a mask with ones at the indices.
    k < 1 means all; with axis=None the array is flattened. The choice and order of equal values is that of MXNet: on
    CPUs, that of its C++ library's sorts.
    """
    last, along = _last(data, axis)
    size = last.shape[-1]
    count = size if k < 1 else k
    if count > size:
        raise MXNetError(f"operator topk: k={k} is larger than the axis of size {size}")
    stable, index = _positions(last, count, is_ascend)
    if ret_typ == "mask":
        rows = jnp.zeros((size_of(last.shape[:-1]), size), data.dtype)
        rows = rows.at[jnp.arange(rows.shape[0])[:, None], index.reshape(-1, count)].set(1)
        return jnp.moveaxis(rows.reshape(last.shape), -1, along).reshape(data.shape)
    positions = jnp.moveaxis(index, -1, along).astype(np_dtype(dtype))
    if ret_typ == "indices":
        return positions
    return jnp.moveaxis(_taken(last, stable, index), -1, along), positions
