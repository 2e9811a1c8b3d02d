"""Softmax and its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, accumulation, need_float, normalized
from ..infer import elementwise, exact, first, mark, typed, unify
from ..params import DoubleScalar, DType, np_dtype
from ..registry import register


def _normalize(name: str, function: Callable[..., Array], data: Array, axis: int, temperature: Any, dtype: str | None,
               valid: Array | None = None, outside: float = 0) -> Array:
    """`function` (softmax or its logarithm) of data / temperature along an axis, in float32 or wider.

    valid: which elements take part (default all); the others become `outside`.
    """
    need_float(name, data)
    if not data.ndim and valid is None:  # a number is one class
        return _normalize(name, function, data[None], axis, temperature, dtype)[0]
    axis = normalized(axis, data.ndim)
    out = np_dtype(dtype) if dtype else data.dtype
    wide = jnp.promote_types(accumulation(data.dtype), accumulation(out))
    scaled = data.astype(wide)
    if temperature is not None:
        scaled = scaled / jnp.asarray(temperature).astype(wide)
    if valid is None:
        return function(scaled, axis=axis).astype(out)
    # not `where=` of jax.nn.softmax: its result and gradient are NaN where nothing is valid
    masked = jnp.where(valid, scaled, jnp.finfo(wide).min)
    return jnp.where(valid, function(masked, axis=axis), outside).astype(out)


def _softmax_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    ins[0] = outs[0] = unify(ins[0], outs[0])
    if len(ins) > 1 and ins[0] is not None:
        axis = normalized(params["axis"], len(ins[0]))
        ins[1] = unify(ins[1], ins[0][:axis] + ins[0][axis + 1:], "softmax: length")


def _lengths_aside(params: dict[str, Any], ins: list, outs: list, names: Any = ()) -> None:
    typed(length="int32")(params, ins, outs, names)
    outs[0] = params["dtype"] or outs[0]


mark(_lengths_aside, wants_names=True)


_along_axis = exact(first, lambda p, x, *_: -len(x) <= p["axis"] < len(x))


@register("softmax", aliases=("_npx_softmax",), infer_shape=_softmax_shapes, FPartialShape=_along_axis,
          infer_type=_lengths_aside,
          inputs=lambda p: ["data", "length"] if p["use_length"] else ["data"])
def softmax(data: Array, length: Array | None = None, *, axis: int = -1, temperature: DoubleScalar | None = None,
            dtype: DType | None = None, use_length: bool | None = False) -> Array:
    """exp(x / temperature) divided by its sum along `axis`.

    data: any shape, float; length (with use_length): the shape of data without `axis`, int: number of leading elements
    that take part, the others become 0 -> the shape of data, with dtype `dtype` or that of data.
    """
    if length is None:
        return _normalize("softmax", jax.nn.softmax, data, axis, temperature, dtype)
    axis = normalized(axis, data.ndim)
    if length.shape != data.shape[:axis] + data.shape[axis + 1:]:
        raise MXNetError(f"softmax: length must have the shape of data {data.shape} without axis {axis}, "
                         f"got {length.shape}")
    position = jnp.arange(data.shape[axis]).reshape((-1,) + (1,) * (data.ndim - axis - 1))
    return _normalize("softmax", jax.nn.softmax, data, axis, temperature, dtype,
                      position < jnp.expand_dims(length, axis))


def _without_length(name: str, sign: int, function: Callable[..., Array], doc: str,
                    aliases: tuple[str, ...] = ()) -> None:
    """Registers `name`: `function` of sign·data."""
    def compute(data: Array, *, axis: int = -1, temperature: DoubleScalar | None = None, dtype: DType | None = None,
                use_length: bool | None = False) -> Array:
        return _normalize(name, function, sign * data, axis, temperature, dtype)
    compute.__doc__ = f"{doc}\n\ndata: any shape, float -> the same shape, of type `dtype` or that of data."
    register(name, aliases=aliases, infer_shape=elementwise, FPartialShape=_along_axis)(compute)


_without_length("log_softmax", 1, jax.nn.log_softmax, "Logarithm of softmax along `axis`, computed without overflow.",
                ("_npx_log_softmax",))
_without_length("softmin", -1, jax.nn.softmax, "Softmax of -data along `axis`.")


def _masked(name: str, function: Callable[..., Array], doc: str, outside: float) -> None:
    """Registers `name`: `function` of those elements that a mask has."""
    def compute(data: Array, mask: Array, *, axis: int = -1, temperature: DoubleScalar | None = None,
                normalize: bool | None = True) -> Array:
        if data.shape == mask.shape and 0 in data.shape:
            return data  # nothing to choose from: MXNet does not look at the mask's dtype
        if mask.dtype != jnp.bool_:
            raise MXNetError(f"{name}: mask must be of dtype bool, got {mask.dtype}")
        if mask.ndim != data.ndim or any(m not in (1, n) for m, n in zip(mask.shape, data.shape, strict=True)):
            raise MXNetError(f"{name}: mask of shape {mask.shape} must have the same number of axes as data "
                             f"{data.shape}, each of the same size or of size 1")
        return _normalize(name, function, data, axis, temperature, None, mask, outside)
    compute.__doc__ = (f"{doc}\n\ndata: any shape, float; mask: bool, of as many axes, each of data's size or 1 -> the "
                       "shape and dtype of data. `normalize` has no effect.")
    register(name, aliases=(f"_npx_{name}",), infer_type=typed(mask="bool"), FPartialShape=first)(
        compute)


_masked("masked_softmax", jax.nn.softmax, "Softmax of x / temperature where the mask is true; 0 elsewhere.", 0)
_masked("masked_log_softmax", jax.nn.log_softmax,
        "Logarithm of softmax of x / temperature where the mask is true; -infinity elsewhere.", -math.inf)


@register("SoftmaxActivation", infer_shape=elementwise,
          FPartialShape=exact(first, lambda p, x: len(x) > (2 if p["mode"] == "channel" else 0)))
def softmax_activation(data: Array, *, mode: Literal["channel", "instance"] = "instance") -> Array:
    """Softmax along axis 1 ("channel") or the last one ("instance", as MXNet's CPU build has it)."""
    if mode == "channel" and data.ndim < 3:
        raise MXNetError(f"SoftmaxActivation: mode 'channel' takes data of at least 3 axes, got {data.shape}")
    return _normalize("SoftmaxActivation", jax.nn.softmax, data, 1 if mode == "channel" else -1, None, None)


def _loss_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins[0] is not None:
        ins[1] = unify(ins[1], ins[0][:1], "softmax_cross_entropy: label")


@register("softmax_cross_entropy", infer_shape=_loss_shapes,
          FPartialShape=exact(lambda p, *_: (1,), lambda p, x, label: len(x) == 2))
def softmax_cross_entropy(data: Array, label: Array) -> Array:
    """Sum over the batch of -log(softmax(data)[label]).

    data: (batch, classes) float; label: (batch,) class indices -> (1,).
    """
    if data.ndim != 2 or label.shape != data.shape[:1]:
        raise MXNetError(f"softmax_cross_entropy takes data (batch, classes) and label (batch,), "
                         f"got {data.shape} and {label.shape}")
    log_p = _normalize("softmax_cross_entropy", jax.nn.log_softmax, data, 1, None, None)
    loss = -jnp.sum(log_p * jax.nn.one_hot(label.astype(jnp.int32), data.shape[1], dtype=data.dtype), axis=1)
    # MXNet bounds probabilities by 1e-8 in the loss, but not in its gradient
    bounded = jnp.minimum(loss, -math.log(1e-8))
    return jnp.sum(loss + jax.lax.stop_gradient(bounded - loss), keepdims=True)
