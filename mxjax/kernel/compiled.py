"""Compiled functions: one executable per signature, by NumPy or XLA.

NumPy computes a function's first calls, if it produces XLA's results (`interpreted`), and XLA the
later ones (`xla`). Most signatures are never called often enough to be compiled. A budget limits
the programs (`budget`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from .. import level
from .._support.bounded import clear_all
from .._support.signals import later_signals
from .._support.waiting import telling
from .._xla.host_memory import give_back
from .._xla.process import forked, starts, when_forked
from .._xla.tracing import EVALUATES, as_elsewhere, find_top_trace
from .._xla.transfer import to_device
from ..engine import Var
from ..interpret.rules import unknown
from ..passes import Pass, passes_for
from ..passes.epilogues import SplitProgram
from .ahead import Ahead, Later, may_wait
from .arguments import elements, kind_of, placed, signature_of, with_numbers_there
from .budget import ProgramBudget
from .interpreted import ByNumpy, HostCall, InterpreterBackend
from .policy import compiles_at_once
from .promise import HostValue, on_devices
from .xla import Compilation, XlaBackend

__all__ = ["SOME_OF_ONE", "Compiled", "Reordered", "clear_caches"]

_ARRAYS = frozenset([np.ndarray, int, float])
_GIVING = {"donate_argnums"}  # NumPy always creates new results
_ALONE = 2e5  # microseconds that an operator within NumPy's program may take more than its compilation
_QUICK = 100  # operations below which the compilation time is not logged
_SOME, SOME_OF_ONE = 1 << 14, 1 << 17  # elements of all arguments together


class Compiled:
    """A function compiled after its first calls with each signature.

    Args:
        function: a pure function of arrays.
        most: number of elements of all arguments up to which it is compiled without fusion
            emitters; the default is for functions in which many operators could be fused,
            SOME_OF_ONE for a single operator.
        again: results that reuse an argument's memory are arguments of the next call, so XLA may
            choose their layouts.
        by_numpy: the function's NumPy form, which needs no trace (see `InterpreterBackend`).
        any_size: the function does not depend on particular sizes, except 0 and 1 (see
            `SymbolicTraces`).
        parts: the function only calls kernels, by `Kernel.within`.
        trains: it is only called in training.
        passes: function that maps a kind of device to passes over its programs; by default those
            for all programs of the library.
        patient: a first call by XLA raises `Later`, so that the caller may compile it in another
            thread.
        options: further arguments of `jax.jit`.
    """

    __slots__ = ("_arguments", "_original", "_calls", "_warm", "_within", "_patient", "program_bytes", "xla",
                 "interpreter", "ahead", "__weakref__")

    def __init__(self, function: Callable, most: int = _SOME, again: bool = False,
                 by_numpy: ByNumpy | None = None, any_size: bool = False, parts: bool = False, trains: bool = False,
                 passes: Callable[[str | None], Sequence[Pass]] | None = None, patient: bool = False,
                 **options: object) -> None:
        self._arguments = dict(most=most, again=again, by_numpy=by_numpy, any_size=any_size, parts=parts,
                               trains=trains, passes=passes, patient=patient, **options)
        self._original = function
        single = most >= SOME_OF_ONE
        keeps = not (single or options)
        passes = passes or functools.partial(passes_for, single=single, keeps=keeps,
                                             divided="out_shardings" in options)
        self.xla = XlaBackend(function, passes, most, keeps, again, options)
        self.interpreter = InterpreterBackend(function, by_numpy, any_size, parts, options.keys() <= _GIVING, trains)
        self._calls: dict[tuple, Callable] = {}  # the executable of each signature
        self._patient, self.ahead = patient, Ahead()
        self._within: dict[tuple, Any] = {}  # the NumPy function of each, as part of a program
        self._warm: dict[tuple, Callable] = {}  # those of them that `deliver` has called
        self.program_bytes = 0  # bytes of programs, by estimate
        budget.add(self)

    def __call__(self, *args: object) -> Any:
        if find_top_trace(None) is not EVALUATES:
            return self._in_transformation(args)
        if budget.short:
            budget.make()
        signature = tuple([signature_of(a) if (aval := getattr(a, "aval", None)) is None else aval for a in args])
        if budget.several:
            target, device = placed(args)
            if device is not None:
                with jax.default_device(device):
                    return self(*args)
            signature += (target,)
            args = args if target else with_numbers_there(args)
        return (self._calls.get(signature) or self._choose(signature, args))(*args)

    def anywhere(self, args: Sequence[Any]) -> Any:
        """Calls the function; arguments and, if NumPy computes the call, results may be values of the host."""
        if budget.several or find_top_trace(None) is not EVALUATES:
            return self(*on_devices(args))
        if budget.short:
            budget.make()
        signature = tuple([signature_of(a) if (aval := getattr(a, "aval", None)) is None else aval for a in args])
        call = self._calls.get(signature) or self._choose(signature, args)
        if isinstance(call, HostCall) and not budget.several:
            results = call.on_host(args)
            if results is not None:
                return results
            return self(*on_devices(args))  # XLA takes over
        if HostValue in map(type, args):
            args = on_devices(args)
        return call(*args)

    def deliver(self, delivered: list[Any], args: Sequence[Any], host: bool = False) -> None:
        """Calls the function and stores the result in `delivered`, in a single C call, so that no signal
        is handled in between.

        host: arguments and results may be values of the host. If XLA computes the call, buffers replace
            them in the list `args`.
        """
        if find_top_trace(None) is not EVALUATES:
            delivered.append(self._in_transformation(on_devices(args)))
            return
        if budget.short:
            budget.make()
        signature = tuple([signature_of(a) if (aval := getattr(a, "aval", None)) is None else aval for a in args])
        if budget.several:
            target, device = placed(on_devices(args))
            if device is not None:
                with jax.default_device(device):
                    self.deliver(delivered, args)
                return
            signature += (target,)
            args = args if target else with_numbers_there(args)
        call = self._warm.get(signature)
        if call is not None:
            if HostValue in map(type, args):
                args = on_devices(args)
            delivered.extend(itertools.starmap(call, (args,)))
            return
        call = self._calls.get(signature) or self._choose(signature, args)
        if host and isinstance(call, HostCall) and not budget.several:
            results = call.on_host(args)
            if results is not None:
                delivered.append(tuple(results))
                return
            call = self._calls.get(signature) or self._choose(signature, args)
        args = on_devices(args)
        with later_signals():  # on the first call, JAX's Python code runs after the program
            delivered.extend(itertools.starmap(call, (args,)))
        if self.xla.owns(call) and self._calls.get(signature) is call:
            self._warm[signature] = call

    def within(self, *args: object) -> Any:
        """Computes the results of NumPy arrays as NumPy arrays, as part of a program that NumPy computes."""
        signature = tuple([(a.shape, a.dtype) if type(a) is np.ndarray else signature_of(a) for a in args])
        call = self._within.get(signature)
        if call is None:  # False: XLA computes it
            call = self.interpreter.interpreted(args, "cpu")
            if call is None or call.cost is not None and call.cost.call > call.cost.compilation + _ALONE:
                call = False
            self._within[signature] = call
        result = call(args if _ARRAYS.issuperset(map(type, args)) else jax.tree.leaves(args)) if call else None
        return self._by_xla(*args) if result is None else result

    def _by_xla(self, *args: object) -> Any:
        """Returns the results of XLA for NumPy arrays, as NumPy arrays."""
        args = jax.tree.map(lambda a: to_device(a) if isinstance(a, np.ndarray) else a, args)
        try:
            results = self(*args)
        except Later:
            results = self(*args)
        return jax.tree.map(np.asarray, results)

    def _in_transformation(self, args: Sequence[Any]) -> Any:
        """Returns the result in a transformation of JAX (jit, grad, vmap ...), in which programs have no options."""
        starts()
        budget.note()
        return self.xla.plain()(*args)

    def __reduce__(self) -> tuple:
        """Supports pickling; other processes compile the function again."""
        return functools.partial(type(self), **self._arguments), (self._original,)

    def eval_shape(self, *args: object) -> Any:
        """Returns shapes and dtypes of the results for arguments or ShapeDtypeStructs; a later call
        does not trace again."""
        return self.xla.form(self._target(args), None).eval_shape(*args)

    def forms(self) -> tuple[int, ...]:
        """Returns the number of programs with full optimization, without fusion emitters, and without optimization."""
        sizes = self.xla.programs()
        for call in self._calls.values():
            if isinstance(call, SplitProgram):
                sizes[call.effort] += 1
        return tuple(sizes)

    def signatures(self) -> int:
        """Returns the number of signatures with which it has been called."""
        return len(self._calls) + len(self._within)

    def leave(self) -> tuple:
        """Resets the function in a forked child; returns objects that must not be deleted."""
        left = self._calls, self._warm, self.xla.leave()
        self._calls, self._warm, self._within, self.program_bytes = {}, {}, {}, 0
        return left

    def clear(self) -> None:
        """Drops all signatures and programs; later calls trace and compile again."""
        self._calls.clear()
        self._warm.clear()
        self._within.clear()
        self.interpreter.sizes.clear()
        budget.program_bytes -= self.program_bytes
        self.program_bytes = 0
        self.xla.clear()

    def _target(self, args: Sequence[Any]) -> str | None:
        target = kind_of(args)
        return "cpu" if target == "onednn" and "out_shardings" in self._arguments else target

    def _choose(self, signature: tuple, args: Sequence[Any]) -> Callable:
        """Returns the executable for a new signature: of the interpreter if it can start immediately, otherwise of XLA.

        Raises:
            MXNetError: the results do not fit in the device's memory, or a forked child has no NumPy form.
            Later: it must be compiled, and the function is `patient`.
        """
        if forked():
            call = self._calls[signature] = self.interpreter.in_fork(args, self, signature) or unknown()
            return call
        starts()
        budget.several = jax.default_backend() != "cpu" or jax.local_device_count("cpu") > 1
        target = self._target(args if budget.several else ())
        call = None if target is None else self._interpreted(signature, args, target)
        if call is not None:
            budget.note(seldom=True)
            return call
        budget.note()
        args = on_devices(args)
        if self._patient and (target is None or compiles_at_once()) and as_elsewhere() and may_wait():
            self._calls[signature] = functools.partial(self._first, signature)
            raise Later
        return self._compiled(signature, args)

    def begin(self, args: Sequence[Any]) -> Var:
        """Starts to compile the program for these arguments, or their shapes and dtypes, in another thread.

        Returns:
            The engine's variable, which becomes available when the program is compiled.

        Raises:
            MXNetError: the results do not fit in the device's memory.
        """
        def lower() -> tuple[Compilation, Callable[[], object]]:
            compilation = self._compilation(args)
            return compilation._replace(ahead=None), (compilation.ahead or _nothing)()  # it refers to the arguments
        return self.ahead.begin(args, self._name(), lower)

    def soon(self, args: Sequence[Any]) -> None:
        """Starts to compile the program that replaces the interpreter, if another thread can do so."""
        if may_wait():
            with contextlib.suppress(Exception):  # the call that needs the program raises it
                self.begin(on_devices(tuple(args)))

    def _first(self, signature: tuple, *args: Any) -> Any:
        return self._compiled(signature, args)(*args)

    def _interpreted(self, signature: tuple, args: Sequence[Any], target: str) -> HostCall | None:
        """Returns the interpreter's executable for the first calls of a signature."""
        call = self.interpreter.executable(args, target, self, signature)
        if call is not None:
            self._calls[signature] = call
        return call

    def by_xla(self, signature: tuple) -> Callable:
        """Ends the interpreter's calls of a signature; returns the function that XLA computes."""
        if forked():
            unknown()
        then = self._calls[signature] = functools.partial(self._first, signature)
        return then

    def _compiled(self, signature: tuple, args: Sequence[Any]) -> Callable:
        """Returns XLA's executable for a signature, which later calls use."""
        budget.compiled = True
        compilation = self.ahead.take(args) or self._compilation(args)
        if not compilation.kept:
            return compilation.call
        if compilation.operations <= _QUICK:
            self._keep(signature, compilation.call, compilation.size)
            return compilation.call

        def first(*args: object) -> Any:
            with telling("mxjax.kernel", "XLA compiles a program of %d operations%s, which has not been called with "
                         "these shapes before; further calls will not wait", compilation.operations, self._name(),
                         doing="compiling"):
                result = compilation.call(*args)
            self._keep(signature, compilation.call, compilation.size)
            if compilation.long:
                give_back()  # returns the memory of the compilation to the system
            return result
        self._calls[signature] = first
        return first

    def _compilation(self, args: Sequence[Any]) -> Compilation:
        target = self._target(args)
        small = target is not None and elements(args) <= self.xla.limit
        return self.xla.executable(self.xla.form(target, None).trace(*args), args, target, small)

    def _name(self) -> str:
        """Returns the operator's name in parentheses; empty for functions without a name for users."""
        name = getattr(self.xla.function, "__name__", "_")
        return f" ({name})" if name.isidentifier() and not name.startswith("_") else ""

    def _keep(self, signature: tuple, call: Callable, size: int) -> None:
        """Stores the executable for later calls of this signature."""
        self._calls[signature] = call
        self.program_bytes += size
        budget.note(size)

    def __del__(self) -> None:
        if budget is not None:  # the interpreter is shutting down
            budget.program_bytes -= self.program_bytes


