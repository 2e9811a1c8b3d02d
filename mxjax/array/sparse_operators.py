"""Operators on sparse arrays that use only stored values; all others use the dense value.

A form is a function(call) -> NDArray, (NDArray, gradient) or None if this combination has no sparse form. SciPy
computes csr matrices. Rows of row_sparse arrays are gathered, computed by the operator's dense function, and scattered
back. Row numbers are padded to powers of two, so that few programs are compiled.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

import numpy as np

from .._support import settings
from .._support.bounded import Bounded
from ..base import MXNetError
from ..eager.array_types import wrap
from ..eager.dispatch import call as call_operator
from ..eager.dispatch import invoke
from ..eager.modes import Modes, state
from ..kernel.kernel import Kernel, run
from ..ops.common import Array
from ..ops.infer import check_types
from .dense import NDArray, _from_host
from .sparse import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    _distinct,
    _host,
    _of_rows,
    _rows_looked_up,
    _stored,
    _summed,
    _values_at,
    recorded,
    zeros,
)

__all__ = ["SparseCall", "dispatch"]


class SparseCall(NamedTuple):
    """A call with at least one sparse input; `out` is the target of the result, or None."""

    kernel: Kernel
    arrays: Sequence[NDArray]
    extras: tuple
    params: dict[str, Any]
    out: NDArray | None

    @property
    def stypes(self) -> tuple[str, ...]:
        """Returns the storage types of the inputs."""
        return tuple([a.stype for a in self.arrays])


def _stored_input(c: SparseCall) -> BaseSparseNDArray:
    """Returns the input of a call with a single input."""
    return cast(BaseSparseNDArray, c.arrays[0])


_Sparse = TypeVar("_Sparse", bound=BaseSparseNDArray)


def _all_are(arrays: Sequence[NDArray], array_type: type[_Sparse]) -> TypeGuard[Sequence[_Sparse]]:
    return all([isinstance(a, array_type) for a in arrays])


Form = Callable[[SparseCall], Any]
_forms: dict[str, Form] = {}


def _form(*names: str) -> Callable[[Form], Form]:
    def register(function: Form) -> Form:
        _forms.update(dict.fromkeys(names, function))
        return function
    return register


def dispatch(kernel: Kernel, arrays: Sequence[NDArray], extras: tuple, out: NDArray | None) -> Any:
    """Returns the result of an operator's sparse form; None if it has none for these inputs, which is logged once."""
    result = _sparse_result(kernel, arrays, extras, out)
    if result is None:
        _log_dense(kernel, tuple([a.stype for a in arrays]))
    return result


_logged: set[tuple] = set()


def _log_dense(kernel: Kernel, stypes: tuple[str, ...]) -> None:
    """Warns that an operator uses dense values, once per operator and storage types of its inputs."""
    if (kernel.name, stypes) in _logged or not settings.STORAGE_FALLBACK_LOG():
        return
    _logged.add((kernel.name, stypes))
    logging.getLogger("mxjax").warning(
        "Storage type fallback detected: operator %s has no sparse implementation for inputs with storage types %s and "
        "parameters %s. The inputs are converted to dense arrays. The result is the same, but it needs the memory and "
        "time of dense arrays. Set MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 to suppress this "
        "warning.", kernel.name, list(stypes), kernel.params)


def _sparse_result(kernel: Kernel, arrays: Sequence[NDArray], extras: tuple, out: NDArray | None) -> Any:
    form = _forms.get(kernel.op.name) if kernel.op is not None else None
    if form:
        check_types(kernel.op, kernel.params, [np.dtype(a.dtype).name for a in arrays],
                    kernel.op.inputs(kernel.params, len(arrays)))
    target = out[0] if isinstance(out, (list, tuple)) else out
    arrays = [a.ascending() if isinstance(a, BaseSparseNDArray) and a is not target else a for a in arrays]
    value = form and form(SparseCall(kernel, arrays, extras, {**kernel.params, **kernel.numbers(extras)}, target))
    if value is None:
        return None
    result, gradient = value if isinstance(value, tuple) else (value, None)
    if state.recording and any(a.entry is not None for a in arrays):
        recorded(result, arrays, gradient or _dense_gradient(kernel, arrays, extras))
    if out is None or out is result:
        return result
    if target is not result:
        result.copyto(target)
    return out


