"""CachedOp: a graph that is called on arrays, compiled, and recorded on the tape as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..ops.kernel import Kernel, prepare
from ..random import next_key
from ._invoke import invoke, state
from ._recorded import record
from .ndarray import NDArray

if TYPE_CHECKING:
    from ..symbol import Symbol

__all__ = ["CachedOp"]


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
        self._np = type(sym).__name__ == "_Symbol"
        self._flags = dict(flags)
        self._forms = self._graph.forms()
        self._names = sym.list_inputs()
        self._callback: Callable | None = None
        self._monitor_all = False
        checks = [n.op.get_attr("FCheck") for n in self._graph.steps]
        self._by_steps = self._graph.cut or len(checks) == 1 or any(  # one operator is compiled as such already
            check is not None and check(n.params) for check, n in zip(checks, self._graph.steps, strict=True))
        self._lookups = [n for n in self._graph.steps if n.op.by_rows(n.params) and
                         all(source.op is None for source, _ in n.inputs)]
        self._behind: tuple[list, CachedOp, list[int]] | None = None

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
        if self._by_steps or self._callback is not None or not all([a._plain for a in args]) or state.recording and any(
                a._entry is not None and a._chunk.dtype.kind in "biu" for a in args):  # JAX passes by integers
            results = self._run_by_steps(args, default_ctx)
        elif self._lookups and state.recording and any(a._entry is not None and a._entry[0].by_rows for a in args):
            results = self._run_behind_lookups(args, default_ctx)
        else:
            self._forms.graph = self._graph
            kernel = self._kernel(state.training)
            if state.recording and any(a._entry is not None for a in args):
                results = record(self, kernel, args)
            else:
                ctx = args[0].context if args else default_ctx
                key = next_key(ctx, len(self._graph.steps)) if self._graph.random else ()
                results = invoke(kernel, args, key, None, ctx)
                results = results if isinstance(results, list) else [results]
        if self._np:
            results = [result.as_np_ndarray() for result in results]
        elif any(type(a) is not NDArray for a in args):
            results = [result.as_nd_ndarray() for result in results]
        if out is not None:
            targets = out if isinstance(out, (list, tuple)) else [out]
            for target, result in zip(targets, results, strict=True):
                target._write_result(result)
            return out
        return results[0] if len(results) == 1 else results

    @property
    def is_np_sym(self) -> bool:
        """Whether the graph is of `mx.sym.np`."""
        return self._np

    def _kernel(self, train: bool) -> Kernel:
        """The graph as one function of its inputs; the new auxiliary states follow the outputs in training."""
        forms = self._forms
        kernel = forms.programs.get(("kernel", train))
        if kernel is None:
            def fn(*values: Any) -> tuple:
                outputs, aux = forms.graph.call(*forms.split(values), train)
                return (*outputs, *(aux if train else ()))
            kernel = forms.programs["kernel", train] = Kernel(
                "CachedOp", fn, forms.count, len(self._graph.outputs),
                wide=any(k.wide for k in self._graph.kernels(train)), mutated=tuple(forms.aux_places) if train else ())
        return kernel

    # ------------------------------------------------------------ gradients by rows
    def _run_behind_lookups(self, arrays: Sequence[NDArray], default_ctx: Any) -> list[NDArray]:
        """Looks rows up in tables whose gradients are row_sparse, then runs what is behind: no gradient is dense."""
        if self._behind is None:
            self._behind = self._split()
        lookups, rest, places = self._behind
        values = list(arrays)
        for node, sources in lookups:
            kernel = prepare(node.op, node.params, len(sources), state.training)
            values.append(invoke(kernel, [arrays[i] for i in sources]))
        results = rest(*[values[i] for i in places], default_ctx=default_ctx)
        return results if isinstance(results, list) else [results]

    def _split(self) -> tuple[list[tuple[Any, list[int]]], CachedOp, list[int]]:
        """The lookups, each with the places of its inputs; the rest; where its inputs are: our inputs, then rows."""
        from ..symbol import Symbol
        from ..symbol._node import Node
        from ..symbol._rewrite import rewrite
        rows = {id(node): Node(None, node.name + "_rows", {}) for node in self._lookups}
        rest = Symbol(rewrite(self._graph.outputs, lambda node, _: [(rows.get(id(node), node), 0)]
                              if node.op is None or id(node) in rows else None))
        variables = [n for n in self._graph.nodes if n.op is None]
        lookups = [(node, [variables.index(source) for source, _ in node.inputs]) for node in self._lookups]
        behind = CachedOp(rest, list(self._flags.items()))
        offered = variables + list(rows.values())
        return lookups, behind, [offered.index(n) for n in behind._graph.nodes if n.op is None]

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
        kernels = graph.kernels_for(*self._forms.split(arrays)[:2], train)
        for node, kernel in zip(graph.steps, kernels, strict=True):
            inputs = [values[id(n), i] for n, i in node.inputs]
            if self._monitor_all:
                self._show(node, node.seen_names(), inputs)
            host = node.op.get_attr("FHost")
            try:
                results = host(node.params, inputs, ctx) if host is not None else \
                    invoke(kernel, inputs, tuple(node.params[n] for n in kernel.dynamic), None, ctx)
            except MXNetError as error:
                raise type(error)(f"Error in operator {node.name}: {error}") from None
            results = results if isinstance(results, list) else [results]
            values.update({(id(node), i): result for i, result in enumerate(results)})
            if self._callback is not None:
                self._show(node, node.op.output_names(node.params), results)
        return [values[id(n), i] for n, i in graph.outputs]

    def _show(self, node: Any, names: Sequence[str], arrays: Sequence[NDArray]) -> None:
        for name, array in zip(names, arrays, strict=False):
            self._callback(f"{node.name}_{name}", node.op.name, array)
