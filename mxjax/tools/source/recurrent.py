"""The parameters of the fused recurrent operator, layer by layer."""

from __future__ import annotations

import numpy as np

from ...ops.nn.recurrent import pieces
from .steps import EmittedNode

__all__ = ["recurrent"]


def recurrent(c: EmittedNode) -> tuple[dict[tuple[int, int, str], np.ndarray], bool]:
    """(parameters by layer, direction and name, whether the states are zeros at the start)."""
    p = c.p
    c.need(not p["projection_size"] and p["lstm_state_clip_min"] is None, "projection_size, or limits of the cell")
    c.need(not p["use_sequence_length"], "use_sequence_length=True")
    packed, result, place = c.value(1), {}, 0
    for piece in pieces(p["mode"], c.shape()[2], p["state_size"], p["num_layers"], 1 + p["bidirectional"], None):
        count = int(np.prod(piece.shape))
        result[piece.layer, piece.direction, piece.name] = packed[place:place + count].reshape(piece.shape)
        place += count
    states = range(2, 4 if p["mode"] == "lstm" else 3)
    return result, all(c.is_constant(i) and not c.value(i).any() for i in states)
