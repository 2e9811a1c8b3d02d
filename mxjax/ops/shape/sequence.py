"""Operators on batches of sequences of different lengths."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, gives, whole
from ..infer import exact, filled, first
from ..params import Scalar
from ..registry import register


def _inputs(params: dict[str, Any]) -> list[str]:
    return ["data", "sequence_length"] if params["use_sequence_length"] else ["data"]


_RULES: dict[str, Any] = {
    "inputs": _inputs,
    "infer_shape": filled(sequence_length=lambda p, x: (x[1 - p["axis"]],)),
    "infer_type": gives(lambda p: None),
}


def _fits(p: dict[str, Any], x: tuple, *_: Any) -> bool:
    return p["axis"] in (0, 1) and len(x) > 1


def _lengths(name: str, data: Array, lengths: Array | None, used: bool, axis: int) -> Array | None:
    """Lengths as integers, None for full ones; raises MXNetError if the arguments do not fit together."""
    if axis not in (0, 1) or data.ndim < 2:
        raise MXNetError(f"operator {name}: axis={axis} must be 0 or 1, and data must have at least two dimensions; "
                         f"got shape {data.shape}")
    if not used:
        return None
    if lengths is None or lengths.shape != (data.shape[1 - axis],):
        raise MXNetError(f"operator {name}: sequence_length must contain one number for each of the "
                         f"{data.shape[1 - axis]} sequences, got {None if lengths is None else lengths.shape}")
    return whole(lengths)


@register("SequenceMask", aliases=("_npx_sequence_mask",), FPartialShape=exact(first, _fits), **_RULES)
def sequence_mask(data: Array, sequence_length: Array | None = None, *, use_sequence_length: bool = False,
                  value: Scalar = 0.0, axis: int = 0) -> Array:
    """Replaces everything after the end of each sequence by `value`.

    data: (time, batch, ...), or (batch, time, ...) with axis=1; sequence_length: (batch,), any dtype.
    """
    lengths = _lengths("SequenceMask", data, sequence_length, use_sequence_length, axis)
    if lengths is None:
        return data
    time = jnp.arange(data.shape[axis])
    inside = time[:, None] < lengths if axis == 0 else time < lengths[:, None]
    inside = inside.reshape(*inside.shape, *(1,) * (data.ndim - 2))
    return jnp.where(inside, data, jnp.asarray(value).astype(data.dtype))


@register("SequenceLast", FPartialShape=exact(lambda p, x, *_: x[:p["axis"]] + x[p["axis"] + 1:], _fits),
          **_RULES)
def sequence_last(data: Array, sequence_length: Array | None = None, *, use_sequence_length: bool = False,
                  axis: int = 0) -> Array:
    """The last element of each sequence: (time, batch, ...) -> (batch, ...); axis=1 for (batch, time, ...)."""
    lengths = _lengths("SequenceLast", data, sequence_length, use_sequence_length, axis)
    steps = jnp.moveaxis(data, axis, 0)
    if lengths is None:
        return steps[-1]
    return steps[jnp.maximum(lengths - 1, 0), jnp.arange(steps.shape[1])]


@register("SequenceReverse", FPartialShape=exact(first, lambda p, x, *_: p["axis"] == 0 and _fits(p, x)), **_RULES)
def sequence_reverse(data: Array, sequence_length: Array | None = None, *, use_sequence_length: bool = False,
                     axis: int = 0) -> Array:
    """Reverses each sequence up to its end; later elements are unchanged.  data: (time, batch, ...).

    Lengths beyond the data, for which MXNet reads foreign memory, count as the whole sequence.
    """
    if axis != 0:
        raise MXNetError(f"operator SequenceReverse: axis must be 0, got {axis}")
    lengths = _lengths("SequenceReverse", data, sequence_length, use_sequence_length, axis)
    if lengths is None:
        return jnp.flip(data, 0)
    lengths, time = jnp.minimum(lengths, data.shape[0]), jnp.arange(data.shape[0])[:, None]
    return data[jnp.where(time < lengths, lengths - 1 - time, time), jnp.arange(data.shape[1])]