class Reordered(Compiled):
    """A function whose results reuse the memory of arguments. JAX assigns each argument's memory to
    the first matching result without memory. In another order, results would overwrite values that
    other results still depend on, and XLA would first copy all of them.

    Args:
        function: a pure function of arrays that returns a tuple.
        order: order of the results by the arguments that they replace.
        options: further arguments of `Compiled`.
    """

    __slots__ = ("_function", "_order", "_restored")

    def __init__(self, function: Callable, order: Sequence[int], **options: Any) -> None:
        @functools.wraps(function)
        def ordered(*args: object) -> tuple:
            return operator.itemgetter(*order)(function(*args))
        own = options.get("by_numpy")
        super().__init__(ordered, **{**options, "by_numpy": own and functools.partial(_in_order, own, order)})
        self._arguments["by_numpy"] = own
        self._function, self._order = function, order
        self._restored = operator.itemgetter(*[order.index(i) for i in range(len(order))])

    def __call__(self, *args: object) -> tuple:
        return self._restored(super().__call__(*args))

    def anywhere(self, args: Sequence[Any]) -> tuple:
        return self._restored(super().anywhere(args))

    def deliver(self, delivered: list[Any], args: Sequence[Any], host: bool = False) -> None:
        super().deliver(_Through(self._restored, delivered), args, host)

    def __reduce__(self) -> tuple:
        return functools.partial(Reordered, order=self._order, **self._arguments), (self._function,)


