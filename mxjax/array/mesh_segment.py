"""Segments over a mesh: deferred calls run as one program on many devices (and machines), batches split among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..base import MXNetError
from .chunk import Pending
from .kinds import wrap
from .segment import Deferred, Segment

if TYPE_CHECKING:
    from .dense import NDArray

__all__ = ["MeshSegment"]


class _Spread(Deferred):
    """A value on all devices of a mesh; who looks at it gets a copy on the first one."""

    __slots__ = ("whole",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.whole: jax.Array | None = None

    def held(self) -> Any:
        """The buffers on all devices, if they are there."""
        return self.value if self.whole is None else self.whole

    def deliver(self, value: jax.Array) -> None:
        """Keeps the value where it is: the next segment takes it from there."""
        self.whole = value

    def force(self) -> None:
        """Copies the value to one device."""
        if self.whole is None:
            super().force()
        self.value = jnp.copy(self.whole.addressable_data(0))


class MeshSegment(Segment):
    """A segment whose program runs on a mesh.

    Args:
        mesh: the devices.
        axis: name of the mesh axis along which batches are split.
    """

    promise = _Spread

    def __init__(self, mesh: Mesh, axis: str) -> None:
        super().__init__(1 << 30, trials=0)
        # XLA chooses the layout of what is in between, whatever kind of axes the user's mesh has
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        self._split, self._same = NamedSharding(mesh, PartitionSpec(axis)), NamedSharding(mesh, PartitionSpec())
        self.layout, self.options = (mesh, axis), {"out_shardings": self._same}
        processes = {d.process_index for d in mesh.devices.flat}
        if jax.process_index() not in processes:
            raise MXNetError("none of the mesh's devices is this process's")
        self._parts = max(mesh.shape[axis] // len(processes), 1)

    def spread(self, batch: NDArray) -> NDArray:
        """A batch split along its first axis. With several processes each gives its own part, and gets the whole.

        Raises:
            MXNetError: it cannot be split evenly.
        """
        if not batch.shape or batch.shape[0] % self._parts:
            raise MXNetError(f"a batch of shape {batch.shape} cannot be split over the {self._parts} devices of this "
                             f"process along mesh axis {self.layout[1]!r}")
        return wrap(self._put(batch._read(), self._split), batch.context, type(batch))

    def _taken(self, pending: Pending) -> Any:
        held = pending.held()
        return pending.get() if held is None else held

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, jax.Array) or value.sharding in (self._same, self._split):
            return value
        return self._put(value, self._same)

    def _put(self, value: jax.Array, sharding: NamedSharding) -> jax.Array:
        if sharding.is_fully_addressable:  # of a copy: device_put shares memory, which could not be given away then
            return jax.device_put(jnp.copy(value), sharding)
        return jax.make_array_from_process_local_data(sharding, np.asarray(value))
