"""Symbols as pure JAX functions."""

from __future__ import annotations

from ..executor.jax_function import JaxFunction
from ..symbol import Symbol

__all__ = ["JaxFunction", "to_jax"]


def to_jax(symbol: Symbol) -> JaxFunction:
    """Converts a symbol to a pure JAX function. Args: symbol: any graph without custom operators.

    Returns:
        `f(args, aux, rng, train) -> (outputs, new_aux)`; see `JaxFunction`.

    Raises:
        MXNetError: the graph contains an operator that cannot be part of a JAX program.

    Example:
        >>> import jax
        >>> f = mx.interop.to_jax(mx.sym.var("data") * mx.sym.var("weight"))
        >>> loss = lambda params: f({**params, "data": jax.numpy.arange(3.0)}, {})[0][0].sum()
        >>> jax.grad(loss)({"weight": jax.numpy.ones(3)})
        {'weight': Array([0., 1., 2.], dtype=float32)}
    """
    return symbol.to_jax()
