"""A graph as steps: lines of code to be, each with the layer it makes and the values it takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...base import MXNetError
from ...graph.inference import infer_shapes, infer_types
from ...graph.node import Entry, Node, topological
from ...graph.rewriting import copied
from ...ndarray import NDArray, array, zeros
from ...ops.params import np_dtype
from ...ops.registry import get
from ...symbol import Symbol, var
from ...symbol._simpler import simpler

__all__ = ["EmittedNode", "Network", "Ref", "Step", "Table", "read"]

Ref = tuple[int, int]  # (position of a step, which of its results); inputs have the positions -1, -2, ...
Emitter = Callable[[Any], "Ref | Sequence[Ref]"]  # argument: a `Call` or its replacement


class Network(Protocol):
    """A model that is written as source: a graph with its parameters, and the shapes and dtypes of its inputs.

    args, aux: parameters; rest: values of the inputs that are left out.
    """

    args: dict[str, NDArray]
    aux: dict[str, NDArray]
    rest: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]

    @property
    def symbol(self) -> Symbol: ...

    @property
    def params(self) -> dict[str, NDArray]: ...  # both
# operators that depend only on shapes, which are known
_SHAPES_ONLY = frozenset(["_contrib_MultiBoxPrior", "shape_array", "size_array", "_contrib_index_array"])


@dataclass(eq=False)
class Step:
    """One operation.

    call: the expression, with {0}, {1} for values, {self} for the layer and {key} for args; maker: the layer's class,
    "" for none; args: numbers of the layer or the expression; defaults: those of args that are keywords with a default;
    module: how the expression reads as a layer (in a chain); tensors: the layer's parameters; group: prefixes of the
    model's name that others share; helper: text that the file needs once; child, body: set where the step
    stands for a block.
    """

    name: str
    call: str
    inputs: list[Ref]
    maker: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    results: int = 1
    helper: str = ""
    group: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    shared: bool = False
    child: Any = None
    body: Any = None

    @property
    def path(self) -> tuple[str, ...]:
        """The groups that a step is in, or is the whole of."""
        return (*self.group, self.name) if self.child is not None and self.name else self.group

    @property
    def signature(self) -> tuple:
        """Returns the common part of steps that are the same line of a class."""
        if self.child is not None:
            return ("class", id(self.child))
        names = tuple(self.args) if self.maker else tuple(self.args.items())
        return self.call, self.maker, self.module, self.results, names


class Table:
    """The operators that a target has, and how each is written."""

    def __init__(self) -> None:
        self.emitters: dict[str, Emitter] = {}

    def __call__(self, *names: str) -> Callable[[Emitter], Emitter]:
        """Registers the decorated function for operators of these names."""
        def decorate(function: Emitter) -> Emitter:
            for name in names:
                self.emitters[get(name).name] = function
            return function
        return decorate


class EmittedNode:
    """The argument of an emitter: a node, and the steps to add its own to."""

    def __init__(self, reader: _Reader, node: Node) -> None:
        self._reader, self.node, self.p, self.kind = reader, node, node.params, node.op.name

    def need(self, condition: Any, what: str) -> None:
        """Raises MXNetError where the target has no counterpart for this use."""
        if not condition:
            raise self.refused(what)

    def refused(self, what: str) -> MXNetError:
        """Returns the error that says that the target has no counterpart for this use."""
        return MXNetError(f"{self.kind} ({self.node.name}): {what}")

    def has(self, index: int) -> bool:
        """Returns whether there is such an input."""
        return index < len(self.node.inputs)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an input."""
        node, i = self.node.inputs[index]
        return self._reader.shapes[id(node), i]

    def out_shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of a result."""
        return self._reader.shapes[id(self.node), index]

    def ndim(self, index: int = 0) -> int:
        """The number of an input's dimensions."""
        return len(self.shape(index))

    def dtype(self, index: int = 0) -> np.dtype:
        """The dtype of an input."""
        node, i = self.node.inputs[index]
        return np_dtype(self._reader.types[id(node), i] or "float32")

    def out_dtype(self) -> np.dtype:
        """The dtype of the first result."""
        return np_dtype(self._reader.types[id(self.node), 0] or "float32")

    def axis(self, axis: int, index: int = 0) -> int:
        """An axis of an input, counted from the front."""
        return axis % self.ndim(index)

    def raw(self, index: int = 0) -> Ref:
        """An input as a value, in the layout that it has."""
        return self._reader.ref(self.node.inputs[index])

    def ref(self, index: int = 0) -> Ref:
        """An input as a value, its axes as in the graph."""
        return self._reader.turned(self.raw(index), self.ndim(index), False)

    def last(self, index: int = 0) -> Ref:
        """An input as a value, its second axis as the last one."""
        return self._reader.turned(self.raw(index), self.ndim(index), True)

    @property
    def refs(self) -> list[Ref]:
        """All inputs as values, their axes as in the graph."""
        return [self.ref(i) for i in range(len(self.node.inputs))]

    def layout(self, index: int = 0) -> str:
        """The layout that an input's value has: "last" where its channels come last, "" as in the graph."""
        return self._reader.layouts.get(self.raw(index), "")

    def alike(self, count: int | None = None) -> tuple[list[Ref], str]:
        """(the inputs as values, their layout): channels last where one has them last and all have as many axes."""
        places = range(len(self.node.inputs) if count is None else count)
        ndims = {self.ndim(i) for i in places if self.ndim(i)}
        if len(ndims) == 1 and any(self.layout(i) for i in places):
            return [self.last(i) if self.ndim(i) else self.raw(i) for i in places], "last"
        return [self.ref(i) for i in places], ""

    def place(self, axis: int, layout: str) -> int:
        """Returns where an axis of the graph is in a layout."""
        return axis if not layout or axis == 0 else self.ndim() - 1 if axis == 1 else axis - 1

    def relabelled(self) -> Ref:
        """Returns the first input in its own layout, if the graph uses it so."""
        return self._reader.relabelled(self.raw())

    def is_constant(self, index: int) -> bool:
        """Returns whether an input depends on no input of the model."""
        return id(self.node.inputs[index][0]) not in self._reader.moving

    def uses(self, index: int) -> bool:
        """Returns whether anything takes this result."""
        return (id(self.node), index) in self._reader.taken

    def value(self, index: int) -> np.ndarray:
        """A constant input's value."""
        self.need(self.is_constant(index), f"its input {self.node.input_names()[index]} is not constant")
        return self._reader.value(self.node.inputs[index])

    def is_parameter(self, index: int) -> bool:
        """Returns whether an input is constant and only operators like this one use it, as a layer's own parameter."""
        node = self.node.inputs[index][0]
        return self.is_constant(index) and self._reader.users.get(id(node), set()) <= {self.kind}

    def expr(self, call: str, *inputs: Ref, module: str = "", results: int = 1, layout: str = "",
             helper: str = "") -> Any:
        """Adds an expression; returns its value, or a list of values. `helper`: a function that it needs."""
        return self._reader.add(Step(self.node.name, call, list(inputs), module=module, results=results,
                                     helper=helper), layout)

    def child(self, block: Any, name: str) -> Ref:
        """Adds a block; its value is the layer itself, for an expression that calls it."""
        return self._reader.add(Step(name, "{self}", [], child=block, body=block.bodies[0]))

    def layer(self, maker: str, args: dict[str, Any], keywords: dict[str, tuple[Any, Any]] | None = None,
              tensors: dict[str, np.ndarray] | None = None, *inputs: Ref, call: str = "{self}({0})",
              results: int = 1, layout: str = "", helper: str = "") -> Any:
        """Adds a layer and its call.

        Args:
            maker: its class.
            args: positional numbers.
            keywords: (value, default) by name.
            tensors: its parameters.
            inputs: its arguments.
            call: how.
            results, layout: of the values.
            helper: a class that it needs.
        """
        keywords = keywords or {}
        key = tuple(n.name for n, _ in self.node.inputs if id(n) not in self._reader.moving and n.op is None)
        return self._reader.add(Step(
            self.node.name, call, list(inputs), maker, {**args, **{k: v for k, (v, _) in keywords.items()}},
            {k: d for k, (_, d) in keywords.items()}, tensors=tensors or {}, results=results,
            key=(*key, repr(args), repr(keywords)) if tensors and key else (), helper=helper), layout)


