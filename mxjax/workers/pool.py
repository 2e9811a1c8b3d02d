"""Worker processes and threads that load batches: the side of the training process."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import multiprocessing
import os
import pickle
import random
import selectors
import signal
import site
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._random import streams as mx_random
from .._xla.process import check_home
from ..base import MXNetError
from ..context import cpu
from ..util import is_np_array, is_np_shape, np_array, np_shape
from . import transport
from .worker import PREPARE, START, Preparation, end, fork, run

__all__ = ["ProcessPool", "RemoteTraceback", "ThreadPool", "begin_thread", "installed"]


# Imported by the server if they are imported here: each worker would spend 0.3 s on them.
_OFTEN_NEEDED = ("mxjax.gluon", "mxjax.interop._alias", "mxjax.interpret")
_IMPORTED = (types.FunctionType, types.ModuleType, type)
# Folders of packages that do not change while a process runs.
_INSTALLED = (*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib"),
              str(Path(__file__).parents[1]))

# this process's ends of socket pairs: a worker that inherits one never receives the end of its stream
_ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class RemoteTraceback(Exception):
    """The traceback, as text, of an error in a worker: the cause of the error raised here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _Server:
    """The process that forks workers (see `worker`); one for each training process, started when needed."""

    lock = threading.Lock()  # a new one in each process
    _current: _Server | None = None

    @classmethod
    def get(cls) -> _Server:
        """Returns the server of this process; starts it if there is none."""
        with cls.lock:
            if cls._current is None or cls._current.owner != os.getpid() or cls._current.process.poll() is not None:
                cls._current = cls()
            return cls._current

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._numbers, self._receiving = itertools.count(), threading.Lock()
        self._heard: list[bytes] = []
        self._prepared: set[str] = set()
        self._answers: dict[int, int] = {}  # by the numbers of requests, until the worker has ended
        self._socket, theirs = socket.socketpair()
        _ends.add(self._socket)
        start = START.format(_path(), (theirs.fileno(),))
        # Workers compute on the host, whatever the training process uses, and share its cores.
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", start], pass_fds=[theirs.fileno()],
                                             env=environment, stdin=subprocess.DEVNULL)
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the server and its workers."""
        if self.owner == os.getpid():
            self._socket.close()
            self.process.wait()

    def prepare(self, setup: dict[str, Any], modules: set[str]) -> None:
        """Requests that the server imports the installed modules that these modules need, before it forks workers."""
        names = [name for name in list(sys.modules) if name.startswith(_OFTEN_NEEDED)] + installed(modules)
        new = [name for name in names if name not in self._prepared]
        if new:
            with Preparation(setup, new, []).file() as file:
                self._ask(PREPARE, [file.fileno()])
            self._prepared.update(new)

    def _ask(self, pid: int, fds: Sequence[int] = ()) -> int:
        """Sends a request and returns its number, for `answer`."""
        number = next(self._numbers)
        try:
            socket.send_fds(self._socket, [transport.REQUEST.pack(number, pid)], fds)
        except OSError:
            raise self._ended() from None
        return number

    def answer(self, number: int) -> int:
        """Waits for the answer to a request and returns it; a new server needs about a second."""
        with self._receiving:
            while number not in self._answers:
                try:  # in one call: no signal is handled between receiving and keeping
                    self._heard.extend(map(self._socket.recv, [transport.REQUEST.size], [socket.MSG_WAITALL]))
                    self._answers.update(map(transport.REQUEST.unpack, self._heard))
                except (OSError, struct.error):
                    raise self._ended() from None
                self._heard.clear()
            return self._answers[number]

    def _ended(self) -> MXNetError:
        return MXNetError("the process that starts worker processes has ended with status "
                          f"{self.process.wait()}; its output gives the reason")

    def start(self, sock: socket.socket, last_words: IO[bytes]) -> int:
        """Requests a worker and returns the number of the request; the answer is its pid."""
        return self._ask(0, [sock.fileno(), last_words.fileno()])

    def end(self, number: int) -> int:
        """Ends the worker of a request and returns its exit status, negative for a signal."""
        request = self._ask(self.answer(number))
        status = self.answer(request)
        del self._answers[number], self._answers[request]
        return status


class _Forks:
    """Forks workers from this process, for data sets that cannot be sent; has the interface of `_Server`.

    Args:
        job: the data set and the function that creates batches.
    """

    def __init__(self, job: tuple[Any, Callable]) -> None:
        self._job = job

    def start(self, sock: socket.socket, last_words: IO[bytes]) -> int:
        """Starts a worker and returns its pid."""
        pid = fork()
        if not pid:
            for end in list(_ends):
                end.close()
            with cpu():  # as in a worker of `_Server`: a child cannot use accelerators
                run(sock, last_words.fileno(), self._job)
        return pid

    def answer(self, pid: int) -> int:
        """Returns the pid that `start` returned."""
        return pid

    def end(self, pid: int) -> int:
        """Ends a worker and returns its exit status, negative for a signal."""
        return end(pid)


def _begin_in_child() -> None:
    _Server.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


class _Worker:
    """A worker process with its socket and the indices of its batches by number (`busy`).

    Args:
        server: the object that starts it.
        owner: name of the loader, for messages.
    """

    def __init__(self, server: _Server | _Forks, owner: str) -> None:
        self.server, self._owner = server, owner
        self.busy: dict[int, list[Any]] = {}
        self.last_words = tempfile.TemporaryFile()
        self.socket, theirs = socket.socketpair()
        _ends.add(self.socket)
        with theirs:
            self._start: int | None = server.start(theirs, self.last_words)

    @property
    def pid(self) -> int | None:
        """Pid of the process; waits until it is started. None if it has ended."""
        return None if self._start is None else self.server.answer(self._start)

    def end(self) -> int | None:
        """Ends the process and returns its exit status, negative for a signal; None if it had ended."""
        number, self._start = self._start, None
        return None if number is None else self.server.end(number)

    def post_mortem(self) -> str:
        """Returns a message with the exit status, the samples in progress and the last output."""
        pid, status = self.pid, self.end()
        if status is None or status >= 0:
            how = f"exited with status {status}"
        else:
            how = f"was killed by {signal.Signals(-status).name}"
        what = f" while loading the samples {next(iter(self.busy.values()))}" if self.busy else ""
        self.last_words.seek(0)
        words = self.last_words.read().decode(errors="replace")
        return f"{self._owner} worker (pid {pid}) {how}{what}" + (f"\n{words}" if words else "")


class ProcessPool:
    """Worker processes with a copy of the data set each.

    Args:
        count: number of processes.
        dataset: data set from which they load samples.
        batchify: function(list of samples) -> batch.
        ahead: largest number of batches in progress.
        owner: name of the loader, for messages.

    Raises:
        TypeError: the data set or the function cannot be sent to another process, and this system
            does not support a fork instead.
    """

    kind = "process"

    def __init__(self, count: int, dataset: object, batchify: Callable, ahead: int, owner: str = "DataLoader") -> None:
        if not hasattr(socket, "send_fds"):
            raise MXNetError(f"{owner}'s worker processes need Unix sockets, which this system does not have: use "
                             "thread_pool=True")
        self._owner, self._name = os.getpid(), owner
        self._lock = threading.Lock()
        self._limit = max(2, -(-ahead // count))
        self._waiting: deque[tuple[int, list[Any]]] = deque()
        self._done: dict[int, tuple[Any, str | None]] = {}
        self._dropped: deque[int] = deque()
        self._failure: str | None = None
        self._next = 0
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        setup = {"folder": os.getcwd(), "environment": _environment(), "path": _path(),
                 "numpy": (is_np_shape(), is_np_array()), "alias": sys.modules.get("mxnet") is sys.modules["mxjax"]}
        try:
            modules: set[str] = set()
            try:
                job = transport.dumps((dataset, batchify), modules)
            except TypeError:  # it contains an object of this process: a lock, an open file, a generator
                if not sys.platform.startswith("linux"):
                    raise
                job = None
            if job is None:
                server = _Forks((dataset, batchify))
            else:
                server = _Server.get()
                server.prepare(setup, modules)
            for i in range(count):
                worker = _Worker(server, owner)
                self._workers.append(worker)
                self._selector.register(worker.socket, selectors.EVENT_READ, worker)
                transport.send(worker.socket, {**setup, "seeds": _seeds(i)})
                if job is not None:
                    transport.send_dumped(worker.socket, *job)
        except BaseException:
            self.close()
            raise

    def submit(self, indices: Sequence[Any]) -> int:
        """Requests a batch and returns its number, for `get`."""
        check_home(self._owner, f"{self._name} cannot go on")
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._waiting.append((number, list(indices)))
            self._hand_out()
            return number

    def _hand_out(self) -> None:
        """Sends waiting batches to the workers with the fewest batches in progress."""
        self._forget()
        while self._waiting and self._failure is None:
            worker = min(self._workers, key=lambda w: len(w.busy))
            if len(worker.busy) >= self._limit:
                return
            try:
                transport.send(worker.socket, self._waiting[0])
            except OSError:
                self._fail(worker)
                return
            number, indices = self._waiting.popleft()
            worker.busy[number] = indices

    def get(self, number: int, timeout: float) -> Any:
        """Waits for a batch and returns it.

        Args:
            number: number of the batch, from `submit`.
            timeout: seconds to wait.

        Raises:
            multiprocessing.TimeoutError: the batch is not complete in time.
            MXNetError: a worker died.
            Exception: the error raised in the worker; its cause is a RemoteTraceback.
        """
        check_home(self._owner, f"{self._name} cannot go on")
        deadline = time.monotonic() + timeout
        with self._lock:
            while number not in self._done:
                if self._failure is not None:
                    raise MXNetError(self._failure)
                for key, _ in self._selector.select(max(0, deadline - time.monotonic())):
                    self._read(key.data)
                if number not in self._done and time.monotonic() >= deadline:
                    raise multiprocessing.TimeoutError
            batch, text = self._done.pop(number)
        if text is None:
            return batch
        if batch is None:
            raise MXNetError(f"a {self._name} worker failed:\n{text}")
        raise batch from RemoteTraceback(text)

    def drop(self, number: int) -> None:
        """Marks a batch as not needed. Takes no lock, since the garbage collector may call it at any time."""
        self._dropped.append(number)

    def _forget(self) -> None:
        """Removes dropped batches; those in progress are removed when they are complete."""
        for _ in range(len(self._dropped)):
            number = self._dropped.popleft()
            if self._done.pop(number, None) is None and any(number in worker.busy for worker in self._workers):
                self._dropped.append(number)
            else:
                self._waiting = deque([task for task in self._waiting if task[0] != number])

    def is_done(self, number: int) -> bool:
        """Returns whether `get` returns or raises at once for this batch."""
        with self._lock:
            for key, _ in self._selector.select(0):
                self._read(key.data)
            return number in self._done or self._failure is not None

    def _read(self, worker: _Worker) -> None:
        try:
            number, batch, text = transport.receive(worker.socket)
        except (EOFError, OSError):
            self._fail(worker)
            return
        if number is None:  # it failed before the first batch
            self._failure = f"a {self._name} worker could not take over the data set:\n{text}"
            return
        del worker.busy[number]
        self._done[number] = batch, text
        self._hand_out()

    def _fail(self, worker: _Worker) -> None:
        self._failure = worker.post_mortem()
        self._selector.unregister(worker.socket)

    def close(self) -> None:
        """Ends the workers."""
        if self._owner != os.getpid():
            return
        for worker in self._workers:
            worker.socket.close()
            with contextlib.suppress(MXNetError):  # the server has ended, and its workers with it
                worker.end()
        self._workers.clear()
        self._selector.close()


def installed(modules: Iterable[str]) -> list[str]:
    """Returns the names of the installed modules among modules and those that the others refer to.

    A file of the user's may change before a worker imports it, but not what is installed.
    """
    found: list[str] = []
    seen, left = set(), list(modules)
    while left:
        name = left.pop()
        if not isinstance(name, str) or name in seen or name == "__main__":  # functions of `eval` have no module
            continue
        seen.add(name)
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None) or ""
        if file.startswith(_INSTALLED):
            found.append(name)
        elif file:
            values = [v for v in list(vars(module).values()) if isinstance(v, _IMPORTED)]
            left.extend([v.__name__ if isinstance(v, types.ModuleType) else v.__module__ for v in values])
    return found


def _path() -> list[str]:
    """Returns the search path without entries of other types, which Python ignores, too."""
    return [entry for entry in sys.path if isinstance(entry, str)]


def _environment() -> dict[str, str]:
    """Returns the environment variables for workers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_PLATFORM")
            and not name.endswith("_NUM_THREADS")}


