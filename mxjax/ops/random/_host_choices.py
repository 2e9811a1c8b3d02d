"""Classes, orders and different classes, drawn as MXNet draws them on CPUs, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._random.mersenne import Source, below, exchanged, order_one_by_one, unit
from ..._support.c_math import c_function

__all__ = ["multinomial", "shuffled", "unique_zipfian"]


def shuffled(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray:
    """FDraw of `_shuffle`: where the rows come from. Those of a matrix change places from the last to the first."""
    count = inputs[0].shape[0]
    if len(inputs[0].shape) == 1:
        return np.array(order_one_by_one(source.twister, count), np.int32)
    others = below(source.twister, np.arange(count, 1, -1))
    return np.array(exchanged(count, range(count - 1, 0, -1), others), np.int32)


def multinomial(source: Source, params: dict[str, Any], inputs: Sequence[np.ndarray], train: bool) -> np.ndarray:
    """FDraw of `_sample_multinomial`: (rows, draws of each). A row that sums to less than 1 may give one class more."""
    rows = inputs[0].reshape(-1, inputs[0].shape[-1])
    count = int(np.prod(params["shape"]))
    places = source.uniform(len(rows) * count).reshape(len(rows), count).astype(rows.dtype)
    sums = np.cumsum(rows, 1, np.float64).astype(np.float32).astype(rows.dtype)
    result = np.empty(places.shape, np.int32)
    if len(rows) < count:
        for i, ends in enumerate(sums):
            result[i] = np.searchsorted(ends, places[i])
    else:
        for i, place in enumerate(places.T):
            result[:, i] = (sums < place[:, None]).sum(1)
    return result


def unique_zipfian(source: Source, range_max: int, batch: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """(different classes in each row, how many tries these took)."""
    rows, tries = np.empty((batch, samples), np.int64), np.zeros(batch, np.int64)
    twisters = source.lanes.first(batch)
    step, span = -(-batch // max(len(twisters), 1)), c_function("log")(np.float64(range_max))
    for i in range(batch if samples else 0):
        words = np.empty(0, np.uint32)
        drawn = places = words
        while len(places) < samples:
            words = np.concatenate([words, twisters[i // step].take(4 * samples + 64)])
            drawn = np.floor(c_function("exp")(unit(words, True) * span) + 0.5).astype(np.int64) - 1
            places = np.sort(np.unique(drawn, return_index=True)[1])
        tries[i] = places[samples - 1] + 1
        rows[i] = drawn[places[:samples]]
        twisters[i // step].give_back(words[2 * tries[i]:])
    return rows, tries
