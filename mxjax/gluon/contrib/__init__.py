"""Gluon's contrib package: further layers, cells and data sets, and the estimator."""

from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]
