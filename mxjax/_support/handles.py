"""Pointers by which objects are known to code that was written for MXNet's C library."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from ..base import MXNetError

__all__ = ["handed_over", "pointer", "taken"]

_known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_made: dict[int, Any] = {}  # what waits for somebody to take it over


def pointer(value: object) -> ctypes.c_void_p:
    """A pointer by which an object is found as long as it lives."""
    _known[id(value)] = value
    return ctypes.c_void_p(id(value))


def handed_over(value: object) -> ctypes.c_void_p:
    """A pointer to a new object, which lives until somebody has taken it."""
    _made[id(value)] = value
    return pointer(value)


def taken(handle: ctypes.c_void_p, kind: type) -> Any:
    """The object of a pointer.

    Raises:
        MXNetError: it does not live any more, or is no `kind`.
    """
    address = handle.value or 0  # None: a null pointer
    cached = _made.pop(address, _known.get(address))
    if not isinstance(cached, kind):
        raise MXNetError(f"the handle {handle.value} is not that of a living {kind.__name__}")
    return cached
