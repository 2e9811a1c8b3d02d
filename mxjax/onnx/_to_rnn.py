"""Export of the fused recurrent layers: one ONNX operator for each layer."""

from __future__ import annotations

import math

import numpy as np

from ..ops.nn.recurrent import Piece, pieces
from ._export import ExportedNode, converter
from ._to_shape import cut

# MXNet's order of gates -> ONNX's
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _weights(c: ExportedNode, layout: list[Piece]) -> dict[tuple[int, str], str]:
    """Tensors by layer and name: (directions, gates · state, ...) in ONNX's order of gates."""
    order, gates = GATES[c.p["mode"]], len(GATES[c.p["mode"]])
    parts: dict[tuple[int, str], list[np.ndarray]] = {}
    begin = 0
    for piece in layout:
        end = begin + math.prod(piece.shape)
        places = np.arange(begin, end).reshape(gates, -1, *piece.shape[1:])[list(order)].reshape(piece.shape)
        parts.setdefault((piece.layer, piece.name), []).append(places)
        begin = end
    known = {key: np.stack(places) for key, places in parts.items()}
    known = {(layer, name): places if name != "i2h_bias" else np.concatenate([places, known[layer, "h2h_bias"]], 1)
             for (layer, name), places in known.items() if name != "h2h_bias"}
    if c.depends_on_inputs(1):
        return {key: c.op("Gather", c.inputs[1], c.const(places)) for key, places in known.items()}
    values = c.value(1)
    return {key: c.const(values[places], c.dtype()) for key, places in known.items()}


@converter("RNN")
def _rnn(c: ExportedNode) -> list[str]:
    p, mode = c.p, c.p["mode"]
    c.need(not p["projection_size"] and p["lstm_state_clip_min"] is None, "projection_size, or limits of the cell")
    c.need(not p["use_sequence_length"], "use_sequence_length=True")
    width = c.static(c.shape()[2:], "the width of the input")[0]
    directions = 1 + p["bidirectional"]
    weights = _weights(c, list(pieces(mode, width, p["state_size"], p["num_layers"], directions, None)))
    states = [None if c.source(i).op is not None and c.source(i).op.name == "_zeros" else c.inputs[i]
              for i in range(2, len(c.inputs))]  # ONNX starts with zeros
    data, last = c.inputs[0], []
    for layer in range(p["num_layers"]):
        starts = [cut(c, s, {0: (layer * directions, (layer + 1) * directions, 1)}) if s else "" for s in states]
        attrs = {"hidden_size": p["state_size"], "direction": "bidirectional" if directions == 2 else "forward"}
        if mode == "gru":
            attrs["linear_before_reset"] = 1
        elif mode == "rnn_relu":
            attrs["activations"] = ["Relu"] * directions
        tensors = [weights[layer, name] for name in ("i2h_weight", "h2h_weight", "i2h_bias")]
        out, *end = c.op(_KINDS[mode], data, *tensors, "", *starts, outputs=3 if mode == "lstm" else 2, **attrs)
        data = c.op("Reshape", c.op("Transpose", out, perm=[0, 2, 1, 3]), c.const([0, 0, -1]))
        last.append(end)
    if not p["state_outputs"]:
        return [data]
    return [data, *(c.op("Concat", *ends, axis=0) if len(last) > 1 else ends[0] for ends in zip(*last, strict=True))]
