"""Gamma and Poisson numbers, and mixtures of both, drawn in parallel as MXNet draws them on CPUs, to the bit.

Each number takes as many tries as it needs, so one twister's numbers are made one after the other; what is vectorized
are the twisters. MXNet rounds some steps to float32 and leaves others in float64, which decides the last bit.
Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000; Press et al., Numerical Recipes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from ..._c_math import c_function, mixed
from ..._mersenne import Source, unit

__all__ = ["gamma", "generalized_negative_binomial", "negative_binomial", "poisson"]

_AT_ONCE = 1 << 20  # numbers, of all twisters together
_FEW = 12  # rates below are counted by products


class _Lanes:
    """Numbers in [0, 1) of the twisters that make `count` results; each is read at its own pace.

    step: how many results at most are one twister's.
    """

    def __init__(self, source: Source, count: int, wide: bool) -> None:
        self._twisters, counts = source.lanes.split(count)
        self.step = int(counts.max(initial=0))
        self._wide = wide
        self._length = min(8 * self.step + 32, _AT_ONCE // max(len(counts), 1))
        self._first = np.arange(len(counts)) * self._length
        self._at, self._left = self._first + self._length, 0  # nothing is there yet
        self._words, self._numbers = np.empty((len(counts), 0), np.uint32), np.empty(0)

    def __enter__(self) -> _Lanes:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leaves each twister where its last number was."""
        used = (self._at - self._first) << self._wide
        for twister, words, end in zip(self._twisters, self._words, used.tolist(), strict=True):
            twister.give_back(words[end:])

    def take(self, rows: np.ndarray, count: int = 1) -> list[np.ndarray]:
        """The next numbers of these twisters."""
        if self._left < count:  # of what each has at least; it is found out now and then
            self._left = self._length - int((self._at - self._first).max())
        if self._left < count:
            self.__exit__(None, None, None)
            self._words = np.stack([twister.take(self._length << self._wide) for twister in self._twisters])
            self._numbers = unit(self._words, self._wide).reshape(-1)
            self._at, self._left = self._first.copy(), self._length
        self._left -= count
        at = self._at[rows]
        self._at[rows] = at + count
        return [self._numbers[at + i] for i in range(count)]


def _in_parallel(source: Source, count: int, wide: bool, one: Callable[..., np.ndarray], *parameters: Any) -> np.ndarray:
    """`count` numbers made by one(lanes, *parameters): the next one of the first lanes, by their parameters."""
    found = np.empty(count, np.float64 if wide else np.float32)
    spread = [np.broadcast_to(p, count) for p in parameters]
    with np.errstate(all="ignore"), _Lanes(source, count, wide) as lanes:
        for i in range(lanes.step):
            found[i::lanes.step] = one(lanes, *[p[i::lanes.step] for p in spread])
    return found


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


# -------------------------------------------------------------------- gamma
def _one_gamma(lanes: _Lanes, alpha: np.ndarray, beta: np.ndarray, real: type[np.floating] = np.float32) -> np.ndarray:
    """NaN where MXNet would try for ever."""
    small = alpha < 1
    d = mixed(np.add, alpha, np.where(small, 2 / 3, -1 / 3)).astype(real)
    least = -np.sqrt(9 * _wide(d)).astype(real)
    c = (-1 / _wide(least)).astype(real)
    found = np.full(len(d), np.nan, real)
    rows = np.flatnonzero((least < 0) & (least > -np.inf))
    log, log_of_normal = c_function("log"), c_function("logf" if real is np.float32 else "log")
    while rows.size:
        missing = np.ones(len(d), bool)
        x, y = (2 * n - 1 for n in lanes.take(rows, 2))
        square = x * x + y * y
        normal = y * np.sqrt(-2 * log_of_normal(square) / square)
        good = (square <= 1) & (square != 0) & (normal > least[rows])
        tried, z = rows[good], normal[good]
        v = (1 + _wide(c[tried] * z)).astype(real)
        v = v * v * v
        z, cube, scale = _wide(z), _wide(v), d[tried]
        won = log(1 - _wide(lanes.take(tried)[0])) < 0.5 * z * z + scale * (1 - cube + log(cube))
        tried, v, scale = tried[won], v[won], scale[won]
        found[tried] = mixed(np.multiply, scale * v, beta[tried])
        missing[tried] = False
        rows = rows[missing[rows]]
    rows = np.flatnonzero(small & ~np.isnan(found))
    if rows.size:
        powers = mixed(np.divide, np.float64(1), alpha[rows]).astype(real)
        found[rows] *= c_function("pow", 2)(_wide(lanes.take(rows)[0]), _wide(powers))
    return found


