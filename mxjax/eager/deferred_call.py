"""Recorded calls that compute nothing until somebody looks at a result, or a backward pass comes.

If the backward comes first, all that is left of the forward and the whole walk back run as one XLA program
(`mxjax.eager.backward`). If somebody looks first, that call's forward runs and keeps what the backward needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .._support.bounded import Bounded
from ..context import Context
from ..kernel.kernel import Kernel, run
from ..kernel.policy import Programs
from .chunk import RLock
from .modes import state
from .promise import Promise, identity
from .trace import Trace, TracePromise

__all__ = ["Call", "CallPromise", "DeferredCall", "Part", "after", "call_of", "may_wait", "pull_of"]


class Part(Protocol):
    """What lazy calls of one kind are within a program, known by its identity.

    kernel: the whole call, for derivatives of higher order; places: which arguments get gradients; programs: those
    that begin with such a call.
    """

    kernel: Kernel
    places: Sequence[int]
    programs: Programs

    def trace(self, args: Sequence[Any], mirror: bool) -> tuple[Sequence[Any], Callable[[list[Any]], Sequence[Any]]]:
        """(results, function of the outputs' gradients -> the arguments'), within a program; None: no gradient.

        Args:
            args: the arguments' values.
            mirror: compute in the backward again what would have to be kept.
        """

    def traced_pull(self, saved: Any, outs: Sequence[tuple], count: int) -> Callable[[list[Any]], Sequence[Any]]:
        """That function where the forward has run: of what it has saved, outputs of these specs, `count` arguments."""

    def forward(self, args: Sequence[Any], wide: bool) -> tuple[Sequence[Any], Any]:
        """(results, what is to be saved), computed at once."""

    def pull(self, saved: Any, heads: Sequence[Any], outs: Sequence[tuple], wide: bool) -> Sequence[Any]:
        """Gradients of the arguments at `places`, computed at once."""


class Call:
    """An operator's call on results of a graph's run that waits, as a `Part`.

    Args:
        kernel: the operator.
        wanted: for each argument whether its gradient is asked for.
    """

    def __init__(self, kernel: Kernel, wanted: Sequence[bool]) -> None:
        self.kernel, self.programs, self._wanted = kernel, Programs(64), tuple(wanted)
        self.places = [i for i, w in enumerate(wanted) if w]

    def trace(self, args: Sequence[Any], mirror: bool) -> tuple[Sequence[Any], Callable[[list[Any]], Sequence[Any]]]:
        """See `Part.trace`."""
        return self.kernel.fn(*args), self.traced_pull(args, (), len(args))

    def traced_pull(self, saved: Any, outs: Sequence[tuple], count: int) -> Callable[[list[Any]], Sequence[Any]]:
        """See `Part.traced_pull`."""
        return pull_of(self.kernel, self._wanted, saved)

    def forward(self, args: Sequence[Any], wide: bool) -> tuple[Sequence[Any], Any]:
        """See `Part.forward`."""
        return run(self.kernel, list(args), wide), list(args)

    def pull(self, saved: Any, heads: Sequence[Any], outs: Sequence[tuple], wide: bool) -> Sequence[Any]:
        """See `Part.pull`."""
        backward = self.kernel.vjp(self._wanted, tuple([head is not None for head in heads]))
        return run(backward, [*saved, *[head for head in heads if head is not None]], wide)


def pull_of(kernel: Kernel, wanted: tuple[bool, ...], args: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """The function of the outputs' gradients (None: zero) that gives those of the arguments, within a program."""
    def pull(slots: list[Any]) -> Sequence[Any]:
        if not any(wanted):
            return ()
        heads = tuple([s is not None for s in slots] + [False] * (kernel.num_outputs - len(slots)))
        grads = iter(kernel.vjp(wanted, heads).fn(*args, *[s for s in slots if s is not None]))
        return [next(grads) if w else None for w in wanted]
    return pull


