"""Shape and type inference of whole graphs, forwards and backwards until nothing new is learnt."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from .._support.bounded import Bounded
from ..base import MXNetError, literal
from ..kernel.kernel import Kernel, is_wide, prepare
from ..ops.infer import known, op_types, unify
from ..ops.infer import outputs as partial_outputs
from ..ops.params import DTYPES, dtype_name, np_dtype
from ..util import is_np_shape
from .node import Entry, Node, topological

__all__ = ["infer_shapes", "infer_types", "node_types"]

Shape = tuple[int | None, ...] | None


def infer_shapes(outputs: Sequence[Entry], given: dict[str, Shape],
                 types: dict[str, str] | None = None, results: Sequence[Shape] = ()) -> dict[tuple[int, int], Shape]:
    """Shapes of all entries of a graph; dimensions that nothing tells stay None.

    Args:
        outputs: the graph.
        given: shapes of variables by name.
        types: dtypes of variables by name (default float32).
        results: shapes of the outputs, as far as they are known.

    Raises:
        MXNetError: shapes contradict each other; the message names the node.
    """
    nodes = topological(outputs)
    shapes: dict[tuple[int, int], Shape] = {}
    for node in nodes:
        for i in range(node.num_outputs):
            shapes[id(node), i] = None
        if node.op is None:
            shapes[id(node), 0] = given[node.name] if node.name in given else _hint(node)
    for (node, i), shape in zip(outputs, results, strict=False):
        shapes[id(node), i] = _unify(node, shapes[id(node), i], shape)
    dtypes = _entry_types(nodes, types or {})
    changed, forward = True, True
    while changed:
        changed = False
        for node in nodes if forward else reversed(nodes):
            if node.op is not None:
                changed |= _visit(node, shapes, dtypes)
        if not changed and forward:
            changed, forward = True, False
        elif not forward:
            forward = True
    return shapes


def _hint(node: Node) -> Shape:
    text = node.attrs.get("__shape__")
    if text is None:
        return None
    value = literal(text)
    shape = tuple(value) if isinstance(value, (tuple, list)) else (int(value),)
    unknown = 0 if is_np_shape() else 1
    return tuple(None if n is None or n < unknown else int(n) for n in shape) or None


def _unify(node: Node, a: Shape, b: Shape) -> Shape:
    try:
        return unify(a, b)
    except MXNetError as error:
        kind = f"operator {node.op.name} " if node.op else "variable "
        raise MXNetError(f"Error in {kind}{node.name}: {error}") from None


def _visit(node: Node, shapes: dict, dtypes: dict) -> bool:
    """Applies one node's rules; returns whether something was learnt."""
    ins = [shapes[id(n), i] for n, i in node.inputs]
    outs = [shapes[id(node), i] for i in range(node.num_outputs)]
    before = (list(ins), list(outs))
    if all(map(known, ins)) and all(map(known, outs)) and node.op.eager is False and (id(node), "done") in shapes:
        return False
    _apply(node, "FInferShape", ins, outs)
    uneven = node.op.get_attr("FUneven")
    if uneven is not None and uneven(node.params, ins):
        pass  # the result's shape depends on values
    elif all(map(known, ins)) and not node.op.eager and _can_evaluate(node):
        try:
            specs = node_specs(node, ins, [dtypes.get((id(n), i)) for n, i in node.inputs])
        except MXNetError as error:
            raise _mistake(node, error) from None
        outs = [_unify(node, o, s[0]) for o, s in zip(outs, specs[:node.num_outputs], strict=True)]
        shapes[id(node), "done"] = None
    elif ins:
        outs = [_unify(node, o, p) for o, p in zip(outs, _partial(node, ins, dtypes), strict=True)]
    for (source, i), shape in zip(node.inputs, ins, strict=True):
        shapes[id(source), i] = _unify(source, shapes[id(source), i], shape)
    for i, shape in enumerate(outs):
        shapes[id(node), i] = _unify(node, shapes[id(node), i], shape)
    return (ins, outs) != before


def _partial(node: Node, ins: list[Shape], dtypes: dict) -> list[Shape]:
    """What can be said for certain of the outputs where inputs are not known in full."""
    formula = node.op.get_attr("FPartialShape")
    if formula is not None:
        try:
            return partial_outputs(formula, node.params, ins, node.num_outputs)
        except Exception as error:
            raise _mistake(node, error) from error
    if None in ins or node.op.eager or getattr(node.op.get_attr("FInferShape"), "complete", False):
        return [None] * node.num_outputs
    kernel = prepare(node.op, node.params, len(node.inputs), False)
    types = tuple([dtypes.get((id(n), i)) for n, i in node.inputs])
    key = kernel, tuple(ins), types, is_np_shape()
    found = _FOUND.get(key)
    if found is None:
        found = _FOUND[key] = _constants(kernel, node, ins, types)
    return found


_FOUND: dict[Any, list[Shape]] = Bounded(1024)
_SCOPE = export.SymbolicScope()


@functools.cache
def _symbols(count: int) -> tuple:
    """Sizes of which nothing is known but that they are positive. Always the same ones: JAX keeps what it traced."""
    return export.symbolic_shape(",".join(f"n{i}" for i in range(count)), scope=_SCOPE)


