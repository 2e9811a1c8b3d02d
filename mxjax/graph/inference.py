"""Shape and type inference of whole graphs, forwards and backwards until nothing changes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from .._support.bounded import Bounded, bounded_cache
from .._xla.x64 import x64_mode
from ..base import MXNetError
from ..kernel.kernel import Kernel, prepare
from ..ops.infer import Size, exact_outputs, known, need_numbers, op_types, partial_formula, unify
from ..ops.infer import outputs as partial_outputs
from ..ops.params import DTYPES, dtype_name, np_dtype, shape_of
from ..util import is_np_shape
from .node import Entry, Node, topological

__all__ = ["Inference", "infer_shapes", "infer_types", "node_types"]

Shape = tuple[int | None, ...] | None


def infer_shapes(outputs: Sequence[Entry], given: Mapping[str, Shape],
                 types: dict[str, str]) -> dict[tuple[int, int], Shape]:
    """Shapes of all entries of a graph; see `Inference.shapes`."""
    return Inference(outputs).shapes(given, types)


def infer_types(outputs: Sequence[Entry], given: dict[str, str], *,
                hints: bool = True) -> dict[tuple[int, int], str | None]:
    """dtypes (names) of all entries of a graph; see `Inference.types`."""
    return Inference(outputs).types(given, hints=hints)


class _Step:
    """A node with the numbers of its input and output entries."""

    __slots__ = ("node", "ins", "outs", "steady", "_kernel")

    def __init__(self, node: Node, ins: tuple[int, ...], outs: tuple[int, ...]) -> None:
        self.node, self.ins, self.outs = node, ins, outs
        # its shapes depend only on the shapes of its inputs, by the same rules in each call
        op = node.op
        self.steady = not (op.eager or node.subgraphs or op.get_attr("FUneven")) and op.get_attr("FCompute") is not None
        self._kernel: Kernel | None = None

    def kernel(self) -> Kernel:
        """The operator with its parameters; equal ones share inferred shapes and dtypes."""
        if self._kernel is None:
            self._kernel = prepare(self.node.op, self.node.params, len(self.ins), False)
        return self._kernel


class _SymbolicShapes:
    """Shapes whose sizes depend on one number: the distinct shapes, and the index of each entry's shape."""

    __slots__ = ("different", "order")

    def __init__(self, shapes: Sequence[Shape]) -> None:
        numbers: dict[Shape, int] = {}
        self.order = [numbers.setdefault(shape, len(numbers)) for shape in shapes]
        self.different = list(numbers)

    def at(self, number: int) -> list[Shape]:
        """Returns the shapes for this number."""
        shapes = [s and tuple([n.at(number) if isinstance(n, Size) else n for n in s]) for s in self.different]
        return [shapes[i] for i in self.order]


