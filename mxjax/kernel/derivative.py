"""Derivatives of kernel calls from the values that the forward pass kept, immediately or within a larger program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support import settings
from .._xla.process import forked
from .._xla.transfer import to_device
from .._xla.x64 import x64_mode
from ..interpret.calls import as_buffers, interpreting, meter
from .compiled import Compiled
from .kernel import Kernel, run, run_program
from .policy import Programs

__all__ = ["Derivative", "PullByNumpy", "Residuals", "derivative_of"]

Pull = Callable[[list[Any]], Sequence[Any]]  # gradients of outputs (None: zero) -> of arguments (None: not requested)


class Derivative:
    """The gradients of some arguments of a kernel's calls.

    A call of an operator keeps its arguments, from which its backward kernel (`Kernel.vjp`)
    computes the gradients. A call of a graph keeps JAX's residuals (`Residuals`); otherwise the
    graph would be computed twice.

    Args:
        kernel: the operator, or the graph.
        needs_grad: for each argument, whether its gradient is requested.

    Attributes:
        places: the arguments with gradients.
        programs: compiled backward passes that start with such a call.
    """

    def __init__(self, kernel: Kernel, needs_grad: Sequence[bool]) -> None:
        self.kernel, self.programs = kernel, Programs(64)
        self._needs_grad = tuple([w and i not in kernel.constant for i, w in enumerate(needs_grad)])
        self.places = [i for i, w in enumerate(self._needs_grad) if w]
        self._forwards: dict[bool, Compiled] = {}
        self._backward = Compiled(lambda pull, out_grads: pull(out_grads), trains=True) if kernel.symbolic else None
        self.by_parts = not kernel.symbolic or kernel.pullback is not None

    def trace(self, mirror: bool, *args: Any) -> Sequence[Any]:
        """Returns the results and, as the last one, the pullback, within a program.

        Args:
            mirror: recompute values in the backward pass instead of keeping them.
            args: values of the arguments.
        """
        if not self.kernel.symbolic:
            function = self.kernel.within if interpreting() else self.kernel.fn
            return *function(*args), self.traced_pull(args)
        if interpreting():
            results, pull = self.kernel.pullback(args, self._needs_grad, once=True)
            return *results, pull
        outputs, pull, others = self._differentiated(args, mirror)
        return *outputs, *others, self.traced_pull(pull, [(o.shape, o.dtype) for o in outputs])

    def traced_pull(self, kept: Any, outs: Sequence[tuple] = ()) -> Pull:
        """Returns the pullback within a program after the forward pass has run.

        Args:
            kept: values that the forward pass kept.
            outs: (shape, dtype) of a graph's outputs.
        """
        if not self.kernel.symbolic:
            return lambda slots: self._by_backward_kernel(kept, slots)

        def pull(slots: list[Any]) -> Sequence[Any]:
            grads: list[Any] = [None] * len(self._needs_grad)
            out_grads = [_cotangent(slot, *spec) for slot, spec in zip(slots, outs, strict=True)]
            for place, grad in zip(self.places, kept(out_grads), strict=True):
                grads[place] = grad
            return grads
        return pull

    def forward(self, args: Sequence[Any], x64: bool) -> tuple[Sequence[Any], Any]:
        """Computes the results immediately, and returns them and the values kept for the backward pass."""
        if not self.kernel.symbolic:
            results = run(self.kernel, list(args), x64)
            return results, list(results if self.kernel.keeps_result else args)
        values = tuple(args)
        residuals = self.residuals(settings.BACKWARD_DO_MIRROR())
        outputs, others, kept = run_program(self.kernel.name, residuals, values, x64, values)
        return [*outputs, *others], kept if isinstance(kept, PullByNumpy) else kept.pull(values)

    def pull(self, kept: Any, out_grads: Sequence[Any], outs: Sequence[tuple], x64: bool) -> Sequence[Any]:
        """Computes the gradients of the arguments at `places` immediately."""
        if isinstance(kept, PullByNumpy):
            grads = run_program("backward", kept, (out_grads,), x64)
            return [grads[place] for place in self.places]
        if not self.places:
            return ()
        if self._backward is None:
            backward = self.kernel.vjp(self._needs_grad, tuple([out_grad is not None for out_grad in out_grads]))
            return run(backward, [*kept, *[out_grad for out_grad in out_grads if out_grad is not None]], x64)
        with x64_mode(x64):
            out_grads = [_cotangent(out_grad, *spec) for out_grad, spec in zip(out_grads, outs, strict=True)]
        return run_program(self.kernel.name, self._backward, (kept, out_grads), x64)

    def residuals(self, mirror: bool) -> Compiled:
        """Returns the compiled forward pass of a graph: (outputs, further results, `Residuals`)."""
        value = self._forwards.get(mirror)
        if value is None:
            def forward(*args: object) -> tuple:
                if interpreting():
                    results, pull = self.kernel.pullback(args, self._needs_grad, once=False)
                    count = self.kernel.num_outputs
                    return list(results[:count]), list(results[count:]), PullByNumpy(pull)
                outputs, pull, others = self._differentiated(args, mirror)
                return outputs, others, Residuals.of(pull, args)
            value = self._forwards[mirror] = Compiled(forward, parts=self.by_parts, trains=True)
        return value

    def _differentiated(self, args: Sequence[Any], mirror: bool) -> tuple[Sequence[Any], Any, Sequence[Any]]:
        """Returns outputs, JAX's pull, and the results that have no gradients (new auxiliary states)."""
        def function(*selected: object) -> tuple[list, list]:
            full = list(args)
            for place, value in zip(self.places, selected, strict=True):
                full[place] = value
            results = self.kernel.fn(*full)
            return list(results[:self.kernel.num_outputs]), list(results[self.kernel.num_outputs:])
        return jax.vjp(jax.checkpoint(function) if mirror else function, *[args[i] for i in self.places], has_aux=True)

    def _by_backward_kernel(self, args: Sequence[Any], slots: list[Any]) -> Sequence[Any]:
        if not self.places:
            return ()
        has_grad = tuple([s is not None for s in slots] + [False] * (self.kernel.num_outputs - len(slots)))
        backward = self.kernel.vjp(self._needs_grad, has_grad)
        grads = iter((backward.within if interpreting() else backward.fn)(*args, *[s for s in slots if s is not None]))
        return [next(grads) if w else None for w in self._needs_grad]


