"""Access to JAX's coordination service: a local Unix socket, relayed between processes over the
job's authenticated connections.

The service does not authenticate its callers, so it has no port. In worker 0 it listens on a Unix
socket in a directory that only this user can enter. Every other worker has such a socket, too; the
data of its JAX client is forwarded to worker 0 over an authenticated connection. When worker 0
dies, this connection ends, but that of the client stays open. Otherwise the client would abort the
process before the error that names the dead worker is reported.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Sequence

import numpy as np

from ..base import MXNetError
from . import handshake, wire

__all__ = ["CoordinationProxy"]

_LONGEST_FOLDER = 70  # a Unix socket's path has a hundred characters at most
_PIECE = 1 << 16


class CoordinationProxy:
    """This process's connection to JAX's coordination service; `address` is its gRPC address.

    Args:
        secret: the job's.
        hosts: in worker 0, which runs the service: addresses on which the others connect (`port`).
        workers: number of workers.
        there: in all other workers: host and port of worker 0's proxy.
    """

    def __init__(self, secret: bytes, hosts: Sequence[str] = (), workers: int = 1,
                 there: tuple[str, int] | None = None) -> None:
        folder = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="mxjax-", dir=folder if len(folder) <= _LONGEST_FOLDER else "/tmp")
        self._path = os.path.join(self._folder, "jax")
        self.address = f"unix:{self._path}"
        self.port = 0
        if there is None:
            self._port = handshake.AuthenticatedListener(hosts, 0, secret, "devices", self._bring_here,
                                                         most=2 * workers + 8)
            self.port = self._port.port
        else:
            self._secret, self._there = secret, there
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self._path)
            self._listener.listen()
            self._clients: list[socket.socket] = []
            threading.Thread(target=self._accept, name="mxjax-proxy", daemon=True).start()

    def close(self) -> None:
        """Removes the socket; existing connections stay open."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.port:
            self._port.close()

    def _bring_here(self, channel: wire.Channel) -> None:
        """In worker 0: one worker's words to the service, until either side ends."""
        with socket.socket(socket.AF_UNIX) as service:
            while service.connect_ex(self._path):  # the service begins when worker 0 gets there
                if not os.path.isdir(self._folder):
                    return
                time.sleep(0.02)
            thread = threading.Thread(target=_carry, args=(service, channel), name="mxjax-proxy", daemon=True)
            thread.start()
            _bring(channel, service)
            service.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                channel = handshake.connect(self._there, self._secret, "devices", 30, "JAX's coordination service")
            except (OSError, MXNetError):
                return
            self._clients.append(client)  # never closed: that would be the end of this process
            threading.Thread(target=_carry, args=(client, channel), name="mxjax-proxy", daemon=True).start()
            threading.Thread(target=_bring, args=(channel, client), name="mxjax-proxy", daemon=True).start()


def _carry(sock: socket.socket, channel: wire.Channel) -> None:
    """Forwards the data of a Unix socket to the other process."""
    try:
        while piece := sock.recv(_PIECE):
            wire.send(channel, {}, [np.frombuffer(piece, np.uint8)])
    except OSError:
        pass
    channel.close()


def _bring(channel: wire.Channel, sock: socket.socket) -> None:
    """Forwards the data of the other process to a Unix socket."""
    try:
        while (message := wire.receive(channel, _check)) is not None:
            sock.sendall(message[1][0].data)
    except (OSError, MXNetError):
        pass


def _check(_: dict, specs: list[wire.Spec]) -> None:
    if len(specs) != 1 or wire.nbytes(specs) > _PIECE:
        raise MXNetError(f"expected one array of at most {_PIECE} bytes")
