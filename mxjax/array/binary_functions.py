"""Two-argument functions of arrays and numbers in any order: `mx.nd.add`, `mx.nd.maximum`, ..."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..base import numeric_types
from ..eager.call_cache import kernel_of
from ..eager.dispatch import invoke
from .dense import NDArray
from .python_operators import as_argument

__all__ = ["add", "divide", "equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or",
           "logical_xor", "maximum", "minimum", "modulo", "multiply", "not_equal", "power", "subtract", "true_divide"]


def _function(name: str, doc: str, tensor: str, scalar: str, reverse: str, plain: Callable[[Any, Any], Any],
              alike: str = "") -> Callable[[Any, Any], Any]:
    """Returns a function of two arrays (`tensor`), an array and a number (`scalar`, `reverse`), or two numbers
    (`plain`).

    alike: the operator for two arrays of the same shape, if it differs.
    """
    alike = alike or tensor

    def function(lhs: Any, rhs: Any) -> Any:
        left, right = isinstance(lhs, NDArray), isinstance(rhs, NDArray)
        if left and right:
            return invoke(kernel_of(alike if lhs.shape == rhs.shape else tensor), [lhs, rhs])
        if left and isinstance(rhs, numeric_types):
            return invoke(kernel_of(scalar), [lhs], (as_argument(float(rhs) if not isinstance(rhs, int) else rhs),))
        if right and isinstance(lhs, numeric_types):
            return invoke(kernel_of(reverse), [rhs], (as_argument(float(lhs) if not isinstance(lhs, int) else lhs),))
        if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
            return plain(lhs, rhs)
        raise TypeError(f"{name}: types {type(lhs).__name__} and {type(rhs).__name__} are not supported")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}, element by element with broadcasting; arrays or numbers."
    return function


# for `mx.nd.sparse`: arrays of the same shape stay sparse
SPARSE = {name: _function(name, doc, f"broadcast_{short}", f"_{long}_scalar", f"_{reverse}_scalar", plain,
                          alike=f"elemwise_{short}") for name, doc, short, long, reverse, plain in [
    ("add", "lhs + rhs", "add", "plus", "plus", operator.add),
    ("subtract", "lhs - rhs", "sub", "minus", "rminus", operator.sub),
    ("multiply", "lhs * rhs", "mul", "mul", "mul", operator.mul),
    ("divide", "lhs / rhs", "div", "div", "rdiv", operator.truediv)]}
add = _function("add", "lhs + rhs", "broadcast_add", "_plus_scalar", "_plus_scalar", operator.add)
subtract = _function("subtract", "lhs - rhs", "broadcast_sub", "_minus_scalar", "_rminus_scalar", operator.sub)
multiply = _function("multiply", "lhs * rhs", "broadcast_mul", "_mul_scalar", "_mul_scalar", operator.mul)
divide = _function("divide", "lhs / rhs", "broadcast_div", "_div_scalar", "_rdiv_scalar", operator.truediv)
true_divide = _function("true_divide", "lhs / rhs", "broadcast_div", "_div_scalar", "_rdiv_scalar", operator.truediv)
modulo = _function("modulo", "lhs % rhs", "broadcast_mod", "_mod_scalar", "_rmod_scalar", operator.mod)
_power = _function("power", "lhs to the power rhs", "broadcast_power", "_power_scalar", "_rpower_scalar", operator.pow)
maximum = _function("maximum", "The larger of lhs and rhs", "broadcast_maximum", "_maximum_scalar", "_maximum_scalar",
                    lambda a, b: a if a > b else b)
minimum = _function("minimum", "The smaller of lhs and rhs", "broadcast_minimum", "_minimum_scalar", "_minimum_scalar",
                    lambda a, b: a if a < b else b)
equal = _function("equal", "lhs == rhs", "broadcast_equal", "_equal_scalar", "_equal_scalar",
                  lambda a, b: 1 if a == b else 0)
not_equal = _function("not_equal", "lhs != rhs", "broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar",
                      lambda a, b: 1 if a != b else 0)
greater = _function("greater", "lhs > rhs", "broadcast_greater", "_greater_scalar", "_lesser_scalar",
                    lambda a, b: 1 if a > b else 0)
greater_equal = _function("greater_equal", "lhs >= rhs", "broadcast_greater_equal", "_greater_equal_scalar",
                          "_lesser_equal_scalar", lambda a, b: 1 if a >= b else 0)
lesser = _function("lesser", "lhs < rhs", "broadcast_lesser", "_lesser_scalar", "_greater_scalar",
                   lambda a, b: 1 if a < b else 0)
lesser_equal = _function("lesser_equal", "lhs <= rhs", "broadcast_lesser_equal", "_lesser_equal_scalar",
                         "_greater_equal_scalar", lambda a, b: 1 if a <= b else 0)
logical_and = _function("logical_and", "lhs and rhs", "broadcast_logical_and", "_logical_and_scalar",
                        "_logical_and_scalar", lambda a, b: 1 if a and b else 0)
logical_or = _function("logical_or", "lhs or rhs", "broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar",
                       lambda a, b: 1 if a or b else 0)
logical_xor = _function("logical_xor", "Exactly one of lhs and rhs", "broadcast_logical_xor", "_logical_xor_scalar",
                        "_logical_xor_scalar", lambda a, b: 1 if bool(a) != bool(b) else 0)


def power(base: Any, exp: Any) -> Any:
    """Returns base to the power exp, element by element with broadcasting, for arrays or numbers."""
    return _power(base, exp)
