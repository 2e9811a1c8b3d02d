"""`mx.sym.contrib`: Operators that MXNet calls experimental, and control flow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._namespace import attach
from .._support.loop_values import flatten, regroup
from ..attribute import AttrScope
from ..graph.node import Entry, Node, topological
from . import _functions
from ._creation import full
from .symbol import Symbol, Variable, apply

__all__ = ["adamw_update", "cond", "foreach", "mp_adamw_update", "rand_zipfian", "while_loop"]

_MARK = "__subgraph_name__"  # nodes made while a body is called carry the name of its graph


def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: object, init_states: object,
            name: str = "foreach") -> tuple[Any, Any]:
    """Calls `body(slices of data, states) -> (outputs, new states)` along axis 0 of the data.

    Args:
        body: function of symbols; it may use outer symbols.
        data: a symbol or nested list of symbols of equal length; the body must use all of them.
        init_states: states before the first call, a symbol or nested list; the body must use all of them.
        name: prefix of the graph's name.

    Returns:
        (outputs stacked along a new axis 0, states after the last call), in the structures that `body` returned.

    Raises:
        AssertionError: an argument is not a symbol, an input is not used, or the structure of the states changes.

    Example:
        >>> data, state = mx.sym.var("data"), mx.sym.var("state")
        >>> outs, states = mx.sym.contrib.foreach(lambda x, s: (x + s, s * 2), data, state)
        >>> outs.eval(data=mx.nd.array([1, 2, 3]), state=mx.nd.array([1]))[0].asnumpy().ravel()
        array([2., 4., 7.], dtype=float32)
    """
    flat_data, data_form = flatten(data, Symbol, "foreach input")
    flat_states, state_form = flatten(init_states, Symbol, "foreach states")
    graph = _Body(name)
    with graph:
        outs, states = body(regroup(graph.variables(flat_data), data_form),
                            regroup(graph.variables(flat_states), state_form))
        flat_outs, out_form = flatten(outs, Symbol, "foreach output")
        new_states, new_form = flatten(states, Symbol, "foreach loop_vars")
        if new_form != state_form:
            raise AssertionError("The input and output loop_vars have different format")
        graph.close([*flat_outs, *new_states])
    places = graph.places()
    if None in places:
        unused = [*flat_data, *flat_states][places.index(None)]
        raise AssertionError(f"the data and state arrays have to be used in the loop body; {unused.name} is not")
    rest = [i for i in range(len(graph.inputs)) if i not in places]
    result = _node("_foreach", [graph], [graph.inputs[i][0] for i in [*places, *rest]],
                   num_outputs=len(flat_outs) + len(new_states), num_out_data=len(flat_outs),
                   in_state_locs=places[len(flat_data):], in_data_locs=places[:len(flat_data)], remain_locs=rest)
    return regroup(result[:len(flat_outs)], out_form), regroup(result[len(flat_outs):], state_form)


def while_loop(cond: Callable[..., Symbol], func: Callable[..., tuple[Any, Any]], loop_vars: object,
               max_iterations: int | None = None, name: str = "while_loop") -> tuple[Any, Any]:
    """Calls `func(*loop_vars) -> (outputs, new loop_vars)` while `cond(*loop_vars)` is true.

    Args:
        cond: function of symbols that returns a symbol of a single element.
        func: function of symbols; it may use outer symbols.
        loop_vars: a symbol or nested list, at least one symbol.
        max_iterations: maximum number of calls, and the length of the stacked outputs, which are padded with zeros.
        name: prefix of the graphs' names.

    Returns:
        (outputs stacked along a new axis 0, last loop_vars).

    Raises:
        ValueError: `max_iterations` is missing, `loop_vars` is empty or its length changes, `func` does not use a
            variable, or `cond` does not return a symbol.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    try:
        asscalar = getattr(max_iterations, "asscalar", None)
        max_iterations = int(max_iterations if asscalar is None else asscalar())
    except (TypeError, ValueError):
        raise ValueError("Cannot convert max_iteration to python int") from None
    flat, form = flatten(loop_vars, Symbol, "while loop_vars")
    if not flat:
        raise ValueError("loop_vars should contain at least one element")

    def called(function: Callable, graph: _Body) -> Any:
        values = regroup(graph.variables(flat), form)
        return function(*(values if isinstance(values, list) else [values]))
    test, body = _Body(name + "_cond"), _Body(name + "_func")
    with test:
        result = called(cond, test)
        if not isinstance(result, Symbol):
            raise ValueError("Return of cond must be a Symbol")
        test.close([result])
    with body:
        outs, new = called(func, body)
        flat_outs, out_form = flatten([] if outs is None else outs, Symbol, "while output")
        new_vars, _ = flatten([] if new is None else new, Symbol, "while loop_vars")
        if len(new_vars) != len(flat):
            raise ValueError("The number of loop_vars should be consistent during the loop")
        body.close([*flat_outs, *new_vars])
    places = body.places()
    if None in places:
        raise ValueError(f"The {places.index(None) + 1}-th loop_var doesn't involve into the computation")
    inputs, (test_places, body_places) = _union(test, body)
    result = _node("_while_loop", [test, body], inputs, max_iterations=max_iterations, cond_input_locs=test_places,
                   func_input_locs=body_places, func_var_locs=places, num_out_data=len(flat_outs),
                   num_outputs=len(flat_outs) + len(flat))
    return regroup(result[:len(flat_outs)], out_form), regroup(result[len(flat_outs):], form)


