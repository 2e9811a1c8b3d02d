"""Kullback-Leibler divergences: the mean of log p(x) - log q(x) under p."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from .continuous import Beta, Cauchy, Exponential, Gamma, Gumbel, HalfNormal, Laplace, Normal, Pareto, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution
from .multivariate import Dirichlet, MultivariateNormal
from .utils import digamma, gammaln, np

__all__ = ["empirical_kl", "kl_divergence", "register_kl"]

_Formula = Callable[[Any, Any], Any]
_formulas: dict[tuple[type, type], _Formula] = {}
_lgamma, _digamma = gammaln(), digamma()


def register_kl(typeP: type, typeQ: type) -> Callable[[_Formula], _Formula]:  # noqa: N803  MXNet's names
    """Registers a function `kl(p, q)` for two classes of distributions; a decorator.

    Raises:
        TypeError: the function does not have two arguments.
        ValueError: the pair of classes already has a function.
    """
    def decorate(func: _Formula) -> _Formula:
        if func.__code__.co_argcount != 2:
            raise TypeError(f"a KL divergence must have two arguments, {func.__name__} has {func.__code__.co_argcount}")
        if (typeP, typeQ) in _formulas:
            raise ValueError(f"a KL divergence of {typeP.__name__} and {typeQ.__name__} is already registered")
        _formulas[typeP, typeQ] = func
        return func
    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Returns the KL divergence of two distributions in closed form.

    Raises:
        NotImplementedError: there is no formula for their classes.

    Example:
        >>> one, two = (mx.gluon.probability.Normal(mx.np.array(x), 1.0) for x in (0.0, 2.0))
        >>> float(mx.gluon.probability.kl_divergence(one, two))
        2.0
    """
    formula = _formulas.get((type(p), type(q)))
    if formula is None:
        raise NotImplementedError(f"KL divergence between {type(p).__name__} and {type(q).__name__} is not implemented")
    return formula(p, q)


def empirical_kl(p: Distribution, q: Distribution, n_samples: int = 1) -> Any:
    """Estimates the KL divergence of two distributions from samples.

    Args:
        p, q: the distributions.
        n_samples: number of samples.
    """
    samples = p.sample_n(n_samples)
    return (p.log_prob(samples) - q.log_prob(samples)).mean(axis=0)


@register_kl(HalfNormal, HalfNormal)
@register_kl(Normal, Normal)
def _normal(p: HalfNormal | Normal, q: HalfNormal | Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - np.log(ratio))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    return p.prob * np.log(p.prob / q.prob) + (1 - p.prob) * np.log((1 - p.prob) / (1 - q.prob))


@register_kl(OneHotCategorical, OneHotCategorical)
@register_kl(Categorical, Categorical)
def _categorical(p: Categorical | OneHotCategorical, q: Categorical | OneHotCategorical) -> Any:
    return (p.prob * (p._log_probs() - q._log_probs())).sum(axis=-1)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Any:
    kl = np.log((q.high - q.low) / (p.high - p.low))
    return np.where((q.low > p.low) | (q.high < p.high), np.full_like(kl, math.inf), kl)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Any:
    return np.log(((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale))


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Any:
    ratio, distance = p.scale / q.scale, np.abs(p.loc - q.loc)
    return distance / q.scale + ratio * np.exp(-distance / p.scale) - np.log(ratio) - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Any:
    return p.rate * np.log(p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - np.log1p(-q.prob) / p.prob - q.logit


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Any:
    ratio = p.scale / q.scale
    return ratio - 1 - np.log(ratio)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Any:
    ratio = q.alpha / p.alpha
    kl = q.alpha * np.log(p.scale / q.scale) - np.log(ratio) + ratio - 1
    return np.where(p.scale < q.scale, np.full_like(kl, math.nan), kl)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Any:
    ratio, distance = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return ratio * numpy.euler_gamma - np.log(ratio) - distance + np.exp(distance + _lgamma(1 + ratio)) \
        - (1 + numpy.euler_gamma)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Any:
    return q.shape * np.log(q.scale / p.scale) + _lgamma(q.shape) - _lgamma(p.shape) \
        + (p.shape - q.shape) * _digamma(p.shape) + p.shape * (p.scale / q.scale - 1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Any:
    return q._log_normalizer() - p._log_normalizer() + (p.alpha - q.alpha) * _digamma(p.alpha) \
        + (p.beta - q.beta) * _digamma(p.beta) + (q.alpha + q.beta - p.alpha - p.beta) * _digamma(p.alpha + p.beta)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    means = _digamma(p.alpha) - np.expand_dims(_digamma(p.alpha.sum(axis=-1)), -1)
    return q._log_normalizer() - p._log_normalizer() + ((p.alpha - q.alpha) * means).sum(axis=-1)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Any:
    if p.n > q.n:
        return np.full_like(p.prob + q.prob, math.inf)
    if p.n < q.n:
        raise NotImplementedError(f"KL divergence of Binomials with n={p.n} and n={q.n} has no closed form")
    return p.n * _bernoulli(p, q)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    difference = q.loc - p.loc
    squares = p.cov + np.expand_dims(difference, -1) * np.expand_dims(difference, -2)
    inside = (q.precision * squares).sum(axis=(-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (inside - np.ones_like(difference).sum(axis=-1))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Any:
    squares = p.variance + (p.mean - q.loc) ** 2
    return np.log(math.sqrt(2 * math.pi) * q.scale / (p.high - p.low)) + 0.5 * squares / q.scale ** 2


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Any:
    width, high, low = q.scale / (p.high - p.low), (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return np.log(width) + 0.5 * (high + low) - width * (np.exp(-high) - np.exp(-low))


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Any:
    ratio = q.scale / p.scale
    return np.log(ratio) - 1 - q.loc / q.scale + np.exp(q.loc / q.scale) * ratio / (ratio + 1) + 1 / ratio


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Any:
    squares = 2 * p.scale ** 2 - 2 * q.loc * p.scale + q.loc ** 2
    return np.log(math.sqrt(2 * math.pi) * q.scale / p.scale) - 1 + 0.5 * squares / q.scale ** 2


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Any:
    ratio = p.scale / q.scale
    return ratio - q.shape * np.log(ratio) + _lgamma(q.shape) + q.shape * numpy.euler_gamma - (1 + numpy.euler_gamma)
