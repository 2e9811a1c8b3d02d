"""Helpers for numerical tests: tolerances, comparisons, finite differences, random arrays, consistency checks."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import logging
import os
import random as _python_random
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.random as rnd
from jax.flatten_util import ravel_pytree

import mxjax as mx  # noqa: F401  scripts that say `from mxnet.test_utils import *` expect these

from . import autograd
from . import ndarray as nd
from . import symbol as sym
from .base import MXNetError
from .context import Context, current_context, num_gpus
from .io import DataIter
from .ndarray import NDArray
from .ops.params import np_dtype
from .random import next_key
from .runtime import Features  # noqa: F401
from .symbol import Symbol
from .util import get_cuda_compute_capability, getenv, setenv, use_np  # noqa: F401

_rng = np.random.RandomState(1234)


# ---------------------------------------------------------------- defaults
def default_context() -> Context:
    """The context tests run on: the environment's MXNET_TEST_DEFAULT_CTX, else the current context."""
    text = os.environ.get("MXNET_TEST_DEFAULT_CTX")
    if text:
        kind, _, number = text.partition("(")
        return Context(kind, int(number.rstrip(")") or 0))
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Makes a context the default of this thread."""
    Context._scope.current = ctx


def default_dtype() -> type:
    """float32."""
    return np.float32


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by dtype."""
    return {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-5, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-2}


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by dtype."""
    return {np.dtype(np.float16): 1e-1, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-20, np.dtype(np.bool_): 0,
            np.dtype(np.int8): 0, np.dtype(np.uint8): 0, np.dtype(np.int32): 0, np.dtype(np.uint32): 0,
            np.dtype(np.int64): 0, np.dtype(np.uint64): 0, np_dtype("bfloat16"): 1e-1}


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences by dtype: powers of two, so that they are exact."""
    return {np.dtype(np.float16): 1 / 2**6, np.dtype(np.float32): 1 / 2**9, np.dtype(np.float64): 1 / 2**14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype that says how exact a value is (TF32 on GPUs is left to JAX's own settings)."""
    return np.dtype(getattr(dat, "dtype", np.dtype(type(dat))))


def get_tolerance(dat: Any, tol: Any, default_tol: dict) -> float:
    """`tol` as a number: as given, or by dtype, or the default for the value's dtype."""
    if isinstance(tol, (int, float)):
        return tol
    dtype = effective_dtype(dat)
    return (default_tol if tol is None else tol).get(dtype, 0)


def get_tols(x: Any, y: Any, rtol: Any, atol: Any) -> tuple[float, float]:
    """(rtol, atol) for comparing x and y: the larger of what each asks for."""
    return (max(get_tolerance(v, rtol, default_rtols()) for v in (x, y)),
            max(get_tolerance(v, atol, default_atols()) for v in (x, y)))


def get_atol(atol: float | None = None, dtype: Any = np.dtype(np.float64)) -> float:
    """`atol`, or the default for a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = np.dtype(np.float64)) -> float:
    """`rtol`, or the default for a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """`etol`, the share of elements that may be off; default 0."""
    return 0 if etol is None else etol


# ---------------------------------------------------------------- comparisons
def _numpy(value: Any) -> np.ndarray:
    return value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def _comparable(value: Any) -> np.ndarray:
    array = _numpy(value)
    return array.astype(np.float32) if array.dtype == np_dtype("bfloat16") else array


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal, element by element."""
    return bool(np.array_equal(_numpy(a), _numpy(b)))


def checkShapes(a: Any, b: Any) -> None:  # noqa: N802
    """Raises AssertionError where shapes differ."""
    if a.shape != b.shape:
        raise AssertionError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def almost_equal(a: Any, b: Any, rtol: Any = None, atol: Any = None, equal_nan: bool = False,
                 use_broadcast: bool = True) -> bool:
    """Whether two arrays are equal within tolerances (by dtype where None)."""
    a, b = _numpy(a), _numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    if not use_broadcast:
        checkShapes(a, b)
    return bool(np.allclose(_comparable(a), _comparable(b), rtol=rtol, atol=atol, equal_nan=equal_nan))


def locationError(a: np.ndarray, b: np.ndarray, index: tuple, names: Sequence[str],  # noqa: N802
                  maxError: bool = False) -> str:  # noqa: N803
    """A text saying what two arrays hold at an index."""
    kind = "maximum " if maxError else ""
    return f"Location of {kind}error: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def _plainly_close(x: np.ndarray, y: np.ndarray, rtol: Any, atol: Any) -> bool:
    """Whether floats are close by the bare formula: a fifth of the time of `allclose`, which asks about infinities."""
    if x.dtype != y.dtype or x.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
        return bool((distance <= atol + rtol * np.abs(y)).all() and np.isfinite(distance).all())


def assert_almost_equal(a: Any, b: Any, rtol: Any = None, atol: Any = None, names: tuple[str, str] = ("a", "b"),
                        equal_nan: bool = False, use_broadcast: bool = True,
                        mismatches: tuple[int, int] = (10, 10)) -> None:
    """Raises AssertionError where two arrays differ by more than atol + rtol |b|.

    Args:
        a, b: NDArrays, NumPy arrays or numbers.
        rtol, atol: numbers, dictionaries by dtype, or None for the defaults by dtype.
        names: what to call them in the message.
        equal_nan: NaNs are equal.
        use_broadcast: shapes may differ as in broadcasting.
        mismatches: how many differing elements the message shows, of each kind.
    """
    first, second = _numpy(a), _numpy(b)
    if not use_broadcast:
        checkShapes(first, second)
    rtol, atol = get_tols(first, second, rtol, atol)
    x, y = _comparable(first), _comparable(second)
    if _plainly_close(x, y, rtol, atol) or np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan):
        return
    x, y = np.broadcast_arrays(x, y)
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        excess = np.abs(x64 - y64) / (atol + rtol * np.abs(y64) + 1e-300)
    bad = ~np.isclose(x64, y64, rtol=rtol, atol=atol, equal_nan=equal_nan)
    excess = np.where(bad, np.nan_to_num(excess, nan=np.inf), 0)
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    shown = [locationError(x64, y64, tuple(i), names) for i in np.argwhere(bad)[:mismatches[0]]]
    raise AssertionError("\n".join([
        f"{int(bad.sum())} of {bad.size} elements differ by more than rtol={rtol:e}, atol={atol:e}; "
        f"worst is {excess[worst]:.6g} times the tolerance",
        locationError(x64, y64, worst, names, maxError=True), *shown]))


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """`assert_almost_equal` with NumPy's defaults."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a: Any, b: Any, rtol: Any = None, atol: Any = None, etol: float | None = None,
                                 names: tuple[str, str] = ("a", "b"), equal_nan: bool = False,
                                 mismatches: tuple[int, int] = (10, 10)) -> None:
    """`assert_almost_equal` that lets a share `etol` of the elements be off."""
    etol = get_etol(etol)
    if etol <= 0:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    x, y = _comparable(a), _comparable(b)
    rtol, atol = get_tols(x, y, rtol, atol)
    share = 1 - np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan).mean()
    if share > etol:
        raise AssertionError(f"{share:.3%} of the elements of {names[0]} and {names[1]} differ, allowed {etol:.3%}")


