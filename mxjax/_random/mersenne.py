"""MXNet's random numbers on CPUs, word for word: Mersenne twisters and the distributions of C++'s library over them.

MXNet has two sources there. One is a single twister, read in order. The other is for operators that draw in parallel:
1024 twisters, of which a call takes as many as give each 64 numbers or more; each makes an equal part of the result.
Source: MXNet's CPU resources kRandom and kParallelRandom; ISO C++ [rand]; libstdc++'s choice of algorithms.
"""

from __future__ import annotations

import base64
import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import level
from .._support.c_math import c_function

__all__ = ["Lanes", "Source", "Twisters", "Words", "below", "exchanged", "in_groups", "limits_of_order",
           "normal_pairs", "order", "order_one_by_one", "unit", "words_of"]

_LANES, _LEAST = 1024, 64
_MAGIC = 127  # MXNet multiplies seeds with it
_STATE = 624  # words of a twister's state
_KEPT, _PAIRS = 2496, 256  # words of each twister; normal pairs at once: 624 tries, where 330 are expected
_FEW = 8  # twisters that stand elsewhere than most
_AT_ONCE, _MANY = 1 << 14, 1 << 19  # numbers of several twisters; from so many on, several threads make them


class _NoSeed(np.random.bit_generator.ISeedSequence):
    """For a twister that gets its state afterwards: without it, NumPy asks the system for entropy."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return (1,) * n_words  # NumPy reads the words one by one, those of an array 30 times more slowly


def _new_twister() -> np.random.MT19937:
    return np.random.MT19937(_NoSeed())  # pyright: ignore[reportArgumentType]  NumPy's stubs omit ISeedSequence


class Twisters:
    """Mersenne twisters, numbered from 0, each seeded with one more than the one before; they are made when needed."""

    def __init__(self, count: int, number: int) -> None:
        self.twisters: list[Any] = [None] * count
        self.words = np.empty((count, _KEPT), np.uint32)  # those that come next end each row
        self.places = np.empty(count, np.int64)
        self._made = np.empty(count, np.int64)
        self.returned: dict[int, np.ndarray] = {}  # words that were given back beyond a row's room
        self._taken: dict[int, np.ndarray] = {}  # by first twister: last numbers returned, if not from whole rows
        self.seed(number)

    def seed(self, number: int) -> None:
        """Begins anew."""
        self.number = number & 0xFFFFFFFF
        self.places[:], self._made[:] = _KEPT, 0
        self.returned.clear()

    @property
    def used(self) -> int:
        """Returns how many words have been taken."""
        returned = sum([len(words) for words in self.returned.values()])
        return int(self._made.sum() - (_KEPT - self.places).sum()) - returned

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that the next words follow from: of each twister that was used the words that come next, as
        many as its state has; JSON can hold it."""
        used = {i: int(self._made[i] - (_KEPT - self.places[i])) - len(self.returned.get(i, ()))
                for i in np.flatnonzero(self._made).tolist()}
        used = {i: count for i, count in used.items() if count}
        words = np.empty((len(used), _STATE), "<u4")
        for row, i in zip(words, used, strict=True):
            if self.places[i] > _KEPT - _STATE:
                self.fill(i)
            begin, more = int(self.places[i]), self.returned.get(i, row[:0])[:_STATE]
            row[:len(more)], row[len(more):] = more, self.words[i, begin:begin + _STATE - len(more)]
        return {"number": self.number, "used": list(used.items()), "words": base64.b64encode(words.tobytes()).decode()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to where `state_dict` was called.

        Raises:
            ValueError: the state is damaged.
        """
        number, used, words = _checked(state, len(self.twisters))
        self.seed(number)
        for (i, count), key in zip(used, _untempered(words), strict=True):
            twister = self.twisters[i] = _new_twister()
            twister.state = {"bit_generator": "MT19937", "state": {"key": key.tolist(), "pos": 0}}
            self._made[i] = count

    def one(self, i: int) -> Words:
        """Twister number i."""
        return Words(self, i)

    def take(self, rows: slice, count: int, align: bool = False) -> np.ndarray:
        """The next words of these twisters, at most `_KEPT` of each: (rows, count), to be read before the next call.

        align: all are taken, so the next call finds them at one place if this one does.
        """
        self._taken.pop(rows.start, None)
        if self.returned:
            result = self._taken[rows.start] = np.stack([self.one(i).take(count) for i in range(rows.start, rows.stop)])
            return result
        begins = self.places[rows]
        for i in np.flatnonzero(begins > _KEPT - count).tolist():
            # Many programs draw little, so a twister begins with few words.
            self.fill(rows.start + i, 0 if self._made[rows.start + i] else _KEPT - max(count, _STATE))
        first = int(begins[len(begins) // 2]) if len(begins) else 0  # most stand at the same place
        other = np.flatnonzero(begins != first)
        if len(other) > _FEW and align:
            first = int(begins.min())
            for i in np.flatnonzero(begins != first).tolist():
                self.fill(rows.start + i, first)
            other = other[:0]
        if len(other) > _FEW:
            places = np.arange(rows.start, rows.stop) * _KEPT + begins
            result = self.words.reshape(-1).take(places[:, None] + np.arange(count))
        else:
            result = self.words[rows, first:first + count]
            if len(other):
                result = result.copy()
            for i in other.tolist():
                result[i] = self.words[rows.start + i, begins[i]:begins[i] + count]
        begins += count
        return result

    def give_back(self, rows: slice, counts: Any) -> None:
        """Puts so many of the words that these twisters have given last back."""
        taken = self._taken.get(rows.start)
        if taken is None:
            self.places[rows] -= counts
            return
        for i, (words, count) in enumerate(zip(taken, np.broadcast_to(counts, len(taken)), strict=True), rows.start):
            self.one(i).give_back(words[len(words) - count:])

    def fill(self, i: int, begin: int = 0) -> None:
        """Makes words until a row is full from `begin` on."""
        row, before = self.words[i], int(self.places[i])
        twister = self.twisters[i]
        if not self._made[i]:
            if twister is None:
                twister = self.twisters[i] = _new_twister()
            np.random.RandomState(twister).seed((self.number + i) & 0xFFFFFFFF)
        new = before - begin
        row[begin:_KEPT - new] = row[before:].copy()
        row[_KEPT - new:] = twister.random_raw(new)
        self.places[i] = begin
        self._made[i] += new


def _checked(state: Any, count: int) -> tuple[int, list[tuple[int, int]], np.ndarray]:
    """(number, the used twisters with how many words they have given, their next words) of a state of so many."""
    try:
        number, used = state["number"], [(i, n) for i, n in state["used"]]
        words = np.frombuffer(base64.b64decode(state["words"], validate=True), "<u4").reshape(len(used), _STATE)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the random number state is corrupt: {error!r}") from error
    if not all(type(n) is int and n >= 0 for pair in used for n in (number, *pair)) or type(number) is not int or \
            not all(i < count and 0 < n < 1 << 62 for i, n in used) or len({i for i, _ in used}) < len(used):
        raise ValueError("the random number state is corrupt: it refers to generators that do not exist")
    return number, used, words.astype(np.uint32)


def _untempered(words: np.ndarray) -> np.ndarray:
    """Returns the state of which a Mersenne twister has made these words. As many in a row as its state has are a
    state: the words that follow are made from them alone, wherever a row begins."""
    half = words ^ words >> 18
    half ^= half << 15 & 0xEFC60000
    whole = half
    for _ in range(4):
        whole = half ^ whole << 7 & 0x9D2C5680
    result = whole
    for _ in range(2):
        result = whole ^ result >> 11
    return result


class Words:
    """The 32-bit words of a Mersenne twister."""

    __slots__ = ("_all", "_i")

    def __init__(self, twisters: Twisters, i: int) -> None:
        self._all, self._i = twisters, i

    def take(self, count: int) -> np.ndarray:
        """The next words, uint32."""
        twisters, i = self._all, self._i
        result, done = np.empty(count, np.uint32), 0
        more = twisters.returned.pop(i, None)
        if more is not None:
            done = min(len(more), count)
            result[:done] = more[:done]
            if done < len(more):
                twisters.returned[i] = more[done:]
        while done < count:
            if twisters.places[i] > _KEPT - min(count - done, _KEPT):  # all at once, so all can be given back
                twisters.fill(i)
            begin = int(twisters.places[i])
            part = twisters.words[i, begin:begin + count - done]
            result[done:done + len(part)] = part
            done += len(part)
            twisters.places[i] = begin + len(part)
        return result

    def give_back(self, words: np.ndarray) -> None:
        """Puts words that were taken last back before the others."""
        twisters, i = self._all, self._i
        begin = int(twisters.places[i]) - len(words)
        if begin >= 0 and i not in twisters.returned:
            twisters.places[i] = begin
        elif len(words):
            twisters.returned[i] = np.concatenate([words, twisters.returned.get(i, words[:0])])


def words_of(seed: int) -> Words:
    """The words of a twister of its own."""
    return Twisters(1, seed).one(0)


class Lanes(Twisters):
    """The twisters of operators that draw in parallel."""

    def __init__(self, number: int) -> None:
        super().__init__(_LANES, number)

    def counts(self, count: int) -> np.ndarray:
        """Returns how many of `count` numbers each twister makes that takes part."""
        lanes = min(-(-count // _LEAST), _LANES)
        step = -(-count // max(lanes, 1))
        return np.clip(count - step * np.arange(lanes), 0, step)

    def split(self, count: int) -> tuple[list[Words], np.ndarray]:
        """(the twisters that make `count` numbers, how many each makes)."""
        counts = self.counts(count)
        return self.first(len(counts)), counts

    def first(self, count: int) -> list[Words]:
        """The first twisters; all where there are fewer."""
        return [self.one(i) for i in range(min(count, _LANES))]


class Source(threading.local):
    """Both of MXNet's sources on CPUs. Each thread has its own, which begins with the number that this is made with.

    twister: the one that is read in order; lanes: those for parallel draws.
    """

    def __init__(self, number: int = 0) -> None:
        self._single, self.lanes = Twisters(1, number * _MAGIC), Lanes(number * _MAGIC)
        self.twister = self._single.one(0)

    def seed(self, number: int, alone: bool = False) -> None:
        """Begins anew; alone: as MXNet does for one context, where the single twister gets the number as it is."""
        self._single.seed(number if alone else number * _MAGIC)
        self.lanes.seed(number * _MAGIC)

    @property
    def drawn(self) -> tuple[int, ...]:
        """Returns the state that the next numbers follow from."""
        return self._single.number, self._single.used, self.lanes.number, self.lanes.used

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that this thread's next numbers follow from, as JSON can store it."""
        return {"twister": self._single.state_dict(), "lanes": self.lanes.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to where `state_dict` was called, in this thread; ValueError where the state is damaged."""
        for key, twisters in (("twister", self._single), ("lanes", self.lanes)):
            _checked(state.get(key), len(twisters.twisters))
        self._single.load_state_dict(state["twister"])
        self.lanes.load_state_dict(state["lanes"])

    # ------------------------------------------------------------ in order
    def uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1) from the single twister."""
        return unit(self.twister.take(count << wide), wide)

    def normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers from the single twister: of each accepted pair both."""
        return normal_pairs(self.twister, -(-count // 2), wide).reshape(-1)[:count]

    # ------------------------------------------------------------ in parallel
    def parallel(self, count: int, each: int, dtype: Any, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """`count` numbers, drawn in parallel out of `each` words: make(words (..., each)) -> numbers of a dtype."""
        lanes = self.lanes  # this thread's, for those that help it
        if count <= _LEAST:  # the first worker computes all, since starting others takes as long
            return make(lanes.one(0).take(count * each).reshape(count, each)).astype(dtype, copy=False)

        def draw(rows: slice, counts: np.ndarray, most: int) -> np.ndarray:
            words = lanes.take(rows, most * each, align=True)
            lanes.give_back(rows, (most - counts) * each)
            return make(words.reshape(len(counts), most, each))
        return self._in_parallel(count, dtype, _KEPT // each, draw)

    def parallel_uniform(self, count: int, wide: bool = False) -> np.ndarray:
        """Numbers in [0, 1), drawn in parallel."""
        return self.parallel(count, 1 + wide, np.float64 if wide else np.float32,
                             lambda words: unit(words, wide)[..., 0])

    def parallel_below(self, count: int, limit: np.float32, same: bool = True) -> np.ndarray:
        """Returns whether numbers in [0, 1), float32 and drawn in parallel, are below a limit, or the same."""
        last = _last_word(float(limit), same)
        return self.parallel(count, 1, np.bool_, lambda words: words[..., 0] <= last)

    def parallel_normal(self, count: int, wide: bool = False) -> np.ndarray:
        """Standard normal numbers, drawn in parallel: of each accepted pair one alone."""
        lanes = self.lanes
        if count <= _LEAST:
            return normal_pairs(lanes.one(0), count, wide)[:, 0].copy()

        def draw(rows: slice, counts: np.ndarray, most: int) -> np.ndarray:
            values = _seconds(lanes, rows, counts, wide)
            if counts[-1] == most:
                return values.reshape(len(counts), most)
            result = np.empty((len(counts), most), values.dtype)
            result[np.arange(most) < counts[:, None]] = values
            return result
        return self._in_parallel(count, np.float64 if wide else np.float32, _PAIRS, draw)

    def _in_parallel(self, count: int, dtype: Any, most: int,
                     draw: Callable[[slice, np.ndarray, int], np.ndarray]) -> np.ndarray:
        """An array that the lanes make in equal parts: draw(lanes, how many of each, the most of those).

        It is done in pieces that stay in the cache: some lanes, and in turns of at most `most` numbers of each.
        """
        counts = self.lanes.counts(count)
        step = int(counts.max(initial=0))
        result = np.empty((len(counts), step), dtype)

        def make(rows: slice) -> None:
            for begin in range(0, step, most):
                turn = min(most, step - begin)
                result[rows, begin:begin + turn] = draw(rows, np.clip(counts[rows] - begin, 0, turn), turn)
        for rows in _groups(len(counts), max(_AT_ONCE // max(min(step, most), 1), 1)):
            make(rows)  # by this thread: others would wait for each other between NumPy's short calls
        return result.reshape(-1)[:count]


def in_groups(lanes: int, size: int, count: int, make: Callable[[slice], None]) -> None:
    """Has make(rows) called for all lanes, so many at a time; other threads help where `count` numbers are many.

    They have a `Source` of their own: `make` must hold on to the lanes of the thread that asks.
    """
    groups = _groups(lanes, size)
    if count < _MANY:
        for rows in groups:
            make(rows)
    else:  # NumPy releases the interpreter's lock for them
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            list(pool.map(make, groups))


def _groups(lanes: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, lanes)) for i in range(0, lanes, size)]


def below(words: Words, limits: np.ndarray) -> np.ndarray:
    """For each limit an integer below it, from a twister.

    A word is refused where it would make some integers likelier than others. Source: libstdc++'s uniform integers.
    """
    result, parts, done = np.empty(len(limits), np.int64), 0xFFFFFFFF // limits, 0
    while done < len(limits):
        taken = words.take(len(limits) - done)
        refused = taken >= parts[done:] * limits[done:]
        good = int(refused.argmax()) if refused.any() else len(taken)
        result[done:done + good] = taken[:good] // parts[done:done + good]
        words.give_back(taken[good + 1:])
        done += good
    return result


def order(words: Words, count: int) -> list[int]:
    """Returns the numbers below `count` in random order, from a twister, as `std::shuffle` does in this level's MXNet.

    Each number changes places with one before it, or none. At level 2, one word determines the places of two numbers.
    Source: libstdc++, before and after GCC 7.
    """
    limits = limits_of_order(count)
    others = below(words, limits)
    if len(limits) < count - 1:
        single, sizes = 1 - count % 2, np.arange(4 - count % 2, count + 1, 2)
        both = np.stack(np.divmod(others[single:], sizes), axis=1)
        others = np.concatenate([others[:single], both.ravel()])
    return exchanged(count, range(1, count), others)


def limits_of_order(count: int) -> np.ndarray:
    """Returns the limits of the integers that `order` draws."""
    if level.current() == 1 or not 1 < count <= 0xFFFF:
        return np.arange(2, count + 1)
    sizes = np.arange(4 - count % 2, count + 1, 2)  # counts in order after each two numbers
    return np.concatenate([np.full(1 - count % 2, 2, np.int64), (sizes - 1) * sizes])


def order_one_by_one(words: Words, count: int) -> list[int]:
    """Returns the numbers below `count` in random order, from a twister, as the operator `shuffle` at both levels."""
    return exchanged(count, range(1, count), below(words, np.arange(2, count + 1)))


def exchanged(count: int, places: Iterable[int], others: np.ndarray) -> list[int]:
    """The numbers below `count` after those at these places have changed with others, one after the other."""
    numbers = list(range(count))
    for i, j in zip(places, others.tolist(), strict=True):
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return numbers


def unit(words: np.ndarray, wide: bool = False) -> np.ndarray:
    """Numbers in [0, 1) out of words: one makes a float32, two a float64.

    The very last words are rounded to 1, as in MXNet (one of 34 million float32).
    """
    if wide:
        result = (words[..., ::2] + words[..., 1::2] * 2.0 ** 32) * 2.0 ** -64
    else:
        result = words.astype(np.float32)
        result *= np.float32(2.0 ** -32)
    return result


@functools.lru_cache(256)
def _last_word(limit: float, same: bool) -> int:
    """Returns the last word whose number in [0, 1) is below a limit (or equal); -1 if there is none."""
    low, high = -1, 2 ** 32 - 1
    while low < high:
        middle = (low + high + 1) // 2
        number = unit(np.array([middle], np.uint32))[0]
        low, high = (middle, high) if number < limit or same and number == limit else (low, middle - 1)
    return low


def normal_pairs(words: Words, count: int, wide: bool = False) -> np.ndarray:
    """Returns pairs of standard normal numbers from the second and first coordinates of accepted points."""
    result = np.empty((count, 2), np.float64 if wide else np.float32)
    done = 0
    while done < count:
        most = min(count - done, _AT_ONCE)
        taken = words.take(_tries(most) * (2 << wide))
        points, square, accepted = _points(taken, wide)
        chosen = accepted[:most]
        if len(chosen) == most:
            words.give_back(taken[(int(chosen[-1]) + 1) * (2 << wide):])
        factors, part = _factors(square, chosen), result[done:done + len(chosen)]
        for place in (0, 1):
            np.multiply(points[1 - place::2][chosen], factors, out=part[:, place])
        done += len(chosen)
    return result


def _seconds(twisters: Twisters, rows: slice, counts: np.ndarray, wide: bool) -> np.ndarray:
    """Standard normal numbers, the second ones of accepted points, `counts` points of each twister in turn.

    Source: Marsaglia's polar method.
    """
    most = int(counts.max(initial=0))
    each, lanes = 2 << wide, np.arange(len(counts))
    tries = _tries(most)
    while True:
        points, square, accepted = _points(twisters.take(rows, tries * each), wide)  # one lane's after the other's
        begins = np.searchsorted(accepted, lanes * tries)
        if (np.diff(begins, append=len(accepted)) >= counts).all():
            break
        twisters.give_back(rows, tries * each)
        tries = min(tries * 2, _KEPT // each)
    last = np.minimum(begins + np.maximum(counts, 1), len(accepted)) - 1
    used = np.where(counts > 0, accepted[last] - lanes * tries + 1, 0)
    twisters.give_back(rows, (tries - used) * each)
    chosen = begins[:, None] + np.arange(most)
    chosen = accepted[chosen.reshape(-1) if counts[-1] == most else chosen[np.arange(most) < counts[:, None]]]
    return points.reshape(-1, 2)[chosen, 1] * _factors(square, chosen)


def _tries(pairs: int) -> int:
    """Returns the number of points to draw for a number in the circle: 4 / pi for each, and a margin for chance."""
    return int(pairs * 1.2733 + 4 * pairs ** 0.5) + 4


def _points(words: np.ndarray, wide: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the square around 0, x and y in turns; the squares of their distances; numbers of those inside."""
    points = unit(words, wide)
    points *= 2
    points -= 1
    x, y = points[..., ::2], points[..., 1::2]
    square = x * x
    square += y * y
    inside = square <= 1
    inside &= square != 0
    return points, square, np.flatnonzero(inside)


def _factors(square: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Returns the factors that make normal numbers of x and y of the chosen points."""
    square = square.reshape(-1)[chosen]
    factor = c_function("log" if square.dtype == np.float64 else "logf")(square)
    factor *= -2
    factor /= square
    return np.sqrt(factor, out=factor)
