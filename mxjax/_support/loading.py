"""Loading of modules without garbage collection, which would scan all of their objects in vain."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

__all__ = ["loading"]

_FEW = 60_000  # objects: a process that has done little more than import modules


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """A block that loads modules of the library with the garbage collector off.

    JAX and the library create about 150,000 objects that live as long as the process. Switching the
    collector off meanwhile saves a tenth of the time. If they are created before the program's own
    objects, they are frozen (`gc.freeze`), because each later full collection would spend 0.1 s on
    them, as much as hundreds of small calls.
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
