"""Loggers with coloured, one-letter level labels."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING
from types import ModuleType
from typing import TypeAlias

__all__ = ["get_logger", "getLogger", "CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING"]

LoggerLike: TypeAlias = logging.Logger | ModuleType  # the module `logging` logs, too

_LABELS = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}
_RED, _GREEN, _BLUE, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """`I0131 12:00:00 pid path:function:line] message`, its head red, green or blue by level."""

    def __init__(self) -> None:
        super().__init__("%(head)s%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
                         f"{_PLAIN} %(message)s", datefmt="%m%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        colour = _RED if record.levelno >= WARNING else _GREEN if record.levelno >= INFO else _BLUE
        record.head = colour + _LABELS.get(record.levelno, "U")
        return super().format(record)


def get_logger(name: str | None = None, filename: str | None = None, filemode: str | None = None,
               level: int = WARNING) -> logging.Logger:
    """A logger that writes to a file, or coloured to standard error.

    Args:
        name: the logger's name; None gives the root logger as it is.
        filename: file to write to instead of standard error.
        filemode: how to open it; "a" by default.
        level: lowest level to write.

    Example:
        >>> get_logger("trainer", level=INFO).level == INFO
        True
    """
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_init_done", False):
        logger.__dict__["_init_done"] = True
        if filename:
            handler: logging.Handler = logging.FileHandler(filename, filemode or "a")
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter())
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(name: str | None = None, filename: str | None = None, filemode: str | None = None,  # noqa: N802
              level: int = WARNING) -> logging.Logger:
    """The old name of `get_logger`."""
    warnings.warn("getLogger is deprecated, use get_logger", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)
