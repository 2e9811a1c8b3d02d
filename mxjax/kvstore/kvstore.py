"""KVStore: sums over the devices of one process, with or without an optimizer on the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import optimizer as opt
from .._support.files import reading, write_file
from ..array.sparse import BaseSparseNDArray, distinct_rows, retain
from ..base import MXNetError, Precondition, Unfit
from ..eager.array_types import wrap
from ..ndarray import NDArray
from .base import KVStoreBase, _pairs, called
from .compression import Compression
from .reduce import Reduced, reduce_all

if TYPE_CHECKING:
    from ..base import Key
    from ..optimizer.base import Optimizer
    from .base import Keys, Values

__all__ = ["KVStore"]


@called("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device", "nccl")
class KVStore(KVStoreBase):
    """A store within one process. Created by `mx.kv.create`.

    Without an updater, a pushed sum replaces the stored value. With one, `updater(key, sum,
    stored)` updates the stored value.

    Example:
        >>> store = mx.kv.create("device")
        >>> store.init(0, mx.nd.zeros((2,)))
        >>> store.push(0, [mx.nd.ones((2,)), mx.nd.ones((2,))])
        >>> out = mx.nd.zeros((2,)); store.pull(0, out); out.asnumpy()
        array([2., 2.], dtype=float32)
    """

    def __init__(self, handle: str = "local") -> None:
        self._type = handle
        self._values: dict[Any, NDArray] = {}
        self._sums: dict[Any, Reduced] = {}
        self._updater: Callable[[Any, Any, Any], None] | None = None  # of keys, sums and stored values, one or lists
        self._compression: Compression | None = None
        self._key_type: type | None = None

    # ------------------------------------------------------------ keys
    def _rows(self, key: Keys, value: Values | None,
              out: Values | None = None) -> tuple[list[Any], list[tuple[list, list]]]:
        """The keys, checked, and (arrays, outputs) for each."""
        keys: list[Any] = list(key) if isinstance(key, (list, tuple)) else [key]
        if len({isinstance(k, str) for k in keys}) > 1:
            raise Unfit(f"the keys of one call must all be int or all be str, got {keys}")
        for k in keys:
            key_type = str if isinstance(k, str) else int
            if not isinstance(k, (str, int)):
                raise TypeError(f"a key must be an int or a str, got {k!r}")
            if self._key_type not in (None, key_type):
                raise MXNetError(f"this store's keys must be {self._key_type.__name__}, got {k!r}")
            self._key_type = key_type
        if isinstance(key, (list, tuple)) and not isinstance(value, NDArray) and value is not None and \
                len(keys) != len(value) and len(keys) == 1:
            value = [value]
        if isinstance(key, (list, tuple)) and len(set(keys)) != len(keys):
            keys, value, out = _joined(keys, value, out)
        return keys, _pairs(keys if isinstance(key, (list, tuple)) else keys[0], value, out)

    def _stored(self, key: Key) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"key {key!r} has not been initialized")
        return self._values[key]

    # ------------------------------------------------------------ operations
    def init(self, key: Keys, value: Values) -> None:
        """Initializes values.

        Args:
            key: one key or a list.
            value: an NDArray, or a list with one per key.

        Raises:
            MXNetError: a key already has a value.
        """
        keys, rows = self._rows(key, value)
        for k, (values, _) in zip(keys, rows, strict=True):
            if k in self._values:
                raise MXNetError(f"key {k!r} is already initialized")
            self._values[k] = values[0].detach().copy()

    def push(self, key: Keys, value: Values, priority: int = 0) -> None:
        """Sums each key's arrays and stores the sum, or passes it to the updater.

        Args:
            key: one key or a list.
            value: for each key an NDArray, or a list of them (one per device).
            priority: ignored; XLA schedules the work.
        """
        keys, rows = self._rows(key, value)
        for k, (values, _) in zip(keys, rows, strict=True):
            stored = self._stored(k)
            bad = next((v for v in values if v.shape != stored.shape), None)
            if bad is not None:
                raise MXNetError(f"push to key {k!r}: an array has shape {bad.shape}, but the stored array has shape "
                                 f"{stored.shape}")
        self._settle(keys, self._reduce(keys, [values for values, _ in rows]))

    def _reduce(self, keys: list[Any], rows: list[list[NDArray]]) -> list[Any]:
        """The sum for each key: a `Reduced`, or a sparse array."""
        if self._compression is not None:
            rows = [[self._compression(k, i, v) if v.stype == "default" else v for i, v in enumerate(row)]
                    for k, row in zip(keys, rows, strict=True)]
        dense = [i for i, row in enumerate(rows) if all(v.stype == "default" for v in row)]
        results: list[Any] = [None] * len(rows)
        for i, total in zip(dense, reduce_all([rows[i] for i in dense]), strict=True):
            results[i] = total
        for i, row in enumerate(rows):
            if results[i] is None:
                ctx = row[0].context
                total = row[0]
                for v in row[1:]:
                    total = total + v.as_in_context(ctx)
                results[i] = total if total.stype == row[0].stype else total.tostype(row[0].stype)
        return results

    def _settle(self, keys: list[Any], sums: list[Any]) -> None:
        """Updates or replaces the stored values."""
        merged = []
        for k, total in zip(keys, sums, strict=True):
            stored = self._at_home(k, total)
            if isinstance(total, Reduced):
                total_here = wrap(total.on(stored.context.jax_device), stored.context)
            else:
                total_here = total.as_in_context(stored.context)
            merged.append(total_here)
        if self._updater is not None:
            for k in keys:
                self._sums.pop(k, None)
            weights = [self._values[k] for k in keys]
            if getattr(self._updater, "aggregate_updates", False) and len(keys) > 1:
                self._updater(keys, merged, weights)
            else:
                for k, total, weight in zip(keys, merged, weights, strict=True):
                    # a str key is bytes in MXNet's updaters, which C calls
                    self._updater(k.encode() if isinstance(k, str) else k, total, weight)
            return
        for k, total, here in zip(keys, sums, merged, strict=True):
            stored = self._values[k]
            if isinstance(total, Reduced) and stored.stype == "default" and stored.dtype == here.dtype:
                stored.write(here.read())
                self._sums[k] = total
            else:
                self._sums.pop(k, None)
                here.detach().copyto(stored)

    def _at_home(self, key: Key, total: Reduced | NDArray) -> NDArray:
        """A stored value, where it is updated: one that was made on the host follows its sums to their accelerator."""
        stored = self._values[key]
        if isinstance(total, Reduced) and stored.stype == "default" and stored.context.memory == "cpu" and \
                total.ctx.memory != "cpu" and "cpu" not in self._type:
            stored = self._values[key] = stored.as_in_context(total.ctx)
        return stored

    def pull(self, key: Keys, out: Values | None = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copies stored values to arrays.

        Args:
            key: one key or a list.
            out: for each key an NDArray, or a list of them.
            priority: ignored; accepted for compatibility.
            ignore_sparse: skip sparse outputs; use `row_sparse_pull` for them.

        Raises:
            MXNetError: a key has no value.
        """
        if out is None:
            raise Precondition("pull requires out=")
        keys, rows = self._rows(key, out)
        for k, (outs, _) in zip(keys, rows, strict=True):
            stored = self._stored(k)
            for target in outs:
                if isinstance(target, BaseSparseNDArray) and ignore_sparse:
                    continue
                self._hand_out(k, stored, target)

    def _hand_out(self, key: Key, stored: NDArray, target: NDArray) -> None:
        device, total = target.context.jax_device, self._sums.get(key)
        same = target.stype == stored.stype == "default" and target.dtype == stored.dtype \
            and target.shape == stored.shape
        if not same:
            if target.shape != stored.shape:
                raise MXNetError(f"pull of key {key!r}: out has shape {target.shape}, but the stored array has shape "
                                 f"{stored.shape}")
            stored.tostype(target.stype).astype(target.dtype, copy=False).copyto(target)
        elif total is not None:
            target.write(total.on(device))
        elif stored.context.jax_device == device:
            target.write(stored.read())
        else:
            stored.copyto(target)

    def pushpull(self, key: Keys, value: Values, out: Values | None = None, priority: int = 0) -> None:
        """Runs `push` and `pull`; if `out` is None, the result replaces `value`."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority, ignore_sparse=False)

    def broadcast(self, key: Keys, value: Values, out: Values, priority: int = 0) -> None:
        """Runs `init` and `pull`."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(self, key: Keys, out: Values | None = None, priority: int = 0,
                        row_ids: Values | None = None) -> None:
        """Copies selected rows of stored row_sparse values.

        Args:
            key, priority: as in `pull`.
            out: row_sparse arrays, one or a list per key.
            row_ids: for each output an array of row indices. Each row is returned once, in
                ascending order; rows that are not stored are zeros.

        Raises:
            MXNetError: an output is not row_sparse, or the arguments do not match.
        """
        if out is None or row_ids is None:
            raise Precondition("row_sparse_pull requires out= and row_ids=")
        keys, rows = self._rows(key, out)
        _, ids = self._rows(key, row_ids)
        for k, (outs, _), (wanted, _) in zip(keys, rows, ids, strict=True):
            stored = self._stored(k)
            if len(wanted) == 1:
                wanted = wanted * len(outs)
            if len(wanted) != len(outs):
                raise MXNetError(f"row_sparse_pull of key {k!r}: expected one row_ids per output ({len(outs)}), got "
                                 f"{len(wanted)}")
            source = stored if stored.stype == "row_sparse" else stored.tostype("row_sparse")
            for target, chosen in zip(outs, wanted, strict=True):
                if target.stype != "row_sparse":
                    raise MXNetError(f"row_sparse_pull of key {k!r}: out must be row_sparse, got {target.stype}")
                retain(source, distinct_rows(chosen)).copyto(target)

    # ------------------------------------------------------------ optimizer
    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Makes the store update its values: each push then runs `optimizer.update`."""
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], None]) -> None:
        """Sets `updater(key, sum, stored)`, which changes `stored` in place; keys that are str arrive as bytes."""
        self._updater = updater

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Quantizes pushed gradients with error feedback.

        Args:
            compression_params: {"type": "2bit" or "1bit", "threshold": 0.5}.

        Raises:
            MXNetError: the store is not of a "device" type.
        """
        if "device" not in self._type:
            raise MXNetError("Gradient compression is not supported for this type of kvstore")
        self._compression = Compression(compression_params)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Returns whether the store has a capability; it supports optimizers.

        Raises:
            ValueError: unknown capability.
        """
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise ValueError(f"unknown capability: {capability}")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states (and, with `dump_optimizer`, the optimizer) to a file.

        Raises:
            MXNetError: there is no optimizer.
        """
        write_file(fname, self._states_of_updater("get_states")(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Reads the optimizer's states from a file.

        Raises:
            MXNetError: there is no optimizer.
        """
        set_states = self._states_of_updater("set_states")
        with reading(fname, "optimizer states"), open(fname, "rb") as file:
            set_states(file.read())

    def _states_of_updater(self, method: str) -> Callable[..., Any]:
        """Returns the method of the updater that gives or takes the optimizer's states."""
        result = getattr(self._updater, method, None)
        if result is None:
            raise Precondition("there is no optimizer on this kvstore: call set_optimizer first")
        return result

    # ------------------------------------------------------------ workers
    @property
    def handle(self) -> KVStore:
        """Returns the store itself, for `mx.profiler.set_kvstore_handle`."""
        return self

    @property
    def type(self) -> str:
        """The name the store was created by."""
        return self._type

    @property
    def rank(self) -> int:
        """0, because there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1

    def _barrier(self) -> None:
        """Waits for all workers: nothing to do."""

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """There are no servers in one process."""


def _joined(keys: list[Any], value: Values | None, out: Values | None) -> tuple[list[Any], Any, Any]:
    """Arrays of a key that appears several times in a list belong together."""
    unique = list(dict.fromkeys(keys))

    def join(values: Values | None) -> Any:
        if values is None:
            return None
        rows: dict[Any, list] = {k: [] for k in unique}
        for k, v in zip(keys, values, strict=True):
            rows[k] += [v] if isinstance(v, NDArray) else list(v)
        return [rows[k] for k in unique]
    return unique, join(value), join(out)
