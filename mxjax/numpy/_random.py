"""Draws from distributions whose parameters are numbers or arrays; each function takes its flavour first."""

from __future__ import annotations

from typing import Any

from ..base import numeric_types
from ..context import Context
from ._dispatch import Flavour, bound
from ._elemwise import exp

__all__ = ["beta", "chisquare", "choice", "exponential", "gamma", "gumbel", "logistic", "lognormal", "multinomial",
           "multivariate_normal", "normal", "pareto", "power", "rand", "randint", "randn", "rayleigh", "shuffle",
           "uniform", "weibull"]


def _draw(flavour: Flavour, name: str, parameters: dict[str, Any], size: Any, ctx: Any = None, out: Any = None,
          dtype: Any = None) -> Any:
    """Calls `_npi_<name>`: arrays are inputs, numbers parameters."""
    arrays = [v for v in parameters.values() if flavour.is_array(v)]
    params = {k: None if flavour.is_array(v) else v for k, v in parameters.items()}
    for key, value in params.items():
        if value is not None and not isinstance(value, numeric_types):
            raise ValueError(f"{name}: {key} must be an ndarray or a number, got {type(value).__name__}")
    if arrays and None in params.values():  # a parameter whose default is a number is an input only if it says so
        params = {k: "None" if v is None else v for k, v in params.items()}
    return flavour.call(f"_npi_{name}", arrays, {**params, "size": None if size == () else size, "dtype": dtype}, out,
                        ctx)


