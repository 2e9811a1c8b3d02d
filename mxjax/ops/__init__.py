"""The operator registry and, a file per family, the operators themselves. See README.md."""

from . import (
    broadcast,
    conv,
    dot,
    elemwise,
    elemwise_binary,
    elemwise_scalar,
    indexing,
    init_op,
    matrix,
    nn,
    optimizer_op,
    ordering,
    reduce,
    sequence,
    slicing,
)
from .registry import Op, find, get, names, register
