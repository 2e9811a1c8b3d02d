"""Sparse arrays: compressed rows (csr) and row subsets (row_sparse).

Their parts are dense arrays, which stay in host memory until an operator on the device reads them, because most sparse
operations run on the host. An operator without a sparse form uses the dense value, which is computed on first use and
cached until the parts change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, cast

import jax
import numpy as np

from .._xla.capacity import refuse_result
from ..base import MXNetError, NotSupportedForSparseNDArray, _Null, _NullType, integer_types, numeric_types
from ..context import Context, chosen, current_context
from ..eager.array_types import Storage, storages, wrap
from ..eager.chunk import Chunk
from ..eager.modes import state
from ..eager.promise import Promise, put
from ..eager.tape import Node
from ..ops.params import DTypeLike, ShapeLike, np_dtype
from .binary_functions import SPARSE
from .creation import array as _dense_array
from .creation import zeros as _dense_zeros
from .dense import NDArray, _from_host

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "array", "cast_storage", "csr_matrix", "empty",
           "row_sparse_array", "zeros"]


_Array = TypeVar("_Array", bound=NDArray)


class _Stored(Promise):
    """Immutable values in the host's memory; a buffer is created on demand.

    Args:
        values: the values, or a function that computes them: the dense value of a sparse array, which is kept only on
            the device.
        shape, dtype, ctx: of the values.
    """

    __slots__ = ("values", "ctx", "ascending", "_compute")

    def __init__(self, values: np.ndarray | Callable[[], np.ndarray], shape: tuple[int, ...], dtype: np.dtype,
                 ctx: Context) -> None:
        super().__init__(shape, dtype)
        self.values: np.ndarray | None = None
        self._compute: Callable[[], np.ndarray] | None = None
        if isinstance(values, np.ndarray):
            self.values = values
        else:
            self._compute = values
        self.ctx = ctx
        self.ascending: bool | None = None  # None: not examined yet; see `_ascends`

    def host(self) -> np.ndarray:
        """Returns the values for reading; they are computed once."""
        if self.values is None:
            self.values = np.asarray(self.value) if self.value is not None or self._compute is None else self._compute()
        return self.values

    def force(self) -> None:
        """Copies the values to the device."""
        with jax.ensure_compile_time_eval():
            self.value = put(self.host(), self.ctx)
        if self._compute is not None:
            self.values = None


def _stored(values: np.ndarray, ctx: Context) -> NDArray:
    """Returns an array of values in the host's memory, which must not change afterwards."""
    return wrap(_Stored(values, values.shape, values.dtype, ctx), ctx)


def _host(array: NDArray) -> np.ndarray:
    """Returns the value for reading, without a copy if its memory is on the host."""
    pending = array.chunk.pending
    return pending.host() if isinstance(pending, _Stored) and array.region is None else np.asarray(array.read())


def _shared(array: NDArray, ctx: Context) -> NDArray:
    """Returns a copy: another handle of the value. The operator `_copy` would compile a program for each number of
    rows."""
    array = array.as_in_context(ctx)
    pending = array.chunk.pending
    return wrap(pending if isinstance(pending, _Stored) and array.region is None else array.read(), ctx)


class _Chunk(Chunk):
    """A chunk that stays pending, which tells callers that a sparse form may exist.

    Each change of an array creates a new one, with the lock of the first, which orders the array's changes. It need not
    hide values, because the parts of an array are replaced together.
    """

    __slots__ = ()
    hides = False

    def read(self) -> jax.Array:
        """The dense value."""
        return cast(Promise, self.pending).get()  # the value is always available


