"""Guesses of how trials of rejection sampling end, in Python's floats: a few microseconds for each number.

Where one number begins depends on how all before it ended, and NumPy takes as long for one trial as for hundreds. So
the way through some thousand trials is guessed first, without rounding as MXNet does; `_host_rejection.py` then checks
all of its steps at once.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

__all__ = ["FEW", "Guess", "guess_gamma", "guess_mixture", "guess_poisson", "walk"]

FEW = 12  # Poisson numbers of lower rates are counted by products
_TINY = 1e-30  # instead of zeros, whose logarithms are infinite; its own ends every product, too

# (place, *parameters of a result) -> whether a result begins at the place, and the place that follows
Guess: TypeAlias = Callable[..., tuple[bool, int]]


def walk(guess: Guess, length: int, results: Sequence[int],
         parameters: Sequence[tuple[float, ...]]) -> tuple[list[int], list[int]]:
    """Returns the places of all trials until these results are complete or the numbers end, and the result of each."""
    place, places, tried = 0, [], []
    for result in results:
        given, good = parameters[result], False
        while not good:
            try:
                good, following = guess(place, *given)
            except (ArithmeticError, ValueError):  # infinities and NaN
                good, following = True, place + 1
            places.append(place)
            tried.append(result)
            if following > length:
                return places, tried
            place = following
    return places, tried


def guess_gamma(u: np.ndarray) -> list[Guess]:
    """Returns the guesses of gamma numbers for each row of numbers in [0, 1)."""
    return [_of_gamma(*lists) for lists in zip(*_normals(u), strict=True)]


def guess_poisson(u: np.ndarray) -> list[Guess]:
    """Returns the guesses of Poisson numbers for each row of numbers in [0, 1)."""
    return [_of_poisson(*lists) for lists in zip(_sums(u), u.tolist(), strict=True)]


def guess_mixture(u: np.ndarray) -> list[Guess]:
    """Returns the guesses of Poisson numbers with gamma distributed rates for each row of numbers in [0, 1)."""
    return [_of_mixture(u_, _rates(normals, bounds, u_), _of_poisson(sums, u_))
            for normals, bounds, sums, u_ in zip(*_normals(u), _sums(u), u.tolist(), strict=True)]


def _normals(u: np.ndarray) -> tuple[list[list[float]], list[list[float]]]:
    """Normal numbers that begin at each place, NaN for pairs outside of the circle, and bounds for their acceptance."""
    whole = np.concatenate([u, np.zeros((len(u), 2))], 1, dtype=np.float64)
    x, y = 2 * whole[:, :-2] - 1, 2 * whole[:, 1:-1] - 1
    square = x * x + y * y
    with np.errstate(all="ignore"):
        normal = np.where(square <= 1, y * np.sqrt(-2 * np.log(square) / square), np.nan)
        bound = np.log(1 - whole[:, 2:]) - 0.5 * normal * normal
    after = np.full((len(u), 1), np.nan)  # of the place behind the end
    return np.append(normal, after, 1).tolist(), np.append(bound, after, 1).tolist()


def _sums(u: np.ndarray) -> list[list[float]]:
    """For each row the sums of -log(u) before each place, which logarithms of products are differences of."""
    logs = -np.log(np.maximum(u, _TINY, dtype=np.float64))
    return np.cumsum(np.append(np.zeros((len(u), 1)), logs, 1), 1).tolist()


def _of_gamma(normals: Sequence[float], bounds: Sequence[float]) -> Guess:
    def guess(place: int, d: float, least: float, c: float, small: bool, *rest: float) -> tuple[bool, int]:
        normal = normals[place]
        if not normal > least:
            return False, place + 2
        cube = (1 + c * normal) ** 3
        good = bounds[place] < d * (1 - cube + math.log(cube))
        return good, place + 3 + (good and small)
    return guess


def _rates(normals: Sequence[float], bounds: Sequence[float],
           u: Sequence[float]) -> Callable[..., tuple[float | None, int]]:
    """Returns the function that finds the gamma number which begins at a place, None if none does."""
    gamma = _of_gamma(normals, bounds)

    def rate(place: int, d: float, least: float, c: float, small: bool, power: float,
             beta: float) -> tuple[float | None, int]:
        good, following = gamma(place, d, least, c, small)
        if not good or following > len(u):
            return None, following
        value = d * (1 + c * normals[place]) ** 3 * beta
        return value * u[following - 1] ** power if small else value, following
    return rate


def _of_poisson(sums: Sequence[float], u: Sequence[float]) -> Guess:
    def guess(place: int, rate: float) -> tuple[bool, int]:
        if rate < FEW:
            return True, bisect_left(sums, sums[place] + rate, place + 1)
        if place + 1 >= len(u):
            return False, len(u) + 1
        y = math.tan(math.pi * u[place])
        number = math.sqrt(2 * rate) * y + rate
        if number < 0:
            return False, place + 1
        number, log_rate = math.floor(number), math.log(rate)
        power = number * log_rate - math.lgamma(number + 1) - rate * log_rate + math.lgamma(rate + 1)
        return not u[place + 1] > 0.9 * (1 + y * y) * math.exp(power), place + 2
    return guess


def _of_mixture(u: Sequence[float], rates: Callable[..., tuple[float | None, int]], poisson: Guess) -> Guess:
    def guess(place: int, free: bool, fixed: float, *terms: float) -> tuple[bool, int]:
        rate, place = rates(place, *terms) if free else (fixed, place)
        if rate is None:
            return False, place
        good = False
        while not good and place < len(u):
            good, place = poisson(place, rate)
        return good, place if good else len(u) + 1
    return guess