def derivative_of(kernel: Kernel, needs_grad: tuple[bool, ...]) -> Derivative:
    """Returns the derivative of a kernel's calls with respect to these arguments; the kernel caches it."""
    cached = kernel.derivatives.get(needs_grad)
    if cached is None:
        cached = kernel.derivatives[needs_grad] = Derivative(kernel, needs_grad)
    return cached


class PullByNumpy:
    """Arrays that a graph's forward pass by NumPy keeps for the backward pass.

    Args:
        pull: function that maps gradients of the outputs (None: zero) to those of the arguments, as
            NumPy arrays.
    """

    __slots__ = ("_pull",)

    def __init__(self, pull: Pull) -> None:
        self._pull = pull

    def __call__(self, out_grads: Sequence[Any]) -> Sequence[Any]:
        """Returns the gradients of the arguments as buffers."""
        bound = next((h for h in out_grads if isinstance(h, jax.Array) and h.committed), None)
        with meter.program():
            grads = self._pull([None if out_grad is None else np.asarray(out_grad) for out_grad in out_grads])
        return as_buffers(list(grads), None if bound is None else next(iter(bound.devices())))


@jax.tree_util.register_pytree_node_class
class Residuals:
    """The arrays that a program keeps for its backward pass, except its arguments, because
    returning an argument would copy it.

    Args:
        new: arrays created by the program.
        form: structure of the pullback, and for each of its arrays the position among the
            arguments, or None.
    """

    __slots__ = ("new", "form")

    def __init__(self, new: Sequence[Any], form: tuple[Any, tuple[int | None, ...]]) -> None:
        self.new, self.form = tuple(new), form

    @classmethod
    def of(cls, pull: object, args: object) -> Residuals:
        """Returns the residuals of a pullback, within the trace with the arguments `args`."""
        places = {id(value): place for place, value in enumerate(jax.tree.leaves(args))}
        arrays, structure = jax.tree.flatten(pull)
        sources = tuple([places.get(id(array)) for array in arrays])
        return cls([a for a, source in zip(arrays, sources, strict=True) if source is None], (structure, sources))

    def pull(self, args: object) -> Any:
        """Returns the pullback, with the arguments of the program."""
        structure, sources = self.form
        values, new = jax.tree.leaves(args), iter(self.new)
        return jax.tree.unflatten(structure, [next(new) if s is None else values[s] for s in sources])

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """Implements JAX's pytree protocol."""
        return self.new, self.form

    @classmethod
    def tree_unflatten(cls, form: tuple, new: Sequence[Any]) -> Residuals:
        """Implements JAX's pytree protocol."""
        return cls(new, form)


def _cotangent(cotangent: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Returns the gradient of an output (None: zero) in the form of `jax.vjp`."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return np.zeros(shape, jax.dtypes.float0)
    if cotangent is None:
        return to_device(np.zeros(shape, dtype)) if forked() else jnp.zeros(shape, dtype)
    return cotangent if cotangent.dtype == dtype else cotangent.astype(dtype)
