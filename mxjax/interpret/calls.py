"""Programs that NumPy computes, as functions of buffers, and as parts of larger programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from .._xla.devices import JaxDevice
from .._xla.tracing import EVALUATES, find_top_trace, settings
from .._xla.transfer import to_device
from .blas import single_thread
from .cost import Cost
from .program import ByLeaves

__all__ = ["Interpreted", "TooMuch", "as_buffers", "interpreting", "meter", "of_buffers"]

_DOUBLE = 8  # bytes of a number beyond which JAX needs its 64-bit mode
_LONG = 2000.0  # microseconds of a call's products, from which on several threads are worth waiting for
_PATIENCE = 1e6  # microseconds that a program of many calls may take beyond what compiling it would


class TooMuch(Exception):
    """A program takes NumPy so long that it is better compiled at once."""


class Meter(threading.local):
    """The estimated work of what a thread has computed by NumPy, in microseconds.

    inside: whether a program of several kernels is being computed; cost: of the calls; worth: of compiling their
    programs.
    """

    inside = False
    cost = worth = 0.0
    most = float("inf")

    def note(self, cost: Cost) -> None:
        """Counts a call.

        Raises:
            TooMuch: the program that it is part of takes too long.
        """
        self.cost += cost.call
        self.worth += cost.within
        if self.cost > self.most + self.worth:
            raise TooMuch

    @contextlib.contextmanager
    def program(self) -> Iterator[None]:
        """A block that computes a program of several kernels, which its calls are parts of."""
        before = self.inside, self.most
        if not self.inside:
            self.inside, self.most = True, self.cost - self.worth + _PATIENCE
        try:
            yield
        finally:
            self.inside, self.most = before


meter = Meter()


def interpreting() -> bool:
    """Returns whether NumPy computes the program that the thread is in, whose values are NumPy arrays."""
    return meter.inside and find_top_trace(None) is EVALUATES


class Interpreted:
    """A function as NumPy computes it for arguments of one signature.

    Args:
        function: function(leaves of the arguments) -> the leaves of the results, or None for numbers that it refuses.
        tree: the structure of the results; None: the function's results are what it gives.
        cost: of a call; None: its parts count for themselves.

    Attributes:
        calls: how many calls take as long as compiling; None: that is known after the first one.
    """

    __slots__ = ("function", "tree", "cost", "calls")

    def __init__(self, function: ByLeaves, tree: Any, cost: Cost | None) -> None:
        self.function, self.tree, self.cost = function, tree, cost
        self.calls = None if cost is None else cost.calls

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Returns the results as NumPy arrays; None for numbers that it refuses."""
        if self.cost is None:
            cost, worth = meter.cost, meter.worth
            results = self.function(leaves)
            self.calls = int((meter.worth - worth) / max(meter.cost - cost, 1.0))
            return results
        meter.note(self.cost)
        if 0 < self.cost.products < _LONG:
            with single_thread:
                results = self.function(leaves)
        else:
            results = self.function(leaves)
        return results if results is None or self.tree is None else jax.tree.unflatten(self.tree, results)


def of_buffers(interpreted: Interpreted, goes_on: Callable[[Sequence[Any]], bool], then: Callable[..., Any],
               last: Callable[[], None]) -> Callable[..., Any]:
    """Returns a function of buffers that NumPy computes at first.

    Args:
        interpreted: what NumPy computes.
        goes_on: function(arguments) -> whether NumPy computes this call.
        then: the function that XLA computes.
        last: called when NumPy computes no more.
    """
    wide = settings.jax_enable_x64

    def call(*args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        placed = [a.sharding for a in leaves if isinstance(a, jax.Array) and a.committed]
        plain = wide == settings.jax_enable_x64 and all(len(p.device_set) == 1 and p == placed[0] for p in placed)
        if plain and goes_on(args):  # else JAX distributes, or complains
            with contextlib.suppress(TooMuch, MemoryError):  # XLA says what there is no room for
                results = interpreted(leaves)
                if results is not None:
                    return as_buffers(results, next(iter(placed[0].device_set)) if placed else None)
        last()
        return then(*args)
    return call


def as_buffers(results: Any, device: JaxDevice | None = None) -> Any:
    """Returns a structure of NumPy arrays as buffers; what is no array stays as it is."""
    leaves, tree = jax.tree.flatten(results)
    seen: set[int] = set()
    for place, leaf in enumerate(leaves):
        if id(leaf) in seen and isinstance(leaf, np.ndarray):
            leaves[place] = leaf.copy()  # a program may be given one of the two to write over
        seen.add(id(leaf))
    if any([isinstance(r, np.ndarray | np.generic) and r.itemsize >= _DOUBLE for r in leaves]):
        with jax.enable_x64(True):  # or it makes integers of 64 bits narrow
            return jax.tree.unflatten(tree, [_buffer(r, device) for r in leaves])
    return jax.tree.unflatten(tree, [_buffer(r, device) for r in leaves])


def _buffer(value: object, device: JaxDevice | None) -> Any:
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if type(value) is not np.ndarray or value.base is not None or not value.flags.c_contiguous:
        value = np.array(value, order="C")  # no views: JAX takes their memory over
    return to_device(value, device)
