"""`python -m mxjax launch -n 4 train.py --lr 0.1`: runs a script in several worker processes.

The workers are on this machine, or by ssh on the hosts of a file. Each finds its place in MXNet's variables (DMLC_*);
the scheduler runs in the launcher. Output is shown line by line under the worker's number. When a worker fails, the
others get `--grace` seconds to end by themselves; the launcher's exit status is the first failure's.

Each job has a new secret, without which nobody can take part. Workers on this machine find it in their environment; on
other hosts they read it from ssh, whose command line everybody on this machine can see.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from .. import _program_files
from .._files import numbered_lines
from ..base import MXNetError
from ..kvstore import secret
from ..kvstore.scheduler import Scheduler

__all__ = ["add_arguments", "launch", "main"]

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME")
_PREFIXES = ("MXNET_", "MXJAX_", "JAX_", "XLA_", "NCCL_", "GLOO_", "OMP_")
_KEPT = ("MXJAX_CLUSTER_MEMBER", "MXJAX_CLUSTER_TOKEN", "MXJAX_CLUSTER_TOKEN_FILE")  # not for others
_READY = b"mxjax launch: ready for the secret"


class _Process:
    """A worker or server that was started."""

    def __init__(self, role: str, rank: int, command: list[str], env: dict[str, str], cores: set[int] | None,
                 show: threading.Lock, token: str = "") -> None:
        self.again = functools.partial(_Process, role, rank, command, env, cores, show, token)
        self.role, self.rank, self.name = role, rank, f"{role} {rank}"
        self._prefix = f"[{rank}] " if role == "worker" else f"[server {rank}] "
        self._show = show
        self.ended = float("inf")
        self._token = token  # what it asks for on its standard output
        self.popen = subprocess.Popen(command, env=env, stdin=subprocess.PIPE if token else subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        if cores:
            os.sched_setaffinity(self.popen.pid, cores)
        self._reader = threading.Thread(target=self._copy, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _copy(self) -> None:
        for line in self.popen.stdout:
            if self._token and line.rstrip() == _READY:
                self._hand_over()
                continue
            with self._show:
                sys.stdout.write(self._prefix + line.decode(errors="replace").rstrip("\n") + "\n")
                sys.stdout.flush()
        self.popen.wait()
        self.ended = time.monotonic()

    def _hand_over(self) -> None:
        """Gives the process the job's secret."""
        try:
            with self.popen.stdin as pipe:
                pipe.write(self._token.encode() + b"\n")
        except OSError:
            pass  # it has ended
        self._token = ""

    def signal(self, number: int) -> None:
        """Sends a signal to the process and those it has started."""
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            pass

    def finish(self) -> None:
        """Waits for the rest of the output."""
        self._reader.join(2)


def _status(code: int) -> int:
    """The exit status of a process as shells give it."""
    return 128 - code if code < 0 else code


def _explained(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with status {code}"


def _hosts(path: str) -> list[str]:
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
        raise MXNetError(f"launch: host file {path} names no hosts")
    return hosts


def _own_address(hosts: Sequence[str]) -> str:
    """The address under which the hosts reach this machine: that of the way to the first of them that is another."""
    own = ["127.0.0.1"]
    for host in dict.fromkeys(hosts):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host.rpartition("@")[2], 9))
            except OSError as error:
                raise MXNetError(f"launch: host {host} is not known: {error}") from None
            own.append(probe.getsockname()[0])
    return next((address for address in own if not address.startswith("127.")), own[0])


def _command(command: Sequence[str]) -> list[str]:
    """A script is run by `mxjax run`, where `import mxnet` means mxjax; anything else as it is."""
    if command[0].endswith(".py"):
        return [sys.executable, "-m", "mxjax", "run", *command]
    if shutil.which(command[0]) is None:
        raise MXNetError(f"launch: there is no script or program {command[0]}")
    return list(command)


