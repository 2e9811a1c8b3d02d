"""JAX functions as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array import functions as of_arrays
from ..ops import registry
from ..symbol import Symbol
from ..symbol import _functions as of_symbols

__all__ = ["from_jax"]


def from_jax(function: Callable[..., Any], name: str | None = None, num_outputs: int = 1,
             **attrs: Any) -> Callable[..., Any]:
    """Wraps a JAX function as a differentiable operator for NDArrays and Symbols.

    Args:
        function: pure function of JAX arrays. Positional arguments are inputs, keyword-only ones
            are parameters, annotated as in `mxjax.ops.params`; a parameter without annotation
            accepts any hashable value. JAX computes the derivative, and `jax.custom_vjp` and
            similar decorators apply.
        name: name of the operator; by default the function's.
        num_outputs: number of arrays that it returns.
        attrs: further attributes of the operator, e.g. infer_shape.

    Returns:
        A function of NDArrays or Symbols, which is also available as `mx.nd.<name>` and
        `mx.sym.<name>`.

    Example:
        >>> swish = mx.operator.from_jax(jax.nn.swish, "swish")  # doctest: +SKIP
        >>> swish(mx.nd.array([0, 1])).asnumpy().round(2)  # doctest: +SKIP
        array([0.  , 0.73], dtype=float32)
    """
    name = name or function.__name__
    registry.register(name, num_outputs=num_outputs, **attrs)(function)
    op = registry.get(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        symbolic = any(isinstance(a, Symbol) for a in [*args, *kwargs.values()])
        key = "symbol" if symbolic else "ndarray"
        if key not in fronts:
            fronts[key] = (of_symbols if symbolic else of_arrays).make(op, name)
        return fronts[key](*args, **kwargs)
    fronts: dict[str, Callable] = {}
    call.__name__, call.__doc__ = name, function.__doc__
    return call
