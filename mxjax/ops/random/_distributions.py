"""The random distributions: one table for operators with numbers, with arrays, and with the shape of an array."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..common import Array
from ..params import MaybeDType, MaybeShape, Scalar, Shape, np_dtype
from . import _draw


class Distribution(NamedTuple):
    """A distribution.

    Args:
        draw: function(key, shape, dtype, *parameters) -> samples; the parameters broadcast against the shape.
        parameters: names and defaults of the parameters.
        arrays: names of the parameters as arrays.
        fits: function(*numbers) -> whether these parameters are valid.
        rule: the condition that `fits` tests, as text.
        doc: name of the distribution, with an article.
    """

    draw: Callable[..., Array]
    parameters: dict[str, float]
    arrays: tuple[str, ...]
    fits: Callable[..., bool]
    rule: str
    doc: str


def _gamma(key: Array, shape: Shape, dtype: Any, alpha: Array, beta: Array) -> Array:
    return _draw.gamma(key, alpha, shape, dtype) * beta


def _poisson(key: Array, shape: Shape, dtype: Any, lam: Array) -> Array:
    return jax.random.poisson(key, lam, shape).astype(dtype)


def _mixed(key: Array, shape: Shape, dtype: Any, alpha: Array, beta: Array) -> Array:
    """Poisson samples with a gamma-distributed rate: the negative binomial distribution."""
    first, second = jax.random.split(key)
    return _poisson(second, shape, dtype, _gamma(first, shape, dtype, alpha, beta))


def _generalized(key: Array, shape: Shape, dtype: Any, mu: Array, alpha: Array) -> Array:
    spread = jnp.where(alpha == 0, 1, alpha)  # alpha = 0 is the Poisson distribution
    rate = jnp.where(alpha == 0, mu, _gamma(key, shape, dtype, 1 / spread, spread * mu))
    return _poisson(jax.random.fold_in(key, 1), shape, dtype, rate)


DISTRIBUTIONS: dict[str, Distribution] = {
    "uniform": Distribution(
        lambda key, shape, dtype, low, high: low + (high - low) * _draw.uniform(key, shape, dtype),
        {"low": 0.0, "high": 1.0}, ("low", "high"), lambda low, high: low <= high, "low <= high",
        "a uniform distribution on [low, high)"),
    "normal": Distribution(
        lambda key, shape, dtype, loc, scale: loc + scale * _draw.normal(key, shape, dtype),
        {"loc": 0.0, "scale": 1.0}, ("mu", "sigma"), lambda loc, scale: scale > 0, "scale > 0",
        "a normal distribution with mean loc and standard deviation scale"),
    "gamma": Distribution(
        _gamma, {"alpha": 1.0, "beta": 1.0}, ("alpha", "beta"), lambda alpha, beta: alpha > 0 and beta > 0,
        "alpha > 0 and beta > 0", "a gamma distribution with shape alpha and scale beta"),
    "exponential": Distribution(
        lambda key, shape, dtype, lam: _draw.exponential(key, shape, dtype) / lam,
        {"lam": 1.0}, ("lam",), lambda lam: lam > 0, "lam > 0", "an exponential distribution with rate lam"),
    "poisson": Distribution(
        _poisson, {"lam": 1.0}, ("lam",), lambda lam: lam >= 0, "lam >= 0",
        "a Poisson distribution with rate lam"),
    "binomial": Distribution(
        lambda key, shape, dtype, n, p: jax.random.binomial(key, n, p, shape, dtype),
        {"n": 1, "p": 1.0}, ("n", "p"), lambda n, p: n >= 0 and 0 <= p <= 1, "n >= 0 and 0 <= p <= 1",
        "a binomial distribution: successes in n trials, each with probability p"),
    "negative_binomial": Distribution(
        lambda key, shape, dtype, k, p: _mixed(key, shape, dtype, k, (1 - p) / p),
        {"k": 1, "p": 1.0}, ("k", "p"), lambda k, p: k >= 0 and p >= 0, "k >= 0 and p >= 0",
        "a negative binomial distribution: successes before k failures, each with probability p"),
    "generalized_negative_binomial": Distribution(
        _generalized, {"mu": 1.0, "alpha": 1.0}, ("mu", "alpha"), lambda mu, alpha: mu >= 0 and alpha >= 0,
        "mu >= 0 and alpha >= 0", "a negative binomial distribution with mean mu and dispersion alpha"),
}


def sample(distribution: Distribution, key: Array, shape: Shape, dtype: Any, *parameters: Array) -> Array:
    """Draws samples of this shape and dtype. Half precision is drawn in float32. There is no gradient."""
    wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
    values = (lax.stop_gradient(jnp.asarray(p).astype(wide)) for p in parameters)
    return distribution.draw(key, shape, wide, *values).astype(dtype)


def declared(function: Callable[..., Array], arrays: tuple[str, ...], numbers: dict[str, Any], doc: str,
             optional: bool = False) -> Callable:
    """`function(*arrays, _key, **numbers)` with a signature that the registry can read.

    Args:
        function: the function; it may use any names for its numbers.
        arrays: names of the input arrays.
        numbers: names of the parameters, each with (annotation, default).
        doc: documentation.
        optional: whether the arrays may be absent.
    """
    kinds = inspect.Parameter
    function.__signature__ = inspect.Signature(
        [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None if optional else kinds.empty) for n in arrays]
        + [kinds(n, kinds.KEYWORD_ONLY, annotation=a, default=d) for n, (a, d) in numbers.items()]
        + [kinds("_key", kinds.KEYWORD_ONLY, default=None)])
    function.__annotations__ = {n: a for n, (a, _) in numbers.items()}
    function.__doc__ = doc
    return function


def scalars(distribution: Distribution) -> dict[str, tuple[Any, float]]:
    """Returns the parameters in the form that `declared` expects."""
    return {name: (Scalar, default) for name, default in distribution.parameters.items()}


MADE_OF: dict[str, tuple[Any, Any]] = {"shape": (MaybeShape, None), "ctx": (str, ""), "dtype": (MaybeDType, None)}


def float_or(dtype: str | None) -> Any:
    """Returns the requested dtype if it is a floating-point dtype, else float32."""
    chosen = np_dtype(dtype)
    return chosen if jnp.issubdtype(chosen, jnp.floating) else np_dtype("float32")
