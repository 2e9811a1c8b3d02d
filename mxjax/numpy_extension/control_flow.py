"""Loops and branches on ndarrays: those of `mx.nd.contrib`, whose functions accept and return ndarrays here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._support.providers import of_storages
from ..eager.modes import state
from ..graph.control_flow import runners
from ..numpy import ndarray

__all__ = ["cond", "foreach", "while_loop"]


def _loop(name: str) -> Callable[..., Any]:
    for load in of_storages:  # the module that sets the runners
        load()
    return getattr(runners, name)


def _own(values: Any) -> Any:
    """Arrays of either kind, or nested lists of them, as ndarrays."""
    if isinstance(values, (list, tuple)):
        return [_own(v) for v in values]
    return values.as_np_ndarray()


def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Calls `body(slices of data, states) -> (outputs, new states)` along axis 0 of the data.

    Args:
        body: function of ndarrays.
        data: an ndarray or list of ndarrays of equal length.
        init_states: states before the first call, an ndarray or nested list.

    Returns:
        (outputs stacked along a new axis 0, states after the last call), in the structures that `body` returned.

    Raises:
        AssertionError: an argument is not an ndarray.

    Example:
        >>> outs, state = mx.npx.foreach(lambda x, s: (x + s, s * 2), mx.np.array([1, 2, 3]), mx.np.array(1))
        >>> outs, state
        (array([2., 4., 7.]), array(8.))
    """
    if state.recorder is not None:
        return state.recorder.loop("foreach", foreach, body, data, init_states)
    outs, states = _loop("foreach")(body, data, init_states)
    return _own(outs), _own(states)


def while_loop(cond: Callable[..., Any], func: Callable[..., tuple[Any, Any]], loop_vars: Any,
               max_iterations: int | None = None) -> tuple[Any, Any]:
    """Calls `func(*loop_vars) -> (outputs, new loop_vars)` while `cond(*loop_vars)` is true.

    Args:
        cond: function of ndarrays that returns an ndarray of a single element.
        func: function of ndarrays.
        loop_vars: an ndarray or nested list, at least one ndarray.
        max_iterations: maximum number of calls, and the length of the stacked outputs, which are padded with zeros.

    Returns:
        (outputs stacked along a new axis 0, last loop_vars); no outputs if `func` is never called.

    Raises:
        ValueError: `max_iterations` is missing, `loop_vars` is empty or its length changes, the shapes or the number of
            the outputs change, or the result of `cond` has no truth value.

    Example:
        >>> mx.npx.while_loop(lambda i: i < 2, lambda i: (i * 10, [i + 1]), [mx.np.array(0)], max_iterations=3)
        (array([ 0., 10.,  0.]), [array(2.)])
    """
    if state.recorder is not None:
        return state.recorder.loop("while_loop", while_loop, cond, func, loop_vars, max_iterations)
    outs, values = _loop("while_loop")(cond, func, loop_vars, max_iterations)
    return _own(outs), _own(values)


def cond(pred: Callable[..., Any], then_func: Callable[..., Any], else_func: Callable[..., Any], inputs: Sequence[Any],
         name: str = "cond") -> Any:
    """Returns `then_func(*inputs)` if `pred(*inputs)` is true, else `else_func(*inputs)`.

    Args:
        pred: function of ndarrays that returns an ndarray of a single element.
        then_func, else_func: functions of ndarrays.
        inputs: an ndarray, or a sequence of ndarrays.
        name: prefix of the names of the graphs that a hybridized block traces from the functions.

    Returns:
        The result of the chosen function.

    Raises:
        ValueError: the result of `pred` has no truth value, or `inputs` are no arrays.

    Example:
        >>> mx.npx.cond(lambda x: x > 0, lambda x: x + 1, lambda x: x - 1, [mx.np.array(-3)])
        array(-4.)
    """
    if isinstance(inputs, ndarray):
        inputs = [inputs]
    if not isinstance(inputs, list | tuple):
        raise ValueError(f"cond: inputs must be an ndarray or a list of ndarrays, got {type(inputs).__name__}")
    if state.recorder is not None:
        return state.recorder.loop("cond", cond, pred, then_func, else_func, inputs, name)
    truth = pred(*inputs)
    if isinstance(truth, ndarray) and truth.size != 1:
        raise ValueError(f"cond: pred must return one element, got shape {truth.shape}")
    return (then_func if truth else else_func)(*inputs)
