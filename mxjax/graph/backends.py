"""Graph backends, which select parts of a graph and replace them.

XLA compiles every graph as a whole, so a backend is not needed for speed. It is for rewriting: custom operators for
known patterns, parts that run elsewhere, parameters that are transformed in advance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .._support import settings
from ..base import MXNetError
from ..ops import registry
from .control_flow import bind
from .node import Entry, Node, topological
from .rewriting import consumers, copied

__all__ = ["Backend", "choose_operators", "find", "for_binding", "optimize", "partition", "register_backend"]

_log = logging.getLogger(__name__)  # the first call of the root logger would configure it, which is up to the script


class Backend:
    """A backend: a subclass overrides the steps that it needs and is registered with `register_backend`.

    Example:
        >>> @register_backend("double_exp")
        ... class DoubleExp(Backend):
        ...     def select(self, node):
        ...         return node.op.name == "exp"
        ...     def subgraph(self, symbol, args, aux, **options):
        ...         return 2 * symbol
        >>> out = mx.sym.exp(mx.sym.var("a")).optimize_for("double_exp")
        >>> out.eval(a=mx.nd.zeros((1,)))[0].asnumpy()
        array([2.], dtype=float32)
    """

    def select(self, node: Node) -> bool:
        """Returns whether an operator belongs to the backend. node: `op.name`, `name`, `params`, `inputs`."""
        return False

    def subgraph(self, symbol: Any, args: dict[str, Any], aux: dict[str, Any], **options: Any) -> Any:
        """Returns the replacement of a connected part of selected operators.

        Args:
            symbol: the part; its variables are those of the model, or represent outputs of the rest under their names.
            args, aux: the known parameters of the model; new ones can be added.
            options: the options that the user passed to `optimize_for`.

        Returns:
            A symbol with the same number of outputs on the same variables (and new parameters), or None to keep the
            part. By default, the part as one node.
        """
        return as_node(symbol)

    def transform(self, symbol: Any, args: dict[str, Any], aux: dict[str, Any], **options: Any) -> Any:
        """Returns the whole graph before it is partitioned; by default unchanged."""
        return symbol


BACKENDS: dict[str, Backend] = {}


def register_backend(name: str) -> Callable[[type[Backend]], type[Backend]]:
    """Registers the decorated class for `optimize_for(name)` and `hybridize(backend=name)`; a later registration
    replaces it."""
    def decorate(cls: type[Backend]) -> type[Backend]:
        if not (isinstance(cls, type) and issubclass(cls, Backend)):
            raise TypeError(f"a backend must be a class derived from Backend, got {cls!r}")
        BACKENDS[name] = cls()
        return cls
    return decorate


class _Named(Backend):
    """MXNet's backends. XLA performs their optimizations, so they select only operators that were requested by name."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()

    def select(self, node: Node) -> bool:
        return node.op.name in self.names


for _name in ("XLA", "default", "default_v2", "MKLDNN", "MKLDNN_QUANTIZE"):
    BACKENDS[_name] = _Named()


def choose_operators(name: str, operators: Collection[str]) -> None:
    """Makes one of MXNet's backends select the operators with these names.

    Raises:
        MXNetError: there is no such backend, or it selects its operators itself.
    """
    backend = find(name)
    if not isinstance(backend, _Named):
        raise MXNetError(f"the backend {name} selects its operators itself")
    backend.names = frozenset(operators)


def for_binding(symbol: Any) -> Any:
    """Returns the graph, rewritten by the backend that MXNET_SUBGRAPH_BACKEND names, if it exists."""
    name = settings.SUBGRAPH_BACKEND()
    return symbol.optimize_for(name) if name in BACKENDS else symbol


def find(name: str) -> Backend:
    """Returns the backend of this name.

    Raises:
        MXNetError: there is none.
    """
    if name not in BACKENDS:
        raise MXNetError(f"SubgraphProperty {name} is not found in SubgraphBackendRegistry: there are "
                         f"{', '.join(sorted(BACKENDS))}")
    return BACKENDS[name]


def optimize(symbol: Any, name: str, args: dict[str, Any] | None, aux: dict[str, Any] | None,
             options: dict[str, Any]) -> Any:
    """Implements `Symbol.optimize_for`: returns a new symbol, and removes and adds entries of `args` and `aux` to match
    it.

    Raises:
        RuntimeError: the backend created parameters, and there is no dictionary for them.
    """
    if name not in BACKENDS:
        _log.error("Error optimizing for backend '%s' cannot be found", name)
        return symbol.__copy__()
    backend, arrays = BACKENDS[name], (dict(args or {}), dict(aux or {}))
    result = backend.transform(symbol.__copy__(), *arrays, **options)
    result = partition(result, backend.select, lambda part: backend.subgraph(part, *arrays, **options))
    names = set(result.list_arguments()), set(result.list_auxiliary_states())
    for what, target, value, used in zip(("args", "aux"), (args, aux), arrays, names, strict=True):
        if target is None:
            if value:
                raise RuntimeError(f"Cannot add new {what} in optimize_for since {what} is None\nProvide a dictionary "
                                   f"to the {what} argument to optimize_for")
            continue
        before = set(symbol.list_inputs())
        target.update({k: v for k, v in value.items() if k in used or k not in before})
        for key in [k for k in target if k in before and k not in names[0] | names[1]]:
            del target[key]
    return result


