"""The tape: nodes for recorded calls, and the walk back through them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._bounded import Bounded
from ..base import MXNetError
from ..ndarray._chunk import Pending, changing
from ..ndarray._invoke import invoke, late, perform, state, wrap
from ..ndarray._recorded import run_together
from ..ops.kernel import Absent, Kernel, is_wide

__all__ = ["Node", "backward", "entries", "fitting", "mark", "record"]

_sequence = itertools.count()


class Node:
    """A recorded call, or (kernel None) a variable.

    args: the call's arguments (buffers, Pending, Absent or extras); parents: for each argument the (node, output) it
    came from, or None; outs: (shape, dtype) of each output. A variable has grad (an NDArray) and req instead.
    """

    __slots__ = ("kernel", "args", "parents", "outs", "ctx", "grad", "req", "sequence", "pull", "alive", "fresh",
                 "watch")

    def __init__(self, kernel: Kernel | None, args: Sequence[Any] = (), parents: Sequence[Any] = (),
                 outs: Sequence[Any] = (), ctx: Any = None) -> None:
        self.kernel, self.args, self.parents, self.outs, self.ctx = kernel, args, parents, outs, ctx
        self.grad, self.req, self.pull, self.alive, self.fresh = None, "null", None, True, False
        self.watch: Callable[[Sequence[Any]], None] | None = None  # called with the gradients of the arguments
        self.sequence = next(_sequence)

    @property
    def by_rows(self) -> bool:
        """Whether this is a variable whose gradient is row_sparse."""
        return getattr(self.grad, "stype", "default") == "row_sparse"


def mark(array: Any, gradient: Any, req: str) -> None:
    """Makes an array a variable with this gradient buffer."""
    if req == "null":
        array._entry = array._grad = None
        if gradient is not None:
            array._grad = gradient
        return
    node = Node(None)
    node.grad, node.req = gradient, req
    node.outs = ((array.shape, array._chunk.dtype),)
    array._entry, array._grad = (node, 0), gradient


def entries(arrays: Sequence[Any]) -> list[Any]:
    """Places of a recorded call's inputs on the tape; what an earlier backward has freed counts as a constant.

    An array with grad_req "null" loses its gradient (in MXNet at the backward).
    """
    found = []
    for array in arrays:
        entry = array._entry
        if entry is None:
            array._grad = None
        elif not entry[0].alive:
            entry = None
        found.append(entry)
    return found


def record(kernel: Kernel, arrays: Sequence[Any], args: list[Any], results: Sequence[Any]) -> None:
    """Notes a call whose inputs are part of a graph; `args` are the inputs' values and the extras."""
    parents = entries(arrays)
    if not any(parents):
        for result in results:
            result._entry = None
        return
    wanted = tuple([p is not None for p in parents] + [False] * (len(args) - len(parents)))
    heads = (True,) * kernel.num_outputs
    if not kernel.eager:
        args = _kept(kernel, args, wanted, heads)
    node = Node(kernel, args, parents + [None] * (len(args) - len(parents)),
                [(r._chunk.shape, r._chunk.dtype) for r in results], arrays[0]._chunk.ctx)
    if kernel.by_rows and parents[1] is not None and parents[1][0].by_rows:
        node.pull = _embedding_pull(kernel.params, args[0])
    for i, result in enumerate(results):
        result._entry = (node, i)


def _embedding_pull(params: dict[str, Any], data: Any) -> Callable[..., list[Any]]:
    from ..ndarray._sparse_forms import embedding_gradient

    def pull(slots: list[Any], _: bool) -> list[Any]:
        head, indices = (v.get() if isinstance(v, Pending) else v for v in (_buffer(slots[0]), data))
        return [None, embedding_gradient(params, indices, head)]
    return pull


def _buffer(grad: Any) -> Any:
    """A gradient as a buffer or Pending: a sparse one becomes dense."""
    return grad._read() if isinstance(grad, late.array) else grad


