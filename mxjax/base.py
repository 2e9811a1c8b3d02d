"""Errors and small shared types."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

__all__ = ["MXNetError", "NotImplementedForSymbol", "NotSupportedForSparseNDArray"]

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)


class MXNetError(RuntimeError):
    """The error that every failure of an operator, a graph, the engine or a file ends in."""


class NotImplementedForSymbol(MXNetError):
    """An imperative-only operation was called on a Symbol.

    Args:
        function: the function or its name.
        alias: operator notation it is also known by.
        args: the arguments of the call.
    """

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        name = getattr(function, "__name__", function)
        kinds = ", ".join(type(a).__name__ for a in args)
        also = f" (namely operator {alias!r})" if alias else ""
        super().__init__(f"{name}{also} with arguments ({kinds}) is not supported for Symbol, only for NDArray")


class NotSupportedForSparseNDArray(MXNetError):
    """A dense-only operation was called on a sparse array; arguments as in `NotImplementedForSymbol`."""

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        name = getattr(function, "__name__", function)
        kinds = ", ".join(type(a).__name__ for a in args)
        also = f" (namely operator {alias!r})" if alias else ""
        super().__init__(f"{name}{also} with arguments ({kinds}) is not supported for sparse NDArrays")


class _NullType:
    """The value of an argument that was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()


def literal(text: str) -> Any:
    """The Python value that `text` writes; `text` itself where it is no literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
