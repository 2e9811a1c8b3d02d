"""Membership of this process in a distributed job: its place, the other processes, and the reaction to failures.

`import mxjax` calls `join()` if a launcher requests it (DMLC_ROLE=worker, or MXJAX_JOIN=1),
otherwise the first `mx.kv.create("dist_...")` does. This must happen before JAX initializes its
devices.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from .. import libinfo
from .._support import settings
from ..base import MXNetError
from . import handshake, secret, wire
from .proxy import CoordinationProxy
from .scheduler import Scheduler

__all__ = ["Cluster", "Place", "find_place", "get", "join", "same_everywhere"]


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a process in a job, from the environment.

    Args:
        size: number of workers.
        rank: rank of this worker; None: the scheduler assigns one.
        address: host and port of the scheduler.
        hosts: whether this process runs the scheduler.
        servers: number of server processes.
        source: launcher whose variables define the place.
        device: index of this worker's GPU on its machine; None: it uses all GPUs.
    """

    size: int
    rank: int | None
    address: tuple[str, int]
    hosts: bool = False
    servers: int = 0
    source: str = ""
    device: int | None = None


_DEFAULT_PORT = 9091
# rank, size, (address, port): the variables of launchers that give each worker its number. SLURM comes last: it may
# have started another launcher, whose workers have that launcher's own place under SLURM in their variables too.
_LAUNCHERS = {
    "MXJAX": ("MXJAX_RANK", "MXJAX_NUM_WORKERS", None, None),
    "Kubernetes": ("JOB_COMPLETION_INDEX", "MXJAX_NUM_WORKERS", None, None),  # an indexed Job numbers its pods
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None, "OMPI_MCA_ess_base_jobid"),
    "PMI": ("PMI_RANK", "PMI_SIZE", None, "PMI_JOBID"),
    "torchrun or Kubeflow": ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    "SLURM": ("SLURM_PROCID", "SLURM_NTASKS", None, "SLURM_JOB_ID"),
}

_ON_MACHINE = {  # variables with rank and size among the workers of one machine; `srun` also sets PMI's
    "Open MPI": {"OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE"},
    "PMI": {"MPI_LOCALRANKID": "MPI_LOCALNRANKS", "SLURM_LOCALID": ""},
    "torchrun or Kubeflow": {"LOCAL_RANK": "LOCAL_WORLD_SIZE"},
    "SLURM": {"SLURM_LOCALID": ""},
}


def _number(env: Mapping[str, str], name: str, least: int = 0) -> int:
    text = env[name]
    if not text.isdecimal() or int(text) < least:
        raise MXNetError(f"{name}={text!r}: expected a number, {least} or more")
    return int(text)


def find_place(env: Mapping[str, str] = os.environ) -> Place | None:
    """Returns this process's place in a job from the variables of the first launcher found; None if
    it is not part of a job.

    Raises:
        MXNetError: variables are incomplete or invalid.
    """
    if "DMLC_PS_ROOT_URI" in env:
        missing = [n for n in ("DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER") if n not in env]
        if missing:
            raise MXNetError(f"DMLC_PS_ROOT_URI is set, but {', '.join(missing)} is not")
        rank = _number(env, "DMLC_WORKER_ID") if "DMLC_WORKER_ID" in env else None
        servers = _number(env, "DMLC_NUM_SERVER") if "DMLC_NUM_SERVER" in env else 0
        return Place(_number(env, "DMLC_NUM_WORKER", 1), rank,
                     (env["DMLC_PS_ROOT_URI"], _number(env, "DMLC_PS_ROOT_PORT", 1)), False, servers, "DMLC")
    for source, (rank_name, size_name, address_name, port_name) in _LAUNCHERS.items():
        if rank_name not in env or size_name not in env:
            continue
        rank, size = _number(env, rank_name), _number(env, size_name, 1)
        if rank >= size:
            raise MXNetError(f"{rank_name}={rank}, but {size_name}={size}: ranks are numbered from 0")
        if size == 1:
            continue
        return Place(size, rank, _address(env, source, size, address_name, port_name), rank == 0, 0, source,
                     _device(env, source, size))
    return None


def _nodes(env: Mapping[str, str]) -> str | None:
    """Returns the number of machines from SLURM's variables."""
    return env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES")


