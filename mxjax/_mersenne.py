"""MXNet's random numbers on CPUs, word for word: Mersenne twisters and the distributions of C++'s library over them.

MXNet has two sources there. One is a single twister, read in order. The other is for operators that draw in parallel:
1024 twisters, of which a call takes as many as give each 64 numbers or more; each makes an equal part of the result.
Source: MXNet's CPU resources kRandom and kParallelRandom; ISO C++ [rand]; libstdc++'s choice of algorithms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Lanes", "Source", "Twisters", "Words", "unit"]

_LANES, _LEAST = 1024, 64
_MAGIC = 127  # MXNet multiplies seeds with it
_KEPT, _PAIRS = 2496, 256  # words of each twister; normal pairs at once: 624 tries, where 330 are expected
_NONE = np.empty(0, np.uint32)


class _NoSeed(np.random.bit_generator.ISeedSequence):
    """For a twister that gets its state afterwards: without it, NumPy asks the system for entropy."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.ones(n_words, dtype)


class Twisters:
    """Mersenne twisters, numbered from 0, each seeded with one more than the one before; they are made when needed."""

    def __init__(self, count: int, number: int) -> None:
        self._twisters: list[Any] = [None] * count
        self._words = np.empty((count, _KEPT), np.uint32)  # those that come next end each row
        self._next = np.empty(count, np.int64)
        self._made = np.empty(count, np.int64)
        self._more: dict[int, np.ndarray] = {}  # what comes before a row's words: more was given back than it can hold
        self.seed(number)

    def seed(self, number: int) -> None:
        """Begins anew."""
        self.number = number & 0xFFFFFFFF
        self._next[:], self._made[:] = _KEPT, 0
        self._more.clear()

    @property
    def used(self) -> int:
        """How many words have been taken."""
        return int(self._made.sum() - (_KEPT - self._next).sum()) - sum([len(words) for words in self._more.values()])

    def one(self, i: int) -> Words:
        """Twister number i."""
        return Words(self, i)

    def take(self, rows: int, count: int) -> np.ndarray:
        """The next words of the first twisters, at most `_KEPT` of each: (rows, count)."""
        if self._more:
            return np.stack([self.one(i).take(count) for i in range(rows)])
        begins = self._next[:rows]
        for i in np.flatnonzero(begins > _KEPT - count).tolist():
            self._fill(i)
        first = int(begins[0])
        found = self._words[:rows, first:first + count].copy() if (begins == first).all() else \
            np.take_along_axis(self._words[:rows], begins[:, None] + np.arange(count), 1)
        begins += count
        return found

    def give_back(self, counts: np.ndarray) -> None:
        """Puts so many of the words that the first twisters have given last back."""
        self._next[:len(counts)] -= counts

    def _fill(self, i: int) -> None:
        row, begin, made = self._words[i], int(self._next[i]), self._made[i]
        twister = self._twisters[i]
        if not made:
            if twister is None:
                twister = self._twisters[i] = np.random.MT19937(_NoSeed())
            np.random.RandomState(twister).seed((self.number + i) & 0xFFFFFFFF)
        row[:_KEPT - begin] = row[begin:].copy()
        row[_KEPT - begin:] = twister.random_raw(begin)
        self._next[i] = 0
        self._made[i] += begin


class Words:
    """The 32-bit words of a Mersenne twister."""

    __slots__ = ("_all", "_i")

    def __init__(self, twisters: Twisters, i: int) -> None:
        self._all, self._i = twisters, i

    def take(self, count: int) -> np.ndarray:
        """The next words, uint32."""
        twisters, i = self._all, self._i
        found, done = np.empty(count, np.uint32), 0
        more = twisters._more.pop(i, None)
        if more is not None:
            done = min(len(more), count)
            found[:done] = more[:done]
            if done < len(more):
                twisters._more[i] = more[done:]
        while done < count:
            if twisters._next[i] == _KEPT:
                twisters._fill(i)
            begin = int(twisters._next[i])
            part = twisters._words[i, begin:begin + count - done]
            found[done:done + len(part)] = part
            done += len(part)
            twisters._next[i] = begin + len(part)
        return found

    def give_back(self, words: np.ndarray) -> None:
        """Puts words that were taken last back before the others."""
        twisters, i = self._all, self._i
        begin = int(twisters._next[i]) - len(words)
        if begin >= 0 and i not in twisters._more:
            twisters._next[i] = begin
        elif len(words):
            twisters._more[i] = np.concatenate([words, twisters._more.get(i, words[:0])])


