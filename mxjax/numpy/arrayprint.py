"""How arrays are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["set_printoptions"]


def set_printoptions(precision: int | None = None, threshold: int | None = None, **kwarg: Any) -> None:
    """`numpy.set_printoptions`: digits after the point, and how many elements are printed in full.

    Raises:
        NotImplementedError: other options.
    """
    if kwarg:
        raise NotImplementedError(f"set_printoptions only takes precision and threshold, got {', '.join(kwarg)}")
    np.set_printoptions(precision=precision, threshold=threshold)
