"""A parameter server: keeps a part of the values, and updates them with whatever gradient comes, whenever it comes."""

from __future__ import annotations

import dataclasses
import hmac
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import optimizer as opt
from .. import profiler
from ..base import MXNetError
from ..ndarray import NDArray, array
from ..ndarray._invoke import wrap
from ..ndarray.sparse import row_sparse_array, zeros
from ..optimizer import updater as optimizer_states
from . import wire
from .compression import Compression

__all__ = ["ParameterServer"]


@dataclasses.dataclass
class _Entry:
    """A value, how often it has been updated, and how old the gradients were for which it was."""

    value: NDArray
    version: int = 0
    ages: int = 0
    oldest: int = 0


class ParameterServer:
    """Serves the workers of a job from threads of this process.

    A worker's requests are done one after the other; those of several workers side by side, but one at a time for a
    key. What a gradient's age is: how many updates its key has seen since its sender last pulled it.

    Args:
        token: what workers must know.
        host: address to listen on.
    """

    def __init__(self, token: str = "", host: str = "") -> None:
        self.token = token
        self._entries: dict[Any, _Entry] = {}
        self._locks: dict[Any, threading.RLock] = {}
        self._lock = threading.RLock()
        self._updater: Callable[[Any, NDArray, NDArray], None] | None = None
        self._compression: Compression | None = None
        self._listener = socket.create_server((host, 0), backlog=4096)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="mxjax-server", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), name="mxjax-server", daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()

    def _serve(self, sock: socket.socket) -> None:
        """One worker's requests. An error in one that has no answer is told with the next that has."""
        failure, known = "", False
        with sock:
            while True:
                try:
                    message = wire.receive(sock)
                except (OSError, MXNetError):
                    return
                if message is None:
                    return
                header, arrays = message
                known = known or hmac.compare_digest(str(header.get("token", "")), self.token)
                if not known:
                    return
                answer: dict[str, Any] = {}
                out: list[np.ndarray] = []
                try:
                    if not failure:
                        answer, out = getattr(self, "_do_" + header["op"])(header, arrays) or ({}, [])
                except Exception as error:  # the worker's mistake, told to the worker
                    failure = f"{type(error).__name__}: {error}" if not isinstance(error, MXNetError) else str(error)
                if not header["answer"]:
                    continue
                try:
                    wire.send(sock, {"error": failure, **answer}, out)
                except OSError:
                    return
                failure = ""

    def _locked(self, key: Any) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(key, threading.RLock())

    def _entry(self, key: Any) -> _Entry:
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
                raise MXNetError("dist_async: set_optimizer must come before push: servers add nothing up, they update")
            grad = self._gradient(header, arrays, entry.value)
            age = entry.version - header["seen"]
            entry.ages, entry.oldest = entry.ages + age, max(entry.oldest, age)
            self._updater(key, grad, entry.value)
            entry.value.wait_to_read()
            entry.version += 1

    def _gradient(self, header: dict[str, Any], arrays: list[np.ndarray], stored: NDArray) -> NDArray:
        if header["form"] == "rows":
            data, indices = arrays
            if not len(indices):
                return zeros("row_sparse", stored.shape, dtype=data.dtype)
            return row_sparse_array((data, indices), shape=stored.shape, dtype=data.dtype)
        if header["form"] == "packed":
            signs = self._compression.sum_signs(jnp.asarray(arrays[0])[None])
            return wrap(self._compression.values_of(signs, stored.shape, stored.dtype), stored.context)
        if arrays[0].shape != stored.shape:
            raise MXNetError(f"push to key {header['key']!r}: an array has shape {arrays[0].shape}, the stored one "
                             f"{stored.shape}")
        return array(arrays[0], dtype=arrays[0].dtype)

    def _do_pull(self, header: dict[str, Any], _: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._locked(header["key"]):
            entry = self._entry(header["key"])
            return {"version": entry.version}, [entry.value.asnumpy()]

    def _do_rows(self, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._locked(header["key"]):
            entry = self._entry(header["key"])
            return {"version": entry.version}, [entry.value.asnumpy()[arrays[0]]]

    def _do_optimizer(self, _: dict[str, Any], arrays: list[np.ndarray]) -> None:
        states, optimizer = optimizer_states._load(arrays[0].tobytes())
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
        if header["head"] == profiler._SERVER_COMMAND:
            profiler.obey(header["body"])
        else:
            print(f"mxjax server: unknown command ({header['head']}, {header['body']})", file=sys.stderr, flush=True)

    def _do_statistics(self, _: dict[str, Any], __: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
        with self._lock:
            rows = [[k, e.version, e.ages, e.oldest] for k, e in self._entries.items()]
        return {"rows": rows, "pid": os.getpid()}, []

    def _do_sync(self, _: dict[str, Any], __: list[np.ndarray]) -> None:
        """Nothing: by the time of the answer, all this worker sent before is done."""
