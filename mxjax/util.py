"""Switches for NumPy semantics, environment variables, and small helpers."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import level
from .context import gpu_memory_info, num_gpus, takes_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .context import Context

__all__ = ["get_gpu_count", "get_gpu_memory", "getenv", "is_np_array", "is_np_default_dtype", "is_np_shape", "np_array",
           "np_default_dtype", "np_shape", "np_ufunc_legal_option", "reset_np", "set_module", "set_np",
           "set_np_default_dtype", "set_np_shape", "setenv", "use_np", "use_np_array", "use_np_default_dtype",
           "use_np_shape", "wrap_np_binary_func", "wrap_np_unary_func"]

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])  # a function or class


class _Flags(threading.local):
    """NumPy semantics of this thread; None: as set globally."""

    shape: bool | None = None
    array: bool | None = None
    dtype: bool | None = None


_flags = _Flags()
_global: dict[str, bool] = {"dtype": False}
level.follow(lambda api: _global.update(shape=api == 2, array=api == 2))  # NumPy's semantics are on in MXNet 2


def is_np_shape() -> bool:
    """Returns whether NumPy shape semantics are on: () is a scalar and 0 an empty axis, instead of "unknown"."""
    return _global["shape"] if _flags.shape is None else _flags.shape


def np_shape_of_thread() -> bool:
    """Returns whether a `with np_shape()` scope of this thread enables NumPy shapes."""
    return bool(_flags.shape) and not _global["shape"]


def is_np_array() -> bool:
    """Returns whether Gluon and operators return `mx.np.ndarray`s."""
    return _global["array"] if _flags.array is None else _flags.array


def set_np_shape(active: bool) -> bool:
    """Turns NumPy shape semantics on or off everywhere; returns the previous setting."""
    previous = is_np_shape()
    _global["shape"] = bool(active)
    _flags.shape = None
    return previous


def is_np_default_dtype() -> bool:
    """Returns whether the default dtype is float64, as in NumPy, instead of float32."""
    return _global["dtype"] if _flags.dtype is None else _flags.dtype


def default_float(dtype: DTypeLike | None = None) -> Any:
    """Returns the given dtype; if it is None, "float64" if that is the default dtype, otherwise None."""
    return "float64" if dtype is None and is_np_default_dtype() else dtype


def set_np_default_dtype(is_np_default_dtype: bool = True) -> bool:
    """Sets the default dtype to float64, or back to float32, everywhere; returns the previous setting."""
    previous = _global["dtype"] if _flags.dtype is None else _flags.dtype
    _global["dtype"] = bool(is_np_default_dtype)
    _flags.dtype = None
    return previous


class _Scope:
    """Sets one flag of this thread for a `with` block; usable as a decorator of functions and classes."""

    def __init__(self, flag: str, active: bool) -> None:
        self._flag, self._active = flag, bool(active)
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(getattr(_flags, self._flag))
        setattr(_flags, self._flag, self._active)

    def __exit__(self, *exc: object) -> None:
        setattr(_flags, self._flag, self._before.pop())


def np_shape(active: bool = True) -> _Scope:
    """A `with` scope with NumPy shape semantics on or off."""
    return _Scope("shape", active)


class _NumpyArrayScope(_Scope):
    """The scope that `np_array` makes, under MXNet's name."""

    def __init__(self, is_np_array: bool) -> None:
        super().__init__("array", is_np_array)
        self._is_np_array = is_np_array


def np_array(active: bool = True) -> _Scope:
    """A `with` scope with NumPy array semantics on or off."""
    return _NumpyArrayScope(active)


def np_default_dtype(active: bool = True) -> _Scope:
    """A `with` scope with float64 (or float32) as the default dtype.

    Example:
        >>> with mx.util.np_default_dtype():
        ...     mx.np.zeros(2).dtype
        dtype('float64')
    """
    return _Scope("dtype", active)


def _use(func: Callable[..., Any] | type, *scopes: Callable[[bool], _Scope]) -> Any:
    if inspect.isclass(func):
        for name, _ in inspect.getmembers(func, lambda m: inspect.isfunction(m) or isinstance(m, property)):
            member = inspect.getattr_static(func, name)  # inherited methods, too, as in MXNet
            if isinstance(member, property):
                fget, fset, fdel = (part and _use(part, *scopes) for part in (member.fget, member.fset, member.fdel))
                setattr(func, name, property(fget, fset, fdel, member.__doc__))
            elif inspect.isfunction(member):
                setattr(func, name, _use(member, *scopes))
            elif name in vars(func) and level.current() == 2:  # static methods become methods, as in MXNet
                setattr(func, name, _use(getattr(func, name), *scopes))
        return func
    if not callable(func):
        raise TypeError(f"only functions and classes can be decorated, got {type(func).__name__}")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        active = [scope(True) for scope in scopes]
        for scope in active:
            scope.__enter__()
        try:
            return func(*args, **kwargs)
        finally:
            for scope in reversed(active):
                scope.__exit__()
    return wrapper


def use_np_shape(func: _Decorated) -> _Decorated:
    """Decorates a function or class so that it runs with NumPy shape semantics."""
    return _use(func, np_shape)


def use_np_array(func: _Decorated) -> _Decorated:
    """Decorates a function or class so that it runs with NumPy array semantics."""
    return _use(func, np_array)


def use_np(func: _Decorated) -> _Decorated:
    """Decorates a function or class so that it runs with NumPy shape and array semantics."""
    return _use(func, np_shape, np_array)


