"""`python -m mxjax launch --on ray`: each process is held by an actor of a Ray cluster.

Ray places the actors and gives them CPUs and GPUs. An actor starts the process on its machine and sends its lines and
its exit status to the launcher. When the actor dies, or Ray ends it because the launcher has ended, a shell that waits
for that ends the process and all that it has started. The actors need no mxjax, only the processes do.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from ..base import MXNetError
from .launch_process import Screen, Started, passed_on, tell

__all__ = ["OnRay", "find_ray", "join"]

# Lives in the process group that it ends, so the group's number can mean no other. It is no child of the actor (the
# outer shell ends at once), for Ray kills an actor's children along with it.
_GUARD = 'trap "" TERM; exec 3<&0; (read -r _ <&3; kill -TERM 0; sleep 3; kill -KILL 0) &'
_SMALL_STORE = 80 << 20  # bytes; nothing but lines of text goes through Ray


def find_ray(command: str) -> ModuleType:
    """Returns Ray's module.

    Raises:
        MXNetError: there is none.
    """
    try:
        ray = import_module("ray")
        import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise MXNetError(f"{command}: --on ray requires Ray ({error}): pip install 'mxjax[ray]'") from None
    return ray


def join(ray: ModuleType, address: str, command: str, **options: Any) -> None:
    """Joins the cluster at an address, or starts one where it is "local".

    Args:
        ray: Ray's module.
        address: "auto", "local" or host:port.
        command: which command does so, for messages.
        options: of `ray.init`.

    Raises:
        MXNetError: there is no cluster at the address.
    """
    ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if address == "local":  # not to be interrupted: half of a cluster would stay
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the user has not agreed
        else:
            _knock(address)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.default_int_handler)  # it may try for minutes
        ray.init(address=address, log_to_driver=False, logging_level="warning", **options)
    except KeyboardInterrupt:
        tell("interrupted")
        raise SystemExit(130) from None
    except Exception as error:
        raise MXNetError(f"{command}: no Ray cluster at {address}: {error}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in ours.items():  # Ray sets its own
                signal.signal(number, handler)


def _holder() -> type:
    """The actor's class. One of a function is sent as it is; a module's would have the actor import mxjax and JAX."""
    import importlib
    import os
    import queue
    import signal
    import subprocess
    import sys
    import threading

    class Holder:
        """Holds a process of a job."""

        def __init__(self) -> None:
            self._lock, self._leash, self._stopped = threading.Lock(), None, False
            self._lines: queue.Queue[bytes | None] = queue.Queue(10000)

        def start(self, guard: str, command: list[str], env: dict[str, str], folder: str) -> tuple[int, str]:
            """Starts the process; returns its number and this machine's address."""
            ray = importlib.import_module("ray")
            with self._lock:
                if self._stopped:
                    raise RuntimeError("it was stopped before it started")
                shell = subprocess.Popen(["sh", "-c", guard], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, process_group=0)
                shell.wait()
                self._leash, self._group = shell.stdin, shell.pid
                self._process = subprocess.Popen(
                    [command[0] or sys.executable, *command[1:]], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=shell.pid,
                    cwd=folder if os.path.isdir(folder) else None)
            threading.Thread(target=self._copy, daemon=True).start()
            threading.Thread(target=self._await, daemon=True).start()
            return self._process.pid, ray.util.get_node_ip_address()

        def _copy(self) -> None:
            for line in self._process.stdout or ():
                print(line.decode(errors="replace"), end="", flush=True)  # for Ray's own logs
                self._lines.put(line)
            self._lines.put(None)

        def _await(self) -> None:
            self._process.wait()
            os.killpg(self._group, signal.SIGKILL)  # its children and the guard

        def read(self) -> tuple[list[bytes], int | None]:
            """Waits for lines; returns them, and how the process has ended after its last."""
            lines: list[bytes] = []
            while (line := self._lines.get()) is not None:
                lines.append(line)
                if len(lines) == 1000 or self._lines.empty():
                    return lines, None
            return lines, self._process.wait()

        def stop(self) -> None:
            """Ends the process: politely, and after a few seconds not."""
            with self._lock:
                self._stopped = True
                if self._leash is not None:
                    self._leash.close()
    return Holder


class _RayWorker(Started):
    """A process that an actor holds."""

    def __init__(self, cluster: OnRay, role: str, rank: int, screen: Screen, own: dict[str, str],
                 command: list[str]) -> None:
        super().__init__(role, rank, screen)
        self.again = functools.partial(cluster.start, role, rank, screen, own, command)
        self._ray, self._actor = cluster.ray, cluster.actor(role, rank)
        self._code: int | None = None
        self._lost = self._host = ""
        self._reader = threading.Thread(target=self._follow, args=(own, command), daemon=True,
                                        name=f"output of {self.name}")
        self._reader.start()

    def _follow(self, own: dict[str, str], command: list[str]) -> None:
        code = None
        try:
            self.pid, self._host = self._ray.get(self._actor.start.remote(_GUARD, command, own, os.getcwd()))
            while code is None:
                lines, code = self._ray.get(self._actor.read.remote())
                for line in lines:
                    self.show(line)
        except Exception as error:  # any error of Ray: the process cannot be reached, and the job must not wait
            self._lost = " ".join(str(error).split())[:300] or type(error).__name__
            code = 1
        self.ended = time.monotonic()
        self._code = code

    @property
    def code(self) -> int | None:
        return self._code

    @property
    def fate(self) -> str:
        return f"is lost to Ray: {self._lost}" if self._lost else super().fate

    @property
    def label(self) -> str:
        return f"{self.name} (process {self.pid} on {self._host})" if self.pid else self.name

    def signal(self, number: int) -> None:
        if self._code is not None:
            return  # its actor has ended its children
        if number == signal.SIGKILL:
            self.release()
        else:
            self._actor.stop.remote()

    def release(self) -> None:
        """Ends the actor, and with it whatever still runs."""
        with contextlib.suppress(Exception):  # the cluster may have gone
            self._ray.kill(self._actor)

    def finish(self) -> None:
        self._reader.join(2)


