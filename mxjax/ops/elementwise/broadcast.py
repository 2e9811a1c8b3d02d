"""Operators that broadcast: of two arrays, and of one array to a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, broadcast, gives, normalized
from ..infer import broadcasted, exact
from ..params import Shape
from ..registry import register
from ._functions import TABLE, Binary


def _broadcast(name: str, function: Binary, doc: str, aliases: tuple[str, ...]) -> None:
    def compute(lhs: Array, rhs: Array) -> Array:
        try:
            shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
        except ValueError:
            raise MXNetError(f"operator {name}: shapes {lhs.shape} and {rhs.shape} cannot be broadcast together; each "
                             "pair of dimensions must match or contain a 1") from None
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
                         "of dimensions must match, and each dimension must match or be 1")
    return broadcast(data, shape)


def to_shape(p: dict[str, Any], x: tuple) -> tuple:
    """The shape in the parameters, where 0 is the array's own dimension (FPartialShape)."""
    return tuple(m or n for n, m in zip(x if len(x) == len(p["shape"]) else p["shape"], p["shape"], strict=True))


def _can_stretch(target: Callable[..., tuple]) -> Callable[..., bool]:
    """Returns a function(params, shapes) -> whether the first shape is broadcast to that of the formula `target`."""
    def fits(p: dict[str, Any], x: tuple, *others: tuple) -> bool:
        shape = target(p, x, *others)
        return len(x) == len(shape) and all(n in (1, m) for n, m in zip(x, shape, strict=True))
    return fits


@register("broadcast_to", FPartialShape=exact(to_shape, _can_stretch(to_shape), partly=False))
def broadcast_to(data: Array, *, shape: Shape = ()) -> Array:
    """Broadcasts the array to `shape`; 0 in `shape` keeps the dimension."""
    kept = data.shape if data.ndim == len(shape) else shape
    return _stretched("broadcast_to", data, tuple(m or n for n, m in zip(kept, shape, strict=True)))


def along_shape(p: dict[str, Any], x: tuple) -> tuple:
    """The shape with other sizes of the axes in the parameters (FPartialShape)."""
    sizes = dict(zip([normalized(a, len(x)) for a in p["axis"]], p["size"], strict=True))
    return tuple(sizes.get(i, n) for i, n in enumerate(x))


@register("broadcast_axis", aliases=("broadcast_axes",), FPartialShape=exact(
    along_shape, lambda p, x: all(x[a] == 1 for a in p["axis"]) and
    len({a % len(x) for a in p["axis"]}) == len(p["axis"]), partly=False))
def broadcast_axis(data: Array, *, axis: Shape = (), size: Shape = ()) -> Array:
    """Broadcasts the given axes, which have size 1, to the given sizes."""
    if len(axis) != len(size):
        raise MXNetError(f"operator broadcast_axis: axis={axis} and size={size} must have the same length")
    shape = list(data.shape)
    for a, n in zip(axis, size, strict=True):
        a = normalized(a, data.ndim)
        if shape[a] != 1:
            raise MXNetError(f"operator broadcast_axis: axis {a} has size {shape[a]}; only an axis of size 1 can be "
                             "broadcast")
        shape[a] = n
    return broadcast(data, tuple(shape))


def like_shape(p: dict[str, Any], x: tuple, like: tuple) -> tuple:
    """The shape of the second array, or with its sizes of some axes (FPartialShape)."""
    if p["lhs_axes"] is None or p["rhs_axes"] is None:
        return like
    sizes = {normalized(a, len(x)): like[normalized(b, len(like))]
             for a, b in zip(p["lhs_axes"], p["rhs_axes"], strict=True)}
    return tuple(sizes.get(i, n) for i, n in enumerate(x))


@register("broadcast_like", infer_type=gives(lambda p: None), FPartialShape=exact(
    like_shape, lambda p, *shapes: p["lhs_axes"] != () and _can_stretch(like_shape)(p, *shapes), partly=False))
def broadcast_like(lhs: Array, rhs: Array, *, lhs_axes: Shape | None = None, rhs_axes: Shape | None = None) -> Array:
    """Broadcasts lhs to the shape of rhs; with `lhs_axes` and `rhs_axes` only these axes, pair by pair."""
    shape = rhs.shape
    if lhs_axes is not None and rhs_axes is not None:
        if not lhs_axes or len(lhs_axes) != len(rhs_axes):
            raise MXNetError(f"operator broadcast_like: lhs_axes={lhs_axes} and rhs_axes={rhs_axes} must have the same "
                             "length, which must be at least 1")
        target = list(lhs.shape)
        for a, b in zip(lhs_axes, rhs_axes, strict=True):
            target[normalized(a, lhs.ndim)] = shape[normalized(b, rhs.ndim)]
        shape = tuple(target)
    return _stretched("broadcast_like", lhs, shape)
