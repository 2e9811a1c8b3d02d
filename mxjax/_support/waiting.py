"""Long waits that say what they are for."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

__all__ = ["telling"]

_PATIENCE = 2.0  # seconds


@contextlib.contextmanager
def telling(logger: str, message: str, *values: object) -> Iterator[None]:
    """A block that, if it takes more than two seconds, has a logger say once why, while it does.

    Args:
        logger: the logger's name.
        message, values: what it is to warn of, as in `logging`.
    """
    timer = threading.Timer(_PATIENCE, logging.getLogger(logger).warning, (message, *values))
    timer.daemon = True  # the process may end meanwhile
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
