"""Graph rewriting, which mixed precision, quantization and graph backends share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ops import registry
from .node import Entry, Node, topological

__all__ = ["consumers", "copied", "made", "rewrite"]

Rule = Callable[[Node, list[Entry]], "list[Entry] | None"]


def made(op_name: str, name: str, inputs: Iterable[Entry], **params: object) -> Node:
    """Returns a new node of an operator with these parameters."""
    op = registry.get(op_name)
    present = {k: v for k, v in params.items() if v is not None}
    return Node(op, name, {k: str(v) for k, v in present.items()}, op.parse(dict(present)), inputs)


def copied(node: Node, inputs: Iterable[Entry], **params: object) -> Node:
    """Returns the node with other inputs and with these parameters changed."""
    attrs = {**node.attrs, **{k: str(v) for k, v in params.items()}}
    parsed = {k: node.op.params[k].parse(v) for k, v in params.items()}
    return Node(node.op, node.name, attrs, {**node.params, **parsed}, inputs, node.subgraphs)


def rewrite(outputs: Sequence[Entry], rule: Rule) -> list[Entry]:
    """Returns a new graph in which `rule` replaces nodes.

    Entries that nothing uses are not part of the result, so a rule may create more than needed.

    Args:
        outputs: the graph's outputs; the graph is not changed.
        rule: function(node, its inputs in the new graph) -> entries that replace the node's outputs, or None for a copy
            of the node. Variables are passed too.

    Returns:
        The outputs of the new graph.
    """
    result: dict[tuple[int, int], Entry] = {}
    for node in topological(outputs):
        inputs = [result[id(n), i] for n, i in node.inputs]
        entries = rule(node, inputs)
        if entries is None:
            twin = copied(node, inputs)
            entries = [(twin, i) for i in range(node.num_outputs)]
        result.update({(id(node), i): entry for i, entry in enumerate(entries)})
    return [result[id(n), i] for n, i in outputs]


def consumers(outputs: Sequence[Entry]) -> dict[tuple[int, int], list[Node | None]]:
    """Returns the nodes that read each entry; None represents the graph's outputs."""
    readers: dict[tuple[int, int], list[Node | None]] = {}
    for node in topological(outputs):
        for source, i in node.inputs:
            readers.setdefault((id(source), i), []).append(node)
    for node, i in outputs:
        readers.setdefault((id(node), i), []).append(None)
    return readers
