"""Products of matrices and higher arrays."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array
from ..infer import broadcasted, exact
from ..registry import register

StorageType = Literal["csr", "default", "row_sparse"]


def _accumulator(dtype: Any) -> Any:
    """The dtype in which products of half precision are summed up."""
    return jnp.float32 if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4 else None


def _dot_shape(p: dict[str, Any], a: tuple, b: tuple) -> tuple:
    return ((a[1:] if p["transpose_a"] else a[:-1]) + (b[:-1] if p["transpose_b"] else b[1:])) or (1,)


def _can_dot(p: dict[str, Any], a: tuple, b: tuple) -> bool:
    return len(a) > 0 < len(b) and a[0 if p["transpose_a"] else -1] == b[-1 if p["transpose_b"] else 0] and not (
        len(a) == len(b) == 1 and (p["transpose_a"] or p["transpose_b"]))


@register("dot", aliases=("_sparse_dot",), FPartialShape=exact(_dot_shape, _can_dot),
          FStored=lambda p: None if p["forward_stype"] == "default" else p["forward_stype"])
def dot(lhs: Array, rhs: Array, *, transpose_a: bool = False, transpose_b: bool = False,
        forward_stype: StorageType | None = None) -> Array:
    """Sum over the last axis of lhs and the first of rhs.

    `transpose_a` sums over the first axis of lhs instead, `transpose_b` over the last axis of rhs. The product of two
    vectors has shape (1,). `forward_stype` is the storage type of the result.
    """
    left, right = 0 if transpose_a else lhs.ndim - 1, rhs.ndim - 1 if transpose_b else 0
    vectors = lhs.ndim == rhs.ndim == 1
    if min(lhs.ndim, rhs.ndim) < 1 or lhs.shape[left] != rhs.shape[right] or (vectors and (transpose_a or transpose_b)):
        raise MXNetError(f"operator dot: shapes {lhs.shape} and {rhs.shape} do not match with "
                         f"transpose_a={transpose_a}, transpose_b={transpose_b}")
    out = jnp.tensordot(lhs, rhs, (left, right), preferred_element_type=_accumulator(lhs.dtype)).astype(lhs.dtype)
    return out.reshape(1) if vectors else out


def product_shape(p: dict[str, Any], a: tuple, b: tuple, *_: Any) -> tuple:
    """The shape of products of matrices in the last two axes (FPartialShape)."""
    return (*broadcasted(p, a[:-2], b[:-2]), a[-1 if p["transpose_a"] else -2], b[-2 if p["transpose_b"] else -1])


def _batched_shape(p: dict[str, Any], a: tuple, b: tuple, *_: Any) -> tuple:
    """`product_shape`, known where the lengths that are summed over are, as in MXNet."""
    bool(a[-2 if p["transpose_a"] else -1] == b[-1 if p["transpose_b"] else -2])  # asks for them
    return product_shape(p, a, b)


@register("batch_dot", aliases=("_npx_batch_dot",), FPartialShape=exact(
    _batched_shape, lambda p, a, b: len(a) == len(b) > 2 and a[:-2] == b[:-2] and
    a[-2 if p["transpose_a"] else -1] == b[-1 if p["transpose_b"] else -2]))
def batch_dot(lhs: Array, rhs: Array, *, transpose_a: bool = False, transpose_b: bool = False,
              forward_stype: StorageType | None = None) -> Array:
    """Matrix products of the last two axes; the leading (batch) axes of both arrays must agree."""
    if lhs.ndim < 3 or lhs.ndim != rhs.ndim or lhs.shape[:-2] != rhs.shape[:-2]:
        raise MXNetError(f"operator batch_dot: shapes {lhs.shape} and {rhs.shape} must have the same number of "
                         "dimensions, at least 3, and equal batch dimensions")
    left = jnp.swapaxes(lhs, -1, -2) if transpose_a else lhs
    right = jnp.swapaxes(rhs, -1, -2) if transpose_b else rhs
    return jnp.matmul(left, right, preferred_element_type=_accumulator(lhs.dtype)).astype(lhs.dtype)


@register("khatri_rao")
def khatri_rao(*args: Array) -> Array:
    """Column-wise Kronecker product of matrices with k columns: (r1, k), (r2, k), ... -> (r1·r2·..., k)."""
    if any(a.ndim != 2 or a.shape[1] != args[0].shape[1] for a in args):
        raise MXNetError("operator khatri_rao: all matrices must have the same number of columns, got shapes "
                         f"{', '.join(str(a.shape) for a in args)}")
    return functools.reduce(lambda a, b: (a[:, None] * b).reshape(-1, a.shape[1]), args)