def _seeds(worker: int) -> tuple[int, int, int]:
    """Returns seeds of a worker for Python, NumPy and MXNet, derived from the states of their generators here.

    A seeded script is therefore reproducible, workers draw different numbers, and the generators of
    this process do not advance.
    """
    states = random.getstate(), np.random.get_state(legacy=False), mx_random.state(cpu())
    first, second, third = (int.from_bytes(hashlib.sha256(pickle.dumps((state, worker))).digest()[:4])
                            for state in states)
    return first, second, third


def begin_thread(active_shape: bool, active_array: bool) -> None:
    """Turns NumPy's shapes and arrays on or off for the current thread."""
    np_shape(active_shape).__enter__()
    np_array(active_array).__enter__()


class ThreadPool:
    """Worker threads; the interface of `ProcessPool`."""

    kind = "thread"

    def __init__(self, count: int, dataset: Any, batchify: Callable, ahead: int) -> None:
        self._owner = os.getpid()
        self._threads = futures.ThreadPoolExecutor(count, "DataLoader", begin_thread, (is_np_shape(), is_np_array()))
        self._load = lambda indices: batchify([dataset[i] for i in indices])

    def submit(self, indices: Sequence[Any]) -> futures.Future:
        """Requests a batch and returns a future, for `get`."""
        check_home(self._owner, "DataLoader cannot go on")
        return self._threads.submit(self._load, indices)

    def get(self, future: futures.Future, timeout: float) -> Any:
        """Waits for a batch and returns it; raises as `ProcessPool.get`."""
        check_home(self._owner, "DataLoader cannot go on")
        try:
            return future.result(timeout)
        except futures.TimeoutError:
            if future.done():  # raised by the data set
                raise
            raise multiprocessing.TimeoutError from None

    def drop(self, future: futures.Future) -> None:
        """Marks a batch as not needed."""
        future.cancel()

    def close(self) -> None:
        """Ends the threads after their current batches."""
        self._threads.shutdown(wait=False, cancel_futures=True)
