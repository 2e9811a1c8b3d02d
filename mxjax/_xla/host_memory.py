"""What the C library does with the memory of arrays that are gone: it keeps some, for the next ones.

glibc gives every block of 32 MB and more back to the system at once. The next array's pages are then new ones, which
the system clears one by one as they are touched: three quarters of the time of an addition (docs/design/0018).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

__all__ = ["give_back", "keep_freed"]

_LIMITS = {"trim_threshold": -1, "top_pad": -2, "mmap_threshold": -3, "arena_max": -8}  # glibc's numbers of `mallopt`
_MOST, _HEAP = 1 << 30, 1 << 26  # bytes; the latter is what a heap of another thread than the first one holds
_FEW = 4  # processors: the threads of a compiler hardly wait for each other where they share one heap


@functools.cache
def keep_freed() -> None:
    """From now on blocks of up to 1 GB, or an eighth of the memory, are kept when they are freed.

    Where there are few processors, all threads share one heap, unless new pages are huge ones, which cost little
    (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`). Where there are many, each of XLA's has heaps of 64 MB,
    which hold no larger block; those stay when nothing lies in them (else it depends on where blocks came to lie
    whether each step begins with new pages). Called before JAX makes its threads: glibc counts heaps when one first
    asks for memory. A limit that somebody has set in the environment stays; other libraries have none.
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
    """Gives the system all memory that nothing lies in."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
