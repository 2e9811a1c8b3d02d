"""The backend without a compiler: NumPy computes a program's first calls, and all calls whose sizes keep changing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..interpret.calls import Interpreted, meter, of_buffers
from ..interpret.cost import Cost
from .policy import LEAST_CALLS, compiles_at_once, quota_of
from .shape_only import ShapeOnly
from .symbolic_shapes import SymbolicTraces

__all__ = ["ByNumpy", "InterpreterBackend"]

_MUCH = 1e6  # estimated microseconds above which a forked child warns that it is slow
_warned = False

# function(arguments) -> (function of NumPy arrays, its cost), or None: a function's own form for NumPy
ByNumpy = Callable[[Sequence[Any]], "tuple[Callable[..., Any], Cost] | None"]


def _spec(leaf: Any) -> Any:
    """Returns a leaf of the arguments for a trace: the aval of an array, without its values."""
    if hasattr(leaf, "weak_type"):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf


def _in_child(args: Sequence[Any]) -> bool:
    """Returns True, because NumPy computes all calls in a forked child; warns if that is much work."""
    global _warned
    if not _warned and meter.cost > _MUCH:
        _warned = True
        warnings.warn("a process that was forked after the first use of arrays computes much with NumPy, which is "
                      "slower than the compiled programs of the parent. Start such processes with spawn "
                      "(multiprocessing.get_context('spawn'), subprocess), or fork before arrays are used",
                      RuntimeWarning, stacklevel=2)
    return True


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

    def executable(self, args: Sequence[Any], kind: str, then: Callable[..., Any], last: Callable[[], None],
                   soon: Callable[[Sequence[Any]], Any]) -> Callable | None:
        """Returns the executable for the first calls of a signature; None if XLA computes all of them.

        Args:
            args: arguments of the signature.
            kind: kind of device for which the function is traced.
            then: the function that XLA computes.
            last: called when NumPy stops computing.
            soon: function(arguments), called when NumPy will stop soon.
        """
        if not self._begins or compiles_at_once():
            return None
        varied = self.sizes.note(args)
        interpreted = self.interpreted(args, kind)
        if interpreted is None:
            return None
        quota = quota_of(lambda: interpreted.calls, self._trains, varied)
        if quota is None:
            return None

        def goes_on(args: Sequence[Any]) -> bool:
            counted = quota()
            if counted and quota.ending():
                soon(args)
            return counted
        return of_buffers(interpreted, goes_on, then, last)

    def in_fork(self, args: Sequence[Any], refuse: Callable[..., Any]) -> Callable | None:
        """Returns the executable for all calls of a signature in a forked child; None if there is no NumPy form."""
        interpreted = self.interpreted(args, "cpu")
        return None if interpreted is None else of_buffers(interpreted, _in_child, refuse, lambda: None)

    def interpreted(self, args: Sequence[Any], kind: str) -> Interpreted | None:
        """Returns the NumPy function for arguments of one signature; None if there is none."""
        if self._parts:
            return Interpreted(self._by_parts(jax.tree.structure(args)), None, None)
        own = None if self._by_numpy is None else self._by_numpy(args)
        if own is None:
            return self.sizes.find(args) or self.sizes.trace(args, kind)
        return self._own(*own, args, kind)

    def _by_parts(self, tree: object) -> Callable[[Sequence[Any]], Any]:
        def function(leaves: Sequence[Any]) -> Any:
            args = jax.tree.unflatten(tree, [np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
                                             for leaf in leaves])
            with meter.program():
                return self._function(*args)
        return function

    def _own(self, function: Callable[..., Any], cost: Cost, args: Sequence[Any], kind: str) -> Interpreted:
        """Returns the form of the function, combined with a form by a trace for calls that it does not support."""
        absent = [np.broadcast_to(np.zeros((), a.dtype), a.shape) if isinstance(a, ShapeOnly) else None for a in args]
        avals = [a.aval if isinstance(a, jax.Array) else jax.tree.map(_spec, a) if isinstance(a, tuple) else _spec(a)
                 for a in args]  # not the arrays, which would be kept alive
        tree = jax.tree.structure(list(args)) if any([isinstance(a, tuple) for a in args]) else None
        traced: list[Interpreted | None] = []

        def call(leaves: Sequence[Any]) -> Any:
            values = iter(leaves) if tree is None else iter([
                a for a in jax.tree.unflatten(tree, leaves) if not isinstance(a, ShapeOnly)])
            full = [next(values) if a is None else a for a in absent]
            try:
                with np.errstate(all="ignore"):
                    return function(*[np.asarray(v) if isinstance(v, jax.Array) else v for v in full])
            except Exception:  # may also be a user error, which the operator's formula reports
                if not traced:
                    specs = [_spec(a) for a in avals]
                    traced.append(self.sizes.find(specs) or self.sizes.trace(specs, kind))
                return traced[0](leaves) if traced[0] is not None and (traced[0].calls or 0) >= LEAST_CALLS else None
        return Interpreted(call, None, cost)
