"""Samplers whose position can be saved and restored."""

from __future__ import annotations

from typing import Any

from ...io.state import Resumable

__all__ = ["has_state", "need_state"]


def _without(sampler: object) -> Any:
    """The sampler, or the one within it, that has no state; None: there is one."""
    for owner in type(sampler).__mro__:
        if "state_dict" in vars(owner):
            inner = getattr(sampler, "_sampler", None) if owner.__module__.startswith("mxjax.gluon.data.") else None
            return None if inner is None else _without(inner)
        if "__iter__" in vars(owner):  # of its own: the base class's state is not of this order
            break
    return sampler


def has_state(sampler: object) -> bool:
    """Returns whether a sampler and the sampler within it have `state_dict` and `load_state_dict`."""
    return _without(sampler) is None


def need_state(sampler: Any) -> Resumable:
    """Returns the sampler; raises a TypeError that names it if it, or the sampler within it, has no state."""
    result = _without(sampler)
    if result is not None:
        raise TypeError(f"{type(result).__name__} does not define state_dict() and load_state_dict() for its order, so "
                        "a loader that uses it cannot be resumed: define both, or use a sampler of gluon.data")
    return sampler
