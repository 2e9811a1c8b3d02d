"""Element-wise operators of mx.np: of one array, of two arrays, and of an array and a number."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ... import level
from ..._xla.tracing import settings
from ..._xla.x64 import x64_mode
from ...base import MXNetError
from .. import registry
from ..common import Array, broadcast, converted, gives, in_float, is_float
from ..elementwise._functions import TABLE, Binary
from ..elementwise.unary import relu_gradient
from ..infer import broadcasted, elementwise
from ..params import Double, DoubleScalar, np_dtype
from ..registry import get, register
from .dtypes import (
    angle,
    compared,
    counts,
    differing,
    divisor,
    first_real,
    floating,
    integer,
    mixed,
    need_int,
    no_bool,
    number,
    of_number,
    quotient,
    real,
    truth,
    whole,
)


# ------------------------------------------------------------ of one array
def _inputs(function: Callable[..., Array], *names: str) -> Callable[..., Array]:
    """Gives a function of arrays the input names that MXNet uses."""
    kind = inspect.Parameter
    function.__signature__ = inspect.Signature([kind(n, kind.POSITIONAL_OR_KEYWORD) for n in names])
    return function


def _unary(name: str, function: Callable[[Array], Array], doc: str, data: str = "x", **attrs: Any) -> None:
    """Registers `name`: an array of any dtype to the result of `function`, of the same shape."""
    def compute(x: Array) -> Array:
        return function(x)
    compute.__doc__ = f"{doc}, element by element.\n\n{data}: any shape."
    register(name, infer_shape=elementwise, **attrs)(_inputs(compute, data))


def _like_classic(name: str, classic: str, data: str = "x", floats: Callable[..., Any] | None = None,
                  **attrs: Any) -> None:
    """Registers `name` with the function of a classic operator; boolean arrays are refused.

    In MXNet 2 some return floats for integers and booleans: `floats` is their dtype.
    """
    op = registry.get(classic)
    function = op.get_attr("FCompute")

    def compute(x: Array) -> Array:
        if floats is not None and level.current() == 2:
            x = x.astype(floats(x.dtype))
        no_bool(name, x)
        return function(x)

    if floats is not None:
        def types(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
            ins[0] = ins[0] or outs[0]
            outs[0] = ins[0] and (floats(np_dtype(ins[0])).name if level.current() == 2 else ins[0])
        attrs["infer_type"] = types
    _unary(name, compute, op.doc.partition(",")[0], data, **attrs)


for _name in """sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
        arctanh degrees radians fix rint""".split():
    _like_classic(f"_npi_{_name}", _name, floats=floating)
for _name in ("ceil", "floor", "trunc"):
    _like_classic(f"_npi_{_name}", _name, floats=whole)
for _name in ("square", "reciprocal", "sign", "negative"):
    _like_classic(f"_npi_{_name}", _name)
_like_classic("_npi_absolute", "abs")
registry.alias("_npi_absolute", "_npi_abs")
_like_classic("_npx_relu", "relu", "data", FGradient=relu_gradient)
_like_classic("_npx_sigmoid", "sigmoid", "data")


def _of_floats(function: Callable[[Array], Array], otherwise: bool) -> Callable[[Array], Array]:
    """A test of floating point numbers whose answer for all others is `otherwise`."""
    return lambda x: function(x) if is_float(x.dtype) else jnp.full(x.shape, otherwise)


for _name, _function, _doc in [
    ("logical_not", jnp.logical_not, "Whether x is zero"),
    ("isnan", _of_floats(jnp.isnan, False), "Whether x is NaN"),
    ("isinf", _of_floats(jnp.isinf, False), "Whether x is infinite"),
    ("isposinf", _of_floats(jnp.isposinf, False), "Whether x is +infinity"),
    ("isneginf", _of_floats(jnp.isneginf, False), "Whether x is -infinity"),
    ("isfinite", _of_floats(jnp.isfinite, True), "Whether x is neither infinite nor NaN"),
]:
    _unary(f"_npi_{_name}", _function, _doc, infer_type=gives("bool"))


def _bitwise_not(x: Array) -> Array:
    need_int("_npi_bitwise_not", x)
    return jnp.bitwise_not(x)


_unary("_npi_bitwise_not", _bitwise_not, "All bits inverted (the opposite of a boolean)")

@register("_npi_around", infer_shape=elementwise)
def around(x: Array, *, decimals: int = 0) -> Array:
    """Rounds to the given number of decimals, halves to the nearest even value; no gradient passes."""
    no_bool("_npi_around", x)
    if is_float(x.dtype):
        return jnp.round(x, decimals)
    if decimals >= 0:
        return x
    unit = np.asarray(10 ** -decimals, x.dtype)
    return (lax.round(x / unit, lax.RoundingMethod.AWAY_FROM_ZERO) * unit).astype(x.dtype)


@register("_npi_nan_to_num", infer_shape=elementwise)
def nan_to_num(data: Array, *, copy: bool = True, nan: DoubleScalar = 0.0, posinf: Double | None = None,
               neginf: Double | None = None) -> Array:
    """Replaces NaN by `nan`, and infinities by the given numbers (default: the largest and smallest of the dtype)."""
    if not is_float(data.dtype):
        return data
    limits = jnp.finfo(data.dtype)
    high, low = (limit if value is None else jnp.asarray(value, data.dtype)
                 for value, limit in ((posinf, limits.max), (neginf, limits.min)))
    data = jnp.where(jnp.isnan(data), jnp.asarray(nan).astype(data.dtype), data)
    return jnp.where(data == jnp.inf, high, jnp.where(data == -jnp.inf, low, data))


# ------------------------------------------------------------ of two arrays, and of an array and a number
def _ldexp(a: Array, b: Array) -> Array:
    return in_float(lambda x, y: x * jnp.exp2(y), a, b)


def _copysign(a: Array, b: Array) -> Array:
    """|a| with the sign of b; derivative sign(a)·sign(b)."""
    if is_float(a.dtype):
        negative = jnp.signbit(b)
        return jnp.where(jnp.signbit(a) == negative, a, -a)
    return jnp.where((a < 0) == (b < 0), a, -a)


def _lcm(a: Array, b: Array) -> Array:
    if a.dtype == jnp.bool_:
        return jnp.logical_and(a, b)
    return jnp.lcm(a, b)


# ------------------------------------------------------------ additions of MXNet 2
def _fmax(a: Array, b: Array) -> Array:
    """The larger one; where both are equal the gradient is a's."""
    return jnp.where((a >= b) | (b != b), a, b)


