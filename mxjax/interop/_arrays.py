"""Conversions between NDArrays and JAX arrays without copies."""

from __future__ import annotations

from typing import Any

import jax

from ..context import Context
from ..ndarray import NDArray
from ..ndarray import from_jax as _from_jax

__all__ = ["from_jax", "params_from_jax", "params_to_jax", "to_jax_array"]


def to_jax_array(array: NDArray) -> jax.Array:
    """Returns the value of an NDArray as a `jax.Array` without a copy; later writes to the NDArray do not change it."""
    return array.to_jax()


def from_jax(value: jax.Array, ctx: Context | None = None) -> NDArray:
    """Converts a `jax.Array` (or tracer) to an NDArray without a copy.

    Args:
        value: the array.
        ctx: context that the NDArray reports; by default that of the array.
    """
    return _from_jax(value, ctx)


def params_to_jax(params: dict[str, NDArray]) -> dict[str, jax.Array]:
    """Converts a dictionary of NDArrays (from `mx.nd.load` or `Module.get_params`) to one of `jax.Array`s."""
    return {name: value.to_jax() for name, value in params.items()}


def params_from_jax(params: dict[str, Any]) -> dict[str, NDArray]:
    """The reverse of `params_to_jax`."""
    return {name: _from_jax(value) for name, value in params.items()}
