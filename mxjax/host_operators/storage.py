"""Operators on arrays stored sparsely: conversion, rows, counts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..array import sparse
from ..array.creation import array
from ..array.dense import NDArray
from ..array.sparse import CSRNDArray, RowSparseNDArray, retain
from ..base import MXNetError
from ..context import Context
from ..ops.common import gives
from ..ops.infer import elementwise
from ..ops.on_host import on_host


@on_host("cast_storage", ("_sparse_cast_storage",), infer_shape=elementwise)
def cast_storage(data: NDArray, *, stype: Literal["csr", "default", "row_sparse"],
                 _ctx: Context | None = None) -> list[Any]:
    """The array with another storage type."""
    return [sparse.cast_storage(data, stype)]


def _first_shape(p: dict[str, Any], ins: list, outs: list) -> None:
    outs[0] = outs[0] or ins[0]


@on_host("_sparse_retain", infer_shape=_first_shape, infer_type=gives(lambda p: None, None, "int64"))
def sparse_retain(data: RowSparseNDArray, indices: NDArray, *, _ctx: Context | None = None) -> list[Any]:
    """A row_sparse array with only the rows in `indices` kept."""
    return [retain(data, indices)]


def _need_csr(operator: str, array: NDArray) -> None:
    if array.stype != "csr":
        raise MXNetError(f"operator {operator} expects a csr matrix, got storage type {array.stype!r}")


@on_host("_contrib_getnnz", infer_type=gives("int64"))
def getnnz(data: CSRNDArray, *, axis: int | None = None, _ctx: Context | None = None) -> list[Any]:
    """Returns how many values a csr matrix stores: in all, or (axis 1) in each row; int64."""
    _need_csr("getnnz", data)
    pointers = data.indptr.asnumpy()
    if axis not in (None, 1):
        raise MXNetError(f"operator getnnz: axis must be 1 or None, got {axis}")
    return [array(np.diff(pointers) if axis == 1 else pointers[-1:] - pointers[:1], _ctx, "int64")]


@on_host("_contrib_edge_id", infer_shape=lambda p, ins, outs: outs.__setitem__(0, outs[0] or ins[1]),
         infer_type=gives(lambda p: None))
def edge_id(data: CSRNDArray, u: NDArray, v: NDArray, *, _ctx: Context | None = None) -> list[Any]:
    """The values data[u, v] of a csr matrix, -1 where it stores none."""
    _need_csr("edge_id", data)
    pointers, columns, values = data.indptr.asnumpy(), data.indices.asnumpy(), data.data.asnumpy()
    rows = np.repeat(np.arange(data.shape[0]), np.diff(pointers))
    result = dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), values.tolist(), strict=True))
    pairs = zip(u.asnumpy().astype(int).tolist(), v.asnumpy().astype(int).tolist(), strict=True)
    return [array([result.get(pair, -1) for pair in pairs], _ctx, data.dtype)]
