"""Printing of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["set_printoptions"]


def set_printoptions(precision: int | None = None, threshold: int | None = None, **kwarg: Any) -> None:
    """Sets printing options of arrays, including NumPy arrays; see `numpy.set_printoptions`.

    Args:
        precision: number of digits after the decimal point; None leaves it unchanged.
        threshold: number of elements that are printed in full; None leaves it unchanged.
        kwarg: no other options.

    Raises:
        NotImplementedError: other options.

    Example:
        >>> mx.np.set_printoptions(precision=2)
        >>> mx.np.array([3.14159])
        array([3.14])
        >>> mx.np.set_printoptions(precision=8)
    """
    if kwarg:
        raise NotImplementedError(f"set_printoptions supports only precision and threshold, got {', '.join(kwarg)}")
    np.set_printoptions(precision=precision, threshold=threshold)