def _kept(kernel: Kernel, args: list[Any], wanted: tuple[bool, ...], heads: tuple[bool, ...]) -> list[Any]:
    """The arguments with those that the backward pass does not read replaced by `Absent`."""
    prunable = kernel._needs.get(wanted)
    if prunable is None:
        prunable = kernel._needs[wanted] = not all(
            n for n, a in zip(kernel.needs(args, wanted, heads), args, strict=True) if hasattr(a, "shape"))
    if not prunable:
        return args
    needs = kernel.needs(args, wanted, heads)
    return [a if n or not hasattr(a, "shape") else Absent(a.shape, a.dtype) for a, n in zip(args, needs, strict=True)]


def backward(heads: Sequence[Any], head_grads: Sequence[Any], retain: bool, create_graph: bool,
             variables: Sequence[Any] | None = None) -> list[Any] | None:
    """Walks back from `heads`; fills the variables' gradients, or returns those of `variables`.

    Gradients are buffers, or NDArrays on the tape themselves where `create_graph` is set.
    """
    NDArray = late.array  # noqa: N806
    totals: dict[tuple[int, int], Any] = {}
    roots: dict[int, Node] = {}
    for head, given in zip(heads, head_grads, strict=True):
        if head._entry is None:
            raise MXNetError("cannot differentiate: an array is not in a computational graph; you need to set "
                             "is_recording to true or use autograd.record() to save the graph")
        node, index = head._entry
        if given is None:
            given = _ones(head.shape, head._chunk.dtype, head._chunk.ctx)
        else:
            given = fitting(given, head.shape)
            given = given if create_graph else given._read()
        if create_graph and not isinstance(given, NDArray):
            given = wrap(given, head._chunk.ctx)
        _add(totals, (id(node), index), given, create_graph, head._chunk.ctx)
        roots[id(node)] = node
    nodes = _reachable(roots)
    if variables is None and not create_graph and (run_together(nodes, totals, retain) or
                                                   _replay(nodes, totals, retain)):
        return None
    kept = {v._entry[0].sequence if v._entry else -1 for v in variables or ()}
    results: dict[int, Any] = {}
    for node in nodes:
        slots = [totals.pop((id(node), i), None) for i in range(len(node.outs))]
        if node.kernel is None and node.pull is None or node.sequence in kept:
            results[node.sequence] = slots
            if node.kernel is None and node.pull is None:
                if variables is None and slots[0] is not None:
                    _store(node, slots[0])
                continue
        if all(s is None for s in slots):
            continue
        if not node.alive:
            raise MXNetError("backward through a graph that a previous backward has freed: "
                             "pass retain_graph=True to the first one")
        grads = node.pull(slots, create_graph) if node.pull else _pull(node, slots, create_graph)
        if node.watch is not None:
            node.watch(grads)
        for parent, grad in zip(node.parents, grads, strict=False):
            if parent is not None and grad is not None:
                _add(totals, (id(parent[0]), parent[1]), grad, create_graph, node.ctx)
        if not retain:
            node.args, node.alive = (), False
    if variables is None:
        return None
    return [(results.get(v._entry[0].sequence) or [None] * (v._entry[1] + 1))[v._entry[1]] if v._entry else None
            for v in variables]


def fitting(given: Any, shape: tuple[int, ...]) -> Any:
    """A head gradient as an array of its head's shape: MXNet reads as many elements as it needs.

    Raises:
        MXNetError: there are too few.
    """
    if given.shape == shape:
        return given
    if given.size < math.prod(shape):
        raise MXNetError(f"backward: head gradient has shape {given.shape}, its head {shape}")
    flat = given.reshape(-1)[:math.prod(shape)]
    return flat.reshape(shape) if flat.size else flat._view_at(0, shape)  # where reshape takes 0 for "as it is"


_SEEN_BEFORE_COMPILING = 2
_LARGEST_PROGRAM = 64  # nodes; beyond that the calls' own work outweighs what dispatch costs
_programs: dict[tuple, list[Any]] = Bounded(512)


