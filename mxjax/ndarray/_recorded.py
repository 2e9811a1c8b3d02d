"""Recorded calls of whole graphs (`CachedOp`), computed as late as possible.

A call under `autograd.record()` computes nothing at first. If a backward comes before somebody looks at a result, all
that is left of the forward and the whole backward run as one XLA program (`run_together`): network and loss, each
hybridized by itself, included. If somebody looks first, that call's forward runs and keeps what the backward needs.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import MXNetError
from ..ops.compiled import Compiled
from ..ops.kernel import USER_MISTAKES, Kernel, is_wide, mistake, watched
from ..random import next_key
from ._chunk import Pending, RLock, holding
from ._invoke import change, state, wrap
from ._segment import Deferred

if TYPE_CHECKING:
    from ..context import Context
    from ._cached_op import CachedOp
    from .ndarray import NDArray

__all__ = ["graph_of", "record", "run_together"]

_MOST_CALLS = 64  # recorded imperative calls that one program takes in beside the graphs


class _Value(Pending):
    """An output, or a new auxiliary state, of a run that has not happened yet."""

    __slots__ = ("run",)

    def __init__(self, run: _Run, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self.run: _Run | Pending | None = run  # what will have the value: the run, or a segment's promise

    def force(self) -> None:
        """Runs the forward: somebody looks."""
        run = self.run
        if isinstance(run, Pending):
            self.value, self.run = run.get(), None
        elif run is not None:
            run.forward()
            if self.value is None:  # it has run as a part of a segment
                self.force()


class _Run(list):
    """A recorded call: the values of its inputs (and the random key), which the tape holds as the node's arguments.

    values: the results until they are there, then their shapes and dtypes; wanted: for each argument of the graph
    whether it gets a gradient; pull: what the forward kept for the backward, a function of the outputs' gradients.
    """

    __slots__ = ("op", "ctx", "train", "wide", "wanted", "values", "pull", "done", "lock", "__weakref__")

    def __init__(self, op: CachedOp, kernel: Kernel, inputs: list[Any], wanted: tuple[bool, ...], train: bool,
                 ctx: Context) -> None:
        super().__init__(inputs)
        self.ctx = ctx
        self.op, self.train, self.pull, self.done = op, train, None, False
        self.lock = RLock()  # taken after those of the runs that use this one's results
        self.wide = kernel.wide or any(is_wide(v.dtype) for v in inputs[:kernel.num_arrays])
        self.wanted = tuple(wanted[i] for i in op._forms.arg_places)
        self.values: list[Any] = [_Value(self, *spec) for spec in kernel.specs(inputs)]

    def settle(self, results: Sequence[Any]) -> None:
        """Hands the results out (None: nobody holds that one any more)."""
        for value, result in zip(self.values, results, strict=True):
            value.value, value.run = (None, result) if isinstance(result, Pending) else (result, None)
        self.values, self.done = [(v.shape, v.dtype) for v in self.values], True

    def forward(self) -> None:
        """Computes the results, and what `backward` needs (after a backward with retained graph only the latter)."""
        for i, value in enumerate(self):
            if isinstance(value, Pending):
                self[i] = value.get()
        with self.lock:
            if self.done and self.pull is not None:  # in another thread, meanwhile
                return
            graph = self.op._graph
            program = graph.residual(self.wanted, _mirror(), self.train)
            outputs, aux, self.pull = _call(self, program, *self.op._forms.split(self))
            if not self.done:
                self.settle([*outputs, *(aux if self.train else ())])

    def backward(self, heads: Sequence[Any]) -> list[Any]:
        """Gradients of the wanted arguments for the outputs' gradients (None: zero)."""
        if self.pull is None:
            self.forward()
        with jax.enable_x64(self.wide):
            heads = [_head(h, *spec) for h, spec in zip(heads, self.values, strict=False)]
        return _call(self, self.op._graph.pull(), self.pull, heads)

    def places(self) -> list[int]:
        """Positions of the wanted arguments among the inputs."""
        return [place for place, wanted in zip(self.op._forms.arg_places, self.wanted, strict=True) if wanted]