def _dense_gradient(kernel: Kernel, arrays: Sequence[NDArray], extras: tuple) -> Callable[[NDArray], list[Any]]:
    """Returns the operator's gradient for dense values, which are computed on demand."""
    values = [NDArray(a.read()) if a.dense else a.detach() for a in arrays]  # as they are now
    wanted = [i for i, a in enumerate(arrays) if a.entry is not None]

    def gradient(head: NDArray) -> list[Any]:
        dense = [NDArray(a.read()) for a in values]
        results: list[Any] = [None] * len(dense)
        for i in wanted:
            dense[i].attach_grad()
        with Modes(True, True):
            result = invoke(kernel, dense, extras)
        result.backward(NDArray(head.read()))
        for i in wanted:
            results[i] = dense[i].grad
        return results
    return gradient


def as_scipy(array: CSRNDArray) -> Any:
    """Returns an array as a SciPy matrix, which may share its memory."""
    from scipy.sparse import csr_matrix as matrix
    return matrix(tuple(map(_host, array.parts)), shape=array.shape)


def from_scipy(matrix: Any, like: NDArray) -> CSRNDArray:
    """Returns a SciPy matrix as an array with sorted columns, of the dtype and on the context of another array."""
    matrix = matrix.tocsr()
    if not matrix.has_sorted_indices:  # not in place: the values may be the memory of an array
        matrix = matrix.sorted_indices()
    values, *places = matrix.data.astype(like.dtype, copy=False), matrix.indices, matrix.indptr
    parts = _stored(values, like.context), *[_stored(a.astype(np.int64, copy=False), like.context) for a in places]
    return CSRNDArray.of_parts(parts, matrix.shape, values.dtype, like.context)


def _rows(data: np.ndarray, ids: np.ndarray, like: NDArray, shape: tuple[int, ...] | None = None) -> RowSparseNDArray:
    return _of_rows(data.astype(like.dtype, copy=False), ids, shape or like.shape, like.context)


def _dense(value: np.ndarray, like: NDArray) -> NDArray:
    return _from_host(np.ascontiguousarray(value, like.dtype), like.context)


# ------------------------------------------------------------ on the stored values alone: zero stays zero
@_form("abs", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "degrees", "expm1", "fix", "floor", "log1p",
       "negative", "radians", "relu", "rint", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
       "_copy", "_mul_scalar", "_div_scalar", "_scatter_plus_scalar", "_scatter_minus_scalar", "BlockGrad", "make_loss",
       "_contrib_round_ste", "_contrib_sign_ste")
def _values(c: SparseCall) -> Any:
    source = _stored_input(c)
    values = _host(source.data)
    if values.size > _SMALL:
        return source.with_values(call_operator(c.kernel.op, [source.data], c.params))
    result = np.asarray(run(c.kernel, [_padded(values), *c.extras], source.data.chunk.x64)[0])
    return source.with_values(_stored(result[:len(values)], source.context))


_SMALL = 1 << 16  # fewer values are padded, so that other counts need no compilation


def _values_where(keeps_zero: Callable[[dict[str, Any]], bool]) -> Form:
    return lambda c: _values(c) if keeps_zero(c.params) else None


for _name, _keeps_zero in {
        "clip": lambda p: p["a_min"] <= 0 <= p["a_max"],
        "_plus_scalar": lambda p: p["scalar"] == 0, "_minus_scalar": lambda p: p["scalar"] == 0,
        "_equal_scalar": lambda p: p["scalar"] != 0, "_not_equal_scalar": lambda p: p["scalar"] == 0,
        "_greater_scalar": lambda p: p["scalar"] >= 0, "_greater_equal_scalar": lambda p: p["scalar"] > 0,
        "_lesser_scalar": lambda p: p["scalar"] <= 0, "_lesser_equal_scalar": lambda p: p["scalar"] < 0}.items():
    _forms[_name] = _values_where(_keeps_zero)


