"""The quantization pass: layers on 8-bit integers, and where floats become integers and integers floats again.

Every integer array travels as three entries: the integers, and the minimum and maximum they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..base import MXNetError
from ..ops.params import np_dtype
from .node import Entry, Node, topological
from .rewriting import consumers, copied, made, rewrite

__all__ = ["calibrate", "fold_batch_norm", "quantize"]

Params = dict[str, Any]


class _Form(NamedTuple):
    """How an operator is quantized.

    op: the operator on integers; must: quantized even where no quantized layer is on both sides (quantize_mode
    "smart"); requantize: its 32-bit results become 8-bit ones; floats: whether an input stays as it is; when: for which
    parameters; asym: the data become uint8 with scale and shift, and the results are floats.
    """

    op: str
    must: bool = False
    requantize: bool = False
    floats: Callable[[int], bool] = lambda position: False
    when: Callable[[Params], bool] = lambda params: True
    asym: bool = False


_FORMS = {
    "Convolution": _Form("_contrib_quantized_conv", must=True, requantize=True),
    "FullyConnected": _Form("_contrib_quantized_fully_connected", must=True, requantize=True),
    "RNN": _Form("_contrib_quantized_rnn", must=True, floats=lambda i: i > 0, asym=True,
                 when=lambda p: p["mode"] == "lstm" and not p["use_sequence_length"]),
    "Pooling": _Form("_contrib_quantized_pooling", when=lambda p: p["pool_type"] in ("max", "avg")),
    "Activation": _Form("_contrib_quantized_act", when=lambda p: p["act_type"] == "relu"),
    "Flatten": _Form("_contrib_quantized_flatten"),
    "Concat": _Form("_contrib_quantized_concat", when=lambda p: p["dim"] > 0),
    "Embedding": _Form("_contrib_quantized_embedding", floats=lambda i: i == 0,
                       when=lambda p: np_dtype(p["dtype"]).name == "float32"),
    "BatchNorm": _Form("_contrib_quantized_batch_norm", floats=lambda i: i > 0,
                       when=lambda p: not p["output_mean_var"]),
    "elemwise_add": _Form("_contrib_quantized_elemwise_add", requantize=True),
    "elemwise_mul": _Form("_contrib_quantized_elemwise_mul", requantize=True),
}
_ON_INPUT = ("_contrib_quantize_v2", "_contrib_quantize_asym", "_contrib_requantize")  # calibrated by what comes in
_ON_OUTPUT = ("_contrib_quantized_batch_norm",)  # calibrated by what comes out
_MODES, _DTYPES = ("full", "smart"), ("int8", "uint8", "auto")


def quantize(outputs: Sequence[Entry], *, excluded_names: Collection[str] = (), excluded_ops: Collection[str] = (),
             offline: Collection[str] = (), dtype: str = "int8", mode: str = "smart") -> tuple[list[Entry], list[str]]:
    """A float32 graph as one of 8-bit integers, as far as there are operators for it.

    Args:
        outputs: the graph's outputs.
        excluded_names, excluded_ops: nodes and operators that stay as they are.
        offline: variables that are quantized beforehand: `w` becomes `w_quantize`, `w_quantize_min`, `w_quantize_max`.
        dtype: of quantized data: "int8", "uint8" or "auto" (uint8 where calibration finds nothing negative).
        mode: "full": every operator that can be; "smart": those between layers that gain from it.

    Returns:
        (outputs, names of the float graph's outputs whose range is to be calibrated).

    Raises:
        MXNetError: unknown mode or dtype.
    """
    for what, value, allowed in (("mode", mode, _MODES), ("dtype", dtype, _DTYPES)):
        if value not in allowed:
            raise MXNetError(f"quantize {what} must be one of {', '.join(allowed)}, got {value!r}")
    chosen = _chosen(outputs, set(excluded_names), set(excluded_ops), mode)
    integers: dict[tuple[int, int, str], tuple[Entry, ...]] = {}  # what stands for a float entry of the new graph
    names: list[str] = []

    def as_integers(entry: Entry, old: Entry, kind: str) -> tuple[Entry, ...]:
        node, key = entry[0], (id(entry[0]), entry[1], kind)
        if key not in integers:
            full_name = old[0].output_names()[old[1]]
            if node.op is None and node.name in offline and kind == "symmetric":
                parts = [Node(None, f"{node.name}_quantize{end}", {}) for end in ("", "_min", "_max")]
                integers[key] = tuple((part, 0) for part in parts)
            else:
                maker = made("_contrib_quantize_v2", f"{full_name}_quantize", [entry], out_type=dtype) \
                    if kind == "symmetric" else made("_contrib_quantize_asym", f"{full_name}_quantize", [entry])
                names.append(full_name)
                integers[key] = tuple((maker, i) for i in range(3))
        return integers[key]

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if id(node) not in chosen:
            return None
        form = chosen[id(node)]
        kind = "asymmetric" if form.asym else "symmetric"
        data, ranges = [], []
        for position, (entry, old) in enumerate(zip(inputs, node.inputs, strict=True)):
            if form.floats(position):
                data.append(entry)
            else:
                first, *rest = as_integers(entry, old, kind)
                data.append(first)
                ranges += rest
        own = {k: v for k, v in node.attrs.items() if k in node.op.params or k == node.op.variadic}
        layer = made(form.op, f"quantized_{node.name}", [*data, *ranges], **own)
        if form.asym:
            return [(layer, i) for i in range(node.num_outputs)]
        output = node.output_names()[0]
        if form.op in _ON_OUTPUT:
            names.append(output)
        if form.requantize:
            layer = made("_contrib_requantize", f"requantize_{node.name}", [(layer, i) for i in range(3)],
                         out_type=dtype)
            names.append(output)
        parts = tuple((layer, i) for i in range(3))
        back = made("_contrib_dequantize", f"{node.name}_dequantize", parts), 0
        integers[id(back[0]), 0, "symmetric"] = parts
        return [back] * node.num_outputs
    result = rewrite(outputs, rule)
    return result, list(dict.fromkeys(names))


def _chosen(outputs: Sequence[Entry], excluded_names: set[str], excluded_ops: set[str], mode: str) -> dict[int, _Form]:
    """The form of each node that is to be quantized."""
    able = {id(n): n for n in topological(outputs) if n.op is not None and n.op.name in _FORMS
            and _FORMS[n.op.name].when(n.params) and n.name not in excluded_names and n.op.name not in excluded_ops}
    forms = {key: _FORMS[node.op.name] for key, node in able.items()}
    if mode == "full":
        return forms
    must = [node for key, node in able.items() if forms[key].must]
    readers = consumers(outputs)
    before = _reached(must, able, lambda node: [source for source, _ in node.inputs])
    after = _reached(must, able, lambda node: [reader for i in range(node.num_outputs)
                                               for reader in readers.get((id(node), i), ()) if reader is not None])
    return {key: form for key, form in forms.items() if form.must or key in before and key in after}


def _reached(start: list[Node], able: Mapping[int, Node], step: Callable[[Node], list[Node]]) -> set[int]:
    """The nodes among `able` that steps from `start` lead to without leaving `able`."""
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        for node in step(waiting.pop()):
            if id(node) in able and id(node) not in reached:
                reached.add(id(node))
                waiting.append(node)
    return reached


def calibrate(outputs: Sequence[Entry], table: Mapping[str, tuple[float, float]]) -> list[Entry]:
    """The quantized graph with calibrated ranges.

    Args:
        outputs: outputs of a graph that `quantize` made.
        table: (minimum, maximum) by the name of the float graph's output.
    """
    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None or node.op.name not in (*_ON_INPUT, *_ON_OUTPUT):
            return None
        source, i = node.inputs[0] if node.op.name in _ON_INPUT else (node, 0)
        name = source.output_names()[i].removeprefix("quantized_")
        if name not in table:
            return None
        low, high = (float(edge) for edge in table[name])
        twin = copied(node, inputs, min_calib_range=low, max_calib_range=high)
        return [(twin, k) for k in range(node.num_outputs)]
    return rewrite(outputs, rule)


def fold_batch_norm(outputs: Sequence[Entry], params: dict[str, Any],
                    excluded_names: Collection[str] = ()) -> tuple[list[Entry], dict[str, Any]]:
    """The graph without batch normalizations right behind a convolution or dense layer, for inference.

    They scale and shift what the layer computes, so its weight and bias can do that.

    Args:
        outputs: the graph's outputs.
        params: all parameters and auxiliary states, NDArrays by name.
        excluded_names: nodes that stay as they are.

    Returns:
        (outputs, parameters with the changed ones; those of the removed layers are left out).
    """
    readers = consumers(outputs)
    values = dict(params)

    def foldable(norm: Node) -> Node | None:
        if norm.op is None or norm.op.name != "BatchNorm" or norm.params["output_mean_var"]:
            return None
        layer, output = norm.inputs[0]
        if layer.op is None or layer.op.name not in ("Convolution", "FullyConnected") or output:
            return None
        own = [n for n, _ in [*layer.inputs[1:], *norm.inputs[1:]]]
        alone = len(readers[id(layer), 0]) == 1 and all(len(readers[id(n), 0]) == 1 for n in own)
        known = all(n.op is None and n.name in params for n in own)
        last = layer.params["layout"] in ("NWC", "NHWC", "NDHWC") if layer.op.name == "Convolution" else False
        flat = layer.op.name == "FullyConnected" and not layer.params["flatten"]
        free = not {layer.name, norm.name} & set(excluded_names)
        return layer if alone and known and free and not last and not flat and norm.params["axis"] == 1 else None

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        layer = foldable(node)
        if layer is None:
            return None
        gamma, beta, mean, var = (values.pop(n.name) for n, _ in node.inputs[1:])
        scale = 1 / (var + node.params["eps"]).sqrt() * (1 if node.params["fix_gamma"] else gamma)
        twin = inputs[0][0]  # the copy of the layer
        weight = twin.inputs[1][0].name
        values[weight] = values[weight] * scale.reshape((-1, *(1,) * (values[weight].ndim - 1)))
        bias = twin.inputs[2][0].name if len(twin.inputs) > 2 else f"{layer.name}_bias"
        shift = beta - mean * scale
        values[bias] = shift + values[bias] * scale if bias in values else shift
        if len(twin.inputs) == 2:
            twin = copied(twin, [*twin.inputs, (Node(None, bias, {}), 0)], no_bias=False)
        return [(twin, 0)] * node.num_outputs
    return rewrite(outputs, rule), values
