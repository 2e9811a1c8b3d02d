"""Element-wise functions of one array, and of two arrays or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import level
from ..array.creation import array as to_ndarray
from ..array.dense import NDArray
from ..array.python_operators import as_argument
from ..base import numeric_types
from ..eager.call_cache import kernel_of
from ..eager.dispatch import invoke
from ..util import check_ufunc_options, is_np_default_dtype
from ._dispatch import IMPERATIVE, ArrayOrSymbol, Operand, call, is_array, is_number

if TYPE_CHECKING:  # of those that `_add` adds, the ones that other files use by name
    from ._stubs.multiarray import abs as abs
    from ._stubs.multiarray import absolute as absolute
    from ._stubs.multiarray import add as add
    from ._stubs.multiarray import bitwise_left_shift as bitwise_left_shift
    from ._stubs.multiarray import bitwise_right_shift as bitwise_right_shift
    from ._stubs.multiarray import ceil as ceil
    from ._stubs.multiarray import exp as exp
    from ._stubs.multiarray import floor as floor
    from ._stubs.multiarray import floor_divide as floor_divide
    from ._stubs.multiarray import invert as invert
    from ._stubs.multiarray import multiply as multiply
    from ._stubs.multiarray import negative as negative
    from ._stubs.multiarray import trunc as trunc

__all__ = ["around", "clip", "nan_to_num", "round", "round_"]


def _add(name: str, function: Callable[..., Any], doc: str) -> None:
    """Adds a function to this module."""
    function.__name__ = function.__qualname__ = name
    function.__doc__, function.__module__ = doc, "mxjax.numpy"
    globals()[name] = function
    __all__.append(name)


# ------------------------------------------------------------ of one array
_NO_FLOATS = "\n        MXNetError: x has a floating dtype."
_NO_BOOLEANS = "\n        MXNetError: x has dtype bool."
_OLD_NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
              "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
              "bitwise_right_shift": "right_shift", "pow": "power"}  # those that NumPy 1 has
_TRUTHS = {"logical_not", "isnan", "isinf", "isposinf", "isneginf", "isfinite"}


def _unary(name: str, op: str, doc: str, values: str, result: str, digits: list[int]) -> None:
    """Adds a function of an array.

    Args:
        op: the operator.
        doc: first words of its docstring.
        values, result: its example: the values of the array, and the printed result.
        digits: the number of decimals to which the example rounds the result; empty for none.
    """
    def function(x: Operand, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
        if kwargs:
            check_ufunc_options(name, kwargs)
        if isinstance(x, IMPERATIVE.kind) and out is None:
            return invoke(kernel_of(op), [x])
        if is_array(x):
            if out is not None and name in _TRUTHS and getattr(out, "dtype", None) != np.bool_:
                raise TypeError(f"{name}: out must have dtype bool, got {getattr(out, 'dtype', type(out))}")
            return call(op, [x], out)
        if is_number(x):
            return getattr(np, _OLD_NAMES.get(name, name))(x)
        raise TypeError(f"{name}: type {type(x)} not supported")
    truth, bits = name in _TRUTHS, op == "_npi_bitwise_not"
    _add(name, function, f"""{doc}, element by element.

    Args:
        x: ndarray, symbol or number{" (integers or booleans)" * bits}; for a number the result is a number.
        out: ndarray{" of dtype bool" * truth} to write to.
        kwargs: NumPy's ufunc options (`where`, `order`, ...); only their defaults are supported.

    Returns:
        An ndarray of the shape {"of x and dtype bool" if truth else "and dtype of x"}.

    Raises:
        TypeError: x is of another type, such as a list{", out is not of bool," * truth} or an option is unknown.
        NotImplementedError: an option is not set to its default.{"" if truth else _NO_FLOATS if bits else _NO_BOOLEANS}

    Example:
        >>> mx.np.{name}(mx.np.array({values})){f".round({digits[0]})" if digits else ""}
        {result}
    """)


for _name, _op, _doc, _values, _result, *_digits in [
    ("abs", "abs", "Absolute value", "[-1, 0, 2]", "array([1., 0., 2.])"),
    ("fabs", "abs", "Absolute value", "[-1.5, 0, 2]", "array([1.5, 0. , 2. ])"),
    ("absolute", "absolute", "Absolute value", "[-1, 0, 2]", "array([1., 0., 2.])"),
    ("negative", "negative", "Negation, -x", "[-1, 2]", "array([ 1., -2.])"),
    ("sign", "sign", "Sign (-1, 0 or 1)", "[-3, 0, 2]", "array([-1.,  0.,  1.])"),
    ("reciprocal", "reciprocal", "Reciprocal, 1 / x", "[1, 2, 4]", "array([1.  , 0.5 , 0.25])"),
    ("square", "square", "Square", "[-1, 2, 3]", "array([1., 4., 9.])"),
    ("sqrt", "sqrt", "Square root", "[1, 4, 9]", "array([1., 2., 3.])"),
    ("cbrt", "cbrt", "Cube root", "[1, 8, 27]", "array([1., 2., 3.])", 2),
    ("exp", "exp", "Exponential", "[0, 1, 2]", "array([1.  , 2.72, 7.39])", 2),
    ("expm1", "expm1", "exp(x) - 1", "[0, 1, 2]", "array([0.  , 1.72, 6.39])", 2),
    ("log", "log", "Natural logarithm", "[1, 2, 10]", "array([0.  , 0.69, 2.3 ])", 2),
    ("log2", "log2", "Logarithm to base 2", "[1, 2, 8]", "array([0., 1., 3.])", 2),
    ("log10", "log10", "Logarithm to base 10", "[1, 10, 100]", "array([0., 1., 2.])", 2),
    ("log1p", "log1p", "log(1 + x)", "[0, 1, 9]", "array([0.  , 0.69, 2.3 ])", 2),
    ("sin", "sin", "Sine", "[0, 1, 2]", "array([0.  , 0.84, 0.91])", 2),
    ("cos", "cos", "Cosine", "[0, 1, 2]", "array([ 1.  ,  0.54, -0.42])", 2),
    ("tan", "tan", "Tangent", "[0, 1, 2]", "array([ 0.  ,  1.56, -2.19])", 2),
    ("arcsin", "arcsin", "Inverse sine", "[0, 0.5, 1]", "array([0.  , 0.52, 1.57])", 2),
    ("arccos", "arccos", "Inverse cosine", "[0, 0.5, 1]", "array([1.57, 1.05, 0.  ])", 2),
    ("arctan", "arctan", "Inverse tangent", "[0, 1, 2]", "array([0.  , 0.79, 1.11])", 2),
    ("sinh", "sinh", "Hyperbolic sine", "[0, 1, 2]", "array([0.  , 1.18, 3.63])", 2),
    ("cosh", "cosh", "Hyperbolic cosine", "[0, 1, 2]", "array([1.  , 1.54, 3.76])", 2),
    ("tanh", "tanh", "Hyperbolic tangent", "[0, 1, 2]", "array([0.  , 0.76, 0.96])", 2),
    ("arcsinh", "arcsinh", "Inverse hyperbolic sine", "[0, 1, 2]", "array([0.  , 0.88, 1.44])", 2),
    ("arccosh", "arccosh", "Inverse hyperbolic cosine", "[1, 2, 3]", "array([0.  , 1.32, 1.76])", 2),
    ("arctanh", "arctanh", "Inverse hyperbolic tangent", "[-0.5, 0, 0.5]", "array([-0.55,  0.  ,  0.55])", 2),
    ("degrees", "degrees", "Converts radians to degrees", "[0, 1, 2]", "array([  0. ,  57.3, 114.6])", 1),
    ("rad2deg", "degrees", "Converts radians to degrees", "[0, 1, 2]", "array([  0. ,  57.3, 114.6])", 1),
    ("radians", "radians", "Converts degrees to radians", "[0, 90, 180]", "array([0.  , 1.57, 3.14])", 2),
    ("deg2rad", "radians", "Converts degrees to radians", "[0, 90, 180]", "array([0.  , 1.57, 3.14])", 2),
    ("ceil", "ceil", "Smallest integer not below x", "[-1.5, 0.2, 2]", "array([-1.,  1.,  2.])"),
    ("floor", "floor", "Largest integer not above x", "[-1.5, 0.2, 2]", "array([-2.,  0.,  2.])"),
    ("trunc", "trunc", "Integer part", "[-1.5, 0.2, 2.7]", "array([-1.,  0.,  2.])"),
    ("fix", "fix", "Nearest integer towards zero", "[-1.5, 0.2, 2.7]", "array([-1.,  0.,  2.])"),
    ("rint", "rint", "Nearest integer, with halves rounded down", "[-1.7, 0.5, 2.7]", "array([-2.,  0.,  3.])"),
    ("logical_not", "logical_not", "Tests whether x is zero", "[0, 1, 2]", "array([ True, False, False])"),
    ("bitwise_not", "bitwise_not", "Inverts all bits", '[0, 1, 5], dtype="int32"', "array([-1, -2, -6], dtype=int32)"),
    ("invert", "bitwise_not", "Inverts all bits", '[0, 1, 5], dtype="int32"', "array([-1, -2, -6], dtype=int32)"),
    ("acos", "arccos", "Inverse cosine", "[0, 0.5, 1]", "array([1.57, 1.05, 0.  ])", 2),
    ("acosh", "arccosh", "Inverse hyperbolic cosine", "[1, 2, 3]", "array([0.  , 1.32, 1.76])", 2),
    ("asin", "arcsin", "Inverse sine", "[0, 0.5, 1]", "array([0.  , 0.52, 1.57])", 2),
    ("asinh", "arcsinh", "Inverse hyperbolic sine", "[0, 1, 2]", "array([0.  , 0.88, 1.44])", 2),
    ("atan", "arctan", "Inverse tangent", "[0, 1, 2]", "array([0.  , 0.79, 1.11])", 2),
    ("atanh", "arctanh", "Inverse hyperbolic tangent", "[-0.5, 0, 0.5]", "array([-0.55,  0.  ,  0.55])", 2),
    ("bitwise_invert", "bitwise_not", "Inverts all bits", '[0, 1, 5], dtype="int32"',
     "array([-1, -2, -6], dtype=int32)"),
    ("isnan", "isnan", "Tests whether x is NaN", "[1, np.nan]", "array([False,  True])"),
    ("isinf", "isinf", "Tests whether x is infinite", "[1, np.inf, -np.inf]", "array([False,  True,  True])"),
    ("isposinf", "isposinf", "Tests whether x is +infinity", "[1, np.inf, -np.inf]", "array([False,  True, False])"),
    ("isneginf", "isneginf", "Tests whether x is -infinity", "[1, np.inf, -np.inf]", "array([False, False,  True])"),
    ("isfinite", "isfinite", "Tests whether x is finite", "[1, np.inf, np.nan]", "array([ True, False, False])"),
]:
    _unary(_name, f"_npi_{_op}", _doc, _values, _result, _digits)


def around(x: Operand, decimals: int = 0, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
    """Rounds to the given number of decimals, halves to the nearest even value.

    Args:
        x: ndarray, symbol or number; for a number the result is a number.
        decimals: number of digits after the decimal point; negative numbers round before it.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options; only their defaults are supported.

    Returns:
        An ndarray of x's shape and dtype.

    Raises:
        TypeError: x is of another type, such as a list, or an option is unknown.
        NotImplementedError: an option does not have its default value.

    Example:
        >>> mx.np.around(mx.np.array([0.5, 1.5, 2.789]))
        array([0., 2., 3.])
        >>> mx.np.around(mx.np.array([0.5, 1.5, 2.789]), 2)
        array([0.5 , 1.5 , 2.79])
    """
    check_ufunc_options("around", kwargs)
    return np.around(x, decimals) if is_number(x) else call("_npi_around", [x], out, decimals=decimals)


def round(x: Operand, decimals: int = 0, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
    """An alias of `around`.

    Args:
        x: ndarray, symbol or number; for a number the result is a number.
        decimals: number of digits after the decimal point; negative numbers round before it.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options; only their defaults are supported.

    Returns:
        An ndarray of x's shape and dtype.

    Example:
        >>> mx.np.round(mx.np.array([1.25, 2.789]), 1)
        array([1.2, 2.8])
    """
    return around(x, decimals, out, **kwargs)


def round_(x: Operand, decimals: int = 0, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
    """An alias of `around`.

    Args:
        x: ndarray, symbol or number; for a number the result is a number.
        decimals: number of digits after the decimal point; negative numbers round before it.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options; only their defaults are supported.

    Returns:
        An ndarray of x's shape and dtype.

    Example:
        >>> mx.np.round_(mx.np.array([1.25, 2.789]), 1)
        array([1.2, 2.8])
    """
    return around(x, decimals, out, **kwargs)


def clip(a: Operand, a_min: float | None, a_max: float | None, out: ArrayOrSymbol | None = None) -> Any:
    """Clips the values to [a_min, a_max].

    Args:
        a: ndarray, symbol or number; for a number the result is a number.
        a_min: the lower limit; None for no limit.
        a_max: the upper limit; None for no limit.
        out: ndarray to write to.

    Returns:
        An ndarray of the shape and dtype of `a`.

    Raises:
        ValueError: both limits are None.

    Example:
        >>> mx.np.clip(mx.np.array([-1, 0.5, 2]), 0, 1)
        array([0. , 0.5, 1. ])
        >>> mx.np.clip(mx.np.array([-1, 0.5, 2]), None, 1)
        array([-1. ,  0.5,  1. ])
    """
    if is_number(a):
        return np.clip(a, a_min, a_max)
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    return call("_npi_clip", [a], out, a_min=-np.inf if a_min is None else a_min,
                a_max=np.inf if a_max is None else a_max)


def nan_to_num(x: Operand, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None, **kwargs: Any) -> Any:
    """Replaces NaN and infinities by numbers.

    Args:
        x: ndarray, symbol or number; for a number the result is a number.
        copy: whether to return a copy; otherwise `x` is modified in place.
        nan: replacement of NaN.
        posinf, neginf: replacements of the infinities; default to the limits of the dtype.
        kwargs: has no effect.

    Returns:
        An ndarray of x's shape and dtype.

    Example:
        >>> mx.np.nan_to_num(mx.np.array([1, np.nan, -np.inf]), nan=0, neginf=-9)
        array([ 1.,  0., -9.])
    """
    if is_number(x):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    return call("_npi_nan_to_num", [x], None if copy else x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)


# ------------------------------------------------------------ of two arrays or numbers
_OPTIONS = "\n        kwargs: NumPy's ufunc options (`where`, `order`, ...); only their defaults are supported."
_REFUSED = "\n        NotImplementedError: an option is not set to its default."
_LOGICAL = {
    "and": ("Tests whether x1 and x2 are nonzero", ("[0, 0, 2]", "[0, 1, 1]", "array([False, False,  True])")),
    "or": ("Tests whether x1 or x2 is nonzero", ("[0, 0, 2]", "[0, 1, 1]", "array([False,  True,  True])")),
    "xor": ("Tests whether exactly one of both is nonzero", ("[0, 0, 2]", "[0, 1, 1]", "array([False,  True, False])")),
}
_COMPARISONS = ("logical_and", "logical_or", "logical_xor", "equal", "not_equal", "greater", "greater_equal", "less",
                "less_equal")
_DTYPES = {"_npi_true_divide": "dtype; float32 for integers. A number does not change the dtype",
           **{f"_npi_{name}": "dtype bool" for name in _COMPARISONS}}
_INTEGERS = ", or a dtype is neither an integer dtype nor bool"
# these return integers for an array of integers and a number with a fraction
_WHOLE = ("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
_WRONG = {**dict.fromkeys(_WHOLE, _INTEGERS),
          **dict.fromkeys(("arctan2", "hypot"), ", or both have integer dtypes")}


_ARRAYS = (np.ndarray, NDArray)


def _of_others(array: ArrayOrSymbol) -> Any:
    """Converts a NumPy array or a classic NDArray to an ndarray; MXNet 2 accepts them as operands."""
    return array.as_np_ndarray() if isinstance(array, NDArray) else to_ndarray(array, dtype=array.dtype).as_np_ndarray()


def _document(name: str, op: str, doc: str, example: tuple[str, str, str], options: bool) -> str:
    """Returns the docstring of a function of two arguments; the arguments are those of `_binary`."""
    arguments = ", ".join(f"mx.np.array({v})" if v.startswith("[") else v for v in example[:2])
    return f"""{doc}, element by element with broadcasting.

    Args:
        x1, x2: ndarrays, symbols or numbers; for two numbers the result is a number.
        out: ndarray to write to.{_OPTIONS * options}

    Returns:
        An ndarray of the common shape and {_DTYPES.get(op, "dtype. A number does not change the dtype")}.

    Raises:
        TypeError: x1 or x2 is of another type, like a list{", or an option is unknown" * options}.{_REFUSED * options}
        MXNetError: the shapes do not broadcast{_WRONG.get(name, ", or the dtypes are incompatible")}.

    Example:
        >>> mx.np.{name}({arguments})
        {example[2]}
    """


def _binary(name: str, op: str, doc: str, example: tuple[str, str, str], right: str | None = None,
            counts: bool = True, options: bool = True, promotes: bool = False) -> None:
    """Adds a function of arrays and numbers.

    Args:
        op: the operator of two arrays; `op`_scalar is that of an array and a number.
        doc: first words of its docstring.
        example: the two arguments (in brackets: values of an array), and the printed result.
        right: the operator of a number and an array; default: the same, for commutative functions.
        counts: whether a boolean array is cast to int64 before it is combined with a number.
        options: whether the function takes NumPy's ufunc options.
        promotes: whether a float promotes integers to float64, as in all functions of MXNet 2.
    """
    with_number = f"_npi_{op}_scalar"
    number_first = with_number if right is None else f"_npi_{right}_scalar"
    op = f"_npi_{op}"
    takes_floats, divides = name not in _WHOLE, op == "_npi_true_divide"

    def scalar(scalar_op: str, x: Any, number: Any, out: ArrayOrSymbol | None, right: bool) -> Any:
        given = number.item() if isinstance(number, np.generic) else number
        value = as_argument(given)
        if not isinstance(x, IMPERATIVE.kind):
            whole = (right or promotes or level.current() == 2) and isinstance(value, int)
            return call(scalar_op, [x], out, scalar=float(value), is_int=whole)
        kind = x.chunk.dtype.kind
        if promotes or kind in "biu":
            if divides and kind in "biu" and is_np_default_dtype():
                x = x.astype("float64")
            elif isinstance(value, float) and (promotes or takes_floats and isinstance(given, float)
                                             and level.current() == 2):
                return call(scalar_op, [x], out, scalar=value, is_int=False)
            elif kind == "b" and counts:
                x = x.astype("int64")
        return invoke(kernel_of(scalar_op), [x], (value,), out)

    def function(x1: Operand, x2: Operand, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
        if kwargs:
            check_ufunc_options(name, kwargs)
        kind = IMPERATIVE.kind
        if isinstance(x1, kind) and isinstance(x2, kind):
            return invoke(kernel_of(op), [x1, x2], (), out)
        if isinstance(x2, numeric_types):
            if isinstance(x1, numeric_types):
                return getattr(np, _OLD_NAMES.get(name, name))(x1, x2)
            return scalar(with_number, x1, x2, out, True)
        if isinstance(x1, numeric_types):
            return scalar(number_first, x2, x1, out, False)
        if level.current() == 2 and (isinstance(x1, _ARRAYS) or isinstance(x2, _ARRAYS)):
            x1, x2 = (v if is_array(v) or not isinstance(v, _ARRAYS) else _of_others(v) for v in (x1, x2))
        return call(op, [x1, x2], out)

    def without_options(x1: Operand, x2: Operand, out: ArrayOrSymbol | None = None) -> Any:
        return function(x1, x2, out)
    _add(name, function if options else without_options, _document(name, op, doc, example, options))


for _name, _op, _doc, _example, *_right in [
    ("add", "add", "Adds x1 and x2", ("[1, 2]", "[[10], [20]]", "array([[11., 12.],\n               [21., 22.]])")),
    ("subtract", "subtract", "Subtracts x2 from x1", ("[5, 7]", "2", "array([3., 5.])"), "rsubtract"),
    ("multiply", "multiply", "Multiplies x1 by x2", ("[1, 2]", "[3, 4]", "array([3., 8.])")),
    ("divide", "true_divide", "Divides x1 by x2", ("[1, 3]", "2", "array([0.5, 1.5])"), "rtrue_divide"),
    ("mod", "mod", "Remainder of x1 / x2 with the sign of x2", ("[-7, 7]", "3", "array([2., 1.])"), "rmod"),
    ("remainder", "mod", "Remainder of x1 / x2 with the sign of x2", ("[-7, 7]", "3", "array([2., 1.])"), "rmod"),
    ("power", "power", "Raises x1 to the power of x2", ("[1, 2, 3]", "2", "array([1., 4., 9.])"), "rpower"),
    ("pow", "power", "Raises x1 to the power of x2", ("[1, 2, 3]", "2", "array([1., 4., 9.])"), "rpower"),
    ("atan2", "arctan2", "Angle of the point (x2, x1)",
     ("[0, 1]", "[1, 0]", "array([0.       , 1.5707964])"), "rarctan2"),
    ("maximum", "maximum", "Larger of x1 and x2", ("[1, 5]", "[3, 2]", "array([3., 5.])")),
    ("minimum", "minimum", "Smaller of x1 and x2", ("[1, 5]", "[3, 2]", "array([1., 2.])")),
    ("arctan2", "arctan2", "Angle of the point (x2, x1)",
     ("[0, 1]", "[1, 0]", "array([0.       , 1.5707964])"), "rarctan2"),
    ("hypot", "hypot", "Hypotenuse, sqrt(x1² + x2²)", ("[3, 5]", "[4, 12]", "array([ 5., 13.])")),
    ("copysign", "copysign", "|x1| with the sign of x2", ("[1, 2]", "[-1, 1]", "array([-1.,  2.])"), "rcopysign"),
    ("ldexp", "ldexp", "x1 · 2 ** x2", ("[1, 3]", "[2, 3]", "array([ 4., 24.])"), "rldexp"),
]:
    _binary(_name, _op, _doc, _example, right=_right[0] if _right else None)
_binary("true_divide", "true_divide", "Divides x1 by x2", ("1", "[2, 4]", "array([0.5 , 0.25])"), right="rtrue_divide",
        options=False)
for _name, _op, _doc, _example, *_right in [
    ("fmod", "fmod", "Remainder of x1 / x2 with the sign of x1", ("[-7, 7]", "3", "array([-1.,  1.])"), "rfmod"),
    ("fmax", "fmax", "Larger of x1 and x2, ignoring NaN if only one is NaN",
     ("[1, np.nan]", "[3, 2]", "array([3., 2.])")),
    ("fmin", "fmin", "Smaller of x1 and x2, ignoring NaN if only one is NaN",
     ("[1, np.nan]", "[3, 2]", "array([1., 2.])")),
    ("logaddexp", "logaddexp", "log(exp(x1) + exp(x2)), without overflow",
     ("[0, 1]", "[0, 1]", "array([0.6931472, 1.6931472])")),
]:
    _binary(_name, _op, _doc, _example, right=_right[0] if _right else None, promotes=True)
_binary("floor_divide", "floor_divide", "Largest integer not above x1 / x2",
        ("[-7, 7]", "2", "array([-4.,  3.])"), right="rfloor_divide", options=False, promotes=True)
for _name, _doc, _right, _example in [
    ("left", "Shifts the bits of x1 to the left by x2", "rbitwise_left_shift", "array([20, 24], dtype=int32)"),
    ("right", "Shifts the bits of x1 to the right by x2", "rbitwise_right_shift", "array([1, 1], dtype=int32)"),
]:
    _binary(f"bitwise_{_name}_shift", f"bitwise_{_name}_shift", _doc, ('[5, 6], dtype="int32"', "2", _example),
            right=_right, counts=False, options=False)
for _name in ("and", "or", "xor"):
    _binary(f"logical_{_name}", f"logical_{_name}", *_LOGICAL[_name], counts=False, options=False, promotes=True)
for _name, _doc, _example in [
    ("gcd", "Greatest common divisor", ('[4, 9], dtype="int32"', "6", "array([2, 3], dtype=int32)")),
    ("lcm", "Least common multiple", ('[4, 6], dtype="int32"', "6", "array([12,  6], dtype=int32)")),
    ("bitwise_and", "Bitwise AND of x1 and x2", ('[5, 6], dtype="int32"', "3", "array([1, 2], dtype=int32)")),
    ("bitwise_or", "Bitwise OR of x1 and x2", ('[5, 6], dtype="int32"', "3", "array([7, 7], dtype=int32)")),
    ("bitwise_xor", "Bitwise exclusive OR of x1 and x2", ('[5, 6], dtype="int32"', "3", "array([6, 5], dtype=int32)")),
]:
    _binary(_name, _name, _doc, _example, counts=False)
for _name, _right, _doc, _example in [
    ("equal", None, "x1 = x2", ("[1, 2, 3]", "2", "array([False,  True, False])")),
    ("not_equal", None, "x1 ≠ x2", ("[1, 2, 3]", "2", "array([ True, False,  True])")),
    ("greater", "less", "x1 > x2", ("[1, 2, 3]", "2", "array([False, False,  True])")),
    ("greater_equal", "less_equal", "x1 ≥ x2", ("[1, 2, 3]", "2", "array([False,  True,  True])")),
    ("less", "greater", "x1 < x2", ("[1, 2, 3]", "2", "array([ True, False, False])")),
    ("less_equal", "greater_equal", "x1 ≤ x2", ("[1, 2, 3]", "2", "array([ True,  True, False])")),
]:
    _binary(_name, _name, f"Tests whether {_doc}", _example, right=_right, counts=False, options=False)
