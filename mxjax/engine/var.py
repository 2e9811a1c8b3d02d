"""Variables, whose reads and writes the engine orders, and the errors stored in them."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

__all__ = ["Failure", "Var"]


class Var:
    """A tag for something that functions read and mutate: an array, a file, a connection. Create it
    with `Engine.new_variable`; it belongs to that engine.

    Under its lock, the engine stores here which functions use the variable or wait for it.
    ``granted`` is the number of functions that currently read it, -1 while one writes. ``queue``
    contains the waiting uses in push order, as pairs (block, is a write). ``uses`` and ``writes``
    count all uses and all writes that have been pushed and not completed. ``granted == 0`` implies
    an empty queue.

    Attributes:
        name: name for messages, or None.
        version: number of completed mutations.
        abandoned: set it if the result cannot be requested any more. `wait_for_all` does not raise
            errors that are stored only in abandoned variables.
    """

    __slots__ = ("name", "version", "uses", "writes", "granted", "queue", "failure", "deleted",
                 "abandoned")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.version = 0
        self.uses = 0
        self.writes = 0
        self.granted = 0
        self.queue: deque[tuple[Any, bool]] | None = None
        self.failure: Failure | None = None
        self.deleted = False
        self.abandoned = False

    @property
    def busy(self) -> bool:
        """Returns whether any use, read or write, is pending or running."""
        return self.uses > 0

    @property
    def pending_write(self) -> bool:
        """Returns whether a write is pending or running."""
        return self.writes > 0

    def __repr__(self) -> str:
        return f"<Var {self.name}>" if self.name is not None else f"<Var at {id(self):#x}>"


class Failure:
    """An error stored for a later wait. All affected variables share it; ``error`` is None after it was raised."""

    __slots__ = ("error", "traceback", "name", "vars")

    def __init__(self, error: BaseException, traceback: TracebackType | None, name: str) -> None:
        self.error: BaseException | None = error
        self.traceback = traceback
        self.name = name
        self.vars: list[Var] = []

    @property
    def abandoned(self) -> bool:
        """Returns whether the error is stored in variables and all of them are abandoned."""
        return bool(self.vars) and all(var.abandoned for var in self.vars)
