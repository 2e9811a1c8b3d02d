"""Ctrl-C at a moment when it does no harm."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["later_signals"]


@contextlib.contextmanager
def later_signals() -> Iterator[None]:
    """A block after which Ctrl-C takes effect instead of within it; in the main thread, where signals are handled."""
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