@_form("_contrib_quadratic")
def _quadratic(c: SparseCall) -> Any:
    return _values(c) if c.arrays[0].stype == "csr" and c.params["c"] == 0 else None


@_form("_identity_with_attr_like_rhs")
def _identity_like(c: SparseCall) -> Any:
    return None if c.arrays[0].dense else c.arrays[0].copy()


@_form("zeros_like")
def _zeros_like(c: SparseCall) -> Any:
    return zeros(c.arrays[0].stype, c.arrays[0].shape, c.arrays[0].context, c.arrays[0].dtype)


# ------------------------------------------------------------ two arrays, element by element
def _joined(function: np.ufunc, a: RowSparseNDArray, b: RowSparseNDArray) -> RowSparseNDArray:
    """Computes `function` of two arrays; rows that are not stored are zero."""
    places, x, y = (_host(a.indices), _host(b.indices)), _host(a.data), _host(b.data)
    if np.array_equal(*places):
        return _rows(function(x, y), places[0], a)
    ids = _distinct(np.concatenate(places))
    values, both = np.zeros((len(ids), *a.shape[1:]), a.dtype), np.searchsorted(ids, places[1])
    values[np.searchsorted(ids, places[0])] = x
    if function not in (np.add, np.subtract):  # operators that do not change rows that only a has
        alone = np.ones(len(ids), bool)
        alone[both] = False
        values[alone] = function(values[alone], 0)
    values[both] = function(values[both], y)
    return _rows(values, ids, a)


def _elementwise(function: np.ufunc, of_matrices: Callable[[Any, Any], Any]) -> Form:
    def form(c: SparseCall) -> Any:
        a, b = c.arrays
        if a.shape != b.shape:
            return None
        if isinstance(a, CSRNDArray) and isinstance(b, CSRNDArray):
            return from_scipy(of_matrices(as_scipy(a), as_scipy(b)), a)
        if isinstance(a, RowSparseNDArray) and isinstance(b, RowSparseNDArray):
            return _joined(function, a, b)
        return None
    return form


_forms.update(dict.fromkeys(("elemwise_add", "_grad_add"), _elementwise(np.add, operator.add)))
_forms["elemwise_sub"] = _elementwise(np.subtract, operator.sub)
_forms["_maximum"] = _elementwise(np.maximum, lambda x, y: x.maximum(y))
_forms["_minimum"] = _elementwise(np.minimum, lambda x, y: x.minimum(y))
_forms["_hypot"] = _elementwise(np.hypot, lambda x, y: (x.multiply(x) + y.multiply(y)).sqrt())


@_form("_scatter_elemwise_div")
def _divide_stored(c: SparseCall) -> Any:
    a, b = c.arrays
    if not isinstance(a, RowSparseNDArray) or a.shape != b.shape:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return _rows(_host(a.data) / _host(b)[_host(a.indices)], _host(a.indices), a)


@_form("broadcast_mul", "broadcast_div")
def _scale(c: SparseCall) -> Any:
    a, b = c.arrays
    if not isinstance(a, CSRNDArray) or not b.dense or b.ndim > 2:
        return None
    values = np.broadcast_to(_host(b), a.shape)[_row_numbers(a), _host(a.indices)]
    stored = _host(a.data)
    return a.with_values(_dense(stored / values if c.kernel.op.name == "broadcast_div" else stored * values, a))


@_form("elemwise_mul")
def _multiply(c: SparseCall) -> Any:
    a, b = c.arrays if c.stypes[0] != "default" else c.arrays[::-1]
    if a.shape != b.shape:
        return None
    if isinstance(a, CSRNDArray) and b.dense:
        return a.with_values(_dense(_host(a.data) * _host(b)[_row_numbers(a), _host(a.indices)], a))
    if isinstance(a, CSRNDArray) and isinstance(b, CSRNDArray):
        return from_scipy(as_scipy(a).multiply(as_scipy(b)), a)
    if isinstance(a, RowSparseNDArray) and b.dense:
        return a.with_values(_dense(_host(a.data) * _host(b)[_host(a.indices)], a))
    if isinstance(a, RowSparseNDArray) and isinstance(b, RowSparseNDArray):
        ids, mine, others = np.intersect1d(_host(a.indices), _host(b.indices), return_indices=True)
        return _rows(_host(a.data)[mine] * _host(b.data)[others], ids, a)
    return None


