"""NumPy's functions, called with `mx.np.ndarray`s, become those of mx.np (`__array_function__`, `__array_ufunc__`)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from .numpy._protocol import FUNCTIONS
from .numpy.multiarray import UFUNCS

__all__ = ["with_array_function_protocol", "with_array_ufunc_protocol"]

_NUMPY_ARRAY_FUNCTION_LIST, _NUMPY_ARRAY_UFUNC_LIST = FUNCTIONS, list(UFUNCS)


def _protocol(func: Callable, name: str) -> Callable:
    @functools.wraps(func)
    def run(*args: object, **kwargs: object) -> None:
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
