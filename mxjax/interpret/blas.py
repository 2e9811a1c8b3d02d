"""A single thread for small products of NumPy's BLAS.

OpenBLAS uses several threads even for products of a few microseconds, and waits for them by spinning. Beside XLA's
threads, or on processors with other work, such a product takes two to ten times as long as with one thread.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from types import TracebackType
from typing import Any

from .._xla.process import when_forked

__all__ = ["single_thread"]


_installed = importlib.util.find_spec("threadpoolctl") is not None  # otherwise products are correct, but slower


@functools.cache
def controllers() -> list[Any]:
    """Returns the controllers of the BLAS that NumPy uses, by which its threads are limited."""
    if not _installed:
        return []
    import threadpoolctl
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in libraries if "numpy" in library.filepath]  # SciPy's wheels contain another copy
    return own or libraries


class _SingleThread:
    """A block in which products of this thread use one thread; afterwards, as many as before.

    With some versions of OpenBLAS the number applies to all threads. If several are in such a block, the first one that
    leaves it restores the number for the others, too, which makes them slower, not wrong.
    """

    def __init__(self) -> None:
        self.begin_in_child()

    def begin_in_child(self) -> None:
        """Resets the blocks of other threads, which do not exist in a forked child."""
        self._lock, self._blocks, self._before = threading.Lock(), 0, getattr(self, "_before", [])

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:  # otherwise another block may have set it
                self._before = [library.num_threads for library in controllers()]
            self._blocks += 1
        for library in controllers():
            library.set_num_threads(1)

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with self._lock:
            self._blocks -= 1
        for library, number in zip(controllers(), self._before, strict=False):
            library.set_num_threads(number)


single_thread = _SingleThread()
when_forked(single_thread.begin_in_child)
