"""Gamma and Poisson numbers, and mixtures of both, drawn in parallel as MXNet draws them on CPUs, to the bit.

Each number takes as many tries as it needs, so where one begins depends on the one before. So all places of a twister's
words are tried at once, as if a number began there; then one goes from place to place. MXNet rounds some steps to
float32 and leaves others in float64, which decides the last bit.
Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000; Press et al., Numerical Recipes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._c_math import c_function, mixed
from ..._mersenne import Source, Twisters, in_groups, unit

__all__ = ["gamma", "generalized_negative_binomial", "negative_binomial", "poisson"]

_AHEAD, _GROUP = 256, 128  # words of each twister at once; twisters at once: what stays in the cache
_FEW = 12  # rates below are counted by products

# (numbers in [0, 1): (twisters, length), *parameters as columns) -> what begins at each place: value, whether that is a
# result, and the place that follows: itself where the numbers do not suffice
_Trial = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


def _each(lanes: Twisters, rows: slice, wants: np.ndarray, wide: bool, cost: float, trial: _Trial,
          *parameters: Any) -> np.ndarray:
    """Results of some twisters, of each as many as are wanted: (twisters, most that are wanted), float64.

    Args:
        lanes, rows: twisters, and which of them.
        wants: how many results of each.
        wide: whether two words make a number.
        cost: how many numbers a result takes, nearly.
        trial: what is tried.
        parameters: of the trial, one for each twister.
    """
    found, left = np.empty((len(wants), int(wants.max(initial=0)))), wants.copy()
    columns, least = [p[:, None] for p in parameters], 16
    while (most := int(left.max(initial=0))) > 0:
        length = min(int(1.1 * cost * most) + least, _AHEAD >> wide)
        value, good, following = trial(unit(lanes.take(rows, length << wide), wide), *columns)
        first = np.arange(len(wants)) * (length + 1)
        path = np.append(following, np.full((len(wants), 1), length), 1)
        flat, visited = (path + first[:, None]).reshape(-1), np.zeros(path.size, bool)
        at, before = first, None
        while not np.array_equal(at, before):
            visited[at] = True
            at, before = flat[at], at
        good &= visited.reshape(path.shape)[:, :-1]
        order = np.cumsum(good, 1, dtype=np.int32)
        good &= order <= left[:, None]
        lane, place = np.nonzero(good)
        found[lane, (wants - left)[lane] + order[lane, place] - 1] = value[lane, place]
        last = (order < left[:, None]).sum(1)  # where the wanted ones are complete
        used = np.where(last < length, path[np.arange(len(last)), last], at - first)
        lanes.give_back(rows, (length - np.where(left > 0, used, 0)) << wide)
        left -= np.minimum(order[:, -1], left)
        least *= 2  # lest one that takes more than these never comes
    return found


def _in_parallel(source: Source, count: int, wide: bool, cost: float, trial: _Trial, possible: Any,
                 *parameters: Any) -> np.ndarray:
    """`count` results of all twisters; NaN where it is not possible. The parameters are numbers, or one for each."""
    lanes = source.lanes
    counts = lanes.counts(count)
    found, step = np.full(count, np.nan), int(counts.max(initial=0))
    spread = [np.broadcast_to(p, count) for p in (possible, *parameters)]
    changes = [np.flatnonzero(p[1:] != p[:-1]) + 1 for p in spread if p.strides[0]]
    ends = np.unique(np.concatenate([*changes, [count]]))  # of runs with the same parameters

    def make(rows: slice) -> None:
        begins = np.arange(rows.start, rows.stop) * step
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
                found[(begins[:, None] + turns)[chosen]] = made[chosen]
                begins += runs
    in_groups(len(counts), _GROUP, count, make)
    return found


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


def _try_gamma(u: np.ndarray, d: np.ndarray, least: np.ndarray, c: np.ndarray, small: np.ndarray, power: np.ndarray,
               beta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    log, log_of_square = c_function("log"), c_function("logf" if u.dtype == np.float32 else "log")
    value, good, following = _nothing(u)
    x = 2 * u - 1
    x, y = x[:, :-3], x[:, 1:-2]
    square = x * x + y * y
    normal = y * np.sqrt(-2 * log_of_square(square) / square)
    tried = (square <= 1) & (square != 0) & (normal > least)
    v = (1 + _wide(c * normal)).astype(u.dtype)
    v = v * v * v
    z, cube = _wide(normal), _wide(v)
    won = tried & (log(1 - _wide(u[:, 2:-1])) < 0.5 * z * z + d * (1 - cube + log(cube)))
    made = mixed(np.multiply, d * v, beta)
    if small.any():
        below_one = made * c_function("pow", 2)(_wide(u[:, 3:]), np.broadcast_to(_wide(power), made.shape))
        made = np.where(small, below_one.astype(u.dtype), made)
    value[:, :-3], good[:, :-3] = made, won
    following[:, :-3] += 2 + tried + (won & small)
    return value, good, following


def _nothing(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A trial's results where no number is complete."""
    return np.zeros(u.shape), np.zeros(u.shape, bool), np.arange(u.shape[1]) + np.zeros((len(u), 1), np.int64)


def gamma(source: Source, count: int, dtype: np.dtype, alpha: Any, beta: Any) -> np.ndarray:
    """Gamma distributed numbers of shape alpha and scale beta; NaN where MXNet would try for ever."""
    wide = dtype == np.float64
    with np.errstate(all="ignore"):
        possible, *terms = _gamma_terms(alpha, np.float64 if wide else np.float32)
    return _in_parallel(source, count, wide, 4, _try_gamma, possible, *terms, beta)


