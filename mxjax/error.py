"""MXNet's error classes by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import MXNetError

__all__ = ["InternalError", "MXNetError", "register"]

_KINDS: dict[str, type] = {}


def register(func_name: Any = None, cls: type | None = None) -> Any:
    """Registers an error class, under its own or another name; usable as a decorator.

    Args:
        func_name: the class, or a name for it.
        cls: the class, where a name is given.
    """
    if isinstance(func_name, type):
        _KINDS[func_name.__name__] = func_name
        return func_name

    def decorate(kind: type) -> type:
        _KINDS[func_name or kind.__name__] = kind
        return kind
    return decorate if cls is None else decorate(cls)


register_error: Callable[..., Any] = register


@register
class InternalError(MXNetError):
    """A fault of the library itself."""


for _kind in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register(_kind.__name__, _kind)
