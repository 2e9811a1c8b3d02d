"""Automatic differentiation of imperative code: `record`, `backward`, `grad`, `Function`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array.creation import zeros
from ..array.dense import NDArray
from ..base import MXNetError, NotOneOf, Precondition, Unfit
from ..eager.array_types import wrap
from ..eager.backward import backward as _backward
from ..eager.backward import walk_back
from ..eager.modes import Modes, state
from ..eager.tape import GRAD_REQS, Node, mark
from ..symbol._from_tape import symbol_of

__all__ = ["Function", "NDArray", "backward", "get_symbol", "grad", "is_recording", "is_training", "mark_variables",
           "pause", "predict_mode", "record", "set_recording", "set_training", "train_mode"]


def set_recording(is_recording: bool) -> bool:
    """Turns recording on or off in this thread; returns the previous state."""
    previous, state.recording = state.recording, bool(is_recording)
    return previous


def set_training(train_mode: bool) -> bool:
    """Turns training mode on or off in this thread; returns the previous mode."""
    previous, state.training = state.training, bool(train_mode)
    return previous


def is_recording() -> bool:
    """Returns whether calls are being recorded."""
    return state.recording


def is_training() -> bool:
    """Returns whether operators such as Dropout behave as in training."""
    return state.training


def record(train_mode: bool = True) -> Modes:
    """A `with` scope in which calls are recorded for `backward`.

    Args:
        train_mode: whether operators behave as in training.

    Example:
        >>> x = mx.nd.array([1.0, 2.0]); x.attach_grad()
        >>> with mx.autograd.record():
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad.asnumpy()
        array([2., 4.], dtype=float32)
    """
    return Modes(True, train_mode)


def pause(train_mode: bool = False) -> Modes:
    """A `with` scope, usually inside `record`, in which nothing is recorded."""
    return Modes(False, train_mode)


def train_mode() -> Modes:
    """A `with` scope in training mode; it does not change recording."""
    return Modes(None, True)


def predict_mode() -> Modes:
    """A `with` scope in prediction mode; it does not change recording."""
    return Modes(None, False)


def mark_variables(variables: Sequence[NDArray] | NDArray, gradients: Sequence[NDArray] | NDArray,
                   grad_reqs: str | Sequence[str] = "write") -> None:
    """Marks arrays as variables of graphs that are recorded later.

    Args:
        variables: arrays.
        gradients: arrays of the same shapes for the gradients; those beyond the variables are ignored.
        grad_reqs: "write", "add" or "null"; one for all arrays, or one per array.

    Raises:
        MXNetError: unknown grad_req, or there are fewer gradients or requests than variables.
        AssertionError: there is one variable, but `gradients` is not one array.
    """
    if isinstance(variables, NDArray):
        if not isinstance(gradients, NDArray):
            raise Unfit(f"the gradient of one variable must be an NDArray, got {type(gradients).__name__}")
        variables, gradients = [variables], [gradients]
    if isinstance(grad_reqs, (str, int)):
        grad_reqs = [grad_reqs] * len(variables)
    gradients, grad_reqs = list(gradients), list(grad_reqs)
    if min(len(gradients), len(grad_reqs)) < len(variables):
        raise Precondition(f"there are {len(variables)} variables, but {len(gradients)} gradients and "
                           f"{len(grad_reqs)} requests for gradients")
    # the others may be more: custom operators that keep gradients in a list append to it in each call
    for array, gradient, req in zip(variables, gradients, grad_reqs, strict=False):
        if req not in GRAD_REQS:
            raise NotOneOf(f"grad_req must be one of {', '.join(GRAD_REQS)}, got {req!r}")
        mark(array, gradient, req)


def _heads(heads: Sequence[NDArray] | NDArray,
           head_grads: Sequence[NDArray | None] | NDArray | None) -> tuple[list[NDArray], list[Any]]:
    arrays = [heads] if isinstance(heads, NDArray) else list(heads)
    given: list[Any] = [None] * len(arrays) if head_grads is None else \
        [head_grads] if isinstance(head_grads, NDArray) else list(head_grads)
    if len(arrays) != len(given):
        raise Precondition(f"there are {len(arrays)} heads but {len(given)} head gradients")
    return arrays, given


def backward(heads: Sequence[NDArray] | NDArray, head_grads: Sequence[NDArray | None] | NDArray | None = None,
             retain_graph: bool = False, train_mode: bool = True) -> None:
    """Computes the gradients of `heads` with respect to all marked variables they depend on.

    Args:
        heads: arrays computed under `record`.
        head_grads: gradient of each head; None: ones.
        retain_graph: keep the graph for another backward pass.
        train_mode: training mode during the backward pass.

    Raises:
        MXNetError: a head is not part of a graph, or the graph has been released.
    """
    _backward(*_heads(heads, head_grads), retain_graph, train_mode)


def grad(heads: Sequence[NDArray] | NDArray, variables: Sequence[NDArray] | NDArray,
         head_grads: Sequence[NDArray | None] | NDArray | None = None, retain_graph: bool | None = None,
         create_graph: bool = False, train_mode: bool = True) -> list[NDArray]:
    """Returns the gradients of `heads` with respect to `variables` as new arrays.

    Args:
        heads, head_grads, train_mode: as in `backward`.
        variables: arrays with `attach_grad`, or results within the graph; an array or a list.
        retain_graph: keep the graph; by default if `create_graph` is set.
        create_graph: also record the backward pass, for derivatives of any order.

    Raises:
        MXNetError: a variable is not in the graph.
        AssertionError: there are no variables.
    """
    heads, head_grads = _heads(heads, head_grads)
    variables = [variables] if isinstance(variables, NDArray) else list(variables)
    if not variables:
        raise AssertionError("grad: there are no variables")
    if any(v.entry is None for v in variables):
        raise MXNetError("grad: a variable is not part of the graph; call attach_grad() before recording")
    retain = create_graph if retain_graph is None else retain_graph
    with Modes(create_graph, train_mode):
        result = walk_back(heads, head_grads, retain, create_graph, variables)
        return [_result(v, g) for v, g in zip(variables, result or (), strict=True)]


def _result(variable: NDArray, found: Any) -> NDArray:
    if found is None:
        found = zeros(variable.shape, variable.context, variable.dtype)
    if isinstance(found, NDArray) and found.entry is None and state.recording:  # a constant of the graph
        found.entry = (Node(None, outs=((found.shape, found.chunk.dtype),), ctx=found.context,
                             pull=lambda slots, create_graph: ()), 0)
    return found if isinstance(found, NDArray) else wrap(found, variable.context, type(variable))


def get_symbol(x: NDArray) -> Any:
    """Returns the recorded computation of `x` as a Symbol; its inputs become variables "var0", "var1", ..."""
    if not isinstance(x, NDArray):
        raise Unfit(f"get_symbol expects an NDArray, got {type(x).__name__}")
    return symbol_of(x)


class Function:
    """An operation with a custom gradient, written in NDArray code.

    Subclasses define `forward(self, *inputs)` and `backward(self, *output_grads)`. An instance can
    be called only once.

    Example:
        class Sigmoid(mx.autograd.Function):
            def forward(self, x):
                y = 1 / (1 + mx.nd.exp(-x))
                self.save_for_backward(y)
                return y

            def backward(self, dy):
                y, = self.saved_tensors
                return dy * y * (1 - y)
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple = ()

    def save_for_backward(self, *args: NDArray) -> None:
        """Saves arrays for `backward`, where they are in `self.saved_tensors`."""
        self.saved_tensors = args

    def forward(self, *inputs: NDArray) -> Any:
        """Computes the outputs."""
        raise NotImplementedError

    def backward(self, *output_grads: NDArray) -> Any:
        """Computes one gradient per input."""
        raise NotImplementedError

    def __call__(self, *inputs: NDArray) -> Any:
        if self._used:
            raise Precondition("a Function instance can be called only once; create another one")
        self._used = True
        recording = state.recording
        with Modes(False, None):
            outputs = self.forward(*inputs)
        if not recording:
            return outputs
        single = isinstance(outputs, NDArray)
        results = [outputs] if single else list(outputs)
        # a result that is an input, or a view of one, gets a handle of its own, so that its place in the graph is new
        results = [r.alias(type(r)) if any(r is i for i in inputs) else r for r in results]
        if any(i.entry is not None for i in inputs):
            node = Node(None, (), [i.entry for i in inputs], [(r.shape, r.chunk.dtype) for r in results],
                        inputs[0].context, self._pull(results, inputs))
            for i, result in enumerate(results):
                result.entry = (node, i)
        return results[0] if single else tuple(results) if isinstance(outputs, tuple) else results

    def _pull(self, results: list[NDArray], inputs: tuple) -> Any:
        contexts = [(r.shape, r.dtype, r.context, type(r)) for r in results]

        def pull(slots: list[Any], create_graph: bool) -> list[Any]:
            heads = [zeros(shape, ctx, dtype) if s is None else s if isinstance(s, NDArray) else wrap(s, ctx, kind)
                     for s, (shape, dtype, ctx, kind) in zip(slots, contexts, strict=True)]
            grads = self.backward(*heads)
            grads = [grads] if isinstance(grads, NDArray) or grads is None else list(grads)
            if len(grads) != len(inputs):
                raise MXNetError(f"{type(self).__name__}.backward returned {len(grads)} gradients for "
                                 f"{len(inputs)} inputs")
            return grads if create_graph else [None if g is None else g.read() for g in grads]
        return pull

