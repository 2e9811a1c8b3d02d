"""Quotients as IEEE 754 rounds them: XLA would multiply with the reciprocal of what is constant or broadcast.

That makes 41 / 41 less than 1, and its floor 0; and of two divisions it would make one. XLA does not see that
max(y, min(x, y)) is y, so a division by that stays what it is (docs/design/0020).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .rewriting import each_equation

__all__ = ["is_quotient", "with_quotients"]


@jax.jit
def _exact_quotient(x: jax.Array, y: jax.Array) -> jax.Array:
    x, y = jnp.broadcast_arrays(x, y)
    least = lax.min(x, y)
    return lax.div(lax.max(x, least), lax.max(y, least))  # where either is NaN, so is the quotient


def is_quotient(eqn: JaxprEqn) -> bool:
    """Whether an equation calls the function that divides exactly."""
    return eqn.params.get("name") == _exact_quotient.__name__


def with_quotients(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program in which all divisions of floats are exact, those in loops and branches among them."""
    return each_equation(closed, _exact)


def _exact(eqn: JaxprEqn) -> JaxprEqn | None:
    if is_quotient(eqn):
        return eqn
    if eqn.primitive is not lax.div_p:
        return None
    x, y = [v.aval for v in eqn.invars]
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return eqn
    return _call(x.shape, y.shape, x.dtype).replace(invars=eqn.invars, outvars=eqn.outvars,
                                                    source_info=eqn.source_info)


@functools.lru_cache(maxsize=4096)
def _call(x: tuple[int, ...], y: tuple[int, ...], dtype: Any) -> JaxprEqn:
    return jax.make_jaxpr(_exact_quotient)(jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)).eqns[0]
