"""The array class of `mx.nd`, and the functions that create arrays and combine two of them."""

from ..array.binary_functions import *
from ..array.binary_functions import __all__ as _binary
from ..array.creation import *
from ..array.creation import __all__ as _creation
from ..array.dense import (
    _DTYPE_MX_TO_NP,
    _DTYPE_NP_TO_MX,
    _GRAD_REQ_MAP,
    _STORAGE_TYPE_STR_TO_ID,
    NDArray,
    _unpickle,
    py_slice,
)

__all__ = ["NDArray", *_creation, *_binary]
NDArray.__module__ = __name__  # where pickles and users find it
