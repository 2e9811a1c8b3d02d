"""Calls as one function: those of a trace, of a backward pass, and of the update of all weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..kernel.shape_only import ShapeOnly

__all__ = ["Call", "Numbers", "Ref", "arguments", "composed", "compute"]


class Numbers(NamedTuple):
    """A reference to a part of the vector that is the last value."""

    start: int
    stop: int


# An argument of a call: the position of a value, a result of an earlier call (its number, which of its results), or
# numbers. A constant is the argument itself.
Ref = int | tuple[int, int] | Numbers | float | ShapeOnly
Call = tuple[Callable[..., Sequence[Any]], Sequence[Ref]]  # a function and its arguments


def arguments(refs: Sequence[Ref], values: Sequence[Any], done: Sequence[Sequence[Any]]) -> list[Any]:
    """Returns the arguments of a call, from the values and the results of the calls before it."""
    args = []
    for ref in refs:
        if type(ref) is int:
            args.append(values[ref])
        elif type(ref) is tuple:
            args.append(done[ref[0]][ref[1]])
        else:
            args.append(values[-1][ref.start:ref.stop] if type(ref) is Numbers else ref)
    return args


def compute(calls: Sequence[Call], values: Sequence[Any], done: list[Sequence[Any]]) -> None:
    """Computes calls in order, and appends the results of each to `done`."""
    for function, refs in calls:
        done.append(function(*arguments(refs, values, done)))


def composed(calls: Sequence[Call], outputs: Sequence[tuple[int, int]], at: int = 0,
             before: Callable[..., None] | None = None) -> Callable[..., tuple]:
    """Returns one function of the values for all calls.

    Args:
        calls: the calls in order.
        outputs: the results to return: (number of the call, which of its results).
        at: number of a call.
        before: function(calls from `at` on, values, results) to run before this call. It may replace values and
            results.
    """
    def fn(*values: object) -> tuple:
        inputs, done = list(values), list[Sequence[Any]]()
        if before is not None:
            compute(calls[:at], inputs, done)
            before(calls[at:], inputs, done)
        compute(calls[len(done):], inputs, done)
        return tuple([done[number][index] for number, index in outputs])
    return fn
