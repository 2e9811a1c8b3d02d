"""The first calls of a function with a new signature, by NumPy: most signatures are never called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .numpy_forms import by_numpy
from .policy import FIRST_CALLS

__all__ = ["first_calls"]


def first_calls(traced: Any, form: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any] | None:
    """A function of arguments like these that NumPy computes, with XLA's results; None where it cannot.

    Args:
        traced: the function's trace for the arguments (`jax.jit(f).trace(*args)`).
        form: the jitted function.
        then: called at the last call that NumPy computes, or the first one that is for XLA after all.
    """
    wide, left = jax.config.jax_enable_x64, FIRST_CALLS
    if not wide and any(v.aval.dtype.itemsize == 8 for v in traced.jaxpr.jaxpr.outvars):
        return None  # JAX would make them narrow
    function = by_numpy(traced.jaxpr)
    if function is None:
        return None
    dtypes, tree = [v.aval.dtype for v in traced.jaxpr.jaxpr.invars], jax.tree.structure(traced.out_info)

    def call(*args: Any) -> Any:
        nonlocal left
        leaves = jax.tree.leaves(args)
        placed = [a.sharding for a in leaves if isinstance(a, jax.Array) and a.committed]
        results = None
        if wide == jax.config.jax_enable_x64 and all(len(p.device_set) == 1 and p == placed[0] for p in placed):
            results = function([np.asarray(a, d) for a, d in zip(leaves, dtypes, strict=True)])
        left -= 1
        if left <= 0 or results is None:
            then()
        if results is None:  # or else JAX distributes, or complains
            return form(*args)
        results = [np.array(r) for r in results]  # no views: JAX takes their memory over
        return jax.tree.unflatten(tree, jax.device_put(results, placed[0] if placed else None))
    return call
