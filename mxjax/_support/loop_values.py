"""Converts the nested lists of arrays or symbols of control flow operators to flat lists and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["flatten", "regroup"]


def flatten(value: Any, kind: type, what: str) -> tuple[list[Any], Any]:
    """Returns (flat list, format). The format of a single value is None, that of a list or tuple
    the list of its items' formats.

    A symbol with several outputs counts as a list of its outputs.

    Raises:
        AssertionError: it contains something other than `kind` and lists; the message names `what`.
    """
    if isinstance(value, kind) and len(getattr(value, "_outputs", "1")) == 1:
        return [value], None
    if not isinstance(value, (list, tuple, kind)):
        raise AssertionError(f"{what} must be (nested) list of {kind.__name__}, but got {value!r} of type "
                             f"{type(value).__name__}")
    flat, formats = [], []
    for item in value:
        part, form = flatten(item, kind, what)
        flat += part
        formats.append(form)
    return flat, formats


def regroup(flat: list[Any], form: Any) -> Any:
    """Restores the structure that `flatten` described, with lists only."""
    values: Iterator[Any] = iter(flat)

    def take(form: Any) -> Any:
        return next(values) if form is None else [take(item) for item in form]
    return take(form)
