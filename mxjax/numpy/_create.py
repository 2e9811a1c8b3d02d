"""Functions that create arrays; those without an array argument accept the namespace (arrays or symbols) first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import level
from ..context import Context, one_context, takes_device
from ..ops.params import DTypeLike, ShapeLike
from ..util import default_float, is_np_default_dtype
from ._dispatch import ArrayOrSymbol, Namespace, Operand, call, is_array, is_number

__all__ = ["empty_like", "full_like", "ones_like", "zeros_like"]
CREATORS = ["arange", "blackman", "eye", "full", "hamming", "hanning", "identity", "indices", "linspace", "logspace",
            "ones", "tri", "tril_indices", "triu_indices", "zeros"]


def _need_c(order: str) -> None:
    if order != "C":
        raise NotImplementedError(f"only order 'C' is supported, got {order!r}")


def _dtype_of(number: object) -> Any:
    """The dtype of an array of such numbers: in MXNet 2 int64 for integers, and the own dtype of a NumPy number."""
    if level.current() == 2 and isinstance(number, (int, np.generic)):
        return getattr(number, "dtype", "int64")
    return default_float()


def _default_whole(dtype: DTypeLike) -> Any:
    return "int64" if dtype is None and is_np_default_dtype() else dtype


def zeros(namespace: Namespace, shape: ShapeLike, dtype: DTypeLike = None, order: str = "C",
          ctx: Context | None = None) -> Any:
    """An array of zeros.

    Args:
        shape: int or tuple of ints.
        dtype: dtype of the result; defaults to float32.
        order: "C".
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of that shape.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.zeros((2, 3))
        array([[0., 0., 0.],
               [0., 0., 0.]])
        >>> mx.np.zeros(2, dtype="int32")
        array([0, 0], dtype=int32)
    """
    _need_c(order)
    return namespace.call("_npi_zeros", [], {"shape": shape, "dtype": default_float(dtype)}, None, ctx)


def ones(namespace: Namespace, shape: ShapeLike, dtype: DTypeLike = np.float32, order: str = "C",
         ctx: Context | None = None) -> Any:
    """An array of ones.

    Args:
        shape: int or tuple of ints.
        dtype: dtype of the result; defaults to float32.
        order: "C".
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of that shape.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.ones((2, 3))
        array([[1., 1., 1.],
               [1., 1., 1.]])
    """
    _need_c(order)
    return namespace.call("_npi_ones", [], {"shape": shape, "dtype": default_float(dtype)}, None, ctx)


def full(namespace: Namespace, shape: ShapeLike, fill_value: Any, dtype: DTypeLike = None, order: str = "C",
         ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """An array filled with one value, or with the values of an ndarray that is broadcast.

    Args:
        shape: int or tuple of ints.
        fill_value: a number, or an ndarray that broadcasts to the shape.
        dtype: dtype of the result; defaults to that of an ndarray, bool for a boolean, else float32.
        order: "C".
        ctx: context of the result; defaults to the current context.
        out: ndarray to write to; only if fill_value is a number.

    Returns:
        An ndarray of that shape.

    Raises:
        NotImplementedError: `order` is not "C".
        MXNetError: fill_value does not broadcast to the shape.

    Example:
        >>> mx.np.full((2, 2), 7)
        array([[7., 7.],
               [7., 7.]])
        >>> mx.np.full((2, 2), mx.np.array([1, 2]))
        array([[1., 2.],
               [1., 2.]])
    """
    _need_c(order)
    if is_array(fill_value):
        filled = call("_npi_broadcast_to", [fill_value], shape=shape)
        return filled if dtype is None else filled.astype(dtype)
    if dtype is None:
        dtype = np.bool_ if isinstance(fill_value, bool) else _dtype_of(fill_value)
    # a float is an argument of the program in float32, which does not hold all integers
    value = int(fill_value) if isinstance(fill_value, (int, np.integer)) else float(fill_value)
    return namespace.call("_npi_full", [], {"shape": shape, "value": value, "dtype": dtype}, out, ctx)


def eye(namespace: Namespace, N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = np.float32,  # noqa: N803
        **kwargs: Any) -> Any:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns; defaults to N.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        dtype: dtype of the result; defaults to float32.
        kwargs: `ctx` (or `device`), by default the current context, and `order`, which must be "C".

    Returns:
        An (N, M) ndarray.

    Raises:
        TypeError: an unknown keyword.
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.eye(2, 3, k=1)
        array([[0., 1., 0.],
               [0., 0., 1.]])
    """
    _need_c(kwargs.pop("order", "C"))
    ctx = one_context("eye", kwargs, kwargs.pop("ctx", None))
    if kwargs:
        raise TypeError(f"eye got unknown arguments: {', '.join(kwargs)}")
    return namespace.call("_npi_eye", [], {"N": N, "M": M, "k": k, "dtype": default_float(dtype)}, None, ctx)


