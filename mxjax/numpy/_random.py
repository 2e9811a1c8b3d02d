"""Draws from distributions with numbers or arrays as parameters; each function takes its namespace first."""

from __future__ import annotations

from typing import Any

from ..base import numeric_types
from ..context import Context
from ..ops.params import DTypeLike, ShapeLike
from ..util import default_float
from ._dispatch import ArrayOrSymbol, Namespace, Operand, bound
from ._elemwise import exp

__all__ = ["beta", "chisquare", "choice", "exponential", "f", "gamma", "gumbel", "laplace", "logistic", "lognormal",
           "multinomial", "multivariate_normal", "normal", "pareto", "power", "rand", "randint", "randn", "rayleigh",
           "shuffle", "uniform", "weibull"]


def _draw(namespace: Namespace, name: str, parameters: dict[str, Any], size: ShapeLike | None,
          ctx: Context | str | None = None, out: ArrayOrSymbol | None = None, dtype: DTypeLike = None) -> Any:
    """Calls `_npi_<name>`: arrays are inputs, numbers parameters."""
    arrays = [v for v in parameters.values() if namespace.is_array(v)]
    params = {k: None if namespace.is_array(v) else v for k, v in parameters.items()}
    for key, value in params.items():
        if value is not None and not isinstance(value, numeric_types):
            raise ValueError(f"{name}: {key} must be an ndarray or a number, got {type(value).__name__}")
    if arrays and None in params.values():  # None marks a parameter with a number as default
        params = {k: "None" if v is None else v for k, v in params.items()}
    return namespace.call(f"_npi_{name}", arrays, {**params, "size": None if size == () else size, "dtype": dtype}, out,
                        ctx)


