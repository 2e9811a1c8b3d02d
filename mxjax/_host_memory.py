"""What the C library does with the memory of arrays that are gone: it keeps some, for the next ones.

glibc gives every block of 32 MB and more back to the system at once. The next array's pages are then new ones, which
the system clears one by one as they are touched: three quarters of the time of an addition (docs/design/0018).
"""

from __future__ import annotations

import contextlib
import ctypes
import os

__all__ = ["give_back", "keep_freed"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers of `mallopt`
_MOST = 1 << 30


def keep_freed() -> None:
    """From now on blocks of up to 1 GB, or an eighth of the memory, are kept when they are freed.

    In threads of XLA's own it is 64 MB, the most that glibc's heap of a thread holds.
    Where somebody has set the C library's limits in the environment, those stay; other libraries have none.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError, ValueError):
        most = min(_MOST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
        for limit in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            ctypes.CDLL(None).mallopt(limit, most)


def give_back() -> None:
    """Gives the system all memory that nothing lies in."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
