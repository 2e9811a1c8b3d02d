"""Random arrays, shapes and matrices."""

from __future__ import annotations

import random as _python_random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.random as rnd

from .. import ndarray as nd
from ..base import Unfit
from ..context import Context
from ..ndarray import NDArray
from ._defaults import default_context, default_dtype

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..ops.params import DTypeLike


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Draws arrays from the normal distribution: one array for one shape, otherwise a list."""
    arrays = [np.array(rnd.randn(), default_dtype()) if not s else rnd.randn(*s).astype(default_dtype())
              for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], **kwargs: Any) -> list[np.ndarray]:
    """Draws arrays from the uniform distribution on [low, high), by default [0, 1), of a dtype (by default float32)."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"Got unexpected argument/s : {', '.join(kwargs)}")
    return [rnd.uniform(low, high, size=s).astype(dtype) for s in shapes]


def random_sample(population: Iterable[Any], k: int) -> list:
    """Draws `k` of the elements, in their original order."""
    population = list(population)
    chosen = sorted(_python_random.sample(range(len(population)), k))
    return [population[i] for i in chosen]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, int]:
    """A random shape with two axes of at most these lengths."""
    low = 0 if allow_zero_size else 1
    return rnd.randint(low, dim0 + 1), rnd.randint(low, dim1 + 1)


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> tuple:
    """A random shape with three axes of at most these lengths."""
    low = 0 if allow_zero_size else 1
    return tuple(rnd.randint(low, d + 1) for d in (dim0, dim1, dim2))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape with `num_dim` axes of at most `dim`."""
    return tuple(rnd.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[np.integer, np.integer]:
    """A random pair of coordinates."""
    return (np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64))


def _density(density: float | None) -> float:
    return rnd.rand() if density is None else density


def shuffle_csr_column_indices(csr: Any) -> None:
    """Shuffles the stored values of each row of a SciPy csr matrix in place."""
    for row in range(len(csr.indptr) - 1):
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        order = np.random.permutation(part.stop - part.start)
        csr.indices[part] = csr.indices[part][order]
        csr.data[part] = csr.data[part][order]


def rand_sparse_ndarray(shape: tuple, stype: str, density: float | None = None, dtype: DTypeLike | None = None,
                        distribution: str | None = None, data_init: float | None = None,
                        rsp_indices: ArrayLike | None = None, modifier_func: Callable | None = None,
                        shuffle_csr_indices: bool = False, ctx: Context | None = None) -> tuple:
    """Draws a random sparse array; returns it and its parts.

    Args:
        shape, dtype, ctx: as elsewhere.
        stype: "csr" or "row_sparse".
        density: fraction of stored values (rows); None: random.
        distribution: "uniform", or for csr "powerlaw".
        data_init: value of all stored elements.
        rsp_indices: the stored rows.
        modifier_func: function to apply to each stored value.
        shuffle_csr_indices: leave column indices unsorted.
    """
    ctx = ctx or default_context()
    density = _density(density)
    dtype = np.dtype(default_dtype() if dtype is None else dtype)
    distribution = distribution or "uniform"
    if stype == "row_sparse":
        if distribution != "uniform":
            raise Unfit(f"row_sparse arrays have no distribution {distribution!r}")
        rows = np.sort(np.asarray(rsp_indices)) if rsp_indices is not None else \
            np.flatnonzero(rnd.rand(shape[0]) < density)
        values = rnd.rand(len(rows), *shape[1:]).astype(dtype) if len(rows) else np.zeros((0, *shape[1:]), dtype)
        if data_init is not None:
            values[...] = data_init
        if modifier_func is not None:
            values = assign_each(values, modifier_func)
        array = nd.sparse.row_sparse_array((values, rows.astype(np.int64)), shape=shape, dtype=dtype, ctx=ctx)
        return array, (values, rows.astype(np.int64))
    if stype != "csr":
        raise Unfit(f"unknown storage type {stype!r}")
    import scipy.sparse as scipy_sparse
    if distribution == "powerlaw":
        dense = np.zeros(shape)
        left, width = int(np.ceil(shape[0] * shape[1] * density)), 1
        for row in range(shape[0]):
            count = min(width, shape[1], left)
            dense[row, :count] = rnd.uniform(0.001, 2, count)
            left, width = left - count, width * 2
            if left <= 0:
                break
        csr = scipy_sparse.csr_matrix(dense.astype(dtype))
    elif distribution == "uniform":
        csr = scipy_sparse.random(*shape, density=density, format="csr", dtype=np.float64).astype(dtype)
    else:
        raise Unfit(f"csr arrays have no distribution {distribution!r}")
    if data_init is not None:
        csr.data.fill(data_init)
    if shuffle_csr_indices:
        shuffle_csr_column_indices(csr)
    if modifier_func is not None:
        csr.data = assign_each(csr.data, modifier_func)
    parts = csr.data, csr.indices, csr.indptr  # pyright: ignore[reportAttributeAccessIssue]  SciPy has no stubs
    array = nd.sparse.csr_matrix(parts, shape=shape, dtype=dtype, ctx=ctx)
    return array, (array.indptr, array.indices, array.data)


def rand_ndarray(shape: tuple, stype: str = "default", density: float | None = None, dtype: DTypeLike | None = None,
                 modifier_func: Callable | None = None, shuffle_csr_indices: bool = False,
                 distribution: str | None = None, ctx: Context | None = None) -> NDArray:
    """Draws a random array of any storage type; arguments as in `rand_sparse_ndarray`."""
    if stype == "default":
        return nd.array(random_arrays(shape), dtype=dtype, ctx=ctx or default_context())
    return rand_sparse_ndarray(shape, stype, density, dtype, distribution, None, None, modifier_func,
                               shuffle_csr_indices, ctx)[0]


def create_sparse_array(shape: tuple, stype: str, data_init: float | None = None, rsp_indices: ArrayLike | None = None,
                        dtype: DTypeLike | None = None, modifier_func: Callable | None = None, density: float = 0.5,
                        shuffle_csr_indices: bool = False) -> NDArray:
    """Creates a sparse array with the given rows or density; arguments as in `rand_sparse_ndarray`."""
    if stype == "row_sparse" and rsp_indices is not None:
        rsp_indices = np.asarray(rsp_indices, dtype=np.int64)
        if len(rsp_indices) > shape[0]:
            raise Unfit(f"{len(rsp_indices)} rows for an array of shape {shape}")
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func,
                               shuffle_csr_indices)[0]


def create_sparse_array_zd(shape: tuple, stype: str, density: float, data_init: float | None = None,
                           rsp_indices: ArrayLike | None = None, dtype: DTypeLike | None = None,
                           modifier_func: Callable | None = None, shuffle_csr_indices: bool = False) -> NDArray:
    """Like `create_sparse_array`, but the array may have no stored values."""
    if stype == "row_sparse" and rsp_indices is None:
        density = 0.0 if density is None else density
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, density,
                               shuffle_csr_indices)


def create_2d_tensor(rows: int, columns: int, dtype: DTypeLike = np.int64) -> NDArray:
    """Creates a (rows, columns) array whose rows are filled with their index."""
    return nd.array(np.arange(rows).reshape(rows, 1).repeat(columns, axis=1), dtype=dtype)


def create_2d_np_tensor(rows: int, columns: int, dtype: DTypeLike = np.int64) -> Any:
    """Like `create_2d_tensor`, as an `mx.np.ndarray`."""
    return create_2d_tensor(rows, columns, dtype).as_np_ndarray()


def create_vector(size: int, dtype: DTypeLike = np.int64) -> NDArray:
    """Creates the vector 0, 1, ... size - 1."""
    return nd.arange(0, size, dtype=dtype)


def assign_each(the_input: ArrayLike, function: Callable | None) -> Any:
    """Returns a copy with `function` applied to each element."""
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[np.asarray(the_input).dtype])(the_input) if np.size(the_input) \
        else np.array(the_input)


def assign_each2(input1: ArrayLike, input2: ArrayLike, function: Callable | None) -> Any:
    """Returns function(element of input1, element of input2) for each element."""
    if function is None:
        return np.array(input1)
    return np.vectorize(function, otypes=[np.asarray(input1).dtype])(input1, input2) if np.size(input1) \
        else np.array(input1)


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random n x n matrix with distinct real eigenvalues."""
    basis = rnd.uniform(-1.0, 1.0, (n, n)) + 2 * np.eye(n)
    return basis @ np.diag(np.arange(1, n + 1) * 0.5) @ np.linalg.inv(basis)


