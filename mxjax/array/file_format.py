"""MXNet's binary array files (`.params`, `.nd`): reads every version, and writes the version of MXNet 1.9.1.

Files of NumPy and safetensors are recognized by their first bytes; the latter are written if the name has their
extension. MXNet 2 writes NumPy's format.

A file is a list header, the arrays, and their names (or none). Little-endian throughout:

    file    u64 0x112, u64 0, u64 count, arrays, u64 number of names, names (u64 length, bytes)
    array   u32 magic (V2 0xF993FAC9, V3 0xF993FACA with NumPy shapes), i32 storage type,
            [shape of the stored values, sparse only], shape, i32 device type, i32 device id, i32 dtype code,
            [per index array: i32 dtype code, shape], values, [index arrays]
    shape   i32 dimensions, i64 each
    V1      magic 0xF993FAC8, then shape (i64), device, dtype code, values; before V1: no magic, u32 shape
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np

from .._support.files import check_unpacked, reading, refusals, replacing
from .._xla.transfer import to_device
from .._xla.x64 import x64_mode
from ..base import MXNetError
from ..context import cpu
from ..eager.array_types import storage, wrap
from ..ops.params import CODES, DTYPES, np_dtype
from ..util import is_np_shape, np_shape_of_thread
from . import safetensors_format

__all__ = ["dumps", "loads", "read", "read_file", "write", "write_each"]

_LIST, _V1, _V2, _V3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA
STYPES = {0: "default", 1: "row_sparse", 2: "csr"}
_NPZ_PARTS = {"csr": ("data", "indices", "indptr"), "row_sparse": ("data", "indices")}  # entries of an archive
_MOST_DIMENSIONS = 64
_HEADER, _SLAB, LARGE = 1 << 9, 1 << 24, 1 << 23  # bytes: of a read header, of a slab, for two threads
_AT_ONCE = 500  # arrays per system call, with the headers in between (Linux accepts 1024 buffers)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an uninitialized array aligned to 64 bytes, so that XLA can use its memory directly."""
    count = math.prod(shape) * dtype.itemsize
    raw = np.empty(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + count].view(dtype).reshape(shape)