def uniform(flavour: Flavour, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from the uniform distribution on [low, high).

    Args:
        low, high: numbers or ndarrays, which broadcast.
        size: shape of the draws; default that of the parameters.
        dtype: default float32.
        ctx: default the current context.
        out: ndarray to fill.
    """
    return _draw(flavour, "uniform", {"low": low, "high": high}, size, ctx, out, dtype)


def normal(flavour: Flavour, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None,
           ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from the normal distribution with mean `loc` and standard deviation `scale`; others as in `uniform`."""
    return _draw(flavour, "normal", {"loc": loc, "scale": scale}, size, ctx, out, dtype)


def lognormal(flavour: Flavour, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None,
              ctx: Context | None = None, out: Any = None) -> Any:
    """exp of draws from the normal distribution; others as in `uniform`."""
    return exp(normal(flavour, mean, sigma, size, dtype, ctx), out=out)


def logistic(flavour: Flavour, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
             out: Any = None) -> Any:
    """Draws from the logistic distribution; others as in `uniform`."""
    return _draw(flavour, "logistic", {"loc": loc, "scale": scale}, size, ctx, out)


def gumbel(flavour: Flavour, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
           out: Any = None) -> Any:
    """Draws from Gumbel's distribution; others as in `uniform`."""
    return _draw(flavour, "gumbel", {"loc": loc, "scale": scale}, size, ctx, out)


def exponential(flavour: Flavour, scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
                out: Any = None) -> Any:
    """Draws from the exponential distribution with mean `scale`; others as in `uniform`."""
    return _draw(flavour, "exponential", {"scale": scale}, size, ctx, out)


def rayleigh(flavour: Flavour, scale: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from Rayleigh's distribution; others as in `uniform`."""
    return _draw(flavour, "rayleigh", {"scale": scale}, size, ctx, out)


def weibull(flavour: Flavour, a: Any, size: Any = None, ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from Weibull's distribution with shape `a`; others as in `uniform`."""
    return _draw(flavour, "weibull", {"a": a}, size, ctx, out)


def pareto(flavour: Flavour, a: Any, size: Any = None, ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from Pareto's (Lomax) distribution with shape `a`; others as in `uniform`."""
    return _draw(flavour, "pareto", {"a": a}, size, ctx, out)


def power(flavour: Flavour, a: Any, size: Any = None) -> Any:
    """Draws from [0, 1] with a density proportional to x to the power of a - 1."""
    return _draw(flavour, "powerd", {"a": a}, size)


def gamma(flavour: Flavour, shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None,
          ctx: Context | None = None, out: Any = None) -> Any:
    """Draws from the gamma distribution; others as in `uniform`."""
    size = out.shape if out is not None else size
    return _draw(flavour, "gamma", {"shape": shape, "scale": scale}, size, ctx, out, dtype)


def beta(flavour: Flavour, a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Context | None = None) -> Any:
    """Draws from the beta distribution; others as in `uniform`."""
    x, y = (gamma(flavour, v, 1, size, "float64", ctx) for v in (a, b))
    return (x / (x + y)).astype("float32" if dtype is None else dtype)


def chisquare(flavour: Flavour, df: Any, size: Any = None, dtype: Any = None, ctx: Context | None = None) -> Any:
    """Draws from the chi-square distribution with `df` degrees of freedom; others as in `uniform`."""
    return gamma(flavour, df / 2, 2, size, dtype, ctx)


def rand(flavour: Flavour, *size: int, **kwargs: Any) -> Any:
    """`uniform` on [0, 1) with the shape as arguments."""
    return uniform(flavour, size=size, **kwargs)


def randn(flavour: Flavour, *size: int, **kwargs: Any) -> Any:
    """`normal` with the shape as arguments."""
    return normal(flavour, size=size, **kwargs)


def randint(flavour: Flavour, low: int, high: int | None = None, size: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: Any = None) -> Any:
    """Draws integers from [low, high), without `high` from [0, low); dtype int64 (default) or int32."""
    low, high = (0, low) if high is None else (low, high)
    params = {"low": low, "high": high, "shape": () if size is None else size,
              "dtype": "int64" if dtype in (None, "int", int) else dtype}
    return flavour.call("_npi_random_randint", [], params, out, ctx)


def choice(flavour: Flavour, a: Any, size: Any = None, replace: bool = True, p: Any = None, ctx: Context | None = None,
           out: Any = None) -> Any:
    """Draws from range(a), or from the elements of a vector `a`.

    p: ndarray with the probabilities; default all equal.
    """
    weights = [] if p is None else [p]
    params = {"size": None if size == () else size, "replace": replace, "weighted": p is not None}
    if not flavour.is_array(a):
        return flavour.call("_npi_choice", weights, {"a": a, **params}, out, ctx)
    positions = flavour.call("_npi_choice", [a, *weights], params)
    return flavour.call("_npi_take", [a, positions], {})


def multinomial(flavour: Flavour, n: int, pvals: Any, size: Any = None, **kwargs: Any) -> Any:
    """How often each outcome comes in `n` experiments, `size` times.

    pvals: probabilities of the outcomes, ndarray or sequence of numbers.

    Raises:
        ValueError: pvals is a NumPy array, nested, or sums to more than 1.
    """
    if flavour.is_array(pvals):
        return flavour.call("_npi_multinomial", [pvals], {"n": n, "size": size})
    if hasattr(pvals, "__array__"):
        raise ValueError("numpy ndarray is not supported!")
    if any(isinstance(p, (list, tuple)) for p in pvals):
        raise ValueError("object too deep for desired array")
    if sum(pvals[:-1]) > 1.0 + 1e-6:
        raise ValueError("sum(pvals[:-1]) > 1.0")
    return flavour.call("_npi_multinomial", [], {"n": n, "pvals": tuple(pvals), "size": size})


def multivariate_normal(flavour: Flavour, mean: Any, cov: Any, size: Any = None, check_valid: Any = None,
                        tol: Any = None) -> Any:
    """Draws from normal distributions with these mean vectors (..., n) and covariance matrices (..., n, n).

    Raises:
        NotImplementedError: check_valid or tol.
    """
    if check_valid is not None or tol is not None:
        raise NotImplementedError("Parameters `check_valid` and `tol` are not supported")
    return flavour.call("_npi_mvn_fallback", [mean, cov], {"size": size})


def shuffle(flavour: Flavour, x: Any) -> None:
    """Puts the rows (elements of the first axis) in random order, in place."""
    flavour.call("_npi_shuffle", [x], {}, x)


def functions(flavour: Flavour, names: list[str] = __all__) -> dict[str, Any]:
    """The functions for one flavour, by name."""
    return {name: bound(flavour, globals()[name]) for name in names}
