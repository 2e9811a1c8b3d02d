"""The engines with worker threads."""

from __future__ import annotations

import heapq
import os
import sys
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from .._support import settings
from .base import Engine, _local, _new_event
from .operation import Block

__all__ = ["ThreadedEngine", "ThreadedEnginePerDevice"]

_MOST_COMPILING = 16  # programs at a time: each may take some hundred MB


class _Pool:
    """Ready blocks and their workers.

    At most ``size`` workers are active: running a block or about to take one.  A worker that waits inside a function
    does not count.  Ready blocks imply that ``size`` workers are active or that one is ``coming`` for them; having
    taken one, it sends the next worker if more are left.  (One wake-up at a time, none if a worker is at hand anyway:
    waking threads that find nothing would cost more than small functions do.)
    """

    __slots__ = ("label", "size", "ready", "active", "coming", "idle")

    def __init__(self, label: str, size: int) -> None:
        self.label = label
        self.size = size
        self.ready: list[tuple[int, int, Block]] = []    # heap: highest priority first, then oldest
        self.active = 0
        self.coming = False
        self.idle: list[_Worker] = []


class _Worker(threading.Thread):
    """Takes blocks off a pool; with none left it waits for its `wake` lock."""

    def __init__(self, engine: ThreadedEngine, pool: _Pool, number: int) -> None:
        super().__init__(name=f"mxjax-engine-{pool.label}-{number}", daemon=True)
        self.engine = engine
        self.pool = pool
        self.wake = _new_event()
        self.block: Block | None = None
        self.done = False

    def run(self) -> None:
        engine = self.engine
        _local.worker = self
        while True:
            engine.locked(engine.next_block, self)
            if self.block is not None:
                if not engine.run_block(self.block):
                    self.block = None
            elif self.done:
                return
            else:
                self.wake.acquire()


class ThreadedEngine(Engine):
    """Runs functions in worker threads, one pool of compute workers for all devices.

    These environment variables are read when the engine is created:
        MXNET_CPU_WORKER_NTHREADS: compute workers of a CPU device (default: the machine's cores, 2 to 4).
        MXNET_GPU_WORKER_NTHREADS: compute workers of any other device (default 2).
        MXNET_GPU_COPY_NTHREADS: workers of an "io" lane (default 2).
        MXNET_CPU_PRIORITY_NTHREADS: workers of the "priority" lane (default 4).
    """

    def __init__(self) -> None:
        self._cpu_workers = settings.CPU_WORKERS()
        self._gpu_workers = settings.GPU_WORKERS()
        self._io_workers = settings.GPU_COPY_WORKERS()
        self._priority_workers = settings.CPU_PRIORITY_WORKERS()
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._pools: dict[tuple[str, Hashable], _Pool] = {}
        self._workers: set[_Worker] = set()
        self._stopping = False
        _local.worker = None

    def _pool_key(self, block: Block) -> tuple[str, Hashable]:
        """Returns the key of a pool for a block: the lane and, where it matters, the device."""
        return block.lane, None

    def _make_pool(self, lane: str, ctx: Hashable) -> _Pool:
        if lane == "io":
            size = self._io_workers
        elif lane == "priority":
            size = self._priority_workers
        elif lane == "compile":
            size = min(os.cpu_count() or 1, _MOST_COMPILING)
        else:
            size = self._cpu_workers if getattr(ctx, "device_type", "cpu").startswith("cpu") else self._gpu_workers
        return _Pool(lane if ctx is None else f"{lane}-{ctx}", size)

    def _dispatch(self, block: Block) -> None:
        key = self._pool_key(block)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._make_pool(*key)
        heapq.heappush(pool.ready, (-block.priority, block.seq, block))
        self._send_worker(pool)

    def _send_worker(self, pool: _Pool) -> None:
        if pool.coming or pool.active >= pool.size:
            return
        if pool.idle:
            pool.coming = True
            pool.active += 1
            pool.idle.pop().wake.release()
            return
        worker = _Worker(self, pool, len(self._workers))
        try:
            worker.start()
        except RuntimeError as error:    # no more threads: the pool's others, or the next push, will do
            if not pool.active:
                print(f"mxjax engine: {error}; pending: {pool.ready[0][2].name}", file=sys.stderr)
            return
        pool.coming = True
        pool.active += 1
        self._workers.add(worker)

    def next_block(self, worker: _Worker) -> None:
        """Finish the worker's block and give it the next one, or none."""
        pool = worker.pool
        if worker.block is not None:
            pool.coming = True
            self._finish(worker.block)
        pool.coming = False
        if pool.ready and pool.active <= pool.size:
            worker.block = heapq.heappop(pool.ready)[2]
            if pool.ready:
                self._send_worker(pool)
            return
        worker.block = None
        pool.active -= 1
        if self._stopping:
            worker.done = True
            self._workers.discard(worker)
        else:
            pool.idle.append(worker)

    @contextmanager
    def _blocked(self) -> Iterator[None]:
        """Let another worker stand in for this one while it waits, so that workers waiting for work never starve it."""
        worker = _local.worker
        if worker is None or worker.engine is not self:
            yield
            return
        self.locked(self._stand_aside, worker.pool)
        try:
            yield
        finally:
            self.locked(self._come_back, worker.pool)

    def _stand_aside(self, pool: _Pool) -> None:
        pool.active -= 1
        if pool.ready:
            self._send_worker(pool)

    def _come_back(self, pool: _Pool) -> None:
        pool.active += 1

    def stop(self, timeout: float | None = None) -> list[str]:
        end = None if timeout is None else time.monotonic() + timeout
        unfinished = super().stop(timeout)
        workers = self.locked(self._dismiss, None)
        for worker in workers:
            if not unfinished:
                worker.join(None if end is None else max(end - time.monotonic(), 0.1))
        self._stopping = False
        return unfinished

    def _dismiss(self, _: None) -> list[_Worker]:
        self._stopping = True
        for pool in self._pools.values():
            while pool.idle:
                pool.active += 1
                pool.idle.pop().wake.release()
        return list(self._workers)


class ThreadedEnginePerDevice(ThreadedEngine):
    """Runs functions in worker threads, with compute and io workers for each device (`ctx`)."""

    def _pool_key(self, block: Block) -> tuple[str, Hashable]:
        return block.lane, None if block.lane in ("priority", "compile") else block.ctx
