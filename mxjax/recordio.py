"""RecordIO files: sequences of byte records with an optional index; packed headers and images.

A record consists of one or more parts: a magic number, a word with the part's kind (upper 3 bits)
and length (lower 29), the bytes, and zeros up to a multiple of 4. If the data contains the magic
number at a multiple of 4, the number is omitted and the data is split there. So a reader can find
the next record from any position in a file.
"""

from __future__ import annotations

import numbers
import os
import struct
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import IO, Any, BinaryIO, Self, cast

import numpy as np

from ._support.files import reading
from ._support.images import unpacked
from .base import MXNetError, Precondition

__all__ = ["MXRecordIO", "MXIndexedRecordIO", "IRHeader", "pack", "unpack", "pack_img", "unpack_img"]

_MAGIC = struct.pack("<I", 0xCED7230A)
_AT_ONCE = 1 << 20  # bytes: a record that goes on is read in the other way
_MAX_LENGTH = 2 ** 29 - 1
_FARTHEST = 1 << 62  # offset that the system takes
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)  # kinds of parts


class MXRecordIO:
    """Reads or writes a record file sequentially.

    A file opened for writing is truncated, grows record by record, and is complete when it is
    closed.

    Args:
        uri: path of the file.
        flag: "r" to read, "w" to write a new file.

    Raises:
        ValueError: unknown flag.
        MXNetError: the file cannot be opened, or is corrupt (when reading).

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.rec")
        >>> with MXRecordIO(path, "w") as writer:
        ...     writer.write(b"one")
        >>> MXRecordIO(path, "r").read()
        b'one'
    """

    handle: BinaryIO
    is_open = False
    _buffer = 1 << 18  # bytes that are read at once: each call of the system gives Python's lock away

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.open()

    def open(self) -> None:
        """Opens the file; the constructor calls this."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"flag must be 'r' or 'w', got {self.flag!r}")
        self.writable = self.flag == "w"
        try:
            self.handle = open(self.uri, self.flag + "b", -1 if self.writable else self._buffer)
        except OSError as error:
            raise MXNetError(f"cannot open record file {self.uri}: {error.strerror}") from error
        self.pid = os.getpid()
        self._lock = threading.Lock()  # of the position in the file; a new one in each process
        self.is_open = True

    def close(self) -> None:
        """Closes the file; further calls do nothing."""
        if self.is_open:
            self.handle.close()
            self.is_open = False
            self.pid = None

    def reset(self) -> None:
        """Restarts from the beginning; a file opened for writing is truncated."""
        self.close()
        self.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickling; another process opens the file again."""
        state = {**self.__dict__, "is_open": self.is_open, "handle": None, "_lock": None}
        if self.writable:
            self.close()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "is_open": False}
        if state["is_open"]:
            self.open()

    def _check(self, writing: bool, allow_reset: bool = False) -> None:
        """Raise unless the file is open this way in this process; or open it anew where that is all right."""
        if self.writable != writing:
            raise Precondition(f"record file {self.uri} is open for {'writing' if self.writable else 'reading'} only")
        if not self.is_open:
            raise MXNetError(f"record file {self.uri} is closed")
        if self.pid != os.getpid():
            if not allow_reset:
                raise RuntimeError(f"record file {self.uri} was opened in process {self.pid}; open it in this one")
            self.reset()

    def write(self, buf: bytes) -> None:
        """Appends a record.

        Args:
            buf: its bytes, fewer than 2**29.
        """
        self._check(writing=True)
        if len(buf) > _MAX_LENGTH:
            raise MXNetError(f"record file {self.uri}: a record may have at most {_MAX_LENGTH} bytes, got {len(buf)}")
        buf = bytes(buf)
        start, result = 0, buf.find(_MAGIC)
        while result >= 0:
            if result % 4:
                result = buf.find(_MAGIC, result + 1)
                continue
            self._write_part(_MIDDLE if start else _FIRST, buf[start:result])
            start = result + 4
            result = buf.find(_MAGIC, start)
        self._write_part(_LAST if start else _WHOLE, buf[start:])

    def _write_part(self, kind: int, part: bytes) -> None:
        self.handle.write(_MAGIC + struct.pack("<I", kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4))

    def read(self) -> bytes | None:
        """Returns the next record; None at the end of the file.

        Raises:
            MXNetError: the file is corrupt or truncated; the message names the file and the offset.
        """
        self._check(writing=False)
        part = self._read_part()
        if part is None:
            return None
        kind, data = part
        parts = [data]
        if kind in (_MIDDLE, _LAST):
            raise self._damaged("a record starts with the continuation of another record")
        while kind in (_FIRST, _MIDDLE):
            part = self._read_part()
            if part is None:
                raise self._damaged("the file ends within a record")
            kind, data = part
            if kind in (_WHOLE, _FIRST):
                raise self._damaged("a record starts within another one")
            parts.append(data)
        return _MAGIC.join(parts)

    def read_at(self, position: int, size: int = 0) -> bytes:
        """Returns the record at a position, for several threads at a time; not in MXNet. `read` goes on where it was.

        Args:
            position: its offset in the file.
            size: bytes to the next record, if known: then as many are read, by one call of the system.

        Raises:
            MXNetError: there is none, or it is damaged; names the file and the offset.
        """
        self._check(writing=False, allow_reset=True)
        record = None
        if 0 <= position < _FARTHEST:
            result = os.pread(self.handle.fileno(), min(size, _AT_ONCE) or _AT_ONCE, position)
            word = int.from_bytes(result[4:8], "little")
            end = 8 + (word & _MAX_LENGTH)
            if result[:4] == _MAGIC and word >> 29 == _WHOLE and end + -end % 4 <= len(result):
                return result[8:end]
            with self._lock:
                before = self.handle.tell()
                try:
                    self.handle.seek(position)
                    record = MXRecordIO.read(self)
                finally:
                    self.handle.seek(before)
        if record is None:
            raise MXNetError(f"invalid record file {self.uri}: there is no record at offset {position}")
        return record

    def _read_part(self) -> tuple[int, bytes] | None:
        header = self.handle.read(8)
        if not header:
            return None
        if len(header) < 8:
            raise self._damaged("the file ends within a header", len(header))
        if header[:4] != _MAGIC:
            raise self._damaged(f"expected the magic number {_MAGIC.hex()} of a record, got {header[:4].hex()}", 8)
        word = int.from_bytes(header[4:], "little")
        kind, length = word >> 29, word & _MAX_LENGTH
        if kind > _LAST:
            raise self._damaged(f"a part of unknown kind {kind}", 8)
        padded = length + -length % 4
        left = os.fstat(self.handle.fileno()).st_size - self.handle.tell() if padded > self._buffer else padded
        data = self.handle.read(padded) if padded <= left else b""  # a damaged length must not ask for memory
        if len(data) < padded:
            raise self._damaged(f"the file ends within a part of {length} bytes", 8 + len(data))
        return kind, data if padded == length else data[:length]

    def _damaged(self, what: str, behind: int = 0) -> MXNetError:
        """The error for damage found `behind` bytes before the current position."""
        return MXNetError(f"invalid record file {self.uri} at offset {self.handle.tell() - behind}: {what}")


