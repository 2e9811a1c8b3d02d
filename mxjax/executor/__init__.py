"""Graphs that run on arrays: `Executor`, bound to its arrays, and `CachedOp`, called with them. See README.md."""

from ._cached_op import CachedOp
from ._executor import Executor

__all__ = ["Executor"]
Executor.__module__ = __name__  # where users find it
