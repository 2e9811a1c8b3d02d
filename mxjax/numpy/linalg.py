"""`mx.np.linalg`: linear algebra on the last two axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import level
from . import _elemwise, _matrix, _reduce
from ._dispatch import ArrayOrSymbol, Axes, call
from ._matrix import outer, tensordot
from ._of_2 import speak
from .fallback_linalg import cond, lstsq, matrix_power, matrix_rank, multi_dot, qr

__all__ = ["cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
           "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
           "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot",
           "vector_norm"]


def det(a: ArrayOrSymbol) -> Any:
    """The determinant.

    Args:
        a: ndarray or symbol (..., n, n).

    Returns:
        An ndarray (...).

    Raises:
        MXNetError: the matrices are not square.

    Example:
        >>> mx.np.linalg.det(mx.np.array([[2, 0], [0, 3]]))
        array(6.)
    """
    return call("_npi_det", [a])


def slogdet(a: ArrayOrSymbol) -> Any:
    """Sign and logarithm of the absolute value of the determinant.

    Args:
        a: ndarray or symbol (..., n, n).

    Returns:
        A list of the sign (...) and the logarithm (...); a tuple at level 2.

    Raises:
        MXNetError: the matrices are not square.

    Example:
        >>> sign, logarithm = mx.np.linalg.slogdet(mx.np.array([[2, 0], [0, -3]]))
        >>> sign
        array(-1.)
        >>> mx.np.exp(logarithm).round(2)
        array(6.)
    """
    result = call("_npi_slogdet", [a])
    return tuple(result) if isinstance(result, list) and level.current() == 2 else result


def inv(a: ArrayOrSymbol) -> Any:
    """The inverse.

    Args:
        a: ndarray or symbol (..., n, n).

    Returns:
        An ndarray (..., n, n); the product with `a` is the identity.

    Raises:
        MXNetError: the matrices are not square, or one is singular.

    Example:
        >>> mx.np.linalg.inv(mx.np.array([[2, 0], [0, 4]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """
    return call("_npi_inv", [a])


def pinv(a: ArrayOrSymbol, rcond: float | str | None = 1e-15, hermitian: bool = False) -> Any:
    """The Moore-Penrose pseudoinverse.

    Args:
        a: ndarray or symbol (..., m, n).
        rcond: number or ndarray (...): singular values up to this fraction of the largest one are treated as zero.
        hermitian: only False.

    Returns:
        An ndarray (..., n, m).

    Raises:
        NotImplementedError: `hermitian` is True.

    Example:
        >>> mx.np.linalg.pinv(mx.np.array([[2, 0], [0, 0]]))
        array([[0.5, 0. ],
               [0. , 0. ]])
    """
    if hermitian:
        raise NotImplementedError("hermitian is not supported yet")
    if np.isscalar(rcond):
        return call("_npi_pinv_scalar_rcond", [a], rcond=rcond)
    return call("_npi_pinv", [a, rcond])


def cholesky(a: ArrayOrSymbol) -> Any:
    """The lower triangular L with L·Lᵀ = a.

    Args:
        a: ndarray or symbol (..., n, n), symmetric and positive definite; the lower triangle is read.

    Returns:
        An ndarray (..., n, n).

    Raises:
        MXNetError: a matrix is not square, or not positive definite.

    Example:
        >>> mx.np.linalg.cholesky(mx.np.array([[4, 2], [2, 5]]))
        array([[2., 0.],
               [1., 2.]])
    """
    return call("_npi_cholesky", [a])


def svd(a: ArrayOrSymbol) -> tuple[Any, Any, Any]:
    """The singular values s, and the orthogonal rows of U and V, with a = U·diag(s)·V.

    Args:
        a: ndarray or symbol (..., m, n) with m <= n.

    Returns:
        A tuple of U (..., m, m), s (..., m) in descending order, and V (..., m, n).

    Raises:
        MXNetError: there are more rows than columns.

    Example:
        >>> u, s, v = mx.np.linalg.svd(mx.np.array([[3, 0], [0, 4]]))
        >>> s
        array([4., 3.])
        >>> mx.np.dot(u * s, v)
        array([[3., 0.],
               [0., 4.]])
    """
    return tuple(call("_npi_svd", [a]))


def eig(a: ArrayOrSymbol) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of general matrices; real parts.

    Args:
        a: ndarray (..., n, n).

    Returns:
        A tuple of the eigenvalues (..., n) and the eigenvectors (..., n, n), as columns.

    Raises:
        MXNetError: the matrices are not square.

    Example:
        >>> values, vectors = mx.np.linalg.eig(mx.np.array([[2, 0], [0, 3]]))
        >>> values
        array([2., 3.])
        >>> vectors
        array([[1., 0.],
               [0., 1.]])
    """
    return tuple(call("_npi_eig", [a]))


def eigvals(a: ArrayOrSymbol) -> Any:
    """Eigenvalues of general matrices; real parts.

    Args:
        a: ndarray (..., n, n).

    Returns:
        An ndarray (..., n).

    Raises:
        MXNetError: the matrices are not square.

    Example:
        >>> mx.np.linalg.eigvals(mx.np.array([[2, 1], [0, 3]]))
        array([2., 3.])
    """
    return call("_npi_eigvals", [a])


def eigh(a: ArrayOrSymbol, UPLO: str = "L") -> tuple[Any, Any]:  # noqa: N803
    """Eigenvalues and eigenvectors of symmetric matrices.

    Args:
        a: ndarray or symbol (..., n, n).
        UPLO: the triangle to read: "L" for the lower one, "U" for the upper one.

    Returns:
        A tuple of the eigenvalues (..., n) in ascending order and the eigenvectors (..., n, n), as columns.

    Raises:
        MXNetError: the matrices are not square; an unknown `UPLO`.

    Example:
        >>> values, vectors = mx.np.linalg.eigh(mx.np.array([[2, 1], [1, 2]]))
        >>> values.round(2)
        array([1., 3.])
        >>> vectors.shape
        (2, 2)
    """
    return tuple(call("_npi_eigh", [a], UPLO=UPLO))


def eigvalsh(a: ArrayOrSymbol, UPLO: str = "L") -> Any:  # noqa: N803
    """Eigenvalues of symmetric matrices.

    Args:
        a: ndarray or symbol (..., n, n).
        UPLO: the triangle to read: "L" for the lower one, "U" for the upper one.

    Returns:
        An ndarray (..., n) in ascending order.

    Raises:
        MXNetError: the matrices are not square; an unknown `UPLO`.

    Example:
        >>> mx.np.linalg.eigvalsh(mx.np.array([[2, 1], [1, 2]])).round(2)
        array([1., 3.])
    """
    return call("_npi_eigvalsh", [a], UPLO=UPLO)


def solve(a: ArrayOrSymbol, b: ArrayOrSymbol) -> Any:
    """Solves a·x = b.

    Args:
        a: ndarray or symbol (..., n, n).
        b: ndarray or symbol (..., n) or (..., n, k).

    Returns:
        An ndarray of the shape of `b`.

    Raises:
        MXNetError: the shapes do not fit, or a matrix is singular.

    Example:
        >>> mx.np.linalg.solve(mx.np.array([[2, 0], [1, 1]]), mx.np.array([4, 5]))
        array([2., 3.])
    """
    return call("_npi_solve", [a, b])


def tensorinv(a: ArrayOrSymbol, ind: int = 2) -> Any:
    """The inverse of a as a map from its last axes to its first `ind` ones.

    Args:
        a: ndarray or symbol; the first `ind` axes have as many elements as the remaining ones.
        ind: number of leading axes.

    Returns:
        An ndarray with the last axes of `a` first.

    Raises:
        MXNetError: the numbers of elements differ.

    Example:
        >>> mx.np.linalg.tensorinv(2 * mx.np.eye(2), ind=1)
        array([[0.5, 0. ],
               [0. , 0.5]])
    """
    return call("_npi_tensorinv", [a], ind=ind)


def tensorsolve(a: ArrayOrSymbol, b: ArrayOrSymbol, axes: Axes = None) -> Any:
    """Solves tensordot(a, x, x.ndim) = b for x.

    Args:
        a: ndarray or symbol; its first axes are those of `b`, the others those of x, with as many elements.
        b: ndarray or symbol.
        axes: axes of `a` to move to its end first; None for none.

    Returns:
        An ndarray with the remaining axes of `a`.

    Raises:
        MXNetError: the shapes do not fit.

    Example:
        >>> mx.np.linalg.tensorsolve(2 * mx.np.eye(2), mx.np.array([2, 6]))
        array([1., 3.])
    """
    return call("_npi_tensorsolve", [a, b], a_axes=axes)


def norm(x: ArrayOrSymbol, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Any:
    """A norm of vectors (one axis) or matrices (two axes); without ord and axis the Euclidean norm of all elements.

    Args:
        x: ndarray or symbol.
        ord: a number (also infinity, or "inf", "-inf"), "fro" or "nuc"; without `axis`, a norm over the last two axes
            (for a vector, over its only axis).
        axis: an int for vectors, a pair for matrices; None: see above.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        TypeError: axis is neither None, an int nor a tuple of ints.
        MXNetError: an unknown `ord`.

    Example:
        >>> a = mx.np.array([[3, 4], [6, 8]])
        >>> mx.np.linalg.norm(a, axis=1)
        array([ 5., 10.])
        >>> mx.np.linalg.norm(a, ord=np.inf)
        array(14.)
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


def _norm(x: ArrayOrSymbol, ord: float | str, axis: Axes, keepdims: bool, flag: int) -> Any:
    return call("_npi_norm", [x], ord=ord, axis=axis, keepdims=keepdims, flag=flag)


# ------------------------------------------------------------ the array API's names
def cross(a: ArrayOrSymbol, b: ArrayOrSymbol, axis: int = -1) -> Any:
    """The cross products of vectors; see `mx.np.cross`.

    Args:
        a, b: ndarrays or symbols of vectors of 2 or 3 elements, float32 or float64.
        axis: the axis of the vectors.

    Returns:
        An ndarray of the products.

    Example:
        >>> mx.np.linalg.cross(mx.np.array([1, 0, 0]), mx.np.array([0, 1, 0]))
        array([0., 0., 1.])
    """
    return _matrix.cross(a, b, axis=axis)


def diagonal(a: ArrayOrSymbol, offset: int = 0) -> Any:
    """A diagonal of a matrix; for a vector, the matrix with this diagonal, as in `mx.np.diag`.

    Args:
        a: ndarray or symbol, a matrix or a vector.
        offset: the diagonal: 0 for the main diagonal, positive above it, negative below it.

    Returns:
        An ndarray.

    Raises:
        MXNetError: `a` has more than two axes.

    Example:
        >>> mx.np.linalg.diagonal(mx.np.array([[1, 2], [3, 4]]))
        array([1., 4.])
    """
    return _matrix.diag(a, offset)


def matrix_norm(x: ArrayOrSymbol, ord: float | str | None = "fro", axis: tuple[int, int] = (-2, -1),
                keepdims: bool = False) -> Any:
    """A norm of matrices; see `norm`.

    Args:
        x: ndarray or symbol.
        ord: "fro", "nuc", 1, -1, 2, -2, or an infinity.
        axis: the axes of the matrices.
        keepdims: keep these axes with size 1.

    Returns:
        An ndarray without these axes.

    Example:
        >>> mx.np.linalg.matrix_norm(mx.np.array([[3, 0], [0, 4]]))
        array(5.)
    """
    return norm(x, ord, axis, keepdims)


def matrix_transpose(a: ArrayOrSymbol) -> Any:
    """Exchanges the last two axes.

    Args:
        a: ndarray with at least two axes.

    Returns:
        A copy (..., n, m).

    Raises:
        ValueError: `a` has fewer than two axes.

    Example:
        >>> mx.np.linalg.matrix_transpose(mx.np.zeros((2, 3, 4))).shape
        (2, 4, 3)
    """
    if a.ndim < 2:
        raise ValueError(f"matrix_transpose requires an array with at least two axes, got shape {a.shape}")
    return _matrix.swapaxes(a, -1, -2)


def svdvals(a: ArrayOrSymbol) -> Any:
    """The singular values in descending order.

    Args:
        a: ndarray or symbol (..., m, n) with m <= n.

    Returns:
        An ndarray (..., m).

    Example:
        >>> mx.np.linalg.svdvals(mx.np.array([[3, 0], [0, -4]])).round(2)
        array([4., 3.])
    """
    return svd(a)[1]


def trace(a: ArrayOrSymbol, offset: int = 0) -> Any:
    """The sums of diagonals of the matrices in the first two axes.

    Args:
        a: ndarray or symbol (m, n, ...).
        offset: the diagonal: 0 for the main diagonal, positive above it, negative below it.

    Returns:
        An ndarray (...).

    Example:
        >>> mx.np.linalg.trace(mx.np.array([[1, 2], [3, 4]]))
        array(5.)
    """
    return _matrix.trace(a, offset)


def vecdot(a: ArrayOrSymbol, b: ArrayOrSymbol, axis: int | None = None) -> Any:
    """The product of the flattened arrays, or their `tensordot` over `axis` axes, as in MXNet 2.

    Args:
        a, b: ndarrays or symbols.
        axis: number of axes to sum over, as in `tensordot`; None for the sum of all products.

    Returns:
        An ndarray.

    Example:
        >>> mx.np.linalg.vecdot(mx.np.array([1, 2]), mx.np.array([3, 4]))
        array(11.)
    """
    return _matrix.tensordot(_matrix.ravel(a), _matrix.ravel(b), 1 if axis is None else axis)


def vector_norm(x: ArrayOrSymbol, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Any:
    """A norm of vectors.

    Args:
        x: ndarray or symbol.
        ord: a number, also an infinity; default 2.
        axis: int or tuple of ints: the axes that form the vectors; None for all axes.
        keepdims: whether to keep an axis of size 1 in their place: `axis` if it is an int, else the first axis.

    Returns:
        An ndarray without these axes.

    Example:
        >>> mx.np.linalg.vector_norm(mx.np.array([[3, 4], [6, 8]]), axis=1)
        array([ 5., 10.])
    """
    if axis is None:
        x, axis = _matrix.ravel(x), 0
    elif isinstance(axis, (tuple, list)):
        rest = tuple(i for i in range(x.ndim) if i not in [a % x.ndim for a in axis])
        x = _matrix.transpose(x, (*axis, *rest))
        x, axis = _matrix.reshape(x, (-1, *x.shape[len(axis):])), 0
    return norm(x, 2 if ord is None else ord, axis, keepdims)


BY_LEVEL = {name: globals()[name] for name in ("cholesky", "eigh", "eigvalsh", "lstsq", "matrix_rank", "pinv", "qr")}
speak(globals(), BY_LEVEL, prefix="linalg.")
