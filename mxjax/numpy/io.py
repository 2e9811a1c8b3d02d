"""Reading arrays from text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import current_context
from ._ndarray import array

__all__ = ["genfromtxt"]


def genfromtxt(*args: Any, **kwargs: Any) -> Any:
    """`numpy.genfromtxt` as an ndarray; `ctx` says where."""
    ctx = kwargs.pop("ctx", None) or current_context()
    values = np.genfromtxt(*args, **kwargs)
    return array(values, dtype=kwargs.get("dtype") or values.dtype, ctx=ctx)