def launch(command: Sequence[str], workers: int, *, servers: int = 0, hostfile: str | None = None,
           cpus: int = 0, gpus: int = 0, env: Sequence[str] = (), grace: float = 20, timeout: float = 0,
           keep_going: bool = False, restarts: int = 0, ssh: str = "ssh -tt -o BatchMode=yes",
           cache: bool = False) -> int:
    """Runs a command in several processes; returns the exit status (of the first that failed).

    Args:
        command: a script with its arguments, or any program.
        workers, servers: how many processes; servers are for "dist_async".
        hostfile: file with a host a line; without it all run here.
        cpus: cores for each worker of this machine; 0: no limit.
        gpus: GPUs for each worker of a machine; 0: all see all.
        env: NAME=VALUE for all processes, or NAME to pass the launcher's on.
        grace: seconds for the others to end after one has failed, before they are ended.
        timeout: seconds for the whole job; 0: no limit.
        keep_going: let the others go on when one fails ("dist_async").
        restarts: so many times in all a worker that has failed is started anew, and comes back to its place
            ("dist_async" with servers); the others go on.
        ssh: the command that reaches a host.
        cache: have workers of this machine keep compiled programs in files.

    Raises:
        MXNetError: an argument is wrong.
    """
    if workers < 1 or servers < 0:
        raise MXNetError(f"launch: {workers} workers and {servers} servers: at least one worker is needed")
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise MXNetError("launch: no script was given")
    hosts = _hosts(hostfile) if hostfile else []
    worker_command, show = _command(command), threading.Lock()
    token, address = secrets.token_hex(32), _own_address(hosts)
    scheduler = Scheduler(workers, servers, secret=token.encode(), hosts=[address],
                          join_timeout=float(os.environ.get("MXJAX_JOIN_TIMEOUT", 300)),
                          heartbeat_timeout=float(os.environ.get("MXJAX_HEARTBEAT_TIMEOUT", 30)))
    common = {"DMLC_PS_ROOT_URI": address, "DMLC_PS_ROOT_PORT": str(scheduler.port),
              "DMLC_NUM_WORKER": str(workers), "DMLC_NUM_SERVER": str(servers), "PYTHONUNBUFFERED": "1"}
    if keep_going := keep_going or restarts > 0:  # workers that share JAX's devices cannot go on without one another
        common["MXJAX_JOIN_XLA"] = "0"
    for item in env:
        name, given, value = item.partition("=")
        common[name] = value if given else os.environ.get(name, "")
    kept = {}
    if cache:  # on other hosts the processor may be another
        with contextlib.suppress(MXNetError):  # without a folder they compile
            kept = _program_files.variables(_program_files.prepared())
    roles = [("server", i) for i in range(servers)] + [("worker", i) for i in range(workers)]
    processes: list[_Process] = []
    stopped = threading.Event()
    previous = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)} \
        if threading.current_thread() is threading.main_thread() else {}
    seats: dict[str, int] = {}
    try:
        for i, (role, rank) in enumerate(roles):
            host = hosts[i % len(hosts)] if hosts else ""
            seat = seats[host] = seats.get(host, -1) + 1 if role == "worker" else seats.get(host, -1)
            own = {**common, "DMLC_ROLE": role, f"DMLC_{role.upper()}_ID": str(rank)}
            if role == "server":
                own["MXJAX_SERVES"] = "1"
            if gpus and role == "worker":
                own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(seat * gpus, (seat + 1) * gpus)))
            run = worker_command if role == "worker" else [sys.executable, "-m", "mxjax.kvstore_server"]
            cores = None
            if cpus and role == "worker" and not hosts:
                available = sorted(os.sched_getaffinity(0))
                cores = {available[(seat * cpus + k) % len(available)] for k in range(cpus)}
            inherited = {k: v for k, v in os.environ.items() if k not in _KEPT}
            if host:
                processes.append(_Process(role, rank, _remote(ssh, host, own, run), inherited, cores, show, token))
            else:
                processes.append(_Process(role, rank, run, {**inherited, **kept, **own, "MXJAX_CLUSTER_TOKEN": token},
                                          cores, show))
        return _watch(processes, scheduler, stopped, grace, timeout, keep_going, restarts)
    finally:
        _end(processes)
        scheduler.close()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _remote(ssh: str, host: str, own: dict[str, str], command: list[str]) -> list[str]:
    """The command that runs another on a host, in the same folder and with the variables that matter.

    It asks for the secret once its terminal, if it has one, shows no longer what it reads.
    """
    passed = {k: v for k, v in os.environ.items() if k in _PASSED_ON or k.startswith(_PREFIXES)}
    variables = [f"{k}={v}" for k, v in {**passed, **own}.items() if k not in _KEPT]
    there = (f"cd {shlex.quote(os.getcwd())} && {{ stty -echo 2>/dev/null; echo {shlex.quote(_READY.decode())}; "
             "IFS= read -r MXJAX_CLUSTER_TOKEN; export MXJAX_CLUSTER_TOKEN; "
             f"exec env {shlex.join(variables)} {shlex.join(command)}; }}")
    return [*shlex.split(ssh), host, there]