class BaseSparseNDArray(NDArray):
    """Base class of csr and row_sparse arrays."""

    __slots__ = ("parts",)
    dense = False
    call_stored: Callable[..., Any]  # tries the sparse form of an operator; see `sparse_operators`

    @classmethod
    def of_parts(cls, parts: tuple, shape: tuple[int, ...], dtype: np.dtype, ctx: Context) -> Self:
        """Returns an array of these stored arrays, which are not checked."""
        self = cls.__new__(cls)
        self.region = self.entry = self.gradient = None
        self.parts, self.chunk = parts, self._chunk_of_dense(shape, dtype, ctx)
        return self

    def replace_parts(self, parts: tuple, shape: tuple[int, ...], dtype: np.dtype, ctx: Context) -> None:
        """Replaces the value; the gradient and the tape position stay."""
        chunk = self._chunk_of_dense(shape, dtype, ctx)
        chunk.lock = self.chunk.lock
        with chunk.lock:
            self.parts, self.chunk = parts, chunk

    def _chunk_of_dense(self, shape: tuple[int, ...], dtype: np.dtype, ctx: Context) -> _Chunk:
        """Returns a chunk of the dense value, which is computed on demand."""
        return _Chunk(None, ctx, _Stored(lambda: self._to_dense(), tuple(shape), np.dtype(dtype), ctx))

    @property
    def data(self) -> NDArray:
        """A copy of the stored values; as in MXNet, writing to it does not change the array."""
        return _shared(self.parts[0], self.context)

    @property
    def _num_aux(self) -> int:
        """Returns the number of index arrays."""
        return len(self.parts) - 1

    @property
    def _indices(self) -> NDArray:
        return self.parts[1]

    def _to_dense(self) -> np.ndarray:
        """Returns the dense value; each storage type defines it."""
        raise NotImplementedError

    def ascending(self) -> BaseSparseNDArray:
        """Returns the array with its rows in order, as files and operators require: usually the array itself."""
        return self

    def with_values(self, data: NDArray) -> Self:
        """Returns an array that stores other values at the same positions."""
        return self.of_parts((data, *self.parts[1:]), self.shape, data.chunk.dtype, self.context)

    def write(self, value: object) -> None:
        """Takes over a dense value, keeping this storage type."""
        value = value.get() if isinstance(value, Promise) else value
        other = cast(BaseSparseNDArray, cast_storage(_from_host(np.asarray(value), self.context), self.stype))
        self.replace_parts(other.parts, self.shape, self.chunk.dtype, self.context)

    def store_gradient(self, gradient: NDArray | jax.Array, req: str) -> None:
        """Writes or adds a gradient (called by the tape)."""
        with self.chunk.lock:
            if isinstance(gradient, RowSparseNDArray) and isinstance(self, RowSparseNDArray):
                total = self + gradient if req == "add" else gradient.astype(self.chunk.dtype, copy=False)
                self.replace_parts(total.parts, self.shape, self.chunk.dtype, self.context)
                return
            value = gradient.read() if isinstance(gradient, NDArray) else gradient
            self.write(self.read() + value if req == "add" else value)

    def asnumpy(self) -> np.ndarray:
        """The dense value as a NumPy array."""
        return np.array(_host(self))

    def tostype(self, stype: str) -> NDArray:
        """A copy with another storage type: "default" or its own.

        Raises:
            ValueError: it is the other sparse one.
        """
        if stype in ("csr", "row_sparse") and stype != self.stype:
            raise ValueError(f"a {self.stype} array cannot be cast to {stype}: call tostype(\"default\") first")
        return cast_storage(self, stype)

    def asscalar(self) -> Any:
        """Not available for sparse arrays."""
        raise NotImplementedError(f"{type(self).__name__} has no asscalar: call tostype(\"default\") first")

    item = asscalar

    def _only(self, name: str) -> Any:
        raise TypeError(f"{name}() of a {type(self).__name__}: call tostype(\"default\") first")

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Self:
        """A copy of the same storage type with another dtype."""
        dtype = np_dtype(dtype)
        if not copy and dtype == self.chunk.dtype:
            return self
        parts = (self.parts[0].detach().astype(dtype), *self.parts[1:])
        return self.as_copy(self.of_parts(parts, self.shape, dtype, self.context))

    def detach(self) -> Self:
        """The same parts, detached from the recorded graph."""
        return self.of_parts(self.parts, self.shape, self.chunk.dtype, self.context)

    def copy(self) -> Self:
        """A copy of the same storage type."""
        return self.as_copy(self.copy_on(self.context))

    def as_copy(self, copy: _Array) -> _Array:
        """Returns a copy as one of this array, whose gradient is the copy's in this array's dtype and context."""
        def gradient(head: NDArray) -> list[Any]:
            return [head.as_in_context(self.context).astype(self.chunk.dtype, copy=False)]
        return recorded(copy, [self], gradient)

    def copy_on(self, ctx: Context) -> Self:
        """A copy on a context."""
        return self.of_parts(tuple([_shared(p, ctx) for p in self.parts]), self.shape, self.chunk.dtype, ctx)

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copies to a context, or to an array of the same shape, dense or of this storage type, whose dtype is kept.

        Raises:
            TypeError: the array is of another sparse storage type.
            MXNetError: the shapes differ.
        """
        if isinstance(other, Context):
            return self.as_copy(self.copy_on(other))
        if isinstance(other, BaseSparseNDArray):
            if other.stype != self.stype:
                raise TypeError(f"copyto does not support destination NDArray stype {other.stype} for {self.stype}")
            if other.shape != self.shape:
                raise MXNetError(f"copyto: shapes {self.shape} and {other.shape} differ")
            same = self.astype(other.chunk.dtype, copy=False).copy_on(other.context)
            other.replace_parts(same.parts, same.shape, same.chunk.dtype, other.context)
            return other if self.entry is None else self.as_copy(other)  # otherwise a variable would stay one
        return super().copyto(other)

    def check_format(self, full_check: bool = True) -> None:
        """Raises MXNetError if the index arrays are not valid for this storage type."""
        _check(self, full_check)

    def reshape(self, *shape: ShapeLike | None, **kwargs: Any) -> NDArray:
        """Not available for sparse arrays."""
        raise NotSupportedForSparseNDArray("reshape", None, self)

    def wait_to_read(self) -> None:
        """Waits until the stored parts are available."""
        for part in self.parts:
            if not isinstance(part.chunk.pending, _Stored):
                part.wait_to_read()

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    def __reduce__(self) -> tuple:
        return _rebuild, (self.stype, tuple(p.asnumpy() for p in self.ascending().parts), self.shape)

    def __getitem__(self, key: object) -> NDArray:
        if isinstance(key, slice) and key == slice(None):
            return self
        if self.stype == "csr" and isinstance(key, (int, slice)):
            rows = self.shape[0]
            if isinstance(key, int) and not -rows <= key < rows:
                raise IndexError(f"row {key} is out of range for a csr array with {rows} rows")
            begin, end, step = (key % rows, key % rows + 1, 1) if isinstance(key, int) else key.indices(rows)
            if step == 1:
                data, columns, pointers = map(_host, self.parts)
                pointers = pointers[begin:max(begin, end) + 1]
                stored = slice(pointers[0], pointers[-1])
                return csr_matrix((data[stored], columns[stored], pointers - pointers[0]),
                                  (len(pointers) - 1, self.shape[1]), self.context, self.chunk.dtype)
        raise ValueError(f"a {self.stype} array cannot be indexed with {key!r}")

    def __setitem__(self, key: object, value: object) -> None:
        if not (isinstance(key, slice) and key == slice(None)):
            error = ValueError if isinstance(key, slice) else TypeError
            raise error(f"a {self.stype} array can only be assigned as a whole: a[:] = value")
        if isinstance(value, NDArray):
            value.copyto(self)
        elif self.stype == "row_sparse" and isinstance(value, numeric_types):  # as in MXNet: every row, also zeros
            dense = np.full(self.shape, value, self.chunk.dtype)
            rows = _of_rows(dense, np.arange(self.shape[0]), self.shape, self.context)
            self.replace_parts(rows.parts, self.shape, self.chunk.dtype, self.context)
        else:
            self.write(np.broadcast_to(np.asarray(value, self.chunk.dtype), self.shape))


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed sparse row format: `data`, column `indices`, and row pointers `indptr`."""

    __slots__ = ()
    stype = "csr"

    @property
    def indices(self) -> NDArray:
        """A copy of the column indices of the stored values (int64); writing to it does not change the array."""
        return _shared(self.parts[1], self.context)

    @property
    def indptr(self) -> NDArray:
        """A copy of the index in `data` at which each row begins (int64, rows + 1 values)."""
        return _shared(self.parts[2], self.context)

    def asscipy(self) -> Any:
        """The array as a `scipy.sparse.csr_matrix`."""
        from scipy.sparse import csr_matrix as scipy_csr
        return scipy_csr((self.data.asnumpy(), self.indices.asnumpy(), self.indptr.asnumpy()), self.shape)

    def _to_dense(self) -> np.ndarray:
        refuse_result(self.shape, self.chunk.dtype, what="the dense value of a csr array")
        dense, rows = np.zeros(self.shape, self.chunk.dtype), np.diff(_host(self.indptr))
        dense[np.repeat(np.arange(len(rows)), rows), _host(self.indices)] = _host(self.data)
        return dense  # not by SciPy, which has no 16-bit floats


