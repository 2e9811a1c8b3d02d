"""Values that are not JAX buffers yet: pending ones, and those that NumPy has computed."""

from __future__ import annotations

import contextlib
import sys
from _thread import RLock
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.core import ShapedArray

from .._support.bounded import Bounded
from .._xla.devices import JaxDevice
from .._xla.process import when_forked
from .._xla.tracing import EVALUATES, find_top_trace
from .._xla.transfer import to_device
from .._xla.x64 import X64_DTYPES, x64_mode

__all__ = ["HostValue", "Promise", "as_buffer", "identity", "on_devices"]


def _by_subclass(sharding: jax.sharding.Sharding | None) -> jax.Array:
    raise NotImplementedError("a subclass must compute the value")


class Promise:
    """A pending value; `get` returns its buffer, or raises the error of its computation.

    Subclasses belong to NumPy (`HostValue`), to host work (`HostPromise`), to traces (`TracePromise`),
    and to deferred recorded calls (`CallPromise`).

    Args:
        shape, dtype: of the value.
        make: function(sharding or None) that creates the buffer, if no subclass does; called once.
    """

    __slots__ = ("shape", "dtype", "value", "make")
    value: jax.Array | None
    stays = False  # whether a buffer for readers is a copy, which does not replace the promise

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype,
                 make: Callable[[jax.sharding.Sharding | None], jax.Array] = _by_subclass) -> None:
        self.shape, self.dtype, self.value, self.make = shape, dtype, None, make

    def get(self) -> jax.Array:
        """Returns the buffer; finishes the work if necessary."""
        value = self.value
        if value is None:
            self.force()
            value = cast(jax.Array, self.value)
        return value

    def force(self) -> None:
        """Finishes the work and sets `value`."""
        self.value = self.make(None)

    def buffer_or_none(self) -> Any:
        """Returns the buffer, or None while it is pending."""
        return self.value

    def follows(self, old: Any) -> None:
        """Records that this value replaces the value `old` of an array."""

    def join(self, trace: Any) -> None:
        """Prepares the value to be an argument of a call in this trace."""


class HostValue(Promise):
    """A value that NumPy has computed. It becomes a buffer when a program of XLA needs it.

    The transfer to a buffer takes longer than most operators on few numbers, so calls that NumPy
    computes pass their results to each other as arrays.

    Args:
        array: contiguous array, which must not change afterwards.
        device: the CPU to which the buffer will be committed; None: the default device, uncommitted.
    """

    __slots__ = ("array", "device")

    def __init__(self, array: np.ndarray, device: JaxDevice | None = None) -> None:
        self.shape, self.dtype, self.value = array.shape, array.dtype, None
        self.array: np.ndarray | None = array
        self.device = device

    @classmethod
    def of(cls, array: np.ndarray | np.generic, device: JaxDevice | None = None) -> HostValue:
        """Returns the value of a NumPy result, which may be a view of an argument."""
        if type(array) is not np.ndarray:
            array = np.asarray(array)
        if not array.flags.c_contiguous or array.base is not None and not _may_share(array):
            array = np.array(array, order="C")
        return cls(array, device)

    @property
    def aval(self) -> ShapedArray:
        """The type of the buffer, by which compiled functions find their programs."""
        key = self.shape, self.dtype
        aval = _avals.get(key)
        if aval is None:
            aval = _avals[key] = ShapedArray(*key)
        return aval

    def numpy(self) -> np.ndarray:
        """Returns the value as a NumPy array, which must not be changed."""
        array = self.array
        return np.asarray(self.get()) if array is None else array

    def force(self) -> None:
        """Creates the buffer. It may take over the array's memory, and a program may overwrite it later; so an array
        that anything else refers to is copied."""
        with _transfer:
            array = self.array
            if array is None:  # another thread was faster
                return
            try:
                self.array = None  # from here on, other threads wait for the buffer
                if array.base is not None or sys.getrefcount(array) > _ALONE:
                    values = array.copy()
                else:
                    values = array
                with x64_mode(True) if values.dtype in X64_DTYPES else _AS_IT_IS:
                    if find_top_trace(None) is EVALUATES:
                        self.value = to_device(values, self.device)
                    else:
                        with jax.ensure_compile_time_eval():  # otherwise it would belong to the transformation
                            self.value = jax.device_put(values, self.device)
            except BaseException:
                self.array = array
                raise


def identity(value: object) -> int:
    """Returns the identity of a buffer or pending value."""
    buffer = value.buffer_or_none() if isinstance(value, Promise) else value
    return id(value if buffer is None else buffer)


def as_buffer(value: Any) -> Any:
    """Returns the buffer of a `HostValue`; any other value unchanged."""
    return value.get() if type(value) is HostValue else value


def on_devices(args: Sequence[Any]) -> Sequence[Any]:
    """Returns arguments with buffers instead of values of the host; a list is changed itself, so that it has the
    only references."""
    if HostValue not in map(type, args):
        return args
    if type(args) is not list:
        args = list(args)
    for place in range(len(args)):
        args[place] = as_buffer(args[place])
    return args


def _may_share(view: np.ndarray) -> bool:
    """Returns whether a result may stay a view: not of a buffer's memory, nor of a much larger array's."""
    base = view.base
    return type(base) is np.ndarray and base.base is None and base.nbytes <= 2 * view.nbytes and \
        base.flags.owndata


def _references_alone() -> int:
    """Returns `sys.getrefcount(array)` of an array that one variable refers to."""
    array = np.zeros(1)
    return sys.getrefcount(array)


@when_forked
def _begin_in_child() -> None:
    """Replaces the lock, which a thread of the parent may hold."""
    global _transfer
    _transfer = RLock()


_avals: dict[tuple, ShapedArray] = Bounded(1 << 12)
_AS_IT_IS = contextlib.nullcontext()
_transfer = RLock()  # locked while an array becomes a buffer
_ALONE = _references_alone()
