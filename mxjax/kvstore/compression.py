"""Gradient compression with error feedback.

1-bit: each value becomes +1 or -1 by a threshold; 2-bit: +threshold, 0 or -threshold. The
quantization error is added to the next gradient (Seide et al. 2014, "1-Bit Stochastic Gradient
Descent"; MXNet's `set_gradient_compression`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import MXNetError, Unfit
from ..eager.array_types import wrap
from ..kernel.kernel import Kernel, run
from ..ndarray import NDArray
from ..ops.common import by_own_rules

if TYPE_CHECKING:
    from ..base import Key
    from ..ops.params import DTypeLike

__all__ = ["Compression"]


def _two_bit(gradient: jax.Array, residual: jax.Array, threshold: jax.Array) -> tuple:
    total = gradient + residual
    sent = jnp.where(total >= threshold, threshold, jnp.where(total <= -threshold, -threshold, 0)).astype(total.dtype)
    return sent, total - sent


def _one_bit(gradient: jax.Array, residual: jax.Array, threshold: jax.Array) -> tuple:
    total = gradient + residual
    sent = jnp.where(total > threshold, 1, -1).astype(total.dtype)
    return sent, total - sent


_KERNELS = {"2bit": Kernel("2-bit compression", _two_bit, 2, 2), "1bit": Kernel("1-bit compression", _one_bit, 2, 2)}
_BITS = {"2bit": 2, "1bit": 1}


def _packer(compression: str) -> Kernel:
    """fn(gradient, residual, threshold) -> (codes packed into bytes, residual).

    A byte's codes are of values far apart, so that all work goes along contiguous memory.
    """
    bits, quantize = _BITS[compression], _KERNELS[compression].fn
    shifts = np.arange(0, 8, bits, dtype=np.uint8)

    @by_own_rules
    def fn(gradient: jax.Array, residual: jax.Array, threshold: jax.Array) -> tuple:
        sent, residual = quantize(gradient, residual, threshold)
        codes = (sent > 0).astype(jnp.uint8) + (2 * (sent < 0).astype(jnp.uint8) if bits == 2 else 0)
        codes = jnp.pad(codes.reshape(-1), (0, -codes.size % len(shifts))).reshape(len(shifts), -1)
        rows = [row << shift for row, shift in zip(codes, shifts, strict=True)]
        return functools.reduce(jnp.bitwise_or, rows), residual
    return Kernel(f"packed {compression} compression", fn, 2, 2)


def _summer(compression: str) -> Callable[[Any], Any]:
    """fn(packed codes, a row for each sender) -> for each value the sum of its signs; a column for each byte."""
    bits = _BITS[compression]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)

    @by_own_rules
    def fn(packed: jax.Array) -> Any:
        codes = (packed[:, None] >> shifts[:, None] & (1 << bits) - 1).astype(jnp.int8)
        signs = (codes & 1) - (codes >> 1) if bits == 2 else 2 * codes - 1
        return signs.sum(0, dtype=jnp.int16)  # half the bytes of a float, and exact for 32767 senders
    return fn


_PACKERS = {kind: _packer(kind) for kind in _KERNELS}
_SUMMERS = {kind: _summer(kind) for kind in _KERNELS}


@functools.partial(jax.jit, static_argnums=(2, 3))
def _values(signs: jax.Array, scale: jax.Array, shape: tuple[int, ...], dtype: str) -> Any:
    return (signs.reshape(-1)[:math.prod(shape)].astype(dtype) * jnp.asarray(scale, dtype)).reshape(shape)


class Compression:
    """Quantizes gradients and keeps a residual per key and device.

    Args:
        params: {"type": "1bit" or "2bit", "threshold": float}.

    Raises:
        MXNetError: the type is missing or unknown, or the threshold is no positive number.
        Unfit: `params` is no dict.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        if not isinstance(params, dict):
            raise Unfit(f"compression_params must be a dict, got {type(params).__name__}")
        params = dict(params)
        if "type" not in params:
            raise MXNetError("compression_params requires 'type'")
        compression = params.pop("type")
        if compression not in _KERNELS:
            raise MXNetError(f"unknown type of gradient compression {compression!r}; known: {', '.join(_KERNELS)}")
        threshold = params.pop("threshold", 0.5)
        try:
            self.threshold = float(threshold)
        except (TypeError, ValueError):
            raise MXNetError(f"threshold must be a positive number, got {threshold!r}") from None
        if params:
            raise MXNetError(f"unknown parameters of gradient compression: {', '.join(params)}")
        if compression == "2bit" and self.threshold <= 0:
            raise MXNetError(f"threshold must be positive, got {self.threshold}")
        self.kind, self._kernel = compression, _KERNELS[compression]
        self._residuals: dict[Any, Any] = {}

    def __call__(self, key: Key, position: int, gradient: NDArray) -> NDArray:
        """Returns the quantized gradient of a key on its `position`-th device."""
        value = gradient.read()
        residual = self._residuals.get((key, position))
        if residual is None:
            residual = jnp.zeros_like(value)
        sent, self._residuals[key, position] = run(self._kernel, [value, residual, self.threshold], False)
        return wrap(sent, gradient.context)

    @staticmethod
    def takes(dtype: np.dtype) -> bool:
        """Returns whether gradients of a dtype can be packed: floats of at most 32 bits."""
        return jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize <= 4

    def pack(self, key: Key | tuple[Key, int], value: Any) -> Any:
        """Returns the quantized gradient of a key as bytes, with 1 or 2 bits per value. value: a buffer."""
        residual = self._residuals.get((key, 0))
        if residual is None:
            residual = jnp.zeros_like(value)
        packed, self._residuals[key, 0] = run(_PACKERS[self.kind], [value, residual, self.threshold], False)
        return packed

    @property
    def sum_signs(self) -> Callable[[Any], Any]:
        """Returns a function for compiled programs that maps packed codes (one row per sender) to
        sums of signs (one column per byte)."""
        return _SUMMERS[self.kind]

    def values_of(self, signs: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Converts sums of signs to values. signs: the columns of one key."""
        return _values(signs, self.threshold if self.kind == "2bit" else 1.0, tuple(shape), np.dtype(dtype).name)
