"""The processes that `python -m mxjax launch` starts, and where their output goes."""

from __future__ import annotations

import abc
import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

__all__ = ["KEPT", "READY", "Process", "Screen", "Started", "passed_on", "tell"]

KEPT = ("MXJAX_CLUSTER_MEMBER", "MXJAX_CLUSTER_TOKEN", "MXJAX_CLUSTER_TOKEN_FILE")  # not for others
READY = b"mxjax launch: ready for the secret"
_PREFIXES = ("MXNET_", "MXJAX_", "JAX_", "XLA_", "NCCL_", "GLOO_", "OMP_")


def passed_on(names: Sequence[str] = ()) -> dict[str, str]:
    """This process's variables that are for processes on other machines too, and those of these names."""
    return {k: v for k, v in os.environ.items() if (k in names or k.startswith(_PREFIXES)) and k not in KEPT}


class Screen:
    """The launcher's standard output, which all processes' lines go to."""

    def __init__(self) -> None:
        self._lock, self._lost = threading.Lock(), False

    def show(self, line: str) -> None:
        """Writes a line. If that fails (a full disk, a reader that has ended), the job continues without output."""
        with self._lock:
            if self._lost:
                return
            try:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            except OSError as error:
                self._lost = True
                sys.stdout = open(os.devnull, "w")  # the old stream's buffer would fail again at the end
                tell(f"the output cannot be written any more ({error.strerror}); the job goes on without")


class Started(abc.ABC):
    """A started worker or server.

    Args:
        role, rank: which.
        screen: target of its output.
    """

    again: Callable[[], Started]  # starts it another time
    pid: int | None = None

    def __init__(self, role: str, rank: int, screen: Screen) -> None:
        self.role, self.rank, self.name = role, rank, f"{role} {rank}"
        self.ended = float("inf")
        self._prefix = f"[{rank}] " if role == "worker" else f"[server {rank}] "
        self._screen = screen

    def show(self, line: bytes) -> None:
        """Shows a line of its output."""
        self._screen.show(self._prefix + line.decode(errors="replace").rstrip("\n"))

    @property
    @abc.abstractmethod
    def code(self) -> int | None:
        """Returns how it has ended: its exit status, or less than 0 for a signal; None: it runs."""

    @property
    def fate(self) -> str:
        """Returns the end of the process, in words."""
        code = self.code or 0
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with status {code}"

    @property
    def label(self) -> str:
        """Returns which process it is, for messages."""
        return f"{self.name} (process {self.pid})"

    @abc.abstractmethod
    def signal(self, number: int) -> None:
        """Sends a signal to the process and those it has started."""

    def wait(self, seconds: float) -> None:
        """Waits until it has ended, or so long."""
        end = time.monotonic() + seconds
        while self.code is None and time.monotonic() < end:
            time.sleep(0.02)

    @abc.abstractmethod
    def finish(self) -> None:
        """Waits for the rest of the output."""


class Process(Started):
    """One that was started here, or by ssh."""

    def __init__(self, role: str, rank: int, screen: Screen, command: list[str], env: dict[str, str],
                 cores: set[int] | None, token: str = "") -> None:
        super().__init__(role, rank, screen)
        self.again = functools.partial(Process, role, rank, screen, command, env, cores, token)
        self._token = token  # its request on the standard output
        self._popen = subprocess.Popen(command, env=env, stdin=subprocess.PIPE if token else subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = self._popen.pid
        if cores:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.sched_setaffinity(self.pid, cores)
        self._reader = threading.Thread(target=self._copy, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _copy(self) -> None:
        for line in self._popen.stdout or ():
            if self._token and line.rstrip() == READY:
                self._hand_over()
            else:
                self.show(line)
        self._popen.wait()
        self.ended = time.monotonic()

    def _hand_over(self) -> None:
        """Gives the process the job's secret."""
        pipe = self._popen.stdin
        if pipe is not None:
            with contextlib.suppress(OSError), pipe:  # it has ended
                pipe.write(self._token.encode() + b"\n")
        self._token = ""

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, number)

    def finish(self) -> None:
        self._reader.join(2)


def tell(text: str) -> None:
    """Writes a message of the launcher to the standard error."""
    print(f"launch: {text}", file=sys.stderr, flush=True)
