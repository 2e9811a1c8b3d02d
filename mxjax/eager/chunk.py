"""Chunks, which array handles share. A chunk refers to an immutable buffer; a write makes it refer to another one.

Changes from all threads are ordered (docs/design/0017). A chunk that is being changed is *taken*:
it shows neither buffer nor Promise, so readers wait for the lock of the change, and nobody can
obtain a buffer that is about to be donated.
"""

from __future__ import annotations

import itertools
import operator
import sys
import weakref
from _thread import RLock  # not that of threading, which is a Python function around it
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .._xla.devices import JaxDevice
from .._xla.transfer import moved
from .._xla.x64 import X64_DTYPES
from ..base import MXNetError
from ..context import Context
from .promise import Promise, lost

__all__ = ["ALONE", "Chunk", "RLock", "Retained", "exclusive", "forget", "holding", "placed",
           "point", "transformation"]


def forget(chunk: Chunk) -> None:
    """Releases a copy that was made to read a value that stays on its device."""
    value = chunk.pending
    if value is not None and value.stays:
        value.value = None


class Chunk:
    """A buffer or pending value, and its context.

    `version` increases with every write, so that views detect outdated cached values. `lent` means
    that external code uses the buffer's memory without a Python reference (dlpack); the buffer is
    then never donated. `origin_trace` is the JAX transformation in which the chunk was created, if
    it contains no tracer that would tell (None: none).

    While `buffer` and `pending` are None, a thread with `lock` is changing the chunk. `stash` is
    then the value that was taken, or, while it is donated, its location (`program.run_into`). So
    the value can always be recovered, even if Ctrl-C interrupts the change at any instruction.
    If `stash` is a `Retained`, a program has the value, and the thread with `lock` takes it back.
    """

    __slots__ = ("buffer", "pending", "ctx", "x64", "version", "lent", "origin_trace", "lock", "stash", "__weakref__")
    hides = True  # hides its value from others while it is changed
    stash: Any
    origin_trace: Any

    def __init__(self, buffer: Any, ctx: Context, pending: Promise | None = None) -> None:
        self.buffer, self.pending, self.ctx = buffer, pending, ctx
        self.x64 = (buffer if pending is None else pending).dtype in X64_DTYPES
        self.version, self.lent, self.origin_trace = 0, False, None
        self.lock, self.stash = RLock(), None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole buffer."""
        value = self.buffer
        if value is None:
            value = self.pending
            if value is None:
                value = self.peek()
        return value.shape

    @property
    def dtype(self) -> np.dtype:
        """dtype of the buffer."""
        value = self.buffer
        if value is None:
            value = self.pending
            if value is None:
                value = self.peek()
        return value.dtype

    def peek(self) -> Any:
        """Returns the buffer or the Promise; waits while another thread is changing the chunk."""
        value = self.buffer
        if value is None:
            value = self.pending
            if value is None:
                with self.lock:
                    value = self.seen()
        return value

    def seen(self) -> Any:
        """Returns the buffer or the Promise, for the thread with the lock."""
        if type(self.stash) is Retained:  # first, because `release` clears it last
            self.stash.release()
        if self.buffer is not None:
            return self.buffer
        if self.pending is not None:
            return self.pending
        stash = self.stash
        if type(stash) is Retained:
            return stash.value_of(self)
        return _regained(stash) if type(stash) is tuple else stash

    def read(self) -> jax.Array:
        """Returns the buffer; finishes pending work first."""
        current = self.buffer
        if current is not None:
            return current
        current = self.peek()
        if not isinstance(current, Promise):
            return current
        value = current.get()
        with self.lock:
            if current.stays:
                pass
            elif self.pending is current:
                self.buffer, self.pending = value, None
            elif self.stash is current:
                self.stash = value
        return value

    def put_back(self) -> None:
        """Ends a change; restores the value if the change has not written another one."""
        if self.buffer is None and self.pending is None:
            value = self.seen()
            self.version += type(self.stash) is tuple
            if isinstance(value, Promise):
                self.pending = value
            else:
                self.buffer = value
        self.stash = None

    def write(self, buffer: Any) -> None:
        """Replaces the buffer by a new one with the same shape and dtype."""
        if isinstance(buffer, Tracer) and not isinstance(self.peek(), Tracer) \
                and (self.origin_trace is None or self.origin_trace != transformation()):
            raise MXNetError("an NDArray created outside a JAX transformation (jit, grad, vmap ...) cannot be written "
                             "inside it: return the new value instead, or create the array inside")
        with self.lock:
            if type(self.stash) is Retained:
                self.stash.release()
            self.buffer, self.pending = buffer, None
            self.version += 1

    def defer(self, pending: Promise) -> None:
        """Replaces the value by a pending one."""
        with self.lock:
            value = self.pending if self.buffer is None else self.buffer
            if value is None:
                value = self.seen() if type(self.stash) is Retained else self.stash
            pending.follows(value)
            self.buffer, self.pending = None, pending
            self.version += 1

    def take_over(self, other: Chunk, alike: bool = False) -> bool:
        """Takes over another chunk's buffer, if both have one; a fast path of `exclusive`. `alike`:
