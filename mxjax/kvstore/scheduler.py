"""The scheduler of a job, which assigns ranks, gathers small values from all workers, and detects failures.

Depending on the environment it runs in the launcher, as a separate process (DMLC_ROLE=scheduler),
    or in worker 0.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from . import wire
from .handshake import AuthenticatedListener

__all__ = ["Scheduler"]


# messages of a process that joins, and of members: fields and their types
_HELLO = {"role": str, "rank": int | None, "host": str, "pid": int, "port": int, "version": str}
_GATHERED = 64 << 20  # bytes that one member may give to a gathering: it is for small values
_SAID = {"ping": {}, "gather": {"name": str}, "leaving": {}, "bye": {}, "tolerant": {}}


class _Member:
    """A process that has joined."""

    def __init__(self, channel: wire.Channel, hello: dict[str, Any]) -> None:
        self.channel, self.hello = channel, hello
        self.role: str = hello["role"]
        self.rank: int = -1 if hello.get("rank") is None else hello["rank"]  # -1 until the scheduler gives one
        self.seen = time.monotonic()
        self.lock = threading.Lock()
        self.leaving = self.left = False

    def tell(self, message: list[Any]) -> None:
        try:
            with self.lock:
                self.channel.send(message)
        except OSError:
            self.channel.close()  # the thread that reads from it notices

    def describe(self) -> dict[str, Any]:
        return {"role": self.role, "rank": self.rank, **{k: self.hello.get(k) for k in ("host", "pid", "port")}}


class Scheduler:
    """Waits for all members of a job, then serves them until all workers have left.

    Args:
        workers, servers: number of workers and servers that will join.
        hosts: the addresses to listen on.
        port: port to listen on; 0: any free port (`self.port`).
        secret: secret that members must know.
        join_timeout: seconds within which all members must join.
        heartbeat_timeout: seconds without a heartbeat after which a member counts as dead.
    """

    def __init__(self, workers: int, servers: int = 0, *, secret: bytes, hosts: Sequence[str] = ("127.0.0.1",),
                 port: int = 0, join_timeout: float = 300,
                 heartbeat_timeout: float = 30) -> None:
        self.expected = {"worker": workers, "server": servers}
        self.join_timeout, self.heartbeat_timeout = join_timeout, heartbeat_timeout
        self.members: dict[tuple[str, int], _Member] = {}
        self.lost: dict[tuple[str, int], str] = {}
        self._joined: set[tuple[str, int]] = set()
        self._went: list[tuple[str, int]] = []
        self.complete = False
        self.done = threading.Event()
        self.failure = ""
        self.parts: dict[int, tuple[str, list[np.ndarray]]] = {}  # contributions to the current gathering
        self._lock = threading.RLock()
        # more than members: a process may return before its old connection is known to be lost
        self._listener = AuthenticatedListener(hosts, port, secret, "scheduler", self._serve,
                                               most=2 * (workers + servers) + 8)
        self.port = self._listener.port
        self._began = time.monotonic()
        threading.Thread(target=self._look_after, name="mxjax-scheduler", daemon=True).start()

    # ------------------------------------------------------------ joining
    def _admit(self, channel: wire.Channel) -> _Member | None:
        """Returns the member that joins, or None if it is refused."""
        channel.sock.settimeout(10)
        try:
            message = wire.receive(channel, _check_hello, wire.HELLO)
        except (OSError, MXNetError):
            message = None
        channel.sock.settimeout(None)
        if message is None:
            return None
        # a member that stops reading must not block the others forever
        channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                struct.pack("ll", int(self.heartbeat_timeout) + 1, 0))
        member = _Member(channel, message[0])
        with self._lock:
            refusal = self._refusal(member)
            if refusal:
                member.tell(wire.encode({"op": "refused", "reason": refusal}))
                return None
            returning = self.lost.pop((member.role, member.rank), None) is not None
            member.hello["returning"] = returning
            if returning:
                self._went.remove((member.role, member.rank))
                self.tell_all({**member.describe(), "op": "back"})
            self.members[member.role, member.rank] = member
            self._joined.add((member.role, member.rank))
            if returning:
                self._welcome(member)
            elif len(self.members) == sum(self.expected.values()):
                self.complete = True
                for each in self.members.values():
                    self._welcome(each)
        return member

    def _refusal(self, member: _Member) -> str:
        """Returns why a member cannot join; settles its rank otherwise."""
        role, rank = member.role, member.hello.get("rank")
        if role not in self.expected:
            return f"unknown role {role!r}"
        first = next(iter(self.members.values()), None)
        if first is not None and first.hello["version"] != member.hello["version"]:
            return (f"{role} {'?' if rank is None else rank} on {member.hello['host']} runs {member.hello['version']}, "
                    f"but {first.role} {first.rank} on {first.hello['host']} runs {first.hello['version']}: all "
                    "processes of a job need the same versions")
        taken = {r for other, r in self.members if other == role}
        if rank is None:
            free = [r for r in range(self.expected[role]) if r not in taken]
            if not free:
                return f"this job already has its {self.expected[role]} {role}s"
            member.rank = rank = free[0]
        if not 0 <= rank < self.expected[role]:
            return f"{role} {rank}: this job has {self.expected[role]} {role}s, numbered from 0"
        if (role, rank) in self.lost:
            return "" if self.lost[role, rank] == "may return" else \
                f"{role} {rank} of this job has died, and the others with it; restart the job"
        return f"{role} {rank} already exists" if rank in taken else ""

    def _welcome(self, member: _Member) -> None:
        member.tell(wire.encode({"op": "welcome", "rank": member.rank, "returning": member.hello["returning"],
                                 "members": [m.describe() for m in self.members.values()]}))

    # ------------------------------------------------------------ serving
    def _serve(self, channel: wire.Channel) -> None:
        member = self._admit(channel)
        if member is None:
            return
        reason = "its connection has ended"
        try:
            while (message := wire.receive(channel, _check_said, wire.REQUEST)) is not None:
                member.seen = time.monotonic()
                self._hear(member, *message)
        except (OSError, MXNetError, MemoryError) as error:
            reason = f"its connection broke ({error})"
        self._gone(member, reason)

    def _hear(self, member: _Member, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
        if header["op"] == "gather" and member.role == "worker":
            with self._lock:
                self.parts[member.rank] = header["name"], arrays
            self.settle()
        elif header["op"] in ("leaving", "bye"):
            member.leaving, member.left = True, header["op"] == "bye"
            self.tell_all({**member.describe(), "op": "left" if member.left else "leaving"})
        elif header["op"] == "tolerant":
            member.hello["tolerant"] = True

    def settle(self) -> None:
        """Hands all parts to everybody once every worker that is still here has given its own."""
        with self._lock:  # also while sending: the first receiver may leave, which must reach no other before the parts
            present = {rank for (role, rank), m in self.members.items() if role == "worker" and not m.leaving}
            if not self.parts or not present <= self.parts.keys():
                return
            parts, self.parts = self.parts, {}
            message = self._together(parts)
            for rank in parts:
                if ("worker", rank) in self.members:
                    self.members["worker", rank].tell(message)

    def _together(self, parts: dict[int, tuple[str, list]]) -> list[Any]:
        """The message with everybody's parts, or that they do not belong together."""
        names = {rank: name for rank, (name, _) in sorted(parts.items())}
        if len(set(names.values())) > 1:
            reason = ", ".join(f"worker {rank} is at {name!r}" for rank, name in names.items())
            return wire.encode({"op": "confused", "reason": f"the workers wait for each other: {reason}"})
        rows = [parts[rank][1] if rank in parts else [] for rank in range(self.expected["worker"])]
        return wire.encode({"op": "gathered", "counts": list(map(len, rows))},
                           [array for row in rows for array in row])

    def _gone(self, member: _Member, reason: str) -> None:
        key = (member.role, member.rank)
        with self._lock:
            if self.members.get(key) is not member:
                return
            self._went.append(key)
            if not member.left and key not in self.lost:
                self.lost[key] = "may return" if member.hello.get("tolerant") else reason
                self.tell_all({"op": "lost", **member.describe(), "reason": reason})
            del self.members[key]
            member.channel.close()
            if member.hello.get("tolerant"):  # the others go on without it
                self.parts.pop(member.rank, None)
                self.settle()
            if self.complete and not any(role == "worker" for role, _ in self.members):
                self.tell_all({"op": "end"})
                self.close()

    def tell_all(self, header: dict[str, Any]) -> None:
        """Sends a message to all members."""
        message = wire.encode(header)
        with self._lock:
            for each in list(self.members.values()):
                each.tell(message)

    def _look_after(self) -> None:
        """Detects members that have become silent, and those that never joined."""
        while not self.done.wait(min(1.0, self.heartbeat_timeout / 4)):
            now = time.monotonic()
            with self._lock:
                silent = [m for m in self.members.values()
                          if self.complete and now - m.seen > self.heartbeat_timeout]
                if not self.complete and now - self._began > self.join_timeout:
                    missing = [f"{role} {r}" for role, count in self.expected.items() for r in range(count)
                               if (role, r) not in self.members]
                    self.failure = f"{', '.join(missing)} did not join within {self.join_timeout:g} s"
                    self.tell_all({"op": "refused", "reason": self.failure})
                    self.close()
            for member in silent:
                self._gone(member, f"it has sent no heartbeat for {self.heartbeat_timeout:g} s")

    def turn(self, role: str, rank: int) -> int:
        """Returns the position of a process in the order in which processes left the job; those
        that never joined come first.

        The scheduler itself informs processes that end because another one has gone. So this order
        reflects causality, unlike the times at which a busy machine notices the ends of processes.
        """
        with self._lock:
            if (role, rank) not in self._joined:
                return -1
            return self._went.index((role, rank)) if (role, rank) in self._went else len(self._went)

    def close(self) -> None:
        """Stops the scheduler."""
        self.done.set()
        self._listener.close()

    def wait(self) -> None:
        """Waits until all workers have left.

        Raises:
            MXNetError: not all members have joined in time.
        """
        self.done.wait()
        if self.failure:
            raise MXNetError(self.failure)


def _check_hello(header: dict[str, Any], specs: list[wire.Spec]) -> None:
    if header.get("op") != "hello" or specs:
        raise MXNetError("a process that joins a job must introduce itself first")
    wire.check_fields("hello", header, _HELLO)


def _check_said(header: dict[str, Any], specs: list[wire.Spec]) -> None:
    op = header.get("op")
    if not isinstance(op, str) or op not in _SAID or specs and op != "gather":
        raise MXNetError(f"it has sent {str(op)[:50]!r}, which a scheduler does not understand")
    wire.check_fields(op, header, _SAID[op])
    if wire.nbytes(specs) > _GATHERED:
        raise MXNetError(f"it has sent {wire.nbytes(specs)} bytes to be gathered; the limit is {_GATHERED}")
