"""Learning rate schedules: functions of the number of updates."""

from __future__ import annotations

import logging
import math

from .base import Unfit

__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler", "CosineScheduler"]

_CHANGED = "Update[%d]: Change learning rate to %0.5e"  # MXNet's words: scripts search logs for them


class LRScheduler:
    """Base of all schedules: `scheduler(num_update)` returns the learning rate after `num_update` updates.

    Args:
        base_lr: learning rate at the end of the warm-up.
        warmup_steps: number of updates during which the rate rises to `base_lr`.
        warmup_begin_lr: rate at update 0.
        warmup_mode: "linear", or "constant" to stay at `warmup_begin_lr` until the warm-up is over.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear") -> None:
        if not isinstance(warmup_steps, int):
            raise Unfit(f"warmup_steps must be an integer, got {warmup_steps!r}")
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps must be 0 or more, got {warmup_steps!r}")
        if warmup_begin_lr > base_lr:
            raise ValueError(f"base_lr must not be below warmup_begin_lr, got {base_lr} < {warmup_begin_lr}")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(f"warmup_mode must be 'linear' or 'constant', got {warmup_mode!r}")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """Returns the rate at an update of the warm-up phase (`num_update < warmup_steps`)."""
        if num_update >= self.warmup_steps:
            raise ValueError(f"update {num_update} is not within the {self.warmup_steps} warm-up steps")
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        return self.warmup_begin_lr + (self.warmup_final_lr - self.warmup_begin_lr) * num_update / self.warmup_steps

    def __call__(self, num_update: int) -> float:
        """Returns the learning rate at update number `num_update`."""
        return self.get_warmup_lr(num_update) if num_update < self.warmup_steps else self._scheduled(num_update)

    def _scheduled(self, num_update: int) -> float:
        """Returns the rate after the warm-up; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError(f"factor must be at most 1, so that the learning rate falls; got {factor}")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` every `step` updates: base_lr * factor ** (num_update // step).

    Args:
        step: number of updates between two changes, >= 1.
        factor: at most 1.
        stop_factor_lr: the rate never falls below this.
        base_lr, warmup_steps, warmup_begin_lr, warmup_mode: as in `LRScheduler`.

    Example:
        >>> schedule = FactorScheduler(step=10, factor=0.5, base_lr=1.0)
        >>> [schedule(n) for n in (1, 11, 21)]
        [1.0, 0.5, 0.25]
    """

    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError(f"step must be at least 1, got {step}")
        _check_factor(factor)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def _scheduled(self, num_update: int) -> float:
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr = max(self.base_lr * self.factor, self.stop_factor_lr)
            logging.info("Update[%d]: now learning rate arrived at %0.5e, will not change in the future"
                         if self.base_lr == self.stop_factor_lr else _CHANGED, num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` after each of a list of updates.

    Args:
        step: increasing numbers of updates, each >= 1.
        factor: at most 1.
        base_lr, warmup_steps, warmup_begin_lr, warmup_mode: as in `LRScheduler`.

    Example:
        >>> schedule = MultiFactorScheduler(step=[10, 15], factor=0.1, base_lr=1.0)
        >>> [round(schedule(n), 3) for n in (10, 11, 16)]
        [1.0, 0.1, 0.01]
    """

    def __init__(self, step: list[int], factor: float = 1, base_lr: float = 0.01, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise Unfit(f"step must be a list of at least one update number, got {step!r}")
        if step[0] < 1 or any(b <= a for a, b in zip(step, step[1:], strict=False)):
            raise ValueError(f"step must be increasing numbers >= 1, got {step}")
        _check_factor(factor)
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def _scheduled(self, num_update: int) -> float:
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info(_CHANGED, num_update, self.base_lr)
        return self.base_lr


class _DecayScheduler(LRScheduler):
    """A rate that falls from `base_lr` to `final_lr` along a curve, and stays there after `max_update`."""

    def __init__(self, max_update: int, base_lr: float, final_lr: float, warmup_steps: int, warmup_begin_lr: float,
                 warmup_mode: str) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(max_update, int):
            raise Unfit(f"max_update must be an integer, got {max_update!r}")
        if max_update < 1:
            raise ValueError(f"max_update must be at least 1, got {max_update}")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _remaining(self, progress: float) -> float:
        """Returns how much of the way down is left, 1 to 0, at `progress` from 0 to 1."""
        raise NotImplementedError

    def _scheduled(self, num_update: int) -> float:
        if num_update <= self.max_update:
            left = self._remaining((num_update - self.warmup_steps) / self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * left
        return self.base_lr


class PolyScheduler(_DecayScheduler):
    """Polynomial decay: final_lr + (base_lr - final_lr) * (1 - t / max_steps) ** pwr.

    Args:
        max_update: number of updates after which the rate stays at `final_lr`.
        pwr: power of the decay.
        base_lr, warmup_steps, warmup_begin_lr, warmup_mode: as in `LRScheduler`; t counts from the warm-up's end.
        final_lr: rate at `max_update`.

    Example:
        >>> PolyScheduler(max_update=10, base_lr=1.0, pwr=2)(5)
        0.25
    """

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _remaining(self, progress: float) -> float:
        return (1 - progress) ** self.power


class CosineScheduler(_DecayScheduler):
    """Half a cosine: final_lr + (base_lr - final_lr) * (1 + cos(pi * t / max_steps)) / 2.

    Args:
        max_update: number of updates after which the rate stays at `final_lr`.
        base_lr, warmup_steps, warmup_begin_lr, warmup_mode: as in `LRScheduler`; t counts from the warm-up's end.
        final_lr: rate at `max_update`.

    Source:
        Loshchilov & Hutter, SGDR, 2017 (one period, no restart).

    Example:
        >>> CosineScheduler(max_update=10, base_lr=1.0)(5)
        0.5
    """

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _remaining(self, progress: float) -> float:
        return (1 + math.cos(math.pi * progress)) / 2