class Inference:
    """A graph prepared for inference, whose results are cached.

    Args:
        outputs: the graph, which must not change except for names and attributes of its variables.
        nodes: all its nodes in topological order, if known.
    """

    def __init__(self, outputs: Sequence[Entry], nodes: Sequence[Node] | None = None) -> None:
        self._places: dict[tuple[int, int], int] = {}
        self._owners: list[Node] = []
        self._variables: list[tuple[Node, int]] = []
        self._steps: list[_Step] = []
        places = self._places
        for node in topological(outputs) if nodes is None else nodes:
            first = len(self._owners)
            count = node.num_outputs
            for i in range(count):
                places[id(node), i] = first + i
                self._owners.append(node)
            if node.op is None:
                self._variables.append((node, first))
            else:
                ins = tuple([places[id(n), i] for n, i in node.inputs])
                self._steps.append(_Step(node, ins, tuple(range(first, first + count))))
        self._outputs = [places[id(n), i] for n, i in outputs]
        self._steady = all(step.steady for step in self._steps)
        self._known_shapes: dict[Any, dict] = Bounded(16)
        self._known_types: dict[Any, list[str | None]] = Bounded(16)
        self._shapes: dict[Any, _SymbolicShapes] = Bounded(16)

    # ------------------------------------------------------------ shapes
    def shapes(self, given: Mapping[str, Shape], types: dict[str, str] | None = None,
               results: Sequence[Shape] = ()) -> dict[tuple[int, int], Shape]:
        """Returns the shapes of all entries, which must not be modified; unknown dimensions are None.

        Args:
            given: shapes of variables by name.
            types: dtypes of variables by name (default float32).
            results: known shapes of the outputs.

        Raises:
            MXNetError: shapes contradict each other; the message names the node.
        """
        np_shape = is_np_shape()
        first = tuple([given[node.name] if node.name in given else _hint(node, np_shape)
                       for node, _ in self._variables])
        dtypes = self._entry_types(types or {})
        key = np_shape, first, tuple(results), tuple([dtypes[place] for _, place in self._variables])
        cached = self._known_shapes.get(key)
        if cached is None and self._steady and not results:
            cached = self._by_symbol(first, given, dtypes, np_shape, key[3])
        if cached is None:
            shapes: list[Shape] = [None] * len(self._owners)
            for (_, place), shape in zip(self._variables, first, strict=True):
                shapes[place] = shape
            for place, shape in zip(self._outputs, results, strict=False):
                shapes[place] = _unify(self._owners[place], shapes[place], shape)
            self._settle(shapes, dtypes, np_shape)
            cached = self._known_shapes[key] = dict(zip(self._places, shapes, strict=True))
        return cached

    def _by_symbol(self, first: Sequence[Shape], given: Mapping[str, Shape], dtypes: list[str | None], np_shape: bool,
                   types: tuple) -> dict[tuple[int, int], Shape] | None:
        """Returns the shapes for the batch of this call, derived for any batch; None if they depend on more than the
        batch.

        The batch is the first size of the first input with a known shape, and of all other inputs with the same first
        size.
        """
        has_size = [bool(node.name in given and s and s[0])
                    for (node, _), s in zip(self._variables, first, strict=True)]
        number = next((s[0] for s, said in zip(first, has_size, strict=True) if said and s), None)
        if number is None:
            return None
        for least in range(1, 1 + min(number, 2)):  # some rules treat arrays of one element differently
            general = tuple([(Size(least=least), *s[1:]) if said and s and s[0] == number else s
                             for s, said in zip(first, has_size, strict=True)])
            key = np_shape, general, types
            form = self._shapes.get(key)
            if form is None:
                form = self._shapes[key] = self._shapes_of(general, dtypes, np_shape)
            if form.order:
                return dict(zip(self._places, form.at(number), strict=True))
        return None

    def _shapes_of(self, first: Sequence[tuple[Any, ...] | None], dtypes: list[str | None],
                   np_shape: bool) -> _SymbolicShapes:
        """Returns the shapes for variables with symbolic sizes; none if there is no result."""
        shapes: list[Shape] = [None] * len(self._owners)
        for (_, place), shape in zip(self._variables, first, strict=True):
            shapes[place] = shape
        try:
            self._settle(shapes, dtypes, np_shape)
            return _SymbolicShapes(shapes)
        except Exception:  # the number is needed, or there is an error, which is reported better with numbers
            return _SymbolicShapes([])

    def _settle(self, shapes: list[Shape], dtypes: list[str | None], np_shape: bool) -> None:
        """Completes the shapes, forwards and backwards, until nothing changes."""
        changed, forward, open_steps = True, True, self._steps
        while changed and open_steps:
            changed, left = False, []
            for step in open_steps if forward else reversed(open_steps):
                learnt, done = _visit(step, shapes, dtypes, np_shape)
                changed |= learnt
                if not done:
                    left.append(step)
            open_steps = left if forward else left[::-1]
            if not changed and forward:
                changed, forward = True, False
            elif not forward:
                forward = True

    # ------------------------------------------------------------ dtypes
    def types(self, given: dict[str, str], results: Sequence[str | None] = (), *,
              hints: bool = True) -> dict[tuple[int, int], str | None]:
        """Returns the dtypes (names) of all entries; None if unknown.

        results: known dtypes of the outputs. hints: whether to use the dtypes in the attributes of variables.

        Raises:
            MXNetError: dtypes contradict each other.
        """
        return dict(zip(self._places, self._entry_types(given, results, hints), strict=True))

    def _entry_types(self, given: dict[str, str], results: Sequence[str | None] = (),
                     hints: bool = True) -> list[str | None]:
        first = []
        for node, _ in self._variables:
            hint = node.attrs.get("__dtype__") if hints else None
            known_type = None if hint is None or hint == "None" else _code_name(hint)
            first.append(given.get(node.name, known_type))
        key = tuple(first), tuple(results)
        cached = self._known_types.get(key)
        if cached is None:
            types: list[str | None] = [None] * len(self._owners)
            for (_, place), dtype in zip(self._variables, first, strict=True):
                types[place] = dtype
            for place, dtype in zip(self._outputs, results, strict=False):
                types[place] = types[place] or dtype
            open_steps = self._steps
            for again in range(3):  # forwards, backwards, forwards
                left = [s for s in (open_steps if again != 1 else open_steps[::-1]) if not _type_visit(s, types)]
                open_steps = left[::-1] if again == 1 else left
            cached = self._known_types[key] = types
        return cached


