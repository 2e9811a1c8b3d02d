"""Fills the modules of functions on arrays or on symbols: `mx.np`, `mx.nd.np`, `mx.sym.np`."""

from __future__ import annotations

from typing import Any

from . import _create, _elemwise, _index, _matrix, _reduce
from ._dispatch import Namespace, bound

__all__ = ["functions"]


def functions(namespace: Namespace) -> dict[str, Any]:
    """The functions of mx.np by name; those that make arrays make arrays of this namespace."""
    result = {name: bound(namespace, getattr(_create, name)) for name in _create.CREATORS}
    for module in (_create, _elemwise, _reduce, _matrix, _index):
        result.update({name: getattr(module, name) for name in module.__all__})
    return result