class Lanes(Twisters):
    """The twisters of operators that draw in parallel."""

    def __init__(self, number: int) -> None:
        super().__init__(_LANES, number)

    def counts(self, count: int) -> np.ndarray:
        """How many of `count` numbers each twister makes that takes part."""
        lanes = min(-(-count // _LEAST), _LANES)
        step = -(-count // max(lanes, 1))
        return np.clip(count - step * np.arange(lanes), 0, step)

    def split(self, count: int) -> tuple[list[Words], np.ndarray]:
        """(the twisters that make `count` numbers, how many each makes)."""
        counts = self.counts(count)
        return self.first(len(counts)), counts

    def first(self, count: int) -> list[Words]:
        """The first twisters."""
        return [self.one(i) for i in range(count)]


class Source:
    """Both of MXNet's sources on CPUs; `with source:` keeps others out.

    twister: the one that is read in order; lanes: those for parallel draws.
    """

    def __init__(self, number: int = 0) -> None:
        self._single, self.lanes = Twisters(1, number * _MAGIC), Lanes(number * _MAGIC)
        self.twister = self._single.one(0)
        self._lock = threading.RLock()

    def __enter__(self) -> Source:
        self._lock.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.release()

    def seed(self, number: int, alone: bool = False) -> None:
        """Begins anew; alone: as MXNet does for one context, where the single twister gets the number as it is."""
        with self:
            self._single.seed(number if alone else number * _MAGIC)
            self.lanes.seed(number * _MAGIC)

    @property
    def drawn(self) -> tuple[int, ...]:
        """What the next numbers follow from."""
        with self:
            return self._single.number, self._single.used, self.lanes.number, self.lanes.used

    # ------------------------------------------------------------ in order
    def uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1) from the single twister."""
        return unit(self.twister.take(count << wide), wide)

    def normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers from the single twister: of each accepted pair both."""
        found = np.empty((-(-count // 2), 2), np.float64 if wide else np.float32)
        for begin in range(0, len(found), _PAIRS):
            part = found[begin:begin + _PAIRS]
            part[:, 1], part[:, 0] = _pairs(self._single, np.array([len(part)]), wide)
        return found.reshape(-1)[:count]

    # ------------------------------------------------------------ in parallel
    def parallel_words(self, count: int, each: int = 1) -> np.ndarray:
        """Words in parallel: (count, each)."""
        def draw(counts: np.ndarray, most: int) -> np.ndarray:
            words = self.lanes.take(len(counts), most * each)
            self.lanes.give_back((most - counts) * each)
            return words.reshape(len(counts), most, each)
        return self._in_parallel(count, (each,), np.uint32, _KEPT // each, draw)

    def parallel_uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1), drawn in parallel."""
        return unit(self.parallel_words(count, 1 + wide).reshape(-1), wide)

    def parallel_normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers, drawn in parallel: of each accepted pair the second alone."""
        def draw(counts: np.ndarray, most: int) -> np.ndarray:
            found = np.empty((len(counts), most), np.float64 if wide else np.float32)
            found[np.arange(most) < counts[:, None]] = _pairs(self.lanes, counts, wide)[1]
            return found
        return self._in_parallel(count, (), np.float64 if wide else np.float32, _PAIRS, draw)

    def _in_parallel(self, count: int, shape: tuple[int, ...], dtype: Any, most: int,
                     draw: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
        """An array that the lanes make in equal parts, in turns of at most `most`: draw(how many of each, most)."""
        counts = self.lanes.counts(count)
        step = int(counts.max(initial=0))
        found = np.empty((len(counts), step, *shape), dtype)
        for begin in range(0, step, most):
            turn = min(most, step - begin)
            found[:, begin:begin + turn] = draw(np.clip(counts - begin, 0, turn), turn)
        return found.reshape(len(counts) * step, *shape)[:count]


def unit(words: np.ndarray, wide: bool = False) -> np.ndarray:
    """Numbers in [0, 1) out of words: one makes a float32, two a float64.

    The very last words are rounded to 1, as in MXNet (one of 34 million float32).
    """
    if wide:
        found = (words[..., ::2] + words[..., 1::2] * 2.0 ** 32) * 2.0 ** -64
    else:
        found = words.astype(np.float32)
        found *= np.float32(2.0 ** -32)
    return found


def _pairs(twisters: Twisters, counts: np.ndarray, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal numbers, two for each point that is accepted, `counts` points of each twister in turn.

    Source: Marsaglia's polar method.
    """
    from scipy.special import xlogy  # the C library's logarithm, which NumPy's is not; 0.1 s to import

    most = int(counts.max(initial=0))
    each = 2 << wide
    tries = int(most * 1.2733 + 4 * most ** 0.5) + 4  # 4 / pi points for each in the circle
    while True:
        words = twisters.take(len(counts), tries * each)
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
        twisters.give_back(np.full(len(counts), words.shape[1]))
        tries = min(tries * 2, _KEPT // each)
    used = np.where(counts > 0, np.argmax(order >= counts[:, None], 1) + 1, 0)
    twisters.give_back(words.shape[1] - used * each)
    chosen = inside & (order <= counts[:, None])
    square = square[chosen]
    factor = xlogy(square.dtype.type(-2), square)
    factor /= square
    np.sqrt(factor, out=factor)
    return x[chosen] * factor, y[chosen] * factor
