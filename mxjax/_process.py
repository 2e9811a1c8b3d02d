"""What a process may still compute: nothing in a forked child, and nothing in other threads while the process ends.

XLA's threads do not come along with a fork, so a program waits for them for ever in the child. And a daemon thread that
comes back from XLA when the interpreter is gone is unwound through C++ that may not be unwound, which aborts the
process. So there is a gate before all work of XLA, and these two close it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import selectors
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import jax

from ._host_memory import keep_freed
from .base import MXNetError

__all__ = ["check", "forked", "starts", "waits", "when_closed"]

_PATIENCE = 20.0  # seconds that other threads are given at exit to come back from XLA; a compilation may take as long
_BRIEFLY, _STILL = 250, 25  # looks at those in other functions: to come to the gate; to have stood still
_JAX = tuple(str(pathlib.Path(folder)) + os.sep for folder in jax.__path__)
_COMPUTING = tuple(str(pathlib.Path(__file__).parent / part) + os.sep for part in ("compile", "array", "executor"))
_QUIET = (threading.__file__, selectors.__file__, str(pathlib.Path(__file__).parent / "kvstore") + os.sep)
_WAITING = str(pathlib.Path(__file__).parent / "array" / "chunk.py")

_gate: Callable[[], None] | None = None
_told: list[Callable[[Callable[[], None]], None]] = []
_started = False
_forever = threading.Lock()


def starts() -> None:
    """XLA is about to be used."""
    global _started
    if not _started:
        _started = True
        keep_freed()


def check() -> None:
    """Called before XLA's work.

    Raises:
        MXNetError: this is a forked child. (In another thread of a process that ends it does not return.)
    """
    if _gate is not None:
        _gate()


def waits() -> None:
    """Called before values are waited for: at exit this does not return in other threads."""
    if _gate is _park:
        _park()


def forked() -> bool:
    """Whether this is a child that cannot compute."""
    return _gate is _refuse


def when_closed(tell: Callable[[Callable[[], None]], None]) -> None:
    """Has `tell(gate)` called when the gate closes, so that who is called very often need not look each time."""
    _told.append(tell)


def _close(gate: Callable[[], None]) -> None:
    global _gate
    _gate = gate
    for tell in _told:
        tell(gate)


# ------------------------------------------------------------ forks
def _refuse() -> None:
    raise MXNetError("nothing can be computed in a process that was forked off after the first use of arrays: XLA's "
                     "threads stayed with the parent. Values can be read; for more, start processes by spawn "
                     "(multiprocessing.set_start_method('spawn'), subprocess), or fork before arrays are used")


def _before_fork() -> None:
    """What has been asked for is finished, so that the child can read it."""
    if _started:
        for array in jax.live_arrays():
            with contextlib.suppress(RuntimeError):  # deleted, or failed
                array.block_until_ready()


def _in_child() -> None:
    if _started:
        _close(_refuse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


# ------------------------------------------------------------ exit
def _park() -> None:
    if threading.current_thread() is not threading.main_thread():
        _forever.acquire()


def _at_exit() -> None:
    """Stops other threads before their next use of XLA, and waits for those that may be in it."""
    others = [t.ident for t in threading.enumerate() if t is not threading.current_thread()]
    if not _started or not others or _gate is not None:
        return
    _forever.acquire(blocking=False)  # and nobody releases it
    _close(_park)
    end, look, since = time.monotonic() + _PATIENCE, 0, dict[int | None, tuple[Any, int]]()
    while time.monotonic() < end:
        frames = sys._current_frames()
        if all([_rests(thread, frames.get(thread), since, look) for thread in others]):
            break
        frames.clear()  # or the threads' last frames would live on in this one
        look += 1  # looks, not seconds: where the machine is busy, this thread waits as long as the others
        time.sleep(0.002)


def _rests(thread: int | None, frame: types.FrameType | None, since: dict[int | None, tuple[Any, int]],
           look: int) -> bool:
    """Whether a thread is certainly not in XLA, told by its Python functions.

    JAX's own functions are called from C++, and call it. A thread in anybody's function may be freeing an array, which
    XLA does in C++, too: where that function goes on, it soon comes to the gate, or does not use arrays; where it
    stands still, it waits for something else.
    """
    if frame is None or frame.f_code is _park.__code__:
        return True
    file = frame.f_code.co_filename
    if file.startswith(_COMPUTING) and file != _WAITING or _in_jax(frame):
        return False
    if file.startswith(_QUIET):
        return True
    place = id(frame), frame.f_lasti
    if since.get(thread, (None, 0))[0] != place:
        since[thread] = place, look
    return look - since[thread][1] > _STILL or look > _BRIEFLY


def _in_jax(frame: types.FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_JAX):
            return True
        frame = frame.f_back
    return False


atexit.register(_at_exit)
