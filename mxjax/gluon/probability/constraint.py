"""Constraints on values: `check` returns the value or raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .utils import constraint_check, linalg, np

if TYPE_CHECKING:
    from .utils import Value

__all__ = ["Boolean", "Cat", "Constraint", "GreaterThan", "GreaterThanEq", "HalfOpenInterval", "IntegerGreaterThan",
           "IntegerGreaterThanEq", "IntegerHalfOpenInterval", "IntegerInterval", "IntegerLessThan", "IntegerLessThanEq",
           "IntegerOpenInterval", "Interval", "LessThan", "LessThanEq", "LowerCholesky", "LowerTriangular",
           "NonNegative", "NonNegativeInteger", "OpenInterval", "Positive", "PositiveDefinite", "PositiveInteger",
           "Real", "Simplex", "Stack", "UnitInterval", "dependent_property", "is_dependent"]


class Constraint:
    """Base of all constraints. Subclasses define `_holds` and `_expected`."""

    _expected = ""  # of a value, in messages

    def check(self, value: Value) -> Any:
        """Returns the value if it satisfies the constraint.

        Raises:
            ValueError: it does not. For an array, the error is raised when the result is read.
        """
        return constraint_check()(self._holds(value), f"Constraint violated: {self._description()}") * value

    def _holds(self, value: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define check")

    def _description(self) -> str:
        return f"expected {self._expected}"


class _Dependent(Constraint):
    """A set that depends on a distribution's parameters, so that only an instance can check it."""

    def check(self, value: Value) -> Any:
        raise ValueError("Cannot validate a dependent constraint: use the support of a distribution")


class dependent_property(property, _Dependent):  # noqa: N801  MXNet's name
    """A property whose value is a constraint that depends on parameters."""


def is_dependent(constraint: object) -> bool:
    """Returns whether a constraint depends on a distribution's parameters."""
    return isinstance(constraint, _Dependent)


class Real(Constraint):
    """Numbers that are not NaN."""

    _expected = "real numbers"

    def _holds(self, value: Value) -> Any:
        return value == value


class Boolean(Constraint):
    """0 and 1."""

    _expected = "0 or 1"

    def _holds(self, value: Value) -> Any:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Numbers, or integers, between bounds that may belong to the set."""

    _lower_bound: Any = -math.inf
    _upper_bound: Any = math.inf
    _with_bounds = (True, True)
    _integer = False

    def _holds(self, value: Value) -> Any:
        low, high = self._with_bounds
        above = value >= self._lower_bound if low else value > self._lower_bound
        holds = above & (value <= self._upper_bound if high else value < self._upper_bound)
        return holds & (value % 1 == 0) if self._integer else holds

    def _description(self) -> str:
        low, high = self._with_bounds
        noun = "integers" if self._integer else "numbers"
        return f"expected {noun} {'>=' if low else '>'} {self._lower_bound} and {'<=' if high else '<'} " \
               f"{self._upper_bound}"


class Interval(_Bounded):
    """Numbers between two bounds, both inclusive."""

    def __init__(self, lower_bound: Value, upper_bound: Value) -> None:
        self._lower_bound, self._upper_bound = lower_bound, upper_bound


class OpenInterval(Interval):
    """Numbers between two bounds, both exclusive."""

    _with_bounds = (False, False)


class HalfOpenInterval(Interval):
    """Numbers between two bounds, of which only the lower is inclusive."""

    _with_bounds = (True, False)


class UnitInterval(Interval):
    """Numbers from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)


class IntegerInterval(Interval):
    """Integers between two bounds, both inclusive."""

    _integer = True


class IntegerOpenInterval(OpenInterval):
    """Integers between two bounds, both exclusive."""

    _integer = True


class IntegerHalfOpenInterval(HalfOpenInterval):
    """Integers between two bounds, of which only the lower is inclusive."""

    _integer = True


class GreaterThanEq(_Bounded):
    """Numbers greater than or equal to a bound."""

    def __init__(self, lower_bound: Value) -> None:
        self._lower_bound = lower_bound


class GreaterThan(GreaterThanEq):
    """Numbers greater than a bound."""

    _with_bounds = (False, True)


class LessThanEq(_Bounded):
    """Numbers less than or equal to a bound."""

    def __init__(self, upper_bound: Value) -> None:
        self._upper_bound = upper_bound


