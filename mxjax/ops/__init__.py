"""The operator registry and, a file per family, the operators themselves. See README.md."""

from . import (
    broadcast,
    dot,
    conv,
    elemwise,
    elemwise_binary,
    elemwise_scalar,
    init_op,
    matrix,
    nn,
    optimizer_op,
    reduce,
    slicing,
)
from .registry import Op, find, get, names, register
