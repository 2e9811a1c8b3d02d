"""NumPy forms of kernels: of operators with fixed parameters, of their gradients, and of other kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..interpret.cost import Cost, cost_of_work
from ..interpret.direct import Form, Work, form_of
from ..interpret.program import Unknown

__all__ = ["BoundForm", "FunctionForm", "bound"]

_FREE = Cost(5.0, 30_000.0)


class BoundForm:
    """A NumPy form with fixed parameters, except dynamic ones.

    Args:
        form: the operator's NumPy form.
        static: the fixed parameters.
        dynamic, packed: the parameters that are arguments, as in `Kernel`.
        spread: function that inserts None for absent optional arrays.
        count: the number of arrays.
        gradients: for a gradient kernel, the arrays whose gradients are requested and the outputs
            that have head gradients.
    """

    def __init__(self, form: Form, static: dict[str, Any], dynamic: tuple[str, ...],
                 packed: tuple[tuple[str, int], ...], spread: Callable[[Sequence[Any]], Sequence[Any]], count: int,
                 gradients: tuple[tuple[bool, ...], tuple[bool, ...]] | None = None) -> None:
        self._form, self._static, self._dynamic, self._packed = form, static, dynamic, packed
        self._spread, self._count, self._gradients = spread, count, gradients

    def of_gradients(self, needs_grad: tuple[bool, ...], has_grad: tuple[bool, ...]) -> BoundForm | None:
        """Returns the form of the gradients; None if there is none."""
        if self._form.backward is None or self._spread(range(self._count)) is not None and \
                None in self._spread(range(self._count)):
            return None
        return BoundForm(self._form, self._static, self._dynamic, self._packed, self._spread, self._count,
                         (needs_grad[:self._count], has_grad))

    def reads(self, needs_grad: Sequence[bool]) -> Sequence[bool] | None:
        """Returns the arrays that the gradients depend on; None if there is no form."""
        if self._form.backward is None:
            return None
        needs_grad = needs_grad[:self._count]
        if self._form.reads is None:
            return [True] * len(needs_grad)
        try:
            return self._form.reads(self._static, needs_grad)
        except KeyError:  # it depends on a dynamic parameter
            return None

    def __call__(self, args: Sequence[Any]) -> tuple[Callable[..., Any], Cost] | None:
        """Returns the function of NumPy arrays and its cost; None if the form does not support these arguments."""
        arrays = self._spread(args[:self._count])
        if not self._form.accepts(arrays):
            return None
        try:
            work = self._form.effort(self._parameters(args), arrays)
        except Unknown:
            return None
        if self._gradients is None:
            return self._forward, cost_of_work(work)
        return self._backward, cost_of_work(work, 3.0)

    def _parameters(self, args: Sequence[Any]) -> dict[str, Any]:
        params = dict(self._static)
        rest = args[self._count:]
        if self._packed:
            numbers, rest = iter(rest[0].tolist()), rest[1:]
            for name, length in self._packed:
                params[name] = tuple([next(numbers) for _ in range(length)]) if length else next(numbers)
        params.update(zip(self._dynamic, rest, strict=False))
        if len(rest) > len(self._dynamic):
            params["_key"] = rest[len(self._dynamic):]
        return params

    def _forward(self, *args: object) -> tuple:
        result = self._form.forward(self._parameters(args), *self._spread(args[:self._count]))
        return tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)

    def _backward(self, *args: Any) -> tuple:
        backward: Any = self._form.backward
        needs_grad, present = self._gradients or ((), ())
        own = args[:len(args) - sum(present)]
        head_values = iter(args[len(own):])
        out_grads = [next(head_values) if there else None for there in present]
        arrays = self._spread(args[:self._count])
        grads = backward(self._parameters(own), out_grads, needs_grad, *arrays)
        return tuple([np.asarray(g, a.dtype) for g, a, w in zip(grads, args, needs_grad, strict=False) if w])


def bound(name: str, static: dict[str, Any], dynamic: tuple[str, ...], packed: tuple[tuple[str, int], ...],
          spread: Callable[[Sequence[Any]], Sequence[Any]], count: int) -> BoundForm | None:
    """Returns the form of an operator's kernel; None if the operator has none."""
    form = form_of(name)
    return None if form is None else BoundForm(form, static, dynamic, packed, spread, count)


class FunctionForm:
    """The form of a kernel that is not an operator.

    Args:
        function: function of the arguments that returns the only result.
        back: function(gradient of the result, shape of the first argument, *other arguments) that
            returns the gradient of the first argument, in which the result is linear. None: there
            is no such form.
        copies: whether the result is new; otherwise it is a view of an argument, which takes no
            time.
    """

    def __init__(self, function: Callable[..., Any], back: Callable[..., Any] | None = None,
                 copies: bool = False) -> None:
        self._function, self._back, self._copies = function, back, copies

    def of_gradients(self, needs_grad: tuple[bool, ...], has_grad: tuple[bool, ...]) -> FunctionForm | None:
        """Returns the form of the gradients; None if there is none."""
        back = self._back
        if back is None or has_grad != (True,) or not needs_grad[0] or any(needs_grad[1:]):
            return None
        return FunctionForm(lambda first, *others: back(others[-1], first.shape, *others[:-1]), copies=True)

    def reads(self, needs_grad: Sequence[bool]) -> Sequence[bool] | None:
        """Returns the arguments that the gradients depend on; None if the form does not know."""
        return None if self._back is None or any(needs_grad[1:]) else [False, *[True] * (len(needs_grad) - 1)]

    def __call__(self, args: Sequence[Any]) -> tuple[Callable[..., Any], Cost] | None:
        """Returns the function of NumPy arrays and its cost."""
        sizes = [math.prod(a.shape) for a in args if hasattr(a, "shape")]
        return (lambda *arrays: (self._function(*arrays),)), \
            cost_of_work(Work(2.0 * sum(sizes))) if self._copies else _FREE
