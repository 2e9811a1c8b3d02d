"""The operator registry and, a file per family, the operators themselves. See README.md."""

from . import (
    activation,
    broadcast,
    conv,
    ctc,
    dot,
    elemwise,
    elemwise_binary,
    elemwise_scalar,
    indexing,
    init_op,
    linalg,
    matrix,
    nn,
    norm,
    optimizer_op,
    ordering,
    output,
    random_op,
    reduce,
    sample_op,
    sequence,
    slicing,
    softmax,
)
from .registry import Op, find, get, names, register
