"""Element-wise operators of an array and a number."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ..._xla.tracing import settings
from ..._xla.x64 import x64_mode
from ..common import Array, converted, is_float
from ..infer import elementwise
from ..params import DoubleScalar
from ..registry import register
from ._functions import TABLE, Binary


def _result_dtype(dtype: Any, is_int: bool) -> Any:
    """The array's own dtype, whatever the number is; only where `is_int` is False integers become float64."""
    if dtype == jnp.bool_:
        return jnp.dtype("int64" if is_int else "float64")
    return dtype if is_int or is_float(dtype) else jnp.dtype("float64")


def _types(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
    """The result has the dtype of `_result_dtype`; if only the result's is known, the array has the same."""
    if ins[0] is not None:
        outs[0] = _result_dtype(jnp.dtype(ins[0]), params["is_int"]).name
    elif params["is_int"]:
        ins[0] = outs[0]


def _scalar(name: str, key: str, swapped: bool, aliases: tuple[str, ...]) -> None:
    function: Binary
    function, doc = TABLE[key]

    def compute(data: Array, *, scalar: DoubleScalar = 1.0, is_int: bool = True) -> Array:
        dtype = _result_dtype(data.dtype, is_int)
        with x64_mode(dtype, settings.jax_enable_x64):  # booleans make 64-bit integers
            operands = data.astype(dtype), converted(scalar, dtype)
            return function(*(reversed(operands) if swapped else operands)).astype(dtype)
    pair = "a: scalar, b: data" if swapped else "a: data, b: scalar"
    compute.__doc__ = (f"{doc}, element by element ({pair}).\n\ndata: any shape -> the same shape and dtype; the "
                       "number is converted to that dtype first. With is_int off, integers give float64.")
    register(name, aliases=aliases, infer_shape=elementwise, infer_type=_types,
             x64=lambda p: not p["is_int"])(compute)


# MXNet's name, the name in `_binary`, aliases
for _name, _key, *_aliases in [
    ("_plus_scalar", "add", "_PlusScalar"),
    ("_minus_scalar", "sub", "_MinusScalar"),
    ("_mul_scalar", "mul", "_MulScalar"),
    ("_div_scalar", "div", "_DivScalar"),
    ("_mod_scalar", "mod", "_ModScalar"),
    ("_power_scalar", "power", "_PowerScalar"),
    ("_maximum_scalar", "maximum", "_MaximumScalar", "_npi_maximum_scalar"),
    ("_minimum_scalar", "minimum", "_MinimumScalar", "_npi_minimum_scalar"),
    ("_hypot_scalar", "hypot", "_HypotScalar", "_npi_hypot_scalar"),
    ("_equal_scalar", "equal", "_EqualScalar"),
    ("_not_equal_scalar", "not_equal", "_NotEqualScalar"),
    ("_greater_scalar", "greater", "_GreaterScalar"),
    ("_greater_equal_scalar", "greater_equal", "_GreaterEqualScalar"),
    ("_lesser_scalar", "lesser", "_LesserScalar"),
    ("_lesser_equal_scalar", "lesser_equal", "_LesserEqualScalar"),
    ("_logical_and_scalar", "logical_and", "_LogicalAndScalar"),
    ("_logical_or_scalar", "logical_or", "_LogicalOrScalar"),
    ("_logical_xor_scalar", "logical_xor", "_LogicalXorScalar"),
    # on sparse arrays these two touch the stored values only
    ("_scatter_plus_scalar", "add"),
    ("_scatter_minus_scalar", "sub"),
]:
    _scalar(_name, _key, False, tuple(_aliases))

for _name, _key, *_aliases in [
    ("_rminus_scalar", "sub", "_RMinusScalar"),
    ("_rdiv_scalar", "div", "_RDivScalar"),
    ("_rmod_scalar", "mod", "_RModScalar"),
    ("_rpower_scalar", "power", "_RPowerScalar"),
]:
    _scalar(_name, _key, True, tuple(_aliases))
