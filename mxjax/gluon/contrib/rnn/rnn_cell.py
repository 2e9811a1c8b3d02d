"""Cells with variational dropout and with projected states; unrolling as one loop."""

from ...rnn.variational import LSTMPCell, VariationalDropoutCell, dynamic_unroll

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]
