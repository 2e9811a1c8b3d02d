"""Messages between the processes of a job: a JSON header and arrays as they are. Nothing received is ever executed."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError

__all__ = ["connect", "encode", "free_port", "own_host", "receive", "send"]

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"MXJ1"
_LONGEST_HEADER = 64 << 20


def send(sock: socket.socket, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> int:
    """Sends a message; returns its length in bytes.

    Args:
        sock: a connected socket; the caller sees to it that one thread at a time sends.
        header: what JSON can hold.
        arrays: dense arrays of numbers (bytes as uint8).
    """
    parts = encode(header, arrays)
    for part in parts:
        sock.sendall(part)
    return sum(len(part) for part in parts)


def encode(header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> list[Any]:
    """A message as buffers of bytes, to be sent one after the other."""
    arrays = [np.asarray(a, order="C") for a in arrays]
    text = json.dumps({**header, "arrays": [[a.dtype.name, list(a.shape)] for a in arrays]}).encode()
    contents = [a.reshape(-1).view(np.uint8).data for a in arrays]
    return [_PREFIX.pack(_MAGIC, len(text), sum(map(len, contents))) + text, *contents]


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[np.ndarray]] | None:
    """The next message; None where the other side has closed the connection.

    Raises:
        MXNetError: what came is no message.
        OSError: the connection is broken.
    """
    prefix = _read(sock, _PREFIX.size)
    if prefix is None:
        return None
    magic, header_length, length = _PREFIX.unpack(prefix)
    if magic != _MAGIC or header_length > _LONGEST_HEADER:
        raise MXNetError("a process that does not speak mxjax's protocol has connected")
    raw = _read(sock, header_length)
    if raw is None:
        return None
    try:
        header = json.loads(bytes(raw))
        specs = [(_dtype(name), tuple(map(int, shape))) for name, shape in header.pop("arrays")]
        sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in specs]
        if min(sizes, default=0) < 0 or sum(sizes) != length:
            raise ValueError("sizes")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MXNetError(f"a damaged message: {error}") from None
    arrays = []
    for (dtype, shape), size in zip(specs, sizes, strict=True):
        content = _read(sock, size)
        if content is None:
            return None
        arrays.append(np.frombuffer(content, dtype).reshape(shape))
    return header, arrays


def _dtype(name: str) -> np.dtype:
    dtype = np.dtype(name if name != "bfloat16" else "V2")
    if name == "bfloat16":
        import ml_dtypes
        dtype = np.dtype(ml_dtypes.bfloat16)
    if dtype.hasobject:
        raise ValueError(f"dtype {name}")
    return dtype


def _read(sock: socket.socket, length: int) -> bytearray | None:
    """Exactly so many bytes; None at the end of the connection."""
    data, have = bytearray(length), 0
    view = memoryview(data)
    while have < length:
        count = sock.recv_into(view[have:])
        if not count:
            return None
        have += count
    return data


def connect(address: tuple[str, int], timeout: float, what: str) -> socket.socket:
    """A connection to a process that may not be up yet.

    Raises:
        MXNetError: it did not answer in `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            sock = socket.create_connection(address, timeout=min(5.0, timeout))
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            if time.monotonic() > end:
                raise MXNetError(f"{what} at {address[0]}:{address[1]} cannot be reached within {timeout:g} s: "
                                 f"{error}") from None
            time.sleep(0.1)


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return sock.getsockname()[1]


def own_host(sock: socket.socket, there: str) -> str:
    """Under which address the others reach this process, by its connection to the host `there`, which all reach.

    Where that is this very machine, its name may stand for the loopback here, which would mean another to others.
    """
    own = sock.getsockname()[0]
    return there if own.startswith("127.") or own == "::1" else own
