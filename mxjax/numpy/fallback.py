"""Functions of mx.np that NumPy computes: arrays are copied to the host and back. They cannot be differentiated."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..array.creation import array
from ..base import MXNetError
from ..context import Context
from ..eager.modes import state
from ..ops.params import DTypeLike
from ._dispatch import IMPERATIVE
from ._fallback_docs import document

__all__ = """allclose alltrue apply_along_axis apply_over_axes argpartition argwhere array_equal array_equiv choose
compress corrcoef correlate count_nonzero cov cumprod digitize divmod extract flatnonzero float_power frexp
heaviside histogram2d histogram_bin_edges histogramdd i0 in1d interp intersect1d isclose isin ix_ lexsort
min_scalar_type mirr modf msort nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile
nanprod nanquantile nanstd nansum nanvar ndim npv packbits partition piecewise poly polyadd polydiv polyfit
polyint polymul polysub positive ppmt promote_types ptp pv rate real result_type rollaxis roots searchsorted select
setdiff1d setxor1d signbit size spacing take_along_axis trapz tril_indices_from trim_zeros triu_indices_from union1d
unpackbits unwrap vander""".split()

_UNSET = np._NoValue  # the default of arguments that NumPy distinguishes from None
_FINANCIAL = ("mirr", "npv", "pmt", "ppmt", "pv", "rate")


# ------------------------------------------------------------ changes of NumPy since MXNet
def _alltrue(*args: Any, **kwargs: Any) -> Any:
    return np.all(*args, **kwargs)


def _in1d(ar1: np.ndarray, ar2: np.ndarray, assume_unique: bool = False, invert: bool = False) -> Any:
    return np.isin(np.ravel(ar1), ar2, assume_unique, invert)


def _msort(a: np.ndarray) -> Any:
    return np.sort(a, axis=0)


def _trapz(y: np.ndarray, x: np.ndarray | None = None, dx: float = 1.0, axis: int = -1) -> Any:
    return getattr(np, "trapezoid" if hasattr(np, "trapezoid") else "trapz")(y, x, dx, axis)


def _corrcoef(x: np.ndarray, y: np.ndarray | None = None, rowvar: bool = True, bias: object = _UNSET,
              ddof: object = _UNSET, *, dtype: DTypeLike = None) -> Any:
    return np.corrcoef(x, y, rowvar, dtype=dtype)  # bias and ddof have long had no effect


def _histogram2d(x: np.ndarray, y: np.ndarray, bins: Any = 10, range: Any = None, normed: bool | None = None,
                 weights: np.ndarray | None = None, density: bool | None = None) -> Any:
    return np.histogram2d(x, y, bins, range, normed if density is None else density, weights)


def _histogramdd(sample: Any, bins: Any = 10, range: Any = None, normed: bool | None = None,
                 weights: np.ndarray | None = None, density: bool | None = None) -> Any:
    return np.histogramdd(sample, bins, range, normed if density is None else density, weights)


def _nan_quantile(name: str) -> Callable[..., Any]:
    def call(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
             keepdims: Any = _UNSET, *, interpolation: str | None = None) -> Any:
        return getattr(np, name)(a, q, axis, out, overwrite_input, interpolation or method, keepdims)
    return call


def _lstsq(a: np.ndarray, b: np.ndarray, rcond: Any = "warn") -> Any:
    return np.linalg.lstsq(a, b, None if rcond == "warn" else rcond)


_CHANGED = {"alltrue": _alltrue, "in1d": _in1d, "msort": _msort, "trapz": _trapz, "corrcoef": _corrcoef,
            "histogram2d": _histogram2d, "histogramdd": _histogramdd, "lstsq": _lstsq,
            "nanpercentile": _nan_quantile("nanpercentile"), "nanquantile": _nan_quantile("nanquantile")}


def to_host(value: Any) -> Any:
    """A value, or the items of lists and tuples in it, as NumPy arrays where they are ndarrays."""
    if isinstance(value, IMPERATIVE.kind):
        return value.asnumpy()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(to_host, value))
    return value


def to_device(value: Any, ctx: Context | None = None) -> Any:
    """Returns a result of NumPy's with its arrays as ndarrays."""
    if isinstance(value, np.ndarray):
        return array(value, ctx, value.dtype).as_np_ndarray() if value.dtype.kind in "biuf" else value
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(to_device(v, ctx) for v in value)
    return value


def host_call(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Calls a function of NumPy with ndarrays.

    Raises:
        ValueError: the call is being recorded, but could not be differentiated.
    """
    if state.recording:
        name = getattr(function, "__name__", function)
        raise ValueError(f"Falling back to NumPy operator {name} with autograd active is not supported. Please "
                         "consider moving the operator to the outside of the autograd scope.")
    contexts = [a.ctx for a in _leaves((args, tuple(kwargs.values()))) if isinstance(a, IMPERATIVE.kind)]
    out = kwargs.get("out")
    targets: list[Any] = [a for a in (out if isinstance(out, tuple) else (out,)) if isinstance(a, IMPERATIVE.kind)]
    result = function(*to_host(args), **{k: to_host(v) for k, v in kwargs.items() if k != "out" or not targets})
    if targets:
        for target, value in zip(targets, result if isinstance(out, tuple) else (result,), strict=True):
            target[:] = value
        return out
    if isinstance(result, np.generic) and contexts and result.dtype.kind in "biuf":
        result = np.asarray(result) if isinstance(function, np.ufunc) else result
    return to_device(result, contexts[0] if contexts else None)


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (list, tuple)) else [value]


def of_numpy(name: str, source: ModuleType = np) -> Callable[..., Any]:
    """NumPy's function `name` for ndarrays."""
    function = _CHANGED.get(name) or getattr(source, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return host_call(function, args, kwargs)
    call.__name__ = call.__qualname__ = name
    call.__module__ = f"mxjax.numpy.fallback{source.__name__.removeprefix('numpy').replace('.', '_')}"
    call.__doc__ = document(name)
    try:
        call.__signature__ = inspect.signature(function)
    except (TypeError, ValueError):  # ufuncs have none
        pass
    return call


def _financial(name: str) -> Callable[..., Any]:
    """A function that NumPy 1.20 gave away to the package numpy_financial."""
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            function = getattr(importlib.import_module("numpy_financial"), name)
        except ImportError:
            raise MXNetError(f"NumPy removed {name} in version 1.20; install its successor: pip install "
                             "numpy-financial") from None
        return host_call(function, args, kwargs)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = document(name, "The package numpy_financial")
    return call


for _name in (*__all__, "pmt"):
    globals()[_name] = _financial(_name) if _name in _FINANCIAL else of_numpy(_name)
