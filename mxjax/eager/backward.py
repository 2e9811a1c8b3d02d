"""Backward passes from heads to the gradients of variables, as one program if that pays off, otherwise call by call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import jax.numpy as jnp

from ..base import MXNetError
from ..context import current_context
from ..kernel.policy import next_round
from .array_types import wrap
from .backward_program import run_together
from .gradients import ONES, Totals, drop, ones, resolved, retain, store
from .handle import Handle
from .modes import state
from .promise import zeros
from .tape import Node
from .walk import pulls, walk

__all__ = ["backward", "drop", "is_read", "retain", "walk_back"]


def backward(heads: Sequence[Any], head_grads: Sequence[Any], retain_graph: bool = False,
             train_mode: bool = True) -> None:
    """Implements `mx.autograd.backward` for a list of heads, with one gradient (None: ones) each."""
    before = state.recording, state.training
    state.recording, state.training = False, train_mode
    try:
        walk_back(heads, head_grads, retain_graph, False)
    finally:
        state.recording, state.training = before


def walk_back(heads: Sequence[Any], head_grads: Sequence[Any], retain: bool, create_graph: bool,
              variables: Sequence[Any] | None = None) -> list[Any] | None:
    """Walks back from `heads`; writes the gradients of marked variables, or returns those of `variables`.

    Gradients are buffers, or recorded NDArrays if `create_graph` is set.
    """
    next_round()
    totals: Totals = {}
    for head, grad in zip(heads, head_grads, strict=True):
        if head.entry is None:
            raise MXNetError("cannot differentiate: an array is not in a computational graph; you need to set "
                             "is_recording to true or use autograd.record() to save the graph")
        if grad is None:
            grad = ones(*head.entry) if create_graph else ONES
        else:
            grad = _fitting(grad, head)
            keeps = create_graph or not grad.dense and head.entry[0].pull is not None  # a sparse array may use it
            grad = grad if keeps else grad.read()
        if create_graph and not isinstance(grad, Handle):
            grad = wrap(grad, head.chunk.ctx)
        totals[head.entry] = grad  # of a head that comes twice the last one counts, as in MXNet
    nodes = _reachable(totals)
    for node in nodes:  # without a function for each: this is part of every step
        kernel = node.kernel if node.lazy is None or not node.alive else node.lazy.derivative.kernel
        if kernel is not None and kernel.starts and (node, 0) not in totals:
            _start_at_losses(nodes, totals, create_graph)
            break
    if variables is None:
        for node in reversed(nodes):  # variables come last
            if node.variable:
                break
        else:
            raise MXNetError("backward: no array in the graph requires a gradient")
        if create_graph or not run_together(nodes, totals, retain):
            for entry in totals:
                totals[entry] = resolved(entry, totals)
            walk(pulls(nodes, totals, retain, create_graph, store), totals)
        return None
    requested = {v.entry[0] for v in variables if v.entry}
    result: dict[tuple[Node, int], Any] = {}

    def keep(node: Node, slots: list[Any]) -> None:
        result.update({(node, i): slot for i, slot in enumerate(slots)})
    for entry in totals:
        totals[entry] = resolved(entry, totals)
    walk(pulls(nodes, totals, retain, create_graph, keep, requested), totals)
    return [result.get(v.entry) if v.entry else None for v in variables]


def _fitting(gradient: Any, head: Any) -> Any:
    """Returns a head gradient in the shape of its head: MXNet reads as many elements as it needs.

    Raises:
        MXNetError: there are too few.
    """
    shape = head.shape
    if gradient.shape == shape:
        return gradient
    if gradient.size < math.prod(shape):
        if not is_read(*head.entry):
            return wrap(jnp.zeros(shape, head.chunk.dtype), head.chunk.ctx)
        raise MXNetError(f"backward: head gradient has shape {gradient.shape}, but its head has shape {shape}")
    flat = gradient.reshape(-1)[:math.prod(shape)]
    return flat.reshape(shape) if flat.size else flat.view_at(0, shape)  # reshape interprets 0 as "unchanged"


def is_read(node: Node, index: int) -> bool:
    """Returns whether a backward pass reads the gradient of this result; losses do not."""
    kernel, args = node.kernel, node.args
    if node.lazy is not None and node.alive:
        kernel, args = node.lazy.derivative.kernel, list(node.lazy)
    return kernel is None or not node.alive or \
        kernel.reads_out_grad(args, tuple([parent is not None for parent in node.parents]), index)


def _start_at_losses(nodes: Sequence[Node], totals: Totals, create_graph: bool) -> None:
    """Adds zeros as gradients of the losses behind calls that pass no gradients on, as MXNet computes theirs, too."""
    reached = {node for node, _ in totals}
    for node in nodes:
        kernel = node.kernel if node.lazy is None or not node.alive else node.lazy.derivative.kernel
        if kernel is not None and kernel.starts and node not in reached:
            reached.add(node)
            shape, dtype = node.outs[0]
            zero = zeros(shape, dtype, node.ctx or current_context())
            totals[node, 0] = wrap(zero, node.ctx) if create_graph else zero
        if node in reached:
            constant = () if kernel is None else kernel.constant
            reached.update([parent[0] for i, parent in enumerate(node.parents)
                            if parent is not None and i not in constant])


_by_sequence = attrgetter("sequence")


def _reachable(roots: Iterable[tuple[Node, int]]) -> list[Node]:
    """Returns all nodes that the roots depend on, latest first, so that every node follows its users."""
    result = {}
    for node, _ in roots:
        result[node] = None
    stack = list(result)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent[0] not in result:
                result[parent[0]] = None
                stack.append(parent[0])
    return sorted(result, key=_by_sequence, reverse=True)