def _row_numbers(array: CSRNDArray) -> np.ndarray:
    return np.repeat(np.arange(array.shape[0]), np.diff(_host(array.indptr)))


@_form("add_n")
def _add_n(c: SparseCall) -> Any:
    if not _all_are(c.arrays, RowSparseNDArray):
        return None
    arrays = c.arrays
    ids, values = _summed(*[np.concatenate([_host(part(a)) for a in arrays])
                            for part in (lambda a: a.indices, lambda a: a.data)])
    return _rows(values, ids, c.arrays[0])


@_form("BatchNorm")
def _batch_norm(c: SparseCall) -> Any:
    if c.params["fix_gamma"]:
        raise MXNetError(f"BatchNorm with fix_gamma=True does not support sparse inputs, got {list(c.stypes)}")
    return None


# ------------------------------------------------------------ products
@_form("dot")
def _dot(c: SparseCall) -> Any:
    a, b = c.arrays
    turned, wanted = (c.params["transpose_a"], c.params["transpose_b"]), c.params["forward_stype"]
    if a.ndim != 2 or b.ndim > 2 or a.stype == "row_sparse" or b.stype == "row_sparse" and a.stype != "csr":
        return None
    if isinstance(a, CSRNDArray):
        if turned[1] or b.stype == "csr":
            return None
        matrix = as_scipy(a)
        by_rows = b.stype == "row_sparse" or b.entry is not None and b.entry[0].by_rows

        def gradient(head: NDArray) -> list[Any]:
            if turned[0]:
                return [None, _dense(matrix @ _host(head), b)]
            return [None, _transposed_product(matrix, _host(head), b, by_rows)]
        if turned[0]:
            result = _transposed_product(matrix, _host(b), a, wanted in (None, "row_sparse") and b.ndim == 2)
        elif (whole := _whole(b)) is not None:
            result = _dense(matrix @ whole, a)
        else:
            columns, matrix_of_them = _filled_columns(matrix)
            result = _dense(matrix_of_them @ _gathered(b, columns), a)
        return result, gradient if a.entry is None else None
    if isinstance(b, CSRNDArray) and not turned[0]:
        matrix = as_scipy(b)
        product = (matrix @ _host(a).T).T if turned[1] else (matrix.T @ _host(a).T).T
        if wanted == "default":
            return _dense(product, a)
        with Modes(False, None):
            return _dense(product, a).tostype("csr")
    return None


def _transposed_product(matrix: Any, dense: np.ndarray, like: NDArray, as_rows: bool) -> NDArray:
    """Returns the transposed matrix @ dense; as rows: only those that are not empty."""
    if not as_rows:
        return _dense(matrix.T @ dense, like)
    ids, filled = _filled_columns(matrix)
    return _rows(filled.T @ dense, ids, like, (matrix.shape[1], *dense.shape[1:]))


def _filled_columns(matrix: Any) -> tuple[np.ndarray, Any]:
    """Returns (numbers of the non-empty columns, the matrix of these columns)."""
    filled = np.zeros(matrix.shape[1], bool)
    filled[matrix.indices] = True
    ids, places = np.flatnonzero(filled), np.empty(len(filled), np.int64)
    places[ids] = np.arange(len(ids))
    return ids, type(matrix)((matrix.data, places[matrix.indices], matrix.indptr), (matrix.shape[0], len(ids)))


def _whole(array: NDArray) -> np.ndarray | None:
    """Returns the value of a dense or row_sparse array for reading, without copies; None if not all rows are stored."""
    if not isinstance(array, RowSparseNDArray):
        return _host(array)
    return _host(array.parts[0]) if array.stores_all() else None


