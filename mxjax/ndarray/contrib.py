"""`mx.nd.contrib`: operators that MXNet calls experimental."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._namespace import attach
from .._support.loop_values import flatten, regroup
from ..array import functions
from ..array.creation import array, full, zeros
from ..array.dense import NDArray
from ..base import MXNetError
from ..context import Context, chosen
from ..eager.dispatch import call
from ..eager.modes import state
from ..graph.control_flow import runners
from ..ops import registry

__all__ = ["adabelief_update", "adamw_update", "cond", "foreach", "isfinite", "isinf", "isnan", "mp_adabelief_update",
           "mp_adamw_update", "multi_adabelief_update", "multi_adamw_update", "multi_lamb_update", "multi_lans_update",
           "multi_mp_adabelief_update", "multi_mp_adamw_update", "multi_mp_lamb_update", "multi_mp_lans_update",
           "rand_zipfian", "while_loop"]


def isfinite(data: NDArray) -> NDArray:
    """Returns 1 where a value is neither infinite nor NaN, else 0, in the dtype of `data`."""
    return (data == data) * (data.abs() != np.inf)


def isinf(data: NDArray) -> NDArray:
    """Returns 1 where a value is infinite, else 0, in the dtype of `data`."""
    return data.abs() == np.inf


def isnan(data: NDArray) -> NDArray:
    """Returns 1 where a value is NaN, else 0, in the dtype of `data`."""
    return data != data


def _scale(rescale_grad: NDArray | float, like: NDArray) -> NDArray:
    """The factor of the gradients as an array: it may come from a loss scaler on the device."""
    return rescale_grad if isinstance(rescale_grad, NDArray) else full((1,), float(rescale_grad), like.context)


def adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: NDArray | float, lr: float,
                 eta: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0,
                 clip_gradient: float = -1, out: NDArray | None = None, name: str | None = None,
                 **kwargs: object) -> NDArray:
    """Adam update with decoupled weight decay; `rescale_grad` may be an array, where 0 or NaN skips the update."""
    return call(registry.get("_adamw_update"), [weight, grad, mean, var, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def mp_adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray,
                    rescale_grad: NDArray | float, lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999,
                    epsilon: float = 1e-8, wd: float = 0, clip_gradient: float = -1, out: NDArray | None = None,
                    name: str | None = None, **kwargs: object) -> NDArray:
    """`adamw_update` with float32 master weights."""
    return call(registry.get("_mp_adamw_update"), [weight, grad, mean, var, weight32, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def adabelief_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: NDArray | float,
                     lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                     wd: float = 0, clip_gradient: float = -1, out: NDArray | None = None, name: str | None = None,
                     **kwargs: object) -> NDArray:
    """AdaBelief update; `rescale_grad` may be an array, where 0 or NaN skips the update."""
    return call(registry.get("_adabelief_update"), [weight, grad, mean, var, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def mp_adabelief_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray,
                        rescale_grad: NDArray | float, lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999,
                        epsilon: float = 1e-8, wd: float = 0, clip_gradient: float = -1, out: NDArray | None = None,
                        name: str | None = None, **kwargs: object) -> NDArray:
    """`adabelief_update` with float32 master weights."""
    return call(registry.get("_mp_adabelief_update"), [weight, grad, mean, var, weight32, _scale(rescale_grad, weight)],
                {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
                 "clip_gradient": clip_gradient, **kwargs}, out)


def _listed(op: str, count: str, groups: Sequence[Sequence[NDArray]], last: Sequence[NDArray],
            out: Sequence[NDArray] | None, size: int, params: dict[str, Any]) -> Any:
    """Calls an operator on several weights: their arrays weight by weight, then the shared arrays."""
    arrays = [a for row in zip(*groups, strict=True) for a in row]
    return call(registry.get(op), [*arrays, *last], {count: size or len(groups[0]), **params}, out)


def multi_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                       var: Sequence[NDArray], rescale_grad: NDArray | float, lrs: Sequence[float],
                       wds: Sequence[float], etas: Sequence[float], out: Sequence[NDArray] | None = None,
                       name: str | None = None, size: int = 0, **kwargs: object) -> Any:
    """`adamw_update` of several weights in one call."""
    return _listed("_multi_adamw_update", "num_weights", (weights, grads, mean, var),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_mp_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                          var: Sequence[NDArray], weights32: Sequence[NDArray], rescale_grad: NDArray | float,
                          lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float],
                          out: Sequence[NDArray] | None = None, name: str | None = None, size: int = 0,
                          **kwargs: object) -> Any:
    """`mp_adamw_update` of several weights in one call."""
    return _listed("_multi_mp_adamw_update", "num_weights", (weights, grads, mean, var, weights32),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_adabelief_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                           var: Sequence[NDArray], rescale_grad: NDArray | float, lrs: Sequence[float],
                           wds: Sequence[float], etas: Sequence[float], out: Sequence[NDArray] | None = None,
                           name: str | None = None, size: int = 0, **kwargs: object) -> Any:
    """`adabelief_update` of several weights in one call."""
    return _listed("_multi_adabelief_update", "num_weights", (weights, grads, mean, var),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_mp_adabelief_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                              var: Sequence[NDArray], weights32: Sequence[NDArray], rescale_grad: NDArray | float,
                              lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float],
                              out: Sequence[NDArray] | None = None, name: str | None = None, size: int = 0,
                              **kwargs: object) -> Any:
    """`mp_adabelief_update` of several weights in one call."""
    return _listed("_multi_mp_adabelief_update", "num_weights", (weights, grads, mean, var, weights32),
                   [_scale(rescale_grad, weights[0])], out, size, {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                      var: Sequence[NDArray], step_count: Sequence[int], lrs: Sequence[float], wds: Sequence[float],
                      out: Sequence[NDArray] | None = None, num_tensors: int = 0, **kwargs: object) -> Any:
    """LAMB update of several weights in one call."""
    return _listed("_multi_lamb_update", "num_tensors", (weights, grads, mean, var), [], out, num_tensors,
                   {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def multi_mp_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                         var: Sequence[NDArray], weights32: Sequence[NDArray], step_count: Sequence[int],
                         lrs: Sequence[float], wds: Sequence[float], out: Sequence[NDArray] | None = None,
                         num_tensors: int = 0, **kwargs: object) -> Any:
    """`multi_lamb_update` with float32 master weights."""
    return _listed("_multi_mp_lamb_update", "num_tensors", (weights, grads, mean, var, weights32), [], out,
                   num_tensors, {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def multi_lans_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                      var: Sequence[NDArray], step_count: Sequence[int], lrs: Sequence[float], wds: Sequence[float],
                      out: Sequence[NDArray] | None = None, num_tensors: int = 0, **kwargs: object) -> Any:
    """LANS update of several weights in one call."""
    return _listed("_multi_lans_update", "num_tensors", (weights, grads, mean, var), [], out, num_tensors,
                   {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def multi_mp_lans_update(weights: Sequence[NDArray], grads: Sequence[NDArray], mean: Sequence[NDArray],
                         var: Sequence[NDArray], weights32: Sequence[NDArray], step_count: Sequence[int],
                         lrs: Sequence[float], wds: Sequence[float], out: Sequence[NDArray] | None = None,
                         num_tensors: int = 0, **kwargs: object) -> Any:
    """`multi_lans_update` with float32 master weights."""
    return _listed("_multi_mp_lans_update", "num_tensors", (weights, grads, mean, var, weights32), [], out,
                   num_tensors, {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int,
                 ctx: Context | None = None) -> tuple[NDArray, NDArray, NDArray]:
    """Draws candidate classes with log-uniform (Zipfian) probability, as for sampled softmax.

    Args:
        true_classes: class numbers, a vector.
        num_sampled: number of classes to draw.
        range_max: number of classes.
        ctx: context of the result; defaults to the current context.

    Returns:
        (drawn classes, int64; expected counts of the true classes, float64; expected counts of the drawn classes,
        float64).
    """
    if not isinstance(true_classes, NDArray):
        raise MXNetError(f"rand_zipfian: true_classes must be an NDArray, got {type(true_classes).__name__}")
    ctx = chosen(ctx)
    log_range = np.log(range_max + 1)
    uniform = call(registry.get("_random_uniform"), [], {"low": 0, "high": log_range, "shape": (num_sampled,),
                                                        "dtype": "float64"}, ctx=ctx).asnumpy()
    drawn = (np.exp(uniform) - 1).astype(np.int64) % range_max

    def expected(classes: np.ndarray) -> NDArray:
        classes = classes.astype(np.float64)
        return array(np.log((classes + 2) / (classes + 1)) / log_range * num_sampled, ctx, "float64")
    return array(drawn, ctx, "int64"), expected(true_classes.asnumpy()), expected(drawn)


# -------------------------------------------------------------------- control flow
def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Calls `body(slices of data, states) -> (outputs, new states)` along axis 0 of the data.

    Args:
        body: function of NDArrays.
        data: an NDArray or list of NDArrays of equal length.
        init_states: states before the first call, an NDArray or nested list.

    Returns:
        (outputs stacked along a new axis 0, states after the last call), in the structures that `body` returned.

    Raises:
        AssertionError: an argument is not an NDArray.

    Example:
        >>> outs, states = mx.nd.contrib.foreach(lambda x, s: (x + s, s * 2), mx.nd.array([1, 2, 3]), mx.nd.array([1]))
        >>> outs.asnumpy().ravel(), states.asscalar()
        (array([2., 4., 7.], dtype=float32), np.float32(8.0))
    """
    if state.recorder is not None:
        return state.recorder.loop("foreach", foreach, body, data, init_states)
    flat, form = flatten(data, NDArray, "foreach input")
    flatten(init_states, NDArray, "foreach states")
    states, steps, out_form = init_states, [], []
    for i in range(flat[0].shape[0]):
        outs, states = body(regroup([d[i] for d in flat], form), states)
        outs, out_form = flatten(outs, NDArray, "foreach output")
        steps.append(outs)
    return regroup(_stacked(steps), out_form), states


