"""The walk back through the tape: one program where that pays, else call by call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.bounded import Bounded
from ..base import MXNetError
from ..context import current_context
from ..interpret.calls import interpreting
from ..interpret.direct import to_dtype
from ..kernel.bound_form import OwnForm
from ..kernel.derivative import Derivative, PullByNumpy, derivative_of, mirrors
from ..kernel.kernel import WIDE_DTYPES, Kernel, run
from ..kernel.policy import MOST_CALLS, MOST_CALLS_AWAY, OFTEN, TRIALS, Programs, next_round
from ..kernel.shape_only import ShapeOnly
from .array_types import wrap
from .chunk import ALONE, exclusive, holding, point
from .deferred_call import DeferredCall
from .dispatch import invoke, perform
from .modes import Modes, state
from .program import run_into
from .promise import Promise, put
from .tape import Node

__all__ = ["backward", "drop", "is_read", "retain", "walk_back"]

Totals = dict[tuple[Node, int], Any]  # gradients by node and number of the output


def backward(heads: Sequence[Any], head_grads: Sequence[Any], retain_graph: bool = False,
             train_mode: bool = True) -> None:
    """`mx.autograd.backward` of a list of heads, with a gradient (None: ones) for each."""
    before = state.recording, state.training
    state.recording, state.training = False, train_mode
    try:
        walk_back(heads, head_grads, retain_graph, False)
    finally:
        state.recording, state.training = before


def walk_back(heads: Sequence[Any], head_grads: Sequence[Any], retain: bool, create_graph: bool,
              variables: Sequence[Any] | None = None) -> list[Any] | None:
    """Walks back from `heads`; fills the variables' gradients, or returns those of `variables`.

    Gradients are buffers, or NDArrays on the tape themselves where `create_graph` is set.
    """
    next_round()
    totals: Totals = {}
    for head, given in zip(heads, head_grads, strict=True):
        if head._entry is None:
            raise MXNetError("cannot differentiate: an array is not in a computational graph; you need to set "
                             "is_recording to true or use autograd.record() to save the graph")
        if given is None:
            given = _ONES if head._entry not in totals and not create_graph else _ones(*head._entry)
        else:
            given = _fitting(given, head)
            keeps = create_graph or not given._plain and head._entry[0].pull is not None  # that may know how to use it
            given = given if keeps else given._read()
        if create_graph and not hasattr(given, "_chunk"):
            given = wrap(given, head._chunk.ctx)
        if head._entry in totals:
            given = _sum(_resolved(head._entry, totals), given, head._chunk.ctx)
        totals[head._entry] = given
    nodes = _reachable(totals)
    if variables is None:
        for node in reversed(nodes):  # variables come last
            if node.variable:
                break
        else:
            raise MXNetError("backward: no array in the graph requires a gradient")
        if create_graph or not _run_together(nodes, totals, retain):
            for entry in totals:
                totals[entry] = _resolved(entry, totals)
            _walk(_calls(nodes, totals, retain, create_graph, _store), totals)
        return None
    wanted = {v._entry[0] for v in variables if v._entry}
    found: dict[tuple[Node, int], Any] = {}

    def keep(node: Node, slots: list[Any]) -> None:
        found.update({(node, i): slot for i, slot in enumerate(slots)})
    for entry in totals:
        totals[entry] = _resolved(entry, totals)
    _walk(_calls(nodes, totals, retain, create_graph, keep, wanted), totals)
    return [found.get(v._entry) if v._entry else None for v in variables]


def _fitting(given: Any, head: Any) -> Any:
    """A head gradient as an array of its head's shape: MXNet reads as many elements as it needs.

    Raises:
        MXNetError: there are too few.
    """
    shape = head.shape
    if given.shape == shape:
        return given
    if given.size < math.prod(shape):
        if not is_read(*head._entry):
            return wrap(jnp.zeros(shape, head._chunk.dtype), head._chunk.ctx)
        raise MXNetError(f"backward: head gradient has shape {given.shape}, its head {shape}")
    flat = given.reshape(-1)[:math.prod(shape)]
    return flat.reshape(shape) if flat.size else flat._view_at(0, shape)  # where reshape takes 0 for "as it is"


def is_read(node: Node, index: int) -> bool:
    """Returns whether a backward pass reads the gradient of this result; that of a loss has none to read."""
    kernel, args = node.kernel, node.args
    if node.lazy is not None and node.alive:
        kernel, args = node.lazy.derivative.kernel, list(node.lazy)
    return kernel is None or not node.alive or \
        kernel.reads_head(args, tuple([parent is not None for parent in node.parents]), index)


_by_sequence, _lock_of = attrgetter("sequence"), attrgetter("lock")


def _reachable(roots: Iterable[tuple[Node, int]]) -> list[Node]:
    """All nodes behind the roots, latest first: an order in which every node follows its users."""
    found = {}
    for node, _ in roots:
        found[node] = None
    stack = list(found)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent[0] not in found:
                found[parent[0]] = None
                stack.append(parent[0])
    return sorted(found, key=_by_sequence, reverse=True)


# -------------------------------------------------------------------- the walk itself
def _walk(calls: Iterable[tuple], totals: dict[Any, Any]) -> None:
    """Adds up gradients by place: `calls` are (places of the arguments, gradients of the outputs, pull, add)."""
    for parents, slots, pull, add in calls:
        for parent, grad in zip(parents, pull(slots), strict=False):
            if parent is not None and grad is not None:
                old = totals.get(parent)
                totals[parent] = grad if old is None else add(old, grad)


def _calls(nodes: Sequence[Node], totals: Totals, retain: bool, create_graph: bool,
           at_end: Callable[[Node, list[Any]], None], ends: Iterable[Node] = ()) -> Iterable[tuple]:
    """The calls that a gradient arrives at, each when those of its users are done; `at_end` gets that of the ends:
    variables, and the nodes given."""
    for node in nodes:
        slots = [totals.pop((node, i), None) for i in range(len(node.outs))]
        if all(s is None for s in slots):
            continue
        if node.variable or node in ends:
            at_end(node, slots)
            if node.variable:
                continue
        if not node.alive:
            raise MXNetError("backward through a graph that a previous backward has freed: "
                             "pass retain_graph=True to the first one")

        def pull(slots: list[Any], node: Node = node) -> Sequence[Any]:
            grads = _pull(node, slots, create_graph)
            if node.watch is not None:
                node.watch(slots, grads)
            if node.state_update is not None and state.training:
                node.state_update.settle()
            return grads
        yield node.parents, slots, pull, lambda old, grad, node=node: _sum(old, grad, node.ctx)
        if not retain:
            node.free()


def _pull(node: Node, slots: list[Any], create_graph: bool) -> Sequence[Any]:
    """Gradients of a call's arguments (None where there is none)."""
    if node.pull is not None:
        return node.pull(slots, create_graph)
    kernel, args = node.kernel, node.args
    if node.lazy is not None:
        if not create_graph:
            return node.lazy.gradients([s._read() if hasattr(s, "_chunk") else s for s in slots], node.outs)
        kernel, args = node.lazy.derivative.kernel, list(node.lazy)
    wanted = tuple([p is not None for p in node.parents])
    if not any(wanted):
        return []
    heads = tuple([s is not None for s in slots] + [False] * (kernel.num_outputs - len(slots)))
    backward = kernel.vjp(wanted, heads)
    if create_graph:
        given = [s.get() if isinstance(s, Promise) else s for s in slots if s is not None]
        grads = iter(_pull_recorded(node.parents, args, node.ctx, backward, given))
    else:
        args = [*args, *[s._read() if hasattr(s, "_chunk") else s for s in slots if s is not None]]
        grads = iter(perform(backward, args, node.ctx, any([getattr(a, "dtype", None) in WIDE_DTYPES for a in args])))
    return [next(grads) if w else None for w in wanted]


