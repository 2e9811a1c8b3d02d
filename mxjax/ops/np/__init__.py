"""The operators behind `mx.np`, with MXNet 1.9.1's rules of dtypes."""

from . import creation, elementwise, indexing, linalg, random, rearranging, reductions
