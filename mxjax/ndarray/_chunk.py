"""Chunks: what array handles share. A chunk points to an immutable buffer; a write makes it point to another."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from ..base import MXNetError
from ..context import Context
from ..ops.kernel import is_wide

__all__ = ["Chunk", "Pending", "placed", "transformation"]


class Pending:
    """A value that is not there yet: host work in the engine, or deferred XLA work. Shape and dtype are known.

    `get` returns the buffer, finishing the work if need be; it raises what the work raised.
    """

    __slots__ = ("shape", "dtype", "value")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.value = shape, dtype, None

    def get(self) -> jax.Array:
        """The buffer; subclasses finish the work in `force`, which sets `value`."""
        if self.value is None:
            self.force()
        return self.value

    def force(self) -> None:
        """Finishes the work and sets `value`."""
        raise NotImplementedError


class Chunk:
    """A buffer, or a pending one, and the context it belongs to.

    `version` grows with every write, so that views know when their cached value is old. `lent` says that somebody
    outside has the buffer's memory without Python holding a reference (dlpack); it is then never donated. `born` is
    the JAX transformation it was made in, where it holds no tracer by which one could tell (None: in none).
    """

    __slots__ = ("buffer", "pending", "ctx", "wide", "version", "lent", "born", "__weakref__")

    def __init__(self, buffer: Any, ctx: Context, pending: Pending | None = None) -> None:
        self.buffer, self.pending, self.ctx = buffer, pending, ctx
        self.wide = is_wide((buffer if pending is None else pending).dtype)
        self.version, self.lent, self.born = 0, False, None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole buffer."""
        return (self.buffer if self.pending is None else self.pending).shape

    @property
    def dtype(self) -> np.dtype:
        """dtype of the buffer."""
        return (self.buffer if self.pending is None else self.pending).dtype

    def read(self) -> jax.Array:
        """The buffer; finishes pending work first."""
        pending = self.pending
        if pending is None:
            return self.buffer
        value = pending.get()
        if self.pending is pending:
            self.buffer, self.pending = value, None
        return value

    def write(self, buffer: Any) -> None:
        """Points to a new buffer (of the same shape and dtype)."""
        if isinstance(buffer, jax.core.Tracer) and not isinstance(self.buffer, jax.core.Tracer) \
                and (self.born is None or self.born != transformation()):
            raise MXNetError("an NDArray made outside a JAX transformation (jit, grad, vmap ...) cannot be written "
                             "from inside it: return the new value instead, or make the array inside")
        self.buffer, self.pending = buffer, None
        self.version += 1

    def defer(self, pending: Pending) -> None:
        """Points to a value that comes later."""
        self.buffer, self.pending = None, pending
        self.version += 1

    def sole(self) -> bool:
        """Whether nobody but this chunk holds the buffer, so that its memory may be reused."""
        return (self.pending is None and not self.lent and sys.getrefcount(self.buffer) == _ALONE
                and isinstance(self.buffer, jax.Array) and not isinstance(self.buffer, jax.core.Tracer))


def transformation() -> Any:
    """Identifies the JAX transformation (grad, vmap ...) that is being traced; None where there is none."""
    if not _trace_states:
        from jax.extend.core import get_opaque_trace_state  # late: it takes a while to import
        with jax.ensure_compile_time_eval():
            _trace_states.extend((get_opaque_trace_state, get_opaque_trace_state(convention="mxjax")))
    found = _trace_states[0](convention="mxjax")
    return None if found == _trace_states[1] else found


_trace_states: list[Any] = []  # JAX's function, and the state outside of all transformations


def placed(value: jax.Array, device: Any) -> jax.Array:
    """A buffer on a device: itself where it is there already.

    `jax.device_put` would then make a second array that shares its memory, which `Chunk.sole` could not see.
    """
    if isinstance(value, jax.core.Tracer) or device in value.devices():
        return value
    return jax.device_put(value, device)


def _reference_count_alone() -> int:
    """What `sys.getrefcount` says of a buffer that one chunk alone holds, seen from `Chunk.sole`."""
    chunk = Chunk.__new__(Chunk)
    chunk.buffer = object()
    return sys.getrefcount(chunk.buffer)


_ALONE = _reference_count_alone()