class RowSparseNDArray(BaseSparseNDArray):
    """An array that stores only the rows `indices`, in `data`."""

    __slots__ = ()
    stype = "row_sparse"

    @property
    def indices(self) -> NDArray:
        """A copy of the indices of the stored rows (int64), in ascending order except in results of `retain`."""
        return _shared(self.parts[1], self.context)

    def ascending(self) -> RowSparseNDArray:
        """Returns the array with each stored row once, by ascending number."""
        if _ascends(self.parts[1]):
            return self
        ids, places = np.unique(_host(self.parts[1]), return_index=True)
        result = _of_rows(_host(self.parts[0])[places], ids, self.shape, self.context)
        result.entry = self.entry
        return result

    def stores_all(self) -> bool:
        """Returns whether `data` is the dense value: every row is stored, in order."""
        return self.parts[1].shape[0] == self.shape[0] and _ascends(self.parts[1])

    def retain(self, *args: Any, **kwargs: object) -> RowSparseNDArray:
        """Returns the array with only the given rows."""
        return retain(self, *args, **kwargs)

    @staticmethod
    def gradient_of_lookups(params: dict[str, Any], data: NDArray | np.ndarray | jax.Array,
                             head: NDArray | np.ndarray | jax.Array) -> RowSparseNDArray:
        """The gradient of an embedding's table: only the rows that were looked up."""
        ids = _rows_looked_up(params, np.asarray(data))
        rows, values = _summed(ids, np.asarray(head).reshape(len(ids), params["output_dim"]))
        return _of_rows(values, rows, (params["input_dim"], params["output_dim"]), current_context())

    def _to_dense(self) -> np.ndarray:
        # on the host: XLA would compile a program for each count of stored rows
        refuse_result(self.shape, self.chunk.dtype, what="the dense value of a row_sparse array")
        if self.stores_all():
            return np.array(_host(self.data))
        _within(_host(self.parts[1]), self.shape[0], "row_sparse: row index")  # `retain` takes any
        dense = np.zeros(self.shape, self.chunk.dtype)
        dense[_host(self.indices)] = _host(self.data)
        return dense


