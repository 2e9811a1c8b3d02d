"""An iterator over files in LibSVM format."""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left, bisect_right
from typing import Any, Protocol

import numpy as np

from .._support.files import numbered_lines, reading
from ..array import sparse
from ..base import MXNetError
from ..ops.params import Shape
from .creator import creator
from .files import RowCursor

__all__ = ["LibSVMIter"]


class _Rows(Protocol):
    """An array, or a csr matrix of SciPy's, which has no types of its own."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class _SparseRows(RowCursor):
    """Batches of the rows of a SciPy matrix, with labels; a `Source`.

    Args:
        data: csr matrix.
        label: array, or csr matrix of the same length.
        batch_size: number of rows in a batch.
        round_batch: fill the last batch up from the beginning; the next round begins behind those rows. Otherwise its
            last rows are empty.
    """

    def __init__(self, data: _Rows, label: _Rows, batch_size: int, round_batch: bool) -> None:
        self.data, self.label = data, label
        super().__init__(data.shape[0], batch_size, round_batch)
        self.rows = np.zeros(0, np.int64)

    def next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        total = self.data.shape[0]
        count = min(self.batch_size, total - self._row)
        if self.overflow or count <= 0:
            return False
        self.rows = np.arange(self._row, self._row + self.batch_size) % total
        self._row += count
        self.pad = self.batch_size - count
        if self.rounds:
            self.overflow = self.pad % total
        return True

    def batch(self) -> tuple:
        """Data, labels, number of filling rows, and numbers of the rows."""
        def take(values: _Rows) -> sparse.CSRNDArray | np.ndarray:
            if self.rounds:
                taken = values[self.rows]
            else:
                taken = values[self.rows[:self.batch_size - self.pad]]
                if isinstance(taken, np.ndarray):
                    taken = np.concatenate([taken, np.zeros((self.pad, *taken.shape[1:]), taken.dtype)])
                else:  # SciPy's matrix, which fancy indexing has copied
                    taken.resize((self.batch_size, values.shape[1]))
            if isinstance(taken, np.ndarray):
                return taken
            return sparse.csr_matrix((taken.data, taken.indices, taken.indptr), taken.shape)  # as they are in the file
        return take(self.data), take(self.label), self.pad, self.rows


def _read(path: str, width: int) -> tuple[Any, np.ndarray, int]:
    """(matrix of the entries, numbers before them: (rows, labels), labels in a row) of a file or a folder of files."""
    from scipy.sparse import csr_matrix  # takes as long to import as the rest of mx.io; few read such files
    values, columns, pointers, labels = [], [], [0], []
    for name in _names(path):
        try:
            lines = list(numbered_lines(name, "LibSVM's format"))
        except OSError as error:
            raise MXNetError(f"cannot read LibSVM file {name}: {error.strerror}") from error
        for number, line in lines:
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                labels.append([float(word) for word in words if ":" not in word])
                entries = [word.split(":") for word in words if ":" in word]
                row = [int(column) for column, _ in entries]
                values += [float(value) for _, value in entries]
            except ValueError as error:
                raise MXNetError(f"invalid LibSVM file {name} at line {number}: {error}") from error
            if row and not 0 <= min(row) <= max(row) < width:
                raise MXNetError(f"invalid LibSVM file {name} at line {number}: column {max(row)} (counted from 0) "
                                 f"does not fit rows of width {width}")
            if len(labels[-1]) != len(labels[0]):
                raise MXNetError(f"invalid LibSVM file {name} at line {number}: expected {len(labels[0])} labels as in "
                                 f"previous lines, got {len(labels[-1])}")
            columns += row
            pointers.append(len(columns))
    if not labels:
        raise MXNetError(f"{path} contains no rows")
    matrix = csr_matrix((np.array(values, np.float32), columns, pointers), (len(labels), width))
    return matrix, np.array(labels, np.float32), len(labels[0])


def _part_of_files(path: str, num_parts: int, part_index: int) -> slice:
    """Returns the rows of a part. The parts are ranges of bytes of equal size; a line that begins in a range or at its
    end belongs to it."""
    begins, end = list[tuple[int, bool]](), 0  # of all rows, and whether they are the first in a file
    for name in _names(path):
        with reading(name, "LibSVM's format"), open(name, "rb") as file:
            content = file.read()
        begins += [(end + line.start(), not line.start()) for line in re.finditer(rb"[^\r\n]+", content)
                   if line[0].partition(b"#")[0].strip()]
        end += len(content)
    size = -(-end // num_parts)
    parts = [(begin - (not first)) // size for begin, first in begins]
    return slice(bisect_left(parts, part_index), bisect_right(parts, part_index))


def _names(path: str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]


@creator
def LibSVMIter(*, data_libsvm: str, data_shape: Shape, label_libsvm: str = "NULL",  # noqa: N802
               label_shape: Shape = (1,), num_parts: int = 1, part_index: int = 0, batch_size: int,
               round_batch: bool = True, prefetch_buffer: int = 4, ctx: str = "gpu",
               dtype: str | None = None) -> _SparseRows:
    """An iterator over LibSVM files: lines "label column:value ...", columns from 0; data are CSRNDArrays.

    Args:
        data_libsvm: the file, or a directory of files.
        data_shape: (length of a row,).
        label_libsvm: a file with the labels, in the same format; "NULL" if they are in the data file.
        label_shape: shape of a row's label.
        num_parts, part_index: number of parts, and the index of the one to read; parts are ranges of bytes.
        batch_size: number of rows in a batch.
        round_batch: whether to fill the last batch with rows from the beginning (the next epoch then starts after those
            rows).
        prefetch_buffer, ctx, dtype: accepted for compatibility with MXNet; the files are read as a whole.
        data_name, label_name: names of data and label.

    Raises:
        MXNetError: a file is missing or damaged (the message names file and line), or does not match the shapes.
    """
    if len(data_shape) != 1:
        raise MXNetError(f"LibSVMIter: data_shape must be (length of a row,), got {data_shape}")
    if not 0 <= part_index < num_parts:
        raise MXNetError(f"LibSVMIter: part_index must be from 0 to {num_parts - 1}, got {part_index}")
    data, label, count = _read(data_libsvm, data_shape[0])
    if label_libsvm != "NULL":
        label, _, _ = _read(label_libsvm, math.prod(label_shape))
        if label.shape[0] < data.shape[0]:
            raise MXNetError(f"LibSVMIter: {data_libsvm} has {data.shape[0]} rows, but {label_libsvm} has only "
                             f"{label.shape[0]}")
    elif count != math.prod(label_shape):
        raise MXNetError(f"LibSVMIter: {data_libsvm} has {count} labels in a row, which does not match label_shape "
                         f"{label_shape}")
    else:
        label = label.reshape(-1) if label_shape == (1,) else label.reshape(-1, *label_shape)
    part = slice(None) if num_parts == 1 else _part_of_files(data_libsvm, num_parts, part_index)
    return _SparseRows(data[part], label[part], batch_size, round_batch)
