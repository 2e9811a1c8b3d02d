"""Gradient compression with error feedback.

1-bit: each value becomes +1 or -1 by a threshold; 2-bit: +threshold, 0 or -threshold. What was lost is added to the
next gradient (Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; MXNet's `set_gradient_compression`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

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
        self._kernel = _KERNELS[kind]
        self._residuals: dict[Any, Any] = {}

    def __call__(self, key: Any, position: int, gradient: NDArray) -> NDArray:
        """The quantized gradient of a key on its `position`-th device."""
        value = gradient._read()
        residual = self._residuals.get((key, position))
        if residual is None:
            residual = jnp.zeros_like(value)
        sent, self._residuals[key, position] = run(self._kernel, [value, residual, self.threshold], False)
        return wrap(sent, gradient.context)
