"""Grids of coordinates."""

from __future__ import annotations

from typing import Any

from ._dispatch import ArrayOrSymbol
from ._matrix import copy as _copy
from .stride_tricks import broadcast_arrays

__all__ = ["meshgrid"]


def meshgrid(*xi: ArrayOrSymbol, **kwargs: Any) -> list[Any]:
    """Coordinate matrices from coordinate vectors.

    Args:
        xi: vectors.
        kwargs: `indexing` ("xy", the first two axes swapped, or "ij"), `sparse` (keeps axes of size 1), `copy`.

    Returns:
        A list with an ndarray for each vector; all have the same shape, unless `sparse` is set.

    Raises:
        ValueError: an unknown `indexing`.
        TypeError: an unknown keyword.

    Example:
        >>> x, y = mx.np.meshgrid(mx.np.array([1, 2]), mx.np.array([3, 4, 5]))
        >>> x
        array([[1., 2.],
               [1., 2.],
               [1., 2.]])
        >>> y.shape
        (3, 2)
    """
    indexing, sparse = kwargs.pop("indexing", "xy"), kwargs.pop("sparse", False)
    copied = kwargs.pop("copy", True)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    place = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        place[:2] = 1, 0
    grids = [x.reshape(tuple(-1 if i == place[n] else 1 for i in range(len(xi)))) for n, x in enumerate(xi)]
    if not sparse:
        grids = broadcast_arrays(*grids)
    return [_copy(g) for g in grids] if copied else grids