# -------------------------------------------------------------------- Poisson
def _count_products(u: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many numbers can be multiplied before the product is at most exp(-rate)."""
    value, good, following = _nothing(u)
    good[:], least, product = True, c_function("expf")(-rate), u
    for end in range(u.shape[1], 0, -1):
        more = product > least[:, :end]
        if not more.any():
            break
        value[:, :end] += more
        good[:, end - 1] = ~more[:, -1]  # there is no further number
        product = product[:, :-1] * u[:, u.shape[1] - end + 1:]
    following += np.where(good, value + 1, 0).astype(np.int64)
    return value, good, following


def _candidates(first: np.ndarray, second: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(candidates of high rates, whether each is a result, how many numbers that took).

    They come from Cauchy's distribution; those below 0 take only the first number.
    """
    exp, tan, log_gamma = c_function("expf"), c_function("tanf"), c_function("lgammaf")
    log_rate, width = c_function("logf")(rate), np.sqrt(2 * _wide(rate)).astype(np.float32)
    g = rate * log_rate - log_gamma((_wide(rate) + 1).astype(np.float32))
    y = tan(np.float32(3.1415926) * first)
    number = width * y + rate
    negative, number = number < 0, np.floor(number)
    power = number * log_rate - log_gamma((_wide(number) + 1).astype(np.float32)) - g
    chance = (0.9 * (1 + _wide(y * y)) * exp(power)).astype(np.float32)
    return number.astype(np.int32), ~negative & ~(second > chance), 2 - negative


def _try_candidates(u: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value, good, following = _nothing(u)
    value[:, :-1], good[:, :-1], taken = _candidates(u[:, :-1], u[:, 1:], rate)
    following[:, :-1] += taken
    return value, good, following


def _try_poisson(u: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    results, few = _nothing(u), (rate < _FEW)[:, 0]
    for rows, trial in ((few, _count_products), (~few, _try_candidates)):
        if rows.all():
            return trial(u, rate)
        if rows.any():
            for whole, part in zip(results, trial(u[rows], rate[rows]), strict=True):
                whole[rows] = part
    return results


def _cost(rate: Any) -> float:
    """How many numbers a Poisson number takes, nearly."""
    rate = np.asarray(rate, np.float32)
    return max(4.0, 1 + float(rate[rate < _FEW].max(initial=0)))


def poisson(source: Source, count: int, dtype: np.dtype, rate: Any) -> np.ndarray:
    """Poisson distributed numbers."""
    return _in_parallel(source, count, False, _cost(rate), _try_poisson, True, np.asarray(rate, np.float32))


# -------------------------------------------------------------------- mixtures
def _poisson_at(u: np.ndarray, rate: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson numbers of these rates where they begin; candidates are tried until there is one."""
    few = rate < _FEW
    value, good, following = _count_products(u, np.where(begins & few, rate, 0))
    good &= begins & few
    row, place = np.nonzero(begins & ~few)
    at = place
    while (inside := at + 1 < u.shape[1]).any():
        row, place, at = row[inside], place[inside], at[inside]
        number, won, taken = _candidates(u[row, at], u[row, at + 1], rate[row, place])
        at = at + taken
        value[row[won], place[won]], following[row[won], place[won]] = number[won], at[won]
        good[row[won], place[won]] = True
        row, place, at = row[~won], place[~won], at[~won]
    return value, good, following


def _try_mixture(u: np.ndarray, free: np.ndarray, fixed: np.ndarray,
                 *terms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson numbers of gamma distributed rates, or of a fixed rate where they are not free."""
    rate, good, following = _try_gamma(u, *terms)
    own, drawn = np.arange(u.shape[1]), good | ~free
    rate = np.where(free, rate, fixed).astype(np.float32)
    starts, following = np.where(free, following, own), np.where(drawn, own, following)
    row, place = np.nonzero(drawn & (starts < u.shape[1]))
    start = starts[row, place]
    begins, rates = np.zeros(u.shape, bool), np.zeros(u.shape, np.float32)
    begins[row, start], rates[row, start] = True, rate[row, place]
    value, complete, ends = (part[row, start] for part in _poisson_at(u, rates, begins))
    good[:] = False
    rate[row, place], good[row, place] = value, complete
    following[row[complete], place[complete]] = ends[complete]
    return rate, good, following


def _mixture(source: Source, count: int, free: Any, fixed: Any, alpha: Any, beta: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        possible, *terms = _gamma_terms(alpha, np.float32)
        mean = np.asarray(alpha, np.float32) * np.asarray(beta, np.float32)
    cost = 4 + _cost(np.where(free, mean, fixed))
    return _in_parallel(source, count, False, cost, _try_mixture, possible | ~free, free, fixed, *terms, beta)


def negative_binomial(source: Source, count: int, dtype: np.dtype, k: Any, p: Any) -> np.ndarray:
    """How many successes come before k failures, each of probability p."""
    kind, p = np.asarray(k).dtype, np.asarray(p, np.float32)
    with np.errstate(all="ignore"):
        beta = ((1 - _wide(p)) / p).astype(np.float32).astype(kind)
    return _mixture(source, count, np.True_, np.float32(0), k, beta)


def generalized_negative_binomial(source: Source, count: int, dtype: np.dtype, mu: Any, alpha: Any) -> np.ndarray:
    """Poisson numbers of gamma distributed rates with mean mu and dispersion alpha."""
    one_over, free = np.floor_divide if np.asarray(alpha).dtype.kind in "iu" else np.divide, alpha != 0
    with np.errstate(all="ignore"):
        shape = one_over(np.ones_like(alpha), alpha)
        return _mixture(source, count, free, np.where(free, np.float32(0), mu).astype(np.float32), shape, alpha * mu)
