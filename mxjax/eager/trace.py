"""Deferred calls: `mx.engine.bulk(size)` collects operator calls and runs them as one XLA program.

A trace contains calls whose outputs are pending values. It runs when one of them is read, when it
is full, or when the scope ends. Segments of equal structure share a compiled program. Only values
that are still referenced are its outputs, so XLA fuses the others away, and values that are no
longer referenced are donated. A new structure first runs call by call, so a program that keeps
changing is never compiled.

A trace belongs to the thread whose calls it collects, but any thread that reads a value runs it. A
thread with its lock never waits: values from other traces are computed before the lock is acquired.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from sys import getrefcount
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.sharding import NamedSharding

from .. import engine
from ..base import MXNetError
from ..context import Context
from ..interpret.calls import interpreting
from ..kernel.kernel import Kernel, run
from ..kernel.policy import TRIALS, Programs
from ..ops.by_device import for_cpus
from ..passes.all_gather import gathered
from .chunk import ALONE, RLock
from .compose import Call, Numbers, Ref, arguments, composed
from .modes import Collecting, state
from .program import run_giving
from .promise import Promise, apart, as_buffer, identity, on_one_device

__all__ = ["Trace", "TracePromise", "bulk_changed", "deferred", "flush"]

Ways = Sequence[tuple[NamedSharding, NamedSharding] | None]  # shardings of values, and those where they are used
_programs = Programs()


_BEHIND = 1 << 60
_place = operator.attrgetter("place")


class TracePromise(Promise):
    """A result of a call in a trace. Over a mesh it stays there, and readers get a copy on one device.

    place: position of the array's previous value among the trace's values; whole: the buffers on
    all devices of a mesh; sharding: their sharding, if they replace no value.
    """

    __slots__ = ("trace", "turn", "call", "index", "failure", "place", "whole", "sharding")
    trace: Trace | None
    failure: BaseException | None
    whole: jax.Array | None
    sharding: NamedSharding | None

    def __init__(self, trace: Trace, call: int, index: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self.trace = trace
        self.turn, self.call, self.index = trace.turn, call, index
        self.failure = None
        self.place, self.whole, self.sharding = _BEHIND, None, None

    @classmethod
    def of_sharded(cls, value: jax.Array) -> TracePromise:
        """Returns the promise of an existing value that is sharded over the devices of a mesh."""
        result = cls.__new__(cls)
        Promise.__init__(result, value.shape, value.dtype)
        result.trace = result.failure = result.sharding = None
        result.whole, result.place, result.turn = value, _BEHIND, 0
        return result

    @property
    def stays(self) -> bool:  # type: ignore[override]
        """Returns whether the value is sharded, and may exceed the memory of one device."""
        return self.whole is not None and (self.trace is None or not self.whole.is_fully_replicated)

    def buffer_or_none(self) -> Any:
        """Returns the buffer, or those on all devices; None while they are pending."""
        return self.value if self.whole is None else self.whole

    def follows(self, old: Any) -> None:
        """Records the value that it replaces."""
        if self.trace is None:
            return
        available = not isinstance(old, TracePromise) or not self.trace.holds(old)
        self.place = self.trace.place(identity(old)) if available else old.place

    def force(self) -> None:
        """Runs the trace, or raises the error of an earlier run."""
        if self.trace is not None and self.whole is None and self.failure is None:
            self.trace.run()
        if self.failure is not None:
            raise self.failure
        if self.whole is not None:
            self.value = on_one_device(self.whole)


# The results of a run, the promises for them, its arguments, and the number of external ones.
_Outcome = tuple[list[tuple], list[TracePromise], list[Any], int]


class Trace:
    """A list of deferred calls on one context.

    Args:
        size: number of calls after which it runs automatically.
        trials: number of times a structure runs call by call before it is compiled.
    """

    def __init__(self, size: int, trials: int = TRIALS) -> None:
        self.size, self.trials = size, trials
        self.whole = trials == 0  # it is one program, regardless of its calls; a training step
        self.turn = 0  # number of runs
        self.watched = False  # whether to keep the last run: program, results, donated arguments
        self.ran: tuple[Kernel, list[TracePromise], list[int]] | None = None
        self.lock, self.running = RLock(), False
        self._outcome: _Outcome | None = None  # of an unfinished run
        self._clear()

    def _clear(self) -> None:
        self.turn += 1
        self.ctx: Context | None = None
        self.x64 = False
        self.calls: list[tuple[Kernel, tuple[Ref, ...]]] = []
        self.outputs: list[list[TracePromise]] = []
        self.values: list[Any] = []
        self._known: dict[int, int] = {}  # position by identity; the objects are kept alive
        self._sources: list[Any] = []
        self.numbers: list[np.ndarray] = []  # vectors of dynamic parameters, which are passed as one argument
        self._count = 0
        self._first_update = 0
        self._lent: list[Any] = []  # buffers whose memory is used without a Python reference

    def accepts(self, ctx: Context) -> bool:
        """Returns whether calls on this context can be deferred; runs the collected calls if the context changes."""
        if self.ctx is not None and ctx != self.ctx:
            self.run()
        return True

    def defer(self, kernel: Kernel, args: list[Any], ctx: Context, x64: bool,
              lent: Sequence[Any] = ()) -> list[TracePromise]:
        """Defers a call on buffers, Promise values and extras, and returns its results. In `args`,
        Promises that are computed or belong to other traces are replaced by buffers. Buffers in
        `lent` are not donated."""
        if self.calls and x64 != self.x64:
            self.run()
        while True:
            for i, a in enumerate(args):  # without the lock, because it may wait for that of another trace
                if isinstance(a, Promise) and not self.holds(a):
                    a.join(self)
                    promised = getattr(a, "call", None)  # the result of a lazy call, which this trace computes
                    args[i] = promised if self.holds(promised) else self._taken(a)
            with self.lock:
                if not all([self.holds(a) for a in args if isinstance(a, Promise)]):
                    continue  # another thread has run them meanwhile
                self.ctx, self.x64 = ctx, x64
                self._lent += lent
                refs = tuple([self._reference(a) for a in args])
                number = len(self.calls)
                outputs = [TracePromise(self, number, i, *spec) for i, spec in enumerate(kernel.specs(args, True))]
                self.calls.append((kernel, refs))
                self.outputs.append(outputs)
                return list(outputs)

    def holds(self, value: object) -> bool:
        """Returns whether a value belongs to a call that has not run yet."""
        return isinstance(value, TracePromise) and value.trace is self and value.turn == self.turn

    def spread(self, batch: object) -> Any:
        """Returns an array that is sharded over the trace's devices like a batch."""
        return batch

    def updating(self) -> None:
        """Marks that the following calls update parameters."""
        self._first_update = len(self.calls)

    def takes(self, pending: Promise) -> bool:
        """Returns whether calls accept a value directly."""
        return getattr(pending, "trace", None) is self

    def place(self, buffer: int) -> int:
        """Returns the position of a buffer with this identity among the inputs of the calls, or the
        position after all of them.
        """
        return self._known.get(buffer, _BEHIND)

    def _taken(self, pending: Promise) -> Any:
        """Returns the value of a Promise from outside."""
        return pending.get()

    def _placed(self, value: object) -> Any:
        """Returns an external value as an argument of the program."""
        return value

    def _reference(self, arg: object) -> Ref:
        if isinstance(arg, TracePromise):
            return arg.call, arg.index
        if isinstance(arg, np.ndarray) and arg.dtype == np.float32 and arg.ndim == 1:
            self.numbers.append(arg)
            self._count += len(arg)
            return Numbers(self._count - len(arg), self._count)
        place = self._known.get(id(arg)) if hasattr(arg, "shape") else None
        if place is None:
            place = len(self.values)
            self.values.append(self._placed(arg))
            if self.values[-1] is not arg:
                self._sources.append(arg)
            if hasattr(arg, "shape"):
                self._known[id(arg)] = place
        return place

    def _form(self, values: Sequence[Any], promises: Sequence[TracePromise]) -> tuple[Any, dict[str, Any]]:
        """Returns (the key of the program besides its calls, options of `jax.jit`)."""
        return None, {}

    def _ways(self, values: Sequence[Any]) -> Ways | None:
        """Returns how the values are sharded over a mesh; None: there is none."""
        return None

    def _function(self, values: Sequence[Any], places: tuple) -> Callable[..., tuple]:
        """Returns the calls as one function of the values; places: positions of the required results."""
        ways, first_update, calls = self._ways(values), self._first_update, []
        for number, (kernel, refs) in enumerate(self.calls):
            function, to = kernel.within, [ways[ref] if ways and type(ref) is int else None for ref in refs]
            if any(to) and number >= first_update:
                function = _sharding_gradients(function, refs, to, first_update)
            elif any(to) and any(split := [way if way and way[0] != way[1] else None for way in to]):
                function = gathered(function, split)
            calls.append((function, refs))
        return composed(calls, places, first_update, _wait if first_update and ways is None else None)

    def run(self) -> None:
        """Runs the deferred calls and sets the values that are still referenced.

        If it is interrupted (Ctrl-C) before any buffer is donated, nothing changes, and the calls
        run at the next read.
        """
        with self.lock:
            if self._outcome is not None and not self.running:  # an interrupt occurred before the results were stored
                self._conclude(self._outcome, None)
            if not self.calls:
                return
            if self.running:
                raise MXNetError("a value is read while the program that computes it runs in this thread (from a "
                                 "signal handler or a destructor): read it later")
            self.running = True
            try:
                self._run()
            finally:
                self.running = False

    def as_function(self) -> tuple[Callable[..., tuple], list[Any], list[int]]:
        """Returns (the deferred calls as a pure function, its arguments, the argument that each result replaces).

        The calls do not run, and the trace is cleared.
        """
        values, promises = self._arguments(), self._promises()
        replaced = [min(d.place, len(values)) for d in promises]
        function = self._function(values, tuple([(d.call, d.index) for d in promises]))
        for deferred in promises:
            deferred.failure = MXNetError("the value belongs to a step that was planned, not executed")
        self._clear()
        return function, values, replaced

    def _arguments(self) -> list[Any]:
        """Returns the arguments of the program: the external values, and all numbers as one vector."""
        return [*self.values, np.concatenate(self.numbers)] if self.numbers else [*self.values]

    def _deliver(self, promise: TracePromise, value: jax.Array) -> None:
        """Delivers a result to its promise."""
        promise.value = value

    def _promises(self) -> list[TracePromise]:
        """Returns the results that are still referenced, in the order of the values that they replace.

        JAX assigns the memory of arguments to results of their shape and dtype in the order of both. In another order,
        XLA would have to copy values that are overwritten before they are read.
        """
        promises = []
        for row in self.outputs:
            for i in range(len(row)):
                if getrefcount(row[i]) > ALONE:
                    promises.append(row[i])
        promises.sort(key=_place)
        return promises

    def _run(self) -> None:
        calls, values, x64, promises = self.calls, self._arguments(), self.x64, self._promises()
        places = tuple([(d.call, d.index) for d in promises])
        form, options = self._form(values, promises)
        again = self._first_update > 0  # a training step, whose results are arguments of the next one
        program = _programs.find(
            (tuple(calls), places, x64, form, self._first_update),
            lambda: Kernel("bulk trace", self._function(values, places), len(values), len(places),
                           parts=not options, options={**options, "again": again, "trains": again}),
            self.trials)
        results: list[tuple] = []
        outcome = self._outcome = results, promises, values, len(self.values)
        self.values.clear()  # now only `values` refers to the values that may be donated
        failure: BaseException | None = None
        try:
            if program is None:
                each = [(functools.partial(_run, kernel, x64), refs) for kernel, refs in calls]
                results.append(tuple(map(as_buffer, composed(each, places)(*values))))
            else:
                self._compiled(program, values, promises, x64, results)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._conclude(outcome, failure)

    def _conclude(self, outcome: _Outcome, failure: BaseException | None) -> None:
        """Delivers the results of a run, or its error; an interrupted run will be repeated."""
        results, promises, values, count = outcome
        self.values = values[:count]
        if results:
            for deferred, value in zip(promises, results[0], strict=True):
                self._deliver(deferred, value)
            self._clear()
        elif isinstance(failure, Exception) or any([_deleted(value) for value in self.values]):
            for deferred in promises:
                deferred.failure = failure or MXNetError("the program that computes this value was interrupted when it "
                                                         "had already overwritten its inputs")
            self._clear()
        self._outcome = None

    def _compiled(self, kernel: Kernel, values: list[Any], promises: list[TracePromise], x64: bool,
                  delivered: list[tuple]) -> None:
        """Stores the results of the trace's program in `delivered`; the program may overwrite values without other
        owners."""
        room = Counter([(d.shape, d.dtype) for d in promises])
        replaced = {d.place for d in promises} if self.whole else ()
        free = []
        for i in range(len(values)):
            alone = getrefcount(values[i]) == ALONE
            if (alone or i in replaced) and isinstance(values[i], jax.Array) and \
                    not isinstance(values[i], Tracer) and room[values[i].shape, values[i].dtype] > 0:
                room[values[i].shape, values[i].dtype] -= 1
                free.append(i)
                if not alone:
                    self._sources.append(values[i])
                    values[i] = apart(values[i])
        if self.watched:
            self.ran = kernel, promises, free
        run_giving(kernel, values, x64, free, delivered)