def new_matrix_with_real_eigvals_nd(shape: tuple) -> np.ndarray:
    """Like `new_matrix_with_real_eigvals_2d`, over leading axes."""
    return _stacked(shape, new_matrix_with_real_eigvals_2d)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal n x n matrix."""
    return np.linalg.qr(rnd.normal(size=(n, n)))[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random symmetric n x n matrix."""
    half = rnd.uniform(-1.0, 1.0, (n, n))
    return half + half.T + np.diag(np.arange(n))


def new_sym_matrix_with_real_eigvals_nd(shape: tuple) -> np.ndarray:
    """Like `new_sym_matrix_with_real_eigvals_2d`, over leading axes."""
    return _stacked(shape, new_sym_matrix_with_real_eigvals_2d)


def _stacked(shape: tuple, make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2], dtype=np.int64))
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def get_identity_mat(size: int) -> NDArray:
    """Returns the identity matrix."""
    return nd.array(np.identity(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Returns two stacked identity matrices."""
    return nd.array(np.stack([np.identity(size)] * 2))


def np_reduce(dat: np.ndarray, axis: int | Sequence[int] | None, keepdims: bool,
              numpy_reduce_func: Callable) -> np.ndarray:
    """Applies a NumPy reduction over several axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(range(dat.ndim)) if axis is None else tuple(axis)
    result = dat
    for a in sorted((a % dat.ndim for a in axes), reverse=True):
        result = numpy_reduce_func(result, axis=a)
    if keepdims:
        result = result.reshape([1 if i in [a % dat.ndim for a in axes] else n for i, n in enumerate(dat.shape)])
    return result


def collapse_sum_like(a: np.ndarray, shape: tuple) -> np.ndarray:
    """Sums an array to the shape from which it was broadcast."""
    extra = a.ndim - len(shape)
    a = a.sum(axis=tuple(range(extra))) if extra else a
    axes = tuple(i for i, (n, m) in enumerate(zip(a.shape, shape, strict=True)) if n != m)
    return a.sum(axis=axes, keepdims=True).reshape(shape) if axes else a.reshape(shape)
