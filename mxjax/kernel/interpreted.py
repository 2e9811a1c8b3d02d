"""The backend without a compiler: NumPy computes a program's first calls, and all calls whose sizes keep changing."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from .._xla.tracing import settings
from ..interpret.calls import Interpreted, TooMuch, as_buffers, meter
from ..interpret.cost import Cost
from .policy import LEAST_CALLS, compiles_at_once, quota_of
from .promise import HostValue
from .shape_only import ShapeOnly
from .symbolic_shapes import TREES, SymbolicTraces

__all__ = ["ByNumpy", "HostCall", "InterpreterBackend"]

_MUCH = 1e6  # estimated microseconds above which a forked child warns that it is slow
_warned = False
_AS_THEY_ARE = contextlib.nullcontext()

# function(arguments) -> (function of NumPy arrays, its cost), or None: a function's own form for NumPy
ByNumpy = Callable[[Sequence[Any]], "tuple[Callable[..., Any], Cost] | None"]




def _spec(leaf: Any) -> Any:
    """Returns a leaf of the arguments for a trace: the aval of an array, without its values."""
    if hasattr(leaf, "weak_type"):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray | HostValue) else leaf


class _Counter(Protocol):
    """Counts the calls of a signature (see `policy.Quota`)."""

    def __call__(self) -> bool:
        """Counts a call and returns whether NumPy computes it."""
        ...

    def ending(self) -> bool:
        """Returns whether XLA will take over soon."""
        ...


class _InChild:
    """The counter in a forked child, where NumPy computes all calls; warns if that is much work."""

    def __call__(self) -> bool:
        global _warned
        if not _warned and meter.total > _MUCH:
            _warned = True
            warnings.warn("a process that was forked after the first use of arrays computes much with NumPy, which is "
                          "slower than the compiled programs of the parent. Start such processes with spawn "
                          "(multiprocessing.get_context('spawn'), subprocess), or fork before arrays are used",
                          RuntimeWarning, stacklevel=2)
        return True

    def ending(self) -> bool:
        return False


class _Owner(Protocol):
    """The compiled function to which an executable belongs (see `compiled.Compiled`)."""

    def soon(self, args: Sequence[Any]) -> None:
        """Starts to compile the program that replaces the interpreter."""
        ...

    def by_xla(self, signature: tuple) -> Callable[..., Any]:
        """Ends the interpreter's calls of a signature; returns the function that XLA computes."""
        ...