def _refs(value: Ref | Sequence[Ref]) -> list[Ref]:
    """Returns what an emitter returned as a list."""
    refs: list[Ref] = [ref for ref in value if isinstance(ref, tuple)]
    if refs or not value:
        return refs
    step, result = (number for number in value if isinstance(number, int))
    return [(step, result)]


class _Reader:
    """Goes through a graph and gathers the steps."""

    def __init__(self, model: Network, table: Table, turn: str) -> None:
        self.model, self.table, self.turn = model, table, turn
        self.steps: list[Step] = []
        self.layouts: dict[Ref, str] = {}
        self.aliases: dict[Ref, Ref] = {}
        self.turns: dict[tuple[Ref, bool], Ref] = {}
        values = {n: v for n, v in {**model.args, **model.aux}.items()}
        types = {n: np_dtype(v.dtype).name for n, v in values.items()} | {n: t.name for n, t in model.dtypes.items()}
        types |= {n: v.dtype.name for n, v in model.rest.items()}
        known = {n: tuple(v.shape) for n, v in values.items()} | model.shapes | {
            n: v.shape for n, v in model.rest.items()}
        def infer(outputs: Sequence[Entry]) -> tuple[dict, dict]:
            return infer_shapes(outputs, known, types), infer_types(outputs, types)
        self.outputs = outputs = simpler(model.symbol.handle, table.emitters.__contains__, infer)
        self.nodes = topological(outputs)
        self.shapes, self.types = infer(outputs)
        self.moving: set[int] = set()
        self.users: dict[int, set[str]] = {}
        for node in self.nodes:
            if node.op is None and node.name in model.shapes or node.op is not None and (
                    node.op.name not in _SHAPES_ONLY and any(id(n) in self.moving for n, _ in node.inputs)):
                self.moving.add(id(node))
            if node.op is not None:
                for n, _ in node.inputs:
                    self.users.setdefault(id(n), set()).add(node.op.name)
        self.taken = {(id(n), i) for node in self.nodes for n, i in node.inputs} | {(id(n), i) for n, i in outputs}
        self.inputs: list[str] = []
        self.known: dict[tuple[int, int], Ref] = {}

    def value(self, entry: Entry) -> np.ndarray:
        """Returns the value of an output that does not depend on the model's inputs."""
        if entry[0].op is None:
            item = self.model.params.get(entry[0].name)
            return self.model.rest[entry[0].name] if item is None else item.asnumpy()
        if entry[0].op.name == "_zeros":  # batches of states have no length yet
            return np.zeros(self.shapes[id(entry[0]), 0], np_dtype(entry[0].params["dtype"]))
        values = {}

        def plain(node: Node) -> Node:
            """Returns the node with inputs of which only the shape matters replaced by zeros."""
            if node.op is None:
                values[node.name] = array(self.value((node, 0)))
                return node
            if node.op.name not in _SHAPES_ONLY:
                return copied(node, [(plain(n), i) for n, i in node.inputs])
            inputs = [var(f"shape{len(values) + i}") for i in range(len(node.inputs))]
            values.update({v.name: zeros(shape=self.shapes[id(n), i]) for v, (n, i) in zip(
                inputs, node.inputs, strict=True)})
            return copied(node, [v.handle[0] for v in inputs])
        return Symbol([(plain(entry[0]), entry[1])]).eval(**values)[0].asnumpy()

    def ref(self, entry: Entry) -> Ref:
        """An entry as a value; constants become steps where they are first used."""
        node, i = entry
        if (id(node), i) not in self.known:
            if id(node) in self.moving:
                if node.op is not None:
                    raise MXNetError(f"{node.op.name} ({node.name}): its output {i}")
                self.inputs.append(node.name)
                self.known[id(node), i] = (-len(self.inputs), 0)
            else:
                self.known[id(node), i] = self._constant(entry)
        return self.known[id(node), i]

    def _constant(self, entry: Entry) -> Ref:
        node, value = entry[0], self.value(entry)
        trained = node.op is None
        if not trained and value.size and (value == value.flat[0]).all() and value.dtype.kind == "f":
            return self.add(Step(node.name, "CONSTANT", [], args={"shape": value.shape, "fill": float(value.flat[0])}))
        maker = "PARAMETER" if trained and value.dtype.kind == "f" else "BUFFER"
        return self.add(Step(node.name, "{self}", [], maker, {"shape": value.shape, "dtype": value.dtype.name},
                             tensors={"": value}))

    def turned(self, ref: Ref, ndim: int, last: bool) -> Ref:
        """A value with its channels last, or with its axes as in the graph."""
        if bool(self.layouts.get(ref)) == last or ndim < 3:
            return ref
        if (ref, last) not in self.turns:
            axes = (0, *range(2, ndim), 1) if last else (0, ndim - 1, *range(1, ndim - 1))
            name = "_channels_last" if last else "_channels_first"
            result = self.add(Step(name, self.turn.replace("{axes}", ", ".join(map(str, axes))), [ref]),
                              "last" if last else "")
            self.turns[ref, last], self.turns[result, not last] = result, ref
        return self.turns[ref, last]

    def relabelled(self, ref: Ref) -> Ref:
        """A value as it lies, now in the graph's own order."""
        if ref not in self.aliases:
            self.aliases[ref] = self.add(Step("_same", "{0}", [ref]))
        return self.aliases[ref]

    def add(self, step: Step, layout: str = "") -> Any:
        """Appends a step; returns its value or values."""
        self.steps.append(step)
        refs = [(len(self.steps) - 1, i) for i in range(step.results)]
        if layout:
            self.layouts.update(dict.fromkeys(refs, layout))
        return refs[0] if step.results == 1 else refs

    def run(self) -> list[Ref]:
        """Adds the steps of all nodes; returns the model's outputs."""
        nodes = [n for n in self.nodes if n.op is not None and id(n) in self.moving]
        unknown = [f"{n.op.name} ({n.name})" for n in nodes if n.op.name not in self.table.emitters]
        refused = []
        for node in nodes if not unknown else ():
            try:
                result = self.table.emitters[node.op.name](EmittedNode(self, node))
            except MXNetError as error:
                refused.append(str(error))
                result = (0, 0)
            self.known.update({(id(node), i): ref for i, ref in enumerate(_refs(result))})
        outputs = []
        for entry in self.outputs if not unknown and not refused else ():
            try:
                outputs.append(self.ref(entry))
            except MXNetError as error:
                refused.append(str(error))
        if unknown or refused:
            raise MXNetError("there is no counterpart for " + "; ".join(unknown or refused))
        return outputs


