"""The primitives that NumPy supports: all that the library's programs use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from .._xla.process import forked, not_in_fork
from .._xla.tracing import EVALUATES, find_top_trace
from ..ops.by_device import traced_for
from .axes import AXES, MATRICES
from .calls import as_buffers
from .loops import LOOPS, while_loop
from .numbers import FUNCTIONS, NUMBERS
from .places import PLACES
from .program import Rules, by_numpy

__all__ = ["RULES", "RULES_IN_FORKS", "Eager", "unknown"]

_STEPS = 1024  # of a loop with an unknown number of steps, each of which is several NumPy operations

RULES_IN_FORKS = Rules(FUNCTIONS, {**NUMBERS, **PLACES, **AXES, **MATRICES}, LOOPS)
# vectors with other signs are equally correct, but differ from XLA's in more than the last bits
_AMBIGUOUS = ("eig", "eigh", "qr", "svd")
RULES = RULES_IN_FORKS._replace(
    forms={name: form for name, form in RULES_IN_FORKS.forms.items() if name not in _AMBIGUOUS},
    programs={**LOOPS, "while": functools.partial(while_loop, most=_STEPS)})


class Eager:
    """A function of arrays that is never compiled, because it depends on their values.

    Args:
        function: the function; its results may be NumPy arrays.
        by_numpy: function(arguments) -> (its NumPy form, the cost), or None. On CPUs it computes all calls, because
            their results keep changing sizes.
    """

    def __init__(self, function: Callable[..., Any], by_numpy: Callable[[Any], Any] | None = None) -> None:
        self.function, self._by_numpy = function, by_numpy

    def __call__(self, *args: Any) -> Any:
        if self._by_numpy is not None and find_top_trace(None) is EVALUATES and all(map(_is_of_cpu, args)):
            own = self._by_numpy(args)
            with contextlib.suppress(Exception):  # the function reports the error
                if own is not None:
                    return as_buffers(own[0](*map(np.asarray, args)), _device(args))
        if not forked():
            results = self.function(*args)
            return as_buffers(results, _device(args)) if find_top_trace(None) is EVALUATES else results
        try:
            with traced_for("cpu"):
                closed, shapes = jax.make_jaxpr(lambda: self.function(*args), return_shape=True)()
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):  # of its own values
            unknown()
        result = by_numpy(closed, rules=RULES_IN_FORKS)
        values = unknown() if result is None else result([])
        if values is None:
            unknown()
        return as_buffers(jax.tree.unflatten(jax.tree.structure(shapes), values))

    def within(self, *args: Any) -> tuple:
        """Returns the results within a program that NumPy computes."""
        return tuple(map(np.asarray, self(*args)))


def _device(args: Sequence[Any]) -> Any:
    """Returns the device that the arguments are committed to; None if there is none, or several."""
    devices = set().union(*[a.devices() for a in args if isinstance(a, jax.Array) and a.committed])
    return devices.pop() if len(devices) == 1 else None


def _is_of_cpu(arg: object) -> bool:
    return not isinstance(arg, jax.Array) or len(arg.devices()) == 1 and next(iter(arg.devices())).platform == "cpu"


def unknown(*_: object) -> NoReturn:
    """Raises the error that NumPy has no form of a program."""
    raise not_in_fork("it cannot be computed")
