"""Executor: a symbol bound to arrays, run as compiled XLA programs.

An executor marks its arguments and records the graph on the tape, like a hybridized block:
`forward(is_train=True)` is deferred, and if `backward` follows, both run as one program. Graphs
that cannot be one program (custom operators, sparse arrays) run as several, with calls in between.
With several devices or a monitor they run operator by operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import jax
import numpy as np

from .. import level
from .._random.streams import on_host
from .._support import settings
from .._xla.x64 import x64_mode
from ..array.creation import empty, zeros_later
from ..array.dense import NDArray
from ..base import MXNetError, NotOneOf, Precondition
from ..context import Context
from ..eager.array_types import wrap
from ..eager.backward import backward as walk_back_from
from ..eager.backward import is_read
from ..eager.chunk import point
from ..eager.host_work import push
from ..eager.modes import state
from ..eager.tape import mark
from ..graph.lowering import Lowered
from ..graph.merging import eliminate_common
from ..graph.node import Node, complete, topological
from ..ops.params import np_dtype
from ._backward_reads import reads
from ._cached_op import CachedOp
from ._steps import run_steps
from ._storage import gradients_by_rows, storage_type

__all__ = ["Executor", "GradReq"]

_REQS = ("null", "write", "add")
GradReq: TypeAlias = str | Sequence[str] | Mapping[str, str]  # one for all arguments, one per argument, or some by name


class Executor:
    """A symbol with arrays for its arguments, gradients and auxiliary states. Created by `Symbol.bind`.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: the arrays, in the order of `list_arguments` and
            `list_auxiliary_states`; a gradient is None if its grad_req is "null".
        outputs: the outputs; later forward passes write to the same arrays.
    """

    def __init__(self, handle: Any, symbol: Any, ctx: Context, grad_req: GradReq,
                 group2ctx: dict[str, Context] | None) -> None:
        self._symbol, self._ctx, self._grad_req, self._group2ctx = symbol, ctx, grad_req, group2ctx or {}
        self._graph: Lowered = symbol.lowered()
        self.arg_arrays, self.grad_arrays, self.aux_arrays, self._reqs = handle
        self._sparse = not all(a is None or a.dense for a in (*self.arg_arrays, *self.grad_arrays))
        self._needs_grad = tuple(req != "null" and grad is not None
                                 for req, grad in zip(self._reqs, self.grad_arrays, strict=True))
        self._callback: Callable | None = None
        self._monitor_all = False
        self._merges = settings.ELIMINATE_COMMON_EXPR()
        self._op = CachedOp(symbol)
        self._op.kept = {}
        self._trains = any(self._needs_grad)
        # the last forward: its mode, random key, outputs on the tape, whether it failed
        self._train: bool | None = None
        self._key: tuple | None = None
        self._results: list[NDArray] | None = None
        self._failed = False
        self._marked: list[NDArray] | None = None
        self._whole: bool | None = None  # whether the graph is one program; None: not known yet
        self._check_devices()
        self.outputs: list[NDArray] = self._new_outputs()

    # ------------------------------------------------------------ making
    @classmethod
    def of_arrays(cls, symbol: Any, ctx: Context, arrays: Sequence[NDArray], grads: Sequence[NDArray | None],
                  grad_req: GradReq, aux: Sequence[NDArray], group2ctx: dict[str, Context] | None) -> Executor:
        """Creates an executor that uses these arrays, for `Symbol.bind`; not in MXNet."""
        names = symbol.list_arguments()
        return cls((list(arrays), list(grads), list(aux), _requests(grad_req, names, grads)), symbol, ctx, grad_req,
                   group2ctx)

    @classmethod
    def of_shapes(cls, symbol: Any, ctx: Context, grad_req: GradReq, types: dict[str, Any], stypes: dict[str, str],
                  group2ctx: dict[str, Context] | None, shared_names: Sequence[str] | None,
                  shared_exec: Executor | None, shared_buffer: dict[str, NDArray] | None,
                  shapes: dict[str, Any]) -> Executor:
        """Creates an executor with new arrays of these shapes, for `Symbol.simple_bind`; not in MXNet."""
        graph = symbol.lowered()
        known_types = {k: np_dtype(v).name for k, v in types.items() if v is not None}
        arg_shapes, _, aux_shapes = symbol._infer_shape((), shapes, known_types)
        for name, shape in zip(graph.args + graph.aux, arg_shapes + aux_shapes, strict=True):
            if not complete(shape):
                raise MXNetError(f"simple_bind: the shape of {name} cannot be inferred from "
                                 f"{', '.join(f'{k}={v}' for k, v in shapes.items()) or 'nothing'}; known so far: "
                                 f"{shape}")
        result = graph.inference.types(known_types)
        reqs = _requests(grad_req, graph.args, None)
        contexts = _variable_contexts(symbol, ctx, group2ctx)
        buffered = set(graph.args) - set(shared_names or ())

        def make(node: Node, shape: tuple, shareable: bool) -> NDArray:
            name, dtype = node.name, result[id(node), 0] or "float32"
            stype = storage_type(node, stypes)
            if shareable and shared_exec is not None and name in shared_exec.arg_dict:
                old = shared_exec.arg_dict[name]
                if old.shape == shape and old.dtype == np_dtype(dtype).type:
                    return old
            if shared_buffer is not None and name in buffered and stype in (None, "default"):
                old = shared_buffer.get(name)
                if old is not None and old.size >= math.prod(shape) and old.dtype == np_dtype(dtype).type:
                    return old.view_at(0, shape) if old.shape != shape else old
                array = empty(shape, contexts.get(name, ctx), dtype)
                shared_buffer[name] = array
                return array
            return empty(shape, contexts.get(name, ctx), dtype, stype)
        arrays = [make(n, s, shared_names is None or n.name in shared_names)
                  for n, s in zip(graph.arg_nodes, arg_shapes, strict=True)]
        aux = [make(n, s, False) if shared_exec is None or n.name not in shared_exec.aux_dict
               else shared_exec.aux_dict[n.name] for n, s in zip(graph.aux_nodes, aux_shapes, strict=True)]
        by_rows = gradients_by_rows(graph, stypes)
        grads = [None if r == "null" else empty(a.shape, a.context, a.dtype, "row_sparse" if id(n) in by_rows else None)
                 for n, a, r in zip(graph.arg_nodes, arrays, reqs, strict=True)]
        if shared_exec is not None:
            for i, (name, array) in enumerate(zip(graph.args, grads, strict=True)):
                old = shared_exec.grad_dict.get(name)
                if array is not None and old is not None and old.shape == array.shape and \
                        (shared_names is None or name in shared_names):
                    grads[i] = old
        return cls((arrays, grads, aux, reqs), symbol, ctx, grad_req, group2ctx)

    def _check_devices(self) -> None:
        """Raises MXNetError if an array is on another context than the executor (without group2ctx)."""
        if self._group2ctx:
            return
        for name, array in zip(self._graph.args, self.arg_arrays, strict=True):
            if array.context.jax_device != self._ctx.jax_device:
                raise MXNetError(f"bind: argument {name} is on {array.context}, the executor on {self._ctx}")

    def _new_outputs(self) -> list[NDArray]:
        """Returns output arrays if their shapes can be inferred without running the graph."""
        shapes = {n: a.shape for n, a in zip(self._graph.args + self._graph.aux, self.arg_arrays + self.aux_arrays,
                                             strict=True)}
        types = {n: np_dtype(a.dtype).name for n, a in zip(self._graph.args + self._graph.aux,
                                                           self.arg_arrays + self.aux_arrays, strict=True)}
        result = self._graph.inference.shapes(shapes, types)
        dtypes = self._graph.inference.types(types)
        outputs = []
        for node, index in self._symbol.handle:
            shape = result[id(node), index]
            shape = (0,) if shape is None or None in shape else shape
            outputs.append(self._as_output(zeros_later(cast(tuple[int, ...], shape), self._place(node),
                                                       dtypes[id(node), index] or "float32")))
        return outputs

    def _as_output(self, array: NDArray) -> NDArray:
        """Returns the array in the class of outputs: in MXNet 2, `mx.np.ndarray` for symbols with NumPy semantics."""
        return array.as_np_ndarray() if level.current() == 2 and self._symbol.numpy_semantics else array

    # ------------------------------------------------------------ arrays by name
    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """Arguments by name.

        Raises:
            ValueError: two arguments have the same name.
        """
        return _by_name(self._graph.args, self.arg_arrays)

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients by argument name.

        Raises:
            ValueError: two arguments have the same name.
        """
        return _by_name(self._graph.args, self.grad_arrays)

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """Auxiliary states by name.

        Raises:
            ValueError: two states have the same name.
        """
        return _by_name(self._graph.aux, self.aux_arrays)

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name.

        Raises:
            ValueError: two outputs have the same name.
        """
        return _by_name(self._symbol.list_outputs(), self.outputs)

    # ------------------------------------------------------------ running
    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Computes the outputs; the computation is deferred until an output is read.

        Args:
            is_train: training mode; needed before `backward`.
            kwargs: new values of arguments by name.

        Raises:
            TypeError, ValueError: a name is unknown, or a value does not fit.
        """
        if kwargs:
            self._load(kwargs)
        self._train, self._key, self._failed = is_train, None, False
        # otherwise a backward pass would repeat the forward pass, as in MXNet
        if self._whole is None:
            self._whole = self._one_program
        results = self._forward((is_train or self._graph.random) and self._trains)
        targets, values = [], []
        for i, value in enumerate(results):
            target, buffer = self.outputs[i].chunk, value.chunk.buffer if value.region is None else value.read()
            if buffer is None:
                buffer = value.chunk.peek()
            old = target.buffer
            if old is None:
                old = target.peek()
            if old.shape != buffer.shape or old.dtype != buffer.dtype or not (value.dense and self.outputs[i].dense):
                self.outputs[i] = self._as_output(value.detach())
                continue
            target.ctx = value.chunk.ctx
            targets.append(target)
            values.append(buffer)
        point(targets, values)
        return self.outputs

    @property
    def _one_program(self) -> bool:
        """Returns whether the whole graph is one XLA program; a single operator is called directly."""
        return not (self._op.by_steps or self._graph.checks or self._callback is not None or self._group2ctx or
                    self._sparse or self._graph.draws_by_value and on_host(self._ctx) or
                    self._op.uneven(self._handles()))

    def _forward(self, recording: bool, states: bool = True) -> list[NDArray]:
        """Runs the graph; if it is recorded, a backward pass starts at `_results`."""
        handles, results, train = self._marked, None, bool(self._train)
        if handles is None or self._sparse:
            handles = self._handles()
        before = state.recording, state.training
        state.recording, state.training = recording, train
        try:
            if self._whole:
                if recording:
                    if self._key is None and self._graph.random:
                        self._key = self._op.next_key(self._ctx, handles, train and self._graph.modes)
                    results = self._op.lazily(handles, train, self._key or (), states, bound=True)
                else:
                    results = self._op.run(handles, self._ctx, bound=True)
            if results is None:
                results = self._forward_by_steps(handles, states)
        finally:
            state.recording, state.training = before
        self._results = results if recording else None
        return results

    def _handles(self) -> list[NDArray]:
        """Returns the arrays of the variables in the graph's order, marked for gradients.

        They are created again if an array is sparse, because its memory is replaced when it changes.
        """
        places = {}
        for i, node in enumerate(self._graph.arg_nodes):
            places[id(node)] = self.arg_arrays[i].detach()
            if self._needs_grad[i]:
                mark(places[id(node)], self.grad_arrays[i], self._reqs[i])
        for node, array in zip(self._graph.aux_nodes, self.aux_arrays, strict=True):
            places[id(node)] = array.detach()
        self._marked = [places[id(n)] for n in self._graph.nodes if n.op is None]
        return self._marked

    def _forward_by_steps(self, handles: Sequence[NDArray], states: bool) -> list[NDArray]:
        """Runs the graph in parts, or call by call with several devices or a monitor."""
        try:
            if self._callback is None and not self._group2ctx:
                return self._op.in_parts(handles, self._ctx, states, bound=True)
            return run_steps(self._graph, handles, bool(self._train), self._place, self._observer(),
                             bool(self._group2ctx), self._op.kept)
        except MXNetError as error:
            if not self._graph.checks:
                raise
            return self._fail(error)

    def _place(self, node: Node) -> Context:
        group = node.attrs.get("__ctx_group__")
        return self._ctx if group is None else self._group2ctx.get(group, self._ctx)

    def _fail(self, failure: Exception) -> list[NDArray]:
        """Returns the outputs of a run that is known to fail: reading one raises the error."""
        def work(_: list) -> Sequence[Any]:
            raise failure
        self._failed = True
        return [wrap(value, self._ctx) for value in
                push(work, [], [(o.shape, np_dtype(o.dtype)) for o in self.outputs], name="executor")]

    def _observer(self) -> Any:
        """Returns an observer that shows the monitor a node's inputs, outputs and gradients."""
        callback, monitor_all = self._callback, self._monitor_all
        if callback is None:
            return None

        def tell(name: str, array: NDArray) -> None:
            callback(name.encode(), array)  # C calls MXNet's callbacks, with strings as bytes

        def observe(node: Node, inputs: Sequence[NDArray], outputs: Sequence[NDArray] | None) -> None:
            if outputs is None:
                if monitor_all:
                    for (source, _), name, value in zip(node.inputs, node.seen_names(), inputs, strict=True):
                        for label in [source.name] * (source.op is None) + [f"{node.name}_{name}"]:
                            tell(label, value.detach())
                return
            for name, result in zip(node.output_names(), outputs, strict=False):
                tell(name, result.detach())
            if outputs[0].entry is not None:
                outputs[0].entry[0].watch = self._watcher(node, inputs, outputs, tell)
        return observe

    def _watcher(self, node: Node, inputs: Sequence[NDArray], outputs: Sequence[NDArray],
                 tell: Callable[[str, NDArray], Any]) -> Callable[..., None]:
        """Shows the monitor a node's gradients as outputs of its backward pass; zeros if none is requested."""
        monitor_all, ctx = self._monitor_all, self._place(node)
        states = set(node.mutated())
        values, arrays = [a.detach() for a in outputs], [a.detach() for a in inputs]

        def watch(out_grads: Sequence[Any], grads: Sequence[Any]) -> None:
            out_grads = [empty(array.shape, ctx, array.dtype) if out_grad is None else wrap(out_grad, ctx)
                         for array, out_grad in zip(values, out_grads, strict=False)]
            for name, value in reads(node, out_grads, arrays, values) if monitor_all else ():
                tell(name, empty((1,), ctx) if value is None else value)
            differentiated = [i for i in range(len(inputs)) if i not in states]
            for i, name in zip(differentiated, node.gradient_names(), strict=True):
                grad = grads[i] if i < len(grads) else None
                tell(name, empty(inputs[i].shape, ctx, inputs[i].dtype) if grad is None else wrap(grad, ctx))
        return watch

    def _load(self, values: dict[str, Any]) -> None:
        arrays = self.arg_dict
        for name, value in values.items():
            if not isinstance(value, (NDArray, np.ndarray)):
                raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
            if name not in arrays:
                raise TypeError(f"Unknown argument {name}")
            if arrays[name].shape != value.shape:
                raise ValueError(f"Shape not match! Argument {name}, need: {arrays[name].shape}, received: "
                                 f"{value.shape}")
            arrays[name][:] = value

    def backward(self, out_grads: NDArray | Sequence[NDArray] | None = None, is_train: bool = True) -> None:
        """Computes the gradients of the arguments and writes or adds them to `grad_arrays`.

        Args:
            out_grads: gradient of each output (an NDArray, a list, or a dictionary by output name);
                not needed if the outputs are losses.
            is_train: training mode of the forward pass, if it has not run.
        """
        if self._train is None:
            self.forward(is_train)
        if out_grads is None:
            grads = None
        elif isinstance(out_grads, NDArray):
            grads = [out_grads]
        elif isinstance(out_grads, dict):
            grads = [out_grads[n] for n in self._symbol.list_outputs()]
        else:
            grads = list(out_grads)
        grads = grads or None
        for grad in grads or ():
            if not isinstance(grad, NDArray):
                raise TypeError("inputs must be NDArray")
        if self._failed or not self._trains:
            return
        results = self._forward(recording=True, states=False) if self._results is None else self._results
        self._results = None
        recorded, cotangents = [], []
        for i, result in enumerate(results):
            if result.entry is None:
                continue
            grad = None
            if grads is not None and i < len(grads):  # additional ones are ignored, as in MXNet
                grad = grads[i].as_in_context(result.chunk.ctx)
            elif grads is not None and is_read(*result.entry):
                raise MXNetError(f"backward: {len(grads)} head gradients for {len(self.outputs)} outputs")
            recorded.append(result)
            cotangents.append(grad)
        if recorded:
            walk_back_from(recorded, cotangents)

    def copy_params_from(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copies parameters into the arrays.

        Raises:
            ValueError: a name is not an argument (or auxiliary state), unless `allow_extra_params`
                is set.
        """
        for source, arrays, noun in ((arg_params, self.arg_dict, "arguments"),
                                    (aux_params or {}, self.aux_dict, "auxiliary states")):
            for name, value in source.items():
                if name in arrays:
                    value.astype(arrays[name].dtype, copy=False).copyto(arrays[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {noun}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """Returns an executor for other input shapes that shares this one's parameters.

        Args:
            partial_shaping: allow arguments that are not named to change their shapes, too.
            allow_up_sizing: allow arrays to grow.
            kwargs: new shapes by name.

        Raises:
            ValueError, RuntimeError: a shape changes or grows without permission.
        """
        arg_shapes, _, aux_shapes = self._symbol.infer_shape(**kwargs)
        if arg_shapes is None:
            raise ValueError("Insufficient argument shapes provided.")

        def fitted(name: str, old: NDArray | None, shape: tuple, what: str) -> NDArray | None:
            if old is None or old.shape == shape:
                return old
            if not partial_shaping and name not in kwargs:
                raise Precondition(f"reshape: {what}{name}, which was not named, changes from {old.shape} to "
                                   f"{shape}, so it could not be shared; allow that with partial_shaping=True")
            if math.prod(shape) > old.size:
                if not allow_up_sizing:
                    raise Precondition(f"reshape: {what}{name} would grow from {old.shape} to {shape}; bind the "
                                       "larger shape first, or allow new arrays with allow_up_sizing=True")
                return empty(shape, old.context, old.dtype)
            return old.view_at(0, shape)
        args = [fitted(n, a, s, "arg:") for n, a, s in zip(self._graph.args, self.arg_arrays, arg_shapes, strict=True)]
        grads = [fitted(n, g, s, "grad:") for n, g, s in
                 zip(self._graph.args, self.grad_arrays, arg_shapes, strict=True)]
        aux = [fitted(n, a, s, "aux:") for n, a, s in zip(self._graph.aux, self.aux_arrays, aux_shapes, strict=True)]
        other = Executor((args, grads, aux, self._reqs), self._symbol, self._ctx, self._grad_req, self._group2ctx)
        other.set_monitor_callback(self._callback, self._monitor_all)
        return other

    def set_monitor_callback(self, callback: Callable[[bytes, NDArray], Any] | None, monitor_all: bool = False) -> None:
        """Calls `callback(name, array)` with every output (`monitor_all`: and input) of every operator.

        The name arrives as bytes, as in MXNet: `mx.base.py_str(name)` is its text.

        Raises:
            TypeError: the callback is not callable.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"a monitor callback must be callable, got {type(callback).__name__}")
        self._callback, self._monitor_all, self._whole = callback, monitor_all, None

    def debug_str(self) -> str:
        """Returns the graph as text, with the memory of the outputs and of the values kept for the backward pass.

        The last two lines are MXNet's; scripts that plan memory read the number of the first of them. No operator
        requests temporary space: XLA allocates it.
        """
        kept = [jax.ShapeDtypeStruct(o.shape, np_dtype(o.dtype)) for o in self.outputs]
        if any(self._needs_grad) and not self._graph.cut:
            bound = zip(self._graph.args + self._graph.aux, self.arg_arrays + self.aux_arrays, strict=True)
            named = {n: jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for n, a in bound}
            needs_grad = dict(zip(self._graph.args, self._needs_grad, strict=True))
            names = [n.name for n in self._graph.nodes if n.op is None]
            key = (jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((), "uint32"))
            derivative = self._op.derivative([needs_grad.get(n, False) for n in names], True)
            forward = derivative.residuals(settings.BACKWARD_DO_MIRROR())
            with x64_mode(self._graph.x64(list(named.values()), True)):
                kept += jax.tree.leaves(jax.eval_shape(forward, *[named[n] for n in names], *key)[2])
        total = sum(math.prod(a.shape) * a.dtype.itemsize for a in kept)
        return (f"{self._symbol.debug_str()}Total {total >> 20} MB allocated\n"
                "Total 0 TempSpace resource requested\n")

    def get_optimized_symbol(self) -> Any:
        """Returns the optimized symbol, with common subexpressions merged (unless MXNET_ELIMINATE_COMMON_EXPR is 0)."""
        if not self._merges:
            return self._symbol
        return type(self._symbol)(eliminate_common(self._symbol.handle))


