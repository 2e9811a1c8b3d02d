"""The asynchronous store: parameter servers apply each worker's gradients on arrival, without synchronization."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import optimizer as opt
from .._support import settings
from .._support.files import reading, together, write_file
from ..array.sparse import BaseSparseNDArray, distinct_rows, row_sparse_array
from ..base import MXNetError, Precondition
from ..ndarray import array
from . import handshake, wire
from .base import called
from .compression import Compression
from .dist_sync import _Dist
from .reduce import Reduced
from .server import ParameterServer

if TYPE_CHECKING:
    from ..base import Key
    from ..optimizer.base import Optimizer
    from .base import Keys, Values

__all__ = ["DistAsyncKVStore"]


class ServerConnection:
    """This worker's connection to one server. Requests without an answer are only sent."""

    def __init__(self, address: tuple[str, int], number: int, secret: bytes, timeout: float) -> None:
        self._name = f"server {number} at {address[0]}:{address[1]}"
        self._channel = handshake.connect(address, secret, "server", timeout, f"server {number}")
        self._lock = threading.Lock()
        self.sent = 0

    def ask(self, op: str, arrays: list[np.ndarray] | tuple = (), answer: bool = True,
            **header: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Sends a request and waits for the reply; raises the server's error as MXNetError."""
        with self._lock:
            try:
                self.sent += wire.send(self._channel, {"op": op, "answer": answer, **header}, arrays)
                message = wire.receive(self._channel) if answer else ({"error": ""}, [])
            except OSError as error:
                raise MXNetError(f"dist_async: {self._name} is lost: {error}") from None
        if message is None:
            raise MXNetError(f"dist_async: {self._name} has closed the connection")
        if message[0]["error"]:
            raise MXNetError(f"{self._name}: {message[0]['error']}")
        return message


@called("dist_async", "dist_device_async", "dist_async_device")
class DistAsyncKVStore(_Dist):
    """Keeps values and the optimizer on parameter servers, while workers proceed independently.
    Created by `create("dist_async")`.

    `push` sends a gradient without waiting; `pull` fetches the current value. Arrays of more than
    MXNET_KVSTORE_BIGARRAY_BOUND values (by default one million) are split by rows over the servers;
    each smaller array is on one server. Servers are separate processes (`mxjax launch -s`), or
    otherwise a thread in each worker.
    """

    def __init__(self, handle: str) -> None:
        super().__init__(handle)
        self._bound = settings.BIGARRAY_BOUND()
        self._shapes: dict[Any, tuple[tuple[int, ...], np.dtype, str]] = {}
        self._seen: dict[tuple[Any, int], int] = {}
        self._wire: Compression | None = None
        secret, hosts, addresses = secrets.token_bytes(32), ["127.0.0.1"], []
        self._own: ParameterServer | None = None
        if self._cluster is not None:
            self._cluster.tolerate()
            secret, hosts = self._cluster.secret, self._cluster.addresses
            addresses = [(m["host"], m["port"]) for (role, _), m in sorted(self._cluster.members.items())
                         if role == "server"]
        if not addresses:
            self._own = ParameterServer(secret, hosts, self.num_workers)
            addresses = [(hosts[0], self._own.port)]
            if self._cluster is not None:
                self._cluster.serves = True
                ports = self._cluster.gather("dist_async servers", [np.array([self._own.port])])
                addresses = [(self._cluster.members["worker", rank]["host"], int(part[0][0]))
                             for rank, part in enumerate(ports)]
        self._servers = [ServerConnection(address, i, secret, 30) for i, address in enumerate(addresses)]

    # ------------------------------------------------------------ placement of keys
    def _shards(self, key: Key) -> list[tuple[int, int, int]]:
        """(server, first row, end) of a key's parts."""
        if key not in self._shapes:
            raise MXNetError(f"key {key!r} has not been initialized")
        shape, _, _ = self._shapes[key]
        count = len(self._servers)
        rows = shape[0] if shape else 1
        if np.prod(shape, dtype=np.int64) < self._bound or rows < count:
            number = key if isinstance(key, int) else sum(key.encode())
            return [(number % count, 0, rows)]
        ends = [rows * i // count for i in range(count + 1)]
        return [(i, ends[i], ends[i + 1]) for i in range(count)]

    # ------------------------------------------------------------ values
    def init(self, key: Keys, value: Values) -> None:
        """Initializes the servers with the values of worker 0.

        Args:
            key: one key or a list.
            value: an NDArray, or a list with one per key; all workers must pass the same shapes.

        Raises:
            MXNetError: a worker passes other keys, shapes or dtypes.
        """
        keys, rows = self._rows(key, value)
        values = [row[0] for row, _ in rows]
        for k, v in zip(keys, values, strict=True):
            self._shapes[k] = v.shape, np.dtype(v.dtype), v.stype
        if self.is_recovery:  # the others have continued; the servers have the values
            return
        self._agree("kvstore init", keys, values)
        if self.rank == 0:
            for k, v in zip(keys, values, strict=True):
                whole = v.asnumpy()
                for server, begin, end in self._shards(k):
                    self._servers[server].ask("init", [whole[begin:end] if whole.ndim else whole], key=k, stype=v.stype)
        self._barrier()

    def push(self, key: Keys, value: Values, priority: int = 0) -> None:
        """Sums each key's arrays over this worker's devices and sends the sums to the servers, which run the update.

        Args:
            key: one key or a list.
            value: for each key an NDArray, or a list of them (one per device).
            priority: ignored; accepted for compatibility.

        Raises:
            MXNetError: a shape differs, or a server is lost. Errors on a server are raised by the
                next pull.
        """
        keys, rows = self._rows(key, value)
        for k, (values, _) in zip(keys, rows, strict=True):
            self._shards(k)
            if values[0].shape != self._shapes[k][0]:
                raise MXNetError(f"push to key {k!r}: an array has shape {values[0].shape}, but the stored array has "
                                 f"shape {self._shapes[k][0]}")
        for k, total in zip(keys, super()._reduce(keys, [values for values, _ in rows]), strict=True):
            shards = self._shards(k)
            if isinstance(total, Reduced):
                buffer = next(iter(total.copies.values()))
                if self._wire is not None and self._wire.takes(buffer.dtype):
                    for server, begin, end in shards:
                        self._send(k, server, "packed", [np.asarray(self._wire.pack((k, server), buffer[begin:end]))])
                    continue
                whole = np.asarray(buffer)
                for server, begin, end in shards:
                    self._send(k, server, "dense", [whole[begin:end] if whole.ndim else whole])
            else:
                total = total.tostype("row_sparse").ascending()
                indices, data = total.indices.asnumpy(), total.data.asnumpy()
                for server, begin, end in shards:
                    mine = (indices >= begin) & (indices < end)
                    self._send(k, server, "rows", [data[mine], indices[mine] - begin])

    def _send(self, key: Key, server: int, form: str, arrays: list[np.ndarray]) -> None:
        self._servers[server].ask("push", arrays, answer=False, key=key, form=form,
                                  seen=self._seen.get((key, server), 0))

    def pull(self, key: Keys, out: Values | None = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copies the servers' current values to arrays; arguments as in `KVStore.pull`."""
        if out is None:
            raise Precondition("pull requires out=")
        keys, rows = self._rows(key, out)
        for k, (outs, _) in zip(keys, rows, strict=True):
            outs = [o for o in outs if not (isinstance(o, BaseSparseNDArray) and ignore_sparse)]
            if not outs:
                continue
            parts = []
            for server, _, _ in self._shards(k):
                header, arrays = self._servers[server].ask("pull", key=k)
                self._seen[k, server] = header["version"]
                parts += arrays
            value = array(parts[0] if len(parts) == 1 else np.concatenate(parts), dtype=self._shapes[k][1])
            for target in outs:
                self._hand_out(k, value, target)

    def row_sparse_pull(self, key: Keys, out: Values | None = None, priority: int = 0,
                        row_ids: Values | None = None) -> None:
        """Copies chosen rows of the servers' values; arguments as in `KVStore.row_sparse_pull`."""
        if out is None or row_ids is None:
            raise Precondition("row_sparse_pull requires out= and row_ids=")
        keys, rows = self._rows(key, out)
        _, ids = self._rows(key, row_ids)
        for k, (outs, _), (wanted, _) in zip(keys, rows, ids, strict=True):
            for target, chosen in zip(outs, wanted * len(outs) if len(wanted) == 1 else wanted, strict=True):
                if target.stype != "row_sparse":
                    raise MXNetError(f"row_sparse_pull of key {k!r}: out must be row_sparse, got {target.stype}")
                indices = distinct_rows(chosen).asnumpy()
                parts = []
                for server, begin, end in self._shards(k):
                    mine = indices[(indices >= begin) & (indices < end)] - begin
                    header, arrays = self._servers[server].ask("rows", [mine], key=k)
                    self._seen[k, server] = header["version"]
                    parts += arrays
                shape, dtype, _ = self._shapes[k]
                row_sparse_array((np.concatenate(parts), indices), shape=shape, dtype=dtype).copyto(target)

    # ------------------------------------------------------------ settings
    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Sends worker 0's optimizer to the servers in its current state; later changes have no effect on them."""
        self._updater = opt.get_updater(optimizer)  # for callers that read the optimizer
        if self.is_recovery:
            return
        if self.rank == 0:
            blob = np.frombuffer(self._updater.get_states(dump_optimizer=True), np.uint8)
            for server in self._servers:
                server.ask("optimizer", [blob])
        self._barrier()

    def _set_updater(self, updater: Any) -> None:
        raise MXNetError("dist_async: the updater runs on the servers; use set_optimizer")

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Quantizes gradients with error feedback and sends them with 1 or 2 bits per value."""
        self._wire = Compression(compression_params)
        for server in self._servers:
            server.ask("compression", params=compression_params)
        self._barrier()

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Writes the servers' optimizer states to the files `fname`, and `fname.1` ... for further servers.

        The files are replaced after all servers have replied.
        """
        with together():
            for i, server in enumerate(self._servers):
                _, arrays = server.ask("states", dump_optimizer=dump_optimizer)
                write_file(fname + (f".{i}" if i else ""), arrays[0].tobytes())

    def load_optimizer_states(self, fname: str) -> None:
        """Loads the files that `save_optimizer_states` wrote with the same number of servers."""
        for i, server in enumerate(self._servers):
            name = fname + (f".{i}" if i else "")
            with reading(name, "optimizer states"), open(name, "rb") as file:
                server.ask("states", [np.frombuffer(file.read(), np.uint8)], dump_optimizer=False)

    def _send_command_to_servers(self, head: int, body: str) -> None:
        for server in self._servers:
            server.ask("command", head=head, body=body)

    def wait(self) -> None:
        """Waits until the servers have processed all requests of this worker."""
        for server in self._servers:
            server.ask("sync")

    def staleness(self) -> dict[Any, dict[str, float]]:
        """Returns the number of updates of each key and the age of the gradients: "updates", "mean", "max".

        A gradient's age is the number of updates of its key since the sender last pulled it.
        """
        result: dict[Any, dict[str, float]] = {}
        for server in self._servers:
            for key, updates, ages, oldest in server.ask("statistics")[0]["rows"]:
                result[key] = {"updates": updates, "mean": ages / updates if updates else 0.0, "max": oldest}
        return result

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that this worker has sent to the servers."""
        return sum(server.sent for server in self._servers)