def _deleted(value: object) -> bool:
    return isinstance(value, jax.Array) and not isinstance(value, Tracer) and value.is_deleted()


def _run(kernel: Kernel, x64: bool, *args: Any) -> Sequence[Any]:
    return run(kernel, args, x64, host=True)


def _sharding_gradients(function: Callable[..., tuple], refs: Sequence[Ref], to: Sequence[Any],
                        first_update: int) -> Callable[..., tuple]:
    """Returns an update that shards the gradient of each weight, which is the sum over all devices.

    Otherwise, XLA would let each device compute its shard from the data of all devices.
    """
    def update(*values: Any) -> tuple:
        args, weight = list(values), None
        for i, ref in enumerate(refs):
            if to[i] is not None:
                weight = i
            elif weight is not None and type(ref) is tuple and ref[0] < first_update and \
                    args[i].shape == args[weight].shape:
                args[i] = lax.with_sharding_constraint(args[i], to[weight][1])
        return function(*args)
    return update


def _wait(updates: Sequence[Call], values: list[Any], done: list[Sequence[Any]]) -> None:
    """Delays the updates of convolution weights until all their gradients are available.

    Then a weight has no more readers and can be overwritten. Otherwise XLA copies it first, because a program does not
    order the gradient by a layer's data before the layer's update. For dense layers, the copies cost less than keeping
    all gradients at once (docs/design/0011).
    """
    if interpreting() or not for_cpus():
        return
    refs = {ref for _, each in updates for ref in each}
    read = sorted([ref for ref in refs if type(ref) is tuple and ref[0] < len(done)])
    read += sorted([ref for ref in refs if type(ref) is int])
    read = [ref for ref, arg in zip(read, arguments(read, values, done), strict=True) if np.ndim(arg) > 2]
    for ref, value in zip(read, lax.optimization_barrier(arguments(read, values, done)), strict=True):
        if isinstance(ref, tuple):
            number, index = ref
            done[number] = [*done[number][:index], value, *done[number][index + 1:]]
        else:
            values[ref] = value


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A `with` scope whose calls become one program, compiled on first use; inside another trace it does nothing."""
    if state.trace is not None:
        yield
        return
    with Collecting(Trace(1 << 30, trials=0)) as trace:
        yield
    trace.run()  # not reached after an error: deferred calls run when a value is read


def flush() -> None:
    """Runs this thread's deferred calls."""
    for trace in (state.bulk, state.trace):
        if trace is not None:
            trace.run()


def bulk_changed(*_: object) -> None:
    """Handles the start, end or resize of a bulk scope (a hook of the engine)."""
    if state.bulk is not None:
        state.bulk.run()
    size = engine.bulk_size()
    state.bulk = Trace(size) if size > 1 else None
    if not state.scopes:
        state.trace = state.bulk
