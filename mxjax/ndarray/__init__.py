"""`mx.nd`: imperative arrays and operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import engine as _engine
from .. import host_operators as _host_operators
from .. import operator as _operator
from .. import ops as _ops
from .._namespace import attach as _attach
from ..array import functions as _functions
from ..array import segment as _segment
from ..array import sparse_operators as _sparse_operators
from ..array.binary_functions import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from ..array.creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_dlpack,
    from_jax,
    from_numpy,
    full,
    histogram,
    imdecode,
    linspace,
    load,
    load_frombuffer,
    moveaxis,
    onehot_encode,
    ones,
    save,
    split_v2,
    to_dlpack_for_read,
    to_dlpack_for_write,
    waitall,
    zeros,
)
from ..array.dense import _DTYPE_MX_TO_NP as _DTYPE_MX_TO_NP
from ..array.dense import _DTYPE_NP_TO_MX as _DTYPE_NP_TO_MX
from ..array.dense import _GRAD_REQ_MAP as _GRAD_REQ_MAP
from ..array.dense import NDArray
from ..array.sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray
from ..executor import CachedOp
from . import _internal as _internal
from . import contrib, image, linalg, ndarray, op, random, sparse, utils

_engine.on_bulk_exit(_segment.bulk_changed)
if _TYPE_CHECKING:
    from ._stubs.op import *
_attach(globals(), _functions.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                           "numpy_extension": "numpy_extension"})