def read(model: Network, table: Table, turn: str = "", inner: bool = False) -> tuple[list[str], list[Step], list[Ref]]:
    """(names of the inputs, steps, outputs) of a model.

    Args:
        model: the checkpoint.
        table: the target's operators.
        turn: text that transposes {0} with {axes}, for a target with channels last.
        inner: the graph belongs to a loop or the like, whose results may be its inputs.

    Raises:
        MXNetError: operators have no counterpart; names all of them.
    """
    reader = _Reader(model, table, turn)
    outputs = [reader.turned(ref, len(reader.shapes[id(node), i]), False) if reader.layouts.get(ref) else ref
               for ref, (node, i) in zip(reader.run(), reader.outputs, strict=True)]
    steps, outputs = _used(reader.steps, outputs)
    if not inner and not any(ref[0] < 0 for step in steps for ref in step.inputs):
        raise MXNetError("the outputs do not depend on any input")
    steps, outputs = _hoisted(steps, outputs)
    names = [n for n in model.symbol.list_inputs() if n in reader.inputs]
    place = {(-1 - i, 0): (-1 - names.index(n), 0) for i, n in enumerate(reader.inputs)}
    for step in steps:
        step.inputs = [place.get(r, r) for r in step.inputs]
    _share(steps)
    _name(steps)
    return names, steps, [place.get(r, r) for r in outputs]


