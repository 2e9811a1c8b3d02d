"""NumPy's functions, called with `mx.np.ndarray`s, become those of mx.np (`__array_function__`, `__array_ufunc__`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as _np

from . import numpy as mx_np

__all__ = ["with_array_function_protocol", "with_array_ufunc_protocol"]

_NUMPY_ARRAY_FUNCTION_LIST = """all any sometrue argmin argmax around round round_ argsort sort append broadcast_arrays
broadcast_to clip concatenate copy cumsum diag diagonal diagflat dot expand_dims fix flip flipud fliplr inner insert max
amax mean min amin nonzero ones_like atleast_1d atleast_2d atleast_3d prod product ravel repeat reshape roll split
array_split hsplit vsplit dsplit squeeze stack std sum swapaxes take tensordot tile transpose unique unravel_index
diag_indices_from delete var vdot vstack column_stack hstack dstack zeros_like linalg.norm linalg.cholesky linalg.inv
linalg.solve linalg.tensorinv linalg.tensorsolve linalg.pinv linalg.eigvals linalg.eig linalg.eigvalsh linalg.eigh shape
trace tril meshgrid outer einsum polyval shares_memory may_share_memory quantile percentile diff ediff1d resize where
full_like bincount empty_like nan_to_num isnan isfinite isposinf isneginf isinf pad moveaxis average rot90""".split()
_TUPLES = {"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "meshgrid"}  # NumPy 2 gives; MXNet has lists
_NUMPY_ARRAY_UFUNC_LIST = list(mx_np.multiarray.UFUNCS)


@functools.cache
def array_functions() -> dict[Callable, Callable]:
    """Which function of mx.np stands for which one of NumPy."""
    found = {}
    for name in _NUMPY_ARRAY_FUNCTION_LIST:
        try:
            theirs, ours = operator.attrgetter(name)(_np), operator.attrgetter(name)(mx_np)
        except AttributeError:  # a name that NumPy has dropped
            continue
        found[theirs] = _in_a_tuple(ours) if name in _TUPLES and int(_np.__version__.split(".")[0]) > 1 else ours
    return found


def _in_a_tuple(func: Callable) -> Callable:
    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        return tuple(made) if isinstance(made, list) else made
    return run


def _protocol(func: Callable, name: str) -> Callable:
    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            func(*args, **kwargs)
        except Exception as error:
            raise RuntimeError(f"Running function {func.__name__} with NumPy array {name} protocol failed with "
                               f"exception {error}") from error
    return run


def with_array_function_protocol(func: Callable) -> Callable:
    """Decorates a function so that its failures are reported as failures of `__array_function__`."""
    return _protocol(func, "function")


def with_array_ufunc_protocol(func: Callable) -> Callable:
    """Decorates a function so that its failures are reported as failures of `__array_ufunc__`."""
    return _protocol(func, "ufunc")
