"""Execution of graphs: `Executor`, which is bound to its arrays, and `CachedOp`, which is called
with them. See README.md."""

from ._cached_op import CachedOp
from ._executor import Executor

__all__ = ["Executor"]
Executor.__module__ = __name__  # where users find it
