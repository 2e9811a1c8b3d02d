"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..direct import Work, need, numpy_form

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