def _in_order(by_numpy: ByNumpy, order: Sequence[int], args: Sequence[Any]) -> Any:
    """Returns the NumPy form of a function with its results in another order."""
    result = by_numpy(args)
    if result is None:
        return None
    function, cost = result
    return (lambda *arrays: operator.itemgetter(*order)(function(*arrays))), cost


class _Through(list):
    """A list that passes its elements through a function to another list, within one C call."""

    def __init__(self, function: Callable[[Any], Any], delivered: list[Any]) -> None:
        super().__init__()
        self._function, self._delivered = function, delivered

    def append(self, one: object) -> None:
        self.extend((one,))

    def extend(self, several: Iterable[Any]) -> None:
        self._delivered.extend(map(self._function, several))


def _nothing() -> Callable[[], object]:
    """Replaces the compilation of a program that cannot be compiled ahead."""
    return lambda: None


budget = ProgramBudget()
when_forked(budget.begin_in_child)


def clear_caches() -> None:
    """Clears all caches of compiled programs and prepared calls; later calls prepare and compile again.

    Use it in processes whose code keeps changing, and for measurements. Arrays, graphs and recorded
    calls are kept.
    """
    clear_all()
    budget.clear()


_spoken = level.current()


def _speak(api: int) -> None:
    """Clears caches that depend on the rules of the other API level."""
    global _spoken
    if api != _spoken:
        _spoken = api
        clear_caches()


level.follow(_speak)
