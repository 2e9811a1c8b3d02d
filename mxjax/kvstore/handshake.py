"""Authentication of connections: both sides first prove that they know the job's secret.

    listener -> caller   "MXJ2", 32 random bytes
    caller -> listener   "MXJ2", or "MXJM" where it sees itself on the same machine; 32 random bytes; HMAC of all that
    listener -> caller   "MXJ2" or, where both are on one machine, "MXJM"; HMAC of all that.   Or "MXJN" and zeros

The secret is the key of the HMAC, and the caller's purpose is part of its message. All lengths are
fixed. One thread handles all callers of a port; only authenticated callers get their own thread.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

from ..base import MXNetError
from .wire import Channel

__all__ = ["AuthenticatedListener", "connect", "is_local", "listening_addresses", "meeting_addresses", "own_host"]

_HELLO, _SAME_MACHINE, _NO = b"MXJ2", b"MXJM", b"MXJN"
_NONCE = _PROOF = 32
_GREETING, _CLAIM, _VERDICT = 4 + _NONCE, 4 + _NONCE + _PROOF, 4 + _PROOF
_PATIENCE = 5.0  # seconds for a handshake
_CROWD = 256  # unauthenticated connections at a time; more wait until one is accepted or its second is over
_TURN = 1.0


def _proof(secret: bytes, whose: str, purpose: str, said: bytes) -> bytes:
    return hmac.digest(secret, f"mxjax 2: {whose} of {purpose}\n".encode() + said, "sha256")


def _place(sock: socket.socket) -> bytes:
    """Returns whether the other end is on this machine, as this end sees it (behind a translated address they may
    differ).
    """
    return _SAME_MACHINE if sock.getsockname()[0] == sock.getpeername()[0] else _HELLO


def _channel(sock: socket.socket, secret: bytes, purpose: str, said: bytes, calls: bool) -> Channel:
    """Returns a connection whose two ends are authenticated; `said`: all messages of both, without the proofs."""
    sock.setblocking(True)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    caller, listener = (_proof(secret, f"key of the {side}", purpose, said) for side in ("caller", "listener"))
    return Channel(sock, (caller, listener) if calls else (listener, caller), said.endswith(_SAME_MACHINE))


# ---------------------------------------------------------------- the caller
def connect(address: tuple[str, int], secret: bytes, purpose: str, timeout: float, what: str) -> Channel:
    """Connects to a process that may not have started yet.

    Args:
        address: host and port.
        secret: the job's.
        purpose: requested service: "scheduler", "server" or "devices".
        timeout: seconds within which it must reply.
        what: name of the process for error messages.

    Raises:
        MXNetError: it did not reply in time, or its secret differs from this process's.
    """
    end = time.monotonic() + timeout
    where = f"{what} at {address[0]}:{address[1]}"
    while True:
        try:
            sock = socket.create_connection(address, timeout=min(_PATIENCE, timeout))
            try:
                return _introduced(sock, secret, purpose, where)
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            if time.monotonic() > end:
                raise MXNetError(f"{where} cannot be reached within {timeout:g} s: {error}") from None
            time.sleep(0.1)


def _introduced(sock: socket.socket, secret: bytes, purpose: str, where: str) -> Channel:
    """The caller's part of the handshake."""
    sock.settimeout(2 * _PATIENCE)
    greeting = exactly(sock, _GREETING)
    if greeting[:4] != _HELLO:
        raise MXNetError(f"{where}: the process listening there does not use mxjax's protocol")
    own = _place(sock) + secrets.token_bytes(_NONCE)
    sock.sendall(own + _proof(secret, "caller", purpose, greeting + own))
    verdict = exactly(sock, _VERDICT)
    if verdict[:4] == _NO:
        raise MXNetError(f"{where} rejects this process: it has another secret (MXJAX_CLUSTER_TOKEN, "
                         "MXJAX_CLUSTER_TOKEN_FILE, ~/.config/mxjax/cluster-token), or it belongs to another job")
    said = greeting + own + verdict[:4]
    if not hmac.compare_digest(verdict[4:], _proof(secret, "listener", purpose, said)):
        raise MXNetError(f"{where} cannot prove that it knows the secret of this job")
    return _channel(sock, secret, purpose, said, calls=True)