def assert_almost_equal_ignore_nan(a: Any, b: Any, rtol: Any = None, atol: Any = None,
                                   names: tuple[str, str] = ("a", "b")) -> None:
    """`assert_almost_equal` of the elements that are NaN in neither."""
    x, y = np.array(_comparable(a)), np.array(_comparable(b))
    nan = np.isnan(x) | np.isnan(y)
    x[nan] = y[nan] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(f: Callable, exception_type: type, *args: Any, **kwargs: Any) -> None:
    """Raises AssertionError unless f(*args, **kwargs) raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Any = None, atol: Any = None) -> None:
    """`assert_almost_equal` through nested tuples; None is skipped."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for a, b in zip(t1, t2, strict=False):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(opt1: Any, opt2: Any, shape: Any, dtype: Any, w_stype: str = "default", g_stype: str = "default",
                      rtol: float = 1e-4, atol: float = 1e-5, compare_states: bool = True, ntensors: int = 1) -> None:
    """Checks that two optimizers change weights (and states) alike."""
    shapes = shape if isinstance(shape, list) else [shape] * ntensors
    if not isinstance(shape, list) and ntensors == 1:
        shapes = [shape]
    weights, grads = [], []
    for s in shapes:
        if w_stype == "default":
            weights.append(nd.random.uniform(shape=s, ctx=default_context(), dtype=dtype))
        else:
            weights.append(rand_ndarray(s, w_stype, density=1, dtype=dtype))
        if g_stype == "default":
            grads.append(nd.random.uniform(shape=s, ctx=default_context(), dtype=dtype))
        else:
            grads.append(rand_ndarray(s, g_stype, density=0.3, dtype=dtype))
    dense = [[a.tostype("default") for a in arrays] for arrays in (weights, grads)]  # what the reference gets
    states = [[o.create_state_multi_precision(i, w) for i, w in enumerate(own)]
              for o, own in ((opt1, dense[0]), (opt2, weights))]
    if compare_states:
        for a, b in zip(*states, strict=True):
            compare_ndarray_tuple(_as_tuple(a), _as_tuple(b))
    for i, (w, g, state) in enumerate(zip(*dense, states[0], strict=True)):
        opt1.update_multi_precision(i, w, g, state)
    if ntensors == 1 and not isinstance(shape, list):
        opt2.update_multi_precision(0, weights[0], grads[0], states[1][0])
    else:
        opt2.update_multi_precision(list(range(len(shapes))), weights, grads, states[1])
    if compare_states:
        for a, b in zip(*states, strict=True):
            compare_ndarray_tuple(_as_tuple(a), _as_tuple(b), rtol, atol)
    for a, b in zip(dense[0], weights, strict=True):
        assert_almost_equal(a, b, rtol=rtol, atol=atol)


def _as_tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


# ---------------------------------------------------------------- random arrays and shapes
def random_arrays(*shapes: Any) -> Any:
    """Arrays of normal numbers: one for one shape, else a list."""
    arrays = [np.array(rnd.randn(), default_dtype()) if not s else rnd.randn(*s).astype(default_dtype())
              for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: Any, **kwargs: Any) -> list[np.ndarray]:
    """Arrays of numbers uniform on [low, high) (0, 1) of a dtype (float32)."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"Got unexpected argument/s : {', '.join(kwargs)}")
    return [rnd.uniform(low, high, size=s).astype(dtype) for s in shapes]


def random_sample(population: Any, k: int) -> list:
    """`k` of the elements, in their order."""
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


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """A random pair of coordinates."""
    return (np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64))


def _density(density: float | None) -> float:
    return rnd.rand() if density is None else density


def shuffle_csr_column_indices(csr: Any) -> None:
    """Puts each row's stored values of a SciPy csr matrix in random order, in place."""
    for row in range(len(csr.indptr) - 1):
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        order = np.random.permutation(part.stop - part.start)
        csr.indices[part] = csr.indices[part][order]
        csr.data[part] = csr.data[part][order]


