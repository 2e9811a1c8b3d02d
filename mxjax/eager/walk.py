"""The walk back through the tape call by call, and the accumulation of gradients, which compiled programs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from .._support.bounded import Bounded
from .._xla.x64 import X64_DTYPES
from ..base import MXNetError
from ..context import Context
from ..kernel.kernel import Kernel
from ..kernel.shape_only import ShapeOnly
from .array_types import wrap
from .dispatch import invoke, perform
from .gradients import Totals, add_up
from .handle import Handle
from .modes import state
from .promise import Promise, on_devices
from .tape import Node

__all__ = ["pulls", "walk"]


def walk(calls: Iterable[tuple], totals: dict[Any, Any]) -> None:
    """Accumulates gradients by position: `calls` are (positions of the arguments, gradients of the
    outputs, pull, add)."""
    for parents, slots, pull, add in calls:
        for parent, grad in zip(parents, pull(slots), strict=False):
            if parent is not None and grad is not None:
                old = totals.get(parent)
                totals[parent] = grad if old is None else add(old, grad)


def pulls(nodes: Sequence[Node], totals: Totals, retain: bool, create_graph: bool,
           at_end: Callable[[Node, list[Any]], None], ends: Iterable[Node] = ()) -> Iterable[tuple]:
    """Yields the calls that gradients reach, for `walk`, each one after all calls that use its results.

    Args:
        nodes: all nodes, latest first.
        totals: gradients of the heads.
        retain: keep the values that another pass needs.
        create_graph: record the gradients.
        at_end: function(node, gradients of its outputs) that is called for variables and the nodes
            in `ends`.
        ends: further nodes whose gradients are requested.

    Raises:
        MXNetError: an earlier backward pass has freed a call.
    """
    for node in nodes:
        slots = [totals.pop((node, i), None) for i in range(len(node.outs))]
        if all(s is None for s in slots):
            if node.variable:  # only reached through operators whose gradients are zero
                at_end(node, slots)
            elif node.state_update is not None and state.training:
                node.state_update.settle()
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
        yield node.parents, slots, pull, lambda old, grad, node=node: add_up(old, grad, node.ctx)
        if not retain:
            node.free()


def _pull(node: Node, slots: list[Any], create_graph: bool) -> Sequence[Any]:
    """Returns the gradients of a call's arguments (None if there is none)."""
    if node.pull is not None:
        return node.pull(on_devices(slots), create_graph)
    kernel, args = node.kernel, node.args
    if node.lazy is not None:
        if not create_graph:
            return node.lazy.gradients([s.read() if isinstance(s, Handle) else s for s in slots], node.outs)
        kernel, args = node.lazy.derivative.kernel, list(node.lazy)
    needs_grad = () if kernel is None else kernel.needs_grad(node.parents)
    if kernel is None or not any(needs_grad):
        return []
    has_grad = tuple([s is not None for s in slots] + [False] * (kernel.num_outputs - len(slots)))
    backward = kernel.vjp(needs_grad, has_grad)
    if create_graph:
        head_grads = [s.get() if isinstance(s, Promise) else s for s in slots if s is not None]
        grads = iter(_pull_recorded(node.parents, args, node.ctx, backward, head_grads))
    else:
        args = [*args, *[s.read() if isinstance(s, Handle) else s for s in slots if s is not None]]
        grads = iter(perform(backward, args, node.ctx, any([getattr(a, "dtype", None) in X64_DTYPES for a in args])))
    return [next(grads) if w else None for w in needs_grad]


def _pull_recorded(parents: Sequence[Any], args: Sequence[Any], ctx: Context, kernel: Kernel,
                   cotangents: list[Any]) -> list:
    """Returns the gradients as results of a recorded call, whose arguments are arrays with their places on the tape."""
    arrays, fixed = [], []
    for arg, parent in zip(args, parents, strict=True):
        if isinstance(arg, (Promise, jax.Array)):
            array = wrap(arg, ctx)
            array.entry = parent
            arrays.append(array)
            fixed.append(None)
        else:
            fixed.append(arg)
    layout = tuple(f if f is None or isinstance(f, ShapeOnly) else ... for f in fixed)
    extras = tuple(f for f in fixed if f is not None and not isinstance(f, ShapeOnly))
    cached = _layouts.get((kernel, layout))
    if cached is None:
        count = len(arrays)

        def fn(*args: object) -> tuple:
            values, others = iter(args[:count]), iter(args[count + len(cotangents):])
            full = [next(values) if f is None else next(others) if f is ... else f for f in layout]
            return kernel.fn(*full, *args[count:count + len(cotangents)])
        x64 = kernel.x64 or any([f is not ... and f is not None and f.dtype in X64_DTYPES for f in layout])
        cached = _layouts[kernel, layout] = Kernel(kernel.name, fn, count + len(cotangents), kernel.num_outputs,
                                                   x64=x64, eager=kernel.eager)
    result = invoke(cached, arrays + cotangents, extras)
    return result if isinstance(result, list) else [result]


_layouts: dict[tuple, Kernel] = Bounded(1024)
