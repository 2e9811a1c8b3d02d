"""The original autograd interface, for old scripts. New code should use `mx.autograd`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd as _autograd
from ..ndarray import NDArray, zeros_like

__all__ = ["TrainingStateScope", "backward", "compute_gradient", "grad", "grad_and_loss", "mark_variables",
           "set_is_training", "test_section", "train_section"]


def set_is_training(is_train: bool) -> bool:
    """Turns recording and training mode on or off together; returns the previous training mode."""
    previous = _autograd.set_training(is_train)
    _autograd.set_recording(is_train)
    return previous


class TrainingStateScope:
    """Sets recording and training mode together for a `with` block."""

    def __init__(self, enter_state: bool) -> None:
        self._state, self._before = enter_state, False

    def __enter__(self) -> None:
        self._before = set_is_training(self._state)

    def __exit__(self, *exc: object) -> None:
        if self._before != self._state:
            set_is_training(self._before)


def train_section() -> TrainingStateScope:
    """A `with` scope in which calls are recorded, in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A `with` scope, usually inside `train_section`, in which nothing is recorded."""
    return TrainingStateScope(False)


def mark_variables(variables: NDArray | Sequence[NDArray], gradients: NDArray | Sequence[NDArray],
                   grad_reqs: str | Sequence[str] = "write") -> None:
    """Same as `mx.autograd.mark_variables`."""
    _autograd.mark_variables(variables, gradients, grad_reqs)


def backward(outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None,
             retain_graph: bool = False) -> None:
    """Same as `mx.autograd.backward` for a list of outputs.

    Raises:
        AssertionError: `outputs` is not a list.
    """
    if not isinstance(outputs, (list, tuple)):
        raise AssertionError("outputs must be a list or tuple of NDArrays")
    _autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """Deprecated name of `backward(outputs)`."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: int | Sequence[int] | None = None) -> Callable[..., tuple]:
    """Returns a function that computes (gradients of the arguments, result of `func`).

    Args:
        func: function of NDArrays that returns a loss.
        argnum: indices of the arguments; by default all.
    """
    @functools.wraps(func)
    def wrapped(*args: NDArray) -> tuple:
        chosen = list(args) if argnum is None else [args[i] for i in ([argnum] if isinstance(argnum, int) else argnum)]
        for array in chosen:
            if not isinstance(array, NDArray):
                raise AssertionError("type of autograd input should be NDArray.")
        grads = [zeros_like(a) for a in chosen]
        mark_variables(chosen, grads)
        with train_section():
            outputs = func(*args)
        backward([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs
    return wrapped


def grad(func: Callable[..., Any], argnum: int | Sequence[int] | None = None) -> Callable[..., list[NDArray]]:
    """Returns a function that computes the gradients of the arguments of `func`; arguments as in `grad_and_loss`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(both)
    def wrapped(*args: NDArray) -> list[NDArray]:
        return both(*args)[0]
    return wrapped