def _type_visit(step: _Step, types: list[str | None]) -> bool:
    """Applies one node's rule of dtypes; returns whether all its dtypes are known."""
    ins, outs = [types[k] for k in step.ins], [types[k] for k in step.outs]
    memory = step.kernel().rules if step.steady else {}
    key = tuple(ins), tuple(outs)
    value = memory.get(key)
    if value is None:
        node_types(step.node, ins, outs)
        value = memory[key] = tuple(ins), tuple(outs), None not in ins and None not in outs
    for k, dtype in zip(step.ins + step.outs, value[0] + value[1], strict=True):
        types[k] = types[k] or dtype
    return value[2]


def _hint(node: Node, np_shape: bool) -> Shape:
    text = node.attrs.get("__shape__")
    return None if text is None else _written(text, np_shape)


@bounded_cache(1024)
def _written(text: str, np_shape: bool) -> Shape:
    """Returns the shape in the text of an attribute."""
    unknown = 0 if np_shape else 1
    return tuple(None if n is None or n < unknown else n for n in shape_of(text)) or None


def _unify(node: Node, a: Shape, b: Shape) -> Shape:
    try:
        return unify(a, b)
    except MXNetError as error:
        subject = f"operator {node.op.name} " if node.op else "variable "
        raise MXNetError(f"Error in {subject}{node.name}: {error}") from None


def _visit(step: _Step, shapes: list[Shape], dtypes: list[str | None], np_shape: bool) -> tuple[bool, bool]:
    """Applies one node's rules; returns whether something changed, and whether everything is known."""
    before = tuple([shapes[k] for k in step.ins]), tuple([shapes[k] for k in step.outs])
    if not step.steady:
        ins, outs, _, done = _learn(step, list(before[0]), list(before[1]), dtypes)
    else:
        memory, key = step.kernel().rules, (np_shape, *before)
        value = memory.get(key)
        if value is None:
            value = _learn(step, list(before[0]), list(before[1]), dtypes)
            if value[2]:
                memory[key] = value
        ins, outs, _, done = value
    node, learnt = step.node, False
    for (source, _), k, old, new in zip(node.inputs, step.ins, before[0], ins, strict=True):
        if new != old:
            shapes[k], learnt = _unify(source, shapes[k], new), True
    for k, old, new in zip(step.outs, before[1], outs, strict=True):
        if new != old:
            shapes[k], learnt = _unify(node, shapes[k], new), True
    return learnt, done


def _learn(step: _Step, ins: list[Shape], outs: list[Shape],
           types: Sequence[str | None]) -> tuple[list[Shape], list[Shape], bool, bool]:
    """Returns the shapes of one node's inputs and outputs, whether they are independent of dtypes, and whether
    everything is known."""
    node, by_rules, done = step.node, True, False
    _apply(node, "FInferShape", ins, outs)
    uneven = node.op.get_attr("FUneven")
    if uneven is not None and uneven(node.params, ins):
        pass  # the result's shape depends on values
    elif all(map(known, ins)) and not node.op.eager and _can_evaluate(node):
        inferred = exact_outputs(node.op, node.params, ins, outs)
        if inferred is None:
            need_numbers(ins)
            by_rules = False
            try:
                specs = node_specs(node, ins, [types[k] for k in step.ins])
            except MXNetError as error:
                raise _mistake(node, error) from None
            inferred = [s[0] for s in specs[:node.num_outputs]]
        outs, done = [_unify(node, o, s) for o, s in zip(outs, inferred, strict=True)], True
    elif ins:
        by_rules = partial_formula(node.op) is not None
        if not by_rules:
            need_numbers(ins)
        outs = [_unify(node, o, p) for o, p in
                zip(outs, _partial(node, ins, [types[k] for k in step.ins]), strict=True)]
    return ins, outs, by_rules, done


def _partial(node: Node, ins: list[Shape], dtypes: Sequence[str | None]) -> list[Shape]:
    """Returns the known parts of the outputs if inputs are only partly known."""
    formula = partial_formula(node.op)
    if formula is not None:
        try:
            return partial_outputs(formula, node.params, ins, node.num_outputs)
        except Exception as error:
            raise _mistake(node, error) from error
    if None in ins or node.op.eager or getattr(node.op.get_attr("FInferShape"), "complete", False):
        return [None] * node.num_outputs
    kernel = prepare(node.op, node.params, len(node.inputs), False)
    types = tuple(dtypes)
    key = kernel, tuple(ins), types, is_np_shape()
    value = _FOUND.get(key)
    if value is None:
        value = _FOUND[key] = _constants(kernel, node, [s for s in ins if s is not None], types)
    return value