def _device(env: Mapping[str, str], source: str, size: int) -> int | None:
    """`Place.device`: workers that share a machine have a GPU each, unless something else has dealt them already."""
    names = _ON_MACHINE.get(source, {})
    rank_name = next((name for name in names if name in env), "")
    if not rank_name or "JAX_LOCAL_DEVICE_IDS" in env:
        return None
    if env.get(names[rank_name]) == "1" if names[rank_name] else _nodes(env) == str(size):  # alone on its machine
        return None
    number, visible = _number(env, rank_name), env.get("CUDA_VISIBLE_DEVICES")
    return None if visible is not None and number >= len(visible.split(",")) else number


def _address(env: Mapping[str, str], source: str, size: int, address_name: str | None,
             port_name: str | None) -> tuple[str, int]:
    """Returns where worker 0 listens."""
    if "MXJAX_COORDINATOR" in env:
        host, colon, port = env["MXJAX_COORDINATOR"].rpartition(":")
        if not colon or not port.isdecimal():
            raise MXNetError(f"MXJAX_COORDINATOR={env['MXJAX_COORDINATOR']!r}: expected host:port")
        return host, int(port)
    port = _DEFAULT_PORT
    digits = re.sub(r"\D", "", env.get(port_name or "", ""))
    if digits:  # jobs on one machine should not meet
        port = int(digits) if port_name == "MASTER_PORT" else 20000 + int(digits) % 20000
    local = [env.get(name) for name in _ON_MACHINE.get(source, {}).values()]
    if str(size) in local or source == "SLURM" and _nodes(env) == "1":
        return "127.0.0.1", port  # all on one machine: the scheduler needs no other address
    if address_name and address_name in env:
        return env[address_name], port
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST")
    if source in ("SLURM", "Open MPI", "PMI") and nodes:  # MPI's launchers begin with the first node of an allocation
        return first_node(nodes), port
    raise MXNetError(f"{source} specifies {size} workers, but not the address of worker 0: set "
                     "MXJAX_COORDINATOR=host:port for all workers, with the host of worker 0 and a free port")


def await_name(host: str, timeout: float) -> None:
    """Waits until a host's name is known, where it may become so: a pod of Kubernetes has its name once it runs."""
    end = time.monotonic() + timeout
    while "KUBERNETES_SERVICE_HOST" in os.environ and time.monotonic() < end:
        try:
            socket.getaddrinfo(host, None)
            return
        except OSError:
            time.sleep(1)


def first_node(nodes: str) -> str:
    """The first host of a list as SLURM writes it: "a[03-05,9],b" -> "a03"."""
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+))?", nodes)
    if match is None:
        raise MXNetError(f"the environment's list of nodes does not begin with a host name: {nodes!r}")
    return match[1] + (match[2] or "")


def versions() -> str:
    return f"mxjax {libinfo.__mxjax_version__} with jax {importlib.metadata.version('jax')}"


def say_hello(channel: wire.Channel, role: str, rank: int | None, where: str, port: int = 0) -> None:
    """Introduces this process to the scheduler.

    Args:
        channel: the connection to it.
        role, rank: role and rank of this process; rank None: the scheduler assigns one.
        where: host of the scheduler.
        port: port on which a server listens.
    """
    wire.send(channel, {"op": "hello", "role": role, "rank": rank, "pid": os.getpid(), "version": versions(),
                        "host": handshake.own_host(channel, where), "port": port})


def beat(channel: wire.Channel, lock: threading.Lock | None = None) -> None:
    """Starts to send heartbeats to the scheduler.

    Args:
        channel: the connection to it.
        lock: lock that protects sending on the channel.
    """
    period, lock = settings.HEARTBEAT_TIMEOUT() / 4, lock or threading.Lock()

    def work() -> None:
        while True:
            time.sleep(period)
            try:
                with lock:
                    wire.send(channel, {"op": "ping"})
            except OSError:
                return
    threading.Thread(target=work, name="mxjax-heartbeat", daemon=True).start()


