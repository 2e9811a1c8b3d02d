"""`mx.nd`: imperative arrays and operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import engine as _engine
from .. import ops as _ops
from .._namespace import attach as _attach
from .._namespace import lend as _lend
from . import (
    _binary,
    _front,
    _invoke,
    _segment,
    _sparse_forms,
    contrib,
    image,
    linalg,
    ndarray,
    op,
    random,
    sparse,
    utils,
)
from . import _internal as _internal
from ._binary import (
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
from ._cached_op import CachedOp
from .ndarray import _DTYPE_MX_TO_NP as _DTYPE_MX_TO_NP
from .ndarray import _DTYPE_NP_TO_MX as _DTYPE_NP_TO_MX
from .ndarray import _GRAD_REQ_MAP as _GRAD_REQ_MAP
from .ndarray import NDArray
from .sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray
from .utils import (
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

_engine.on_bulk_exit(_segment._bulk_changed)
_lend(ndarray, utils, _binary)
if _TYPE_CHECKING:
    from ._stubs.op import *
_attach(globals(), _front.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                       "numpy_extension": "numpy_extension"})

from .. import operator as _operator  # noqa: E402  last, because it needs all of the above: registers Custom
