"""What an operator's inputs are cast to: in a graph (`convert`), while one is composed, and in calls (`install`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...array import calling
from ...array.state import state
from ...compile.kernel import Kernel, prepare
from ...graph.node import Entry, Node
from ...graph.rewriting import copied, made, rewrite
from ...ndarray import NDArray, amp_cast
from ...ops import registry
from ...symbol import symbol
from . import _tables

__all__ = ["Policy", "convert", "install", "uninstall"]

_FLOATS = {"float16", "bfloat16", "float32"}
_AS_THEY_COME = {"_copy", "_copyto", "Cast", "amp_cast", "amp_multicast"}  # copies, and what is told its dtype


class Policy:
    """Lists of operators for a 16-bit dtype."""

    def __init__(self, target: str, low: Collection[str], fp32: Collection[str],
                 conditional: Sequence[tuple[str, str, list[str]]], widest: Collection[str]) -> None:
        self.target = target
        self.conditional: dict[str, list[tuple[str, list[str]]]] = {}
        for op, p, values in conditional:
            for name in _tables.canonical([op]):
                self.conditional.setdefault(name, []).append((p, values))
        self._dtypes = {name: dtype for names, dtype in ((widest, "widest"), (fp32, "float32"), (low, target))
                        for name in _tables.canonical(names)}

    def wanted(self, op: registry.Op, params: dict[str, Any]) -> str | None:
        """A dtype, "widest", or None for what takes what comes."""
        if any(str(params.get(p)) in values for p, values in self.conditional.get(op.name, ())):
            return "float32"
        return self._dtypes.get(op.name)


# ---------------------------------------------------------------- a whole graph
def convert(outputs: Sequence[Entry], policy: Policy, excluded: Collection[str]) -> list[Entry]:
    """A float32 graph with casts, only where the dtype changes; excluded nodes run in float32."""
    low: set[tuple[int, int]] = set()  # entries of the new graph that are of the 16-bit dtype
    casts: dict[tuple[int, int, str], Entry] = {}

    def cast(entry: Entry, dtype: str) -> Entry:
        key = id(entry[0]), entry[1]
        if (key in low) == (dtype == policy.target):
            return entry
        if (*key, dtype) not in casts:
            name = f"{entry[0].output_names()[entry[1]]}_amp_cast_{dtype}"
            casts[*key, dtype] = found = made("amp_cast", name, [entry], dtype=dtype), 0
            if dtype == policy.target:
                low.add((id(found[0]), 0))
        return casts[*key, dtype]

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None:
            return None
        dtype = "float32" if node.name in excluded else policy.wanted(node.op, node.params)
        kinds = [(id(n), i) in low for n, i in inputs]
        if dtype == "widest":
            dtype = policy.target if all(kinds) else "float32"
        if dtype is not None:
            states = set(node.mutated())
            inputs = [e if k in states else cast(e, dtype) for k, e in enumerate(inputs)]
        twin = copied(node, inputs)
        entries = [(twin, i) for i in range(node.num_outputs)]
        fixed = node.params.get("dtype") if "dtype" in node.op.params else None
        if dtype == policy.target or dtype is None and fixed in (None, policy.target) and (
                kinds[:1] == [True] or fixed == policy.target):
            low.update((id(twin), i) for i in range(node.num_outputs))
        return entries
    return rewrite(outputs, rule)


# ---------------------------------------------------------------- symbols as they are composed, arrays as they come
def _composed(policy: Policy) -> Callable[[Node], None]:
    """Puts casts before a new node, as it is composed: always, for its inputs' dtypes are not known yet."""
    losses = _tables.canonical(_tables.LOSSES)

    def before(node: Node) -> None:
        if node.op.name in losses:
            logging.warning("%s does not support dynamic loss scaling in symbolic and hybridized execution.",
                            node.op.name)
        dtype, states = policy.wanted(node.op, node.params), set(node.mutated())
        if dtype == "widest":
            if len(node.inputs) > 1:
                widest = made("amp_multicast", f"{node.name}_amp_multicast", node.inputs, num_outputs=len(node.inputs))
                node.inputs = [(widest, i) for i in range(len(node.inputs))]
        elif dtype is not None:
            node.inputs = [e if k in states else
                           (made("amp_cast", f"{e[0].output_names()[e[1]]}_amp_cast_{dtype}", [e], dtype=dtype), 0)
                           for k, e in enumerate(node.inputs)]
    return before


_Call = tuple[Kernel, Sequence[NDArray], tuple]


def _called(policy: Policy, scaler: Any) -> Callable[..., _Call]:
    """Casts the arrays of an imperative call; loss outputs scale their own gradient (in graphs they cannot)."""
    losses = _tables.canonical(_tables.LOSSES)

    def before(kernel: Kernel, arrays: Sequence[NDArray], extras: tuple) -> _Call:
        op, params = kernel.op, kernel.params
        if op.name in losses or op.name in policy.conditional:
            params = {**params, **kernel.numbers(extras)}
        dtype = None if op.name in _AS_THEY_COME else policy.wanted(op, params)
        if dtype is None and op.name not in losses:
            return kernel, arrays, extras
        dtypes = [np.dtype(a.dtype).name for a in arrays]
        if dtype == "widest":
            dtype = "float32" if "float32" in dtypes else policy.target
        others = {i for i, found in enumerate(dtypes) if found != dtype and found in _FLOATS}
        # what is changed in place keeps its dtype, and then so does all that goes into it
        if dtype is not None and others.isdisjoint(kernel.mutated):
            arrays = [amp_cast(a, dtype=dtype) if i in others else a for i, a in enumerate(arrays)]
        if op.name in losses:
            params["grad_scale"] *= scaler.loss_scale
            kernel = prepare(op, params, len(arrays), state.training, pack=True)
            extras = kernel.extras(params, any(a._chunk.wide for a in arrays))
        return kernel, arrays, extras
    return before


def install(policy: Policy, scaler: Any) -> None:
    """Has imperative calls and new symbols follow the policy."""
    calling.on_call, symbol._on_compose = _called(policy, scaler), _composed(policy)


def uninstall() -> None:
    """Undoes `install`."""
    calling.on_call = symbol._on_compose = None
