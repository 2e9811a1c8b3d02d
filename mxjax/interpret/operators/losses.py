"""Softmax, losses, and output layers, whose gradient does not depend on the gradients of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..direct import need, numpy_form
from ..program import Array
from .elementwise import passed, sigmoid
from .reductions import along, total

__all__ = ["softmax"]

_LEAST = 1e-8  # the smallest probability in the logarithm of MXNet's cross-entropy


# ------------------------------------------------------------ softmax along an axis
def softmax(x: Array, axis: int) -> Any:
    """Returns exp(x) divided by its sum along an axis."""
    y = x - x.max(axis, keepdims=True)
    np.exp(y, out=y)
    y /= total(y, axis, True)
    return y


def _log_softmax(x: Array, axis: int) -> Any:
    y = x - x.max(axis, keepdims=True)
    y -= np.log(total(np.exp(y), axis, True))
    return y


def _softmax_slope(x: Array, axis: int, out_grad: Array) -> Any:
    y = softmax(x, axis)
    grad = y * out_grad
    np.subtract(out_grad, total(grad, axis, True), out=grad)
    grad *= y
    return grad


def _log_softmax_slope(x: Array, axis: int, out_grad: Array) -> Any:
    grad = softmax(x, axis)
    grad *= total(out_grad, axis, True)
    return np.subtract(out_grad, grad, out=grad)


def _scaled(p: dict, x: Array) -> Any:
    temperature = p.get("temperature")
    return x if temperature is None else x / x.dtype.type(temperature)


def _along_axis(name: str, axis_of: Callable[[dict, Any], int], function: Callable[[Any, int], Any],
                slope: Callable[[Any, int, Any], Any], sign: int = 1) -> None:
    """Registers an operator that is a function of sign·data / temperature along an axis."""
    def forward(p: dict, x: Array) -> Any:
        need(x.size and x.ndim and p.get("dtype") in (None, x.dtype.name))
        return function(_scaled(p, x if sign > 0 else -x), axis_of(p, x))

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
        need(x.size)
        grad = _scaled(p, slope(_scaled(p, x if sign > 0 else -x), axis_of(p, x), out_grads[0]))
        return [grad if sign > 0 else np.negative(grad, out=grad)]
    numpy_form(name, backward=backward)(forward)


def _axis(p: dict, x: Array) -> int:
    return along(p["axis"], x)


def _axis_of_mode(p: dict, x: Array) -> int:
    need(p["mode"] == "instance" or x.ndim > 2)
    return 1 if p["mode"] == "channel" else x.ndim - 1


_along_axis("softmax", _axis, softmax, _softmax_slope)
_along_axis("softmin", _axis, softmax, _softmax_slope, -1)
_along_axis("log_softmax", _axis, _log_softmax, _log_softmax_slope)
_along_axis("SoftmaxActivation", _axis_of_mode, softmax, _softmax_slope)


# ------------------------------------------------------------ cross-entropy
def _positions(label: Array) -> Any:
    """Returns labels as integers."""
    need(label.size and np.abs(label).max() < 1 << 31)  # false for NaN, too
    return label.astype(np.intp)


def _labels(label: Array, classes: int) -> Any:
    """Returns labels as positions; raises Unknown if one is out of range."""
    places = _positions(label)
    need(places.min() >= 0 and places.max() < classes)
    return places.reshape(-1, 1)


def _entropy_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                      label: Array) -> list[Any]:
    grad = None
    if needs_grad[0]:
        grad, places = softmax(x, 1), _labels(label, x.shape[1])
        np.put_along_axis(grad, places, np.take_along_axis(grad, places, 1) - 1, 1)
        grad *= out_grads[0]
    return [grad, np.zeros(label.shape, label.dtype)]


@numpy_form("softmax_cross_entropy", backward=_entropy_backward, reads=lambda p, needs_grad: [needs_grad[0]] * 2)
def _entropy(p: dict, x: Array, label: Array) -> Any:
    need(x.ndim == 2 and x.size and label.shape == x.shape[:1])
    loss = -np.take_along_axis(_log_softmax(x, 1), _labels(label, x.shape[1]), 1)
    return np.minimum(loss, x.dtype.type(-math.log(_LEAST))).sum().reshape(1)


# ------------------------------------------------------------ softmax as an output layer
def _fits(p: dict, x: Array, label: Array) -> None:
    """Raises Unknown unless labels have the shape of the probabilities, or contain one class per row (or position)."""
    need(x.size and x.ndim > 1)
    if label.shape == x.shape:
        return
    if p["multi_output"]:
        need(label.shape in ((len(x), x[0, 0].size), (len(x), *x.shape[2:]), (len(x), 1, *x.shape[2:])))
    else:
        need(label.shape == x.shape[:-1] and (p["preserve_shape"] or x.ndim == 2))


def _softmax_of_all(p: dict, x: Array) -> Any:
    by_library = not p["_train"] and x.ndim == 4 and x.dtype == np.float32  # as MXNet's prediction by oneDNN
    if p["multi_output"] or p["preserve_shape"] or by_library:
        return softmax(x, 1 if p["multi_output"] else x.ndim - 1)
    return softmax(x.reshape(len(x), -1), 1).reshape(x.shape)


def _softmax_output_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array,
                             label: Array) -> list[Any]:
    by_x = _softmax_output_slope(p, x, label) if needs_grad[0] else None
    return [by_x, np.zeros(label.shape, label.dtype)]


@numpy_form("SoftmaxOutput", backward=_softmax_output_backward, reads=lambda p, needs_grad: [needs_grad[0]] * 2)
def _softmax_output(p: dict, x: Array, label: Array) -> Any:
    _fits(p, x, label)
    return _softmax_of_all(p, x)


def _scale(p: dict, x: Array, count: Any) -> Any:
    """Returns the scale of a gradient by a count, which is computed in float32 for all dtypes."""
    return x.dtype.type(np.float32(p["grad_scale"]) / np.float32(count))


def _softmax_output_slope(p: dict, x: Array, label: Array) -> Any:
    """Returns the gradient: the probabilities (batch, classes, positions), minus 1 at the label."""
    _fits(p, x, label)
    need(not p["out_grad"])
    grad = np.ascontiguousarray(_softmax_of_all(p, x))
    if label.shape == x.shape:
        grad -= label
        grad *= _scale(p, x, 1)
        return grad
    rows = grad.reshape((len(x), x.shape[1], -1) if p["multi_output"] else (-1, x.shape[-1], 1))
    classes = _positions(label).reshape(len(rows), 1, -1)
    last = rows.shape[1] - 1
    less = np.logical_and(classes >= 0, classes <= last).astype(x.dtype)
    if not p["multi_output"] and (smooth := x.dtype.type(p["smooth_alpha"])):
        rest = smooth / x.dtype.type(max(last, 1))
        rows -= rest
        less *= 1 - smooth - rest
    places = np.clip(classes, 0, last)
    np.put_along_axis(rows, places, np.take_along_axis(rows, places, 1) - less, 1)
    ignored = classes == int(p["ignore_label"])
    if p["use_ignore"]:
        np.copyto(rows, 0, where=ignored)
    count = rows.shape[2]
    if p["normalization"] == "batch":
        count *= len(x) if p["multi_output"] else label.size
    elif p["normalization"] == "valid":
        count = max(label.size - np.count_nonzero(ignored), 1)
    grad *= _scale(p, x, count)
    return grad


# ------------------------------------------------------------ regression
def _regression(name: str, function: Callable[[Any], Any], slope: Callable[[Any], Any]) -> None:
    """Registers an output layer: function(data), whose gradient is slope(output - label) divided by the number of
    values per instance."""
    def forward(p: dict, x: Array, label: Array) -> Any:
        need(x.ndim and x.size == label.size and len(x) == label.shape[0] > 0)
        return function(x)

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, label: Array) -> list[Any]:
        grad = None
        if needs_grad[0]:
            grad = slope(function(x) - label.reshape(x.shape))
            grad *= _scale(p, x, label.size // len(label))
        return [grad, np.zeros(label.shape, label.dtype)]
    numpy_form(name, backward=backward, reads=lambda p, needs_grad: [needs_grad[0]] * 2)(forward)


def _side(difference: Array) -> Any:
    side = (difference > 0).astype(difference.dtype)
    side *= 2
    side -= 1
    return side


_regression("LinearRegressionOutput", passed, passed)
_regression("MAERegressionOutput", passed, _side)
_regression("LogisticRegressionOutput", sigmoid, passed)
