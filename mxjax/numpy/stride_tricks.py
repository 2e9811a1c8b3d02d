"""Arrays stretched to a common shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._matrix import broadcast_to

__all__ = ["broadcast_arrays"]


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, each repeated to the shape they have in common."""
    shape = np.broadcast_shapes(*(a.shape for a in args))
    return [broadcast_to(a, shape) for a in args]
