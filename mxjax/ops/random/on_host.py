"""Draws as MXNet makes them on CPUs, to the bit: distributions with numbers and with arrays, and integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._random.mersenne import Source
from ..._support.c_math import c_function, mixed
from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..params import np_dtype
from . import _host_rejection
from ._distributions import float_or

__all__ = ["Draw", "by_arrays", "by_numbers", "integers", "rounded", "size_of"]

# (source, parameters, inputs, training) -> draws
Draw = Callable[[Source, dict[str, Any], Sequence[Any], bool], "np.ndarray | None"]
# (source, count, dtype, *parameters that broadcast against a vector of that length) -> a vector
_Vector = Callable[..., np.ndarray]


def _spread(values: np.ndarray, by: Any, to: Any) -> np.ndarray:
    """values * by + to; in their own memory where these are numbers of their type."""
    if np.ndim(by) == 0 and by.dtype == to.dtype == values.dtype:
        values *= by
        values += to
        return values
    return mixed(np.add, mixed(np.multiply, values, by), to)


def _uniform(source: Source, count: int, dtype: np.dtype, low: Any, high: Any) -> np.ndarray:
    return _spread(source.parallel_uniform(count, dtype != np.float32), high - low, low)


def _normal(source: Source, count: int, dtype: np.dtype, mean: Any, deviation: Any) -> np.ndarray:
    return _spread(source.parallel_normal(count, dtype != np.float32), deviation, mean)


def _exponential(source: Source, count: int, dtype: np.dtype, rate: Any) -> np.ndarray:
    drawn = source.parallel_uniform(count, dtype != np.float32).astype(np.float64)
    with np.errstate(divide="ignore"):
        return mixed(np.divide, -c_function("log")(1 - drawn), rate)


VECTORS: dict[str, _Vector] = {
    "uniform": _uniform, "normal": _normal, "exponential": _exponential, "gamma": _host_rejection.gamma,
    "poisson": _host_rejection.poisson, "negative_binomial": _host_rejection.negative_binomial,
    "generalized_negative_binomial": _host_rejection.generalized_negative_binomial}

IN_ORDER: dict[str, _Vector] = {  # as `mx.np.random` draws
    "uniform": lambda source, count, dtype, low, high: low + source.uniform(count) * (high - low),
    "normal": lambda source, count, dtype, mean, deviation: mean + source.normal(count) * deviation,
}


def size_of(shape: Sequence[int] | int | None) -> tuple[int, ...]:
    """The shape that a parameter asks for."""
    result = (1,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if any([n < 0 for n in result]):
        raise MXNetError(f"a shape must not contain negative sizes, got {result}")
    return result


def rounded(values: np.ndarray, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Numbers with a shape and dtype; half precision is rounded by way of float32, as in MXNet."""
    dtype = np.dtype(dtype)
    with np.errstate(over="ignore"):
        if dtype.itemsize < 4 and values.dtype == np.float64:
            values = values.astype(np.float32)
        return values.astype(dtype, copy=False).reshape(shape)


def by_numbers(vector: _Vector, names: Sequence[str]) -> tuple[Draw, Draw]:
    """FDraw of a distribution whose parameters are numbers: for a shape, and for the shape of an array."""
    def draw(source: Source, params: dict[str, Any], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        numbers = [np.float32(params[n]) for n in names]
        return rounded(vector(source, int(np.prod(shape)), dtype, *numbers), shape, dtype)

    def of_shape(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
        return draw(source, params, size_of(params["shape"]), np.dtype(float_or(params["dtype"])))

    def like(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
        data = inputs[0]
        return draw(source, params, data.shape, data.dtype) if data.dtype.kind in "fV" else None
    return of_shape, like


def by_arrays(vector: _Vector) -> Draw:
    """FDraw of a distribution whose parameters are arrays, each element of which has its own part of the result."""
    def draw(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
        first = inputs[0]
        if any(p.shape != first.shape or p.dtype != first.dtype for p in inputs):
            return None  # which the operator refuses
        shape, dtype = first.shape + size_of(params["shape"]), np.dtype(float_or(params["dtype"]))
        refuse_result(shape, np.float64)
        count = math.prod(shape)
        each = count // max(first.size, 1)
        return rounded(vector(source, count, dtype, *(np.repeat(_promoted(p), each) for p in inputs)), shape, dtype)
    return draw


def _promoted(values: np.ndarray) -> np.ndarray:
    """Small integers as C computes with them."""
    return values.astype(np.int32) if values.dtype.kind in "biu" and values.dtype.itemsize < 4 else values


def integer_dtype(name: str | None) -> np.dtype:
    """Returns the dtype of `_random_randint`'s results."""
    if name not in (None, "int32", "int64"):
        raise MXNetError(f"dtype must be int32 or int64, got {name}")
    return np_dtype(name or "int32")


def integers(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_random_randint`."""
    shape, low, high = size_of(params["shape"]), params["low"], params["high"]
    dtype, span = integer_dtype(params["dtype"]), np.uint64(high - low)

    def make(words: np.ndarray) -> np.ndarray:
        result = words[..., 0].astype(np.uint64)
        result <<= np.uint64(31)
        result += words[..., 1]
        result -= result // span * span  # a remainder takes NumPy three times as long
        return result.view(np.int64) + low
    return source.parallel(math.prod(shape), 2, dtype, make).reshape(shape)