def use_np_default_dtype(func: _Decorated) -> _Decorated:
    """Decorates a function or class so that it runs with float64 as the default dtype."""
    return _use(func, np_default_dtype)


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Turns NumPy semantics on everywhere.

    Args:
        shape: () is the shape of a scalar, and 0 an empty axis.
        array: Gluon and operators return `mx.np.ndarray`s.
        dtype: float64 is the default dtype, instead of float32.

    Raises:
        ValueError: array semantics without shape semantics.
    """
    if array and not shape:
        raise ValueError("NumPy array semantics require NumPy shape semantics: set_np(shape=True, array=True)")
    set_np_shape(shape)
    _global["array"] = bool(array)
    _flags.array = None
    set_np_default_dtype(dtype)


def reset_np() -> None:
    """Turns NumPy semantics off everywhere."""
    set_np(shape=False, array=False)


def set_module(module: str) -> Callable[[_Decorated], _Decorated]:
    """A decorator that sets `__module__`, the module shown to users."""
    def decorate(func: _Decorated) -> _Decorated:
        if module is not None:
            func.__module__ = module
        return func
    return decorate


_UFUNC_DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
_UFUNC_DTYPES = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")


def np_ufunc_legal_option(key: str, value: object) -> bool:
    """Returns whether NumPy's ufuncs accept an option with this value."""
    if key == "where":
        return True
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "order":
        return isinstance(value, str)
    if key == "dtype":
        return getattr(value, "__name__", str(value)) in _UFUNC_DTYPES
    return key == "subok" and isinstance(value, bool)


def check_ufunc_options(name: str, options: dict[str, Any]) -> None:
    """Checks the options of a call of function `name`.

    Raises:
        TypeError: NumPy does not accept the option or its value, either.
        NotImplementedError: the value is not the default.
    """
    for key, value in options.items():
        if key not in _UFUNC_DEFAULTS:
            raise TypeError(f"{key} is an invalid keyword to function '{name}'")
        if value != _UFUNC_DEFAULTS[key]:
            if np_ufunc_legal_option(key, value):
                raise NotImplementedError(f"{key}={value} is not implemented yet for function '{name}'")
            raise TypeError(f"{key}={value} not understood for function '{name}'")


def _wrap_np_func(func: Callable) -> Callable:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        options = {k: kwargs.pop(k) for k in list(kwargs) if k not in ("x", "x1", "x2", "out")}
        check_ufunc_options(func.__name__, options)
        return func(*args, **kwargs)
    return wrapper


def wrap_np_unary_func(func: Callable) -> Callable:
    """Makes a one-argument function accept (and check) NumPy's ufunc options."""
    return _wrap_np_func(func)


def wrap_np_binary_func(func: Callable) -> Callable:
    """Makes a two-argument function accept (and check) NumPy's ufunc options."""
    return _wrap_np_func(func)


def get_gpu_count() -> int:
    """Returns the number of GPUs that JAX sees."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Returns (free, total) bytes of a GPU's memory pool."""
    return gpu_memory_info(gpu_dev_id)


@takes_device
def get_cuda_compute_capability(ctx: Context) -> int | None:
    """Returns the compute capability of a GPU context as an int such as 80; None if it is not a CUDA device."""
    if getattr(ctx, "device_type", None) != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    capability = getattr(ctx.jax_device, "compute_capability", None)
    return None if capability is None else int(str(capability).replace(".", ""))


def getenv(name: str) -> str | None:
    """Returns an environment variable of this process, or None."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Sets an environment variable of this process; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


__all__ += ["get_cuda_compute_capability"]


def dtype_from_number(number: int) -> Any:
    """Returns the dtype of an array of such numbers: int64 for an int, float32 for a float, its own
    dtype for a NumPy number.

    Raises:
        OverflowError: an int does not fit in 64 bits.
        TypeError: the argument is not a number.
    """
    if isinstance(number, np.generic):
        return number.dtype
    if isinstance(number, int):
        if not -2**63 <= number < 2**64:
            raise OverflowError(f"{number} does not fit in any integer dtype")
        return np.int64 if number < 2**63 else np.uint64
    if not isinstance(number, float):
        raise TypeError(f"expected a number, got {type(number).__name__}")
    far = np.isfinite(number) and abs(number) > float(np.finfo(np.float32).max)
    return np.float64 if far or is_np_default_dtype() else np.float32


def _renamed(func: Callable, meant: dict[str, Callable[[Any], tuple[str, Any]]]) -> Callable:
    """Returns `func`, which also accepts keywords by old names; `meant` maps name and value to the new keyword."""
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for old in meant.keys() & kwargs.keys():
            value = kwargs.pop(old)
            if value is not None:
                name, value = meant[old](value)
                kwargs[name] = value
        return func(*args, **kwargs)
    return wrapper


def wrap_ctx_to_device_func(func: Callable) -> Callable:
    """Makes a function with an argument `device` also accept it as `ctx`."""
    return _renamed(func, {"ctx": lambda v: ("device", v)})


def wrap_data_api_statical_func(func: Callable) -> Callable:
    """Makes a function with an argument `correction` also accept it as `ddof`."""
    return _renamed(func, {"ddof": lambda v: ("correction", v)})


def wrap_data_api_linalg_func(func: Callable) -> Callable:
    """Makes a function with arguments `upper` and `rtol` also accept them as `UPLO` and as `rcond` or `tol`."""
    return _renamed(func, {"UPLO": lambda v: ("upper", v == "U"), "rcond": lambda v: ("rtol", v),
                           "tol": lambda v: ("rtol", v)})


def wrap_sort_functions(func: Callable) -> Callable:
    """Makes a function with an argument `stable` accept NumPy's `kind`; `order` raises NotImplementedError."""
    def refused(order: object) -> tuple[str, Any]:
        raise NotImplementedError("order not supported here")
    return _renamed(func, {"kind": lambda v: ("stable", v == "stable"), "order": refused})
