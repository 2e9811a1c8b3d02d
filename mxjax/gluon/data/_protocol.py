"""MXNet's building blocks for custom worker processes: queues that carry arrays, the loops around
them, and the iterator over a `multiprocessing` pool that libraries subclass.

The `DataLoader` does not use them. They serve scripts and libraries that start their own processes.
"""

from __future__ import annotations

import io
import math
import mmap
import multiprocessing.queues
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

from ...array.dense import _from_host
from ...context import Context, cpu, cpu_pinned
from ...ndarray import NDArray
from ...workers import transport

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ...numpy import ndarray
    from ...ops.params import DTypeLike
    from .._types import Indexed
    from .sampler import Sampler

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue", "fetcher_loop_v1", "rebuild_ndarray", "rebuild_np_ndarray",
           "reduce_ndarray", "reduce_np_ndarray", "worker_loop_v1"]


def rebuild_ndarray(pid: int, fd: Any, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """Rebuilds an NDArray from the result of `reduce_ndarray`: sender, memory descriptor, shape and dtype."""
    number = fd.detach()
    try:
        memory = mmap.mmap(number, 0)
    finally:
        os.close(number)
    return _from_host(np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape), cpu())


def reduce_ndarray(data: NDArray) -> tuple:
    """Reduces an NDArray to (function, arguments) for another process, through shared memory."""
    values = data.asnumpy()
    with transport.memory_file() as file:
        file.write(values.data if values.size else b"\0")
        file.flush()
        return rebuild_ndarray, (os.getpid(), reduction.DupFd(file.fileno()), values.shape, values.dtype)


def rebuild_np_ndarray(pid: int, fd: Any, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Rebuilds an mx.np.ndarray from the result of `reduce_np_ndarray`."""
    return rebuild_ndarray(pid, fd, shape, dtype).as_np_ndarray()


def reduce_np_ndarray(data: ndarray) -> tuple:
    """Like `reduce_ndarray`, for mx.np.ndarrays."""
    return rebuild_np_ndarray, reduce_ndarray(data)[1]


class ConnectionWrapper:
    """Wraps a connection so that `send` and `recv` also transfer arrays.

    Args:
        conn: a `multiprocessing.connection.Connection`.
    """

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def send(self, obj: object) -> None:
        """Sends an object."""
        out = io.BytesIO()
        reduction.ForkingPickler(out, pickle.HIGHEST_PROTOCOL).dump(obj)
        self._conn.send_bytes(out.getvalue())

    def recv(self) -> Any:
        """Receives an object."""
        return pickle.loads(self._conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_conn"), name)


class Queue(multiprocessing.queues.Queue):
    """A queue between processes that also carries arrays; arguments as in `multiprocessing.Queue`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class SimpleQueue(multiprocessing.queues.SimpleQueue):
    """A queue between processes that also carries arrays; arguments as in `multiprocessing.SimpleQueue`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


def _as_in_context(data: object, ctx: Context) -> Any:
    """A batch's arrays on a context."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, dict):
        return {name: _as_in_context(part, ctx) for name, part in data.items()}
    if isinstance(data, (list, tuple)):
        parts = [_as_in_context(part, ctx) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    return data


def worker_loop_v1(dataset: Indexed, key_queue: Any, data_queue: Any, batchify_fn: Callable) -> None:
    """Loads batches: reads (number, indices) from a queue and writes (number, batch) to another, until (None, None)."""
    while (task := key_queue.get())[0] is not None:
        number, indices = task
        data_queue.put((number, batchify_fn([dataset[i] for i in indices])))


def fetcher_loop_v1(data_queue: Any, data_buffer: dict[int, Any], pin_memory: bool = False, pin_device_id: int = 0,
                    data_buffer_lock: threading.Lock | None = None) -> None:
    """Reads (number, batch) from a queue and stores the batches by number, until (None, None)."""
    ctx = cpu_pinned(pin_device_id) if pin_memory else cpu()
    lock = data_buffer_lock or threading.Lock()
    while (item := data_queue.get())[0] is not None:
        with lock:
            data_buffer[item[0]] = _as_in_context(item[1], ctx)


# ------------------------------------------------------------ a pool of one's own
_worker_dataset: Any = None


def _worker_initializer(dataset: Indexed, *_: object) -> None:
    """Begins a process of a pool: sets the data set that `_worker_fn` takes samples from."""
    global _worker_dataset
    _worker_dataset = dataset


def _worker_fn(samples: Sequence[int], batchify_fn: Callable, dataset: Indexed | None = None) -> bytes:
    """A batch of these samples, pickled, in a pool's process."""
    source: Indexed = _worker_dataset if dataset is None else dataset
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(batchify_fn([source[i] for i in samples]))
    return buffer.getvalue()


def _thread_worker_fn(samples: Sequence[int], batchify_fn: Callable, dataset: Indexed) -> Any:
    """Returns a batch of these samples, in a pool's thread."""
    return batchify_fn([dataset[i] for i in samples])


class _MultiWorkerIter:
    """The batches of a pool's workers, in order; libraries override `_push_next`.

    Args:
        worker_pool: has `apply_async(function, arguments)`.
        batchify_fn, batch_sampler, pin_memory, pin_device_id: as in `DataLoader`.
        worker_fn: function(indices, batchify_fn, dataset) -> the batch, pickled where `dataset` is None.
        prefetch: batches asked for at once.
        dataset: argument of `worker_fn`.
        data_loader: kept alive.
        timeout: seconds to wait for a batch.
    """

    def __init__(self, worker_pool: Any, batchify_fn: Callable, batch_sampler: Sampler | Sequence[Sequence[int]],
                 pin_memory: bool = False, pin_device_id: int = 0, worker_fn: Callable = _worker_fn, prefetch: int = 0,
                 dataset: Indexed | None = None, data_loader: object = None, timeout: float = 120) -> None:
        self._worker_pool, self._worker_fn, self._batchify_fn = worker_pool, worker_fn, batchify_fn
        self._batch_sampler, self._iter = batch_sampler, iter(batch_sampler)
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._dataset, self._data_loader, self._timeout = dataset, data_loader, timeout
        self._data_buffer: dict[int, Any] = {}
        self._sent_idx = self._rcvd_idx = 0
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> _MultiWorkerIter:
        return self

    def _push_next(self) -> None:
        """Asks for the next batch."""
        indices = next(self._iter, None)
        if indices is not None:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
                self._worker_fn, (indices, self._batchify_fn, self._dataset))
            self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        batch = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        self._rcvd_idx += 1
        batch = pickle.loads(batch) if self._dataset is None else batch
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    next = __next__