only if both have the same context, shape and dtype; otherwise the caller guarantees this.
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
    """Replaces the value of each chunk by a buffer or Promise."""
    for chunk, value in zip(chunks, values, strict=True):
        if isinstance(value, Tracer):
            chunk.write(value)
            continue
        if isinstance(value, Promise):
            chunk.defer(value)
            continue
        with chunk.lock:
            if type(chunk.stash) is Retained:
                chunk.stash.release()
            chunk.buffer, chunk.pending = value, None
            chunk.version += 1


class Retained:
    """Values of chunks that a program retains from one run to the next.

    A training step replaces hundreds of arrays, and taking and writing each chunk would cost more
    than the call of the program. While nobody else uses the chunks, they show no value, and the
    results of a run are the arguments of the next one. The first access to any chunk gives all
    values back (`release`).

    Args:
        chunks: the chunks; only weak references are stored.
        pick: function(results of the program) that returns their values.
    """

    __slots__ = ("_chunks", "_made", "_pause", "_pick", "_runs", "_running", "_skip", "_values", "lock", "open")

    def __init__(self, chunks: Sequence[Chunk], pick: Callable[[tuple], tuple]) -> None:
        self._chunks, self._pick = [weakref.ref(chunk) for chunk in chunks], pick
        self._values: tuple = ()
        self._made: list[tuple] = []  # the results of a run that Ctrl-C interrupted, or that is going on
        self._runs, self._running = _PAYS, False
        self._pause = self._skip = 0
        self.lock, self.open = RLock(), False

    def retain(self, chunks: Sequence[Chunk]) -> None:
        """Takes the buffers of the chunks, for which the caller has an `exclusive` scope. Does so
        seldom if they were soon used the last times."""
        if self._skip:
            self._skip -= 1
            return
        self._skip = self._pause = 0 if self._runs >= _PAYS else min(2 * self._pause + 1, _LONGEST_PAUSE)
        with self.lock:
            self._values, self._runs = tuple([chunk.buffer for chunk in chunks]), 0
            for chunk in chunks:
                chunk.stash, chunk.buffer = self, None
            self.open = True  # last: after Ctrl-C before this line, no run may donate a chunk's buffer

    def run(self, call: Callable[[tuple, list[tuple]], object]) -> tuple | None:
        """Runs the program.

        Args:
            call: function(values of the chunks, list that receives the results) that runs it and
                waits for no lock of a chunk.

        Returns:
            The results, or None, without any effect, if the values were given back.
        """
        with self.lock:
            if not self.open or self._running:
                return None
            if self._made:  # Ctrl-C came after the last run
                self._collect()
            self._running = True
            try:
                call(self._values, self._made)
                results = self._made[0]
                self._runs += 1
                self._values, self._made = self._pick(results), []
            finally:
                self._running = False
            return results

    def _collect(self) -> None:
        """Takes the values from the results of a run."""
        self._values, self._made = self._pick(self._made[0]), []
        self._runs += 1

    def release(self) -> None:
        """Gives the chunks their values, unless code that the program calls asks for it."""
        with self.lock:
            if self._running:
                return
            if self._made:
                self._collect()
            self.open = False
            for one, value in zip(self._chunks, self._values, strict=bool(self._values)):
                chunk = one()
                if chunk is not None and chunk.stash is self:
                    chunk.version += self._runs > 0
                    if value.is_deleted():
                        chunk.pending = lost(value.shape, value.dtype)
                    else:
                        chunk.buffer = value
                    chunk.stash = None
            self._values = ()

    def value_of(self, chunk: Chunk) -> Any:
        """Returns the value with which the running program began."""
        value = next(value for one, value in zip(self._chunks, self._values, strict=True) if one() is chunk)
        return lost(value.shape, value.dtype) if value.is_deleted() else value


