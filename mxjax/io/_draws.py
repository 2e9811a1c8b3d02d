"""Random numbers of one image: MXNet's, where `seed_aug` names them, by a Mersenne twister and C++'s distributions."""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

from .._random.mersenne import below, normal_pairs, order, unit, words_of

__all__ = ["Draws", "Random"]

class Random(random.Random):
    """Python's generator, with a coin."""

    def coin(self) -> bool:
        """Returns the result of a coin toss: whether it shows heads."""
        return self.random() < 0.5


class Draws:
    """Draws for augmentations from a `Random`, as MXNet draws them: numbers are float32.

    Args:
        seed: seed of the twister.
    """

    def __init__(self, seed: int) -> None:
        self._words = words_of(seed)
        self._second: Any = None  # normal numbers come in pairs

    def random(self) -> float:
        """A number from 0 to 1."""
        return float(unit(self._words.take(1))[0])

    def uniform(self, low: float, high: float) -> float:
        """A number between two."""
        first, last = np.float32(low), np.float32(high)
        return float(unit(self._words.take(1))[0] * (last - first) + first)

    def randint(self, low: int, high: int) -> int:
        """An integer from one to another; consumes a word even if they are equal."""
        return low + int(below(self._words, np.array([high - low + 1]))[0])

    def choice(self, values: Sequence[Any]) -> Any:
        """Chooses one of several items."""
        return values[self.randint(0, len(values) - 1)]

    def coin(self) -> bool:
        """Returns the result of a coin toss: whether it shows heads."""
        return bool(unit(self._words.take(2), True)[0] < 0.5)

    def gauss(self, mean: float, deviation: float) -> float:
        """A normal number."""
        result, self._second = self._second, None
        if result is None:
            result, self._second = normal_pairs(self._words, 1)[0]
        return float(result * np.float32(deviation) + np.float32(mean))

    def shuffle(self, values: MutableSequence[Any]) -> None:
        """Shuffles items in place."""
        values[:] = [values[i] for i in order(self._words, len(values))]
