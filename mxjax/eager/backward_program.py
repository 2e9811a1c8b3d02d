"""A backward pass as one program: the walk back, together with the pending forward passes of deferred calls.

Rows describe a pass, one per call of the tape (`_Description`). Passes with equal rows share a
program (`_Program`), whose arguments are the values that the rows name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._support import settings
from .._xla.x64 import X64_DTYPES
from ..context import Context, current_context
from ..interpret.calls import interpreting
from ..kernel.ahead import Later
from ..kernel.derivative import Derivative, PullByNumpy, derivative_of
from ..kernel.kernel import Kernel, run
from ..kernel.policy import MOST_CALLS, MOST_CALLS_AWAY, OFTEN, TRIALS, Programs
from ..kernel.shape_only import ShapeOnly
from .chunk import ALONE, exclusive, holding, point
from .compose import compute
from .deferred_call import DeferredCall
from .dispatch import perform
from .gradients import ONES, Totals, may_add, store
from .handle import Handle
from .host_work import push_kernel
from .modes import state
from .program import run_into
from .promise import HostValue, Promise
from .tape import Node
from .walk import pulls, walk

__all__ = ["run_together"]

_programs = Programs()
_lock_of = attrgetter("lock")


def run_together(nodes: Sequence[Node], initial: Totals, retain: bool) -> bool:
    """Runs the deferred forward passes and the whole walk back as one program (or part of a trace).

    If nothing was deferred, the walk must have occurred before, so that graphs that always change
    are never compiled.

    Args:
        nodes: nodes of the tape that the heads depend on, latest first.
        initial: gradients of the heads.
        retain: keep the values that another pass needs.

    Returns:
        True if it ran; False without any effect otherwise.
    """
    deferred, calls, ends, postponed, ctx = [], [], [], set(), None
    for node in nodes:
        if node.kernel is None and node.lazy is None and node.pull is None:
            ends.append(node)
            continue
        if not node.alive or node.watch is not None or ctx is not None and ctx is not node.ctx and ctx != node.ctx:
            return False
        ctx = node.ctx
        if node.lazy is not None:
            deferred.append(node.lazy)
        elif node.pull is not None:
            if not _can_be_postponed(node):
                return False
            postponed.add(node)
            ends.append(node)
            continue
        elif node.kernel.eager:
            return False
        calls.append(node)
    count = len(calls) + len(postponed)
    if deferred:
        if retain or count - len(deferred) > MOST_CALLS:
            return False
    elif postponed or not 1 < count <= (MOST_CALLS_AWAY if _is_away(ctx) else MOST_CALLS):
        return False  # one call is a program already
    for value in initial.values():
        if isinstance(value, Handle):
            return False
    with holding(list(map(_lock_of, deferred))):
        described = _Description(calls, ends, initial, postponed)
        structure = described.structure
        if structure is None:
            return False
        programs, trials = _programs, TRIALS if count <= MOST_CALLS else OFTEN
        if deferred:  # the programs of a graph, if there is one, are dropped together with it
            owner = deferred[0]
            for call in deferred:
                if owner.origin is None and call.origin is not None:
                    owner = call
            programs, trials = owner.derivative.programs, 0
        program = programs.made.get(structure) or programs.find(structure, lambda: _Program(*structure), trials)
        if program is None:
            return False
        described.run(program, ctx, retain)
        return True


def _is_away(ctx: Context | None) -> bool:
    """Returns whether a call's context is an accelerator."""
    return (ctx or current_context()).jax_device.platform != "cpu"


def _can_be_postponed(node: Node) -> bool:
    """Returns whether a call's gradients can be computed after all others: by a separate function, for variables
    only."""
    return len(node.outs) == 1 and all(parent is None or parent[0].variable for parent in node.parents)