def _fmin(a: Array, b: Array) -> Array:
    """The smaller one; where both are equal the gradient is a's."""
    return jnp.where((a <= b) | (b != b), a, b)


def _fmod(a: Array, b: Array) -> Array:
    """Remainder with the sign of a; 0 where b is 0, as in MXNet."""
    zero = b == 0
    return jnp.where(zero, jnp.zeros_like(a), jnp.fmod(a, jnp.where(zero, jnp.ones_like(b), b)))


def _gcd(a: Array, b: Array) -> Array:
    no_bool("_npi_gcd", a, b)
    return jnp.gcd(a, b)


def _floor_divide(a: Array, b: Array) -> Array:
    no_bool("_npi_floor_divide", a, b)
    return jnp.floor(a / b) if is_float(a.dtype) else jnp.floor_divide(a, b)


# ------------------------------------------------------------ rules for two arrays, and an array and a number
def _types(rule: Callable[..., Any], result: str | None, default: str | None) -> Callable[..., None]:
    """A type rule (FInferType): unknown inputs are like known ones (or `default`), the output follows `rule`."""
    def infer(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
        first = next((t for t in ins if t), default)
        if first is not None:
            ins[:] = [t or first for t in ins]
            more = {"is_int": params["is_int"]} if "is_int" in params else {}
            promoted = rule(*(jax.ShapeDtypeStruct((), np_dtype(t)) for t in ins), **more).name  # refuses as well
            outs[0] = result or promoted
    return infer


def _from_bool(array: Array, dtype: Any) -> Array:
    # by way of integers: XLA makes a choice of a product with booleans, in which 0 / 0 and 0 * inf are 0
    return (array.astype(jnp.int8) if array.dtype == jnp.bool_ else array).astype(dtype)


def _binary(name: str, function: Binary, doc: str, dtypes: Callable[..., Any], result: Any, inputs: tuple[str, str],
            scalars: tuple[str, ...]) -> None:
    """Registers `_npi_<name>` , `_npi_<name>_scalar` and, for a number on
    the left, `_npi_r<name>_scalar`.

    Args:
        dtypes: function(name, a, b) -> the dtype both are converted to.
        result: the result's dtype; None: that dtype.
        inputs: names of the inputs.
        scalars: "" and "r" for the scalar forms to register.
    """
    def compute(lhs: Array, rhs: Array) -> Array:
        dtype = dtypes(f"_npi_{name}", lhs, rhs)
        try:
            shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
        except ValueError:
            raise MXNetError(f"operator _npi_{name}: shapes {lhs.shape} and {rhs.shape} cannot be broadcast "
                             "together") from None
        pair = [broadcast(_from_bool(a, dtype), shape) for a in (lhs, rhs)]
        return function(*pair).astype(result or dtype)
    compute.__doc__ = f"{doc}, element by element with broadcasting (a: {inputs[0]}, b: {inputs[1]})."
    default = "int32" if dtypes in (integer, divisor) else None
    types = _types(partial(dtypes, f"_npi_{name}"), result, default)
    register(f"_npi_{name}", infer_type=types, FPartialShape=broadcasted)(_inputs(compute, *inputs))
    rule = partial(of_number(dtypes), f"_npi_{name}_scalar")

    def with_number(swapped: bool) -> Callable[..., Array]:
        def compute(data: Array, *, scalar: DoubleScalar = 1.0, is_int: bool = True) -> Array:
            dtype = rule(data, is_int=is_int)
            if result == "bool" and (is_int or level.current() == 2) and data.dtype == jnp.bool_:
                dtype = data.dtype  # a comparison is one of booleans: the number is not 0
            with x64_mode(dtype, settings.jax_enable_x64):
                pair = data.astype(dtype), converted(scalar, dtype)
                return function(*(reversed(pair) if swapped else pair)).astype(result or dtype)
        compute.__doc__ = f"{doc}, element by element ({'a: scalar, b: data' if swapped else 'a: data, b: scalar'})."
        return compute
    for side in scalars:
        register(f"_npi_{side}{name}_scalar", infer_shape=elementwise, x64=lambda p: not p["is_int"],
                 infer_type=_types(rule, result, default))(with_number(side == "r"))


_SIDES = ("lhs", "rhs")
for _name, _key, _dtypes, *_rest in [
    ("add", "add", mixed, _SIDES, ("",)),
    ("subtract", "sub", differing, _SIDES, ("", "r")),
    ("multiply", "mul", mixed, _SIDES, ("",)),
    ("mod", "mod", differing, _SIDES, ("", "r")),
    ("power", "power", mixed, _SIDES, ("", "r")),
    ("hypot", "hypot", real, ("x1", "x2"), ()),
]:
    _binary(_name, *TABLE[_key], _dtypes, None, *_rest)

for _name, _function, _doc, _dtypes, *_rest in [
    ("true_divide", jnp.divide, "a / b (integers give float32)", quotient, _SIDES, ("", "r")),
    ("arctan2", jnp.arctan2, "The angle of the point (b, a)", angle, ("x1", "x2"), ("", "r")),
    ("copysign", _copysign, "|a| with the sign of b", number, _SIDES, ("", "r")),
    ("ldexp", _ldexp, "a · 2ᵇ", number, _SIDES, ("", "r")),
    ("lcm", _lcm, "Least common multiple", divisor, _SIDES, ("",)),
    ("bitwise_and", jnp.bitwise_and, "Bits set in both", integer, _SIDES, ("",)),
    ("bitwise_or", jnp.bitwise_or, "Bits set in one or both", integer, _SIDES, ("",)),
    ("bitwise_xor", jnp.bitwise_xor, "Bits set in exactly one", integer, _SIDES, ("",)),
    ("fmax", _fmax, "The larger of both, not NaN where only one of them is NaN", number, _SIDES, ("",)),
    ("fmin", _fmin, "The smaller of both, not NaN where only one of them is NaN", number, _SIDES, ("",)),
    ("fmod", _fmod, "Remainder of a / b with the sign of a", number, _SIDES, ("", "r")),
    ("gcd", _gcd, "Greatest common divisor", divisor, _SIDES, ("",)),
    ("floor_divide", _floor_divide, "The largest integer not above a / b", mixed, _SIDES, ("", "r")),
    ("logaddexp", jnp.logaddexp, "log(exp(a) + exp(b))", first_real, ("x1", "x2"), ("",)),
    ("bitwise_left_shift", jnp.left_shift, "a · 2ᵇ, as bits", counts, _SIDES, ("", "r")),
    ("bitwise_right_shift", jnp.right_shift, "a / 2ᵇ, rounded down, as bits", counts, _SIDES, ("", "r")),
]:
    _binary(_name, _function, _doc, _dtypes, None, *_rest)

# the one family whose gradients MXNet gives by dtype: 1 and -floor(a / b) for floats, 0 for integers; classic ones too
for _name in ("_npi_mod", "_npi_mod_scalar", "_npi_rmod_scalar", "_npi_fmod", "_npi_fmod_scalar", "_npi_rfmod_scalar",
              "broadcast_mod", "_mod", "_mod_scalar",
              "_rmod_scalar"):
    get(_name).set_attr("flat_in_integers", True)

for _name, _doc in [("and", "Whether a and b are nonzero"), ("or", "Whether a or b is nonzero"),
                    ("xor", "Whether exactly one of a and b is nonzero")]:
    _binary(f"logical_{_name}", getattr(jnp, f"logical_{_name}"), _doc, truth, "bool", _SIDES, ("",))

for _name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
    _binary(_name, getattr(jnp, _name), f"Whether a is {_name.replace('_', ' or ').replace('not or', 'not')} b",
            compared, "bool", _SIDES, ("",))
