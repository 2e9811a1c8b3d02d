"""Multi-head attention on interleaved projections (arXiv:1706.03762)."""

from __future__ import annotations

from typing import Annotated, Any

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array
from ..infer import exact
from ..params import Range
from ..registry import register

Heads = Annotated[int, Range(1)]


def _heads(name: str, array: Array, heads: int, parts: int) -> Array:
    """(time, batch, heads · parts · size) as (time, batch, heads, parts, size)."""
    if array.ndim != 3 or array.shape[2] % (heads * parts):
        raise MXNetError(f"{name}: an input of shape {array.shape} must be (time, batch, "
                         f"{heads} heads x {parts} x size)")
    return array.reshape(*array.shape[:2], heads, parts, -1)


def _scores(queries: Array, keys: Array) -> Array:
    """queries · keysᵀ / sqrt(size) -> (batch · heads, time of queries, time of keys)."""
    scores = jnp.einsum("tnhd,snhd->nhts", queries / queries.shape[-1] ** 0.5, keys)
    return scores.reshape(-1, *scores.shape[2:])


def _weighted(attention: Array, values: Array) -> Array:
    """attention · values -> (time of queries, batch, heads · size)."""
    batch, heads = values.shape[1:3]
    out = jnp.einsum("nhts,snhd->tnhd", attention.reshape(batch, heads, *attention.shape[1:]), values)
    return out.reshape(*out.shape[:2], -1)


def _divides(p: dict[str, Any], x: tuple, parts: int) -> bool:
    return len(x) == 3 and x[2] % (p["heads"] * parts) == 0


def _can_weigh(parts: int) -> Any:
    """Returns a function(params, shapes) that tells whether attention of that shape weighs values of that one."""
    return lambda p, x, attention: _divides(p, x, parts) and attention[:1] + attention[2:] == (x[1] * p["heads"], x[0])


@register("_contrib_interleaved_matmul_selfatt_qk", FPartialShape=exact(
    lambda p, x: (x[1] * p["heads"], x[0], x[0]), lambda p, x: _divides(p, x, 3), partly=False))
def interleaved_matmul_selfatt_qk(queries_keys_values: Array, *, heads: Heads) -> Array:
    """Products of queries and keys, divided by sqrt(size): self-attention before softmax.

    queries_keys_values: (time, batch, heads · 3 · size), for each head its query, key and value
    -> (batch · heads, time, time).
    """
    parts = _heads("interleaved_matmul_selfatt_qk", queries_keys_values, heads, 3)
    return _scores(parts[..., 0, :], parts[..., 1, :])


@register("_contrib_interleaved_matmul_selfatt_valatt", FPartialShape=exact(
    lambda p, x, attention: (attention[1], x[1], x[2] // 3), _can_weigh(3), partly=False))
def interleaved_matmul_selfatt_valatt(queries_keys_values: Array, attention: Array, *, heads: Heads) -> Array:
    """The values, weighted by attention.

    queries_keys_values: (time, batch, heads · 3 · size); attention: (batch · heads, time, time)
    -> (time, batch, heads · size).
    """
    return _weighted(attention, _heads("interleaved_matmul_selfatt_valatt", queries_keys_values, heads, 3)[..., 2, :])


@register("_contrib_interleaved_matmul_encdec_qk", FPartialShape=exact(
    lambda p, x, y: (x[1] * p["heads"], x[0], y[0]),
    lambda p, x, y: _divides(p, x, 1) and len(y) == 3 and y[1:] == (x[1], 2 * x[2]), partly=False))
def interleaved_matmul_encdec_qk(queries: Array, keys_values: Array, *, heads: Heads) -> Array:
    """Products of the decoder's queries and the encoder's keys, divided by sqrt(size).

    queries: (time, batch, heads · size); keys_values: (source time, batch, heads · 2 · size), for each head key and
    value -> (batch · heads, time, source time).
    """
    name = "interleaved_matmul_encdec_qk"
    return _scores(_heads(name, queries, heads, 1)[..., 0, :], _heads(name, keys_values, heads, 2)[..., 0, :])


@register("_contrib_interleaved_matmul_encdec_valatt", FPartialShape=exact(
    lambda p, x, attention: (attention[1], x[1], x[2] // 2), _can_weigh(2), partly=False))
def interleaved_matmul_encdec_valatt(keys_values: Array, attention: Array, *, heads: Heads) -> Array:
    """The encoder's values, weighted by attention.

    keys_values: (source time, batch, heads · 2 · size); attention: (batch · heads, time, source time)
    -> (time, batch, heads · size).
    """
    return _weighted(attention, _heads("interleaved_matmul_encdec_valatt", keys_values, heads, 2)[..., 1, :])
