"""The unique values of an array, with named results."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._dispatch import ArrayOrSymbol
from ._index import unique

__all__ = ["unique_all", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """The unique values, the indices of their first occurrences, the inverse indices, and the counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The unique values and the inverse indices."""

    values: Any
    inverse_indices: Any


def unique_all(x: ArrayOrSymbol) -> UniqueAll:
    """The sorted unique values of an array, with their indices, inverse indices and counts.

    Args:
        x: ndarray.

    Returns:
        A named tuple of `values` and three int64 vectors: `indices`, the first occurrences in the flattened array,
        `inverse_indices`, which map each element to its value, and `counts`.

    Example:
        >>> found = mx.np.unique_all(mx.np.array([3, 1, 3]))
        >>> found.values, found.counts
        (array([1., 3.]), array([1, 2], dtype=int64))
    """
    return UniqueAll(*unique(x, True, True, True))


def unique_inverse(x: ArrayOrSymbol) -> UniqueInverse:
    """The sorted unique values of an array and the inverse indices.

    Args:
        x: ndarray.

    Returns:
        A named tuple of `values` and `inverse_indices`, an int64 vector for the flattened array.

    Example:
        >>> found = mx.np.unique_inverse(mx.np.array([3, 1, 3]))
        >>> found.inverse_indices
        array([1, 0, 1], dtype=int64)
    """
    return UniqueInverse(*unique(x, return_inverse=True))


def unique_values(x: ArrayOrSymbol) -> Any:
    """The sorted unique values of an array.

    Args:
        x: ndarray.

    Returns:
        A vector of the dtype of `x`.

    Example:
        >>> mx.np.unique_values(mx.np.array([3, 1, 3]))
        array([1., 3.])
    """
    return unique(x)
