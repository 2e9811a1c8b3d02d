"""Segments over a mesh: deferred calls run as one program on many devices (and machines), batches split among them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..base import MXNetError
from ._chunk import Pending
from ._segment import Deferred, Segment

__all__ = ["MeshSegment"]


class _Spread(Deferred):
    """A value on all devices of a mesh; who looks at it gets a copy on the first one."""

    __slots__ = ("whole",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.whole: jax.Array | None = None

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
        batch: buffers to split along their first axis; all other values are the same on every device. With several
            processes each gives its own part of the batch.

    Raises:
        MXNetError: a batch cannot be split evenly.
    """

    promise = _Spread

    def __init__(self, mesh: Mesh, axis: str, batch: list[jax.Array]) -> None:
        super().__init__(1 << 30, trials=0)
        # XLA chooses the layout of what is in between, whatever kind of axes the user's mesh has
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        self._split, self._same = NamedSharding(mesh, PartitionSpec(axis)), NamedSharding(mesh, PartitionSpec())
        self._batch = {id(value) for value in batch}
        self.layout, self.options = (mesh, axis), {"out_shardings": self._same}
        parts = mesh.shape[axis] // max(len({d.process_index for d in mesh.devices.flat}), 1)
        for value in batch:
            if not value.shape or value.shape[0] % max(parts, 1):
                raise MXNetError(f"a batch of shape {value.shape} cannot be split over the {parts} devices of this "
                                 f"process along mesh axis {axis!r}")

    def _taken(self, pending: Pending) -> Any:
        whole = getattr(pending, "whole", None)
        return pending.get() if whole is None else whole

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, jax.Array) or value.sharding == self._same:
            return value
        mine = id(value) in self._batch
        sharding = self._split if mine else self._same
        if sharding.is_fully_addressable:  # of a copy: device_put shares memory, which could not be given away then
            placed = jax.device_put(jnp.copy(value), sharding)
        else:
            placed = jax.make_array_from_process_local_data(sharding, np.asarray(value))
        if mine:
            self._lent.append(placed)  # no result has its layout
        return placed
