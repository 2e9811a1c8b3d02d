"""Calls of operators with options and arrays that were drawn at random: their arrays, and sums that stand for results.

Needs nothing but NumPy, so that MXNet's process can use it as well.
"""

import zlib

import numpy as np

__all__ = ["arrays", "heads", "summary"]

KINDS = {"signed": lambda rng, shape: rng.uniform(-1.5, 1.5, shape),
         "positive": lambda rng, shape: rng.uniform(0.2, 0.9, shape),
         "whole": lambda rng, shape: rng.randint(0, 4, shape)}


def arrays(name, number, inputs):
    """Returns the arrays of a case: (shape, dtype, kind) of each input gives the same values everywhere."""
    rng = np.random.RandomState(zlib.crc32(f"{name} {number}".encode()))
    return [np.asarray(KINDS[kind](rng, tuple(shape))).astype(dtype) for shape, dtype, kind in inputs]


def heads(shape, dtype):
    """Returns the gradient of an output of this shape."""
    return (1 + np.arange(int(np.prod(shape))) % 5 / 4).reshape(shape).astype(dtype)


def summary(array):
    """Returns shape, dtype, and a weighted sum of an array with the sum of its terms' sizes: no number may differ."""
    values = np.asarray(array)
    wide = np.nan_to_num(values.astype("float64"), nan=7.5, posinf=11.25, neginf=-13.75).ravel()
    weights = np.cos(1.0 + np.arange(wide.size))
    return list(values.shape), values.dtype.name, float(weights @ wide), float(np.abs(weights) @ np.abs(wide))
