"""The order of equal values on CPUs, MXNet's: found by the host, or by loops of a program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ..common import Array
from ._order import order
from ._ties import introsort, partial_sort
from ._ties_by_numpy import positions

__all__ = ["unstable"]

_unstable_p = Primitive("mxnet_order")


def unstable(keys: Array, count: int, whole: bool) -> Array:
    """Positions (int32) of the `count` smallest keys (int32) of the last axis, in MXNet's order.

    Programs for one CPU call the host, which is about thirty times as fast as XLA's loops and needs no compilation.
    Programs for files and for several devices have the loops.

    whole: they come from a sort of all keys.
    """
    return _unstable_p.bind(keys, count=count, whole=whole)


def by_loops(keys: Array, count: int, whole: bool) -> Array:
    """Returns the places as loops in XLA find them, with the same order of equal keys as the host's sort."""
    if not whole:
        return partial_sort(keys, count)
    moved = introsort(keys)
    return jnp.take_along_axis(moved, order(jnp.take_along_axis(keys, moved, -1)), -1)[..., :count]


@_unstable_p.def_abstract_eval
def _shape(keys: Any, *, count: int, whole: bool) -> ShapedArray:
    return ShapedArray((*keys.shape[:-1], count), jnp.dtype("int32"))


@_unstable_p.def_impl
def _at_once(keys: Array, *, count: int, whole: bool) -> Array:
    return jnp.asarray(positions(keys, count, whole))


def _batched(args: Any, axes: Any, **params: Any) -> tuple[Array, int]:
    return _unstable_p.bind(jnp.moveaxis(args[0], axes[0], 0), **params), 0


def _lowered(ctx: Any, keys: Any, *, count: int, whole: bool) -> Any:
    """Not `jax.pure_callback`: it copies large arrays by threads of XLA's, which may all wait for such a copy."""
    module, call = ctx.module_context, getattr(mlir, "emit_python_callback", None)
    alone = tuple(module.platforms) == ("cpu",) and getattr(module.axis_context, "num_devices", 0) == 1
    if call is None or not alone or module.lowering_parameters.for_export:
        return mlir.lower_fun(lambda keys: by_loops(keys, count, whole), multiple_results=False)(ctx, keys)
    return call(ctx, lambda keys: (positions(keys, count, whole),), None, [keys], ctx.avals_in, ctx.avals_out,
                has_side_effect=False, returns_token=False)[0]


batching.primitive_batchers[_unstable_p] = _batched
mlir.register_lowering(_unstable_p, _lowered)
