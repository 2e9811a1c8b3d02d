"""Objects between processes: small ones in a socket's stream, the contents of arrays in shared memory.

A message is a header, and either the pickled object or one file descriptor of a piece of memory that holds it: first
the pickled object, then the arrays' contents (pickle's out-of-band buffers). The receiver maps that memory, and its
arrays lie there. Nothing is left behind by a process that dies, for the memory has no name.
"""

from __future__ import annotations

import functools
import io
import mmap
import os
import pickle
import socket
import struct
import sys
import tempfile
import types
from typing import Any

import cloudpickle  # it also pickles lambdas, local functions, and what stands in the script itself
import numpy as np

from ...array.dense import _from_host
from ...context import cpu
from ...ndarray import NDArray

__all__ = ["REQUEST", "receive", "send"]

REQUEST = struct.Struct("<Qq")  # to the server of workers, all of one length: number, pid to end or 0; answers alike
_HEADER = struct.Struct("<QI")  # length of the pickled object; number of buffers + 1 where there is shared memory
_SPAN = struct.Struct("<QQ")  # offset and length of a buffer
_SMALL = 2048  # bytes that may go through the socket, so that sending never has to wait for the other side
_ALIGN = 64  # what XLA wants of arrays it does not copy


class _Pickler(cloudpickle.Pickler):
    """Pickles an NDArray as the NumPy array over its memory, and by value what the other process cannot import."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_value: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        """How an object is reduced."""
        if isinstance(obj, NDArray) and obj.stype == "default":
            return _array, (np.asarray(obj._read()), type(obj))
        if isinstance(obj, (type, types.FunctionType)):
            module = sys.modules.get(obj.__module__)
            if module is not None and module not in self.by_value and not _importable(obj.__module__):
                self.by_value.append(module)
                cloudpickle.register_pickle_by_value(module)
        return super().reducer_override(obj)


@functools.cache
def _importable(module: str) -> bool:
    """Whether a fresh interpreter with this one's search path finds a module."""
    top = module.partition(".")[0]
    return top == "__main__" or any(finder.find_spec(top, None) is not None for finder in sys.meta_path)


def _array(values: np.ndarray, kind: type) -> NDArray:
    return _from_host(values, cpu(), kind)


def dumps(obj: Any) -> tuple[bytes, list[memoryview]]:
    """An object as bytes, and the memory of the arrays in it.

    Raises:
        TypeError: it cannot be pickled; says what to do.
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
    return out.getvalue(), [buffer.raw() for buffer in buffers]


def send(sock: socket.socket, obj: Any) -> None:
    """Sends an object; raises as `dumps`, and OSError where the other side is gone."""
    send_dumped(sock, *dumps(obj))


def send_dumped(sock: socket.socket, payload: bytes, buffers: list) -> None:
    """Sends what `dumps` gave; raises OSError where the other side is gone."""
    if not buffers and len(payload) <= _SMALL:
        sock.sendall(_HEADER.pack(len(payload), 0) + payload)
        return
    position = len(payload) + _SPAN.size * len(buffers)
    spans = []
    for buffer in buffers:
        position += -position % _ALIGN
        spans.append((position, buffer.nbytes))
        position += buffer.nbytes
    with _memory() as file:
        file.write(payload)
        file.write(b"".join(_SPAN.pack(*span) for span in spans))
        for (begin, _), buffer in zip(spans, buffers, strict=True):
            file.seek(begin)
            file.write(buffer)
        file.truncate(position)
        file.flush()
        socket.send_fds(sock, [_HEADER.pack(len(payload), len(buffers) + 1)], [file.fileno()])


def _memory() -> Any:
    """A nameless file in memory."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("mxjax-data"), "w+b")
    return tempfile.TemporaryFile()


def receive(sock: socket.socket) -> Any:
    """The next object.

    Raises:
        EOFError: the other side is gone.
    """
    header, fds = b"", []
    while len(header) < _HEADER.size:
        part, got, _, _ = socket.recv_fds(sock, _HEADER.size - len(header), 1)
        if not part:
            raise EOFError
        header, fds = header + part, fds + got
    length, count = _HEADER.unpack(header)
    if not count:
        return pickle.loads(_exactly(sock, length))
    try:
        memory = memoryview(mmap.mmap(fds[0], 0))
    finally:
        os.close(fds[0])
    table = memory[length:length + _SPAN.size * (count - 1)]
    buffers = [memory[begin:begin + size] for begin, size in _SPAN.iter_unpack(table)]
    return pickle.loads(memory[:length], buffers=buffers)


def _exactly(sock: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = sock.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