def _gathered(array: NDArray, ids: np.ndarray) -> np.ndarray:
    """Returns the rows `ids`, ascending, of an array, with zeros for rows that are not stored."""
    if not isinstance(array, RowSparseNDArray):
        return _host(array)[ids]
    return _host(array.data)[ids] if array.stores_all() else _values_at(array, ids)


# ------------------------------------------------------------ reductions, slices
@_form("sum", "mean")
def _reduction(c: SparseCall) -> Any:
    array, axis = c.arrays[0], c.params["axis"]
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    if not isinstance(array, CSRNDArray) or axis not in (None, 0, 1) or c.params["exclude"]:
        return None
    if axis == 1:  # as in SciPy, without its matrix
        starts = _host(array.indptr)
        filled = np.flatnonzero(np.diff(starts))
        total = np.zeros(array.shape[0], array.dtype)
        if len(filled):
            total[filled] = np.add.reduceat(_host(array.data), starts[filled])
    else:
        total = np.asarray(as_scipy(array).sum(axis=axis)).reshape(-1)
    if c.kernel.op.name == "mean":
        total = total / (np.prod(array.shape) if axis is None else array.shape[axis])
    if c.params["keepdims"]:
        total = total.reshape([1 if axis in (None, i) else n for i, n in enumerate(array.shape)])
    return _dense(total, array)


@_form("_square_sum")
def _square_sum(c: SparseCall) -> Any:
    array, axis = c.arrays[0], c.params["axis"]
    if not isinstance(array, RowSparseNDArray) or array.ndim != 2 or axis not in ((0,), (1,)) or c.params["exclude"]:
        return None
    values, ids = _host(array.data), _host(array.indices)
    squares = np.square(values).sum(axis[0], keepdims=c.params["keepdims"])

    def gradient(head: NDArray) -> list[Any]:
        of_rows = _host(head).reshape(1, -1) if axis == (0,) else _gathered(head, ids).reshape(-1, 1)
        return [_rows(2 * values * of_rows, ids, array)]
    if axis == (0,):
        return _dense(squares, array), gradient
    if c.params["keepdims"]:
        return _rows(squares, ids, array, (array.shape[0], 1)), gradient
    full = np.zeros(array.shape[0], array.dtype)
    full[ids] = squares
    return _dense(full, array), gradient


@_form("norm")
def _norm(c: SparseCall) -> Any:
    if c.params["axis"] is not None or c.params["keepdims"]:
        return None
    return call_operator(c.kernel.op, [_stored_input(c).data], c.params)


@_form("slice")
def _slice(c: SparseCall) -> Any:
    array = c.arrays[0]
    if not isinstance(array, CSRNDArray) or any(s not in (None, 1) for s in c.params["step"] or ()):
        return None
    spans = [slice(*pair) for pair in zip(c.params["begin"], c.params["end"], strict=True)]
    return from_scipy(as_scipy(array)[tuple(spans)], array)


@_form("take")
def _take(c: SparseCall) -> Any:
    array, indices = c.arrays
    if not isinstance(array, CSRNDArray) or indices.ndim != 1 or c.params["axis"] != 0 or c.params["mode"] == "raise":
        return None
    ids, count = _host(indices).astype(np.int64), array.shape[0]
    return from_scipy(as_scipy(array)[ids % count if c.params["mode"] == "wrap" else np.clip(ids, 0, count - 1)], array)


@_form("Embedding", "_contrib_SparseEmbedding")
def _embedding(c: SparseCall) -> Any:
    data, table = c.arrays
    if not data.dense or not isinstance(table, RowSparseNDArray) or \
            table.shape != (c.params["input_dim"], c.params["output_dim"]):
        return None
    looked_up = _rows_looked_up(c.params, _host(data))  # a copy: the array may change before the backward pass
    result = _whole(table)
    if result is not None:
        result = result[looked_up]
    else:
        ids, places = np.unique(looked_up, return_inverse=True)
        result = _gathered(table, ids)[places]
    result = _dense(result.reshape(*data.shape, -1), table)
    by_rows = c.kernel.by_rows and table.entry is not None and table.entry[0].by_rows
    return result, (lambda head: [None, table.gradient_of_lookups(c.params, looked_up, _host(head))]) if by_rows else \
        None


