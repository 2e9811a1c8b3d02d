"""Functions made of source text, for tables that differ in their arguments alone; other names for keywords."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["define", "with_keyword"]


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


def with_keyword(function: Callable[..., Any], other: str, name: str) -> Callable[..., Any]:
    """Returns `function` with another name for its keyword `name`; both can be given."""
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if other in kwargs:
            kwargs[name] = kwargs.pop(other)
        return function(*args, **kwargs)
    return run
