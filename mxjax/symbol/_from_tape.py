"""The recorded computation of an array as a symbol."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..eager.deferred_call import DeferredCall
from ..graph.control_flow import bind
from ..graph.node import Entry, Node
from ..kernel.kernel import Kernel
from ..ops.params import texts
from ..ops.registry import Op, get
from .symbol import Symbol

__all__ = ["inlined", "operators_of", "symbol_of"]


def symbol_of(array: Any) -> Symbol:
    """The graph behind `array`; values that were not computed while recording become "var0", "var1", ...

    Raises:
        MXNetError: the array is not part of a graph, or part of the graph is host code.
    """
    if array.entry is None:
        raise MXNetError("get_symbol: the array is not part of a recorded graph")
    entries: dict[int, list[Entry]] = {}  # the entries of a node's outputs
    count = itertools.count()

    def variable() -> Entry:
        return Node(None, f"var{next(count)}", {}), 0
    order, stack, seen = [], [array.entry[0]], set()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            order.append(node)
            stack += [p[0] for p in node.parents if p is not None]
    for node in sorted(order, key=lambda n: n.sequence):
        op, kernel, args = None, node.kernel, node.args
        if isinstance(node.lazy, DeferredCall):
            op, kernel, args = node.lazy.origin, node.lazy.derivative.kernel, node.lazy
        if kernel is None:
            if not node.variable:
                raise MXNetError("get_symbol: the graph contains host code (a Function or custom operator)")
            entries[id(node)] = [variable()]
            continue
        num = kernel.num_arrays if op is None else len(op.lowered.arg_nodes) + len(op.lowered.aux_nodes)
        inputs = [variable() if p is None else entries[id(p[0])][p[1]] for p in node.parents[:num]]
        if op is not None:
            entries[id(node)] = inlined(op.lowered, inputs) if len(op.lowered.steps) <= op.inline_limit else \
                _call(op.lowered, inputs, len(entries))
            continue
        for place, (op, params) in enumerate(operators_of(kernel, args[num:])):
            attrs = texts(op.params, params)
            name = f"{op.name.lower()}{len(entries)}{f'_{place}' if place else ''}"
            new = Node(op, name, attrs, params, inputs)
            inputs = entries[id(node)] = [(new, i) for i in range(new.num_outputs)]
    node, index = array.entry
    return Symbol([entries[id(node)][index]])


def operators_of(kernel: Kernel, extras: Sequence[Any]) -> list[tuple[Op, dict[str, Any]]]:
    """The operators, one after the other, and their parameters that a call of a kernel amounts to."""
    if kernel.op is not None:
        return [(kernel.op, {**kernel.params, **kernel.numbers(extras)})]
    if kernel.operators is None:
        raise MXNetError(f"get_symbol: the graph contains {kernel.name}, which is not a registered operator")
    return [(get(name), get(name).parse(params)) for name, params in kernel.operators(*extras)]


def inlined(graph: Any, inputs: list[Entry]) -> list[Entry]:
    """The outputs of a copy of a lowered graph on these inputs."""
    variables = iter(inputs)
    entries: dict[tuple[int, int], Entry] = {}
    for node in graph.nodes:
        if node.op is None:
            entries[id(node), 0] = next(variables)
            continue
        copy = Node(node.op, node.name, node.attrs, node.params,
                    [entries[id(n), i] for n, i in node.inputs], node.subgraphs)
        entries.update({(id(node), i): (copy, i) for i in range(node.num_outputs)})
    return [entries[id(n), i] for n, i in graph.outputs]


def _call(graph: Any, inputs: list[Entry], number: int) -> list[Entry]:
    """The outputs of one node that runs a lowered graph."""
    op = bind(get("_CachedOp"), [graph])
    params = op.parse({"num_args": len(inputs) + 1, "num_outputs": len(graph.outputs)})
    node = Node(op, f"_cachedop{number}", {k: str(v) for k, v in params.items()}, params, inputs, [graph])
    return [(node, i) for i in range(len(graph.outputs))]
