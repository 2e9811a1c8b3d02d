"""Programs executed by NumPy, as functions of buffers and as parts of larger programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from .._xla.devices import JaxDevice
from .._xla.tracing import EVALUATES, find_top_trace
from .._xla.transfer import to_device
from .._xla.x64 import needs_x64, x64_mode
from .blas import single_thread
from .cost import Cost
from .loops import iterations
from .program import ByLeaves

__all__ = ["Interpreted", "TooMuch", "as_buffers", "interpreting", "meter"]

_LONG = 2000.0  # microseconds of a call's products from which on several threads are faster
_PATIENCE = 1e6  # microseconds by which a program of many calls may exceed its compilation


class TooMuch(Exception):
    """A program takes so long with NumPy that it should be compiled immediately."""


class Meter(threading.local):
    """The estimated NumPy work of a thread, in microseconds.

    inside: whether a program of several kernels is being computed; cost: work of the calls, by their shapes alone;
    loops: work of loops of unknown length beyond it; worth: work to compile their programs; single: whether
    products use a single thread until the program ends.
    """

    inside = single = False
    cost = loops = worth = 0.0
    most = float("inf")

    def note(self, cost: Cost) -> None:
        """Counts a call.

        Raises:
            TooMuch: the surrounding program takes too long.
        """
        self.cost += cost.call
        self.worth += cost.within
        if self.total > self.most + self.worth:
            raise TooMuch

    @property
    def total(self) -> float:
        """Returns the work of the calls."""
        return self.cost + self.loops

    def clear(self) -> None:
        """Starts to count anew."""
        self.cost = self.loops = self.worth = 0.0

    @contextlib.contextmanager
    def program(self) -> Iterator[None]:
        """A block whose calls form a program of several kernels."""
        if self.inside:
            yield
            return
        most = self.most
        self.inside, self.most = True, self.total - self.worth + _PATIENCE
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self.inside, self.most = False, most
            self.use(False)

    def use(self, single: bool) -> None:
        """Makes the products of a program use a single thread, or all."""
        if single != self.single:
            self.single = single
            single_thread.__enter__() if single else single_thread.__exit__(None, None, None)


meter = Meter()
_AS_THEY_ARE = contextlib.nullcontext()


def interpreting() -> bool:
    """Returns whether the thread computes a program with NumPy, so that values are NumPy arrays."""
    return meter.inside and find_top_trace(None) is EVALUATES


class Interpreted:
    """A NumPy function for arguments of one signature.

    Args:
        function: function(leaves of the arguments) -> the leaves of the results, or None for unsupported numbers.
        tree: the structure of the results; None: the results are returned unchanged.
        cost: cost of a call; None: its parts are counted separately.

    Attributes:
        calls: number of calls that take as long as compilation; None: known after the first one.
        after_loops: the same after a call has shown how long its loops of unknown length are. A
            resumed training does not know it, so trainings must not depend on it.
    """

    __slots__ = ("function", "tree", "cost", "calls", "after_loops")

    def __init__(self, function: ByLeaves, tree: Any, cost: Cost | None) -> None:
        self.function, self.tree, self.cost = function, tree, cost
        self.calls = None if cost is None else cost.calls
        self.after_loops: int | None = None

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Returns the results as NumPy arrays; None for unsupported numbers."""
        if self.cost is None:
            cost, worth = meter.total, meter.worth
            results = self.function(leaves)
            self.calls = int((meter.worth - worth) / max(meter.total - cost, 1.0))
            return results
        cost, before = self.cost, iterations.count
        meter.note(cost)
        with self.scope():
            results = self.function(leaves)
        if cost.iterations:
            actual = cost.after(iterations.count - before)
            self.after_loops = actual.calls
            meter.loops += actual.call - cost.call
        return results if results is None or self.tree is None else jax.tree.unflatten(self.tree, results)

    def scope(self) -> AbstractContextManager[None]:
        """Returns a scope with the number of threads for the products of a call.

        A program sets it when it changes, which takes less time.
        """
        products = self.cost.products if self.cost is not None else 0
        if not products:
            return _AS_THEY_ARE
        if meter.inside:
            meter.use(products < _LONG)
            return _AS_THEY_ARE
        return single_thread if products < _LONG else _AS_THEY_ARE


def as_buffers(results: Any, device: JaxDevice | None = None) -> Any:
    """Returns a structure of NumPy arrays as buffers; other values are unchanged."""
    leaves, tree = jax.tree.flatten(results)
    seen: set[int] = set()
    for place, leaf in enumerate(leaves):
        if id(leaf) in seen and isinstance(leaf, np.ndarray):
            leaves[place] = leaf.copy()  # one of the two may be donated to a program
        seen.add(id(leaf))
    if any(map(needs_x64, leaves)):
        with x64_mode(True):  # otherwise it converts 64-bit integers to 32 bits
            return jax.tree.unflatten(tree, [_buffer(r, device) for r in leaves])
    return jax.tree.unflatten(tree, [_buffer(r, device) for r in leaves])


def _buffer(value: object, device: JaxDevice | None) -> Any:
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if type(value) is not np.ndarray or value.base is not None or not value.flags.c_contiguous:
        value = np.array(value, order="C")  # no views, because JAX takes over their memory
    return to_device(value, device)
