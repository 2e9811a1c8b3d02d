"""Sums over devices."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .. import engine
from .._xla.transfer import moved
from .._xla.x64 import needs_x64, x64_mode
from ..eager.chunk import placed
from ..kernel.kernel import Kernel, run
from ..ndarray import NDArray

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["Reduced", "reduce_all"]


class Reduced:
    """A sum, with its buffer on each device that has one."""

    __slots__ = ("copies", "ctx")

    def __init__(self, copies: dict[Any, jax.Array], ctx: Context) -> None:
        self.copies, self.ctx = copies, ctx

    def on(self, device: Any) -> jax.Array:
        """Returns the value on a device, and copies it if necessary."""
        value = self.copies.get(device)
        if value is None:
            value = self.copies[device] = moved(next(iter(self.copies.values())), device)
        return value


@functools.cache
def _sum_kernel(counts: tuple[int, ...]) -> Kernel:
    """fn(arrays of all keys) -> a sum for each key; counts: how many arrays each has."""
    def fn(*arrays: jax.Array) -> tuple:
        remaining, sums = iter(arrays), []
        for count in counts:
            total = next(remaining)
            for _ in range(count - 1):
                total = total + next(remaining)
            sums.append(total)
        return tuple(sums)
    return Kernel("kvstore sum", fn, sum(counts), len(counts))


def reduce_all(rows: Sequence[Sequence[NDArray]]) -> list[Reduced]:
    """Returns the sum of each row of dense arrays on every device of that row."""
    devices = [[a.context.jax_device for a in row] for row in rows]
    contexts = [row[0].context for row in rows]
    partial: list[dict[Any, jax.Array]] = [{} for _ in rows]
    for device in dict.fromkeys(d for row in devices for d in row):
        picked = [(i, [a.read() for a, d in zip(row, devices[i], strict=True) if d == device])
                  for i, row in enumerate(rows)]
        picked = [(i, arrays) for i, arrays in picked if arrays]
        summed = _add(picked)
        for (i, _), value in zip(picked, summed, strict=True):
            partial[i][device] = value
    several: dict[tuple, list[int]] = {}
    for i, copies in enumerate(partial):
        if len({d.platform for d in copies}) > 1:  # no collective goes over both
            partial[i] = _on_one(copies)
        elif len(copies) > 1:
            several.setdefault(tuple(copies), []).append(i)
    for group, members in several.items():
        by_dtype: dict[Any, list[int]] = {}
        for i in members:
            by_dtype.setdefault(next(iter(partial[i].values())).dtype, []).append(i)
        for same in by_dtype.values():
            for i, copies in zip(same, _mesh(group).all_reduce([partial[i] for i in same]), strict=True):
                partial[i] = copies
    return [Reduced(copies, ctx) for copies, ctx in zip(partial, contexts, strict=True)]


def _on_one(copies: dict[Any, jax.Array]) -> dict[Any, jax.Array]:
    """Sums copies of the host and of accelerators on one of these, and copies the sum to all."""
    device = next(d for d in copies if d.platform != "cpu")
    (total,) = _add([(0, [placed(v, device) for v in copies.values()])])
    return {d: placed(total, d) for d in copies}


def _add(picked: list[tuple[int, list[jax.Array]]]) -> list[jax.Array]:
    """Sums on one device: one compiled call for all keys that have more than one array there."""
    many = [arrays for _, arrays in picked if len(arrays) > 1]
    sums: Any = iter(())
    if many:
        x64 = any(needs_x64(arrays[0].dtype) for arrays in many)
        sums = iter(run(_sum_kernel(tuple(map(len, many))), [a for arrays in many for a in arrays], x64))
    return [next(sums) if len(arrays) > 1 else arrays[0] for _, arrays in picked]


class _Mesh:
    """Devices that sum together. Collectives on them are ordered by one engine variable."""

    def __init__(self, devices: tuple[Any, ...]) -> None:
        self.devices = devices
        self.sharding = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
        self.var = engine.get().new_variable("collective over " + ", ".join(map(str, devices)))
        self.host = devices[0].platform == "cpu"
        self.psum = jax.pmap(lambda x: lax.psum(x, "device"), "device", devices=list(devices))

    def all_reduce(self, rows: list[dict[Any, jax.Array]]) -> list[dict[Any, jax.Array]]:
        """Sums the copies of each row, all of the same dtype, and returns the copies."""
        x64 = needs_x64(next(iter(rows[0].values())).dtype)
        shapes = tuple(next(iter(row.values())).shape for row in rows)

        def work(_: Any) -> jax.Array:
            with x64_mode(x64):
                packed = [_pack(*[row[d] for row in rows]) for d in self.devices]
                whole = jax.make_array_from_single_device_arrays(
                    (len(packed), packed[0].shape[1]), self.sharding, packed)
                total = self.psum(whole)
            if self.host:
                total.block_until_ready()  # two host collectives in flight would deadlock
            return total
        total = engine.get().push_sync(work, (), (self.var,), name="all-reduce")
        shards = {s.device: s.data for s in total.addressable_shards}
        with x64_mode(x64):
            unpacked = {d: _unpack(shards[d], shapes) for d in self.devices}
        return [{d: unpacked[d][i] for d in self.devices} for i in range(len(rows))]


@jax.jit
def _pack(*arrays: jax.Array) -> Any:
    return jnp.concatenate([a.reshape(1, -1) for a in arrays], axis=1)


@functools.partial(jax.jit, static_argnums=1)
def _unpack(flat: jax.Array, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    ends = np.cumsum([int(np.prod(s, dtype=np.int64)) for s in shapes])[:-1]
    return [part.reshape(s) for part, s in zip(jnp.split(flat[0], ends), shapes, strict=True)]


_meshes: dict[tuple, _Mesh] = {}
_lock = threading.Lock()


def _mesh(devices: tuple[Any, ...]) -> _Mesh:
    devices = tuple(sorted(devices, key=lambda d: d.id))
    with _lock:
        if devices not in _meshes:
            _meshes[devices] = _Mesh(devices)
        return _meshes[devices]
