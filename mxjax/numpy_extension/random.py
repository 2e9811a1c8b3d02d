"""`mx.npx.random`: random numbers in MXNet's own forms, and the seed."""

from __future__ import annotations

import sys
from typing import Any

from .._random.streams import seed as _seed
from ..context import Context, takes_device
from ..numpy._dispatch import IMPERATIVE, ArrayOrSymbol, Namespace, Operand, bound
from ..numpy._of_2 import speak
from ..numpy._random import _draw
from ..ops.params import DTypeLike, ShapeLike

__all__ = ["bernoulli", "categorical", "multinomial", "normal_n", "seed", "uniform_n"]


def bernoulli(namespace: Namespace, prob: Operand | None = None, logit: Operand | None = None,
              size: ShapeLike | None = None, dtype: DTypeLike = None,
              ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws ones with probability `prob` or sigmoid(`logit`), else zeros.

    Args:
        prob, logit: exactly one of them, a number or ndarray.
        size: int or tuple of ints: shape of the result; defaults to that of the parameter.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.
        out: ndarray to fill.

    Returns:
        An ndarray of zeros and ones.

    Raises:
        ValueError: both or none of `prob` and `logit` are given, or a number `prob` is not in [0, 1].

    Example:
        >>> mx.npx.random.bernoulli(0.5, size=(2, 3)).shape
        (2, 3)
        >>> mx.npx.random.bernoulli(mx.np.array([0, 1]))
        array([0., 1.])
    """
    if (prob is None) == (logit is None):
        raise ValueError(f"Either `prob` or `logit` must be specified, but not both. Received prob={prob}, "
                         f"logit={logit}")
    value, name = (logit, "logit") if prob is None else (prob, "prob")
    arrays = [value] if namespace.is_array(value) else []
    params = {"is_logit": prob is None, "size": None if size == () else size, "dtype": dtype}
    return namespace.call("_npi_bernoulli", arrays, params if arrays else {**params, name: value}, out, ctx)


def categorical(namespace: Namespace, data: ArrayOrSymbol, shape: ShapeLike = (), get_prob: bool = False,
                dtype: DTypeLike = "int32") -> Any:
    """Draws classes according to the probabilities in each row.

    Args:
        data: ndarray (..., classes) of probabilities.
        shape: int or tuple of ints: shape of the draws of each row; by default a single draw.
        get_prob: whether to return the log-probabilities of the drawn classes as well.
        dtype: int32 (default), uint8 or a floating-point dtype.

    Returns:
        An ndarray (..., *shape) of class numbers; with `get_prob` a list of the class numbers and the
        log-probabilities.

    Raises:
        MXNetError: an unsupported dtype.

    Example:
        >>> mx.npx.random.categorical(mx.np.array([[0, 1], [1, 0]]), shape=3)
        array([[1, 1, 1],
               [0, 0, 0]], dtype=int32)
    """
    shape = (shape,) if isinstance(shape, int) else shape
    return namespace.call("_sample_multinomial", [data], {"shape": shape, "get_prob": get_prob, "dtype": dtype})


def multinomial(namespace: Namespace, n: Any, p: ArrayOrSymbol | None, shape: ShapeLike = (),
                dtype: DTypeLike = "float32", ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """Draws the number of occurrences of each class.

    Args:
        n: ndarray of the numbers of draws.
        p: ndarray of the shape of `n` plus a last axis: the probabilities of the classes.
        shape: int or tuple of ints: shape of the results for each element of `n`; by default a single one.
        dtype: dtype of the counts; defaults to float32.
        ctx: the context of `n`.
        out: ndarray to fill.

    Returns:
        An ndarray (*n's shape, *shape, classes).

    Raises:
        TypeError: n or p is not an ndarray.

    Example:
        >>> mx.npx.random.multinomial(mx.np.array([7, 2]), mx.np.array([[0, 1], [1, 0]]))
        array([[0., 7.],
               [2., 0.]])
    """
    shape = (shape,) if isinstance(shape, int) else shape
    return namespace.call("_npx__random_multinomial", [n, p], {"shape": shape, "dtype": dtype or "float32"}, out)


def uniform_n(namespace: Namespace, low: Operand = 0.0, high: Operand = 1.0, batch_shape: ShapeLike | None = None,
              dtype: DTypeLike = None, ctx: Context | None = None) -> Any:
    """Draws from the uniform distribution on [low, high), `batch_shape` of them for each parameter.

    Args:
        low, high: numbers or ndarrays, which broadcast.
        batch_shape: int or tuple of ints; by default one draw for each.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        Draws of shape (*batch_shape, *shape of the parameters).

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list.

    Example:
        >>> mx.npx.random.uniform_n(mx.np.array([0, 10]), mx.np.array([1, 11]), batch_shape=3).shape
        (3, 2)
    """
    return _draw(namespace, "uniform_n", {"low": low, "high": high}, batch_shape, ctx, None, dtype)


def normal_n(namespace: Namespace, loc: Operand = 0.0, scale: Operand = 1.0, batch_shape: ShapeLike | None = None,
             dtype: DTypeLike = None, ctx: Context | None = None) -> Any:
    """Draws from the normal distribution, `batch_shape` of them for each parameter.

    Args:
        loc: the mean, a number or ndarray.
        scale: the standard deviation, a number or ndarray.
        batch_shape: int or tuple of ints; by default one draw for each.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        Draws of shape (*batch_shape, *shape of the parameters).

    Raises:
        ValueError: a parameter is neither an ndarray nor a number, such as a list; a number `scale` is negative.

    Example:
        >>> mx.npx.random.normal_n(mx.np.array([0, 10]), 1, batch_shape=(3,)).shape
        (3, 2)
    """
    return _draw(namespace, "normal_n", {"loc": loc, "scale": scale}, batch_shape, ctx, None, dtype)


@takes_device
def seed(seed: int, ctx: Context | str = "all") -> None:
    """Seeds the random number generators; see `mx.random.seed`.

    Args:
        seed: an int; equal seeds produce equal draws.
        ctx: the device of the generator; "all" (the default) seeds all of them.

    Example:
        >>> mx.npx.random.seed(7)
        >>> first = mx.np.random.uniform(size=3)
        >>> mx.npx.random.seed(7)
        >>> (mx.np.random.uniform(size=3) == first).all()
        array(True)
    """
    _seed(seed, ctx)


_definitions = {name: globals()[name] for name in __all__ if name != "seed"}


def bind(namespace: Namespace, scope: dict[str, Any], names: list[str]) -> None:
    """Fills a module with the functions of one namespace."""
    speak(scope, {name: bound(namespace, _definitions[name]) for name in names},
          kind="arrays" if namespace is IMPERATIVE else "symbols")


bind(IMPERATIVE, vars(sys.modules[__name__]), list(_definitions))
speak(vars(sys.modules[__name__]), {"seed": seed})