class HostCall:
    """The executable of one signature while NumPy computes its calls.

    Args:
        interpreted: the NumPy function.
        counter: decides whether NumPy computes a call.
        owner, signature: the compiled function, and the signature.
    """

    __slots__ = ("_interpreted", "_counter", "_owner", "_signature", "_x64")

    def __init__(self, interpreted: Interpreted, counter: _Counter, owner: _Owner, signature: tuple) -> None:
        self._interpreted, self._counter, self._owner, self._signature = interpreted, counter, owner, signature
        self._x64 = settings.jax_enable_x64

    def __call__(self, *args: Any) -> Any:
        """Returns the results as buffers."""
        leaves = jax.tree.leaves(args)
        placed = [a.sharding for a in leaves if isinstance(a, jax.Array) and a.committed]
        if self._x64 == settings.jax_enable_x64 and \
                all(len(p.device_set) == 1 and p == placed[0] for p in placed):
            results = self._computed(args, leaves)
            if results is not None:
                return as_buffers(results, next(iter(placed[0].device_set)) if placed else None)
        return self._owner.by_xla(self._signature)(*args)  # JAX distributes the call, or raises an error

    def on_host(self, args: Sequence[Any]) -> list[HostValue] | None:
        """Returns the results as values of the host, for arguments of which some may be such values; None if
        XLA computes the call."""
        if self._x64 != settings.jax_enable_x64:
            return None
        leaves: list[Any] = []
        device = None
        for arg in args:
            arg_type = type(arg)
            if arg_type is HostValue:
                device = arg.device or device
                leaves.append(arg.numpy())
            elif isinstance(arg, jax.Array):
                if arg.committed:
                    devices = arg.sharding.device_set
                    if len(devices) > 1:
                        return None
                    device = next(iter(devices))
                leaves.append(np.asarray(arg))
            elif arg_type in TREES:
                return None
            elif arg_type is not ShapeOnly:
                leaves.append(arg)
        results = self._computed(args, leaves)
        if results is None:
            self._owner.by_xla(self._signature)
            return None
        return [HostValue.of(result, device) for result in results]

    def _computed(self, args: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """Returns NumPy's results, or None if XLA must compute the call."""
        counter = self._counter
        if not counter():
            return None
        if counter.ending():
            self._owner.soon(args)
        try:
            return self._interpreted(leaves)
        except (TooMuch, MemoryError):  # XLA reports the missing memory
            return None


class _WithoutTrace(Interpreted):
    """A form of the function that needs no trace, combined with one by a trace for calls that it does not support."""

    __slots__ = ("_backend", "_types", "_target", "_traced")
    cost: Cost

    def __init__(self, form: Callable[..., Any], cost: Cost, backend: InterpreterBackend, types: tuple,
                 target: str) -> None:
        super().__init__(form, None, cost)
        self._backend, self._types, self._target = backend, types, target
        self._traced: Interpreted | None = None

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Returns the results as NumPy arrays; None for unsupported numbers."""
        meter.note(self.cost)
        try:
            with self.scope(), _AS_THEY_ARE if meter.inside else np.errstate(all="ignore"):
                arrays: list[Any] = [np.asarray(v) if isinstance(v, jax.Array) else v for v in leaves]
                return self.function(*arrays)
        except Exception:  # may also be a user error, which the operator's formula reports
            return self._by_trace(leaves)

    def _by_trace(self, leaves: Sequence[Any]) -> Any:
        traced = self._traced
        if traced is None:
            specs = [jax.tree.map(_spec, each) if type(each) is tuple else _spec(each) for each in self._types]
            traced = self._traced = self._backend.traced(specs, self._target) or _NONE
        return traced(leaves) if traced is not _NONE and (traced.calls or 0) >= LEAST_CALLS else None


_NONE = Interpreted(lambda leaves: None, None, None)  # marks the absence of a trace


class InterpreterBackend:
    """Computes a function with NumPy for some of its signatures.

    Args:
        function: a pure function of arrays.
        by_numpy: its NumPy form, which needs no trace.
        any_size: the function does not depend on particular sizes, except 0 and 1 (see
            `SymbolicTraces`).
        parts: the function only calls kernels (`Kernel.within`), so it also works on NumPy arrays.
        begins: whether NumPy may compute first calls.
        trains: it is only called in training.
    """

    __slots__ = ("sizes", "_function", "_by_numpy", "_parts", "_begins", "_trains")

    def __init__(self, function: Callable, by_numpy: ByNumpy | None, any_size: bool, parts: bool, begins: bool,
                 trains: bool) -> None:
        self.sizes = SymbolicTraces(function, any_size)
        self._function, self._by_numpy, self._parts = function, by_numpy, parts
        self._begins, self._trains = begins, trains

    def executable(self, args: Sequence[Any], target: str, owner: _Owner, signature: tuple) -> HostCall | None:
        """Returns the executable for the first calls of a signature; None if XLA computes all of them.

        Args:
            args: arguments of the signature.
            target: kind of device for which the function is traced.
            owner, signature: as in `HostCall`.
        """
        if not self._begins or compiles_at_once():
            return None
        varied = self.sizes.note(args)
        interpreted = self.interpreted(args, target)
        if interpreted is None:
            return None
        quota = quota_of(interpreted, self._trains, varied)
        return None if quota is None else HostCall(interpreted, quota, owner, signature)

    def in_fork(self, args: Sequence[Any], owner: _Owner, signature: tuple) -> HostCall | None:
        """Returns the executable for all calls of a signature in a forked child; None if there is no NumPy form."""
        interpreted = self.interpreted(args, "cpu")
        return None if interpreted is None else HostCall(interpreted, _InChild(), owner, signature)

    def interpreted(self, args: Sequence[Any], target: str) -> Interpreted | None:
        """Returns the NumPy function for arguments of one signature; None if there is none."""
        if self._parts:
            return Interpreted(self._by_parts(jax.tree.structure(args)), None, None)
        own = None if self._by_numpy is None else self._by_numpy(args)
        if own is None:
            return self.traced(args, target)
        form, cost = own
        for arg in args:
            if type(arg) is ShapeOnly or type(arg) is tuple:
                form = _filled(form, args)
                break
        # not the arrays, which would stay
        types = tuple([getattr(a, "aval", a) if not isinstance(a, np.ndarray) else _spec(a) for a in args])
        return _WithoutTrace(form, cost, self, types, target)

    def traced(self, args: Sequence[Any], target: str) -> Interpreted | None:
        """Returns the NumPy function by a trace, for arguments or their types; None if there is none."""
        if HostValue in map(type, args):  # a symbolic trace is compared with this one on their numbers
            args = [arg.numpy() if type(arg) is HostValue else arg for arg in args]
        return self.sizes.find(args) or self.sizes.trace(args, target)

    def _by_parts(self, tree: object) -> Callable[[Sequence[Any]], Any]:
        def function(leaves: Sequence[Any]) -> Any:
            args = jax.tree.unflatten(tree, [np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
                                             for leaf in leaves])
            with meter.program():
                return self._function(*args)
        return function


def _filled(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """Returns a function of the leaves of such arguments, with zeros for those that are `ShapeOnly`."""
    absent = [np.broadcast_to(np.zeros((), a.dtype), a.shape) if isinstance(a, ShapeOnly) else None for a in args]
    tree = jax.tree.structure(list(args)) if any([isinstance(a, tuple) for a in args]) else None

    def filled(*leaves: object) -> Any:
        values = iter(leaves) if tree is None else iter([
            a for a in jax.tree.unflatten(tree, leaves) if not isinstance(a, ShapeOnly)])
        return function(*[next(values) if a is None else a for a in absent])
    return filled