def exactly(sock: socket.socket, length: int) -> bytes:
    """Receives so many bytes; ConnectionError if the other end closes before."""
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise ConnectionError("it has closed the connection")
        data += piece
    return data


# ---------------------------------------------------------------- the listener
class _Stranger:
    """A connection that has proved nothing yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.since = sock, time.monotonic()
        self.greeting, self.claim = _HELLO + secrets.token_bytes(_NONCE), b""


class AuthenticatedListener:
    """Listens on a port and accepts connections that prove knowledge of the secret.

    Args:
        hosts: addresses to listen on; all use the same port.
        port: the port; 0: any free one (`self.port`).
        secret: the job's.
        purpose: service that callers must request; proofs for another service of the same job are
            invalid.
        serve: called with each accepted connection in a separate thread; the connection is closed
            afterwards.
        most: maximum number of simultaneous connections.

    Raises:
        MXNetError: there is no secret, or the port cannot be opened.
    """

    def __init__(self, hosts: Sequence[str], port: int, secret: bytes, purpose: str, serve: Callable[[Channel], None],
                 most: int) -> None:
        if not secret:
            raise MXNetError(f"a {purpose} requires the secret of its job: without it, anyone who reaches its port "
                             f"could use it")
        self._secret, self._purpose, self._serve = secret, purpose, serve
        self._free = threading.Semaphore(most)
        self._listeners = _listeners(hosts, port)
        self.port: int = self._listeners[0].getsockname()[1]
        self._strangers: dict[socket.socket, _Stranger] = {}  # in the order in which they came
        self._open = True
        self._selector = selectors.DefaultSelector()
        self._alarm, self._bell = socket.socketpair()
        self._selector.register(self._alarm, selectors.EVENT_READ, lambda: None)
        self._listens = False
        self._watch(True)
        self._thread = threading.Thread(target=self._run, name=f"mxjax-handshake-{purpose}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening; accepted connections stay open."""
        self._open = False
        try:
            self._bell.send(b"!")
        except OSError:
            return
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self, listens: bool) -> None:
        """Takes new callers, or leaves them in the system's queue."""
        if listens != self._listens:
            self._listens = listens
            for listener in self._listeners:
                if listens:
                    self._selector.register(listener, selectors.EVENT_READ, functools.partial(self._accept, listener))
                else:
                    self._selector.unregister(listener)

    def _run(self) -> None:
        while self._open:
            for key, _ in self._selector.select(0.25 if self._strangers else None):
                key.data()
            self._make_room()
        for sock in list(self._strangers):
            self._dismiss(sock)
        for sock in (*self._listeners, self._alarm, self._bell, self._selector):
            sock.close()

    def _make_room(self) -> None:
        """Closes connections that take too long, at once if others wait."""
        now = time.monotonic()
        for stranger in list(self._strangers.values()):
            age = now - stranger.since
            if age < _TURN or age < _PATIENCE and len(self._strangers) < _CROWD:
                break  # the others came later
            self._dismiss(stranger.sock)
        self._watch(len(self._strangers) < _CROWD)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no more files, for one; the caller stays in the queue
            time.sleep(0.1)
            return
        sock.setblocking(False)
        stranger = self._strangers[sock] = _Stranger(sock)
        self._selector.register(sock, selectors.EVENT_READ, functools.partial(self._hear, stranger))
        self._say(sock, stranger.greeting)

    def _hear(self, stranger: _Stranger) -> None:
        sock = stranger.sock
        try:
            piece = sock.recv(_CLAIM - len(stranger.claim))
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        stranger.claim += piece
        if not piece or stranger.claim[:3] != _HELLO[:3][:len(stranger.claim)]:
            self._dismiss(sock)
        elif len(stranger.claim) == _CLAIM:
            self._judge(stranger)

    def _judge(self, stranger: _Stranger) -> None:
        sock, said = stranger.sock, stranger.greeting + stranger.claim[:_GREETING]
        expected = _proof(self._secret, "caller", self._purpose, said)
        if not hmac.compare_digest(stranger.claim[_GREETING:], expected):
            self._say(sock, _NO + bytes(_PROOF))
            self._dismiss(sock)
            return
        if not self._free.acquire(blocking=False):
            self._dismiss(sock)  # it may try again
            return
        del self._strangers[sock]
        self._selector.unregister(sock)
        try:
            said += _SAME_MACHINE if stranger.claim[:4] == _place(sock) == _SAME_MACHINE else _HELLO
            sock.send(said[-4:] + _proof(self._secret, "listener", self._purpose, said))
            threading.Thread(target=self._let_in, args=(sock, said), name=f"mxjax-{self._purpose}",
                             daemon=True).start()
        except (OSError, RuntimeError):  # the caller has ended, or the system has no more threads
            self._free.release()
            sock.close()

    def _say(self, sock: socket.socket, words: bytes) -> None:
        """Sends a few bytes, for which there is room as hardly anything was sent before."""
        try:
            sock.send(words)
        except OSError:
            self._dismiss(sock)

    def _dismiss(self, sock: socket.socket) -> None:
        if self._strangers.pop(sock, None) is not None:
            self._selector.unregister(sock)
            sock.close()

    def _let_in(self, sock: socket.socket, said: bytes) -> None:
        try:
            self._serve(_channel(sock, self._secret, self._purpose, said, calls=False))
        except OSError:
            pass  # the caller has ended
        finally:
            self._free.release()
            sock.close()


