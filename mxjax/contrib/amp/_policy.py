"""The casts of operator inputs: in a graph (`convert`), and in imperative calls and new symbols (`install`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...base import MXNetError
from ...eager import dispatch as calling
from ...eager.modes import state
from ...graph.inference import node_types
from ...graph.node import Entry, Node, topological
from ...graph.rewriting import copied, made, rewrite
from ...kernel.kernel import Kernel, prepare
from ...ndarray import NDArray, amp_cast
from ...ops import registry
from ...symbol import symbol
from . import _tables

__all__ = ["Policy", "convert", "in_their_dtypes", "install", "uninstall"]

_FLOATS = {"float16", "bfloat16", "float32"}
_AS_THEY_COME = {"_copy", "_copyto", "Cast", "amp_cast", "amp_multicast"}  # copies and casts


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
        """Returns the dtype of an operator's inputs, "widest", or None to leave them unchanged."""
        return "float32" if self.on_condition(op, params) else self._dtypes.get(op.name)

    def on_condition(self, op: registry.Op, params: dict[str, Any]) -> bool:
        """Returns whether an operator runs in float32 because of these parameters."""
        return any(str(params.get(p)) in values for p, values in self.conditional.get(op.name, ()))


# ---------------------------------------------------------------- a whole graph
def convert(outputs: Sequence[Entry], policy: Policy, excluded: Collection[str],
            data: Collection[str] | None = None) -> list[Entry]:
    """Returns a float32 graph with the same casts as in MXNet; its outputs are float32.

    Args:
        outputs: the graph's outputs.
        policy: dtypes of the operators.
        excluded: nodes that run in float32.
        data: names of the inputs that are not parameters, if parameters are passed in the dtype in
            which they are used. None: all are float32.
    """
    conversion = _Conversion(policy, excluded, data)
    twins = rewrite(outputs, conversion.rule)
    return [conversion.cast(entry, twin, "float32") for entry, twin in zip(outputs, twins, strict=True)]


class _Conversion:
    """The conversion of one graph: see `convert`."""

    def __init__(self, policy: Policy, excluded: Collection[str], data: Collection[str] | None) -> None:
        self._policy, self._excluded, self._data = policy, excluded, data
        # new entries by dtype and old entry; an entry that is in neither has the dtype that comes
        self._known: dict[str, dict[tuple[int, int], Entry]] = {policy.target: {}, "float32": {}}

    def cast(self, entry: Entry, twin: Entry, dtype: str) -> Entry:
        """Returns the cast of an entry, whose new form is `twin`; there is one cast per dtype."""
        known, key = self._known[dtype], (id(entry[0]), entry[1])
        if key not in known:
            known[key] = made("amp_cast", f"{_name(entry)}_amp_cast_{dtype}", [twin], dtype=dtype), 0
        return known[key]

    def rule(self, node: Node, twins: list[Entry]) -> list[Entry] | None:
        """Returns the new entries for the outputs of a node with these inputs; None to keep the node."""
        if node.op is None:
            return None
        inputs: list[Entry] = twins
        outs: list[str | None] = [None] * node.num_outputs
        dtype = "float32" if node.name in self._excluded else self._policy.wanted(node.op, node.params)
        dtypes = [[d for d, entries in self._known.items() if (id(n), i) in entries] for n, i in node.inputs]
        if dtype == "widest" and not all(dtypes):
            widest = made("amp_multicast", f"{_name(node.inputs[0])}_amp_multicast", twins, num_outputs=len(twins))
            inputs = [(widest, i) for i in range(len(twins))]
        elif dtype is not None and dtype == self._policy.target:
            types, outs = _types_from_first(node, dtype)
            inputs = self._low(node, twins, types)
        elif dtype is not None:
            inputs, dtype = self._cast_all(node, twins, dtypes, dtype)
            outs = [dtype] * node.num_outputs
        elif dtypes and dtypes[0]:
            outs = _types_from_first(node, dtypes[0][0])[1]
        twin = copied(node, inputs)
        entries = [(twin, i) for i in range(node.num_outputs)]
        for i, out in enumerate(outs):
            if out in self._known:
                self._known[out][id(node), i] = entries[i]
        return entries

    def _cast_all(self, node: Node, twins: list[Entry], dtypes: Sequence[Sequence[str]],
                  dtype: str) -> tuple[list[Entry], str]:
        """Returns (inputs, dtype) of an operator whose inputs all have the same dtype: float32, or the widest."""
        spared: set[int] = set()
        if dtype == "widest":
            dtype = "float32" if any("float32" in known for known in dtypes) else self._policy.target
        elif self._policy.on_condition(node.op, node.params):
            spared = set(node.mutated())
        else:
            spared = {i for i, (source, _) in enumerate(node.inputs) if source.op is None}  # float32 already
        return [twin if i in spared and dtype not in known else self.cast(entry, twin, dtype)
                for i, (entry, twin, known) in enumerate(zip(node.inputs, twins, dtypes, strict=True))], dtype

    def _low(self, node: Node, twins: list[Entry], types: Sequence[str | None]) -> list[Entry]:
        """Returns the inputs of an operator of the 16-bit dtype, which takes them in these types."""
        data, target = self._data or (), self._policy.target
        low, states, inputs = self._known[target], set(node.mutated()), []
        for i, (entry, twin) in enumerate(zip(node.inputs, twins, strict=True)):
            key, offline = (id(entry[0]), entry[1]), self._data is not None and entry[0].op is None
            if key in low:
                twin = low[key]
            elif not (offline and entry[0].name not in data or i in states or types[i] not in (target, None)):
                twin = self.cast(entry, twin, target)
            elif offline:
                low[key] = twin
            inputs.append(twin)
        return inputs


