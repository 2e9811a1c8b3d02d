"""`mx.random`: seeds and draws."""

from __future__ import annotations

from . import level as _level
from ._random.streams import seed
from .ndarray.random import (
    binomial,
    categorical,
    exponential,
    gamma,
    generalized_negative_binomial,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    shuffle,
    uniform,
)
from .ndarray.random import by_level as _by_level

__all__ = ["binomial", "categorical", "exponential", "gamma", "generalized_negative_binomial", "multinomial",
           "negative_binomial", "normal", "poisson", "randint", "randn", "seed", "shuffle", "uniform"]

_level.follow(lambda api: globals().update(multinomial=_by_level[api]))
