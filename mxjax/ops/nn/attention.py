"""Multi-head attention on interleaved projections (arXiv:1706.03762)."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, gives, no_gradient
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
    """Returns a function(params, shapes) -> whether attention of the first shape can weigh values of the second."""
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
    """Sums of the values, weighted by attention.

    queries_keys_values: (time, batch, heads · 3 · size), for each head its query, key and value; attention: (batch ·
    heads, time, time) -> (time, batch, heads · size).
    """
    return _weighted(attention, _heads("interleaved_matmul_selfatt_valatt", queries_keys_values, heads, 3)[..., 2, :])


@register("_contrib_interleaved_matmul_encdec_qk", FPartialShape=exact(
    lambda p, x, y: (x[1] * p["heads"], x[0], y[0]),
    lambda p, x, y: _divides(p, x, 1) and len(y) == 3 and y[1:] == (x[1], 2 * x[2]), partly=False))
def interleaved_matmul_encdec_qk(queries: Array, keys_values: Array, *, heads: Heads) -> Array:
    """Products of the decoder's queries and the encoder's keys, divided by sqrt(size).

    queries: (time, batch, heads · size), the queries of all heads; keys_values: (source time, batch, heads · 2 · size),
    for each head key and value -> (batch · heads, time, source time).
    """
    name = "interleaved_matmul_encdec_qk"
    return _scores(_heads(name, queries, heads, 1)[..., 0, :], _heads(name, keys_values, heads, 2)[..., 0, :])


@register("_contrib_interleaved_matmul_encdec_valatt", FPartialShape=exact(
    lambda p, x, attention: (attention[1], x[1], x[2] // 2), _can_weigh(2), partly=False))
def interleaved_matmul_encdec_valatt(keys_values: Array, attention: Array, *, heads: Heads) -> Array:
    """Sums of the encoder's values, weighted by attention.

    keys_values: (source time, batch, heads · 2 · size), for each head key and value; attention: (batch · heads, time,
    source time) -> (time, batch, heads · size).
    """
    return _weighted(attention, _heads("interleaved_matmul_encdec_valatt", keys_values, heads, 2)[..., 1, :])


# -------------------------------------------------------------------- attention in a window (arXiv:2004.05150)
def _window(name: str, length: int, heads: int, dilation: Array, w: int, symmetric: bool) -> Array:
    """The places (heads, length, window) that each place sees; those outside of the sequence, too."""
    if dilation.shape != (heads,) or dilation.dtype != jnp.int32:
        raise MXNetError(f"{name}: dilation must be int32 of shape ({heads},), got {dilation.dtype} of shape "
                         f"{dilation.shape}")
    steps = jnp.arange(-w, w + 1 if symmetric else 1, dtype=jnp.int32)
    return jnp.arange(length, dtype=jnp.int32)[:, None] + dilation[:, None, None] * steps


def _seen(name: str, data: Array, dilation: Array, w: int, symmetric: bool) -> Array:
    """The data (batch, length, heads, size) that each place sees: (batch, length, heads, window, size), 0 outside."""
    places = _window(name, data.shape[1], data.shape[2], dilation, w, symmetric)
    inside = (places >= 0) & (places < data.shape[1])
    taken = jax.vmap(lambda one, where: one[:, where], (2, 0), 2)(data, jnp.clip(places, 0, data.shape[1] - 1))
    return jnp.where(inside.transpose(1, 0, 2)[..., None], taken, 0)


def _need_sequences(name: str, **arrays: Array) -> None:
    for what, a in arrays.items():
        if a.ndim != 4:
            raise MXNetError(f"{name}: {what} must be (batch, length, heads, size), got shape {a.shape}")


@register("_contrib_sldwin_atten_score", aliases=("_npx_sldwin_atten_score",),
          infer_type=gives(lambda p: None, None, None, "int32"))
def sldwin_atten_score(query: Array, key: Array, dilation: Array, *, w: int, symmetric: bool) -> Array:
    """Unscaled products of each query and the keys in a window around it.

    query, key: (batch, length, heads, size), those of all heads; dilation: (heads,) int32, the distance of the keys ->
    (batch, length, heads, 2w + 1), or, not symmetric, the w keys before it and its own: (batch, length, heads, w + 1).
    """
    name = "_contrib_sldwin_atten_score"
    _need_sequences(name, query=query, key=key)
    return jnp.einsum("blhd,blhwd->blhw", query, _seen(name, key, dilation, w, symmetric))


@register("_contrib_sldwin_atten_mask_like", aliases=("_npx_sldwin_atten_mask_like",), FGradient=no_gradient,
          infer_type=gives(lambda p: None, None, "int32", "int32"))
def sldwin_atten_mask_like(score: Array, dilation: Array, valid_length: Array, *, w: int, symmetric: bool) -> Array:
    """A mask of the scores: 1 where query and key are in the sequence, else 0, in the shape and dtype of score.

    score: (batch, length, heads, window); dilation: (heads,) int32; valid_length: (batch,) int32.
    """
    name = "_contrib_sldwin_atten_mask_like"
    _need_sequences(name, score=score)
    places = _window(name, score.shape[1], score.shape[2], dilation, w, symmetric).transpose(1, 0, 2)
    if valid_length.shape != score.shape[:1] or places.shape != score.shape[1:]:
        raise MXNetError(f"{name}: score of shape {score.shape} requires a valid_length of shape {score.shape[:1]} and "
                         f"a window of {score.shape[3]}, got {valid_length.shape} and {places.shape[2]}")
    valid = valid_length[:, None, None, None]
    rows = jnp.arange(score.shape[1], dtype=jnp.int32)[:, None, None]
    return ((places >= 0) & (places < valid) & (rows < valid)).astype(score.dtype)


@register("_contrib_sldwin_atten_context", aliases=("_npx_sldwin_atten_context",),
          infer_type=gives(lambda p: None, None, None, "int32"))
def sldwin_atten_context(score: Array, value: Array, dilation: Array, *, w: int, symmetric: bool) -> Array:
    """Sums of the values in a window around each position, weighted by score.

    score: (batch, length, heads, window); value: (batch, length, heads, size); dilation: (heads,) int32 -> the shape
    of value.
    """
    name = "_contrib_sldwin_atten_context"
    _need_sequences(name, score=score, value=value)
    seen = _seen(name, value, dilation, w, symmetric)
    if score.shape != seen.shape[:4]:
        raise MXNetError(f"{name}: score must have the shape {seen.shape[:4]}, got {score.shape}")
    return jnp.einsum("blhw,blhwd->blhd", score, seen)
