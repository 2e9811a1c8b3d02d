"""Gamma and Poisson numbers, and mixtures of both, drawn in parallel as MXNet draws them on CPUs, to the bit.

Each number takes as many tries as it needs, so where one begins depends on the one before. Of few numbers, all places
are guessed, and then tried at once. Where many have the same parameters, all places of a twister's words are tried at
once, as if a number began there; then one goes from place to place. Where parameters change from number to number, one
number of each twister is tried at a time. MXNet rounds some steps to float32 and leaves others in float64, which
decides the last bit.
Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000; Press et al., Numerical Recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._random.mersenne import Source, Twisters, in_groups, unit
from ..._support.c_math import c_function, mixed
from ._host_guess import FEW, Guess, guess_gamma, guess_mixture, guess_poisson, walk

__all__ = ["gamma", "generalized_negative_binomial", "negative_binomial", "poisson"]

_AHEAD, _GROUP = 256, 128  # words of each twister at once; twisters at once, which fit in the cache
_GUESSED = 128, 2048  # so many numbers at most are guessed, with the same parameters and with others
_SHORT = 12  # so many numbers, on average, must have the same parameters for all places to be tried
_BLOCK = 8  # factors at once


class _Places:
    """Places where results may begin: at each of some twisters' numbers, or at one of each.

    Args:
        u: numbers in [0, 1): (twisters, length).
        rows, at: the twisters and their places; without them all places.
    """

    def __init__(self, u: np.ndarray, rows: np.ndarray | None = None, at: np.ndarray | None = None) -> None:
        self._u, self._rows, self.length, self.dtype = u, rows, u.shape[1], u.dtype
        self.at = np.arange(self.length) + np.zeros((len(u), 1), np.int64) if at is None else at
        self._all: np.ndarray | None = None

    def ahead(self, count: int, first: int = 0) -> Sequence[np.ndarray]:
        """So many numbers at each place, from the one so far ahead on; 0 behind the end."""
        if self._rows is not None:
            there = self.at + np.arange(first, first + count)[:, None]
            inside = there < self.length
            there += self._rows * self.length
            return self._u.reshape(-1).take(there, mode="clip") * inside
        if self._all is None:
            self._all = np.concatenate([self._u, np.zeros_like(self._u)], 1)
        return [self._all[:, i:i + self.length] for i in range(first, first + count)]

    def some(self, which: np.ndarray, at: np.ndarray | None = None) -> _Places:
        """Returns the places for which this holds, or other places of their twisters."""
        rows = np.nonzero(which)[0] if self._rows is None else self._rows[which]
        return _Places(self._u, rows, self.at[which] if at is None else at[which])


# (places, *parameters that broadcast against them) -> what begins at each place: value, whether that is a result, and
# the place that follows; where that is behind the end, the numbers did not suffice
_Trial = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]
_Guesses = Callable[[np.ndarray], list[Guess]]  # for each row of numbers in [0, 1)


def _each(lanes: Twisters, rows: slice, wants: np.ndarray, wide: bool, cost: float, trial: _Trial,
          *parameters: Any) -> np.ndarray:
    """Results of some twisters, of each as many as are wanted: (twisters, most that are wanted), float64.

    Args:
        lanes, rows: twisters, and which of them.
        wants: how many results of each.
        wide: whether two words make a number.
        cost: how many numbers a result takes, nearly.
        trial: function of one trial.
        parameters: of the trial, one for each twister.
    """
    result, left = np.empty((len(wants), int(wants.max(initial=0)))), wants.copy()
    columns, least = [p[:, None] for p in parameters], 16
    while (most := int(left.max(initial=0))) > 0:
        length = min(int(1.1 * cost * most) + least, _AHEAD >> wide)
        places = _Places(unit(lanes.take(rows, length << wide), wide))
        value, good, following = trial(places, *columns)
        enough = following <= length
        good, following = good & enough, np.where(enough, following, places.at)
        first = np.arange(len(wants)) * (length + 1)
        path = np.append(following, np.full((len(wants), 1), length), 1)
        flat, visited = (path + first[:, None]).reshape(-1), np.zeros(path.size, bool)
        at, before = first, None
        while before is None or not np.array_equal(at, before):
            visited[at] = True
            at, before = flat[at], at
        good &= visited.reshape(path.shape)[:, :-1]
        order = np.cumsum(good, 1, dtype=np.int32)
        good &= order <= left[:, None]
        lane, place = np.nonzero(good)
        result[lane, (wants - left)[lane] + order[lane, place] - 1] = value[lane, place]
        last = (order < left[:, None]).sum(1)  # where the wanted ones are complete
        used = np.where(last < length, path[np.arange(len(last)), last], at - first)
        lanes.give_back(rows, (length - np.where(left > 0, used, 0)) << wide)
        left -= np.minimum(order[:, -1], left)
        least *= 2  # lest one that takes more than these never comes
    return result


def _by_turns(lanes: Twisters, begins: np.ndarray, stops: np.ndarray, wide: bool, cost: float, trial: _Trial,
              exist: np.ndarray, parameters: Any, found: np.ndarray) -> None:
    """Writes the results from `begins` to `stops` of the first twisters, one of each at a time.

    Args:
        lanes, wide, cost, trial: see `_each`.
        begins, stops: of each twister's part of `found`; `begins` is changed.
        exist: which results there are.
        parameters: of the trial, one for each result.
        found: the results.
    """
    rows, least, some_missing = slice(0, len(begins)), 16, not exist.all()
    changing = [(i, p) for i, p in enumerate(parameters) if p.strides[0]]
    given = [p[:1] for p in parameters]
    while (most := int((stops - begins).max(initial=0))) > 0:
        length = min(int(1.1 * cost * most) + least, 4 * _AHEAD >> wide)
        u, at = unit(lanes.take(rows, length << wide), wide), np.zeros(len(begins), np.int64)
        lane = np.flatnonzero(begins < stops)
        while len(lane):
            result, place = begins[lane], at[lane]
            for i, values in changing:
                given[i] = values[result]
            value, good, following = trial(_Places(u, lane, place), *given)
            enough = following <= length
            good = good & enough
            if some_missing:
                missing = ~exist[result]
                value[missing], following[missing], good = np.nan, place[missing], good | missing
                enough |= missing
            at[lane] = np.where(enough, following, place)
            found[result[good]] = value[good]
            result += good
            begins[lane] = result
            lane = lane[enough & (result < stops[lane])]
        lanes.give_back(rows, (length - at) << wide)
        least *= 2


def _by_guesses(lanes: Twisters, left: list[np.ndarray], wide: bool, cost: float, trial: _Trial, guesses: _Guesses,
                parameters: list[np.ndarray], found: np.ndarray) -> None:
    """Writes the results of the first twisters. Of the steps that are guessed, those up to the first wrong one count.

    Args:
        lanes, wide, cost, trial: see `_each`.
        left: the results that each twister makes; changed.
        guesses: of the trial.
        parameters: of the trial, one for each result.
        found: the results.
    """
    rows, least = slice(0, len(left)), 16
    given = list(zip(*[p.tolist() for p in parameters], strict=True))
    while active := [i for i, results in enumerate(left) if len(results)]:
        length = min(int(1.1 * cost * max(map(len, left))) + least, 4 * _AHEAD >> wide)
        u, end = unit(lanes.take(rows, length << wide), wide), np.zeros(len(left), np.int64)
        walks = [walk(guess, length, left[i].tolist(), given)
                 for i, guess in zip(active, guesses(u[active]), strict=True)]
        sizes = [len(places) for places, _ in walks]
        lane = np.repeat(active, sizes)
        at, result = (np.array([n for part in parts for n in part]) for parts in zip(*walks, strict=True))
        value, good, following = trial(_Places(u, lane, at), *[p[result] for p in parameters])
        enough, wrong = following <= length, np.ones(len(at), bool)  # the last of a twister counts as wrong
        wrong[:-1] = (following[:-1] != at[1:]) | (good[:-1] != (result[1:] != result[:-1])) | (lane[1:] != lane[:-1])
        ends, stops = np.flatnonzero(wrong), np.cumsum(sizes)
        ends = ends[np.searchsorted(ends, stops - sizes)]
        end[active] = np.where(enough[ends], following[ends], at[ends])
        good &= enough & (np.arange(len(at)) <= np.repeat(ends, sizes))
        found[result[good]] = value[good]
        for i, made in zip(active, np.bincount(lane[good], minlength=len(left))[active], strict=True):
            left[i] = left[i][made:]
        lanes.give_back(rows, (length - end) << wide)
        least *= 2


def _in_parallel(source: Source, count: int, wide: bool, cost: float, trial: _Trial, guesses: _Guesses, possible: Any,
                 *parameters: Any) -> np.ndarray:
    """`count` results of all twisters; NaN where it is not possible. The parameters are numbers, or one for each."""
    lanes = source.lanes
    counts = lanes.counts(count)
    result, step = np.full(count, np.nan), int(counts.max(initial=0))
    spread = [np.broadcast_to(p, count) for p in (possible, *parameters)]
    changes = np.zeros(max(count - 1, 0), bool)
    for p in spread:
        if p.strides[0]:
            changes |= p[1:] != p[:-1]
    ends = np.append(np.flatnonzero(changes) + 1, count)  # of runs with the same parameters
    first, changing = np.arange(len(counts)) * step, len(ends) * _SHORT > count
    if count <= _GUESSED[changing]:
        results = [begin + np.flatnonzero(spread[0][begin:begin + n])
                   for begin, n in zip(first.tolist(), counts.tolist(), strict=True)]
        with np.errstate(all="ignore"):
            _by_guesses(lanes, results, wide, cost, trial, guesses, spread[1:], result)
        return result
    if changing:
        with np.errstate(all="ignore"):
            _by_turns(lanes, first, first + counts, wide, cost, trial, spread[0], spread[1:], result)
        return result

    def make(rows: slice) -> None:
        begins = first[rows]
        stops = begins + counts[rows]
        with np.errstate(all="ignore"):
            while (begins < stops).any():
                at = np.minimum(begins, count - 1)
                runs = np.maximum(np.minimum(ends[np.searchsorted(ends, at, "right")], stops) - begins, 0)
                exist, *given = [p[at] for p in spread]
                wants = np.where(exist, runs, 0)
                made = _each(lanes, rows, wants, wide, cost, trial, *given)
                turns = np.arange(made.shape[1])
                chosen = turns < wants[:, None]
                result[(begins[:, None] + turns)[chosen]] = made[chosen]
                begins = begins + runs
    in_groups(len(counts), _GROUP, count, make)
    return result


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


# -------------------------------------------------------------------- gamma
def _gamma_terms(alpha: Any, real: type[np.floating]) -> tuple[np.ndarray, ...]:
    """(whether MXNet finds such numbers at all, terms that `_try_gamma` takes before beta)."""
    alpha = np.asarray(alpha)
    small = alpha < 1
    d = mixed(np.add, alpha, np.where(small, 2 / 3, -1 / 3)).astype(real)
    least = -np.sqrt(9 * _wide(d)).astype(real)
    power = mixed(np.divide, np.float64(1), alpha).astype(real)
    return (least < 0) & (least > -np.inf), d, least, (-1 / _wide(least)).astype(real), small, power


def _try_gamma(places: _Places, d: np.ndarray, least: np.ndarray, c: np.ndarray, small: np.ndarray, power: np.ndarray,
               beta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    kind = places.dtype
    log, log_of_square = c_function("log"), c_function("logf" if kind == np.float32 else "log")
    first, second, third, fourth = places.ahead(4)
    x, y = 2 * first - 1, 2 * second - 1
    square = x * x + y * y
    normal = y * np.sqrt(-2 * log_of_square(square) / square)
    tried = (square <= 1) & (square != 0) & (normal > least)
    v = (1 + _wide(c * normal)).astype(kind)
    v = v * v * v
    z, cube = _wide(normal), _wide(v)
    won = tried & (log(1 - _wide(third)) < 0.5 * z * z + d * (1 - cube + log(cube)))
    made = mixed(np.multiply, d * v, beta).astype(kind)
    if small.any():
        below_one = made * c_function("pow", 2)(_wide(fourth), np.broadcast_to(_wide(power), made.shape))
        made = np.where(small, below_one.astype(kind), made)
    return made, won, places.at + 2 + tried + (won & small)


def gamma(source: Source, count: int, dtype: np.dtype, alpha: Any, beta: Any) -> np.ndarray:
    """Returns gamma distributed numbers of shape alpha and scale beta; NaN where MXNet would never finish."""
    wide = dtype == np.float64
    with np.errstate(all="ignore"):
        possible, *terms = _gamma_terms(alpha, np.float64 if wide else np.float32)
    return _in_parallel(source, count, wide, 4, _try_gamma, guess_gamma, possible, *terms, beta)


# -------------------------------------------------------------------- Poisson
def _count_products(places: _Places, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns how many numbers can be multiplied before the product is at most exp(-rate)."""
    least, shape = c_function("expf")(-rate), places.at.shape
    product, more, count = np.ones(shape, np.float32), np.ones(shape, bool), np.zeros(shape, np.int32)
    first = 0
    while more.any():  # behind the end the product is 0
        for factor in places.ahead(min(_BLOCK, places.length + 1 - first), first):
            product *= factor
            np.greater(product, least, more)
            count += more
        first += _BLOCK
    return count, np.ones(shape, bool), places.at + count + 1


