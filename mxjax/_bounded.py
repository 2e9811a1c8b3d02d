"""Memories that cannot grow for ever."""

from __future__ import annotations

from typing import Any

__all__ = ["Bounded"]


class Bounded(dict):
    """A dictionary of what can be made again: when it has `most` entries, the older half goes.

    Looking up costs what it costs in a dictionary, and several threads may use it.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Any, value: Any) -> None:
        self._make_room()
        super().__setitem__(key, value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self._make_room()
        return super().setdefault(key, default)

    def __reduce__(self) -> tuple:
        return Bounded, (self._most,), None, None, iter(list(self.items()))

    def _make_room(self) -> None:
        if len(self) >= self._most:
            for key in list(self)[:self._most // 2]:
                self.pop(key, None)
