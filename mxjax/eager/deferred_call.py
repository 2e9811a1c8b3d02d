"""Recorded calls that are deferred until a result is read or a backward pass runs.

If the backward pass comes first, the rest of the forward pass and the whole walk back run as one
XLA program (`mxjax.eager.backward_program`). If a result is read first, the call's forward pass
runs and keeps the values that the backward pass needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..context import Context
from ..kernel.derivative import Derivative
from .chunk import RLock
from .modes import state
from .promise import Promise, identity
from .trace import Trace, TracePromise

__all__ = ["CallPromise", "DeferredCall", "after", "may_wait"]


class CallPromise(Promise):
    """A result of a call that has not run yet."""

    __slots__ = ("call", "over")

    def __init__(self, call: DeferredCall, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.value, self.over = shape, dtype, None, 0
        self.call: DeferredCall | Promise | None = call  # the source of the value: the call, or a promise of a trace

    def follows(self, old: object) -> None:
        """Notifies a trace, now or when it promises the value."""
        self.over = identity(old)
        promised = self.call
        if isinstance(promised, TracePromise) and promised.trace is not None:
            promised.place = promised.trace.place(self.over)

    def join(self, trace: Trace) -> None:
        """Makes a trace that is one program include the forward pass."""
        if trace.whole and isinstance(self.call, DeferredCall):
            self.call.join(trace)

    def force(self) -> None:
        """Runs the forward pass, because the value is read."""
        call = self.call
        if isinstance(call, Promise):
            self.value, self.call = call.get(), None
        elif call is not None:
            call.forward()
            if self.value is None:  # it has run as part of a trace
                self.force()


class DeferredCall(list):
    """A recorded call: the values of its arguments, extras included.

    derivative: the kernel and its gradients; results: its results, while pending; saved: the values
    that the forward pass kept for the backward pass; done: whether the results are computed;
    joined: the forward pass runs in a trace, so the backward pass must recompute it, unless one
    program contains both; origin: the graph that was called; root: the run of the graph that this
    call is or follows.
    """

    __slots__ = ("derivative", "ctx", "x64", "results", "saved", "done", "joined", "lock", "origin", "root")
    results: Sequence[CallPromise]

    def __init__(self, derivative: Derivative, args: Sequence[Any], specs: Sequence[tuple], ctx: Context, x64: bool,
                 origin: Any = None, root: object = None) -> None:
        super().__init__(args)
        self.derivative, self.ctx, self.x64, self.saved, self.done = derivative, ctx, x64, None, False
        self.origin, self.root, self.joined = origin, root or object(), False
        self.lock = RLock()  # locked after those of the calls that use its results
        self.results = results = list[CallPromise]()
        for shape, dtype in specs:
            results.append(CallPromise(self, shape, dtype))

    def settle(self, values: Sequence[Any]) -> None:
        """Distributes the results (None: no longer referenced)."""
        for result, value in zip(self.results, values, strict=True):
            if isinstance(value, Promise):
                result.call = value
                if result.over and isinstance(value, TracePromise) and value.trace is not None:
                    value.place = value.trace.place(result.over)
            else:
                result.value, result.call = value, None
        self.results, self.done = (), True

    def join(self, trace: Trace) -> None:
        """Makes a trace compute the results."""
        with self.lock:
            if not self.done:
                self.joined = True
                self.settle(trace.defer(self.derivative.kernel, list(self), self.ctx, self.x64))

    def forward(self) -> None:
        """Computes the results and the values for the backward pass (after a backward pass with a
        retained graph, only the latter)."""
        for i, value in enumerate(self):
            if isinstance(value, Promise):
                self[i] = value.get()
        with self.lock:
            if self.done and self.saved is not None:  # another thread has computed them meanwhile
                return
            results, self.saved = self.derivative.forward(self, self.x64)
            if not self.done:
                self.settle(results)

    def gradients(self, out_grads: Sequence[Any], outs: Sequence[tuple]) -> list[Any]:
        """Computes the gradients of the arguments (None: not requested) from those of the outputs
        (None: zero) with these specs."""
        if self.saved is None:
            self.forward()
        out_grads = [h.get() if isinstance(h, Promise) else h for h in out_grads]
        results: list[Any] = [None] * len(self)
        grads = self.derivative.pull(self.saved, out_grads, outs, self.x64)
        for place, grad in zip(self.derivative.places, grads, strict=True):
            results[place] = grad
        return results


def may_wait(value: Promise) -> bool:
    """Returns whether a pending value may become part of a later program."""
    return isinstance(value, (CallPromise, TracePromise)) or value.stays or \
        state.trace is not None and state.trace.takes(value)


def after(arrays: Sequence[Any]) -> object | None:
    """Returns the single pending graph run from which all pending arrays among these come; None if there is none."""
    root = None
    for array in arrays:
        value = array.chunk.peek() if array.region is None else None
        call = value.call if type(value) is CallPromise else None
        if type(call) is DeferredCall:
            if root is not None and call.root is not root:
                return None
            root = call.root
    return root
