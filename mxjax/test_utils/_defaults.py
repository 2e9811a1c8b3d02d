"""Contexts, dtypes and tolerances that tests take when none is given."""

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
    """The context tests run on: the environment's MXNET_TEST_DEFAULT_CTX, else the current context."""
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
    """float32."""
    return np.float32


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by dtype."""
    return {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-5, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-2}


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by dtype."""
    return {np.dtype(np.float16): 1e-1, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-20, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-1}


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences by dtype: powers of two, so that they are exact."""
    return {np.dtype(np.float16): 1 / 2**6, np.dtype(np.float32): 1 / 2**9, np.dtype(np.float64): 1 / 2**14}


Tolerance: TypeAlias = float | Mapping[np.dtype, float] | None  # a number, by dtype, or the default


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype that says how exact a value is (TF32 on GPUs is left to JAX's own settings)."""
    return np.dtype(getattr(dat, "dtype", np.dtype(type(dat))))


def get_tolerance(dat: Any, tol: Any, default_tol: dict) -> float:
    """`tol` as a number: as given, or by dtype, or the default for the value's dtype."""
    if isinstance(tol, numbers.Number):
        return cast(float, tol)
    dtype = effective_dtype(dat)
    return (default_tol if tol is None else tol).get(dtype, 0)


def get_tols(x: Any, y: Any, rtol: Tolerance,
             atol: Tolerance) -> tuple[float, float]:
    """(rtol, atol) for comparing x and y: the larger of what each asks for."""
    return (max(get_tolerance(v, rtol, default_rtols()) for v in (x, y)),
            max(get_tolerance(v, atol, default_atols()) for v in (x, y)))


def get_atol(atol: float | None = None, dtype: DTypeLike = np.dtype(np.float64)) -> float:
    """`atol`, or the default for a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: DTypeLike = np.dtype(np.float64)) -> float:
    """`rtol`, or the default for a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """`etol`, the share of elements that may be off; default 0."""
    return 0 if etol is None else etol
