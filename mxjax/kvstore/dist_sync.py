"""Synchronous stores over several processes: they sum over all workers, and every worker keeps the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._xla.transfer import moved
from ..array.sparse import RowSparseNDArray, row_sparse_array
from ..eager.array_types import wrap
from ..ndarray import NDArray
from . import cluster
from .base import called
from .compression import Compression
from .kvstore import KVStore
from .reduce import Reduced
from .workers import Workers

if TYPE_CHECKING:
    from ..optimizer.base import Optimizer
    from .base import Keys, Values

__all__ = ["DistSyncKVStore"]

_WORKERS = 4  # bits of a group of processes, as `get_num_dead_node` takes them
_SERVERS = 2


class _Dist(KVStore):
    """The common part of the stores over several processes."""

    def __init__(self, handle: str) -> None:
        super().__init__(handle)
        self._cluster = cluster.join(xla="async" not in handle)

    @property
    def rank(self) -> int:
        """The rank of this worker."""
        return self._cluster.rank if self._cluster is not None else 0

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self._cluster.size if self._cluster is not None else 1

    @property
    def is_recovery(self) -> bool:
        """True if this worker has rejoined a job after a failure."""
        return self._cluster is not None and self._cluster.returning

    def _barrier(self) -> None:
        """Waits until all workers are here."""
        if self._cluster is not None:
            self._cluster.barrier()

    def get_num_dead_node(self, node_id: int, timeout: float = 60) -> int:
        """Returns the number of processes that have died.

        Args:
            node_id: roles to count: the sum of 4 (workers) and 2 (servers).
            timeout: ignored. Failures are detected when a connection breaks, or after
                MXJAX_HEARTBEAT_TIMEOUT seconds without a heartbeat.
        """
        lost = self._cluster.lost if self._cluster is not None else {}
        return sum(1 for role, _ in lost if node_id & (_WORKERS if role == "worker" else _SERVERS))

    def _agree(self, what: str, keys: list[Any], values: list[NDArray]) -> None:
        """Checks that all workers give a call the same keys, shapes and dtypes."""
        if self._cluster is not None:
            self._cluster.agree(what, [f"key {k!r}" for k in keys],
                                [f"{v.stype} {np.dtype(v.dtype).name}{v.shape}" for v in values])


@called("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "dist_device", "dist_sync_allreduce")
class DistSyncKVStore(_Dist):
    """Sums synchronously over the devices of all workers. Created by `mx.kv.create("dist_sync")`.

    Every worker keeps all values and, if there is an optimizer, runs the same updates, so only the
    sums are sent over the network. All workers must make the same calls in the same order. The
    initial values are those of worker 0.
    """

    def __init__(self, handle: str) -> None:
        super().__init__(handle)
        self._workers = Workers(self._cluster) if self._cluster is not None and self._cluster.size > 1 else None
        self._wire: Compression | None = None
        self._agreed: set[Any] = set()

    # ------------------------------------------------------------ values
    def init(self, key: Keys, value: Values) -> None:
        """Initializes all workers with the values of worker 0; a second call replaces the values.

        Args:
            key: one key or a list.
            value: an NDArray, or a list with one per key; all workers must pass the same shapes.

        Raises:
            MXNetError: a worker passes other keys, shapes or dtypes, or has died.
        """
        keys, rows = self._rows(key, value)
        values = [row[0].detach().copy() for row, _ in rows]
        for k in keys:
            self._values.pop(k, None)
            self._sums.pop(k, None)
        if self._workers is not None:
            self._agree("kvstore init", keys, values)
            dense = [v for v in values if v.stype == "default"]
            for array, buffer in zip(dense, self._workers.broadcast([v.read() for v in dense]), strict=True):
                array.write(_on(buffer, array))
            values = [v if v.stype == "default" else self._first_workers(self._workers, v) for v in values]
        self._values.update(zip(keys, values, strict=True))

    @staticmethod
    def _first_workers(workers: Workers, value: NDArray) -> NDArray:
        """Worker 0's row_sparse (or csr) array."""
        dense = value.tostype("default")
        return wrap(_on(workers.broadcast([dense.read()])[0], dense), value.context).tostype(value.stype)

    def _reduce(self, keys: list[Any], rows: list[list[NDArray]]) -> list[Any]:
        """The sum over the devices of all workers for each key."""
        sums = super()._reduce(keys, rows)
        workers, wire = self._workers, self._wire
        if workers is None:
            return sums
        self._agree_once(keys, rows)
        dense = [i for i, total in enumerate(sums) if isinstance(total, Reduced)]
        values = [sums[i].on(rows[i][0].context.jax_device) for i in dense]
        packed = [wire is not None and wire.takes(v.dtype) for v in values]
        plain = iter(workers.all_reduce([v for v, p in zip(values, packed, strict=True) if not p]))
        quantized = iter(self._quantized(workers, wire, [
            (keys[i], v) for i, v, p in zip(dense, values, packed, strict=True) if p]))
        for i, is_packed in zip(dense, packed, strict=True):
            total = next(quantized) if is_packed else next(plain)
            sums[i] = Reduced({workers.device: total}, sums[i].ctx)
        for i, total in enumerate(sums):
            if not isinstance(total, Reduced):
                sums[i] = self._sum_of_rows(workers, total)
        return sums

    def _agree_once(self, keys: list[Any], rows: list[list[NDArray]]) -> None:
        """Checks a push of this form when it comes for the first time: sums of unlike arrays would hang."""
        form = tuple((k, row[0].shape, np.dtype(row[0].dtype), row[0].stype) for k, row in zip(keys, rows, strict=True))
        if form not in self._agreed:
            self._agree("kvstore push", keys, [row[0] for row in rows])
            self._agreed.add(form)

    @staticmethod
    def _quantized(workers: Workers, wire: Compression | None, gradients: list[tuple[Any, Any]]) -> list[Any]:
        """Sums of gradients that go over the network as packed bits, all keys in one message."""
        if wire is None or not gradients:
            return []
        packed = [wire.pack(key, value) for key, value in gradients]
        signs = workers.combine(jnp.concatenate(packed), wire.sum_signs)
        ends = np.cumsum([len(p) for p in packed])
        return [wire.values_of(part, value.shape, value.dtype)
                for (_, value), part in zip(gradients, jnp.split(signs, ends[:-1], axis=1), strict=True)]

    @staticmethod
    def _sum_of_rows(workers: Workers, value: NDArray) -> NDArray:
        """The sum over the workers of a row_sparse array: its stored rows go round, not the others."""
        if not isinstance(value, RowSparseNDArray):
            dense = value.tostype("default")
            return wrap(_on(workers.all_reduce([dense.read()])[0], dense), value.context).tostype(value.stype)
        value = value.ascending()
        indices, data = np.asarray(value.indices.asnumpy(), np.int32), value.data.read()
        most = int(np.max(np.asarray(workers.all_gather(jnp.asarray(len(indices), jnp.int32)))))
        if most == 0:
            return value
        room = 1 << (most - 1).bit_length()  # few different shapes: few programs
        padded = np.full(room, -1, np.int32)
        padded[:len(indices)] = indices
        rows = jnp.zeros((room, *data.shape[1:]), data.dtype).at[:len(indices)].set(data)
        all_indices = np.asarray(workers.all_gather(jnp.asarray(padded))).reshape(-1)
        all_rows = workers.all_gather(rows).reshape(-1, *data.shape[1:])
        stored, places = np.unique(all_indices, return_inverse=True)
        total = jnp.zeros((len(stored), *data.shape[1:]), data.dtype).at[places.reshape(-1)].add(all_rows)
        first = int(stored[0] < 0)
        return row_sparse_array((wrap(total[first:], value.context), stored[first:].astype(np.int64)),
                                shape=value.shape, ctx=value.context, dtype=value.dtype)

    # ------------------------------------------------------------ settings
    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Quantizes gradients with error feedback and sends them with 1 or 2 bits per value.

        Args:
            compression_params: {"type": "2bit" or "1bit", "threshold": 0.5}.
        """
        self._wire = Compression(compression_params)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Makes every worker update its values with an optimizer. The sums are the same everywhere,
        and so are the values."""
        super().set_optimizer(optimizer)
        self._barrier()


def _on(buffer: Any, value: NDArray) -> Any:
    """A buffer on an array's device."""
    return moved(buffer, value.context.jax_device)