class Cluster:
    """The distributed job in which this process is a worker.

    Args:
        place: its place.
        xla: whether to also connect JAX's devices, for synchronous stores and meshes over all
            workers.
    """

    def __init__(self, place: Place, xla: bool = True) -> None:
        self.size, self.servers, self._device = place.size, place.servers, place.device
        self.failure = ""
        self.gone = ""  # message about a worker that left without a failure
        self._busy = 0.0
        self.lost: dict[tuple[str, int], str] = {}
        self._working, self._using = set(range(place.size)), set(range(place.size))
        self.serves = False  # others need this process until they leave
        self.tolerant = False  # asynchronous: others' deaths are no reason to end
        self._inbox: tuple[dict[str, Any], list[np.ndarray]] | None = None
        self.news = threading.Condition()  # about messages of the scheduler, a failure, the end of a collective
        self._deaf = False  # no more news can come
        self._sending, self._gathering = threading.Lock(), threading.Lock()
        timeout = settings.JOIN_TIMEOUT()
        heartbeat = settings.HEARTBEAT_TIMEOUT()
        self.grace = settings.FAILURE_GRACE()
        where = place.address[0]
        self.secret = secret.find(handshake.is_local(where))
        self._scheduler = Scheduler(
            place.size, place.servers, secret=self.secret, hosts=handshake.listening_addresses(where),
            port=place.address[1], join_timeout=timeout, heartbeat_timeout=heartbeat) if place.hosts else None
        self._where = "the scheduler of this job" if place.source == "DMLC" else "worker 0, which runs the scheduler,"
        self._channel = handshake.connect(place.address, self.secret, "scheduler", timeout,
                                     f"{self._where} ({place.source})")
        self.addresses = handshake.meeting_addresses(self._channel, where)
        say_hello(self._channel, "worker", place.rank, where)
        welcome = wire.receive(self._channel)
        if welcome is None:
            raise MXNetError("the scheduler has closed the connection")
        if welcome[0]["op"] == "refused":
            raise MXNetError(f"this job rejects this process: {welcome[0]['reason']}")
        self.rank: int = welcome[0]["rank"]
        self.returning: bool = welcome[0]["returning"]
        self.members = {(m["role"], m["rank"]): m for m in welcome[0]["members"]}
        threading.Thread(target=self._listen, name="mxjax-cluster", daemon=True).start()
        beat(self._channel, self._sending)
        self.xla = xla and self.size > 1
        self._proxy: CoordinationProxy | None = None
        if self.xla:
            self._join_devices(timeout)
        atexit.register(self.leave)

    def _join_devices(self, timeout: float) -> None:
        """Joins JAX's devices; its coordination service is reached through this job's own connections (`proxy.py`)."""
        self._proxy = CoordinationProxy(self.secret, self.addresses, self.size) if self.rank == 0 else None
        ports = self.gather("devices", [np.array([self._proxy.port if self._proxy else 0])], timeout)
        if self._proxy is None:
            self._proxy = CoordinationProxy(self.secret, there=(self.members["worker", 0]["host"], int(ports[0][0][0])))
        jax.config.update("jax_enable_recoverability", True)  # that others die is for us to report, not to abort for
        jax.config.update("jax_enable_preemption_service", False)  # unused, and it logs errors when others die
        try:
            # the place is known: JAX's own look at the environment would be another opinion, and may refuse it
            jax.distributed.initialize(self._proxy.address, self.size, self.rank,
                                       None if self._device is None else [self._device],
                                       cluster_detection_method="deactivate",
                                       coordinator_bind_address=self._proxy.address,
                                       initialization_timeout=int(timeout), heartbeat_timeout_seconds=1 << 20,
                                       shutdown_timeout_seconds=int(self.grace) or 1)
        except RuntimeError as error:
            self._proxy.close()
            raise MXNetError(
                f"worker {self.rank} cannot connect to the other workers' devices ({error}). JAX must not have "
                "initialized its devices before: import mxjax first with DMLC_ROLE=worker or MXJAX_JOIN=1 set (`python "
                "-m mxjax launch` does that), or create the kvstore before any array") from error

    # ------------------------------------------------------------ messages
    def _send(self, header: dict[str, Any], arrays: Iterable[np.ndarray] = ()) -> None:
        with self._sending:
            wire.send(self._channel, header, list(arrays))

    def _listen(self) -> None:
        reason = "it has closed the connection"
        try:
            while (message := wire.receive(self._channel)) is not None:
                header, arrays = message
                with self.news:
                    if header["op"] in ("gathered", "confused"):
                        self._inbox = message
                    elif header["op"] in ("lost", "back"):
                        self._noticed(header)
                    elif header["op"] in ("leaving", "left") and header["role"] == "worker":
                        self._departed(header["op"], header["rank"])
                    self.news.notify_all()
                if header["op"] == "end":
                    reason = ""
                    break
        except Exception as error:  # of any kind: otherwise waiting threads would wait forever
            reason = f"{type(error).__name__}: {error}"
        with self.news:
            self._deaf = True
            if reason and not self.left:
                self.fail(f"{self._where} is lost: {reason}; no worker can continue")
            self.news.notify_all()

    def _wait(self, until: Callable[[], Any], seconds: float = float("inf")) -> Any:
        """Waits until something is so, this worker has failed, or no more news can come; false: it took too long."""
        with self.news:
            return self.news.wait_for(lambda: until() or self.failure or self._deaf,
                                       min(seconds, threading.TIMEOUT_MAX))

    def _noticed(self, header: dict[str, Any]) -> None:
        key = header["role"], header["rank"]
        if header["op"] == "back":
            self.lost.pop(key, None)
            self.members[key] = header
            return
        self.lost[key] = header["reason"]
        text = f"{key[0]} {key[1]} (process {header['pid']} on {header['host']}) has died: {header['reason']}"
        if self.tolerant and key[0] == "worker":
            self._say(f"{text}; the others continue")
        else:
            self.fail(text)

    def _departed(self, how: str, rank: int) -> None:
        self._using.discard(rank)
        if how == "left":
            self._working.discard(rank)
        elif rank != self.rank and not self.gone:
            self.gone = f"worker {rank} has left the job"
            if self.busy:
                self._begin_to_doubt()

    @property
    def busy(self) -> float:
        """Start time of the collective in which this worker is; 0: none."""
        return self._busy

    @busy.setter
    def busy(self, since: float) -> None:
        with self.news:
            self._busy = since
            self.news.notify_all()
            if since and self.gone:
                self._begin_to_doubt()

    def _begin_to_doubt(self) -> None:
        """Starts a thread that fails this worker unless the current collective ends soon, since a worker has left."""
        since = self.busy

        def work() -> None:
            with self.news:
                if not self._wait(lambda: self.busy != since, self.grace / 2):
                    self.fail(f"{self.gone} while this one waits for it")
        threading.Thread(target=work, name="mxjax-doubt", daemon=True).start()

    def fail(self, text: str) -> None:
        """Prints a failure, raises it at each later use of the job, and ends the process after the grace period."""
        with self.news:
            if self.failure:
                return
            self._say(text)  # before another thread sees the failure: its error may end the process at once
            self.failure = text
            self.news.notify_all()
        threading.Thread(target=self.end_later, name="mxjax-end", daemon=True).start()

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader may have ended as well
            print(f"mxjax: worker {self.rank}: {text}", file=sys.stderr, flush=True)

    def end_later(self) -> None:
        """Ends the process after the grace period, since XLA's collectives wait forever for a dead worker."""
        time.sleep(self.grace)
        self._say(f"ends, {self.grace:g} s after {self.failure}")
        self._end()

    def _end(self) -> None:
        """Ends the process without JAX's shutdown, which would wait for the dead."""
        if self._proxy is not None:
            self._proxy.close()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)

    def check(self) -> None:
        """Raises MXNetError if another worker has died or left."""
        if self.failure or self.gone and not self.tolerant:
            raise MXNetError(f"worker {self.rank}: {self.failure or self.gone}")

    def explain(self, error: BaseException) -> BaseException:
        """Returns the error to raise for a failed collective. It names the process that died, if
        that becomes known soon."""
        self._wait(lambda: self.gone, 3)
        reason = self.failure or self.gone
        return MXNetError(f"worker {self.rank}: {reason}") if reason else error

    def gather(self, name: str, arrays: Iterable[np.ndarray] = (),
               timeout: float = float("inf")) -> list[list[np.ndarray]]:
        """Gathers the arrays of all living workers by rank; meant for small values. All workers must call it.

        Raises:
            MXNetError: a worker has died, calls another operation, or does not call it within
                `timeout` seconds.
        """
        end = time.monotonic() + timeout
        with self._gathering:
            self.check()
            self._inbox = None
            try:
                self._send({"op": "gather", "name": name}, arrays)
            except OSError as error:
                raise self.explain(MXNetError(f"worker {self.rank}: the scheduler is lost: {error}")) from None
            with self.news:
                self._wait(lambda: self._inbox or self.gone and not self.tolerant, end - time.monotonic())
                answer = self._answer()
                if answer is None:
                    self.check()
                    raise MXNetError(f"worker {self.rank}: " + ("the job has ended" if self._deaf else
                                     f"the other workers did not reach {name!r} within {timeout:g} s"))
        header, together = answer
        if header["op"] == "confused":
            raise MXNetError(f"worker {self.rank}: {header['reason']}; all must make the same calls in the same order")
        rest = iter(together)
        return [[next(rest) for _ in range(count)] for count in header["counts"]]

    def _answer(self) -> tuple[dict[str, Any], list[np.ndarray]] | None:
        """Returns the scheduler's answer to the current gathering, which another thread receives."""
        return self._inbox

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        self.gather("barrier")

    def agree(self, what: str, names: list[str], values: list[str]) -> None:
        """Checks that all workers pass the same values.

        Args:
            what: name of the check for error messages.
            names: names of the values.
            values: short strings.

        Raises:
            MXNetError: another worker passes other values; the message names both and the first
                difference.
        """
        rows = list(map("=".join, zip(names, values, strict=True)))
        parts = self.gather(what, [np.frombuffer("\n".join(rows).encode(), np.uint8)])
        said = {rank: bytes(part[0]).decode().split("\n") for rank, part in enumerate(parts) if part}
        first = min(said)
        for rank, other in said.items():
            if other != said[first]:
                mine, theirs = next(((a, b) for a, b in zip(said[first], other, strict=False) if a != b),
                                    (f"{len(said[first])} entries", f"{len(other)} entries"))
                raise MXNetError(f"{what}: worker {rank} has {theirs}, worker {first} has {mine}; all workers must "
                                 "pass the same values, in the same order")

    def tolerate(self) -> None:
        """Declares that this worker and the others can continue without each other (asynchronous stores)."""
        self.tolerant = True
        self._send({"op": "tolerant"})

    # ------------------------------------------------------------ the end
    left = False

    def leave(self) -> None:
        """Leaves the job. Worker 0 leaves last, because the others need its services.

        After a failure this ends the process, because JAX's own shutdown would wait for dead
            processes.
        """
        if self.left:
            return
        self.left = True
        try:
            self._send({"op": "leaving"})
            if self.serves:
                self._outstay("_using")
            if self._scheduler is not None or self.xla and self.rank == 0:
                self._outstay("_working")
            if self.xla and not self.failure:
                jax.distributed.shutdown()
            self._send({"op": "bye"})
            self._channel.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self._scheduler is not None and not self.failure:
            self._scheduler.done.wait(self.grace)
        if self.failure and self.xla:
            self._end()
        if self._proxy is not None:
            self._proxy.close()

    def _outstay(self, who: str) -> None:
        """Waits until no other worker is left in a set."""
        self._wait(lambda: not getattr(self, who) - {self.rank} - {rank for _, rank in self.lost})