def _regained(stash: tuple) -> Any:
    """Returns the value of a chunk whose buffer was donated to a call: the old one if it was not used, otherwise the
    new one."""
    args, place, delivered, index = stash
    value = args[place]
    if not isinstance(value, jax.Array) or isinstance(value, Tracer) or not value.is_deleted():
        return value
    return delivered[0][index] if delivered else lost(value.shape, value.dtype)


class holding:  # noqa: N801
    """A scope that holds locks, acquired in the given order."""

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
    """A scope that changes chunks atomically: no other thread reads or changes them between the read and the write.

    Within it the chunks are taken, and other arrays must only be read by `glimpse`, because waiting
    for another thread's change could deadlock. For the same reason it waits for locks only while it
    holds none. Scopes may be nested only if no other thread can hold a chunk of the inner one.

    Args:
        chunks: chunks to write; duplicates are allowed.
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
                value = chunk.buffer
                if value is None:
                    value = chunk.pending
                    if value is None and type(chunk.stash) is Retained:
                        value = chunk.seen()
                    if value is None or not chunk.hides:  # taken in a scope around this one
                        continue
                chunk.stash, chunk.buffer, chunk.pending = value, None, None
                self._taken.append(chunk)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for chunk in self._taken:
            if chunk.buffer is not None:
                chunk.stash = None
            elif type(chunk.stash) is not Retained:
                chunk.put_back()
        for lock, locked in zip(self._locks, self._got, strict=False):
            if locked:
                lock.release()
        self._got.clear()

    def _let_go(self) -> None:
        for lock, locked in zip(self._locks, self._got, strict=False):
            if locked:
                lock.release()
        self._got.clear()

    def glimpse(self, chunk: Chunk) -> Any:
        """Returns the buffer or Promise of any chunk; None if another thread is changing it: then
        leave the scope, wait and retry."""
        value = chunk.buffer
        if value is None:
            value = chunk.pending
            if value is None and chunk in self.chunks:
                value = chunk.seen()
        return value


_PAYS = 4  # runs after which retaining the values has saved more than it costs
_LONGEST_PAUSE = 63  # runs, if it did not
_AT_ONCE = itertools.repeat(False)
_lock_of = operator.attrgetter("lock")
_acquire = type(RLock()).acquire


def transformation() -> Any:
    """Identifies the JAX transformation (grad, vmap ...) that is being traced; None if there is none."""
    if not _trace_states:
        from jax.extend.core import get_opaque_trace_state  # late, because the import is slow
        with jax.ensure_compile_time_eval():
            _trace_states.extend((get_opaque_trace_state, get_opaque_trace_state(convention="mxjax")))
    result = _trace_states[0](convention="mxjax")
    return None if result == _trace_states[1] else result


_trace_states: list[Any] = []  # JAX's function, and the state outside of all transformations


def placed(value: jax.Array, device: JaxDevice) -> jax.Array:
    """Returns a buffer on a device; the buffer itself if it is already there.

    In that case `jax.device_put` would create a second array that shares its memory, which
    `run_into` could not detect.
    """
    if isinstance(value, Tracer) or device in value.devices():
        return value
    return moved(value, device)


def _references_alone() -> int:
    """Returns `sys.getrefcount(values[place])` of a buffer that one list alone refers to."""
    values = [object()]
    return sys.getrefcount(values[0])


ALONE = _references_alone()