def _ascends(indices: NDArray) -> bool:
    """Returns whether row numbers strictly ascend; the result is cached for those on the host."""
    pending = indices.chunk.pending
    if isinstance(pending, _Stored) and pending.ascending is not None:
        return pending.ascending
    values = _host(indices)
    result = bool((values[1:] > values[:-1]).all())
    if isinstance(pending, _Stored):
        pending.ascending = result
    return result


def _summed(ids: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (the distinct numbers, ascending; for each the sum of its rows of `values`)."""
    if (ids[1:] > ids[:-1]).all():
        return ids, values
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    if len(starts) == len(ids):
        return ids, values[order]
    from scipy.sparse import csr_matrix as matrix
    choose = matrix((np.ones(len(ids), values.dtype), order, np.append(starts, len(ids))), (len(starts), len(ids)))
    return ids[starts], (choose @ values.reshape(len(ids), -1)).reshape(len(starts), *values.shape[1:])


def _rows_looked_up(params: dict[str, Any], data: np.ndarray) -> np.ndarray:
    return np.clip(data.astype(np.int64).reshape(-1), 0, params["input_dim"] - 1)


def recorded(result: _Array, arrays: Sequence[NDArray], gradient: Callable[[NDArray], list[Any]]) -> _Array:
    """Returns `result`, recorded on the tape as a function of `arrays` if recording is active.

    Args:
        result: the new array.
        arrays: its inputs.
        gradient: function(head gradient) -> gradients of the arrays (None: none).
    """
    if state.recording and any(a.entry is not None for a in arrays):
        def pull(slots: list[Any], create_graph: bool) -> list[Any]:
            head = slots[0]
            if not isinstance(head, NDArray):
                head = NDArray(head.get() if isinstance(head, Promise) else head)
            return gradient(head)
        node = Node(None, (), [a.entry for a in arrays], [(result.shape, result.chunk.dtype)], result.context, pull)
        result.entry = (node, 0)
    return result


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Returns the distinct numbers, ascending; much faster than np.unique for nearly sorted numbers."""
    numbers = np.sort(numbers, axis=None, kind="stable")
    first = np.ones(len(numbers), bool)
    first[1:] = numbers[1:] != numbers[:-1]
    return numbers[first]


def _of_rows(values: np.ndarray, ids: np.ndarray, shape: tuple[int, ...], ctx: Context) -> RowSparseNDArray:
    """Returns a row_sparse array of new host arrays that are known to match."""
    parts = _stored(values, ctx), _stored(ids.astype(np.int64, copy=False), ctx)
    return RowSparseNDArray.of_parts(parts, tuple(shape), values.dtype, ctx)


def retain(data: NDArray | None = None, indices: NDArray | None = None, out: NDArray | None = None,
           name: str | None = None, **kwargs: object) -> RowSparseNDArray:
    """Returns the rows at `indices`, in that order, with zeros for rows that are not stored.

    Args:
        data: a row_sparse array.
        indices: one-dimensional array of row indices, of any dtype.
        out: a row_sparse array to write the result to.

    Returns:
        A row_sparse array with one stored row for each index.

    Raises:
        MXNetError: `data` is not row_sparse.

    Source: MXNet's operator `_sparse_retain`.
    """
    if not isinstance(data, RowSparseNDArray) or indices is None:
        raise MXNetError("retain expects a row_sparse array and the indices of rows")
    wanted = _host(indices).astype(np.int64).reshape(-1)
    result = _of_rows(_values_at(data, wanted), wanted, data.shape, data.context)
    if not len(data.parts[1]):  # as in MXNet: nothing is kept of an array without stored rows
        result = cast(RowSparseNDArray, zeros("row_sparse", data.shape, data.context, data.dtype))
    rows = distinct_rows(indices)
    recorded(result, [data], lambda head: [retain(head.tostype("row_sparse"), rows)])
    if out is None:
        return result
    return cast(RowSparseNDArray, result.copyto(out))


def distinct_rows(indices: NDArray) -> NDArray:
    """Returns the distinct row numbers of an array, ascending (int64, one axis)."""
    return _stored(_distinct(_host(indices).astype(np.int64).reshape(-1)), indices.context)


def _values_at(array: RowSparseNDArray, ids: np.ndarray) -> np.ndarray:
    """Returns the rows `ids` of an array, with zeros for rows that are not stored."""
    array = array.ascending()
    stored, data = _host(array.parts[1]), _host(array.parts[0])
    if not len(stored):
        return np.zeros((len(ids), *array.shape[1:]), array.chunk.dtype)
    places = np.minimum(np.searchsorted(stored, ids), len(stored) - 1)
    missing = stored[places] != ids
    values = data[places]
    values[missing] = 0
    return values


def _check(array: BaseSparseNDArray, full: bool) -> None:
    """Returns the error that `check_format` reports for an array, or None."""
    if array.stype == "csr":
        indices, pointers = _host(array.parts[1]), _host(array.parts[2])
        _check_csr(indices, pointers, array.shape, full)
        if full and _descents(indices, pointers).any():
            raise MXNetError("csr: column indices must be in ascending order within each row")
    elif full:
        _check_rows(_host(array._indices), array.shape)


def _check_csr(indices: np.ndarray, pointers: np.ndarray, shape: tuple[int, ...], full: bool = True) -> None:
    """Rejects indices outside of the memory.

    Columns need not ascend within a row, and may be repeated, as in MXNet: `asnumpy` uses the last value, `dot` adds
    them.
    """
    if len(pointers) != shape[0] + 1 or pointers[0] != 0 or pointers[-1] != len(indices):
        found = f"{len(pointers)} values from {pointers[0]} to {pointers[-1]}" if len(pointers) else "none"
        raise MXNetError(f"csr: indptr must contain {shape[0] + 1} values from 0 to {len(indices)}, the number of "
                         f"stored values; got {found}")
    if not full:
        return
    if (pointers[1:] < pointers[:-1]).any():
        row = int(np.argmax(pointers[1:] < pointers[:-1]))
        raise MXNetError(f"csr: indptr must not decrease; at row {row} it goes from {pointers[row]} to "
                         f"{pointers[row + 1]}")
    _within(indices, shape[1], "csr: column index")


def _descents(indices: np.ndarray, pointers: np.ndarray) -> np.ndarray:
    """Returns where, within a row, a column index is not larger than the one before."""
    result = indices[1:] <= indices[:-1]
    starts = pointers[1:-1]
    result[starts[(starts > 0) & (starts < len(indices))] - 1] = False  # the first one of a row has no predecessor
    return result


def _check_rows(indices: np.ndarray, shape: tuple[int, ...]) -> None:
    """Rejects row numbers that are out of range or not ascending, because operators look rows up by bisection."""
    _within(indices, shape[0], "row_sparse: row index")
    if (indices[1:] <= indices[:-1]).any():
        place = int(np.argmax(indices[1:] <= indices[:-1]))
        raise MXNetError(f"row_sparse: row indices must be in ascending order, got {indices[place + 1]} after "
                         f"{indices[place]}")


def _within(indices: np.ndarray, count: int, what: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= count):
        wrong = indices[int(np.argmax((indices < 0) | (indices >= count)))]
        raise MXNetError(f"{what} {wrong} is out of bounds; the size is {count}")


def _parts(ctx: Context | None, dtype: DTypeLike, data: object,
           *indices: object) -> tuple[tuple[NDArray, ...], np.dtype, Context]:
    place = chosen(ctx)
    if dtype is None:
        dtype = data.dtype if isinstance(data, (NDArray, np.ndarray)) else np.float32
    dtype = np_dtype(dtype)

    def part(value: object, part_dtype: np.dtype) -> NDArray:
        if isinstance(value, NDArray):
            return _dense_array(value, place, part_dtype)
        return _stored(np.array(value, part_dtype), place)
    return (part(data, dtype), *(part(i, np.dtype(np.int64)) for i in indices)), dtype, place


def _agreed(own: tuple, shape: Any) -> tuple:
    """Returns a shape that is specified once or twice; raises ValueError if the two differ."""
    if shape is not None and tuple(shape) != tuple(own):
        raise ValueError(f"shape {tuple(shape)} does not match an array of shape {tuple(own)}")
    return tuple(int(n) for n in own)


def _dense(source: Any, shape: ShapeLike | None, ctx: Context | None, dtype: DTypeLike) -> NDArray:
    """Returns a dense array for the conversion to another storage type, with the source's dtype if it has one."""
    dtype = dtype or getattr(source, "dtype", None)
    same = isinstance(source, NDArray) and dtype == source.dtype and ctx in (None, source.context)
    dense = source if same else _dense_array(source, ctx, dtype)
    _agreed(dense.shape, shape)
    return dense


def csr_matrix(arg1: Any, shape: tuple | None = None, ctx: Context | None = None,
               dtype: DTypeLike = None) -> CSRNDArray:
    """Creates a csr array.

    Args:
        arg1: (data, indices, indptr), (data, (row, column)), (rows, columns) for an empty one, a dense array, a SciPy
            matrix or a CSRNDArray.
        shape, ctx, dtype: shape, context and dtype of the array; inferred if None.

    Raises:
        ValueError: the parts do not match.
        MXNetError: column indices are out of range, or `indptr` is not consistent with them.
    """
    if isinstance(arg1, tuple):
        if len(arg1) == 2 and all(isinstance(n, (int, np.integer)) for n in arg1):
            return cast(CSRNDArray, zeros("csr", _agreed(arg1, shape), ctx, dtype))
        if len(arg1) == 2 and isinstance(arg1[1], (tuple, list)) and len(arg1[1]) == 2 and np.ndim(arg1[1][0]):
            from scipy.sparse import csr_matrix as scipy_csr
            data, (row, column) = arg1
            data, row, column = [a.asnumpy() if isinstance(a, NDArray) else np.asarray(a) for a in (data, row, column)]
            result = scipy_csr((data, (row.astype(np.int64), column.astype(np.int64))), shape=shape)
            return csr_matrix((result.data, result.indices, result.indptr), result.shape, ctx, dtype or data.dtype)
        if len(arg1) != 3:
            raise ValueError("csr_matrix expects (data, indices, indptr), (data, (row, col)) or (M, N), got "
                             f"{len(arg1)} parts")
        data, indices, indptr = arg1
        parts, dtype, place = _parts(ctx, dtype, data, indices, indptr)
        if shape is None:
            columns = _host(parts[1])
            if not len(columns):
                raise ValueError("invalid shape: the shape is required without stored values")
            shape = (parts[2].shape[0] - 1, int(columns.max()) + 1)
        if len(shape) != 2 or any(p.ndim != 1 for p in parts):
            raise ValueError("a csr array must have two dimensions, and each of its parts one")
        if parts[2].shape[0] != shape[0] + 1 or parts[0].shape != parts[1].shape:
            raise ValueError(f"indptr must contain {shape[0] + 1} values, and data the same number of values as "
                             "indices")
        _check_csr(_host(parts[1]), _host(parts[2]), tuple(shape))
        return CSRNDArray.of_parts(parts, tuple(shape), dtype, place)
    if isinstance(arg1, CSRNDArray):
        return arg1.as_copy(arg1.copy_on(chosen(ctx))).astype(dtype or arg1.dtype, copy=False)
    if hasattr(arg1, "tocsr"):
        result = arg1.tocsr(copy=True)
        result.sum_duplicates()
        return csr_matrix((result.data, result.indices, result.indptr), result.shape, ctx, dtype or result.dtype)
    if isinstance(arg1, BaseSparseNDArray):
        raise ValueError(f"cannot convert a {arg1.stype} array to csr")
    value = _dense(arg1, shape, ctx, dtype)
    if value.ndim != 2:
        raise ValueError(f"a csr array must have two dimensions, got shape {value.shape}")
    return cast(CSRNDArray, cast_storage(value, "csr"))


def row_sparse_array(arg1: object, shape: tuple | None = None, ctx: Context | None = None,
                     dtype: DTypeLike = None) -> RowSparseNDArray:
    """Creates a row_sparse array.

    Args:
        arg1: (data, indices), a shape tuple for an empty one, a dense array or a RowSparseNDArray.
        shape, ctx, dtype: shape, context and dtype of the array; inferred if None.

    Raises:
        ValueError: the parts do not match.
        MXNetError: row indices are out of range or repeated.
    """
    if isinstance(arg1, tuple) and len(arg1) < 2:
        raise ValueError(f"row_sparse_array expects (data, indices) or a shape of two or more dimensions, got {arg1}")
    if isinstance(arg1, tuple) and not (len(arg1) == 2 and not isinstance(arg1[0], (int, np.integer))):
        return cast(RowSparseNDArray, zeros("row_sparse", _agreed(arg1, shape), ctx, dtype))
    if isinstance(arg1, tuple):
        parts, dtype, place = _parts(ctx, dtype, *arg1)
        rows = _host(parts[1])
        if parts[1].ndim != 1 or parts[0].shape[:1] != parts[1].shape and (parts[0].size or len(rows)):
            raise ValueError(f"got {parts[1].size} row indices for data of shape {parts[0].shape}")
        if shape is None:
            if not len(rows):
                raise ValueError("invalid shape: the shape is required without stored rows")
            shape = (int(rows.max()) + 1, *parts[0].shape[1:])
        if parts[0].shape[1:] != tuple(shape[1:]):
            raise ValueError(f"data of shape {parts[0].shape} does not match rows of shape {tuple(shape[1:])}")
        if (rows[1:] < rows[:-1]).any():  # MXNet accepts them unsorted, and does not find some of them later
            order = np.argsort(rows, kind="stable")
            parts, rows = tuple(part[order] for part in parts), rows[order]
        _check_rows(rows, tuple(shape))
        return RowSparseNDArray.of_parts(parts, tuple(shape), dtype, place)
    if isinstance(arg1, RowSparseNDArray):
        return arg1.as_copy(arg1.copy_on(chosen(ctx))).astype(dtype or arg1.dtype, copy=False)
    if isinstance(arg1, BaseSparseNDArray):
        raise ValueError(f"cannot convert a {arg1.stype} array to row_sparse")
    value = _dense(arg1, shape, ctx, dtype)
    if not value.ndim:
        raise MXNetError("a row_sparse array must have at least one dimension, got a number")
    return cast(RowSparseNDArray, cast_storage(value, "row_sparse"))


def cast_storage(data: NDArray | None = None, stype: str | _NullType = _Null, out: NDArray | None = None,
                 name: str | None = None, **kwargs: object) -> NDArray:
    """Converts the array to another storage type.

    Raises:
        MXNetError: the conversion is not supported.
    """
    if data is None:
        raise MXNetError("cast_storage expects an array")
    result = recorded(_converted(data, stype), [data], lambda head: [head])
    return result if out is None else result.copyto(out)


def _converted(array: NDArray, stype: str | _NullType) -> NDArray:
    if array.stype == stype:
        return array.copy()
    if stype == "default":
        return _from_host(array.asnumpy(), array.context)
    if array.stype != "default":
        raise MXNetError(f"a {array.stype} array cannot be cast to {stype}")
    dense = array.asnumpy()
    if stype == "csr":
        if dense.ndim != 2:
            raise MXNetError(f"only matrices can be stored as csr, got shape {dense.shape}")
        row, column = np.nonzero(dense)
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=dense.shape[0]))])
        return csr_matrix((dense[row, column], column, pointers), dense.shape, array.context, dense.dtype)
    if stype == "row_sparse":
        rows = np.flatnonzero((dense != 0).reshape(dense.shape[0], -1).any(axis=1)) if dense.size else np.zeros(0)
        return row_sparse_array((dense[rows.astype(np.int64)], rows), dense.shape, array.context, dense.dtype)
    raise MXNetError(f"unknown storage type {stype!r}; known: default, csr, row_sparse")


