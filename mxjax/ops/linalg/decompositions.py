"""Linear algebra on the last two axes; leading axes are batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

from ...base import MXNetError
from ..common import Array
from ..infer import UNKNOWN, first
from ..params import DoubleScalar
from ..registry import register
from .dot import product_shape


def _linalg(name: str, *aliases: str, square: bool = True, **attrs: Any) -> Callable[[Callable], Callable]:
    """`register` for `_linalg_<name>` with a check of the first matrix (square by default)."""
    def decorate(function: Callable) -> Callable:
        def compute(*arrays: Array, **params: Any) -> Any:
            shape = arrays[0].shape
            if square and (len(shape) < 2 or shape[-1] != shape[-2]):
                raise MXNetError(f"operator _linalg_{name}: A must consist of square matrices, got shape {shape}")
            return function(*arrays, **params)
        vars(compute)["__wrapped__"] = function
        compute.__annotations__, compute.__doc__ = function.__annotations__, function.__doc__
        names = (f"linalg_{name}", *aliases) if name != "syevd" else aliases
        register(f"_linalg_{name}", aliases=names, **attrs)(compute)
        return function
    return decorate


def unless_finite(name: str, reason: str) -> Callable[..., Exception | None]:
    """FRefuse of an operator that has no answer for some matrices: XLA gives NaN or infinity where LAPACK fails."""
    def refuse(params: dict[str, Any], inputs: Sequence[Array], outputs: Sequence[Array]) -> Exception | None:
        failed = not np.isfinite(outputs[0]).all() and all(np.isfinite(matrix).all() for matrix in inputs)
        return MXNetError(f"operator {name}: {reason}") if failed else None
    return refuse


def _t(a: Array, transposed: bool = True) -> Array:
    return jnp.swapaxes(a, -1, -2) if transposed else a


def _reduced(values: Array) -> Array:
    """Outside of NumPy semantics the result for a single matrix has shape (1,)."""
    return values.reshape(1) if values.ndim == 0 else values


def _of_each(p: dict[str, Any], shape: tuple) -> tuple:
    """The shape of one number for each matrix."""
    return shape[:-2] or (1,)


def _product(A: Array, B: Array, transpose_a: bool, transpose_b: bool, axis: int) -> Array:
    left, right = (_t(jnp.moveaxis(m, axis, -2), flag) for m, flag in ((A, transpose_a), (B, transpose_b)))
    if left.shape[:-2] != right.shape[:-2]:
        raise MXNetError(f"the batch dimensions of {A.shape} and {B.shape} must match")
    return jnp.matmul(left, right)


def _gemm_shape(p: dict[str, Any], a: tuple, b: tuple, *_: Any) -> Any:
    return product_shape(p, a, b) if p["axis"] == -2 else UNKNOWN


@_linalg("gemm", square=False, FPartialShape=_gemm_shape)
def gemm(A: Array, B: Array, C: Array, *, transpose_a: bool = False, transpose_b: bool = False,
         alpha: DoubleScalar = 1.0, beta: DoubleScalar = 1.0, axis: int = -2) -> Array:
    """alpha · op(A) · op(B) + beta · C; op may transpose. Rows are along `axis`, columns along the last axis."""
    product = jnp.moveaxis(_product(A, B, transpose_a, transpose_b, axis), -2, axis)
    if C.shape != product.shape:
        raise MXNetError(f"operator _linalg_gemm: C must have the shape {product.shape}, got {C.shape}")
    return (alpha * product + beta * C).astype(A.dtype)


@_linalg("gemm2", square=False, FPartialShape=_gemm_shape)
def gemm2(A: Array, B: Array, *, transpose_a: bool = False, transpose_b: bool = False, alpha: DoubleScalar = 1.0,
          axis: int = -2) -> Array:
    """alpha · op(A) · op(B); op may transpose. Rows are along `axis`, columns along the last axis."""
    return (alpha * jnp.moveaxis(_product(A, B, transpose_a, transpose_b, axis), -2, axis)).astype(A.dtype)


@_linalg("syrk", square=False)
def syrk(A: Array, *, transpose: bool = False, alpha: DoubleScalar = 1.0) -> Array:
    """alpha · A · Aᵀ, or alpha · Aᵀ · A with `transpose`."""
    return (alpha * jnp.matmul(_t(A, transpose), _t(A, not transpose))).astype(A.dtype)


@_linalg("trmm", FPartialShape=lambda p, a, b: b)
def trmm(A: Array, B: Array, *, transpose: bool = False, rightside: bool = False, lower: bool = True,
         alpha: DoubleScalar = 1.0) -> Array:
    """alpha · op(A) · B for a triangular A (B · op(A) with `rightside`), where op optionally transposes."""
    triangle = _t(jnp.tril(A) if lower else jnp.triu(A), transpose)
    return (alpha * (jnp.matmul(B, triangle) if rightside else jnp.matmul(triangle, B))).astype(A.dtype)


@_linalg("trsm", FPartialShape=lambda p, a, b: b)
def trsm(A: Array, B: Array, *, transpose: bool = False, rightside: bool = False, lower: bool = True,
         alpha: DoubleScalar = 1.0) -> Array:
    """Solves op(A) · X = alpha · B for a triangular A (X · op(A) with `rightside`), where op optionally transposes."""
    right = (alpha * B).astype(A.dtype)
    if rightside:
        return _t(solve_triangular(A, _t(right), trans=int(not transpose), lower=lower))
    return solve_triangular(A, right, trans=int(transpose), lower=lower)


@_linalg("potrf", FPartialShape=first, hidden=("lower",),
         FRefuse=unless_finite("_linalg_potrf", "a matrix is not positive definite"))
def potrf(A: Array, *, lower: bool = True) -> Array:
    """Cholesky factors of symmetric, positive definite matrices: L · Lᵀ = A, else Uᵀ · U = A.

    Other matrices raise an error when the result is read (in a compiled program, which cannot raise, it is NaN).
    """
    return cholesky(A, lower)


def cholesky(A: Array, lower: bool = True) -> Array:
    """The Cholesky factor of symmetric matrices; only one triangle is read, as in LAPACK. The gradient is symmetric."""
    symmetric = (A + _t(A)) / 2
    half, diagonal = (jnp.tril(A, -1) if lower else jnp.triu(A, 1)), jnp.eye(A.shape[-1], dtype=bool)
    read = jnp.where(diagonal, A, half + _t(half))
    return jnp.linalg.cholesky(symmetric + lax.stop_gradient(read - symmetric), upper=not lower, symmetrize_input=False)


@_linalg("potri", FPartialShape=first, hidden=("lower",))
def potri(A: Array, *, lower: bool = True) -> Array:
    """The inverse of a matrix, computed from its Cholesky factor (see `potrf`)."""
    factor = _t(A, not lower)
    inverse = solve_triangular(factor, jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape), lower=True)
    return jnp.matmul(_t(inverse), inverse)


@_linalg("sumlogdiag", FPartialShape=_of_each)
def sumlogdiag(A: Array) -> Array:
    """Sum of the logarithms of the diagonal: (..., n, n) -> (...)."""
    return _reduced(jnp.sum(jnp.log(jnp.diagonal(A, axis1=-2, axis2=-1)), -1))


@_linalg("inverse", "_npi_inv", FPartialShape=first, FRefuse=unless_finite("_linalg_inverse", "a matrix is singular"))
def inverse(A: Array) -> Array:
    """The inverse. Singular matrices raise an error (see `potrf`)."""
    return jnp.linalg.inv(A)


@_linalg("det", FPartialShape=_of_each, output_names=lambda p: ["output0"])
def det(A: Array) -> Array:
    """The determinant: (..., n, n) -> (...)."""
    return _reduced(jnp.linalg.det(A))


def slogdet_gradient(heads: tuple, inputs: tuple, outputs: tuple, **_: Any) -> tuple:
    """The gradient of the logarithm of a determinant; zero for singular matrices, as in MXNet."""
    (A,), singular = inputs, outputs[0].reshape(inputs[0].shape[:-2])[..., None, None] == 0
    inverse = _t(jnp.linalg.inv(jnp.where(singular, jnp.eye(A.shape[-1], dtype=A.dtype), A)))
    return (jnp.where(singular, 0, heads[1].reshape(singular.shape) * inverse),)


@_linalg("slogdet", num_outputs=2, FPartialShape=_of_each, FGradient=slogdet_gradient)
def slogdet(A: Array) -> tuple[Array, Array]:
    """Sign and logarithm of the absolute value of the determinant: (..., n, n) -> (...), (...)."""
    sign, log = jnp.linalg.slogdet(A)
    return _reduced(sign), _reduced(log)


@_linalg("gelqf", num_outputs=2, square=False,
         FPartialShape=lambda p, a: [a, (*a[:-1], a[-2])] if len(a) > 1 else [a, a])
def gelqf(A: Array) -> tuple[Array, Array]:
    """Q with orthonormal rows and lower triangular L, L · Q = A.  A: (..., m, n) with m <= n."""
    if A.ndim < 2 or A.shape[-2] > A.shape[-1]:
        raise MXNetError(f"operator _linalg_gelqf: A must have at most as many rows as columns, got shape {A.shape}")
    q, r = jnp.linalg.qr(_t(A))
    return _t(q), _t(r)


@_linalg("syevd", num_outputs=2)
def syevd(A: Array) -> tuple[Array, Array]:
    """Eigenvectors U (rows) and eigenvalues L, ascending, of symmetric matrices: A = Uᵀ · diag(L) · U.

    The upper triangle is not read. The largest element of each eigenvector is positive.
    """
    symmetric = jnp.tril(A) + _t(jnp.tril(A, -1))
    values, vectors = jnp.linalg.eigh(lax.stop_gradient(symmetric - A) + A)  # gradients are symmetric, too
    rows = _t(vectors)
    largest = jnp.take_along_axis(rows, jnp.argmax(jnp.abs(rows), -1, keepdims=True), -1)
    return rows * lax.stop_gradient(jnp.where(largest < 0, -1, 1).astype(A.dtype)), values


# ------------------------------------------------------------ diagonals and triangles
def _check_offset(name: str, size: int, offset: int) -> None:
    if abs(offset) >= size:
        raise MXNetError(f"operator _linalg_{name}: offset={offset} is outside matrices of size {size}")


@_linalg("extractdiag")
def extractdiag(A: Array, *, offset: int = 0) -> Array:
    """Extracts a diagonal: (..., n, n) -> (..., n - |offset|)."""
    _check_offset("extractdiag", A.shape[-1], offset)
    return jnp.diagonal(A, offset, -2, -1)


def _made_square(p: dict[str, Any], a: tuple) -> tuple:
    return (*a[:-1], *(a[-1] + abs(p["offset"]),) * 2)


@_linalg("makediag", square=False, FPartialShape=_made_square)
def makediag(A: Array, *, offset: int = 0) -> Array:
    """Creates matrices with the given diagonal: (..., n) -> (..., n + |offset|, n + |offset|)."""
    size = A.shape[-1] + abs(offset)
    index = np.arange(A.shape[-1])
    rows, columns = index + max(-offset, 0), index + max(offset, 0)
    return jnp.zeros((*A.shape[:-1], size, size), A.dtype).at[..., rows, columns].set(A)


def _triangle(size: int, offset: int, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a triangle, in the order of packed storage; `lower` counts for offset 0 only."""
    rows, columns = np.tril_indices(size - abs(offset))
    rows = rows + abs(offset)
    return (columns, rows) if offset > 0 or (offset == 0 and not lower) else (rows, columns)


@_linalg("extracttrian")
def extracttrian(A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """Extracts a triangle as a vector: (..., n, n) -> (..., m(m + 1)/2), m = n - |offset|.

    A positive offset selects the triangle above that diagonal, a negative one the triangle below, and 0 the triangle
    that `lower` specifies.
    """
    _check_offset("extracttrian", A.shape[-1], offset)
    return A[(..., *_triangle(A.shape[-1], offset, lower))]


@_linalg("maketrian", square=False)
def maketrian(A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """Creates triangular matrices from vectors: the inverse of extracttrian, with zeros elsewhere."""
    count = A.shape[-1]
    inner = int((8 * count + 1) ** 0.5 - 1) // 2
    if inner * (inner + 1) // 2 != count:
        raise MXNetError(f"operator _linalg_maketrian: {count} numbers do not fill a triangle")
    size = inner + abs(offset)
    blank = jnp.zeros((*A.shape[:-1], size, size), A.dtype)
    return blank.at[(..., *_triangle(size, offset, lower))].set(A)
