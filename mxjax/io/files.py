"""Iterators over files: CSV and MNIST."""

from __future__ import annotations

import decimal
import logging
import math
import os
import warnings

import numpy as np

from .._random.mersenne import order, words_of
from ..base import MXNetError
from ..ops.params import Shape
from .creator import creator
from .state import check_count, filled_ahead, part_of

__all__ = ["CSVIter", "MNISTIter"]

_log = logging.getLogger(__name__)  # the root logger's first call configures it, which is the script's


class RowCursor:
    """The position of batches of rows; the common part of sources of rows.

    Args:
        length: number of rows.
        batch_size: number of rows in a batch.
        rounds: whether the last batch is filled from the beginning.
    """

    def __init__(self, length: int, batch_size: int, rounds: bool) -> None:
        self.extent = {"length": length}
        self.batch_size, self.rounds = batch_size, rounds
        self._row = self.overflow = self.pad = 0

    def position(self) -> dict[str, int]:
        """The next row, and where the next epoch begins if this one is over."""
        return {"row": self._row, "overflow": self.overflow}

    def go_to(self, position: dict[str, int]) -> None:
        """Moves before the batch that begins at a row."""
        self._row, self.overflow = (check_count("an iterator over rows", name, position[name], self.extent["length"])
                                    for name in ("row", "overflow"))

    def reset(self) -> None:
        """Moves before the first batch."""
        if self.rounds and not self.overflow:
            length = self.extent["length"]
            self.overflow = filled_ahead(length - self._row, self.batch_size) % length
        self._row, self.overflow = self.overflow, 0


class _Rows(RowCursor):
    """Batches of rows of two host arrays; a `Source`.

    Args:
        data, label: arrays of equal length.
        batch_size: number of rows in a batch.
        last: treatment of rows that do not fill a batch. "round": they are filled up from the beginning, and
            the next epoch starts behind those; "keep": the previous batch's rows stay there; "drop": left out.
        index: whether batches know the numbers of their rows.
    """

    def __init__(self, data: np.ndarray, label: np.ndarray, batch_size: int, last: str, index: bool = True) -> None:
        if last == "round" and -len(data) % batch_size > len(data):
            raise MXNetError(f"a batch of {batch_size} cannot be filled from {len(data)} rows with round_batch")
        self.data, self.label, self.last, self.with_index = data, label, last, index
        super().__init__(len(data), batch_size, last == "round")
        self.rows = np.zeros(batch_size, np.int64)

    def go_to(self, position: dict[str, int]) -> None:
        """Moves before the batch that begins at a row."""
        super().go_to(position)
        self.rows = np.maximum(np.arange(self._row - self.batch_size, self._row), 0)  # "keep" leaves some of them

    def next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        count = min(self.batch_size, len(self.data) - self._row)
        if self.overflow or count <= 0 or (count < self.batch_size and self.last == "drop"):
            return False
        fill = self.batch_size - count
        self.rows[:count] = np.arange(self._row, self._row + count)
        if fill and self.last == "round":
            self.rows[count:] = np.arange(fill)
            self.overflow = fill
        self._row += count
        self.pad = fill
        return True

    def batch(self) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
        """Data, labels, number of filling rows, and numbers of the rows."""
        return self.data[self.rows], self.label[self.rows], self.pad, self.rows * self.with_index


def _table(path: str, dtype: str) -> np.ndarray:
    """The numbers of one CSV file."""
    form = {"dtype": dtype, "delimiter": ",", "ndmin": 2, "encoding": "utf-8-sig"}
    try:
        with warnings.catch_warnings(action="ignore"):  # of a file without rows
            return np.loadtxt(path, **form)
    except ValueError:  # as others write such files: a comma at the end of lines, integers as 1.000e+00
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.rstrip().rstrip(",") for line in file]
        return np.loadtxt(lines, **form, converters=_integer if dtype != "float32" else None)


def _integer(cell: str) -> int:
    number = decimal.Decimal("nan" if "_" in cell else cell.strip())
    if not number.is_finite() or abs(number) >= 1 << 63:  # int() would never finish for 1e999999999
        raise ValueError(f"{cell!r} is not a 64-bit integer")
    return int(number)


