"""`mx.nd.random`: draws from distributions whose parameters are numbers or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import level
from .._namespace import attach
from ..array import functions
from ..array.dense import NDArray
from ..base import WrongKind, _Null, _NullType, numeric_types
from ..context import Context
from ..eager.dispatch import call
from ..ops import registry
from ..ops.params import DTypeLike, ShapeLike
from ..ops.random.drawing import draw

__all__ = ["binomial", "categorical", "exponential", "gamma", "generalized_negative_binomial", "multinomial",
           "negative_binomial", "normal", "poisson", "randint", "randn", "shuffle", "uniform"]


def uniform(low: NDArray | float = 0, high: NDArray | float = 1, shape: ShapeLike | _NullType = _Null,
            dtype: DTypeLike | _NullType = _Null, ctx: Context | None = None, out: NDArray | None = None,
            **kwargs: object) -> NDArray:
    """Draws from the uniform distribution on [low, high).

    Args:
        low, high: numbers, or arrays for `shape` draws for each of their elements.
        shape: shape of the draws; defaults to (1,), or to one draw for each element.
        dtype: dtype of the draws; defaults to float32.
        ctx: context of the result; defaults to the current context.
        out: array to fill.
    """
    return draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs, call, NDArray)


def normal(loc: NDArray | float = 0, scale: NDArray | float = 1, shape: ShapeLike | _NullType = _Null,
           dtype: DTypeLike | _NullType = _Null, ctx: Context | None = None, out: NDArray | None = None,
           **kwargs: object) -> NDArray:
    """Draws from the normal distribution with mean `loc` and standard deviation `scale`; others as in `uniform`."""
    names = ("loc", "scale") if all(isinstance(v, numeric_types) for v in (loc, scale)) else ("mu", "sigma")
    return draw("normal", dict(zip(names, (loc, scale), strict=True)), shape, dtype, ctx, out, kwargs, call, NDArray)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Draws from the normal distribution, with the shape as arguments; the others are keyword-only, as in `normal`."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape or _Null, kwargs.pop("dtype", _Null), kwargs.pop("ctx", None),
                  kwargs.pop("out", None), **kwargs)


def poisson(lam: NDArray | float = 1, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: object) -> NDArray:
    """Draws from the Poisson distribution with mean `lam`; others as in `uniform`."""
    return draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs, call, NDArray)


def exponential(scale: NDArray | float = 1, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
                ctx: Context | None = None, out: NDArray | None = None, **kwargs: object) -> NDArray:
    """Draws from the exponential distribution with mean `scale`; others as in `uniform`."""
    return draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs, call, NDArray)


def gamma(alpha: NDArray | float = 1, beta: NDArray | float = 1, shape: ShapeLike | _NullType = _Null,
          dtype: DTypeLike | _NullType = _Null, ctx: Context | None = None, out: NDArray | None = None,
          **kwargs: object) -> NDArray:
    """Draws from the gamma distribution with shape `alpha` and scale `beta`; others as in `uniform`."""
    return draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs, call, NDArray)


def negative_binomial(k: NDArray | float = 1, p: NDArray | float = 1, shape: ShapeLike | _NullType = _Null,
                      dtype: DTypeLike | _NullType = _Null, ctx: Context | None = None, out: NDArray | None = None,
                      **kwargs: object) -> NDArray:
    """Draws the number of failures before `k` successes of probability `p`; others as in `uniform`."""
    return draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs, call, NDArray)


def generalized_negative_binomial(mu: NDArray | float = 1, alpha: NDArray | float = 1,
                                  shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
                                  ctx: Context | None = None, out: NDArray | None = None, **kwargs: object) -> NDArray:
    """Draws from the negative binomial distribution with mean `mu` and dispersion `alpha`; others as in `uniform`."""
    return draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs, call,
                NDArray)


def randint(low: int, high: int, shape: ShapeLike | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: object) -> NDArray:
    """Draws integers from [low, high); dtype int32 (default) or int64, others as in `uniform`."""
    return draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs, call, NDArray)


def multinomial(data: NDArray, shape: ShapeLike | _NullType = _Null, get_prob: bool = False, out: NDArray | None = None,
                dtype: DTypeLike | _NullType = "int32", **kwargs: object) -> Any:
    """Draws class numbers from the distributions in the last axis of `data`.

    Args:
        data: probabilities; each row must sum to 1.
        shape: number or shape of the draws for each row.
        get_prob: whether to return the (differentiable) log-probabilities of the draws as well.
        dtype: dtype of the class numbers.
    """
    given = {"shape": shape, "get_prob": get_prob, "dtype": dtype, **kwargs}
    options = {k: v for k, v in given.items() if v is not _Null}
    return call(registry.get("_sample_multinomial"), [_array(data)], options, out)


categorical = multinomial  # its name in MXNet 2


def _multinomial_of_2(n: Any = (1,), p: Any = ((1.0,),), shape: ShapeLike | _NullType = _Null,
                      dtype: DTypeLike | _NullType = "float32", ctx: Context | None = None, out: NDArray | None = None,
                      **kwargs: object) -> NDArray:
    """Draws the number of occurrences of each class.

    Args:
        n: NDArray of the numbers of draws.
        p: NDArray of the shape of `n` plus a last axis: the probabilities of the classes.
        shape: int or shape: number or shape of the results for each element of `n`, one by default.
        dtype: dtype of the counts.
        ctx: the context of `n`.
        out: array to fill.

    Returns:
        An NDArray (*n's shape, *shape, classes).

    Example:
        >>> mx.nd.random.multinomial(mx.nd.array([7]), mx.nd.array([[0, 1]])).asnumpy()  # doctest: +SKIP
        array([[0., 7.]], dtype=float32)
    """
    options = {k: v for k, v in {"shape": shape, "dtype": dtype, **kwargs}.items() if v is not _Null}
    return call(registry.get("_npx__random_multinomial"), [_array(n), _array(p)], options, out)


_multinomial_of_2.__name__ = _multinomial_of_2.__qualname__ = "multinomial"
by_level = {1: multinomial, 2: _multinomial_of_2}
level.follow(lambda api: globals().update(multinomial=by_level[api]))


def binomial(n: NDArray | float = 1, p: NDArray | float = 0.5, shape: ShapeLike | _NullType = _Null,
             dtype: DTypeLike | _NullType = _Null, ctx: Context | None = None, out: NDArray | None = None,
             **kwargs: object) -> NDArray:
    """Draws the number of successes in `n` trials of probability `p`; others as in `uniform`."""
    return draw("binomial", {"n": n, "p": p}, shape, dtype, ctx, out, kwargs, call, NDArray)


def shuffle(data: NDArray, **kwargs: object) -> NDArray:
    """Shuffles the array along its first axis."""
    return call(registry.get("_shuffle"), [_array(data)], {}, kwargs.get("out"))


def _array(data: Any) -> NDArray:
    if not isinstance(data, NDArray):
        raise WrongKind(f"mx.nd.random: data must be an NDArray, got {type(data).__name__}")
    return data


if TYPE_CHECKING:
    from ._stubs.random import *  # noqa: F403

attach(globals(), functions.make, "random")