def _replay(nodes: list[Node], heads: dict[tuple[int, int], Any], retain: bool) -> bool:
    """Runs the whole walk as one compiled program where this structure has been seen before; False: it did not.

    The structure is the kernels, how they are connected and which heads are given; the saved arguments are the
    program's inputs. A graph that changes every time never pays for compilation.
    """
    if len(nodes) > _LARGEST_PROGRAM or sum(n.kernel is not None for n in nodes) < 2:  # one call is a program already
        return False
    place = {id(node): i for i, node in enumerate(nodes)}
    rows: list[Any] = []
    values: list[Any] = []
    for node in nodes:
        kernel = node.kernel
        if node.pull is not None:
            return False
        if kernel is None:
            rows.append(None)
            continue
        if kernel.eager or not node.alive or node.watch is not None:
            return False
        rows.append((kernel, tuple([None if p is None else (place[id(p[0])], p[1]) for p in node.parents]),
                     len(node.outs)))
        values += node.args
    given = tuple([(place[node], index) for node, index in heads])
    key = (tuple(rows), given)
    entry = _programs.get(key)
    if entry is None:
        entry = _programs[key] = [0, None]
    entry[0] += 1
    if entry[0] <= _SEEN_BEFORE_COMPILING:
        return False
    if entry[1] is None:
        entry[1] = Kernel("backward", _walk(rows, given), 0, sum(r is None for r in rows))
    values += heads.values()
    wide = any([is_wide(v.dtype) for v in values if hasattr(v, "dtype")])
    ctx = next((n.ctx for n in nodes if n.kernel is not None), None)
    grads = perform(entry[1], values, ctx, wide or any([r is not None and r[0].wide for r in rows]))
    for node, grad in zip([n for n in nodes if n.kernel is None], grads, strict=True):
        if grad is not None:
            _store(node, grad)
    if not retain:
        for node in nodes:
            if node.kernel is not None:
                node.args, node.alive = (), False
    return True


def _walk(rows: list[Any], given: tuple) -> Callable[..., tuple]:
    """The function of saved arguments and head gradients that walks back through `rows`."""
    def fn(*values: Any) -> tuple:
        arguments = iter(values)
        saved = [None if row is None else [next(arguments) for _ in row[1]] for row in rows]
        totals = dict(zip(given, arguments, strict=True))
        results = []
        for i, row in enumerate(rows):
            if row is None:
                results.append(totals.get((i, 0)))
                continue
            kernel, parents, count = row
            slots = [totals.get((i, k)) for k in range(count)]
            wanted = tuple(p is not None for p in parents)
            if not any(wanted) or all(s is None for s in slots):
                continue
            heads = tuple([s is not None for s in slots] + [False] * (kernel.num_outputs - count))
            grads = iter(kernel.vjp(wanted, heads).fn(*saved[i], *[s for s in slots if s is not None]))
            for parent in parents:
                if parent is not None:
                    grad = next(grads)
                    totals[parent] = totals[parent] + grad.astype(totals[parent].dtype) if parent in totals else grad
        return tuple(results)
    return fn


def _reachable(roots: dict[int, Node]) -> list[Node]:
    """All nodes behind the roots, latest first: an order in which every node follows its users."""
    found, stack = dict(roots), list(roots.values())
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and id(parent[0]) not in found:
                found[id(parent[0])] = parent[0]
                stack.append(parent[0])
    return sorted(found.values(), key=lambda n: -n.sequence)


def _pull(node: Node, slots: list[Any], create_graph: bool) -> list[Any]:
    """Gradients of a node's arguments (None where there is none)."""
    wanted = tuple([p is not None for p in node.parents])
    if not any(wanted):
        return []
    heads = tuple([s is not None for s in slots] + [False] * (node.kernel.num_outputs - len(slots)))
    kernel = node.kernel.vjp(wanted, heads)
    given = [s if create_graph else _buffer(s) for s in slots if s is not None]
    if create_graph:
        grads = _pull_recorded(node, kernel, [s.get() if isinstance(s, Pending) else s for s in given])
    else:
        args = [*node.args, *given]
        grads = perform(kernel, args, node.ctx, any(is_wide(a.dtype) for a in args if hasattr(a, "dtype")))
    result, grads = [], iter(grads)
    for w in wanted:
        result.append(next(grads) if w else None)
    return result


