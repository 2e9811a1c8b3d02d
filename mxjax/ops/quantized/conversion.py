"""Quantization: floats as 8-bit integers with a range, and back.

A quantized array comes with the range that its values represent: two arrays of shape (1,), the minimum and the maximum.
int8 represents [-range, range], uint8 [0, range], where range is the larger of the two absolute values. Values are
rounded to the nearest integer, halves to even, and clipped, as in MXNet's CPU code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...base import MXNetError
from ..common import Array, no_gradient
from ..infer import exact, mark, unify
from ..registry import register

# integer that the end of the range becomes, as float32
STEPS = {"int8": 127.5, "uint8": 255.5, "int32": 2.0**31}


def larger(low: Any, high: Any) -> Any:
    """The larger absolute value, as an array of shape (1,); of calibrated numbers by NumPy: nothing is to be traced."""
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        return np.maximum(np.float32(abs(low)), np.float32(abs(high))).reshape(1)
    return jnp.maximum(jnp.abs(jnp.asarray(low, jnp.float32)), jnp.abs(jnp.asarray(high, jnp.float32))).reshape(1)


def quantized(values: Array, dtype: Any) -> Array:
    """Scaled values as integers: rounded and cut off."""
    limits = jnp.iinfo(dtype)
    whole = lax.round(values, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.clamp(np.float32(limits.min), whole, np.float32(limits.max)).astype(dtype)


def steps(dtype: Any) -> float:
    """Returns the number of steps in the range of a quantized dtype.

    Raises:
        MXNetError: the dtype is not a quantized one.
    """
    value = STEPS.get(np.dtype(dtype).name)
    if value is None:
        raise MXNetError(f"a quantized array must have dtype {', '.join(STEPS)}, got {np.dtype(dtype).name}")
    return value


def with_range(values: Array, dtype: Any, low: Any, high: Any) -> tuple[Array, Array, Array]:
    """(quantized values, minimum, maximum) of floats for a range."""
    edge = larger(low, high)
    with np.errstate(divide="ignore"):
        scale = np.float32(steps(dtype)) / edge
    data = quantized(values * scale, dtype)
    if np.dtype(dtype).kind == "u":
        return data, jnp.asarray(low, jnp.float32).reshape(1), jnp.asarray(high, jnp.float32).reshape(1)
    return data, -edge, edge


def ranged(formula: Any, fits: Any = None, partly: bool = True) -> Any:
    """The formula of a quantized output's shape with those of its range (FPartialShape); the rest as in `exact`."""
    def shapes(p: dict[str, Any], *ins: Any) -> list:
        return [formula(p, *ins), (1,), (1,)]
    return shapes if fits is None else exact(shapes, fits, partly)


def alike(params: dict[str, Any], ins: list, outs: list) -> None:
    """A shape rule: data and output have one shape, ranges have one number."""
    ins[0] = outs[0] = unify(ins[0], outs[0])
    ins[1:], outs[1:] = [(1,)] * (len(ins) - 1), [(1,)] * (len(outs) - 1)


mark(alike, complete=True)


BYTES = ("int8", "uint8")


def need(operator: str, allowed: Sequence[str], **inputs: Any) -> None:
    """Raises MXNetError unless the inputs, arrays or names of dtypes, are of one of these dtypes; None is passed."""
    for name, value in inputs.items():
        dtype = value if value is None or isinstance(value, str) else np.dtype(value.dtype).name
        if dtype is not None and dtype not in allowed:
            raise MXNetError(f"operator {operator}: {name} must be of dtype {' or '.join(allowed)}, got {dtype}")


def _is_range(name: str) -> bool:
    return name.startswith(("min_", "max_")) or name.endswith(("_min", "_max"))


def types(out: Any, operator: str, default: Mapping[str, str] | None = None,
          **allowed: Sequence[str]) -> Any:
    """A type rule: the outputs are of dtype `out` (or of a function of (params, input types)) and float32s.

    operator: name for errors; default: dtypes of unknown inputs by name, else float32 for
    all but the first; allowed: dtypes that inputs may have, by name, where not all; ranges are float32.
    """
    def rule(params: dict[str, Any], ins: list, outs: list, names: Sequence[str] = ()) -> None:
        for name, dtype in zip(names, ins, strict=False):
            if name in allowed or _is_range(name):
                need(operator, allowed.get(name, ("float32",)), **{name: dtype})
        first = out(params, ins) if callable(out) else out
        outs[:] = [t or (first if i == 0 else "float32") for i, t in enumerate(outs)]
        ins[:] = [t or (default or {}).get(name, "float32" if i else None)
                  for i, (t, name) in enumerate(zip(ins, names, strict=True))]
    mark(rule, wants_names=True)
    return rule


def _chosen(out_type: str, low: float | None) -> str:
    """The dtype that "auto" means: uint8 where the calibrated range has nothing negative."""
    return out_type if out_type != "auto" else "uint8" if low is not None and low >= 0 else "int8"


@register("_contrib_quantize", num_outputs=3, FGradient=no_gradient, infer_shape=alike,
          infer_type=types(lambda p, ins: p["out_type"], "quantize", data=("float32",)))
