"""Arguments that NumPy's functions took in MXNet's time."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import warnings
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


def _takes_ragged(make: Callable[..., Any]) -> Callable[..., Any]:
    """`np.array` or `np.asarray`, which make lists of different lengths an array of objects, with a warning."""
    @functools.wraps(make)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except ValueError as error:
            if "inhomogeneous" not in str(error) or len(args) > 1 or kwargs.get("dtype") is not None:
                raise
        warnings.warn("sequences of different lengths become an array of objects; dtype=object says that this is meant",
                      np.exceptions.VisibleDeprecationWarning, stacklevel=2)
        return make(*args, **{**kwargs, "dtype": object})
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
    """Makes NumPy's functions accept the arguments that NumPy accepted in MXNet's time."""
    for name, (then, now) in _RENAMED.items():
        function = getattr(np, name)
        if then not in inspect.signature(function).parameters:
            _replace(name, with_keyword(function, then, now))
    for name in _STACKS:
        _replace(name, _with_iterators(getattr(np, name)))
    _replace("array", _takes_ragged(_copies_if_needed(np.array)))
    _replace("asarray", _takes_ragged(np.asarray))
