"""Long waits that say what they are for."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from .progress import noted

__all__ = ["telling"]

_PATIENCE = 2.0  # seconds


@contextlib.contextmanager
def telling(logger: str, message: str, *values: object, doing: str = "") -> Iterator[None]:
    """A block that, if it takes more than two seconds, has a logger say once why, while it does.

    Args:
        logger: the logger's name.
        message, values: what it is to warn of, as in `logging`.
        doing: the same in a word, for a progress bar that stands still meanwhile.
    """
    told = threading.Event()

    def tell() -> None:
        told.set()
        logging.getLogger(logger).warning(message, *values)
        noted(doing)
    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True  # the process may end meanwhile
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if told.is_set():
            noted("")
