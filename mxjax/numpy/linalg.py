"""`mx.np.linalg`: linear algebra on the last two axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _elemwise, _reduce
from ._dispatch import call
from .fallback_linalg import cond, lstsq, matrix_power, matrix_rank, multi_dot, qr

__all__ = ["cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_power",
           "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd", "tensorinv", "tensorsolve"]


def det(a: Any) -> Any:
    """The determinant: (..., n, n) -> (...)."""
    return call("_npi_det", [a])


def slogdet(a: Any) -> Any:
    """Sign and logarithm of the absolute value of the determinant."""
    return call("_npi_slogdet", [a])


def inv(a: Any) -> Any:
    """The inverse."""
    return call("_npi_inv", [a])


def pinv(a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """The Moore-Penrose inverse; singular values up to rcond times the largest count as zero.

    Raises:
        NotImplementedError: hermitian.
    """
    if hermitian:
        raise NotImplementedError("hermitian is not supported yet")
    if np.isscalar(rcond):
        return call("_npi_pinv_scalar_rcond", [a], rcond=rcond)
    return call("_npi_pinv", [a, rcond])


def cholesky(a: Any) -> Any:
    """The lower triangular L with L·Lᵀ = a."""
    return call("_npi_cholesky", [a])


def svd(a: Any) -> tuple[Any, Any, Any]:
    """U, singular values and V with a = U·diag·V.  a: (..., m, n) with m <= n."""
    return tuple(call("_npi_svd", [a]))


def eig(a: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors (columns) of general matrices; real parts."""
    return tuple(call("_npi_eig", [a]))


def eigvals(a: Any) -> Any:
    """Eigenvalues of general matrices; real parts."""
    return call("_npi_eigvals", [a])


def eigh(a: Any, UPLO: str = "L") -> tuple[Any, Any]:  # noqa: N803
    """Eigenvalues, rising, and eigenvectors (columns) of symmetric matrices given by one triangle."""
    return tuple(call("_npi_eigh", [a], UPLO=UPLO))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Eigenvalues, rising, of symmetric matrices given by one triangle."""
    return call("_npi_eigvalsh", [a], UPLO=UPLO)


def solve(a: Any, b: Any) -> Any:
    """x with a·x = b."""
    return call("_npi_solve", [a, b])


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a as a map from its last axes to its first `ind` ones."""
    return call("_npi_tensorinv", [a], ind=ind)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b; `axes` are moved to the end of a first."""
    return call("_npi_tensorsolve", [a, b], a_axes=axes)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors (one axis) or matrices (two axes); without ord and axis the Euclidean norm of all elements.

    ord: a number, "inf", "-inf", "fro" or "nuc"; without an axis of the last two axes (of a vector: its only one).

    Raises:
        TypeError: axis is neither None, an int nor a tuple of ints.
    """
    if axis is not None and not isinstance(axis, (int, tuple)):
        raise TypeError("'axis' must be None, an integer or a tuple of integers.")
    axis = (axis,) if isinstance(axis, int) else axis
    if axis is None and ord is None:
        return _norm(x, 2, None, keepdims, -2)
    if axis is None and getattr(x, "ndim", 2) > 1:
        axis = (-2, -1)
    if isinstance(ord, float) and np.isinf(ord):
        ord = "inf" if ord > 0 else "-inf"
    if axis is not None and len(axis) == 2 and ord in ("inf", "-inf", 1, -1):
        limit = _reduce.max if ord in ("inf", 1) else _reduce.min
        return limit(_reduce.sum(_elemwise.abs(x), axis[ord in ("inf", "-inf")], keepdims=True), axis, keepdims)
    if ord in ("inf", "-inf"):
        return (_reduce.max if ord == "inf" else _reduce.min)(_elemwise.abs(x), axis, keepdims)
    if ord in (2, -2) and axis is not None and len(axis) == 2:
        return _norm(x, ord, axis, keepdims, 0)
    if ord is None or ord in ("fro", "f"):
        return _norm(x, 2, axis, keepdims, 1)
    return _norm(x, 2, axis, keepdims, 2) if ord == "nuc" else _norm(x, ord, axis, keepdims, -1)


def _norm(x: Any, ord: float, axis: Any, keepdims: bool, flag: int) -> Any:
    return call("_npi_norm", [x], ord=ord, axis=axis, keepdims=keepdims, flag=flag)
