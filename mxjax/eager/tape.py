"""The tape: nodes for recorded calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..kernel.kernel import Kernel
from .handle import Handle
from .promise import Promise

__all__ = ["GRAD_REQS", "Node", "entries", "mark", "record"]

GRAD_REQS = ("null", "write", "add")  # the effect of a backward pass on a gradient

_sequence = itertools.count()


class Settling(Protocol):
    """States that change when a backward pass reaches a call."""

    def settle(self) -> None:
        """Updates the states."""


class Node:
    """A recorded call, or a variable.

    A call has a `kernel`, is `lazy` (see `mxjax.eager.deferred_call`), or has a function `pull(head
    gradients, create_graph)` that returns the gradients of its arguments. args: the call's
    arguments (buffers, promises, ShapeOnly or extras);
    parents: for each argument the (node, output) it came from, or None; outs: (shape, dtype) of each output; watch:
    called with the head gradients and those of the arguments; state_update: states that change then. A variable has
    grad (an NDArray) and req instead.
    """

    __slots__ = ("kernel", "args", "parents", "outs", "ctx", "grad", "req", "sequence", "pull", "lazy", "alive",
                 "fresh", "watch", "state_update")
    pull: Callable[..., Sequence[Any]] | None
    watch: Callable[[Sequence[Any], Sequence[Any]], None] | None
    state_update: Settling | None

    def __init__(self, kernel: Kernel | None, args: Sequence[Any] = (), parents: Sequence[Any] = (),
                 outs: Sequence[Any] = (), ctx: Any = None, pull: Callable[..., Any] | None = None,
                 lazy: Any = None) -> None:
        self.kernel, self.args, self.parents, self.outs, self.ctx = kernel, args, parents, outs, ctx
        self.req, self.alive, self.fresh = "null", True, False
        self.grad: Any = None
        self.lazy: Any = lazy
        self.pull, self.watch, self.state_update = pull, None, None
        self.sequence = next(_sequence)

    @property
    def variable(self) -> bool:
        """Returns whether this is a variable, not a call."""
        return self.kernel is None and self.lazy is None and self.pull is None

    @property
    def by_rows(self) -> bool:
        """Returns whether this is a variable whose gradient is row_sparse."""
        return self.grad is not None and self.grad.stype == "row_sparse"

    def free(self) -> None:
        """Releases the values that a backward pass needs."""
        self.args, self.alive, self.state_update = (), False, None
        if self.lazy is not None:
            self.lazy = _Freed


class _Freed:
    """Represents a lazy call that was released."""


def mark(array: Any, gradient: Any, req: str) -> None:
    """Marks an array as a variable with this gradient buffer."""
    if req == "null":
        array.entry = array.gradient = None
        if gradient is not None:
            array.gradient = gradient
        return
    node = Node(None)
    node.grad, node.req = gradient, req
    node.outs = ((array.shape, array.chunk.dtype),)
    array.entry, array.gradient = (node, 0), gradient


def entries(arrays: Sequence[Any]) -> list[Any]:
    """Returns the tape positions of a recorded call's inputs; inputs that an earlier backward pass
    has freed are constants.

    An array with grad_req "null" loses its gradient (in MXNet during the backward pass).
    """
    results = []
    for array in arrays:
        entry = array.entry
        if entry is None:
            array.gradient = None
        elif not entry[0].alive:
            entry = None
        results.append(entry)
    return results


def record(kernel: Kernel, arrays: Sequence[Any], args: Sequence[Any], results: Sequence[Any]) -> None:
    """Records a call whose inputs are part of a graph; `args` are the inputs' values and the extras."""
    parents = entries(arrays)
    if not any(parents):
        for result in results:
            result.entry = None
        return
    if len(args) > len(parents):
        parents += [None] * (len(args) - len(parents))
    if not kernel.eager:
        args = kernel.kept(args, parents)
    outs = []
    for result in results:
        chunk = result.chunk
        value = chunk.buffer
        if value is None:
            value = chunk.peek()
        outs.append((value.shape, value.dtype))
        if kernel.keeps_result:
            args = (value,)
    node = Node(kernel, args, parents, outs, arrays[0].chunk.ctx)
    if kernel.by_rows and parents[1] is not None and parents[1][0].by_rows:
        node.pull = _pull_rows(kernel.params, args[0], parents[1][0].grad)
    for i, result in enumerate(results):
        result.entry = (node, i)


def _pull_rows(params: dict[str, Any], data: Any, table: Any) -> Callable[..., list[Any]]:
    """The gradient of a table: the gradient of the rows that were looked up."""
    def pull(slots: list[Any], _: bool) -> list[Any]:
        out_grad = slots[0].read() if isinstance(slots[0], Handle) else slots[0]
        out_grad, indices = (v.get() if isinstance(v, Promise) else v for v in (out_grad, data))
        return [None, table.gradient_of_lookups(params, indices, out_grad)]
    return pull
