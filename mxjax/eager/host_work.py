"""Host work on arrays: functions that the engine runs, and operator calls that wait for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import engine
from .._xla.x64 import x64_mode
from ..base import MXNetError
from ..context import Context
from ..interpret.rules import Eager
from ..kernel.ahead import compiling
from ..kernel.compiled import Compiled
from ..kernel.kernel import Kernel, run
from .promise import Promise, apart, on_default_device

__all__ = ["HostPromise", "push", "push_kernel", "waits_for_compiler"]


class HostPromise(Promise):
    """A value that a function pushed to the engine will set; its variable orders the uses of the value.

    compiles: it waits, directly or indirectly, for a program that is being compiled.
    before: the value that it replaces, which stays if the function fails.
    """

    __slots__ = ("var", "failure", "compiles", "before", "__weakref__")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self.var = engine.get().new_variable()
        self.failure: BaseException | None = None
        self.compiles = False
        self.before: Any = None

    def __del__(self) -> None:
        self.var.abandoned = True

    def force(self) -> None:
        """Waits for the engine; always raises the error of the function or one that it depends on, if any.

        With a previous value, the error is raised once, here or at its first use.
        """
        before, self.before = self.before, None
        try:
            engine.get().wait_for_var(self.var)
        except Exception as error:
            self.failure = error
            self._stay(before)
            raise
        if self.value is None and not self._stay(before):  # the engine has reported the failure already
            raise self.failure or MXNetError("this array's value was never computed: a function that it depends on "
                                             "has failed, and its error was raised earlier")

    def _stay(self, before: Any) -> bool:
        """Returns whether there is a previous value, which stays."""
        before = before.value if isinstance(before, Promise) else before
        if before is None or before.is_deleted():
            return False
        self.value = before
        return True


def push(function: Callable[[list[Any]], Sequence[Any]], inputs: Sequence[Any],
         outputs: Sequence[tuple[tuple[int, ...], np.dtype]], *, ctx: Context | None = None, priority: int = 0,
         name: str | None = None, after: engine.Var | None = None,
         changes: engine.Var | None = None) -> list[HostPromise]:
    """Schedules `function(buffers of the inputs) -> buffers` in the engine once its inputs are available.

    Args:
        function: host code, which runs in a worker thread. Its errors are raised when an output is
            read.
        inputs: buffers or Promise values.
        outputs: shape and dtype of each result.
        ctx: context of the work.
        priority: ready functions with higher priority run first.
        name: name for the engine's messages.
        after: a further variable to wait for.
        changes: engine variable of other state that the function changes; it orders these functions.
    """
    results = [HostPromise(shape, np.dtype(dtype)) for shape, dtype in outputs]
    references = list(map(weakref.ref, results))  # arrays that no longer exist need no value
    waits = list({id(v.var): v.var for v in inputs if isinstance(v, HostPromise)}.values())
    if after is not None:
        waits.append(after)
    buffers = [v.get() if isinstance(v, Promise) and not isinstance(v, HostPromise) else v for v in inputs]

    def work(_: object) -> None:
        try:
            values = function([v.value if isinstance(v, HostPromise) else v for v in buffers])
        except BaseException as error:
            for reference in references:
                if (result := reference()) is not None:
                    result.failure = error
            result = None  # the traceback of the error refers to this frame, which must not keep the array alive
            raise
        finally:
            buffers.clear()
        for reference, value in zip(references, values, strict=True):
            if (result := reference()) is not None:
                result.value, result.before = value, None
    changed = [r.var for r in results] if changes is None else [*(r.var for r in results), changes]
    engine.get().push(work, waits, changed, ctx=ctx, priority=priority, name=name)
    return results


def waits_for_compiler(value: Any) -> bool:
    """Returns whether a value waits for programs that are still being compiled."""
    return isinstance(value, HostPromise) and value.compiles and value.value is None and compiling()


def push_kernel(kernel: Kernel, args: Sequence[Any], x64: bool, ctx: Context, failure: Exception | None = None,
                compiles: bool = False, program: Compiled | Eager | None = None,
                shared: Sequence[int] = ()) -> list[HostPromise]:
    """Runs an operator call as host work, because an argument is pending, the call fails, or its
    result may reveal an error.

    compiles: other threads must first compile its program. program: a program other than that of a
    call, which overwrites some arguments. shared: those arguments that are copied first because
    they are shared.
    """
    def work(values: list[Any]) -> Sequence[Any]:
        if failure is not None:
            raise failure
        for place in shared:
            values[place] = apart(values[place])
        outputs = run(kernel, values, x64, program)
        refusal = kernel.refuses(values, outputs) if kernel.refuses is not None else None
        if refusal is not None:
            raise refusal
        return outputs
    compiles = compiles or any([waits_for_compiler(value) for value in args])
    specs, after = kernel.specs(args, compiles and kernel.op is not None), None
    if compiles and failure is None and not kernel.eager:
        program = program if isinstance(program, Compiled) else kernel.jitted
        after = kernel.begin([_described(value, ctx) for value in args], x64, program)
    results = push(work, args, specs, ctx=ctx, name=kernel.name, after=after)
    for result in results:
        result.compiles = compiles
    return results


def _described(value: Any, ctx: Context) -> Any:
    """Returns a value for compilation; shape, dtype and device if it is pending."""
    if not isinstance(value, Promise):
        return value
    if value.value is not None:
        return value.value
    where = None if on_default_device(ctx) else jax.sharding.SingleDeviceSharding(ctx.jax_device)
    with x64_mode(value):
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=where)
