"""Compact bilinear pooling (arXiv:1511.06062): count sketch, and the Fourier transform in real numbers."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..common import Array, need_float
from ..infer import filled
from ..registry import register


@register("_contrib_count_sketch", infer_shape=filled(h=lambda p, x: (1, x[-1]), s=lambda p, x: (1, x[-1])))
def count_sketch(data: Array, h: Array, s: Array, *, out_dim: int, processing_batch_size: int = 32) -> Array:
    """Sums of signed values: element i of the last axis of data, times s[i], is added at index h[i].

    h, s: (1, length of that axis), indices in [0, out_dim) and signs -> the shape of data with `out_dim` at the end.
    """
    if data.ndim not in (2, 4):
        raise MXNetError(f"operator count_sketch: data must have 2 or 4 dimensions, got shape {data.shape}")
    if h.size != data.shape[-1] or s.size != data.shape[-1]:
        raise MXNetError(f"operator count_sketch: h and s must have the length {data.shape[-1]} of the last axis of "
                         f"data, got shapes {h.shape} and {s.shape}")
    signed = data * lax.stop_gradient(s.reshape(-1))
    out = jnp.zeros((*data.shape[:-1], out_dim), data.dtype)
    return out.at[..., h.reshape(-1).astype(jnp.int32)].add(signed)


@register("_contrib_fft")
def fft(data: Array, *, compute_size: int = 128) -> Array:
    """The Fourier transform along the last axis; real and imaginary parts alternate, which doubles its length."""
    need_float("fft", data)
    result = jnp.fft.fft(data.astype(jnp.promote_types(data.dtype, jnp.float32)))
    return jnp.stack([result.real, result.imag], -1).reshape(*data.shape[:-1], -1).astype(data.dtype)


@register("_contrib_ifft")
def ifft(data: Array, *, compute_size: int = 128) -> Array:
    """The real part of the inverse of `fft`, without division by the length."""
    need_float("ifft", data)
    if data.shape[-1] % 2:
        raise MXNetError(f"operator ifft: the last axis must contain pairs of numbers, got shape {data.shape}")
    pairs = data.astype(jnp.promote_types(data.dtype, jnp.float32)).reshape(*data.shape[:-1], -1, 2)
    result = jnp.fft.ifft(lax.complex(pairs[..., 0], pairs[..., 1]))
    return (result.real * result.shape[-1]).astype(data.dtype)