def zeros(stype: str, shape: ShapeLike, ctx: Context | None = None, dtype: DTypeLike = None,
          **kwargs: Any) -> NDArray:
    """A sparse array without stored values; a dense array for `stype` "default"."""
    if stype == "default":
        return _dense_zeros(shape, ctx, dtype, **kwargs)
    shape = (shape,) if isinstance(shape, integer_types) else tuple(shape)
    dtype = np_dtype(dtype)
    if stype == "csr":
        refuse_result((shape[0] + 1,), np.int64, what="indptr of a csr array: an array")
        return csr_matrix((np.zeros(0, dtype), np.zeros(0), np.zeros(shape[0] + 1)), shape, ctx, dtype)
    if stype == "row_sparse":
        return row_sparse_array((np.zeros((0, *shape[1:]), dtype), np.zeros(0)), shape, ctx, dtype)
    raise ValueError(f"unknown storage type {stype!r}; known: default, csr, row_sparse")


def empty(stype: str, shape: ShapeLike, ctx: Context | None = None, dtype: DTypeLike = None) -> NDArray:
    """Like `zeros`."""
    return zeros(stype, shape, ctx, dtype)


def array(source_array: object, ctx: Context | None = None, dtype: DTypeLike = None) -> NDArray:
    """A sparse array with the values of a sparse array or a SciPy matrix."""
    if isinstance(source_array, CSRNDArray) or hasattr(source_array, "tocsr"):
        return csr_matrix(source_array, ctx=ctx, dtype=dtype)
    if isinstance(source_array, RowSparseNDArray):
        return row_sparse_array(source_array, ctx=ctx, dtype=dtype)
    raise ValueError("source_array must be a sparse NDArray or a SciPy sparse matrix; use mx.nd.array for others")