def _pull_recorded(parents: Sequence[Any], args: Sequence[Any], ctx: Any, kernel: Kernel, given: list[Any]) -> list:
    """As a recorded call: the backward kernel's arguments become arrays with their places in the graph."""
    arrays, fixed = [], []
    for arg, parent in zip(args, parents, strict=True):
        if isinstance(arg, (Promise, jax.Array)):
            array = wrap(arg, ctx)
            array._entry = parent
            arrays.append(array)
            fixed.append(None)
        else:
            fixed.append(arg)
    layout = tuple(f if f is None or isinstance(f, ShapeOnly) else ... for f in fixed)
    extras = tuple(f for f in fixed if f is not None and not isinstance(f, ShapeOnly))
    found = _layouts.get((kernel, layout))
    if found is None:
        count = len(arrays)

        def fn(*args: Any) -> tuple:
            values, others = iter(args[:count]), iter(args[count + len(given):])
            full = [next(values) if f is None else next(others) if f is ... else f for f in layout]
            return kernel.fn(*full, *args[count:count + len(given)])
        found = _layouts[kernel, layout] = Kernel(kernel.name, fn, count + len(given), kernel.num_outputs,
                                                  wide=kernel.wide, eager=kernel.eager)
    result = invoke(found, arrays + given, extras)
    return result if isinstance(result, list) else [result]


