"""Functions of random variables, with their inverses and the logarithms of their derivatives' determinants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..block import HybridBlock
from .constraint import Constraint, GreaterThan, GreaterThanEq, HalfOpenInterval, Interval, LessThan, Positive, _Bounded
from .utils import _clip_prob, _is_number, _softplus, np, npx, sum_right_most

if TYPE_CHECKING:
    from .utils import Value

__all__ = ["AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
           "SoftmaxTransform", "TransformBlock", "Transformation", "biject_to", "domain_map", "transform_to"]


class Transformation:
    """A function y = t(x). Subclasses define `_forward_compute`, `_inverse_compute`, `log_det_jacobian` and `sign`.

    Attributes:
        bijective: whether there is one x for each y.
        event_dim: number of trailing axes that form one value.
    """

    bijective = False
    event_dim = 0

    @property
    def sign(self) -> Any:
        """1 for an increasing function, -1 for a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    @property
    def inv(self) -> Transformation:
        """The inverse function."""
        return _Inverse(self)

    def __call__(self, x: Value) -> Any:
        return self._forward_compute(x)

    def _inv_call(self, y: Value) -> Any:
        return self._inverse_compute(y)

    def _forward_compute(self, x: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _forward_compute")

    def _inverse_compute(self, y: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        """Returns the logarithm of the absolute determinant of the Jacobian at x, where y = t(x)."""
        raise NotImplementedError(f"{type(self).__name__} has no log_det_jacobian")


class _Inverse(Transformation):
    def __init__(self, forward: Transformation) -> None:
        self._inverse = forward
        self.event_dim, self.bijective = forward.event_dim, forward.bijective

    @property
    def sign(self) -> Any:
        return self._inverse.sign

    @property
    def inv(self) -> Transformation:
        return self._inverse

    def _forward_compute(self, x: Value) -> Any:
        return self._inverse._inverse_compute(x)

    def _inverse_compute(self, y: Value) -> Any:
        return self._inverse._forward_compute(y)

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        return -self._inverse.log_det_jacobian(y, x)


class TransformBlock(Transformation, HybridBlock):
    """A transformation with parameters: a block that defines the methods of a transformation."""

    def __call__(self, x: Value) -> Any:
        return HybridBlock.__call__(self, x)


class ComposeTransform(Transformation):
    """Composes transformations.

    Args:
        parts: the transformations in the order of application.
    """

    def __init__(self, parts: Sequence[Transformation]) -> None:
        self._parts = list(parts)
        self.event_dim = max((part.event_dim for part in self._parts), default=0)
        self.bijective = all(part.bijective for part in self._parts)

    @cached_property
    def sign(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  a property, too
        """The product of the parts' signs."""
        sign = 1
        for part in self._parts:
            sign = sign * part.sign
        return sign

    def _forward_compute(self, x: Value) -> Any:
        for part in self._parts:
            x = part(x)
        return x

    def _inverse_compute(self, y: Value) -> Any:
        for part in reversed(self._parts):
            y = part.inv(y)
        return y

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        total = np.zeros_like(x)
        for part in self._parts:
            after = part(x)
            total = total + sum_right_most(part.log_det_jacobian(x, after), self.event_dim - part.event_dim)
            x = after
        return total


class _Increasing(Transformation):
    bijective = True
    sign: Any = 1  # pyright: ignore[reportIncompatibleMethodOverride]  no property, so that classes have it, too


class ExpTransform(_Increasing):
    """exp(x)."""

    def _forward_compute(self, x: Value) -> Any:
        return np.exp(x)

    def _inverse_compute(self, y: Value) -> Any:
        return np.log(y)

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        return x


class AffineTransform(Transformation):
    """loc + scale * x.

    Args:
        loc, scale: arrays or numbers.
        event_dim: number of trailing axes that form one value.
    """

    bijective = True

    def __init__(self, loc: Value, scale: Value, event_dim: int = 0) -> None:
        self._loc, self._scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        return np.sign(self._scale)

    def _forward_compute(self, x: Value) -> Any:
        return self._loc + self._scale * x

    def _inverse_compute(self, y: Value) -> Any:
        return (y - self._loc) / self._scale

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        return sum_right_most(np.ones_like(x) * np.log(np.abs(self._scale)), self.event_dim)


class PowerTransform(_Increasing):
    """x ** exponent, for x > 0.

    Args:
        exponent: array or number.
    """

    def __init__(self, exponent: Value) -> None:
        self._exponent = exponent

    def _forward_compute(self, x: Value) -> Any:
        return np.power(x, self._exponent)

    def _inverse_compute(self, y: Value) -> Any:
        return np.power(y, 1 / self._exponent)

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        return np.log(np.abs(self._exponent * y / x))


class SigmoidTransform(_Increasing):
    """1 / (1 + exp(-x))."""

    def _forward_compute(self, x: Value) -> Any:
        return _clip_prob(npx.sigmoid(x))

    def _inverse_compute(self, y: Value) -> Any:
        y = _clip_prob(y)
        return np.log(y) - np.log1p(-y)

    def log_det_jacobian(self, x: Value, y: Value) -> Any:
        return -_softplus(-x) - _softplus(x)


class SoftmaxTransform(Transformation):
    """The softmax along the last axis; it is not injective, and `inv` returns one of the inverses."""

    event_dim = 1

    def _forward_compute(self, x: Value) -> Any:
        return npx.softmax(x, axis=-1)

    def _inverse_compute(self, y: Value) -> Any:
        return np.log(y)


class AbsTransform(Transformation):
    """abs(x); `inv` returns the positive one of the two inverses."""

    def _forward_compute(self, x: Value) -> Any:
        return np.abs(x)

    def _inverse_compute(self, y: Value) -> Any:
        return y


class domain_map:  # noqa: N801  MXNet's name
    """A registry of transformations from the real numbers to the sets of constraints.

    Example:
        >>> float(biject_to(Positive())(mx.np.array(0.0)))
        1.0
    """

    def __init__(self) -> None:
        self._storage: dict[type, Callable[[Any], Transformation]] = {}

    def register(self, constraint: Constraint | type[Constraint],
                 factory: Callable[[Any], Transformation] | None = None) -> Any:
        """Registers a function that creates the transformation for a constraint; without a function, a decorator.

        Raises:
            TypeError: `constraint` is neither a constraint nor a class of constraints.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        cls = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(cls, type) and issubclass(cls, Constraint)):
            raise TypeError(f"expected a constraint or a class of constraints, got {constraint!r}")
        self._storage[cls] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transformation:
        if type(constraint) not in self._storage:
            raise NotImplementedError(f"there is no transformation to {type(constraint).__name__}")
        return self._storage[type(constraint)](constraint)


biject_to = domain_map()
transform_to = domain_map()


def _to_interval(constraint: _Bounded) -> Transformation:
    low, high = constraint._lower_bound, constraint._upper_bound
    width = high - low
    if _is_number(low) and _is_number(high) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, width)])


def _to_above(constraint: _Bounded) -> Transformation:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint._lower_bound, 1)])


for _map in (biject_to, transform_to):
    _map.register(Positive, lambda constraint: ExpTransform())
    _map.register(GreaterThan, _to_above)
    _map.register(GreaterThanEq, _to_above)
    _map.register(LessThan, lambda c: ComposeTransform([ExpTransform(), AffineTransform(c._upper_bound, -1)]))
    _map.register(Interval, _to_interval)
    _map.register(HalfOpenInterval, _to_interval)
