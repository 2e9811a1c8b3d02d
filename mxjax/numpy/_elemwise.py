"""Element-wise functions: of one array, of two arrays or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.calling import invoke
from ..array.dense import _number
from ..array.prepared import kernel_of
from ..base import numeric_types
from ..util import check_ufunc_options
from ._dispatch import IMPERATIVE, call, is_array, is_number

__all__ = ["around", "clip", "nan_to_num", "round", "round_"]


def _define(name: str, arguments: str, body: Callable[..., Any], doc: str, options: bool) -> None:
    """Adds a function with real argument names to this module."""
    scope: dict[str, Any] = {"body": body, "check": check_ufunc_options}
    more = ", **kwargs" if options else ""
    check = f"    kwargs and check({name!r}, kwargs)\n" if options else ""
    exec(f"def {name}({arguments}, out=None{more}):\n{check}    return body({arguments}, out)", scope)
    function = scope[name]
    function.__doc__, function.__module__ = doc, "mxjax.numpy"
    globals()[name] = function
    __all__.append(name)


# ------------------------------------------------------------ of one array
_TRUTHS = {"logical_not", "isnan", "isinf", "isposinf", "isneginf", "isfinite"}


def _unary(name: str, op: str, doc: str) -> None:
    def body(x: Any, out: Any) -> Any:
        if isinstance(x, IMPERATIVE.kind) and out is None:
            return invoke(kernel_of(op), [x])
        if is_array(x):
            if out is not None and name in _TRUTHS and getattr(out, "dtype", None) != np.bool_:
                raise TypeError(f"{name}: out must have dtype bool, got {getattr(out, 'dtype', type(out))}")
            return call(op, [x], out)
        if is_number(x):
            return getattr(np, name)(x)
        raise TypeError(f"{name}: type {type(x)} not supported")
    _define(name, "x", body, f"""{doc}, element by element.

    Args:
        x: ndarray or symbol; a number gives a number.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options, at their defaults.
    """, True)


for _name, _op, _doc in [
    ("abs", "abs", "Absolute value"),
    ("fabs", "abs", "Absolute value"),
    ("absolute", "absolute", "Absolute value"),
    ("negative", "negative", "-x"),
    ("sign", "sign", "-1, 0 or 1"),
    ("reciprocal", "reciprocal", "1 / x"),
    ("square", "square", "x²"),
    ("sqrt", "sqrt", "Square root"),
    ("cbrt", "cbrt", "Cube root"),
    ("exp", "exp", "Exponential"),
    ("expm1", "expm1", "exp(x) - 1"),
    ("log", "log", "Natural logarithm"),
    ("log2", "log2", "Logarithm to base 2"),
    ("log10", "log10", "Logarithm to base 10"),
    ("log1p", "log1p", "log(1 + x)"),
    ("sin", "sin", "Sine"),
    ("cos", "cos", "Cosine"),
    ("tan", "tan", "Tangent"),
    ("arcsin", "arcsin", "Inverse sine"),
    ("arccos", "arccos", "Inverse cosine"),
    ("arctan", "arctan", "Inverse tangent"),
    ("sinh", "sinh", "Hyperbolic sine"),
    ("cosh", "cosh", "Hyperbolic cosine"),
    ("tanh", "tanh", "Hyperbolic tangent"),
    ("arcsinh", "arcsinh", "Inverse hyperbolic sine"),
    ("arccosh", "arccosh", "Inverse hyperbolic cosine"),
    ("arctanh", "arctanh", "Inverse hyperbolic tangent"),
    ("degrees", "degrees", "Radians to degrees"),
    ("rad2deg", "degrees", "Radians to degrees"),
    ("radians", "radians", "Degrees to radians"),
    ("deg2rad", "radians", "Degrees to radians"),
    ("ceil", "ceil", "Smallest integer not below x"),
    ("floor", "floor", "Largest integer not above x"),
    ("trunc", "trunc", "Integer part"),
    ("fix", "fix", "Nearest integer towards zero"),
    ("rint", "rint", "Nearest integer, halves down"),
    ("logical_not", "logical_not", "Whether x is zero"),
    ("bitwise_not", "bitwise_not", "All bits inverted"),
    ("invert", "bitwise_not", "All bits inverted"),
    ("isnan", "isnan", "Whether x is NaN"),
    ("isinf", "isinf", "Whether x is infinite"),
    ("isposinf", "isposinf", "Whether x is +infinity"),
    ("isneginf", "isneginf", "Whether x is -infinity"),
    ("isfinite", "isfinite", "Whether x is finite"),
]:
    _unary(_name, f"_npi_{_op}", _doc)


def around(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """Values rounded to so many decimals, halves to the even neighbour."""
    check_ufunc_options("around", kwargs)
    return np.around(x, decimals) if is_number(x) else call("_npi_around", [x], out, decimals=decimals)


def round(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """As `around`."""
    return around(x, decimals, out, **kwargs)


def round_(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """As `around`."""
    return around(x, decimals, out, **kwargs)


def clip(a: Any, a_min: float | None, a_max: float | None, out: Any = None) -> Any:
    """Values limited to [a_min, a_max]; one of the limits may be None.

    Raises:
        ValueError: both limits are None.
    """
    if is_number(a):
        return np.clip(a, a_min, a_max)
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    return call("_npi_clip", [a], out, a_min=-np.inf if a_min is None else a_min,
                a_max=np.inf if a_max is None else a_max)


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None,
               **kwargs: Any) -> Any:
    """NaN replaced by `nan`, infinities by the given numbers (default: the dtype's limits); in place unless `copy`."""
    if is_number(x):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    return call("_npi_nan_to_num", [x], None if copy else x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)


# ------------------------------------------------------------ of two arrays or numbers
def _binary(name: str, op: str, doc: str, right: str | None = None, plain: Callable | None = None,
            counts: bool = True, options: bool = True) -> None:
    """Adds a function of arrays and numbers.

    Args:
        op: the operator of two arrays; `op`_scalar is that of an array and a number.
        right: the one of a number and an array (default: the same, for functions that commute).
        plain: the function of two numbers (default NumPy's).
        counts: whether booleans that meet a number count as int64.
        options: whether the function takes NumPy's ufunc options.
    """
    with_number = f"_npi_{op}_scalar"
    number_first = with_number if right is None else f"_npi_{right}_scalar"
    op = f"_npi_{op}"

    def scalar(scalar_op: str, x: Any, number: Any, out: Any) -> Any:
        value = _number(number.item() if isinstance(number, np.generic) else number)
        if not isinstance(x, IMPERATIVE.kind):
            return call(scalar_op, [x], out, scalar=float(value))
        if counts and x._chunk.dtype == np.bool_:
            x = x.astype("int64")
        return invoke(kernel_of(scalar_op), [x], (value,), out)

    def body(x1: Any, x2: Any, out: Any) -> Any:
        kind = IMPERATIVE.kind
        if isinstance(x1, kind) and isinstance(x2, kind):
            return invoke(kernel_of(op), [x1, x2], (), out)
        if isinstance(x2, numeric_types):
            if isinstance(x1, numeric_types):
                return (plain or getattr(np, name))(x1, x2)
            return scalar(with_number, x1, x2, out)
        if isinstance(x1, numeric_types):
            return scalar(number_first, x2, x1, out)
        return call(op, [x1, x2], out)
    _define(name, "x1, x2", body, f"""{doc}, element by element with broadcasting.

    Args:
        x1, x2: ndarrays or symbols, or one of them a number; two numbers give a number.
        out: ndarray to write to.
    """, options)


for _name, _op, _doc, *_right in [
    ("add", "add", "x1 + x2"),
    ("subtract", "subtract", "x1 - x2", "rsubtract"),
    ("multiply", "multiply", "x1 · x2"),
    ("divide", "true_divide", "x1 / x2", "rtrue_divide"),
    ("mod", "mod", "Remainder of x1 / x2 with the sign of x2", "rmod"),
    ("remainder", "mod", "Remainder of x1 / x2 with the sign of x2", "rmod"),
    ("power", "power", "x1 to the power of x2", "rpower"),
    ("maximum", "maximum", "The larger of both"),
    ("minimum", "minimum", "The smaller of both"),
    ("arctan2", "arctan2", "The angle of the point (x2, x1)", "rarctan2"),
    ("hypot", "hypot", "sqrt(x1² + x2²)"),
    ("copysign", "copysign", "|x1| with the sign of x2", "rcopysign"),
    ("ldexp", "ldexp", "x1 · 2 to the power of x2", "rldexp"),
]:
    _binary(_name, _op, _doc, right=_right[0] if _right else None)
_binary("true_divide", "true_divide", "x1 / x2", right="rtrue_divide", options=False)
for _name, _doc in [("lcm", "Least common multiple"), ("bitwise_and", "Bits set in both"),
                    ("bitwise_or", "Bits set in one or both"), ("bitwise_xor", "Bits set in exactly one")]:
    _binary(_name, _name, _doc, counts=False)
for _name, _right, _doc in [("equal", None, "x1 = x2"), ("not_equal", None, "x1 ≠ x2"), ("greater", "less", "x1 > x2"),
                            ("greater_equal", "less_equal", "x1 ≥ x2"), ("less", "greater", "x1 < x2"),
                            ("less_equal", "greater_equal", "x1 ≤ x2")]:
    _binary(_name, _name, f"Whether {_doc}", right=_right, counts=False, options=False)
