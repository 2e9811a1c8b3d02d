"""Passes over programs before XLA compiles them, and their selection for a program. See README.md."""

from __future__ import annotations

import functools
from collections.abc import Callable

from jax.extend.core import ClosedJaxpr

from .barriers import with_barriers
from .byte_convolutions import with_byte_convolutions
from .channels_last import with_channels_last
from .convolutions import with_fast_convolutions
from .division import with_quotients
from .epilogues import with_epilogues
from .precision import with_precision
from .rewriting import without_kernels

__all__ = ["Pass", "passes_for"]

Pass = Callable[[ClosedJaxpr], ClosedJaxpr]


def passes_for(target: str | None, single: bool, keeps: bool, divided: bool) -> list[Pass]:
    """Returns the passes of a program in order.

    Args:
        target: kind of device: "cpu", "onednn" (a CPU where oneDNN may be called), None for accelerators.
        single: the program is one operator.
        keeps: values that depend only on weights may be cached.
        divided: it runs on several devices.
    """
    results: list[Pass] = [functools.partial(with_quotients, on_cpu=target is not None)]
    if target is None:
        results.append(with_precision)
    else:
        results.append(with_channels_last)
        if target == "onednn":
            results.append(with_byte_convolutions)
        if target == "onednn" and keeps:
            results.append(with_epilogues)
        results.append(functools.partial(with_fast_convolutions, library=target == "onednn"))
        if not single:  # which is no long chain
            results.append(with_barriers)
    if divided:
        results.append(without_kernels)
    return results
