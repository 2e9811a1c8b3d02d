"""Distributions of integers and classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ... import ndarray as _nd
from ... import symbol as _sym
from .constraint import Boolean, GreaterThanEq, IntegerInterval, Interval, NonNegativeInteger, Positive, Real, Simplex
from .distribution import ExponentialFamily, _ByProb
from .utils import (
    _clip_prob,
    _Front,
    _is_number,
    _shape,
    _softplus,
    gammaln,
    np,
    npx,
    random,
    random_extension,
)

if TYPE_CHECKING:
    from .utils import Shape, Value

__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "NegativeBinomial", "OneHotCategorical",
           "Poisson"]

_lgamma = gammaln()
_classic = _Front(_nd, _sym)
_OF_PROB = {"prob": Interval(0, 1), "logit": Real()}
_OF_CLASSES = {"prob": Simplex(), "logit": Real()}


def _poisson(rate: Any) -> Any:
    """Draws with the rates of an array."""
    return _classic.sample_poisson(rate.as_nd_ndarray()).as_np_ndarray()


def _broadcast(x: Value, size: Shape) -> Any:
    """x in another shape; a number as an array of it."""
    if _is_number(x):
        return np.full(_shape(size), x)
    return x if size is None else np.broadcast_to(x, _shape(size))


class Bernoulli(_ByProb, ExponentialFamily):
    """0 or 1.

    Args:
        prob, logit: probability or logit of 1; specify one of them.
        validate_args: as in `Distribution`.
    """

    support = Boolean()
    arg_constraints = _OF_PROB

    def __init__(self, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        self._take(prob, logit)
        super().__init__(0, validate_args)

    @property
    def mean(self) -> Any:
        return self.prob

    @property
    def variance(self) -> Any:
        return self.prob * (1 - self.prob)

    def _log_prob(self, value: Value) -> Any:
        return value * self.logit - _softplus(self.logit)

    def sample(self, size: Shape = None) -> Any:
        return random_extension.bernoulli(self.prob, None, size)

    def entropy(self) -> Any:
        return _softplus(self.logit) - self.prob * self.logit


class Geometric(_ByProb):
    """The geometric distribution: the number of failures before the first success.

    Args:
        prob, logit: probability or logit of a success; specify one of them.
        validate_args: as in `Distribution`.
    """

    support = NonNegativeInteger()
    arg_constraints = _OF_PROB

    def __init__(self, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        self._take(prob, logit)
        super().__init__(0, validate_args)

    @property
    def mean(self) -> Any:
        return 1 / self.prob - 1

    @property
    def variance(self) -> Any:
        return (1 / self.prob - 1) / self.prob

    def _log_prob(self, value: Value) -> Any:
        return value * np.log1p(-self.prob) + np.log(self.prob)

    def sample(self, size: Shape = None) -> Any:
        u = _clip_prob(random.uniform(self.prob * 0.0, 1.0, size=size))
        return np.floor(np.log(u) / np.log1p(-self.prob))

    def entropy(self) -> Any:
        return (_softplus(self.logit) - self.prob * self.logit) / self.prob


class Binomial(_ByProb):
    """The binomial distribution: the number of successes among n trials.

    Args:
        n: number of trials.
        prob, logit: probability or logit of a success; specify one of them.
        validate_args: as in `Distribution`.
    """

    support = NonNegativeInteger()
    arg_constraints = _OF_PROB

    def __init__(self, n: Value = 1, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        if n < 0 or n % 1 != 0:
            raise ValueError(f"Binomial: n must be a non-negative integer, got {n}")
        self._take(prob, logit)
        self.n: Any = n
        super().__init__(0, validate_args)

    @property
    def mean(self) -> Any:
        return self.n * self.prob

    @property
    def variance(self) -> Any:
        return self.n * self.prob * (1 - self.prob)

    def _log_prob(self, value: Value) -> Any:
        ways = _lgamma(self.n + 1) - _lgamma(1 + value) - _lgamma(self.n - value + 1)
        return ways + value * np.log(self.prob) + (self.n - value) * np.log1p(-self.prob)

    def sample(self, size: Shape = None) -> Any:
        prob = np.expand_dims(_broadcast(self.prob, size), -1)
        return random_extension.bernoulli(np.repeat(prob, int(self.n), -1), None).sum(axis=-1)


class NegativeBinomial(_ByProb):
    """The negative binomial distribution. Its log_prob counts failures before the n-th success; its
    samples and moments count successes before the n-th failure.

    In MXNet's log_prob `prob` is the probability of a success; in its mean, variance and samples it
    is that of a failure.

    Args:
        n: an array or a number.
        prob, logit: see above; specify one of them.
        validate_args: as in `Distribution`.
    """

    support = NonNegativeInteger()
    arg_constraints = {"n": GreaterThanEq(0), **_OF_PROB}

    def __init__(self, n: Value, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        self._take(prob, logit)
        self.n: Any = n
        super().__init__(0, validate_args)

    @property
    def mean(self) -> Any:
        return self.n * np.exp(self.logit)

    @property
    def variance(self) -> Any:
        return self.n * self.prob / (1 - self.prob) ** 2

    def _log_prob(self, value: Value) -> Any:
        ways = _lgamma(value + self.n) - _lgamma(1 + value) - _lgamma(self.n)
        return ways + self.n * np.log(self.prob) + value * np.log1p(-self.prob)

    def sample(self, size: Shape = None) -> Any:
        like = (self.n + self.logit) * 0.0
        return _poisson(random.gamma(self.n + like, 1, size) * np.exp(self.logit))


class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Args:
        rate: the mean.
        validate_args: as in `Distribution`.
    """

    support = NonNegativeInteger()
    arg_constraints = {"rate": Positive()}

    def __init__(self, rate: Value = 1.0, validate_args: bool | None = None) -> None:
        self.rate = rate
        super().__init__(0, validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, size: Shape = None) -> Any:
        return _poisson(_broadcast(self.rate, size))

    def _log_prob(self, value: Value) -> Any:
        return value * np.log(self.rate) - self.rate - _lgamma(value + 1)