def _listeners(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Sockets that listen on one port of several addresses."""
    listeners: list[socket.socket] = []
    problem: OSError | None = None
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            bound = listeners[0].getsockname()[1] if listeners else port
            listeners.append(socket.create_server((host, bound), family=family, backlog=4096))
            listeners[-1].setblocking(False)
        except OSError as error:
            problem = error
    if not listeners:
        raise MXNetError(f"cannot listen on port {port} of {', '.join(hosts)}: {problem}. Set DMLC_NODE_HOST to listen "
                         "on another address of this machine") from None
    return listeners


# ---------------------------------------------------------------- addresses
def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _resolved(host: str) -> list[str]:
    try:
        result = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise MXNetError(f"host {host} cannot be resolved: {error}") from None
    return list(dict.fromkeys(str(info[4][0]) for info in result))


def _routed() -> list[str]:
    """The address of this machine on its way out, if there is one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for examples
            return [probe.getsockname()[0]]
        except OSError:
            return []


def listening_addresses(host: str) -> list[str]:
    """Returns the addresses on which this machine must listen so that others reach it under a name;
    only the loopback for a job on one machine.

    A machine's own name often resolves to its loopback locally and to its network address
    elsewhere; then both are returned. DMLC_NODE_HOST overrides this.

    Raises:
        MXNetError: the name cannot be resolved.
    """
    own = os.environ.get("DMLC_NODE_HOST")
    result = _resolved(own or host)
    if own or host == "localhost" or host in result or not all(map(_is_loopback, result)):
        return result
    return result + _routed()


def is_local(host: str) -> bool:
    """Returns whether a job whose scheduler has this name runs on this machine only."""
    return all(map(_is_loopback, listening_addresses(host)))


def meeting_addresses(channel: Channel, there: str) -> list[str]:
    """Returns the addresses on which a process must listen for the others of its job.

    Args:
        channel: its connection to the scheduler, which determines the network interface.
        there: host of the scheduler.
    """
    own = channel.sock.getsockname()[0]
    return listening_addresses(there) if os.environ.get("DMLC_NODE_HOST") or _is_loopback(own) else [own]


def own_host(channel: Channel, there: str) -> str:
    """Returns the address under which the others reach this process, from its connection to the
    host `there`, which all reach.

    If `there` is this machine, its name may resolve to the loopback, which would be another machine
    for the others.
    """
    own = channel.sock.getsockname()[0]
    return os.environ.get("DMLC_NODE_HOST") or (there if _is_loopback(own) else own)
