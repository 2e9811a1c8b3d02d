"""Calls of operators that have been prepared: what a call in a user's words comes to, looked up the next time.

All front ends keep theirs here: functions of `mx.nd` and `mx.np`, methods, operators of Python.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from .._support.bounded import Bounded
from ..kernel.kernel import Kernel, prepare
from ..ops import registry

__all__ = ["CachedCall", "kernel_of", "prepared"]


class CachedCall(NamedTuple):
    """A call but for its arrays.

    extras: the arguments after the arrays, where they are the same for every call; numbers: else what to put together
    for them, (name, default) each.
    """

    kernel: Kernel
    extras: tuple = ()
    numbers: list[tuple[str, Any]] | None = None


prepared: dict[Hashable, CachedCall] = Bounded(1 << 14)


def kernel_of(name: str, **params: object) -> Kernel:
    """The kernel of an operator with these parameters, else with their defaults, on all its inputs."""
    key = (name, *params.items()) if params else name
    found = prepared.get(key)
    if found is None:
        op = registry.get(name)
        given = {"scalar": 1.0, **params} if "scalar" in op.params else params
        found = prepared[key] = CachedCall(prepare(op, op.parse(given), len(op.input_names), False))
    return found.kernel
