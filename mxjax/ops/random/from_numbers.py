"""Random arrays: distributions whose parameters are numbers, integers, shuffling."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array
from ..infer import elementwise, exact, first
from ..params import DType, Shape
from ..registry import register
from ..shape.creation import MADE
from . import _draw, _host_choices, on_host
from ._distributions import DISTRIBUTIONS, MADE_OF, Distribution, declared, float_or, sample, scalars

RANDOM: dict[str, Any] = {"FResourceRequest": ("random",)}


def _types(params: dict[str, Any], ins: list, outs: list) -> None:
    """Returns the requested dtype, else that of the arguments, else float32."""
    outs[:] = [t or params["dtype"] or "float32" for t in outs]


def _checked(name: str, distribution: Distribution) -> Any:
    """FCheck: parameters that do not exist are an error at the first look at the result, as in MXNet."""
    def check(params: dict[str, Any]) -> MXNetError | None:
        given = {n: params[n] for n in distribution.parameters}
        if distribution.fits(**given):
            return None
        return MXNetError(f"operator {name}: the parameters must satisfy {distribution.rule}, got {given}")
    return check


def _register(name: str, distribution: Distribution) -> None:
    def draw(*, shape: Shape | None, ctx: str, dtype: str | None, _key: Array, **numbers: Array) -> Array:
        shape = (1,) if shape is None else shape
        return sample(distribution, _key, shape, float_or(dtype), *(numbers[n] for n in distribution.parameters))

    def draw_like(data: Array, *, _key: Array, **numbers: Array) -> Array:
        if not jnp.issubdtype(data.dtype, jnp.floating):
            raise MXNetError(f"operator _random_{name}_like: data must have a floating-point dtype, got {data.dtype}")
        if isinstance(_key, _draw.Drawn):
            return _key.values
        return sample(distribution, _key, data.shape, data.dtype, *(numbers[n] for n in distribution.parameters))

    numbers, full_name = scalars(distribution), f"_random_{name}"
    declared(draw, (), numbers | MADE_OF, f"Draws samples of the given shape and dtype from {distribution.doc}.")
    declared(draw_like, ("data",), numbers, f"Draws samples with the shape and dtype of data from {distribution.doc}.")
    aliases = (f"random_{name}", name) if name in ("normal", "uniform") else (f"random_{name}",)
    check = _checked(full_name, distribution)
    vector = on_host.VECTORS.get(name)
    of_shape, like = on_host.by_numbers(vector, tuple(distribution.parameters)) if vector else (None, None)
    register(full_name, aliases=aliases, infer_type=_types, FCheck=check, FDraw=of_shape, **MADE, **RANDOM)(draw)
    register(f"{full_name}_like", infer_shape=elementwise, FCheck=check, FDraw=like, **RANDOM)(draw_like)


for _name, _distribution in DISTRIBUTIONS.items():
    _register(_name, _distribution)


def _integer_types(params: dict[str, Any], ins: list, outs: list) -> None:
    outs[:] = [t or params["dtype"] or "int32" for t in outs]


def _check_integers(params: dict[str, Any]) -> MXNetError | None:
    if params["low"] < params["high"]:
        return None
    return MXNetError(f"operator _random_randint: low must be less than high, got {params['low']}, {params['high']}")


@register("_random_randint", aliases=("random_randint", "_npi_random_randint"), infer_type=_integer_types,
          FCheck=_check_integers, FDraw=on_host.integers, **MADE, **RANDOM)
def randint(*, low: int, high: int, shape: Shape | None = None, ctx: str = "", dtype: DType | None = None,
            _key: Any = None) -> Array:
    """Draws integers from low (inclusive) to high (exclusive), int32 or int64."""
    return _draw.integers(_key, (1,) if shape is None else shape, low, high, on_host.integer_dtype(dtype))


@register("_shuffle", aliases=("shuffle", "_npi_shuffle"), infer_shape=elementwise, FDraw=_host_choices.shuffled,
          FPartialShape=exact(first, lambda p, x: len(x) > 0), **RANDOM)
def shuffle(data: Array, *, _key: Any = None) -> Array:
    """Shuffles the rows (elements of the first axis)."""
    if isinstance(_key, _draw.Drawn):
        return data[_key.values]
    return jax.random.permutation(_key, data)
