"""The storage of dense arrays: reading and writing chunks and views of them."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .._support.bounded import Bounded
from .._xla.x64 import X64_DTYPES
from ..context import default_device
from ..eager.chunk import Retained
from ..eager.dispatch import change
from ..eager.handle import Handle
from ..eager.program import run_into
from ..eager.promise import HostValue, Promise, as_buffer
from ..kernel.kernel import Kernel, run
from . import indexing

__all__ = ["StoredArray", "offset_scalar", "part_on_host"]

_SHOWN = frozenset(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")))  # by DLPack
_FEW = 1 << 14  # elements of a view that are copied on the host
_shapes: dict[tuple[int, ...], bool] = Bounded(1 << 12)  # of views that have been read


class StoredArray(Handle):
    """An array whose elements are stored in a chunk. Views of a chunk are read and written by small programs."""

    __slots__ = ()

    def read(self) -> jax.Array:
        """Returns the value as an immutable buffer of this array's shape."""
        chunk = self.chunk
        version, base = chunk.version, chunk.buffer  # in this order: a value newer than its version is read again
        if base is None:
            base = chunk.read()
        return base if self.region is None else as_buffer(self.seen_in(base, version))

    def at_hand(self) -> Any:
        """Returns the value as a buffer or a value of the host; None if it is pending or being changed."""
        chunk = self.chunk
        version, base = chunk.version, chunk.buffer
        if base is None:
            base = chunk.pending
            if type(base) is not HostValue:
                return None
        return base if self.region is None else self.seen_in(base, version)

    def seen_in(self, base: Any, version: int) -> Any:
        """Returns the value as a buffer or a value of the host, given that of the chunk as of a version."""
        view = self.region
        if view is None:
            return base
        cached, value = self._cache
        if cached != version:
            offset, shape = view
            count = math.prod(shape)
            part = None
            if type(base) is HostValue:
                value = HostValue.of(base.numpy().reshape(-1)[offset:offset + count].reshape(shape), base.device)
            elif shape not in _shapes and count <= _FEW and (part := part_on_host(base, offset, shape)) is not None:
                _shapes[shape] = True  # for further views of this shape, a program pays off
                value = HostValue(part, base.device if base.committed else None)
            else:
                value = run(indexing.view_kernel(shape), [base, offset_scalar(offset)], self.chunk.x64,
                            host=True)[0]
            if not isinstance(value, Tracer):
                self._cache = (version, value)
        return value

    def write(self, value: Any) -> None:
        """Replaces the value by a buffer or Promise of this array's shape and dtype."""
        chunk, view = self.chunk, self.region
        if view is None:
            chunk.defer(value) if isinstance(value, Promise) else chunk.write(value)
            return
        value = value.get() if isinstance(value, Promise) else value
        buffer = chunk.buffer
        shape = (chunk.peek() if buffer is None else buffer).shape
        buffer = None
        if value.size == math.prod(shape):
            chunk.write(run(indexing.view_kernel(shape), [value, offset_scalar(0)], chunk.x64)[0])
            return
        kernel, args = indexing.write_view_kernel(view[1]), [None, value, offset_scalar(view[0])]
        if not self._updated_at_once(kernel, args):
            self.update(kernel, args)

    def update(self, kernel: Kernel, args: list[Any]) -> None:
        """Sets the chunk to kernel(chunk's buffer, ...), in place if the buffer has no other owner.

        args[0] is filled in; arrays among the others are read at the same moment.
        """
        places = [i for i, a in enumerate(args) if isinstance(a, Handle)]
        if not places and self._updated_at_once(kernel, args):
            return
        whole = self
        if self.region is not None:
            whole = self.alias(type(self))
            whole.region = None

        def step(values: list[Any]) -> None:
            for i, value in zip(places, values[:-1], strict=True):
                args[i] = value
            whole.chunk.stash = values.pop()
            values.clear()
            whole.rewrite(kernel, args)
        change([whole], [*[args[i] for i in places], whole], step)

    def _updated_at_once(self, kernel: Kernel, args: list[Any]) -> bool:
        """Performs `_update` without other arrays and without waiting."""
        chunk = self.chunk
        with chunk.lock:
            value = chunk.buffer
            if value is None:
                value = chunk.pending
                if value is None and type(chunk.stash) is Retained:
                    value = chunk.seen()
                elif value is None and (not isinstance(chunk.stash, Promise) or type(chunk.stash) is HostValue):
                    self.rewrite(kernel, args)  # within a change
                    return True
                if type(value) is not HostValue:
                    return False
            chunk.stash, chunk.buffer, chunk.pending = value, None, None
            value = None
            try:
                self.rewrite(kernel, args)
            finally:
                chunk.put_back()
        return True

    def rewrite(self, kernel: Kernel, args: list[Any]) -> None:
        """Performs `_update` of a chunk that this thread has taken."""
        chunk = self.chunk
        x64 = chunk.x64
        for a in args[1:] if not x64 else ():
            if getattr(a, "dtype", None) in X64_DTYPES:
                x64 = True
        args[0] = chunk.seen()
        run_into(kernel, args, x64, ((chunk, 0, 0),))

    def alias(self, array_type: type[Handle], view: tuple[int, tuple[int, ...]] | None = None) -> Any:
        """Another handle on the same chunk."""
        array = array_type.__new__(array_type)
        array.chunk, array.region = self.chunk, view or self.region
        array.entry, array.gradient = self.entry, self.gradient
        array._cache = (-1, None)
        return array


def part_on_host(base: Any, offset: int, shape: tuple[int, ...], wait: bool = False) -> np.ndarray | None:
    """Returns a copy of a view of a chunk's value whose memory is on the host; None if it is not, or if the
    value is not computed yet and this is not to wait for it."""
    if type(base) is HostValue:
        whole = base.numpy()
    elif isinstance(base, Tracer) or base.dtype not in _SHOWN or not isinstance(base.device, jax.Device) or \
            base.device.platform != "cpu" or not (wait or base.is_ready()) or \
            not base.committed and base.device != default_device():
        return None
    else:
        base.block_until_ready()
        # not by `numpy.asarray`: JAX would cache the result, and copy the array on each write
        whole = np.from_dlpack(base)
    return whole.reshape(-1)[offset:offset + math.prod(shape)].reshape(shape).copy()


def offset_scalar(offset: int) -> Any:
    return offset if offset < 2**31 else np.int64(offset)
