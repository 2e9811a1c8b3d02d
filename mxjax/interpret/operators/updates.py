"""Updates of weights by optimizers: the new weight, and the new states."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..direct import numpy_form

__all__: list[str] = []


def _gradient(p: dict, weight: Any, grad: Any) -> Any:
    """The gradient rescaled, clipped, with the decay of the weight."""
    grad = grad * _number(p["rescale_grad"], grad)
    if (clip := p.get("clip_gradient") or -1) > 0:
        grad = np.clip(grad, -clip, clip)
    return grad


def _number(value: Any, like: Any) -> Any:
    """A parameter in the dtype of an array."""
    return like.dtype.type(value)


@numpy_form("sgd_update")
def _sgd(p: dict, weight: Any, grad: Any) -> Any:
    rate, decay = _number(p["lr"], weight), _number(p["wd"], weight)
    return weight * (1 - rate * decay) - rate * _gradient(p, weight, grad)


@numpy_form("sgd_mom_update")
def _sgd_momentum(p: dict, weight: Any, grad: Any, momentum: Any) -> Any:
    rate, decay = _number(p["lr"], weight), _number(p["wd"], weight)
    momentum = momentum * _number(p["momentum"], weight) - rate * (decay * weight + _gradient(p, weight, grad))
    return weight + momentum, momentum