class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index file, for random access.

    Args:
        idx_path: path of the index: lines "key<tab>offset".
        uri: path of the record file.
        flag: "r" to read, "w" to write a new file.
        key_type: type of the keys, to which their text is converted.

    Raises:
        MXNetError: as in `MXRecordIO`, or the index is corrupt.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x")
        >>> with MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as writer:
        ...     for i, text in enumerate([b"zero", b"one"]):
        ...         writer.write_idx(i, text)
        >>> MXIndexedRecordIO(path + ".idx", path + ".rec", "r").read_idx(1)
        b'one'
    """

    _buffer = 1 << 13  # records are read in any order

    def __init__(self, idx_path: str | os.PathLike[str], uri: str | os.PathLike[str], flag: str,
                 key_type: Callable[[Any], Any] = int) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        self.fidx: IO[str] | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Opens both files and reads the index; the constructor calls this."""
        super().open()
        self.idx, self.keys = {}, []
        with reading(self.idx_path, "an index"):
            self.fidx = open(self.idx_path, self.flag, errors="replace")
        if not self.writable:
            self._read_index(self.fidx)

    def _read_index(self, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines, start=1):
            try:
                key, position = line.strip().split("\t")[:2]
                key = self.key_type(key)
                self.idx[key] = int(position)
            except ValueError as error:
                raise MXNetError(f"invalid index file {self.idx_path} at line {number}: expected a key, a tab and an "
                                 f"offset ({error})") from error
            self.keys.append(key)

    def close(self) -> None:
        """Closes both files."""
        if self.is_open:
            super().close()
            if self.fidx is not None:
                self.fidx.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "fidx": None}

    def seek(self, idx: object) -> None:
        """Moves to the record of a key.

        Raises:
            KeyError: unknown key.
            MXNetError: its offset is outside the file.
        """
        self._check(writing=False, allow_reset=True)
        position = self.idx[idx]
        size = os.fstat(self.handle.fileno()).st_size
        if not 0 <= position < size:
            raise MXNetError(f"index file {self.idx_path}: key {idx!r} has offset {position}, but {self.uri} has "
                             f"{size} bytes")
        self.handle.seek(position)

    def tell(self) -> int:
        """Returns the byte offset of the next record to write."""
        self._check(writing=True)
        return self.handle.tell()

    def read_idx(self, idx: object) -> bytes:
        """Returns the record of a key; safe for several threads. Raises the same errors as `seek` and `read`."""
        self._check(writing=False, allow_reset=True)
        with self._lock:
            self.seek(idx)
            return cast(bytes, self.read())  # `seek` has found the record within the file

    def write_idx(self, idx: object, buf: bytes) -> None:
        """Appends a record and adds its key to the index.

        Args:
            idx: key, converted by `key_type`.
            buf: the record.
        """
        key = self.key_type(idx)
        position = self.tell()
        self.write(buf)
        cast(IO[str], self.fidx).write(f"{key}\t{position}\n")
        self.idx[key] = position
        self.keys.append(key)


IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
IRHeader.__doc__ = """Header of a packed record.

Args:
    flag: number of labels if `label` is an array, otherwise 0.
    label: float, or float32 array.
    id: id of the record.
    id2: upper half of the id, usually 0.
"""
_HEADER = struct.Struct("<IfQQ")


def pack(header: IRHeader | tuple, s: bytes) -> bytes:
    """Packs header and data into one record.

    Args:
        header: an `IRHeader` or its four values; the type of the label determines `flag`.
        s: the data.

    Example:
        >>> unpack(pack(IRHeader(0, 3.0, 7, 0), b"data"))
        (HEADER(flag=0, label=3.0, id=7, id2=0), b'data')
    """
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        return _HEADER.pack(*header._replace(flag=0)) + s
    label = np.asarray(header.label, np.float32)
    return _HEADER.pack(*header._replace(flag=label.size, label=0)) + label.tobytes() + s


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Unpacks a record into header and data.

    Raises:
        MXNetError: the record is too short for its header or labels.
    """
    if len(s) < _HEADER.size:
        raise MXNetError(f"a packed record must have at least {_HEADER.size} bytes, got {len(s)}")
    header = IRHeader(*_HEADER.unpack_from(s))
    end = _HEADER.size + 4 * header.flag
    if header.flag:
        if end > len(s):
            raise MXNetError(f"the header of a packed record specifies {header.flag} labels, but the record has only "
                             f"{len(s)} bytes")
        header = header._replace(label=np.frombuffer(s, np.float32, header.flag, _HEADER.size))
    return header, s[end:]


def _cv2() -> Any:
    try:
        import cv2
    except ImportError:
        raise MXNetError("images need OpenCV: pip install 'mxjax[image]'") from None
    return cv2


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray | None]:
    """Unpacks a record into header and decoded image.

    Args:
        s: the record.
        iscolor: 1 for colour (BGR), 0 for grey, -1 for the image's own channels.

    Returns:
        Header, and the image (height, width[, channel]) uint8; None if it cannot be decoded.
    """
    header, data = unpack(s)
    return header, unpacked(np.frombuffer(data, np.uint8), iscolor) if data else None


def pack_img(header: IRHeader | tuple, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Packs header and encoded image into one record.

    Args:
        header: as in `pack`.
        img: (height, width[, channel]) uint8, BGR.
        quality: JPEG quality, 1 to 100, or PNG compression, 0 to 9.
        img_fmt: ".jpg" or ".png".

    Raises:
        MXNetError: the image cannot be encoded.
    """
    cv2 = _cv2()
    settings = {".JPG": cv2.IMWRITE_JPEG_QUALITY, ".JPEG": cv2.IMWRITE_JPEG_QUALITY,
                ".PNG": cv2.IMWRITE_PNG_COMPRESSION}
    setting = settings.get(img_fmt.upper())
    try:
        done, encoded = cv2.imencode(img_fmt, img, [setting, quality] if setting is not None else [])
    except cv2.error as error:
        raise MXNetError(f"failed to encode the image as {img_fmt}: {error}") from error
    if not done:
        raise MXNetError(f"failed to encode the image as {img_fmt}")
    return pack(header, encoded.tobytes())
