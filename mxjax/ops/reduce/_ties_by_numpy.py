"""The order of equal values that MXNet has on CPUs (see `_ties.py`), by NumPy and Python's heaps.

In programs for CPUs alone the host computes it where values are tied: XLA would compile loops for it, whose steps it
runs one at a time.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike

from ._ties import LONGEST_STABLE

__all__ = ["positions"]


def positions(keys: ArrayLike, count: int, whole: bool) -> np.ndarray:
    """Positions (int32) of the `count` smallest keys (int32) of the last axis, in MXNet's order.

    whole: they come from a sort of all, as `std::sort` does it; else from `std::partial_sort`.
    """
    numbers = np.asarray(keys)
    rows = numbers.reshape(-1, numbers.shape[-1])
    result, ordered = _stable(rows)
    result = result[:, :count]
    tied = (ordered[:, 1:count + 1] == ordered[:, :-1][:, :count]).any(-1).nonzero()[0]
    if whole and tied.size:
        moved, sortable = _introsort(rows[tied])
        result[tied] = np.take_along_axis(moved, _stable(sortable)[0][:, :count], -1)
    elif tied.size:
        for row in tied:
            result[row] = _partial_sort(rows[row], count)
    return result.reshape(*numbers.shape[:-1], count)


def _stable(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(positions that sort each row, its keys in order); equal ones keep their order."""
    both = rows.astype(np.int64) << 32 | np.arange(rows.shape[1])
    both.sort(-1)
    return both.astype(np.int32), both >> 32  # the lower half, the upper one


def _partial_sort(keys: np.ndarray, count: int) -> list[int]:
    """Positions of the `count` smallest keys: Python's heaps take and move equal values as C++'s do.

    They are heaps of the least, so numbers change their sign. Each is an object of its own, which tells equal ones
    apart; heaps compare their values only.
    """
    numbers = (-keys.astype(np.float64)).tolist()
    heap = numbers[:count]
    heapq.heapify(heap)
    for number in numbers[count:]:
        if number > heap[0]:
            heapq.heapreplace(heap, number)
    places = {id(number): place for place, number in enumerate(numbers)}
    return [places[id(heapq.heappop(heap))] for _ in range(count)][::-1]


def _introsort(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(positions to which `std::sort` brings the keys of each row before it sorts by insertion, the keys there).

    All parts of more than `LONGEST_STABLE` keys, of all rows, are parted at once.
    """
    number, size = rows.shape
    keys, ids = rows.flatten(), np.tile(np.arange(size, dtype=np.int32), number)
    low = np.arange(number) * size
    high = low + size
    for _ in range(2 * (size.bit_length() - 1)):
        if not low.size:
            break
        cut = _parted(keys, ids, low, high)
        low, high = np.concatenate([low, cut]), np.concatenate([cut, high])
        long = high - low > LONGEST_STABLE
        low, high = low[long], high[long]
    for start, end in zip(low, high, strict=True):  # parts that were partitioned badly repeatedly
        order = start + np.array(_partial_sort(keys[start:end], end - start))
        keys[start:end], ids[start:end] = keys[order], ids[order]
    return ids.reshape(rows.shape), keys.reshape(rows.shape)


def _parted(keys: np.ndarray, ids: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Partitions parts from `low` to `high` in place at the median of three keys; returns the places.

    Of each part one walk goes up and stops at keys that are not below the median, one goes down and stops at keys that
    are not above it. Until they meet, the elements at their stops are swapped.
    """
    def swap(ones: np.ndarray, others: np.ndarray) -> None:
        for values in (keys, ids):
            values[ones], values[others] = values[others], values[ones]
    one, two, three = low + 1, low + (high - low) // 2, high - 1
    x, y, z = keys[one], keys[two], keys[three]
    swap(low, np.where(x < y, np.where(y < z, two, np.where(x < z, three, one)),
                       np.where(x < z, one, np.where(y < z, three, two))))

    lengths = high - low - 1
    part = np.repeat(np.arange(low.size), lengths)
    place = np.arange(part.size) + np.repeat(low + 1 - np.cumsum(lengths) + lengths, lengths)
    key, pivot = keys[place], keys[low][part]
    ups, downs = (key >= pivot).nonzero()[0], (key <= pivot).nonzero()[0]
    up, of_up, down = place[ups], part[ups], place[downs]
    many_up, many_down = (np.bincount(part[stops], minlength=low.size) for stops in (ups, downs))
    first_up, end_down = np.cumsum(many_up) - many_up, np.cumsum(many_down)
    step = np.arange(up.size) - first_up[of_up]  # stop number so and so of its part's walk
    partner = down[np.maximum(end_down[of_up] - 1 - step, 0)]
    swapped = (step < many_down[of_up]) & (up < partner)
    steps = np.bincount(of_up[swapped], minlength=low.size)
    swap(up[swapped], partner[swapped])

    next_up = np.append(up, 0)[first_up + steps]
    last_down = np.append(down, 0)[end_down - steps]
    return np.minimum(np.where(steps < many_up, next_up, high), np.where(steps > 0, last_down, high))
