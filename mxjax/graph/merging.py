"""Graph passes for `Executor.get_optimized_symbol`. XLA does the same and more in the compiled program."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops import registry
from .node import Entry, Node, topological

__all__ = ["eliminate_common"]


def eliminate_common(outputs: Sequence[Entry]) -> list[Entry]:
    """Returns the graph with equal operators on equal inputs merged, except random and state-changing ones."""
    replaced: dict[int, Node] = {}
    known: dict[tuple, Node] = {}
    for node in topological(outputs):
        if node.op is None:
            replaced[id(node)] = node
            continue
        inputs = [(replaced[id(n)], i) for n, i in node.inputs]
        key = (node.op, tuple(sorted(node.params.items(), key=lambda item: item[0])),
               tuple((id(n), i) for n, i in inputs))
        if node.op.uses_key or node.op.get_attr("FHost") or node.mutated() or key not in known:
            known[key] = Node(node.op, node.name, node.attrs, node.params, inputs, node.subgraphs)
        replaced[id(node)] = known[key]
    heads: list[Entry] = []
    for node, index in outputs:
        entry = (replaced[id(node)], index)
        if any(entry[0] is n and index == i for n, i in heads):  # outputs stay separate arrays, as in MXNet
            entry = (Node(registry.get("_copy"), f"{node.name}_copy", {}, {}, [entry]), 0)
        heads.append(entry)
    return heads
