"""Pointers that represent objects in code for MXNet's C library."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from ..base import MXNetError

__all__ = ["handed_over", "pointer", "referent", "taken"]

_known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_made: dict[int, Any] = {}  # objects whose handles are not taken over yet


def pointer(value: object) -> ctypes.c_void_p:
    """Returns a pointer to an object, which is valid as long as the object exists."""
    _known[id(value)] = value
    return ctypes.c_void_p(id(value))


def handed_over(value: object) -> ctypes.c_void_p:
    """Returns a pointer to a new object, which is kept alive until `taken` is called."""
    _made[id(value)] = value
    return pointer(value)


def referent(handle: ctypes.c_void_p, kind: type) -> Any:
    """Returns the object of a pointer.

    Raises:
        MXNetError: the object no longer exists, or is not a `kind`.
    """
    value = _known.get(handle.value or 0)  # None: a null pointer
    if not isinstance(value, kind):
        raise MXNetError(f"the handle {handle.value} does not refer to an existing {kind.__name__}")
    return value


def taken(handle: ctypes.c_void_p, kind: type) -> Any:
    """Returns the object of a pointer, which no longer keeps a new object alive.

    Raises:
        MXNetError: the object no longer exists, or is not a `kind`.
    """
    value = referent(handle, kind)
    _made.pop(handle.value or 0, None)
    return value
