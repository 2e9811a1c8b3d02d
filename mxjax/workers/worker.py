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

import numpy as np

from .._support import settings
from .._support.tracebacks import shortened
from ..kernel.policy import expect_few_calls
from ..random import seed
from ..util import set_np
from . import transport

__all__ = ["end", "run", "serve"]


def serve(fd: int) -> None:
    """The server's loop, over the socket `fd`.

    The first object is a list of modules that the workers are likely to need, which the server imports for all of them.
    Requests (`transport.REQUEST`) start a worker, with its socket and a file for its last output (answer: pid), or end
    the worker with a pid (answer: exit status). An answer has the number of its request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process handles Ctrl-C
    with contextlib.suppress(ImportError):
        importlib.import_module("cv2").setNumThreads(settings.OPENCV_THREADS())
    with contextlib.suppress(ConnectionError, EOFError), socket.socket(fileno=fd) as control:  # the parent has ended
        for module in ("mxjax.image", *transport.receive(control)):
            with contextlib.suppress(ImportError):  # it is an error only if a worker uses it
                importlib.import_module(module)
        while True:
            request, fds, _, _ = socket.recv_fds(control, transport.REQUEST.size, 2)
            if not request:
                return
            number, pid = transport.REQUEST.unpack(request)
            if fds:
                pid = os.fork()
                if not pid:
                    control.close()
                    run(socket.socket(fileno=fds[0]), fds[1])
                for fd in fds:
                    os.close(fd)
            control.sendall(transport.REQUEST.pack(number, pid if fds else end(pid)))


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
        os.chdir(setup["folder"])
        os.environ.update(setup["environment"])
        sys.path[:] = setup["path"]
        if setup["alias"]:  # `import mxnet` imports mxjax there, so it must here
            importlib.import_module("mxjax.interop").install_mxnet_alias()
        set_np(*setup["numpy"])
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
