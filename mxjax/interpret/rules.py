"""The primitives that NumPy computes: all that the library's programs have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import jax

from .._xla.process import forked, not_in_fork
from ..ops.by_device import traced_for
from .axes import AXES, MATRICES
from .calls import as_buffers
from .loops import LOOPS, while_loop
from .numbers import FUNCTIONS, NUMBERS
from .places import PLACES
from .program import Rules, by_numpy

__all__ = ["RULES", "RULES_IN_FORKS", "Eager", "unknown"]

_STEPS = 1024  # of a loop whose number of steps is not known before: each is some operations of NumPy's

RULES_IN_FORKS = Rules(FUNCTIONS, {**NUMBERS, **PLACES, **AXES, **MATRICES}, LOOPS)
# vectors of other signs would be as right as XLA's, but no last bits
_AMBIGUOUS = ("eig", "eigh", "qr", "svd")
RULES = RULES_IN_FORKS._replace(
    forms={name: form for name, form in RULES_IN_FORKS.forms.items() if name not in _AMBIGUOUS},
    programs={**LOOPS, "while": functools.partial(while_loop, most=_STEPS)})


class Eager:
    """A function of arrays that is never compiled: what it does depends on their values.

    Args:
        function: the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        if not forked():
            return self.function(*args)
        try:
            with traced_for("cpu"):
                closed, shapes = jax.make_jaxpr(lambda: self.function(*args), return_shape=True)()
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):  # of what it has made
            unknown()
        found = by_numpy(closed, rules=RULES_IN_FORKS)
        values = unknown() if found is None else found([])
        if values is None:
            unknown()
        return as_buffers(jax.tree.unflatten(jax.tree.structure(shapes), values))


def unknown(*_: Any) -> NoReturn:
    """Says that NumPy has no form of a program."""
    raise not_in_fork("it cannot be computed")
