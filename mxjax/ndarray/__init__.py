"""`mx.nd`: imperative arrays and operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import engine as _engine
from .. import host_operators as _host_operators
from .. import operator as _operator
from .. import ops as _ops
from .._namespace import attach as _attach
from ..array import functions as _functions
from ..array import sparse_operators as _sparse_operators
from ..array.sparse import BaseSparseNDArray as BaseSparseNDArray
from ..array.sparse import CSRNDArray as CSRNDArray
from ..array.sparse import RowSparseNDArray as RowSparseNDArray
from ..eager import trace as _segment
from ..executor import CachedOp as CachedOp
from . import _internal as _internal
from . import contrib, image, linalg, ndarray, op, random, sparse, utils
from .ndarray import *
from .ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX, _GRAD_REQ_MAP

_engine.on_bulk_exit(_segment.bulk_changed)
if _TYPE_CHECKING:  # they don't see through an `__all__` that is computed
    from ..array.binary_functions import *
    from ..array.creation import *
    from ..array.dense import NDArray as NDArray
    from ._stubs.op import *
_attach(globals(), _functions.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                           "numpy_extension": "numpy_extension"})
