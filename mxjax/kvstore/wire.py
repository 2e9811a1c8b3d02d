"""Messages between the processes of a job: a JSON header and raw arrays. Received data is never executed.

Both sides have proved that they know the job's secret before the first message (`handshake.py`). Every
header is authenticated with a key derived from it, so nobody else can forge, change, repeat or drop
messages; between machines the arrays are authenticated, too. Nothing is encrypted. A message is
accepted or rejected by its header, before memory for its arrays is allocated.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._support import settings
from ..base import MXNetError

__all__ = ["Channel", "Spec", "Unwanted", "check_amount", "check_fields", "encode", "free_port", "most_bytes", "nbytes",
           "receive", "send"]

Spec = tuple[np.dtype, tuple[int, ...]]
_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"MXJ2"
_TAG = 32
HELLO, REQUEST, ANSWER = 4 << 10, 64 << 10, 4 << 20  # longest headers: first words, requests, answers to members
_PIECE = 1 << 16
_DTYPES = {name: np.dtype(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128")}


class Unwanted(MXNetError):
    """A message was rejected because of its header; the next one can be received."""


class Channel:
    """An authenticated connection between two processes of a job.

    Args:
        sock: the socket. Only one thread at a time may send, and one receive.
        keys: authentication keys of sent and of received data.
        same_machine: both processes are on one machine. Arrays are then not authenticated, which
            would cost as much as sending them.
    """

    def __init__(self, sock: socket.socket, keys: tuple[bytes, bytes], same_machine: bool) -> None:
        self.sock, self.seals_arrays = sock, not same_machine
        # each goes over all that was sent so far, so a tag is right at one place of one connection only
        self._sent, self._received = (hmac.new(key, digestmod="sha256") for key in keys)

    def send(self, message: Sequence[Any]) -> int:
        """Sends a message of `encode`; returns its length in bytes."""
        head, *contents = message
        length = sum(map(len, message)) + _TAG
        self._sent.update(head)
        parts = [head, self._sent.digest()]
        if contents and self.seals_arrays:
            length += _TAG
            self._send_parts(parts)
            for content in contents:
                for begin in range(0, len(content), _PIECE):  # the other end checks one piece while the next is sealed
                    piece = content[begin:begin + _PIECE]
                    self._sent.update(piece)
                    self.sock.sendall(piece)
            self.sock.sendall(self._sent.digest())
        else:
            self._send_parts(parts + contents)
        return length

    def _send_parts(self, parts: list[Any]) -> None:
        """Small ones go together."""
        for part in [b"".join(parts)] if sum(map(len, parts)) < _PIECE else parts:
            self.sock.sendall(part)

    def fill(self, buffer: Any, seal: bool = False) -> bool:
        """Receives bytes until the buffer is full; returns False at the end of the connection."""
        with memoryview(buffer) as view:
            have = 0
            while have < len(view):
                count = self.sock.recv_into(view[have:have + 4 * _PIECE])
                if not count:
                    return False
                if seal:
                    self._received.update(view[have:have + count])
                have += count
        return True

    def read(self, length: int) -> bytearray | None:
        """Receives the given number of bytes; returns None at the end of the connection."""
        data = bytearray(length)
        return data if self.fill(data) else None

    def check_seal(self) -> bool:
        """Reads and verifies an authentication tag; returns False at the end of the connection.

        Raises:
            MXNetError: the tag does not match the received data.
        """
        tag = self.read(_TAG)
        if tag is not None and not hmac.compare_digest(bytes(tag), self._received.digest()):
            raise MXNetError("a message was modified in transit, or is not from this job")
        return tag is not None

    def receive_head(self, longest: int) -> tuple[bytes, int] | None:
        """Receives the header of the next message, undecoded, and the length of its arrays."""
        prefix = self.read(_PREFIX.size)
        if prefix is None:
            return None
        magic, header_length, length = _PREFIX.unpack(prefix)
        if magic != _MAGIC or header_length > longest:
            raise MXNetError(f"a corrupt message: it begins with {bytes(prefix)!r}")
        raw = self.read(header_length)
        if raw is None:
            return None
        self._received.update(prefix)
        self._received.update(raw)
        return (bytes(raw), length) if self.check_seal() else None

    def receive_arrays(self, specs: Sequence[Spec]) -> list[np.ndarray] | None:
        """Receives the arrays that follow a header."""
        arrays = []
        for dtype, shape in specs:
            arrays.append(np.empty(shape, dtype))  # uses no memory until the peer's data is written
            if not self.fill(arrays[-1].reshape(-1).view(np.uint8), self.seals_arrays):
                return None
        return arrays if self._ends(len(arrays)) else None

    def skip_arrays(self, specs: Sequence[Spec]) -> bool:
        """Receives and discards the arrays that follow a header; returns False at the end of the connection."""
        length, room = nbytes(specs), np.empty(_PIECE, np.uint8)
        for begin in range(0, length, _PIECE):
            if not self.fill(room[:length - begin], self.seals_arrays):
                return False
        return self._ends(len(specs))

    def _ends(self, count: int) -> bool:
        return not count or not self.seals_arrays or self.check_seal()

    def close(self) -> None:
        """Closes the connection, also for a thread that waits for it."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


