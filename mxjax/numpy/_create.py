"""Functions that make arrays; those out of nothing take the flavour (arrays or symbols) as first argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import Context
from ._dispatch import Flavour, call, is_array, is_number

__all__ = ["empty_like", "full_like", "ones_like", "zeros_like"]
CREATORS = ["arange", "blackman", "eye", "full", "hamming", "hanning", "identity", "indices", "linspace", "logspace",
            "ones", "zeros"]


def _need_c(order: str) -> None:
    if order != "C":
        raise NotImplementedError(f"only order 'C' is supported, got {order!r}")


def zeros(flavour: Flavour, shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None) -> Any:
    """An array of zeros.

    Args:
        shape: int or tuple of ints.
        dtype: default float32.
        order: "C".
        ctx: default the current context.
    """
    _need_c(order)
    return flavour.call("_npi_zeros", [], {"shape": shape, "dtype": dtype}, None, ctx)


def ones(flavour: Flavour, shape: Any, dtype: Any = np.float32, order: str = "C", ctx: Context | None = None) -> Any:
    """An array of ones; arguments as in `zeros`."""
    _need_c(order)
    return flavour.call("_npi_ones", [], {"shape": shape, "dtype": dtype}, None, ctx)


def full(flavour: Flavour, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C",
         ctx: Context | None = None, out: Any = None) -> Any:
    """An array of one value (an ndarray is broadcast); booleans give dtype bool, else as in `zeros`."""
    _need_c(order)
    if is_array(fill_value):
        filled = call("_npi_broadcast_to", [fill_value], shape=shape)
        return filled if dtype is None else filled.astype(dtype)
    if isinstance(fill_value, bool) and dtype is None:
        dtype = np.bool_
    # a float is an argument of the program in float32, which does not hold all integers
    value = int(fill_value) if isinstance(fill_value, (int, np.integer)) else float(fill_value)
    return flavour.call("_npi_full", [], {"shape": shape, "value": value, "dtype": dtype}, out, ctx)


def eye(flavour: Flavour, N: int, M: int | None = None, k: int = 0, dtype: Any = np.float32,  # noqa: N803
        **kwargs: Any) -> Any:
    """An N x M matrix (M None: square) with ones on the k-th diagonal; `ctx` as in `zeros`."""
    _need_c(kwargs.pop("order", "C"))
    ctx = kwargs.pop("ctx", None)
    if kwargs:
        raise TypeError(f"eye got unknown arguments: {', '.join(kwargs)}")
    return flavour.call("_npi_eye", [], {"N": N, "M": M, "k": k, "dtype": dtype}, None, ctx)


def identity(flavour: Flavour, n: int, dtype: Any = None, ctx: Context | None = None) -> Any:
    """The n x n identity matrix.

    Raises:
        TypeError, ValueError: n is no int, or negative.
    """
    if not isinstance(n, int):
        raise TypeError("Input 'n' should be an integer")
    if n < 0:
        raise ValueError("Input 'n' cannot be negative")
    return flavour.call("_npi_identity", [], {"shape": (n, n), "dtype": dtype}, None, ctx)


def arange(flavour: Flavour, start: float, stop: float | None = None, step: float = 1, dtype: Any = None,
           ctx: Context | None = None) -> Any:
    """start, start + step, ... up to stop (not included), float32 by default.

    Raises:
        ZeroDivisionError: step is zero.
        ValueError: both limits are None.
    """
    if stop is None:
        start, stop = 0, start
    if start is None or stop is None:
        raise ValueError("start and stop cannot be both None")
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("step cannot be 0")
    return flavour.call("_npi_arange", [], {"start": start, "stop": stop, "step": step, "dtype": dtype}, None, ctx)


def _need_numbers(start: Any, stop: Any, axis: int) -> None:
    if not is_number(start) or not is_number(stop):
        raise NotImplementedError("start and stop only support int")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")


def linspace(flavour: Flavour, start: float, stop: float, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0, ctx: Context | None = None) -> Any:
    """`num` evenly spaced numbers from start to stop (with `endpoint` the last one), and on demand their distance."""
    _need_numbers(start, stop, axis)
    made = flavour.call("_npi_linspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                              "dtype": dtype}, None, ctx)
    return (made, (stop - start) / (num - 1)) if retstep else made


def logspace(flavour: Flavour, start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0,
             dtype: Any = None, axis: int = 0, ctx: Context | None = None) -> Any:
    """`num` numbers from base**start to base**stop whose logarithms are evenly spaced."""
    _need_numbers(start, stop, axis)
    return flavour.call("_npi_logspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                              "base": base, "dtype": dtype}, None, ctx)


def indices(flavour: Flavour, dimensions: Any, dtype: Any = np.int32, ctx: Context | None = None) -> Any:
    """The coordinates of all elements of an array of such dimensions, coordinates first.

    Raises:
        ValueError: `dimensions` is no tuple or list.
    """
    if not isinstance(dimensions, (tuple, list)):
        raise ValueError("The dimensions must be sequence of ints")
    return flavour.call("_npi_indices", [], {"dimensions": dimensions, "dtype": dtype}, None, ctx)


def hanning(flavour: Flavour, M: int, dtype: Any = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Hann window of M points."""
    return flavour.call("_npi_hanning", [], {"M": M, "dtype": dtype}, None, ctx)


def hamming(flavour: Flavour, M: int, dtype: Any = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Hamming window of M points."""
    return flavour.call("_npi_hamming", [], {"M": M, "dtype": dtype}, None, ctx)


def blackman(flavour: Flavour, M: int, dtype: Any = np.float32, ctx: Context | None = None) -> Any:  # noqa: N803
    """The Blackman window of M points."""
    return flavour.call("_npi_blackman", [], {"M": M, "dtype": dtype}, None, ctx)


# ------------------------------------------------------------ like another array
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None,
              out: Any = None) -> Any:
    """One value in the shape of a, and its dtype unless another is given."""
    _need_c(order)
    return call("_npi_full_like", [a], out, fill_value=fill_value, dtype=dtype)


def zeros_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """Zeros in the shape of a, and its dtype unless another is given."""
    return full_like(a, 0, dtype, order, ctx, out)


def ones_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """Ones in the shape of a, and its dtype unless another is given."""
    return full_like(a, 1, dtype, order, ctx, out)


def empty_like(prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None) -> Any:
    """An array with the shape and dtype of another one, whose values mean nothing (zeros).

    Raises:
        NotImplementedError: another order, subok, or shape.
    """
    _need_c(order)
    if subok or shape is not None:
        raise NotImplementedError("empty_like does not support subok and shape")
    return call("_npi_empty_like_fallback", [prototype], dtype=dtype)
