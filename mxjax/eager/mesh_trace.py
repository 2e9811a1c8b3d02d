"""Traces over a mesh: deferred calls that run as one program on many devices (and machines), with
batches split among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from ..base import MXNetError
from .array_types import wrap
from .chunk import Chunk
from .promise import Promise
from .trace import Trace, TracePromise, Ways

__all__ = ["MeshTrace", "place", "plain", "put", "without_axis"]


def without_axis(sharding: NamedSharding, axis: str) -> NamedSharding:
    """Returns the same sharding, replicated along a mesh axis."""
    def kept(names: object) -> Any:
        left = tuple([n for n in (names if isinstance(names, tuple) else (names,)) if n not in (None, axis)])
        return left or None
    return NamedSharding(sharding.mesh, PartitionSpec(*map(kept, sharding.spec)))


class MeshTrace(Trace):
    """A trace whose program runs on a mesh.

    Values that are sharded there (`place`) stay sharded, and so do their replacements. Calls before
    `updating` gather them along the batch axis at each use.

    Args:
        mesh: the devices.
        axis: name of the mesh axis over which batches are split.
    """

    def __init__(self, mesh: Mesh, axis: str) -> None:
        super().__init__(1 << 30, trials=0)
        mesh = plain(mesh)
        self._split, self._same = NamedSharding(mesh, PartitionSpec(axis)), NamedSharding(mesh, PartitionSpec())
        self._mesh, self._axis = mesh, axis
        self._apart: set[int] = set()  # sharded values that are not batches, by identity
        processes = {d.process_index for d in mesh.devices.flat}
        if jax.process_index() not in processes:
            raise MXNetError("none of the mesh's devices belongs to this process")
        self._parts = max(mesh.shape[axis] // len(processes), 1)

    def spread(self, batch: Any) -> Any:
        """Splits a batch along its first axis. With several processes, each one passes its part and
        receives the global batch.

        Raises:
            MXNetError: it cannot be split evenly.
        """
        if not batch.shape or batch.shape[0] % self._parts:
            raise MXNetError(f"a batch of shape {batch.shape} cannot be split over the {self._parts} devices of this "
                             f"process along mesh axis {self._axis!r}")
        value = batch.read()
        result = put(value, self._split) if self._split.is_fully_addressable else \
            jax.make_array_from_process_local_data(self._split, np.asarray(value))
        return wrap(result, batch.context, type(batch))

    def lay(self, chunk: Chunk, sharding: NamedSharding) -> None:
        """Sets the sharding of a chunk's value, if it is a result of this trace."""
        value = chunk.peek()
        if isinstance(value, TracePromise) and self.holds(value):
            value.sharding = sharding

    def _deliver(self, promise: TracePromise, value: jax.Array) -> None:
        """Keeps the value on its devices, so that the next trace can use it there."""
        promise.whole = value

    def takes(self, pending: Promise) -> bool:
        """Returns whether a value is one of the trace's results or on the mesh."""
        return super().takes(pending) or getattr(pending, "whole", None) is not None

    def _taken(self, pending: Promise) -> Any:
        buffers = pending.buffer_or_none()
        if pending.stays:
            self._apart.add(id(buffers))
        return pending.get() if buffers is None else buffers

    def _placed(self, value: object) -> Any:
        if not isinstance(value, jax.Array) or isinstance(value.sharding, NamedSharding) and \
                value.sharding.mesh == self._mesh:
            return value
        return put(value, self._same)

    def _form(self, values: Sequence[Any], promises: Sequence[TracePromise]) -> tuple[Any, dict[str, Any]]:
        ways = self._ways(values)
        results = tuple([way[0] if d.place < len(ways) and (way := ways[d.place]) else d.sharding or self._same
                         for d in promises])
        lie = tuple([getattr(v, "sharding", None) for v in values])
        return (self._mesh, self._axis, lie, tuple(ways), results), {"out_shardings": results}

    def _ways(self, values: Sequence[Any]) -> Ways:
        """Returns, for each sharded value, its sharding and the sharding where it is used."""
        return [(v.sharding, without_axis(v.sharding, self._axis)) if id(v) in self._apart else None for v in values]


@overload
def plain(mesh: Mesh) -> Mesh: ...
@overload
def plain(mesh: AbstractMesh) -> AbstractMesh: ...
def plain(mesh: Mesh | AbstractMesh) -> Mesh | AbstractMesh:
    """Returns the mesh with automatic axes, so that XLA chooses the sharding of intermediate values
    for any kind of user mesh."""
    if isinstance(mesh, AbstractMesh):
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def place(chunk: Chunk, sharding: NamedSharding) -> None:
    """Shards a chunk's value, if it is not sharded yet."""
    value, version = chunk.peek(), chunk.version
    now = value.buffer_or_none() if isinstance(value, Promise) else value
    if getattr(now, "sharding", None) == sharding and isinstance(value, Promise) and value.stays:
        return
    promise = TracePromise.of_sharded(value.make(sharding) if type(value) is Promise and now is None else
                                      put(chunk.read(), sharding))
    with chunk.lock:  # the value is the same, so there is no new version
        if chunk.version == version:  # otherwise another value was written meanwhile
            chunk.buffer, chunk.pending = None, promise


def put(value: jax.Array, sharding: NamedSharding) -> jax.Array:
    """Places a value that all processes have on a mesh."""
    if sharding.is_fully_addressable:  # of a copy: device_put shares memory, which could then not be donated
        return jax.device_put(jnp.copy(value), sharding)
    host = np.asarray(value)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])
