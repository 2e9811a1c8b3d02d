"""JAX's 64-bit mode: the dtypes that need it, and the scope that sets it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax
import numpy as np

__all__ = ["X64_DTYPES", "X64_NAMES", "needs_x64", "x64_mode"]

X64_NAMES = frozenset(["float64", "int64", "uint64", "complex128"])
X64_DTYPES = frozenset(map(np.dtype, sorted(X64_NAMES)))


def needs_x64(value: object) -> bool:
    """Returns whether a dtype, or an array or spec with a NumPy dtype, needs the 64-bit mode; a bool is the answer."""
    if isinstance(value, bool):
        return value
    dtype = getattr(value, "dtype", value)
    return isinstance(dtype, np.dtype) and dtype in X64_DTYPES


def x64_mode(*values: object) -> AbstractContextManager[None]:
    """Returns a scope with the 64-bit mode if one of the values needs it (see `needs_x64`), otherwise without it."""
    return jax.enable_x64(any(map(needs_x64, values)))
