"""Watching the values inside a network while it trains."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

from .base import py_str
from .ndarray import NDArray

__all__ = ["Monitor"]


def _rms(array: NDArray) -> NDArray:
    """Root mean square, shape (1,)."""
    return array.norm() / math.sqrt(array.size)


class Monitor:
    """Collects a statistic of outputs, weights and states every few batches.

    Args:
        interval: batches between two collections.
        stat_func: NDArray -> NDArray or a list of them; root mean square by default.
        pattern: regular expression that names must match, from their start.
        sort: sort the results by name.
        monitor_all: also watch the operators' inputs.

    Example:
        >>> monitor = Monitor(interval=100, pattern=".*weight")  # module.fit(..., monitor=monitor)
    """

    def __init__(self, interval: int, stat_func: Callable[[NDArray], Any] | None = None, pattern: str = ".*",
                 sort: bool = False, monitor_all: bool = False) -> None:
        self.interval = interval
        self.stat_func = stat_func or _rms
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.step = 0
        self.exes: list[Any] = []
        self.queue: list[tuple[int, str, Any]] = []

    def stat_helper(self, name: bytes | str, array: NDArray) -> None:
        """The executor's callback: note the statistic of one value."""
        name = py_str(name)
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Watch an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Before the forward pass: start collecting if it is time to."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """After the backward pass: stop collecting.

        Returns:
            (step, name, values as text) of each value seen since `tic`; empty when it was not collecting.
        """
        if not self.activated:
            return []
        for exe in self.exes:
            symbol = exe._symbol
            for name, array in (*zip(symbol.list_arguments(), exe.arg_arrays, strict=True),
                                *zip(symbol.list_auxiliary_states(), exe.aux_arrays, strict=True)):
                self.stat_helper(name, array)
        self.activated = False
        queue, self.queue = self.queue, []
        if self.sort:
            queue.sort(key=lambda entry: entry[1])
        return [(step, name, _text(stats)) for step, name, stats in queue]

    def toc_print(self) -> None:
        """Stops collecting and logs the collected values."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _text(stats: NDArray | list[NDArray]) -> str:
    """Values separated by tabs; one of shape (1,) as a number."""
    stats = stats if isinstance(stats, list) else [stats]
    return "".join(f"{s.asscalar() if s.shape == (1,) else s.asnumpy()!s}\t" for s in stats)