def _read_csv(path: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The rows of a CSV file, or of the files in a folder, each of a given shape."""
    paths = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    if not paths:
        raise MXNetError(f"cannot read CSV file {path}: the folder contains no files")
    tables = []
    for name in paths:
        if name.endswith((".gz", ".bz2", ".xz")):  # NumPy would unpack it, however much that is
            raise MXNetError(f"invalid CSV file {name}: it is compressed")
        try:
            tables.append(_table(name, dtype))
        except OSError as error:
            raise MXNetError(f"cannot read CSV file {name}: {error}") from error
        except Exception as error:
            said = str(error).partition("; use `usecols`")[0]
            raise MXNetError(f"invalid CSV file {name}: {said}") from error
        if not tables[-1].size:
            raise MXNetError(f"invalid CSV file {name}: it contains no rows")
        if tables[-1].shape[1] != math.prod(shape):
            raise MXNetError(f"invalid CSV file {name}: rows have {tables[-1].shape[1]} values, which do not match "
                             f"shape {shape}")
    return np.concatenate(tables).reshape(-1, *shape)


@creator
def CSVIter(*, data_csv: str, data_shape: Shape, label_csv: str = "NULL", label_shape: Shape = (1,),  # noqa: N802
            batch_size: int, round_batch: bool = True, prefetch_buffer: int = 4, ctx: str = "gpu",
            dtype: str | None = None) -> _Rows:
    """An iterator over the rows of CSV files.

    Args:
        data_csv: the file, or a directory of files.
        data_shape: shape of a row's data.
        label_csv: the same for labels; "NULL" makes all labels 0.
        label_shape: shape of a row's label; (1,) results in labels of shape (batch,).
        batch_size: number of rows in a batch.
        round_batch: whether to fill the last batch with rows from the beginning (the next epoch then starts after those
            rows); otherwise its last rows are those of the previous batch.
        prefetch_buffer, ctx: accepted for compatibility with MXNet; the file is read as a whole.
        dtype: "float32" (default), "int32" or "int64"; for the latter two, numbers like 1.20e+01 are truncated to
            integers.
        data_name, label_name: names of data and label.

    Raises:
        MXNetError: a file is missing, is not a CSV file, or does not match the shapes.
    """
    dtype = dtype or "float32"
    if dtype not in ("float32", "int32", "int64"):
        raise MXNetError(f"CSVIter: dtype must be 'float32', 'int32' or 'int64', got {dtype!r}")
    data = _read_csv(data_csv, tuple(data_shape), dtype)
    if label_csv == "NULL":
        label = np.zeros(len(data), dtype)
    else:
        label = _read_csv(label_csv, tuple(label_shape), dtype)
        label = label.reshape(-1) if tuple(label_shape) == (1,) else label
    if len(label) < len(data):
        raise MXNetError(f"CSVIter: {data_csv} has {len(data)} rows, but {label_csv} has only {len(label)}")
    return _Rows(data, label, batch_size, "round" if round_batch else "keep")


def _read_idx(path: str, dimensions: int) -> np.ndarray:
    """The array in a file of MNIST's format: magic number 2048 + dimensions, their sizes, bytes."""
    try:
        raw = np.fromfile(path, np.uint8)
    except OSError as error:
        raise MXNetError(f"cannot read MNIST file {path}: {error}") from error
    header = 4 * (1 + dimensions)
    if len(raw) < header:
        raise MXNetError(f"invalid MNIST file {path}: {len(raw)} bytes are fewer than its header")
    magic, *shape = (int(number) for number in raw[:header].view(">u4"))
    if magic != 2048 + dimensions:
        raise MXNetError(f"invalid MNIST file {path} at offset 0: expected magic number {2048 + dimensions}, got "
                         f"{magic}")
    if len(raw) - header < math.prod(shape):
        raise MXNetError(f"invalid MNIST file {path}: expected data of shape {shape} after the header, got "
                         f"{len(raw) - header} bytes")
    return raw[header:header + math.prod(shape)].reshape(shape)


@creator
def MNISTIter(*, image: str = "./train-images-idx3-ubyte", label: str = "./train-labels-idx1-ubyte",  # noqa: N802
              batch_size: int = 128, shuffle: bool = True, flat: bool = False, seed: int = 0, silent: bool = False,
              num_parts: int = 1, part_index: int = 0, prefetch_buffer: int = 4, ctx: str = "gpu",
              dtype: str | None = None) -> _Rows:
    """An iterator over the MNIST files; values range from 0 to 255/256, and an incomplete last batch is dropped.

    Args:
        image, label: the uncompressed files.
        batch_size: number of images in a batch.
        shuffle: whether to shuffle once.
        flat: whether the data have the shape (batch, height * width) instead of (batch, 1, height, width).
        seed: seed of the shuffling.
        silent: whether to suppress the log message.
        num_parts, part_index: number of equal parts, and the index of the one to read.
        prefetch_buffer, ctx: accepted for compatibility with MXNet; the files are read as a whole.
        dtype: "float32", the default.
        data_name, label_name: names of data and label.

    Raises:
        MXNetError: a file is missing or damaged.
    """
    if dtype not in (None, "float32"):
        raise MXNetError(f"MNISTIter: dtype must be 'float32', got {dtype!r}")
    if not 0 <= part_index < num_parts:
        raise MXNetError(f"MNISTIter: part_index must be from 0 to {num_parts - 1}, got {part_index}")
    images, labels = _read_idx(image, 3), _read_idx(label, 1)
    if len(images) != len(labels):
        raise MXNetError(f"MNISTIter: {image} has {len(images)} images, but {label} has {len(labels)} labels")
    part = part_of(len(images), num_parts, part_index)
    data, target = images[part].astype(np.float32) / 256, labels[part].astype(np.float32)
    data = data.reshape(len(data), -1) if flat else data[:, None]
    if shuffle:
        places = order(words_of(seed), len(data))
        data, target = data[places], target[places]
    if not silent:
        _log.info("MNISTIter: %d images, shuffle=%s, shape=%s", len(data), bool(shuffle),
                  (batch_size, *data.shape[1:]))
    return _Rows(data, target, batch_size, "drop", index=False)
