"""Importers of ONNX operators: recurrent layers."""

from __future__ import annotations

import numpy as np

from ..ops.nn.recurrent import pieces
from ..symbol import Symbol, zeros
from ._import import ImportedNode, importer
from ._to_rnn import GATES

_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}


def _whole(c: ImportedNode) -> bool:
    """Returns whether all sequences of a recurrent layer are as long as the data."""
    sizes = c.sized(0)
    if not c.has(4):
        return True
    if sizes is None or not c.derives(4) and c.known(4) is None:
        return False
    lengths = c.for_each_size(lambda: c.known(4))
    return all((n == shape[0]).all() for n, shape in zip(lengths, sizes, strict=True))


@importer("LSTM", "GRU", "RNN")
def _recurrent(c: ImportedNode) -> list[Symbol]:
    mode, size = _MODES[c.op_type], c.attr("hidden_size")
    activations = {a.decode() if isinstance(a, bytes) else a for a in c.attr("activations", ())}
    if c.op_type == "RNN" and activations:
        c.need(len(activations) == 1, "different activations")
        mode = f"rnn_{activations.pop().lower()}"
    c.need(c.op_type != "GRU" or c.attr("linear_before_reset", 0) == 1, "linear_before_reset=0")
    c.need(c.attr("direction", "forward") != "reverse" and _whole(c) and not c.attr("layout", 0),
           "direction reverse, lengths of sequences, or layout 1")
    inputs, hidden = c.value(1), c.value(2)
    directions, gates, width = inputs.shape
    bias = c.value(3) if c.has(3) else np.zeros((directions, 2 * gates), inputs.dtype)
    back = np.argsort(GATES[mode])

    def ordered(matrix: np.ndarray) -> np.ndarray:
        parts = np.split(np.asarray(matrix), len(back))
        return np.concatenate([parts[i] for i in back])
    tables = {"i2h_weight": inputs, "h2h_weight": hidden, "i2h_bias": bias[:, :gates], "h2h_bias": bias[:, gates:]}
    flat = [ordered(tables[piece.name][piece.direction]).reshape(-1)
            for piece in pieces(mode, width, size, 1, directions, None)]
    starts = [c.sym(i) if c.has(i) else zeros((directions, 0, size)) for i in ((5, 6) if mode == "lstm" else (5,))]
    out = c.op("RNN", c.sym(0), c.param(np.concatenate(flat), "parameters"), *starts, state_size=size, num_layers=1,
               bidirectional=directions == 2, mode=mode, state_outputs=True)
    sequence = c.op("Reshape", out[0], shape=(0, 0, directions, size))
    return [c.op("transpose", sequence, axes=(0, 2, 1, 3)), *list(out)[1:]]
