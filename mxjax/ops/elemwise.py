"""Element-wise operators: of one array, of two, with a scalar, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.special as special

from ._common import Array, in_float
from .infer import elementwise
from .params import Scalar
from .registry import register


def _unary(name: str, function: Callable[[Array], Array], doc: str, *aliases: str, **attrs: object) -> None:
    """Registers `name`: one array in, one of the same shape and dtype out."""
    def compute(data: Array) -> Array:
        return in_float(function, data)
    compute.__doc__ = f"{doc}, element by element.  data: any shape and dtype -> the same."
    register(name, aliases=aliases, infer_shape=elementwise, **attrs)(compute)


for _name, _function, _doc in [
        ("sqrt", jnp.sqrt, "Square root"), ("exp", jnp.exp, "Exponential"), ("sin", jnp.sin, "Sine"),
        ("erf", special.erf, "Error function"), ("sigmoid", jax.nn.sigmoid, "1 / (1 + exp(-x))")]:
    _unary(_name, _function, _doc)


@register("_plus_scalar", aliases=("_PlusScalar",), infer_shape=elementwise)
def plus_scalar(data: Array, *, scalar: Scalar = 1.0, is_int: bool = True) -> Array:
    """data + scalar in the dtype of data."""
    return data + jnp.asarray(scalar).astype(data.dtype)
