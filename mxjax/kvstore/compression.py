"""Gradient compression with error feedback.

1-bit: each value becomes +1 or -1 by a threshold; 2-bit: +threshold, 0 or -threshold. What was lost is added to the
next gradient (Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; MXNet's `set_gradient_compression`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray
from ..ndarray._invoke import wrap
from ..ops.kernel import Kernel, run

__all__ = ["Compression"]


def _two_bit(gradient: Any, residual: Any, threshold: Any) -> tuple:
    total = gradient + residual
    sent = jnp.where(total >= threshold, threshold, jnp.where(total <= -threshold, -threshold, 0)).astype(total.dtype)
    return sent, total - sent


def _one_bit(gradient: Any, residual: Any, threshold: Any) -> tuple:
    total = gradient + residual
    sent = jnp.where(total > threshold, 1, -1).astype(total.dtype)
    return sent, total - sent


_KERNELS = {"2bit": Kernel("2-bit compression", _two_bit, 2, 2), "1bit": Kernel("1-bit compression", _one_bit, 2, 2)}
_BITS = {"2bit": 2, "1bit": 1}


def _packer(kind: str) -> Kernel:
    """fn(gradient, residual, threshold) -> (codes packed into bytes, residual)."""
    bits, quantize = _BITS[kind], _KERNELS[kind].fn
    shifts = np.arange(0, 8, bits, dtype=np.uint8)

    def fn(gradient: Any, residual: Any, threshold: Any) -> tuple:
        sent, residual = quantize(gradient, residual, threshold)
        codes = (sent > 0).astype(jnp.uint8) + (2 * (sent < 0).astype(jnp.uint8) if bits == 2 else 0)
        codes = jnp.pad(codes.reshape(-1), (0, -codes.size % len(shifts))).reshape(-1, len(shifts))
        return (codes << shifts).sum(1, dtype=jnp.uint8), residual
    return Kernel(f"packed {kind} compression", fn, 2, 2)


@functools.cache
def _unpacker(kind: str, shape: tuple[int, ...], dtype: str) -> Kernel:
    """fn(packed codes of all senders, threshold) -> the sum of what they stand for."""
    bits, size = _BITS[kind], math.prod(shape)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)

    def fn(packed: Any, threshold: Any) -> tuple:
        codes = (packed[..., None] >> shifts & (1 << bits) - 1).reshape(packed.shape[0], -1)[:, :size]
        signs = codes.astype(jnp.int8)
        if bits == 2:
            total = ((signs & 1) - (signs >> 1)).sum(0, dtype=jnp.int32).astype(dtype) * threshold
        else:
            total = (2 * signs - 1).sum(0, dtype=jnp.int32).astype(dtype)
        return (total.astype(dtype).reshape(shape),)
    return Kernel(f"unpacked {kind} compression", fn, 1, 1)


_PACKERS = {kind: _packer(kind) for kind in _KERNELS}


class Compression:
    """Quantizes gradients, keeping a residual for each key and device.

    Args:
        params: {"type": "1bit" or "2bit", "threshold": float}.

    Raises:
        ValueError, MXNetError: the type is missing or unknown, or the threshold is not positive.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        params = dict(params)
        if "type" not in params:
            raise ValueError("compression_params requires 'type'")
        kind = params.pop("type")
        if kind not in _KERNELS:
            raise MXNetError(f"unknown type of gradient compression {kind!r}; known: {', '.join(_KERNELS)}")
        self.threshold = float(params.pop("threshold", 0.5))
        if params:
            raise MXNetError(f"unknown parameters of gradient compression: {', '.join(params)}")
        if kind == "2bit" and self.threshold <= 0:
            raise MXNetError(f"threshold must be positive, got {self.threshold}")
        self.kind, self._kernel = kind, _KERNELS[kind]
        self._residuals: dict[Any, Any] = {}

    def __call__(self, key: Any, position: int, gradient: NDArray) -> NDArray:
        """The quantized gradient of a key on its `position`-th device."""
        value = gradient._read()
        residual = self._residuals.get((key, position))
        if residual is None:
            residual = jnp.zeros_like(value)
        sent, self._residuals[key, position] = run(self._kernel, [value, residual, self.threshold], False)
        return wrap(sent, gradient.context)

    def pack(self, key: Any, value: Any) -> Any:
        """The quantized gradient of a key as bytes: 2 bits or 1 for each value; value: a buffer."""
        residual = self._residuals.get((key, 0))
        if residual is None:
            residual = jnp.zeros_like(value)
        packed, self._residuals[key, 0] = run(_PACKERS[self.kind], [value, residual, self.threshold], False)
        return packed

    def unpacked_sum(self, packed: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """The sum of several senders' gradients; packed: (senders, bytes)."""
        return run(_unpacker(self.kind, tuple(shape), np.dtype(dtype).name), [packed, self.threshold], False)[0]
