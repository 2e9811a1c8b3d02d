"""Samplers."""

from __future__ import annotations

from collections.abc import Iterator

from ...data import sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(sampler.Sampler):
    """The indices 0, interval, 2 * interval, ... below `length`.

    Args:
        length: the indices' bound.
        interval: step.
        rollover: begin again at 1, 2, ..., until all indices have been given.

    Raises:
        AssertionError: `interval` is greater than `length`.

    Example:
        >>> list(IntervalSampler(5, interval=3))
        [0, 3, 1, 4, 2]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise AssertionError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self) -> int:
        return self._length
