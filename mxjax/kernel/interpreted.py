"""The backend that needs no compiler: a program's first calls by NumPy, and all of those whose sizes keep changing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..interpret.calls import of_arrays
from ..interpret.exact import by_numpy, moved_by_numpy
from .policy import calls_at_first
from .symbolic_shapes import SymbolicTraces

__all__ = ["InterpreterBackend"]

_ONE = jax.tree.structure((0,))  # what a call with one result gives


class InterpreterBackend:
    """Computes a function for some of the signatures that it is called with, by NumPy.

    Args:
        function: a pure function of arrays.
        moves: function(*arrays) -> the only result, where that is arguments' numbers elsewhere, by NumPy.
        any_size: the function nowhere asks whether a size is a certain number, but for 0 and 1 (see `SymbolicTraces`).
        rounds: whether it may be computed but for the last bits.
    """

    __slots__ = ("sizes", "_moves", "_rounds")

    def __init__(self, function: Callable, moves: Callable[..., np.ndarray] | None, any_size: bool,
                 rounds: bool) -> None:
        self.sizes = SymbolicTraces(function, any_size)
        self._moves, self._rounds = moves, rounds

    def executable(self, args: Sequence[Any], kind: str, elements: int, small: bool, varied: bool,
                   trace: Callable[[], Any | None], then: Callable[..., Any],
                   last: Callable[[], None]) -> Callable | None:
        """Returns the executable for the first calls of a signature; None where XLA computes all of them.

        Args:
            args: arguments of the signature.
            kind: of the device that the function is traced for.
            elements: of all arguments.
            small: whether these are few enough to be computed exactly.
            varied: whether the function has had many signatures.
            trace: function() -> the trace for these arguments, or None where its results are too many.
            then: the function that XLA computes.
            last: called at the last call that NumPy computes, or the first one that is for XLA after all.
        """
        nearly = self.sizes.note(args, elements) and self._rounds
        if small and self._moves:
            count = calls_at_first(True, elements, nearly)
            return of_arrays(moved_by_numpy(self._moves, len(args)), _ONE, count, then, last)
        found = None
        if small or nearly:
            found = self.sizes.find(args, nearly) or (self.sizes.trace(args, kind) if nearly else None)
        if found is not None:
            count = calls_at_first(True, elements, nearly, found.cost.calls)
            return of_arrays(found.function, found.tree, count, then, last)
        traced = trace() if small else None
        exact = None if traced is None else by_numpy(traced.jaxpr)
        if traced is None or exact is None:
            return None
        tree = jax.tree.structure(traced.out_info)
        self.sizes.learn(args, exact, tree, kind)
        return of_arrays(exact, tree, calls_at_first(varied, elements), then, last)

    def in_fork(self, args: Sequence[Any], refuse: Callable[..., Any]) -> Callable | None:
        """Returns the executable for all calls of a signature in a forked child; None where NumPy has no form of it."""
        self.sizes.note(args, 0)
        if self._moves:
            found = moved_by_numpy(self._moves, len(args), exact=False), _ONE
        else:
            computed = self.sizes.find(args, nearly=True) or self.sizes.trace(args, "cpu")
            if computed is None:
                return None
            found = computed.function, computed.tree
        return of_arrays(*found, sys.maxsize, refuse, lambda: None)