def _stacked(steps: Sequence[Sequence[NDArray]]) -> list[NDArray]:
    """Returns the results of all steps at one place, stacked."""
    return [call(registry.get("stack"), items, {}) for items in zip(*steps, strict=True)]


def while_loop(cond: Callable[..., NDArray], func: Callable[..., tuple[Any, Any]], loop_vars: Any,
               max_iterations: int | None = None) -> tuple[Any, Any]:
    """Calls `func(*loop_vars) -> (outputs, new loop_vars)` while `cond(*loop_vars)` is true.

    Args:
        cond: function of NDArrays that returns an NDArray of a single element.
        func: function of NDArrays.
        loop_vars: an NDArray or nested list, at least one NDArray.
        max_iterations: maximum number of calls, and the length of the stacked outputs, which are padded with zeros.

    Returns:
        (outputs stacked along a new axis 0, last loop_vars); no outputs if `func` is never called.

    Raises:
        ValueError: `max_iterations` is missing, `loop_vars` is empty or its length changes, the shapes or the number of
            the outputs change, or the result of `cond` has no truth value.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    if state.recorder is not None:
        return state.recorder.loop("while_loop", while_loop, cond, func, loop_vars, max_iterations)
    limit = _python(max_iterations, int, "max_iteration")
    if len(loop_vars) == 0:
        raise ValueError("loop_vars should contain at least one element")
    single = isinstance(loop_vars, NDArray)
    values = [loop_vars] if single else list(loop_vars)
    steps: list[list[NDArray]] = []
    form: Any = []
    while len(steps) < limit and _python(cond(*values), bool, "Return value of cond"):
        outs, new = func(*values)
        new = [] if new is None else list(new) if isinstance(new, (list, tuple)) else [new]
        if len(new) != len(values):
            raise ValueError("The length of loop_vars should be consistent during the loop")
        outs, form = flatten([] if outs is None else outs, NDArray, "while output")
        if steps and [o.shape for o in outs] != [o.shape for o in steps[0]]:
            raise ValueError(f"while_loop: the outputs of step {len(steps)} have shapes {[o.shape for o in outs]}, but "
                             f"those of step 0 have shapes {[o.shape for o in steps[0]]}")
        values = new
        steps.append(outs)
    stacked = _stacked(steps)
    if len(steps) < limit:
        stacked = [call(registry.get("concat"), [s, zeros((limit - len(steps), *s.shape[1:]), s.context, s.dtype)],
                        {"dim": 0}) for s in stacked]
    return regroup(stacked, form), values[0] if single else values


def cond(pred: NDArray, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """Returns `then_func()` if `pred` is true, else `else_func()`.

    Args:
        pred: NDArray of a single element, or a number.
        then_func, else_func: functions without arguments.

    Raises:
        ValueError: `pred` has no truth value.
    """
    if state.recorder is not None and isinstance(pred, NDArray):
        return state.recorder.loop("cond", lambda *given: cond(given[0](), *given[1:3]), lambda: pred, then_func,
                                   else_func, [])
    return then_func() if _python(pred, bool, "pred") else else_func()


def _python(value: Any, kind: type, what: str) -> Any:
    value = value.as_nd_ndarray().asscalar() if isinstance(value, NDArray) else value
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {what} to python {kind.__name__}") from None


runners.foreach, runners.while_loop, runners.zeros = foreach, while_loop, zeros


if TYPE_CHECKING:
    from ._stubs.contrib import *  # noqa: F403

attach(globals(), functions.make, "contrib")
