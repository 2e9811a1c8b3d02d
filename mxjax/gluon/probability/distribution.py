"""`Distribution`, and distributions derived from others."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy

from ...symbol import Symbol
from .constraint import Constraint, dependent_property
from .transformation import Transformation
from .utils import _is_number, _shape, logit2prob, np, prob2logit, sum_right_most

if TYPE_CHECKING:
    from .utils import Shape, Value

__all__ = ["Distribution", "ExponentialFamily", "Independent", "TransformedDistribution"]

Base = TypeVar("Base", bound="Distribution")


class Distribution:
    """Base of all distributions, over batches: parameters are arrays, symbols or numbers, and broadcast.

    Subclasses declare their parameters in `arg_constraints` and define `_log_prob`, `sample` and
    those of `_cdf`, `icdf`, `mean`, `variance` and `entropy` that have a closed form. The others
    raise NotImplementedError.

    Args:
        event_dim: number of trailing axes that form one value.
        validate_args: check the parameters now, and values in `log_prob` and `cdf`. None: the
            default, which `set_default_validate_args` sets.

    Attributes:
        has_grad: whether samples are differentiable with respect to the parameters.
    """

    has_grad = False
    support: Any = None
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    _validate_args = False

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check their arguments by default."""
        if value not in (True, False):
            raise ValueError(f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, event_dim: int | None = None, validate_args: bool | None = None) -> None:
        self.event_dim = event_dim
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if name in self.__dict__:
                    setattr(self, name, constraint.check(getattr(self, name)))

    # ------------------------------------------------------------------ parameters
    _param_dims: ClassVar[dict[str, int]] = {}  # how many axes of a parameter, the last ones, are no batch's

    def _given(self) -> dict[str, Any]:
        """The parameters that were given, by name."""
        return {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}

    @property
    def _batch_shape(self) -> tuple[int, ...]:
        shapes = []
        for name, value in self._given().items():
            if isinstance(value, Symbol):
                raise NotImplementedError(f"{type(self).__name__}: the batch shape of a symbol is unknown; pass the "
                                          "whole size to sample")
            shape = () if _is_number(value) else value.shape
            shapes.append(shape[:len(shape) - self._param_dims.get(name, 0)])
        return numpy.broadcast_shapes(*shapes)

    def broadcast_to(self, batch_shape: Sequence[int]) -> Distribution:
        """Returns the distribution with its parameters broadcast to another shape.

        Args:
            batch_shape: shape of the parameters, without the event axes.
        """
        new = copy.copy(self)
        for name in self.arg_constraints:  # values computed from them
            new.__dict__.pop(name, None)
        for name, value in self._given().items():
            dims = self._param_dims.get(name, 0)
            own = value.shape[value.ndim - dims:] if dims else ()
            setattr(new, name, np.full(batch_shape, value) if _is_number(value) else
                    np.broadcast_to(value, (*batch_shape, *own)))
        return new

    # ------------------------------------------------------------------ interface of distributions
    def log_prob(self, value: Value) -> Any:
        """Returns the logarithm of the density, or of the probability, at a value."""
        if self._validate_args:
            value = self._validate_samples(value)
        return self._log_prob(value)

    def _log_prob(self, value: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def pdf(self, value: Value) -> Any:
        """Returns the density, or the probability, at a value."""
        return np.exp(self.log_prob(value))

    def cdf(self, value: Value) -> Any:
        """Returns the probability of values less than or equal to a value."""
        if self._validate_args:
            value = self._validate_samples(value)
        return self._cdf(value)

    def _cdf(self, value: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Value) -> Any:
        """Returns the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def sample(self, size: Shape = None) -> Any:
        """Draws samples.

        Args:
            size: shape of the result, without the event axes; by default that of the parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be sampled")

    def sample_n(self, size: Shape = None) -> Any:
        """Draws samples for each set of parameters.

        Args:
            size: an int or a tuple; the parameters' shape is appended to it.
        """
        return self.sample(_shape(size) + self._batch_shape)

    def enumerate_support(self) -> Any:
        """Returns all possible values along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__}: there are too many values to enumerate")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return np.sqrt(self.variance)

    def entropy(self) -> Any:
        """Returns the mean of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """Returns exp(entropy)."""
        return np.exp(self.entropy())

    def _validate_samples(self, value: Value) -> Any:
        return self.support.check(value)

    def __repr__(self) -> str:
        parts = [f"{name}: size {() if _is_number(x) else getattr(x, 'shape', None)}"
                 for name, x in self._given().items()]
        return f"{type(self).__name__}({', '.join([*parts, f'event_dim: {self.event_dim}'])})"


class ExponentialFamily(Distribution):
    """Base of distributions whose log density is linear in functions of the value."""


class _ByProb(Distribution):
    """A distribution whose parameter is a probability or a logit; each is made of the other."""

    _binary = True  # the probability of 1, or one for each class along the last axis

    def _take(self, prob: Value | None, logit: Value | None) -> None:
        if (prob is None) == (logit is None):
            raise ValueError(f"{type(self).__name__}: either `prob` or `logit` must be specified, but not both; "
                             f"got prob={prob}, logit={logit}")
        if prob is not None:
            self.prob = prob
        else:
            self.logit = logit

    @cached_property
    def prob(self) -> Any:
        """The probability."""
        return logit2prob(self.logit, self._binary)

    @cached_property
    def logit(self) -> Any:
        """The logit."""
        return prob2logit(self.prob, self._binary)

    def _given(self) -> dict[str, Any]:
        # the copy must not share values computed for the other
        params = super()._given()
        if "prob" in params and "logit" in params:
            del params["logit" if list(self.__dict__).index("prob") < list(self.__dict__).index("logit") else "prob"]
        return params


def _event_dim(distribution: Distribution) -> int:
    """Returns the number of axes that are one value.

    Raises:
        TypeError: the distribution does not define it.
    """
    if distribution.event_dim is None:
        raise TypeError(f"{type(distribution).__name__} has no event_dim: pass it to Distribution.__init__")
    return distribution.event_dim


class Independent(Distribution):
    """A distribution in which batch axes of another one become event axes.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: number of trailing batch axes to convert.
        validate_args: as in `Distribution`.
    """

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(reinterpreted_batch_ndims + _event_dim(base_distribution), validate_args)

    @property
    def _batch_shape(self) -> tuple[int, ...]:
        return self.base_dist._batch_shape

    def broadcast_to(self, batch_shape: Sequence[int]) -> Independent:
        own = self._batch_shape
        new = copy.copy(self)
        new.base_dist = self.base_dist.broadcast_to((*batch_shape, *own[len(own) - self.reinterpreted_batch_ndims:]))
        return new

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """True if all values can be enumerated."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """Support of the base distribution."""
        return self.base_dist.support

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, size: Shape = None) -> Any:
        return self.base_dist.sample(size)

    def _log_prob(self, value: Value) -> Any:
        return sum_right_most(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_right_most(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self) -> Any:
        if self.reinterpreted_batch_ndims:
            return super().enumerate_support()
        return self.base_dist.enumerate_support()


class TransformedDistribution(Distribution, Generic[Base]):
    """The distribution of a function of a random variable.

    Args:
        base_dist: the variable's distribution.
        transforms: a transformation, or a list of transformations in the order of application.
        validate_args: as in `Distribution`.
    """

    def __init__(self, base_dist: Base, transforms: Transformation | list[Transformation],
                 validate_args: bool | None = None) -> None:
        self._base_dist = base_dist
        self._transforms = [transforms] if isinstance(transforms, Transformation) else list(transforms)
        super().__init__(max([_event_dim(base_dist), *[t.event_dim for t in self._transforms]]), validate_args)

    @property
    def _batch_shape(self) -> tuple[int, ...]:
        return super()._batch_shape if self._given() else self._base_dist._batch_shape

    def sample(self, size: Shape = None) -> Any:
        return self._transformed(self._base_dist.sample(size))

    def sample_n(self, size: Shape = None) -> Any:
        if self._given():
            return super().sample_n(size)
        return self._transformed(self._base_dist.sample_n(size))

    def _transformed(self, x: Value) -> Any:
        for transform in self._transforms:
            x = transform(x)
        return x

    def _log_prob(self, value: Value) -> Any:
        total = 0.0
        for transform in reversed(self._transforms):
            x = transform.inv(value)
            total = total - sum_right_most(transform.log_det_jacobian(x, value), _event_dim(self) - transform.event_dim)
            value = x
        return total + sum_right_most(self._base_dist.log_prob(value), _event_dim(self) - _event_dim(self._base_dist))

    @property
    def _sign(self) -> Any:
        sign = 1
        for transform in self._transforms:
            sign = sign * transform.sign
        return sign

    def _cdf(self, value: Value) -> Any:
        for transform in reversed(self._transforms):
            value = transform.inv(value)
        return self._sign * (self._base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Value) -> Any:
        return self._transformed(self._base_dist.icdf(self._sign * (value - 0.5) + 0.5))
