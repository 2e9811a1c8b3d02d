"""Broadcasting of arrays to a common shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._dispatch import ArrayOrSymbol
from ._matrix import broadcast_to

__all__ = ["broadcast_arrays"]


def broadcast_arrays(*args: ArrayOrSymbol) -> list[Any]:
    """Broadcasts arrays to a common shape.

    Args:
        args: ndarrays.

    Returns:
        A list of ndarrays.

    Raises:
        ValueError: the shapes do not broadcast.

    Example:
        >>> a, b = mx.np.broadcast_arrays(mx.np.array([[1], [2]]), mx.np.array([3, 4]))
        >>> a
        array([[1., 1.],
               [2., 2.]])
        >>> b
        array([[3., 4.],
               [3., 4.]])
    """
    shape = np.broadcast_shapes(*(a.shape for a in args))
    return [broadcast_to(a, shape) for a in args]
