"""Draws as MXNet makes them on CPUs, to the bit: uniform, normal, exponential numbers and integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._mersenne import Source
from ...base import MXNetError
from ..params import np_dtype
from ._distributions import float_or

__all__ = ["Draw", "by_arrays", "by_numbers", "integers", "rounded", "size_of"]

# (source, parameters, inputs, training) -> what is drawn
Draw = Callable[[Source, dict[str, Any], Sequence[Any], bool], "np.ndarray | None"]
# (source, count, wide, *parameters that broadcast against a vector of that length) -> a vector
_Vector = Callable[..., np.ndarray]


def _uniform(source: Source, count: int, wide: bool, low: Any, high: Any) -> np.ndarray:
    return low + (high - low) * source.parallel_uniform(count, wide)


def _normal(source: Source, count: int, wide: bool, mean: Any, deviation: Any) -> np.ndarray:
    return source.parallel_normal(count, wide) * deviation + mean


def _exponential(source: Source, count: int, wide: bool, rate: Any) -> np.ndarray:
    from scipy.special import xlogy  # the C library's logarithm; takes 0.1 s to import

    return -xlogy(1.0, 1.0 - source.parallel_uniform(count, wide).astype(np.float64)) / rate


VECTORS: dict[str, _Vector] = {"uniform": _uniform, "normal": _normal, "exponential": _exponential}

IN_ORDER: dict[str, _Vector] = {  # as `mx.np.random` draws
    "uniform": lambda source, count, wide, low, high: low + source.uniform(count) * (high - low),
    "normal": lambda source, count, wide, mean, deviation: mean + source.normal(count) * deviation,
}


def size_of(shape: Sequence[int] | int | None) -> tuple[int, ...]:
    """The shape that a parameter asks for."""
    found = (1,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if any([n < 0 for n in found]):
        raise MXNetError(f"a shape has no negative lengths, got {found}")
    return found


def rounded(values: np.ndarray, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Numbers with a shape and dtype; half precision is rounded by way of float32, as in MXNet."""
    dtype = np.dtype(dtype)
    if dtype.itemsize < 4 and values.dtype == np.float64:
        values = values.astype(np.float32)
    return values.astype(dtype, copy=False).reshape(shape)


def by_numbers(vector: _Vector, names: Sequence[str]) -> tuple[Draw, Draw]:
    """FDraw of a distribution whose parameters are numbers: for a shape, and for the shape of an array."""
    def draw(source: Source, params: dict[str, Any], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        numbers = [np.float32(params[n]) for n in names]
        return rounded(vector(source, int(np.prod(shape)), dtype != np.float32, *numbers), shape, dtype)

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
        shape, dtype = first.shape + size_of(params["shape"]), np.dtype(float_or(params["dtype"], first.dtype))
        count = int(np.prod(shape))
        each = count // max(first.size, 1)
        return rounded(vector(source, count, dtype != np.float32, *(np.repeat(p, each) for p in inputs)), shape, dtype)
    return draw


def integers(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_random_randint`."""
    shape, low, high = size_of(params["shape"]), params["low"], params["high"]
    words = source.parallel_words(int(np.prod(shape)), 2).astype(np.int64)
    found = low + ((words[:, 0] << 31) + words[:, 1]) % (high - low)
    return found.astype(np_dtype(params["dtype"] or "int32")).reshape(shape)
