"""Creation of arrays, also with the shape of another array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.common import normalized
from ...ops.params import np_dtype
from ...ops.shape.creation import _length
from ..direct import need, numpy_form, to_dtype
from ..program import Array
from .shapes import FLOATS, constant

__all__: list[str] = []

_MOST = 1 << 22  # elements above which the program of the formula checks the memory


def _progression(start: float, step: float, repeat: int, count: int, dtype: np.dtype) -> Any:
    """Returns start, start + step, ..., each `repeat` times; for integers, both are truncated first."""
    need(repeat > 0 and count <= _MOST and (dtype in FLOATS or dtype.kind in "iu" or dtype == np.float16))
    wide = np.float64 if dtype == np.float64 else np.float32
    if dtype.kind in "iu":
        need(max(abs(start), abs(start + step * count)) < 2.0 ** 31)
        start, step, wide = int(start), int(step), np.int64 if dtype.itemsize == 8 else np.int32
    index = np.arange(count)
    if repeat > 1:
        index //= repeat
    result = index.astype(wide)
    result *= wide(step)
    result += wide(start)
    return result.astype(dtype, copy=False)


def _arange(p: dict, empty: bool) -> Any:
    need(not (p.get("shape") is not None and p["infer_range"]))
    start, stop = (0.0, p["start"]) if p["stop"] is None else (p["start"], p["stop"])
    ahead = (stop - start) * p["step"] > 0 or not empty
    count = _length(start, stop, p["step"], p["repeat"]) if ahead else 0
    return _progression(start, p["step"], p["repeat"], count, np_dtype(p["dtype"]))


numpy_form("_arange", mixed=True)(lambda p: _arange(p, False))
numpy_form("_npi_arange", mixed=True)(lambda p: _arange(p, True))


@numpy_form("_linspace", mixed=True)
def _linspace(p: dict) -> Any:
    dtype, parts = np_dtype(p["dtype"]), p["num"] - 1 if p["endpoint"] else p["num"]
    need(p["num"] >= 0 and dtype in FLOATS)
    step = (p["stop"] - p["start"]) / parts if parts > 0 else 0.0
    return _progression(p["start"], step, 1, p["num"], np.dtype("f8")).astype(dtype, copy=False)


def _filled(name: str, value: float | None = None) -> None:
    """Registers arrays of one value, by default that in the parameters."""
    @numpy_form(name, mixed=True)
    def full(p: dict) -> Any:
        need(all([n is not None and n >= 0 for n in p["shape"] or ()]) and math.prod(p["shape"] or ()) <= _MOST)
        number = p["value"] if value is None else value
        return np.full(p["shape"] or (), to_dtype(number, np_dtype(p["dtype"])))


for _prefix in ("", "_npi"):
    _filled(_prefix + "_zeros", 0)
    _filled(_prefix + "_ones", 1)
_filled("_full")


def _eye(rows: int, columns: int, k: int, dtype: str) -> Any:
    need(rows >= 0 and columns >= 0 and rows * columns <= _MOST)
    return np.eye(rows, columns, k, np_dtype(dtype))


numpy_form("_eye", mixed=True)(lambda p: _eye(p["N"], p["M"] or p["N"], p["k"], p["dtype"]))
numpy_form("_npi_eye", mixed=True)(lambda p: _eye(p["N"], p["N"] if p["M"] is None else p["M"], p["k"], p["dtype"]))


@numpy_form("_npi_identity", mixed=True)
def _identity(p: dict) -> Any:
    need(len(p["shape"]) == 2)
    rows, columns = p["shape"]
    return _eye(rows, columns, 0, p["dtype"])




@numpy_form("_npi_indices", mixed=True)
def _indices(p: dict) -> Any:
    need(len(p["dimensions"]) * math.prod(p["dimensions"]) <= _MOST)
    return np.indices(p["dimensions"], np_dtype(p["dtype"]))


constant("zeros_like")(lambda p, x: np.zeros(x.shape, x.dtype))
constant("ones_like")(lambda p, x: np.ones(x.shape, x.dtype))
constant("_npi_full_like")(lambda p, x: np.full(x.shape, to_dtype(p["fill_value"], np_dtype(p["dtype"] or x.dtype))))


@constant("_contrib_arange_like")
def _arange_like(p: dict, x: Array) -> Any:
    if p["axis"] is not None:
        return _progression(p["start"], p["step"], p["repeat"], x.shape[normalized(p["axis"], x.ndim)], x.dtype)
    return _progression(p["start"], p["step"], p["repeat"], math.prod(x.shape), x.dtype).reshape(x.shape)
