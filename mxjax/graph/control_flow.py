"""Graphs in graphs: `_foreach`, `_while_loop`, `_cond` and `_CachedOp`, whose nodes contain the graphs that they run.

An operator of this family is created for its graphs (`bind`); the registered ones only declare the parameters. The
front ends are `mx.sym.contrib.foreach`, `while_loop` and `cond`. The imperative functions of the same names run graphs
that contain host code (custom operators).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..base import MXNetError
from ..ops.common import Array
from ..ops.infer import unify
from ..ops.params import Range, Shape
from ..ops.registry import Op, alias, define
from .lowering import Lowered
from .node import Entry, Node
from .rewriting import copied, rewrite

__all__ = ["GraphCall", "Graph", "GraphOp", "bind", "declare", "holds_graphs", "hosted", "runners"]


class _Runners:
    """Functions that run graphs with host code on arrays; set by the layers that implement them.

    graph: function(graph) -> function of arrays that returns a list; foreach, while_loop: `mx.nd.contrib`'s; zeros:
    function(shape, context) -> array.
    """

    graph: Callable[[Lowered], Callable[..., list[Any]]]
    foreach: Callable[..., Any]
    while_loop: Callable[..., Any]
    zeros: Callable[..., Any]


runners = _Runners()


class Graph:
    """A graph as a function of its inputs in the order of its variables.

    changed: positions of its auxiliary states, whose new values follow the outputs.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        variables = [n for n in lowered.nodes if n.op is None]
        places = {id(n): i for i, n in enumerate(variables)}
        self.names = [n.name for n in variables]
        self.args = [places[id(n)] for n in lowered.arg_nodes]
        self.changed = [places[id(n)] for n in lowered.aux_nodes]

    def __call__(self, values: Sequence[Array], key: Any, train: bool) -> tuple[list[Array], list[Array]]:
        """(outputs, new auxiliary states)."""
        drawn = () if key is None else (jax.random.key_data(key), np.uint32(0))
        return self.lowered.call([values[i] for i in self.args], [values[i] for i in self.changed], drawn, train)

    def shapes(self, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[list, list]:
        """Returns the shapes of inputs and outputs that follow from these shapes of the inputs (and outputs)."""
        known = {n: s for n, s in zip(self.names, ins, strict=True) if s is not None}
        return self._found(self.lowered.inference.shapes(known, results=outs))

    def types(self, ins: Sequence[str | None], outs: Sequence[str | None]) -> tuple[list, list]:
        """Returns the same for the names of dtypes."""
        known = {n: t for n, t in zip(self.names, ins, strict=True) if t is not None}
        return self._found(self.lowered.inference.types(known, outs))

    def _found(self, entries: dict) -> tuple[list, list]:
        return ([entries[id(n), 0] for n in self.lowered.nodes if n.op is None],
                [entries[id(n), i] for n, i in self.lowered.outputs])

    def uneven(self, ins: Sequence[Any]) -> bool:
        """Returns `Lowered.uneven` for these shapes of the inputs."""
        return self.lowered.uneven({n: s for n, s in zip(self.names, ins, strict=True) if s is not None})

    def on_host(self) -> Callable[..., list[Any]]:
        """Returns the graph as a function of NDArrays that returns a list."""
        return runners.graph(self.lowered)


class GraphOp(Op):
    """An operator bound to its graphs; subclasses define the inputs of the graphs and how they run.

    chooses: whether it runs one of several graphs with results of possibly different shapes.
    """

    chooses = False

    def __init__(self, op: Op, graphs: Sequence[Lowered]) -> None:
        super().__init__(op.name)
        self.params, self.doc = op.params, op.doc
        self.graphs = [Graph(g) for g in graphs]
        self.set_attr("FCompute", self._compute)
        lowered = [g.lowered for g in self.graphs]
        self.uses_key = any(g.random for g in lowered)
        for key, value in {
                "FNumOutputs": lambda p: p["num_outputs"],
                "FListInputNames": lambda p: [f"data{i}" for i in range(p["num_args"] - len(self.graphs))],
                "FMutateInputs": lambda p: [f"data{i}" for i in self.changed(p)],
                "FInferShape": self._infer_shape, "FInferType": self._infer_type,
                "x64": lambda p: any(k.x64 for g in lowered for k in g.kernels(False))}.items():
            self.set_attr(key, value)
        if self.chooses or any(g.branches for g in lowered):
            self.set_attr("FUneven", self.uneven)
        if any(g.cut for g in lowered):
            self._run_on_host()

    def _run_on_host(self) -> None:
        self.eager = True
        self.set_attr("FUneven", None)  # then nothing needs to be equal
        self.set_attr("FHost", lambda p, arrays, ctx: self.host(p, arrays))

    def hosted(self) -> GraphOp:
        """Returns the operator for the same graphs, run by the imperative functions."""
        twin = type(self)(self, [g.lowered for g in self.graphs])
        twin._run_on_host()
        return twin

    # ------------------------------------------------------------ defined by subclasses
    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        """Returns, for each graph, the operator's input for each of its inputs."""
        raise NotImplementedError

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        """(outputs, new values of changed inputs by position)."""
        raise NotImplementedError

    def host(self, p: dict[str, Any], arrays: list[Any]) -> list[Any]:
        """`run` on NDArrays, imperatively."""
        raise NotImplementedError

    def given(self, p: dict[str, Any]) -> int:
        """Returns the required number of outputs of its last graph."""
        return self.num_outputs(p)

    def sliced(self, p: dict[str, Any]) -> int:
        """Returns the number of leading inputs that are passed slice by slice."""
        return 0

    def results(self, p: dict[str, Any], ins: list, graph_outs: list[list], length: object, fit: object) -> list:
        """Returns the shapes or dtypes of the outputs from those of the graphs' outputs; may refine `ins`.

        `length` prepends the number of iterations to a shape, and `fit` unifies two shapes or dtypes.
        """
        raise NotImplementedError

    def known(self, outs: list) -> list:
        """Returns the shapes or dtypes of the graphs' outputs that follow from those of the operator's outputs."""
        return []

    # ------------------------------------------------------------ shared by subclasses
    def changed(self, p: dict[str, Any]) -> list[int]:
        """Returns the inputs of the operator that are auxiliary states of a graph."""
        return sorted({feed[i] for graph, feed in zip(self.graphs, self.feeds(p), strict=True) for i in graph.changed})

    def _compute(self, *arrays: Array, _train: bool = False, _key: object = None, **p: object) -> tuple[Array, ...]:
        outputs, new = self.run(p, arrays, _key, _train)
        return (*outputs, *(new[i] for i in self.changed(p)))

    def _slice_of(self, p: dict[str, Any], ins: list, i: int) -> Any:
        """Returns the shape of an input as the graph receives it."""
        return ins[i] if i >= self.sliced(p) or ins[i] is None else ins[i][1:] or (1,)

    def uneven(self, p: dict[str, Any], ins: list) -> bool:
        """Returns whether an inner condition selects between results of different shapes."""
        return any(graph.uneven([self._slice_of(p, ins, i) for i in feed])
                   for graph, feed in zip(self.graphs, self.feeds(p), strict=True))

    def _infer_shape(self, p: dict[str, Any], ins: list, outs: list) -> None:
        count = self.sliced(p)
        lengths = [s[0] for s in ins[:count] if s]
        known = next((n for n in lengths if n is not None), None)

        def learn(i: int, shape: Any) -> None:
            if shape is not None:
                vector = ins[i] is not None and len(ins[i]) == 1
                sliced = (known,) if vector else (known, *shape)
                ins[i] = unify(ins[i], shape if i >= count else sliced, f"input data{i}")
        self._infer(p, ins, outs, "shapes", lambda i: self._slice_of(p, ins, i), learn,
                    lambda shape, n=None: None if shape is None else (known if n is None else n, *shape), unify)

    def _infer_type(self, p: dict[str, Any], ins: list, outs: list) -> None:
        def learn(i: int, dtype: object) -> None:
            ins[i] = ins[i] or dtype
        self._infer(p, ins, outs, "types", lambda i: ins[i], learn, lambda dtype, n=None: dtype, _one_dtype)

    def _infer(self, p: dict[str, Any], ins: list, outs: list, what: str, value_of: Any, learn: Any, length: Any,
               fit: Any) -> None:
        graph_outs = []
        for graph, feed in zip(self.graphs, self.feeds(p), strict=True):
            result, results = getattr(graph, what)([value_of(i) for i in feed], self.known(outs))
            for i, value in zip(feed, result, strict=True):
                learn(i, value)
            graph_outs.append(results)
        outs[:] = [fit(a, b) for a, b in zip(outs, self.results(p, ins, graph_outs, length, fit), strict=True)]


def _after(place: dict[int, Array], graph: Graph, feed: Sequence[int], new: Sequence[Array]) -> dict[int, Array]:
    """Returns the changed inputs of the operator by position, with their new values after one run of a graph."""
    return {**place, **{feed[i]: value for i, value in zip(graph.changed, new, strict=True)}}


def _like(operator: str, what: str, new: Sequence[Array], old: Sequence[Array]) -> tuple[Array, ...]:
    """Returns the new loop states in the dtypes of the old ones; raises MXNetError if a shape changes."""
    for number, (n, o) in enumerate(zip(new, old, strict=True)):
        if n.shape != o.shape:
            raise MXNetError(f"{operator}: {what} {number} changes its shape from {o.shape} to {n.shape}")
    return tuple(n.astype(o.dtype) for n, o in zip(new, old, strict=True))


def _one_dtype(first: str | None, second: str | None) -> str | None:
    if first and second and first != second:
        raise MXNetError(f"its subgraphs return {first} and {second}; a value in a graph must have a single dtype")
    return first or second


class _Foreach(GraphOp):
    """`lax.scan`."""

    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        places = (*p["in_data_locs"], *p["in_state_locs"], *p["remain_locs"])
        return [[places.index(i) for i in range(len(places))]]

    def sliced(self, p: dict[str, Any]) -> int:
        return len(p["in_data_locs"])

    def _parts(self, p: dict[str, Any], arrays: Sequence[Any]) -> tuple[tuple, tuple, tuple]:
        first, second = len(p["in_data_locs"]), len(p["in_data_locs"]) + len(p["in_state_locs"])
        return tuple(arrays[:first]), tuple(arrays[first:second]), tuple(arrays[second:])

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        (graph,), (feed,) = self.graphs, self.feeds(p)
        data, states, rest = self._parts(p, arrays)
        if len({d.shape[0] if d.ndim else -1 for d in data}) > 1:
            raise MXNetError(f"foreach: the data differ in length: {', '.join(str(d.shape) for d in data)}")
        count, start = p["num_out_data"], len(data) + len(states)

        def step(carry: tuple, item: tuple) -> tuple:
            states, changed = carry
            number, slices = item
            slices = [jnp.atleast_1d(s) for s in slices]  # MXNet has no arrays without dimensions
            full = (*slices, *states, *(changed.get(i, r) for i, r in enumerate(rest, start)))
            outputs, new = graph([full[i] for i in feed], _folded(key, number), train)
            states = _like("foreach", "state", outputs[count:], states)
            return (states, _after(changed, graph, feed, new)), outputs[:count]
        changed = {i: arrays[i] for i in self.changed(p)}
        numbers = jnp.arange(data[0].shape[0], dtype=jnp.uint32)
        (states, changed), outputs = lax.scan(step, (states, changed), (numbers, data))
        return [*outputs, *states], changed

    def host(self, p: dict[str, Any], arrays: list[Any]) -> list[Any]:
        body, feed, count = self.graphs[0].on_host(), self.feeds(p)[0], p["num_out_data"]
        data, states, rest = self._parts(p, arrays)

        def step(slices: list, states: list) -> tuple:
            full = (*slices, *states, *rest)
            result = body(*[full[i] for i in feed])
            return result[:count], result[count:]
        outputs, states = runners.foreach(step, list(data), list(states))
        return [*outputs, *states]

    def results(self, p: dict[str, Any], ins: list, graph_outs: list[list], length: Any, fit: Any) -> list:
        first, count = len(p["in_data_locs"]), p["num_out_data"]
        for i, shape in enumerate(graph_outs[0][count:], first):
            ins[i] = fit(ins[i], shape)
        return [*map(length, graph_outs[0][:count]), *ins[first:first + len(p["in_state_locs"])]]


class _WhileLoop(GraphOp):
    """A scan over `max_iterations` that does nothing once the condition is false, so that it can be differentiated."""

    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        return [p["cond_input_locs"], p["func_input_locs"]]

    def _variables(self, p: dict[str, Any]) -> list[int]:
        """Returns which inputs are the loop's variables."""
        return [p["func_input_locs"][i] for i in p["func_var_locs"]]

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        (condition, body), (cond_feed, feed) = self.graphs, self.feeds(p)
        count, variables = p["num_out_data"], self._variables(p)

        def work(state: tuple, number: object) -> tuple:
            values, changed = state
            full = {**dict(enumerate(arrays)), **changed, **dict(zip(variables, values, strict=True))}
            outputs, new = body([full[i] for i in feed], _folded(key, number, 1), train)
            values = _like("while_loop", "loop variable", outputs[count:], values)
            return (values, _after(changed, body, feed, new)), outputs[:count]

        def step(carry: tuple, number: object) -> tuple:
            alive, state = carry
            full = {**dict(enumerate(arrays)), **state[1], **dict(zip(variables, state[0], strict=True))}
            alive &= _truth("while_loop", condition([full[i] for i in cond_feed], _folded(key, number, 0), train)[0][0])
            state, outputs = lax.cond(alive, work, lambda state, number: (state, blank), state, number)
            return (alive, state), outputs
        state = tuple(arrays[i] for i in variables), {i: arrays[i] for i in self.changed(p)}
        specs = jax.eval_shape(work, state, np.uint32(0))[1]
        blank = [jnp.zeros(s.shape, s.dtype) for s in specs]
        numbers = jnp.arange(p["max_iterations"], dtype=jnp.uint32)
        (_, (values, changed)), outputs = lax.scan(step, (jnp.bool_(True), state), numbers)
        return [*outputs, *values], changed

    def host(self, p: dict[str, Any], arrays: list[Any]) -> list[Any]:
        condition, body = (g.on_host() for g in self.graphs)
        (cond_feed, feed), variables, count = self.feeds(p), self._variables(p), p["num_out_data"]

        def fed(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
            full = {**dict(enumerate(arrays)), **dict(zip(variables, values, strict=True))}
            return [full[i] for i in places]

        def step(*values: object) -> tuple:
            result = body(*fed(values, feed))
            return result[:count], result[count:]
        outputs, values = runners.while_loop(lambda *values: condition(*fed(values, cond_feed))[0], step,
                                     [arrays[i] for i in variables], p["max_iterations"])
        return [*(outputs or [runners.zeros((1,), arrays[0].context) for _ in range(count)]), *values]

    def results(self, p: dict[str, Any], ins: list, graph_outs: list[list], length: Any, fit: Any) -> list:
        count, variables = p["num_out_data"], self._variables(p)
        for i, shape in zip(variables, graph_outs[1][count:], strict=True):
            ins[i] = fit(ins[i], shape)
        return [*(length(s, p["max_iterations"]) for s in graph_outs[1][:count]), *(ins[i] for i in variables)]


class _Cond(GraphOp):
    """`lax.cond`."""

    chooses = True

    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        return [p["cond_input_locs"], p["then_input_locs"], p["else_input_locs"]]

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        changed, feeds = {i: arrays[i] for i in self.changed(p)}, self.feeds(p)

        def branch(number: int) -> Any:
            def run(arrays: tuple[Array, ...], changed: dict) -> tuple:
                graph, feed = self.graphs[number], feeds[number]
                outputs, new = graph([arrays[i] for i in feed], _folded(key, number), train)
                return outputs, _after(changed, graph, feed, new)
            return run
        outputs, changed = branch(0)(arrays, changed)
        try:
            return lax.cond(_truth("cond", outputs[0]), branch(1), branch(2), arrays, changed)
        except TypeError:
            then, other = ([f"{s.dtype}{s.shape}" for s in jax.eval_shape(branch(number), arrays, changed)[0]]
                           for number in (1, 2))
            if then == other:
                raise
            raise MXNetError(f"cond: the branches return {', '.join(then)} and {', '.join(other)}; in a compiled graph "
                             "they must be equal") from None

    def uneven(self, p: dict[str, Any], ins: list) -> bool:
        then, other = (self.graphs[number].shapes([ins[i] for i in feed], [])[1]
                       for number, feed in enumerate(self.feeds(p)) if number)
        return any(a is not None and b is not None and a != b for a, b in zip(then, other, strict=True)) or \
            super().uneven(p, ins)

    def host(self, p: dict[str, Any], arrays: list[Any]) -> list[Any]:
        def run(number: int) -> list[Any]:
            return self.graphs[number].on_host()(*[arrays[i] for i in self.feeds(p)[number]])
        return run(1 if run(0)[0].asscalar() else 2)

    def results(self, p: dict[str, Any], ins: list, graph_outs: list[list], length: Any, fit: Any) -> list:
        def one(first: Any, second: Any) -> Any:
            try:
                return fit(first, second)
            except MXNetError:
                if isinstance(first, tuple):
                    return None  # the shape depends on the condition
                raise
        return [one(a, b) for a, b in zip(*graph_outs[1:], strict=True)]


class GraphCall(GraphOp):
    """The graph itself, as one node."""

    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        return [range(p["num_args"] - 1)]

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        changed = {i: arrays[i] for i in self.changed(p)}
        outputs, new = self.graphs[0](arrays, key, train)
        return outputs, _after(changed, self.graphs[0], range(len(arrays)), new)

    def host(self, p: dict[str, Any], arrays: list[Any]) -> list[Any]:
        return self.graphs[0].on_host()(*arrays)

    def known(self, outs: list) -> list:
        return outs

    def results(self, p: dict[str, Any], ins: list, graph_outs: list[list], length: object, fit: object) -> list:
        return graph_outs[0]


def _folded(key: Any, *numbers: Any) -> Any:
    """Returns a separate random key for each iteration and graph; None if nothing is drawn."""
    if key is None:
        return None
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


def _truth(operator: str, value: Array) -> Array:
    """Returns the result of a condition as a boolean."""
    if value.size != 1:
        raise MXNetError(f"{operator}: the condition must be a single number, got shape {value.shape}")
    return value.reshape(()) != 0


# -------------------------------------------------------------------- registration
class _ForeachParams:
    num_args: Annotated[int, Range(1)]
    num_outputs: int
    num_out_data: int
    in_state_locs: Shape
    in_data_locs: Shape
    remain_locs: Shape


class _CallParams:
    num_args: Annotated[int, Range(1)]
    num_outputs: Annotated[int, Range(1)]


class _WhileLoopParams:
    num_args: Annotated[int, Range(2)]
    num_outputs: Annotated[int, Range(1)]
    num_out_data: Annotated[int, Range(0)]
    max_iterations: Annotated[int, Range(1)]
    cond_input_locs: Shape
    func_input_locs: Shape
    func_var_locs: Shape


class _CondParams:
    num_args: Annotated[int, Range(3)]
    num_outputs: Annotated[int, Range(1)]
    cond_input_locs: Shape
    then_input_locs: Shape
    else_input_locs: Shape


_KINDS: dict[str, tuple[type[GraphOp], int]] = {}


def declare(name: str, cls: type[GraphOp], params: type, graphs: int, doc: str) -> None:
    """Registers an operator that contains this number of graphs. params: a class whose annotations are its
    parameters."""
    _KINDS[name] = cls, graphs
    op = define(name).describe(doc).set_attr_parser(params)
    if "num_args" in op.params:
        op.variadic = "num_args"


declare("_CachedOp", GraphCall, _CallParams, 1, "Runs a graph.")
declare("_foreach", _Foreach, _ForeachParams, 1, "Runs a graph on each slice of arrays, passing states on.")
declare("_while_loop", _WhileLoop, _WhileLoopParams, 2, "Runs a graph while another one gives true.")
declare("_cond", _Cond, _CondParams, 3, "Runs one of two graphs, as a third one decides.")
for _name in ("foreach", "while_loop", "cond"):
    alias(f"_{_name}", f"_npx_{_name}")  # MXNet 2's names


def holds_graphs(op: Op) -> bool:
    """Returns whether the operator of this name contains graphs."""
    return op.name in _KINDS


def hosted(outputs: Sequence[Entry]) -> list[Entry]:
    """Returns the graph with conditions of unequal branches run by the imperative functions."""
    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None or node.op.get_attr("FUneven") is None:
            return None
        twin = copied(node, inputs)
        twin.op = node.op.hosted()
        return [(twin, i) for i in range(node.num_outputs)]
    return rewrite(outputs, rule)


def bind(op: Op, graphs: Sequence[Lowered]) -> Op:
    """Returns the control flow operator `op` for these graphs.

    Raises:
        MXNetError: it does not contain graphs, or contains another number of them.
    """
    cls, count = _KINDS.get(op.name, (GraphOp, 0))
    if count != len(graphs):
        raise MXNetError(f"operator {op.name} must have {count or 'no'} subgraphs, got {len(graphs)}")
    return cls(op, graphs)