class _ByClasses(_ByProb):
    """A distribution with a probability for each class, along the last axis."""

    _binary = False
    _param_dims = {"prob": 1, "logit": 1}
    arg_constraints = _OF_CLASSES

    def __init__(self, num_events: int, prob: Value | None, logit: Value | None, event_dim: int,
                 validate_args: bool | None) -> None:
        if not num_events > 0:
            raise ValueError(f"{type(self).__name__}: num_events must be greater than zero, got {num_events}")
        self.num_events = int(num_events)
        self._take(prob, logit)
        super().__init__(event_dim, validate_args)

    def _log_probs(self) -> Any:
        """Logarithms of probabilities whose sum is 1."""
        return npx.log_softmax(self.logit, axis=-1)

    def _largest(self, size: Shape, temperature: Value = 1.0) -> Any:
        """Logits with Gumbel noise, of which the largest is a draw."""
        logit = self.logit if size is None else np.broadcast_to(self.logit, (*_shape(size), self.num_events))
        return random.gumbel(logit) / temperature


class Categorical(_ByClasses):
    """The categorical distribution of class indices.

    Args:
        num_events: number of classes.
        prob, logit: (..., classes); specify one of them.
        validate_args: as in `Distribution`.

    Example:
        >>> mx.gluon.probability.Categorical(2, mx.np.array([0.25, 0.75])).pdf(mx.np.array([1, 0])).round(4).asnumpy()
        array([0.75, 0.25], dtype=float32)
    """

    has_enumerate_support = True

    def __init__(self, num_events: int, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(num_events, prob, logit, 0, validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """0, 1, ... below the number of classes."""
        return IntegerInterval(0, self.num_events - 1)

    def _log_prob(self, value: Value) -> Any:
        return (npx.one_hot(value, self.num_events) * self._log_probs()).sum(axis=-1)

    def sample(self, size: Shape = None) -> Any:
        return np.argmax(self._largest(size), axis=-1)

    def enumerate_support(self) -> Any:
        shape = self._batch_shape
        return np.broadcast_to(np.arange(self.num_events).reshape((-1,) + (1,) * len(shape)), (self.num_events, *shape))

    def entropy(self) -> Any:
        logs = self._log_probs()
        return -(np.exp(logs) * logs).sum(axis=-1)


class OneHotCategorical(_ByClasses):
    """The categorical distribution of one-hot vectors; arguments as in `Categorical`."""

    has_enumerate_support = True

    def __init__(self, num_events: int, prob: Value | None = None, logit: Value | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(num_events, prob, logit, 1, validate_args)

    support = Simplex()

    @property
    def mean(self) -> Any:
        return self.prob

    @property
    def variance(self) -> Any:
        return self.prob * (1 - self.prob)

    def sample(self, size: Shape = None) -> Any:
        return npx.one_hot(np.argmax(self._largest(size), axis=-1), self.num_events)

    def _log_prob(self, value: Value) -> Any:
        return (value * self._log_probs()).sum(axis=-1)

    def enumerate_support(self) -> Any:
        return npx.one_hot(Categorical(self.num_events, self.prob).enumerate_support(), self.num_events)

    entropy = Categorical.entropy


class Multinomial(_ByClasses):
    """The multinomial distribution: the counts of each class in a number of draws.

    Args:
        num_events: number of classes.
        prob, logit: (..., classes); specify one of them.
        total_count: number of draws.
        validate_args: as in `Distribution`.
    """

    def __init__(self, num_events: int, prob: Value | None = None, logit: Value | None = None, total_count: int = 1,
                 validate_args: bool | None = None) -> None:
        if not _is_number(total_count):
            raise ValueError(f"Multinomial: total_count must be a number, got a {type(total_count).__name__}")
        self.total_count = total_count
        super().__init__(num_events, prob, logit, 1, validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """Integers up to the number of draws."""
        return IntegerInterval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.prob * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.prob * (1 - self.prob)

    def sample(self, size: Shape = None) -> Any:
        batch = self._batch_shape if size is None else _shape(size)
        draws = np.argmax(self._largest((int(self.total_count), *batch)), axis=-1)
        return npx.one_hot(draws, self.num_events).sum(axis=0)

    def _log_prob(self, value: Value) -> Any:
        ways = _lgamma(np.sum(value, axis=-1) + 1) - _lgamma(value + 1).sum(axis=-1)
        return ways + (self._log_probs() * value).sum(axis=-1)


class _LogRelaxed(_ByClasses):
    has_grad = True
    support = Real()

    def __init__(self, T: Value, num_events: int, prob: Value | None, logit: Value | None,  # noqa: N803
                 validate_args: bool | None) -> None:
        self.T = T
        super().__init__(num_events, prob, logit, 1, validate_args)

    def sample(self, size: Shape = None) -> Any:
        return npx.log_softmax(self._largest(size, self.T), axis=-1)

    def _log_prob(self, value: Value) -> Any:
        count = self.num_events
        return npx.log_softmax(self.logit - value * self.T, axis=-1).sum(axis=-1) \
            + float(numpy.log(numpy.arange(1, count)).sum()) + (count - 1) * np.log(self.T)
