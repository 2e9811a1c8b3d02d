"""Functions whose programs are rewritten before XLA has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

__all__ = ["rewritten"]


def rewritten(function: Callable, *passes: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Callable:
    """The function, whose program goes through the passes whenever it is traced; it is for being compiled."""
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        # as a call of one compiled function, which is not evaluated equation by equation once more
        closed, shapes = jax.make_jaxpr(jax.jit(function), return_shape=True)(*args)
        for each in passes:
            closed = each(closed)
        return jax.tree.unflatten(jax.tree.structure(shapes), jaxpr_as_fun(closed)(*jax.tree.leaves(args)))
    return call
