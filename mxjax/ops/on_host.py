"""Registration of operators that run on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..base import MXNetError
from .registry import register

__all__ = ["on_host"]


def on_host(name: str, aliases: tuple[str, ...] = (), **attrs: Any) -> Callable[[Callable], Callable]:
    """Registers function(*NDArrays, _ctx, **params) -> list of NDArrays; in a graph it cuts the compiled program.

    The parameters are the function's keyword-only arguments; `_ctx` is the context of the call.
    """
    def decorate(function: Callable) -> Callable:
        def call(params: dict[str, Any], arrays: list[Any], ctx: Any) -> list[Any]:
            return function(*arrays, **params, _ctx=ctx)

        @functools.wraps(function)
        def no_program(*arrays: Any, **params: Any) -> Any:
            raise MXNetError(f"operator {name} runs on the host; it cannot be part of one XLA program")

        register(name, aliases=aliases, eager=True, FHost=call, **attrs)(no_program)
        return function
    return decorate
