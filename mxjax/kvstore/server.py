"""A parameter server, which stores a part of the values and applies gradients as they arrive."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .. import optimizer as opt
from .. import profiler
from ..array.sparse import row_sparse_array, zeros
from ..base import MXNetError
from ..eager.array_types import wrap
from ..ndarray import NDArray, array
from ..optimizer import _states as optimizer_states
from . import wire
from .compression import Compression
from .handshake import AuthenticatedListener

if TYPE_CHECKING:
    from ..base import Key

__all__ = ["ParameterServer"]


# requests of workers: fields and their types
_KEY = {"key": int | str}
_REQUESTS = {
    "init": {**_KEY, "stype": str}, "push": {**_KEY, "form": str, "seen": int}, "pull": _KEY, "rows": _KEY,
    "optimizer": {}, "states": {"dump_optimizer": bool}, "compression": {"params": dict},
    "command": {"head": int, "body": str}, "statistics": {}, "sync": {}}
_STORES = 16  # connections for each worker: each of its stores has one


@dataclasses.dataclass
class _Entry:
    """A value, how often it has been updated, and how old the gradients were for which it was."""

    value: NDArray
    version: int = 0
    ages: int = 0
    oldest: int = 0


class ParameterServer:
    """Serves the workers of a job from threads of this process.

    The requests of one worker run in sequence, those of several workers in parallel, but only one
    at a time per key. A gradient's age is the number of updates of its key since the sender last
    pulled it.

    Args:
        secret: secret that workers must know.
        hosts: addresses to listen on.
        workers: number of workers.
    """

    def __init__(self, secret: bytes, hosts: Sequence[str] = ("127.0.0.1",), workers: int = 1) -> None:
        self._entries: dict[Any, _Entry] = {}
        self._locks: dict[Any, threading.RLock] = {}
        self._lock = threading.RLock()
        self._updater: opt.Updater | None = None
        self._compression: Compression | None = None
        self._listener = AuthenticatedListener(hosts, 0, secret, "server", self._serve, most=_STORES * workers)
        self.port = self._listener.port

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()

    def _serve(self, channel: wire.Channel) -> None:
        """Serves the requests of one worker. An error in one without an answer is sent with the next answer."""
        failure, answers = "", True

        def admit(header: dict[str, Any], specs: list[wire.Spec]) -> None:
            nonlocal answers
            answers = header.get("answer") is not False
            self._check(header, specs)

        while True:
            answer: dict[str, Any] = {}
            message = None
            out: list[np.ndarray] = []
            try:
                message = wire.receive(channel, admit, wire.REQUEST)
                if message is None:
                    return
            except wire.Unwanted as error:
                failure = failure or str(error)
            except (OSError, MXNetError, MemoryError):  # the connection is broken, or out of step
                return
            if not failure and message is not None:
                try:
                    answer, out = getattr(self, "_do_" + message[0]["op"])(*message) or ({}, [])
                except Exception as error:  # the worker's mistake, sent to the worker
                    failure = f"{type(error).__name__}: {error}" if not isinstance(error, MXNetError) else str(error)
            if answers:
                try:
                    wire.send(channel, {"error": failure, **answer}, out)
                except (OSError, MXNetError):
                    return
                failure = ""

    def _check(self, header: dict[str, Any], specs: list[wire.Spec]) -> None:
        """Raises MXNetError for a request that makes no sense, before there is memory for its arrays."""
        op = header.get("op")
        if not isinstance(op, str) or op not in _REQUESTS:
            raise MXNetError(f"unknown request {str(op)[:50]!r}; a server knows {', '.join(_REQUESTS)}")
        wire.check_fields(op, header, _REQUESTS[op])
        if op == "push":
            self._check_push(header, specs)
        elif op == "init":
            _expect(op, specs, len(specs) == 1)
            wire.check_amount(specs, sum(e.value.size * np.dtype(e.value.dtype).itemsize
                                         for key, e in list(self._entries.items()) if key != header["key"]))
        elif op == "pull":
            self._entry(header["key"])
            _expect(op, specs, not specs)
        elif op == "rows":
            shape = self._entry(header["key"]).value.shape
            _expect(op, specs, len(specs) == 1 and specs[0][0].kind in "iu" and len(specs[0][1]) == 1
                    and math.prod(specs[0][1]) <= shape[0])
        elif op in ("optimizer", "states"):
            _expect(op, specs, len(specs) == (1 if op == "optimizer" else len(specs[:1]))
                    and all(dtype == np.uint8 for dtype, _ in specs))
            wire.check_amount(specs)
        else:
            _expect(op, specs, not specs)

    def _check_push(self, header: dict[str, Any], specs: list[wire.Spec]) -> None:
        stored, key = self._entry(header["key"]).value, header["key"]
        shapes, kinds = [shape for _, shape in specs], "".join(dtype.kind for dtype, _ in specs)
        if header["form"] == "dense":
            if shapes != [stored.shape]:
                raise MXNetError(f"push to key {key!r}: expected one array of shape {stored.shape}, got arrays of "
                                 f"shapes {str(shapes)[:200]}")
        elif header["form"] == "packed":
            self._agreed_compression(key)
            _expect("push", specs, kinds == "u" and len(shapes[0]) == 1 and wire.nbytes(specs) <= stored.size + 8)
        elif header["form"] == "rows":
            _expect("push", specs, len(specs) == 2 and stored.shape and len(shapes[1]) == 1 and kinds[1] in "iu"
                    and shapes[0] == shapes[1] + stored.shape[1:] and shapes[1][0] <= stored.shape[0])
        else:
            raise MXNetError(f"push to key {key!r}: unknown form {header['form']!r}")

    def _agreed_compression(self, key: Key) -> Compression:
        if self._compression is None:
            raise MXNetError(f"push to key {key!r}: the values are packed, but gradient compression has not been set")
        return self._compression

    def _locked(self, key: Key) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(key, threading.RLock())

    def _entry(self, key: Key) -> _Entry:
        if key not in self._entries:
            raise MXNetError(f"key {key!r} has not been initialized")
        return self._entries[key]

    # ------------------------------------------------------------ requests
    def _do_init(self, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
        key = header["key"]
        with self._locked(key):
            value = array(arrays[0], dtype=arrays[0].dtype)
            self._entries[key] = _Entry(value if header["stype"] == "default" else value.tostype(header["stype"]))

    def _do_push(self, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
        key = header["key"]
        with self._locked(key):
            entry = self._entry(key)
            if self._updater is None:
                raise MXNetError("dist_async: call set_optimizer before push: servers do not sum gradients, they run "
                                 "updates")
            grad = self._gradient(header, arrays, entry.value)
            age = entry.version - header["seen"]
            entry.ages, entry.oldest = entry.ages + age, max(entry.oldest, age)
            self._updater(key, grad, entry.value)
            entry.value.wait_to_read()
            entry.version += 1

    def _gradient(self, header: dict[str, Any], arrays: list[np.ndarray], stored: NDArray) -> NDArray:
        if header["form"] == "rows":
            data, indices = arrays
            _check_rows(indices, stored.shape, header["key"])
            if not len(indices):
                return zeros("row_sparse", stored.shape, dtype=data.dtype)
            return row_sparse_array((data, indices), shape=stored.shape, dtype=data.dtype)
        if header["form"] == "packed":
            compression = self._agreed_compression(header["key"])
            signs = compression.sum_signs(jnp.asarray(arrays[0])[None])
            return wrap(compression.values_of(signs, stored.shape, stored.dtype), stored.context)
        if arrays[0].shape != stored.shape:
            raise MXNetError(f"push to key {header['key']!r}: an array has shape {arrays[0].shape}, but the stored "
                             f"array has shape {stored.shape}")
        return array(arrays[0], dtype=arrays[0].dtype)

    def _do_pull(self, header: dict[str, Any], _: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._locked(header["key"]):
            entry = self._entry(header["key"])
            return {"version": entry.version}, [entry.value.asnumpy()]

    def _do_rows(self, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._locked(header["key"]):
            entry = self._entry(header["key"])
            _check_rows(arrays[0], entry.value.shape, header["key"])
            return {"version": entry.version}, [entry.value.asnumpy()[arrays[0]]]

    def _do_optimizer(self, _: dict[str, Any], arrays: list[np.ndarray]) -> None:
        states, optimizer = optimizer_states.load(arrays[0].tobytes())
        with self._lock:
            self._updater = opt.get_updater(optimizer)
            del states

    def _do_states(self, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Gives the optimizer's states, or takes them."""
        if self._updater is None:
            raise MXNetError("there is no optimizer on this kvstore: call set_optimizer first")
        with self._lock:
            if arrays:
                self._updater.set_states(arrays[0].tobytes())
                return {}, []
            return {}, [np.frombuffer(self._updater.get_states(header["dump_optimizer"]), np.uint8)]

    def _do_compression(self, header: dict[str, Any], _: list[np.ndarray]) -> None:
        self._compression = Compression(header["params"])

    def _do_command(self, header: dict[str, Any], _: list[np.ndarray]) -> None:
        if header["head"] == profiler.SERVER_COMMAND:
            profiler.obey(header["body"])
        else:
            print(f"mxjax server: unknown command ({header['head']}, {header['body']})", file=sys.stderr, flush=True)

    def _do_statistics(self, _: dict[str, Any], __: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._lock:
            rows = [[k, e.version, e.ages, e.oldest] for k, e in self._entries.items()]
        return {"rows": rows, "pid": os.getpid()}, []

    def _do_sync(self, _: dict[str, Any], __: list[np.ndarray]) -> None:
        """Nothing: by the time of the answer, all this worker sent before is done."""


def _expect(op: str, specs: list[wire.Spec], right: Any) -> None:
    if not right:
        raise MXNetError(f"{op}: unexpected arrays {str([(d.name, s) for d, s in specs])[:200]}")


def _check_rows(indices: np.ndarray, shape: tuple[int, ...], key: Key) -> None:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < shape[0]:
        raise MXNetError(f"key {key!r}: rows {int(indices.min())} to {int(indices.max())} are out of range for a value "
                         f"of shape {shape}")
