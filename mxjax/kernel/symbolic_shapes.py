"""Traces with symbolic sizes, for programs whose sizes depend on data, so that few shapes recur.

Tracing takes a few milliseconds per new shape. A function that has been traced for several shapes
is traced once more with symbols for the varying sizes; NumPy then needs no trace for the next
shape.

JAX raises an error for decisions that depend on a symbol; then there is no such trace. The
exception is the equality of two sizes, for which JAX answers no if it cannot decide. So this must
not be used for functions that treat a particular size (other than 0 and 1) differently.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jax.extend.core import ClosedJaxpr

from .._xla.process import forked
from .._xla.tracing import settings
from ..interpret.calls import Interpreted
from ..interpret.cost import Cost, cost_of
from ..interpret.program import ByLeaves, Rules, as_it_is, by_numpy
from ..interpret.rules import RULES, RULES_IN_FORKS
from ..ops.by_device import traced_for
from ..passes.division import with_quotients
from .policy import VARIED_SHAPES, Variety
from .shape_only import ShapeOnly

__all__ = ["TREES", "SymbolicTrace", "SymbolicTraces"]

_MOST = 1 << 17  # limit of a size and, for NumPy, of the elements of an argument
_NAMES = "abcdefgh"
_TRIALS = 3  # attempts of a symbolic trace per kind of calls: others vary, or the function needs sizes
TREES = frozenset([tuple, list, dict, type(None)])  # arguments that are structures of arrays
_KINDS = 64  # kinds of calls stored per function


@functools.cache
def _symbols() -> tuple[Any, ...]:
    """Symbolic sizes. They are always the same, because JAX caches traces and does not compare symbols of two
    scopes."""
    bounds = [f"{name} {bound}" for name in _NAMES for bound in (">= 2", f"<= {_MOST}")]
    return tuple(export.symbolic_shape(", ".join(_NAMES), scope=export.SymbolicScope(bounds)))


class SymbolicTrace:
    """A traced function of arrays with symbolic sizes.

    Args:
        closed: the trace.
        sizes: sizes of all arguments in sequence: a number, or the name of a symbol.
    """

    __slots__ = ("closed", "sizes")

    def __init__(self, closed: ClosedJaxpr, sizes: tuple[int | str, ...]) -> None:
        self.closed, self.sizes = closed, sizes

    def values(self, sizes: Sequence[int]) -> dict[str, int] | None:
        """Returns the values of the symbols for arguments of these sizes; None if the trace does not match."""
        values: dict[str, int] = {}
        for expected, size in zip(self.sizes, sizes, strict=True):
            if (values.setdefault(expected, size) if isinstance(expected, str) else expected) != size:
                return None
        return values

    def specs(self, sizes: Sequence[int]) -> tuple[tuple[tuple[int, ...], np.dtype], ...] | None:
        """Returns (shape, dtype) of each result for arguments of these sizes; None if the trace does not match."""
        number = self._number(sizes)
        return None if number is None else tuple([
            (tuple(map(number, v.aval.shape)), np.dtype(v.aval.dtype)) for v in self.closed.jaxpr.outvars])

    def _number(self, sizes: Sequence[int]) -> Callable[[Any], Any] | None:
        """Returns function(size) -> its value for arguments of these sizes."""
        values = self.values(sizes)
        known: dict[int, int] = {}  # by identity: expressions are hard to compare

        def number(size: Any) -> Any:
            if not hasattr(size, "_evaluate"):
                return size
            cached = known.get(id(size))
            if cached is None:
                cached = known[id(size)] = int(size._evaluate(values))
            return cached
        return None if values is None else number

    def at(self, sizes: Sequence[int]) -> tuple[ByLeaves, Cost] | None:
        """Returns the NumPy function for arguments of these sizes, and its cost; None if there is none."""
        number = self._number(sizes)
        if number is None:
            return None
        result = by_numpy(self.closed, _rules(), number)
        return None if result is None else (result, cost_of(self.closed, number))


class _Calls:
    """Calls whose arguments differ only in sizes; `tree`: structure of their results."""

    __slots__ = ("tree", "form", "seen", "trials", "variety")

    def __init__(self) -> None:
        self.tree: Any = None
        self.form: SymbolicTrace | None = None
        self.seen: list[tuple[int, ...]] = []
        self.trials = 0
        self.variety = Variety()


class SymbolicTraces:
    """Finds NumPy functions for a function of arrays that keeps meeting new sizes.

    Args:
        function: a pure function of arrays.
        symbols: whether symbolic sizes are allowed: the function depends on no particular size
            except 0 and 1.
    """

    __slots__ = ("function", "_symbols", "_calls")

    def __init__(self, function: Callable[..., Any], symbols: bool) -> None:
        self.function, self._symbols = function, symbols
        self._calls: dict[Hashable, _Calls] = {}

    def note(self, args: Sequence[Any]) -> bool:
        """Registers a new signature; returns whether new sizes keep appearing."""
        return self._noted(args).variety.note()

    def general(self, args: Sequence[Any]) -> SymbolicTrace | None:
        """Returns the trace for arguments like these with symbolic sizes; None if there is none (yet).

        args: arrays or ShapeDtypeStructs.
        """
        calls = self._noted(args)
        if self._symbols and self._is_time(calls):
            with contextlib.suppress(Exception), _collected():
                calls.form = self._traced(args, list(calls.seen), None)
        return calls.form if calls.form is not None and calls.form.values(_sizes(args)) is not None else None

    def specs(self, args: Sequence[Any]) -> tuple[tuple[tuple[int, ...], np.dtype], ...] | None:
        """Returns (shape, dtype) of each result by a symbolic trace; None if there is none (yet)."""
        general = self.general(args)
        return None if general is None else general.specs(_sizes(args))

    def _noted(self, args: Sequence[Any]) -> _Calls:
        dtypes = _dtypes_of(args)
        calls = self._calls.get(dtypes)
        if calls is None:
            if len(self._calls) >= _KINDS:
                self._calls.clear()
            calls = self._calls[dtypes] = _Calls()
        if calls.trials < _TRIALS:
            calls.seen.append(_sizes(args))
        return calls

    @staticmethod
    def _is_time(calls: _Calls) -> bool:
        """Returns whether to try a trace with symbols; if so, that counts as tried."""
        tries = calls.trials < _TRIALS and len(calls.seen) >= VARIED_SHAPES << calls.trials
        calls.trials += tries
        return tries

    def find(self, args: Sequence[Any]) -> Interpreted | None:
        """Returns the known NumPy function for arguments like these, if any."""
        calls = self._calls.get(_dtypes_of(args)) if self._calls else None
        if calls is None or calls.form is None:
            return None
        result = calls.form.at(_sizes(args))
        return None if result is None else Interpreted(result[0], calls.tree, result[1])

    def trace(self, args: Sequence[Any], target: str) -> Interpreted | None:
        """Returns the NumPy function by a trace for these sizes; None if an operation has no NumPy form.

        kind: kind of device for which the function is traced.
        """
        with traced_for(target):
            closed, shapes = jax.make_jaxpr(self.function, return_shape=True)(*args)
        closed, tree = with_quotients(closed, on_cpu=True), jax.tree.structure(shapes)
        result = by_numpy(closed, _rules())
        if result is None:
            return None
        self.learn(args, result, tree, target)
        return Interpreted(result, tree, cost_of(closed, as_it_is))

    def clear(self) -> None:
        """Clears all traces."""
        self._calls.clear()

    def learn(self, args: Sequence[Any], function: ByLeaves, tree: object, target: str) -> None:
        """Registers a call for which a trace was necessary.

        Args:
            args: its arguments.
            function: the NumPy function for them.
            tree: structure of the results.
            target: kind of device for which the function is traced.
        """
        calls = self._calls.get(_dtypes_of(args))
        if self._symbols and calls is not None and self._is_time(calls):
            with contextlib.suppress(Exception), _collected():
                form = self._traced(args, list(calls.seen), target)
                result = None if form is None else form.at(_sizes(args))
                if result is not None and _same(result[0], function, args):
                    calls.form, calls.tree = form, tree

    def _traced(self, args: Sequence[Any], seen: list[tuple[int, ...]], target: str | None) -> SymbolicTrace | None:
        """Returns the function for arguments with symbols for varying sizes, the same one for sizes that vary
        together."""
        columns = list(zip(*seen, strict=True))
        varying = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
        if not varying or len(varying) > len(_NAMES):
            return None
        symbols = dict(zip(varying, _symbols(), strict=False))
        sizes = iter([symbols.get(column, column[0]) for column in columns])
        leaves, tree = _flat(args)
        specs = []
        for leaf in leaves:
            if hasattr(leaf, "shape"):
                shape = tuple([next(sizes) for _ in leaf.shape])
                weak = {"weak_type": leaf.weak_type} if isinstance(leaf, jax.Array) else {}
                leaf = (ShapeOnly if type(leaf) is ShapeOnly else jax.ShapeDtypeStruct)(shape, leaf.dtype, **weak)
            specs.append(leaf)
        with traced_for(target):
            closed = with_quotients(jax.make_jaxpr(self.function)(*jax.tree.unflatten(tree, specs)), on_cpu=True)
        return SymbolicTrace(closed, tuple([str(symbols[c]) if c in symbols else c[0] for c in columns]))


@contextlib.contextmanager
def _collected() -> Iterator[None]:
    """A block with symbols: errors that JAX catches keep the arguments of all callers in reference cycles."""
    try:
        yield
    finally:
        gc.collect(1)


def _rules() -> Rules:
    return RULES_IN_FORKS if forked() else RULES


def _flat(args: Sequence[Any]) -> tuple[list[Any], Any]:
    """Returns the arrays and numbers among arguments, and their structure."""
    return jax.tree.flatten(args, is_leaf=lambda one: type(one) is ShapeOnly)


def _dtypes_of(args: Sequence[Any]) -> Hashable:
    """Returns the common key of calls whose arguments differ only in sizes.

    The sizes 0 and 1 are distinguished.
    """
    if TREES.isdisjoint(map(type, args)):
        return (settings.jax_enable_x64, *map(_kind_of, args))
    leaves, tree = _flat(args)
    return (tree, settings.jax_enable_x64, *map(_kind_of, leaves))


def _kind_of(leaf: Any) -> Hashable:
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return type(leaf)
    return (type(leaf) is ShapeOnly, leaf.dtype, getattr(leaf, "weak_type", False),
            tuple([2 if n > 2 else n for n in shape]))


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    leaves = args if TREES.isdisjoint(map(type, args)) else _flat(args)[0]
    return tuple([n for leaf in leaves for n in getattr(leaf, "shape", ())])


def _same(one: ByLeaves, other: ByLeaves, args: Sequence[Any]) -> bool:
    """Returns whether both results are equal except for the last bits."""
    leaves = jax.tree.leaves(args)
    result, expected = one(leaves), other(leaves)
    return result is not None and expected is not None and all([
        f.shape == e.shape and f.dtype == e.dtype and (
            f.tobytes() == e.tobytes() or np.allclose(f, e, 1e-5, 1e-5, equal_nan=True))
        for f, e in zip(result, expected, strict=True)])
