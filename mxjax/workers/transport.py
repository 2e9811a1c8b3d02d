"""Objects between processes: small ones in a socket's stream, the contents of arrays in shared memory.

A message is a header, and either the pickled object or one file descriptor of a piece of memory that holds it: first
the pickled object, then the arrays' contents (pickle's out-of-band buffers). The receiver maps that memory, and its
arrays lie there. `Shared` memory, that both sides use, goes along by file descriptors of its own. Nothing is left
behind by a process that dies, for the memory has no name.
"""

from __future__ import annotations

import functools
import io
import math
import mmap
import os
import pickle
import socket
import struct
import sys
import tempfile
import types
from typing import Any

import cloudpickle  # it also pickles lambdas, local functions, and objects defined in the script itself
import numpy as np

from ..array.dense import _from_host
from ..context import cpu
from ..ndarray import NDArray

__all__ = ["REQUEST", "Shared", "receive", "send"]

REQUEST = struct.Struct("<Qq")  # to the server of workers, all of one length: number, pid to end or 0; answers alike
# length of the pickled object; number of buffers + 1 where it is in memory; of pieces of `Shared` memory
_HEADER = struct.Struct("<QII")
_MOST_SHARED = 8
_SPAN = struct.Struct("<QQ")  # offset and length of a buffer
_SMALL = 2048  # bytes that may go through the socket, so that sending never has to wait for the other side
_ALONE = 2  # references to an object that one attribute holds, the question's own among them
_ALIGN = 64  # bytes; XLA uses arrays with this alignment without a copy


class Shared:
    """Memory shared with the processes to which it is sent.

    Args:
        size: in bytes.
        file: descriptor of the memory; default: new memory filled with zeros.
    """

    def __init__(self, size: int, file: Any = None) -> None:
        self.size, self.file = size, file
        if file is None:
            self.file = memory_file()
            self.file.truncate(size)
        self._memory = mmap.mmap(self.file.fileno(), size)

    @property
    def is_free(self) -> bool:
        """Returns whether no array lies there."""
        return sys.getrefcount(self._memory) == _ALONE

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array that lies there; it keeps the memory."""
        return np.frombuffer(self._memory, dtype, math.prod(shape), offset).reshape(shape)


class _Pickler(cloudpickle.Pickler):
    """Pickles an NDArray as a NumPy array of its memory, and objects that the other process cannot import by value."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.by_value: list[Any] = []
        self.shared: list[Shared] = []
        self.modules: set[str] = set()  # of the pickled classes, functions and modules

    def reducer_override(self, obj: object) -> Any:
        """Returns how an object is reduced."""
        if isinstance(obj, Shared):
            self.shared.append(obj)
            return _attached, (len(self.shared) - 1, obj.size)
        if isinstance(obj, NDArray) and obj.stype == "default":
            return _array, (np.asarray(obj.read()), type(obj))
        if isinstance(obj, types.ModuleType):
            self.modules.add(obj.__name__)
        if isinstance(obj, (type, types.FunctionType)):
            self.modules.add(obj.__module__)
            module = sys.modules.get(obj.__module__)
            if module is not None and module not in self.by_value and not _importable(obj.__module__):
                self.by_value.append(module)
                cloudpickle.register_pickle_by_value(module)
        return super().reducer_override(obj)


@functools.cache
def _importable(module: str) -> bool:
    """Returns whether a fresh interpreter with this one's search path finds a module."""
    top = module.partition(".")[0]
    return top == "__main__" or any(finder.find_spec(top, None) is not None for finder in sys.meta_path)


def _array(values: np.ndarray, array_type: type) -> NDArray:
    return _from_host(values, cpu(), array_type)


