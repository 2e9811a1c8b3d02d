"""The table that `Block.summary` prints, and the HTML that a notebook shows for a block."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ndarray import NDArray

if TYPE_CHECKING:
    from ._block import Block

__all__ = ["as_html", "summary"]

_ROW = "{:>20}  {:>42} {:>15}"


def _shapes(values: object) -> Any:
    if isinstance(values, (list, tuple)):
        return [_shapes(value) for value in values]
    return values.shape if isinstance(values, NDArray) else values


def _shape_text(values: object) -> str:
    """The shapes in nested values, without the outermost brackets."""
    shapes = _shapes(values)
    return str(shapes)[1:-1] if isinstance(shapes, list) else str(shapes)


def summary(block: Block, inputs: Sequence[Any]) -> None:
    """Runs a block on inputs and prints a summary of its layers."""
    seen: set[Any] = set()
    rows: list[tuple[str, str, int]] = [("Input", _shape_text(inputs), 0)]
    totals = {"total": 0, "trainable": 0, "shared": 0}
    hooks = []

    def note(layer: Block, _: object, outputs: object) -> None:
        sizes = {param: param.data().size for param in layer.params.values()}
        totals["total"] += sum(sizes.values())
        totals["trainable"] += sum(size for param, size in sizes.items() if param.grad_req != "null")
        totals["shared"] += sum(size for param, size in sizes.items() if param in seen)
        seen.update(sizes)
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shape_text(outputs), sum(sizes.values())))

    def attach(layer: Block) -> None:
        if getattr(layer, "_active", False):
            raise AssertionError(f'"{layer._name}" must not be hybridized to print summary.')
        if not layer._passes_on:
            hooks.append(layer.register_forward_hook(note))
    try:
        block.apply(attach)
        block(*inputs)
    finally:
        for hook in hooks:
            hook.detach()
    print("-" * 80)
    print(_ROW.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for row in rows:
        print(_ROW.format(*row))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {totals['total']}")
    print(f"   Trainable params: {totals['trainable']}")
    print(f"   Non-trainable params: {totals['total'] - totals['trainable']}")
    print(f"Shared params in forward computation graph: {totals['shared']}")
    print(f"Unique parameters in model: {totals['total'] - totals['shared']}")
    print("-" * 80)


def as_html(block: Block) -> str:
    """Renders a block's parameters and its children as collapsible HTML."""
    def count(one: Block) -> str:
        shapes = [param.shape for param in one.collect_params().values()]
        known = [shape for shape in shapes if shape is not None and all(n > 0 for n in shape)]
        total = sum(math.prod(shape) for shape in known)
        return f"{total:,} parameters" + ("" if len(known) == len(shapes) else ", and some with unknown shapes")

    def part(name: str, one: Block, depth: int) -> str:
        rows = "".join(f"<tr><td>{html.escape(param.name)}</td><td>{html.escape(str(param.shape))}</td>"
                       f"<td>{html.escape(str(param.dtype))}</td></tr>" for param in one._reg_params.values()) \
            if hasattr(one, "_reg_params") else ""
        own = "" if one._children else html.escape(repr(one).partition("(")[2].rstrip(")\n "))
        inner = "".join(part(key, child, depth + 1) for key, child in one._child_items())
        title = f"{html.escape(name)} <b>{type(one).__name__}</b> {own} <i>{count(one)}</i>"
        return f"<details{' open' * (depth < 1)} style='margin-left:1em'><summary>{title}</summary>" + (
            f"<table>{rows}</table>" if rows else "") + f"{inner}</details>"
    return part(block._name, block, 0)
