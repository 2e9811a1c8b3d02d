"""The element functions behind the binary operators: one table for arrays, broadcasting and scalars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ..common import Array, in_float, is_float

Binary = Callable[[Array, Array], Array]


def _div(a: Array, b: Array) -> Array:
    """a / b; integers are divided as in C, towards zero."""
    return a / b if is_float(a.dtype) else lax.div(*jnp.broadcast_arrays(a, b))


@jax.custom_jvp
def _mod(a: Array, b: Array) -> Array:
    """The remainder with the sign of b; zero where b is zero. Its slopes are 1 and -floor(a / b) there too."""
    zero = b == 0
    return jnp.where(zero, 0, jnp.mod(a, jnp.where(zero, 1, b)))


_mod.defjvps(lambda da, out, a, b: jnp.broadcast_to(da, out.shape), lambda db, out, a, b: -jnp.floor(a / b) * db)


_float_power = jax.custom_jvp(jnp.power)


@partial(_float_power.defjvp, symbolic_zeros=True)
def _power_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """By MXNet's formulas, which have no value where 0 is raised to 0 or log(a) does not exist."""
    (a, b), (da, db) = primals, tangents
    out = _float_power(a, b)
    slopes = [(da, lambda: b * _float_power(a, b - 1)), (db, lambda: out * jnp.log(a))]
    terms = [d * slope() for d, slope in slopes if not isinstance(d, SymbolicZero)]
    return out, cast(Array, sum(terms)) if terms else jnp.zeros_like(out)


def _power(a: Array, b: Array) -> Array:
    return in_float(_float_power, a, b)


# where both are equal, the first takes the whole gradient; beside NaN there is none
_maximum = jax.custom_jvp(jnp.maximum)
_maximum.defjvps(lambda da, out, a, b: da * (a >= b), lambda db, out, a, b: db * (a < b))
_minimum = jax.custom_jvp(jnp.minimum)
_minimum.defjvps(lambda da, out, a, b: da * (a <= b), lambda db, out, a, b: db * (a > b))


# MXNet's gradient a / hypot(a, b) has no value where both are zero
_float_hypot = jax.custom_jvp(jnp.hypot)
_float_hypot.defjvps(lambda da, out, a, b: da * a / out, lambda db, out, a, b: db * b / out)


def _hypot(a: Array, b: Array) -> Array:
    return in_float(_float_hypot, a, b)


# name: (function, documentation)
TABLE: dict[str, tuple[Binary, str]] = {
    "add": (jnp.add, "a + b"),
    "sub": (jnp.subtract, "a - b"),
    "mul": (jnp.multiply, "a · b"),
    "div": (_div, "a / b (integers: towards zero)"),
    "mod": (_mod, "Remainder of a / b with the sign of b (zero where b is zero)"),
    "power": (_power, "a to the power of b"),
    "maximum": (_maximum, "The larger of a and b"),
    "minimum": (_minimum, "The smaller of a and b"),
    "hypot": (_hypot, "sqrt(a² + b²) without overflow"),
    "equal": (jnp.equal, "1 where a = b, else 0"),
    "not_equal": (jnp.not_equal, "1 where a ≠ b, else 0"),
    "greater": (jnp.greater, "1 where a > b, else 0"),
    "greater_equal": (jnp.greater_equal, "1 where a ≥ b, else 0"),
    "lesser": (jnp.less, "1 where a < b, else 0"),
    "lesser_equal": (jnp.less_equal, "1 where a ≤ b, else 0"),
    "logical_and": (jnp.logical_and, "1 where a and b are nonzero, else 0"),
    "logical_or": (jnp.logical_or, "1 where a or b is nonzero, else 0"),
    "logical_xor": (jnp.logical_xor, "1 where exactly one of a and b is nonzero, else 0"),
}