class _Description:
    """A backward pass as rows, and the arguments of its program.

    It uses loops instead of comprehensions for speed: a pass of a few calls takes about 50 microseconds.

    Attributes:
        structure: the arguments of the `_Program`, which identify it; None: no program can run the pass.
        rows: for each call, earliest first: (what is called, sources of its arguments, their references, number of
            outputs).
        values: the program's arguments.
        calls: the nodes of the rows, latest first.
        ends: nodes that the walk ends at: variables, and calls that are postponed.
        adding: the ends, by number, whose gradients are added to their arrays.
        x64: the program needs JAX's 64-bit mode.
        pulled: some forward pass has run already; its saved values are arguments.
    """

    def __init__(self, calls: list[Node], ends: list[Node], initial: Totals, postponed: set[Node]) -> None:
        self.structure: tuple | None = None
        self.x64 = self.pulled = False
        self.rows: list[tuple] = []
        self.values: list[Any] = []
        self.calls, self.ends, self._postponed = calls, ends, postponed
        self.adding: list[int] = []
        self._waiting: list[tuple[int, DeferredCall]] = []  # calls that the program runs forward, too
        numbers: dict[Node, int] = {}
        for node in ends:
            numbers[node] = -1 - len(numbers)
        makers, uses, number = {}, {}, len(calls)
        for node in calls:
            number -= 1
            call = node.lazy
            numbers[node] = number
            if call is not None and not call.done:
                self._waiting.append((number, call))
                for k, result in enumerate(call.results):
                    makers[id(result)] = number, k
                    uses[number, k] = 0
        result = None  # it would count as an owner
        for node in calls:
            if not self._add_call(node, makers, uses, numbers):
                return
        for number, node in enumerate(ends):
            if node.req == "add" and node not in postponed and may_add(node) and \
                    node.grad.chunk not in [ends[i].grad.chunk for i in self.adding]:
                self.adding.append(number)
        kept = []
        for number, call in self._waiting:
            results = call.results
            for k in range(len(results)):
                if getrefcount(results[k]) > ALONE + uses[number, k]:  # it has another owner
                    kept.append((number, k))
        self._kept = tuple(kept)
        cotangents = []
        for (node, index), value in initial.items():
            cotangents.append((numbers[node], index, node.outs[index] if value is ONES else len(self.values)))
            if value is not ONES:
                self.values.append(value)
        for value in self.values:
            if getattr(value, "dtype", None) in X64_DTYPES:
                self.x64 = True
        self.rows.reverse()
        self.structure = tuple(self.rows), len(self.ends), self._kept, tuple(cotangents), \
            settings.BACKWARD_DO_MIRROR(), tuple(self.adding)

    def _add_call(self, node: Node, makers: dict[int, tuple[int, int]], uses: dict[tuple[int, int], int],
                  numbers: dict[Node, int]) -> bool:
        """Adds the row of a call; returns False if no program can contain it."""
        call = node.lazy
        if call is None:
            part, args, x64 = node.kernel, node.args, node.kernel.x64
        elif call.done and not (call.joined and state.trace is not None):
            if call.saved is None:
                call.forward()
            if isinstance(call.saved, PullByNumpy):
                return False
            self.pulled = True
            part, args, x64 = (call.derivative, tuple(node.outs)), (call.saved,), call.x64
        else:
            part, args, x64 = call.derivative, call, call.x64
        self.x64 = self.x64 or x64
        refs, parents = [], []
        for arg in args:
            ref = makers.get(id(arg)) if makers else None
            if type(arg) is ShapeOnly:
                ref = arg
            elif ref is None:
                ref = len(self.values)
                self.values.append(arg)
            else:
                uses[ref] += 1
            refs.append(ref)
        for parent in node.parents:
            parents.append(None if parent is None else (numbers[parent[0]], parent[1]))
        self.rows.append((part, tuple(parents), tuple(refs), len(node.outs)))
        return True

    def run(self, program: _Program, ctx: Any, retain: bool) -> None:
        """Runs the program, distributes the results of deferred calls and the gradients, and frees
        values that are not retained."""
        results = _results(program, self, ctx)
        rest = iter(results)
        gradients = []
        for present in program.present[len(results)]:
            gradients.append(next(rest) if present else None)
        by_call = dict(zip(self._kept, rest, strict=True))
        for number, call in self._waiting:
            values = []
            for k in range(len(call.results)):
                values.append(by_call.get((number, k)))
            call.settle(values)
        if self._postponed:
            totals = {(node, 0): grad for node, grad in zip(self.ends, gradients, strict=True) if grad is not None}
            last = [node for node in self.ends if node in self._postponed]
            walk(pulls(last, totals, True, False, store), totals)
            gradients = [None if node in self._postponed else totals.get((node, 0)) for node in self.ends]
        if state.training:
            for node in self.calls:
                if node.state_update is not None:
                    node.state_update.settle()
        chunks, values = [], []
        for number, (node, grad) in enumerate(zip(self.ends, gradients, strict=True)):
            if grad is None:
                if node.variable and number not in self.adding:
                    store(node, (None,))
                continue
            target = node.grad
            if node.req == "write" and target.dense and target.region is None and not isinstance(grad, Handle) and \
                    grad.dtype == node.outs[0][1]:  # the usual case: all of them at once
                chunks.append(target.chunk)
                values.append(grad)
                node.fresh, target.entry = True, None
            else:
                store(node, (grad,))
        point(chunks, values)
        if not retain:
            for node in (*self.calls, *self._postponed):
                node.free()


