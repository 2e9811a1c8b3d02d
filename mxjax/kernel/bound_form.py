"""The NumPy form of an operator with its parameters, as the kernels of the operator and of its gradients use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..interpret.cost import Cost, cost_of_work
from ..interpret.direct import Form, form_of

__all__ = ["BoundForm", "bound"]


class BoundForm:
    """A form whose parameters are known, but for those that are arguments.

    Args:
        form: the operator by NumPy.
        static: the parameters that are no arguments.
        dynamic, packed: those that are, as in `Kernel`.
        spread: function(arrays) -> the same with None where an optional one is absent.
        count: the number of arrays.
        gradients: for the kernel of gradients, which arrays' are wanted, and which outputs' there are.
    """

    def __init__(self, form: Form, static: dict[str, Any], dynamic: tuple[str, ...],
                 packed: tuple[tuple[str, int], ...], spread: Callable[[Sequence[Any]], Sequence[Any]], count: int,
                 gradients: tuple[tuple[bool, ...], tuple[bool, ...]] | None = None) -> None:
        self._form, self._static, self._dynamic, self._packed = form, static, dynamic, packed
        self._spread, self._count, self._gradients = spread, count, gradients

    def of_gradients(self, wanted: tuple[bool, ...], heads: tuple[bool, ...]) -> BoundForm | None:
        """Returns the form of the gradients; None where there is none."""
        if self._form.backward is None or self._spread(range(self._count)) is not None and \
                None in self._spread(range(self._count)):
            return None
        return BoundForm(self._form, self._static, self._dynamic, self._packed, self._spread, self._count,
                         (wanted[:self._count], heads))

    def reads(self, wanted: Sequence[bool]) -> Sequence[bool] | None:
        """Returns which arrays the gradients are computed from; None where the form does not tell."""
        if self._form.backward is None or self._form.reads is None:
            return None
        return self._form.reads(self._static, wanted[:self._count])

    def __call__(self, args: Sequence[Any]) -> tuple[Callable[..., Any], Cost] | None:
        """Returns the function of NumPy arrays and its cost; None where the form is not for these arguments."""
        arrays = self._spread(args[:self._count])
        if not self._form.accepts(arrays):
            return None
        work = self._form.effort(self._parameters(args), arrays)
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

    def _forward(self, *args: Any) -> tuple:
        result = self._form.forward(self._parameters(args), *self._spread(args[:self._count]))
        return result if isinstance(result, tuple) else (result,)

    def _backward(self, *args: Any) -> tuple:
        wanted, present = self._gradients
        own = args[:len(args) - sum(present)]
        given = iter(args[len(own):])
        heads = [next(given) if there else None for there in present]
        arrays = self._spread(args[:self._count])
        grads = self._form.backward(self._parameters(own), heads, wanted, *arrays)
        return tuple([g if g.dtype == a.dtype else g.astype(a.dtype)
                      for g, a, w in zip(grads, args, wanted, strict=False) if w])


def bound(name: str, static: dict[str, Any], dynamic: tuple[str, ...], packed: tuple[tuple[str, int], ...],
          spread: Callable[[Sequence[Any]], Sequence[Any]], count: int) -> BoundForm | None:
    """Returns the form of an operator's kernel; None where the operator has none."""
    form = form_of(name)
    return None if form is None else BoundForm(form, static, dynamic, packed, spread, count)
