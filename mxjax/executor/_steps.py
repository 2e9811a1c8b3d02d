"""Runs a graph operator by operator, for graphs with operators on the host, for monitors, and for several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..array.dense import NDArray
from ..base import MXNetError
from ..context import Context
from ..eager.dispatch import invoke, stored_as_asked
from ..graph.lowering import Lowered
from ..graph.node import Node
from ..kernel.kernel import Kernel

__all__ = ["Kept", "Observer", "run_steps", "step"]

Kept = dict[int, dict[str, Any]] | None
Observer = Callable[[Node, Sequence[NDArray], "Sequence[NDArray] | None"], None]


def run_steps(graph: Lowered, arrays: Sequence[NDArray], train: bool, place: Callable[[Node], Context],
              observe: Observer | None, moves: bool = False, kept: Kept = None) -> list[NDArray]:
    """Runs a graph and returns its outputs.

    Args:
        graph: the graph.
        arrays: values of its variables, in the order of its nodes.
        train: training mode, which must be the thread's.
        place: function that maps a node to its context.
        observe: function that is called with each node, its inputs and None before the node runs,
            and with its outputs afterwards.
        moves: copy inputs to the context of a node.
        kept: as in `step`.

    Raises:
        MXNetError: an operator fails; the message names the node.
    """
    variables = [n for n in graph.nodes if n.op is None]
    values = {(id(node), 0): array for node, array in zip(variables, arrays, strict=True)}
    known = {id(node): array for node, array in zip(variables, arrays, strict=True)}
    kernels = graph.kernels_for([known[id(n)] for n in graph.arg_nodes], [known[id(n)] for n in graph.aux_nodes], train)
    for node, kernel in zip(graph.steps, kernels, strict=True):
        ctx = place(node)
        inputs = [values[id(n), i] for n, i in node.inputs]
        if moves:
            inputs = [value.as_in_context(ctx) for value in inputs]
        if observe is not None:
            observe(node, inputs, None)
        results = step(node, kernel, inputs, ctx, kept)
        values.update({(id(node), i): result for i, result in enumerate(results)})
        if observe is not None:
            observe(node, inputs, results)
    return [values[id(n), i] for n, i in graph.outputs]


def step(node: Node, kernel: Kernel, inputs: Sequence[NDArray], ctx: Context, kept: Kept) -> Sequence[NDArray]:
    """Calls one operator of a graph.

    Args:
        node: the operator's node.
        kernel: its kernel.
        inputs: its inputs.
        ctx: where it runs.
        kept: state of nodes between calls, by their ids; None if each call starts without state.

    Raises:
        MXNetError: the operator fails; the message names the node.
    """
    host = node.op.get_attr("FHost")
    try:
        own = () if kept is None or not node.op.get_attr("keeps") else (kept.setdefault(id(node), {}),)
        results = host(node.params, inputs, ctx, *own) if host is not None else stored_as_asked(
            node.op, node.params, invoke(kernel, inputs, tuple(node.params[n] for n in kernel.dynamic), None, ctx))
    except MXNetError as error:
        error.args = (f"Error in operator {node.name}: {error}", *error.args[1:])
        raise
    return results if isinstance(results, (list, tuple)) else [results]
