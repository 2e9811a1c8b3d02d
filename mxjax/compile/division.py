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
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["is_quotient", "with_quotients"]

_NOT_ENTERED = ("pallas_call", "custom_partitioning")  # programs of another kind


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
    jaxpr = _divided(closed.jaxpr)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _divided(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [_equation(eqn) for eqn in jaxpr.eqns]
    same = all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _equation(eqn: JaxprEqn) -> JaxprEqn:
    if eqn.primitive is lax.div_p:
        x, y = [v.aval for v in eqn.invars]
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return eqn
        call = _call(x.shape, y.shape, x.dtype)
        return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)
    if eqn.primitive.name in _NOT_ENTERED or is_quotient(eqn):
        return eqn
    params = {key: _inner(value) for key, value in eqn.params.items()}
    same = all(params[key] is value for key, value in eqn.params.items())
    return eqn if same else eqn.replace(params=params)


def _inner(value: Any) -> Any:
    """A parameter of an equation, with the programs that it holds rewritten."""
    if isinstance(value, ClosedJaxpr):
        return with_quotients(value)
    if isinstance(value, Jaxpr):
        return _divided(value)
    if type(value) is tuple and any(isinstance(v, ClosedJaxpr) for v in value):  # branches
        new = tuple([_inner(v) for v in value])
        return value if all(n is v for n, v in zip(new, value, strict=True)) else new
    return value


@functools.lru_cache(maxsize=4096)
def _call(x: tuple[int, ...], y: tuple[int, ...], dtype: Any) -> JaxprEqn:
    return jax.make_jaxpr(_exact_quotient)(jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)).eqns[0]
