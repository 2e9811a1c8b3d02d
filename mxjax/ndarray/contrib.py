"""`mx.nd.contrib`: operators that MXNet calls experimental."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._namespace import attach
from ..context import Context, current_context
from ..ops import registry
from . import _front
from ._invoke import call
from .ndarray import NDArray
from .utils import array, full

__all__ = ["adamw_update", "isfinite", "isinf", "isnan", "mp_adamw_update", "multi_adamw_update", "multi_lamb_update",
           "multi_mp_adamw_update", "multi_mp_lamb_update", "rand_zipfian"]


def isfinite(data: NDArray) -> NDArray:
    """1 where a value is neither infinite nor NaN, else 0, in the dtype of `data`."""
    return (data == data) * (data.abs() != np.inf)


def isinf(data: NDArray) -> NDArray:
    """1 where a value is infinite, else 0, in the dtype of `data`."""
    return data.abs() == np.inf


def isnan(data: NDArray) -> NDArray:
    """1 where a value is NaN, else 0, in the dtype of `data`."""
    return data != data


def _scale(rescale_grad: Any, like: NDArray) -> NDArray:
    """The factor of the gradients as an array: it may come from a loss scaler on the device."""
    return rescale_grad if isinstance(rescale_grad, NDArray) else full((1,), float(rescale_grad), like.context)


def adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Any, lr: float, eta: float,
                 beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0,
                 clip_gradient: float = -1, out: NDArray | None = None, name: str | None = None,
                 **kwargs: Any) -> NDArray:
    """Adam with decoupled weight decay; `rescale_grad` may be an array, whose 0 or NaN skips the update."""
    return call(registry.get("_adamw_update"), [weight, grad, mean, var, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def mp_adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray, rescale_grad: Any,
                    lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                    wd: float = 0, clip_gradient: float = -1, out: NDArray | None = None, name: str | None = None,
                    **kwargs: Any) -> NDArray:
    """`adamw_update` with float32 master weights."""
    return call(registry.get("_mp_adamw_update"), [weight, grad, mean, var, weight32, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def _listed(op: str, count: str, groups: Sequence[Sequence[NDArray]], last: Sequence[NDArray], out: Any, size: int,
            params: dict[str, Any]) -> Any:
    """Calls an operator on several weights: their arrays weight by weight, then what they share."""
    arrays = [a for row in zip(*groups, strict=True) for a in row]
    return call(registry.get(op), [*arrays, *last], {count: size or len(groups[0]), **params}, out)


def multi_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                       var: Sequence[NDArray], rescale_grad: Any, lrs: Sequence[float], wds: Sequence[float],
                       etas: Sequence[float], out: Any = None, name: str | None = None, size: int = 0,
                       **kwargs: Any) -> Any:
    """`adamw_update` of several weights in one call."""
    return _listed("_multi_adamw_update", "num_weights", (weights, grads, mean, var),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_mp_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                          var: Sequence[NDArray], weights32: Sequence[NDArray], rescale_grad: Any,
                          lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float], out: Any = None,
                          name: str | None = None, size: int = 0, **kwargs: Any) -> Any:
    """`mp_adamw_update` of several weights in one call."""
    return _listed("_multi_mp_adamw_update", "num_weights", (weights, grads, mean, var, weights32),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                      var: Sequence[NDArray], step_count: Sequence[int], lrs: Sequence[float], wds: Sequence[float],
                      out: Any = None, num_tensors: int = 0, **kwargs: Any) -> Any:
    """LAMB update of several weights in one call."""
    return _listed("_multi_lamb_update", "num_tensors", (weights, grads, mean, var), [], out, num_tensors,
                   {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def multi_mp_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                         var: Sequence[NDArray], weights32: Sequence[NDArray], step_count: Sequence[int],
                         lrs: Sequence[float], wds: Sequence[float], out: Any = None, num_tensors: int = 0,
                         **kwargs: Any) -> Any:
    """`multi_lamb_update` with float32 master weights."""
    return _listed("_multi_mp_lamb_update", "num_tensors", (weights, grads, mean, var, weights32), [], out,
                   num_tensors, {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int,
                 ctx: Context | None = None) -> tuple[NDArray, NDArray, NDArray]:
    """Draws candidate classes with log-uniform (Zipfian) probability, as for sampled softmax.

    Args:
        true_classes: class numbers, a vector.
        num_sampled: how many to draw.
        range_max: number of classes.
        ctx: default the current context.

    Returns:
        (drawn classes int64, expected counts of the true classes, expected counts of the drawn ones; float64).
    """
    ctx = ctx or current_context()
    log_range = np.log(range_max + 1)
    uniform = call(registry.get("_random_uniform"), [], {"low": 0, "high": log_range, "shape": (num_sampled,),
                                                        "dtype": "float64"}, ctx=ctx).asnumpy()
    drawn = (np.exp(uniform).round().astype(np.int64) - 1) % range_max

    def expected(classes: np.ndarray) -> NDArray:
        classes = classes.astype(np.float64)
        return array(np.log((classes + 2) / (classes + 1)) / log_range * num_sampled, ctx, "float64")
    return array(drawn, ctx, "int64"), expected(true_classes.asnumpy()), expected(drawn)


attach(globals(), _front.make, "contrib")
