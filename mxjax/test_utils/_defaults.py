"""Default contexts, dtypes and tolerances of tests."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .._support import settings
from ..context import Context, current_context, takes_device
from ..ops.params import np_dtype

if TYPE_CHECKING:
    from ..ops.params import DTypeLike


def default_context() -> Context:
    """Returns the context for tests: MXNET_TEST_DEFAULT_CTX, otherwise the current context."""
    text = settings.TEST_DEFAULT_CTX()
    if text:
        kind, _, number = text.partition("(")
        return Context(kind, int(number.rstrip(")") or 0))
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Makes a context the default of this thread."""
    Context._scope.current = ctx


default_device, set_default_device = default_context, takes_device(set_default_context)  # their names in MXNet 2


def default_dtype() -> type:
    """Returns float32."""
    return np.float32


def default_rtols() -> dict[np.dtype, float]:
    """Returns the default relative tolerances by dtype."""
    return {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-5, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-2}


def default_atols() -> dict[np.dtype, float]:
    """Returns the default absolute tolerances by dtype."""
    return {np.dtype(np.float16): 1e-1, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-20, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-1}


def default_numeric_eps() -> dict[np.dtype, float]:
    """Returns the steps of finite differences by dtype. They are powers of two, which are exact."""
    return {np.dtype(np.float16): 1 / 2**6, np.dtype(np.float32): 1 / 2**9, np.dtype(np.float64): 1 / 2**14}


Tolerance: TypeAlias = float | Mapping[np.dtype, float] | None  # a number, by dtype, or the default


def effective_dtype(dat: Any) -> np.dtype:
    """Returns the dtype that determines the precision of a value (JAX's settings control TF32 on GPUs)."""
    return np.dtype(getattr(dat, "dtype", np.dtype(type(dat))))


def get_tolerance(dat: Any, tol: Any, default_tol: dict) -> float:
    """Returns `tol` as a number: as given, by dtype, or the default for the value's dtype."""
    if isinstance(tol, numbers.Number):
        return cast(float, tol)
    dtype = effective_dtype(dat)
    return (default_tol if tol is None else tol).get(dtype, 0)


def get_tols(x: Any, y: Any, rtol: Tolerance,
             atol: Tolerance) -> tuple[float, float]:
    """Returns (rtol, atol) for a comparison of x and y: the larger tolerances of the two."""
    return (max(get_tolerance(v, rtol, default_rtols()) for v in (x, y)),
            max(get_tolerance(v, atol, default_atols()) for v in (x, y)))


def get_atol(atol: float | None = None, dtype: DTypeLike = np.dtype(np.float64)) -> float:
    """Returns `atol`, or the default for a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: DTypeLike = np.dtype(np.float64)) -> float:
    """Returns `rtol`, or the default for a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """Returns `etol`, the fraction of elements that may differ; by default 0."""
    return 0 if etol is None else etol
