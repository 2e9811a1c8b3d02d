"""The quantization pass: layers of 8-bit integers, and conversions between floats and integers.

Every integer array consists of three entries: the integers, and the minimum and maximum that they represent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..base import MXNetError
from ..ops.params import np_dtype
from ..ops.quantized.conversion import STEPS
from .inference import infer_types
from .node import Entry, Node, topological
from .rewriting import consumers, copied, made, rewrite

__all__ = ["by_channel", "calibrate", "exact", "quantize"]

Params = dict[str, Any]


class _Quantized(NamedTuple):
    """The quantized form of an operator.

    op: the operator on integers; must: quantized even if it is not between quantized layers (quantize_mode "smart");
    requantize: its results have 32 bits, and are converted to 8 bits where integers are needed; floats: whether an
    input remains a float; when: condition on the parameters; asym: the data become uint8 with scale and shift, and the
    results are floats.
    """

    op: str
    must: bool = False
    requantize: bool = False
    floats: Callable[[int], bool] = lambda position: False
    when: Callable[[Params], bool] = lambda params: True
    asym: bool = False


_QUANTIZED = {
    "Convolution": _Quantized("_contrib_quantized_conv", must=True, requantize=True),
    "FullyConnected": _Quantized("_contrib_quantized_fully_connected", must=True, requantize=True),
    "RNN": _Quantized("_contrib_quantized_rnn", must=True, floats=lambda i: i > 0, asym=True,
                 when=lambda p: p["mode"] == "lstm" and not p["use_sequence_length"]),
    "Pooling": _Quantized("_contrib_quantized_pooling", when=lambda p: p["pool_type"] in ("max", "avg")),
    "Activation": _Quantized("_contrib_quantized_act", when=lambda p: p["act_type"] == "relu"),
    "Flatten": _Quantized("_contrib_quantized_flatten"),
    "Concat": _Quantized("_contrib_quantized_concat", when=lambda p: p["dim"] > 0),
    "Embedding": _Quantized("_contrib_quantized_embedding", floats=lambda i: i == 0,
                       when=lambda p: np_dtype(p["dtype"]).name == "float32"),
    "BatchNorm": _Quantized("_contrib_quantized_batch_norm", floats=lambda i: i > 0,
                       when=lambda p: not p["output_mean_var"]),
    "elemwise_add": _Quantized("_contrib_quantized_elemwise_add", requantize=True),
    "elemwise_mul": _Quantized("_contrib_quantized_elemwise_mul", requantize=True),
}
_ON_INPUT = ("_contrib_quantize_v2", "_contrib_quantize_asym", "_contrib_requantize")  # calibrated by their inputs
_ON_OUTPUT = ("_contrib_quantized_batch_norm",)  # calibrated by their outputs
_LAYERS = ("Convolution", "FullyConnected")
# on floats these remain floats without loss: XLA fuses them with the conversions around them
_ELEMENTWISE = ("BatchNorm", "Activation", "LeakyReLU", "clip", "abs", "elemwise_add", "elemwise_mul")
_SAME_STEPS = ("_contrib_quantized_act", "_contrib_quantized_pooling", "_contrib_quantized_flatten")
_HALF_STEPS = ("_contrib_quantize_v2", "_contrib_quantized_concat", "_contrib_quantized_batch_norm")  # see `exact`
_STEP = 2.0**-31  # of the range of 32-bit integers
_BLOCK = 1 << 15  # elements of a weight whose error is computed at a time, so that they stay in the processor's cache
_MODES, _DTYPES = ("full", "smart"), ("int8", "uint8", "auto")


def quantize(outputs: Sequence[Entry], *, excluded_names: Collection[str] = (), excluded_ops: Collection[str] = (),
             offline: Collection[str] = (), dtype: str = "int8", mode: str = "smart") -> tuple[list[Entry], list[str]]:
    """Converts a float32 graph to 8-bit integers where operators support it.

    Args:
        outputs: the graph's outputs.
        excluded_names, excluded_ops: nodes and operators that are not quantized.
        offline: variables that are quantized in advance: `w` becomes `w_quantize`, `w_quantize_min`, `w_quantize_max`.
        dtype: of quantized data: "int8", "uint8" or "auto" (uint8 where calibration finds nothing negative).
        mode: "full": every supported operator; "smart": those between layers that benefit.

    Returns:
        (outputs, names of the float graph's outputs whose ranges need calibration).

    Raises:
        MXNetError: unknown mode or dtype.
    """
    for what, value, allowed in (("mode", mode, _MODES), ("dtype", dtype, _DTYPES)):
        if value not in allowed:
            raise MXNetError(f"quantize {what} must be one of {', '.join(allowed)}, got {value!r}")
    chosen = _chosen(outputs, set(excluded_names), set(excluded_ops), mode)
    quantization = _Quantization(chosen, offline, dtype)
    result = rewrite(outputs, quantization.rule)
    return result, list(dict.fromkeys(quantization.names))


class _Quantization:
    """The quantization of one graph: see `quantize`.

    Attributes:
        names: outputs of the float graph whose ranges need calibration.
    """

    def __init__(self, chosen: dict[int, _Quantized], offline: Collection[str], dtype: str) -> None:
        self._chosen, self._offline, self._dtype = chosen, offline, dtype
        self._integers: dict[tuple[int, int, str], tuple[Entry, ...]] = {}  # for float entries of the new graph
        self._wide: dict[tuple[int, int, str], tuple[Entry, ...]] = {}  # with 32 bits, which are converted to floats
        self.names: list[str] = []

    def rule(self, node: Node, inputs: list[Entry]) -> list[Entry] | None:
        """Returns the new entries for the outputs of a node with these inputs; None: the node is unchanged."""
        form = self._chosen.get(id(node))
        if form is None or node.op.name in _ELEMENTWISE and not all(
                form.floats(i) or (id(entry[0]), entry[1], "symmetric") in self._integers
                for i, entry in enumerate(inputs)):
            return None
        data, ranges = [], []
        for position, (entry, old) in enumerate(zip(inputs, node.inputs, strict=True)):
            if form.floats(position):
                data.append(entry)
            else:
                first, *rest = self._as_integers(entry, old, "asymmetric" if form.asym else "symmetric")
                data.append(first)
                ranges += rest
        own = {k: v for k, v in node.attrs.items() if k in node.op.params or k == node.op.variadic}
        layer = made(form.op, f"quantized_{node.name}", [*data, *ranges], **own)
        if form.asym:
            return [(layer, i) for i in range(node.num_outputs)]
        if form.op in _ON_OUTPUT:
            self.names.append(node.output_names()[0])
        parts = tuple((layer, i) for i in range(3))
        if form.requantize:
            back = _from_wide(f"{node.name}_dequantize", *parts)
            self._wide[id(back), 0, "symmetric"] = parts
        else:
            back = made("_contrib_dequantize", f"{node.name}_dequantize", parts)
            self._integers[id(back), 0, "symmetric"] = parts
        return [(back, 0)] * node.num_outputs

    def _as_integers(self, entry: Entry, old: Entry, kind: str) -> tuple[Entry, ...]:
        """Returns (integers, minimum, maximum) of a float entry that replaces `old`."""
        node, key = entry[0], (id(entry[0]), entry[1], kind)
        if key in self._integers:
            return self._integers[key]
        if node.op is None and node.name in self._offline and kind == "symmetric" and key not in self._wide:
            parts = [Node(None, f"{node.name}_quantize{end}", {}) for end in ("", "_min", "_max")]
            self._integers[key] = tuple((part, 0) for part in parts)
            return self._integers[key]
        full_name = old[0].output_names()[old[1]]
        if key in self._wide:
            maker = made("_contrib_requantize", f"requantize_{old[0].name}", self._wide[key], out_type=self._dtype)
        elif kind == "symmetric":
            maker = made("_contrib_quantize_v2", f"{full_name}_quantize", [entry], out_type=self._dtype)
        else:
            maker = made("_contrib_quantize_asym", f"{full_name}_quantize", [entry])
        self.names.append(full_name)
        self._integers[key] = tuple((maker, i) for i in range(3))
        return self._integers[key]


def _from_wide(name: str, data: Entry, low: Entry, high: Entry) -> Node:
    """Returns the floats that 32-bit integers represent; MXNet's operator for this accepts only 8 bits."""
    floats = made("Cast", f"{name}_cast", [data], dtype="float32")
    ranged = made("broadcast_mul", f"{name}_range", [(floats, 0), high])
    alike = made("_identity_with_attr_like_rhs", f"{name}_alike", [(ranged, 0), (floats, 0)])  # passes shapes back
    return made("_mul_scalar", name, [(alike, 0)], scalar=_STEP)


def _chosen(outputs: Sequence[Entry], excluded_names: set[str], excluded_ops: set[str],
            mode: str) -> dict[int, _Quantized]:
    """Returns the form of each node to quantize."""
    able = {id(n): n for n in topological(outputs) if n.op is not None and n.op.name in _QUANTIZED
            and _QUANTIZED[n.op.name].when(n.params) and n.name not in excluded_names and n.op.name not in excluded_ops}
    forms = {key: _QUANTIZED[node.op.name] for key, node in able.items()}
    if mode == "full":
        return forms
    must = [node for key, node in able.items() if forms[key].must]
    readers = consumers(outputs)
    before = _reached(must, able, lambda node: [source for source, _ in node.inputs])
    after = _reached(must, able, lambda node: [reader for i in range(node.num_outputs)
                                               for reader in readers.get((id(node), i), ()) if reader is not None])
    return {key: form for key, form in forms.items() if form.must or key in before and key in after}


def _reached(start: list[Node], able: Mapping[int, Node], step: Callable[[Node], list[Node]]) -> set[int]:
    """Returns the nodes in `able` that are reachable from `start` without leaving `able`."""
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        for node in step(waiting.pop()):
            if id(node) in able and id(node) not in reached:
                reached.add(id(node))
                waiting.append(node)
    return reached


def calibrate(outputs: Sequence[Entry], table: Mapping[str, tuple[float, float]]) -> list[Entry]:
    """Returns the quantized graph with calibrated ranges.

    Args:
        outputs: outputs of a graph from `quantize`.
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


def exact(outputs: Sequence[Entry]) -> list[Entry]:
    """Returns the quantized graph with the layers' float results at the scale of their inputs.

    The range that MXNet's integer layers report assumes steps of 1/127 (1/255) of the range of 8-bit data, but
    `quantize_v2` divides it into 127.5 (255.5) steps. The factor in the conversion to floats compensates for this.
    """
    types = infer_types(outputs, {})

    def stretched(entry: Entry) -> float:
        """Returns the ratio of the step that the layer assumes to the actual step."""
        node, dtype = entry[0], types[id(entry[0]), entry[1]]
        while node.op is not None and node.op.name in _SAME_STEPS:
            node = node.inputs[0][0]
        if node.op is None or node.op.name not in _HALF_STEPS:
            return 1.0
        steps = STEPS[cast(str, dtype)]  # the ratio of a quantized layer is known
        return int(steps) / steps

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None or node.op.name != "_mul_scalar" or node.inputs[0][0].name != f"{node.name}_alike":
            return None
        alike = node.inputs[0][0]
        layer = alike.inputs[0][0].inputs[1][0]  # the source of the range
        if layer.op.name not in [_QUANTIZED[name].op for name in _LAYERS]:
            return None
        factor = stretched(layer.inputs[0]) * stretched(layer.inputs[1])
        return [(copied(node, inputs, scalar=_STEP * factor), 0)]
    return rewrite(outputs, rule)


def by_channel(outputs: Sequence[Entry], params: dict[str, np.ndarray], excluded_names: Collection[str] = (),
               excluded_ops: Collection[str] = ()) -> tuple[list[Entry], dict[str, np.ndarray], list[str]]:
    """Returns the float graph for inference in a form that loses less precision in quantization.

    Each channel of a convolution or dense layer is scaled to the same range: its weight is divided by the end of its
    range, and the results are multiplied by it. Bias and batch normalization are folded into this multiplication and an
    addition, which remain in floats.

    Args:
        outputs: the graph's outputs.
        params: all parameters and auxiliary states, NumPy arrays by name.
        excluded_names, excluded_ops: nodes and operators that will not be quantized. A layer is excluded together with
            any of its parts.

    Returns:
        (outputs, the parameters of this graph, names of nodes that will not be quantized).
    """
    readers = consumers(outputs)
    nodes = topological(outputs)
    floats = set(excluded_names)
    groups: dict[int, list[Node]] = {}
    for node in nodes:
        if node.op is not None and node.op.name in _LAYERS:
            group = _behind(node, readers)
            if node.op.name in excluded_ops or not floats.isdisjoint(n.name for n in group):
                floats.add(node.name)
            elif _known(node.inputs[1:], params):
                groups[id(node)] = group
    chosen = {key: group for key, group in groups.items()
              if all(id(reader) in groups for reader in readers[id(group[0].inputs[1][0]), 0])}
    norms = {key: group[1] for key, group in chosen.items() if len(group) > 1 and _foldable(group[0], group[1], params)}
    gone = {id(norm) for norm in norms.values()}
    values, ends = dict(params), {}

    def variable(name: str, value: np.ndarray, layer: Node) -> Entry:
        last = layer.op.name == "FullyConnected" or layer.params["layout"] in ("NWC", "NHWC", "NDHWC")
        while name in values:
            name += "_"
        values[name] = value.reshape((-1, *(() if last else (1,) * len(layer.params["kernel"]))))
        return Node(None, name, {"__shape__": str(values[name].shape)}), 0

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if id(node) in gone:
            return inputs[:1] * node.num_outputs
        if id(node) not in chosen:
            return None
        weight, *bias = (n.name for n, _ in node.inputs[1:])
        if weight not in ends:
            ends[weight] = _ends(values[weight].reshape((len(values[weight]), -1)))
            values[weight] = values[weight] / ends[weight].reshape((-1, *(1,) * (values[weight].ndim - 1)))
        scale, shift = ends[weight], values[bias[0]] if bias else None
        if id(node) in norms:
            norm = norms[id(node)]
            gamma, beta, mean, var = (values[n.name] for n, _ in norm.inputs[1:])
            factor = 1 / np.sqrt(var + norm.params["eps"]) * (1 if norm.params["fix_gamma"] else gamma)
            scale, shift = scale * factor, beta + factor * ((shift if bias else 0) - mean)
        result = copied(node, inputs[:2], no_bias=True)
        result = made("broadcast_mul", f"{node.name}_scaled",
                      [(result, 0), variable(f"{node.name}_scale", scale, node)])
        if shift is not None:
            result = made("broadcast_add", f"{node.name}_shifted",
                          [(result, 0), variable(f"{node.name}_shift", shift, node)])
        return [(result, 0)]
    result = rewrite(outputs, rule)
    used = {node.name for node in topological(result) if node.op is None}
    return result, {name: value for name, value in values.items() if name in used}, sorted(floats)


def _ends(weight: np.ndarray) -> np.ndarray:
    """Returns the end of each row's range, (rows,): that of its values, or up to 1.5 times as much if it rounds better.

    One row keeps its range, so that all divided rows have the same range. The criterion is the error of products with
    data that may have a mean: squares of errors, and the square of their sum.
    """
    own = np.abs(weight).max(axis=1)
    own[own == 0] = 1
    ends, gain = np.empty_like(own), np.empty_like(own)
    rows = max(_BLOCK // weight.shape[1], 1)
    for at in range(0, len(weight), rows):
        block = slice(at, at + rows)
        ends[block], gain[block] = _least_error(weight[block], own[block])
    return np.where(gain == gain.min(), own, ends)


def _least_error(weight: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the best end of each row's range, at least the largest value, and the reduction of the error."""
    whole, rest = np.empty_like(weight), np.empty_like(weight)

    def lost(ends: np.ndarray) -> np.ndarray:
        step = ends[:, None] / 127
        np.divide(weight, step, out=rest)
        np.trunc(rest, out=whole)
        np.subtract(rest, whole, out=rest)
        np.trunc(np.add(rest, rest, out=rest), out=rest)  # 1 from a half on
        error = np.add(whole, rest, out=whole)
        error *= step
        error -= weight
        return np.multiply(error, error, out=rest).sum(axis=1) + error.sum(axis=1) ** 2
    first = least = lost(own)
    ends = own
    for k in range(1, 24):
        wider = own * (1 + k / 48)
        loss = lost(wider)
        ends, least = np.where(loss < least, wider, ends), np.minimum(loss, least)
    return ends, first - least


def _behind(layer: Node, readers: Mapping[tuple[int, int], list[Node | None]]) -> list[Node]:
    """Returns the layer, and the element-wise operators after it that are the only readers of its results."""
    group = [layer]
    while True:
        reading = readers.get((id(group[-1]), 0), ())
        if len(reading) != 1 or reading[0] is None or reading[0].op.name not in _ELEMENTWISE:
            return group
        group.append(reading[0])


def _known(entries: Sequence[Entry], params: dict[str, Any]) -> bool:
    return all(node.op is None and node.name in params for node, _ in entries)


def _foldable(layer: Node, norm: Node, params: dict[str, Any]) -> bool:
    """Returns whether a node after a layer is a batch normalization of its channels."""
    if norm.op.name != "BatchNorm" or norm.params["output_mean_var"] or not _known(norm.inputs[1:], params):
        return False
    axis = norm.params["axis"]
    if layer.op.name == "FullyConnected":
        return axis == -1 or axis == 1 and layer.params["flatten"]
    dims = len(layer.params["kernel"]) + 2
    return axis % dims == (dims - 1 if layer.params["layout"] in ("NWC", "NHWC", "NDHWC") else 1)