class CallPromise(Promise):
    """A result of a call that has not run yet."""

    __slots__ = ("call", "over")

    def __init__(self, call: DeferredCall, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.value, self.over = shape, dtype, None, 0
        self.call: DeferredCall | Promise | None = call  # what will have the value: the call, or a trace's promise

    def follows(self, old: Any) -> None:
        """Tells a trace, now or when it promises the value."""
        self.over = identity(old)
        if isinstance(self.call, TracePromise):
            self.call.place = self.call.trace.place(self.over)

    def join(self, trace: Trace) -> None:
        """Has a trace that is one program run the forward, too."""
        if trace.whole and isinstance(self.call, DeferredCall):
            self.call.join(trace)

    def force(self) -> None:
        """Runs the forward: somebody looks."""
        call = self.call
        if isinstance(call, Promise):
            self.value, self.call = call.get(), None
        elif call is not None:
            call.forward()
            if self.value is None:  # it has run as a part of a trace
                self.force()


class DeferredCall(list):
    """A recorded call: the values of its arguments, extras included.

    part: what it is within a program; results: its results, until they are there; saved: what the forward has kept for
    the backward; done: whether the results are there; joined: the forward is a trace's, and the backward has to have
    its own (one program of both has it once); origin: the graph that was called; root: the graph's run that this is, or
    comes after.
    """

    __slots__ = ("part", "ctx", "wide", "results", "saved", "done", "joined", "lock", "origin", "root")

    def __init__(self, part: Part, args: Sequence[Any], specs: Sequence[tuple], ctx: Context, wide: bool,
                 origin: Any = None, root: object = None) -> None:
        super().__init__(args)
        self.part, self.ctx, self.wide, self.saved, self.done = part, ctx, wide, None, False
        self.origin, self.root, self.joined = origin, root or object(), False
        self.lock = RLock()  # taken after those of the calls that use this one's results
        self.results = results = []
        for shape, dtype in specs:
            results.append(CallPromise(self, shape, dtype))

    def settle(self, values: Sequence[Any]) -> None:
        """Hands the results out (None: nobody holds that one any more)."""
        for result, value in zip(self.results, values, strict=True):
            if isinstance(value, Promise):
                result.call = value
                if result.over and isinstance(value, TracePromise):
                    value.place = value.trace.place(result.over)
            else:
                result.value, result.call = value, None
        self.results, self.done = (), True

    def join(self, trace: Trace) -> None:
        """Has a trace compute the results."""
        with self.lock:
            if not self.done:
                self.joined = True
                self.settle(trace.defer(self.part.kernel, list(self), self.ctx, self.wide))

    def forward(self) -> None:
        """Computes the results, and what the backward needs (after a backward with retained graph only the latter)."""
        for i, value in enumerate(self):
            if isinstance(value, Promise):
                self[i] = value.get()
        with self.lock:
            if self.done and self.saved is not None:  # in another thread, meanwhile
                return
            results, self.saved = self.part.forward(self, self.wide)
            if not self.done:
                self.settle(results)

    def gradients(self, heads: Sequence[Any], outs: Sequence[tuple]) -> list[Any]:
        """Gradients of the arguments (None: not wanted) for those of the outputs (None: zero), of these specs."""
        if self.saved is None:
            self.forward()
        heads = [h.get() if isinstance(h, Promise) else h for h in heads]
        found: list[Any] = [None] * len(self)
        for place, grad in zip(self.part.places, self.part.pull(self.saved, heads, outs, self.wide), strict=True):
            found[place] = grad
        return found


def may_wait(value: Promise) -> bool:
    """Whether a value that is not there yet may be a part of the program to come."""
    return isinstance(value, (CallPromise, TracePromise)) or value.stays or \
        state.trace is not None and state.trace.takes(value)


def after(arrays: Sequence[Any]) -> object | None:
    """The one graph's run that waits and of which all waiting ones among these arrays come; None: there is none."""
    root = None
    for array in arrays:
        held = array._chunk.peek() if array._view is None else None
        call = held.call if type(held) is CallPromise else None
        if type(call) is DeferredCall:
            if root is not None and call.root is not root:
                return None
            root = call.root
    return root


def call_of(kernel: Kernel, parents: Sequence[Any]) -> Call:
    """The part that a recorded call of a kernel is."""
    key = kernel, tuple([p is not None for p in parents])
    if key not in _calls:
        _calls[key] = Call(*key)
    return _calls[key]


_calls: dict[tuple, Call] = Bounded(1024)