def _constants(kernel: Kernel, node: Node, ins: list[Shape], types: Sequence[str | None]) -> list[Shape]:
    """The outputs evaluated with a symbol for each unknown dimension: those that no symbol is in are known."""
    def evaluated(sizes: Iterator[Any]) -> list[tuple]:
        args = _arguments(kernel, node, [tuple([next(sizes) if n is None else n for n in s]) for s in ins], types)
        with jax.enable_x64(kernel.wide or any(is_wide(a.dtype) for a in args if hasattr(a, "dtype"))):
            return [o.shape for o in jax.eval_shape(kernel.fn, *args)[:node.num_outputs]]
    try:
        traced = evaluated(iter(_symbols(sum(s.count(None) for s in ins))))
    except Exception:  # the operator asks for numbers, or the sizes fit for some numbers only
        return [None] * node.num_outputs
    found: list[Shape] = [tuple([n if isinstance(n, int) else None for n in s]) for s in traced]
    # whether two sizes are equal is false to JAX where it depends: so what is found has to be true of equal ones too
    for size in {1, *(n for s in ins for n in s if n is not None), *[0] * is_np_shape()}:
        try:
            found = [_common(a, b) for a, b in zip(found, evaluated(itertools.repeat(size)), strict=True)]
        except Exception:  # it is none that fits
            continue
    return found


def _common(a: Shape, b: tuple[int, ...]) -> Shape:
    """What two answers agree about."""
    if a is None or len(a) != len(b):
        return None
    return tuple([x if x == y else None for x, y in zip(a, b, strict=True)])


def _can_evaluate(node: Node) -> bool:
    """Operators that make arrays need their shape in the parameters."""
    check = node.op.get_attr("FShapeKnown")
    return check is None or check(node.params)


def _apply(node: Node, attribute: str, ins: list, outs: list) -> None:
    rule = node.op.get_attr(attribute)
    if rule is not None:
        names = [node.input_names()] if getattr(rule, "wants_names", False) else []
        _refine(node, rule, node.params, ins, outs, *names)


def _refine(node: Node, rule: Callable[..., None], *args: Any) -> None:
    """Calls a rule of inference; its errors name the node."""
    try:
        rule(*args)
    except MXNetError as error:
        raise _mistake(node, error) from None
    except Exception as error:  # parameters that contradict each other, of a file for one, or a rule that is wrong
        raise _mistake(node, error) from error


def _mistake(node: Node, error: Exception) -> MXNetError:
    text = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
    kind = "" if node.op.name in text else f"operator {node.op.name}: "
    return MXNetError(f"Error in operator {node.name}: {kind}{text}")


def node_specs(node: Node, shapes: Sequence[Shape], dtypes: Sequence[str | None],
               train: bool = False) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
    """Shapes and dtypes of a node's outputs (and mutated inputs) for known inputs."""
    kernel = prepare(node.op, node.params, len(node.inputs), train)
    return kernel.specs(_arguments(kernel, node, shapes, dtypes))


def _arguments(kernel: Kernel, node: Node, shapes: Sequence[Any], dtypes: Sequence[str | None]) -> list[Any]:
    structs: list[Any] = [jax.ShapeDtypeStruct(s, np_dtype(t)) for s, t in zip(shapes, dtypes, strict=True)]
    structs += [node.params[n] for n in kernel.dynamic]
    if kernel.uses_key:
        structs += [np.zeros(2, np.uint32), np.uint32(0)]
    return structs


def infer_types(outputs: Sequence[Entry], given: dict[str, str], results: Sequence[str | None] = (),
                hints: bool = True) -> dict[tuple[int, int], str | None]:
    """dtypes (names) of all entries of a graph; None where nothing tells.

    results: those known of the outputs. hints: whether the dtypes in variables' attributes count.

    Raises:
        MXNetError: dtypes contradict each other.
    """
    return _entry_types(topological(outputs), given, zip(outputs, results, strict=False), hints)


def _entry_types(nodes: Sequence[Node], given: dict[str, str],
                 results: Iterable[tuple[Entry, str | None]] = (),
                 hints: bool = True) -> dict[tuple[int, int], str | None]:
    types: dict[tuple[int, int], str | None] = {}
    for node in nodes:
        for i in range(node.num_outputs):
            types[id(node), i] = None
        if node.op is None:
            hint = node.attrs.get("__dtype__") if hints else None
            if hint is not None and hint != "None":
                types[id(node), 0] = _code_name(hint)
            if node.name in given:
                types[id(node), 0] = given[node.name]
    for (node, i), dtype in results:
        types[id(node), i] = types[id(node), i] or dtype
    for order in (nodes, nodes[::-1], nodes):
        for node in order:
            if node.op is None:
                continue
            ins = [types[id(n), i] for n, i in node.inputs]
            outs = [types[id(node), i] for i in range(node.num_outputs)]
            node_types(node, ins, outs)
            for (source, i), found in zip(node.inputs, ins, strict=True):
                types[id(source), i] = types[id(source), i] or found
            for i, found in enumerate(outs):
                types[id(node), i] = types[id(node), i] or found
    return types


def _code_name(text: str) -> str:
    return DTYPES[int(text)].name if text.lstrip("-").isdigit() else dtype_name(text)


def node_types(node: Node, ins: list[str | None], outs: list[str | None]) -> None:
    """Completes the dtypes of a node's inputs and outputs, in place."""
    _refine(node, op_types, node.op, node.params, ins, outs, node.input_names())
    # not any input that is known: a rule may have set the second one, e.g. lengths, before the data is known
    outs[:] = [t or next(iter(ins), None) for t in outs]
