"""Continuous distributions of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from .constraint import GreaterThan, Interval, OpenInterval, Positive, Real, UnitInterval, dependent_property
from .distribution import Distribution, ExponentialFamily, TransformedDistribution, _ByProb
from .transformation import AbsTransform, AffineTransform, ExpTransform, PowerTransform, SigmoidTransform
from .utils import _clip_prob, _softplus, digamma, erf, erfinv, gammaln, np, random

if TYPE_CHECKING:
    from .utils import Shape, Value

__all__ = ["Beta", "Cauchy", "Chi2", "Exponential", "FisherSnedecor", "Gamma", "Gumbel", "HalfCauchy", "HalfNormal",
           "Laplace", "Normal", "Pareto", "RelaxedBernoulli", "StudentT", "Uniform", "Weibull"]

_lgamma, _digamma, _erf, _erfinv = gammaln(), digamma(), erf(), erfinv()
_log2 = math.log(2)


def _uniform_like(x: Value, size: Shape) -> Any:
    """Uniform draws above 0, in the shape of x where there is no size."""
    return _clip_prob(random.uniform(x * 0.0, 1.0, size=size))


class _LocScale(Distribution):
    """A distribution that is moved by `loc` and stretched by `scale`."""

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Positive()}

    def __init__(self, loc: Value = 0.0, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.loc, self.scale = loc, scale
        super().__init__(0, validate_args)

    def _standard(self, value: Value) -> Any:
        return (value - self.loc) / self.scale

    def sample(self, size: Shape = None) -> Any:
        return self.icdf(_uniform_like(self.loc + self.scale, size))


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc, scale: mean and standard deviation.
        validate_args: as in `Distribution`.

    Example:
        >>> normal = mx.gluon.probability.Normal(mx.np.array([0.0, 1.0]), 2.0)
        >>> normal.sample_n(3).shape, normal.cdf(mx.np.array(1.0)).asnumpy().round(3)
        ((3, 2), array([0.691, 0.5  ], dtype=float32))
    """

    def _log_prob(self, value: Value) -> Any:
        return -0.5 * self._standard(value) ** 2 - np.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def sample(self, size: Shape = None) -> Any:
        return random.normal(self.loc, self.scale, size)

    def _cdf(self, value: Value) -> Any:
        return 0.5 * (1 + _erf(self._standard(value) / math.sqrt(2)))

    def icdf(self, value: Value) -> Any:
        return self.loc + self.scale * _erfinv(2 * value - 1) * math.sqrt(2)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale ** 2

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + np.log(self.scale)


class Laplace(_LocScale):
    """The Laplace distribution: exp(-|value - loc| / scale) / (2 scale); arguments as in `Normal`."""

    def _log_prob(self, value: Value) -> Any:
        return -np.log(2 * self.scale) - np.abs(self._standard(value))

    def _cdf(self, value: Value) -> Any:
        value = self._standard(value)
        return 0.5 - 0.5 * np.sign(value) * np.expm1(-np.abs(value))

    def icdf(self, value: Value) -> Any:
        value = value - 0.5
        return self.loc - self.scale * np.sign(value) * np.log1p(-2 * np.abs(value))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale ** 2

    def entropy(self) -> Any:
        return 1 + np.log(2 * self.scale)


class _NoMoments(Distribution):
    """The common part of distributions that have neither mean nor variance."""

    @property
    def mean(self) -> Any:
        return math.nan

    @property
    def variance(self) -> Any:
        return math.nan


class Cauchy(_NoMoments, _LocScale):
    """The Cauchy distribution, which has neither mean nor variance.

    Args:
        loc, scale: median, and half the interquartile range.
        validate_args: as in `Distribution`.
    """

    def _log_prob(self, value: Value) -> Any:
        return -math.log(math.pi) - np.log(self.scale) - np.log1p(self._standard(value) ** 2)

    def _cdf(self, value: Value) -> Any:
        return np.arctan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value: Value) -> Any:
        return np.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + np.log(self.scale)


class Gumbel(_LocScale):
    """The Gumbel distribution of maxima: cdf exp(-exp(-(value - loc) / scale)).

    Args:
        loc, scale: mode and scale.
        validate_args: as in `Distribution`.
    """

    def __init__(self, loc: Value, scale: Value = 1, validate_args: bool | None = None) -> None:
        super().__init__(loc, scale, validate_args)

    def _log_prob(self, value: Value) -> Any:
        y = -self._standard(value)
        return y - np.exp(y) - np.log(self.scale)

    def _cdf(self, value: Value) -> Any:
        return np.exp(-np.exp(-self._standard(value)))

    def icdf(self, value: Value) -> Any:
        return self.loc - self.scale * np.log(-np.log(value))

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * numpy.euler_gamma

    @property
    def variance(self) -> Any:
        return math.pi ** 2 / 6 * self.scale ** 2

    def entropy(self) -> Any:
        return np.log(self.scale) + (1 + numpy.euler_gamma)


