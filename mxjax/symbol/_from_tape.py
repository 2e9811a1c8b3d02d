"""The recorded computation of an array as a symbol."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ._node import Node
from .symbol import Symbol

__all__ = ["symbol_of"]


def symbol_of(array: Any) -> Symbol:
    """The graph behind `array`; what was not computed while recording becomes "var0", "var1", ...

    Raises:
        MXNetError: the array is in no graph, or part of it is host code.
    """
    if array._entry is None:
        raise MXNetError("get_symbol: the array is not part of a recorded graph")
    made: dict[int, Node] = {}
    variables = 0
    order, stack, seen = [], [array._entry[0]], set()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            order.append(node)
            stack += [p[0] for p in node.parents if p is not None]
    for node in sorted(order, key=lambda n: n.sequence):
        if node.kernel is None:
            if node.pull is not None:
                raise MXNetError("get_symbol: the graph contains host code (a Function or custom operator)")
            made[id(node)] = Node(None, f"var{variables}", {})
            variables += 1
            continue
        op = node.kernel.op
        if op is None:
            raise MXNetError(f"get_symbol: the graph contains {node.kernel.name}, which is no registered operator")
        inputs = []
        for parent in node.parents[:node.kernel.num_arrays]:
            if parent is None:
                inputs.append((Node(None, f"var{variables}", {}), 0))
                variables += 1
            else:
                inputs.append((made[id(parent[0])], parent[1]))
        params = {**node.kernel.params, **node.kernel.numbers(node.args[node.kernel.num_arrays:])}
        attrs = {k: str(v) for k, v in params.items() if v is not None}
        made[id(node)] = Node(op, f"{op.name.lower()}{len(made)}", attrs, params, inputs)
    node, index = array._entry
    return Symbol([(made[id(node)], index)])
