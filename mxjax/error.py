"""MXNet's error classes by name.

An error's text begins with the name of its class ("MyError: no such column"); a class registered here is the one that
`mx.base.c2pyerror` recognizes in such a text and `mx.base.error_types` makes it into:

    message, name = mx.base.c2pyerror(text)
    raise mx.base.error_types.get(name, mx.MXNetError)(message)
"""

from __future__ import annotations

from .base import MXNetError, register_error

__all__ = ["InternalError", "MXNetError", "register"]

register = register_error


@register
class InternalError(MXNetError):
    """A fault of the library itself."""
