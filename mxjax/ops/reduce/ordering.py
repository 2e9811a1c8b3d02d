"""Sorting and the largest values."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..common import Array, is_float, normalized, size_of
from ..params import DType, np_dtype
from ..registry import register
from ._order import order

_PART = 8  # of fewer than this part of the values, choosing the largest is faster than sorting all


def _last(data: Array, axis: int | None) -> tuple[Array, int]:
    """The data with the axis moved to the end, and its place before; without an axis the flattened data."""
    if axis is None:
        return data.ravel(), 0
    axis = normalized(axis, data.ndim)
    return jnp.moveaxis(data, axis, -1), axis


@register("sort", aliases=("_npi_sort",), output_names=lambda p: ["output0"])
def sort(data: Array, *, axis: int | None = -1, is_ascend: bool = True) -> Array:
    """The values in order along an axis, or all of them with axis=None."""
    last, axis = _last(data, axis)
    return jnp.moveaxis(jnp.take_along_axis(last, order(last, not is_ascend), -1), -1, axis)


@register("argsort", aliases=("_npi_argsort",))
def argsort(data: Array, *, axis: int | None = -1, is_ascend: bool = True, dtype: DType = "float32") -> Array:
    """The positions that sort the data along an axis; equal values keep their order."""
    last, axis = _last(data, axis)
    return jnp.moveaxis(order(last, not is_ascend), -1, axis).astype(np_dtype(dtype))


def _first(data: Array, count: int, ascending: bool) -> Array:
    """Positions of the largest (smallest) values of the last axis."""
    key = lax.stop_gradient(data)
    if ascending and is_float(key.dtype):
        key = jnp.where(jnp.isnan(key), -jnp.inf, -key)  # NaN counts as the largest, as in `order`
    elif ascending:
        key = ~key  # reverses the order of integers without overflow
    return lax.top_k(key, count)[1]


def _topk_types(params: dict[str, Any], ins: list, outs: list) -> None:
    indices = params["dtype"]
    wanted = {"indices": [indices], "mask": [ins[0]]}.get(params["ret_typ"], [ins[0], indices])
    outs[:] = [known or t for known, t in zip(outs, wanted, strict=True)]


@register("topk", aliases=("_npx_topk",), infer_type=_topk_types,
          num_outputs=lambda p: 2 if p["ret_typ"] in ("value", "both") else 1,
          num_visible=lambda p: 2 if p["ret_typ"] == "both" else 1)
def topk(data: Array, *, axis: int | None = -1, k: int = 1,
         ret_typ: Literal["both", "indices", "mask", "value"] = "indices", is_ascend: bool = False,
         dtype: DType = "float32") -> Any:
    """The k largest (smallest with `is_ascend`) values along an axis, in order.

    ret_typ: what is returned: their values, their positions (in `dtype`), both, or a mask with ones at the positions.
    k < 1 means all; with axis=None the array is flattened; of equal values the first ones are taken.
    """
    last, along = _last(data, axis)
    size = last.shape[-1]
    count = size if k < 1 else k
    if count > size:
        raise MXNetError(f"operator topk: k={k} is larger than the axis of size {size}")
    index = order(last, not is_ascend)[..., :count] if count * _PART > size else _first(last, count, is_ascend)
    if ret_typ == "mask":
        rows = jnp.zeros((size_of(last.shape[:-1]), size), data.dtype)
        rows = rows.at[jnp.arange(rows.shape[0])[:, None], index.reshape(-1, count)].set(1)
        return jnp.moveaxis(rows.reshape(last.shape), -1, along).reshape(data.shape)
    positions = jnp.moveaxis(index, -1, along).astype(np_dtype(dtype))
    if ret_typ == "indices":
        return positions
    return jnp.moveaxis(jnp.take_along_axis(last, index, -1), -1, along), positions
