"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..common import Array, gives
from ..infer import unify
from ..registry import register

# log(0) that stays finite, so that its derivatives do
_NEVER = -1e30


def _inputs(params: dict[str, Any]) -> list[str]:
    return ["data", "label", *(n for n in ("data_lengths", "label_lengths") if params[f"use_{n}"])]


def _shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    data = ins[0]
    if data is not None and len(data) == 3:
        outs[0] = unify(outs[0], data[1:2])
        for i in range(2, len(ins)):
            ins[i] = unify(ins[i], data[1:2], "CTCLoss: lengths")


@register("CTCLoss", aliases=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"), inputs=_inputs,
          infer_type=gives(lambda p: None),
          output_names=lambda p: ["output0"], infer_shape=_shapes, FPartialShape=lambda p, x, *_: x[1:2])
def ctc_loss(data: Array, label: Array, data_lengths: Array | None = None, label_lengths: Array | None = None, *,
             use_data_lengths: bool = False, use_label_lengths: bool = False,
             blank_label: Literal["first", "last"] = "first") -> Array:
    """-log p(label | data), summed over all alignments (Graves et al., ICML 2006).

    data: (time, batch, alphabet) float, before softmax; label: (batch, length) classes, padded at the end;
    data_lengths, label_lengths: (batch,) lengths of the sequences -> (batch,).  The blank is class 0 and the padding
    0 ("first"), or the last class and -1 ("last").  A label too long for its data has loss 0.
    """
    if use_label_lengths and not use_data_lengths and label_lengths is None:
        data_lengths, label_lengths = None, data_lengths
    if data.ndim != 3 or label.ndim != 2 or data.shape[1] != label.shape[0]:
        raise MXNetError(f"CTCLoss takes data (time, batch, alphabet) and label (batch, length), got {data.shape} and "
                         f"{label.shape}")
    (steps, batch, alphabet), width = data.shape, label.shape[1]
    if width > steps:
        raise MXNetError(f"CTCLoss: labels of length {width} require at least as many steps of data, got {steps}")
    blank, padding = (0, 0) if blank_label == "first" else (alphabet - 1, -1)
    label = label.astype(jnp.int32)
    if label_lengths is None:
        label_lengths = jnp.sum(jnp.cumprod(label != padding, axis=1), axis=1)
    lengths = label_lengths.astype(jnp.int32)
    times = jnp.full(batch, steps) if data_lengths is None else data_lengths.astype(jnp.int32)

    # states: blank, label 0, blank, label 1, ..., blank
    states = jnp.full((batch, 2 * width + 1), blank).at[:, 1::2].set(label)
    same = label[:, 1:] == label[:, :-1]
    skips = jnp.zeros((batch, 2 * width + 1), bool).at[:, 3::2].set(~same)
    # data behind the end, which may be anything, must not reach the gradient
    data = jnp.where((jnp.arange(steps)[:, None] < times)[..., None], data, 0)
    log_p = jax.nn.log_softmax(data.astype(jnp.promote_types(data.dtype, jnp.float32)), axis=-1)
    emitted = jnp.take_along_axis(log_p, states[None], axis=2, mode="clip")

    def shifted(alpha: Array, by: int) -> Array:
        return jnp.pad(alpha[:, :alpha.shape[1] - by], ((0, 0), (by, 0)), constant_values=_NEVER)

    def step(alpha: Array, inputs: tuple[Array, Array]) -> tuple[Array, None]:
        now, t = inputs
        jump = jnp.where(skips, shifted(alpha, 2), _NEVER)
        following = jnp.logaddexp(jnp.logaddexp(alpha, shifted(alpha, 1)), jump) + now
        return jnp.where((t < times)[:, None], following, alpha), None

    first = jnp.where(jnp.arange(2 * width + 1) < 2, emitted[0], _NEVER)
    alpha, _ = lax.scan(step, first, (emitted[1:], jnp.arange(1, steps)))
    ends = jnp.take_along_axis(alpha, jnp.stack([2 * lengths, jnp.maximum(2 * lengths - 1, 0)], axis=1), axis=1)
    log_likelihood = jnp.where(lengths > 0, jnp.logaddexp(ends[:, 0], ends[:, 1]), ends[:, 0])
    repeats = jnp.sum(same & (jnp.arange(1, width) < lengths[:, None]), axis=1)
    return jnp.where(lengths + repeats > times, 0, -log_likelihood).astype(data.dtype)
