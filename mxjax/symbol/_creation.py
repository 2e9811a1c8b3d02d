"""Symbols other than a single operator with its own name: constants, mixed symbols and numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..base import integer_types, numeric_types
from ..ops.params import DTypeLike, ShapeLike, np_dtype
from .symbol import Symbol, apply

__all__ = ["arange", "eye", "full", "histogram", "hypot", "linspace", "maximum", "minimum", "ones", "pow", "power",
           "split_v2", "zeros"]


def _split(kwargs: dict[str, Any]) -> tuple[str | None, dict | None, dict[str, Any]]:
    name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
    kwargs.pop("ctx", None)
    return name, attr, kwargs


def zeros(shape: ShapeLike, dtype: DTypeLike = None, **kwargs: object) -> Symbol:
    """An array of zeros; a 0 in `shape` is an unknown dimension."""
    name, attr, rest = _split(kwargs)
    return apply("_zeros", "_zeros", [], {"shape": shape, "dtype": np_dtype(dtype), **rest}, name, attr)


def ones(shape: ShapeLike, dtype: DTypeLike = None, **kwargs: object) -> Symbol:
    """An array of ones; a 0 in `shape` is an unknown dimension."""
    name, attr, rest = _split(kwargs)
    return apply("_ones", "_ones", [], {"shape": shape, "dtype": np_dtype(dtype), **rest}, name, attr)


def full(shape: ShapeLike, val: float, dtype: DTypeLike = None, **kwargs: object) -> Symbol:
    """An array of `val`."""
    name, attr, rest = _split(kwargs)
    return apply("_full", "_full", [], {"shape": shape, "dtype": np_dtype(dtype), "value": float(val), **rest}, name,
                 attr)


def eye(N: int, M: int = 0, k: int = 0, dtype: DTypeLike = None, **kwargs: object) -> Symbol:  # noqa: N803
    """An N x M matrix with ones on the k-th diagonal."""
    name, attr, rest = _split(kwargs)
    return apply("_eye", "_eye", [], {"N": N, "M": M, "k": k, "dtype": np_dtype(dtype), **rest}, name, attr)


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1, infer_range: bool = False,
           name: str | None = None, dtype: DTypeLike = None) -> Symbol:
    """Evenly spaced values in [start, stop); with `infer_range` the graph determines their number."""
    return apply("_arange", "_arange", [], {"start": start, "stop": stop, "step": step, "repeat": repeat,
                                            "infer_range": infer_range, "dtype": np_dtype(dtype)}, name)


def linspace(start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None,
             dtype: DTypeLike = None) -> Symbol:
    """`num` evenly spaced values from start to stop."""
    return apply("_linspace", "_linspace", [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                                "dtype": np_dtype(dtype)}, name)


def histogram(a: Symbol, bins: Symbol | int = 10, range: tuple | None = None, **kwargs: object) -> Symbol:
    """Counts the values in each bin; also returns the bin edges.

    Raises:
        ValueError: `bins` is a number and there is no `range`, or it is neither a number nor a symbol.
    """
    name, attr, _ = _split(kwargs)
    if isinstance(bins, Symbol):
        return apply("_histogram", "_histogram", [a, bins], {}, name, attr)
    if not isinstance(bins, integer_types):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return apply("_histogram", "_histogram", [a], {"bin_cnt": bins, "range": range}, name, attr)


def split_v2(ary: Symbol, indices_or_sections: int | Sequence[int], axis: int = 0,
             squeeze_axis: bool = False) -> Symbol:
    """Splits into equal sections, or at the given indices, along an axis.

    Raises:
        ValueError: `indices_or_sections` is neither an int nor a tuple of ints.
    """
    if isinstance(indices_or_sections, int):
        indices, sections = (), indices_or_sections
    elif isinstance(indices_or_sections, (tuple, list)):
        indices, sections = (0, *indices_or_sections), 0
    else:
        raise ValueError("indices_or_sections must be int or tuple of ints")
    return apply("_split_v2", "_split_v2", [ary], {"indices": indices, "axis": axis, "squeeze_axis": squeeze_axis,
                                                   "sections": sections})


def _function(name: str, doc: str, tensor: str, scalar: str, reverse: str,
              plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a function of two symbols, a symbol and a number, or two numbers."""
    def function(left: Symbol | float, right: Symbol | float) -> Any:
        if isinstance(left, Symbol) and isinstance(right, Symbol):
            return apply(tensor, tensor.lower(), [left, right], {})
        if isinstance(left, Symbol) and isinstance(right, numeric_types):
            return apply(scalar, scalar.lower(), [left], {"scalar": right})
        if isinstance(right, Symbol) and isinstance(left, numeric_types):
            return apply(reverse, reverse.lower(), [right], {"scalar": left})
        if isinstance(left, numeric_types) and isinstance(right, numeric_types):
            return plain(left, right)
        raise TypeError(f"{name}: types ({type(left).__name__}, {type(right).__name__}) not supported")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}, element by element; symbols or numbers."
    return function


maximum = _function("maximum", "The larger", "_Maximum", "_MaximumScalar", "_MaximumScalar", max)
minimum = _function("minimum", "The smaller", "_Minimum", "_MinimumScalar", "_MinimumScalar", min)
hypot = _function("hypot", "sqrt(left² + right²)", "_Hypot", "_HypotScalar", "_HypotScalar",
                  lambda a, b: (a * a + b * b) ** 0.5)
_power = _function("power", "left to the power right", "_Power", "_PowerScalar", "_RPowerScalar", operator.pow)


def power(base: Symbol | float, exp: Symbol | float) -> Any:
    """base to the power exp, element by element; symbols or numbers."""
    return _power(base, exp)


def pow(base: Symbol | float, exp: Symbol | float) -> Any:
    """base to the power exp, element by element; symbols or numbers."""
    return _power(base, exp)
