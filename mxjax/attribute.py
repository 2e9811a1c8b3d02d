"""Attributes that every symbol made inside a `with` block gets."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["AttrScope", "current"]


class PerThread(threading.local):
    """A thread's scopes: the current one in `value`, those around it in `outer`, the innermost last.

    They are the thread's, not the scope objects', because several threads may be in one scope at once.

    Args:
        first: function that returns the first scope of a thread.
    """

    def __init__(self, first: Callable[[], Any]) -> None:
        self.value = first()
        self.outer: list[Any] = []


class _ScopeType(type):
    """`current` as a property of the class itself, as MXNet has it."""

    _current: PerThread

    @property
    def current(cls) -> Any:
        """This thread's innermost scope; deprecated by MXNet in favour of the `with` statement."""
        warnings.warn(f"{cls.__name__}.current is deprecated; use the `with` statement", DeprecationWarning,
                      stacklevel=2)
        return cls._current.value

    @current.setter
    def current(cls, scope: object) -> None:
        cls._current.value = scope

    def innermost(cls) -> Any:
        """Returns this thread's innermost scope, for the library itself: without a warning."""
        return cls._current.value


class _Scope(metaclass=_ScopeType):
    """An object that a `with` block makes the current one of its kind in this thread (`cls._current.value`)."""

    _current: ClassVar[PerThread]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if _Scope in cls.__bases__:  # the root of a kind; its subclasses share its current scope
            cls._current = PerThread(cls)

    def __enter__(self) -> Any:
        current = self._current
        current.outer.append(current.value)
        current.value = self
        return self

    def __exit__(self, *exc: object) -> None:
        self._current.value = self._current.outer.pop()


class AttrScope(_Scope):
    """Attributes for the symbols made inside; inner scopes add to outer ones and win over them.

    Args:
        **kwargs: attribute names and values, all strings.

    Raises:
        ValueError: a value is not a string.

    Example:
        >>> with AttrScope(ctx_group="dev1"), AttrScope(__lr_mult__="2") as scope:
        ...     scope.get({"x": "y"})
        {'ctx_group': 'dev1', '__lr_mult__': '2', 'x': 'y'}
    """

    _subgraph_names: ClassVar[dict[str, int]] = defaultdict(int)  # counts control-flow subgraphs by name

    def __init__(self, **kwargs: str) -> None:
        for name, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"attribute {name!r} must be a string, got {value!r}")
        self._attr = self._own = kwargs

    def get(self, attr: dict[str, str] | None) -> dict[str, str]:
        """`attr` on top of this scope's attributes."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._attr = {**self._current.value._attr, **self._own}
        return super().__enter__()


def current() -> AttrScope:
    """Returns this thread's current AttrScope; MXNet 2's way to ask."""
    return AttrScope.innermost()