def uniform(namespace: Namespace, low: Operand = 0.0, high: Operand = 1.0, size: ShapeLike | None = None,
            dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the uniform distribution on [low, high).

    Args:
        low, high: numbers or ndarrays, which broadcast.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.uniform(-1, 1, size=(2, 3)).shape
        (2, 3)
        >>> mx.np.random.uniform(mx.np.array([0, 10]), mx.np.array([1, 11])) >= 1
        array([False,  True])
    """
    return _draw(namespace, "uniform", {"low": low, "high": high}, size, ctx, out, default_float(dtype))


def normal(namespace: Namespace, loc: Operand = 0.0, scale: Operand = 1.0, size: ShapeLike | None = None,
           dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the normal distribution.

    Args:
        loc: the mean, a number or ndarray.
        scale: the standard deviation, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.normal(0, 1, size=(2, 3)).shape
        (2, 3)
        >>> mx.np.random.normal(mx.np.array([1, 2]), 0.001).round()
        array([1., 2.])
    """
    return _draw(namespace, "normal", {"loc": loc, "scale": scale}, size, ctx, out, default_float(dtype))


def lognormal(namespace: Namespace, mean: Operand = 0.0, sigma: Operand = 1.0, size: ShapeLike | None = None,
              dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the log-normal distribution: the exponential of normal draws.

    Args:
        mean: the normal distribution's mean, a number or ndarray.
        sigma: its standard deviation, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `sigma` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.lognormal(0, 1, size=3) > 0).all()
        array(True)
    """
    return exp(normal(namespace, mean, sigma, size, dtype, ctx), out=out)


def laplace(namespace: Namespace, loc: Operand = 0.0, scale: Operand = 1.0, size: ShapeLike | None = None,
            dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the Laplace distribution; there are no gradients, as in MXNet.

    Args:
        loc: the mean, a number or ndarray.
        scale: the scale, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.laplace(0, 1, size=(2, 3)).shape
        (2, 3)
    """
    return _draw(namespace, "laplace", {"loc": loc, "scale": scale}, size, ctx, out, dtype)


def f(namespace: Namespace, dfnum: Operand, dfden: Operand, size: ShapeLike | None = None,
      ctx: Context | None = None) -> Any:
    """Draws from Fisher's F distribution: the ratio of two chi-square draws, each divided by its degrees of freedom.

    Args:
        dfnum, dfden: degrees of freedom of numerator and denominator, numbers or ndarrays.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, or not positive.

    Example:
        >>> (mx.np.random.f(3, 5, size=4) > 0).all()
        array(True)
    """
    above = chisquare(namespace, dfnum, size, None, ctx)
    return above * dfden / (chisquare(namespace, dfden, size, None, ctx) * dfnum)


def logistic(namespace: Namespace, loc: Operand = 0.0, scale: Operand = 1.0, size: ShapeLike | None = None,
             ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the logistic distribution.

    Args:
        loc: the mean, a number or ndarray.
        scale: the scale, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.logistic(0, 1, size=(2, 3)).shape
        (2, 3)
    """
    return _draw(namespace, "logistic", {"loc": loc, "scale": scale}, size, ctx, out)


def gumbel(namespace: Namespace, loc: Operand = 0.0, scale: Operand = 1.0, size: ShapeLike | None = None,
           ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the Gumbel distribution.

    Args:
        loc: the mode, a number or ndarray.
        scale: the scale, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.gumbel(0, 1, size=(2, 3)).shape
        (2, 3)
    """
    return _draw(namespace, "gumbel", {"loc": loc, "scale": scale}, size, ctx, out)


def exponential(namespace: Namespace, scale: Operand = 1.0, size: ShapeLike | None = None, ctx: Context | None = None,
                out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the exponential distribution.

    Args:
        scale: the mean, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.exponential(2, size=3) >= 0).all()
        array(True)
    """
    return _draw(namespace, "exponential", {"scale": scale}, size, ctx, out)


def rayleigh(namespace: Namespace, scale: Operand = 1.0, size: ShapeLike | None = None, ctx: Context | None = None,
             out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the Rayleigh distribution: the lengths of vectors of two normal draws.

    Args:
        scale: the normal draws' standard deviation, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.rayleigh(1, size=3) >= 0).all()
        array(True)
    """
    return _draw(namespace, "rayleigh", {"scale": scale}, size, ctx, out)


def weibull(namespace: Namespace, a: Operand, size: ShapeLike | None = None, ctx: Context | None = None,
            out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the Weibull distribution with scale 1.

    Args:
        a: the shape parameter, a number or ndarray above 0.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: `a` is neither an ndarray nor a positive number.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.weibull(2, size=3) >= 0).all()
        array(True)
    """
    return _draw(namespace, "weibull", {"a": a}, size, ctx, out)


def pareto(namespace: Namespace, a: Operand, size: ShapeLike | None = None, ctx: Context | None = None,
           out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the Pareto II (Lomax) distribution, which starts at 0.

    Args:
        a: the shape parameter, a number or ndarray above 0.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: `a` is neither an ndarray nor a positive number.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.pareto(3, size=3) >= 0).all()
        array(True)
    """
    return _draw(namespace, "pareto", {"a": a}, size, ctx, out)


def power(namespace: Namespace, a: Operand, size: ShapeLike | None = None, ctx: Context | None = None,
          out: ArrayOrSymbol | None = None) -> Any:
    """Draws from [0, 1] with a density proportional to x to the power of a - 1.

    Args:
        a: the exponent and one more, a number or ndarray above 0.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        ctx: context of the result; defaults to the current context.
        out: ndarray to write to.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: `a` is neither an ndarray nor a positive number.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.power(3, size=(2, 3)).shape
        (2, 3)
    """
    return _draw(namespace, "powerd", {"a": a}, size, ctx, out)


def gamma(namespace: Namespace, shape: Operand, scale: Operand = 1.0, size: ShapeLike | None = None,
          dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from the gamma distribution.

    Args:
        shape: a number or ndarray above 0: the mean is shape · scale.
        scale: a number or ndarray.
        size: int or tuple of ints: shape of the result if there is no `out`; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `shape` is not positive.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.gamma(mx.np.array([1, 5]), 2).shape
        (2,)
        >>> (mx.np.random.gamma(2, size=3) > 0).all()
        array(True)
    """
    size = out.shape if out is not None else size
    return _draw(namespace, "gamma", {"shape": shape, "scale": scale}, size, ctx, out, default_float(dtype))


def beta(namespace: Namespace, a: Operand, b: Operand, size: ShapeLike | None = None, dtype: DTypeLike = None,
         ctx: Context | None = None) -> Any:
    """Draws from the beta distribution on [0, 1].

    Args:
        a, b: numbers or ndarrays above 0: the mean is a / (a + b).
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list, or is not positive.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> mx.np.random.beta(1, 3, size=(2, 3)).shape
        (2, 3)
    """
    x, y = (gamma(namespace, v, 1, size, "float64", ctx) for v in (a, b))
    return (x / (x + y)).astype(default_float(dtype) or "float32")


def chisquare(namespace: Namespace, df: Any, size: ShapeLike | None = None, dtype: DTypeLike = None,
              ctx: Context | None = None) -> Any:
    """Draws from the chi-square distribution: sums of squares of standard normal draws.

    Args:
        df: the degrees of freedom (number of squares), a number or ndarray above 0.
        size: int or tuple of ints: shape of the result; defaults to that of the parameters.
        dtype: float16, float32 (default) or float64.
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of draws.

    Raises:
        ValueError: a number `df` is not positive.
        MXNetError: the shapes do not broadcast against each other, or to `size` if it is given.

    Example:
        >>> (mx.np.random.chisquare(2, size=3) >= 0).all()
        array(True)
    """
    return gamma(namespace, df / 2, 2, size, dtype, ctx)


def rand(namespace: Namespace, *size: int, **kwargs: Any) -> Any:
    """Draws from the uniform distribution on [0, 1), with the shape as arguments.

    Args:
        size: ints; without any, a single draw.
        kwargs: keyword arguments of `uniform`, such as `dtype` and `ctx`.

    Returns:
        An ndarray of draws.

    Raises:
        TypeError: an unknown keyword.

    Example:
        >>> mx.np.random.rand(2, 3).shape
        (2, 3)
    """
    return uniform(namespace, size=size, **kwargs)


def randn(namespace: Namespace, *size: int, **kwargs: Any) -> Any:
    """Draws from the standard normal distribution, with the shape as arguments.

    Args:
        size: ints; without any, a single draw.
        kwargs: keyword arguments of `normal`, such as `dtype` and `ctx`.

    Returns:
        An ndarray of draws.

    Raises:
        TypeError: an unknown keyword.

    Example:
        >>> mx.np.random.randn(2, 3).shape
        (2, 3)
    """
    return normal(namespace, size=size, **kwargs)


def randint(namespace: Namespace, low: int, high: int | None = None, size: ShapeLike | None = None,
            dtype: DTypeLike = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws integers from [low, high), or from [0, low) without `high`.

    Args:
        low: the smallest integer, or the exclusive end if `high` is missing.
        high: the exclusive end.
        size: int or tuple of ints: shape of the result; by default a single draw.
        dtype: int64 (default) or int32.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of draws.

    Raises:
        MXNetError: `high` is not above `low`, or the dtype is not supported.

    Example:
        >>> mx.np.random.randint(0, 5, size=(2, 3)).shape
        (2, 3)
        >>> mx.np.random.randint(3) < 3
        array(True)
    """
    low, high = (0, low) if high is None else (low, high)
    params = {"low": low, "high": high, "shape": () if size is None else size,
              "dtype": "int64" if dtype in (None, "int", int) else dtype}
    return namespace.call("_npi_random_randint", [], params, out, ctx)


def choice(namespace: Namespace, a: ArrayOrSymbol | int, size: ShapeLike | None = None, replace: bool = True,
           p: ArrayOrSymbol | None = None, ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws from range(a), or from the elements of a vector `a`.

    Args:
        a: an int or a one-dimensional ndarray.
        size: int or tuple of ints: shape of the result; by default a single draw.
        replace: whether an element can be drawn again.
        p: ndarray of probabilities; by default all are equal.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill; only if `a` is an int.

    Returns:
        An ndarray of draws.

    Raises:
        TypeError: `p` is not an ndarray, such as a list.
        MXNetError: `a` is neither, or there are more draws than elements and `replace` is False.

    Example:
        >>> mx.np.sort(mx.np.random.choice(3, size=3, replace=False))
        array([0, 1, 2], dtype=int64)
        >>> mx.np.random.choice(mx.np.array([5, 6]), size=2, p=mx.np.array([0, 1]))
        array([6., 6.])
    """
    weights = [] if p is None else [p]
    params = {"size": None if size == () else size, "replace": replace, "weighted": p is not None}
    if not namespace.is_array(a):
        return namespace.call("_npi_choice", weights, {"a": a, **params}, out, ctx)
    positions = namespace.call("_npi_choice", [a, *weights], params)
    return namespace.call("_npi_take", [a, positions], {})


def multinomial(namespace: Namespace, n: int, pvals: Any, size: ShapeLike | None = None, **kwargs: Any) -> Any:
    """Draws the number of occurrences of each outcome in `n` experiments.

    Args:
        n: number of experiments.
        pvals: probabilities of the outcomes, ndarray or sequence of numbers; the last one is the remainder to 1.
        size: int or tuple of ints: number of rows of counts; by default a single one.
        kwargs: has no effect.

    Returns:
        Counts (int64) of shape (*size, outcomes).

    Raises:
        ValueError: pvals is a NumPy array, nested, or sums to more than 1.

    Example:
        >>> mx.np.random.multinomial(10, [0.5, 0.3, 0.2]).sum()
        array(10, dtype=int64)
        >>> mx.np.random.multinomial(4, mx.np.array([1, 0]), size=2)
        array([[4, 0],
               [4, 0]], dtype=int64)
    """
    if namespace.is_array(pvals):
        return namespace.call("_npi_multinomial", [pvals], {"n": n, "size": size})
    if hasattr(pvals, "__array__"):
        raise ValueError("numpy ndarray is not supported!")
    if any(isinstance(p, (list, tuple)) for p in pvals):
        raise ValueError("object too deep for desired array")
    if sum(pvals[:-1]) > 1.0 + 1e-6:
        raise ValueError("sum(pvals[:-1]) > 1.0")
    return namespace.call("_npi_multinomial", [], {"n": n, "pvals": tuple(pvals), "size": size})


def multivariate_normal(namespace: Namespace, mean: Operand, cov: ArrayOrSymbol, size: ShapeLike | None = None,
                        check_valid: str | None = None, tol: float | None = None) -> Any:
    """Draws vectors from normal distributions.

    Args:
        mean: ndarray (..., n) of means.
        cov: ndarray (..., n, n) of covariance matrices.
        size: int or tuple of ints: number of draws of each distribution; by default a single one.
        check_valid, tol: only None.

    Returns:
        An ndarray of draws (*size, ..., n).

    Raises:
        NotImplementedError: `check_valid` or `tol` is given.
        TypeError: mean or cov is not an ndarray.

    Example:
        >>> mx.np.random.multivariate_normal(mx.np.zeros(2), mx.np.eye(2), size=3).shape
        (3, 2)
    """
    if check_valid is not None or tol is not None:
        raise NotImplementedError("Parameters `check_valid` and `tol` are not supported")
    return namespace.call("_npi_mvn_fallback", [mean, cov], {"size": size})


def shuffle(namespace: Namespace, x: ArrayOrSymbol) -> None:
    """Shuffles the rows (elements of the first axis) in place.

    Args:
        x: ndarray.

    Raises:
        TypeError: `x` is not an ndarray, such as a list.

    Example:
        >>> x = mx.np.arange(3)
        >>> mx.np.random.shuffle(x)
        >>> mx.np.sort(x)
        array([0., 1., 2.])
    """
    namespace.call("_npi_shuffle", [x], {}, x)


def functions(namespace: Namespace, names: list[str] = __all__) -> dict[str, Any]:
    """Returns the functions of one namespace by name."""
    return {name: bound(namespace, globals()[name]) for name in names}
