"""Functions for arrays, symbols and numbers; conversions between probabilities and logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Number
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from ... import numpy as _np
from ... import numpy_extension as _npx
from ...symbol import Symbol
from ...symbol import numpy as _sym_np
from ...symbol import numpy_extension as _sym_npx

__all__ = ["cached_property", "constraint_check", "digamma", "erf", "erfinv", "gammaln", "logit2prob", "prob2logit",
           "sample_n_shape_converter", "sum_right_most"]

if TYPE_CHECKING:
    Value: TypeAlias = _np.ndarray | _sym_np._Symbol | float  # of a parameter or a variable
    Shape: TypeAlias = int | Sequence[int] | None  # of samples

_EPS = float(numpy.finfo("float32").eps)


class _Front:
    """The functions of a module for arrays and numbers, those of another where an argument is a symbol."""

    def __init__(self, arrays: ModuleType, symbols: ModuleType) -> None:
        self._arrays, self._symbols = arrays, symbols

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            symbolic = any(isinstance(x, Symbol) for x in (*args, *kwargs.values()))
            return getattr(self._symbols if symbolic else self._arrays, name)(*args, **kwargs)
        setattr(self, name, call)
        return call


np = _Front(_np, _sym_np)
npx = _Front(_npx, _sym_npx)
linalg = _Front(_np.linalg, _sym_np.linalg)
random = _Front(_np.random, _sym_np.random)
random_extension = _Front(_npx.random, _sym_npx.random)


def _is_number(x: object) -> bool:
    return isinstance(x, Number)


def constraint_check() -> Callable[[Any, str], Any]:
    """Returns `check(condition, message)`, which returns 1 if a condition is true and otherwise raises ValueError.

    The condition is a bool or an array of bools. For an array, the error is raised when the result
    is read.
    """
    def check(condition: object, err_msg: str) -> Any:
        if isinstance(condition, bool | numpy.bool_):
            if not condition:
                raise ValueError(err_msg)
            return 1.0
        return npx.constraint_check(condition, err_msg)
    return check


def _erfinv(x: Value) -> Any:
    return float(_npx.erfinv(_np.array(x, dtype="float64")).item()) if _is_number(x) else npx.erfinv(x)


def _digamma(x: Value) -> Any:
    return float(_npx.digamma(_np.array(x, dtype="float64")).item()) if _is_number(x) else npx.digamma(x)


def digamma() -> Callable[[Any], Any]:
    """Returns the derivative of `gammaln`, a function of arrays and numbers."""
    return _digamma


def gammaln() -> Callable[[Any], Any]:
    """Returns the logarithm of the gamma function, a function of arrays and numbers."""
    return lambda x: math.lgamma(x) if _is_number(x) else npx.gammaln(x)


def erf() -> Callable[[Any], Any]:
    """Returns the error function, of arrays and numbers."""
    return lambda x: math.erf(x) if _is_number(x) else npx.erf(x)


def erfinv() -> Callable[[Any], Any]:
    """Returns the inverse of the error function, of arrays and numbers."""
    return _erfinv


def sample_n_shape_converter(size: Shape) -> Any:
    """Converts a sample size to the form of operators that append the batch shape to it: with -2 in front.

    Args:
        size: an int or a tuple; None and () mean one sample.
    """
    if size is None or size == ():
        return None
    return (-2, *_shape(size))


def _shape(size: Shape) -> tuple[int, ...]:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)


def sum_right_most(x: Value, ndim: int) -> Any:
    """Returns the sum over the last `ndim` axes."""
    return np.sum(x, axis=tuple(range(-ndim, 0))) if ndim else x


def _clip_prob(prob: Value) -> Any:
    """Probabilities that are neither 0 nor 1."""
    return np.clip(prob, _EPS, 1 - _EPS)


def _softplus(x: Value) -> Any:
    """log(1 + exp(x)) that does not overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def prob2logit(prob: Value, binary: bool = True) -> Any:
    """Converts probabilities to logits.

    Args:
        prob: probabilities of 1 (`binary`), or of each class along the last axis.
        binary: whether there are only 0 and 1. Otherwise a class's logit is the logarithm of its
            probability.
    """
    prob = _clip_prob(prob)
    return np.log(prob) - np.log1p(-prob) if binary else np.log(prob)


def logit2prob(logit: Value, binary: bool = True) -> Any:
    """Converts logits to probabilities, by a sigmoid or a softmax along the last axis; arguments as in `prob2logit`."""
    if not binary:
        return npx.softmax(logit)
    return 1 / (1 + math.exp(-logit)) if _is_number(logit) else npx.sigmoid(logit)
