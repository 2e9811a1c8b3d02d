"""Functions whose programs are rewritten before XLA compiles them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun, jaxprs_in_params

from .._xla.tracing import settings
from ..ops.by_device import traced_for

__all__ = ["CALLS", "called", "each_equation", "rewritten", "without_kernels"]

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr"}  # equations that call a function, and the parameter that contains it


_NOT_ENTERED = ("pallas_call", "custom_partitioning")  # programs of another kind
_KERNELS = ("pallas_call", "dot_product_attention")
Rule = Callable[[JaxprEqn], "JaxprEqn | None"]


def rewritten(function: Callable, *passes: Callable[[ClosedJaxpr], ClosedJaxpr], target: str | None = None) -> Callable:
    """Returns the function with passes applied to its program whenever it is traced for compilation.

    target: the only kind of device that it is for, "cpu"; None: any.
    """
    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        with traced_for(target):
            # as a call of one compiled function, so that it is not evaluated equation by equation again
            closed, shapes = jax.make_jaxpr(jax.jit(function), return_shape=True)(*args)
        for each in passes:
            closed = each(closed)
        return jax.tree.unflatten(jax.tree.structure(shapes), jaxpr_as_fun(closed)(*jax.tree.leaves(args)))

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if settings.jax_disable_jit:  # a user inspects functions: JAX calls this instead of its program
            with jax.disable_jit(False):
                return jax.jit(traced)(*args)
        return traced(*args)
    return call


def called(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """Returns the function that an equation calls, if XLA inlines it."""
    inner = eqn.params.get(CALLS.get(eqn.primitive.name, ""))
    return inner if isinstance(inner, ClosedJaxpr) else None


def each_equation(closed: ClosedJaxpr, rule: Rule) -> ClosedJaxpr:
    """Returns a program with a rule applied to its equations, including those of functions, loops and branches.

    Args:
        closed: the program; returned unchanged if nothing changes.
        rule: function(equation) -> its replacement, or None to keep it; the rule then also visits its inner programs.
    """
    return _closed(closed, rule, {})


def _closed(closed: ClosedJaxpr, rule: Rule, known: dict[int, Any]) -> ClosedJaxpr:
    """`known`: the functions rewritten so far, by identity, so that a function called several times stays one."""
    if id(closed) not in known:
        jaxpr = _rewritten(closed.jaxpr, rule, known)
        known[id(closed)] = closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)
    return known[id(closed)]


def without_kernels(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program for several devices: operators replace device-specific kernels, which XLA cannot partition."""
    return each_equation(closed, _divisible)


def _divisible(eqn: JaxprEqn) -> JaxprEqn | None:
    platforms = eqn.params.get("branches_platforms")
    if not platforms or None not in platforms:
        return None
    branches = eqn.params["branches"]
    common = branches[platforms.index(None)]
    chosen = tuple([common if _has_kernel(b.jaxpr) else b for b in branches])
    same = all(new is old for new, old in zip(chosen, branches, strict=True))
    return None if same else eqn.replace(params={**eqn.params, "branches": chosen})


def _has_kernel(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive.name.startswith(_KERNELS) or any(map(_has_kernel, jaxprs_in_params(eqn.params)))
               for eqn in jaxpr.eqns)


def _rewritten(jaxpr: Jaxpr, rule: Rule, known: dict[int, Any]) -> Jaxpr:
    eqns = [_equation(eqn, rule, known) for eqn in jaxpr.eqns]
    same = all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _equation(eqn: JaxprEqn, rule: Rule, known: dict[int, Any]) -> JaxprEqn:
    if eqn.primitive.name in _NOT_ENTERED:
        return eqn
    result = rule(eqn)
    if result is not None:
        return result
    params = {key: _inner(value, rule, known) for key, value in eqn.params.items()}
    same = all(params[key] is value for key, value in eqn.params.items())
    return eqn if same else eqn.replace(params=params)


def _inner(value: Any, rule: Rule, known: dict[int, Any]) -> Any:
    """Returns a parameter of an equation with its inner programs rewritten."""
    if isinstance(value, ClosedJaxpr):
        return _closed(value, rule, known)
    if isinstance(value, Jaxpr):
        return _rewritten(value, rule, known)
    if type(value) is tuple and any(isinstance(v, ClosedJaxpr) for v in value):  # branches
        new = tuple([_inner(v, rule, known) for v in value])
        return value if all(n is v for n, v in zip(new, value, strict=True)) else new
    return value