def _pull_recorded(node: Node, kernel: Kernel, given: list[Any]) -> list[Any]:
    """As a recorded call: the backward kernel's arguments become arrays with their places in the graph."""
    arrays, fixed = [], []
    for arg, parent in zip(node.args, node.parents, strict=True):
        if isinstance(arg, (Pending, jax.Array)):
            array = wrap(arg, node.ctx)
            array._entry = parent
            arrays.append(array)
            fixed.append(None)
        else:
            fixed.append(arg)
    layout = tuple(f if f is None or isinstance(f, Absent) else ... for f in fixed)
    extras = tuple(f for f in fixed if f is not None and not isinstance(f, Absent))
    cache = kernel.params.setdefault("layouts", Bounded(64))
    if layout not in cache:
        count = sum(1 for f in layout if f is None)

        def fn(*args: Any) -> tuple:
            values, others = iter(args[:count]), iter(args[count + len(given):])
            full = [next(values) if f is None else next(others) if f is ... else f for f in layout]
            return kernel.fn(*full, *args[count:count + len(given)])
        cache[layout] = Kernel(kernel.name, fn, count + len(given), kernel.num_outputs, wide=kernel.wide,
                               eager=kernel.eager)
    result = invoke(cache[layout], arrays + given, extras)
    return result if isinstance(result, list) else [result]


def _add(totals: dict, key: tuple[int, int], grad: Any, recorded: bool, ctx: Any) -> None:
    old = totals.get(key)
    if old is None:
        totals[key] = grad
    elif recorded or isinstance(old, late.array) and isinstance(grad, late.array):
        totals[key] = old + grad
    else:
        values = [_buffer(old), _buffer(grad)]
        totals[key] = perform(_ADD, values, ctx, is_wide(values[1].dtype))[0]


_ADD = Kernel("gradient accumulation", lambda a, b: (a + b.astype(a.dtype),), 2, 1)
_ones_cache: dict[Any, Any] = Bounded(256)


def _ones(shape: tuple[int, ...], dtype: np.dtype, ctx: Any) -> Any:
    """A shared buffer of ones (heads without a given gradient)."""
    key = (shape, dtype, ctx)
    found = _ones_cache.get(key)
    if found is None:
        from ..ndarray._invoke import put
        found = put(np.ones(shape, dtype), ctx)
        if found.size <= 4096 and not isinstance(found, jax.core.Tracer):
            _ones_cache[key] = found
    return found


def _store(node: Node, grad: Any) -> None:
    """Writes or adds a gradient to a variable's buffer."""
    NDArray = late.array  # noqa: N806
    target = node.grad
    node.fresh = True
    if not getattr(target, "_plain", True):
        target._store_gradient(grad, node.req)
        return
    if isinstance(grad, NDArray):
        value = wrap(grad._read(), target._chunk.ctx)
        value._entry = grad._entry
    else:
        value = wrap(grad, target._chunk.ctx)
    if value.dtype != target.dtype:
        recording, state.recording = state.recording, False
        value = value.astype(target.dtype)
        state.recording = recording
    if node.req == "add" and target._view is None and not isinstance(grad, NDArray) and state.segment is None:
        target._update(_ADD, [None, value])
        return
    if node.req == "add":
        with changing([target._chunk]):
            _put(target, target + value)
    else:
        _put(target, value)


def _put(target: Any, value: Any) -> None:
    """Makes a new array's value, and its place in the recorded graph, a gradient's."""
    target._write(value._chunk.peek() if value._view is None else value._read())
    target._entry = value._entry


late.record = record
