"""CachedOp: a graph that is called on arrays, compiled, and recorded on the tape as one node."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import MXNetError
from ..ops.kernel import Kernel, is_wide, mistake
from ..random import next_key
from ._chunk import Pending
from ._invoke import invoke, state, wrap
from .ndarray import NDArray

if TYPE_CHECKING:
    from ..symbol import Symbol

__all__ = ["CachedOp"]

_USER_MISTAKES = (TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, OverflowError)


class CachedOp:
    """A symbol as a function of NDArrays; what hybridized blocks run.

    Args:
        sym: the symbol.
        flags: MXNet's pairs of settings (memory and scheduling), which XLA decides by itself.

    Example:
        >>> a, b = mx.sym.var("a"), mx.sym.var("b")
        >>> double = mx.nd.CachedOp(2 * a + b)
        >>> double(mx.nd.ones((2,)), mx.nd.ones((2,))).asnumpy()
        array([3., 3.], dtype=float32)
    """

    def __init__(self, sym: Symbol, flags: Sequence[tuple[str, Any]] = ()) -> None:
        self._graph = sym._lower()
        self._flags = dict(flags)
        variables = [id(n) for n in self._graph.nodes if n.op is None]
        self._arg_places = [variables.index(id(n)) for n in self._graph.arg_nodes]
        self._aux_places = [variables.index(id(n)) for n in self._graph.aux_nodes]
        self._names = sym.list_inputs()
        self._kernels: dict[bool, Kernel] = {}
        self._callback: Callable | None = None
        self._monitor_all = False
        checks = [n.op.get_attr("FCheck") for n in self._graph.steps]
        self._by_steps = self._graph.cut or any(
            check is not None and check(n.params) for check, n in zip(checks, self._graph.steps, strict=True))

    def __call__(self, *args: NDArray, out: Any = None, default_ctx: Any = None) -> NDArray | list[NDArray]:
        """Runs the graph.

        Args:
            args: arrays in the order of `sym.list_inputs()`; auxiliary states among them are updated in training.
            out: array, or list of arrays, to write the outputs to.
            default_ctx: context of a graph without inputs.

        Returns:
            The output, or a list of the outputs.

        Raises:
            MXNetError: the number of arrays, or a shape, does not fit.
            TypeError: an argument is no NDArray.
        """
        if len(args) != len(self._names):
            raise MXNetError(f"CachedOp takes {len(self._names)} arrays ({', '.join(self._names)}), got {len(args)}")
        for name, array in zip(self._names, args, strict=True):
            if not isinstance(array, NDArray):
                raise TypeError(f"CachedOp: {name} must be an NDArray, got {type(array).__name__}")
        if self._by_steps or self._callback is not None:
            results = self._run_by_steps(args, default_ctx)
        else:
            kernel = self._kernel(state.training)
            if state.recording and any(a._entry is not None for a in args):
                results = _record(self, kernel, args)
            else:
                ctx = args[0].context if args else default_ctx
                key = next_key(ctx, len(self._graph.steps)) if self._graph.random else ()
                results = invoke(kernel, args, key, None, ctx)
                results = results if isinstance(results, list) else [results]
        if out is not None:
            targets = out if isinstance(out, (list, tuple)) else [out]
            for target, result in zip(targets, results, strict=True):
                target._write_result(result)
            return out
        return results[0] if len(results) == 1 else results

    def _kernel(self, train: bool) -> Kernel:
        """The graph as one function of its inputs; the new auxiliary states follow the outputs in training."""
        if train not in self._kernels:
            graph, count, arg_places, aux_places = self._graph, len(self._names), self._arg_places, self._aux_places

            def fn(*values: Any) -> tuple:
                outputs, aux = graph.call([values[i] for i in arg_places], [values[i] for i in aux_places],
                                          values[count:], train)
                return (*outputs, *(aux if train else ()))
            self._kernels[train] = Kernel("CachedOp", fn, count, len(graph.outputs),
                                          wide=any(k.wide for k in graph.kernels(train)),
                                          mutated=tuple(aux_places) if train else ())
        return self._kernels[train]

    # ------------------------------------------------------------ call by call
    def _register_op_hook(self, callback: Callable[[str, str, NDArray], None], monitor_all: bool = False) -> None:
        """Has `callback(name, operator, array)` called with every operator's outputs (`monitor_all`: inputs too)."""
        self._callback, self._monitor_all = callback, monitor_all

    def _run_by_steps(self, arrays: Sequence[NDArray], default_ctx: Any) -> list[NDArray]:
        """Runs the operators one by one: with host operators among them, or somebody who wants to see them all."""
        graph, train = self._graph, state.training
        variables = [n for n in graph.nodes if n.op is None]
        values = {(id(node), 0): array for node, array in zip(variables, arrays, strict=True)}
        ctx = arrays[0].context if arrays else default_ctx
        kernels = graph.kernels_for([arrays[i] for i in self._arg_places], [arrays[i] for i in self._aux_places], train)
        for node, kernel in zip(graph.steps, kernels, strict=True):
            inputs = [values[id(n), i] for n, i in node.inputs]
            if self._monitor_all:
                self._show(node, node.input_names(), inputs)
            host = node.op.get_attr("FHost")
            try:
                results = host(node.params, inputs, ctx) if host is not None else \
                    invoke(kernel, inputs, tuple(node.params[n] for n in kernel.dynamic), None, ctx)
            except MXNetError as error:
                raise MXNetError(f"Error in operator {node.name}: {error}") from None
            results = results if isinstance(results, list) else [results]
            values.update({(id(node), i): result for i, result in enumerate(results)})
            if self._callback is not None:
                self._show(node, node.op.output_names(node.params), results)
        return [values[id(n), i] for n, i in graph.outputs]

    def _show(self, node: Any, names: Sequence[str], arrays: Sequence[NDArray]) -> None:
        for name, array in zip(names, arrays, strict=False):
            self._callback(f"{node.name}_{name}", node.op.name, array)


