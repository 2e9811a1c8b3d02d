"""Export of the fused recurrent layers: one ONNX operator for each layer."""

from __future__ import annotations

import numpy as np

from ..ndarray import array
from ..ops.nn.recurrent import _unpacked, pieces
from ._export import Call, converter
from ._to_shape import cut

# MXNet's order of gates -> ONNX's
_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _reordered(matrix: np.ndarray, mode: str) -> np.ndarray:
    parts = np.split(np.asarray(matrix), len(_GATES[mode]))
    return np.concatenate([parts[i] for i in _GATES[mode]])


@converter("RNN")
def _rnn(c: Call) -> list[str]:
    p, mode = c.p, c.p["mode"]
    c.need(not p["projection_size"] and p["lstm_state_clip_min"] is None, "projection_size, or limits of the cell")
    c.need(not p["use_sequence_length"], "use_sequence_length=True")
    width = c.static(c.shape()[2:], "the width of the input")[0]
    directions = 1 + p["bidirectional"]
    layout = list(pieces(mode, width, p["state_size"], p["num_layers"], directions, None))
    weights = _unpacked(layout, array(c.value(1))._read())
    states = [None if c.source(i).op is not None and c.source(i).op.name == "_zeros" else c.inputs[i]
              for i in range(2, len(c.inputs))]  # zeros are what ONNX starts with
    data, last = c.inputs[0], []
    for layer in range(p["num_layers"]):
        def stacked(name: str, layer: int = layer) -> np.ndarray:
            return np.stack([_reordered(m, mode) for m in weights[layer, name][:directions]])
        bias = np.concatenate([stacked("i2h_bias"), stacked("h2h_bias")], 1)
        starts = [cut(c, s, {0: (layer * directions, (layer + 1) * directions, 1)}) if s else "" for s in states]
        attrs = {"hidden_size": p["state_size"], "direction": "bidirectional" if directions == 2 else "forward"}
        if mode == "gru":
            attrs["linear_before_reset"] = 1
        elif mode == "rnn_relu":
            attrs["activations"] = ["Relu"] * directions
        tensors = [c.const(m, c.dtype()) for m in (stacked("i2h_weight"), stacked("h2h_weight"), bias)]
        out, *end = c.op(_KINDS[mode], data, *tensors, "", *starts, outputs=3 if mode == "lstm" else 2, **attrs)
        data = c.op("Reshape", c.op("Transpose", out, perm=[0, 2, 1, 3]), c.const([0, 0, -1]))
        last.append(end)
    if not p["state_outputs"]:
        return [data]
    return [data, *(c.op("Concat", *ends, axis=0) if len(ends) > 1 else ends[0] for ends in zip(*last, strict=True))]
