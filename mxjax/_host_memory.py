"""What the C library does with the memory of arrays that are gone: it keeps some, for the next ones.

glibc gives every block of 32 MB and more back to the system at once. The next array's pages are then new ones, which
the system clears one by one as they are touched: three quarters of the time of an addition (docs/design/0018).
"""

from __future__ import annotations

import contextlib
import ctypes
import os

__all__ = ["give_back", "keep_freed"]

_LIMITS = {"trim_threshold": -1, "top_pad": -2, "mmap_threshold": -3}  # glibc's numbers of `mallopt`
_MOST, _HEAP = 1 << 30, 1 << 26  # bytes; the latter is what a heap of another thread than the first one holds


def keep_freed() -> None:
    """From now on blocks of up to 1 GB, or an eighth of the memory, are kept when they are freed.

    In threads of XLA's own it is 64 MB, the most that glibc's heap of a thread holds; those heaps stay when nothing
    lies in them (else it depends on where blocks came to lie whether each step begins with new pages).
    A limit that somebody has set in the environment stays; other libraries have none.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        most = min(_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
        for name, number in _LIMITS.items():
            if f"MALLOC_{name.upper()}_" not in os.environ and name not in os.environ.get("GLIBC_TUNABLES", ""):
                ctypes.CDLL(None).mallopt(number, _HEAP if name == "top_pad" else most)


def give_back() -> None:
    """Gives the system all memory that nothing lies in."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
