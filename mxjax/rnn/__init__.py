"""Symbolic recurrent networks (`mx.rnn`)."""

from . import io, rnn, rnn_cell
from .io import *
from .rnn import *
from .rnn_cell import *
