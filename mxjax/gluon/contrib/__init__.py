"""Layers, cells, data sets and the estimator that MXNet keeps apart from the rest of Gluon."""

from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]
