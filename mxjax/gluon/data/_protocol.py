"""MXNet's public pieces for worker processes of one's own: queues that carry arrays, and the loops around them.

The `DataLoader` does not need them; scripts that start processes themselves do.
"""

from __future__ import annotations

import io
import math
import mmap
import multiprocessing.queues
import os
import pickle
import threading
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import numpy as np

from ...context import cpu, cpu_pinned
from ...ndarray import NDArray
from ...ndarray.ndarray import _from_host
from . import _transport

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue", "fetcher_loop_v1", "rebuild_ndarray", "rebuild_np_ndarray",
           "reduce_ndarray", "reduce_np_ndarray", "worker_loop_v1"]


def rebuild_ndarray(pid: int, fd: Any, shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An NDArray out of what `reduce_ndarray` gave: who sent it, a descriptor of the memory, shape and dtype."""
    number = fd.detach()
    try:
        memory = mmap.mmap(number, 0)
    finally:
        os.close(number)
    return _from_host(np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape), cpu())


def reduce_ndarray(data: NDArray) -> tuple:
    """How an NDArray is sent to another process, by shared memory: (function, its arguments)."""
    values = data.asnumpy()
    with _transport._memory() as file:
        file.write(values.data if values.size else b"\0")
        file.flush()
        return rebuild_ndarray, (os.getpid(), reduction.DupFd(file.fileno()), values.shape, values.dtype)


def rebuild_np_ndarray(pid: int, fd: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An mx.np.ndarray out of what `reduce_np_ndarray` gave."""
    return rebuild_ndarray(pid, fd, shape, dtype).as_np_ndarray()


def reduce_np_ndarray(data: Any) -> tuple:
    """As `reduce_ndarray`, for mx.np.ndarrays."""
    return rebuild_np_ndarray, reduce_ndarray(data)[1]


class ConnectionWrapper:
    """A connection whose `send` and `recv` take arrays; otherwise the connection it is given.

    Args:
        conn: a `multiprocessing.connection.Connection`.
    """

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def send(self, obj: Any) -> None:
        """Sends an object."""
        out = io.BytesIO()
        reduction.ForkingPickler(out, pickle.HIGHEST_PROTOCOL).dump(obj)
        self._conn.send_bytes(out.getvalue())

    def recv(self) -> Any:
        """The next object."""
        return pickle.loads(self._conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_conn"), name)


class Queue(multiprocessing.queues.Queue):
    """A queue between processes that carries arrays; arguments as `multiprocessing.Queue`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class SimpleQueue(multiprocessing.queues.SimpleQueue):
    """A queue between processes that carries arrays; arguments as `multiprocessing.SimpleQueue`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


def worker_loop_v1(dataset: Any, key_queue: Any, data_queue: Any, batchify_fn: Callable) -> None:
    """Loads batches: takes (number, indices) from a queue, puts (number, batch) into another; (None, None) ends it."""
    while (task := key_queue.get())[0] is not None:
        number, indices = task
        data_queue.put((number, batchify_fn([dataset[i] for i in indices])))


def fetcher_loop_v1(data_queue: Any, data_buffer: dict[int, Any], pin_memory: bool = False, pin_device_id: int = 0,
                    data_buffer_lock: threading.Lock | None = None) -> None:
    """Takes (number, batch) from a queue and stores the batches by number; (None, None) ends it."""
    from .dataloader import _as_in_context
    ctx = cpu_pinned(pin_device_id) if pin_memory else cpu()
    lock = data_buffer_lock or threading.Lock()
    while (item := data_queue.get())[0] is not None:
        with lock:
            data_buffer[item[0]] = _as_in_context(item[1], ctx)
