"""`mx.cuda.nvtx`: named ranges of a program, which profilers show: JAX's traces have them, and `mx.profiler`'s."""

from __future__ import annotations

import threading
from typing import Any

import jax

from ..base import MXNetError

__all__ = ["BLUE", "BLUE1", "CYAN", "GREEN", "GREEN1", "MAGENTA", "ORANGE", "RED", "RED1", "VIOLET", "YELLOW", "range",
           "range_pop", "range_push"]

RED, GREEN, BLUE = 0xFF0000, 0x00FF00, 0x0000FF
YELLOW, ORANGE, RED1, MAGENTA = 0xB58900, 0xCB4B16, 0xDC322F, 0xD33682
VIOLET, BLUE1, CYAN, GREEN1 = 0x6C71C4, 0x268BD2, 0x2AA198, 0x859900


class _Open(threading.local):
    """The ranges of this thread that have not ended."""

    def __init__(self) -> None:
        self.ranges: list[Any] = []


_open = _Open()


def range_push(name: str, color: int = ORANGE) -> None:
    """Begins a range of this thread, within those that are open.

    Args:
        name: what profilers show.
        color: red, green and blue as 0xRRGGBB; JAX's traces choose their own.
    """
    entered = jax.profiler.TraceAnnotation(name, color=f"#{color:06x}")
    entered.__enter__()
    _open.ranges.append(entered)


def range_pop() -> None:
    """Ends the range of this thread that was begun last.

    Raises:
        MXNetError: none is open.
    """
    if not _open.ranges:
        raise MXNetError("range_pop: no range is open in this thread")
    _open.ranges.pop().__exit__(None, None, None)


class range:
    """A range as a `with` block.

    Args:
        name: what profilers show.
        color: red, green and blue as 0xRRGGBB.

    Example:
        >>> with mx.cuda.nvtx.range("forward"):
        ...     y = mx.nd.ones(3) + 1
    """

    def __init__(self, name: str, color: int = ORANGE) -> None:
        self.name, self.color = name, color

    def __enter__(self) -> None:
        range_push(self.name, self.color)

    def __exit__(self, *exc: object) -> None:
        range_pop()
