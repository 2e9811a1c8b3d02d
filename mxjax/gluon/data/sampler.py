"""Samplers: the order in which a data set's samples are taken, and how they are grouped into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["BatchSampler", "FilterSampler", "RandomSampler", "Sampler", "SequentialSampler"]


class Sampler:
    """Base of samplers: a subclass defines `__iter__`, over indices of samples, and `__len__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class SequentialSampler(Sampler):
    """The indices start, start + 1, ..., start + length - 1.

    Args:
        length: how many.
        start: the first.
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._indices = range(start, start + length)

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class RandomSampler(Sampler):
    """The indices 0 ... length - 1 in an order drawn anew each time (from `numpy.random`).

    Args:
        length: how many.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        indices = np.arange(self._length)
        np.random.shuffle(indices)
        return iter(indices)

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of those samples for which a function is true; it is asked once, when the sampler is made.

    Args:
        fn: function(sample) -> bool.
        dataset: the samples.
    """

    def __init__(self, fn: Callable[[Any], bool], dataset: Any) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Groups a sampler's indices into lists.

    Args:
        sampler: the indices.
        batch_size: length of a list.
        last_batch: what becomes of indices that do not fill a list: "keep" them as a shorter one, "discard" them, or
            "rollover": they begin the next round.

    Raises:
        ValueError: when used: another `last_batch`.

    Example:
        >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        self._sampler, self._batch_size, self._last_batch = sampler, batch_size, last_batch
        self._prev: list[Any] = []

    def _check(self) -> None:
        if self._last_batch not in ("keep", "discard", "rollover"):
            raise ValueError("last_batch must be one of 'keep', 'discard', or 'rollover', but got "
                             f"{self._last_batch!r}")

    def __iter__(self) -> Iterator[list[Any]]:
        self._check()
        batch, self._prev = self._prev, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._prev = batch

    def __len__(self) -> int:
        self._check()
        count = len(self._sampler)
        if self._last_batch == "keep":
            return -(-count // self._batch_size)
        return (count + len(self._prev)) // self._batch_size
