"""Chunks: what array handles share. A chunk points to an immutable buffer; a write makes it point to another.

Changes are ordered, whichever threads make them (docs/design/0017). A chunk that is being changed is *taken*: it shows
neither buffer nor Promise, so who wants its value waits for the lock that the change holds, and nobody can get hold of
a buffer that is about to be given away.
"""

from __future__ import annotations

import itertools
import operator
import sys
from _thread import RLock  # not threading's, which is a Python function around it
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .._xla.devices import JaxDevice
from .._xla.transfer import moved
from ..base import MXNetError
from ..context import Context
from ..kernel.kernel import WIDE_DTYPES
from .promise import Promise, lost

__all__ = ["ALONE", "Chunk", "RLock", "exclusive", "forget", "holding", "placed",
           "point", "transformation"]


def forget(chunk: Chunk) -> None:
    """Gives back the memory of a copy that was made because somebody has looked at what stays where it is."""
    held = chunk.pending
    if held is not None and held.stays:
        held.value = None


class Chunk:
    """A buffer, or a pending one, and the context it belongs to.

    `version` grows with every write, so that views know when their cached value is old. `lent` says that somebody
    outside has the buffer's memory without Python holding a reference (dlpack); it is then never donated.
    `origin_trace` is the JAX transformation it was made in, where it holds no tracer by which one could tell (None: in
    none).

    While `buffer` and `pending` are None a thread that holds `lock` is changing the chunk, and `stash` is what there
    is: the value that was taken, or, while it is given away, where it is (`program.run_into`). From that the value can
    always be found, also where Ctrl-C has ended the change at any instruction.
    """

    __slots__ = ("buffer", "pending", "ctx", "wide", "version", "lent", "origin_trace", "lock", "stash", "__weakref__")
    hides = True  # its value from others, while it is changed
    stash: Any
    origin_trace: Any

    def __init__(self, buffer: Any, ctx: Context, pending: Promise | None = None) -> None:
        self.buffer, self.pending, self.ctx = buffer, pending, ctx
        self.wide = (buffer if pending is None else pending).dtype in WIDE_DTYPES
        self.version, self.lent, self.origin_trace = 0, False, None
        self.lock, self.stash = RLock(), None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole buffer."""
        held = self.buffer
        if held is None:
            held = self.pending
            if held is None:
                held = self.peek()
        return held.shape

    @property
    def dtype(self) -> np.dtype:
        """dtype of the buffer."""
        held = self.buffer
        if held is None:
            held = self.pending
            if held is None:
                held = self.peek()
        return held.dtype

    def peek(self) -> Any:
        """The buffer or the Promise; waits where another thread is changing it."""
        held = self.buffer
        if held is None:
            held = self.pending
            if held is None:
                with self.lock:
                    held = self.seen()
        return held

    def seen(self) -> Any:
        """The buffer or the Promise as the holder of the lock sees it."""
        if self.buffer is not None:
            return self.buffer
        if self.pending is not None:
            return self.pending
        return _regained(self.stash) if type(self.stash) is tuple else self.stash

    def read(self) -> jax.Array:
        """The buffer; finishes pending work first."""
        held = self.buffer
        if held is not None:
            return held
        held = self.peek()
        if not isinstance(held, Promise):
            return held
        value = held.get()
        with self.lock:
            if held.stays:
                pass
            elif self.pending is held:
                self.buffer, self.pending = value, None
            elif self.stash is held:
                self.stash = value
        return value

    def put_back(self) -> None:
        """Ends a change that has hidden the value, and that may not have come to a write."""
        if self.buffer is None and self.pending is None:
            held = self.seen()
            self.version += type(self.stash) is tuple
            if isinstance(held, Promise):
                self.pending = held
            else:
                self.buffer = held
        self.stash = None

    def write(self, buffer: Any) -> None:
        """Points to a new buffer (of the same shape and dtype)."""
        if isinstance(buffer, Tracer) and not isinstance(self.peek(), Tracer) \
                and (self.origin_trace is None or self.origin_trace != transformation()):
            raise MXNetError("an NDArray made outside a JAX transformation (jit, grad, vmap ...) cannot be written "
                             "from inside it: return the new value instead, or make the array inside")
        with self.lock:
            self.buffer, self.pending = buffer, None
            self.version += 1

    def defer(self, pending: Promise) -> None:
        """Points to a value that comes later."""
        with self.lock:
            held = self.pending if self.buffer is None else self.buffer
            pending.follows(self.stash if held is None else held)
            self.buffer, self.pending = None, pending
            self.version += 1

    def take_over(self, other: Chunk, alike: bool = False) -> bool:
        """Points to another chunk's buffer, where both have one: the usual case of `exclusive`, shortest.

        `alike`: only where they are on one context, of one shape and dtype, which else the caller knows.
        """
        if alike and self.ctx is not other.ctx and self.ctx != other.ctx:
            return False
        with self.lock:
            old = self.buffer
            if old is None or other is self:
                return False
            self.stash, self.buffer = old, None
            value = other.buffer
            if value is None or isinstance(value, Tracer) or \
                    alike and (value.shape != old.shape or value.dtype != old.dtype):
                self.stash, self.buffer = None, old
                return False
            self.stash, self.buffer = None, value
            self.version += 1
            return True


def point(chunks: Sequence[Chunk], values: Sequence[Any]) -> None:
    """Points each chunk to a new value, a buffer or Promise."""
    for chunk, value in zip(chunks, values, strict=True):
        if isinstance(value, Tracer):
            chunk.write(value)
            continue
        if isinstance(value, Promise):
            chunk.defer(value)
            continue
        with chunk.lock:
            chunk.buffer, chunk.pending = value, None
            chunk.version += 1


def _regained(given: tuple) -> Any:
    """The value of a chunk whose buffer was given to a call: the old one where it has not been used, else the new."""
    args, place, made, index = given
    held = args[place]
    if not isinstance(held, jax.Array) or isinstance(held, Tracer) or not held.is_deleted():
        return held
    return made[0][index] if made else lost(held.shape, held.dtype)


class holding:  # noqa: N801
    """A scope that holds locks, taken in the order given."""

    __slots__ = ("_locks", "_got")

    def __init__(self, locks: Sequence[Any]) -> None:
        self._locks = locks
        self._got: list[bool] = []

    def __enter__(self) -> holding:
        try:
            self._got.extend(map(_acquire, self._locks))  # in one call: no signal is handled between lock and note
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for lock in self._locks[:len(self._got)]:
            lock.release()


class exclusive:  # noqa: N801
    """A scope that changes chunks: from reading them to writing them nobody else sees or changes them.

    In it the chunks are taken, and other arrays are looked at by `glimpse` alone: to wait there for another thread's
    change could be to wait for one that waits for this. For the same reason locks are waited for while none is held.
    Scopes may be nested only where the inner has no chunk that another thread could hold.

    Args:
        chunks: what will be written; one may come several times.
    """

    __slots__ = ("chunks", "_locks", "_got", "_taken")

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks, self._locks = chunks, list(map(_lock_of, chunks))
        self._got: list[bool] = []
        self._taken: list[Chunk] = []

    def __enter__(self) -> exclusive:
        locks, got = self._locks, self._got
        try:
            while True:
                got.extend(map(_acquire, locks, _AT_ONCE))  # in one call: no signal is handled between lock and note
                if False not in got:
                    break
                busy = locks[got.index(False)]
                self._let_go()
                with busy:
                    pass
            for chunk in self.chunks:
                held = chunk.buffer
                if held is None:
                    held = chunk.pending
                    if held is None or not chunk.hides:  # taken in a scope around this one
                        continue
                chunk.stash, chunk.buffer, chunk.pending = held, None, None
                self._taken.append(chunk)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for chunk in self._taken:
            if chunk.buffer is not None:
                chunk.stash = None
            else:
                chunk.put_back()
        for lock, held in zip(self._locks, self._got, strict=False):
            if held:
                lock.release()
        self._got.clear()

    def _let_go(self) -> None:
        for lock, held in zip(self._locks, self._got, strict=False):
            if held:
                lock.release()
        self._got.clear()

    def glimpse(self, chunk: Chunk) -> Any:
        """The buffer or Promise of any chunk; None where another thread is changing it: leave, wait, come again."""
        held = chunk.buffer
        if held is None:
            held = chunk.pending
            if held is None and chunk in self.chunks:
                held = chunk.seen()
        return held


_AT_ONCE = itertools.repeat(False)
_lock_of = operator.attrgetter("lock")
_acquire = type(RLock()).acquire


def transformation() -> Any:
    """Identifies the JAX transformation (grad, vmap ...) that is being traced; None where there is none."""
    if not _trace_states:
        from jax.extend.core import get_opaque_trace_state  # late: it takes a while to import
        with jax.ensure_compile_time_eval():
            _trace_states.extend((get_opaque_trace_state, get_opaque_trace_state(convention="mxjax")))
    found = _trace_states[0](convention="mxjax")
    return None if found == _trace_states[1] else found


_trace_states: list[Any] = []  # JAX's function, and the state outside of all transformations


def placed(value: jax.Array, device: JaxDevice) -> jax.Array:
    """A buffer on a device: itself where it is there already.

    `jax.device_put` would then make a second array that shares its memory, which `run_into` could not see.
    """
    if isinstance(value, Tracer) or device in value.devices():
        return value
    return moved(value, device)


def _references_alone() -> int:
    """Returns `sys.getrefcount(values[place])` of a buffer that one list alone refers to."""
    values = [object()]
    return sys.getrefcount(values[0])


ALONE = _references_alone()
