"""A cache of prepared operator calls, keyed by the arguments of the user's call.

All front ends use it: functions of `mx.nd` and `mx.np`, methods, Python operators.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from .._support.bounded import Bounded
from ..kernel.kernel import Kernel, prepare
from ..ops import registry

__all__ = ["CachedCall", "kernel_of", "prepared"]


class CachedCall(NamedTuple):
    """A call without its arrays.

    extras: the arguments after the arrays, if they are the same for every call; numbers: otherwise
    their (name, default) pairs.
    """

    kernel: Kernel
    extras: tuple = ()
    numbers: list[tuple[str, Any]] | None = None


prepared: dict[Hashable, CachedCall] = Bounded(1 << 14)


def kernel_of(name: str, **params: object) -> Kernel:
    """Returns the kernel of an operator for all its inputs, with these parameters and defaults for the others."""
    key = (name, *params.items()) if params else name
    value = prepared.get(key)
    if value is None:
        op = registry.get(name)
        values = {"scalar": 1.0, **params} if "scalar" in op.params else params
        value = prepared[key] = CachedCall(prepare(op, op.parse(values), len(op.input_names), False))
    return value.kernel
