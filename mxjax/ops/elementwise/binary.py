"""Element-wise operators of two or more arrays of one shape."""

from __future__ import annotations

from ...base import MXNetError
from ..common import Array
from ..infer import elementwise
from ..registry import register
from ._functions import TABLE, Binary


def _check_alike(name: str, *arrays: Array) -> None:
    """Raises MXNetError unless all arrays have one shape."""
    for i, other in enumerate(arrays):
        if other.shape != arrays[0].shape:
            raise MXNetError(f"operator {name}: input {i} has shape {other.shape}, but the first input has shape "
                             f"{arrays[0].shape}; the shapes must match")


def _binary(name: str, function: Binary, doc: str, aliases: tuple[str, ...]) -> None:
    def compute(lhs: Array, rhs: Array) -> Array:
        _check_alike(name, lhs, rhs)
        return function(lhs, rhs).astype(lhs.dtype)
    compute.__doc__ = f"{doc}, element by element (a: lhs, b: rhs).\n\nlhs, rhs: one shape and dtype -> the same."
    register(name, aliases=aliases, infer_shape=elementwise)(compute)


# MXNet's name, the name in `_binary`, aliases
for _name, _key, *_aliases in [
    ("elemwise_add", "add", "_plus", "_Plus", "_add", "_sparse_elemwise_add"),
    ("elemwise_sub", "sub", "_minus", "_Minus", "_sub", "_sparse_elemwise_sub"),
    ("elemwise_mul", "mul", "_mul", "_Mul", "_sparse_elemwise_mul"),
    ("elemwise_div", "div", "_div", "_Div", "_sparse_elemwise_div"),
    ("_grad_add", "add"),
    ("_scatter_elemwise_div", "div"),
    ("_mod", "mod", "_Mod"),
    ("_power", "power", "_Power"),
    ("_maximum", "maximum", "_Maximum"),
    ("_minimum", "minimum", "_Minimum"),
    ("_hypot", "hypot", "_Hypot"),
    ("_equal", "equal", "_Equal"),
    ("_not_equal", "not_equal", "_Not_Equal"),
    ("_greater", "greater", "_Greater"),
    ("_greater_equal", "greater_equal", "_Greater_Equal"),
    ("_lesser", "lesser", "_Lesser"),
    ("_lesser_equal", "lesser_equal", "_Lesser_Equal"),
    ("_logical_and", "logical_and", "_Logical_And"),
    ("_logical_or", "logical_or", "_Logical_Or"),
    ("_logical_xor", "logical_xor", "_Logical_Xor"),
]:
    _binary(_name, *TABLE[_key], tuple(_aliases))


@register("add_n", aliases=("ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"), infer_shape=elementwise)
def add_n(*args: Array) -> Array:
    """The sum of any number of arrays of one shape and dtype."""
    _check_alike("add_n", *args)
    return sum(args[1:], start=args[0])