def rand_sparse_ndarray(shape: tuple, stype: str, density: float | None = None, dtype: Any = None,
                        distribution: str | None = None, data_init: float | None = None, rsp_indices: Any = None,
                        modifier_func: Callable | None = None, shuffle_csr_indices: bool = False,
                        ctx: Context | None = None) -> tuple:
    """A random sparse array and its parts.

    Args:
        shape, dtype, ctx: as elsewhere.
        stype: "csr" or "row_sparse".
        density: share of stored values (rows); random where None.
        distribution: "uniform", or for csr "powerlaw".
        data_init: value of all stored elements.
        rsp_indices: the stored rows.
        modifier_func: applied to each stored value.
        shuffle_csr_indices: leave column indices unsorted.
    """
    ctx = ctx or default_context()
    density = _density(density)
    dtype = np.dtype(default_dtype() if dtype is None else dtype)
    distribution = distribution or "uniform"
    if stype == "row_sparse":
        if distribution != "uniform":
            raise MXNetError(f"row_sparse arrays have no distribution {distribution!r}")
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
        raise MXNetError(f"unknown storage type {stype!r}")
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
        raise MXNetError(f"csr arrays have no distribution {distribution!r}")
    if data_init is not None:
        csr.data.fill(data_init)
    if shuffle_csr_indices:
        shuffle_csr_column_indices(csr)
    if modifier_func is not None:
        csr.data = assign_each(csr.data, modifier_func)
    array = nd.sparse.csr_matrix((csr.data, csr.indices, csr.indptr), shape=shape, dtype=dtype, ctx=ctx)
    return array, (array.indptr, array.indices, array.data)


def rand_ndarray(shape: tuple, stype: str = "default", density: float | None = None, dtype: Any = None,
                 modifier_func: Callable | None = None, shuffle_csr_indices: bool = False,
                 distribution: str | None = None, ctx: Context | None = None) -> NDArray:
    """A random array of any storage type; arguments as in `rand_sparse_ndarray`."""
    if stype == "default":
        return nd.array(random_arrays(shape), dtype=dtype, ctx=ctx or default_context())
    return rand_sparse_ndarray(shape, stype, density, dtype, distribution, None, None, modifier_func,
                               shuffle_csr_indices, ctx)[0]


def create_sparse_array(shape: tuple, stype: str, data_init: float | None = None, rsp_indices: Any = None,
                        dtype: Any = None, modifier_func: Callable | None = None, density: float = 0.5,
                        shuffle_csr_indices: bool = False) -> NDArray:
    """A sparse array with the given rows or density; arguments as in `rand_sparse_ndarray`."""
    if stype == "row_sparse" and rsp_indices is not None:
        rsp_indices = np.asarray(rsp_indices, dtype=np.int64)
        if len(rsp_indices) > shape[0]:
            raise MXNetError(f"{len(rsp_indices)} rows for an array of shape {shape}")
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func,
                               shuffle_csr_indices)[0]


def create_sparse_array_zd(shape: tuple, stype: str, density: float, data_init: float | None = None,
                           rsp_indices: Any = None, dtype: Any = None, modifier_func: Callable | None = None,
                           shuffle_csr_indices: bool = False) -> NDArray:
    """`create_sparse_array` that may have no stored values at all."""
    if stype == "row_sparse" and rsp_indices is None:
        density = 0.0 if density is None else density
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, density,
                               shuffle_csr_indices)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """A (rows, columns) array whose rows are filled with their number."""
    return nd.array(np.arange(rows).reshape(rows, 1).repeat(columns, axis=1), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, ... size - 1."""
    return nd.arange(0, size, dtype=dtype)


def assign_each(the_input: Any, function: Callable | None) -> Any:
    """A copy with `function` applied to each element."""
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[np.asarray(the_input).dtype])(the_input) if np.size(the_input) \
        else np.array(the_input)


def assign_each2(input1: Any, input2: Any, function: Callable | None) -> Any:
    """A copy of `input1` with function(element, element of input2) for each element."""
    if function is None:
        return np.array(input1)
    return np.vectorize(function, otypes=[np.asarray(input1).dtype])(input1, input2) if np.size(input1) \
        else np.array(input1)


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random n x n matrix with distinct real eigenvalues."""
    basis = rnd.uniform(-1.0, 1.0, (n, n)) + 2 * np.eye(n)
    return basis @ np.diag(np.arange(1, n + 1) * 0.5) @ np.linalg.inv(basis)


def new_matrix_with_real_eigvals_nd(shape: tuple) -> np.ndarray:
    """`new_matrix_with_real_eigvals_2d` over leading axes."""
    return _stacked(shape, new_matrix_with_real_eigvals_2d)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal n x n matrix."""
    return np.linalg.qr(rnd.normal(size=(n, n)))[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random symmetric n x n matrix."""
    half = rnd.uniform(-1.0, 1.0, (n, n))
    return half + half.T + np.diag(np.arange(n))


def new_sym_matrix_with_real_eigvals_nd(shape: tuple) -> np.ndarray:
    """`new_sym_matrix_with_real_eigvals_2d` over leading axes."""
    return _stacked(shape, new_sym_matrix_with_real_eigvals_2d)


def _stacked(shape: tuple, make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2], dtype=np.int64))
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def get_identity_mat(size: int) -> np.ndarray:
    """The identity."""
    return np.identity(size)