_layouts: dict[tuple, Kernel] = Bounded(1024)


def _sum(old: Any, grad: Any, ctx: Any) -> Any:
    """The sum of two gradients; recorded where they are arrays on the tape."""
    if hasattr(old, "_chunk") and (hasattr(grad, "_chunk") or state.recording):
        return old + grad
    values = [v._read() if hasattr(v, "_chunk") else v for v in (old, grad)]
    return perform(_ADD, values, ctx, values[1].dtype in WIDE_DTYPES)[0]


_ADD = Kernel("gradient accumulation", lambda a, b: (a + b.astype(a.dtype),), 2, 1, options={"any_size": True},
              form=OwnForm(lambda a, b: a + to_dtype(b, a.dtype), copies=True))
_ones_known: dict[Any, Any] = Bounded(16)  # of 1 or 2 MB at most


_ONES = object()  # stands for the gradient of a head that nobody gave one for, until it is needed


def _resolved(entry: tuple[Node, int], totals: Totals) -> Any:
    return _ones(*entry) if totals[entry] is _ONES else totals[entry]


def _ones(node: Node, index: int) -> Any:
    """A shared buffer of ones."""
    (shape, dtype), ctx = node.outs[index], node.ctx or current_context()
    key = shape, dtype, ctx.device_typeid, ctx.device_id
    found = _ones_known.get(key)
    if found is None:
        found = put(np.ones(shape, dtype), ctx)
        if found.size <= 1 << 18 and not isinstance(found, jax.core.Tracer):
            _ones_known[key] = found
    return found


# -------------------------------------------------------------------- as one program
_programs = Programs()


def _run_together(nodes: Sequence[Node], heads: Totals, retain: bool) -> bool:
    """Runs what is left of lazy forwards, and the whole walk back, as one program (or a part of the open trace's).

    Where nothing is lazy, the walk has to have been seen before: a graph that changes every time never pays for
    compilation. False: it did not; then nothing was done.
    """
    lazies, calls, postponed, ctx = [], 0, set(), None
    for node in nodes:
        if node.kernel is None and node.lazy is None and node.pull is None:
            continue
        if not node.alive or node.watch is not None or ctx is not None and ctx is not node.ctx and ctx != node.ctx:
            return False
        ctx = node.ctx
        if node.lazy is not None:
            lazies.append(node.lazy)
        elif node.pull is not None:
            postponed.add(node)
        elif node.kernel.eager:
            return False
        calls += 1
    if lazies:
        if retain or calls - len(lazies) > MOST_CALLS:
            return False
    elif postponed or not 1 < calls <= (MOST_CALLS_AWAY if _is_away(ctx) else MOST_CALLS):
        return False  # one call is a program already
    if any(not _can_be_postponed(node) for node in postponed) or \
            any(hasattr(value, "_chunk") for value in heads.values()):
        return False
    with holding(list(map(_lock_of, lazies))):
        return _as_program(nodes, heads, retain, lazies, postponed, ctx, TRIALS if calls <= MOST_CALLS else OFTEN)