class _Value(Pending):
    """An output, or a new auxiliary state, of a recorded run that has not happened yet."""

    __slots__ = ("run",)

    def __init__(self, run: _Run, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self.run: _Run | None = run

    def force(self) -> None:
        """Runs the forward: somebody looks."""
        self.run.forward()


class _Run(list):
    """A recorded call: the values of its inputs (and the random key), which the tape holds as the node's arguments.

    Nothing is computed at first. If a backward comes, forward and backward are one program; if somebody looks at an
    output before that, the forward runs and keeps what the backward needs.
    """

    __slots__ = ("op", "train", "wide", "wanted", "values", "pull", "__weakref__")

    def __init__(self, op: CachedOp, kernel: Kernel, inputs: list[Any], wanted: tuple[bool, ...], train: bool) -> None:
        super().__init__(inputs)
        self.op, self.train, self.pull = op, train, None
        self.wide = kernel.wide or any(is_wide(v.dtype) for v in inputs[:kernel.num_arrays])
        self.wanted = tuple(wanted[i] for i in op._arg_places)
        self.values = [_Value(self, *spec) for spec in kernel.specs(inputs)]

    def _inputs(self) -> tuple[list[Any], list[Any], tuple]:
        op = self.op
        return [self[i] for i in op._arg_places], [self[i] for i in op._aux_places], tuple(self[len(op._names):])

    def _call(self, program: Callable, *args: Any) -> Any:
        try:
            with jax.enable_x64(self.wide):
                return program(*args)
        except MXNetError:
            raise
        except _USER_MISTAKES as error:
            raise mistake("CachedOp", self, error) from None

    def _settle(self, outputs: Sequence[Any], aux: Sequence[Any]) -> None:
        for value, result in zip(self.values, [*outputs, *(aux if self.train else ())], strict=True):
            value.value, value.run = result, None
        self.values = [(v.shape, v.dtype) for v in self.values]

    @property
    def done(self) -> bool:
        """Whether the outputs are there."""
        return not isinstance(self.values[0], _Value)

    def forward(self) -> None:
        """Computes the outputs, and what `backward` needs."""
        program = self.op._graph.residual(self.wanted, _mirror(), self.train)
        outputs, aux, self.pull = self._call(program, *self._inputs())
        self._settle(outputs, aux)

    def backward(self, heads: Sequence[Any]) -> list[Any]:
        """Gradients of the wanted arguments for the outputs' gradients (None: zero)."""
        graph = self.op._graph
        specs = self.values if self.done else [(v.shape, v.dtype) for v in self.values]
        with jax.enable_x64(self.wide):
            heads = [_head(h, *spec) for h, spec in zip(heads, specs, strict=False)]
        if self.done:
            return self._call(graph.pull(), self.pull, heads)
        program = graph.forward_backward(self.wanted, (False,) * sum(self.wanted), True, _mirror(), self.train)
        outputs, aux, grads = self._call(program, *self._inputs(), heads, [])
        self._settle(outputs, aux)
        return grads


def _head(given: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The gradient of an output as `jax.vjp` wants it."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return np.zeros(shape, jax.dtypes.float0)
    if given is None:
        return jnp.zeros(shape, dtype)
    given = given.get() if isinstance(given, Pending) else given
    return given if given.dtype == dtype else given.astype(dtype)


def _record(op: CachedOp, kernel: Kernel, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Notes a call on the tape; its results are pending."""
    from ..autograd import _tape
    ctx = arrays[0].context
    key = next_key(ctx, len(op._graph.steps)) if op._graph.random else ()
    entries = [a._entry for a in arrays]
    run = _Run(op, kernel, [*(a._read() for a in arrays), *key], tuple(e is not None for e in entries), state.training)
    for place, value in zip(kernel.mutated, run.values[kernel.num_outputs:], strict=True):
        arrays[place]._write(value)
    results = [wrap(value, ctx, type(arrays[0])) for value in run.values[:kernel.num_outputs]]
    parents = entries + [None] * len(key)
    outs = [(v.shape, v.dtype) for v in run.values[:kernel.num_outputs]]
    node = _tape.Node(kernel, run, parents, outs, ctx)
    saved = weakref.ref(run)  # the node's arguments hold it, and let it go after the backward

    def pull(slots: list[Any], create_graph: bool) -> list[Any]:
        if create_graph:
            return _tape._pull(_tape.Node(kernel, list(saved()), parents, outs, ctx), slots, True)
        run = saved()
        places = [place for place, wanted in zip(op._arg_places, run.wanted, strict=True) if wanted]
        found = dict(zip(places, run.backward(slots), strict=True))
        return [found.get(i) for i in range(len(parents))]
    node.pull = pull
    for i, result in enumerate(results):
        result._entry = (node, i)
    return results


def _mirror() -> bool:
    return os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0").lower() in ("1", "true")