def identity(namespace: Namespace, n: int, dtype: DTypeLike = None, ctx: Context | None = None) -> Any:
    """The n x n identity matrix.

    Args:
        n: number of rows and of columns.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        An (n, n) ndarray.

    Raises:
        TypeError, ValueError: n is not an int, or is negative.

    Example:
        >>> mx.np.identity(2)
        array([[1., 0.],
               [0., 1.]])
    """
    if not isinstance(n, int):
        raise TypeError("Input 'n' should be an integer")
    if n < 0:
        raise ValueError("Input 'n' cannot be negative")
    return namespace.call("_npi_identity", [], {"shape": (n, n), "dtype": default_float(dtype)}, None, ctx)


def arange(namespace: Namespace, start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike = None,
           ctx: Context | None = None) -> Any:
    """Evenly spaced values from start up to stop (exclusive).

    Args:
        start: the first value; without `stop` it is the end, and the first value is 0.
        stop: the end.
        step: spacing between values, positive or negative.
        dtype: dtype of the result; defaults to float32, even if all numbers are integers.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector.

    Raises:
        ZeroDivisionError: step is zero.
        ValueError: both limits are None.

    Example:
        >>> mx.np.arange(3)
        array([0., 1., 2.])
        >>> mx.np.arange(1, 7, 2, dtype="int32")
        array([1, 3, 5], dtype=int32)
    """
    if stop is None:
        start, stop = 0, start
    if start is None or stop is None:
        raise ValueError("start and stop cannot be both None")
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("step cannot be 0")
    return namespace.call("_npi_arange", [], {"start": start, "stop": stop, "step": step,
                                            "dtype": _default_whole(dtype)}, None, ctx)


def _need_numbers(start: object, stop: object, axis: int) -> None:
    if not is_number(start) or not is_number(stop):
        raise NotImplementedError("start and stop only support int")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")


