"""MXNet's random numbers on CPUs, word for word: Mersenne twisters and the distributions of C++'s library over them.

MXNet has two sources there. One is a single twister, read in order. The other is for operators that draw in parallel:
1024 twisters, of which a call takes as many as give each 64 numbers or more; each makes an equal part of the result.
Source: MXNet's CPU resources kRandom and kParallelRandom; ISO C++ [rand]; libstdc++'s choice of algorithms.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

__all__ = ["Lanes", "Source", "Words", "unit"]

_LANES, _LEAST = 1024, 64
_MAGIC = 127  # MXNet multiplies seeds with it
_AT_ONCE = 1 << 18  # pairs, so that what is between stays in the cache
_NONE = np.empty(0, np.uint32)


class _NoSeed(np.random.bit_generator.ISeedSequence):
    """For a twister that gets its state afterwards: without it, NumPy asks the system for entropy."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.ones(n_words, dtype)


class Words:
    """The 32-bit words of a Mersenne twister that is seeded with a number; used: how many have been taken."""

    __slots__ = ("number", "used", "_rest", "_twister", "_seeded")

    def __init__(self, number: int) -> None:
        self._twister: Any = None
        self.seed(number)

    def seed(self, number: int) -> None:
        """Begins anew."""
        self.number, self.used = number & 0xFFFFFFFF, 0
        self._rest, self._seeded = _NONE, False

    def take(self, count: int) -> np.ndarray:
        """The next words, uint32."""
        if not self._seeded:
            if self._twister is None:
                self._twister = np.random.MT19937(_NoSeed())
            np.random.RandomState(self._twister).seed(self.number)
            self._seeded = True
        self.used += count
        rest = self._rest
        if len(rest) >= count:
            self._rest = rest[count:]
            return rest[:count]
        self._rest = _NONE
        new = self._twister.random_raw(count - len(rest)).astype(np.uint32)
        return np.concatenate([rest, new]) if len(rest) else new

    def give_back(self, words: np.ndarray) -> None:
        """Puts words that were taken last back before the others."""
        self.used -= len(words)
        if len(words):
            self._rest = np.concatenate([words, self._rest]) if len(self._rest) else words.copy()


class Lanes:
    """The twisters of operators that draw in parallel."""

    def __init__(self, number: int) -> None:
        self.number, self._words = number, list[Words]()

    @property
    def used(self) -> int:
        """How many words have been taken."""
        return sum([words.used for words in self._words])

    def seed(self, number: int) -> None:
        """Begins anew."""
        self.number = number
        for i, words in enumerate(self._words):
            words.seed(number + i)

    def split(self, count: int) -> tuple[list[Words], np.ndarray]:
        """(the twisters that make `count` numbers, how many each makes)."""
        lanes = min(-(-count // _LEAST), _LANES)
        if not lanes:
            return [], np.empty(0, np.int64)
        self._words += [Words(self.number + i) for i in range(len(self._words), lanes)]
        step = -(-count // lanes)
        return self._words[:lanes], np.clip(count - step * np.arange(lanes), 0, step)


class Source:
    """Both of MXNet's sources on CPUs; `with source:` keeps others out.

    twister: the one that is read in order; lanes: those for parallel draws.
    """

    def __init__(self, number: int = 0) -> None:
        self.twister, self.lanes = Words(number * _MAGIC), Lanes(number * _MAGIC)
        self._lock = threading.RLock()

    def __enter__(self) -> Source:
        self._lock.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.release()

    def seed(self, number: int, alone: bool = False) -> None:
        """Begins anew; alone: as MXNet does for one context, where the single twister gets the number as it is."""
        with self:
            self.twister.seed(number if alone else number * _MAGIC)
            self.lanes.seed(number * _MAGIC)

    @property
    def drawn(self) -> tuple[int, ...]:
        """What the next numbers follow from."""
        with self:
            return self.twister.number, self.twister.used, self.lanes.number, self.lanes.used

    # ------------------------------------------------------------ in order
    def uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1) from the single twister."""
        return unit(self.twister.take(count << wide), wide)

    def normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers from the single twister: of each accepted pair both."""
        found, made = np.empty((-(-count // 2), 2), np.float64 if wide else np.float32), 0
        while made < len(found):
            part = found[made:made + _AT_ONCE]
            part[:, 1], part[:, 0] = _pairs([self.twister], np.array([len(part)]), wide)
            made += len(part)
        return found.reshape(-1)[:count]

    # ------------------------------------------------------------ in parallel
    def parallel_words(self, count: int, each: int = 1) -> np.ndarray:
        """Words in parallel: (count, each)."""
        lanes, counts = self.lanes.split(count)
        parts = [words.take(n * each) for words, n in zip(lanes, counts.tolist(), strict=True)]
        return np.concatenate([_NONE, *parts]).reshape(count, each)

    def parallel_uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1), drawn in parallel."""
        return unit(self.parallel_words(count, 1 + wide).reshape(-1), wide)

    def parallel_normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers, drawn in parallel: of each accepted pair the second alone."""
        found, made = np.empty(count, np.float64 if wide else np.float32), 0
        lanes, counts = self.lanes.split(count)
        group = max(_AT_ONCE // max(int(counts.max(initial=0)), 1), 1)
        for i in range(0, len(lanes), group):
            _, part = _pairs(lanes[i:i + group], counts[i:i + group], wide)
            found[made:made + len(part)] = part
            made += len(part)
        return found


def unit(words: np.ndarray, wide: bool = False) -> np.ndarray:
    """Numbers in [0, 1) out of words: one makes a float32, two a float64."""
    if wide:
        found = (words[..., ::2] + words[..., 1::2] * 2.0 ** 32) * 2.0 ** -64
    else:
        found = words.astype(np.float32)
        found *= np.float32(2.0 ** -32)
    np.minimum(found, np.nextafter(found.dtype.type(1), found.dtype.type(0)), out=found)
    return found


def _pairs(lanes: list[Words], counts: np.ndarray, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal numbers, two for each point that is accepted, `counts` points of each lane in turn.

    Source: Marsaglia's polar method.
    """
    from scipy.special import xlogy  # the C library's logarithm, which NumPy's is not; 0.1 s to import

    most = int(counts.max(initial=0))
    each = 2 << wide
    tries = int(most * 1.2733 + 4 * most ** 0.5) + 4  # 4 / pi points for each in the circle
    while True:
        words = np.stack([lane.take(tries * each) for lane in lanes])
        points = unit(words, wide)
        points *= 2
        points -= 1
        x, y = points[:, ::2], points[:, 1::2]
        square = x * x
        square += y * y
        inside = (square <= 1) & (square != 0)
        order = np.cumsum(inside, 1, dtype=np.int32)
        if (order[:, -1] >= counts).all():
            break
        for lane, taken in zip(lanes, words, strict=True):
            lane.give_back(taken)
        tries *= 2
    used = np.where(counts > 0, np.argmax(order >= counts[:, None], 1) + 1, 0)
    for lane, taken, end in zip(lanes, words, (used * each).tolist(), strict=True):
        lane.give_back(taken[end:])
    chosen = inside & (order <= counts[:, None])
    square = square[chosen]
    factor = xlogy(square.dtype.type(-2), square)
    factor /= square
    np.sqrt(factor, out=factor)
    return x[chosen] * factor, y[chosen] * factor
