"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..direct import Work, need, numpy_form
from .elementwise import sigmoid

__all__: list[str] = []


# ------------------------------------------------------------ dense
def _rows(p: dict, x: Any) -> Any:
    return x.reshape(len(x), -1) if p["flatten"] else x.reshape(-1, x.shape[-1])


def _dense_work(p: dict, x: tuple[int, ...], w: tuple[int, ...], b: Any = None) -> Work:
    rows = x[0] if p["flatten"] else math.prod(x[:-1])
    return Work(2 * math.prod(x) + rows * w[0], rows * math.prod(w))


def _dense_reads(p: dict, wanted: Sequence[bool]) -> list[bool]:
    return [wanted[1], wanted[0], False][:len(wanted)]


def _dense_backward(p: dict, heads: Sequence[Any], wanted: Sequence[bool], x: Any, w: Any, b: Any = None) -> list[Any]:
    head = heads[0].reshape(-1, len(w))
    return [(head @ w).reshape(x.shape) if wanted[0] else None,
            head.T @ _rows(p, x) if wanted[1] else None,
            head.sum(0) if b is not None and wanted[2] else None][:len(wanted)]


@numpy_form("FullyConnected", backward=_dense_backward, reads=_dense_reads, work=_dense_work)
def _dense(p: dict, x: Any, w: Any, b: Any = None) -> Any:
    need(x.size and w.ndim == 2)
    rows = _rows(p, x)
    need(rows.shape[1] == w.shape[1])
    y = rows @ w.T
    if b is not None:
        y += b
    return y if p["flatten"] else y.reshape(*x.shape[:-1], len(w))


# ------------------------------------------------------------ activations
_ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: x > 0),
    "tanh": (np.tanh, lambda x: 1 - np.square(np.tanh(x))),
    "sigmoid": (sigmoid, lambda x: (s := sigmoid(x)) * (1 - s)),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: 1 / np.square(1 + np.abs(x))),
    "softrelu": (lambda x: np.logaddexp(x, x.dtype.type(0)), sigmoid),
}


@numpy_form("Activation", backward=lambda p, heads, wanted, x: [heads[0] * _ACTIVATIONS[p["act_type"]][1](x)])
def _activation(p: dict, x: Any) -> Any:
    return _ACTIVATIONS[p["act_type"]][0](x)