def _name(entry: Entry) -> str:
    return entry[0].name if entry[0].op is None else entry[0].output_names()[entry[1]]


def _types_from_first(node: Node, first: str) -> tuple[list[str | None], list[str | None]]:
    """Returns the types of a node's inputs and outputs, as far as the first input's determines them."""
    ins: list[str | None] = [first, *[None] * (len(node.inputs) - 1)]
    outs: list[str | None] = [None] * node.num_outputs
    with contextlib.suppress(MXNetError):  # it does not take that type: then nothing is known
        node_types(node, ins, outs)
        return ins, outs
    return [None] * len(ins), [None] * len(outs)


def in_their_dtypes(outputs: Sequence[Entry], target: str, types: dict[tuple[int, int], str | None]) -> None:
    """Adds the dtypes of unknown inputs of a converted graph to `types`: the dtype to which they
    are cast, if it is unique."""
    seen: dict[int, str] = {}
    for node in topological(outputs):
        if node.op is None or node.op.name not in ("amp_cast", "amp_multicast"):
            continue
        dtype = node.params["dtype"] if node.op.name == "amp_cast" else target
        if node.op.name == "amp_multicast" and any(source.op is not None for source, _ in node.inputs):
            continue
        for source, i in node.inputs:
            if source.op is not None:
                continue
            if id(source) not in seen and types[id(source), i] is None:
                seen[id(source)] = types[id(source), i] = dtype
            elif seen.get(id(source), dtype) != dtype:
                types[id(source), i] = None


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
        others = {i for i, result in enumerate(dtypes) if result != dtype and result in _FLOATS}
        # an array that is changed in place keeps its dtype, and therefore all its sources do
        if dtype is not None and others.isdisjoint(kernel.mutated):
            arrays = [amp_cast(a, dtype=dtype) if i in others else a for i, a in enumerate(arrays)]
        if op.name in losses:
            params["grad_scale"] *= scaler.loss_scale
            kernel = prepare(op, params, len(arrays), state.training, pack=True)
            extras = kernel.extras(params, any(a.chunk.x64 for a in arrays))
        return kernel, arrays, extras
    return before


def install(policy: Policy, scaler: Any) -> None:
    """Applies the policy to imperative calls and new symbols."""
    calling.on_call, symbol.on_compose = _called(policy, scaler), _composed(policy)


def uninstall() -> None:
    """Undoes `install`."""
    calling.on_call = symbol.on_compose = None
