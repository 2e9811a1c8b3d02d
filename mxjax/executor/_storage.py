"""Storage types of the gradients of an executor's arguments."""

from __future__ import annotations

from ..graph.lowering import Lowered
from ..graph.node import Node

__all__ = ["gradients_by_rows", "storage_type"]

# Operators whose results, and the gradients of whose inputs, are stored as the inputs are.
_KEEPING = frozenset(("_copy", "_div_scalar", "_mul_scalar", "BlockGrad", "abs", "add_n", "ceil", "elemwise_add",
                      "elemwise_sub", "fix", "floor", "negative", "relu", "rint", "round", "sign", "square", "trunc",
                      "zeros_like"))


def storage_type(variable: Node, stypes: dict[str, str]) -> str | None:
    """Returns the storage type of a variable, from this binding or from its creation; None: dense."""
    numbers = {"1": "row_sparse", "2": "csr"}
    return stypes.get(variable.name) or numbers.get(variable.attrs.get("__storage_type__", ""))


def gradients_by_rows(graph: Lowered, stypes: dict[str, str]) -> set[int]:
    """Returns the ids of the arguments whose gradients are row_sparse.

    They are used only as tables of sparse lookups, in products with csr arrays and, if they are row_sparse themselves,
    by operators that keep rows, such as abs.
    """
    stored = {id(n): storage_type(n, stypes) for n in graph.arg_nodes + graph.aux_nodes}
    whole, by_rows = set(), {key for key, stype in stored.items() if stype == "row_sparse"}
    for node in graph.steps:
        types = {stored.get(id(source)) for source, _ in node.inputs}
        if node.op.name in _KEEPING and len(types) == 1:
            stored[id(node)] = types.pop()
        elif node.op.name == "cast_storage":
            stored[id(node)] = node.params["stype"]
        rows = stored.get(id(node)) == "row_sparse" and node.op.name in _KEEPING or \
            node.op.name == "_square_sum" and types == {"row_sparse"}
        for place, (source, _) in enumerate(node.inputs):
            (by_rows if rows or place == 1 and _gives_rows(node, stored) else whole).add(id(source))
    return by_rows - whole


def _gives_rows(node: Node, stored: dict[int, str | None]) -> bool:
    """Returns whether the gradient of a node's second input has few rows: the table of a sparse lookup, or b in
    csr·b."""
    if node.op.name != "dot":
        return node.op.by_rows(node.params)
    return stored.get(id(node.inputs[0][0])) == "csr" and not (node.params["transpose_a"] or node.params["transpose_b"])
