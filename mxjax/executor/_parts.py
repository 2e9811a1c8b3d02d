"""Graphs that cannot be one program: parts that are compiled, and operators called individually in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..array.dense import NDArray
from ..context import Context
from ..eager.modes import state
from ..graph.lowering import Lowered
from ..graph.node import Entry, Node
from ..graph.rewriting import copied
from ..kernel.kernel import Kernel, never, prepare
from ._steps import Kept, step

__all__ = ["Parts", "alone"]

Runner = Callable[[Sequence[NDArray], Context, bool, bool], Sequence[NDArray]]


def alone(node: Node) -> bool:
    """Returns whether an operator cannot be part of a program, because it runs on the host, depends
    on values, or returns sparse arrays.
    """
    op, params = node.op, node.params
    rules = [op.get_attr(name, never) for name in ("FCheck", "FStored", "eager_when")]
    by_values = op.get_attr("draws_by_value") or op.get_attr("FRefuse") and not op.get_attr("refuses_calls_alone")
    return bool(op.eager or op.get_attr("FHost") or node.inputs and by_values or any(rule(params) for rule in rules))


class _Part(NamedTuple):
    """Steps that run together; reads, gives: entries from other parts, and for other parts."""

    run: Runner
    reads: list[Entry]
    gives: list[Entry]


class Parts:
    """A graph split into as few programs as the individually called operators allow.

    Args:
        graph: the graph.
        apart: ids of its nodes that are called individually.
        shapes: shapes of nodes that are known only from their surroundings, by id.
        program: function that maps a graph, which can be one program, to a function that runs it.
            Its arguments, like those of `run`, are the arrays of the variables, the context,
            whether auxiliary states change, and whether an executor runs it.
        kept: as in `step`.
    """

    def __init__(self, graph: Lowered, apart: Collection[int], shapes: Mapping[int, tuple],
                 program: Callable[[Lowered], Runner], kept: Kept) -> None:
        self._variables = [n for n in graph.nodes if n.op is None]
        self._outputs = graph.outputs
        groups = _groups(graph, apart)
        number = {id(n): i for i, group in enumerate(groups) for n in group}
        needed = {(id(n), i): (n, i) for n, i in graph.outputs}
        for node in graph.steps:
            needed.update({(id(n), i): (n, i) for n, i in node.inputs if number.get(id(n)) != number[id(node)]})
        self._parts: list[_Part] = []
        for group in groups:
            copies = {id(n): n if id(n) not in shapes else copied(n, n.inputs, shape=shapes[id(n)]) for n in group}
            gives = [(n, i) for n in group for i in range(n.num_outputs) if (id(n), i) in needed]
            if len(group) > 1:
                variables, result = _cut_out(copies, gives)
                self._parts.append(_Part(program(result), variables, gives))
            else:
                node = group[0]
                self._parts.append(_Part(_Single(copies[id(node)], kept), node.inputs,
                                         [(node, i) for i in range(node.num_outputs)]))

    def run(self, arrays: Sequence[NDArray], ctx: Context, states: bool, bound: bool) -> list[NDArray]:
        """Computes the outputs for the arrays of the variables."""
        values = {(id(node), 0): array for node, array in zip(self._variables, arrays, strict=True)}
        for part in self._parts:
            results = part.run([values[id(n), i] for n, i in part.reads], ctx, states, bound)
            for (node, i), result in zip(part.gives, results, strict=False):
                values[id(node), i] = result
        return [values[id(n), i] for n, i in self._outputs]


class _Single:
    """One operator."""

    def __init__(self, node: Node, kept: Kept) -> None:
        self._node, self._kept = node, kept
        self._kernels: dict[bool, Kernel] = {}

    def __call__(self, arrays: Sequence[NDArray], ctx: Context, states: bool, bound: bool) -> Sequence[NDArray]:
        train = state.training
        if train not in self._kernels:
            self._kernels[train] = prepare(self._node.op, self._node.params, len(arrays), train)
        return step(self._node, self._kernels[train], arrays, ctx, self._kept)


def _groups(graph: Lowered, apart: Collection[int]) -> list[list[Node]]:
    """Returns the steps by level: even levels contain individually called operators, odd ones those of a program.

    Random operators, and those that share auxiliary states, keep their order.
    """
    readers = Counter([id(source) for node in graph.steps for source, _ in node.inputs])
    in_order = graph.random or any(readers[id(node)] > 1 for node in graph.aux_nodes)
    levels: dict[int, int] = {}
    groups: dict[Any, list[Node]] = {}
    last = 0
    for node in graph.steps:
        level = max([levels.get(id(source), 0) for source, _ in node.inputs], default=0)
        level = max(level, last) if in_order else level
        single = id(node) in apart
        last = levels[id(node)] = level + (level % 2 == single)
        groups.setdefault((last, id(node)) if single else (last,), []).append(node)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _cut_out(nodes: Mapping[int, Node], gives: Sequence[Entry]) -> tuple[list[Entry], Lowered]:
    """Returns nodes, by the ids of the originals, as a separate graph, and the entries that its variables represent."""
    inside: dict[tuple[int, int], Entry] = {}
    outside: dict[int, Entry] = {}

    def inner(entry: Entry) -> Entry:
        source, i = entry
        if (id(source), i) not in inside:
            stand_in = source if source.op is None else Node(None, f"{source.name}_output{i}", {})
            inside[id(source), i] = stand_in, 0
            outside[id(stand_in)] = entry
        return inside[id(source), i]
    for key, node in nodes.items():
        twin = copied(node, [inner(entry) for entry in node.inputs])
        inside.update({(key, i): (twin, i) for i in range(node.num_outputs)})
    graph = Lowered([inside[id(n), i] for n, i in gives])
    return [outside[id(n)] for n in graph.nodes if n.op is None], graph
