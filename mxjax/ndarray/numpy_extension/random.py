"""`mx.nd.npx.random`: random numbers of `mx.npx.random`."""

from ...numpy_extension.random import bernoulli, categorical, normal_n, uniform_n

__all__ = ["bernoulli", "categorical", "normal_n", "uniform_n"]
