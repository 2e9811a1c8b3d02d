"""Deferral of Ctrl-C to a safe moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["later_signals"]


@contextlib.contextmanager
def later_signals() -> Iterator[None]:
    """A block that defers Ctrl-C to its end, in the main thread, which handles signals."""
    caught: list[tuple[Any, ...]] = []
    before: Any = None
    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError):  # not the main interpreter
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                signal.signal(signal.SIGINT, lambda *given: caught.append(given))
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
            if caught:
                before(*caught[0])
