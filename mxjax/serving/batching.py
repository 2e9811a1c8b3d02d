"""Batching of requests with limits, independent of models and protocols."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from ..base import MXNetError

__all__ = ["Batcher", "Overloaded", "TooLate"]

Arrays = dict[str, np.ndarray]


class Overloaded(MXNetError):
    """A request was rejected because too many requests are waiting."""

    code = "service-busy"


class TooLate(MXNetError):
    """A request waited too long."""

    code = "service-busy"


class _Request:
    """A waiting request: its inputs and the future of its answer."""

    __slots__ = ("inputs", "rows", "signature", "answer", "since")

    def __init__(self, inputs: Arrays, rows: int, answer: asyncio.Future) -> None:
        self.inputs, self.rows, self.answer, self.since = inputs, rows, answer, time.monotonic()
        self.signature = tuple(sorted((name, a.shape[1:], a.dtype.str) for name, a in inputs.items()))


class Batcher:
    """Runs a function on batches of requests that arrive at about the same time.

    Requests whose arrays differ in more than their first axis never share a batch. If a batch
    fails, each of its requests runs separately, so that a bad one does not affect the others.

    Args:
        run: function that maps inputs by name to outputs by name, NumPy arrays with a first axis of
            the same length. Only one thread calls it.
        max_batch: maximum number of rows in a batch; larger requests run in pieces.
        max_delay: seconds that the first request of a batch waits for others while the function is
            idle.
        queue_size: maximum number of waiting requests.
        timeout: seconds after which a request is abandoned.
        sizes: numbers of rows to which batches are padded, e.g. the compiled ones; (): no padding.
        on_batch: function(rows, requests, rows with padding) that is called after each batch, for
            metrics.

    Example:
        >>> batcher = Batcher(lambda inputs: {"y": inputs["x"] * 2})
        >>> async def ask():
        ...     return await batcher.submit({"x": np.ones((2, 3))})
        >>> asyncio.run(ask())["y"].shape
        (2, 3)
    """

    def __init__(self, run: Callable[[Arrays], Arrays], max_batch: int = 32, max_delay: float = 0.002,
                 queue_size: int = 1024, timeout: float = 30.0, sizes: Sequence[int] = (),
                 on_batch: Callable[[int, int, int], None] | None = None) -> None:
        if max_batch < 1 or queue_size < 1 or max_delay < 0 or timeout <= 0:
            raise ValueError("max_batch, queue_size and timeout must be positive, max_delay must not be negative")
        self._run, self.max_batch, self.max_delay = run, max_batch, max_delay
        self.queue_size, self.timeout = queue_size, timeout
        self.sizes = sorted(size for size in sizes if size <= max_batch)
        self._on_batch = on_batch or (lambda *_: None)
        self._waiting: deque[_Request] = deque()
        self._open = 0  # requests that are neither answered nor given up
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "mxjax-serve")
        self._dispatcher: asyncio.Task | None = None
        self._arrived = asyncio.Event()  # a new one for each dispatcher, which may run in another loop
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    async def submit(self, inputs: Arrays) -> Arrays:
        """Returns the outputs for these inputs.

        Args:
            inputs: arrays by name, all with a first axis of the same length.

        Raises:
            ValueError: the arrays' first axes differ.
            Overloaded: too many requests are waiting, or the batcher is draining.
            TooLate: the reply took longer than `timeout`.
        """
        lengths = {a.shape[0] for a in inputs.values() if a.ndim}
        if len(lengths) != 1 or not all(a.ndim for a in inputs.values()):
            raise ValueError(f"the first axes of the inputs must have the same length, the batch size; got shapes "
                             f"{ {name: a.shape for name, a in inputs.items()} }")
        rows = lengths.pop()
        if self._closed:
            raise Overloaded("the service is shutting down and does not accept new requests")
        if len(self._waiting) >= self.queue_size:
            raise Overloaded(f"{len(self._waiting)} requests are already waiting")
        loop = asyncio.get_running_loop()
        request = _Request(inputs, rows, loop.create_future())
        self._waiting.append(request)
        if self._dispatcher is None or self._dispatcher.done():
            self._arrived = asyncio.Event()
            self._dispatcher = loop.create_task(self._dispatch())
        self._arrived.set()
        self._open += 1
        try:
            return await asyncio.wait_for(request.answer, self.timeout)
        except TimeoutError:
            raise TooLate(f"no reply within {self.timeout:g} s") from None
        finally:
            self._open -= 1

    async def drain(self) -> None:
        """Rejects new requests and returns when the waiting ones are answered."""
        self._closed = True
        while self._open:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Stops the worker thread; waiting requests are not answered."""
        self._closed = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ batches
    async def _dispatch(self) -> None:
        """Runs batches while there are requests; the next ones gather while one runs."""
        while self._waiting:
            await self._gather()
            batch = self._next_batch()
            if batch:  # all may have been given up
                await self._answer(batch)

    async def _gather(self) -> None:
        """Waits until the first request's batch is full, or has waited long enough."""
        while True:
            first = self._waiting[0]
            rows = sum(r.rows for r in self._waiting if r.signature == first.signature)
            left = first.since + self.max_delay - time.monotonic()
            if rows >= self.max_batch or left <= 0:
                return
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                return

    def _next_batch(self) -> list[_Request]:
        """Takes the first request and those that fit into its batch out of the queue."""
        batch: list[_Request] = []
        rest: deque[_Request] = deque()
        rows = 0
        for request in self._waiting:
            if request.answer.done():  # given up
                continue
            fits = not batch or request.signature == batch[0].signature and rows + request.rows <= self.max_batch
            if fits:
                batch.append(request)
                rows += request.rows
            else:
                rest.append(request)
        self._waiting = rest
        return batch

    async def _answer(self, batch: list[_Request]) -> None:
        loop = asyncio.get_running_loop()
        inputs = batch[0].inputs if len(batch) == 1 else {
            name: np.concatenate([r.inputs[name] for r in batch]) for name in batch[0].inputs}
        rows = sum(r.rows for r in batch)
        try:
            outputs = await loop.run_in_executor(self._worker, self._in_pieces, inputs, rows, len(batch))
        except Exception as error:
            if len(batch) == 1:
                if not batch[0].answer.done():
                    batch[0].answer.set_exception(error)
                return
            for request in batch:
                await self._answer([request])
            return
        begin = 0
        for request in batch:
            if not request.answer.done():
                request.answer.set_result({n: a[begin:begin + request.rows] for n, a in outputs.items()})
            begin += request.rows

    def _in_pieces(self, inputs: Arrays, rows: int, requests: int) -> Arrays:
        pieces = [self._filled({n: a[i:i + self.max_batch] for n, a in inputs.items()}, min(self.max_batch, rows - i),
                               requests) for i in range(0, max(rows, 1), self.max_batch)]
        return pieces[0] if len(pieces) == 1 else {n: np.concatenate([p[n] for p in pieces]) for n in pieces[0]}

    def _filled(self, inputs: Arrays, rows: int, requests: int) -> Arrays:
        """Runs a batch, filled up with copies of its last row to a size that is compiled."""
        size = next((s for s in self.sizes if s >= rows), rows)
        if size != rows and rows:
            inputs = {n: np.concatenate([a, np.repeat(a[-1:], size - rows, 0)]) for n, a in inputs.items()}
        outputs = self._run(inputs)
        for name, array in outputs.items():
            if array.shape[:1] != (size,):
                raise MXNetError(f"output {name} has the shape {array.shape} for a batch of {size}: its first axis is "
                                 "not the batch axis; serve this model with a batch size of 1 (--max-batch 1)")
        self._on_batch(rows, requests, size - rows)
        return {name: array[:rows] for name, array in outputs.items()}
