"""Element-wise operators of one array: mathematics, rounding, identities with their own gradient, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from ...base import MXNetError
from ..common import Array, absolute, converted, gives, in_float, is_float
from ..infer import elementwise, exact, first, unify
from ..params import Count, DoubleScalar, DType, Scalar, np_dtype
from ..registry import get, register


def _unary(name: str, function: Callable[[Array], Array], doc: str, aliases: tuple[str, ...] = (), *,
           exact: bool = False) -> None:
    """Registers `name`: one array in, one of the same shape and dtype out.

    Integers are computed in floating point, unless `function` is `exact` for them.
    """
    def compute(data: Array) -> Array:
        return function(data).astype(data.dtype) if exact else in_float(function, data)
    compute.__doc__ = f"{doc}, element by element.\n\ndata: any shape and dtype -> the same shape and dtype."
    register(name, aliases=aliases, infer_shape=elementwise)(compute)


def _rint(x: Array) -> Array:
    """The nearest integer; halves go down, as in MXNet."""
    low, high = jnp.floor(x), jnp.ceil(x)
    return jnp.where(x - low <= high - x, low, high)


def _whole(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A rounding function that leaves integers as they are."""
    return lambda x: function(x) if is_float(x.dtype) else x


def _round(x: Array) -> Array:
    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


def _sign(x: Array) -> Array:
    """-1, 0 or 1; 0 for -0.0 and NaN as well."""
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype) if x.dtype != jnp.bool_ else x


def _or_infinite(x: Array, value: Array) -> Array:
    """Infinity at the poles of gammaln, as in MXNet (NaN in JAX)."""
    return jnp.where((x <= 0) & (x == jnp.floor(x)), jnp.inf, value)


@jax.custom_jvp
def _digamma(x: Array) -> Array:
    """Derivative of gammaln."""
    return _or_infinite(x, special.digamma(x))


_digamma.defjvps(lambda tangent, result, x: tangent * _or_infinite(x, lax.polygamma(jnp.ones_like(x), x)))


@jax.custom_jvp
def _gamma(x: Array) -> Array:
    return special.gamma(x)


@jax.custom_jvp
def _gammaln(x: Array) -> Array:
    return special.gammaln(x)


_gamma.defjvps(lambda tangent, result, x: tangent * result * _digamma(x))
_gammaln.defjvps(lambda tangent, result, x: tangent * _digamma(x))


@jax.custom_jvp
def _softsign(x: Array) -> Array:
    return x / (1 + jnp.abs(x))


_softsign.defjvps(lambda tangent, result, x: tangent / jnp.square(1 + jnp.abs(x)))  # 0 at infinity, not NaN


_expm1 = jax.custom_jvp(jnp.expm1)
_expm1.defjvps(lambda tangent, result, x: tangent * jnp.exp(x))  # 1 + result has few digits where x is far below 0


