"""`mx.nd.npx.random`: random numbers of `mx.npx.random`."""

from ...numpy_extension.random import bernoulli, normal_n, uniform_n

__all__ = ["bernoulli", "normal_n", "uniform_n"]
