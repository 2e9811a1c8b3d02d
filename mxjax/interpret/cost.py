"""Estimates of the cost of a program with NumPy and of its compilation, from its operations and sizes, without a clock.

The figures were measured on two processors of a shared machine, with small and large arrays. They decide when a program
is compiled, so a factor of two is acceptable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from .._xla.tracing import aval_of
from ..passes.rewriting import called

__all__ = ["Cost", "cost_of", "cost_of_work"]

_OPERATION = 5.0  # microseconds of an operation on few numbers
_CALL = 50.0  # and of a call of an operator's form, which consists of several operations
_ELEMENT = 1.5e-3  # of a computed element
_PRODUCT = 1e-4  # of a multiplication and addition in a matrix product by BLAS
_BLAS = 2e-5  # the same without a copy before
_WINDOW = 5e-4  # the same in a convolution, whose windows are copied first
_LOOP = 16  # assumed number of iterations of a loop if unknown
_PROGRAM, _COMPILED = 30_000.0, 3_000.0  # microseconds to compile a program, and per operation in it


class Cost(NamedTuple):
    """Estimated microseconds: of a call with NumPy, of the compilation, and of the products in the call."""

    call: float
    compilation: float
    products: float = 0.0

    @property
    def within(self) -> float:
        """Returns the microseconds that its operations add to the compilation of a larger program."""
        return self.compilation - _PROGRAM

    @property
    def calls(self) -> int:
        """Returns the number of calls with NumPy that take as long as the compilation."""
        return int(self.compilation / self.call)


def cost_of(closed: ClosedJaxpr, number: Callable[[Any], Any]) -> Cost:
    """Returns the cost of a closed jaxpr; number: function(symbolic size) -> its value."""
    call, operations, products = _cost(closed.jaxpr, number)
    return Cost(call, _PROGRAM + _COMPILED * operations, products)


def cost_of_work(work: Any, times: float = 1.0) -> Cost:
    """Returns the cost of an operator's form from its `Work`; times: factor for its gradients."""
    products = times * _BLAS * work.products
    return Cost(_CALL + times * _ELEMENT * work.elements + products, _PROGRAM + 3 * times * _COMPILED, products)


def _cost(jaxpr: Jaxpr, number: Callable[[Any], Any]) -> tuple[float, int, float]:
    total, operations, products = _OPERATION, 0, 0.0
    for eqn in jaxpr.eqns:
        inner = called(eqn)
        if inner is not None:
            more, count, multiplied = _cost(inner.jaxpr, number)
        elif eqn.primitive.name in ("scan", "while"):
            body = eqn.params["jaxpr" if eqn.primitive.name == "scan" else "body_jaxpr"]
            more, count, multiplied = _cost(body.jaxpr, number)
            times = number(eqn.params["length"]) if eqn.primitive.name == "scan" else _LOOP
            more, multiplied = more * times, multiplied * times
        else:
            elements = sum(math.prod(map(number, aval_of(v).shape)) for v in eqn.outvars)
            multiplied = _multiplied(eqn, elements, number)
            more, count = _OPERATION + _ELEMENT * elements + multiplied, 1
        total, operations, products = total + more, operations + count, products + multiplied
    return total, operations, products


def _multiplied(eqn: JaxprEqn, made: int, number: Callable[[Any], Any]) -> float:
    """Returns the cost of the multiplications of a product or a convolution with this number of results."""
    if eqn.primitive.name == "dot_general":
        (axes, _), _ = eqn.params["dimension_numbers"]
        shape = aval_of(eqn.invars[0]).shape
        return _PRODUCT * made * math.prod([number(shape[axis]) for axis in axes])
    if eqn.primitive.name == "conv_general_dilated":
        kernel, spec = aval_of(eqn.invars[1]).shape, eqn.params["dimension_numbers"].rhs_spec
        return _WINDOW * made * math.prod([number(n) for axis, n in enumerate(kernel) if axis != spec[0]])
    if eqn.primitive.name.startswith("reduce_window"):
        return _WINDOW * made * math.prod(eqn.params["window_dimensions"])
    return 0.0
