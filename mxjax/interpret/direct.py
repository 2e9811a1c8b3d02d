"""NumPy forms of operators, forward and backward, which need no trace: for first calls of common operators.

Tracing an operator takes some milliseconds, and its gradients more; most of these functions take microseconds. Their
results equal those of the operators' formulas except for the last bits (`tests/interpret/test_forms_of_*.py` compare
all of them).
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .program import Array, Unknown, need

__all__ = ["Form", "Work", "form_of", "need", "numpy_form", "to_dtype"]

_FLOATS = frozenset(map(np.dtype, ("f4", "f8")))


class Work(NamedTuple):
    """The work of a call: elements read or written, and multiplications in matrix products.

    operations: number of operations that XLA would compile.
    """

    elements: float
    products: float = 0.0
    operations: float = 3.0


def _all(p: dict[str, Any], needs_grad: Sequence[bool]) -> Sequence[bool]:
    return [True] * len(needs_grad)


class Form(NamedTuple):
    """The NumPy form of an operator.

    Attributes:
        forward: function(parameters, *arrays) -> the output, or a tuple of outputs and new values of changed inputs. An
            optional array that is absent is None. The parameters include `_train` if the operator depends on the mode,
            and `_key` if it draws: (numbers drawn on the host,), or JAX's key and a counter.
        backward: function(parameters, out_grads, needs_grad, *arrays) -> for each array its gradient, or None.
            `out_grads` are the gradients of the outputs (None: zero), and `needs_grad` tells which gradients are
            requested. None: the gradients have no NumPy form.
        reads: function(parameters, needs_grad) -> for each array whether `backward` reads its values; by default all.
            Arrays that it does not read are zeros of their shape. None: derived from the operator's formula.
        work: function(parameters, *shapes of the arrays) -> `Work` of a forward call; by default one pass over the
            inputs.
        mixed: the arrays may have any dtypes.
        dtypes: otherwise, they have the same dtype, one of these.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Sequence[Any]] | None = None
    reads: Callable[[dict[str, Any], Sequence[bool]], Sequence[bool]] | None = _all
    work: Callable[..., Work] | None = None
    mixed: bool = False
    dtypes: frozenset[np.dtype] = _FLOATS

    def accepts(self, arrays: Sequence[Any]) -> bool:
        """Returns whether the form supports the dtypes of the arrays."""
        if self.mixed:
            return True
        dtypes = {a.dtype for a in arrays if a is not None}
        return len(dtypes) == 1 and dtypes <= self.dtypes

    def effort(self, params: dict[str, Any], arrays: Sequence[Any]) -> Work:
        """Returns the work of a forward call.

        Raises:
            Unknown: the function `work` does not fit the shapes, which the operator refuses too: its formula says why.
        """
        shapes = [None if a is None else a.shape for a in arrays]
        if self.work is not None:
            try:
                return self.work(params, *shapes)
            except (IndexError, TypeError, ValueError) as error:
                raise Unknown from error
        return Work(2.0 * sum([math.prod(shape) for shape in shapes if shape is not None]))


forms: dict[str, Form] = {}
_FAMILIES = ("elementwise", "arithmetic", "activations", "products", "convolutions", "pooling", "normalization",
             "losses", "ctc", "boxes", "multibox", "images", "reductions", "shapes", "indexing", "creation",
             "recurrent", "updates")


def numpy_form(*names: str, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the NumPy form of operators; `fields`: fields of `Form` except `forward`.

    Example:
        >>> @numpy_form("square", backward=lambda p, out_grads, needs_grad, x: [2 * x * out_grads[0]])
        ... def square(p, x):
        ...     return x * x
    """
    def register(forward: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in forms:
                raise ValueError(f"operator {name} has a NumPy form already")
            forms[name] = Form(forward, **fields)
        return forward
    return register


@functools.cache
def form_of(name: str) -> Form | None:
    """Returns the NumPy form of an operator; None if it has none."""
    _load()
    return forms.get(name)


@functools.cache
def _load() -> None:
    for family in _FAMILIES:
        importlib.import_module(f"{__package__}.operators.{family}")


def to_dtype(value: Array | float, dtype: np.dtype) -> Any:
    """Converts an array or a number to an array of a dtype.

    Raises:
        Unknown: a float or a Python number is outside the range of the integer dtype.
    """
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and (array.dtype.kind not in "iub" or isinstance(value, int)):
        limits = np.iinfo(dtype)
        need(((array > float(limits.min) - 1) & (array < float(limits.max) + 1)).all())
    return array.astype(dtype)