def as_node(symbol: Any, inputs: Sequence[Entry] | None = None, name: str | None = None) -> Any:
    """Returns one node that contains the whole symbol, on its variables or on other inputs in their order."""
    if inputs is None:
        inputs = [(n, 0) for n in topological(symbol.handle) if n.op is None]
    if len(inputs) != len(symbol.list_inputs()):
        raise MXNetError(f"_CachedOp: the graph takes {len(symbol.list_inputs())} inputs "
                         f"({', '.join(symbol.list_inputs())}), got {len(inputs)}")
    counts = {"num_args": len(inputs) + 1, "num_outputs": len(symbol.handle)}
    graph = symbol.lowered()
    op = bind(registry.get("_CachedOp"), [graph])
    first = next(n.name for n in topological(symbol.handle) if n.op is not None)
    attrs = {k: str(v) for k, v in counts.items()}
    node = Node(op, name or f"{first}_subgraph", attrs, op.parse(counts), inputs, [graph])
    return type(symbol)([(node, i) for i in range(len(symbol.handle))])


def partition(symbol: Any, select: Callable[[Node], bool], replace: Callable[[Any], Any]) -> Any:
    """Returns the graph with each maximal connected part of selected operators replaced.

    Args:
        symbol: the graph.
        select: whether an operator belongs to a part.
        replace: function(part) -> symbol with the same number of outputs, or None to keep the part.

    Raises:
        MXNetError: the replacement of a part has another number of outputs.
    """
    nodes = topological(symbol.handle)
    group = _groups(nodes, {id(n) for n in nodes if n.op is not None and select(n)})
    members: dict[int, list[Node]] = {}
    for node in nodes:
        members.setdefault(group[id(node)], []).append(node)
    selected = {key for key, part in members.items() if part[0].op is not None and select(part[0])}
    readers = consumers(symbol.handle)
    result: dict[tuple[int, int], Entry] = {}
    for key in _order(members, group):
        part = members[key]
        if key in selected:
            _replace(type(symbol), part, group, readers, result, replace)
        else:
            twin = copied(part[0], [result[id(n), i] for n, i in part[0].inputs])
            result.update({(id(part[0]), i): (twin, i) for i in range(twin.num_outputs)})
    return type(symbol)([result[id(n), i] for n, i in symbol.handle])


def _groups(nodes: Sequence[Node], chosen: Collection[int]) -> dict[int, int]:
    """Returns the number of each node's part; parts are joined along edges unless a path would leave the part and
    return."""
    group = {id(n): k for k, n in enumerate(nodes)}
    members = {k: [n] for k, n in enumerate(nodes)}

    def leaves_and_returns(both: set[int]) -> bool:
        waiting = [group[id(s)] for k in both for n in members[k] for s, _ in n.inputs if group[id(s)] not in both]
        seen = set(waiting)
        while waiting:
            for source in (s for n in members[waiting.pop()] for s, _ in n.inputs):
                k = group[id(source)]
                if k in both:
                    return True
                if k not in seen:
                    seen.add(k)
                    waiting.append(k)
        return False
    for node in nodes:
        for source, _ in node.inputs if id(node) in chosen else ():
            own, other = group[id(node)], group[id(source)]
            if id(source) in chosen and own != other and not leaves_and_returns({own, other}):
                for moved in members.pop(own):
                    group[id(moved)] = other
                    members[other].append(moved)
    return group


def _order(members: dict[int, list[Node]], group: dict[int, int]) -> list[int]:
    """Returns the parts in topological order."""
    needs = {k: list(dict.fromkeys(group[id(s)] for n in part for s, _ in n.inputs if group[id(s)] != k))
             for k, part in members.items()}
    order: list[int] = []
    done: set[int] = set()
    for key in members:
        stack = [key]
        while stack:
            top = stack[-1]
            missing = [k for k in needs[top] if k not in done]
            if top not in done and not missing:
                done.add(top)
                order.append(top)
            if missing:
                stack += missing
            else:
                stack.pop()
    return order


def _replace(cls: type, part: list[Node], group: dict[int, int], readers: dict, entries: dict[tuple[int, int], Entry],
             replace: Callable[[Any], Any]) -> None:
    """Stores the replacements of the outputs of a part in `entries`."""
    number = group[id(part[0])]
    inner: dict[tuple[int, int], Entry] = {}
    outer: dict[str, Entry] = {}  # variables of the part, and the entries that they represent
    for node in part:
        for source, i in node.inputs:
            if group[id(source)] != number and (id(source), i) not in inner:
                entry = entries[id(source), i]
                name = source.output_names()[i]
                while name in outer:
                    name += "_"
                variable = Node(None, name, dict(source.attrs) if source.op is None else {})
                inner[id(source), i], outer[name] = (variable, 0), entry
        twin = copied(node, [inner[id(n), i] for n, i in node.inputs])
        inner.update({(id(node), i): (twin, i) for i in range(node.num_outputs)})
    ends = [(node, i) for node in part for i in range(node.num_outputs)
            if any(r is None or group[id(r)] != number for r in readers.get((id(node), i), ()))]
    symbol = cls([inner[id(n), i] for n, i in ends])
    result = replace(symbol)
    result = symbol if result is None else result
    if len(result.handle) != len(ends):
        raise MXNetError(f"the backend's symbol for the part with {', '.join(n.name for n in part)} has "
                         f"{len(result.handle)} outputs instead of {len(ends)}")
    replacements: dict[int, list[Entry]] = {}
    for node in topological(result.handle):
        if node.op is None:
            replacements[id(node)] = [outer.get(node.name, (node, 0))]
        else:
            twin = copied(node, [replacements[id(n)][i] for n, i in node.inputs])
            replacements[id(node)] = [(twin, i) for i in range(node.num_outputs)]
    entries.update({(id(n), i): replacements[id(m)][k] for (n, i), (m, k) in zip(ends, result.handle, strict=True)})
