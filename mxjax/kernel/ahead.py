"""Parallel compilation of programs ahead of their calls, in the engine's threads.

XLA compiles a program on one processor, without Python's lock. So calls that need new programs do
not wait for each other: each one submits its program to the engine's "compile" lane and continues
with the next call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import engine
from .._support import settings
from .._support.bounded import Bounded
from .._xla.process import check, when_forked
from .._xla.tracing import settings as jax_settings
from ..engine import Var

__all__ = ["Ahead", "Later", "compiling", "may_wait"]

_MOST = 64  # programs of one function that may be compiled ahead of their calls
_lock = threading.Lock()
_running = 0


class Later(Exception):
    """Raised by a call that needs a new program, so that its caller may compile it in other
    threads. The next call compiles."""


def compiling() -> bool:
    """Returns whether programs are being compiled ahead."""
    return _running > 0


def may_wait() -> bool:
    """Returns whether the engine has its own threads, and this is not one of them."""
    return settings.ENGINE_TYPE() != "NaiveEngine" and not engine.running()


def _count(change: int) -> None:
    global _running
    with _lock:
        _running += change


@when_forked
def _begin_in_child() -> None:
    """Drops the compilations of the parent, whose threads do not exist in the child."""
    global _lock, _running
    _lock, _running = threading.Lock(), 0


class Ahead:
    """The programs of one function that are currently being compiled."""

    __slots__ = ("programs",)

    def __init__(self) -> None:
        self.programs: dict[tuple, tuple[Var, Any]] = Bounded(_MOST)

    def begin(self, args: Sequence[Any], name: str, lower: Callable[[], tuple[Any, Callable[[], object]]]) -> Var:
        """Starts to compile the program for these arguments in the engine, unless that is already running.

        Args:
            args: arrays, or shapes and dtypes.
            name: name for the engine's messages.
            lower: function that returns the program and the function that compiles it; called
                immediately.

        Returns:
            The engine's variable, which becomes available when the program is compiled.
        """
        key = _key(args)
        var, program = self.programs.get(key, (None, None))
        if var is None:
            program, compiles = lower()
            var = engine.get().new_variable()
            self.programs[key] = var, program

            def compile_it(_: object, done: Callable[[], None]) -> None:
                try:
                    check()
                    with contextlib.suppress(Exception):  # the call that needs the program raises it
                        compiles()
                finally:
                    _count(-1)
                    done()
            _count(1)
            engine.get().push_async(compile_it, (), (var,), name=f"compiling {name}", lane="compile")
        return var

    def take(self, args: Sequence[Any]) -> Any:
        """Returns the program for these arguments once it is compiled; None if its compilation was not started."""
        var, program = self.programs.pop(_key(args), (None, None))
        if var is not None:
            engine.get().wait_for_var(var)
        return program


def _key(args: Sequence[Any]) -> tuple:
    return (jax_settings.jax_enable_x64, *[(a.shape, a.dtype) if hasattr(a, "shape") else type(a) for a in args])