def linspace(namespace: Namespace, start: float, stop: float, num: int = 50, endpoint: bool = True,
             retstep: bool = False, dtype: DTypeLike = None, axis: int = 0, ctx: Context | None = None) -> Any:
    """Evenly spaced numbers from start to stop.

    Args:
        start: the first number.
        stop: the last number, or the excluded end if `endpoint` is False.
        num: number of values.
        endpoint: whether `stop` is the last number.
        retstep: whether to return the spacing as well.
        dtype: dtype of the result; defaults to float32.
        axis: only 0.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector of `num` numbers; with `retstep` a pair of the vector and the spacing. As in MXNet 1.9.1, the spacing
        at level 1 is (stop - start) / (num - 1) even if `endpoint` is False.

    Raises:
        NotImplementedError: start or stop is not a number, or `axis` is not 0.

    Example:
        >>> mx.np.linspace(0, 1, 5)
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
        >>> mx.np.linspace(0, 1, 4, endpoint=False)
        array([0.  , 0.25, 0.5 , 0.75])
    """
    _need_numbers(start, stop, axis)
    made = namespace.call("_npi_linspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                              "dtype": default_float(dtype)}, None, ctx)
    if not retstep:
        return made
    return made, (stop - start) / (num - 1 if endpoint or level.current() == 1 else num)


def logspace(namespace: Namespace, start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0,
             dtype: DTypeLike = None, axis: int = 0, ctx: Context | None = None) -> Any:
    """Numbers from base**start to base**stop, evenly spaced on a logarithmic scale.

    Args:
        start: exponent of the first number.
        stop: exponent of the last number, or of the excluded end if `endpoint` is False.
        num: number of values.
        endpoint: whether base**stop is the last number.
        base: base of the powers.
        dtype: dtype of the result; defaults to float32.
        axis: only 0.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector of `num` numbers.

    Raises:
        NotImplementedError: start or stop is not a number, or `axis` is not 0.

    Example:
        >>> mx.np.logspace(0, 3, 4, base=2)
        array([1., 2., 4., 8.])
    """
    _need_numbers(start, stop, axis)
    return namespace.call("_npi_logspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                              "base": base, "dtype": default_float(dtype)}, None, ctx)


def indices(namespace: Namespace, dimensions: Sequence[int], dtype: DTypeLike = np.int32,
            ctx: Context | None = None) -> Any:
    """The coordinates of all elements of an array with the given dimensions.

    Args:
        dimensions: tuple or list of ints.
        dtype: dtype of the result; defaults to int32.
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray (number of dimensions, *dimensions): row i contains the i-th coordinates.

    Raises:
        ValueError: `dimensions` is not a tuple or list.

    Example:
        >>> rows, columns = mx.np.indices((2, 2))
        >>> rows
        array([[0, 0],
               [1, 1]], dtype=int32)
        >>> columns
        array([[0, 1],
               [0, 1]], dtype=int32)
    """
    if not isinstance(dimensions, (tuple, list)):
        raise ValueError("The dimensions must be sequence of ints")
    dtype = "int64" if dtype is None else dtype  # None: MXNet 2's default
    return namespace.call("_npi_indices", [], {"dimensions": dimensions, "dtype": dtype}, None, ctx)


def tri(namespace: Namespace, N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None,  # noqa: N803
        ctx: Context | None = None) -> Any:
    """A matrix with ones on and below a diagonal, and zeros above.

    Args:
        N: number of rows.
        M: number of columns; defaults to N.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        An (N, M) ndarray.

    Example:
        >>> mx.np.tri(2, 3)
        array([[1., 0., 0.],
               [1., 1., 0.]])
    """
    return namespace.call("_npi_tri", [], {"N": N, "M": M, "k": k, "dtype": dtype}, None, ctx)


def tril_indices(namespace: Namespace, n: int, k: int = 0, m: int | None = None, ctx: Context | None = None) -> Any:
    """Indices of the elements on and below a diagonal of a matrix.

    Args:
        n: number of rows.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        m: number of columns; defaults to n.
        ctx: context of the result; defaults to the current context.

    Returns:
        A tuple of the rows and the columns, two int64 vectors.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> a[mx.np.tril_indices(2)]
        array([1., 3., 4.])
    """
    return tuple(namespace.call("_npi_tril_indices", [], {"n": n, "k": k, "m": m}, None, ctx))


def triu_indices(namespace: Namespace, n: int, k: int = 0, m: int | None = None, ctx: Context | None = None) -> Any:
    """Indices of the elements on and above a diagonal of a matrix.

    Args:
        n: number of rows.
        k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
        m: number of columns; defaults to n.
        ctx: context of the result; defaults to the current context.

    Returns:
        A tuple of the rows and the columns, two int64 vectors.

    Example:
        >>> a = mx.np.array([[1, 2], [3, 4]])
        >>> a[mx.np.triu_indices(2)]
        array([1., 2., 4.])
    """
    return tuple(namespace.call("_npi_triu_indices", [], {"n": n, "k": k, "m": m}, None, ctx))


def hanning(namespace: Namespace, M: int, dtype: DTypeLike = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Hann window: 0.5 - 0.5 · cos(2πn / (M - 1)), n = 0 ... M - 1.

    Args:
        M: number of points.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector of M numbers.

    Example:
        >>> mx.np.hanning(4).round(2)
        array([0.  , 0.75, 0.75, 0.  ])
    """
    return namespace.call("_npi_hanning", [], {"M": M, "dtype": default_float(dtype)}, None, ctx)


def hamming(namespace: Namespace, M: int, dtype: DTypeLike = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Hamming window: 0.54 - 0.46 · cos(2πn / (M - 1)), n = 0 ... M - 1.

    Args:
        M: number of points.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector of M numbers.

    Example:
        >>> mx.np.hamming(4).round(2)
        array([0.08, 0.77, 0.77, 0.08])
    """
    return namespace.call("_npi_hamming", [], {"M": M, "dtype": default_float(dtype)}, None, ctx)


def blackman(namespace: Namespace, M: int, dtype: DTypeLike = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Blackman window: 0.42 - 0.5 · cos(2πn / (M - 1)) + 0.08 · cos(4πn / (M - 1)), n = 0 ... M - 1.

    Args:
        M: number of points.
        dtype: dtype of the result; defaults to float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        A vector of M numbers.

    Example:
        >>> mx.np.blackman(5)[1:4].round(2)
        array([0.34, 1.  , 0.34])
    """
    return namespace.call("_npi_blackman", [], {"M": M, "dtype": default_float(dtype)}, None, ctx)


# ------------------------------------------------------------ like another array
@takes_device
def full_like(a: ArrayOrSymbol, fill_value: Operand, dtype: DTypeLike = None, order: str = "C",
              ctx: Context | None = None, out: ArrayOrSymbol | None = None) -> Any:
    """An array with the shape of another one, filled with one value.

    Args:
        a: ndarray or symbol that defines the shape.
        fill_value: a number.
        dtype: dtype of the result; defaults to that of `a`.
        order: "C".
        ctx: has no effect; the result is on the context of `a`.
        out: ndarray to write to.

    Returns:
        An ndarray of the shape of `a`.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.full_like(mx.np.zeros((2, 2)), 3)
        array([[3., 3.],
               [3., 3.]])
    """
    _need_c(order)
    return call("_npi_full_like", [a], out, fill_value=fill_value, dtype=dtype)


@takes_device
def zeros_like(a: ArrayOrSymbol, dtype: DTypeLike = None, order: str = "C", ctx: Context | None = None,
               out: ArrayOrSymbol | None = None) -> Any:
    """An array of zeros with the shape of another one.

    Args:
        a: ndarray or symbol that defines the shape.
        dtype: dtype of the result; defaults to that of `a`.
        order: "C".
        ctx: has no effect; the result is on the context of `a`.
        out: ndarray to write to.

    Returns:
        An ndarray of the shape of `a`.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.zeros_like(mx.np.array([1, 2, 3], dtype="int32"))
        array([0, 0, 0], dtype=int32)
    """
    return full_like(a, 0, dtype, order, ctx, out)


@takes_device
def ones_like(a: ArrayOrSymbol, dtype: DTypeLike = None, order: str = "C", ctx: Context | None = None,
              out: ArrayOrSymbol | None = None) -> Any:
    """An array of ones with the shape of another one.

    Args:
        a: ndarray or symbol that defines the shape.
        dtype: dtype of the result; defaults to that of `a`.
        order: "C".
        ctx: has no effect; the result is on the context of `a`.
        out: ndarray to write to.

    Returns:
        An ndarray of the shape of `a`.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.ones_like(mx.np.zeros(3))
        array([1., 1., 1.])
    """
    return full_like(a, 1, dtype, order, ctx, out)


def empty_like(prototype: ArrayOrSymbol, dtype: DTypeLike = None, order: str = "C", subok: bool = False,
               shape: ShapeLike | None = None) -> Any:
    """An array with the shape of another one and unspecified values (zeros).

    Args:
        prototype: ndarray or symbol that defines the shape.
        dtype: dtype of the result; defaults to that of `prototype`.
        order: "C".
        subok: only False.
        shape: only None.

    Returns:
        An ndarray of the shape of `prototype`.

    Raises:
        NotImplementedError: `order`, `subok` or `shape` has another value.

    Example:
        >>> mx.np.empty_like(mx.np.ones((2, 3))).shape
        (2, 3)
    """
    _need_c(order)
    if subok or shape is not None:
        raise NotImplementedError("empty_like does not support subok and shape")
    return call("_npi_empty_like_fallback", [prototype], dtype=dtype)