class _Unpickler(pickle.Unpickler):
    """The other side of `_Pickler`.

    Args:
        fds: file descriptors of shared memory, which this closes.
    """

    def __init__(self, payload: Any, fds: list[int], buffers: Any = None) -> None:
        super().__init__(io.BytesIO(payload), buffers=buffers)
        self._files = [os.fdopen(fd, "r+b") for fd in fds]

    def find_class(self, module: str, name: str) -> Any:
        """Returns the object that a name in a pickle means."""
        if (module, name) == (__name__, _attached.__name__):
            return lambda place, size: Shared(size, self._files[place])
        return super().find_class(module, name)


def _attached(place: int, size: int) -> Shared:
    """Represents shared memory in pickles: the index of its file descriptor in the message, and its size."""
    raise TypeError("shared memory comes with its file descriptor, by `receive`")


def dumps(obj: object, modules: set[str] | None = None) -> tuple[bytes, list[memoryview], list[Shared]]:
    """Returns an object as bytes, the memory of its arrays, and its shared memory.

    Args:
        obj: the object.
        modules: a set to which the names of the modules that define its classes and functions are added.

    Raises:
        TypeError: the object cannot be pickled; the message names the alternatives.
    """
    out, buffers = io.BytesIO(), []
    pickler = _Pickler(out, 5, buffer_callback=buffers.append)
    try:
        pickler.dump(obj)
    except Exception as error:
        raise TypeError(f"cannot be sent to another process: {error}. With thread_pool=True nothing has to "
                        "be sent.") from error
    finally:
        for module in pickler.by_value:
            cloudpickle.unregister_pickle_by_value(module)
    if modules is not None:
        modules |= pickler.modules
    return out.getvalue(), [buffer.raw() for buffer in buffers], pickler.shared


def send(sock: socket.socket, obj: object) -> None:
    """Sends an object; raises as `dumps`, and OSError if the other side has closed the connection."""
    send_dumped(sock, *dumps(obj))


def send_dumped(sock: socket.socket, payload: bytes, buffers: list, shared: list[Shared]) -> None:
    """Sends the result of `dumps`; raises OSError if the other side has closed the connection."""
    fds = [piece.file.fileno() for piece in shared]
    if not buffers and len(payload) <= _SMALL:
        header = _HEADER.pack(len(payload), 0, len(fds))
        if fds:
            socket.send_fds(sock, [header], fds)
            sock.sendall(payload)
        else:
            sock.sendall(header + payload)
        return
    position = len(payload) + _SPAN.size * len(buffers)
    spans = []
    for buffer in buffers:
        position += -position % _ALIGN
        spans.append((position, buffer.nbytes))
        position += buffer.nbytes
    with memory_file() as file:
        file.write(payload)
        file.write(b"".join(_SPAN.pack(*span) for span in spans))
        for (begin, _), buffer in zip(spans, buffers, strict=True):
            file.seek(begin)
            file.write(buffer)
        file.truncate(position)
        file.flush()
        socket.send_fds(sock, [_HEADER.pack(len(payload), len(buffers) + 1, len(fds))], [file.fileno(), *fds])


def memory_file() -> Any:
    """A nameless file in memory."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("mxjax-data"), "w+b")
    return tempfile.TemporaryFile()


def receive(sock: socket.socket) -> Any:
    """Receives the next object.

    Raises:
        EOFError: the other side has closed the connection.
    """
    header, fds = b"", list[int]()
    while len(header) < _HEADER.size:
        part, got, _, _ = socket.recv_fds(sock, _HEADER.size - len(header), 1 + _MOST_SHARED)
        if not part:
            raise EOFError
        header, fds = header + part, fds + got
    length, count, _ = _HEADER.unpack(header)
    if not count:
        return _Unpickler(_exactly(sock, length), fds).load()
    try:
        memory = memoryview(mmap.mmap(fds[0], 0))
    finally:
        os.close(fds[0])
    table = memory[length:length + _SPAN.size * (count - 1)]
    buffers = [memory[begin:begin + size] for begin, size in _SPAN.iter_unpack(table)]
    return _Unpickler(memory[:length], fds[1:], buffers).load()


def _exactly(sock: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = sock.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
