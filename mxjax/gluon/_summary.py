"""The table that `Block.summary` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ndarray import NDArray

__all__ = ["summary"]

_ROW = "{:>20}  {:>42} {:>15}"


def _shapes(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_shapes(value) for value in values]
    return values.shape if isinstance(values, NDArray) else values


def _shape_text(values: Any) -> str:
    """The shapes in nested values, without the outermost brackets."""
    shapes = _shapes(values)
    return str(shapes)[1:-1] if isinstance(shapes, list) else str(shapes)


def summary(block: Any, inputs: Sequence[Any]) -> None:
    """Runs a block on inputs and prints what its layers did."""
    seen: set[Any] = set()
    rows: list[tuple[str, str, int]] = [("Input", _shape_text(inputs), 0)]
    totals = {"total": 0, "trainable": 0, "shared": 0}
    hooks = []

    def note(layer: Any, _: Any, outputs: Any) -> None:
        sizes = {param: param.data().size for param in layer.params.values()}
        totals["total"] += sum(sizes.values())
        totals["trainable"] += sum(size for param, size in sizes.items() if param.grad_req != "null")
        totals["shared"] += sum(size for param, size in sizes.items() if param in seen)
        seen.update(sizes)
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shape_text(outputs), sum(sizes.values())))

    def attach(layer: Any) -> None:
        if getattr(layer, "_active", False):
            raise AssertionError(f'"{layer.name}" must not be hybridized to print summary.')
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
