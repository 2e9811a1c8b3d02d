"""Collectives between the workers of a job: one XLA program for many arrays, over one device per worker."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .. import engine
from .._support import settings
from .._xla.transfer import moved
from .._xla.x64 import x64_mode
from ..base import MXNetError
from .cluster import Cluster
from .reduce import _pack, _unpack

__all__ = ["Workers"]

_FEW = 16
_BITS = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


class Workers:
    """Collective operations of all workers. All workers must make the same calls in the same order.

    Args:
        cluster: the job.

    Raises:
        MXNetError: JAX's devices are not connected.
    """

    def __init__(self, cluster: Cluster) -> None:
        if not cluster.xla and cluster.size > 1:
            raise MXNetError("this process has joined its job without its devices (MXJAX_JOIN_XLA=0), but synchronous "
                             "stores need them")
        self.cluster = cluster
        first = {}
        for device in sorted(jax.devices(), key=lambda d: d.id):
            first.setdefault(device.process_index, device)
        self.device = first[jax.process_index()]
        mesh = Mesh(np.array([first[i] for i in sorted(first)]), ("worker",))
        self._split, self._same = NamedSharding(mesh, PartitionSpec("worker")), NamedSharding(mesh, PartitionSpec())
        self._var = engine.get().new_variable("collective between workers")
        self.bucket = settings.KVSTORE_BUCKET() << 20
        self._sum = jax.jit(lambda x: x.sum(0, dtype=x.dtype)[None], out_shardings=self._same)
        self._programs: dict[Any, Any] = {}
        self._gather = jax.jit(lambda x: x, out_shardings=self._same)

    def _run(self, program: Any, value: jax.Array) -> jax.Array:
        """A program on all workers' values (leading axis: 1 here, the workers there); the result, whole."""
        self.cluster.check()
        value = moved(value, self.device)

        def work(_: Any) -> jax.Array:
            with x64_mode(value):
                whole = jax.make_array_from_single_device_arrays(
                    (self.cluster.size, *value.shape[1:]), self._split, [value])
                result = program(whole)
            if self.device.platform == "cpu":
                result.block_until_ready()  # two host collectives in flight would deadlock
            return result
        self.cluster.busy = time.monotonic()
        try:
            result = engine.get().push_sync(work, (), (self._var,), name="collective between workers")
        except (RuntimeError, ValueError) as error:
            raise self.cluster.explain(error) from None
        finally:
            self.cluster.busy = 0.0
        return result.addressable_data(0)

    def all_reduce(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Sums each of several arrays over the workers, packed into a few buffers of one dtype each."""
        results: list[Any] = [None] * len(values)
        for places in self.buckets(values):
            parts = [values[i] for i in places]
            with x64_mode(parts[0]):
                total = self._run(self._sum, _pack(*[moved(p, self.device) for p in parts]))
                summed = _unpack(total, tuple(p.shape for p in parts))
            for i, result in zip(places, summed, strict=True):
                results[i] = result
        return results

    def buckets(self, values: Sequence[jax.Array]) -> list[list[int]]:
        """Returns which arrays go together: one dtype, at most a bucket's bytes."""
        buckets: dict[Any, list[list[int]]] = {}
        filled: dict[Any, int] = {}
        for i, value in enumerate(values):
            rows = buckets.setdefault(value.dtype, [[]])
            if filled.get(value.dtype, 0) + value.nbytes > self.bucket and rows[-1]:
                rows.append([])
                filled[value.dtype] = 0
            rows[-1].append(i)
            filled[value.dtype] = filled.get(value.dtype, 0) + value.nbytes
        return [row for rows in buckets.values() for row in rows]

    def all_gather(self, value: jax.Array) -> jax.Array:
        """Gathers and stacks all workers' arrays of the same shape."""
        return self._run(self._gather, value[None])

    def combine(self, value: jax.Array, function: Callable[[Any], Any], spread: bool | None = None) -> jax.Array:
        """Applies an elementwise function to all workers' vectors: (workers, length) -> (..., length).

        Args:
            value: this worker's vector.
            function: a pure function. Create it only once, because its program is cached.
            spread: let each worker compute a part and gather the parts. This sends less if there
                are many workers and the result is not much larger than `value`. By default with
                more than 16 workers.
        """
        count, length = self.cluster.size, value.shape[0]
        spread = count > _FEW if spread is None else spread
        if (function, spread) not in self._programs:
            between = NamedSharding(self._same.mesh, PartitionSpec(None, "worker") if spread else PartitionSpec())
            self._programs[function, spread] = jax.jit(
                lambda x: function(lax.with_sharding_constraint(x, between)), out_shardings=self._same)
        padded = jnp.pad(value, (0, -length % count if spread else 0))
        return self._run(self._programs[function, spread], padded[None])[..., :length]

    def broadcast(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Returns worker 0's arrays bit for bit; the other workers pass arrays of the same shapes."""
        with x64_mode(*values):
            bits = [_to_bits(v) if self.cluster.rank == 0 else jnp.zeros_like(_to_bits(v)) for v in values]
            return [_from_bits(b, np.dtype(v.dtype)) for b, v in zip(self.all_reduce(bits), values, strict=True)]


@jax.jit
def _to_bits(value: Any) -> Any:
    if value.dtype == jnp.bool_:
        return value.astype(jnp.uint8)
    return lax.bitcast_convert_type(value, _BITS[value.dtype.itemsize])


@functools.partial(jax.jit, static_argnums=1)
def _from_bits(bits: Any, dtype: np.dtype) -> Any:
    return bits.astype(jnp.bool_) if dtype == jnp.bool_ else lax.bitcast_convert_type(bits, dtype)
