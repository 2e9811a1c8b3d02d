"""Texts of values as NumPy 1 wrote them, which MXNet's files and custom operators have."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["plain_text"]


def plain_text(value: Any) -> str:
    """Returns `str(value)`, in which NumPy's numbers are plain numbers.

    NumPy 2 shows a number inside a tuple, list or dictionary with its type, which no parser of
    shapes reads.

    Example:
        >>> plain_text((np.int64(2), 3))
        '(2, 3)'
    """
    if not isinstance(value, tuple | list | dict):
        return str(value)
    with np.printoptions(legacy="1.25"):
        return str(value)
