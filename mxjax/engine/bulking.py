"""The bulk size of a thread: the number of operations that may be deferred and scheduled as one."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..base import MXNetError

__all__ = ["bulk", "set_bulk_size", "bulk_size", "on_bulk_exit"]


class _Local(threading.local):
    size = 0


local = _Local()
callbacks: list[Callable[[], Any]] = []


def bulk_size() -> int:
    """Returns the bulk size of this thread; 0 if operations are not deferred."""
    return local.size


def on_bulk_exit(callback: Callable[[], Any]) -> Callable[[], Any]:
    """Registers a function that flushes deferred operations.

    It is called without arguments in the affected thread, whenever a bulk scope ends or the size is
    set, in order of registration. All callbacks run even if one raises; the first error is raised
    afterwards.

    Returns:
        `callback`, so that this can be used as a decorator.
    """
    callbacks.append(callback)
    return callback


def set_bulk_size(size: int) -> int:
    """Sets the number of operations that this thread may schedule as one.

    Args:
        size: number of operations; 0: none.

    Returns:
        The previous size.

    Raises:
        MXNetError: `size` is negative or not an integer.
    """
    try:
        size = operator.index(size)
    except TypeError:
        raise MXNetError(f"set_bulk_size: expected an integer number of operations, got {size!r}") from None
    if size < 0:
        raise MXNetError(f"set_bulk_size: expected 0 or more operations, got {size}")
    previous, local.size = local.size, size
    first_error = None
    for callback in tuple(callbacks):
        try:
            callback()
        except BaseException as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return previous


class _BulkScope:
    """The scope that `bulk` returns."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._previous = 0

    def __enter__(self) -> _BulkScope:
        self._previous = set_bulk_size(self._size)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        set_bulk_size(self._previous)


def bulk(size: int) -> _BulkScope:
    """A scope in which up to `size` consecutive operations of this thread are scheduled as one.

    >>> engine, steps = mx.engine.get(), []
    >>> x = engine.new_variable("x")
    >>> with bulk(10):
    ...     for _ in range(100):
    ...         engine.push(lambda run_ctx: steps.append(1), (), (x,))     # 10 blocks of 10 functions
    >>> engine.wait_for_var(x)
    >>> len(steps)
    100

    Args:
        size: number of operations; 0: none.
    """
    return _BulkScope(size)
