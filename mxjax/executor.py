"""Executor: a symbol bound to arrays, run as compiled XLA programs.

`forward(is_train=True)` computes nothing by itself. Where `backward` follows, forward and backward are one program;
where somebody looks at an output first, the forward runs and keeps what the backward needs. Graphs that cannot be
one program (custom operators, several devices, a monitor) run call by call through the imperative engine, recorded
on the tape, with the calls in between compiled together by `bulk` segments.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import autograd
from ._bounded import Bounded
from .autograd._tape import fitting
from .base import MXNetError
from .context import Context
from .ndarray import NDArray, empty
from .ndarray._chunk import Pending, RLock
from .ndarray._host import HostPending, push
from .ndarray._invoke import change, invoke, state, wrap
from .ndarray._segment import Segment
from .ops.kernel import USER_MISTAKES, cotangent, mistake, watched
from .ops.params import np_dtype
from .random import next_key
from .symbol import _infer
from .symbol._lower import Lowered, cotangent_ones
from .symbol._node import topological
from .symbol._optimize import eliminate_common
from .symbol.symbol import _complete

__all__ = ["Executor"]

_REQS = ("null", "write", "add")


class Executor:
    """A symbol with arrays for its arguments, gradients and auxiliary states; made by `Symbol.bind`.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: the arrays, in the order of `list_arguments` and
            `list_auxiliary_states`; a gradient is None where none is wanted.
        outputs: the outputs; later forwards write to the same arrays.
    """

    def __init__(self, handle: Any, symbol: Any, ctx: Context, grad_req: Any,
                 group2ctx: dict[str, Context] | None) -> None:
        self._symbol, self._ctx, self._grad_req, self._group2ctx = symbol, ctx, grad_req, group2ctx or {}
        self._graph: Lowered = symbol._lower()
        self.arg_arrays, self.grad_arrays, self.aux_arrays, self._reqs = handle
        self._sparse = not all(a is None or a._plain for a in (*self.arg_arrays, *self.grad_arrays))
        self._wanted = tuple(r != "null" and g is not None for r, g in zip(self._reqs, self.grad_arrays, strict=True))
        self._callback: Callable | None = None
        self._monitor_all = False
        self._merges = os.environ.get("MXNET_ELIMINATE_COMMON_EXPR", "1") != "0"
        self._run: _Run | None = None
        self._check_devices()
        self.outputs: list[NDArray] = self._new_outputs()

    # ------------------------------------------------------------ making
    @classmethod
    def _make(cls, symbol: Any, ctx: Context, arrays: Sequence[NDArray], grads: Sequence[NDArray | None], grad_req: Any,
              aux: Sequence[NDArray], group2ctx: dict[str, Context] | None) -> Executor:
        names = symbol.list_arguments()
        return cls((list(arrays), list(grads), list(aux), _requests(grad_req, names, grads)), symbol, ctx, grad_req,
                   group2ctx)

    @classmethod
    def _simple(cls, symbol: Any, ctx: Context, grad_req: Any, types: dict[str, Any], stypes: dict[str, str],
                group2ctx: Any, shared_names: Any, shared_exec: Any, shared_buffer: Any,
                shapes: dict[str, Any]) -> Executor:
        graph = symbol._lower()
        known_types = {k: np_dtype(v).name for k, v in types.items() if v is not None}
        arg_shapes, _, aux_shapes = symbol._infer_shape((), shapes, known_types)
        for name, shape in zip(graph.args + graph.aux, arg_shapes + aux_shapes, strict=True):
            if not _complete(shape):
                raise MXNetError(f"simple_bind: the shape of {name} cannot be worked out from "
                                 f"{', '.join(f'{k}={v}' for k, v in shapes.items()) or 'nothing'}; it is known as "
                                 f"{shape}")
        found = _infer.infer_types(symbol._outputs, known_types)
        reqs = _requests(grad_req, graph.args, None)
        contexts = _variable_contexts(symbol, ctx, group2ctx)
        buffered = set(graph.args) - set(shared_names or ())

        def make(node: Any, shape: tuple, shareable: bool) -> NDArray:
            name, dtype = node.name, found[id(node), 0] or "float32"
            stype = stypes.get(name) or {"1": "row_sparse", "2": "csr"}.get(node.attrs.get("__storage_type__"))
            if shareable and shared_exec is not None and name in shared_exec.arg_dict:
                old = shared_exec.arg_dict[name]
                if old.shape == shape and old.dtype == np_dtype(dtype).type:
                    return old
            if shared_buffer is not None and name in buffered and stype in (None, "default"):
                old = shared_buffer.get(name)
                if old is not None and old.size >= math.prod(shape) and old.dtype == np_dtype(dtype).type:
                    return old._view_at(0, shape) if old.shape != shape else old
                array = empty(shape, contexts.get(name, ctx), dtype)
                shared_buffer[name] = array
                return array
            return empty(shape, contexts.get(name, ctx), dtype, stype)
        arrays = [make(n, s, shared_names is None or n.name in shared_names)
                  for n, s in zip(graph.arg_nodes, arg_shapes, strict=True)]
        aux = [make(n, s, False) if shared_exec is None or n.name not in shared_exec.aux_dict
               else shared_exec.aux_dict[n.name] for n, s in zip(graph.aux_nodes, aux_shapes, strict=True)]
        by_rows = _gradients_by_rows(graph)
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
        """Raises MXNetError where an array lies elsewhere than the executor (without group2ctx)."""
        if self._group2ctx:
            return
        for name, array in zip(self._graph.args, self.arg_arrays, strict=True):
            if array.context.jax_device != self._ctx.jax_device:
                raise MXNetError(f"bind: argument {name} is on {array.context}, the executor on {self._ctx}")

    def _new_outputs(self) -> list[NDArray]:
        """Output arrays of the right shapes where these can be worked out without running."""
        shapes = {n: a.shape for n, a in zip(self._graph.args + self._graph.aux, self.arg_arrays + self.aux_arrays,
                                             strict=True)}
        types = {n: np_dtype(a.dtype).name for n, a in zip(self._graph.args + self._graph.aux,
                                                           self.arg_arrays + self.aux_arrays, strict=True)}
        found = _infer.infer_shapes(self._symbol._outputs, shapes, types)
        kinds = _infer.infer_types(self._symbol._outputs, types)
        outputs = []
        for node, index in self._symbol._outputs:
            shape = found[id(node), index]
            shape = (0,) if shape is None or None in shape else shape
            outputs.append(wrap(_Zero(shape, np_dtype(kinds[id(node), index] or "float32")), self._ctx))
        return outputs

    # ------------------------------------------------------------ arrays by name
    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """Arguments by name."""
        return dict(zip(self._graph.args, self.arg_arrays, strict=True))

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients by argument name."""
        return dict(zip(self._graph.args, self.grad_arrays, strict=True))

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """Auxiliary states by name."""
        return dict(zip(self._graph.aux, self.aux_arrays, strict=True))

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name.

        Raises:
            ValueError: two outputs have one name.
        """
        names = self._symbol.list_outputs()
        if len(set(names)) != len(names):
            raise ValueError(f"Duplicate names detected, {names}")
        return dict(zip(names, self.outputs, strict=True))

    # ------------------------------------------------------------ running
    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Computes the outputs (once somebody looks at them).

        Args:
            is_train: training mode; needed before `backward`.
            kwargs: new values of arguments by name.

        Raises:
            TypeError, ValueError: an argument has no such name, or does not fit.
        """
        if kwargs:
            self._load(kwargs)
        self._run = (_WholeRun if self._one_program else _StepRun)(self, is_train)
        return self.outputs

    @property
    def _one_program(self) -> bool:
        """Whether the whole graph is one XLA program; a single operator is one as a call."""
        graph = self._graph
        return not (len(graph.steps) == 1 or graph.cut or graph.checks or self._callback is not None or
                    self._group2ctx or self._sparse)

    def _load(self, values: dict[str, Any]) -> None:
        arrays = self.arg_dict
        for name, value in values.items():
            if name not in arrays:
                raise TypeError(f"Unknown argument {name}")
            if not isinstance(value, (NDArray, np.ndarray)):
                raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
            if arrays[name].shape != value.shape:
                raise ValueError(f"Shape not match! Argument {name}, need: {arrays[name].shape}, received: "
                                 f"{value.shape}")
            arrays[name][:] = value

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Computes the gradients of the arguments and writes or adds them to `grad_arrays`.

        Args:
            out_grads: gradient of each output (an NDArray, a list, or a dictionary by output name); not needed where
                the outputs are losses.
            is_train: training mode of the forward pass, where there was none.
        """
        if self._run is None:
            self.forward(is_train)
        if out_grads is None:
            heads = None
        elif isinstance(out_grads, NDArray):
            heads = [out_grads]
        elif isinstance(out_grads, dict):
            heads = [out_grads[n] for n in self._symbol.list_outputs()]
        else:
            heads = list(out_grads)
        heads = heads or None
        for head in heads or ():
            if not isinstance(head, NDArray):
                raise TypeError("inputs must be NDArray")
        if heads is not None and len(heads) < len(self.outputs):
            raise MXNetError(f"backward: {len(heads)} head gradients for {len(self.outputs)} outputs")
        if heads is not None:  # further ones are ignored, as in MXNet
            heads = [fitting(h, o.shape) for h, o in zip(heads, self.outputs, strict=False)]
        self._run.backward(heads)

    def copy_params_from(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copies parameters into the arrays.

        Raises:
            ValueError: a name is no argument (or auxiliary state), unless `allow_extra_params`.
        """
        for given, arrays, kind in ((arg_params, self.arg_dict, "arguments"),
                                    (aux_params or {}, self.aux_dict, "auxiliary states")):
            for name, value in given.items():
                if name in arrays:
                    value.astype(arrays[name].dtype, copy=False).copyto(arrays[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {kind}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """An executor for other input shapes that shares this one's parameters.

        Args:
            partial_shaping: arguments not named may change their shapes too.
            allow_up_sizing: arrays may grow.
            kwargs: new shapes by name.

        Raises:
            ValueError, RuntimeError: a shape changes, or grows, that may not.
        """
        arg_shapes, _, aux_shapes = self._symbol.infer_shape(**kwargs)
        if arg_shapes is None:
            raise ValueError("Insufficient argument shapes provided.")

        def fitted(name: str, old: NDArray | None, shape: tuple, what: str) -> NDArray | None:
            if old is None or old.shape == shape:
                return old
            if not partial_shaping and name not in kwargs:
                raise AssertionError(f"reshape: {what}{name}, which was not named, changes from {old.shape} to "
                                     f"{shape}, so it could not be shared; allow that with partial_shaping=True")
            if math.prod(shape) > old.size:
                if not allow_up_sizing:
                    raise AssertionError(f"reshape: {what}{name} would grow from {old.shape} to {shape}; bind the "
                                         "larger shape first, or allow new arrays with allow_up_sizing=True")
                return empty(shape, old.context, old.dtype)
            return old._view_at(0, shape)
        args = [fitted(n, a, s, "arg:") for n, a, s in zip(self._graph.args, self.arg_arrays, arg_shapes, strict=True)]
        grads = [fitted(n, g, s, "grad:") for n, g, s in
                 zip(self._graph.args, self.grad_arrays, arg_shapes, strict=True)]
        aux = [fitted(n, a, s, "aux:") for n, a, s in zip(self._graph.aux, self.aux_arrays, aux_shapes, strict=True)]
        other = Executor((args, grads, aux, self._reqs), self._symbol, self._ctx, self._grad_req, self._group2ctx)
        other.set_monitor_callback(self._callback, self._monitor_all)
        return other

    def set_monitor_callback(self, callback: Callable[[str, NDArray], None], monitor_all: bool = False) -> None:
        """Has `callback(name, array)` called with every output (`monitor_all`: and input) of every operator.

        Raises:
            TypeError: the callback cannot be called.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"a monitor callback must be callable, got {type(callback).__name__}")
        self._callback, self._monitor_all = callback, monitor_all

    def debug_str(self) -> str:
        """The graph as text, with the memory of the outputs and of what is kept for the backward pass."""
        kept = [jax.ShapeDtypeStruct(o.shape, np_dtype(o.dtype)) for o in self.outputs]
        if any(self._wanted) and not self._graph.cut:
            args, aux = ([jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in arrays]
                         for arrays in (self.arg_arrays, self.aux_arrays))
            key = (jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((), "uint32"))
            with jax.enable_x64(self._graph.wide([*args, *aux], True)):
                kept += jax.tree.leaves(jax.eval_shape(self._graph.residual(self._wanted, _mirror()), args, aux,
                                                       key)[2])
        total = sum(math.prod(a.shape) * a.dtype.itemsize for a in kept)
        return f"{self._symbol.debug_str()}Total {total >> 20} MB allocated\n"

    def get_optimized_symbol(self) -> Any:
        """The symbol that runs, with common subexpressions merged (unless MXNET_ELIMINATE_COMMON_EXPR is 0)."""
        if not self._merges:
            return self._symbol
        return type(self._symbol)(eliminate_common(self._symbol._outputs))


class _Zero(Pending):
    """An output before the first forward."""

    __slots__ = ()

    def force(self) -> None:
        self.value = empty(self.shape, dtype=self.dtype)._read()


def _requests(grad_req: Any, names: Sequence[str], grads: Sequence[Any] | None) -> list[str]:
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
            raise ValueError(f"grad_req must be one of {', '.join(_REQS)}, got {req!r}")
    return [r if grads is None or g is not None else "null" for r, g in zip(reqs, grads or reqs, strict=True)]


def _variable_contexts(symbol: Any, ctx: Context, group2ctx: dict[str, Context] | None) -> dict[str, Context]:
    """Where each variable belongs: to its own group, else to the group of the operator that uses it."""
    if not group2ctx:
        return {}
    contexts: dict[str, Context] = {}
    for node in topological(symbol._outputs):
        if node.op is None:
            group = node.attrs.get("__ctx_group__")
            if group in group2ctx:
                contexts[node.name] = group2ctx[group]
        else:
            for source, _ in node.inputs:
                if source.op is None:
                    contexts.setdefault(source.name, group2ctx.get(node.attrs.get("__ctx_group__"), ctx))
    return contexts


def _mirror() -> bool:
    return os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0").lower() in ("1", "true")


class _Run:
    """One forward (and backward) of an executor."""

    failed = False

    def __init__(self, executor: Executor, train: bool) -> None:
        self.executor, self.train = executor, train

    def _fail(self, failure: Exception) -> None:
        """The outputs of a run that is known to fail: the error comes where one is looked at."""
        def work(_: list) -> Sequence[Any]:
            raise failure
        pending = push(work, [], [(o.shape, np_dtype(o.dtype)) for o in self.executor.outputs], name="executor")
        for output, value in zip(self.executor.outputs, pending, strict=True):
            output._write(value)
        self.failed = True

    def backward(self, heads: list[NDArray] | None) -> None:
        """Computes the gradients."""
        raise NotImplementedError


class _Output(Pending):
    """An output, or a new auxiliary state, of a run that has not happened yet."""

    __slots__ = ("run",)

    def __init__(self, run: _WholeRun, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(shape, dtype)
        self.run = run

    def force(self) -> None:
        self.run.force()


class _WholeRun(_Run):
    """The whole graph as one program."""

    def __init__(self, executor: Executor, train: bool) -> None:
        super().__init__(executor, train)
        self.lock = RLock()  # whoever looks first runs it
        self.key: tuple = ()
        self.pull: Any = None
        self.done = False
        arrays = [*executor.arg_arrays, *executor.aux_arrays]
        change(executor.aux_arrays if train else (), arrays, self._begin)

    def _begin(self, values: list[Any]) -> None:
        """Takes the arguments' values, and hands out what is to become of them."""
        executor, train = self.executor, self.train
        graph = executor._graph
        self.args, self.aux = values[:len(executor.arg_arrays)], values[len(executor.arg_arrays):]
        failure = self._failure(graph)
        if graph.random:
            self.key = next_key(executor._ctx, len(graph.steps))
        self.wide = graph.wide([*self.args, *self.aux], train)
        if failure is not None:
            self._fail(failure)
            return
        specs = self._specs()
        self.results = [_Output(self, s.shape, s.dtype) for s in specs[0]]
        self.states = [_Output(self, s.shape, s.dtype) for s in specs[1]]
        self._hand_out()

    def _failure(self, graph: Lowered) -> Exception | None:
        for node, kernel in zip(graph.steps, graph.kernels(self.train), strict=True):
            failure = kernel.check(node.params) if kernel.check is not None else None
            if failure is not None:
                return failure
        return None

    def _specs(self) -> tuple:
        """Shapes and dtypes of outputs and auxiliary states."""
        graph = self.executor._graph
        cache = graph.forms().programs.setdefault("specs", Bounded(256))
        key = (self.train, self.wide, tuple((v.shape, v.dtype) for v in [*self.args, *self.aux]))
        if key not in cache:
            with jax.enable_x64(self.wide):
                cache[key] = self._guard(lambda: graph.forward(self.train).eval_shape(self.args, self.aux, self.key))
        return cache[key]

    def _hand_out(self) -> None:
        for i, (output, value) in enumerate(zip(self.executor.outputs, self.results, strict=True)):
            if output.shape != value.shape or output._chunk.dtype != value.dtype:
                self.executor.outputs[i] = wrap(value, self.executor._ctx)
            else:
                output._write(value)
        if self.train:
            for array, value in zip(self.executor.aux_arrays, self.states, strict=True):
                if value.dtype == array._chunk.dtype:
                    array._write(value)

    def _guard(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except MXNetError:
            raise
        except USER_MISTAKES as error:
            raise mistake("executor", self.args, error) from None

    def _call(self, program: Callable, *args: Any) -> Any:
        with jax.enable_x64(self.wide):
            return self._guard(lambda: watched("Executor", program)(*args))

    def force(self) -> None:
        """Runs the forward alone: somebody looks at an output."""
        with self.lock:
            if not self.done:
                self._forward()

    def _forward(self) -> None:
        graph = self.executor._graph
        wanted = self.executor._wanted
        if self.train and any(wanted):
            outputs, aux, self.pull = self._call(graph.residual(wanted, _mirror()), self.args, self.aux, self.key)
        else:
            outputs, aux = self._call(graph.forward(self.train), self.args, self.aux, self.key)
        self._settle(outputs, aux)

    def _settle(self, outputs: Sequence[Any], aux: Sequence[Any]) -> None:
        for pending, value in zip([*self.results, *self.states], [*outputs, *aux], strict=True):
            pending.value = value
        self.done = True
        self.args = self.aux = ()

    def backward(self, heads: list[NDArray] | None) -> None:
        if not self.failed:
            with self.lock:
                self._backward(heads)

    def _backward(self, heads: list[NDArray] | None) -> None:
        executor = self.executor
        graph, wanted = executor._graph, executor._wanted
        if not any(wanted):
            return
        targets = [(g, r) for g, r, w in zip(executor.grad_arrays, executor._reqs, wanted, strict=True) if w]
        head_grads = [] if heads is None else [h._read() for h in heads]
        if not self.done:
            adding = tuple(r == "add" and g.stype == "default" for g, r in targets)
            old = [g._read() for (g, _), a in zip(targets, adding, strict=True) if a]
            program = graph.forward_backward(wanted, adding, heads is not None, _mirror(), self.train)
            outputs, aux, grads = self._call(program, self.args, self.aux, self.key, head_grads, old)
            self._settle(outputs, aux)
            for (target, req), grad, added in zip(targets, grads, adding, strict=True):
                _store(target, grad, "write" if added else req)
            return
        if self.pull is None:  # a forward in prediction mode keeps nothing: do it again, as MXNet would
            args, aux = ([a._read() for a in arrays] for arrays in (executor.arg_arrays, executor.aux_arrays))
            self.pull = self._call(graph.residual(wanted, _mirror(), self.train), args, aux, self.key)[2]
        if heads is None:
            with jax.enable_x64(self.wide):
                head_grads = [cotangent_ones(p.value) for p in self.results]
        else:
            with jax.enable_x64(self.wide):
                head_grads = [cotangent(h, p) for h, p in zip(head_grads, self.results, strict=True)]
        grads = self._call(graph.pull(), self.pull, head_grads)
        for (target, req), grad in zip(targets, grads, strict=True):
            _store(target, grad, req)


def _gradients_by_rows(graph: Any) -> set[int]:
    """Ids of the arguments whose gradients are row_sparse: those that are themselves, and tables of sparse lookups."""
    found = {id(n) for n in graph.arg_nodes if n.attrs.get("__storage_type__") == "1"}
    for node in graph.steps:
        if node.op.get_attr("rows_when") is not None and node.inputs[1][0].op is None:
            (found.add if node.op.by_rows(node.params) else found.discard)(id(node.inputs[1][0]))
    return found


def _store(target: NDArray, grad: Any, req: str) -> None:
    """Writes or adds a gradient to its array."""
    if target.stype != "default":
        target._store_gradient(grad, req)
        return
    value = wrap(grad, target.context)

    def step(old: list[Any]) -> None:
        new = target + value if old else value
        target._write((new if new.dtype == target.dtype else new.astype(target.dtype))._read())
    change([target], [target] if req == "add" else [], step)


class _StepRun(_Run):
    """The graph call by call, recorded on the tape; between host operators calls are compiled together."""

    def __init__(self, executor: Executor, train: bool) -> None:
        super().__init__(executor, train)
        self._recorded = train or executor._graph.random  # else a backward does the forward again, as MXNet's would
        self._forward(self._recorded)
        if self.failed:
            return
        for i, (output, value) in enumerate(zip(executor.outputs, self.results, strict=True)):
            if output.shape != value.shape or output.dtype != value.dtype or output.stype != value.stype:
                executor.outputs[i] = value.detach()
            else:
                chunk = value._chunk
                output._chunk.ctx = chunk.ctx
                output._write(chunk.pending if isinstance(chunk.pending, HostPending) and value._view is None
                              else value._read())

    def _forward(self, recording: bool) -> None:
        executor, train = self.executor, self.train
        graph = executor._graph
        values: dict[tuple[int, int], NDArray] = {}
        for node, array, grad, req, wanted in zip(graph.arg_nodes, executor.arg_arrays, executor.grad_arrays,
                                                  executor._reqs, executor._wanted, strict=True):
            values[id(node), 0] = array.detach()
            if wanted and recording:
                autograd.mark_variables([values[id(node), 0]], [grad], [req])
        for node, array in zip(graph.aux_nodes, executor.aux_arrays, strict=True):
            values[id(node), 0] = array.detach()
        before = state.recording, state.training, state.segment
        state.recording, state.training = recording and any(executor._wanted), train
        whole = executor._callback is None and not executor._group2ctx and not executor._sparse
        state.segment = Segment(1 << 30) if whole else None
        try:
            kernels = graph.kernels_for(executor.arg_arrays, executor.aux_arrays, train)
            for node, kernel in zip(graph.steps, kernels, strict=True):
                self._step(node, kernel, values)
        except MXNetError as error:
            if not graph.checks:
                raise
            self._fail(error)
            return
        finally:
            segment, (state.recording, state.training, state.segment) = state.segment, before
            if segment is not None:
                segment.run()
        self.results = [values[id(n), i] for n, i in graph.outputs]

    def _step(self, node: Any, kernel: Any, values: dict) -> None:
        executor = self.executor
        ctx = executor._group2ctx.get(node.attrs.get("__ctx_group__"), executor._ctx)
        inputs = [values[id(n), i].as_in_context(ctx) if executor._group2ctx else values[id(n), i]
                  for n, i in node.inputs]
        if executor._callback is not None and executor._monitor_all:
            for (source, _), name, value in zip(node.inputs, node.seen_names(), inputs, strict=True):
                for label in [source.name] * (source.op is None) + [f"{node.name}_{name}"]:
                    executor._callback(label, value.detach())
        try:
            call = node.op.get_attr("FHost")
            if call is not None:
                results = call(node.params, inputs, ctx)
            else:
                results = invoke(kernel, inputs, tuple(node.params[n] for n in kernel.dynamic), None, ctx)
        except MXNetError as error:
            raise MXNetError(f"Error in operator {node.name}: {error}") from None
        results = results if isinstance(results, list) else [results]
        for i, result in enumerate(results):
            values[id(node), i] = result
        if executor._callback is not None:
            for name, result in zip(node.output_names(), results, strict=False):
                executor._callback(name, result.detach())
            entry = results[0]._entry
            if entry is not None:
                entry[0].watch = self._watcher(node, inputs, ctx)

    def _watcher(self, node: Any, inputs: list[NDArray], ctx: Context) -> Callable[[Sequence[Any]], None]:
        """Shows the monitor a node's gradients, as outputs of its backward; zeros where none is wanted."""
        def watch(grads: Sequence[Any]) -> None:
            for i, array in enumerate(inputs):
                grad = grads[i] if i < len(grads) else None
                number = "" if len(inputs) == 1 else str(i)
                self.executor._callback(f"{node.name}_backward_output{number}",
                                        empty(array.shape, ctx, array.dtype) if grad is None else wrap(grad, ctx))
        return watch

    def backward(self, heads: list[NDArray] | None) -> None:
        if self.failed or not any(self.executor._wanted):
            return
        if not self._recorded:
            self._forward(recording=True)
        pairs = [(r, None if heads is None else heads[i]) for i, r in enumerate(self.results) if r._entry is not None]
        if pairs:
            autograd.backward([r for r, _ in pairs], [h if h is None or h.context == r.context else
                                                      h.as_in_context(r.context) for r, h in pairs],
                              retain_graph=self.executor._sparse)

