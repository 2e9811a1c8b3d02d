"""Operators with a different implementation on some kinds of devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax import lax

__all__ = ["BYTE_CONVOLUTION", "MOST_KERNEL", "by_device", "for_cpus", "traced_for"]

MOST_KERNEL = 128  # elements of one filter's window: for one as large as a picture oneDNN has no fast implementation
BYTE_CONVOLUTION = "convolution_of_bytes"  # the name of functions that are such a convolution, and nothing else

_kind = jax.make_user_context(None)  # part of the keys of jit's caches: the device of a trace


def traced_for(kind: str | None) -> AbstractContextManager:
    """A block whose traces are for this kind of device alone; None: for whatever they are lowered for.

    Kinds are "cpu", and "onednn": CPUs whose programs have their convolutions from oneDNN.
    """
    return _kind(kind)


def for_cpus() -> bool:
    """Returns whether the current trace is for CPUs only."""
    return _kind.value is not None


def by_device(*args: Any, default: Callable[..., Any], **forms: Callable[..., Any]) -> Any:
    """Returns the result of the device's form, as `jax.lax.platform_dependent` without forms that are not needed.

    They would be traced and differentiated for nothing (docs/design/0011).

    Args:
        args: arguments of each form.
        default: the form for kinds of devices that are not named.
        forms: by kind: cpu, cuda, rocm, tpu; onednn, where that is not as cpu.
    """
    kind, library = _kind.value, forms.pop("onednn", forms.get("cpu", default))
    if kind is None:
        return lax.platform_dependent(*args, default=default, **forms)
    return (library if kind == "onednn" else forms.get(kind, default))(*args)