def get_identity_mat_batch(size: int) -> np.ndarray:
    """Two identities, stacked."""
    return np.stack([np.identity(size)] * 2)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable) -> np.ndarray:
    """A NumPy reduction over several axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(range(dat.ndim)) if axis is None else tuple(axis)
    result = dat
    for a in sorted((a % dat.ndim for a in axes), reverse=True):
        result = numpy_reduce_func(result, axis=a)
    if keepdims:
        result = result.reshape([1 if i in [a % dat.ndim for a in axes] else n for i, n in enumerate(dat.shape)])
    return result


def collapse_sum_like(a: np.ndarray, shape: tuple) -> np.ndarray:
    """Sums an array down to a shape it was broadcast from."""
    extra = a.ndim - len(shape)
    a = a.sum(axis=tuple(range(extra))) if extra else a
    axes = tuple(i for i, (n, m) in enumerate(zip(a.shape, shape, strict=True)) if n != m)
    return a.sum(axis=axes, keepdims=True).reshape(shape) if axes else a.reshape(shape)


# ---------------------------------------------------------------- symbols: forward, backward, gradients
def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: np.ndarray) -> Any:
    """Binds NumPy arrays by name, runs forward and returns the outputs as NumPy arrays (one, or a list)."""
    ctx = ctx or default_context()
    executor = sym.bind(ctx, args={k: nd.array(v, ctx=ctx) for k, v in inputs.items()})
    outputs = [o.asnumpy() for o in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _location(symbol: Symbol, location: Any, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    """Arguments by name as NDArrays of a dtype (None: each array's own)."""
    names = symbol.list_arguments()
    if isinstance(location, dict):
        if set(location) != set(names):
            raise ValueError(f"Symbol arguments and keys of the given location do not match. symbol args:{names}, "
                             f"location.keys():{list(location)}")
    else:
        location = dict(zip(names, location, strict=False))
    return {k: _placed(v, ctx, dtype) for k, v in location.items()}


def _placed(value: Any, ctx: Context, dtype: Any) -> NDArray:
    if isinstance(value, NDArray):
        return value.as_in_context(ctx)
    value = np.asarray(value)
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype is None or dtype == "asnumpy" else dtype)


def _aux(symbol: Symbol, states: Any, ctx: Context, dtype: Any) -> dict[str, NDArray] | None:
    if states is None:
        return None
    names = symbol.list_auxiliary_states()
    if isinstance(states, dict):
        if set(states) != set(names):
            raise ValueError(f"Symbol aux_states names and given aux_states do not match. symbol aux_names:{names}, "
                             f"aux_states.keys: {list(states)}")
    else:
        states = dict(zip(names, states, strict=False))
    return {k: _placed(v, ctx, dtype) for k, v in states.items()}


