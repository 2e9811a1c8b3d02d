"""Operators that broadcast: of two arrays, and of one array to a shape."""

from __future__ import annotations

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, broadcast, gives, normalized
from ..infer import broadcasted
from ..params import Shape
from ..registry import register
from ._functions import TABLE, Binary


def _broadcast(name: str, function: Binary, doc: str, aliases: tuple[str, ...]) -> None:
    def compute(lhs: Array, rhs: Array) -> Array:
        try:
            shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
        except ValueError:
            raise MXNetError(f"operator {name}: shapes {lhs.shape} and {rhs.shape} cannot be broadcast together; "
                             "each pair of dimensions must agree or contain a 1") from None
        return function(broadcast(lhs, shape), broadcast(rhs, shape)).astype(lhs.dtype)
    compute.__doc__ = (f"{doc}, element by element with broadcasting (a: lhs, b: rhs).\n\n"
                       "lhs, rhs: dimensions agree or are 1; one dtype -> the broadcast shape, the same dtype.")
    register(name, aliases=aliases, FPartialShape=broadcasted)(compute)


for _key, *_aliases in [
    ("add", "broadcast_plus", "_sparse_broadcast_add", "_sparse_broadcast_plus"),
    ("sub", "broadcast_minus", "_sparse_broadcast_sub", "_sparse_broadcast_minus"),
    ("mul", "_sparse_broadcast_mul"), ("div", "_sparse_broadcast_div"), ("mod",), ("power",), ("hypot",),
    ("maximum", "_npi_maximum"), ("minimum", "_npi_minimum"),
    ("equal",), ("not_equal",), ("greater",), ("greater_equal",), ("lesser",), ("lesser_equal",),
    ("logical_and",), ("logical_or",), ("logical_xor",),
]:
    _broadcast(f"broadcast_{_key}", *TABLE[_key], tuple(_aliases))


def _stretched(name: str, data: Array, shape: tuple[int, ...]) -> Array:
    """`data` broadcast to a shape of as many dimensions."""
    if data.ndim != len(shape) or any(n not in (1, m) for n, m in zip(data.shape, shape, strict=True)):
        raise MXNetError(f"operator {name}: an array of shape {data.shape} cannot be broadcast to {shape}; the number "
                         "of dimensions must agree, and each dimension must agree or be 1")
    return broadcast(data, shape)


@register("broadcast_to")
def broadcast_to(data: Array, *, shape: Shape = ()) -> Array:
    """Repeats axes of size 1 until the array has this shape; 0 in `shape` keeps the dimension."""
    kept = data.shape if data.ndim == len(shape) else shape
    return _stretched("broadcast_to", data, tuple(m or n for n, m in zip(kept, shape, strict=True)))


@register("broadcast_axis", aliases=("broadcast_axes",))
def broadcast_axis(data: Array, *, axis: Shape = (), size: Shape = ()) -> Array:
    """Repeats the given axes, which have size 1, to the given sizes."""
    if len(axis) != len(size):
        raise MXNetError(f"operator broadcast_axis: axis={axis} and size={size} must have equal lengths")
    shape = list(data.shape)
    for a, n in zip(axis, size, strict=True):
        a = normalized(a, data.ndim)
        if shape[a] != 1:
            raise MXNetError(f"operator broadcast_axis: axis {a} has size {shape[a]}, only size 1 can be repeated")
        shape[a] = n
    return broadcast(data, shape)


@register("broadcast_like", infer_type=gives(lambda p: None))
def broadcast_like(lhs: Array, rhs: Array, *, lhs_axes: Shape | None = None, rhs_axes: Shape | None = None) -> Array:
    """lhs broadcast to the shape of rhs; with `lhs_axes` and `rhs_axes` only these axes, pair by pair."""
    shape = rhs.shape
    if lhs_axes is not None and rhs_axes is not None:
        if not lhs_axes or len(lhs_axes) != len(rhs_axes):
            raise MXNetError(f"operator broadcast_like: lhs_axes={lhs_axes} and rhs_axes={rhs_axes} must have equal "
                             "lengths, at least 1")
        target = list(lhs.shape)
        for a, b in zip(lhs_axes, rhs_axes, strict=True):
            target[normalized(a, lhs.ndim)] = shape[normalized(b, rhs.ndim)]
        shape = tuple(target)
    return _stretched("broadcast_like", lhs, shape)
