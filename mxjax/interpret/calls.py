"""The first calls of a function with a new signature, by NumPy: most signatures are never called again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._xla.transfer import to_device
from .exact import Exact, by_numpy

__all__ = ["as_buffers", "exact_form", "of_arrays"]


def exact_form(traced: Any) -> Exact | None:
    """Returns the function that NumPy computes for a trace (`jax.jit(f).trace(*args)`); None where it cannot."""
    return by_numpy(traced.jaxpr)


def of_arrays(exact: Exact, tree: Any, count: int, then: Callable[..., Any],
              last: Callable[[], None]) -> Callable[..., Any]:
    """A function of arguments like these that NumPy computes, with XLA's results.

    Args:
        exact: what NumPy computes for the leaves of the arguments.
        tree: the structure of the results.
        count: how often.
        then: the function that XLA computes.
        last: called at the last call that NumPy computes, or the first one that is for XLA after all.
    """
    wide, left = jax.config.jax_enable_x64, count

    def call(*args: Any) -> Any:
        nonlocal left
        leaves = jax.tree.leaves(args)
        placed = [a.sharding for a in leaves if isinstance(a, jax.Array) and a.committed]
        results = None
        if wide == jax.config.jax_enable_x64 and all(len(p.device_set) == 1 and p == placed[0] for p in placed):
            results = exact(leaves)
        left -= 1
        if left <= 0 or results is None:
            last()
        if results is None:  # or else JAX distributes, or complains
            return then(*args)
        device = next(iter(placed[0].device_set)) if placed else None
        return as_buffers(results, tree, device)
    return call


def as_buffers(results: Sequence[Any], tree: Any, device: jax.Device | None = None) -> Any:
    """Returns arrays of NumPy as buffers, in the structure of the results."""
    results = [np.array(r) for r in results]  # no views: JAX takes their memory over
    with jax.enable_x64(True):  # or it makes integers of 64 bits narrow
        return jax.tree.unflatten(tree, [to_device(r, device) for r in results])
