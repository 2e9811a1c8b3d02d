"""Classes, orders and different classes, drawn as MXNet draws them on CPUs, to the bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._c_math import c_function
from ..._mersenne import Source, Words, unit

__all__ = ["below", "multinomial", "order", "shuffled", "unique_zipfian"]


def below(words: Words, limits: np.ndarray) -> np.ndarray:
    """For each limit an integer below it, from a twister.

    A word is refused where it would make some integers likelier than others. Source: libstdc++'s uniform integers.
    """
    found, parts, done = np.empty(len(limits), np.int64), 0xFFFFFFFF // limits, 0
    while done < len(limits):
        taken = words.take(len(limits) - done)
        refused = taken >= parts[done:] * limits[done:]
        good = int(refused.argmax()) if refused.any() else len(taken)
        found[done:done + good] = taken[:good] // parts[done:done + good]
        words.give_back(taken[good + 1:])
        done += good
    return found


def order(words: Words, count: int) -> list[int]:
    """The numbers below `count` in random order, from a twister: each changes places with one before it, or none."""
    return _exchanged(count, range(1, count), below(words, np.arange(2, count + 1)))


def shuffled(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_shuffle`: where the rows come from. Those of a matrix change places from the last to the first."""
    count = inputs[0].shape[0]
    if len(inputs[0].shape) == 1:
        return np.array(order(source.twister, count), np.int32)
    others = below(source.twister, np.arange(count, 1, -1))
    return np.array(_exchanged(count, range(count - 1, 0, -1), others), np.int32)


def _exchanged(count: int, places: Iterable[int], others: np.ndarray) -> list[int]:
    """The numbers below `count` after those at these places have changed with others, one after the other."""
    numbers = list(range(count))
    for i, j in zip(places, others.tolist(), strict=True):
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return numbers


def multinomial(source: Source, params: dict[str, Any], inputs: Sequence[np.ndarray], train: bool) -> np.ndarray:
    """FDraw of `_sample_multinomial`: (rows, draws of each). A row that sums to less than 1 may give one class more."""
    rows = inputs[0].reshape(-1, inputs[0].shape[-1])
    count = int(np.prod(params["shape"]))
    places = source.uniform(len(rows) * count).reshape(len(rows), count).astype(rows.dtype)
    sums = np.cumsum(rows, 1, np.float64).astype(np.float32).astype(rows.dtype)
    found = np.empty(places.shape, np.int32)
    if len(rows) < count:
        for i, ends in enumerate(sums):
            found[i] = np.searchsorted(ends, places[i])
    else:
        for i, place in enumerate(places.T):
            found[:, i] = (sums < place[:, None]).sum(1)
    return found


def unique_zipfian(source: Source, range_max: int, batch: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """(different classes in each row, how many tries these took)."""
    rows, tries = np.empty((batch, samples), np.int64), np.zeros(batch, np.int64)
    twisters = source.lanes.first(batch)
    step, span = -(-batch // max(len(twisters), 1)), c_function("log")(np.float64(range_max))
    for i in range(batch if samples else 0):
        words = np.empty(0, np.uint32)
        places = words
        while len(places) < samples:
            words = np.concatenate([words, twisters[i // step].take(4 * samples + 64)])
            drawn = np.floor(c_function("exp")(unit(words, True) * span) + 0.5).astype(np.int64) - 1
            places = np.sort(np.unique(drawn, return_index=True)[1])
        tries[i] = places[samples - 1] + 1
        rows[i] = drawn[places[:samples]]
        twisters[i // step].give_back(words[2 * tries[i]:])
    return rows, tries
