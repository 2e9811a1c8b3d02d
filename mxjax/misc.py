"""Old names of learning-rate schedules, kept for old scripts; new code uses `mx.lr_scheduler`."""

from __future__ import annotations

from .lr_scheduler import FactorScheduler
from .lr_scheduler import LRScheduler as LearningRateScheduler

__all__ = ["FactorScheduler", "LearningRateScheduler"]
