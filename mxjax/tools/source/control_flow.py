"""Graphs in graphs: the inner graphs become blocks, and a function of the written source runs them.

A loop's block takes the slices, then the states, then other values that it uses; constants become its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import MXNetError
from ...ndarray import NDArray, array
from ...symbol import Symbol
from .steps import EmittedNode, Ref, Table, read
from .structure import Block, Body

__all__ = ["register"]


def register(op: Table, turn: str, helpers: dict[str, str]) -> None:
    """Adds the operators to a target's table.

    Args:
        op: the table, which the inner graphs use too.
        turn: text of a transposition, see `read`.
        helpers: the functions `foreach`, `while_loop` and `choose`.
    """
    op("_CachedOp")(lambda c: _call(c, op, turn))
    op("_foreach")(lambda c: _foreach(c, op, turn, helpers["foreach"]))
    op("_while_loop")(lambda c: _while_loop(c, op, turn, helpers["while_loop"]))
    op("_cond")(lambda c: _cond(c, op, turn, helpers["choose"]))


def _moving(c: EmittedNode, places: Sequence[int]) -> list[int]:
    """Returns the operator's inputs that depend on the model's."""
    return [i for i in dict.fromkeys(places) if not c.is_constant(i)]


@dataclass
class _Inner:
    """An inner graph, as a `Network`."""

    symbol: Symbol
    args: dict[str, NDArray]
    aux: dict[str, NDArray]
    rest: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]

    @property
    def params(self) -> dict[str, NDArray]:
        return {**self.args, **self.aux}


def _block(c: EmittedNode, number: int, name: str, order: Sequence[int], table: Table, turn: str,
           slices: int = 0) -> Ref:
    """An inner graph as a block, whose inputs are those of the operator's in this order; the first are slices."""
    graph, feed = c.node.op.graphs[number], c.node.op.feeds(c.p)[number]
    place = dict(zip(graph.names, feed, strict=True))
    free = {n: i for n, i in place.items() if i in order}
    values = {n: array(c.value(i)) for n, i in place.items() if n not in free}
    sizes = {n: (c.shape(i)[1:] or (1,)) if i < slices else c.shape(i) for n, i in free.items()}
    model = _Inner(Symbol(graph.lowered.outputs), values, {}, {}, sizes,
                   {n: c.dtype(i) for n, i in free.items()})
    try:
        names, steps, outputs = read(model, table, turn, inner=True)
    except MXNetError as error:
        raise c.refused(str(error).removeprefix("there is no counterpart for ")) from error
    where = {(-1 - k, 0): (-1 - order.index(place[n]), 0) for k, n in enumerate(names)}
    for step in steps:
        step.inputs = [where.get(r, r) for r in step.inputs]
    body = Body(steps, len(order), [where.get(r, r) for r in outputs])
    return c.child(Block([body], source=[f"{c.node.name}_{name}"]), f"{c.node.name}_{name}")


def _tuple(first: int, count: int) -> str:
    """{1} and the following ones as a tuple."""
    return f"({', '.join(f'{{{i}}}' for i in range(first, first + count))}{',' if count == 1 else ''})"


def _alone(p: dict[str, Any], text: str) -> str:
    """A call that returns a tuple, and where that has one value, this."""
    return f"{text}[0]" if p["num_outputs"] == 1 else text


def _results(results: Any) -> list[Ref]:
    return results if isinstance(results, list) else [results]


def _call(c: EmittedNode, table: Table, turn: str) -> list[Ref]:
    order = _moving(c, range(len(c.node.inputs)))
    block = _block(c, 0, "graph", order, table, turn)
    arguments = ", ".join(f"{{{i + 1}}}" for i in range(len(order)))
    return _results(c.expr(f"{{0}}({arguments})", block, *(c.ref(i) for i in order), results=c.p["num_outputs"]))


def _foreach(c: EmittedNode, table: Table, turn: str, helper: str) -> list[Ref]:
    p = c.p
    items, states = len(p["in_data_locs"]), len(p["in_state_locs"])
    others = _moving(c, range(items + states, len(c.node.inputs)))
    order = [*range(items + states), *others]
    block = _block(c, 0, "step", order, table, turn, items)
    data = [c.ref(i) if c.ndim(i) > 1 else c.expr("{0}[:, None]", c.ref(i)) for i in range(items)]
    text = _alone(p, f"foreach({{0}}, {_tuple(1, items)}, {_tuple(1 + items, states)}, "
            f"{_tuple(1 + items + states, len(others))}, {p['num_out_data']})")
    return _results(c.expr(text, block, *data, *(c.ref(i) for i in order[items:]), helper=helper,
                           results=p["num_outputs"]))


def _while_loop(c: EmittedNode, table: Table, turn: str, helper: str) -> list[Ref]:
    p, (_, feed) = c.p, c.node.op.feeds(c.p)
    variables = [feed[i] for i in p["func_var_locs"]]
    others = [i for i in _moving(c, range(len(c.node.inputs))) if i not in variables]
    order = [*variables, *others]
    blocks = [_block(c, number, name, order, table, turn) for number, name in ((0, "condition"), (1, "step"))]
    text = _alone(p, f"while_loop({{0}}, {{1}}, {_tuple(2, len(variables))}, "
            f"{_tuple(2 + len(variables), len(others))}, {p['max_iterations']}, {p['num_out_data']})")
    return _results(c.expr(text, *blocks, *(c.ref(i) for i in order), helper=helper, results=p["num_outputs"]))


def _cond(c: EmittedNode, table: Table, turn: str, helper: str) -> list[Ref]:
    order = _moving(c, range(len(c.node.inputs)))
    blocks = [_block(c, number, name, order, table, turn) for number, name in enumerate(("condition", "then",
                                                                                         "otherwise"))]
    return _results(c.expr(f"choose({{0}}, {{1}}, {{2}}, {_tuple(3, len(order))})", *blocks,
                           *(c.ref(i) for i in order), helper=helper, results=c.p["num_outputs"]))