def _is_away(ctx: Any) -> bool:
    """Returns whether a call's context is an accelerator."""
    return (ctx or current_context()).jax_device.platform != "cpu"


def _can_be_postponed(node: Node) -> bool:
    """Returns whether a call's gradients can be made after all others: by a function of its own, of variables alone."""
    return len(node.outs) == 1 and all(parent is None or parent[0].variable for parent in node.parents)


def _as_program(nodes: Sequence[Node], heads: Totals, retain: bool, lazies: list[DeferredCall], postponed: set[Node],
                ctx: Any, trials: int) -> bool:
    """`_run_together`, of which `trials` is the number of passes call by call at first, where nothing is lazy."""
    mirror = mirrors()
    place, makers, uses, owners = {}, {}, {}, []
    for node in nodes:
        lazy = node.lazy
        if lazy is not None and not lazy.done:
            number = len(place)
            for k, result in enumerate(lazy.results):
                makers[id(result)] = number, k
                uses[number, k] = 0
            owners.append((number, lazy))
        place[node] = len(place)
    rows: list[tuple | None] = []
    values: list[Any] = []
    ends: list[Node] = []
    adding: list[int] = []  # ends whose arrays take the sum of what they have and the gradient
    wide = pulled = False
    for node in nodes:
        lazy = node.lazy
        if lazy is not None:
            if lazy.done and not (lazy.joined and state.trace is not None):
                if lazy.saved is None:
                    lazy.forward()
                pulled = True
                part, args = (lazy.derivative, tuple(node.outs)), (lazy.saved,)
                if isinstance(args[0], PullByNumpy):
                    return False
            else:
                part, args = lazy.derivative, lazy
            wide = wide or lazy.wide
        elif node.kernel is None or node in postponed:
            rows.append(None)
            if node.req == "add" and node not in postponed and _may_add(node) and \
                    node.grad._chunk not in [ends[i].grad._chunk for i in adding]:
                adding.append(len(ends))
            ends.append(node)
            continue
        else:
            part, args = node.kernel, node.args
            wide = wide or part.wide
        refs = []
        for arg in args:
            ref = makers.get(id(arg)) if makers else None
            if type(arg) is ShapeOnly:
                ref = arg
            elif ref is None:
                values.append(arg)
            else:
                uses[ref] += 1
            refs.append(ref)
        parents = []
        for parent in node.parents:
            parents.append(None if parent is None else (place[parent[0]], parent[1]))
        rows.append((part, tuple(parents), tuple(refs), len(node.outs)))
    arg = result = None  # they would count as holders
    kept = []
    for number, lazy in owners:
        results = lazy.results
        for k in range(len(results)):
            if getrefcount(results[k]) > ALONE + uses[number, k]:
                kept.append((number, k))
    given = []
    for (node, index), value in heads.items():
        given.append((place[node], index, node.outs[index] if value is _ONES else None))
        if value is not _ONES:
            values.append(value)
    for value in values:
        if getattr(value, "dtype", None) in WIDE_DTYPES:
            wide = True
    structure = tuple(rows), tuple(kept), tuple(given), mirror, tuple(adding)
    if lazies:
        programs = next((lazy for lazy in lazies if lazy.origin is not None), lazies[0]).derivative.programs
        program = programs.made.get(structure) or programs.find(structure, lambda: _Program(*structure), 0)
    else:
        program = _programs.find(structure, lambda: _Program(*structure), trials)
        if program is None:
            return False
    if adding:
        found = iter(_added_up(program, [v.get() if isinstance(v, Promise) else v for v in values],
                               [ends[i] for i in adding], wide))
    elif not pulled and state.trace is not None:
        found = iter(perform(program.kernel, values, ctx, wide))
    else:  # what a forward has kept is no array, so no value of a trace
        found = iter(run(program.kernel, [v.get() if isinstance(v, Promise) else v for v in values], wide))
    grads = []
    for present in program.present:
        grads.append(next(found) if present else None)
    made = dict(zip(kept, found, strict=True))
    for number, lazy in owners:
        values = []
        for k in range(len(lazy.results)):
            values.append(made.get((number, k)))
        lazy.settle(values)
    totals: Totals = {}
    for node, grad in zip(ends, grads, strict=True):
        if grad is not None:
            totals[node, 0] = grad
    if postponed:
        _walk(_calls([node for node in ends if node in postponed], totals, True, False, _store), totals)
    if state.training:
        for place in program.reached:
            if nodes[place].state_update is not None:
                nodes[place].state_update.settle()
    chunks, values = [], []
    for node in ends:
        grad = totals.get((node, 0)) if node not in postponed else None
        if grad is None:
            continue
        target = node.grad
        if node.req == "write" and target._plain and target._view is None and not hasattr(grad, "_chunk") and \
                grad.dtype == node.outs[0][1]:
            chunks.append(target._chunk)  # the usual case, shortest
            values.append(grad)
            node.fresh, target._entry = True, None
        else:
            _store(node, (grad,))
    point(chunks, values)
    if not retain:
        for node, row in zip(nodes, rows, strict=True):
            if row is not None or node in postponed:
                node.free()
    return True


