"""Random operators of mx.np: parameters are numbers or arrays; samples that depend smoothly on them have gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...base import MXNetError
from ..common import Array, gives
from ..infer import broadcasted
from ..linalg.decompositions import unless_finite
from ..params import DType, Floats, MaybeScalar, MaybeShape, Scalar, Shape, np_dtype
from ..random import _draw
from ..random._distributions import declared
from ..random.from_numbers import RANDOM
from ..registry import register
from . import _random_on_host


class _Distribution(NamedTuple):
    """A distribution.

    draw: function(key, shape, dtype, *parameters) -> samples; given: function(values that FDraw drew, *parameters) ->
    samples; parameters: names, with defaults; rules: the allowed values by name; dtype: default dtype if the operator
    has a parameter dtype, else None; doc: name of the distribution, with an article.
    """

    draw: Callable[..., Array]
    given: Callable[..., Array]
    parameters: dict[str, float | None]
    rules: dict[str, str]
    dtype: str | None
    doc: str


class ParameterError(MXNetError, ValueError):
    """The parameters of a distribution are out of range."""


_RULES: dict[str, Callable[[Any], Any]] = {
    ">= 0": lambda value: value >= 0, "> 0": lambda value: value > 0,
    "in [0, 1]": lambda value: (value >= 0) & (value <= 1),
}


def _checks(op_name: str, rules: dict[str, str], names: Callable[[dict[str, Any]], Sequence[str]]) -> dict[str, Any]:
    """FCheck and FRefuse of a distribution: parameters out of range raise an error at the first access to the samples.

    names: function(params) -> names of the parameters that are inputs.
    """
    def check(values: dict[str, Any]) -> Exception | None:
        for name, rule in rules.items():
            value = values.get(name)
            if value is not None and not np.all(_RULES[rule](value)):
                return ParameterError(f"operator {op_name}: {name} must be {rule}, got {value}")
        return None

    def refuse(params: dict[str, Any], inputs: Sequence[Array], outputs: Sequence[Array]) -> Exception | None:
        return check(dict(zip(names(params), map(np.asarray, inputs), strict=False)))
    return {"FCheck": check, "FRefuse": refuse}


def _uniform(key: Array, shape: Shape, dtype: Any, low: Array, high: Array) -> Array:
    return low + (high - low) * _draw.uniform(key, shape, dtype)


def _normal(key: Array, shape: Shape, dtype: Any, loc: Array, scale: Array) -> Array:
    return loc + scale * _draw.normal(key, shape, dtype)


def _times(noise: Array, scale: Array) -> Array:
    """In half precision where the scale has that, as in MXNet; not to be fused with a sum, which would round once."""
    product = noise * scale
    return lax.optimization_barrier(product.astype(scale.dtype) if scale.dtype == jnp.float16 else product)


def _scaled(noise: Array, first: Array, second: Array) -> Array:
    return first + _times(noise, second)


@jax.custom_jvp
def _with_gradient(values: Array, formula: Array) -> Array:
    """Values that FDraw has computed, with the gradient of their formula."""
    return values


_with_gradient.defjvp(lambda primals, tangents: (primals[0], tangents[1].astype(primals[0].dtype)))


def _power_of(values: Array, a: Array) -> Array:
    """Values of the form y ** (1 / a), with their gradient."""
    return _with_gradient(values, values ** (lax.stop_gradient(a) / a).astype(values.dtype))


def _gamma_of(values: Array, a: Array, scale: Array) -> Array:
    a, scale = (jnp.broadcast_to(p, values.shape).astype(values.dtype) for p in (a, scale))
    fixed = lax.stop_gradient(scale)
    slope = lax.random_gamma_grad(a, values / fixed)  # pyright: ignore[reportCallIssue]  the stubs ask for a dtype
    slope = lax.stop_gradient(slope) * fixed
    return _with_gradient(values, values / fixed * scale + slope * a)


_LOCATION: dict[str, float | None] = {"loc": None, "scale": None}
_SCALE = {"scale": ">= 0"}
_DISTRIBUTIONS: dict[str, _Distribution] = {
    "uniform": _Distribution(
        _uniform, lambda drawn, low, high: _scaled(drawn, low, high - low), {"low": None, "high": None}, {}, "float32",
        "a uniform distribution on [low, high)"),
    "normal": _Distribution(_normal, _scaled, _LOCATION, _SCALE, "float32", "a normal distribution"),
    "gamma": _Distribution(
        lambda key, shape, dtype, a, scale: _draw.gamma(key, a, shape, dtype) * scale, _gamma_of,
        {"shape": None, "scale": None}, {"shape": "> 0", "scale": "> 0"}, "float32",
        "a gamma distribution"),
    "logistic": _Distribution(
        lambda key, shape, dtype, loc, scale: loc + scale * jax.random.logistic(key, shape, dtype), _scaled,
        _LOCATION, _SCALE, None, "a logistic distribution"),
    "gumbel": _Distribution(
        lambda key, shape, dtype, loc, scale: loc + scale * jax.random.gumbel(key, shape, dtype), _scaled,
        _LOCATION, _SCALE, None, "a Gumbel distribution"),
    "laplace": _Distribution(  # MXNet gives no gradient, and takes any scale
        lambda key, shape, dtype, loc, scale: lax.stop_gradient(loc + scale * jax.random.laplace(key, shape, dtype)),
        lambda drawn, loc, scale: lax.stop_gradient(_scaled(drawn, loc, scale)), _LOCATION, {}, "float32",
        "a Laplace distribution"),
    "exponential": _Distribution(
        lambda key, shape, dtype, scale: scale * _draw.exponential(key, shape, dtype), _times,
        {"scale": 1.0}, _SCALE, None, "an exponential distribution with mean scale"),
    "rayleigh": _Distribution(
        lambda key, shape, dtype, scale: scale * jnp.sqrt(2 * _draw.exponential(key, shape, dtype)), _times,
        {"scale": 1.0}, _SCALE, None, "a Rayleigh distribution"),
    "weibull": _Distribution(
        lambda key, shape, dtype, a: _draw.exponential(key, shape, dtype) ** (1 / a), _power_of,
        {"a": None}, {"a": "> 0"}, None, "a Weibull distribution with shape a"),
    "pareto": _Distribution(
        lambda key, shape, dtype, a: jnp.expm1(_draw.exponential(key, shape, dtype) / a),
        lambda drawn, a: _with_gradient(drawn, _power_of(drawn + 1, a)),
        {"a": None}, {"a": "> 0"}, None, "a Pareto II (Lomax) distribution with shape a"),
    "powerd": _Distribution(
        lambda key, shape, dtype, a: jnp.exp(-_draw.exponential(key, shape, dtype) / a), _power_of,
        {"a": None}, {"a": "> 0"}, None, "a power distribution on [0, 1] with exponent a - 1"),
}
# those that return the noise, too, in MXNet
_WITH_NOISE = {"exponential", "gumbel", "logistic", "normal", "pareto", "rayleigh", "weibull"}


def _register(name: str, distribution: _Distribution, batched: bool) -> None:
    names, op_name = tuple(distribution.parameters), f"_npi_{name}"

    def draw(*arrays: Array, size: Shape | None, ctx: str = "", dtype: str = "float32", _key: Array,
             **numbers: Any) -> Array:
        wide = jnp.float64 if dtype == "float64" else jnp.float32
        given = iter(a for a in arrays if a is not None)
        if isinstance(_key, _draw.Drawn):
            like = next(a for a in arrays if a is not None).dtype
            values = [next(given) if numbers[n] is None else jnp.float32(numbers[n]).astype(like) for n in names]
            return distribution.given(_key.values, *values).astype(np_dtype(dtype))
        values = [jnp.asarray(next(given) if numbers[n] is None else numbers[n]).astype(wide) for n in names]
        shape = jnp.broadcast_shapes(*(v.shape for v in values))
        if size is not None:
            if not batched and not _random_on_host.stretches(shape, size):
                raise MXNetError(f"operator {op_name}: parameters of shape {shape} do not broadcast to size={size}")
            shape = size + shape if batched else size
        return distribution.draw(_key, shape, wide, *values).astype(np_dtype(dtype))
    numbers: dict[str, Any] = {n: (MaybeScalar, default) for n, default in distribution.parameters.items()}
    numbers["size"] = (MaybeShape, None)
    if name != "powerd":
        numbers["ctx"] = (str, "cpu")
    if distribution.dtype is not None:
        numbers["dtype"] = (DType, distribution.dtype)

    inputs = tuple(f"input{i + 1}" for i in range(len(names)))

    def absent(params: dict[str, Any]) -> list[str]:
        return [n for n in names if params[n] is None]

    def shape_of(params: dict[str, Any], *shapes: Any) -> tuple:
        if params["size"] is None or batched:
            return (params["size"] or ()) + broadcasted(params, *shapes)
        return params["size"]
    lead = ("The result has the shape size + the shape of the parameters" if batched else
            "size is the shape of the result; default: the shape of the parameters")
    declared(draw, inputs, numbers,
             f"Draws samples from {distribution.doc}. Parameters that are None are inputs. {lead}.", optional=True)
    register(op_name, inputs=lambda p: inputs[:len(absent(p))], **RANDOM, FPartialShape=shape_of,
             output_names=lambda p: ["output0" if name.removesuffix("_n") in _WITH_NOISE else "output"],
             FDraw=_random_on_host.distribution(name.removesuffix("_n"), names, shape_of),
             draws_by_value=name in ("gamma", "pareto", "powerd", "weibull"),
             **_checks(op_name, distribution.rules, absent),
             infer_type=gives(lambda p: p.get("dtype", "float32"), *(["float32"] * len(names))))(draw)


for _name, _distribution in _DISTRIBUTIONS.items():
    _register(_name, _distribution, False)
_register("uniform_n", _DISTRIBUTIONS["uniform"], True)
_register("normal_n", _DISTRIBUTIONS["normal"], True)


def _of_bernoulli(params: dict[str, Any]) -> list[str]:
    name = "logit" if params["is_logit"] else "prob"
    return [name] if params[name] is None else []


@register("_npi_bernoulli", inputs=lambda p: ["input1"][:len(_of_bernoulli(p))], **RANDOM,
          FDraw=_random_on_host.bernoulli,
          infer_type=gives(lambda p: p["dtype"], "float32"),
          **_checks("_npi_bernoulli", {"prob": "in [0, 1]"}, _of_bernoulli))
def bernoulli(input1: Array | None = None, *, prob: Scalar | None = None, logit: Scalar | None = None,
              size: Shape | None = None, ctx: str = "cpu", dtype: DType = "float32", is_logit: bool,
              _key: Any = None) -> Array:
    """Draws ones with probability `prob` or, with `is_logit`, sigmoid(`logit`), else zeros; both may be arrays."""
    if isinstance(_key, _draw.Drawn):
        return (cast(Array, input1) > _key.values).astype(np_dtype(dtype))
    number = logit if is_logit else prob
    value = jnp.asarray(input1 if number is None else number).astype(jnp.float32)
    probability = jax.nn.sigmoid(value) if is_logit else value
    return jax.random.bernoulli(_key, probability, value.shape if size is None else size).astype(np_dtype(dtype))


@register("_npi_choice", inputs=lambda p: ["input1", "input2"][:(p["a"] is None) + p["weighted"]], x64=True,
          infer_type=gives("int64", "float32", "float32"), FDraw=_random_on_host.choice, draws_by_value=True, **RANDOM)
def choice(input1: Array | None = None, input2: Array | None = None, *, a: int | None = None,
           size: Shape | None = None, ctx: str | None = "cpu", replace: bool = True, weighted: bool = False,
           _key: Any = None) -> Array:
    """Draws indices (int64) from range(a) or those of a vector; the last input may contain their probabilities."""
    if isinstance(_key, _draw.Drawn):
        return _key.values
    weights = (input2 if a is None else input1) if weighted else None
    count = cast(Array, input1).shape[0] if a is None else a
    if weights is not None and weights.shape != (count,):
        raise MXNetError(f"operator _npi_choice: p must have shape ({count},), got {weights.shape}")
    shape = () if size is None else size
    if not replace and jnp.zeros(shape).size > count:
        raise MXNetError(f"operator _npi_choice: cannot draw size={size} out of {count} without replacement")
    return jax.random.choice(_key, count, shape, replace, weights).astype(jnp.int64)


@register("_npi_multinomial", inputs=lambda p: ["a"] if p["pvals"] is None else [], x64=True,
          infer_type=gives("int64", "float32"), FDraw=_random_on_host.multinomial, draws_by_value=True, **RANDOM)
def multinomial(a: Array | None = None, *, n: int, pvals: Floats | None = None, size: Shape | None = None,
                _key: Any = None) -> Array:
    """Draws counts (int64) of each outcome in `n` experiments, in the shape `size`; `pvals` may be an
    input.
    """
    if isinstance(_key, _draw.Drawn):
        return _key.values
    weights = jnp.asarray(a if pvals is None else pvals).astype(jnp.float32)
    weights = jnp.broadcast_to(weights, (() if size is None else size) + weights.shape)
    return jax.random.multinomial(_key, jnp.float32(n), weights).astype(jnp.int64)


@register("_npi_mvn_fallback", infer_type=gives(None), FDraw=_random_on_host.multivariate_normal,
          FRefuse=unless_finite("_npi_mvn_fallback", "cov is not positive definite"), **RANDOM)
def multivariate_normal(mean: Array, cov: Array, *, size: Shape | None = None, _key: Any = None) -> Array:
    """Draws from normal distributions with these mean vectors (..., n) and covariance matrices (..., n, n)."""
    batch = jnp.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    wide = jnp.promote_types(mean.dtype, jnp.float32)
    if isinstance(_key, _draw.Drawn):  # the columns' sums, as in MXNet, which are not quite those of the distribution
        factor = jnp.linalg.cholesky(cov.astype(wide))
        return (mean + jnp.einsum("...jk,...j->...k", factor, _key.values.astype(wide))).astype(mean.dtype)
    shape = (() if size is None else size) + batch
    return jax.random.multivariate_normal(_key, mean.astype(wide), cov.astype(wide), shape).astype(mean.dtype)
