"""`python -m mxjax launch -n 4 train.py --lr 0.1`: runs a script in several worker processes.

The workers are on this machine, by ssh on the hosts of a file, or on a Ray cluster (`launch_ray.py`). Each finds its
place in MXNet's variables (DMLC_*); the scheduler runs in the launcher. Output is shown line by line under the worker's
number. When a worker fails, the others get `--grace` seconds to end by themselves, and with `--restarts` the whole job
is then started again; the launcher's exit status is the first failure's of the last attempt.

Each job has a new secret, which every process needs to join. Workers on this machine find it in their environment; on
other hosts they read it from ssh, whose command line everybody on this machine can see.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # started by its path, as MXNet's tools/launch.py is
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.argv.insert(1, "launch")
    import runpy
    runpy.run_module("mxjax", run_name="__main__", alter_sys=True)
    sys.exit()

import argparse
import contextlib
import dataclasses
import itertools
import secrets
import shlex
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._support import settings
from .._support.files import numbered_lines
from .._xla import program_files as _program_files
from ..base import MXNetError
from ..kvstore import secret
from ..kvstore.scheduler import Scheduler
from .launch_process import KEPT, READY, Process, Screen, Started, passed_on, tell

__all__ = ["add_arguments", "launch", "main"]

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME")
TOKEN = "MXJAX_CLUSTER_TOKEN"
_LONGEST_PAUSE = 60.0  # seconds before another attempt


def _status(code: int) -> int:
    """The exit status of a process as shells give it."""
    return 128 - code if code < 0 else code


def hosts_of(path: str) -> list[str]:
    """The hosts of a file: one a line, with `slots=N` (or `:N`) for several workers; # begins a comment.

    Raises:
        MXNetError: there is no such file, or it has no hosts.
    """
    hosts: list[str] = []
    try:
        lines = [line.partition("#")[0].split() for _, line in numbered_lines(path, "a host file", "utf-8")]
    except OSError as error:
        raise MXNetError(f"launch: host file {path}: {error.strerror}") from None
    for words in filter(None, lines):
        host, _, count = words[0].partition(":")
        slots = [w.partition("=")[2] for w in words[1:] if w.startswith("slots=")] or [count or "1"]
        if not slots[0].isdecimal() or len(slots[0]) > 4:
            raise MXNetError(f"launch: host file {path}: {' '.join(words)}: slots must be a number of at most 9999")
        hosts += [host] * int(slots[0])
    if not hosts:
        raise MXNetError(f"launch: host file {path} contains no hosts")
    return hosts


def _own_address(hosts: Sequence[str]) -> str:
    """The address under which the hosts reach this machine: that of the way to the first of them that is another."""
    own = ["127.0.0.1"]
    for host in dict.fromkeys(hosts):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host.rpartition("@")[2], 9))
            except OSError as error:
                raise MXNetError(f"launch: cannot resolve host {host}: {error}") from None
            own.append(probe.getsockname()[0])
    return next((address for address in own if not address.startswith("127.")), own[0])


def _command(command: Sequence[str]) -> list[str]:
    """A script is run by `mxjax run`, where `import mxnet` means mxjax; anything else as it is."""
    if command[0].endswith(".py"):
        return [sys.executable, "-m", "mxjax", "run", *command]
    if shutil.which(command[0]) is None:
        raise MXNetError(f"launch: script or program {command[0]} not found")
    return list(command)


@dataclasses.dataclass(frozen=True)
class _Limits:
    """The time limit of a job, and its behaviour when a process fails; see `launch`."""

    grace: float
    timeout: float
    deadline: float
    keep_going: bool
    restarts: int  # of single workers


class _Here:
    """Starts processes on this machine, or by ssh on hosts.

    Args:
        hosts: one for each worker; none: this machine.
        ssh: the ssh command.
        cpus, gpus: cores and GPUs per worker.
        kept: variables for processes of this machine.
    """

    def __init__(self, hosts: list[str], ssh: str, cpus: int, gpus: int, kept: dict[str, str]) -> None:
        self._hosts, self._ssh, self._cpus, self._gpus, self._kept = hosts, ssh, cpus, gpus, kept
        self._places: dict[tuple[str, int], tuple[str, int]] = {}

    def open(self) -> None:
        """Prepares the parts that all attempts share."""

    def prepare(self, roles: list[tuple[str, int]], give_up: Callable[[], bool]) -> str:
        """Assigns processes to machines; returns the launcher's address for them."""
        seats: dict[str, int] = {}
        for i, (role, rank) in enumerate(roles):
            host = self._hosts[i % len(self._hosts)] if self._hosts else ""
            self._places[role, rank] = host, seats.get(host, 0)
            seats[host] = seats.get(host, 0) + (role == "worker")
        return _own_address(self._hosts)

    def start(self, role: str, rank: int, screen: Screen, own: dict[str, str], command: list[str]) -> Started:
        """Starts a process with variables of its own."""
        host, seat = self._places[role, rank]
        if self._gpus and role == "worker":
            devices = range(seat * self._gpus, (seat + 1) * self._gpus)
            own = {**own, "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
        inherited = {k: v for k, v in os.environ.items() if k not in KEPT}
        if host:
            return Process(role, rank, screen, _remote(self._ssh, host, own, command), inherited, None, own[TOKEN])
        cores = None
        if self._cpus and role == "worker":
            available = sorted(os.sched_getaffinity(0))
            cores = {available[(seat * self._cpus + k) % len(available)] for k in range(self._cpus)}
        return Process(role, rank, screen, command, {**inherited, **self._kept, **own}, cores)

    def clear(self) -> None:
        """Releases the resources of the processes."""

    def close(self) -> None:
        """Gives back everything."""


def launch(command: Sequence[str], workers: int, *, servers: int = 0, hostfile: str | None = None,
           cpus: int = 0, gpus: int = 0, env: Sequence[str] = (), grace: float = 20, timeout: float = 0,
           keep_going: bool = False, restarts: int = 0, ssh: str = "ssh -tt -o BatchMode=yes",
           cache: bool = False, on: str = "local", address: str = "") -> int:
    """Runs a command in several processes; returns the exit status (of the first that failed).

    Args:
        command: a script with its arguments, or any program.
        workers, servers: how many processes; servers are for "dist_async".
        hostfile: file with a host a line; without it all run here.
        cpus: cores for each worker of this machine, CPUs of Ray; 0: no limit (one of Ray).
        gpus: GPUs per worker of a machine; 0: all see all (none of Ray).
        env: NAME=VALUE for all processes, or NAME to pass the launcher's on.
        grace: seconds for the others to end after one has failed, before they are ended.
        timeout: seconds for the whole job with its restarts; 0: no limit.
        keep_going: let the others go on when one fails ("dist_async").
        restarts: so many times in all the whole job is started again when a worker has failed, for scripts that
            go on from a checkpoint. With servers or `keep_going` only the worker is started again, and comes
            back to its place while the others go on.
        ssh: the ssh command.
        cache: have workers of this machine keep compiled programs in files.
        on: "local" (this machine, or the host file's by ssh) or "ray".
        address: of the Ray cluster: "auto", "local", host:port; default: RAY_ADDRESS, else a new local cluster.

    Raises:
        MXNetError: an argument is wrong.
    """
    if workers < 1 or servers < 0:
        raise MXNetError(f"launch: {workers} workers and {servers} servers: expected at least one worker")
    if restarts < 0:
        raise MXNetError(f"launch: {restarts} restarts: expected 0 or more")
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise MXNetError("launch: no script specified")
    if on == "ray" and hostfile or on != "ray" and address:
        raise MXNetError("launch: a host file requires ssh, and --address requires --on ray")
    hosts = hosts_of(hostfile) if hostfile else []
    commands = {"worker": _command(command), "server": [sys.executable, "-m", "mxjax.kvstore_server"]}
    alone = bool(servers) or keep_going  # then a worker can come back to the others
    common = {"DMLC_NUM_WORKER": str(workers), "DMLC_NUM_SERVER": str(servers), "PYTHONUNBUFFERED": "1"}
    if keep_going := keep_going or alone and restarts > 0:  # workers that share JAX's devices need one another
        common["MXJAX_JOIN_XLA"] = "0"
    for item in env:
        name, has_value, value = item.partition("=")
        common[name] = value if has_value else os.environ.get(name, "")
    kept = {}
    if cache and on != "ray":  # on other hosts the processor may be another
        with contextlib.suppress(MXNetError):  # without a folder they compile
            kept = _program_files.variables(_program_files.prepared())
    roles = [("server", i) for i in range(servers)] + [("worker", i) for i in range(workers)]
    deadline = time.monotonic() + timeout if timeout else float("inf")
    screen, limits = Screen(), _Limits(grace, timeout, deadline, keep_going, restarts if alone else 0)
    if on == "ray":
        from .launch_ray import OnRay  # Ray is optional
        where: Any = OnRay(address, roles, cpus, gpus)
    else:
        where = _Here(hosts, ssh, cpus, gpus, kept)
    status = 1
    with _interruptions() as stopped, contextlib.closing(where):
        where.open()
        attempts = 1 if alone else 1 + restarts
        for attempt in itertools.count(1):
            status = _attempt(where, roles, common, commands, screen, stopped, limits)
            if not status or attempts == 1 or stopped.is_set() or time.monotonic() > deadline:
                break
            pause = min(2.0 ** (attempt - 1), _LONGEST_PAUSE)
            ended = f"attempt {attempt} of {attempts} has ended with status {status}; "
            if attempt == attempts or time.monotonic() + pause > deadline:
                tell(ended + ("it was the last" if attempt == attempts else "there is no time for another"))
                break
            tell(f"{ended}the job is started again in {pause:g} s")
            if stopped.wait(pause):
                tell("interrupted")
                status = 130
                break
            tell(f"attempt {attempt + 1} of {attempts}")
    return status


@contextlib.contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """An event for Ctrl-C, SIGTERM and the end of the terminal, instead of the process's end."""
    stopped, previous = threading.Event(), {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                previous[number] = signal.signal(number, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _attempt(where: Any, roles: list[tuple[str, int]], common: dict[str, str], commands: dict[str, list[str]],
             screen: Screen, stopped: threading.Event, limits: _Limits) -> int:
    """Runs the job once, with a secret and a scheduler of its own; returns the exit status."""
    processes: list[Started] = []
    scheduler = None
    try:
        address = where.prepare(roles, lambda: stopped.is_set() or time.monotonic() > limits.deadline)
        if stopped.is_set() or time.monotonic() > limits.deadline:
            tell("interrupted" if stopped.is_set() else f"{limits.timeout:g} s are over")
            return 130 if stopped.is_set() else 124
        token = secrets.token_hex(32)
        count = {role: sum(r == role for r, _ in roles) for role in ("worker", "server")}
        scheduler = Scheduler(count["worker"], count["server"], secret=token.encode(), hosts=[address],
                              join_timeout=settings.JOIN_TIMEOUT(),
                              heartbeat_timeout=settings.HEARTBEAT_TIMEOUT())
        for role, rank in roles:
            own = {"DMLC_PS_ROOT_URI": address, "DMLC_PS_ROOT_PORT": str(scheduler.port), **common, "DMLC_ROLE": role,
                   f"DMLC_{role.upper()}_ID": str(rank), TOKEN: token}
            if role == "server":
                own["MXJAX_SERVES"] = "1"
            processes.append(where.start(role, rank, screen, own, commands[role]))
        return _watch(processes, scheduler, stopped, limits)
    finally:
        _end(processes)
        where.clear()
        if scheduler is not None:
            scheduler.close()


def _remote(ssh: str, host: str, own: dict[str, str], command: list[str]) -> list[str]:
    """Returns the command that runs another on a host, in the same folder and with the relevant variables.

    It asks for the secret once its terminal, if it has one, shows no longer what it reads.
    """
    variables = [f"{k}={v}" for k, v in {**passed_on(_PASSED_ON), **own}.items() if k not in KEPT]
    there = (f"cd {shlex.quote(os.getcwd())} && {{ stty -echo 2>/dev/null; echo {shlex.quote(READY.decode())}; "
             "IFS= read -r MXJAX_CLUSTER_TOKEN; export MXJAX_CLUSTER_TOKEN; "
             f"exec env {shlex.join(variables)} {shlex.join(command)}; }}")
    return [*shlex.split(ssh), host, there]


def _watch(processes: list[Started], scheduler: Scheduler, stopped: threading.Event, limits: _Limits) -> int:
    """Waits for the workers; returns the exit status."""
    failed: list[Started] = []
    deadline, restarts = limits.deadline, limits.restarts
    running = list(processes)
    while any(p.role == "worker" for p in running):
        if stopped.wait(0.05):
            tell("interrupted, ending all workers")
            return 130
        for process in _in_turn([p for p in running if p.code is not None], scheduler):
            running.remove(process)
            process.signal(signal.SIGKILL)  # its children end with it
            if not process.code:
                continue
            process.finish()
            tell(f"{process.label} {process.fate}")
            if restarts and process.role == "worker":
                restarts -= 1
                tell(f"{process.name} is started again")
                running.append(process.again())
                processes.append(running[-1])
                continue
            failed.append(process)
            if not limits.keep_going:
                deadline = min(deadline, time.monotonic() + limits.grace)
        if time.monotonic() > deadline:
            left = ", ".join(p.name for p in running)
            tell(f"ending {left}: " + ("the others had failed" if failed else f"{limits.timeout:g} s are over"))
            return first_failure(failed, scheduler) or 124
    if scheduler.failure:
        tell(scheduler.failure)
    for process in running:  # servers end with the last worker
        process.wait(5)
    return first_failure(failed, scheduler)


def _in_turn(processes: list[Started], scheduler: Scheduler) -> list[Started]:
    """Processes in the order in which they have left the job: causes before effects."""
    return sorted(processes, key=lambda p: (scheduler.turn(p.role, p.rank), p.ended))


def first_failure(failed: list[Started], scheduler: Scheduler) -> int:
    """The exit status of the process that failed first; 0: none did."""
    return _status(_in_turn(failed, scheduler)[0].code or 0) if failed else 0


def _end(processes: list[Started]) -> None:
    """Ends the remaining processes by SIGTERM, then by SIGKILL."""
    left = [p for p in processes if p.code is None]
    for number in (signal.SIGTERM, signal.SIGKILL):  # the latter also for children of processes that end in time
        for process in left:
            process.signal(number)
        end = time.monotonic() + 3
        for process in left:
            process.wait(max(end - time.monotonic(), 0.01))
    for process in processes:
        process.finish()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    parser.add_argument("-n", "--num-workers", type=int, default=0, help="number of worker processes")
    parser.add_argument("-s", "--num-servers", type=int, default=0, help="number of server processes (for dist_async)")
    parser.add_argument("-H", "--hostfile", help="file with one host per line (`host slots=2`), for ssh")
    parser.add_argument("--on", choices=("local", "ray"), default="local",
                        help="where to run: on this machine (or the hosts of -H, by ssh), or on a Ray cluster")
    parser.add_argument("--address", default="", help="the Ray cluster: auto, local or HOST:PORT (default: "
                                                      "RAY_ADDRESS, else a new local cluster)")
    parser.add_argument("--cpus", "--cpus-per-worker", type=int, default=0,
                        help="cores per worker on this machine, or CPUs per worker on Ray")
    parser.add_argument("--gpus", "--gpus-per-worker", type=int, default=0, help="GPUs per worker")
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE for all processes; may be repeated")
    parser.add_argument("--grace", type=float, default=20,
                        help="seconds for the other processes to exit after a failure")
    parser.add_argument("--timeout", type=float, default=0, help="time limit of the whole job in seconds; 0 for none")
    parser.add_argument("--keep-going", action="store_true", help="let the other workers continue if one fails")
    parser.add_argument("--restarts", type=int, default=0, help="maximum number of restarts of the job after a worker "
                                                                "failed; with servers or --keep-going, of that worker "
                                                                "only")
    parser.add_argument("--make-token", action="store_true",
                        help="write a secret to a file that only you can read, and exit; for jobs of other launchers "
                             "on several hosts")
    parser.add_argument("--no-cache", action="store_true", help="do not store compiled programs in files")
    parser.add_argument("--ssh", default="ssh -tt -o BatchMode=yes", help="the ssh command")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the script and its arguments")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if args.make_token:
        print(f"{secret.make()} holds a new secret; all machines of a job need this file, with mode 0600")
        return 0
    return launch(args.command, args.num_workers, servers=args.num_servers, hostfile=args.hostfile, cpus=args.cpus,
                  gpus=args.gpus, env=args.env, grace=args.grace, timeout=args.timeout,
                  keep_going=args.keep_going, restarts=args.restarts, ssh=args.ssh, cache=not args.no_cache,
                  on=args.on, address=args.address)
