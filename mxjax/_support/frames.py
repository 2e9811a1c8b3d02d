"""Conversion of data frames and series of pandas, polars and Arrow to arrays. None of these packages is required."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["column", "columns"]

_LIBRARIES = ("pandas", "polars", "pyarrow")


def _library(value: object) -> str | None:
    for kind in type(value).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _LIBRARIES:
            return name
    return None


def columns(value: Any) -> dict[str, np.ndarray] | None:
    """Returns the columns of a data frame (DataFrame; Arrow Table or RecordBatch) by name, in order.

    Args:
        value: any object; the result is None if it is not a data frame.

    Raises:
        ValueError: two columns have the same name.
        TypeError: it is a LazyFrame.
    """
    library = _library(value)
    if library == "polars" and type(value).__name__ == "LazyFrame":
        raise TypeError("a LazyFrame has no values yet: pass its collect()")
    names = getattr(value, "column_names" if library == "pyarrow" else "columns", None) if library else None
    if names is None:
        return None
    names = list(names)
    if len(set(map(str, names))) != len(names):
        raise ValueError(f"several columns have the same name: {names}")
    take = value.column if library == "pyarrow" else value.__getitem__
    result = {str(name): column(take(name)) for name in names}
    return {name: values for name, values in result.items() if values is not None}


def column(value: Any) -> np.ndarray | None:
    """Returns the values of a series (pandas and polars Series, Arrow Array and ChunkedArray) by position.

    Missing numbers become NaN. Lists of the same length become additional dimensions; strings stay
    unchanged.

    Args:
        value: any object; the result is None if it is not a series.
    """
    library = _library(value)
    if library is None or not hasattr(value, "to_numpy") or hasattr(value, "columns") or hasattr(value, "column_names"):
        return None
    if library == "pandas":
        dtype = value.dtype
        numbers = getattr(dtype, "kind", "O") in "iuf" and not isinstance(dtype, np.dtype) and value.hasnans
        array = value.to_numpy(dtype="float64", na_value=np.nan) if numbers else value.to_numpy()
    elif library == "pyarrow" and type(value).__name__ != "ChunkedArray":
        array = value.to_numpy(zero_copy_only=False)
    else:
        array = value.to_numpy()
    if array.dtype == object and len(array) and isinstance(array[0], np.ndarray | list | tuple):
        parts = [np.asarray(part) for part in array]
        if len({part.shape for part in parts}) == 1:
            array = np.stack(parts)
    return array
