"""Helpers that several operator families share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._xla.tracing import settings
from ..base import MXNetError
from .infer import agree

Array = jax.Array


def by_own_rules(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula by the rules of promotion that operators are written for; a user may have set strict ones for own code.

    Operators' formulas and hand-written gradients have it from `compile.Kernel`; gradients within a formula
    (`jax.custom_vjp`) are called when it has ended, and need it themselves.
    """
    @functools.wraps(formula)
    def call(*args: Any) -> Any:
        if settings.jax_numpy_rank_promotion == "allow" and settings.jax_numpy_dtype_promotion == "standard":
            return formula(*args)
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return formula(*args)
    return call


def is_float(dtype: Any) -> bool:
    """Returns whether a dtype is a real floating point type."""
    return jnp.issubdtype(dtype, jnp.floating)


def in_float(function: Any, *arrays: Array) -> Array:
    """`function` of the arrays, in the first array's dtype. Integers and the half precision types are computed in
    float32 and rounded once, as in MXNet."""
    dtype = arrays[0].dtype
    if is_float(dtype):
        if accumulation(dtype) != dtype:
            arrays = tuple([a.astype(jnp.promote_types(a.dtype, jnp.float32)) for a in arrays])
        return function(*arrays).astype(dtype)
    return converted(function(*(a.astype(jnp.float32) for a in arrays)), dtype)


def converted(value: Any, dtype: Any) -> Array:
    """An array or number in another dtype, as C casts it on x86: narrow integers wrap around.

    NaN and values out of the range of 32 (64) bits become the smallest integer of that size.
    """
    value = jnp.asarray(value)
    if is_float(value.dtype) and jnp.issubdtype(dtype, jnp.integer):
        whole = jnp.int64 if jnp.dtype(dtype).itemsize == 8 else jnp.int32
        least = jnp.iinfo(whole).min
        value = jnp.where(jnp.abs(value) < -float(least), value.astype(whole), least)
    return value.astype(dtype)


def absolute(x: Array) -> Array:
    """The absolute value, with derivative zero at zero and at NaN."""
    return jnp.where(x == 0, 0, jnp.where(x != x, jax.lax.stop_gradient(x), jnp.abs(x)))


def axes_of(axis: Any, ndim: int, exclude: bool = False) -> tuple[int, ...]:
    """Non-negative, sorted axes; None and () mean all; `exclude` selects the others.

    Raises:
        MXNetError: an axis is out of range.
    """
    if axis is None or axis == ():
        return () if exclude and axis == () and ndim == 0 else tuple(range(ndim))
    chosen = {normalized(a, ndim) for a in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(a for a in range(ndim) if (a in chosen) != exclude)


def hidden_output(parameter: str, name: str) -> dict[str, Any]:
    """Registration of a second output that only graphs of files ask for, with a parameter that signatures leave out."""
    return {"FHiddenOutputs": parameter, "hidden": (parameter,), "num_outputs": lambda p: 1 + p[parameter],
            "output_names": lambda p: ["output", name][:1 + p[parameter]]}


def normalized(axis: int, ndim: int) -> int:
    """A non-negative axis; raises MXNetError when out of range."""
    if not -ndim <= axis < ndim:
        raise MXNetError(f"axis {axis} is out of range for an array of {ndim} dimensions")
    return axis % ndim


def gives(dtype: str | tuple[str | None, ...] | Callable[[dict[str, Any]], str | None] | None,
          *inputs: str | None) -> Callable[..., None]:
    """A type rule (FInferType): all outputs have this dtype (or that of a function of the parameters), or each one of
    several; None is that of the first input.

    `inputs` are the default dtypes of the inputs; without it, and for None, those of known inputs.
    """
    def rule(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
        first = next((t for t in ins if t), None)
        defaults = (*inputs, *(None,) * len(ins))
        ins[:] = [t or default or first for t, default in zip(ins, defaults, strict=False)]
        result = dtype(params) if callable(dtype) else dtype
        results = result if isinstance(result, tuple) else (result,) * len(outs)
        outs[:] = [t or result for t, result in zip(outs, results, strict=False)]
    return rule


def chosen(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
    """The type rule of a choice: the condition may have any dtype, the values have that of the result."""
    kind = agree(ins[1:]) or next((t for t in outs if t), None)
    ins[1:], outs[:] = [kind] * (len(ins) - 1), [kind]


def no_gradient(heads: tuple, inputs: tuple, outputs: tuple, **params: Any) -> tuple:
    """The zero gradient (FGradient) of operators that MXNet does not differentiate."""
    return (None,) * len(inputs)


def whole(index: Array) -> Array:
    """Converts indices of any dtype to integers that JAX can index with."""
    return index if jnp.issubdtype(index.dtype, jnp.integer) else index.astype(jnp.int32)


def size_of(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)


def need_float(operator: str, array: Array) -> None:
    """Raises MXNetError unless the array is of a floating point type."""
    if not is_float(array.dtype):
        raise MXNetError(f"operator {operator} requires floating-point data, got {array.dtype}")


def accumulation(dtype: Any) -> Any:
    """The dtype in which sums of such values are formed: float32 for the half precision types."""
    return jnp.float32 if is_float(dtype) and jnp.dtype(dtype).itemsize < 4 else jnp.dtype(dtype)


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """`x` broadcast to a shape; its gradient is summed in `accumulation(x.dtype)`, where JAX would sum in x's own."""
    if x.shape == tuple(shape):
        return x
    return jnp.broadcast_to(x.astype(accumulation(x.dtype)), shape).astype(x.dtype)
