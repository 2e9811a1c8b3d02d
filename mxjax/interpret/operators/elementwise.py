"""Functions of each number, and of two arrays' numbers that are broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..direct import numpy_form

__all__ = ["summed_to"]


def summed_to(grad: Any, shape: tuple[int, ...]) -> Any:
    """Returns the gradient of an array of this shape that was broadcast to the gradient's."""
    if grad.shape == shape:
        return grad
    grad = grad.sum(tuple(range(grad.ndim - len(shape))))
    axes = tuple([axis for axis, (old, new) in enumerate(zip(shape, grad.shape, strict=True)) if old != new])
    return grad.sum(axes, keepdims=True) if axes else grad


# ------------------------------------------------------------ of one array
def _unary(name: str, function: Callable[[Any], Any], slope: Callable[[Any], Any]) -> None:
    """A function of each number and its derivative."""
    numpy_form(name, backward=lambda p, heads, wanted, x: [heads[0] * slope(x)])(lambda p, x: function(x))


def sigmoid(x: Any) -> Any:
    """Returns 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


_unary("tanh", np.tanh, lambda x: 1 - np.square(np.tanh(x)))
_unary("sigmoid", sigmoid, lambda x: (s := sigmoid(x)) * (1 - s))
_unary("relu", lambda x: np.maximum(x, 0), lambda x: x > 0)
_unary("exp", np.exp, np.exp)
_unary("square", np.square, lambda x: 2 * x)


# ------------------------------------------------------------ of two arrays
def _both(*gradients: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    """Gradients of an operator of two arrays, by function(head, x, y) each."""
    def backward(p: dict, heads: Sequence[Any], wanted: Sequence[bool], *arrays: Any) -> list[Any]:
        return [summed_to(gradient(heads[0], *arrays), a.shape) if w else None
                for gradient, w, a in zip(gradients, wanted, arrays, strict=True)]
    return backward


def _none(p: dict, wanted: Sequence[bool]) -> list[bool]:
    return [False] * len(wanted)


def _other(p: dict, wanted: Sequence[bool]) -> list[bool]:
    """Of a product each factor's gradient is of the other one."""
    return [wanted[1], wanted[0]]


numpy_form("elemwise_add", "broadcast_add", reads=_none, backward=_both(lambda g, x, y: g, lambda g, x, y: g))(
    lambda p, x, y: x + y)
numpy_form("elemwise_sub", "broadcast_sub", reads=_none, backward=_both(lambda g, x, y: g, lambda g, x, y: -g))(
    lambda p, x, y: x - y)
numpy_form("elemwise_mul", "broadcast_mul", reads=_other, backward=_both(lambda g, x, y: g * y, lambda g, x, y: g * x))(
    lambda p, x, y: x * y)
