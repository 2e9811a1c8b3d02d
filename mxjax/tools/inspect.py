"""`python -m mxjax inspect MODEL --shape data=1,3,224,224`: layers, parameters, operations and memory.

Operations are counted by XLA (a multiplication and an addition are two), for one call with these shapes; memory is
XLA's plan for the compiled program on this machine's device.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .._xla.x64 import x64_mode
from ..graph.inference import infer_shapes, infer_types
from ..graph.node import Node
from ..kernel.kernel import prepare
from ..ops.params import np_dtype
from . import _model

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    _model.add_arguments(parser)


def _size(count: float, unit: str) -> str:
    """A number with the prefix that makes it readable."""
    prefixes = " kMGT"
    power = min(int(math.log10(count)) // 3, len(prefixes) - 1) if count >= 1 else 0
    return f"{count / 1000**power:.4g} {prefixes[power].strip()}{unit}"


class _Counter:
    """Operations of single nodes, as XLA counts them; equal nodes are counted once."""

    def __init__(self) -> None:
        self._known: dict[Any, float] = {}

    def flops(self, node: Node, shapes: Sequence[tuple[int | None, ...]], dtypes: list[str]) -> float:
        import jax
        kernel = prepare(node.op, node.params, len(node.inputs), False)
        key = kernel, tuple(shapes), tuple(dtypes)
        if key not in self._known:
            structs: list[Any] = [jax.ShapeDtypeStruct(s, np_dtype(t)) for s, t in zip(shapes, dtypes, strict=True)]
            structs += [node.params[n] for n in kernel.dynamic]
            if kernel.uses_key:
                structs += [jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((), "uint32")]
            with x64_mode(kernel.x64, *map(np_dtype, dtypes)):
                cost = jax.jit(kernel.fn).lower(*structs).cost_analysis()
            self._known[key] = float((cost or {}).get("flops", 0.0))
        return max(self._known[key], 0.0)


def _rows(model: _model.Model) -> list[tuple[Node, Any, int, float]]:
    """(node, output shape, number of parameters that first appear there, operations) of each operator."""
    graph = model.symbol.lowered()
    known = {n: v.shape for n, v in model.params.items()} | dict(model.shapes)
    types = {n: np_dtype(v.dtype).name for n, v in model.params.items()} | {n: t.name for n, t in model.dtypes.items()}
    shapes, dtypes = infer_shapes(graph.outputs, known, types), infer_types(graph.outputs, types)
    count, seen, rows = _Counter(), set(), []
    for node in graph.steps:
        own = [n for n, _ in node.inputs if n.op is None and n.name in model.params and n.name not in seen]
        seen |= {n.name for n in own}
        host = node.op.eager or node.op.get_attr("FHost") is not None
        entries = [(id(n), i) for n, i in node.inputs]
        output_shapes = [shape for e in entries if (shape := shapes[e]) is not None]
        flops = 0.0 if host or len(output_shapes) < len(entries) else \
            count.flops(node, output_shapes, [dtypes[e] or "float32" for e in entries])
        rows.append((node, shapes[id(node), 0], sum(math.prod(model.params[n.name].shape) for n in own), flops))
    return rows


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    model = _model.Model(args)
    rows = _rows(model)
    widths = max([len(n.name) for n, *_ in rows] + [5]), max([len(n.op.name) for n, *_ in rows] + [8])
    print(f"{'layer':{widths[0]}}  {'operator':{widths[1]}}  {'output':20}  {'parameters':>12}  {'operations':>12}")
    for node, shape, count, flops in rows:
        size = "x".join(map(str, shape)) if shape is not None else "?"
        print(f"{node.name:{widths[0]}}  {node.op.name:{widths[1]}}  {size:20}  {count:>12,}  {_size(flops, ''):>12}")
    counts = Counter(node.op.name for node, *_ in rows)
    stored = sum(math.prod(v.shape) * np_dtype(v.dtype).itemsize for v in model.params.values())
    print("\ninputs      " + ", ".join(f"{n} {model.dtypes[n].name}{s}" for n, s in model.shapes.items()))
    print("outputs     " + ", ".join(f"{n} {tuple(s)}" for n, s in zip(model.symbol.list_outputs(),
                                                                      model.output_shapes, strict=True)))
    print("operators   " + ", ".join(f"{count} {name}" for name, count in counts.most_common()))
    print(f"parameters  {sum(math.prod(v.shape) for v in model.params.values()):,} in {_size(stored, 'B')}")
    print(f"operations  {_size(sum(flops for *_, flops in rows), 'FLOP')}")
    if not model.symbol.lowered().cut:
        _print_memory(model)
    return 0


def _print_memory(model: _model.Model) -> None:
    import jax
    program, specs = model.function()
    plan = jax.jit(program).lower(*specs).compile().memory_analysis()
    if plan is not None:
        parts = {"intermediate results": plan.temp_size_in_bytes, "inputs": plan.argument_size_in_bytes,
                 "outputs": plan.output_size_in_bytes}
        print("memory      " + ", ".join(f"{_size(size, 'B')} for {what}" for what, size in parts.items()))
