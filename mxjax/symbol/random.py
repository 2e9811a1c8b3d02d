"""`mx.sym.random`: draws from distributions whose parameters are numbers or symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import level
from .._namespace import attach
from ..base import _Null, _NullType
from ..ops.params import DTypeLike, ShapeLike
from ..ops.random.drawing import draw
from ..ops.registry import Op
from . import _functions
from .symbol import Symbol, apply

__all__ = ["binomial", "categorical", "exponential", "gamma", "generalized_negative_binomial", "multinomial",
           "negative_binomial", "normal", "poisson", "randint", "randn", "shuffle", "uniform"]


def _node(op: Op, inputs: list[Symbol], params: dict[str, Any], out: object = None, ctx: object = None) -> Symbol:
    name, attr = params.pop("name", None), params.pop("attr", None)
    # a symbol among them is left out, as in MXNet
    numbers = {k: v for k, v in params.items() if v is not None and not isinstance(v, Symbol)}
    return apply(op.name, op.name.lower(), inputs, numbers, name, attr)


def _draw(distribution: str, parameters: dict[str, Any], shape: ShapeLike | _NullType, dtype: DTypeLike | _NullType,
          kwargs: dict[str, Any]) -> Symbol:
    kwargs.pop("ctx", None)
    kwargs.pop("out", None)
    if shape is _Null and not any(isinstance(v, Symbol) for v in parameters.values()):
        shape = (1,)
    return draw(distribution, parameters, shape, dtype, None, None, kwargs, _node, Symbol)


def uniform(low: Symbol | float = 0, high: Symbol | float = 1, shape: ShapeLike | _NullType = _Null,
            dtype: DTypeLike | _NullType = _Null, **kwargs: object) -> Symbol:
    """Draws from the uniform distribution on [low, high); arguments as in `mx.nd.random.uniform`."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Symbol | float = 0, scale: Symbol | float = 1, shape: ShapeLike | _NullType = _Null,
           dtype: DTypeLike | _NullType = _Null, **kwargs: object) -> Symbol:
    """Draws from the normal distribution; arguments as in `mx.nd.random.normal`."""
    names = ("mu", "sigma") if isinstance(loc, Symbol) and isinstance(scale, Symbol) else ("loc", "scale")
    return _draw("normal", dict(zip(names, (loc, scale), strict=True)), shape, dtype, kwargs)


def randn(*shape: int, **kwargs: Any) -> Symbol:
    """Draws from the normal distribution, with the shape as arguments; without any, the graph determines the shape."""
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape, **kwargs)


def poisson(lam: Symbol | float = 1, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
            **kwargs: object) -> Symbol:
    """Draws from the Poisson distribution; arguments as in `mx.nd.random.poisson`."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale: Symbol | float = 1, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
                **kwargs: object) -> Symbol:
    """Draws from the exponential distribution; arguments as in `mx.nd.random.exponential`."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(alpha: Symbol | float = 1, beta: Symbol | float = 1, shape: ShapeLike | _NullType = _Null,
          dtype: DTypeLike | _NullType = _Null, **kwargs: object) -> Symbol:
    """Draws from the gamma distribution; arguments as in `mx.nd.random.gamma`."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(k: Symbol | float = 1, p: Symbol | float = 1, shape: ShapeLike | _NullType = _Null,
                      dtype: DTypeLike | _NullType = _Null, **kwargs: object) -> Symbol:
    """Draws from the negative binomial distribution; arguments as in `mx.nd.random.negative_binomial`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(mu: Symbol | float = 1, alpha: Symbol | float = 1,
                                  shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
                                  **kwargs: object) -> Symbol:
    """Draws from the generalized negative binomial distribution; arguments as in `mx.nd.random`."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def randint(low: int, high: int, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
            **kwargs: object) -> Symbol:
    """Draws integers from [low, high); arguments as in `mx.nd.random.randint`."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def _classes(hint: str, data: Symbol, shape: ShapeLike | _NullType, get_prob: bool, dtype: DTypeLike | _NullType,
             kwargs: dict[str, Any]) -> Symbol:
    options = {"shape": shape, "get_prob": get_prob, "dtype": dtype, **kwargs}
    name = options.pop("name", None)
    return apply("_sample_multinomial", hint, [data], {k: v for k, v in options.items() if v is not _Null}, name)


def multinomial(data: Symbol, shape: ShapeLike | _NullType = _Null, get_prob: bool = True,
                dtype: DTypeLike | _NullType = "int32", **kwargs: object) -> Symbol:
    """Draws class numbers; arguments as in `mx.nd.random.multinomial`."""
    return _classes("_sample_multinomial", data, shape, get_prob, dtype, kwargs)


def categorical(data: Symbol, shape: ShapeLike | _NullType = _Null, get_prob: bool = True,
                dtype: DTypeLike | _NullType = "int32", **kwargs: object) -> Symbol:
    """Draws class numbers; arguments as in `mx.nd.random.categorical`."""
    return _classes("_sample_categorical", data, shape, get_prob, dtype, kwargs)


def _multinomial_of_2(n: Any = (1,), p: Any = ((1.0,),), shape: ShapeLike | _NullType = _Null,
                      dtype: DTypeLike | _NullType = "float32", **kwargs: object) -> Symbol:
    """Draws the number of occurrences of each class; arguments as in MXNet 2's `mx.nd.random.multinomial`."""
    options = {k: v for k, v in {"shape": shape, "dtype": dtype, **kwargs}.items() if v is not _Null}
    name = options.pop("name", None)
    options.pop("ctx", None)
    return apply("_npx__random_multinomial", "_sample_multinomial", [n, p], options, name)


_multinomial_of_2.__name__ = _multinomial_of_2.__qualname__ = "multinomial"
by_level = {1: multinomial, 2: _multinomial_of_2}
level.follow(lambda api: globals().update(multinomial=by_level[api]))


def binomial(n: Symbol | float = 1, p: Symbol | float = 0.5, shape: ShapeLike | _NullType = _Null,
             dtype: DTypeLike | _NullType = _Null, **kwargs: object) -> Symbol:
    """Draws the number of successes in `n` trials; arguments as in `mx.nd.random.binomial`."""
    return _draw("binomial", {"n": n, "p": p}, shape, dtype, kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """Shuffles the array along its first axis."""
    return apply("_shuffle", "_shuffle", [data], {}, kwargs.get("name"))


if TYPE_CHECKING:
    from ._stubs.random import *  # noqa: F403

attach(globals(), _functions.make, "random")
