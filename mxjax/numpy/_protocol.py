"""NumPy's functions, called with `mx.np.ndarray`s, become those of mx.np (`__array_function__`, `__array_ufunc__`)."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._support.functions import with_keyword
from . import function_base, linalg, multiarray, stride_tricks
from ._ndarray import protocol

__all__ = ["FUNCTIONS"]

FUNCTIONS = """all any sometrue argmin argmax around round round_ argsort sort append broadcast_arrays
broadcast_to clip concatenate copy cumsum diag diagonal diagflat dot expand_dims fix flip flipud fliplr inner insert max
amax mean min amin nonzero ones_like atleast_1d atleast_2d atleast_3d prod product ravel repeat reshape roll split
array_split hsplit vsplit dsplit squeeze stack std sum swapaxes take tensordot tile transpose unique unravel_index
diag_indices_from delete var vdot vstack column_stack hstack dstack zeros_like linalg.norm linalg.cholesky linalg.inv
linalg.solve linalg.tensorinv linalg.tensorsolve linalg.pinv linalg.eigvals linalg.eig linalg.eigvalsh linalg.eigh shape
trace tril meshgrid outer einsum polyval shares_memory may_share_memory quantile percentile diff ediff1d resize where
full_like bincount empty_like nan_to_num isnan isfinite isposinf isneginf isinf pad moveaxis average rot90""".split()
_TUPLES = {"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "meshgrid"}  # NumPy 2 gives; MXNet has lists
# keywords that NumPy 2 renamed: its name, MXNet's
_RENAMED = {"reshape": ("shape", "newshape"), **dict.fromkeys(("percentile", "quantile"), ("method", "interpolation"))}


@functools.cache
def array_functions() -> dict[Callable, Callable]:
    """Returns the mapping from NumPy's functions to those of mx.np."""
    result = {}
    for name in FUNCTIONS:
        try:
            theirs = operator.attrgetter(name)(np)
        except AttributeError:  # a name that NumPy has dropped
            continue
        theirs = getattr(theirs, "of_numpy", theirs)  # the `mxnet` alias wraps some
        home = next((m for m in (multiarray, stride_tricks, function_base) if hasattr(m, name)), linalg)
        ours = getattr(home, name.removeprefix("linalg."))
        if name in _RENAMED:
            ours = with_keyword(ours, *_RENAMED[name])
        result[theirs] = _in_a_tuple(ours) if name in _TUPLES and int(np.__version__.split(".")[0]) > 1 else ours
    return result


def _in_a_tuple(func: Callable) -> Callable:
    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        return tuple(made) if isinstance(made, list) else made
    return run


protocol.functions, protocol.ufuncs = array_functions, multiarray.UFUNCS
protocol.namespace = lambda: sys.modules[__name__.rpartition(".")[0]]