def _may_add(node: Node) -> bool:
    """Returns whether the program can add a gradient to what a variable's array has."""
    target = node.grad
    return state.trace is None and target._plain and target._view is None and target._chunk.ctx is not None and \
        target._chunk.dtype == node.outs[0][1] and target._chunk.dtype not in WIDE_DTYPES


def _added_up(program: _Program, values: list[Any], ends: Sequence[Node], wide: bool) -> Sequence[Any]:
    """Runs a program that adds to gradients, which take the sums; returns its other results."""
    chunks = [node.grad._chunk for node in ends]
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
                continue  # another thread has just put a value off
            results = run_into(program.kernel, args, wide, targets)
        for node, fresh in zip(ends, program.added, strict=True):
            node.fresh = node.fresh or fresh
        return results[len(chunks):]


class _Program:
    """The walk back through `rows` as a kernel of all values from outside, in their order, and the head gradients.

    Its results are, for the ends at `adding`, the sums of their gradients and of the last arguments, which are what
    there was; the gradients of the other ends that have some, latest first; the results of lazy calls that are `kept`.
    present: for each end whether such a gradient is among them; added: for those at `adding` whether there was one;
    reached: the rows of calls that gradients came by; all known once the program has been traced.
    """

    def __init__(self, rows: Sequence[tuple | None], kept: Sequence[tuple], given: Sequence[tuple], mirror: bool,
                 adding: tuple[int, ...]) -> None:
        self._rows, self._kept, self._given, self._mirror, self._adding = rows, kept, given, mirror, adding
        self.present: list[bool] = []
        self.added: list[bool] = []
        self.reached: list[int] = []
        graphs = [row[0] for row in rows if row is not None and not isinstance(row[0], Kernel)]
        name = "backward" if all(isinstance(part, tuple) for part in graphs) else "forward and backward"
        by_parts = all(isinstance(part, Kernel) or isinstance(part, Derivative) and part.by_parts
                       for part in [row[0] for row in rows if row is not None])
        self.kernel = Kernel(name, self._trace, 0, 0, symbolic=bool(graphs), parts=by_parts,
                             options={"trains": True})

    def _trace(self, *values: Any) -> tuple:
        rows, arguments = self._rows, iter(values)
        taken = [None if row is None else [next(arguments) if ref is None else ref for ref in row[2]] for row in rows]
        totals = {(place, index): next(arguments) if spec is None else (np if interpreting() else jnp).ones(*spec)
                  for place, index, spec in self._given}
        made: dict[tuple[int, int], Any] = {}
        pulls: dict[int, Callable[[list[Any]], Sequence[Any]]] = {}
        for i in reversed(range(len(rows))):  # the forwards: the tape's latest call comes first
            if rows[i] is None:
                continue
            part, parents, refs, _ = rows[i]
            args = [made[ref] if type(ref) is tuple else value for value, ref in zip(taken[i], refs, strict=True)]
            if isinstance(part, Kernel):
                wanted = tuple([p is not None for p in parents])
                pulls[i] = derivative_of(part, wanted).traced_pull(args, (), len(args))
            elif isinstance(part, tuple):
                pulls[i] = part[0].traced_pull(args[0], part[1], len(parents))
            else:
                results, pulls[i] = part.trace(args, self._mirror)
                made.update({(i, k): value for k, value in enumerate(results)})
        ends, reached = [], []

        def calls() -> Iterable[tuple]:
            for i, row in enumerate(rows):
                if row is None:
                    ends.append(totals.get((i, 0)))
                    continue
                slots = [totals.pop((i, k), None) for k in range(row[3])]
                if any(s is not None for s in slots):
                    reached.append(i)
                    yield row[1], slots, pulls[i], lambda old, grad: old + grad.astype(old.dtype)
        _walk(calls(), totals)
        self.reached = reached
        self.added = [ends[i] is not None for i in self._adding]
        sums = []
        for i, old in zip(self._adding, arguments, strict=True):
            sums.append(old if ends[i] is None else old + ends[i].astype(old.dtype))
            ends[i] = None
        self.present = [grad is not None for grad in ends]
        return (*sums, *[grad for grad in ends if grad is not None], *[made[ref] for ref in self._kept])