def _watch(processes: list[_Process], scheduler: Scheduler, stopped: threading.Event, grace: float, timeout: float,
           keep_going: bool, restarts: int) -> int:
    """Waits for the workers; returns the exit status."""
    failed: list[_Process] = []
    deadline = time.monotonic() + timeout if timeout else float("inf")
    running = list(processes)
    while any(p.role == "worker" for p in running):
        if stopped.wait(0.05):
            print("launch: interrupted, ending all workers", file=sys.stderr, flush=True)
            return 130
        for process in [p for p in running if p.popen.poll() is not None]:
            running.remove(process)
            code = process.popen.returncode
            if not code:
                continue
            process.finish()
            print(f"launch: {process.name} (process {process.popen.pid}) {_explained(code)}", file=sys.stderr,
                  flush=True)
            if restarts and process.role == "worker":
                restarts -= 1
                print(f"launch: {process.name} is started again", file=sys.stderr, flush=True)
                running.append(process.again())
                processes.append(running[-1])
                continue
            failed.append(process)
            if not keep_going:
                deadline = min(deadline, time.monotonic() + grace)
        if time.monotonic() > deadline:
            left = ", ".join(p.name for p in running)
            print(f"launch: ending {left}: " + ("the others had failed" if failed else f"{timeout:g} s are over"),
                  file=sys.stderr, flush=True)
            return _first(failed, scheduler) or 124
    if scheduler.failure:
        print(f"launch: {scheduler.failure}", file=sys.stderr, flush=True)
    for process in running:  # servers end with the last worker
        try:
            process.popen.wait(5)
        except subprocess.TimeoutExpired:
            pass
    return _first(failed, scheduler)


def _first(failed: list[_Process], scheduler: Scheduler) -> int:
    """The exit status of the process that failed first; 0: none did."""
    first = min(failed, key=lambda p: (scheduler.turn(p.role, p.rank), p.ended), default=None)
    return _status(first.popen.returncode) if first else 0


def _end(processes: list[_Process]) -> None:
    """Ends what still runs: politely, then not."""
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        left = [p for p in processes if p.popen.poll() is None]
        for process in left:
            process.signal(number)
        end = time.monotonic() + patience
        for process in left:
            try:
                process.popen.wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                pass
    for process in processes:
        process.finish()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    parser.add_argument("-n", "--num-workers", type=int, default=0, help="number of worker processes")
    parser.add_argument("-s", "--num-servers", type=int, default=0, help="number of server processes (for dist_async)")
    parser.add_argument("-H", "--hostfile", help="file with a host a line (`host slots=2`), reached by ssh")
    parser.add_argument("--cpus", type=int, default=0, help="cores for each worker on this machine")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs for each worker")
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE for all processes; may be repeated")
    parser.add_argument("--grace", type=float, default=20, help="seconds for the others to end after a failure (20)")
    parser.add_argument("--timeout", type=float, default=0, help="seconds for the whole job (no limit)")
    parser.add_argument("--keep-going", action="store_true", help="let the others go on when a worker fails")
    parser.add_argument("--restarts", type=int, default=0, help="so often a failed worker is started again")
    parser.add_argument("--make-token", action="store_true",
                        help="only write a secret to your own file, for jobs of other launchers on several hosts")
    parser.add_argument("--no-cache", action="store_true", help="do not keep compiled programs in files")
    parser.add_argument("--ssh", default="ssh -tt -o BatchMode=yes", help="the command that reaches a host")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the script and its arguments")


def main(given: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if given.make_token:
        print(f"{secret.make()} holds a new secret; all machines of a job need this file, with mode 0600")
        return 0
    return launch(given.command, given.num_workers, servers=given.num_servers, hostfile=given.hostfile, cpus=given.cpus,
                  gpus=given.gpus, env=given.env, grace=given.grace, timeout=given.timeout,
                  keep_going=given.keep_going, restarts=given.restarts, ssh=given.ssh, cache=not given.no_cache)
