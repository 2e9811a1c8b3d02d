"""The engine for debugging, which runs every function in the pushing thread before the push returns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .base import _DEFERRED, Engine, _local, _new_event
from .operation import Block

__all__ = ["NaiveEngine"]


class _Ready(threading.local):
    def __init__(self) -> None:
        self.blocks: deque[Block] = deque()


class NaiveEngine(Engine):
    """Runs each function immediately in the pushing thread, and raises its error from the push.

    If a running function pushes another one that needs the same variables, the other one runs after
    it. If another thread uses the variables, the push waits until they are available. `bulk` has no
    effect.
    """

    _can_bulk = False

    def reset(self) -> None:
        super().reset()
        self._ready_here = _Ready()

    def _dispatch(self, block: Block) -> None:
        self._ready_here.blocks.append(block)

    def locked(self, action: Callable[[Any], Any], argument: Any) -> Any:
        result = super().locked(action, argument)
        if result is not _DEFERRED:
            blocks = self._ready_here.blocks
            while blocks:
                block = blocks.popleft()
                if self.run_block(block):
                    super().locked(self._finish, block)
        return result

    def _submit(self, block: Block) -> None:
        if block.event is not None:    # push_sync waits and raises itself
            self.locked(self._enqueue, block)
            return
        block.event = _new_event()
        if self.locked(self._enqueue, block) is _DEFERRED:
            return
        if block.event.acquire(blocking=_local.running is None) and block.failure is not None:
            self._raise(block.failure)
