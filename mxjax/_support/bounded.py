"""Bounded caches, which can all be cleared at once."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Bounded", "bounded_cache", "clear_all"]

_all: weakref.WeakSet[Bounded] = weakref.WeakSet()


class Bounded(dict):
    """A cache of values that can be rebuilt: when it reaches `most` entries, the older half is evicted.

    Look-ups are as fast as in a dictionary, and it is safe for several threads.
    """

    # An identity, for `clear_all`; the stubs of dict forbid subclasses that can be hashed.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        _all.add(self)

    def __setitem__(self, key: object, value: object) -> None:
        self._make_room()
        super().__setitem__(key, value)

    def setdefault(self, key: object, default: object = None) -> Any:
        self._make_room()
        return super().setdefault(key, default)

    def __reduce__(self) -> tuple:
        return Bounded, (self._most,), None, None, iter(list(self.items()))

    def _make_room(self) -> None:
        if len(self) >= self._most:
            for key in list(self)[:self._most // 2]:
                self.pop(key, None)


def bounded_cache(most: int) -> Callable[[Callable], Callable]:
    """A decorator that caches a function's results by its (positional, hashable) arguments in a `Bounded`."""
    def decorate(function: Callable) -> Callable:
        known: dict[tuple, Any] = Bounded(most)

        @functools.wraps(function)
        def call(*args: object) -> Any:
            cached = known.get(args)
            if cached is None:
                cached = known[args] = function(*args)
            return cached
        return call
    return decorate


def clear_all() -> None:
    """Clears all bounded caches."""
    for one in list(_all):
        one.clear()
