"""Recurrent cells, which run step by step or unrolled, and layers on the fused RNN operator."""

from ..._namespace import lend as _lend
from . import rnn_cell as _rnn_cell
from . import variational as _variational
from .conv_rnn_cell import (
    Conv1DGRUCell,
    Conv1DLSTMCell,
    Conv1DRNNCell,
    Conv2DGRUCell,
    Conv2DLSTMCell,
    Conv2DRNNCell,
    Conv3DGRUCell,
    Conv3DLSTMCell,
    Conv3DRNNCell,
)
from .rnn_cell import (
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    HybridRecurrentCell,
    HybridSequentialRNNCell,
    LSTMCell,
    ModifierCell,
    RecurrentCell,
    ResidualCell,
    RNNCell,
    SequentialRNNCell,
    ZoneoutCell,
)
from .rnn_layer import GRU, LSTM, RNN
from .variational import LSTMPCell, VariationalDropoutCell, dynamic_unroll

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
           "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell", "GRU", "LSTM", "LSTMPCell", "RNN",
           "BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
           "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell", "VariationalDropoutCell",
           "ZoneoutCell", "dynamic_unroll"]
_lend(_rnn_cell, _variational)
