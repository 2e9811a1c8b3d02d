"""Linear algebra of mx.np on the last two axes; leading axes are batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, absolute, gives, is_float, no_gradient
from ..infer import first
from ..linalg.decompositions import cholesky as factor
from ..linalg.decompositions import slogdet_gradient, syevd, unless_finite
from ..params import Double, Shape, np_dtype
from ..registry import register
from .reductions import axes_of

Triangle = Literal["L", "U"]


def _linalg(name: str, square: bool = True, adapt: Callable[..., tuple[Array, ...]] | None = None,
            **attrs: Any) -> Callable[[Callable], Callable]:
    """`register` for `_npi_<name>` with a check of the first input: float32 or float64, square matrices.

    `adapt` changes the inputs before the check.
    """
    def decorate(function: Callable) -> Callable:
        def compute(*arrays: Array, **params: Any) -> Any:
            if adapt is not None:
                arrays = adapt(*arrays)
            shape, dtype = arrays[0].shape, arrays[0].dtype
            if not is_float(dtype) or dtype.itemsize < 4:
                raise MXNetError(f"operator _npi_{name} takes float32 or float64 matrices, got {dtype}")
            if len(shape) < 2 or square and shape[-1] != shape[-2]:
                raise MXNetError(f"operator _npi_{name}: the input must consist of {'square ' * square}matrices, got "
                                 f"shape {shape}")
            return function(*arrays, **params)
        vars(compute)["__wrapped__"] = function
        compute.__annotations__, compute.__doc__ = function.__annotations__, function.__doc__
        register(f"_npi_{name}", **attrs)(compute)
        return function
    return decorate


def _t(a: Array) -> Array:
    return jnp.swapaxes(a, -1, -2)


@_linalg("det", FPartialShape=lambda p, a: a[:-2])
def det(A: Array) -> Array:
    """The determinant: (..., n, n) -> (...)."""
    return jnp.linalg.det(A)


@_linalg("slogdet", num_outputs=2, FPartialShape=lambda p, a: a[:-2], FGradient=slogdet_gradient)
def slogdet(A: Array) -> tuple[Array, Array]:
    """Sign and logarithm of the absolute value of the determinant: (..., n, n) -> (...), (...)."""
    return tuple(jnp.linalg.slogdet(A))


@_linalg("cholesky", FPartialShape=first, FRefuse=unless_finite("_npi_cholesky", "a matrix is not positive definite"))
def cholesky(A: Array) -> Array:
    """The lower triangular L with L·Lᵀ = A."""
    return factor(A)


def _sign_of_largest(rows: Array) -> Array:
    largest = jnp.take_along_axis(rows, jnp.argmax(jnp.abs(rows), -1, keepdims=True), -1)
    return lax.stop_gradient(jnp.where(largest < 0, -1, 1).astype(rows.dtype))


@_linalg("svd", square=False, num_outputs=3, FPartialShape=lambda p, a: [(*a[:-1], a[-2]), a[:-1], a])
def svd(A: Array) -> tuple[Array, Array, Array]:
    """U (..., m, m), singular values L (..., m) and V (..., m, n) with A = U·diag(L)·V.  A: (..., m, n) with m <= n.

    The largest element of each row of V is positive.
    """
    if A.shape[-2] > A.shape[-1]:
        raise MXNetError(f"operator _npi_svd: A must have at most as many rows as columns, got shape {A.shape}")
    u, values, v = jnp.linalg.svd(A, full_matrices=False)
    if not v.size:
        return u, values, v
    sign = _sign_of_largest(v)
    return u * _t(sign), values, v * sign


# ------------------------------------------------------------ eigenvalues
def _symmetric(A: Array, UPLO: str) -> Array:  # noqa: N803
    triangle = jnp.tril(A) if UPLO == "L" else _t(jnp.triu(A))
    return triangle + _t(jnp.tril(triangle, -1))



def _wide_types(params: dict[str, Any], ins: list, outs: list) -> None:
    kind = ins[0] if ins[0] is None or is_float(np_dtype(ins[0])) else "float64"
    outs[:] = [t or kind for t in outs]


@register("_npi_eigvals", x64=True, FGradient=no_gradient, infer_type=_wide_types)
def eigvals(A: Array) -> Array:
    """Eigenvalues (real parts) of general matrices: (..., n, n) -> (..., n)."""
    return eig(A)[0]


@register("_npi_eig", x64=True, FGradient=no_gradient, num_outputs=2, infer_type=_wide_types)
def eig(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., n) and eigenvectors (columns) of general matrices; real parts."""
    _need_square(A)
    wide = _wide(A)
    return by_device(wide, tpu=eig_on_host, default=eig_by_xla)


