"""Deferred calls: `mx.engine.bulk(size)` collects operator calls and runs them as one XLA program.

A segment holds calls whose outputs are `Deferred` values. It runs when somebody looks at one of them, when it is
full, or when the scope ends. Segments of equal structure share a compiled program; only values that somebody still
holds are outputs of it, so XLA fuses away the rest. A structure seen for the first times runs call by call: a
program that keeps changing never pays for compilation.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import jax

from .. import engine
from ..context import Context
from ..ops.kernel import Kernel, run
from ._chunk import Pending

__all__ = ["Deferred", "Segment", "flush"]

_SEEN_BEFORE_COMPILING = 2
_programs: dict[Any, Any] = {}
_lock = threading.RLock()


class Deferred(Pending):
    """An output of a call in a segment."""

    __slots__ = ("segment", "call", "index")

    def __init__(self, segment: Segment, call: int, index: int, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(shape, dtype)
        self.segment, self.call, self.index = segment, call, index

    def force(self) -> None:
        """Runs the segment."""
        self.segment.run()


class Segment:
    """A list of deferred calls on one context.

    Args:
        size: the number of calls after which it runs by itself.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._clear()

    def _clear(self) -> None:
        self.ctx: Context | None = None
        self.wide = False
        self.calls: list[tuple[Kernel, tuple]] = []
        self.outputs: list[list[Deferred]] = []
        self.values: list[Any] = []
        self._known: dict[int, int] = {}

    def accepts(self, ctx: Context) -> bool:
        """Whether calls on this context can be deferred; runs what is there where the context changes."""
        if self.ctx is not None and ctx != self.ctx:
            self.run()
        return True

    def add(self, kernel: Kernel, arrays: Sequence[Any], extras: tuple, target: Any, ctx: Context, wide: bool) -> Any:
        """Defers a call and returns its results (as `invoke` does)."""
        from ._invoke import finish
        with _lock:
            if self.calls and wide != self.wide:
                self.run()
            self.ctx, self.wide = ctx, wide
            args = [a._chunk.pending if a._view is None and a._chunk.pending is not None else a._read()
                    for a in arrays]
            args = [a.value if isinstance(a, Pending) and a.value is not None else a for a in args]
            args = [a.get() if isinstance(a, Pending) and getattr(a, "segment", None) is not self else a for a in args]
            args += extras
            specs = kernel.specs(args)
            refs = tuple(self._reference(a) for a in args)
            number = len(self.calls)
            outputs = [Deferred(self, number, i, *spec) for i, spec in enumerate(specs)]
            self.calls.append((kernel, refs))
            self.outputs.append(outputs)
            full = len(self.calls) >= self.size
        if target is not None and not isinstance(target, (list, tuple)):
            target = (target,)
        result = finish(kernel, arrays, args, outputs, target, ctx)
        del outputs, args
        if full:
            self.run()
        return result

    def _reference(self, arg: Any) -> tuple:
        if isinstance(arg, Deferred):
            return ("call", arg.call, arg.index)
        place = self._known.get(id(arg)) if hasattr(arg, "shape") else None
        if place is None:
            place = len(self.values)
            self.values.append(arg)
            if hasattr(arg, "shape"):
                self._known[id(arg)] = place
        return ("value", place)

    def run(self) -> None:
        """Runs the deferred calls and sets the values that are still wanted."""
        with _lock:
            calls, outputs, values, wide = self.calls, self.outputs, self.values, self.wide
            self._clear()
            if not calls:
                return
            wanted = []
            for row in outputs:
                for i in range(len(row)):
                    if sys.getrefcount(row[i]) > _ALONE:
                        wanted.append(row[i])
            places = tuple((d.call, d.index) for d in wanted)
            key = (tuple((id(k), refs) for k, refs in calls), places, wide)
            entry = _programs.setdefault(key, [0, None, [k for k, _ in calls]])
            entry[0] += 1
            if entry[1] is None and entry[0] > _SEEN_BEFORE_COMPILING:
                entry[1] = Kernel("bulk segment", _composed(calls, places), len(values), len(places))
            if entry[1] is not None:
                results = run(entry[1], values, wide)
            else:
                results = _one_by_one(calls, values, places, wide)
            for deferred, value in zip(wanted, results, strict=True):
                deferred.value = value


def _lookup(ref: tuple, values: Sequence[Any], done: list[Sequence[Any]]) -> Any:
    return values[ref[1]] if ref[0] == "value" else done[ref[1]][ref[2]]


def _composed(calls: list[tuple[Kernel, tuple]], places: tuple) -> Any:
    """One function of the external values that does all calls."""
    def fn(*values: Any) -> tuple:
        done: list[Sequence[Any]] = []
        for kernel, refs in calls:
            done.append(kernel.fn(*[_lookup(r, values, done) for r in refs]))
        return tuple(done[c][i] for c, i in places)
    return fn


def _one_by_one(calls: list[tuple[Kernel, tuple]], values: list[Any], places: tuple, wide: bool) -> list[Any]:
    done: list[Sequence[Any]] = []
    for kernel, refs in calls:
        done.append(run(kernel, [_lookup(r, values, done) for r in refs], wide))
    return [done[c][i] for c, i in places]


def _references_alone() -> int:
    """What `sys.getrefcount` says in `Segment.run` of an output that only its segment holds."""
    row = [Deferred(Segment(1), 0, 0, (), jax.numpy.dtype("float32"))]
    i = 0
    return sys.getrefcount(row[i])


_ALONE = _references_alone()


def flush() -> None:
    """Runs this thread's deferred calls."""
    from ._invoke import state
    if state.segment is not None:
        state.segment.run()


def _bulk_changed(*_: Any) -> None:
    """A bulk scope began, ended or changed its size (hook of the engine)."""
    from ._invoke import state
    flush()
    size = engine.bulk_size()
    state.segment = Segment(size) if size > 1 else None