_cluster: Cluster | None = None
_lock = threading.Lock()
_MEMBER = "MXJAX_CLUSTER_MEMBER"


def join(xla: bool = True) -> Cluster | None:
    """Makes this process a worker of the job that the environment describes; a second call does nothing.

    Args:
        xla: whether to also connect JAX's devices (synchronous stores, meshes over all workers).
            MXJAX_JOIN_XLA=0 disables it.

    Returns:
        The cluster, or None if the process is not part of a job.

    Raises:
        MXNetError: the other processes cannot be reached or reject this process, or JAX has already
            initialized its devices.
    """
    global _cluster
    with _lock:
        if _cluster is None and os.environ.get(_MEMBER, str(os.getpid())) == str(os.getpid()):
            place = find_place()
            if place is not None:
                await_name(place.address[0], settings.JOIN_TIMEOUT())
                _cluster = Cluster(place, xla and settings.JOIN_XLA())
                os.environ[_MEMBER] = str(os.getpid())  # worker processes of a data loader are no members
        return _cluster


def get() -> Cluster | None:
    """Returns the cluster that this process has joined, if any."""
    return _cluster


def same_everywhere(params: Any, what: str = "parameters") -> str:
    """Checks that arrays are identical bit for bit on all workers.

    Args:
        params: arrays by name, or something with `collect_params()` (a Gluon block).
        what: name of the check for error messages.

    Returns:
        Digest of the arrays.

    Raises:
        MXNetError: a worker has other values; the message names it and the first array that
            differs.
    """
    if hasattr(params, "collect_params"):
        params = params.collect_params()
    names, digests = [], []
    for name in sorted(params.keys()):
        value = params[name]
        value = value.data(value.list_ctx()[0]) if hasattr(value, "list_ctx") else value
        array = np.ascontiguousarray(value.asnumpy())
        names.append(name)
        digests.append(hashlib.sha256(array.tobytes() + str((array.shape, array.dtype)).encode()).hexdigest())
    if _cluster is not None:
        _cluster.agree(what, names, digests)
    return hashlib.sha256("".join(digests).encode()).hexdigest()
