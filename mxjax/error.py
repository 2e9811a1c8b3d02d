"""MXNet's error classes by name.

An error's text begins with the name of its class ("MyError: no such column"); what is registered here is what
`mx.base.c2pyerror` recognizes in such a text and `mx.base.error_types` makes it into:

    message, name = mx.base.c2pyerror(text)
    raise mx.base.error_types.get(name, mx.MXNetError)(message)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import MXNetError, error_types

__all__ = ["InternalError", "MXNetError", "register"]


def register(func_name: Any = None, cls: type | None = None) -> Any:
    """Registers an error class, under its own or another name; usable as a decorator.

    Args:
        func_name: the class, or a name for it.
        cls: the class, where a name is given.

    Returns:
        The class, or, where only a name is given, a decorator.

    Example:
        >>> @mx.error.register
        ... class MyError(mx.MXNetError):
        ...     pass
        >>> mx.base.c2pyerror("MyError: no such column")
        ('no such column', 'MyError')
    """
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name

    def decorate(kind: type) -> type:
        error_types[func_name or kind.__name__] = kind
        return kind
    return decorate if cls is None else decorate(cls)


register_error: Callable[..., Any] = register


@register
class InternalError(MXNetError):
    """A fault of the library itself."""
