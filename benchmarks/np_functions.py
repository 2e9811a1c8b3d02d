"""The most used functions of mx.np, forward and forward + backward, in two sizes: mxjax against MXNet 1.9.1.

    python benchmarks/np_functions.py --mxnet /path/to/python/that/has/mxnet --out table.md

Works as `operators.py`.
"""

# ruff: noqa: B905  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import fnmatch
import importlib

import _measure
import numpy as onp

_SMALL, _LARGE = (64, 64), (2048, 512)
_SIZES = ([_SMALL], [_LARGE])
_PAIRS = ([_SMALL, _SMALL], [_LARGE, _LARGE])
_ROWS = ([_SMALL, (64,)], [_LARGE, (512,)])
_SQUARE = ([(64, 64), (64, 64)], [(512, 512), (512, 512)])

# name: (function(np, *inputs), shapes of the inputs in two sizes, how many of the first inputs get a gradient)
CASES = {
    "add": (lambda np, a, b: np.add(a, b), _ROWS, 2),
    "subtract": (lambda np, a, b: np.subtract(a, b), _PAIRS, 2),
    "multiply": (lambda np, a, b: np.multiply(a, b), _ROWS, 2),
    "true_divide": (lambda np, a, b: np.true_divide(a, b), _PAIRS, 2),
    "power": (lambda np, a, b: np.power(a, b), _PAIRS, 2),
    "maximum": (lambda np, a, b: np.maximum(a, b), _PAIRS, 2),
    "greater": (lambda np, a, b: np.greater(a, b), _PAIRS, 0),
    "exp": (lambda np, a: np.exp(a), _SIZES, 1),
    "log": (lambda np, a: np.log(a), _SIZES, 1),
    "sqrt": (lambda np, a: np.sqrt(a), _SIZES, 1),
    "tanh": (lambda np, a: np.tanh(a), _SIZES, 1),
    "abs": (lambda np, a: np.abs(a), _SIZES, 1),
    "clip": (lambda np, a: np.clip(a, 0.3, 0.7), _SIZES, 1),
    "where": (lambda np, a, b: np.where(a > b, a, b), _PAIRS, 2),
    "sum": (lambda np, a: np.sum(a, axis=1), _SIZES, 1),
    "mean": (lambda np, a: np.mean(a), _SIZES, 1),
    "std": (lambda np, a: np.std(a, axis=0), _SIZES, 1),
    "max": (lambda np, a: np.max(a, axis=1), _SIZES, 1),
    "argmax": (lambda np, a: np.argmax(a, axis=1), _SIZES, 0),
    "cumsum": (lambda np, a: np.cumsum(a, axis=1), _SIZES, 1),
    "sort": (lambda np, a: np.sort(a, axis=1), _SIZES, 0),
    "unique": (lambda np, a: np.unique(np.floor(a * 100)), _SIZES, 0),
    "dot": (lambda np, a, b: np.dot(a, b), _SQUARE, 2),
    "matmul": (lambda np, a, b: np.matmul(a, b), ([(4, 32, 32), (4, 32, 32)], [(32, 128, 128), (32, 128, 128)]), 2),
    "einsum": (lambda np, a, b: np.einsum("ij,kj->ik", a, b), _SQUARE, 2),
    "tensordot": (lambda np, a, b: np.tensordot(a, b, axes=1), _SQUARE, 2),
    "transpose": (lambda np, a: np.transpose(a), _SIZES, 1),
    "reshape": (lambda np, a: np.reshape(a, (-1, 16)), _SIZES, 1),
    "concatenate": (lambda np, a, b: np.concatenate([a, b], axis=1), _PAIRS, 2),
    "stack": (lambda np, a, b: np.stack([a, b], axis=1), _PAIRS, 2),
    "split": (lambda np, a: np.split(a, 2, axis=1), _SIZES, 1),
    "broadcast_to": (lambda np, a: np.broadcast_to(a, (8, *a.shape)), _SIZES, 1),
    "indexing: slice": (lambda np, a: a[1:, ::2], _SIZES, 1),
    "indexing: mask": (lambda np, a: a[a > 0.5], _SIZES, 0),
    "linalg.norm": (lambda np, a: np.linalg.norm(a, axis=1), _SIZES, 1),
    "linalg.svd": (lambda np, a: np.linalg.svd(a), ([(16, 16)], [(64, 64)]), 0),
    "random.normal": (lambda np, a: np.random.normal(size=a.shape), _SIZES, 0),
}


def measure(package, only, seconds):
    """Yields names and two rows of [forward ms, forward + backward ms or None]."""
    mx = importlib.import_module(package)
    mx.npx.set_np()
    for name, (function, sizes, wanted) in CASES.items():
        if not fnmatch.fnmatch(name, only):
            continue
        rows = []
        for shapes in sizes:
            random = onp.random.RandomState(0)
            inputs = [mx.np.array(random.rand(*shape) + 0.01, dtype="float32") for shape in shapes]
            rows.append(_measure.timed(mx, lambda *a, f=function: f(mx.np, *a), inputs, {}, inputs[:wanted], seconds))
        yield name, rows


def _table(ours, theirs):
    return _measure.table(ours, theirs, "mx.np")


if __name__ == "__main__":
    _measure.main(__file__, __doc__, measure, _table)
