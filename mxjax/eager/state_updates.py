"""Side effects of calls: states that a backward pass updates, and inputs that are set to a constant.

On CPUs, MXNet's batch normalization updates its moving averages in every backward pass; cuDNN's
does it in the forward pass. Both write 1 to a fixed gamma.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
from jax.core import Tracer

from .._support.bounded import Bounded, bounded_cache
from .._xla.transfer import moved
from .._xla.x64 import x64_mode
from ..kernel.kernel import Kernel
from .array_types import wrap
from .handle import Handle
from .modes import Modes
from .promise import Promise

__all__ = ["StateUpdate", "as_outputs", "fixed_places", "set_to"]


class StateUpdate:
    """Auxiliary states of a recorded call that change when a backward pass reaches it."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[tuple[Any, Any, Any, float, int]] = []

    def add(self, array: Handle, old: Any, new: Any, decay: float) -> None:
        """Adds an array that becomes `new`, computed from `old` (buffers or Promises) with this weight of `old`."""
        self._rows.append((array, old, new, decay, array.chunk.version))

    def settle(self) -> None:
        """Updates the arrays, as if their current values had been those of the forward pass."""
        for array, old, new, decay, version in self._rows:
            chunk = array.chunk
            with chunk.lock:
                if chunk.version == version:
                    array.write(_latest(new))
                    continue
            with Modes(False, None):
                old, new = (wrap(_latest(v), chunk.ctx, type(array)) for v in (old, new))
                array.write((new + (array - old) * decay).chunk.peek())


def _latest(value: object) -> Any:
    """The buffer of a Promise that has one."""
    return value.value if isinstance(value, Promise) and value.value is not None else value


@bounded_cache(1024)
def as_outputs(kernel: Kernel) -> Kernel:
    """Returns the kernel with the new values of inputs as further outputs, so that it has no side effects."""
    fields = {name: getattr(kernel, name) for name in inspect.signature(Kernel).parameters}
    count = kernel.num_outputs + len(kernel.mutated)
    return functools.partial(Kernel, **fields)(num_outputs=count, num_visible=count, mutated=())


@bounded_cache(1024)
def fixed_places(kernel: Kernel) -> list[tuple[int, float]]:
    """Returns the positions of inputs that a call of the kernel sets to a constant (FFixed), and the constant."""
    rule = kernel.op.get_attr("FFixed")
    names = kernel.op.inputs(kernel.params, kernel.num_arrays)
    return [] if rule is None else [(names.index(name), number) for name, number in rule(kernel.params).items()]


_numbers: dict[tuple, Any] = Bounded(256)


def set_to(array: Handle, number: float) -> None:
    """Fills an array with a number, lazily and only if that has not been done before."""
    current = array.chunk.peek()
    if isinstance(current, Tracer):  # within a transformation of the user
        return
    place = array.chunk.ctx.jax_device if isinstance(current, Promise) else current.sharding
    key = array.shape, array.chunk.dtype, number, place
    value = _numbers.get(key)
    if value is None:
        with x64_mode(array.chunk.dtype):
            value = _numbers[key] = moved(np.full(array.shape, number, array.chunk.dtype), place)
    if current is not value:
        array.write(value)
