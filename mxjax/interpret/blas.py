"""One thread for small products of NumPy's BLAS.

OpenBLAS gives several threads to products of some microseconds, and waits for them by spinning: beside XLA's threads,
or on processors that others use as well, such a product takes two to ten times as long as by one thread.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from types import TracebackType
from typing import Any

from .._xla.process import when_forked

__all__ = ["single_thread"]


_installed = importlib.util.find_spec("threadpoolctl") is not None  # else products are as right, but slower


@functools.cache
def _libraries() -> list[Any]:
    if not _installed:
        return []
    import threadpoolctl
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in libraries if "numpy" in library.filepath]  # its wheels have one, and SciPy's another
    return own or libraries


class _SingleThread:
    """A block in which the thread's products use one thread; after it, as many as before.

    With some versions of OpenBLAS the number is that of all threads: where several are in such a block, the first one
    that leaves it gives the others all threads again, which makes them slower, not wrong.
    """

    def __init__(self) -> None:
        self.begin_in_child()

    def begin_in_child(self) -> None:
        """Forgets the blocks of the other threads, which a forked child does not have."""
        self._lock, self._blocks, self._before = threading.Lock(), 0, getattr(self, "_before", [])

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:  # else it may be another block's
                self._before = [library.num_threads for library in _libraries()]
            self._blocks += 1
        for library in _libraries():
            library.set_num_threads(1)

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with self._lock:
            self._blocks -= 1
        for library, number in zip(_libraries(), self._before, strict=False):
            library.set_num_threads(number)


single_thread = _SingleThread()
when_forked(single_thread.begin_in_child)