class Uniform(Distribution):
    """The uniform distribution.

    Args:
        low, high: bounds.
        validate_args: as in `Distribution`.
    """

    arg_constraints = {"low": Real(), "high": Real()}

    def __init__(self, low: Value = 0.0, high: Value = 1.0, validate_args: bool | None = None) -> None:
        self.low, self.high = low, high
        super().__init__(0, validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """From `low` to `high`."""
        return Interval(self.low, self.high)

    def _log_prob(self, value: Value) -> Any:
        outside = (value < self.low) | (value >= self.high)
        if isinstance(outside, bool):
            return (-math.inf if outside else 0.0) - np.log(self.high - self.low)
        return np.where(outside, -math.inf, 0.0).astype("float64") - np.log(self.high - self.low)

    def sample(self, size: Shape = None) -> Any:
        return random.uniform(self.low, self.high, size=size)

    def _cdf(self, value: Value) -> Any:
        return np.clip((value - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Value) -> Any:
        return value * (self.high - self.low) + self.low

    @property
    def mean(self) -> Any:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def entropy(self) -> Any:
        return np.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        scale: the mean.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.scale = scale
        super().__init__(0, validate_args)

    @property
    def rate(self) -> Any:
        """1 / scale."""
        return 1 / self.scale

    @property
    def mean(self) -> Any:
        return self.scale

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale ** 2

    def sample(self, size: Shape = None) -> Any:
        return random.exponential(self.scale, size=size)

    def _log_prob(self, value: Value) -> Any:
        return -np.log(self.scale) - value / self.scale

    def _cdf(self, value: Value) -> Any:
        return -np.expm1(-value / self.scale)

    def icdf(self, value: Value) -> Any:
        return -self.scale * np.log1p(-value)

    def entropy(self) -> Any:
        return 1 + np.log(self.scale)


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Args:
        shape, scale: its mean is shape * scale.
        validate_args: as in `Distribution`.
    """

    support = Real()
    arg_constraints = {"shape": Positive(), "scale": Positive()}

    def __init__(self, shape: Value, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.shape, self.scale = shape, scale
        super().__init__(0, validate_args)

    def _log_prob(self, value: Value) -> Any:
        return (self.shape - 1) * np.log(value) - value / self.scale - self.shape * np.log(self.scale) \
            - _lgamma(self.shape)

    def sample(self, size: Shape = None) -> Any:
        return random.gamma(self.shape, 1, size) * self.scale

    @property
    def mean(self) -> Any:
        return self.shape * self.scale

    @property
    def variance(self) -> Any:
        return self.shape * self.scale ** 2

    def entropy(self) -> Any:
        return self.shape + np.log(self.scale) + _lgamma(self.shape) + (1 - self.shape) * _digamma(self.shape)


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: degrees of freedom.
        validate_args: as in `Distribution`.
    """

    arg_constraints = {"df": Positive()}

    def __init__(self, df: Value, validate_args: bool | None = None) -> None:
        self.df = df
        super().__init__(df / 2, 2.0, validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> Chi2:
        return Chi2(np.broadcast_to(self.df, batch_shape), self._validate_args)


class Beta(ExponentialFamily):
    """The beta distribution.

    Args:
        alpha, beta: its mean is alpha / (alpha + beta).
        validate_args: as in `Distribution`.
    """

    support = UnitInterval()
    arg_constraints = {"alpha": Positive(), "beta": Positive()}

    def __init__(self, alpha: Value, beta: Value, validate_args: bool | None = None) -> None:
        self.alpha, self.beta = alpha, beta
        super().__init__(0, validate_args)

    def sample(self, size: Shape = None) -> Any:
        like = (self.alpha + self.beta) * 0.0  # both have the batch's shape
        x, y = random.gamma(self.alpha + like, 1, size), random.gamma(self.beta + like, 1, size)
        return _clip_prob(x / (x + y))

    @property
    def mean(self) -> Any:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total ** 2 * (total + 1))

    def _log_normalizer(self) -> Any:
        return _lgamma(self.alpha) + _lgamma(self.beta) - _lgamma(self.alpha + self.beta)

    def _log_prob(self, value: Value) -> Any:
        return (self.alpha - 1) * np.log(value) + (self.beta - 1) * np.log1p(-value) - self._log_normalizer()

    def entropy(self) -> Any:
        a, b = self.alpha, self.beta
        return self._log_normalizer() - (a - 1) * _digamma(a) - (b - 1) * _digamma(b) + (a + b - 2) * _digamma(a + b)


class FisherSnedecor(Distribution):
    """The F distribution.

    Args:
        df1, df2: degrees of freedom of numerator and denominator.
        validate_args: as in `Distribution`.
    """

    support = Positive()
    arg_constraints = {"df1": Positive(), "df2": Positive()}

    def __init__(self, df1: Value, df2: Value, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = df1, df2
        super().__init__(0, validate_args)

    def sample(self, size: Shape = None) -> Any:
        like = (self.df1 + self.df2) * 0.0  # both have the batch's shape
        above, below = (random.gamma(df / 2 + like, 1, size) / df for df in (self.df1, self.df2))
        return above / below

    @property
    def mean(self) -> Any:
        df = _at_least(self.df2, 2)
        return df / (df - 2)

    @property
    def variance(self) -> Any:
        df = _at_least(self.df2, 4)
        return 2 * df ** 2 * (self.df1 + df - 2) / (self.df1 * (df - 2) ** 2 * (df - 4))

    def _log_prob(self, value: Value) -> Any:
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        return _lgamma(a + b) - _lgamma(a) - _lgamma(b) + a * np.log(ratio) + (a - 1) * np.log(value) \
            - (a + b) * np.log1p(ratio * value)


def _at_least(x: Value, bound: float, other: float = math.nan) -> Any:
    """x, or another value where it is not above a bound."""
    if isinstance(x, int | float):
        return x if x > bound else other
    return np.where(x > bound, x, np.full_like(x, other))


class StudentT(_LocScale):
    """Student's t distribution.

    Args:
        df: degrees of freedom.
        loc, scale: mode and scale.
        validate_args: as in `Distribution`.
    """

    has_grad = False
    arg_constraints = {"df": Positive(), "loc": Real(), "scale": Real()}

    def __init__(self, df: Value, loc: Value = 0.0, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.df = df
        super().__init__(loc, scale, validate_args)

    @property
    def mean(self) -> Any:
        return self.loc + 0 * _at_least(self.df, 1)

    @property
    def variance(self) -> Any:
        df = _at_least(self.df, 1)
        ratio = df / (df - 2)
        if isinstance(df, int | float):
            return self.scale ** 2 * (math.inf if df <= 2 else ratio)
        return self.scale ** 2 * np.where(df <= 2, np.full_like(ratio, math.inf), ratio)

    def sample(self, size: Shape = None) -> Any:
        like = (self.df + self.loc + self.scale) * 0.0
        chi2 = 2 * random.gamma(self.df / 2 + like, 1, size)
        return self.loc + random.normal(like, 1.0, size) * np.sqrt(self.df / chi2) * self.scale

    def _log_prob(self, value: Value) -> Any:
        df = self.df
        return _lgamma((df + 1) / 2) - _lgamma(df / 2) - np.log(self.scale) - 0.5 * np.log(df * math.pi) \
            - 0.5 * (df + 1) * np.log1p(self._standard(value) ** 2 / df)

    def entropy(self) -> Any:
        half = (self.df + 1) / 2
        log_beta = _lgamma(self.df / 2) + math.lgamma(0.5) - _lgamma(half)
        return np.log(self.scale) + half * (_digamma(half) - _digamma(self.df / 2)) + 0.5 * np.log(self.df) + log_beta


class _Half(TransformedDistribution[_LocScale]):
    """The absolute value of a distribution that is symmetric about 0."""

    has_grad = True
    support = Positive()
    arg_constraints = {"scale": Positive()}
    _kind: type[_LocScale]

    def __init__(self, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.scale = scale
        super().__init__(self._kind(0.0, scale), AbsTransform(), validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> Distribution:
        return type(self)(np.broadcast_to(self.scale, batch_shape), self._validate_args)

    @property
    def loc(self) -> Any:
        """0, the lower bound of the support."""
        return self._base_dist.loc

    def _log_prob(self, value: Value) -> Any:
        log_prob = self._base_dist.log_prob(value) + _log2
        return np.where(value < 0, np.full_like(log_prob, -math.inf), log_prob)

    def _cdf(self, value: Value) -> Any:
        return 2 * self._base_dist.cdf(value) - 1

    def icdf(self, value: Value) -> Any:
        return self._base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self._base_dist.entropy() - _log2


class HalfNormal(_Half):
    """The absolute value of a normal variable.

    Args:
        scale: the normal variable's standard deviation.
        validate_args: as in `Distribution`.
    """

    _kind = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale ** 2 * (1 - 2 / math.pi)


class HalfCauchy(_NoMoments, _Half):
    """The absolute value of a Cauchy variable, which has neither mean nor variance.

    Args:
        scale: the median.
        validate_args: as in `Distribution`.
    """

    _kind = Cauchy


class Pareto(TransformedDistribution[Exponential]):
    """The Pareto distribution: P(x > value) = (scale / value)^alpha.

    Args:
        alpha, scale: exponent and smallest value.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    arg_constraints = {"alpha": Positive(), "scale": Positive()}

    def __init__(self, alpha: Value, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.alpha, self.scale = alpha, scale
        super().__init__(Exponential(1 / alpha), [ExpTransform(), AffineTransform(0, scale)], validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> Pareto:
        return Pareto(*[np.broadcast_to(x, batch_shape) for x in (self.alpha, self.scale)],
                      validate_args=self._validate_args)

    @dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """Above `scale`."""
        return GreaterThan(self.scale)

    def sample(self, size: Shape = None) -> Any:
        return self.scale * _uniform_like(self.alpha + self.scale, size) ** (-1 / self.alpha)

    @property
    def mean(self) -> Any:
        a = np.clip(self.alpha, 1, None)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = np.clip(self.alpha, 2, None)
        return self.scale ** 2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Any:
        return np.log(self.scale / self.alpha) + 1 / self.alpha + 1


class Weibull(TransformedDistribution[Exponential]):
    """The Weibull distribution: P(x > value) = exp(-(value / scale)^concentration).

    Args:
        concentration, scale: exponent and scale.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"concentration": Positive(), "scale": Positive()}

    def __init__(self, concentration: Value, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.concentration, self.scale = concentration, scale
        super().__init__(Exponential(), [PowerTransform(1 / concentration), AffineTransform(0, scale)], validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> Weibull:
        return Weibull(*[np.broadcast_to(x, batch_shape) for x in (self.concentration, self.scale)],
                       validate_args=self._validate_args)

    def sample(self, size: Shape = None) -> Any:
        u = _uniform_like(self.concentration + self.scale, size)
        return self.scale * (-np.log(u)) ** (1 / self.concentration)

    def _moment(self, power: int) -> Any:
        return self.scale ** power * np.exp(_lgamma(1 + power / self.concentration))

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Any:
        return numpy.euler_gamma * (1 - 1 / self.concentration) + np.log(self.scale / self.concentration) + 1


class _LogitRelaxedBernoulli(_ByProb):
    has_grad = True
    support = Real()
    arg_constraints = {"prob": Interval(0, 1), "logit": Real()}

    def __init__(self, T: Value, prob: Value | None, logit: Value | None, validate_args: bool | None) -> None:  # noqa: N803
        self.T = T
        self._take(prob, logit)
        super().__init__(0, validate_args)

    def sample(self, size: Shape = None) -> Any:
        u = _uniform_like(self.logit, size)
        return (self.logit + np.log(u) - np.log1p(-u)) / self.T

    def _log_prob(self, value: Value) -> Any:
        difference = self.logit - self.T * value
        return np.log(self.T) + difference - 2 * _softplus(difference)


class RelaxedBernoulli(TransformedDistribution[_LogitRelaxedBernoulli]):
    """A continuous relaxation of the Bernoulli distribution, whose samples have gradients. Maddison
    et al., 2017, arXiv:1611.00712.

    Args:
        T: temperature; the limit 0 is the Bernoulli distribution.
        prob, logit: probability or logit of 1; specify one of them.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    support = OpenInterval(0, 1)

    def __init__(self, T: Value, prob: Value | None = None, logit: Value | None = None,  # noqa: N803
                 validate_args: bool | None = None) -> None:
        super().__init__(_LogitRelaxedBernoulli(T, prob, logit, validate_args), SigmoidTransform(), validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> RelaxedBernoulli:
        return RelaxedBernoulli(self.T, logit=np.broadcast_to(self.logit, batch_shape))

    @property
    def T(self) -> Any:  # noqa: N802
        """The temperature."""
        return self._base_dist.T

    @property
    def prob(self) -> Any:
        """The probability of 1."""
        return self._base_dist.prob

    @property
    def logit(self) -> Any:
        """The logit of 1."""
        return self._base_dist.logit