# name, function, documentation; the aliases are those that MXNet has (`_sparse_` for its sparse namespace)
for _name, _function, _doc, *_prefixes in [
    ("sigmoid", jax.nn.sigmoid, "1 / (1 + exp(-x))", "_sparse_"),
    ("softsign", _softsign, "x / (1 + |x|)"),
    ("log_sigmoid", jax.nn.log_sigmoid, "Logarithm of 1 / (1 + exp(-x))", "_sparse_"),
    ("mish", lambda x: x * jnp.tanh(jax.nn.softplus(x)), "x · tanh(log(1 + exp(x)))", "_sparse_"),
    ("erf", special.erf, "Error function", "_npx_"),
    ("erfinv", lax.erf_inv, "Inverse of the error function; NaN outside of [-1, 1]", "_npx_"),
    ("gamma", _gamma, "Gamma function", "_npx_", "_sparse_"),
    ("gammaln", _gammaln, "Logarithm of the absolute value of the gamma function", "_npx_", "_sparse_"),
    ("digamma", _digamma, "Derivative of the logarithm of the gamma function", "_npx_"),
    ("exp", jnp.exp, "Exponential", "_sparse_"),
    ("expm1", _expm1, "exp(x) - 1, precise near zero", "_sparse_"),
    ("log", jnp.log, "Natural logarithm", "_sparse_"),
    ("log10", jnp.log10, "Logarithm to base 10", "_sparse_"),
    ("log2", jnp.log2, "Logarithm to base 2", "_sparse_"),
    ("log1p", jnp.log1p, "log(1 + x), precise near zero", "_sparse_"),
    ("sqrt", jnp.sqrt, "Square root", "_sparse_"),
    ("rsqrt", lax.rsqrt, "1 / sqrt(x)", "_sparse_"),
    ("cbrt", jnp.cbrt, "Cube root", "_sparse_"),
    ("rcbrt", lambda x: 1 / jnp.cbrt(x), "1 / cbrt(x)"),
    ("reciprocal", jnp.reciprocal, "1 / x"),
    ("sin", jnp.sin, "Sine", "_sparse_"),
    ("cos", jnp.cos, "Cosine", "_sparse_"),
    ("tan", jnp.tan, "Tangent", "_sparse_"),
    ("arcsin", jnp.arcsin, "Inverse sine", "_sparse_"),
    ("arccos", jnp.arccos, "Inverse cosine", "_sparse_"),
    ("arctan", jnp.arctan, "Inverse tangent", "_sparse_"),
    ("sinh", jnp.sinh, "Hyperbolic sine", "_sparse_"),
    ("cosh", jnp.cosh, "Hyperbolic cosine", "_sparse_"),
    ("tanh", jnp.tanh, "Hyperbolic tangent", "_sparse_"),
    ("arcsinh", jnp.arcsinh, "Inverse hyperbolic sine", "_sparse_"),
    ("arccosh", jnp.arccosh, "Inverse hyperbolic cosine", "_sparse_"),
    ("arctanh", jnp.arctanh, "Inverse hyperbolic tangent", "_sparse_"),
    ("degrees", jnp.degrees, "Radians to degrees", "_sparse_"),
    ("radians", jnp.radians, "Degrees to radians", "_sparse_"),
]:
    _unary(_name, _function, _doc, tuple(p + _name for p in _prefixes))

for _name, _function, _doc, *_prefixes in [
    ("ceil", _whole(jnp.ceil), "Smallest integer not below x", "_sparse_"),
    ("floor", _whole(jnp.floor), "Largest integer not above x", "_sparse_"),
    ("trunc", _whole(jnp.trunc), "Integer part", "_sparse_"),
    ("fix", _whole(jnp.trunc), "Nearest integer towards zero", "_sparse_"),
    ("rint", _whole(_rint), "Nearest integer, halves rounded down", "_sparse_"),
    ("round", _whole(_round), "Nearest integer, halves rounded away from zero", "_sparse_"),
    ("relu", jax.nn.relu, "max(x, 0)", "_sparse_"),
    ("abs", absolute, "Absolute value", "_sparse_"),
    ("sign", _sign, "-1, 0 or 1", "_sparse_"),
    ("negative", jnp.negative, "-x", "_sparse_"),
    ("square", jnp.square, "x²", "_sparse_"),
    ("logical_not", lambda x: x == 0, "1 where x is zero, else 0"),
]:
    _unary(_name, _function, _doc, tuple(p + _name for p in _prefixes), exact=True)


def relu_gradient(heads: tuple, inputs: tuple, outputs: tuple) -> tuple:
    """Returns the gradient of relu; that of a NaN is NaN, where jax.nn.relu's is zero."""
    x = inputs[0]
    return heads[0] * jnp.where(x > 0, 1, jnp.where(x <= 0, 0, x)),


get("relu").set_attr("FGradient", relu_gradient).set_attr("keeps_result_when", lambda p: True)
_unary("_copy", lambda x: x, "A copy", ("identity", "_CrossDeviceCopy"), exact=True)
_unary("_copyto", lambda x: x, "A copy, for assignments", ("_npi_copyto",), exact=True)


@register("hard_sigmoid", infer_shape=elementwise)
def hard_sigmoid(data: Array, *, alpha: Scalar = 0.2, beta: Scalar = 0.5) -> Array:
    """min(max(alpha·x + beta, 0), 1), element by element."""
    def line(x: Array) -> Array:
        value = alpha * x + beta
        inside = (value > 0) & (value < 1)  # NaN is not, and has no gradient
        return jnp.where(inside, value, jnp.clip(lax.stop_gradient(value), 0, 1))
    return in_float(line, data)


