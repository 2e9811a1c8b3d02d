"""Which samplers have a state."""

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
    """Returns whether a sampler, and the one within it, has `state_dict` and `load_state_dict`."""
    return _without(sampler) is None


def need_state(sampler: Any) -> Resumable:
    """Returns the sampler; raises TypeError where it, or the one within it, has no state, and names that."""
    result = _without(sampler)
    if result is not None:
        raise TypeError(f"{type(result).__name__} has no state_dict() and load_state_dict() for its own order, so what "
                        "uses it cannot be resumed: define both, or use a sampler of gluon.data")
    return sampler
