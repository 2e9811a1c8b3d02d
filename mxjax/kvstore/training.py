"""Training with a store: its choice, its initial values, pushing gradients and pulling parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._support import settings
from ..ndarray import NDArray
from .base import KVStoreBase, create
from .kvstore import KVStore

if TYPE_CHECKING:
    from .base import StoreLike

__all__: list[str] = []


def _create_kvstore(kvstore: StoreLike, num_device: int, arg_params: dict[str, NDArray]) -> tuple[Any, bool]:
    """Returns the store for training, and whether it runs the updates.

    Args:
        kvstore: a store, the name of one, or None.
        num_device: number of devices; one needs no store unless it is a distributed one.
        arg_params: parameters; their sizes decide where a "local" store updates.
    """
    if kvstore is None or (isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore):
        return None, False
    on_store = settings.UPDATE_ON_KVSTORE()
    if isinstance(kvstore, str):
        store = create(kvstore)
        if kvstore == "local" and max((math.prod(p.shape) for p in arg_params.values()), default=0) > 2 ** 24:
            on_store = False
    elif isinstance(kvstore, KVStoreBase):
        store = kvstore
    else:
        raise TypeError(f"kvstore must be a KVStore, its name or None, got {type(kvstore).__name__}")
    return store, on_store and store.is_capable(KVStoreBase.OPTIMIZER)


def _create_sparse_kvstore(kvstore: KVStore | str) -> tuple[Any, bool]:
    """The store for row-sparse parameters, which it must update itself."""
    store = create(kvstore) if isinstance(kvstore, str) else kvstore
    if not isinstance(kvstore, str | KVStore):
        raise TypeError(f"row_sparse parameters require a KVStore or its name, got {kvstore!r}")
    if not store.is_capable(KVStoreBase.OPTIMIZER):
        raise ValueError(f"row_sparse parameters require a store that can run the optimizer; {store.type} cannot")
    return store, True


def _initialize_kvstore(kvstore: Any, param_arrays: list[list[NDArray]], arg_params: dict[str, NDArray],
                        param_names: list[str], update_on_kvstore: bool) -> None:
    """Initializes the store and, where it updates, pulls its values to the devices."""
    for name, arrays in zip(param_names, param_arrays, strict=True):
        if update_on_kvstore and arg_params[name].stype == "default":
            kvstore.broadcast(name, arg_params[name], out=arrays)
        else:
            kvstore.init(name, arg_params[name])


def _exchange(kvstore: Any, names: list[str], sent: list[list[NDArray]], received: list[list[NDArray]]) -> None:
    """Pushes values and pulls the results, all dense keys in one call where the store supports it."""
    dense, sparse = [], []
    for i, row in enumerate(zip(names, sent, received, strict=True)):
        (dense if row[1][0].stype == row[2][0].stype == "default" else sparse).append((row, -i))
    if dense and isinstance(kvstore, KVStore):
        keys, values, outs = map(list, zip(*(row for row, _ in dense), strict=True))
        kvstore.pushpull(keys, values, out=outs)
    else:
        for (name, values, outs), priority in dense:
            kvstore.pushpull(name, values, out=None if outs is values else outs, priority=priority)
    for (name, values, outs), priority in sparse:
        kvstore.push(name, values, priority=priority)
        kvstore.pull(name, out=outs, priority=priority)


def _with_gradient(*columns: Sequence[Any]) -> list[list[Any]]:
    """Returns the columns (the last one: gradients) without the rows whose gradient is None."""
    rows = [row for row in zip(*columns, strict=True) if row[-1][0] is not None]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]


def _update_params_on_kvstore(param_arrays: list[list[NDArray]], grad_arrays: list[list[NDArray]], kvstore: Any,
                              param_names: list[str]) -> None:
    """Push gradients, pull the parameters that the store has updated."""
    names, params, grads = _with_gradient(param_names, param_arrays, grad_arrays)
    _exchange(kvstore, names, grads, params)


def _update_params(param_arrays: list[list[NDArray]], grad_arrays: list[list[NDArray]], updater: Callable[..., None],
                   num_device: int, kvstore: Any = None, param_names: list[str] | None = None) -> None:
    """Sum gradients over the devices by the store if there is one, then update: one call per device."""
    if param_names is None:
        param_names = [str(i) for i in range(len(param_arrays))]
    indices, names, params, grads = _with_gradient(range(len(param_arrays)), param_names, param_arrays, grad_arrays)
    if kvstore:
        _exchange(kvstore, names, grads, grads)
    for k in range(num_device if indices else 0):
        updater([i * num_device + k for i in indices], [grad[k] for grad in grads], [param[k] for param in params])
