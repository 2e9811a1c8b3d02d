"""Loading of modules without side effects on the program: garbage collection, random numbers, logs."""

from __future__ import annotations

import contextlib
import gc
import logging
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

    NumPy's global generator keeps its state: JAX draws from it when it is imported, and a program that has seeded it
    would get other numbers afterwards.

    JAX's logger gets a level, unless it has one: many scripts have the root logger at DEBUG, and JAX logs 20 lines for
    each program that it compiles.
    """
    logger = logging.getLogger("jax")
    if not logger.level:
        logger.setLevel(logging.WARNING)
    with _generator_kept():
        if gc.isenabled():
            with _without_collection():
                yield
        else:  # an outer block, or the program's wish
            yield


@contextlib.contextmanager
def _generator_kept() -> Iterator[None]:
    numpy = None if "jax" in sys.modules else sys.modules.get("numpy")
    if numpy is None:
        yield
        return
    state = numpy.random.get_state(legacy=False)
    try:
        yield
    finally:
        if "jax" in sys.modules:
            numpy.random.set_state(state)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    first = "jax" not in sys.modules and len(gc.get_objects()) < _FEW
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if first and "jax" in sys.modules:
            gc.freeze()