# -------------------------------------------------------------------- gradients of variables
def _store(node: Node, slots: Sequence[Any]) -> None:
    """Writes or adds a gradient to a variable's array."""
    grad, target = slots[0], node.grad
    node.fresh = True
    if not target._plain:
        target._store_gradient(grad, node.req)
        return
    chunk = target._chunk
    if node.req == "write" and target._view is None and not hasattr(grad, "_chunk") and \
            grad.dtype == chunk.dtype:  # the usual case, shortest
        chunk.defer(grad) if isinstance(grad, Promise) else chunk.write(grad)
        target._entry = None
        return
    value = wrap(grad._read() if hasattr(grad, "_chunk") else grad, chunk.ctx)
    value._entry = getattr(grad, "_entry", None)
    if value.dtype != target.dtype:
        with Modes(False, None):
            value = value.astype(target.dtype)
    if node.req == "write":
        _put(target, value)
    elif target._view is None and not hasattr(grad, "_chunk") and state.trace is None:
        target._update(_ADD, [None, value])
    else:
        with exclusive([chunk]):
            _put(target, target + value)


class _Retained:
    """Stores gradients of a call's results, which are no variables, when they come by; a `Node.watch`."""

    def __init__(self, before: Callable[..., None] | None) -> None:
        self.stores: dict[int, Node] = {}
        self._before = before

    def __call__(self, slots: list[Any], grads: Any) -> None:
        for i, variable in self.stores.items():
            if slots[i] is not None:
                _store(variable, [slots[i]])
        if self._before is not None:
            self._before(slots, grads)


def retain(array: Any, gradient: Any, req: str) -> None:
    """Has backward passes store the gradient of a recorded result, from which they go on."""
    node, place = array._entry
    if not isinstance(node.watch, _Retained):
        node.watch = _Retained(node.watch)
    variable = Node(None)
    variable.grad, variable.req = gradient, req
    node.watch.stores[place] = variable
    array._grad = gradient


def drop(array: Any) -> None:
    """Takes an array's gradient away; it counts as a constant from now on, unless it is the result of a call."""
    array._grad = None
    entry = array._entry
    if entry is None:
        return
    if entry[0].grad is not None:
        array._entry = None
    elif isinstance(entry[0].watch, _Retained):
        entry[0].watch.stores.pop(entry[1], None)


def _put(target: Any, value: Any) -> None:
    """Makes a new array's value, and its place in the recorded graph, a gradient's."""
    target._write(value._chunk.peek() if value._view is None else value._read())
    target._entry = value._entry
