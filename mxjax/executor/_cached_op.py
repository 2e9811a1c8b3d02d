"""CachedOp: a graph that is called on arrays, compiled, and recorded as one node of the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import is_not
from typing import Any, Literal, NamedTuple

import numpy as np
from jax.core import Tracer

from .. import level
from .._random.streams import next_key, on_host, source
from .._support.bounded import Bounded
from .._xla.x64 import X64_DTYPES
from ..array.dense import NDArray
from ..base import MXNetError
from ..context import Context, accelerators, current_context
from ..eager.array_types import array_classes, wrap
from ..eager.deferred_call import DeferredCall, may_wait
from ..eager.dispatch import change, handed, invoke, together, waiting_value
from ..eager.modes import state
from ..eager.state_updates import StateUpdate, set_to
from ..eager.tape import Node, entries
from ..graph.control_flow import hosted, runners
from ..graph.lowering import Lowered, Touched
from ..graph.node import Node as GraphNode
from ..kernel.derivative import Derivative, derivative_of
from ..kernel.kernel import Kernel
from ..ops.names_of_2 import WRITTEN
from ..ops.params import np_dtype
from ._parts import Parts, alone
from ._steps import Kept, run_steps

__all__ = ["CachedOp"]


class RecordedRun(NamedTuple):
    """A recorded run for arguments of certain shapes and dtypes.

    derivative: the run; specs: specs of outputs and new auxiliary states; outs: specs of the
        outputs; x64: 64-bit mode.
    """

    derivative: Derivative
    specs: tuple
    outs: tuple
    x64: bool


class CachedOp:
    """A symbol as a function of NDArrays, which hybridized blocks run.

    by_steps: whether it always runs operator by operator.

    Args:
        sym: the symbol.
        flags: MXNet's memory and scheduling options as pairs; ignored, because XLA decides.

    Example:
        >>> a, b = mx.sym.var("a"), mx.sym.var("b")
        >>> double = mx.nd.CachedOp(2 * a + b)
        >>> double(mx.nd.ones((2,)), mx.nd.ones((2,))).asnumpy()
        array([3., 3.], dtype=float32)
    """

    def __init__(self, sym: Any, flags: Sequence[tuple[str, Any]] = ()) -> None:
        self._set(sym.lowered(), sym.numpy_semantics, flags)

    @classmethod
    def of_graph(cls, graph: Lowered, numpy_semantics: bool = False,
                 flags: Sequence[tuple[str, Any]] = ()) -> CachedOp:
        """Creates a CachedOp of a graph; with `numpy_semantics` its results are `mx.np.ndarray`s."""
        result = cls.__new__(cls)
        result._set(graph, numpy_semantics, flags)
        return result

    def _set(self, graph: Lowered, numpy_semantics: bool, flags: Sequence[tuple[str, Any]]) -> None:
        self._graph, self._np, self._flags = graph, numpy_semantics, dict(flags)
        self.drawing: list[Callable | None] | None = None  # the drawing of the last run, and its numbers
        self.drawn: tuple = ()
        self._forms = graph.forms()
        self._names = [n.name for n in graph.nodes if n.op is None]
        self._callback: Callable | None = None
        self._monitor_all = False
        checks = [n.op.get_attr("FCheck") for n in graph.steps]
        stored = [n.op.get_attr("FStored") for n in graph.steps]
        self.by_steps = graph.cut or len(checks) == 1 or any(  # a single operator is already compiled as such
            rule is not None and rule(n.params) for rules in (checks, stored)
            for rule, n in zip(rules, graph.steps, strict=True))
        self._looks_up = any(n.op.by_rows(n.params) for n in graph.steps)
        self._parts: dict[Any, Parts | None] = Bounded(16)
        self.cuts = 0  # number of graphs that contain this one
        self._uneven: dict[Any, bool] = Bounded(64)
        self._hosted: CachedOp | None = None
        self.kept: Kept = {} if self._flags.get("static_alloc") in (True, "True", "1") else None  # as in `step`

    def __call__(self, *args: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 default_ctx: Context | None = None, default_device: Context | None = None) -> NDArray | list[NDArray]:
        """Runs the graph.

        Args:
            args: arrays in the order of `sym.list_inputs()`; auxiliary states among them are updated in training.
            out: array, or list of arrays, to write the outputs to.
            default_ctx, default_device: context of a graph without inputs, under either name.

        Returns:
            The output, or a list of the outputs.

        Raises:
            MXNetError: the number of arrays, or a shape, does not fit.
            TypeError: an argument is not an NDArray.
        """
        if len(args) != len(self._names):
            args = tuple([array for array in args if array is not None])
        if len(args) != len(self._names):
            raise MXNetError(f"CachedOp expects {len(self._names)} arrays ({', '.join(self._names)}), got {len(args)}")
        for array in args:
            if not isinstance(array, NDArray):
                name = next(name for name, other in zip(self._names, args, strict=True) if other is array)
                raise TypeError(f"CachedOp: {name} must be an NDArray, got {type(array).__name__}")
        return handed("CachedOp", self.results(args, default_ctx or default_device), out)

    def results(self, args: Sequence[NDArray], default_ctx: Context | None, states: bool = True,
                bound: bool = False) -> list[NDArray]:
        """Computes the outputs, in one program if possible; `states`, `bound`: see `lazily`."""
        if accelerators and args:
            together("CachedOp", args)
        whole, recorded, by_rows = not self.by_steps and self._callback is None, False, False
        for array in args:
            if not array.dense:
                whole = False
            if array.entry is not None:
                recorded = True
                by_rows = by_rows or self._looks_up and array.entry[0].by_rows
        if self._graph.draws_by_value and on_host(args[0].chunk.ctx if args else default_ctx or current_context()):
            whole = False
        if self._graph.branches and self.uneven(args):
            return self.in_parts(args, default_ctx, states, bound)
        if whole and not (recorded and state.recording):
            return self.run(args, default_ctx, bound)
        results = self.lazily(args, state.training, None, states, bound) if whole and not by_rows else None
        return self.in_parts(args, default_ctx, states, bound) if results is None else results

    def uneven(self, arrays: Sequence[NDArray]) -> bool:
        """Returns whether a condition selects between results of different shapes for arrays like these."""
        if not self._graph.branches:
            return False
        key = tuple([a.shape for a in arrays])
        value = self._uneven.get(key)
        if value is None:
            value = self._uneven[key] = self._graph.uneven(dict(zip(self._names, key, strict=True)))
        return value

    @property
    def is_np_sym(self) -> bool:
        """Returns whether the graph is of `mx.sym.np`."""
        return self._np

    @property
    def kind(self) -> type:
        """The class of its results."""
        return self._kind()

    def specs(self, arrays: Sequence[NDArray]) -> Sequence[tuple]:
        """Returns shape and dtype of each output for arrays like these."""
        train = state.training and self._graph.modes
        kernel = self._kernel(train)
        values = [a.chunk.peek() if a.region is None else a.read() for a in arrays]
        return (self._inferred(values, kernel) or kernel.specs(values, True))[:kernel.num_outputs]

    @property
    def lowered(self) -> Lowered:
        """The graph."""
        return self._graph

    @property
    def fixed(self) -> list[tuple[int, float]]:
        """The inputs, by place, that a recorded run sets to a number."""
        return self._graph.touched((True,) * len(self._names)).fixed if self._graph.touches else []

    @property
    def inline_limit(self) -> int:
        """Number of operators up to which `autograd.get_symbol` inlines a recorded run."""
        return int(self._flags.get("inline_limit", 2))

    # ------------------------------------------------------------ as one program
    def _kernel(self, train: bool, without: Iterable[int] = ()) -> Kernel:
        """The graph as one function of its inputs; the new auxiliary states follow the outputs in training.

        Those of the numbers in `without` do not.
        """
        forms, without = self._forms, frozenset(without)
        kernel = forms.programs.get(("kernel", train, without))
        if kernel is None:
            changed = [k for k in range(len(forms.aux_places)) if k not in without] if train else []

            def fn(*values: Any) -> tuple:
                outputs, aux = forms.graph.call(*forms.split(values), train)
                return (*outputs, *[aux[k] for k in changed])

            def pullback(values: Sequence[Any], needs_grad: Sequence[bool],
                         once: bool) -> tuple[list[Any], Callable[..., Any]]:
                outputs, aux, pull = forms.graph.pullback(*forms.split(values), train, forms.split(needs_grad)[0], once)

                def of_all(out_grads: Sequence[Any]) -> list[Any]:
                    grads: list[Any] = [None] * len(values)
                    for place, grad in zip(forms.arg_places, pull(out_grads), strict=True):
                        grads[place] = grad
                    return grads
                return [*outputs, *[aux[k] for k in changed]], of_all
            kernel = forms.programs["kernel", train, without] = Kernel(
                "CachedOp", fn, forms.count, len(self._graph.outputs), symbolic=True, parts=True, pullback=pullback,
                x64=any(k.x64 for k in self._graph.kernels(train)),
                mutated=tuple([forms.aux_places[k] for k in changed]),
                constant=frozenset([forms.arg_places[i] for i in self._graph.constant(train)]),
                starts=any(k.starts for k in self._graph.kernels(train)))
        return kernel

    def run(self, arrays: Sequence[NDArray], default_ctx: Context | None, bound: bool = False) -> list[NDArray]:
        """Runs the graph immediately; `bound`: for an executor, which may need gradients later."""
        self._forms.graph = self._graph
        ctx = arrays[0].chunk.ctx if arrays else default_ctx or current_context()
        train = state.training and self._graph.modes
        if bound and self._graph.touches:
            _fix(arrays, self._graph.touched([a.entry is not None for a in arrays]).fixed)
        without = self._graph.updated_in_backward() if train and on_host(ctx) else ()  # there will be no backward pass
        results = invoke(self._kernel(train, without), arrays, self.next_key(ctx, arrays, train), None, ctx)
        results = results if isinstance(results, list) else [results]
        array_type = self._kind()
        return [result if type(result) is array_type else result.alias(array_type) for result in results]

    def _kind(self) -> type:
        return array_classes.numpy if self._np else array_classes.classic

    def next_key(self, ctx: Context, arrays: Sequence[NDArray], train: bool) -> tuple:
        """Returns the random arguments of the next run of these arrays.

        These are JAX's key and counter, or numbers from MXNet's generator.
        """
        if not self._graph.random:
            return ()
        self.drawing = None
        if on_host(ctx) and not any([isinstance(a.chunk.buffer, Tracer) for a in arrays]):
            places = (*self._forms.arg_places, *self._forms.aux_places)
            self.drawing = self._graph.drawing([arrays[i] for i in places], train)
        return self.draw(ctx, self.drawing)

    def draw(self, ctx: Context, drawing: list[Callable | None] | None) -> tuple:
        """Like `next_key`, for a known `drawing`."""
        if drawing is None:
            self.drawn = next_key(ctx, len(self._graph.steps))
            return self.drawn
        drawn: list[Any] = []
        for each in drawing:
            values = None if each is None else each(source)
            drawn += next_key(ctx) if values is None else [values]
        self.drawn = self._graph.packed(drawn)
        return self.drawn

    def lazily(self, arrays: Sequence[NDArray], train: bool, key: tuple | None, states: bool,
               bound: bool) -> list[NDArray] | None:
        """Records a run on the tape and returns its pending results; None if the graph cannot be one program.

        Args:
            arrays: inputs, of which at least one is part of a recorded graph.
            train: training mode.
            key: result of `next_key`; None: the next one.
            states: whether to update auxiliary states that change in the forward pass.
            bound: as in `run`.
        """
        graph, ctx = self._graph, arrays[0].chunk.ctx
        train = train and graph.modes
        if key is None:
            key = self.next_key(ctx, arrays, train)
        parents = entries(arrays)
        self._forms.graph = graph
        touched = _UNTOUCHED
        if graph.touches:
            touched = graph.touched(tuple(map(is_not, parents, repeat(None))))
            _fix(arrays, touched.fixed if bound else self.fixed)
        places, count = self._forms.aux_places, len(graph.outputs)
        in_backward = graph.updated_in_backward() if train and graph.touches and on_host(ctx) else ()
        now = [k for k in range(len(places)) if k not in in_backward] if train and states else ()
        if now:
            def step(values: list[Any]) -> tuple | None:
                begun = self._begin([*values, *key], parents, train, ctx)
                if begun is not None:
                    for k in now:
                        arrays[places[k]].write(begun[0].results[count + k])
                return begun
            begun = change([arrays[places[k]] for k in now], arrays, step, may_wait)
        else:
            values = []
            for array in arrays:
                buffer = array.chunk.buffer if array.region is None else None
                values.append(waiting_value(array, may_wait) if buffer is None else buffer)
            begun = self._begin([*values, *key], parents, train, ctx)
        if begun is None:
            return None
        lazy, plan = begun
        if key:
            parents += [None] * len(key)
        node = Node(None, (), parents, plan.outs, ctx, None, lazy)
        if in_backward and touched.states:
            node.state_update = state_update = StateUpdate()
            for k, decay in touched.states.items():
                state_update.add(arrays[places[k]], lazy[places[k]], lazy.results[count + k], decay)
        results, array_type = [], array_classes.numpy if self._np else array_classes.classic
        for i in range(len(plan.outs)):
            result = wrap(lazy.results[i], ctx, array_type)
            result.entry = (node, i)
            results.append(result)
        return results

    def _begin(self, values: list[Any], parents: Sequence[Any], train: bool,
               ctx: Context) -> tuple[DeferredCall, RecordedRun] | None:
        """Returns the run of these values; None if it cannot be one program, because JAX ignores integers in the
        backward pass."""
        needs_grad = tuple(map(is_not, parents, repeat(None)))
        signature: list[Any] = [train, needs_grad]
        for value in values:
            signature.append(getattr(value, "aval", None) or (value.shape, value.dtype))
        plan: RecordedRun | Literal[False] | None = self._forms.plans.get(tuple(signature))
        if plan is None:
            plan = self._forms.plans[tuple(signature)] = self._plan(values, needs_grad, train)
        if plan is False:
            return None
        return DeferredCall(plan.derivative, values, plan.specs, ctx, plan.x64, self), plan

    def _plan(self, values: list[Any], needs_grad: tuple[bool, ...], train: bool) -> RecordedRun | Literal[False]:
        count = len(self._names)
        if any(w and v.dtype.kind in "biu" for w, v in zip(needs_grad, values[:count], strict=True)):
            return False
        kernel = self._kernel(train)
        specs = self._inferred(values, kernel) or kernel.specs(values, True)
        x64 = kernel.x64 or any(v.dtype in X64_DTYPES for v in values[:count])
        return RecordedRun(self.derivative(needs_grad, train), specs, specs[:kernel.num_outputs], x64)

    def _inferred(self, values: Sequence[Any], kernel: Kernel) -> tuple | None:
        """Returns shapes and dtypes of the kernel's results by the operators' rules; None if these are incomplete.
        """
        graph, forms = self._graph, self._forms
        if any(n.subgraphs for n in graph.steps):
            return None
        variables = dict(zip(graph.args + graph.aux, [values[i] for i in (*forms.arg_places, *forms.aux_places)],
                             strict=True))
        try:
            shapes = graph.inference.shapes({name: tuple(v.shape) for name, v in variables.items()})
            types = graph.inference.types({name: np.dtype(v.dtype).name for name, v in variables.items()})
        except MXNetError:  # a trace raises the error
            return None
        specs = []
        for node, i in graph.outputs:
            shape, dtype = shapes[id(node), i], types[id(node), i]
            if shape is None or None in shape or dtype is None:
                return None
            specs.append((tuple(shape), np_dtype(dtype)))
        specs += [(tuple(values[place].shape), np.dtype(values[place].dtype)) for place in kernel.mutated]
        return tuple(specs)

    def derivative(self, needs_grad: Sequence[bool], train: bool) -> Derivative:
        """Returns the derivative of runs with respect to these variables; auxiliary states have none."""
        places = self._forms.arg_places
        return derivative_of(self._kernel(train), tuple([w and i in places for i, w in enumerate(needs_grad)]))

    # ------------------------------------------------------------ in parts
    def in_parts(self, arrays: Sequence[NDArray], default_ctx: Any, states: bool, bound: bool) -> list[NDArray]:
        """Computes the outputs in several programs, separated by operators that must be called individually.

        These are operators on sparse arrays, and row look-ups with row_sparse gradients, so that no
        gradient becomes dense. If such an operator returns a sparse array, the part that uses it is
        split in turn.
        """
        if self.uneven(arrays):
            if self._hosted is None:
                graph = Lowered(hosted(self._graph.outputs))
                self._hosted = CachedOp.of_graph(graph, self._np, list(self._flags.items()))
            self._hosted.kept = self.kept
            self._hosted._callback, self._hosted._monitor_all = self._callback, self._monitor_all
            return self._hosted.in_parts(arrays, default_ctx, states, bound)
        ctx = arrays[0].context if arrays else default_ctx
        parts = self._parts_for(arrays) if self._callback is None else None
        results = self._step_by_step(arrays, ctx) if parts is None else parts.run(arrays, ctx, states, bound)
        array_type = self._kind()
        return [r if type(r) is array_type or not r.dense else r.alias(array_type) for r in results]

    def _parts_for(self, arrays: Sequence[NDArray]) -> Parts | None:
        """Returns how the graph is split for arrays like these; None: no two operators could share a program.
        """
        graph, places = self._graph, (self._forms.arg_places, self._forms.aux_places)
        sparse = tuple([not a.dense for a in arrays])
        rows = tuple([a.entry is not None and a.entry[0].by_rows for a in arrays]) if self._looks_up else ()
        sizes = tuple([(a.shape, a.dtype) for a in arrays]) if graph.unsized else ()
        key = sparse, rows, sizes
        parts = self._parts.get(key)
        if parts is None and key not in self._parts:
            variables = [id(n) for n in graph.nodes if n.op is None]
            stored = {n for n, is_sparse in zip(variables, sparse, strict=True) if is_sparse}
            tables = {n for n, is_sparse in zip(variables, rows, strict=False) if is_sparse}
            apart = {id(n) for n in graph.steps if alone(n) or any(id(source) in stored for source, _ in n.inputs) or
                     n.op.by_rows(n.params) and id(n.inputs[1][0]) in tables}
            shapes = graph.shapes_for(*[[arrays[i] for i in group] for group in places])
            can = 0 < len(apart) < len(graph.steps) and self.cuts < _MOST_CUTS
            self._parts[key] = parts = Parts(graph, apart, shapes, self._part, self.kept) if can else None
        return parts

    def _part(self, graph: Lowered) -> Callable[..., Sequence[NDArray]]:
        """Returns the function that runs a part of the graph."""
        part = CachedOp.of_graph(graph, self._np, list(self._flags.items()))
        part.cuts, part.kept = self.cuts + 1, self.kept
        return part.results

    # ------------------------------------------------------------ call by call
    def _register_op_hook(self, callback: Callable[[Any, Any, NDArray], None], monitor_all: bool = False) -> None:
        """Makes every run call `callback(name, operator, array)` for the outputs of each operator (`monitor_all`:
        inputs, too)."""
        self._callback, self._monitor_all = callback, monitor_all

    def _step_by_step(self, arrays: Sequence[NDArray], ctx: Any) -> list[NDArray]:
        """Runs the operators one by one, for a monitor or if they cannot share a program."""
        return run_steps(self._graph, arrays, state.training, lambda node: ctx, self._observer(),
                         kept=self.kept)

    def _observer(self) -> Callable[..., None] | None:
        callback, monitor_all = self._callback, self._monitor_all
        if callback is None:
            return None

        in_bytes = level.current() == 1  # MXNet 1.9.1 passes the bytes of C, MXNet 2 decodes them
        renamed = {} if in_bytes else WRITTEN

        def show(node: GraphNode, names: Sequence[str], arrays: Sequence[NDArray]) -> None:
            for name, array in zip(names, arrays, strict=False):
                texts = f"{node.name}_{name}", str(renamed.get(node.op.name, node.op.name))
                callback(*[text.encode() for text in texts] if in_bytes else texts, array)

        def observe(node: GraphNode, inputs: Sequence[NDArray], outputs: Sequence[NDArray] | None) -> None:
            if outputs is not None:
                show(node, node.op.output_names(node.params), outputs)
            elif monitor_all:
                show(node, node.seen_names(), inputs)
        return observe


_MOST_CUTS = 8  # an operator on a sparse result of another one, and so on: the rest runs step by step
_UNTOUCHED = Touched({}, [])


def _fix(arrays: Sequence[NDArray], fixed: list[tuple[int, float]]) -> None:
    """Sets inputs, by place, to the constants that operators require."""
    for place, number in fixed:
        set_to(arrays[place], number)


def _as_function(graph: Lowered) -> Callable[..., list[NDArray]]:
    """A graph as a function of arrays of either namespace that returns a list."""
    ops: dict[bool, CachedOp] = {}

    def run(*arrays: NDArray) -> list[NDArray]:
        is_numpy = bool(arrays) and isinstance(arrays[0], array_classes.numpy)
        if is_numpy not in ops:
            ops[is_numpy] = CachedOp.of_graph(graph, is_numpy)
        result = ops[is_numpy](*arrays)
        return result if isinstance(result, list) else [result]
    return run


runners.graph = _as_function