def _call(run: _Run, program: Callable, *args: Any) -> Any:
    try:
        with jax.enable_x64(run.wide):
            return watched("CachedOp", program)(*args)
    except MXNetError:
        raise
    except USER_MISTAKES as error:
        raise mistake("CachedOp", run, error) from None


def _head(given: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The gradient of an output as `jax.vjp` wants it."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return np.zeros(shape, jax.dtypes.float0)
    if given is None:
        return jnp.zeros(shape, dtype)
    given = given.get() if isinstance(given, Pending) else given
    return given if given.dtype == dtype else given.astype(dtype)


def _mirror() -> bool:
    return os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0").lower() in ("1", "true")


def record(op: CachedOp, kernel: Kernel, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Notes a call on the tape; its results are pending.

    Args:
        op: the graph.
        kernel: the graph as a kernel for the present mode, for shapes and for derivatives of higher order.
        arrays: inputs, of which at least one is part of a recorded graph.
    """
    from ..autograd import _tape
    ctx = arrays[0].context
    key = next_key(ctx, len(op._graph.steps)) if op._graph.random else ()
    entries = _tape.entries(arrays)

    def step(inputs: list[Any]) -> _Run:
        run = _Run(op, kernel, [*inputs, *key], tuple(e is not None for e in entries), state.training, ctx)
        for place, value in zip(kernel.mutated, run.values[kernel.num_outputs:], strict=True):
            arrays[place]._write(value)
        return run
    if kernel.mutated:
        run = change([arrays[i] for i in kernel.mutated], arrays, step, _stays)
    else:
        run = step([_value(a) for a in arrays])
    results = [wrap(value, ctx, type(arrays[0])) for value in run.values[:kernel.num_outputs]]
    parents = entries + [None] * len(key)
    outs = [(v.shape, v.dtype) for v in run.values[:kernel.num_outputs]]
    node = _tape.Node(None, run, parents, outs, ctx)
    saved = weakref.ref(run)  # the node's arguments hold it, and let it go after the backward

    def pull(slots: list[Any], create_graph: bool) -> list[Any]:
        run = saved()
        if create_graph:
            return _tape._pull(_tape.Node(kernel, list(run), parents, outs, ctx), slots, True)
        found = dict(zip(run.places(), run.backward(slots), strict=True))
        return [found.get(i) for i in range(len(parents))]
    node.pull = pull
    for i, result in enumerate(results):
        result._entry = (node, i)
    return results


def _value(array: NDArray) -> Any:
    """The value of an array: as it is, where it may be a part of the program to come."""
    if array._view is None:
        held = array._chunk.peek()
        if not isinstance(held, Pending) or held.value is None and _stays(held):
            return held
    return array._read()


def _stays(pending: Pending) -> bool:
    """Whether a value that is not there yet may be a part of the program to come."""
    return isinstance(pending, (_Value, Deferred))


def graph_of(node: Any) -> tuple[Any, int] | None:
    """The lowered graph that a node of the tape calls, and up to how many operators count as part of the tape."""
    return (node.args.op._graph, int(node.args.op._flags.get("inline_limit", 2))) \
        if isinstance(node.args, _Run) else None


# -------------------------------------------------------------------- forward and backward as one program
def run_together(nodes: Sequence[Any], heads: dict[tuple[int, int], Any], retain: bool) -> bool:
    """Runs what is left of the forward and the whole walk back as one program (or a part of the open segment's).

    False: there are no recorded graphs, or this cannot be one program; then nothing was done.

    Args:
        nodes: nodes of the tape, each after its users.
        heads: gradient by (id of the node, number of the output).
        retain: whether the graph is to stay.
    """
    runs = {i: node.args for i, node in enumerate(nodes) if isinstance(node.args, _Run)}
    if retain or not runs:
        return False
    with holding([run.lock for run in runs.values()]):
        return _run_together(nodes, runs, heads)


def _run_together(nodes: Sequence[Any], runs: dict[int, _Run], heads: dict[tuple[int, int], Any]) -> bool:
    from ..autograd import _tape
    late = {i for i, node in enumerate(nodes) if i not in runs and _is_late(node)}
    if not _together(nodes, runs, late):
        return False
    place = {id(node): i for i, node in enumerate(nodes)}
    makers = {id(value): (i, k) for i, run in runs.items() if not run.done for k, value in enumerate(run.values)}
    uses: Counter = Counter()
    rows: list[tuple | None] = []
    leaves: list[Any] = []
    for i, node in enumerate(nodes):
        run = runs.get(i)
        if node.kernel is None and run is None or i in late:
            rows.append(None)
            continue
        refs = []
        for arg in node.args if run is None or not run.done else (run.pull,):
            ref = makers.get(id(arg))
            uses[ref] += 1
            refs.append(ref)
            if ref is None:
                leaves.append(arg)
        parents = tuple([None if p is None else (place[id(p[0])], p[1]) for p in node.parents])
        what = node.kernel if run is None else (run.op._forms, run.wanted, run.train, run.done)
        rows.append((what, parents, tuple(refs), tuple(node.outs)))
    kept = tuple([ref for ref in makers.values()
                  if sys.getrefcount(runs[ref[0]].values[ref[1]]) > _ALONE + uses[ref]])
    given = tuple([(place[node], index) for node, index in heads])
    first = next(iter(runs.values()))
    key = tuple(rows), kept, given, _mirror()
    programs = first.op._forms.programs
    program = programs.get(key)
    if program is None:
        program = programs[key] = _Program(rows, kept, given, _mirror())
    values = list(heads.values())
    first.wide = any(run.wide for run in runs.values()) or any(
        is_wide(v.dtype) for v in [*leaves, *values] if hasattr(v, "dtype"))
    grads, results = program(first, leaves, values)
    found = dict(zip(kept, results, strict=True))
    for i, run in runs.items():
        if not run.done:
            run.settle([found.get((i, k)) for k in range(len(run.values))])
    ends = [i for i, row in enumerate(rows) if row is None]
    totals = {(id(nodes[i]), 0): grad for i, grad in zip(ends, grads, strict=True) if grad is not None}
    for i in sorted(late):
        node = nodes[i]
        slot = totals.pop((id(node), 0), None)
        for parent, grad in zip(node.parents, node.pull([slot], False), strict=False) if slot is not None else ():
            if parent is not None and grad is not None:
                _tape._add(totals, (id(parent[0]), 0), grad, False, node.ctx)
    for i in ends:
        if (grad := totals.get((id(nodes[i]), 0))) is not None:
            _tape._store(nodes[i], grad)
    for i, node in enumerate(nodes):
        if rows[i] is not None or i in late:
            node.args, node.alive = (), False
    return True


def _together(nodes: Sequence[Any], runs: dict[int, _Run], late: set[int]) -> bool:
    """Whether all nodes but the late ones can be in one program: graphs, and some operator calls, on one device."""
    calls = [node for i, node in enumerate(nodes) if node.kernel is not None or node.pull is not None]
    return (len(calls) - len(runs) <= _MOST_CALLS and len({node.ctx for node in calls}) == 1 and
            all(node.alive for node in calls) and
            all(i in runs or i in late or node.pull is None and (node.kernel is None or not node.kernel.eager)
                for i, node in enumerate(nodes)))


def _is_late(node: Any) -> bool:
    """Whether a node's gradients can be made after all others: by a function of its own, of variables alone."""
    return node.pull is not None and len(node.outs) == 1 and node.watch is None and all(
        parent is None or parent[0].kernel is None and parent[0].pull is None for parent in node.parents)


class _Program:
    """The compiled forms of a walk: by itself, and as a call in a segment, where all its values are flat.

    Called with a run to blame mistakes on, values from outside and head gradients (all may be Pending).
    """

    def __init__(self, rows: Sequence[tuple | None], kept: tuple, given: tuple, mirror: bool) -> None:
        function = _function(rows, kept, given, mirror)
        self._heads, self._jitted = len(given), Compiled(function)
        self._present: list[bool] = []

        def flat(*values: Any) -> tuple:
            grads, results = function(values[:-self._heads], values[-self._heads:])
            self._present = [g is not None for g in grads]
            return (*[g for g in grads if g is not None], *results)
        self._kernel = Kernel("forward and backward", flat, 0, 0)

    def __call__(self, run: _Run, leaves: list[Any], heads: list[Any]) -> tuple[list[Any], list[Any]]:
        segment, ctx = state.segment, run.ctx
        if segment is None or any(isinstance(v, jax.tree_util.Partial) for v in leaves) or not segment.accepts(ctx):
            leaves, heads = ([v.get() if isinstance(v, Pending) else v for v in values] for values in (leaves, heads))
            return _call(run, self._jitted, leaves, heads)
        results = iter(segment.defer(self._kernel, [*leaves, *heads], ctx, run.wide))
        grads = [next(results) if present else None for present in self._present]
        return grads, list(results)


def _function(rows: Sequence[tuple | None], kept: tuple, given: tuple, mirror: bool) -> Callable:
    """fn(values from outside, head gradients) -> (gradients of the variables, forward results that are kept)."""
    def fn(leaves: Sequence[Any], head_grads: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outside = iter(leaves)
        made: dict[tuple[int, int], Any] = {}
        taken = [None if row is None else [next(outside) if ref is None else ref for ref in row[2]] for row in rows]
        pulls: dict[int, Any] = {}
        for i in reversed(range(len(rows))):
            row = rows[i]
            if row is None:
                continue
            taken[i] = args = [v if ref is None else made[ref] for v, ref in zip(taken[i], row[2], strict=True)]
            if isinstance(row[0], Kernel):
                continue
            forms, wanted, train, done = row[0]
            if done:
                pulls[i] = args[0]
                continue
            function, selected = forms.graph._differentiable(*forms.split(args), wanted, mirror, train)
            outputs, pulls[i], aux = jax.vjp(function, *selected, has_aux=True)
            made.update({(i, k): value for k, value in enumerate([*outputs, *(aux if train else ())])})
        totals = dict(zip(given, head_grads, strict=True))
        for i, row in enumerate(rows):
            if row is None:
                continue
            what, parents, _, outs = row
            slots = [totals.get((i, k)) for k in range(len(outs))]
            if all(s is None for s in slots):
                continue
            for parent, grad in _gradients(what, parents, outs, taken[i], pulls.get(i), slots):
                totals[parent] = totals[parent] + grad.astype(totals[parent].dtype) if parent in totals else grad
        return [totals.get((i, 0)) for i, row in enumerate(rows) if row is None], [made[ref] for ref in kept]
    return fn


def _gradients(what: Any, parents: tuple, outs: tuple, args: list[Any], pull: Any, slots: list[Any]) -> list[tuple]:
    """(parent, gradient) of a node's arguments."""
    if isinstance(what, Kernel):
        wanted = tuple(p is not None for p in parents)
        if not any(wanted):
            return []
        heads = tuple([s is not None for s in slots] + [False] * (what.num_outputs - len(slots)))
        grads = what.vjp(wanted, heads).fn(*args, *[s for s in slots if s is not None])
        return list(zip([p for p in parents if p is not None], grads, strict=True))
    forms, wanted, _, _ = what
    grads = pull([_head(s, *spec) for s, spec in zip(slots, outs, strict=True)])
    places = [place for place, w in zip(forms.arg_places, wanted, strict=True) if w]
    return [(parents[place], grad) for place, grad in zip(places, grads, strict=True)]


def _references_alone() -> int:
    """What `sys.getrefcount` says in `run_together` of a value that only its run holds."""
    values = {0: [_Value.__new__(_Value)]}
    return sys.getrefcount(values[0][0])


_ALONE = _references_alone()
