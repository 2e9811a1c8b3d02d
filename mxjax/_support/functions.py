"""Functions made of source text, for tables of functions that differ in their arguments alone."""

from __future__ import annotations

from typing import Any

__all__ = ["define"]


def define(name: str, arguments: str, body: str = "pass", **scope: object) -> Any:
    """Returns a new function `def name(arguments): body`.

    A wrapper that binds `*args` to a signature would take ten times as long as most operators.

    Args:
        name, arguments, body: source text from the library's own tables, never from users or files.
        scope: the names that the body uses.

    Example:
        >>> from mxjax._support.functions import define
        >>> define("twice", "x, times=2", "return x * times")(3)
        6
    """
    exec(f"def {name}({arguments}):\n    {body}", scope)
    return scope[name]
