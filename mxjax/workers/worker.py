"""The code of other processes: a server that forks workers, and the loop of a worker.

The server is a new interpreter that has imported the modules for workers but has not started a JAX backend.
Therefore it can be forked safely, unlike a training process. Server and workers end when their sockets are closed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import pickle
import random
import signal
import socket
import sys
import traceback
import warnings
from typing import IO, Any, NamedTuple

import numpy as np

from .._support import settings
from .._support.tracebacks import shortened
from .._xla.process import has_threads
from ..kernel.policy import expect_few_calls
from ..random import seed
from ..util import set_np
from . import transport

__all__ = ["PREPARE", "START", "Preparation", "end", "fork", "run", "serve"]

PREPARE = -1  # in place of the pid in a request
START = "import sys; sys.path[:] = {!r}; from mxjax.workers.worker import serve; serve(*{!r})"


class Preparation(NamedTuple):
    """Settings for workers, modules that the server imports for them, and modules that it leaves to them."""

    setup: dict[str, Any]
    modules: list[str]
    refused: list[str]

    def file(self) -> IO[bytes]:
        """Returns a file in memory for `read`, whose descriptor another process gets."""
        file = transport.memory_file()
        pickle.dump(tuple(self), file)
        file.flush()
        return file

    @classmethod
    def read(cls, fd: int) -> Preparation:
        """Reads a file in memory and closes it."""
        with os.fdopen(fd, "rb") as file:
            file.seek(0)
            return cls(*pickle.load(file))


def serve(fd: int, prepared: int | None = None) -> None:
    """The server's loop, over the socket `fd`.

    Requests (`transport.REQUEST`) start a worker, with its socket and a file for its last output (answer: pid), end the
    worker with a pid (answer: exit status), or for pid -1 prepare the server for workers, with the file of a
    `Preparation` (no answer). An answer has the number of its request. A request is one message, since several threads
    and the garbage collector send them.

    Args:
        fd: descriptor of the socket.
        prepared: descriptor of the file of all preparations until now, in a server that begins anew.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process handles Ctrl-C
    with contextlib.suppress(ImportError):
        importlib.import_module("cv2").setNumThreads(settings.OPENCV_THREADS())
    importlib.import_module("mxjax.image")
    done = Preparation({}, [], [])
    if prepared is not None:
        done = Preparation.read(prepared)
        _prepare(fd, done)
    with contextlib.suppress(ConnectionError, EOFError), socket.socket(fileno=fd) as control:  # the parent has ended
        while True:
            request, fds, _, _ = socket.recv_fds(control, transport.REQUEST.size, 2)
            if not request:
                return
            number, pid = transport.REQUEST.unpack(request)
            if pid == PREPARE:
                setup, modules, _ = Preparation.read(fds[0])
                done = Preparation(setup, done.modules + modules, done.refused)
                _prepare(fd, done)
                continue
            if fds:
                pid = fork()
                if not pid:
                    control.close()
                    run(socket.socket(fileno=fds[0]), fds[1])
                for received in fds:
                    os.close(received)
            control.sendall(transport.REQUEST.pack(number, pid if fds else end(pid)))


def _prepare(fd: int, what: Preparation) -> None:
    """Imports modules for workers.

    A module may start JAX's devices, whose threads a fork does not copy. Then this process begins anew without it. Its
    pid, its socket and its workers remain.
    """
    with contextlib.suppress(Exception):  # workers report it
        _adopt(what.setup)
    for module in what.modules:
        if module in what.refused:
            continue
        with contextlib.suppress(Exception, SystemExit):  # it is an error only if a worker imports it
            importlib.import_module(module)
        if has_threads():
            again = what._replace(refused=[*what.refused, module]).file()
            for inherited in (fd, again.fileno()):
                os.set_inheritable(inherited, True)
            os.execv(sys.executable, [sys.executable, "-c", START.format(what.setup["path"], (fd, again.fileno()))])


def _adopt(setup: dict[str, Any]) -> None:
    """Applies settings of the training process: its folder, environment, search path, alias and NumPy semantics."""
    os.chdir(setup["folder"])
    os.environ.update(setup["environment"])
    sys.path[:] = setup["path"]
    if setup["alias"]:  # `import mxnet` imports mxjax there, so it must here
        importlib.import_module("mxjax.interop").install_mxnet_alias()
    set_np(*setup["numpy"])


def fork() -> int:
    """Forks as `os.fork`, without its warning about threads: docs/design/0018 defines what a child may do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def end(pid: int) -> int:
    """Ends a worker, if it is still running, and returns its exit code as `os.waitstatus_to_exitcode`."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def run(sock: socket.socket, last_words: int, job: tuple | None = None) -> None:
    """Runs a worker until its socket is closed; does not return.

    Args:
        sock: connection to the training process.
        last_words: descriptor of the file for the last output, such as a fatal error.
        job: the data set and the function that creates batches; None: they are sent over the socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process handles Ctrl-C
    faulthandler.enable(last_words)
    code = 1
    try:
        _work(sock, job)
        code = 0
    except (EOFError, ConnectionError):  # the training process has ended
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(sock: socket.socket, job: tuple | None) -> None:
    try:
        setup = transport.receive(sock)
        _adopt(setup)
        expect_few_calls()
        random.seed(setup["seeds"][0])
        np.random.seed(setup["seeds"][1])
        seed(setup["seeds"][2])
        dataset, batchify = job or transport.receive(sock)
    except EOFError:
        raise
    except Exception as error:
        _answer(sock, None, error)
        return
    while True:
        number, indices = transport.receive(sock)
        try:
            batch = batchify([dataset[i] for i in indices])
        except Exception as error:
            _answer(sock, number, error)
            continue
        try:
            transport.send(sock, (number, batch, None))
        except TypeError as error:
            _answer(sock, number, error)


def _answer(sock: socket.socket, number: object, error: Exception) -> None:
    """Sends an error with its traceback as text, or only the text if the error cannot be pickled."""
    with shortened(error):
        text = "".join(traceback.format_exception(error))
    sent = None
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(error))
        sent = error
    transport.send(sock, (number, sent, text))
