"""Recorded calls that compute nothing until somebody looks at a result, or a backward pass comes.

If the backward comes first, all that is left of the forward and the whole walk back run as one XLA program
(`mxjax.array.backward`). If somebody looks first, that call's forward runs and keeps what the backward needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..compile.kernel import Kernel
from ..compile.policy import Programs
from ..context import Context
from .chunk import Pending, RLock, identity
from .segment import Deferred, Segment
from .state import state

__all__ = ["Lazy", "Part", "Value", "may_wait"]


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


class Value(Pending):
    """A result of a call that has not run yet."""

    __slots__ = ("call", "over")

    def __init__(self, call: Lazy, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.value, self.over = shape, dtype, None, 0
        self.call: Lazy | Pending | None = call  # what will have the value: the call, or a segment's promise

    def follows(self, old: Any) -> None:
        """Tells a segment, now or when it promises the value."""
        self.over = identity(old)
        if isinstance(self.call, Deferred):
            self.call.place = self.call.segment.place(self.over)

    def join(self, segment: Segment) -> None:
        """Has a segment that is one program run the forward, too."""
        if segment.whole and isinstance(self.call, Lazy):
            self.call.join(segment)

    def force(self) -> None:
        """Runs the forward: somebody looks."""
        call = self.call
        if isinstance(call, Pending):
            self.value, self.call = call.get(), None
        elif call is not None:
            call.forward()
            if self.value is None:  # it has run as a part of a segment
                self.force()


class Lazy(list):
    """A recorded call: the values of its arguments, extras included.

    part: what it is within a program; results: its results, until they are there; saved: what the forward has kept for
    the backward; done: whether the results are there; joined: the forward is a segment's, and the backward has to have
    its own (one program of both has it once); origin: what was called.
    """

    __slots__ = ("part", "ctx", "wide", "results", "saved", "done", "joined", "lock", "origin")

    def __init__(self, part: Part, args: Sequence[Any], specs: Sequence[tuple], ctx: Context, wide: bool,
                 origin: Any = None) -> None:
        super().__init__(args)
        self.part, self.ctx, self.wide, self.saved, self.done = part, ctx, wide, None, False
        self.origin, self.joined = origin, False
        self.lock = RLock()  # taken after those of the calls that use this one's results
        self.results = results = []
        for shape, dtype in specs:
            results.append(Value(self, shape, dtype))

    def settle(self, values: Sequence[Any]) -> None:
        """Hands the results out (None: nobody holds that one any more)."""
        for result, value in zip(self.results, values, strict=True):
            if isinstance(value, Pending):
                result.call = value
                if result.over and isinstance(value, Deferred):
                    value.place = value.segment.place(result.over)
            else:
                result.value, result.call = value, None
        self.results, self.done = (), True

    def join(self, segment: Segment) -> None:
        """Has a segment compute the results."""
        with self.lock:
            if not self.done:
                self.joined = True
                self.settle(segment.defer(self.part.kernel, list(self), self.ctx, self.wide))

    def forward(self) -> None:
        """Computes the results, and what the backward needs (after a backward with retained graph only the latter)."""
        for i, value in enumerate(self):
            if isinstance(value, Pending):
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
        heads = [h.get() if isinstance(h, Pending) else h for h in heads]
        found: list[Any] = [None] * len(self)
        for place, grad in zip(self.part.places, self.part.pull(self.saved, heads, outs, self.wide), strict=True):
            found[place] = grad
        return found


def may_wait(value: Pending) -> bool:
    """Whether a value that is not there yet may be a part of the program to come."""
    return isinstance(value, (Value, Deferred)) or value.stays or \
        state.segment is not None and state.segment.takes(value)
