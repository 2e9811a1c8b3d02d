"""The budget of compiled programs, limited by memory and by the system's memory mappings."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pathlib
import threading
import weakref
from typing import Any

from .._support import settings
from .._xla.host_memory import give_back
from .policy import LOOK_EVERY, LOOK_SELDOM, MOST_MAPPINGS, MOST_SIGNATURES

__all__ = ["ProgramBudget"]


class ProgramBudget:
    """Limits the memory of traces and programs, and keeps the process below Linux's limit of memory mappings.

    A signature takes about ten kilobytes. A CPU program takes 3 to 50 mappings and memory that
    grows with the number of its operations. XLA does not report its size, so it is estimated from
    measurements.

    short: whether the next call of a compiled function must evict programs; several: whether there
    are more devices than one CPU, so that the location of arrays matters; compiled: whether XLA has
    compiled any program; program_bytes: bytes of all programs; most: their limit (MXJAX_PROGRAM_MEMORY, in
    MB; by default 1024, or an eighth of the machine's memory if that is less).
    """

    def __init__(self) -> None:
        self.short, self.program_bytes, self.most = False, 0, _most_bytes()
        self.several = self.compiled = False
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._left: list[tuple] = []  # programs that a forked child has set aside
        self._lock = threading.Lock()
        self._noted, self._limit = 0, math.inf
        with contextlib.suppress(OSError, ValueError):  # other systems have no such limit
            self._limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))

    def add(self, one: object) -> None:
        with self._lock:
            self.functions.add(one)

    def note(self, size: int = 0, seldom: bool = False) -> None:
        """Registers a new signature or a program of about this size, and occasionally checks the total.

        That check also includes the mappings of other code in the process that compiles.

        Args:
            size: bytes of a program.
            seldom: NumPy computes the new signature, so there is no new program.
        """
        self.program_bytes += size
        self._noted += 1
        look = self._noted % (LOOK_SELDOM if seldom else LOOK_EVERY) == 0
        if self.program_bytes > self.most or look and self._many():
            self.short = True

    def _many(self) -> bool:
        with self._lock:
            signatures = sum(one.signatures() for one in self.functions)
        return signatures > MOST_SIGNATURES or self._mappings() > self._limit * MOST_MAPPINGS

    def begin_in_child(self) -> None:
        """Sets aside the parent's programs, which a forked child can neither call nor release."""
        self._lock = threading.Lock()
        self.short = self.several = False
        self._left = [one.leave() for one in list(self.functions)]

    def clear(self) -> None:
        """Drops all programs."""
        with self._lock:
            known = list(self.functions)
        for one in known:
            one.clear()

    def make(self) -> None:
        """Drops at least half of all programs and signatures, starting with the functions that have the most."""
        with self._lock:
            if not self.short:
                return
            self.short = False
            known = list(self.functions)
        known.sort(key=lambda one: (-sum(one.forms()), -one.signatures()))
        total = left = sum(one.signatures() for one in known)
        self.program_bytes = total_bytes = sum(one.program_bytes for one in known)
        for one in known:
            if left <= total / 2 and self.program_bytes <= total_bytes / 2:
                break
            left -= one.signatures()
            one.clear()
        give_back()
        logging.getLogger("mxjax.kernel").info(
            "dropped %d of %d signatures of compiled functions, whose programs took about %d MB, because there were "
            "too many of them, or they exceeded MXJAX_PROGRAM_MEMORY = %d MB, or they approached the limit of memory "
            "mappings (vm.max_map_count = %s); dropped programs are compiled again when "
            "needed", total - left, total, total_bytes >> 20,
            self.most >> 20, self._limit)

    @staticmethod
    def _mappings() -> int:
        with contextlib.suppress(OSError):
            return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
        return 0


def _most_bytes() -> int:
    limit = settings.PROGRAM_MEMORY()
    if limit is not None:
        return limit << 20
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return min(1 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    return 1 << 30