def eig_by_xla(A: Array) -> tuple[Array, Array]:  # noqa: N803
    """Returns the real parts of eigenvalues and eigenvectors, where JAX computes them."""
    values, vectors = jnp.linalg.eig(A)
    return values.real.astype(A.dtype), vectors.real.astype(A.dtype)


def eig_on_host(A: Array) -> tuple[Array, Array]:  # noqa: N803
    """Returns them as NumPy computes them: JAX has none for TPUs."""
    def compute(matrices: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple([np.asarray(np.real(result), A.dtype) for result in np.linalg.eig(matrices)])
    return jax.pure_callback(compute, (jax.ShapeDtypeStruct(A.shape[:-1], A.dtype), A), A)


def _need_square(A: Array) -> None:  # noqa: N803
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise MXNetError(f"the input must consist of square matrices, got shape {A.shape}")
    if A.dtype == jnp.float16:
        raise MXNetError("float16 matrices are not supported")


def _wide(A: Array) -> Array:  # noqa: N803
    """Integers as float64."""
    return A if is_float(A.dtype) else A.astype(jnp.float64)


@register("_npi_eigh", x64=True, FGradient=no_gradient, num_outputs=2, infer_type=_wide_types)
def eigh(A: Array, *, UPLO: Triangle = "L") -> tuple[Array, Array]:  # noqa: N803
    """Eigenvalues (..., n), ascending, and eigenvectors (columns) of symmetric matrices given by one triangle."""
    _need_square(A)
    wide = _symmetric(_wide(A), UPLO)
    if wide.size == 0:
        return jnp.zeros(wide.shape[:-1], wide.dtype), wide
    rows, values = syevd(wide)
    return values, _t(rows)


@register("_npi_eigvalsh", x64=True, FGradient=no_gradient, infer_type=_wide_types)
def eigvalsh(A: Array, *, UPLO: Triangle = "L") -> Array:  # noqa: N803
    """Eigenvalues, ascending, of symmetric matrices given by one triangle: (..., n, n) -> (..., n)."""
    return eigh(A, UPLO=UPLO)[0]


# ------------------------------------------------------------ inverses and equations
def _wide_equations(params: dict[str, Any], ins: list, outs: list) -> None:
    """Equations with integers are solved in float64."""
    gives("float64" if any(t and not is_float(np_dtype(t)) for t in ins) else None)(params, ins, outs)


def _alike(*arrays: Array) -> tuple[Array, ...]:
    return arrays if all(is_float(a.dtype) for a in arrays) else tuple([a.astype(jnp.float64) for a in arrays])


@_linalg("solve", adapt=_alike, x64=True, infer_type=_wide_equations, FPartialShape=lambda p, a, b: b,
         FRefuse=unless_finite("_npi_solve", "a matrix is singular"))
def solve(A: Array, B: Array) -> Array:
    """Solves A·X = B; integers make it float64.  A: (..., n, n); B: (..., n, k), or one dimension less."""
    return jnp.linalg.solve(A, B[..., None])[..., 0] if B.ndim == A.ndim - 1 else jnp.linalg.solve(A, B)


def _swapped(p: dict[str, Any], a: tuple, *_: Any) -> tuple:
    return (*a[:-2], a[-1], a[-2])


@_linalg("pinv", square=False, infer_type=gives(lambda p: None), FGradient=no_gradient, FPartialShape=_swapped)
def pinv(A: Array, rcond: Array, *, hermitian: bool = False) -> Array:
    """The Moore-Penrose pseudoinverse; singular values up to rcond times the largest one are treated as zero."""
    return jnp.linalg.pinv(A, rtol=rcond, hermitian=hermitian)


@_linalg("pinv_scalar_rcond", square=False, FGradient=no_gradient, FPartialShape=_swapped)
def pinv_scalar_rcond(A: Array, *, rcond: Double = 1e-15, hermitian: bool = False) -> Array:
    """The Moore-Penrose pseudoinverse; singular values up to rcond times the largest one are treated as zero."""
    return jnp.linalg.pinv(A, rtol=max(rcond, float(jnp.finfo(A.dtype).eps)), hermitian=hermitian)


@register("_npi_tensorinv")
def tensorinv(a: Array, *, ind: int = 2) -> Array:
    """The inverse of a as a map from its last axes to its first `ind` ones."""
    if ind <= 0:
        raise MXNetError(f"operator _npi_tensorinv: ind must be positive, got {ind}")
    rows, columns = math.prod(a.shape[:ind]), math.prod(a.shape[ind:])
    if rows != columns:
        raise MXNetError(f"operator _npi_tensorinv: the first {ind} axes of {a.shape} must have the same number of "
                         "elements as the others")
    return jnp.linalg.inv(a.reshape(rows, rows)).reshape(a.shape[ind:] + a.shape[:ind])


@register("_npi_tensorsolve", x64=True, infer_type=_wide_equations)
def tensorsolve(a: Array, b: Array, *, a_axes: Shape | None = ()) -> Array:
    """Solves tensordot(a, x, x.ndim) = b for x; `a_axes` are moved to the end of a first."""
    a, b = _alike(a, b)
    moved = [n % a.ndim for n in a_axes or ()]
    a = jnp.transpose(a, [n for n in range(a.ndim) if n not in moved] + moved)
    shape = a.shape[-(a.ndim - b.ndim):]  # as in NumPy, also where b has as many dimensions or more
    count = math.prod(shape)
    if count * count != a.size or count != b.size:
        raise MXNetError(f"operator _npi_tensorsolve: a of shape {a.shape} does not define a square system for b of "
                         f"shape {b.shape}")
    return jnp.linalg.solve(a.reshape(count, count), b.ravel()).reshape(shape)


# ------------------------------------------------------------ factors and ranks of any matrices
def _qr_shapes(p: dict[str, Any], a: tuple) -> list[tuple]:
    *batch, m, n = a
    return [(*batch, m, min(m, n)), (*batch, min(m, n), n)]


@register("_npi_qr", x64=True, num_outputs=2, infer_type=_wide_types, FPartialShape=_qr_shapes)
def qr(A: Array) -> tuple[Array, Array]:
    """Returns Q (..., m, k) with orthonormal columns and the upper triangular R (..., k, n) with A = Q·R.

    A: (..., m, n); k is the smaller of m and n.
    """
    if A.ndim < 2:
        raise MXNetError(f"operator _npi_qr: the input must consist of matrices, got shape {A.shape}")
    rows = A.shape[-2]
    wide = _wide(A)
    q, r = jnp.linalg.qr(wide[..., :rows])
    # the leading square determines Q, so JAX's derivative of square matrices serves wide ones
    return q, jnp.concatenate([r, _t(q) @ wide[..., rows:]], -1) if A.shape[-1] > rows else r


@_linalg("matrix_rank", square=False, FGradient=no_gradient, infer_type=gives("int64", None, None), x64=True,
         FPartialShape=lambda p, a, tol: a[:-2])
def matrix_rank(M: Array, tol: Array, *, hermitian: bool = False, finfoEps32: Double = 0.0,  # noqa: N803
                finfoEps64: Double = 0.0) -> Array:  # noqa: N803
    """Counts the singular values above `tol`, a number or one for each matrix: (..., m, n) -> (...), int64."""
    return jnp.sum(jnp.linalg.svd(M, compute_uv=False) > tol[..., None], -1, dtype=jnp.int64)


@_linalg("matrix_rank_none_tol", square=False, FGradient=no_gradient, infer_type=gives("int64", None), x64=True,
         FPartialShape=lambda p, a: a[:-2])
def matrix_rank_none_tol(M: Array, *, hermitian: bool = False, finfoEps32: Double = 0.0,  # noqa: N803
                         finfoEps64: Double = 0.0) -> Array:  # noqa: N803
    """Counts the singular values that differ from zero: (..., m, n) -> (...), int64.

    The limit is the largest one times the larger size times the dtype's epsilon.
    """
    values = jnp.linalg.svd(M, compute_uv=False)
    limit = jnp.max(values, -1, keepdims=True, initial=0) * max(M.shape[-2:]) * jnp.finfo(M.dtype).eps
    return jnp.sum(values > limit, -1, dtype=jnp.int64)


@register("_npi_lstsq", eager=True, FGradient=no_gradient, x64=True, num_outputs=4,
          infer_type=gives((None, None, "int64", None), None, None))
def lstsq(A: Array, B: Array, *, rcond: Double = -1.0, finfoEps32: Double = 0.0,  # noqa: N803
          finfoEps64: Double = 0.0, new_default: bool = False) -> tuple[np.ndarray, ...]:  # noqa: N803
    """Solves A·X = B by least squares.

    A: (m, n); B: (m,) or (m, k); new_default: the limit of singular values is the epsilon times the larger size.

    Returns X, the squared residuals (empty unless A has full rank and m > n), the rank and the singular values.
    """
    if not is_float(A.dtype) or A.dtype.itemsize < 4:
        raise MXNetError(f"operator _npi_lstsq takes float32 or float64 matrices, got {A.dtype}")
    if A.ndim != 2 or B.ndim not in (1, 2) or A.shape[0] != B.shape[0]:
        raise MXNetError("operator _npi_lstsq: A must be a matrix, and B must have the same number of rows, got shapes "
                         f"{A.shape} and {B.shape}")
    x, rest, rank, values = np.linalg.lstsq(np.asarray(A), np.asarray(B), None if new_default else rcond)
    return x, rest, np.asarray(rank, np.int64), values


# ------------------------------------------------------------ norms
def _root(squares: Array) -> Array:
    """The square root, with derivative zero at zero."""
    return jnp.where(squares == 0, 0, jnp.sqrt(jnp.where(squares == 0, 1, squares)))


@register("_npi_norm", output_names=lambda p: ["output0"])
def norm(data: Array, *, ord: Double = 2.0, axis: Shape | None = None, keepdims: bool = False, flag: int = -1) -> Array:
    """A norm over axes (None: all).

    flag: -2 Euclidean norm of all elements; -1 the `ord` norm of vectors, for two axes and ord 1, -1, inf or -inf of
    matrices (largest or smallest sum of absolute values of a column or row); 0 largest (ord=2) or
    smallest (-2) singular value, 1 Frobenius, 2 nuclear norm of the matrices in two axes.
    """
    data = data if is_float(data.dtype) else data.astype(jnp.float32)
    axes = axes_of("_npi_norm", axis, data.ndim)
    if flag == 0 and len(axes) == 2 or flag == 2:
        if len(axes) != 2:
            raise MXNetError(f"operator _npi_norm: a matrix norm requires two axes, got axis={axis}")
        matrices = jnp.moveaxis(data, axes, (-2, -1))
        values = jnp.linalg.svd(matrices, compute_uv=False)
        result = {2: jnp.sum}.get(flag, jnp.max if ord > 0 else jnp.min)(values, -1)
        return jnp.expand_dims(result, axes) if keepdims else result
    if flag in (-2, 1) or ord == 2:
        return _root(jnp.sum(jnp.square(data), axes, keepdims=keepdims))
    size = absolute(data)
    if len(axes) == 2 and abs(ord) in (1, math.inf):
        along, across = axes if abs(ord) == 1 else axes[::-1]
        sums = jnp.sum(size, along, keepdims=True)
        result = (jnp.max if ord > 0 else jnp.min)(sums, across, keepdims=True)
        return result if keepdims else jnp.squeeze(result, axes)
    if math.isinf(ord):
        return (jnp.max if ord > 0 else jnp.min)(size, axes, keepdims=keepdims)
    if ord == 0:
        return jnp.sum((data != 0).astype(data.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return jnp.sum(size, axes, keepdims=keepdims)
    total = jnp.sum(size ** ord, axes, keepdims=keepdims)
    return lax.pow(total, jnp.asarray(1 / ord, total.dtype))