def _requests(grad_req: GradReq, names: Sequence[str], grads: Sequence[Any] | None) -> list[str]:
    """A grad_req for each argument."""
    if isinstance(grad_req, str):
        reqs = [grad_req] * len(names)
    elif isinstance(grad_req, dict):
        reqs = [grad_req.get(n, "null") for n in names]
    else:
        reqs = list(grad_req)
        if len(reqs) != len(names):
            raise ValueError(f"grad_req has {len(reqs)} entries for {len(names)} arguments")
    for req in reqs:
        if req not in _REQS:
            raise NotOneOf(f"grad_req must be one of {', '.join(_REQS)}, got {req!r}")
    return [r if grads is None or g is not None else "null" for r, g in zip(reqs, grads or reqs, strict=True)]


def _variable_contexts(symbol: Any, ctx: Context, group2ctx: dict[str, Context] | None) -> dict[str, Context]:
    """Returns where each variable belongs: to its own group, else to the group of the operator that uses it."""
    if not group2ctx:
        return {}
    contexts: dict[str, Context] = {}
    for node in topological(symbol.handle):
        if node.op is None:
            group = node.attrs.get("__ctx_group__")
            if group in group2ctx:
                contexts[node.name] = group2ctx[group]
        else:
            for source, _ in node.inputs:
                if source.op is None:
                    group = node.attrs.get("__ctx_group__")
                    contexts.setdefault(source.name, ctx if group is None else group2ctx.get(group, ctx))
    return contexts


def _by_name(names: list[str], arrays: list[Any]) -> dict[str, Any]:
    if len(set(names)) != len(names):
        raise ValueError(f"Duplicate names detected, {names}")
    return dict(zip(names, arrays, strict=True))
