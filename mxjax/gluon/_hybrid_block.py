"""`HybridBlock`: a block that runs imperatively and, hybridized, as one compiled graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from .. import symbol
from .._support.error_kinds import addressed
from .._support.files import together
from ..attribute import AttrScope
from ..context import Context
from ..graph.lowering import POLICIES
from ..name import NameManager
from ..ndarray import NDArray
from ..plan import Plan
from ..symbol import Symbol
from ..symbol._keys import ArrayScope
from ..util import is_np_array
from ._block_plan import plan_of_block
from ._chosen_block import Block
from ._formats import check_np, flatten, kinds, regroup
from ._jax_function import block_to_jax
from ._parameter import DeferredInitializationError, ParameterDict, save_each
from .parameter import Parameter
from .utils import any_arguments

if TYPE_CHECKING:
    from ..ops.params import DTypeLike
    from ._types import Nested

__all__ = ["HybridBlock"]


class HybridBlock(Block):
    """Base of blocks that run imperatively and, after `hybridize()`, as one compiled graph.

    Subclasses define `hybrid_forward(self, F, x, ..., weight, ...)`. F is `mx.nd` or `mx.sym`; x
    and the other inputs are NDArrays or Symbols. The block's own parameters are passed as keyword
    arguments.

    Args:
        prefix, params: as in `Block`.

    Example:
        >>> class Scale(mx.gluon.HybridBlock):
        ...     def __init__(self, **kwargs):
        ...         super().__init__(**kwargs)
        ...         self.scale = self.params.get("scale", shape=(1,), init=mx.init.Constant(3))
        ...     def hybrid_forward(self, F, x, scale):
        ...         return F.broadcast_mul(x, scale)
        >>> block = Scale()
        >>> block.initialize()
        >>> block.hybridize()
        >>> block(mx.nd.array([1, 2])).asnumpy()
        array([3., 6.], dtype=float32)
    """

    _traced = True  # whether its operators are called, not loaded
    _in_turn = False  # whether it runs its children one after the other, and does nothing else

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._clear_cached_op()
        self._again: str | None = None  # policy for residuals where backward passes recompute it
        self._in_format: Any = None  # as `flatten` has it: a list once the graph is made
        self._out_format: Any = None
        self._active = False
        self._flags: list[tuple[str, Any]] = []
        self._callback: Callable | None = None
        self._monitor_all = False
        self._backend: str | None = None
        self._backend_opts: dict[str, Any] = {}

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    def register_child(self, block: Block, name: str | None = None) -> None:
        """As `Block.register_child`.

        Raises:
            ValueError: the child is not a HybridBlock.
        """
        if not isinstance(block, HybridBlock):
            raise ValueError(f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. "
                             "If you are using Sequential, please try HybridSequential instead.")
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Forgets the graph: it is made again at the next call."""
        self._cached_graph: tuple[list[Symbol], Symbol] | tuple[()] = ()
        self._cached_op: nd.CachedOp | None = None
        self._cached_op_args: list[tuple[bool, Any]] = []
        self._flat_inputs = 0  # how many arrays side by side the graph takes; 0: not just these

    def cast(self, dtype: DTypeLike) -> None:
        """Converts all parameters to another dtype."""
        self._clear_cached_op()
        super().cast(dtype)

    def hybridize(self, active: bool = True, backend: str | None = None, clear: bool = True,
                  static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                  forward_bulk_size: int | None = None, backward_bulk_size: int | None = None,
                  remat: bool | str | None = None, **kwargs: Any) -> None:
        """Compiles this block and all its children into graphs, or with `active=False` runs them imperatively again.

        `remat` reduces the memory of training. Of each repeated block (a residual unit, a
        transformer layer: blocks with children, in a HybridSequential or of the same class) only
        the inputs are kept, and the backward pass recomputes the rest. A block without repeated
        blocks is itself such a unit: call this method on single blocks, then `hybridize` the whole
        network.

        Args:
            active: on or off.
            backend: name of a graph backend.
            clear: rebuild the graph at the next call.
            static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size: MXNet's
                memory and scheduling options; ignored, because XLA decides.
            remat: True, or the name of a policy of `jax.checkpoint_policies`, which selects the values to
                keep of a block: "nothing_saveable" (same as True), "dots_saveable" (results of
                matrix products), "dots_with_no_batch_dims_saveable" (only of those with weights),
                "everything_saveable". False: off. None: unchanged.
            kwargs: options of the backend.

        Raises:
            ValueError: `remat` has another value, or the block is a graph, which has no blocks to
                recompute.

        Example:
            >>> net = mx.gluon.model_zoo.vision.resnet18_v1()
            >>> net.hybridize(remat=True)
        """
        if remat is not None:
            self._rematerialize(remat)
        if kwargs:
            self._backend_opts = kwargs
        self._backend, self._active = backend, active
        flags = {"static_alloc": static_alloc, "static_shape": static_shape, "inline_limit": inline_limit,
                 "forward_bulk_size": forward_bulk_size, "backward_bulk_size": backward_bulk_size}
        self._flags = [item for item in flags.items() if item[1] is not None]
        if clear:
            self._clear_cached_op()
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(f'"{self}" is being hybridized while still having forward hook/pre-hook. If "{self}" is a '
                          "child of HybridBlock, the hooks will not take effect.", stacklevel=2)
        super().hybridize(active, **flags)

    def _rematerialize(self, remat: bool | str) -> None:
        """Sets which blocks of this one backward passes recompute."""
        policy = ("nothing_saveable" if remat else None) if isinstance(remat, bool) else remat
        if policy is not None and policy not in POLICIES:
            raise ValueError(f"hybridize: remat must be True, False or one of {', '.join(POLICIES)}; got {remat!r}")

        blocks = [block for block in _repeated(self) or [self] if block._traced]
        if policy is not None and not blocks:
            raise ValueError(f"hybridize: remat requires a block with children, but {type(self).__name__} is a graph")

        def forget(block: Block) -> None:
            if isinstance(block, HybridBlock):
                block._again = None
                block._clear_cached_op()
        self.apply(forget)
        for block in blocks:
            block._again = policy

    def _stage(self, name: str | None) -> AbstractContextManager:
        """Marks operators as those of a block that backward passes compute once more, if this is one."""
        if self._again is None:
            return nullcontext()
        return AttrScope(force_mirroring="True", mirror_stage=str(name), __mirror_policy__=self._again)

    def optimize_for(self, x: Nested, *args: Nested, backend: str | None = None, clear: bool = False,
                     static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                     forward_bulk_size: int | None = None, backward_bulk_size: int | None = None,
                     **kwargs: Any) -> None:
        """Hybridizes the block and builds its graph for a backend immediately, without running it.

        Args:
            x, args: example inputs; only their shapes and dtypes matter.
            backend: name of the backend.
            clear, static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size: see `hybridize`.
            kwargs: options of the backend.

        Raises:
            ValueError: `backend` is missing, the inputs are neither arrays nor symbols, or they are
                on several contexts.
        """
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(True, backend, clear, static_alloc, static_shape, inline_limit, forward_bulk_size,
                       backward_bulk_size, **kwargs)
        has_symbol, has_array, contexts = kinds([x, *args])
        self._check_inputs(has_symbol, has_array, contexts)
        self._build_cache(x, *args)

    def plan(self, *inputs: NDArray | tuple[int, ...], on: str, train: str | None = None,
             dtype: DTypeLike | None = None, batch: int | str | None = None) -> Plan:
        """Estimates this block's memory and time on a device that this machine may lack; see `Symbol.plan`.

        Args:
            inputs: arrays, or shapes (tuples).
            on: the devices: "h100", "h200", "a100", "l4", "h100x8"; "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...
            train: "sgd" (with momentum) or "adam" for a training step; None for a prediction.
            dtype: dtype of the inputs, except integer arrays, and of parameters that derive theirs
                from the inputs. By default that of the arrays, else float32.
            batch: another batch size, or "largest": the largest one that fits in a device's memory.

        Raises:
            MXNetError: as `Symbol.plan`.

        Example:
            >>> mx.gluon.model_zoo.vision.resnet50_v1().plan((64, 3, 224, 224), on="h100")  # doctest: +SKIP
        """
        return plan_of_block(self, inputs, on, train, dtype, batch)

    # ------------------------------------------------------------ graphs
    def _get_graph(self, *args: Nested) -> tuple[list[Symbol], Symbol]:
        """(input variables, output symbol), made at the first call."""
        if not self._cached_graph:
            flat, self._in_format = flatten(args, "input")
            count = sum(arg is not None for arg in flat)
            if count == 0:
                raise ValueError(f"All args are None and we do not support such a case. Received args={args}")
            names = iter(["data"] if count == 1 else [f"data{i}" for i in range(count)])
            variables = [None if arg is None else symbol.var(next(names)) for arg in flat]
            if is_np_array():
                variables = [None if variable is None else variable.as_np_ndarray() for variable in variables]
            params = {name: param.var() for name, param in self._reg_params.items()}
            with self._scope, self._stage(self._name), ArrayScope(True):
                out = self.hybrid_forward(symbol, *regroup(variables, self._in_format), **params)
            if is_np_array():
                check_np(out)
            outputs, self._out_format = flatten(out, "output")
            self._cached_graph = ([v for v in variables if v is not None],
                                  symbol.Group(outputs, type(outputs[0])))
        return self._cached_graph

    def _build_cache(self, *args: Nested) -> nd.CachedOp:
        """Makes the graph and the compiled operator, finishing initializations that waited for shapes."""
        data, out = self._get_graph(*args)
        places = {_name_of(variable): i for i, variable in enumerate(data)}
        inputs = out.list_inputs()
        params = {p.variable_name: p for is_arg, p in self._cached_op_args if not is_arg} or self._by_variable()
        unknown = next((name for name in inputs if name not in params and name not in places), None)
        if unknown is not None:
            raise AssertionError(f"Unknown input to HybridBlock: {unknown}")
        unused = [f"{i}-th" for name, i in places.items() if name not in inputs]
        if unused:
            warnings.warn(f"The {', '.join(unused)} input to HybridBlock is not used by any computation. Is this "
                          "intended?", stacklevel=4)
        unused = [self._shown_name(name, param) for name, param in params.items() if name not in inputs]
        if unused:
            warnings.warn(f"Parameter {', '.join(unused)} is not used by any computation. Is this intended?",
                          stacklevel=4)
        used = [params[name] for name in inputs if name in params]
        if any(param._data is None and param.waits_for_shape for param in used):
            self._deferred_infer_shape(*[a for a in flatten(args, "input")[0]])
            for param in used:
                param._finish_deferred_init()
        if self._backend:
            out, params = self._optimized(self._backend, out, params, places, flatten(args, "input")[0])
            self._cached_graph = data, out
            inputs = out.list_inputs()
        self._cached_op_args = [(True, places[name]) if name in places else (False, params[name]) for name in inputs]
        indices = {kind: [i for i, (is_arg, _) in enumerate(self._cached_op_args) if is_arg == kind]
                   for kind in (True, False)}
        op = nd.CachedOp(out, [("data_indices", indices[True]), ("param_indices", indices[False]), *self._flags])
        form = self._in_format
        flat = not any(form) and not self._callback and not op.by_steps
        self._cached_op, self._flat_inputs = op, len(form) if flat else 0
        return op

    def _known_graph(self) -> tuple[list[Symbol], Symbol]:
        """(input variables, output symbol) of the graph there is."""
        if not self._cached_graph:
            raise RuntimeError(f"{type(self).__name__} has no graph yet: hybridize it and call it once")
        return self._cached_graph

    def named_graph(self) -> tuple[list[Symbol], Symbol, dict[str, Parameter]]:
        """Returns (input variables, output symbol, parameters by name) of the existing graph; not in MXNet."""
        return *self._known_graph(), self._by_variable()

    def graph_of(self, inputs: Sequence[Any]) -> tuple[list[Symbol], Symbol]:
        """Returns (input variables, output symbol) for arrays, or lists of them; not in MXNet."""
        return self._get_graph(*inputs)

    def _shown_name(self, variable: str, param: Parameter) -> str:
        """A parameter's name for messages."""
        return variable

    def _by_variable(self) -> dict[str, Parameter]:
        """The parameters of all blocks in this one, by the names that they have in graphs."""
        return dict(self.collect_params().items())

    def _optimized(self, backend: str, out: Symbol, params: dict[str, Parameter],
                   places: dict[str, int], args: list[Any]) -> tuple[Symbol, dict[str, Parameter]]:
        """The graph as the backend wants it, and the parameters, with those that the backend made."""
        inputs_by_name = {name: args[i] for name, i in places.items() if isinstance(args[i], NDArray)}

        def values(names: Sequence[str]) -> dict[str, NDArray]:
            return {name: inputs_by_name[name] if name in inputs_by_name else params[name].data() for name in names
                    if name in inputs_by_name or name in params}
        arg_dict, aux_dict = values(out.list_arguments()), values(out.list_auxiliary_states())
        ctx = next((array.context for array in inputs_by_name.values()), None)
        out = out.optimize_for(backend, arg_dict, aux_dict, ctx, **self._backend_opts)
        optimized = {**arg_dict, **aux_dict}
        for name in out.list_inputs():
            if name not in params and name not in places:
                params[name] = _made(name, optimized[name].dtype)
                params[name]._load_init(optimized[name], optimized[name].context)
        return out, params

    @property
    def _is_graph(self) -> bool:
        """Returns whether calling the block on arrays is running its graph, and nothing else that Python could do."""
        return type(self).forward is HybridBlock.forward and type(self).__call__ is Block.__call__ and \
            self._runs_one_graph

    @property
    def _runs_one_graph(self) -> bool:
        return self._active and self._flat_inputs > 0 and not self._forward_hooks and not self._forward_pre_hooks

    def _deferred_infer_shape(self, *args: Nested) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            raise ValueError(f"Deferred initialization failed because shape cannot be inferred. {error}") from error

    def _infer_attrs(self, function: str, attr: str, *args: Nested) -> None:
        """Sets an attribute of all parameters to the graph's result for these inputs."""
        self._set_inferred(self._get_graph(*args), function, attr, args)

    def _set_inferred(self, graph: tuple[list[Symbol], Symbol], function: str, attr: str, args: Sequence[Any]) -> None:
        inputs, out = graph
        present = [arg for arg in flatten(args, "input")[0] if arg is not None]
        known = {_name_of(variable): getattr(arg, attr) for variable, arg in zip(inputs, present, strict=False)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            arg_attrs, _, aux_attrs = getattr(out, function)(**known)
        if arg_attrs is None:
            raise ValueError(caught[0].message if caught else f"{function} with {known} leaves some parameters unknown")
        result = dict(zip(out.list_arguments() + out.list_auxiliary_states(), [*arg_attrs, *aux_attrs], strict=True))
        for name, param in self._by_variable().items():
            setattr(param, attr, result[name])

    def infer_shape(self, *args: Nested) -> None:
        """Infers the parameters' shapes from inputs."""
        self._infer_attrs("infer_shape", "shape", *args)

    def infer_type(self, *args: Nested) -> None:
        """Infers the parameters' dtypes from inputs."""
        self._infer_attrs("infer_type", "dtype", *args)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Writes `path-symbol.json` and `path-EPOCH.params`, for `SymbolBlock.imports`, Module and other languages.

        A single input is named "data", several are named "data0", "data1", ... Both files are
        written completely before either one is replaced, so a failure changes neither. The
        parameters appear last.

        Args:
            path: beginning of the file names.
            epoch: number in the second file's name (4 digits).
            remove_amp_cast: leave out the casts of automatic mixed precision.

        Raises:
            RuntimeError: the block has not been hybridized and called.
        """
        if not self._cached_graph:
            raise RuntimeError(addressed(
                "Please first call block.hybridize() and then run forward with this block at least "
                "once before calling export."))
        out = self._cached_graph[1]
        kinds_by_name = {**dict.fromkeys(out.list_arguments(), "arg"),
                         **dict.fromkeys(out.list_auxiliary_states(), "aux")}
        with together():
            out.save(f"{path}-symbol.json", remove_amp_cast=remove_amp_cast)
            params = {param.variable_name: param for is_arg, param in self._cached_op_args if not is_arg}
            save_each(f"{path}-{epoch:04d}.params", {f"{kinds_by_name[name]}:{name}": param
                                                     for name, param in params.items()})

    def to_jax(self, *inputs: Any) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
        """Returns (apply, params, aux), the block as a pure JAX function; see `mx.interop.block_to_jax`."""
        return block_to_jax(self, *inputs)

    def _describe_graph(self) -> dict[str, Any]:
        if not self._cached_graph:
            return {"hybridized": False}
        inputs, out = self._cached_graph
        return {"in_format": self._in_format, "out_format": self._out_format, "inputs": [i.tojson() for i in inputs],
                "symbol": out.tojson(), "hybridized": True}

    def _restore_graph(self, model: dict[str, Any]) -> None:
        if model["hybridized"]:
            self._in_format, self._out_format = model["in_format"], model["out_format"]
            self._cached_graph = [symbol.load_json(i) for i in model["inputs"]], symbol.load_json(model["symbol"])
            self._active = True

    # ------------------------------------------------------------ running
    def register_op_hook(self, callback: Callable[[Any, Any, NDArray], None], monitor_all: bool = False) -> None:
        """See `Block.register_op_hook`."""
        self._callback, self._monitor_all, self._flat_inputs = callback, monitor_all, 0
        super().register_op_hook(callback, monitor_all)

    @staticmethod
    def _check_inputs(has_symbol: bool, has_array: bool, contexts: list[Context]) -> None:
        """Raises ValueError for inputs that a graph cannot have."""
        if has_symbol and has_array:
            raise ValueError("In HybridBlock, we do not support mixed NDArrays and Symbols types for the input.")
        if not has_symbol and not has_array:
            raise ValueError("In HybridBlock, there must be one NDArray or one Symbol in the input.")
        if len(contexts) > 1:
            raise ValueError("Found multiple contexts in the input; a hybridized HybridBlock only supports one: "
                             f"{contexts}")

    def _call_cached_op(self, *args: Nested) -> Any:
        op = self._cached_op
        if op is None:
            op = self._build_cache(*args)
        if self._callback:
            op._register_op_hook(self._callback, self._monitor_all)
        flat, form = flatten(args, "input")
        if form != self._in_format:
            self._check_format(form)
        present = [arg for arg in flat if arg is not None]
        out = op(*[present[p] if is_arg else p.data() for is_arg, p in self._cached_op_args])
        return regroup([out] if isinstance(out, NDArray) else out, self._out_format)

    def _check_format(self, form: list[Any]) -> None:
        """Raises ValueError where inputs differ from the first call's in more than trailing None."""
        known, common = self._in_format, min(len(form), len(self._in_format))
        if form[:common] != known[:common] or any(f != -1 for f in [*form[common:], *known[common:]]):
            raise ValueError("The argument structure of HybridBlock does not match the cached version. Stored format "
                             f"= {known}, input format = {form}")

    @any_arguments
    def forward(self, x: Nested, *args: Nested) -> Any:
        """Runs `hybrid_forward` on arrays or symbols, or the compiled graph."""
        inputs, ctx = (x, *args), None
        for array in inputs:
            if not isinstance(array, NDArray) or ctx is not None and array.chunk.ctx is not ctx:
                ctx = None
                break
            ctx = array.chunk.ctx
        if ctx is None:  # not just arrays on one context
            has_symbol, has_array, contexts = kinds(inputs)
            self._check_inputs(has_symbol, has_array, contexts if self._active else [])
            if has_symbol:
                params = {name: param.var() for name, param in self._reg_params.items()}
                # each of several calls is a stage
                stage = self._again and NameManager.innermost().get(None, "stage")
                with self._scope, self._stage(stage), ArrayScope(True):
                    return self.hybrid_forward(symbol, x, *args, **params)
            ctx = contexts[0]
        elif self._active and len(inputs) == self._flat_inputs and (op := self._cached_op) is not None:
            return self._call_flat(op, inputs, ctx)
        with ctx:
            if self._active:
                return self._call_cached_op(x, *args)
            params = {}
            for name, param in self._reg_params.items():
                data = param._data
                if data is not None and len(data) == 1 and data[0].chunk.ctx is ctx and param.as_stored:
                    params[name] = data[0]  # the usual case, shortest
                    continue
                try:
                    params[name] = param.data(ctx)
                except DeferredInitializationError:
                    self._deferred_infer_shape(x, *args)
                    for own in self.params.values():
                        own._finish_deferred_init()
                    params[name] = param.data(ctx)
            return self.hybrid_forward(nd, x, *args, **params)

    def _call_flat(self, op: nd.CachedOp, inputs: tuple[Nested, ...], ctx: Context) -> Any:
        """Runs the compiled graph on arrays side by side, as the first call had them."""
        values = []
        for is_arg, what in self._cached_op_args:
            if is_arg:
                values.append(inputs[what])
                continue
            data = what._data
            if data is not None and len(data) == 1 and what.as_stored:
                values.append(data[0])
            else:
                with ctx:
                    values.append(what.data())
        out = op(*values)
        return out if self._out_format == 0 else regroup([out] if isinstance(out, NDArray) else out, self._out_format)

    @any_arguments
    def hybrid_forward(self, F: ModuleType, x: Nested, *args: Nested, **kwargs: Any) -> Any:  # noqa: N803
        """Computes the block's outputs; subclasses define it.

        Args:
            F: `mx.nd` or `mx.sym`.
            x, args: inputs, NDArrays or Symbols.
            kwargs: the block's own parameters, by attribute name.
        """
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")


def _made(name: str, dtype: DTypeLike) -> Parameter:
    """Returns a parameter whose variable has this name."""
    param = Parameter(name, dtype=dtype)
    param.own_name = name
    return param


def _name_of(variable: Symbol) -> str:
    """Returns the name of a graph's variable."""
    return variable.list_inputs()[0]


def _repeated(block: HybridBlock) -> list[HybridBlock]:
    """Returns the parts that a block repeats: blocks with children, in a sequence or of one class; the innermost
    sequences count."""
    results: list[HybridBlock] = []
    parts = [child for child in block._child_blocks() if isinstance(child, HybridBlock) and child._children]
    for child in parts:
        unit = len(parts) > 1 if block._in_turn else \
            not child._in_turn and [type(part) for part in parts].count(type(child)) > 1
        results += (_repeated(child) if child._in_turn or not unit else []) or ([child] if unit else [])
    return results
