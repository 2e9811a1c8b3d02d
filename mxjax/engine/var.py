"""Variables: the things whose reads and writes the engine puts in order; the errors they keep."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

__all__ = ["Failure", "Var"]


class Var:
    """A tag for something that functions read and mutate: an array, a file, a connection.  Make it with
    `Engine.new_variable`; it belongs to that engine.

    The engine keeps here, under its lock, who holds the variable and who waits for it.  ``_granted`` is the number of
    functions reading it now, -1 while one writes; ``_queue`` holds the uses behind those, in push order, as pairs
    (block, is a write); ``_uses`` and ``_writes`` count all uses and all writes that have been pushed and not
    completed.  ``_granted == 0`` implies an empty queue.

    Attributes:
        name: text for messages, or None.
        version: number of completed mutations.
        abandoned: set it where nobody can ask for the result any more: an error that has reached abandoned variables
            only is then dropped instead of being raised by `wait_for_all`.
    """

    __slots__ = ("name", "version", "_uses", "_writes", "_granted", "_queue", "_failure", "_deleted",
                 "abandoned")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.version = 0
        self._uses = 0
        self._writes = 0
        self._granted = 0
        self._queue: deque[tuple[Any, bool]] | None = None
        self._failure: Failure | None = None
        self._deleted = False
        self.abandoned = False

    @property
    def busy(self) -> bool:
        """Returns whether any use, read or write, is pending or running."""
        return self._uses > 0

    @property
    def pending_write(self) -> bool:
        """Returns whether a write is pending or running."""
        return self._writes > 0

    def __repr__(self) -> str:
        return f"<Var {self.name}>" if self.name is not None else f"<Var at {id(self):#x}>"


class Failure:
    """An error kept for a wait.  All variables that it reached share it; ``error`` is None once it was raised."""

    __slots__ = ("error", "traceback", "name", "vars")

    def __init__(self, error: BaseException, traceback: TracebackType | None, name: str) -> None:
        self.error: BaseException | None = error
        self.traceback = traceback
        self.name = name
        self.vars: list[Var] = []

    @property
    def abandoned(self) -> bool:
        """Returns whether the error has reached variables, and nobody is interested in any of them."""
        return bool(self.vars) and all(var.abandoned for var in self.vars)
