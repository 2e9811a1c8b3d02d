"""Registries of array types, which the modules that define them fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .._support.providers import of_storages
from ..base import MXNetError
from ..context import Context
from .chunk import Chunk
from .handle import Handle
from .promise import Promise

__all__ = ["Storage", "array_classes", "storage", "storages", "wrap"]


class _Flavours:
    """The classes of dense arrays: `mx.nd.NDArray` and `mx.np.ndarray`."""

    classic: type[Handle]
    numpy: type[Handle]


array_classes = _Flavours()


class Storage(NamedTuple):
    """Functions of a storage type.

    zeros: function(shape, ctx, dtype); of_dense: function(dense array); array: function(array of it, ctx, dtype);
    of_parts: function((values, *index arrays), shape, dtype). All return an array of this storage
        type.
    """

    zeros: Callable[..., Any]
    of_dense: Callable[..., Any]
    array: Callable[..., Any]
    of_parts: Callable[..., Any]


storages: dict[str, Storage] = {}


def storage(stype: str) -> Storage:
    """Returns the storage type of this name.

    Raises:
        MXNetError: unknown storage type.
    """
    if stype not in storages:
        for load in of_storages:
            load()
    value = storages.get(stype)
    if value is None:
        raise MXNetError(f"unknown storage type {stype!r}; known: {', '.join(storages)}")
    return value


def wrap(value: jax.Array | np.ndarray | Promise, ctx: Context, array_type: type[Handle] | None = None) -> Any:
    """Creates an array handle for a buffer or Promise; a classic NDArray if `array_type` is None or not dense."""
    if array_type is None or not array_type.dense:
        array_type = array_classes.classic
    array = array_type.__new__(array_type)
    array.chunk = Chunk(None, ctx, value) if isinstance(value, Promise) else Chunk(value, ctx)
    array.region = array.entry = array.gradient = None
    return array
