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
_LOOP = 16.0  # assumed number of iterations of a loop if unknown
_PROGRAM, _COMPILED = 30_000.0, 3_000.0  # microseconds to compile a program, and per operation in it


class Cost(NamedTuple):
    """Estimated microseconds.

    call: of a call with NumPy; compilation: of its compilation; products: of the products in the call; loops: of its
    loops of unknown length, if they have `iterations` in all.
    """

    call: float
    compilation: float
    products: float = 0.0
    loops: float = 0.0
    iterations: float = 0.0

    def after(self, iterations: int) -> Cost:
        """Returns the cost of a call whose loops have had this number of iterations."""
        loops = self.loops * iterations / self.iterations
        return self._replace(call=self.call - self.loops + loops, loops=loops, iterations=max(iterations, 1))

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
    total = _cost(closed.jaxpr, number)
    return Cost(total.call, _PROGRAM + _COMPILED * total.operations, total.products, total.loops, total.iterations)


def cost_of_work(work: Any, times: float = 1.0) -> Cost:
    """Returns the cost of an operator's form from its `Work`; times: factor for its gradients."""
    products = times * _BLAS * work.products
    compilation = _PROGRAM + times * work.operations * _COMPILED
    return Cost(_CALL + times * _ELEMENT * work.elements + products, compilation, products)


class _Total(NamedTuple):
    """Sums over operations; the fields are those of `Cost`, and the number of operations."""

    call: float = _OPERATION
    operations: int = 0
    products: float = 0.0
    loops: float = 0.0
    iterations: float = 0.0

    def plus(self, other: _Total) -> _Total:
        return _Total(self.call + other.call, self.operations + other.operations, self.products + other.products,
                      self.loops + other.loops, self.iterations + other.iterations)

    def repeated(self, times: float) -> _Total:
        return _Total(self.call * times, self.operations, self.products * times, self.loops * times,
                      self.iterations * times)


def _cost(jaxpr: Jaxpr, number: Callable[[Any], Any]) -> _Total:
    total = _Total()
    for eqn in jaxpr.eqns:
        inner = called(eqn)
        if inner is not None:
            more = _cost(inner.jaxpr, number)
        elif eqn.primitive.name == "scan":
            more = _cost(eqn.params["jaxpr"].jaxpr, number).repeated(number(eqn.params["length"]))
        elif eqn.primitive.name == "while":
            more = _cost(eqn.params["body_jaxpr"].jaxpr, number).repeated(_LOOP)
            more = more._replace(loops=more.call, iterations=_LOOP)
        else:
            elements = sum(math.prod(map(number, aval_of(v).shape)) for v in eqn.outvars)
            products = _multiplied(eqn, elements, number)
            more = _Total(_OPERATION + _ELEMENT * elements + products, 1, products)
        total = total.plus(more)
    return total


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
