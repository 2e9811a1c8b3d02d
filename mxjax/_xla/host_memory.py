"""Configuration of the C library to keep the memory of deleted arrays for later ones.

By default glibc immediately returns every block of 32 MB or more to the system. The pages of the
next array are then new, and the system clears each one on first access, which takes three quarters
of the time of an addition (docs/design/0018).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

__all__ = ["give_back", "keep_freed"]

_LIMITS = {"trim_threshold": -1, "top_pad": -2, "mmap_threshold": -3, "arena_max": -8}  # glibc's numbers of `mallopt`
_MOST, _HEAP = 1 << 30, 1 << 26  # bytes; the latter is the size of a heap of a thread other than the first
_FEW = 4  # processors: the threads of a compiler hardly wait for each other where they share one heap


@functools.cache
def keep_freed() -> None:
    """Keeps freed blocks of up to 1 GB, or an eighth of the memory.

    On machines with few processors all threads share one heap, unless new pages are huge pages,
    which are cheap (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`). On machines with many processors,
    each of XLA's threads has heaps of 64 MB, which cannot contain larger blocks. Empty heaps are
    kept; otherwise the placement of blocks would decide whether each step starts with new pages.
    Call this before JAX creates its threads, because glibc counts heaps at a thread's first
    allocation. Limits from the environment take precedence. Other C libraries have no such limits.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        most = min(_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
        limits = {"trim_threshold": most, "top_pad": _HEAP, "mmap_threshold": most}
        tunables = os.environ.get("GLIBC_TUNABLES", "")
        huge = any(f"glibc.malloc.hugetlb={kind}" in tunables for kind in (1, 2))
        if len(os.sched_getaffinity(0)) <= _FEW and not huge:
            limits["arena_max"] = 1
        for name, limit in limits.items():
            if f"MALLOC_{name.upper()}" not in os.environ and f"MALLOC_{name.upper()}_" not in os.environ and \
                    name not in tunables:
                ctypes.CDLL(None).mallopt(_LIMITS[name], limit)


def give_back() -> None:
    """Returns all unused memory to the system."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
