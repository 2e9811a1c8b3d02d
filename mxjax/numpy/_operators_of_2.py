"""Functions that NumPy computes at level 1 and an operator computes at level 2: recorded, traced and on any device."""

from __future__ import annotations

from typing import Any

from . import _create, _reduce
from ._dispatch import IMPERATIVE, ArrayOrSymbol, call, is_number

__all__ = ["FUNCTIONS"]


def interp(x: ArrayOrSymbol, xp: ArrayOrSymbol, fp: ArrayOrSymbol, left: float | None = None,
           right: float | None = None, period: float | None = None) -> Any:
    """Interpolates linearly between points.

    Args:
        x: ndarray, symbol or number: the points at which to interpolate.
        xp, fp: ndarrays or symbols (n,): the data points; `xp` must be increasing unless `period` is given.
        left, right: results below and above `xp`; default to the ends of `fp`.
        period: period of `x` and `xp`.

    Returns:
        A float64 ndarray of the shape of `x`. Its gradient is zero, as in MXNet.

    Raises:
        ValueError: `xp` and `fp` have different lengths or are empty.
        MXNetError: `period` is zero.

    Example:
        >>> mx.np.interp(mx.np.array([0.5, 9]), mx.np.array([0, 1]), mx.np.array([0, 3]))
        array([1.5, 3. ], dtype=float64)
    """
    options = {"left": left, "right": right, "period": period}
    if is_number(x):
        return call("_npi_interp", [xp, fp], x_scalar=float(x), x_is_scalar=True, **options)
    return call("_npi_interp", [xp, fp, x], **options)


def rollaxis(a: ArrayOrSymbol, axis: int, start: int = 0) -> Any:
    """Moves an axis to the position before another one.

    Args:
        a: ndarray or symbol.
        axis: the axis to move.
        start: the axis before which to move it; `a.ndim` for the end.

    Returns:
        An ndarray with the axes in the new order.

    Raises:
        MXNetError: `axis` or `start` is out of range.

    Example:
        >>> mx.np.rollaxis(mx.np.zeros((1, 2, 3)), 2).shape
        (3, 1, 2)
    """
    return call("_npi_rollaxis", [a], axis=axis, start=start)


def qr(a: ArrayOrSymbol, mode: str = "reduced") -> tuple[Any, Any]:
    """Factors matrices into one with orthonormal columns and an upper triangular one.

    Args:
        a: ndarray or symbol (..., m, n).
        mode: only "reduced".

    Returns:
        Q (..., m, k) and R (..., k, n), where k is the smaller of m and n.

    Raises:
        NotImplementedError: an unsupported mode.
        MXNetError: `a` has fewer than two axes.

    Example:
        >>> q, r = mx.np.linalg.qr(mx.np.array([[3, 1], [4, 2]]))
        >>> r.shape
        (2, 2)
    """
    if mode is not None and mode != "reduced":
        raise NotImplementedError(f"linalg.qr: only mode='reduced' is implemented, got {mode!r}")
    q, r = call("_npi_qr", [a])
    return q, r


def lstsq(a: ArrayOrSymbol, b: ArrayOrSymbol, rcond: float | str | None = "warn") -> tuple[Any, Any, Any, Any]:
    """Solves a·x = b by least squares.

    Args:
        a: ndarray or symbol (m, n).
        b: ndarray or symbol (m,) or (m, k).
        rcond: singular values up to this fraction of the largest one are treated as zero; None for the dtype's epsilon
            times the larger of m and n; -1 or "warn" for the epsilon.

    Returns:
        The solution (n,) or (n, k); the sums of squared residuals, empty unless the rank is n and m > n; the rank; the
        singular values of `a`. Gradients are zero, as in MXNet.

    Raises:
        MXNetError: the shapes do not fit, or the dtype is not float32 or float64.

    Example:
        >>> x, rest, rank, values = mx.np.linalg.lstsq(mx.np.array([[1], [1]]), mx.np.array([1, 3]), rcond=None)
        >>> x
        array([2.])
    """
    default = rcond is None
    limit = -1.0 if default or rcond == "warn" else float(rcond)
    return tuple(call("_npi_lstsq", [a, b], rcond=limit, new_default=default))


def matrix_rank(M: Any, rtol: float | None = None, hermitian: bool = False) -> Any:  # noqa: N803
    """The rank of matrices: the number of singular values above a tolerance.

    Args:
        M: ndarray or symbol (..., m, n); for an ndarray with fewer axes the rank is 1 if any element is nonzero, else
            0.
        rtol: singular values up to this are treated as zero, a number or an array with one for each matrix; defaults to
            the largest one times the larger size times the dtype's epsilon.
        hermitian: whether the matrices are Hermitian.

    Returns:
        An int64 ndarray (...).

    Raises:
        MXNetError: the dtype is not float32 or float64.

    Example:
        >>> int(mx.np.linalg.matrix_rank(mx.np.array([[1, 2], [2, 4]])))
        1
    """
    if IMPERATIVE.is_array(M) and M.ndim < 2:
        return _reduce.any(M != 0).astype("int64")
    if rtol is None:
        return call("_npi_matrix_rank_none_tol", [M], hermitian=hermitian)
    tol = _create.full(IMPERATIVE, (), rtol, "float64") if is_number(rtol) and IMPERATIVE.is_array(M) else rtol
    return call("_npi_matrix_rank", [M, tol], hermitian=hermitian)


FUNCTIONS = {"interp": interp, "rollaxis": rollaxis, "linalg.qr": qr, "linalg.lstsq": lstsq,
             "linalg.matrix_rank": matrix_rank}
