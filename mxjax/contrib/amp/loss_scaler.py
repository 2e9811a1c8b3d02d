"""Dynamic loss scaling, with the largest factor that 16-bit gradients allow (arXiv:1710.03740)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ... import autograd
from ...gluon import Parameter
from ...ndarray import multi_all_finite

__all__ = ["LossScaler"]


class LossScaler:
    """The factor of the loss: halved when a gradient overflows, doubled after 2000 steps without overflow."""

    def __init__(self) -> None:
        self._loss_scale = self._next_loss_scale = 2.0**16
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The factor of the current step."""
        return self._loss_scale

    def has_overflow(self, params: Sequence[Parameter]) -> bool:
        """Returns whether a gradient is not finite, and sets the factor for the next step."""
        grads = [p.list_grad()[0] for p in params if p.grad_req != "null"]
        with autograd.pause():
            overflow = bool(grads) and not multi_all_finite(*grads, num_arrays=len(grads)).asnumpy().all()
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._next_loss_scale = self._loss_scale / 2
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflow
