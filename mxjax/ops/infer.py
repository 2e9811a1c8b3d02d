"""Partial shape and type inference for one operator: both ways, unknowns allowed.

A shape is a tuple whose zeros are unknown dimensions, `()` (or None) an unknown shape; under NumPy semantics -1 and
None mean the same and are translated before they come here. A dtype is a name or None.

An operator's rule (attribute FInferShape or FInferType) is `rule(params, ins, outs)`; it refines the two lists in
place with `unify` and need not do what the forward direction does: once all inputs are known, the outputs come
from abstract evaluation of the operator's function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import MXNetError

__all__ = ["unify", "known", "elementwise", "same_inputs", "filled", "typed"]

Shape = tuple[int | None, ...] | None


def known(shape: Shape) -> bool:
    """Whether every dimension is known (`None` stands for an unknown shape, `None` items for unknown dimensions)."""
    return shape is not None and None not in shape


def unify(a: Shape, b: Shape, what: str = "shape") -> Shape:
    """What two partial shapes say together.

    Raises:
        MXNetError: they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise MXNetError(f"{what}: {a} and {b} have different numbers of dimensions")
    merged = []
    for x, y in zip(a, b, strict=True):
        if x is not None and y is not None and x != y:
            raise MXNetError(f"{what}: {a} and {b} do not agree")
        merged.append(y if x is None else x)
    return tuple(merged)


def elementwise(params: dict[str, Any], ins: list[Shape], outs: list[Shape]) -> None:
    """All inputs and outputs have one shape (FInferShape)."""
    shape: Shape = None
    for other in [*ins, *outs]:
        shape = unify(shape, other)
    ins[:], outs[:] = [shape] * len(ins), [shape] * len(outs)


def same_inputs(params: dict[str, Any], ins: list[Shape], outs: list[Shape]) -> None:
    """All inputs have one shape, the outputs another (FInferShape)."""
    shape: Shape = None
    for other in ins:
        shape = unify(shape, other)
    ins[:] = [shape] * len(ins)


def filled(back: Callable[..., Shape] | None = None, /, **rules: Callable[..., Shape]) -> Callable[..., None]:
    """A rule out of formulas: each names an input and computes its shape from (params, shape of the first input).

    Applied once the first input's number of dimensions is known; a formula that needs a dimension which is not
    (None) is skipped, and so are inputs that are absent. `back(params, first input, first output)` tells what the
    output says of the first input.

        infer_shape=filled(weight=lambda p, x: (p["num_hidden"], x[1]), bias=lambda p, x: (p["num_hidden"],))
    """
    def rule(params: dict[str, Any], ins: list[Shape], outs: list[Shape], names: Sequence[str] = ()) -> None:
        if back is not None and ins[0] is not None and outs[0] is not None:
            ins[0] = unify(ins[0], back(params, ins[0], outs[0]), "first input")
        if ins[0] is None:
            return
        for i, name in enumerate(names):
            if name in rules and i < len(ins):
                try:
                    shape = tuple(rules[name](params, ins[0]))
                except TypeError:
                    if known(ins[0]):
                        raise
                    continue
                ins[i] = unify(ins[i], shape, f"input {name}")
    rule.wants_names = True
    return rule


def typed(**dtypes: str) -> Callable[..., None]:
    """A type rule: the named inputs have these dtypes where nothing else is known; the others agree with the first
    of them.

        infer_type=typed(label="float32", indices="int32")
    """
    def rule(params: dict[str, Any], ins: list[str | None], outs: list[str | None], names: Sequence[str] = ()) -> None:
        rest = [t for t, n in zip(ins, names, strict=False) if n not in dtypes and t] + [t for t in outs if t]
        for i, name in enumerate(names):
            if ins[i] is None:
                ins[i] = dtypes.get(name) or (rest[0] if rest else None)
    rule.wants_names = True
    return rule
