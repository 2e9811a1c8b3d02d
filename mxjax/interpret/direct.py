"""Operators as NumPy computes them, forward and backward, without a trace: the first calls of what networks consist of.

Tracing an operator takes some milliseconds, and its backward more than that; most of these functions take microseconds.
They are used for the first calls of a signature only, and stand beside the operators' own formulas, which they equal but
for the last bits (`tests/interpret/test_operators.py` compares all of them).
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .exact import Unknown

__all__ = ["Form", "Work", "form_of", "need", "numpy_form"]

_FLOATS = frozenset(map(np.dtype, ("f4", "f8")))


class Work(NamedTuple):
    """What a call takes: elements that are read or made one by one, and multiplications in products of matrices."""

    elements: float
    products: float = 0.0


class Form(NamedTuple):
    """An operator by NumPy.

    Attributes:
        forward: function(parameters, *arrays) -> the output, or a tuple of outputs and new values of changed inputs. An
            optional array that is absent is None. Among the parameters are `_train` where the operator asks for the
            mode, and `_key` where it draws: (numbers drawn on the host,), or JAX's key and a counter.
        backward: function(parameters, heads, wanted, *arrays) -> for each array its gradient, or None. `heads` are the
            gradients of the outputs (None: zero), `wanted` says for each array whether its gradient is asked for. None:
            there is no form of the gradients.
        reads: function(parameters, wanted) -> for each array whether `backward` reads its numbers; by default all. The
            arrays that it does not read are zeros of their shape.
        work: function(parameters, *shapes of the arrays) -> `Work` of a forward call; by default that of one pass over
            the inputs.
        mixed: the arrays need not all be floats of one dtype.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Sequence[Any]] | None = None
    reads: Callable[[dict[str, Any], Sequence[bool]], Sequence[bool]] | None = None
    work: Callable[..., Work] | None = None
    mixed: bool = False

    def accepts(self, arrays: Sequence[Any]) -> bool:
        """Returns whether the arrays have dtypes that it is written for."""
        if self.mixed:
            return True
        dtypes = {a.dtype for a in arrays if a is not None}
        return len(dtypes) == 1 and dtypes <= _FLOATS

    def effort(self, params: dict[str, Any], arrays: Sequence[Any]) -> Work:
        """Returns the work of a forward call."""
        shapes = [None if a is None else a.shape for a in arrays]
        if self.work is not None:
            return self.work(params, *shapes)
        return Work(2.0 * sum([math.prod(shape) for shape in shapes if shape is not None]))


_forms: dict[str, Form] = {}
_FAMILIES = ("elementwise", "activations", "products", "convolutions", "pooling", "normalization", "losses",
             "reductions", "indexing", "recurrent", "updates")


def numpy_form(*names: str, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the NumPy form of operators; `fields`: those of `Form` but for `forward`.

    Example:
        >>> @numpy_form("square", backward=lambda p, heads, wanted, x: [2 * x * heads[0]])
        ... def square(p, x):
        ...     return x * x
    """
    def register(forward: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _forms[name] = Form(forward, **fields)
        return forward
    return register


@functools.cache
def form_of(name: str) -> Form | None:
    """Returns the NumPy form of an operator; None where it has none."""
    _load()
    return _forms.get(name)


@functools.cache
def _load() -> None:
    for family in _FAMILIES:
        importlib.import_module(f"{__package__}.operators.{family}")


def need(holds: Any) -> None:
    """Leaves a call to the operator's own formula where a condition does not hold.

    Raises:
        Unknown: it does not.
    """
    if not holds:
        raise Unknown
