"""Division rounded as in IEEE 754: XLA would multiply with the reciprocal of a constant or broadcast divisor.

That makes 41 / 41 less than 1, and its floor 0. XLA would also merge two divisions. XLA does not recognize that max(y,
min(x, y)) is y, so a division by this expression is unchanged (docs/design/0020).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .._xla.tracing import aval_of
from .._xla.x64 import x64_mode
from .rewriting import each_equation

__all__ = ["is_quotient", "with_quotients"]


@functools.partial(jax.jit, static_argnames=("apart", "on_cpu"))
def _exact_quotient(x: jax.Array, y: jax.Array, apart: bool = False, on_cpu: bool = False) -> jax.Array:
    if apart:
        y = lax.optimization_barrier(y)

    def plain(x: jax.Array, y: jax.Array) -> jax.Array:
        x, y = jnp.broadcast_arrays(x, y)
        least = lax.min(x, y)
        return lax.div(lax.max(x, least), lax.max(y, least))  # if either is NaN, so is the quotient
    if on_cpu or x.dtype != jnp.float32:
        return plain(x, y)
    return lax.platform_dependent(x, y, cuda=by_doubles, default=plain)


def by_doubles(x: jax.Array, y: jax.Array) -> jax.Array:
    """XLA divides floats with errors of up to two units on GPUs (`div.full.f32`); it does not with doubles.

    A quotient of floats is a float, or at least 2^-49 (relative) from the point where rounding changes, and this result
    is within 2^-51 of the quotient. LLVM would convert a single division of doubles to one of floats.
    """
    with x64_mode(True):
        return (x.astype(jnp.float64) * lax.reciprocal(y.astype(jnp.float64))).astype(jnp.float32)


def is_quotient(eqn: JaxprEqn) -> bool:
    """Returns whether an equation calls the function for exact division."""
    name = _exact_quotient.__name__  # pyright: ignore[reportAttributeAccessIssue]  JAX's stubs omit it
    return eqn.params.get("name") == name


def with_quotients(closed: ClosedJaxpr, on_cpu: bool = False) -> ClosedJaxpr:
    """Returns a program in which all divisions of floats are exact, including those in loops and branches.

    On CPUs, broadcast divisors are computed first; XLA would store the sums of rows once per read.
    """
    return each_equation(closed, functools.partial(_exact, on_cpu=on_cpu))


def _exact(eqn: JaxprEqn, on_cpu: bool) -> JaxprEqn | None:
    if is_quotient(eqn):
        return eqn
    if eqn.primitive is not lax.div_p:
        return None
    x, y = [aval_of(v) for v in eqn.invars]
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return eqn
    pairs = list(zip(y.shape, x.shape, strict=False))  # compared one by one: sizes may be symbols
    apart = on_cpu and any(n != 1 for n in y.shape) and any(n == 1 != m for n, m in pairs)
    call = equation_of(x.shape, y.shape, x.dtype, apart, on_cpu)
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


@functools.lru_cache(maxsize=4096)
def equation_of(x: tuple[int, ...], y: tuple[int, ...], dtype: Any, apart: bool, on_cpu: bool) -> JaxprEqn:
    """Returns the equation that calls the exact quotient of arrays of these shapes."""
    call = functools.partial(_exact_quotient, apart=apart, on_cpu=on_cpu)
    with jax.disable_jit(False):  # the only equation that remains is the call, also when a user inspects functions
        return jax.make_jaxpr(call)(jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)).eqns[0]
