"""The state of JAX: whether it traces for a transformation (jit, grad, vmap ...), and its settings.

Also the types of values in programs.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol, cast

import jax
import numpy as np
from jax._src.config import trace_context
from jax.extend.core import Literal, Var, find_top_trace

from .x64 import x64_mode

__all__ = ["EVALUATES", "Aval", "as_elsewhere", "aval_of", "find_top_trace", "settings"]

settings: Any = jax.config  # whose types do not list the settings

with jax.ensure_compile_time_eval():
    EVALUATES = find_top_trace(None)  # outside of all transformations, `find_top_trace(None)` is this


class Aval(Protocol):
    """The type of an array in a program."""

    shape: tuple[Any, ...]  # ints, or symbols in programs for any size
    dtype: np.dtype
    ndim: int
    weak_type: bool


def aval_of(atom: Var | Literal) -> Aval:
    """Returns the type of a variable or literal, which JAX's stubs only declare as an abstract value."""
    return cast(Aval, atom.aval)


def as_elsewhere() -> bool:
    """Returns whether JAX's settings in this thread equal those of a new thread, except for 64-bit mode.

    This takes about 100 microseconds.
    """
    there: list[Any] = []
    x64 = settings.jax_enable_x64

    def look() -> None:
        with x64_mode(x64):
            there.append(trace_context())
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join()
    return there == [trace_context()]
