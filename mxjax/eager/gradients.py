"""Gradients: sums, initial ones, and storage in variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from jax.core import Tracer

from .._support.bounded import Bounded
from .._xla.x64 import X64_DTYPES
from ..context import Context, current_context
from ..interpret.direct import to_dtype
from ..kernel.bound_form import FunctionForm
from ..kernel.kernel import Kernel
from .array_types import wrap
from .chunk import exclusive
from .dispatch import perform
from .handle import Handle
from .modes import Modes, state
from .promise import Promise, as_buffer, put, zeros
from .tape import Node

__all__ = ["ONES", "Totals", "add_up", "drop", "may_add", "ones", "resolved", "retain", "store"]

Totals = dict[tuple[Node, int], Any]  # gradients by node and output number
ONES: Any = object()  # marks the default gradient of a head until it is needed

ADD = Kernel("gradient accumulation", lambda a, b: (a + b.astype(a.dtype),), 2, 1, options={"any_size": True},
             form=FunctionForm(lambda a, b: a + to_dtype(b, a.dtype), copies=True))
_ones_known: dict[Any, Any] = Bounded(16)  # of at most 1 or 2 MB


def add_up(old: Any, grad: Any, ctx: Context) -> Any:
    """Returns the sum of two gradients; recorded if they are arrays on the tape."""
    if isinstance(old, Handle) and (isinstance(grad, Handle) or state.recording):
        return cast(Any, old) + grad  # by the arrays' operators
    values = [v.read() if isinstance(v, Handle) else v for v in (old, grad)]
    return perform(ADD, values, ctx, values[1].dtype in X64_DTYPES)[0]


def resolved(entry: tuple[Node, int], totals: Totals) -> Any:
    """Returns the gradient of an entry; ones if none was passed."""
    return ones(*entry) if totals[entry] is ONES else totals[entry]


def ones(node: Node, index: int) -> Any:
    """Returns a shared buffer of ones for an output of a node."""
    (shape, dtype), ctx = node.outs[index], node.ctx or current_context()
    key = shape, dtype, ctx.device_typeid, ctx.device_id
    cached = _ones_known.get(key)
    if cached is None:
        cached = put(np.ones(shape, dtype), ctx)
        if cached.size <= 1 << 18 and not isinstance(cached, Tracer):
            _ones_known[key] = cached
    return cached


# -------------------------------------------------------------------- gradients of variables
def may_add(node: Node) -> bool:
    """Returns whether the program can add a gradient to the value of a variable's gradient array."""
    target = node.grad
    return state.trace is None and target.dense and target.region is None and target.chunk.ctx is not None and \
        target.chunk.dtype == node.outs[0][1] and target.chunk.dtype not in X64_DTYPES


def store(node: Node, slots: Sequence[Any]) -> None:
    """Writes or adds a gradient (None: zero) to a variable's array."""
    grad: Any = slots[0]
    target = node.grad
    node.fresh = True
    if grad is None:
        if node.req == "add":
            return
        grad = zeros(target.shape, target.chunk.dtype, target.chunk.ctx or current_context())
    if not target.dense:
        target.store_gradient(as_buffer(grad), node.req)
        return
    chunk = target.chunk
    if node.req == "write" and target.region is None and not isinstance(grad, Handle) and \
            grad.dtype == chunk.dtype:  # the usual case, shortest
        chunk.defer(grad) if isinstance(grad, Promise) else chunk.write(grad)
        target.entry = None
        return
    value = wrap(grad.read() if isinstance(grad, Handle) else grad, chunk.ctx)
    value.entry = getattr(grad, "entry", None)
    if value.dtype != target.dtype:
        with Modes(False, None):
            value = value.astype(target.dtype)
    if node.req == "write":
        _put(target, value)
    elif target.region is None and not isinstance(grad, Handle) and state.trace is None:
        target.update(ADD, [None, value])
    else:
        with exclusive([chunk]):
            _put(target, target + value)


class _Retained:
    """Stores gradients of a call's results, which are not variables, during the backward pass; a `Node.watch`."""

    def __init__(self, before: Callable[..., None] | None) -> None:
        self.stores: dict[int, Node] = {}
        self._before = before

    def __call__(self, slots: Sequence[Any], grads: Sequence[Any]) -> None:
        for i, variable in self.stores.items():
            if slots[i] is not None:
                store(variable, [slots[i]])
        if self._before is not None:
            self._before(slots, grads)


def retain(array: Any, gradient: Any, req: str) -> None:
    """Makes backward passes store the gradient of a recorded result and continue from it."""
    node, place = array.entry
    if not isinstance(node.watch, _Retained):
        node.watch = _Retained(node.watch)
    variable = Node(None)
    variable.grad, variable.req = gradient, req
    node.watch.stores[place] = variable
    array.gradient = gradient


def drop(array: Handle) -> None:
    """Removes an array's gradient; the array is then a constant, unless it is the result of a recorded call."""
    array.gradient = None
    entry = array.entry
    if entry is None:
        return
    if entry[0].grad is not None:
        array.entry = None
    elif isinstance(entry[0].watch, _Retained):
        entry[0].watch.stores.pop(entry[1], None)


def _put(target: Handle, value: Handle) -> None:
    """Gives a gradient array the value and the tape position of a new array."""
    target.write(value.chunk.peek() if value.region is None else value.read())
    target.entry = value.entry
