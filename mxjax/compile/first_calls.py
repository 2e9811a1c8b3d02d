"""The first calls of a function with a new signature, by NumPy: most signatures are never called again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .numpy_forms import by_numpy

__all__ = ["first_calls"]

_CALLS = 2


def first_calls(traced: Any, args: tuple, form: Callable[..., Any],
                then: Callable[[], None]) -> Callable[..., Any] | None:
    """A function of arguments like these that NumPy computes, with XLA's results; None where it cannot.

    Args:
        traced: the function's trace for the arguments (`jax.jit(f).trace(*args)`).
        args: the arguments.
        form: the jitted function.
        then: called after the last call that NumPy computes.
    """
    function = by_numpy(traced.jaxpr)
    if function is None or any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args)):
        return None
    dtypes = [v.aval.dtype for v in traced.jaxpr.jaxpr.invars]
    results_wide = any(v.aval.dtype.itemsize == 8 for v in traced.jaxpr.jaxpr.outvars)
    tree, wide, left = jax.tree.structure(traced.out_info), jax.config.jax_enable_x64, _CALLS

    def call(*args: Any) -> Any:
        nonlocal left
        leaves = jax.tree.leaves(args)
        if wide != jax.config.jax_enable_x64 or any(isinstance(a, jax.core.Tracer) for a in leaves):
            return form(*args)
        placed = [a.sharding for a in leaves if isinstance(a, jax.Array) and a.committed]
        if not all(len(p.device_set) == 1 and p == placed[0] for p in placed):
            return form(*args)  # JAX distributes, or complains
        results = function([np.asarray(a, d) for a, d in zip(leaves, dtypes, strict=True)])
        if results is None:
            return form(*args)
        left -= 1
        if left <= 0:
            then()
        results = [np.array(r) for r in results]  # no views: JAX takes their memory over
        with jax.enable_x64(True) if results_wide else contextlib.nullcontext():
            return jax.tree.unflatten(tree, jax.device_put(results, placed[0] if placed else None))
    return call