def _used(steps: list[Step], outputs: list[Ref]) -> tuple[list[Step], list[Ref]]:
    """The steps that the outputs depend on; constants stand before their first use."""
    wanted = {p for p, _ in outputs}
    for place in range(len(steps) - 1, -1, -1):
        if place in wanted:
            wanted |= {p for p, _ in steps[place].inputs}
    order = [p for p in range(len(steps)) if p in wanted]
    place = {p: i for i, p in enumerate(order)}
    kept = [steps[p] for p in order]
    for step in kept:
        step.inputs = [(place[p] if p >= 0 else p, i) for p, i in step.inputs]
    return kept, [(place[p] if p >= 0 else p, i) for p, i in outputs]


def _hoisted(steps: list[Step], outputs: list[Ref]) -> tuple[list[Step], list[Ref]]:
    """Moves values that several steps use and no layer computes, such as a mask, to the front, out of blocks."""
    users = Counter(ref for step in steps for ref in step.inputs)
    plain: set[int] = set()
    for place, step in enumerate(steps):
        if not step.tensors and step.child is None and all(p < 0 or p in plain for p, _ in step.inputs):
            plain.add(place)
    first = {p for p in plain if any(users[p, i] > 1 for i in range(steps[p].results))}
    for place in range(len(steps) - 1, -1, -1):
        if place in first:
            first |= {p for p, _ in steps[place].inputs if p >= 0}
    order = [*sorted(first), *(p for p in range(len(steps)) if p not in first)]
    place = {p: i for i, p in enumerate(order)}
    for step in steps:
        step.inputs = [(place.get(p, p), i) for p, i in step.inputs]
    return [steps[p] for p in order], [(place.get(p, p), i) for p, i in outputs]


