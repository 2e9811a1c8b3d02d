"""`mx.sym._internal`: Operators whose names begin with an underscore."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..graph.backends import as_node
from . import _functions
from .symbol import Symbol, load_json

SymbolBase = Symbol  # MXNet has its C pointer in a base of its own

if TYPE_CHECKING:
    from ._stubs._internal import *  # noqa: F403


def _CachedOp(*args: Symbol, subgraph: str | Symbol, name: str | None = None) -> Symbol:  # noqa: N802
    """A graph (its JSON text, or a symbol) as one node on these inputs, in the order of its `list_inputs()`."""
    graph = load_json(subgraph) if isinstance(subgraph, str) else subgraph
    return as_node(graph, [arg.handle[0] for arg in args], name)


attach(globals(), _functions.make, "_internal")
