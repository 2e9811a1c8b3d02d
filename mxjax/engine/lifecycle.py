"""Handling of engines at the end of a bulk scope, at interpreter exit, and in forks."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

from .._support import settings
from ..base import MXNetError
from .bulking import on_bulk_exit
from .var import Failure

if TYPE_CHECKING:
    from .base import Engine

__all__ = ["register"]

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_guard = threading.Lock()
_hooked = False


def register(engine: Engine) -> None:
    """Registers `engine` for this handling until it is deleted."""
    global _hooked
    with _guard:
        _engines.add(engine)
        if not _hooked:
            _hooked = True
            atexit.register(_at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent,
                                    after_in_child=_after_fork_in_child)


def exit_timeout() -> float:
    """Returns the seconds to wait for pending work at exit and before a fork:
    MXJAX_ENGINE_EXIT_TIMEOUT, by default 30."""
    return settings.ENGINE_EXIT_TIMEOUT()


def _all_engines() -> list[Engine]:
    with _guard:
        return list(_engines)


@on_bulk_exit
def _close_blocks() -> None:
    for engine in _all_engines():
        if engine.open_blocks:
            engine.locked(engine.close_own, None)


def _at_exit() -> None:
    timeout = exit_timeout()
    end = time.monotonic() + timeout
    for engine in _all_engines():
        unfinished = engine.stop(max(end - time.monotonic(), 0.0))
        if unfinished:
            _report(f"abandoned {timeout:g} s after the end of the program: {_some(unfinished)}")
        lost = [f"{failure.name}: {failure.error!r}" for failure in engine.failures if not failure.abandoned]
        if lost:
            _report(f"errors that were never raised by a wait: {_some(lost)}")


def _some(items: list[str]) -> str:
    more = f", and {len(items) - 5} more" if len(items) > 5 else ""
    return ", ".join(items[:5]) + more


def _report(text: str) -> None:
    print(f"mxjax engine: {text}", file=sys.stderr, flush=True)


_forking: list[Engine] = []


def _before_fork() -> None:
    """Let pending work finish, so that the child finds its results, and hold all bookkeeping still."""
    end = time.monotonic() + exit_timeout()
    for engine in _all_engines():
        if not engine.runs_here():
            engine.drain(max(end - time.monotonic(), 0.0))
    _guard.acquire()
    _forking.extend(_engines)
    for engine in _forking:
        engine.lock.acquire()


def _after_fork_in_parent() -> None:
    for engine in _forking:
        engine.lock.release()
    _forking.clear()
    _guard.release()


def _after_fork_in_child() -> None:
    """Starts anew in a child, which has no workers, and fails variables whose writes are lost."""
    for engine in _forking:
        pending = engine.pending
        engine.reset()
        for block in pending:
            for var in (*block.const_vars, *block.mutate_vars):
                var.uses = var.writes = var.granted = 0
                var.queue = None
            if block.ops:
                error = MXNetError(f"engine: {block.name} had not finished when this process was forked")
                for var in block.mutate_vars:
                    failure = var.failure = Failure(error, None, block.name)
                    engine.failures[failure] = None
    _forking.clear()
    _guard.release()
