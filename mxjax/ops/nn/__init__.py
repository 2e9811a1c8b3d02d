"""Layers of networks, and losses."""

from . import activation, attention, convolution, ctc, hawkes, layers, loss_outputs, normalization, recurrent, softmax