def quantize(data: Array, min_range: Array, max_range: Array, *,
             out_type: Literal["int8", "uint8"] = "uint8") -> tuple[Array, Array, Array]:
    """Quantizes data (float32) for the range [min_range, max_range]; returns the range as well."""
    need("quantize", ("float32",), data=data, min_range=min_range, max_range=max_range)
    edge = larger(min_range, max_range)
    low, high = (min_range, max_range) if out_type == "uint8" else (-edge, edge)
    most = 255 if out_type == "uint8" else 127
    return quantized(data * (most / edge), out_type), low.reshape(1), high.reshape(1)


def quantized_weight(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The int8 form of a weight (float32) and its range, as `quantize` has it, by NumPy: each shape is met once.

    Raises:
        MXNetError: it is of another dtype.
    """
    need("quantize", ("float32",), data=weight)
    edge = np.maximum(abs(weight.min()), abs(weight.max())).reshape(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.rint(weight * (np.float32(127) / edge))
        return np.clip(whole, -128, 127).astype(np.int8), -edge, edge


@register("_contrib_quantize_v2", num_outputs=3, FGradient=no_gradient,
          infer_type=types(lambda p, ins: _chosen(p["out_type"], p["min_calib_range"]), "quantize_v2",
                           data=("float32", *BYTES)), infer_shape=alike)
def quantize_v2(data: Array, *, out_type: Literal["auto", "int8", "uint8"] = "int8",
                min_calib_range: float | None = None,
                max_calib_range: float | None = None) -> tuple[Array, Array, Array]:
    """Quantizes data (float32) for the calibrated range, or its own; returns the range as well.

    Data that are already 8-bit integers are unchanged.
    """
    need("quantize_v2", ("float32", *BYTES), data=data)
    given = None if min_calib_range is None or max_calib_range is None else (min_calib_range, max_calib_range)
    if data.dtype in (jnp.int8, jnp.uint8):
        most = steps(data.dtype)
        low, high = given or (0 if data.dtype == jnp.uint8 else -most, most)
        low, high = (jnp.full(1, v, jnp.float32) for v in (low, high))
        return data.astype(_chosen(out_type, min_calib_range)), low, high
    low, high = given or (data.min(), data.max())
    return with_range(data, _chosen(out_type, min_calib_range if given else None), low, high)


@register("_contrib_quantize_asym", num_outputs=3, FGradient=no_gradient,
          output_names=lambda p: ["output", "scale", "shift"], infer_shape=alike,
          infer_type=types("uint8", "quantize_asym", data=("float32",)))
def quantize_asym(data: Array, *, min_calib_range: float | None = None,
                  max_calib_range: float | None = None) -> tuple[Array, Array, Array]:
    """Quantizes float32 data to uint8: data * scale + shift, for the calibrated range or its own; returns all three."""
    need("quantize_asym", ("float32",), data=data)
    known = min_calib_range is not None and max_calib_range is not None
    low, high = (min_calib_range, max_calib_range) if known else (data.min(), data.max())
    scale = 255 / (jnp.float32(high) - low)  # infinite where they are equal, as in MXNet
    shift = 255 - high * scale
    values = jnp.clip(jnp.floor(data * scale + shift + 0.5), 0, 255).astype(jnp.uint8)
    return values, jnp.asarray(scale, jnp.float32).reshape(1), jnp.asarray(shift, jnp.float32).reshape(1)


@register("_contrib_dequantize", FGradient=no_gradient, infer_shape=alike,
          infer_type=types("float32", "dequantize", data=BYTES))
def dequantize(data: Array, min_range: Array, max_range: Array, *, out_type: Literal["float32"] = "float32") -> Array:
    """Converts integers (int8 or uint8) back to the floats that they represent."""
    need("dequantize", BYTES, data=data)
    return data.astype(jnp.float32) * (larger(min_range, max_range) / steps(data.dtype))


@register("_contrib_requantize", num_outputs=3, FGradient=no_gradient,
          infer_type=types(lambda p, ins: _chosen(p["out_type"], p["min_calib_range"]), "requantize",
                           {"data": "int32"}, data=("int32",)), infer_shape=alike)
def requantize(data: Array, min_range: Array, max_range: Array, *, out_type: Literal["auto", "int8", "uint8"] = "int8",
               min_calib_range: float | None = None,
               max_calib_range: float | None = None) -> tuple[Array, Array, Array]:
    """Requantizes int32 results to 8 bits, for the calibrated range or that of the values; with the range."""
    need("requantize", ("int32",), data=data)
    scale = larger(min_range, max_range) / jnp.float32(2**31 - 1)
    known = min_calib_range is not None and max_calib_range is not None
    if known:
        edge = larger(min_calib_range, max_calib_range)
    else:
        edge = jnp.abs(data.astype(jnp.float32)).max() * scale
    dtype = _chosen(out_type, min_calib_range if known else None)
    most = 127 if dtype == "int8" else 255
    low = -edge if dtype == "int8" else jnp.zeros(1, jnp.float32)
    return quantized(data.astype(jnp.float32) * (scale * (most / edge)), dtype), low, edge
