"""Reset of locks in a forked child, which lacks the threads that may hold them."""

from __future__ import annotations

import gc
from typing import Any

from .._xla.process import left_behind, when_forked
from .chunk import Chunk, Retained, RLock
from .deferred_call import DeferredCall
from .trace import Trace

__all__: list[str] = []


@when_forked
def _free() -> None:
    """Undoes changes of arrays by other threads of the parent, as if Ctrl-C had interrupted them."""
    if not left_behind():
        return
    for one in gc.get_objects():
        if not isinstance(one, Chunk | DeferredCall | Retained | Trace):
            continue
        lock = getattr(one, "lock", None)  # None: another thread was computing it
        if lock is None or not _is_held(lock):
            continue
        one.lock = RLock()
        if isinstance(one, Chunk):
            one.put_back()
        elif isinstance(one, Trace):
            one.running = False


def _is_held(lock: Any) -> bool:
    """Returns whether another thread, which does not exist in the child, has a lock."""
    if lock.acquire(False):
        lock.release()
        return False
    return True