def _share(steps: Iterable[Step]) -> None:
    """Marks layers that several steps call: they have the same parameters."""
    first: dict[tuple, Step] = {}
    for step in steps:
        if step.key:
            other = first.setdefault((step.maker, step.key), step)
            if other is not step:
                step.shared = other.shared = True
                step.name = other.name


def _name(steps: list[Step]) -> None:
    """Returns names without their common prefix, split into groups and the layer's own name."""
    split: list[list[str]] = []
    for step in steps:
        name = re.sub(r"(?<=.)_fwd$", "", step.name)
        parts = re.sub(r"(?<![a-z])([a-z]+)(\d+)_\1\d+$", r"\1\2", name).split("_")  # a layer's own operator
        if not parts[0] and split:  # an operator without a name belongs to the step before
            parts = split[-1][:-1] + [p for p in parts if p]
        split.append(parts)
    lead = next((i for i, parts in enumerate(split) if parts[0]), 0)  # steps before all others belong to none
    while len(split) > lead + 1 and all(len(s) > 1 for s in split[lead:]) and len({s[0] for s in split[lead:]}) == 1:
        split[lead:] = [s[1:] for s in split[lead:]]
    whole = {tuple(s) for s in split}
    places: dict[tuple[str, ...], list[int]] = {}
    for place, parts in enumerate(split):
        for depth in range(1, len(parts)):
            if all(parts[:depth]):
                places.setdefault(tuple(parts[:depth]), []).append(place)
    good = {path for path, at in places.items() if len(at) > 1 and path not in whole
            and at == list(range(at[0], at[-1] + 1)) and len(at) < len(steps)}
    for place, (step, parts) in enumerate(zip(steps, split, strict=True)):
        marks = [0, *(d for d in range(1, len(parts)) if tuple(parts[:d]) in good)]
        step.group = tuple("_".join(parts[a:b]) for a, b in zip(marks, marks[1:], strict=False))
        step.name = "_".join(p for p in parts[marks[-1]:] if p) or f"step{place}"
