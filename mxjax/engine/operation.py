"""Prepared calls, and the blocks in which they are scheduled."""

from __future__ import annotations

import _thread
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from ..base import MXNetError
from .var import Failure, Var

__all__ = ["RunContext", "Operator", "Block", "Bulk", "LANES"]

LANES = ("compute", "io", "priority", "compile")


class RunContext:
    """The engine's arguments for a running function.

    Attributes:
        ctx: the `ctx` of the push: a device (any hashable object) or None.
        is_bulk: whether the function was merged with others into one block.
        resources: the `resources` of the operator.
    """

    __slots__ = ("ctx", "is_bulk", "resources")

    def __init__(self, ctx: Hashable = None, is_bulk: bool = False, resources: Sequence[Any] = ()) -> None:
        self.ctx = ctx
        self.is_bulk = is_bulk
        self.resources = resources


class Operator:
    """A prepared call: a function with its variables, validated once. Created by `Engine.new_operator`."""

    __slots__ = ("fn", "const_vars", "mutate_vars", "is_async", "lane", "resources", "always", "_name", "deleted")

    def __init__(self, fn: Callable[..., Any], const_vars: Iterable[Var], mutate_vars: Iterable[Var], name: str | None,
                 is_async: bool = False, lane: str = "compute", resources: Sequence[Any] = (),
                 always: bool = False) -> None:
        self.fn = fn
        self.const_vars = const_vars = tuple(const_vars)
        self.mutate_vars = mutate_vars = tuple(mutate_vars)
        self._name = name
        self.is_async = is_async
        self.lane = lane
        self.resources = resources
        self.always = always
        self.deleted = False
        if not callable(fn):
            raise MXNetError(f"engine: cannot push {fn!r}: expected a function")
        if lane not in LANES:
            raise MXNetError(f"engine: {self.name}: unknown lane {lane!r}, expected one of {', '.join(LANES)}")
        for var in const_vars + mutate_vars:
            if var.__class__ is not Var:
                raise MXNetError(f"engine: {self.name}: expected variables of Engine.new_variable, got {var!r}")
        count = len(const_vars) + len(mutate_vars)
        if count > 1 and len({*const_vars, *mutate_vars}) < count:
            self._refuse_duplicates()

    @property
    def name(self) -> str:
        """The given name, or that of the function."""
        return self._name or getattr(self.fn, "__qualname__", None) or repr(self.fn)

    def _refuse_duplicates(self) -> None:
        for label, variables in (("const_vars", self.const_vars), ("mutate_vars", self.mutate_vars)):
            for var in variables:
                if variables.count(var) > 1:
                    raise MXNetError(f"engine: {self.name}: variable {var} occurs {variables.count(var)} times in "
                                     f"{label}; list each one once")
        both = next(var for var in self.const_vars if var in self.mutate_vars)
        raise MXNetError(f"engine: {self.name}: variable {both} occurs in const_vars and in mutate_vars; mutated "
                         "variables may also be read, so remove it from const_vars")


class Block:
    """Functions scheduled as one; a block without functions is a wait for a variable."""

    __slots__ = ("ops", "const_vars", "mutate_vars", "ctx", "priority", "lane", "seq", "wait", "event",
                 "failure", "result")

    def __init__(self, ops: Sequence[Operator], const_vars: Collection[Var], mutate_vars: Collection[Var],
                 ctx: Hashable, priority: int, lane: str, event: Any = None) -> None:
        self.ops = ops
        self.const_vars = const_vars
        self.mutate_vars = mutate_vars
        self.ctx = ctx
        self.priority = priority
        self.lane = lane
        self.wait = 0             # variables not granted yet, one more while the block is open
        self.event = event        # a lock to release at completion
        self.failure: Failure | None = None
        self.result: Any = None

    @property
    def name(self) -> str:
        """The names of the block's functions."""
        return ", ".join(op.name for op in self.ops)


class Bulk(Block):
    """A block to which a thread may still add functions; it starts with one."""

    __slots__ = ("functions", "reads", "writes", "thread")

    def __init__(self, op: Operator, ctx: Hashable, priority: int) -> None:
        self.functions = [op]
        self.reads = dict.fromkeys(op.const_vars)
        self.writes = dict.fromkeys(op.mutate_vars)
        super().__init__(self.functions, self.reads, self.writes, ctx, priority, op.lane)
        self.thread = _thread.get_ident()
        self.wait = 1