class LessThan(LessThanEq):
    """Numbers less than a bound."""

    _with_bounds = (True, False)


class IntegerGreaterThanEq(GreaterThanEq):
    """Integers greater than or equal to a bound."""

    _integer = True


class IntegerGreaterThan(GreaterThan):
    """Integers greater than a bound."""

    _integer = True


class IntegerLessThanEq(LessThanEq):
    """Integers less than or equal to a bound."""

    _integer = True


class IntegerLessThan(LessThan):
    """Integers less than a bound."""

    _integer = True


class Positive(GreaterThan):
    """Positive numbers."""

    def __init__(self) -> None:
        super().__init__(0)


class NonNegative(GreaterThanEq):
    """Nonnegative numbers."""

    def __init__(self) -> None:
        super().__init__(0)


class PositiveInteger(IntegerGreaterThan):
    """1, 2, ..."""

    def __init__(self) -> None:
        super().__init__(0)


class NonNegativeInteger(IntegerGreaterThanEq):
    """0, 1, 2, ..."""

    def __init__(self) -> None:
        super().__init__(0)


class Simplex(Constraint):
    """Vectors of nonnegative numbers with sum 1, along the last axis."""

    _expected = "numbers >= 0 that sum up to 1 along the last axis"

    def _holds(self, value: Value) -> Any:
        return ((value >= 0) & (np.abs(np.sum(value, axis=-1, keepdims=True) - 1) < 1e-6)).all()


class LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal, along the last two axes."""

    _expected = "lower triangular matrices"

    def _holds(self, value: Value) -> Any:
        return (np.tril(value) == value).all()


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices whose diagonal is positive."""

    _expected = "lower triangular matrices with a positive diagonal"

    def _holds(self, value: Value) -> Any:
        return super()._holds(value) & (np.diagonal(value, axis1=-2, axis2=-1) > 0).all()


class PositiveDefinite(Constraint):
    """Symmetric matrices whose eigenvalues are positive, along the last two axes."""

    _expected = "symmetric positive definite matrices"

    def _holds(self, value: Value) -> Any:
        symmetric = (np.abs(value - np.swapaxes(value, -1, -2)) < 1e-5).all()
        return symmetric & (linalg.eigvalsh(value) > 0).all()


class Cat(Constraint):
    """Separate constraints for consecutive parts of an array along an axis.

    Args:
        constraint_seq: the constraints.
        axis: axis of the parts.
        lengths: the parts' lengths; 1 by default.
    """

    def __init__(self, constraint_seq: Sequence[Constraint], axis: int = 0,
                 lengths: Sequence[int] | None = None) -> None:
        self._parts, self._axis = _constraints(constraint_seq), axis
        self._lengths = [1] * len(self._parts) if lengths is None else list(lengths)
        if len(self._lengths) != len(self._parts):
            raise AssertionError(f"expected one length per constraint ({len(self._parts)}), got {len(self._lengths)}")

    def check(self, value: Value) -> Any:
        checked, start = [], 0
        for constraint, length in zip(self._parts, self._lengths, strict=True):
            part = np.take(value, np.arange(start, start + length), axis=self._axis)
            checked.append(constraint.check(part))
            start += length
        return np.concatenate(checked, axis=self._axis)


class Stack(Constraint):
    """Separate constraints for the slices of an array along an axis.

    Args:
        constraint_seq: the constraints.
        axis: axis of the slices.
    """

    def __init__(self, constraint_seq: Sequence[Constraint], axis: int = 0) -> None:
        self._parts, self._axis = _constraints(constraint_seq), axis

    def check(self, value: Any) -> Any:
        if value.shape[self._axis] != len(self._parts):
            raise ValueError(f"expected one slice per constraint ({len(self._parts)}), got {value.shape[self._axis]}")
        slices = [np.squeeze(part, axis=self._axis) for part in np.split(value, len(self._parts), axis=self._axis)]
        return np.stack([c.check(x) for c, x in zip(self._parts, slices, strict=True)], axis=self._axis)


def _constraints(parts: Sequence[Constraint]) -> list[Constraint]:
    for part in parts:
        if not isinstance(part, Constraint):
            raise AssertionError(f"expected constraints, got a {type(part).__name__}")
    return list(parts)
