"""Modules loaded without the garbage collector, which would go through all of their objects in vain."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

__all__ = ["loading"]

_FEW = 60_000  # objects: a process that has done little more than import modules


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """A block that loads modules of the library.

    JAX and the library make some 150,000 objects that live as long as the process. The collector is off meanwhile (a
    tenth of the time). Where they come before the program's own objects, they are frozen, as `gc.freeze` does it: each
    later full collection would take 0.1 s for them, which is as much as hundreds of small calls.
    """
    if not gc.isenabled():  # an outer block, or the program's wish
        yield
        return
    first = "jax" not in sys.modules and len(gc.get_objects()) < _FEW
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if first and "jax" in sys.modules:
            gc.freeze()