_FOUND: dict[Any, list[Shape]] = Bounded(1024)
_SCOPE = export.SymbolicScope()


@functools.cache
def _symbols(count: int) -> tuple:
    """Symbols for positive sizes. They are always the same, because JAX caches traces."""
    return tuple(export.symbolic_shape(",".join(f"n{i}" for i in range(count)), scope=_SCOPE))


def _constants(kernel: Kernel, node: Node, ins: list[tuple[int | None, ...]],
               types: Sequence[str | None]) -> list[Shape]:
    """Evaluates the outputs with a symbol for each unknown dimension; sizes without symbols are known."""
    def evaluated(sizes: Iterator[Any]) -> list[tuple]:
        args = _arguments(kernel, node, [tuple([next(sizes) if n is None else n for n in s]) for s in ins], types)
        with x64_mode(kernel.x64, *args):
            return [o.shape for o in jax.eval_shape(kernel.fn, *args)[:node.num_outputs]]
    try:
        traced = evaluated(iter(_symbols(sum(s.count(None) for s in ins))))
    except Exception:  # the operator needs numbers, or the sizes are valid only for some numbers
        return [None] * node.num_outputs
    results: list[Shape] = [tuple([n if isinstance(n, int) else None for n in s]) for s in traced]
    # JAX treats undecided equality as false, so the result must also hold for equal sizes
    for size in {1, *(n for s in ins for n in s if n is not None), *[0] * is_np_shape()}:
        try:
            results = [_common(a, b) for a, b in zip(results, evaluated(itertools.repeat(size)), strict=True)]
        except Exception:  # no valid combination
            continue
    return results


def _common(a: Shape, b: tuple[int, ...]) -> Shape:
    """Returns the parts that agree in both results."""
    if a is None or len(a) != len(b):
        return None
    return tuple([x if x == y else None for x, y in zip(a, b, strict=True)])


def _can_evaluate(node: Node) -> bool:
    """Operators that create arrays need the shape as a parameter."""
    check = node.op.get_attr("FShapeKnown")
    return check is None or check(node.params)


def _apply(node: Node, attribute: str, ins: list, outs: list) -> None:
    rule = node.op.get_attr(attribute)
    if rule is not None:
        names = [node.input_names()] if getattr(rule, "wants_names", False) else []
        _refine(node, rule, node.params, ins, outs, *names)


def _refine(node: Node, rule: Callable[..., None], *args: object) -> None:
    """Calls a rule of inference; its errors name the node."""
    try:
        rule(*args)
    except MXNetError as error:
        raise _mistake(node, error) from None
    except Exception as error:  # inconsistent parameters, for example of a file, or a faulty rule
        raise _mistake(node, error) from error


def _mistake(node: Node, error: Exception) -> MXNetError:
    text = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
    subject = "" if node.op.name in text else f"operator {node.op.name}: "
    return MXNetError(f"Error in operator {node.name}: {subject}{text}")


def node_specs(node: Node, shapes: Sequence[Shape],
               dtypes: Sequence[str | None]) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
    """Returns shapes and dtypes of a node's outputs (and mutated inputs) for known inputs."""
    kernel = prepare(node.op, node.params, len(node.inputs), False)
    return kernel.specs(_arguments(kernel, node, shapes, dtypes))


def _arguments(kernel: Kernel, node: Node, shapes: Sequence[Any], dtypes: Sequence[str | None]) -> list[Any]:
    structs: list[Any] = [jax.ShapeDtypeStruct(s, np_dtype(t)) for s, t in zip(shapes, dtypes, strict=True)]
    structs += [node.params[n] for n in kernel.dynamic]
    if kernel.uses_key:
        structs += [np.zeros(2, np.uint32), np.uint32(0)]
    return structs


@bounded_cache(1024)
def _code_name(text: str) -> str:
    return DTYPES[int(text)].name if text.lstrip("-").isdigit() else dtype_name(text)


def node_types(node: Node, ins: list[str | None], outs: list[str | None]) -> None:
    """Completes the dtypes of a node's inputs and outputs, in place."""
    _refine(node, op_types, node.op, node.params, ins, outs, node.input_names())
    # not just any known input: a rule may have set the second one, e.g. lengths, before the data is known
    outs[:] = [t or next(iter(ins), None) for t in outs]