def _try_candidates(places: _Places, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidates for high rates, which come from Cauchy's distribution; those below 0 take only the first number."""
    exp, tan, log_gamma = c_function("expf"), c_function("tanf"), c_function("lgammaf")
    log_rate, width = c_function("logf")(rate), np.sqrt(2 * _wide(rate)).astype(np.float32)
    g = rate * log_rate - log_gamma((_wide(rate) + 1).astype(np.float32))
    first, second = places.ahead(2)
    y = tan(np.float32(3.1415926) * first)
    number = width * y + rate
    negative, number = number < 0, np.floor(number)
    power = number * log_rate - log_gamma((_wide(number) + 1).astype(np.float32)) - g
    chance = (0.9 * (1 + _wide(y * y)) * exp(power)).astype(np.float32)
    return number.astype(np.int32), ~negative & ~(second > chance), places.at + 2 - negative


def _try_poisson(places: _Places, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rate = np.broadcast_to(rate, places.at.shape)
    few = rate < FEW
    if few.all():
        return _count_products(places, rate)
    if not few.any():
        return _try_candidates(places, rate)
    results = np.zeros(rate.shape), np.zeros(rate.shape, bool), places.at.copy()
    for which, trial in ((few, _count_products), (~few, _try_candidates)):
        for whole, part in zip(results, trial(places.some(which), rate[which]), strict=True):
            whole[which] = part
    return results


def _cost(rate: Any) -> float:
    """Returns how many numbers a Poisson number takes, nearly."""
    rate = np.asarray(rate, np.float32)
    return max(4.0, 1 + float(rate[rate < FEW].max(initial=0)))


def poisson(source: Source, count: int, dtype: np.dtype, rate: Any) -> np.ndarray:
    """Poisson distributed numbers."""
    return _in_parallel(source, count, False, _cost(rate), _try_poisson, guess_poisson, True,
                        np.asarray(rate, np.float32))


# -------------------------------------------------------------------- mixtures
def _try_mixture(places: _Places, free: np.ndarray, fixed: np.ndarray,
                 *terms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson numbers of gamma distributed rates, or of a fixed rate where they are not free."""
    rate, drawn, following = _try_gamma(places, *terms)
    free, drawn = np.broadcast_to(free, drawn.shape), drawn | ~free
    rate, following = np.where(free, rate, fixed).astype(np.float32), np.where(free, following, places.at)
    value, good = np.zeros(drawn.shape), np.zeros(drawn.shape, bool)
    while drawn.any():  # with the same rate, until there is one
        value[drawn], good[drawn], following[drawn] = _try_poisson(places.some(drawn, following), rate[drawn])
        drawn = drawn & ~good
        following[drawn] += following[drawn] == places.length  # behind the end: the rate has no number yet
        drawn &= following < places.length
    return value, good, following


def _mixture(source: Source, count: int, free: Any, fixed: Any, alpha: Any, beta: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        possible, *terms = _gamma_terms(alpha, np.float32)
        mean = np.asarray(alpha, np.float32) * np.asarray(beta, np.float32)
    cost = 4 + _cost(np.where(free, mean, fixed))
    return _in_parallel(source, count, False, cost, _try_mixture, guess_mixture, possible | ~free, free, fixed, *terms,
                        beta)


def negative_binomial(source: Source, count: int, dtype: np.dtype, k: Any, p: Any) -> np.ndarray:
    """Returns the number of successes before k failures, each of probability p."""
    kind, p = np.asarray(k).dtype, np.asarray(p, np.float32)
    with np.errstate(all="ignore"):
        beta = ((1 - _wide(p)) / p).astype(np.float32).astype(kind)
        shape = np.asarray(k, np.float32).astype(kind)
    return _mixture(source, count, np.True_, np.float32(0), shape, beta)


def generalized_negative_binomial(source: Source, count: int, dtype: np.dtype, mu: Any, alpha: Any) -> np.ndarray:
    """Poisson numbers of gamma distributed rates with mean mu and dispersion alpha."""
    one_over, free = np.floor_divide if np.asarray(alpha).dtype.kind in "iu" else np.divide, alpha != 0
    with np.errstate(all="ignore"):
        shape = one_over(np.ones_like(alpha), alpha)
        return _mixture(source, count, free, np.where(free, np.float32(0), mu).astype(np.float32), shape, alpha * mu)
