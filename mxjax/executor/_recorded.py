"""Recorded runs of graphs: what they are within the program of a forward and backward pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._xla.process import forked
from .._xla.transfer import to_device
from ..graph.lowering import Forms
from ..kernel.kernel import Kernel, run_program
from ..kernel.policy import Programs

__all__ = ["GraphPart", "Plan", "mirror"]


def mirror() -> bool:
    """Whether backward passes compute activations again instead of keeping them (MXNET_BACKWARD_DO_MIRROR)."""
    return os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0").lower() in ("1", "true")


class Plan(NamedTuple):
    """A recorded run for arguments of certain shapes and dtypes.

    part: the run; specs: of outputs and new auxiliary states; outs: of the outputs; wide: in 64-bit mode.
    """

    part: GraphPart
    specs: tuple
    outs: tuple
    wide: bool


class GraphPart:
    """A run of a graph as a `mxjax.eager.deferred_call.Part`.

    Args:
        forms: the graph, with those of equal structure.
        kernel: the graph as one kernel, for derivatives of higher order.
        wanted: for each variable whether its gradient is asked for.
        train: training mode.
    """

    def __init__(self, forms: Forms, kernel: Kernel, wanted: Sequence[bool], train: bool) -> None:
        self.forms, self.kernel, self.train = forms, kernel, train
        self.places = [place for place in forms.arg_places if wanted[place]]
        self.programs = Programs(64)
        self._wanted = tuple([wanted[place] for place in forms.arg_places])

    def trace(self, args: Sequence[Any], mirror: bool) -> tuple[Sequence[Any], Callable[[list[Any]], Sequence[Any]]]:
        """See `Part.trace`."""
        forms = self.forms
        function, selected = forms.graph.differentiable(*forms.split(args), self._wanted, mirror, self.train)
        outputs, pull, aux = jax.vjp(function, *selected, has_aux=True)
        results = [*outputs, *(aux if self.train else ())]
        return results, self.traced_pull(pull, [(o.shape, o.dtype) for o in outputs], len(args))

    def traced_pull(self, saved: Any, outs: Sequence[tuple], count: int) -> Callable[[list[Any]], Sequence[Any]]:
        """See `Part.traced_pull`."""
        def pull(slots: list[Any]) -> Sequence[Any]:
            grads: list[Any] = [None] * count
            heads = [_head(slot, *spec) for slot, spec in zip(slots, outs, strict=True)]
            for place, grad in zip(self.places, saved(heads), strict=True):
                grads[place] = grad
            return grads
        return pull

    def forward(self, args: Sequence[Any], wide: bool) -> tuple[Sequence[Any], Any]:
        """See `Part.forward`."""
        forms = self.forms
        program = forms.graph.residual(self._wanted, mirror(), self.train)
        given = forms.split(args)
        outputs, aux, saved = run_program("CachedOp", program, given, wide, args)
        return [*outputs, *(aux if self.train else ())], saved.pull(given)

    def pull(self, saved: Any, heads: Sequence[Any], outs: Sequence[tuple], wide: bool) -> Sequence[Any]:
        """See `Part.pull`."""
        with jax.enable_x64(wide):
            heads = [_head(head, *spec) for head, spec in zip(heads, outs, strict=True)]
        return run_program("CachedOp", self.forms.graph.pull(), (saved, heads), wide)


def _head(given: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The gradient of an output (None: zero) as `jax.vjp` wants it."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return np.zeros(shape, jax.dtypes.float0)
    if given is None:
        return to_device(np.zeros(shape, dtype)) if forked() else jnp.zeros(shape, dtype)
    return given if given.dtype == dtype else given.astype(dtype)
