"""Nodes that MXNet's oneDNN backend fuses: convolutions, fully connected layers and attention (`_sg_mkldnn_*`).

mxjax does not create such nodes, because XLA fuses operators itself. Files of MXNet contain them, especially those of
models that were quantized for CPUs. A float node runs its graph. A quantized node receives some inputs as integers, and
their ranges after all inputs. It runs the same graph on the floats that the integers represent, with weight and bias
rounded as by oneDNN, and rounds the result according to its calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from ..ops.common import Array
from ..ops.quantized.conversion import larger, quantized, steps
from .control_flow import Graph, GraphCall, declare
from .lowering import Lowered
from .node import Entry, Node
from .rewriting import copied, rewrite

_MOST = 2**31 - 1  # largest bias in steps; oneDNN accepts half of it
_UNIT = {"int8": 127, "uint8": 255}  # the steps of the range that MXNet reports for an int32 result


def _divided(number: float, by: Array, otherwise: float) -> Array:
    """Returns a quotient where the divisor is not zero."""
    return jnp.where(by > 0, number / jnp.where(by > 0, by, 1), np.float32(otherwise))


def _scales(dtype: object, edge: Array) -> Array:
    """Returns the steps per unit up to the end of a range; very many for an empty range, as in MXNet."""
    return _divided(steps(dtype), edge, _MOST)


class _Params:
    quantized: bool = False
    enable_float_output: bool = False
    min_calib_range: float | None = None
    max_calib_range: float | None = None
    channel_wise_quantize: bool | None = None


class _Fused(GraphCall):
    """The common part of fused nodes, and of attention, which has no weights.

    positive: (operators, their act_type or act_types) after which results are uint8.
    """

    outputs = ["output", "min_output", "max_output"]
    positive: dict[str, tuple[str, ...] | None] = {}

    def __init__(self, op: Any, graphs: Sequence[Lowered]) -> None:
        super().__init__(op, graphs)
        if self.eager:
            raise ValueError("its subgraph has an operator that runs on the host")
        self.graph = self.graphs[0]
        self.base = len(self.graph.names)
        self.set_attr("FNumOutputs", lambda p: 3 if p["quantized"] and not p["enable_float_output"] else 1)
        self.set_attr("FListOutputNames", lambda p: self.outputs[:self.num_outputs(p)])
        self.set_attr("FListInputNames", lambda p: [f"data{i}" for i in range(self.base)] + self._ranges(p))

    # ------------------------------------------------------------ parts that depend on weights
    def integers(self, p: dict[str, Any]) -> list[int]:
        """Returns the inputs that are integers, in the order of their ranges."""
        return [*range(self.base)]

    def evaluated(self, p: dict[str, Any], values: list[Array], scales: list[Array],
                  units: list[Array], key: object) -> tuple[Array, Array, Array]:
        """Returns (the graph's result; as int32, its steps per unit, and the end of the range that MXNet reports).

        values: the inputs as floats; scales, units: for integer inputs, the steps per unit, and the step that MXNet
        assumes in the range of an int32 result; key: random key of the graph.
        """
        return self.graph(values, key, False)[0][0], scales[0] * scales[-1], units[0] * units[-1] * 2.0**31

    # ------------------------------------------------------------ shared parts
    def _only(self, operator: str, least: int = 1) -> Node | None:
        """Returns the graph's only node of an operator; with `least` 0 there may be none.

        Raises:
            ValueError: the graph has another number of such nodes.
        """
        results = [n for n in self.graph.lowered.steps if n.op.name == operator]
        if not least <= len(results) <= 1:
            raise ValueError(f"its subgraph has {len(results)} nodes of {operator}, expected "
                             f"{'1' if least else '0 or 1'}")
        return results[0] if results else None

    def _ranges(self, p: dict[str, Any]) -> list[str]:
        if not p["quantized"]:
            return []
        return [f"{edge}_data{i}" for i in self.integers(p) for edge in ("min", "max")]

    def feeds(self, p: dict[str, Any]) -> list[Sequence[int]]:
        return [range(self.base)]

    def given(self, p: dict[str, Any]) -> int:
        return 1

    def run(self, p: dict[str, Any], arrays: tuple[Array, ...], key: object, train: bool) -> tuple[list, dict]:
        changed = {i: arrays[i] for i in self.changed(p)}  # averages do not change: the backend is for prediction
        if not p["quantized"]:
            return self.graph(arrays, key, False)[0], changed
        values, scales, units = list(arrays[:self.base]), [], []
        for i, low, high in zip(self.integers(p), arrays[self.base::2], arrays[self.base + 1::2], strict=True):
            dtype = np.dtype(values[i].dtype).name
            scales.append(_scales(dtype, larger(low, high)))
            units.append(larger(low, high) / _UNIT[dtype])
            values[i] = values[i].astype(jnp.float32) / scales[-1]
        result, scale, edge = self.evaluated(p, values, scales, units, key)
        if p["enable_float_output"]:
            return [result], changed
        low, high, dtype = p["min_calib_range"], p["max_calib_range"], self._dtype(p)
        if dtype == "int32":
            return [quantized(result * scale, dtype), -edge, edge], changed
        ends = [jnp.full(1, value, jnp.float32) for value in (low, high)]
        return [quantized(result * _scales(dtype, larger(low, high)), dtype), *ends], changed

    def _dtype(self, p: dict[str, Any]) -> str:
        if p["enable_float_output"]:
            return "float32"
        if p["min_calib_range"] is None or p["max_calib_range"] is None:
            return "int32"
        last = self.graph.lowered.outputs[0][0]
        act_types = self.positive.get(last.op.name, ()) if last.op else ()
        return "uint8" if act_types is None or last.op and last.params.get("act_type") in act_types else "int8"

    def _infer_shape(self, p: dict[str, Any], ins: list, outs: list) -> None:
        inner, results = ins[:self.base], outs[:1]
        super()._infer_shape(p, inner, results)
        ins[:], outs[:] = [*inner, *[(1,)] * (len(ins) - self.base)], [*results, *[(1,)] * (len(outs) - 1)]

    def _infer_type(self, p: dict[str, Any], ins: list, outs: list) -> None:
        if not p["quantized"]:
            return super()._infer_type(p, ins, outs)
        integers = self.integers(p)
        ins[:] = [t or (("int8" if i else None) if i in integers else "float32") for i, t in enumerate(ins)]
        outs[:] = [t or (self._dtype(p) if i == 0 else "float32") for i, t in enumerate(outs)]


def _rounded(weight: Array, bias: Array | None, data_scale: Array,
             by_channel: bool) -> tuple[Array, Array | None, Array]:
    """Returns (weight and bias rounded to steps, the end of the weight's range).

    by_channel: each output channel has its own steps, which are coarse enough to represent its bias.
    """
    ends = jnp.abs(weight.reshape(len(weight), -1)).max(1)
    edge = ends.max().reshape(1)
    scale = _scales("int8", ends if by_channel else jnp.broadcast_to(edge, ends.shape))
    if by_channel and bias is not None:
        scale = jnp.minimum(scale, _divided(_MOST / 2, jnp.abs(bias) * data_scale, jnp.inf))
    wide = scale.reshape(-1, *[1] * (weight.ndim - 1))
    weight = quantized(weight * wide, "int8").astype(jnp.float32) / wide
    return weight, None if bias is None else jnp.round(bias * (scale * data_scale)) / (scale * data_scale), edge


class _Convolution(_Fused):
    """Convolution, then optionally batch normalization, activation, sum and activation.

    The normalization is folded into weight and bias before these are rounded.
    """

    outputs = ["output", "output_min", "output_max"]
    positive = {"Activation": ("relu", "sigmoid", "softrelu"), "clip": None}

    def __init__(self, op: object, graphs: Sequence[Lowered]) -> None:
        super().__init__(op, graphs)
        self.layer, self.norm = cast(Node, self._only("Convolution")), self._only("BatchNorm", 0)
        self.summed = [self.base - 1] if self._only("elemwise_add", 0) else []  # oneDNN's backend stores it last
        outputs = rewrite(self.graph.lowered.outputs, self._without_norm)
        self.plain = Graph(Lowered(outputs))

    def _without_norm(self, node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node is self.norm:
            return inputs[:1] * node.num_outputs
        if node is self.layer and self.norm is not None:
            bias = inputs[2] if len(inputs) > 2 else (Node(None, "bias", {}), 0)
            return [(copied(node, [*inputs[:2], bias], no_bias=False), 0)]
        return None

    def integers(self, p: dict[str, Any]) -> list[int]:
        return [0, *self.summed]

    def evaluated(self, p: dict[str, Any], values: list[Array], scales: list[Array],
                  units: list[Array], key: object) -> tuple[Array, Array, Array]:
        named = dict(zip(self.graph.names, values, strict=True))
        places = [n.name for n, _ in self.layer.inputs]
        weight, bias = named[places[1]], named[places[2]] if len(places) > 2 else None
        if self.norm is not None:
            gamma, beta, mean, variance = (named[n.name] for n, _ in self.norm.inputs[1:])
            factor = (1 if self.norm.params["fix_gamma"] else gamma) / jnp.sqrt(variance + self.norm.params["eps"])
            weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
            bias = beta + factor * ((0 if bias is None else bias) - mean)
        weight, bias, edge = _rounded(weight, bias, scales[0], self._dtype(p) != "int32")
        named[places[1]] = weight
        if bias is not None:
            named[places[2] if len(places) > 2 else "bias"] = bias
        result = self.plain([named[n] for n in self.plain.names], key, False)[0][0]
        return result, scales[0] * _scales("int8", edge), units[0] * (edge / _UNIT["int8"]) * 2.0**31


class _FullyConnected(_Fused):
    """FullyConnected, followed by a function of one array."""

    positive = {"Activation": ("relu", "sigmoid", "softrelu"), "LeakyReLU": ("leaky",),
                **dict.fromkeys(("clip", "square", "sqrt", "exp", "abs"))}

    def integers(self, p: dict[str, Any]) -> list[int]:
        return [0] if p["channel_wise_quantize"] else super().integers(p)

    def evaluated(self, p: dict[str, Any], values: list[Array], scales: list[Array],
                  units: list[Array], key: object) -> tuple[Array, Array, Array]:
        data, weight, bias = [*values, None][:3]
        if p["channel_wise_quantize"]:
            weight, bias, edge = _rounded(weight, bias, scales[0], self._dtype(p) != "int32")
            scale, unit = scales[0] * _scales("int8", edge), edge / _UNIT["int8"]
        else:
            scale, unit, factor = scales[0] * scales[1], units[1], 1
            if bias is not None:  # in steps of the product; these, and the weight's, are wider if it would not fit
                factor = jnp.minimum(1, _MOST / 2 / (units[2] * _UNIT["int8"] * scale))
                weight = jnp.round(weight * scales[1] * factor) / (scales[1] * factor)
                bias = jnp.round(bias * scale * factor) / (scale * factor)
            scale = scale * factor
        result = self.graph([data, weight, *([] if bias is None else [bias])], key, False)[0][0]
        return result, scale, units[0] * unit * 2.0**31


for _name, _kind in {"conv": _Convolution, "fully_connected": _FullyConnected, "selfatt_qk": _Fused,
                     "selfatt_valatt": _Fused}.items():
    declare(f"_sg_mkldnn_{_name}", _kind, _Params, 1, "A graph that MXNet's oneDNN backend made one node.")
