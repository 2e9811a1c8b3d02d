"""The interface of key-value stores, their registry, and `create`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from ..base import Key, MXNetError, Precondition
from ..ndarray import NDArray

if TYPE_CHECKING:
    from ..optimizer.base import Optimizer

__all__ = ["KVStoreBase", "TestStore", "create"]


_Class = TypeVar("_Class", bound=type)
Keys: TypeAlias = Key | Sequence[Key]
Values: TypeAlias = "NDArray | Sequence[Values]"  # of a key, a list of its arrays, or such a list for each key


class KVStoreBase:
    """The interface of key-value stores for data-parallel training.

    `mx.kv.create("<lower-case name>")` creates subclasses that are decorated with
    `@KVStoreBase.register`.
    """

    OPTIMIZER: ClassVar[str] = "optimizer"
    kv_registry: ClassVar[dict[str, type]] = {}

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Copies the first worker's value to every array in `out`.

        Args:
            key: one key (int or str) or a list.
            value: for each key an NDArray, or a list of NDArrays (one per device).
            out: for each key the target NDArray, or a list of targets.
            priority: higher priorities run first.
        """
        raise NotImplementedError

    def pushpull(self, key: Keys, value: Values, out: Values | None = None, priority: int = 0) -> None:
        """Sums `value` over devices and workers into `out` (by default into `value`); arguments as in `broadcast`."""
        raise NotImplementedError

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Makes the store update its values with an optimizer."""
        raise NotImplementedError

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Returns whether the store has a capability, e.g. `KVStoreBase.OPTIMIZER`."""
        raise NotImplementedError

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states (and the optimizer itself) to a file."""
        raise NotImplementedError

    def load_optimizer_states(self, fname: str) -> None:
        """Reads the optimizer's states from a file."""
        raise NotImplementedError

    @property
    def type(self) -> str:
        """The name the store was created by."""
        raise NotImplementedError

    @property
    def rank(self) -> int:
        """The rank of this worker."""
        raise NotImplementedError

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        raise NotImplementedError

    @staticmethod
    def register(klass: _Class) -> _Class:
        """A decorator that registers a store for `create` under its lower-case class name.

        Raises:
            TypeError: the argument is not a class.
        """
        if not isinstance(klass, type):
            raise TypeError(f"KVStoreBase.register expects a class, got {klass!r}")
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass


StoreLike: TypeAlias = KVStoreBase | str | None  # a store or its name; None: no store


@KVStoreBase.register
class TestStore(KVStoreBase):
    """The simplest store: one worker, sums over devices, no optimizer."""

    __test__ = False

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Copies each value to its outputs."""
        for values, outs in _pairs(key, value, out):
            for target in outs:
                target[:] = values[0].as_in_context(target.context)

    def pushpull(self, key: Keys, value: Values, out: Values | None = None, priority: int = 0) -> None:
        """Sums each value's arrays into its outputs, or into themselves."""
        for values, outs in _pairs(key, value, out):
            total = sum((v.as_in_context(values[0].context) for v in values[1:]), values[0])
            for target in outs or values:
                target[:] = total.as_in_context(target.context)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Returns False for optimizers; the store only supports reductions."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise ValueError(f"unknown capability: {capability}")

    @property
    def type(self) -> str:
        """"teststore"."""
        return "teststore"

    @property
    def rank(self) -> int:
        """0."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1


def _pairs(key: Keys, value: Values | None, out: Values | None) -> list[tuple[list[NDArray], list[NDArray]]]:
    """(arrays, outputs) for each key."""
    single = not isinstance(key, (list, tuple))
    count = 1 if single else len(key)

    def rows(arrays: Values | None) -> list[list[Any]]:
        if arrays is None:
            return [[]] * count
        if isinstance(arrays, NDArray):
            return [[arrays]]
        if single:
            return [list(arrays)]
        return [[g] if isinstance(g, NDArray) else list(g) for g in arrays]
    values, outs = rows(value), rows(out)
    if len(values) != count or len(outs) != count:
        raise Precondition(f"expected one entry per key ({count}), got {len(values)} values and {len(outs)} outputs")
    return list(zip(values, outs, strict=True))


_own: dict[str, Callable[[str], KVStoreBase]] = {}  # the stores of this package


def called(*names: str) -> Callable[[_Class], _Class]:
    """A decorator that registers names for which `create` instantiates the class, with the name as the argument."""
    def enter(cls: _Class) -> _Class:
        _own.update(dict.fromkeys(names, cls))
        return cls
    return enter


def create(name: str = "local") -> Any:
    """Creates a store.

    Args:
        name: "local", "device", "nccl" and their variants (one process, all its devices), "dist_sync",
            "dist_device_sync" (several processes, synchronous), "dist_async" (several processes,
            asynchronous), or the lower-case name of a registered class. As in MXNet, other names without
            "dist" are local stores; a warning is logged.

    Raises:
        TypeError: the name is not a string.
        MXNetError: there is no such store for several processes.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    lower = name.lower()
    if lower in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[lower]()
    if lower in _own:
        return _own[lower](lower)
    if lower in ("horovod", "byteps"):
        raise MXNetError(f"kvstore {name!r} needs a package for MXNet's C++ library; in mxjax, use the kvstore "
                         "'dist_sync' and start the processes by python -m mxjax launch")
    known = ", ".join([*_own, *KVStoreBase.kv_registry])
    if "dist" in lower:
        raise MXNetError(f"unknown kvstore {name!r}; known: {known}")
    logging.getLogger("mxjax").warning("unknown kvstore %r is a local store, as in MXNet; known: %s", name, known)
    return _own["local"](lower)
