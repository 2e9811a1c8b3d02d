"""Distributions of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from .constraint import LowerCholesky, Positive, PositiveDefinite, Real, Simplex
from .discrete import _LogRelaxed
from .distribution import Distribution, ExponentialFamily, TransformedDistribution
from .transformation import ExpTransform
from .utils import _EPS, _shape, digamma, gammaln, linalg, np, random

if TYPE_CHECKING:
    from .utils import Shape, Value

__all__ = ["Dirichlet", "MultivariateNormal", "RelaxedOneHotCategorical"]

_lgamma, _digamma = gammaln(), digamma()


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of probabilities.

    Args:
        alpha: (..., classes).
        validate_args: as in `Distribution`.
    """

    support = Simplex()
    arg_constraints = {"alpha": Positive()}
    _param_dims = {"alpha": 1}

    def __init__(self, alpha: Value, validate_args: bool | None = None) -> None:
        self.alpha: Any = alpha
        super().__init__(1, validate_args)

    def sample(self, size: Shape = None) -> Any:
        alpha = self.alpha if size is None else np.broadcast_to(self.alpha, _shape(size) + self.alpha.shape[-1:])
        draws = random.gamma(alpha, 1)
        return np.maximum(draws / draws.sum(axis=-1, keepdims=True), _EPS)

    @property
    def mean(self) -> Any:
        return self.alpha / self.alpha.sum(axis=-1, keepdims=True)

    @property
    def variance(self) -> Any:
        total = self.alpha.sum(axis=-1, keepdims=True)
        return self.alpha * (total - self.alpha) / ((total + 1) * total ** 2)

    def _log_normalizer(self) -> Any:
        return _lgamma(self.alpha).sum(axis=-1) - _lgamma(self.alpha.sum(axis=-1))

    def _log_prob(self, value: Value) -> Any:
        return (np.log(value) * (self.alpha - 1)).sum(axis=-1) - self._log_normalizer()

    def entropy(self) -> Any:
        return self._log_normalizer() + (self.alpha - 1).sum(axis=-1) * _digamma(self.alpha.sum(axis=-1)) \
            - ((self.alpha - 1) * _digamma(self.alpha)).sum(axis=-1)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Args:
        loc: (..., n), the mean.
        cov, precision, scale_tril: (..., n, n), the covariance, its inverse, or its Cholesky
            factor; specify one of them.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "cov": PositiveDefinite(), "precision": PositiveDefinite(),
                       "scale_tril": LowerCholesky()}
    _param_dims = {"loc": 1, "cov": 2, "precision": 2, "scale_tril": 2}

    def __init__(self, loc: Value, cov: Value | None = None, precision: Value | None = None,
                 scale_tril: Value | None = None, validate_args: bool | None = None) -> None:
        matrices = {"cov": cov, "precision": precision, "scale_tril": scale_tril}
        present = {name: value for name, value in matrices.items() if value is not None}
        if len(present) != 1:
            raise ValueError("MultivariateNormal requires exactly one of `cov`, `precision` and `scale_tril`, got "
                             "{', '.join(given) or 'none'}")
        self.loc = loc
        self._matrix = next(iter(present))
        setattr(self, self._matrix, present[self._matrix])
        super().__init__(1, validate_args)

    def _given(self) -> dict[str, Any]:
        return {"loc": self.loc, self._matrix: getattr(self, self._matrix)}

    @cached_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return linalg.cholesky(self.cov)

    @cached_property
    def cov(self) -> Any:
        """The covariance."""
        if self._matrix == "precision":
            return linalg.inv(self.precision)
        return np.matmul(self.scale_tril, np.swapaxes(self.scale_tril, -1, -2))

    @cached_property
    def precision(self) -> Any:
        """The inverse of the covariance."""
        return linalg.inv(self.cov)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return (self.scale_tril ** 2).sum(axis=-1)

    def _half_log_det(self) -> Any:
        return np.log(np.diagonal(self.scale_tril, axis1=-2, axis2=-1)).sum(axis=-1)

    def sample(self, size: Shape = None) -> Any:
        like = (self.loc + self.scale_tril.sum(axis=-1)) * 0.0
        if size is not None:
            like = np.broadcast_to(like, _shape(size) + like.shape[-1:])
        noise = random.normal(like, 1.0)
        return self.loc + _times(self.scale_tril, noise)

    def _log_prob(self, value: Value) -> Any:
        difference = value - self.loc
        return -0.5 * (difference * _times(self.precision, difference)).sum(axis=-1) - self._half_log_det() \
            - 0.5 * math.log(2 * math.pi) * np.ones_like(difference).sum(axis=-1)

    def entropy(self) -> Any:
        scales = np.diagonal(self.scale_tril, axis1=-2, axis2=-1)
        return (np.log(scales) + 0.5 * (1 + math.log(2 * math.pi))).sum(axis=-1)


def _times(matrix: Value, vector: Value) -> Any:
    """The products of matrices and vectors along the last axes."""
    return (matrix * np.expand_dims(vector, -2)).sum(axis=-1)


class RelaxedOneHotCategorical(TransformedDistribution[_LogRelaxed]):
    """A continuous relaxation of one-hot vectors, whose samples have gradients. Jang et al., 2017, arXiv:1611.01144.

    Args:
        T: temperature; the limit 0 is a one-hot vector.
        num_events: number of classes.
        prob, logit: (..., classes); specify one of them.
        validate_args: as in `Distribution`.
    """

    has_grad = True
    support = Simplex()

    def __init__(self, T: Value, num_events: int, prob: Value | None = None, logit: Value | None = None,  # noqa: N803
                 validate_args: bool | None = None) -> None:
        super().__init__(_LogRelaxed(T, num_events, prob, logit, validate_args), ExpTransform(), validate_args)

    def broadcast_to(self, batch_shape: Sequence[int]) -> RelaxedOneHotCategorical:
        base = cast(_LogRelaxed, self._base_dist.broadcast_to(batch_shape))
        return RelaxedOneHotCategorical(self.T, base.num_events, logit=base.logit)

    @property
    def T(self) -> Any:  # noqa: N802
        """The temperature."""
        return self._base_dist.T

    @property
    def prob(self) -> Any:
        """The classes' probabilities."""
        return self._base_dist.prob

    @property
    def logit(self) -> Any:
        """The classes' logits."""
        return self._base_dist.logit
