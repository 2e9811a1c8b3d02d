"""Symbols as pure JAX functions."""

from __future__ import annotations

from ..executor.jax_function import JaxFunction
from ..symbol import Symbol

__all__ = ["JaxFunction", "to_jax"]


def to_jax(symbol: Symbol) -> JaxFunction:
    """A symbol as a pure JAX function.

    Args:
        symbol: any graph without custom operators.

    Returns:
        `f(args, aux, rng, train) -> (outputs, new_aux)`; see `JaxFunction`.

    Raises:
        MXNetError: an operator of the graph cannot be part of a JAX program.

    Example:
        >>> f = mx.interop.to_jax(net)
        >>> loss = lambda params: f({**params, "data": x}, aux)[0][0].sum()
        >>> grads = jax.grad(loss)(params)
    """
    return symbol.to_jax()