def _rebuild(stype: str, parts: tuple, shape: tuple[int, ...]) -> NDArray:
    data, indices, *rest = parts
    if stype == "csr":
        return csr_matrix((data, indices, rest[0]), shape, dtype=data.dtype)
    return row_sparse_array((data, indices), shape, dtype=data.dtype)


def _of_one_shape(method: str, name: str) -> Callable[[Any, Any], NDArray]:
    general = getattr(NDArray, method)

    def operate(self: BaseSparseNDArray, other: NDArray | float) -> NDArray:
        return SPARSE[name](self, other) if isinstance(other, NDArray) else general(self, other)
    operate.__name__ = method
    return operate


for _method, _name in [("__add__", "add"), ("__sub__", "subtract"), ("__mul__", "multiply")]:
    setattr(BaseSparseNDArray, _method, _of_one_shape(_method, _name))
storages["csr"] = Storage(
    zeros=lambda shape, ctx, dtype: zeros("csr", shape, ctx, dtype),
    of_dense=lambda source: cast_storage(source, "csr"), array=array,
    of_parts=lambda parts, shape, dtype: csr_matrix(parts, shape, dtype=dtype))
storages["row_sparse"] = Storage(
    zeros=lambda shape, ctx, dtype: zeros("row_sparse", shape, ctx, dtype),
    of_dense=lambda source: cast_storage(source, "row_sparse"), array=array,
    of_parts=lambda parts, shape, dtype: row_sparse_array(parts, shape, dtype=dtype))
