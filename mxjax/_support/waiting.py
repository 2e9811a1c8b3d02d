"""Log messages for long waits."""

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
    """A block that logs the reason once if it takes more than two seconds.

    Args:
        logger: name of the logger.
        message, values: the warning and its arguments, as in `logging`.
        doing: short form of the message, for a progress bar.
    """
    logged = threading.Event()

    def tell() -> None:
        logged.set()
        logging.getLogger(logger).warning(message, *values)
        noted(doing)
    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True  # the process may end meanwhile
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if logged.is_set():
            noted("")