@register("clip", aliases=("_npi_clip", "_sparse_clip"), infer_shape=elementwise)
def clip(data: Array, *, a_min: Scalar, a_max: Scalar) -> Array:
    """Clips the values to [a_min, a_max]; NaN is kept, and a value equal to a limit passes its gradient."""
    if jnp.issubdtype(data.dtype, jnp.integer):  # limits beyond the dtype's own must not wrap around
        limits = jnp.iinfo(data.dtype)
        least, most = (jnp.clip(jnp.asarray(a, jnp.float32), limits.min, limits.max) for a in (a_min, a_max))
    else:
        least, most = a_min, a_max
    low, high = converted(least, data.dtype), converted(most, data.dtype)
    return jnp.where(data > most, high, jnp.where(data < least, low, data))


@register("smooth_l1", aliases=("_npx_smooth_l1",), infer_shape=elementwise)
def smooth_l1(data: Array, *, scalar: DoubleScalar = 1.0) -> Array:
    """The smooth L1 loss of Fast R-CNN: (s·x)²/2 where |x| <= 1/s², |x| - 0.5/s² elsewhere; s is `scalar`."""
    def loss(x: Array) -> Array:
        squared = jnp.square(jnp.asarray(scalar).astype(x.dtype))
        far = jnp.abs(x) > 1 / squared
        near = jnp.where(far, 0, x)  # no infinity in the branch that is not taken: its slope would be NaN
        return jnp.where(far, jnp.abs(x) - 0.5 / squared, 0.5 * near * near * squared)
    return in_float(loss, data)


# ------------------------------------------------------------ identities with a gradient of their own
@register("BlockGrad", aliases=("stop_gradient", "_sparse_stop_gradient"), infer_shape=elementwise)
def block_grad(data: Array) -> Array:
    """Returns the data unchanged, and blocks the gradient."""
    return lax.stop_gradient(data)


# A loss is where a backward pass starts: its gradient is one, whatever the head gradient is.
@register("make_loss", aliases=("_sparse_make_loss",), infer_shape=elementwise, output_names=lambda p: ["loss"],
          FGradient=lambda heads, inputs, outputs: (jnp.ones_like(inputs[0]),), ignores_heads=True)
def make_loss(data: Array) -> Array:
    """Returns the data unchanged, as a loss: its gradient is one."""
    return data