class _Reader:
    """A cursor over a file or a buffer.

    Every step is checked against the end, and so is every size before memory is allocated. Headers are read first, then
    the values of all arrays: concurrent reads would wait longer for the interpreter's lock.
    """

    def __init__(self, content: int | memoryview, size: int, source: str) -> None:
        self.content, self.size, self.source, self.offset = content, size, source, 0  # a file descriptor, or bytes
        self._window, self._first = b"", 0  # the block of the file that was last read for headers, and its offset
        self._slab = np.empty(0, np.uint8)
        self._later: list[tuple[np.ndarray, int]] = []  # arrays to read, and their offsets

    def error(self, what: str, offset: int | None = None) -> MXNetError:
        """Returns the error for corrupt data at an offset (default: the current one)."""
        return MXNetError(f"{self.source}: {what} at offset {self.offset if offset is None else offset}")

    def _reserve(self, count: int, what: str) -> None:
        left = self.size - self.offset
        if count > left:
            raise self.error(f"Invalid NDArray file format: {what} needs {count} bytes, but only {left} remain")
        self.offset += count

    def take(self, count: int, what: str) -> bytes:
        """Reads the next `count` bytes."""
        start = self.offset
        self._reserve(count, what)
        if not isinstance(self.content, int):
            return bytes(self.content[start:self.offset])
        if not self._first <= start <= self.offset <= self._first + len(self._window):
            self._window, self._first = os.pread(self.content, max(count, _HEADER), start), start
            if len(self._window) < count:
                raise self.error("the file was truncated while it was read", start)
        return self._window[start - self._first:self.offset - self._first]

    def number(self, code: str, what: str) -> int:
        """Reads the next integer of a `struct` code."""
        return struct.unpack("<" + code, self.take(struct.calcsize(code), what))[0]

    def shape(self, code: str = "q", dimensions: int | None = None) -> tuple[int, ...] | None:
        """Reads the next shape; None if it is unknown."""
        start = self.offset
        count = self.number("i", "number of dimensions") if dimensions is None else dimensions
        if count == -1:
            return None
        if not 0 <= count <= _MOST_DIMENSIONS:
            raise self.error(f"Invalid NDArray file format: invalid number of dimensions, {count}", start)
        width = struct.calcsize(code)
        shape = struct.unpack(f"<{count}{code}", self.take(count * width, "shape"))
        if any(n < 0 for n in shape):
            if all(n >= -1 for n in shape):
                return None
            raise self.error(f"Invalid NDArray file format: shape {shape}", start)
        return shape

    def dtype(self) -> np.dtype:
        """Reads the next dtype code."""
        start, code = self.offset, self.number("i", "dtype")
        if code not in DTYPES:
            raise self.error(f"Invalid NDArray file format: unknown dtype code {code}", start)
        return DTYPES[code]

    def values(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Reads the next array, whose values are available after `fill`."""
        self._reserve(math.prod(shape) * dtype.itemsize, f"{dtype.name} array of shape {shape}")
        try:
            values = self._space(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
            self._later.append((values.reshape(-1).view(np.uint8), self.offset - values.nbytes))
            return values
        except ValueError as error:  # no elements, but too many dimensions, or a product that overflows in NumPy
            raise self.error(f"Invalid NDArray file format: shape {shape}: {error}") from None

    def _space(self, count: int) -> np.ndarray:
        """Allocates memory for an array from slabs: new memory costs as much time as reading, in large pieces half as
        much."""
        if count > len(self._slab):
            self._slab = aligned((max(count, min(_SLAB, self.size - self.offset)),), np.dtype(np.uint8))
        space, self._slab = self._slab[:count], self._slab[-(-count // 64) * 64:]
        return space

    def fill(self) -> None:
        """Reads the values of all arrays so far, with two threads if that is faster."""
        pieces, self._later = [piece for piece in self._later if len(piece[0])], []
        content = self.content
        if not isinstance(content, int):
            for values, offset in pieces:
                values[:] = np.frombuffer(content, np.uint8, len(values), offset)
        elif sum(len(values) for values, _ in pieces) < LARGE:
            self._read(content, pieces)
        else:
            half = (pieces[0][1] + self.offset) // 2
            with ThreadPoolExecutor(1) as other:
                part = other.submit(self._read, content, _before(pieces, half))
                self._read(content, _behind(pieces, half))
                part.result()

    def _read(self, content: int, pieces: list[tuple[np.ndarray, int]]) -> None:
        """Reads them from a file descriptor, with as many per call as possible; a call reads at most 2 GiB."""
        while pieces:
            start = end = pieces[0][1]
            buffers: list[Any] = []
            for values, offset in pieces[:_AT_ONCE]:
                buffers += [bytearray(offset - end), values]
                end = offset + len(values)
            count = os.preadv(content, buffers, start)
            if not count:
                raise self.error("the file was truncated while it was read", start)
            pieces = _behind(pieces, start + count)


def _before(pieces: list[tuple[np.ndarray, int]], end: int) -> list[tuple[np.ndarray, int]]:
    return [(values[:end - offset], offset) for values, offset in pieces if offset < end]


def _behind(pieces: list[tuple[np.ndarray, int]], end: int) -> list[tuple[np.ndarray, int]]:
    return [(values[max(end - offset, 0):], max(end, offset)) for values, offset in pieces
            if offset + len(values) > end]


def read_file(path: str) -> Any:
    """Returns the arrays of a file; see `mx.nd.load`."""
    with reading(path, "arrays"), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(9)
        if head[:2] == b"PK" or head[:6] == b"\x93NUMPY":
            file.seek(0)
            with reading(path, "NumPy arrays"):
                return _read_numpy(file, size, path)
        if head[8:] == b"{":
            file.seek(0)
            with reading(path, "safetensors"):
                return _from_numpy(safetensors_format.loads(file.read(), path))
        return _read_list(_Reader(file.fileno(), size, path))


def _read_numpy(file: IO[bytes], size: int, path: str) -> Any:
    if file.read(2) != b"PK":
        file.seek(0)
        return [_from_numpy({"": _read_npy(file, size)})[""]]
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        check_unpacked(sum(entry.file_size for entry in entries), size, path)
        result: dict[str, Any] = {}
        names = {entry.filename for entry in entries}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as content, reading(entry.filename, "a NumPy array"):
                if name.endswith("format") and name.removesuffix("format") + "data.npy" in names:
                    result[name] = _read_text(content)
                else:
                    result[name] = _read_npy(content, entry.file_size)
    return _from_numpy(_with_sparse(result))


def _read_text(file: IO[bytes]) -> str:
    """Returns the text of an entry without its header: MXNet 2.0 writes one that NumPy cannot read."""
    raw = file.read()
    return raw[10 + int.from_bytes(raw[8:10], "little"):].decode("latin-1")


def _with_sparse(arrays: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays of an archive; the parts of sparse arrays are separate entries, as in SciPy's files."""
    for name in [name for name, value in arrays.items() if isinstance(value, str)]:
        stype, prefix = arrays.pop(name), name.removesuffix("format")
        if stype not in _NPZ_PARTS:
            raise MXNetError(f"{name}: sparse format {stype!r} is not supported; expected {' or '.join(_NPZ_PARTS)}")
        lacking = [part for part in (*_NPZ_PARTS[stype], "shape") if prefix + part not in arrays]
        if lacking:
            raise MXNetError(f"{prefix.removesuffix('/')}: the {stype} array lacks {' and '.join(lacking)}")
        parts = tuple(arrays.pop(prefix + part) for part in _NPZ_PARTS[stype])
        shape = tuple(arrays.pop(prefix + "shape").tolist())
        arrays[prefix.removesuffix("/")] = storage(stype).of_parts(parts, shape, parts[0].dtype)
    return arrays


def _read_npy(file: IO[bytes], size: int) -> np.ndarray:
    """Reads an array in NumPy's format, whose header must not specify more than the size of the file or entry."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise MXNetError(f"version {version} of NumPy's file format is not supported")
    shape, fortran, dtype = read_header[version](file)
    if dtype.kind not in "biufcV" or dtype.hasobject:
        raise MXNetError(f"arrays of dtype {dtype} are not supported")
    count = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or count > size - file.tell():
        raise MXNetError(f"{dtype} array of shape {shape} needs {count} bytes, but only {size - file.tell()} remain")
    values = np.frombuffer(file.read(count), dtype)
    if dtype.names:
        values = values.view(np_dtype(dtype))  # MXNet's encoding of bfloat16
    return values.reshape(shape, order="F" if fortran else "C")


def _from_numpy(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return dict(zip(arrays, _on_device([np.array(values, order="C") if isinstance(values, np.ndarray) else values
                                       for values in arrays.values()]), strict=True))


def read(buffer: memoryview, source: str) -> Any:
    """Returns the arrays in a buffer: a list, or a dictionary if they have names.

    Raises:
        MXNetError: the buffer is damaged; the message names `source` and the offset.
    """
    return _read_list(_Reader(buffer.cast("B"), buffer.nbytes, source))


def _read_list(reader: _Reader) -> Any:
    arrays, names = _entries(reader)
    arrays = _on_device(arrays)
    return arrays if names is None else dict(zip(names, arrays, strict=True))


def _entries(reader: _Reader) -> tuple[list[Any], list[str] | None]:
    """Returns the arrays (dense ones as NumPy arrays), and their names if they have any."""
    magic = reader.number("Q", "file header")
    reader.number("Q", "file header")
    if magic != _LIST:
        raise reader.error(f"Invalid NDArray file format: expected magic number {_LIST:#x}, got {magic:#x}", 0)
    count = reader.number("Q", "number of arrays")
    arrays: list[Any] = []
    while len(arrays) < count:
        arrays.append(_read_array(reader))
    start, named = reader.offset, reader.number("Q", "number of names")
    if named not in (0, count):
        raise reader.error(f"Invalid NDArray file format: got {named} names for {count} arrays", start)
    names = []
    for _ in range(named):
        raw = bytes(reader.take(reader.number("Q", "length of a name"), "name"))
        try:
            names.append(raw.decode())
        except UnicodeDecodeError:
            raise reader.error("Invalid NDArray file format: a name that is not UTF-8", reader.offset - len(raw)) \
                from None
    reader.fill()
    return arrays, names if named else None


def _on_device(arrays: list[Any]) -> list[Any]:
    """Converts the NumPy arrays that were read to NDArrays."""
    device = cpu().jax_device
    with x64_mode(True):
        return [wrap(to_device(a, device), cpu()) if isinstance(a, np.ndarray) else a for a in arrays]


def _read_array(reader: _Reader, check: bool = True) -> Any:
    start, magic = reader.offset, reader.number("I", "array header")
    if check and magic == _V3 and not is_np_shape():
        raise reader.error("the array was saved under NumPy shape semantics: load it inside `with mx.util.np_shape():`",
                           start)
    if check and magic != _V3 and np_shape_of_thread():
        raise reader.error("the array was saved without NumPy shape semantics: load it outside `with np_shape()`",
                           start)
    if magic not in (_V2, _V3):
        shape = reader.shape() if magic == _V1 else reader.shape("I", magic) if magic <= _MOST_DIMENSIONS else None
        if magic != _V1 and shape is None:
            raise reader.error(f"Invalid NDArray file format: array magic number {magic:#x}", start)
        return _dense(reader, shape, numpy_shape=False)
    code = reader.number("i", "storage type")
    if code not in STYPES:
        raise reader.error(f"Invalid NDArray file format: unknown storage type {code}", start)
    if code == 0:
        return _dense(reader, reader.shape(), magic == _V3)
    return _sparse(reader, STYPES[code], start)


def _dense(reader: _Reader, shape: tuple[int, ...] | None, numpy_shape: bool) -> np.ndarray:
    if shape is None or (shape == () and not numpy_shape):
        return np.zeros((0,), np.float32)
    reader.take(8, "device")
    dtype = reader.dtype()
    return reader.values(shape, dtype)


def _sparse(reader: _Reader, stype: str, start: int) -> Any:
    stored, shape = reader.shape(), reader.shape()
    if stored is None or shape is None or not shape:
        raise reader.error(f"Invalid NDArray file format: a {stype} array without a shape", start)
    reader.take(8, "device")
    dtype = reader.dtype()
    specs = []
    for _ in range(2 if stype == "csr" else 1):
        part_dtype = reader.dtype()
        specs.append((reader.shape() or (0,), part_dtype))
    data = reader.values(stored, dtype)
    parts = [reader.values(s, k) for s, k in specs]
    reader.fill()
    try:
        return storage(stype).of_parts((data, *reversed(parts)), shape, dtype)
    except (ValueError, TypeError, IndexError, MXNetError) as error:
        raise reader.error(f"Invalid NDArray file format: a damaged {stype} array ({error})", start) from None


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def write(path: str, arrays: Sequence[Any], names: list[str]) -> None:
    """Writes arrays (and names, or none) to a file; see `mx.nd.save`."""
    write_each(path, iter(arrays), len(arrays), names)


def write_each(path: str, arrays: Iterator[Any], count: int, names: list[str]) -> None:
    """Writes this number of arrays to a file. Each array is requested when it is written, and released afterwards."""
    with refusals(f"cannot write {path}"), replacing(path) as file:
        if path.endswith(".safetensors"):  # its package needs all of them at once
            file.write(safetensors_format.dumps(list(arrays), names, path))
            return
        _write(file, arrays, count, names, is_np_shape())


def _write(file: IO[bytes], arrays: Iterator[Any], count: int, names: list[str], numpy_shapes: bool) -> None:
    file.write(struct.pack("<QQQ", _LIST, 0, count))
    for _ in range(count):  # no variable, which would keep an array alive while the next one is created
        _write_array(file, next(arrays), numpy_shapes)
    file.write(struct.pack("<Q", len(names)))
    for name in names:
        raw = name.encode()
        file.write(struct.pack("<Q", len(raw)) + raw)


def write_numpy(path: str, arrays: dict[str, Any] | Any) -> None:
    """Writes one dense array in NumPy's format (`.npy`), or named ones as an archive of such files (`.npz`).

    A sparse array consists of several entries, such as "name/data.npy", as in SciPy's files.

    Raises:
        MXNetError: the one array is sparse, or the file cannot be written.
    """
    if not isinstance(arrays, dict) and arrays.stype != "default":
        raise MXNetError(f"cannot write {path}: a single array in .npz must be dense, got storage type {arrays.stype}")
    with refusals(f"cannot write {path}"), replacing(path) as file:
        if not isinstance(arrays, dict):
            _write_npy(file, arrays.asnumpy())
            return
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                for entry_name, values in _npz_entries(name, array):
                    with archive.open(f"{entry_name}.npy", "w", force_zip64=True) as entry:
                        _write_npy(entry, values)


def _npz_entries(name: str, array: Any) -> Iterator[tuple[str, np.ndarray]]:
    if array.stype == "default":
        yield name, array.asnumpy()
        return
    array = array.ascending()
    for part in _NPZ_PARTS[array.stype]:
        yield f"{name}/{part}", getattr(array, part).asnumpy()
    yield f"{name}/shape", np.array(array.shape, np.int64)
    yield f"{name}/format", np.array(array.stype.encode())


def _write_npy(file: IO[bytes], values: np.ndarray) -> None:
    if values.dtype.name == "bfloat16":  # as in MXNet; NumPy alone has no such dtype
        values = values.view([("bfloat16", "<u2")])
    np.lib.format.write_array(file, values, allow_pickle=False)


def _code(dtype: np.dtype) -> int:
    """The number that stands for a dtype in files."""
    if dtype.name not in CODES:
        hint = "; save its real and imaginary parts" if dtype.kind == "c" else ""
        raise MXNetError(f"MXNet's file format does not support dtype {dtype.name}, only "
                         f"{', '.join(sorted(CODES))}{hint}")
    return CODES[dtype.name]


def _write_array(file: IO[bytes], array: Any, numpy_shapes: bool) -> None:
    sparse = array.stype != "default"
    if not array.shape and not numpy_shapes and not array.zero_dim:
        raise MXNetError("an array of shape () can only be saved under NumPy shape semantics (mx.util.np_shape)")
    version = _V3 if (numpy_shapes or array.zero_dim) and not sparse else _V2
    file.write(struct.pack("<Ii", version, {"default": 0, "row_sparse": 1, "csr": 2}[array.stype]))
    if sparse:
        array = array.ascending()
        values = array.data.asnumpy()
        parts = [array.indptr.asnumpy(), array.indices.asnumpy()] if array.stype == "csr" \
            else [array.indices.asnumpy()]
        file.write(_shape_bytes(values.shape))
    else:
        values, parts = np.asarray(array.read()), []
    file.write(_shape_bytes(array.shape))
    file.write(struct.pack("<iii", 1, 0, _code(values.dtype)))
    for part in parts:
        file.write(struct.pack("<i", _code(part.dtype)) + _shape_bytes(part.shape))
    for block in (values, *parts):
        block = np.ascontiguousarray(block)
        file.write(block.reshape(-1).view(np.uint8).data)


def dumps(array: Any) -> bytes:
    """One array's bytes, as in a file; scalars in the form for NumPy shapes."""
    file = io.BytesIO()
    _write_array(file, array, numpy_shapes=not array.shape)
    return file.getvalue()


def loads(raw: Any) -> Any:
    """Returns the array that `dumps` wrote."""
    reader = _Reader(memoryview(raw), len(raw), "pickled array")
    array = _read_array(reader, check=False)
    reader.fill()
    return _on_device([array])[0]