def _results(program: _Program, described: _Description, ctx: Context) -> Sequence[Any]:
    """Runs the program; returns its results except the sums of gradients."""
    values, x64 = described.values, described.x64
    if not described.adding and not described.pulled and state.trace is not None:
        return perform(program.kernel, values, ctx, x64)
    # residuals of a forward pass are not arrays, so they cannot be values of a trace
    for i, value in enumerate(values):
        if isinstance(value, Promise) and type(value) is not HostValue:
            values[i] = value.get()
    if described.adding:
        return _added_up(program, values, [described.ends[i] for i in described.adding], x64)
    try:
        return run(program.kernel, values, x64, None, None, True, True)
    except Later:
        pass
    return push_kernel(program.kernel, values, x64, ctx or current_context(), compiles=True)


def _added_up(program: _Program, values: list[Any], ends: Sequence[Node], x64: bool) -> Sequence[Any]:
    """Runs a program that adds to gradients, stores the sums, and returns the other results."""
    chunks = [node.grad.chunk for node in ends]
    while True:
        for chunk in chunks:
            chunk.read()
        with exclusive(chunks):
            args = [*values]
            targets = []
            for k, chunk in enumerate(chunks):
                targets.append((chunk, len(args), k))
                args.append(chunk.seen())
            if any(isinstance(old, Promise) for old in args[len(values):]):
                continue  # another thread has just deferred a value
            results = run_into(program.kernel, args, x64, targets)
        for node in ends:
            node.fresh = True
        return results[len(chunks):]


class _Program:
    """The walk back through `rows` as a kernel of all external values in order, and the head gradients.

    Its results are, for the ends at `adding`, the sums of their gradients and the last arguments, which are the
    previous values; the gradients of the other ends that have one, latest first; the results of lazy calls that are
    `kept`. present: for each end, whether such a gradient is a result, by the number of the results. It is known once
    the program has been traced. XLA's form has gradients of zero that NumPy's lacks, and both are in use by turns.
    """

    def __init__(self, rows: Sequence[tuple], ends: int, kept: Sequence[tuple], cotangents: Sequence[tuple],
                 mirror: bool, adding: tuple[int, ...]) -> None:
        self._rows, self._ends, self._kept, self._cotangents, self._adding = rows, ends, kept, cotangents, adding
        self._calls = [(_function(part, parents, mirror), refs) for part, parents, refs, _ in rows]
        self.present: dict[int, list[bool]] = {}
        graphs = [row[0] for row in rows if not isinstance(row[0], Kernel)]
        name = "backward" if all(isinstance(part, tuple) for part in graphs) else "forward and backward"
        by_parts = all(isinstance(part, Derivative) and part.by_parts for part in graphs)
        # of these, the function creates the values
        created = [ref.dtype for row in rows for ref in row[2] if type(ref) is ShapeOnly]
        created += [source[1] for _, _, source in cotangents if type(source) is not int]
        self.kernel = Kernel(name, self._trace, 0, 0, x64=not X64_DTYPES.isdisjoint(created), symbolic=bool(graphs),
                             parts=by_parts, options={"trains": True})

    def _trace(self, *values: Any) -> tuple:
        done: list[Sequence[Any]] = []
        compute(self._calls, values, done)
        totals: dict[tuple[int, int], Any] = {}
        library = np if interpreting() else jnp
        for number, index, source in self._cotangents:
            totals[number, index] = values[source] if type(source) is int else library.ones(*source)

        def calls() -> Iterable[tuple]:
            for i in reversed(range(len(done))):
                slots = [totals.pop((i, k), None) for k in range(self._rows[i][3])]
                if any(s is not None for s in slots):
                    yield self._rows[i][1], slots, done[i][-1], lambda old, grad: old + grad.astype(old.dtype)
        walk(calls(), totals)
        olds = iter(values[len(values) - len(self._adding):])
        sums, gradients, present = [], [], []
        for i in range(self._ends):
            grad = totals.get((-1 - i, 0))
            present.append(grad is not None and i not in self._adding)
            if i in self._adding:
                old = next(olds)
                sums.append(old if grad is None else old + grad.astype(old.dtype))
            elif grad is not None:
                gradients.append(grad)
        results = *gradients, *[done[number][k] for number, k in self._kept]
        self.present[len(results)] = present
        return *sums, *results


def _function(part: Any, parents: Sequence[Any], mirror: bool) -> Callable[..., Sequence[Any]]:
    """Returns the function that computes a row: its pullback, after the results if the program also runs it forward."""
    if isinstance(part, Derivative):
        return functools.partial(part.trace, mirror)
    if isinstance(part, Kernel):
        derivative = derivative_of(part, tuple([p is not None for p in parents]))
        return lambda *args: (derivative.traced_pull(args),)
    derivative, outs = part
    return lambda saved: (derivative.traced_pull(saved, outs),)