def gamma(source: Source, count: int, dtype: np.dtype, alpha: Any, beta: Any) -> np.ndarray:
    """Gamma distributed numbers of shape alpha and scale beta."""
    wide = dtype == np.float64
    real = np.float64 if wide else np.float32
    return _in_parallel(source, count, wide, lambda lanes, a, b: _one_gamma(lanes, a, b, real), alpha, beta)


# -------------------------------------------------------------------- Poisson
def _one_poisson(lanes: _Lanes, rate: np.ndarray) -> np.ndarray:
    found = np.zeros(len(rate), np.int32)
    few = rate < _FEW
    rows = np.flatnonzero(few)
    if rows.size:
        product, least = np.ones(len(rate), np.float32), c_function("expf")(-rate)
        while rows.size:
            product[rows] *= lanes.take(rows)[0]
            rows = rows[product[rows] > least[rows]]
            found[rows] += 1
    rows = np.flatnonzero(~few)
    if rows.size:
        found[rows] = _many(lanes, rows, rate[rows])
    return found


def _many(lanes: _Lanes, rows: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Poisson numbers of high rates, out of Cauchy's distribution."""
    exp, tan, log_gamma = c_function("expf"), c_function("tanf"), c_function("lgammaf")
    wide, log_rate = _wide(rate), c_function("logf")(rate)
    width, g = np.sqrt(2 * wide).astype(np.float32), rate * log_rate - log_gamma((wide + 1).astype(np.float32))
    found, left = np.empty(len(rows), np.float32), np.arange(len(rows))
    while left.size:
        y = tan(np.float32(3.1415926) * lanes.take(rows[left])[0])
        number = width[left] * y + rate[left]
        negative = number < 0
        tried, y, number = left[~negative], y[~negative], np.floor(number[~negative])
        power = number * log_rate[tried] - log_gamma((_wide(number) + 1).astype(np.float32)) - g[tried]
        chance = (0.9 * (1 + _wide(y * y)) * exp(power)).astype(np.float32)
        lost = lanes.take(rows[tried])[0] > chance
        found[tried] = number
        left = np.concatenate([left[negative], tried[lost]])
    return found.astype(np.int32)


def poisson(source: Source, count: int, dtype: np.dtype, rate: Any) -> np.ndarray:
    """Poisson distributed numbers."""
    return _in_parallel(source, count, False, _one_poisson, np.asarray(rate, np.float32))


def negative_binomial(source: Source, count: int, dtype: np.dtype, k: Any, p: Any) -> np.ndarray:
    """How many successes come before k failures, each of probability p."""
    like, p = np.asarray(k).dtype, np.asarray(p, np.float32)
    with np.errstate(all="ignore"):
        beta = ((1 - _wide(p)) / p).astype(np.float32).astype(like)

    def one(lanes: _Lanes, k: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return _one_poisson(lanes, _one_gamma(lanes, k, beta))
    return _in_parallel(source, count, False, one, k, beta)


def generalized_negative_binomial(source: Source, count: int, dtype: np.dtype, mu: Any, alpha: Any) -> np.ndarray:
    """Poisson numbers of gamma distributed rates with mean mu and dispersion alpha."""
    one_over = np.floor_divide if np.asarray(alpha).dtype.kind in "iu" else np.divide
    with np.errstate(all="ignore"):
        shape = np.where(alpha == 0, np.nan, one_over(np.ones_like(alpha), alpha))

    def one(lanes: _Lanes, mu: np.ndarray, shape: np.ndarray, scale: np.ndarray) -> np.ndarray:
        rate = _one_gamma(lanes, shape, scale)  # nothing is drawn where the shape is NaN
        return _one_poisson(lanes, np.where(np.isnan(shape), mu.astype(np.float32), rate))
    return _in_parallel(source, count, False, one, mu, shape, alpha * mu)