def numeric_grad(executor: Any, location: dict[str, NDArray], aux_states: dict[str, NDArray] | None = None,
                 eps: float = 1e-4, use_forward_train: bool = True, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Gradients of the sum of an executor's first output by central differences, summed after subtracting.

    Args:
        executor: bound executor.
        location: arguments by name; those of a floating dtype are varied.
        aux_states: auxiliary states, reset before each evaluation.
        eps: step.
        use_forward_train: run in training mode.
        dtype: dtype of the result.
    """
    for name, array in location.items():
        executor.arg_dict[name][:] = array
    varied = [name for name, array in location.items()
              if np.dtype(array.dtype).kind == "f" or np.dtype(array.dtype) == np_dtype("bfloat16")]
    if executor._one_program:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        return _differences(executor, varied, eps, use_forward_train, dtype)

    def values() -> np.ndarray:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        return executor.forward(is_train=use_forward_train)[0].asnumpy().astype(np.float64)
    result = {}
    for name in varied:
        array = location[name]
        base = array.asnumpy()
        grad = np.zeros(base.shape, dtype)
        point = base.copy()
        for index in np.ndindex(*base.shape):
            differences = []
            for sign in (1, -1):
                point[index] = base[index] + sign * eps / 2
                executor.arg_dict[name][:] = nd.array(point, dtype=array.dtype)
                differences.append(values())
            point[index] = base[index]
            grad[index] = (differences[0] - differences[1]).sum() / eps
        executor.arg_dict[name][:] = array
        result[name] = grad
    return result


def _differences(executor: Any, varied: list[str], eps: float, train: bool, dtype: Any) -> dict[str, np.ndarray]:
    """The work of `numeric_grad` as one compiled loop over all elements: a call for each would cost far more."""
    graph = executor._graph
    args = {name: array._read() for name, array in executor.arg_dict.items()}
    aux = [array._read() for array in executor.aux_arrays]
    key = next_key(executor._ctx, len(graph.steps)) if graph.random else ()
    with jax.enable_x64(graph.wide([*args.values(), *aux], train)):
        @jax.jit
        def all_differences(args: dict[str, Any], aux: list[Any], key: tuple, eps: Any) -> dict[str, Any]:
            flat, restored = ravel_pytree({name: args[name] for name in varied})

            def difference(index: Any) -> Any:
                def value(step: Any) -> Any:
                    point = {**args, **restored(flat.at[index].add(step.astype(flat.dtype)))}
                    return graph.call([point[name] for name in graph.args], aux, key, train)[0][0]
                ahead, behind = jax.lax.map(value, jnp.stack([eps, -eps]) / 2)
                return (ahead.astype(eps.dtype) - behind.astype(eps.dtype)).sum() / eps
            return restored(jax.lax.map(difference, jnp.arange(flat.size)))
        found = all_differences(args, aux, key, np.promote_types(np.float32, dtype).type(eps))
        return {name: np.asarray(found[name]).astype(dtype) for name in varied}


def check_numeric_gradient(sym: Symbol, location: Any, aux_states: Any = None, numeric_eps: float | None = None,
                           rtol: Any = None, atol: Any = None, grad_nodes: Any = None, use_forward_train: bool = True,
                           ctx: Context | None = None, grad_stype_dict: dict | None = None,
                           dtype: Any = np.float32) -> None:
    """Compares a symbol's gradients with finite differences, along a random projection of its output.

    Args:
        sym: symbol with one output.
        location: NumPy arrays of the arguments, a list or a dictionary.
        aux_states: of the auxiliary states.
        numeric_eps: step.
        rtol, atol: tolerances.
        grad_nodes: names of the arguments to check (or a dictionary of their grad_req); default all.
        use_forward_train: run in training mode.
        ctx: context.
        grad_stype_dict: storage types of gradients by name.
        dtype: float16, float32 or float64.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    if dtype not in (np.float16, np.float32, np.float64):
        raise ValueError(f"dtype must be float16, float32 or float64, got {dtype}")
    eps = default_numeric_eps()[np.dtype(dtype)] if numeric_eps is None else numeric_eps
    arguments = _location(sym, location, ctx, dtype)
    states = _aux(sym, aux_states, ctx, dtype)
    if grad_nodes is None:
        requests = dict.fromkeys(sym.list_arguments(), "write")
    elif isinstance(grad_nodes, dict):
        requests = dict(grad_nodes)
    else:
        requests = dict.fromkeys(grad_nodes, "write")
    shapes = {k: v.shape for k, v in arguments.items()}
    shape = sym.infer_shape(**shapes)[1][0]
    weights = np.asarray(_rng.rand(*shape), dtype) + np.asarray(0.1, dtype)
    projected = _weighted(sym)
    args = {**arguments, "__random_proj": nd.array(weights, ctx=ctx, dtype=dtype)}
    wanted = {**requests, "__random_proj": "write"}
    grads = {k: nd.array(_rng.normal(size=args[k].shape), ctx=ctx, dtype=args[k].dtype) for k, r in wanted.items()
             if r != "null"}
    for k, stype in (grad_stype_dict or {}).items():
        if k in grads and stype != "default":
            grads[k] = grads[k].tostype(stype)
    before = {k: v.asnumpy() for k, v in grads.items()}
    executor = projected.bind(ctx, args={k: v.copy() for k, v in args.items()}, args_grad=grads, grad_req=wanted,
                              aux_states={k: v.copy() for k, v in (states or {}).items()})
    executor.forward(is_train=True)
    executor.backward()
    symbolic = {k: v.asnumpy() for k, v in executor.grad_dict.items() if v is not None}
    numeric = numeric_grad(executor, arguments, states, eps, use_forward_train, dtype)
    for name, request in requests.items():
        if request == "null" or name not in numeric:
            continue
        expected = numeric[name] + (before[name] if request == "add" else 0)
        if request not in ("write", "add"):
            raise ValueError(f"Invalid grad_req {request} for {name}")
        assert_almost_equal(expected, symbolic[name], 1e-3 if rtol is None else rtol, atol,
                            (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def _weighted(symbol: Symbol) -> Symbol:
    return sym.make_loss(symbol * sym.Variable("__random_proj"))


def check_symbolic_forward(sym: Symbol, location: Any, expected: Any, rtol: Any = None, atol: Any = None,
                           aux_states: Any = None, ctx: Context | None = None, equal_nan: bool = False,
                           dtype: Any = np.float32) -> list[NDArray]:
    """Compares a symbol's outputs with expected ones; returns them.

    Args:
        sym: the symbol.
        location: NumPy arrays of the arguments, a list or a dictionary.
        expected: the outputs, a list or a dictionary by output name.
        rtol, atol, equal_nan: tolerances.
        aux_states: of the auxiliary states.
        ctx, dtype: context and dtype of the arrays.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    args = _location(sym, location, ctx, dtype)
    if isinstance(expected, dict):
        expected = [expected[k] for k in sym.list_outputs()]
    executor = sym.bind(ctx, args=args, args_grad={k: nd.empty(v.shape, ctx, v.dtype) for k, v in args.items()},
                        aux_states=_aux(sym, aux_states, ctx, dtype))
    outputs = executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), expected, outputs, strict=False):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(sym: Symbol, location: Any, out_grads: Any, expected: Any, rtol: Any = None,
                            atol: Any = None, aux_states: Any = None, grad_req: Any = "write",
                            ctx: Context | None = None, grad_stypes: dict | None = None, equal_nan: bool = False,
                            dtype: Any = np.float32) -> dict[str, NDArray]:
    """Compares a symbol's gradients with expected ones; returns the gradient arrays by argument.

    Args:
        sym, location, rtol, atol, aux_states, ctx, equal_nan, dtype: as in `check_symbolic_forward`.
        out_grads: gradients of the outputs, an array, a list or a dictionary.
        expected: gradients of the arguments, a list or a dictionary (None: not compared).
        grad_req: one for all, a list or a dictionary.
        grad_stypes: storage types of gradients by name.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    args = _location(sym, location, ctx, dtype)
    if not isinstance(expected, dict):
        expected = dict(zip(sym.list_arguments(), expected, strict=False))
    if isinstance(grad_req, str):
        requests = dict.fromkeys(sym.list_arguments(), grad_req)
    elif isinstance(grad_req, (list, tuple)):
        requests = dict(zip(sym.list_arguments(), grad_req, strict=True))
    else:
        requests = grad_req
    before = {k: _rng.normal(size=np.shape(_numpy(v))) for k, v in expected.items()
              if v is not None and requests.get(k, "null") != "null"}
    grads = {}
    for k, v in before.items():
        grads[k] = nd.array(v, ctx=ctx, dtype=args[k].dtype if dtype == "asnumpy" or dtype is None else dtype)
        if (grad_stypes or {}).get(k, "default") != "default":
            grads[k] = nd.sparse.cast_storage(grads[k], grad_stypes[k])
    before = {k: v.asnumpy() for k, v in grads.items()}
    executor = sym.bind(ctx, args=args, args_grad=grads, aux_states=_aux(sym, aux_states, ctx, dtype),
                        grad_req=requests)
    outputs = executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = [out_grads[k] for k in sym.list_outputs()]
    if isinstance(out_grads, (list, tuple)):
        heads: Any = [_placed(v, ctx, o.dtype if dtype is None or dtype == "asnumpy" else dtype)
                      for v, o in zip(out_grads, outputs, strict=False)]  # more heads than outputs are ignored
    elif out_grads is None:
        heads = None
    else:
        heads = _placed(out_grads, ctx, dtype)
    executor.backward(heads)
    for name, want in expected.items():
        request = requests.get(name, "null")
        if want is None or request == "null":
            continue
        got = executor.grad_dict[name].asnumpy()
        want = _numpy(want) + (before[name] if request == "add" else 0)
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan=equal_nan)
    return grads


def check_speed(sym: Symbol, location: dict | None = None, ctx: Context | None = None, N: int = 20,  # noqa: N803
                grad_req: Any = None, typ: str = "whole", **kwargs: Any) -> float:
    """Seconds of one run of a symbol, the mean of N.

    Args:
        sym, location, ctx, grad_req: as in `check_symbolic_backward`; random arguments of the shapes in kwargs where
            location is None.
        N: runs.
        typ: "whole" (forward and backward) or "forward".
    """
    ctx = ctx or default_context()
    request = "write" if grad_req is None else grad_req
    if location is None:
        executor = sym.simple_bind(ctx, grad_req=request, **kwargs)
        location = {k: _rng.normal(size=v.shape, scale=1.0) for k, v in executor.arg_dict.items()}
    else:
        executor = sym.simple_bind(ctx, grad_req=request, **{k: v.shape for k, v in location.items()})
    for name, value in location.items():
        executor.arg_dict[name][:] = value
    if typ not in ("whole", "forward"):
        raise ValueError("typ can only be 'whole' or 'forward'.")

    def step() -> None:
        outputs = executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(outputs)
        else:
            outputs[0].wait_to_read()
    step()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        step()
    nd.waitall()
    return (time.perf_counter() - start) / N


def check_consistency(sym: Any, ctx_list: Sequence[dict], scale: float = 1.0, grad_req: Any = "write",
                      arg_params: dict | None = None, aux_params: dict | None = None, rtol: Any = None,
                      atol: Any = None, raise_on_err: bool = True, ground_truth: dict | None = None,
                      equal_nan: bool = False, use_uniform: bool = False, rand_type: Any = np.float64) -> dict:
    """Checks that a symbol computes the same on several contexts and dtypes.

    Args:
        sym: a symbol, or one for each context.
        ctx_list: dictionaries with "ctx", shapes by name, and "type_dict".
        scale: of the random arguments.
        grad_req: of all arguments; "null" compares the forward only.
        arg_params, aux_params: values instead of random ones.
        rtol, atol: tolerances (by dtype where None).
        raise_on_err: raise at the first difference, else print it.
        ground_truth: arrays to compare with, as returned; default those of the most exact dtype.
        equal_nan: NaNs are equal.
        use_uniform: uniform instead of normal arguments.
        rand_type: dtype the random arguments are drawn in.

    Returns:
        The ground truth: arrays by name.
    """
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    names, arguments = symbols[0].list_outputs(), symbols[0].list_arguments()
    executors = []
    for s, setting in zip(symbols, ctx_list, strict=True):
        if s.list_arguments() != arguments or s.list_outputs() != names:
            raise AssertionError("the symbols have different arguments or outputs")
        executors.append(s.simple_bind(grad_req=grad_req, **setting))
    arg_params, aux_params = dict(arg_params or {}), dict(aux_params or {})
    for name, array in executors[0].arg_dict.items():
        if name not in arg_params:
            draw = np.random.uniform(-scale, scale, array.shape) if use_uniform else \
                np.random.normal(size=array.shape, scale=scale)
            arg_params[name] = np.asarray(draw).astype(rand_type)
    for name, array in executors[0].aux_dict.items():
        aux_params.setdefault(name, np.zeros(array.shape))
    for executor in executors:
        for name, array in executor.arg_dict.items():
            array[:] = _numpy(arg_params[name]).astype(array.dtype)
        for name, array in executor.aux_dict.items():
            array[:] = _numpy(aux_params[name]).astype(array.dtype)
        for array in executor.grad_dict.values():
            if array is not None:
                array[:] = 0
    dtypes = [np.dtype(e.outputs[0].dtype) for e in executors]
    best = int(np.argmax([d.itemsize for d in dtypes]))

    def compare(truth: dict) -> None:
        for number, executor in enumerate(executors):
            if number == best and ground_truth is None:
                continue
            found = {**dict(zip(names, executor.outputs, strict=True))}
            if grad_req != "null":
                found.update({k: v for k, v in executor.grad_dict.items() if v is not None})
            for name, value in found.items():
                want = _numpy(truth[name]).astype(dtypes[number])
                try:
                    assert_almost_equal(value.asnumpy(), want, get_tolerance(want, rtol, default_rtols()),
                                        get_tolerance(want, atol, default_atols()), equal_nan=equal_nan)
                except AssertionError as error:
                    print(f"{ctx_list[number]} against {ctx_list[best]}, {name}: {error}")
                    if raise_on_err:
                        raise
    for executor in executors:
        executor.forward(is_train=False)
    truth = ground_truth or {n: o.asnumpy() for n, o in zip(names, executors[best].outputs, strict=True)}
    if ground_truth is None or grad_req == "null":
        saved, grad_req = grad_req, "null"
        compare(truth)
        grad_req = saved
    if grad_req != "null":
        for executor in executors:
            executor.forward(is_train=True)
            executor.backward(executor.outputs)
        if ground_truth is None:
            truth = {n: o.asnumpy() for n, o in zip(names, executors[best].outputs, strict=True)}
            truth.update({k: v.asnumpy() for k, v in executors[best].grad_dict.items() if v is not None})
        compare(truth)
    return truth


def check_gluon_hybridize_consistency(net_builder: Callable, data_l: Sequence[Any], numpy_func: Callable | None = None,
                                      test_grad: bool = True, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Checks that a Gluon network computes the same hybridized and not."""
    saved: dict[str, np.ndarray] = {}
    first_out, first_grads = None, None
    for hybridize in (False, True):
        net = net_builder(prefix="net_")
        net.initialize()
        if hybridize:
            net.hybridize()
        inputs = [d.copy() for d in data_l]
        for d in inputs:
            d.attach_grad()
        with autograd.record():
            net(*inputs)
        for name, parameter in net.collect_params().items():
            if hybridize:
                parameter.set_data(nd.array(saved[name]) if type(data_l[0]) is NDArray else
                                   parameter.data().__class__(nd.array(saved[name])._chunk))
            else:
                saved[name] = parameter.data().asnumpy()
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
            if test_grad:
                out.backward(out)
        grads = [d.grad.asnumpy() for d in inputs] if test_grad else []
        if first_out is None:
            first_out, first_grads = out.asnumpy(), grads
            if numpy_func is not None:
                assert_almost_equal(first_out, numpy_func(*[d.asnumpy() for d in data_l]), rtol=rtol, atol=atol)
        else:
            assert_almost_equal(first_out, out.asnumpy(), rtol=rtol, atol=atol)
            for a, b in zip(first_grads, grads, strict=True):
                assert_almost_equal(a, b, rtol=rtol, atol=atol)


# ---------------------------------------------------------------- random generators
def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int) -> tuple[list, list]:
    """Buckets of equal probability, by the inverse of the cumulative distribution."""
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of samples lies where the central limit theorem has it 997 times in 1000."""
    samples = np.array(generator(nsamples))
    return bool(mu - 3 * sigma / np.sqrt(nsamples) < samples.mean() < mu + 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Callable, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of samples lies within its expected spread."""
    samples = np.array(generator(nsamples))
    spread = 5 * np.sqrt(2 * sigma**4 / (nsamples - 1))
    return bool(sigma**2 - spread < samples.var(ddof=1) < sigma**2 + spread)


def chi_square_check(generator: Callable, buckets: Sequence, probs: Sequence[float],
                     nsamples: int = 1000000) -> tuple[float, np.ndarray, np.ndarray]:
    """(p-value, observed counts, expected counts) of a chi-square test of samples.

    Args:
        generator: generator(n) -> n samples.
        buckets: values, or (low, high) pairs.
        probs: their probabilities.
        nsamples: how many to draw.
    """
    import scipy.stats as stats
    if not buckets:
        raise AssertionError("there are no buckets")
    samples = np.asarray(generator(nsamples)).reshape(-1)
    expected = (np.asarray(probs) * nsamples).astype(np.float32)
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([b[0] for b in buckets] + [buckets[-1][1]], dtype=np.float64)
        place = np.searchsorted(edges, samples, side="right") - 1
        observed = np.bincount(place[(place >= 0) & (place < len(buckets))], minlength=len(buckets))
    else:
        observed = np.array([(samples == b).sum() for b in buckets])
    _, p = stats.chisquare(observed, f_exp=expected * (observed.sum() / expected.sum()))
    return p, observed, expected


def verify_generator(generator: Callable, buckets: Sequence, probs: Sequence[float], nsamples: int = 1000000,
                     nrepeat: int = 5, success_rate: float = 0.2, alpha: float = 0.05) -> list[float]:
    """p-values of repeated chi-square tests.

    Raises:
        AssertionError: fewer than `success_rate` of them exceed `alpha`.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    passed = sum(p > alpha for p, _, _ in results)
    if passed < nrepeat * success_rate:
        raise AssertionError(f"the generator passed {passed} of {nrepeat} chi-square tests; p-values "
                             f"{[p for p, _, _ in results]}, observed {[o for _, o, _ in results]}, expected "
                             f"{[e for _, _, e in results]}, buckets {buckets}")
    return [p for p, _, _ in results]


# ---------------------------------------------------------------- surroundings
def retry(n: int) -> Callable[[Callable], Callable]:
    """A decorator that runs a test up to n times until it passes."""
    if n <= 0:
        raise AssertionError("n must be positive")

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for attempt in range(n):
                try:
                    function(*args, **kwargs)
                    return
                except AssertionError:
                    if attempt == n - 1:
                        raise
        return wrapper
    return decorate


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """A `with` scope with environment variables: (name, value) or a dictionary; None removes a variable."""
    wanted = dict([args]) if len(args) == 2 else dict(args[0])
    before = {k: getenv(k) for k in wanted}
    try:
        for k, v in wanted.items():
            setenv(k, v)
        yield
    finally:
        for k, v in before.items():
            setenv(k, v)


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """A `with` scope in which nothing reaches stderr, native code included."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "w") as sink:
        try:
            os.dup2(sink.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


class DummyIter(DataIter):
    """An iterator that gives a real one's first batch for ever, to time everything but the data."""

    def __init__(self, real_iter: DataIter) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(iter(real_iter))

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        """The batch."""
        return self.the_batch


def list_gpus() -> range:
    """Numbers of the GPUs that JAX sees."""
    return range(num_gpus())


def is_cd_run() -> bool:
    """Whether this is a run of MXNet's own continuous delivery (CD_JOB)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Whether this is a 64-bit ARM machine."""
    import platform
    return platform.machine() == "aarch64"


def is_op_runnable() -> bool:
    """Whether operators that need a new GPU (or none) can run."""
    return True


def has_tvm_ops() -> bool:
    """Whether operators compiled by TVM are there: no, XLA compiles them all."""
    return False


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether two arrays share memory: a change of one changes the other."""
    array1[:] += 1
    if not same(array1, array2):
        array1[:] -= 1
        return False
    array1[:] -= 1
    return same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether two graphs have the same operators, parameters and connections; names do not count."""
    from .symbol._node import topological
    first, second = topological(sym1._outputs), topological(sym2._outputs)
    if len(first) != len(second):
        return False
    numbers = [{id(n): i for i, n in enumerate(nodes)} for nodes in (first, second)]
    return all(a.op is b.op and a.params == b.params and
               [(numbers[0][id(n)], i) for n, i in a.inputs] == [(numbers[1][id(n)], i) for n, i in b.inputs]
               for a, b in zip(first, second, strict=True))


# ---------------------------------------------------------------- files and data sets
def download(url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False,
             retries: int = 5) -> str:
    """Downloads a file (also file:// URLs) unless it is there; returns its path.

    Args:
        url: where it is.
        fname: its name here; default the URL's last part.
        dirname: folder; default the current one.
        overwrite: download in any case.
        retries: how often to try.
    """
    import urllib.request
    path = fname or url.split("/")[-1]
    if dirname is not None:
        os.makedirs(dirname, exist_ok=True)
        path = os.path.join(dirname, path)
    elif fname and os.path.dirname(fname):
        os.makedirs(os.path.dirname(fname), exist_ok=True)
    if os.path.exists(path) and not overwrite:
        return path
    for attempt in range(retries):
        try:
            with urllib.request.urlopen(url) as source, \
                    tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as target:
                digest = hashlib.sha1()
                while chunk := source.read(1 << 20):
                    digest.update(chunk)
                    target.write(chunk)
            os.replace(target.name, path)
            logging.info("downloaded %s into %s (sha1 %s)", url, path, digest.hexdigest())
            return path
        except OSError as error:
            if attempt == retries - 1:
                raise
            logging.warning("download of %s failed (%s), trying again", url, error)
    return path


def download_model(model_name: str, dst_dir: str = "./", meta_info: dict | None = None) -> tuple[str | None, int]:
    """Downloads a checkpoint listed in `meta_info` {name: {"symbol": url, "params": url}}; (prefix, epoch)."""
    meta = (meta_info or {}).get(model_name)
    if meta is None:
        return None, 0
    prefix = os.path.join(dst_dir, model_name)
    download(meta["symbol"], prefix + "-symbol.json")
    download(meta["params"], prefix + "-0000.params")
    return prefix, 0


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Downloads a zip archive into a folder and unpacks it there, unless it is there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Downloads a bz2 file into a folder and unpacks it as `data_name`, unless it is there."""
    import bz2
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
        with bz2.BZ2File(packed, "rb") as source, open(target, "wb") as file:
            for chunk in iter(lambda: source.read(100 * 1024), b""):
                file.write(chunk)
        os.remove(packed)


_MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                "t10k-labels-idx1-ubyte")
_MNIST_URL = "http://data.mxnet.io/data/mnist/"


def _idx(path: str) -> np.ndarray:
    """An array in MNIST's IDX format, packed or not."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        raw = file.read()
    ndim = raw[3]
    shape = struct.unpack(f">{ndim}I", raw[4:4 + 4 * ndim])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def get_mnist() -> dict[str, np.ndarray]:
    """MNIST as {train_data, train_label, test_data, test_label}; images (n, 1, 28, 28) in [0, 1].

    Files in ./data are used where they are; else they are downloaded.
    """
    arrays = []
    for name in _MNIST_FILES:
        local = os.path.join("data", name)
        arrays.append(_idx(local if os.path.exists(local) else
                           download(_MNIST_URL + name + ".gz", dirname="data")))
    images, labels, test_images, test_labels = arrays

    def scaled(pictures: np.ndarray) -> np.ndarray:
        return pictures.reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return {"train_data": scaled(images), "train_label": labels.astype(np.int8),
            "test_data": scaled(test_images), "test_label": test_labels.astype(np.int8)}


def get_mnist_pkl() -> None:
    """Puts mnist.pkl.gz into ./data, unless it is there."""
    if not os.path.exists("data/mnist.pkl.gz"):
        download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_ubyte() -> None:
    """Puts MNIST's four files into ./data, unless they are there."""
    if not all(os.path.exists(os.path.join("data", n)) for n in _MNIST_FILES):
        get_zip_data("data", "http://data.mxnet.io/mxnet/data/mnist.zip", "mnist.zip")


def get_cifar10() -> None:
    """Puts CIFAR-10's record files into ./data/cifar, unless they are there."""
    if not all(os.path.exists(os.path.join("data", "cifar", n)) for n in ("train.rec", "test.rec")):
        get_zip_data("data", "http://data.mxnet.io/mxnet/data/cifar10.zip", "cifar10.zip")


def get_mnist_iterator(batch_size: int, input_shape: tuple, num_parts: int = 1, part_index: int = 0) -> tuple:
    """(training, validation) iterators over MNIST's files in ./data."""
    from .io import MNISTIter
    get_mnist_ubyte()
    flat = len(input_shape) != 3
    paths = [os.path.join("data", n) for n in _MNIST_FILES]
    return tuple(MNISTIter(image=paths[i], label=paths[i + 1], input_shape=input_shape, batch_size=batch_size,
                           shuffle=i == 0, flat=flat, num_parts=num_parts, part_index=part_index) for i in (0, 2))


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The path of an `im2rec.py` script: below the environment's `home_env`.

    Raises:
        OSError: there is none.
    """
    home = os.environ.get(home_env)
    path = os.path.join(home, "tools", "im2rec.py") if home else ""
    if not os.path.isfile(path):
        raise OSError("Could not find path to tools/im2rec.py")
    return path


array = nd.array