def _loss_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, grad_scale: Any, valid_thresh: Any,
                   normalization: str) -> tuple:
    data = inputs[0]
    scale = jnp.asarray(grad_scale)
    if normalization == "batch":  # rows, as MXNet sees any array; it divides in float32
        scale = scale.astype(jnp.float32) / (data.size // data.shape[-1] if data.size else 1)
    elif normalization == "valid":
        scale = scale / jnp.maximum(jnp.sum(data > valid_thresh), 1)
    return (jnp.full_like(data, scale),)


@register("MakeLoss", infer_shape=elementwise, FGradient=_loss_gradient, ignores_heads=True)
def make_loss_op(data: Array, *, grad_scale: Scalar = 1.0, valid_thresh: Scalar = 0.0,
                 normalization: Literal["batch", "null", "valid"] = "null") -> Array:
    """Returns the data unchanged, as a loss: its gradient is `grad_scale`, independent of the head gradient.

    normalization: "batch" divides the gradient by the number of rows (all axes but the last), "valid" by the number of
    values above `valid_thresh` (at least one).
    """
    return data


@register("_identity_with_attr_like_rhs", infer_shape=elementwise)
def identity_with_attr_like_rhs(lhs: Array, rhs: Array) -> Array:
    """Returns lhs unchanged; rhs only defines its shape."""
    return lhs


@register("_contrib_gradientmultiplier", infer_shape=elementwise,
          FGradient=lambda heads, inputs, outputs, scalar, is_int: (heads[0] * scalar,))
def gradient_multiplier(data: Array, *, scalar: DoubleScalar = 1.0, is_int: bool = True) -> Array:
    """Returns the data; multiplies its gradient by `scalar` (if negative: gradient reversal, arXiv:1409.7495)."""
    return data


def _straight_through(name: str, function: Callable[[Array], Array]) -> None:
    """Registers `name`: a step function that the backward pass takes for the identity (arXiv:1308.3432)."""
    def compute(data: Array) -> Array:
        return function(data)
    compute.__doc__ = f"Same as {name}, but the gradient is the identity's (straight-through estimator)."
    register(f"_contrib_{name}_ste", aliases=(f"_sparse__contrib_{name}_ste",), infer_shape=elementwise,
             FGradient=lambda heads, inputs, outputs: heads)(compute)


_straight_through("round", _whole(_round))
_straight_through("sign", _sign)


@register("_contrib_quadratic", infer_shape=elementwise)
def quadratic(data: Array, *, a: Scalar = 0.0, b: Scalar = 0.0, c: Scalar = 0.0) -> Array:
    """a·x² + b·x + c, element by element."""
    return in_float(lambda x: (a * x + b) * x + c, data)


@register("_contrib_div_sqrt_dim", infer_shape=elementwise, FPartialShape=exact(first, lambda p, x: len(x) > 0))
def div_sqrt_dim(data: Array) -> Array:
    """data / sqrt(size of the last axis): the scaling of dot-product attention (arXiv:1706.03762); integers by the
    integer part."""
    root = data.shape[-1] ** 0.5
    return in_float(lambda x: x / (root if is_float(data.dtype) else int(root)), data)


@register("_contrib_allclose", infer_shape=lambda p, ins, outs: elementwise(p, ins, []), infer_type=gives("uint8"))
def allclose(a: Array, b: Array, *, rtol: Scalar = 1e-5, atol: Scalar = 1e-8, equal_nan: bool = True) -> Array:
    """1 if |a - b| <= atol + rtol·|b| for all elements, else 0.  a, b: one shape -> () uint8."""
    return jnp.allclose(a, b, rtol, atol, equal_nan).astype(jnp.uint8)


# ------------------------------------------------------------ casts
@register("Cast", aliases=("cast", "_npi_cast", "_npx_cast"), infer_shape=elementwise)
def cast(data: Array, *, dtype: DType) -> Array:
    """Casts the values to another dtype; numbers out of the range of a narrow integer wrap around as in C."""
    return converted(data, np_dtype(dtype))


def _is_amp(dtype: Any) -> bool:
    return is_float(dtype) and dtype.itemsize <= 4


def _amp_types(params: dict[str, Any], ins: list, outs: list) -> None:
    kind = params["dtype"] if ins[0] is None or _is_amp(np_dtype(ins[0])) else ins[0]
    outs[0] = outs[0] or kind


@register("amp_cast", infer_shape=elementwise, infer_type=_amp_types)
def amp_cast(data: Array, *, dtype: DType) -> Array:
    """Casts between float32, float16 and bfloat16 for mixed precision; other dtypes are unchanged."""
    return data.astype(np_dtype(dtype)) if _is_amp(data.dtype) else data


def _multicast_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    for i in range(len(ins)):
        ins[i] = outs[i] = unify(ins[i], outs[i])


def _multicast_types(params: dict[str, Any], ins: list, outs: list) -> None:
    """An input that is not known stays so: it may be of another dtype than the others."""
    wide = "float32" if params["cast_narrow"] else ins[0]
    sought = ("float16", "bfloat16") if params["cast_narrow"] else ("float32",)
    result = next((t for t in (*ins, *outs) if t in sought), wide)
    outs[:] = [t or (result if kind is not None and _is_amp(np_dtype(kind)) else kind)
               for kind, t in zip(ins, outs, strict=False)]  # the operator itself refuses another number of arrays


@register("amp_multicast", variadic="num_outputs", num_outputs=lambda p: p["num_outputs"],
          infer_shape=_multicast_shapes, infer_type=_multicast_types)
def amp_multicast(*data: Array, num_outputs: Count, cast_narrow: bool = False) -> tuple[Array, ...]:
    """Casts all arrays to the widest (or narrowest) of their floating point dtypes; other dtypes are unchanged."""
    if len(data) != num_outputs:
        raise MXNetError(f"operator amp_multicast: num_outputs={num_outputs}, but got {len(data)} arrays")
    floats = sorted({a.dtype for a in data if _is_amp(a.dtype)}, key=lambda d: d.itemsize)
    return tuple(a.astype(floats[0 if cast_narrow else -1]) if _is_amp(a.dtype) else a for a in data)
