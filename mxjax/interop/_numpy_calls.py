"""Arguments that NumPy's functions took in MXNet's time."""

from __future__ import annotations

import collections.abc
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .._support.functions import with_keyword

__all__ = ["give_calls_back"]

# keywords by function: the name then, the name now
_RENAMED = {"reshape": ("newshape", "shape"),
            **dict.fromkeys(("percentile", "quantile", "nanpercentile", "nanquantile"), ("interpolation", "method"))}
_STACKS = ("vstack", "hstack", "dstack", "column_stack", "stack")


def _replace(name: str, made: Callable[..., Any]) -> None:
    vars(made)["of_numpy"] = getattr(np, name)  # NumPy's dispatch to other arrays names the function by this
    setattr(np, name, made)


def _with_iterators(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that joins arrays, and takes iterators of them."""
    @functools.wraps(function)
    def run(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        return function(list(arrays) if isinstance(arrays, collections.abc.Iterator) else arrays, *args, **kwargs)
    return run


def _copies_if_needed(array: Callable[..., Any]) -> Callable[..., Any]:
    """`np.array`, in which `copy=False` avoids the copy where it can, and is no error elsewhere."""
    @functools.wraps(array)
    def run(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("copy") is False:
            kwargs["copy"] = None
        return array(*args, **kwargs)
    return run


def give_calls_back() -> None:
    """Makes NumPy's functions take what they took in MXNet's time."""
    for name, (then, now) in _RENAMED.items():
        function = getattr(np, name)
        if then not in inspect.signature(function).parameters:
            _replace(name, with_keyword(function, then, now))
    for name in _STACKS:
        _replace(name, _with_iterators(getattr(np, name)))
    _replace("array", _copies_if_needed(np.array))
