"""Old learning-rate schedules, kept for old scripts; new code uses `mx.lr_scheduler`."""

from __future__ import annotations

from .lr_scheduler import LRScheduler as LearningRateScheduler

__all__ = ["FactorScheduler", "LearningRateScheduler"]


class FactorScheduler(LearningRateScheduler):
    """base_lr * factor ** (iteration // step).

    Args:
        step: iterations between two changes, >= 1.
        factor: below 1.

    Raises:
        ValueError: `step` or `factor` is out of range.
    """

    def __init__(self, step: int, factor: float = 0.1) -> None:
        super().__init__()
        if step < 1:
            raise ValueError(f"step must be at least 1, got {step}")
        if factor >= 1:
            raise ValueError(f"factor must be below 1, got {factor}")
        self.step, self.factor = step, factor

    def __call__(self, iteration: int) -> float:
        """The rate at an iteration."""
        return self.base_lr * self.factor ** (iteration // self.step)