def cond(pred: Symbol, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """Returns `then_func()` if `pred` is true, else `else_func()`; only one of them is computed.

    Args:
        pred: symbol of a single element.
        then_func, else_func: functions that return the same number of symbols, of equal shapes and dtypes.
        name: prefix of the graphs' names.

    Raises:
        ValueError: `pred` has several outputs, or the branches have different numbers of outputs.
    """
    graphs = [_Body(f"{name}_{part}") for part in ("pred", "then", "else")]
    forms = []
    for graph, function in zip(graphs, (lambda: pred, then_func, else_func), strict=True):
        with graph:
            flat, form = flatten(function(), Symbol, "cond outputs")
            forms.append((len(flat), form))
            graph.close(flat)
    if forms[0][0] != 1:
        raise ValueError("pred should always be a single output")
    if forms[1][0] != forms[2][0]:
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    inputs, places = _union(*graphs)
    return regroup(_node("_cond", graphs, inputs, num_outputs=forms[1][0], cond_input_locs=places[0],
                         then_input_locs=places[1], else_input_locs=places[2]), forms[1][1])


class _Body(AttrScope):
    """A graph under construction: nodes created inside the `with` block belong to it, others become its inputs.

    After `close`: symbol, the graph; inputs, for each of its inputs the outer entry that it stands for, and the number
    of the argument of the body that it is, or None.
    """

    def __init__(self, name: str) -> None:
        outer = self._current.value.get(None).get(_MARK)
        name = f"{outer}${name}" if outer else name
        number = self._subgraph_names[name]
        self._subgraph_names[name] += 1
        self.name = f"{name}{number}"
        self._outside: dict[Node, tuple[Entry, int | None]] = {}
        super().__init__(**{_MARK: self.name})

    def variables(self, symbols: Sequence[Symbol]) -> list[Symbol]:
        """Returns variables for the arguments of the body."""
        variables = []
        for symbol in symbols:
            node, output = symbol.handle[0]
            variables.append(Variable(f"{node.name}-{output}"))
            self._outside[variables[-1].handle[0][0]] = (node, output), len(self._outside)
        return variables

    def close(self, outputs: Sequence[Symbol]) -> None:
        """Cuts the graph with these outputs off its surroundings."""
        inside = {n.name for n in topological([s.handle[0] for s in outputs]) if n.op is None}
        seen: set[Entry] = set()
        entries = []
        for symbol in outputs:
            entry = symbol.handle[0]
            if entry[0].name in inside or not self._made(entry[0]) or entry in seen:
                entry = apply("identity", "identity", [Symbol([entry])], {}).handle[0]
            seen.add(entry)
            entries.append(entry)
        stand_ins: dict[Entry, Entry] = {}
        for node in filter(self._made, topological(entries)):
            for place, (source, output) in enumerate(node.inputs):
                own = self._made(source)
                if own and (source.op is not None or source in self._outside):
                    continue
                # a variable made inside goes to the graph around it as well, so this one gets a copy
                stand_in = Node(None, source.output_names()[output], dict(source.attrs) if own else {})
                node.inputs[place] = stand_ins.setdefault((source, output), (stand_in, 0))
        self._outside.update({inner: (outer, None) for outer, (inner, _) in stand_ins.items()})
        self.symbol = Symbol(entries)
        names = self.symbol.list_inputs()
        if len(set(names)) != len(names):
            raise AssertionError(f"The inputs of the subgraph don't have unique names: {names}")
        self.inputs = [self._outside[n] for n in topological(entries) if n.op is None]

    def _made(self, node: Node) -> bool:
        return node.attrs.get(_MARK) == self.name

    def places(self) -> list[int | None]:
        """Returns which input of the graph each argument of the body is; None: it is not used."""
        result = {argument: i for i, (_, argument) in enumerate(self.inputs)}
        return [result.get(i) for i in range(sum(argument is not None for _, argument in self._outside.values()))]


def _union(*graphs: _Body) -> tuple[list[Entry], list[list[int]]]:
    """The entries that the graphs' inputs stand for, each once, and for each graph which of them its inputs are."""
    inputs = list(dict.fromkeys(i for graph in graphs for i in graph.inputs))
    return [entry for entry, _ in inputs], [[inputs.index(i) for i in graph.inputs] for graph in graphs]


def _node(op: str, graphs: Sequence[_Body], entries: Sequence[Entry], **params: object) -> list[Symbol]:
    """A node that holds the graphs, as a list of its outputs."""
    text = {k: str(v) for k, v in {**params, "num_args": len(graphs) + len(entries)}.items()}
    return list(apply(op, op, [Symbol([e]) for e in entries], text, subgraphs=[g.symbol.lowered() for g in graphs]))


# -------------------------------------------------------------------- functions of several operators
def _scale(rescale_grad: Symbol | float) -> Symbol:
    """The factor of the gradients as a symbol."""
    return rescale_grad if isinstance(rescale_grad, Symbol) else full((1,), rescale_grad)


def adamw_update(weight: Symbol, grad: Symbol, mean: Symbol, var: Symbol, rescale_grad: Symbol | float, lr: float,
                 eta: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0,
                 clip_gradient: float = -1, out: Symbol | None = None, name: str | None = None,
                 **kwargs: object) -> Symbol:
    """Adam update with decoupled weight decay; `rescale_grad` may be a symbol, where 0 or NaN skips the update."""
    return apply("_adamw_update", "_adamw_update", [weight, grad, mean, var, _scale(rescale_grad)], {
        "lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
        "clip_gradient": clip_gradient, **kwargs}, name)


def mp_adamw_update(weight: Symbol, grad: Symbol, mean: Symbol, var: Symbol, weight32: Symbol,
                    rescale_grad: Symbol | float, lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999,
                    epsilon: float = 1e-8, wd: float = 0, clip_gradient: float = -1, out: Symbol | None = None,
                    name: str | None = None, **kwargs: object) -> Symbol:
    """`adamw_update` with float32 master weights."""
    return apply("_mp_adamw_update", "_mp_adamw_update", [weight, grad, mean, var, weight32, _scale(rescale_grad)], {
        "lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
        "clip_gradient": clip_gradient, **kwargs}, name)


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Draws candidate classes with log-uniform (Zipfian) probability, as for sampled softmax.

    Args:
        true_classes: class numbers, a vector.
        num_sampled: number of classes to draw.
        range_max: number of classes.

    Returns:
        (drawn classes, int64; expected counts of the true classes, float64; expected counts of the drawn classes,
        float64).
    """
    log_range = math.log(range_max + 1)
    drawn = apply("_random_uniform", "_random_uniform", [], {"low": 0, "high": log_range, "shape": (num_sampled,),
                                                             "dtype": "float64"})
    drawn = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: Symbol) -> Symbol:
        classes = classes.astype("float64")
        return ((classes + 2.0) / (classes + 1.0)).log() / log_range * num_sampled
    return drawn, expected(true_classes), expected(drawn)


if TYPE_CHECKING:
    from ._stubs.contrib import *  # noqa: F403

attach(globals(), _functions.make, "contrib")