class OnRay:
    """Processes on a Ray cluster.

    Args:
        address: "auto", "local", host:port; "": what RAY_ADDRESS says, else a new local cluster.
        roles: the processes to start.
        cpus, gpus: Ray's CPUs (at least one) and GPUs per worker.

    Raises:
        MXNetError: there is no Ray, or the address is of a kind that is not supported.
    """

    def __init__(self, address: str, roles: list[tuple[str, int]], cpus: int = 0, gpus: int = 0) -> None:
        self.ray = find_ray("launch")
        self._workers: list[_RayWorker] = []
        self._group: Any = None
        self._actors = self.ray.remote(max_concurrency=3)(_holder())
        self._needs = {role: {"CPU": cpus or 1, **({"GPU": gpus} if gpus else {})} for role in ("worker", "server")}
        self._needs["server"] = {"CPU": 1}
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        if "://" in address:
            raise MXNetError(f"launch: --address {address}: workers cannot reach a launcher outside the cluster; run "
                             "it in the cluster with Ray: ray job submit -- python -m mxjax launch --on ray ...")
        self._address = address
        total = sum(self._needs[role]["CPU"] for role, _ in roles)
        self._options: dict[str, Any] = {}
        if address == "local":  # as many as are needed, even more than there are cores, as without Ray
            self._options = {"num_cpus": max(total, os.cpu_count() or 1), "include_dashboard": False,
                             "object_store_memory": _SMALL_STORE}

    def open(self) -> None:
        """Joins the cluster, or starts one.

        Raises:
            MXNetError: there is none at the address.
        """
        join(self.ray, self._address, "launch", **self._options)

    def prepare(self, roles: list[tuple[str, int]], give_up: Callable[[], bool]) -> str:
        """Waits for the places of all processes; returns the launcher's address for them."""
        wanted = [self._needs[role] for role, _ in roles]
        self._group = self.ray.util.placement_group(wanted, strategy="PACK")
        self._indices = {role: i for i, role in enumerate(roles)}
        said, patience = False, time.monotonic() + 5
        while not self._group.wait(0.2):
            if give_up():
                return ""
            if not said and time.monotonic() > patience:
                there = {k: v for k, v in self.ray.cluster_resources().items() if k in ("CPU", "GPU")}
                tell(f"waiting for Ray to give {', '.join(f'{k} {v}' for k, v in _sum(wanted).items())}; the cluster "
                     f"has {', '.join(f'{k} {v:g}' for k, v in sorted(there.items())) or 'nothing'} in all")
                said = True
        nodes = self.ray.util.placement_group_table(self._group)["bundles_to_node_id"].values()
        here = self.ray.get_runtime_context().get_node_id()
        return "127.0.0.1" if set(nodes) == {here} else self.ray.util.get_node_ip_address()

    def actor(self, role: str, rank: int) -> Any:
        """A new actor in the place of a process."""
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=self._indices[role, rank])
        need = self._needs[role]
        return self._actors.options(num_cpus=need["CPU"], num_gpus=need.get("GPU", 0), scheduling_strategy=strategy,
                                    max_restarts=0, name=None).remote()

    def start(self, role: str, rank: int, screen: Screen, own: dict[str, str], command: list[str]) -> Started:
        """Starts a process with variables of its own."""
        for worker in [h for h in self._workers if (h.role, h.rank) == (role, rank)]:
            worker.release()  # the place is taken only once
            self._workers.remove(worker)
        if command[0] == sys.executable:
            command = ["", *command[1:]]  # each machine's own
        self._workers.append(_RayWorker(self, role, rank, screen, {**passed_on(), **own}, command))
        return self._workers[-1]

    def clear(self) -> None:
        """Releases the resources of the processes."""
        for worker in self._workers:
            worker.release()
        self._workers.clear()
        if self._group is not None:
            with contextlib.suppress(Exception):  # the cluster may have gone
                self.ray.util.remove_placement_group(self._group)
            self._group = None

    def close(self) -> None:
        """Leaves the cluster; ends a local one."""
        with contextlib.suppress(Exception):
            self.ray.shutdown()


def _knock(address: str) -> None:
    """Raises OSError if no process listens at host:port; Ray itself would try for many minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), 10).close()


def _sum(wanted: list[dict[str, int]]) -> dict[str, int]:
    """Resources taken together."""
    return {name: sum(need.get(name, 0) for need in wanted) for name in sorted({n for need in wanted for n in need})}