def nbytes(specs: Sequence[Spec]) -> int:
    """Returns the number of bytes of arrays with these dtypes and shapes."""
    return sum(math.prod(shape) * dtype.itemsize for dtype, shape in specs)


def most_bytes() -> int:
    """Returns the largest number of bytes that a process stores for others:
    MXJAX_KVSTORE_MOST_BYTES, or half of the machine's memory.

    Raises:
        MXNetError: the variable is not a number.
    """
    return settings.KVSTORE_MOST_BYTES() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def encode(header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> list[Any]:
    """Encodes a message as byte buffers: the head, and the contents of each array.

    Args:
        header: JSON-compatible values.
        arrays: dense arrays of numbers (bytes as uint8).

    Raises:
        MXNetError: the header exceeds the length limit.
    """
    arrays = [np.asarray(a, order="C") for a in arrays]
    text = json.dumps({**header, "arrays": [[a.dtype.name, list(a.shape)] for a in arrays]}).encode()
    if len(text) > ANSWER:
        raise MXNetError(f"the header of message {header.get('op', '')!r} has {len(text)} bytes; the limit is {ANSWER}")
    contents = [a.reshape(-1).view(np.uint8).data for a in arrays]
    return [_PREFIX.pack(_MAGIC, len(text), sum(map(len, contents))) + text, *contents]


def send(channel: Channel, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> int:
    """Sends a message; returns its length in bytes. Arguments as for `encode`."""
    return channel.send(encode(header, arrays))


def receive(channel: Channel, admit: Callable[[dict[str, Any], list[Spec]], None] | None = None,
            longest: int = ANSWER) -> tuple[dict[str, Any], list[np.ndarray]] | None:
    """Receives the next message; returns None if the other side has closed the connection.

    Args:
        channel: the connection.
        admit: function that checks header, dtypes and shapes before memory for the arrays is
            allocated, and raises MXNetError to reject the message. Without it, the limit is
            `most_bytes()`.
        longest: maximum length of a header in bytes.

    Raises:
        Unwanted: `admit` rejected the message; the next one can be received.
        MXNetError: the received data is not a message.
        OSError: the connection is broken.
    """
    came = channel.receive_head(longest)
    if came is None:
        return None
    header, specs = _parsed(*came)
    try:
        admit(header, specs) if admit else check_amount(specs)
    except MXNetError as error:
        if not channel.skip_arrays(specs):
            return None
        raise Unwanted(str(error)) from None
    arrays = channel.receive_arrays(specs)
    return None if arrays is None else (header, arrays)


def _parsed(raw: bytes, length: int) -> tuple[dict[str, Any], list[Spec]]:
    """A header, and the dtypes and shapes of the arrays that follow it."""
    try:
        header = json.loads(raw)
        specs = [(_dtype(name), _shape(shape)) for name, shape in header.pop("arrays")]
        if nbytes(specs) != length:
            raise ValueError(f"arrays have {nbytes(specs)} bytes, but {length} were announced")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
        raise MXNetError(f"a corrupt message: {type(error).__name__}: {str(error)[:200]}") from None
    return header, specs


def _dtype(name: Any) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return _DTYPES[name]


def _shape(shape: Any) -> tuple[int, ...]:
    if len(shape) > 32 or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape) or \
            math.prod(filter(None, shape)) >= 1 << 56:  # NumPy counts the others' product though one is 0
        raise ValueError(f"invalid shape {str(shape)[:100]}")
    return tuple(shape)


def check_amount(specs: Sequence[Spec], stored: int = 0) -> None:
    """Raises MXNetError if arrays, together with the stored ones, exceed `most_bytes()`."""
    if stored + nbytes(specs) > most_bytes():
        beside = f", with {stored} already stored," if stored else ""
        raise MXNetError(f"arrays of {nbytes(specs)} bytes{beside} exceed the limit of "
                         f"MXJAX_KVSTORE_MOST_BYTES, {most_bytes()}")


def check_fields(what: str, header: dict[str, Any], fields: dict[str, Any]) -> None:
    """Raises MXNetError if a header lacks fields or has fields of other types."""
    for name, field_type in fields.items():
        value = header.get(name)
        if not isinstance(value, field_type):
            raise MXNetError(f"{what}: field {name!r} is {str(value)[:50]!r} of type {type(value).__name__}")


def free_port() -> int:
    """Returns a port of the loopback that is currently free."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
