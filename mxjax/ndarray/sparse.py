"""`mx.nd.sparse`: sparse arrays, and operators on them."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..array import functions
from ..array.binary_functions import SPARSE
from ..array.sparse import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    _rebuild,
    array,
    cast_storage,
    csr_matrix,
    empty,
    retain,
    row_sparse_array,
    zeros,
)

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "add", "array", "csr_matrix", "divide",
           "empty", "multiply", "row_sparse_array", "subtract", "zeros"]

add, subtract, multiply, divide = SPARSE.values()
for _kind in (BaseSparseNDArray, CSRNDArray, RowSparseNDArray):
    _kind.__module__ = __name__  # where pickles and users find it

if TYPE_CHECKING:
    from ._stubs.sparse import *  # noqa: F403

attach(globals(), functions.make, "sparse")