@_form("Concat")
def _concat(c: SparseCall) -> Any:
    if not _all_are(c.arrays, CSRNDArray) or c.params["dim"] != 0:
        return None
    from scipy.sparse import vstack
    arrays = c.arrays
    return from_scipy(vstack([as_scipy(a) for a in arrays]), arrays[0])


# ------------------------------------------------------------ updates of the rows that a gradient has
@_form("sgd_update", "sgd_mom_update", "adam_update", "ftrl_update", "_sparse_adagrad_update",
       "_contrib_group_adagrad_update")
def _lazy_update(c: SparseCall) -> Any:
    weight, grad, *states = c.arrays
    stypes = {a.stype for a in (weight, *states, weight if c.out is None else c.out)}
    if not isinstance(grad, RowSparseNDArray) or not c.params.get("lazy_update", True) or \
            state.recording and weight.entry or len(stypes) > 1 or \
            c.kernel.name == "ftrl_update" and stypes != {"row_sparse"}:
        return None
    if c.out is not weight:
        raise MXNetError(f"operator {c.kernel.name}: a row_sparse gradient updates rows of the weight in place, so out "
                         "must be the weight")
    # gather and scatter ignore numbers out of range
    ids, values = _padded(_host(grad.indices).astype(np.int32), weight.shape[0]), _padded(_host(grad.data))
    whole = [_all_rows(a) for a in (weight, *states)]
    # a compiled call converts NumPy arrays faster than a separate conversion to buffers
    rows = [wrap(a, grad.context) for a in (ids, values)]
    invoke(_row_kernel(c.kernel), [whole[0], *rows, *whole[1:]], c.extras)
    for array, all_rows in zip((weight, *states), whole, strict=True):
        if isinstance(array, BaseSparseNDArray):
            array.replace_parts((all_rows, array.parts[1]), array.shape, array.chunk.dtype, array.context)
    return weight


def _padded(values: np.ndarray, filler: float = 0) -> np.ndarray:
    """Returns the rows padded with `filler` to a power of 2."""
    count = max(16, 1 << max(len(values) - 1, 0).bit_length())
    if count == len(values):
        return values
    padded = np.empty((count, *values.shape[1:]), values.dtype)
    padded[:len(values)], padded[len(values):] = values, filler
    return padded


def _all_rows(array: NDArray) -> NDArray:
    """Returns a dense array with all rows; a row_sparse array stores all rows afterwards."""
    if not isinstance(array, RowSparseNDArray):
        return array
    if not array.stores_all() or array.data.shape != array.shape:
        rows = _stored(np.arange(array.shape[0]), array.context)
        parts = _stored(array.asnumpy(), array.context), rows
        array.replace_parts(parts, array.shape, array.chunk.dtype, array.context)
    return array.data


_row_kernels: dict[Kernel, Kernel] = Bounded(256)


def _row_kernel(kernel: Kernel) -> Kernel:
    """Returns the update of selected rows: fn(weight, row numbers, gradient rows, *states, *extras) -> new weight and
    states."""
    if kernel not in _row_kernels:
        count = kernel.num_arrays

        def fn(weight: Array, ids: Array, grad: Array, *rest: Array) -> tuple:
            arrays = [weight, *rest[:count - 2]]
            rows = [a.at[ids].get(mode="fill", fill_value=0) for a in arrays]
            new = kernel.fn(rows[0], grad, *rows[1:], *rest[count - 2:])
            return tuple([a.at[ids].set(n.astype(a.dtype), mode="drop") for a, n in zip(arrays, new, strict=True)])
        _row_kernels[kernel] = Kernel(f"{kernel.name} of rows", fn, count + 1, 0, x64=kernel.x64,
                                      mutated=(0, *range(3, count + 1)))
    return _row_kernels[kernel]


BaseSparseNDArray.call_stored = staticmethod(dispatch)
