"""Blocks: layers and networks, run imperatively or, hybridized, as compiled graphs."""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import initializer, symbol
from .. import name as _name
from .. import ndarray as nd
from .._files import reading, together, write_file
from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..plan import Plan
from ..symbol import Symbol
from ..util import is_np_array
from . import _summary
from ._block_plan import plan_of_block
from ._formats import check_np, flatten, kinds, regroup
from ._formats import flatten as _flatten  # noqa: F401 (libraries take these from here)
from ._formats import regroup as _regroup  # noqa: F401
from ._jax_function import block_to_jax
from .parameter import DeferredInitializationError, Parameter, ParameterDict, load_named
from .utils import HookHandle, _brief_print_list, _indent

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


class _BlockScope:
    """The name scope of a block: what is made inside gets its prefix, and numbers counted by it."""

    _current = threading.local()

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: dict[str, int] = {}
        self._outer: list[tuple[_BlockScope | None, _name.Prefix]] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameter dictionary of a new block.

        Args:
            prefix: what the user asked for; None: `hint` and a number.
            params: dictionary to share parameters with.
            hint: the block's kind.
        """
        current = getattr(_BlockScope._current, "value", None)
        if prefix is None:
            if current is None:
                prefix = _name.NameManager._current.value.get(None, hint) + "_"
            else:
                number = current._counter.get(hint, 0)
                current._counter[hint] = number + 1
                prefix = f"{hint}{number}_"
        outer = "" if current is None else current._block.prefix
        if params is not None:
            params = ParameterDict(params.prefix, params)
        elif current is None:
            params = ParameterDict(prefix)
        else:
            parent = current._block.params
            params = ParameterDict(parent.prefix + prefix, parent._shared)
        return outer + prefix, params

    def __enter__(self) -> _BlockScope:
        if not self._block._empty_prefix:
            names = _name.Prefix(self._block.prefix)
            self._outer.append((getattr(_BlockScope._current, "value", None), names))
            _BlockScope._current.value = self
            names.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._block._empty_prefix:
            outer, names = self._outer.pop()
            names.__exit__(*exc)
            _BlockScope._current.value = outer


class Block:
    """Base of all layers and networks in imperative style: define `forward`, assign child blocks as attributes.

    Args:
        prefix: begins the names of the block's parameters and of blocks made in its `name_scope()`; by default the
            class's name in lower case and a number.
        params: dictionary of another block to share parameters with.

    Example:
        >>> class Model(mx.gluon.Block):
        ...     def __init__(self, **kwargs):
        ...         super().__init__(**kwargs)
        ...         with self.name_scope():
        ...             self.dense = mx.gluon.nn.Dense(2, in_units=3)
        ...     def forward(self, x):
        ...         return mx.nd.relu(self.dense(x))
        >>> model = Model(prefix="model_")
        >>> model.initialize()
        >>> model(mx.nd.ones((4, 3))).shape, list(model.collect_params())
        ((4, 2), ['model_dense0_weight', 'model_dense0_bias'])
    """

    _passes_on = False  # whether it does nothing but what its children do, so that it has no row in a summary

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._empty_prefix = prefix == ""
        self._prefix, self._params = _BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = _BlockScope(self)
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()

    def __repr__(self) -> str:
        rows = "\n".join(f"  ({key}): {_indent(repr(block), 2)}" for key, block in self.__dict__.items()
                         if isinstance(block, Block))
        return f"{type(self).__name__}(\n{rows}\n)"

    def __setattr__(self, name: str, value: Any) -> None:
        existing = getattr(self, name, None)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError(f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not "
                            "allowed.")
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                raise AssertionError(f"Overriding Parameter attribute {name} is not allowed. To share parameters "
                                     "between blocks, pass params= when making the block.")
            self._reg_params[name] = value
        super().__setattr__(name, value)

    # ------------------------------------------------------------ names and parts
    def _alias(self) -> str:
        """The kind of block, for its name."""
        return type(self).__name__.lower()

    @property
    def prefix(self) -> str:
        """Begins the names of the block's parameters."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the underscore at its end."""
        return self._name

    def name_scope(self) -> _BlockScope:
        """A `with` scope in which new blocks and parameters get this block's prefix."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """The parameters of the block and all blocks in it.

        Args:
            select: regular expression; only names that match (from their beginning), e.g. ".*weight|.*bias".
        """
        self._warn_of_hidden_blocks()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select or "")
        found.update({name: param for name, param in self.params.items() if pattern.match(name)})
        for child in self._children.values():
            found.update(child.collect_params(select=select))
        return found

    def _warn_of_hidden_blocks(self) -> None:
        """Warns of blocks in lists and dicts, whose parameters nobody would find."""
        children = set(self._children.values())

        def hidden(data: Any) -> bool:
            if isinstance(data, dict):
                data = data.values()
            elif not isinstance(data, (list, tuple)):
                return isinstance(data, Block) and data not in children
            return any(map(hidden, data))
        for name, value in self.__dict__.items():
            if isinstance(value, (list, tuple, dict)) and name != "_children" and hidden(value):
                warnings.warn(f'"{type(self).__name__}.{name}" is an unregistered container with Blocks: Blocks in a '
                              "list, tuple or dict are not registered by themselves. Use register_child(), "
                              "nn.Sequential or nn.HybridSequential instead.", stacklevel=3)

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Makes a block a child of this one; assigning it as an attribute does the same."""
        self._children[str(len(self._children)) if name is None else name] = block

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Calls `fn` on all blocks in this one and then on itself; returns it."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def cast(self, dtype: Any) -> None:
        """Converts all parameters to another dtype."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    def initialize(self, init: Any = initializer.Uniform(), ctx: Context | Sequence[Context] | None = None,  # noqa: B008
                   verbose: bool = False, force_reinit: bool = False) -> None:
        """Initializes all parameters; arguments as in `ParameterDict.initialize`."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridizes the HybridBlocks in this block; see `HybridBlock.hybridize`."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    # ------------------------------------------------------------ files
    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by the attributes that lead to them ("features.0.weight")."""
        prefix += "." if prefix else ""
        found = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Writes all parameters to a file, for `load_parameters`.

        Args:
            filename: the file.
            deduplicate: write a parameter that several blocks share only once.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            params = {name: param for param, name in {p: n for n, p in params.items()}.items()}
        nd.save(filename, {name: param._reduce() for name, param in params.items()})

    def load_parameters(self, filename: str, ctx: Context | Sequence[Context] | None = None,
                        allow_missing: bool = False, ignore_extra: bool = False, cast_dtype: bool = False,
                        dtype_source: str = "current") -> None:
        """Reads parameters that `save_parameters` (here or in MXNet), `export` or `ParameterDict.save` wrote.

        Args:
            filename: the file.
            ctx: where to initialize parameters that are not initialized; by default the CPU.
            allow_missing: leave parameters that are not in the file as they are.
            ignore_extra: pass over arrays that belong to no parameter.
            cast_dtype, dtype_source: convert dtypes, to the parameter's ("current") or the file's ("saved").

        Raises:
            AssertionError: a parameter is missing, or shapes or dtypes do not fit.
            ValueError: the file has more than the block.
        """
        loaded = load_named(filename)
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not any("." in name for name in loaded):  # names with prefixes, as before MXNet 1.3
            self.collect_params().load(filename, ctx, allow_missing, ignore_extra, self.prefix, cast_dtype,
                                       dtype_source)
            return
        if not allow_missing:
            names = defaultdict(list)
            for name, param in params.items():
                names[param].append(name)
            for name, param in params.items():
                if not any(other in loaded for other in names[param]):
                    raise AssertionError(f"Parameter {name!r} is missing in file {filename!r}, which contains "
                                         f"parameters: {_brief_print_list(loaded)}. Set allow_missing=True to ignore "
                                         "missing parameters.")
        for name, array in loaded.items():
            if name in params:
                params[name]._load_init(array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise ValueError(f"Parameter {name!r} loaded from file {filename!r} is not present in ParameterDict, "
                                 f"which contains parameters {_brief_print_list(params)}. Set ignore_extra=True to "
                                 "ignore.")

    def save_params(self, filename: str) -> None:
        """The old `save_parameters`, with names by prefix."""
        warnings.warn("save_params is deprecated. Please use save_parameters, or export for a file that SymbolBlock "
                      "loads.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename: str, ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                    ignore_extra: bool = False) -> None:
        """The old name of `load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Writes `prefix-model.json` (names of all blocks, graphs of hybridized ones) and `prefix-model.params`.

        Both are on the disk before one is replaced, so that a failure changes neither.
        """
        numbers: Iterator[int] = iter(range(1 << 62))

        def describe(block: Block, structure: dict[str, Any]) -> None:
            model: dict[str, Any] = {"orig_name": block.name, **block._describe_graph()}
            structure[f"{type(block).__name__.lower()}{next(numbers)}"] = model
            model["children"] = {}
            for name, child in block._children.items():
                model["children"][child.name] = name
                describe(child, model)
        structure: dict[str, Any] = {}
        describe(self, structure)
        with together():
            write_file(f"{prefix}-model.json", json.dumps(structure))
            self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix: str) -> None:
        """Reads what `save` wrote of a block made in the same way, names included."""
        numbers: Iterator[int] = iter(range(1 << 62))

        def restore(block: Block, structure: dict[str, Any]) -> None:
            model = structure[f"{type(block).__name__.lower()}{next(numbers)}"]
            block._name = model["orig_name"]
            block._restore_graph(model)
            own = block.params
            own._params = OrderedDict((f"{block.name}_{name[len(own.prefix):]}", param) for name, param in own.items())
            for child in block._children.values():
                restore(child, model)
            children = OrderedDict((model["children"][child.name], child) for child in block._children.values())
            if len(children) != len(block._children):
                raise MXNetError(f"two children of {block.name} have one name")
            block._children = children
        with reading(f"{prefix}-model.json", "the names of such a block"), \
                open(f"{prefix}-model.json", encoding="utf-8") as file:
            restore(self, json.load(file))
        self.load_parameters(f"{prefix}-model.params")

    def _describe_graph(self) -> dict[str, Any]:
        """What `save` notes of a block's graph."""
        return {}

    def _restore_graph(self, model: dict[str, Any]) -> None:
        """The reverse of `_describe_graph`."""

    # ------------------------------------------------------------ running
    def __call__(self, *args: Any) -> Any:
        """Runs the block: hooks and `forward`."""
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        out = self.forward(*args)
        for hook in self._forward_hooks.values():
            hook(self, args, out)
        if is_np_array():
            check_np(out)
        return out

    def forward(self, *args: Any) -> Any:
        """What the block computes, in terms of NDArrays; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def register_forward_pre_hook(self, hook: Callable[[Block, tuple], None]) -> HookHandle:
        """Has `hook(block, inputs)` called before each `forward`; returns a handle that can detach it."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[[Block, tuple, Any], None]) -> HookHandle:
        """Has `hook(block, inputs, outputs)` called after each `forward`; returns a handle that can detach it."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Callable[[str, str, NDArray], None], monitor_all: bool = False) -> None:
        """Has `callback(name, operator, array)` called with every operator's outputs in hybridized blocks.

        Args:
            callback: function of the array's name, the operator's name and the array.
            monitor_all: inputs too.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: NDArray) -> None:
        """Prints a table of the blocks, their outputs' shapes and their numbers of parameters.

        Args:
            inputs: what to call the (initialized, not hybridized) block with.

        Raises:
            AssertionError: a block is hybridized.
        """
        _summary.summary(self, inputs)

    def _repr_html_(self) -> str:
        return _summary.as_html(self)


class HybridBlock(Block):
    """Base of blocks that run imperatively and, after `hybridize()`, as one compiled graph.

    Subclasses define `hybrid_forward(self, F, x, ..., weight, ...)`: F is `mx.nd` or `mx.sym`, x and the other inputs
    are NDArrays or Symbols, and so are the block's own parameters, which come as keywords.

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

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._clear_cached_op()
        self._in_format = self._out_format = None
        self._active = False
        self._flags: list[tuple[str, Any]] = []
        self._callback: Callable | None = None
        self._monitor_all = False
        self._backend: str | None = None
        self._backend_opts: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    def register_child(self, block: Block, name: str | None = None) -> None:
        """As `Block.register_child`.

        Raises:
            ValueError: the child is no HybridBlock.
        """
        if not isinstance(block, HybridBlock):
            raise ValueError(f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. "
                             "If you are using Sequential, please try HybridSequential instead.")
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Forgets the graph: it is made again at the next call."""
        self._cached_graph: tuple = ()
        self._cached_op: nd.CachedOp | None = None
        self._cached_op_args: list[tuple[bool, Any]] = []
        self._flat_inputs = 0  # how many arrays side by side the graph takes; 0: not just these

    def cast(self, dtype: Any) -> None:
        """Converts all parameters to another dtype."""
        self._clear_cached_op()
        super().cast(dtype)

    def hybridize(self, active: bool = True, backend: str | None = None, clear: bool = True,
                  static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                  forward_bulk_size: int | None = None, backward_bulk_size: int | None = None, **kwargs: Any) -> None:
        """Has the block, and all blocks in it, run as compiled graphs (or, with `active` off, imperatively again).

        Args:
            active: on or off.
            backend: name of a graph backend.
            clear: make the graph anew at the next call.
            static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size: MXNet's memory and
                scheduling choices, which XLA makes by itself.
            kwargs: options of the backend.
        """
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

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, clear: bool = False,
                     static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                     forward_bulk_size: int | None = None, backward_bulk_size: int | None = None,
                     **kwargs: Any) -> None:
        """Hybridizes the block and makes its graph for a backend at once, without running it.

        Args:
            x, args: inputs, for their shapes.
            backend: name of the backend.
            clear, static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size: see `hybridize`.
            kwargs: options of the backend.

        Raises:
            ValueError: no backend is given, or the inputs are neither arrays nor symbols, or on several contexts.
        """
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(True, backend, clear, static_alloc, static_shape, inline_limit, forward_bulk_size,
                       backward_bulk_size, **kwargs)
        has_symbol, has_array, contexts = kinds([x, *args])
        self._check_inputs(has_symbol, has_array, contexts)
        self._build_cache(x, *args)

    def plan(self, *inputs: Any, on: str, train: str | None = None, dtype: Any = None,
             batch: int | str | None = None) -> Plan:
        """What this block needs and does on devices, which need not be here; see `Symbol.plan`.

        Args:
            inputs: arrays, or shapes (tuples).
            on: the devices: "h100", "a100", "l4", "h100x8"; "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...
            train: "sgd" (with momentum) or "adam" for a step of training; None for a prediction.
            dtype: of the inputs, but for arrays of integers, and of parameters whose dtype follows from it; default
                that of the arrays, else float32.
            batch: another length of the inputs' first axis, or "largest": what a device has room for.

        Raises:
            MXNetError: as `Symbol.plan`.

        Example:
            >>> mx.gluon.model_zoo.vision.resnet50_v1().plan((64, 3, 224, 224), on="h100")  # doctest: +SKIP
        """
        return plan_of_block(self, inputs, on, train, dtype, batch)

    # ------------------------------------------------------------ graphs
    def _get_graph(self, *args: Any) -> tuple[list[Symbol], Symbol]:
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
            with self.name_scope():
                out = self.hybrid_forward(symbol, *regroup(variables, self._in_format), **params)
            if is_np_array():
                check_np(out)
            outputs, self._out_format = flatten(out, "output")
            self._cached_graph = ([v for v in variables if v is not None],
                                  symbol.Group(outputs, type(outputs[0])))
        return self._cached_graph

    def _build_cache(self, *args: Any) -> None:
        """Makes the graph and the compiled operator, finishing initializations that waited for shapes."""
        data, out = self._get_graph(*args)
        places = {variable.name: i for i, variable in enumerate(data)}
        inputs = out.list_inputs()
        params = {p.name: p for is_arg, p in self._cached_op_args if not is_arg} or dict(self.collect_params().items())
        unknown = next((name for name in inputs if name not in params and name not in places), None)
        if unknown is not None:
            raise AssertionError(f"Unknown input to HybridBlock: {unknown}")
        unused = [f"{i}-th" for name, i in places.items() if name not in inputs]
        if unused:
            warnings.warn(f"The {', '.join(unused)} input to HybridBlock is not used by any computation. Is this "
                          "intended?", stacklevel=4)
        unused = [name for name in params if name not in inputs]
        if unused:
            warnings.warn(f"Parameter {', '.join(unused)} is not used by any computation. Is this intended?",
                          stacklevel=4)
        used = [params[name] for name in inputs if name in params]
        if any(param._data is None and param._deferred_init for param in used):
            self._deferred_infer_shape(*[a for a in flatten(args, "input")[0]])
            for param in used:
                param._finish_deferred_init()
        if self._backend:
            out, params = self._optimized(out, params, places, flatten(args, "input")[0])
            self._cached_graph = data, out
            inputs = out.list_inputs()
        self._cached_op_args = [(True, places[name]) if name in places else (False, params[name]) for name in inputs]
        indices = {kind: [i for i, (is_arg, _) in enumerate(self._cached_op_args) if is_arg == kind]
                   for kind in (True, False)}
        self._cached_op = nd.CachedOp(out, [("data_indices", indices[True]), ("param_indices", indices[False]),
                                            *self._flags])
        flat = isinstance(self._in_format, list) and not any(self._in_format) and not self._callback
        self._flat_inputs = len(self._in_format) if flat and not self._cached_op.by_steps else 0

    def _optimized(self, out: Symbol, params: dict[str, Parameter], places: dict[str, int],
                   args: list[Any]) -> tuple[Symbol, dict[str, Parameter]]:
        """The graph as the backend wants it, and the parameters, with those that the backend made."""
        given = {name: args[i] for name, i in places.items() if isinstance(args[i], NDArray)}

        def values(names: Sequence[str]) -> dict[str, NDArray]:
            return {name: given[name] if name in given else params[name].data() for name in names
                    if name in given or name in params}
        arg_dict, aux_dict = values(out.list_arguments()), values(out.list_auxiliary_states())
        ctx = next((array.context for array in given.values()), None)
        out = out.optimize_for(self._backend, arg_dict, aux_dict, ctx, **self._backend_opts)
        made = {**arg_dict, **aux_dict}
        for name in out.list_inputs():
            if name not in params and name not in places:
                params[name] = Parameter(name, dtype=made[name].dtype)
                params[name]._load_init(made[name], made[name].context)
        return out, params

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            raise ValueError(f"Deferred initialization failed because shape cannot be inferred. {error}") from error

    def _infer_attrs(self, function: str, attr: str, *args: Any) -> None:
        """Sets an attribute of all parameters by what the graph tells for these inputs."""
        inputs, out = self._get_graph(*args)
        given = [arg for arg in flatten(args, "input")[0] if arg is not None]
        known = {variable.name: getattr(arg, attr) for variable, arg in zip(inputs, given, strict=False)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            arg_attrs, _, aux_attrs = getattr(out, function)(**known)
        if arg_attrs is None:
            raise ValueError(caught[0].message if caught else f"{function} with {known} leaves something unknown")
        found = dict(zip(out.list_arguments() + out.list_auxiliary_states(), [*arg_attrs, *aux_attrs], strict=True))
        for param in self.collect_params().values():
            setattr(param, attr, found[param.name])

    def infer_shape(self, *args: Any) -> None:
        """Works out the parameters' shapes from inputs."""
        self._infer_attrs("infer_shape", "shape", *args)

    def infer_type(self, *args: Any) -> None:
        """Works out the parameters' dtypes from inputs."""
        self._infer_attrs("infer_type", "dtype", *args)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Writes `path-symbol.json` and `path-EPOCH.params`, for `SymbolBlock.imports`, Module and other languages.

        One input is named "data", several are named "data0", "data1", ... Both files are on the disk before one is
        replaced, so that a failure changes neither; the parameters appear last.

        Args:
            path: beginning of the file names.
            epoch: number in the second one (4 digits).
            remove_amp_cast: leave out the casts of automatic mixed precision.

        Raises:
            RuntimeError: the block has not been hybridized and called.
        """
        if not self._cached_graph:
            raise RuntimeError("Please first call block.hybridize() and then run forward with this block at least "
                               "once before calling export.")
        out = self._cached_graph[1]
        kinds_by_name = {**dict.fromkeys(out.list_arguments(), "arg"),
                         **dict.fromkeys(out.list_auxiliary_states(), "aux")}
        with together():
            out.save(f"{path}-symbol.json", remove_amp_cast=remove_amp_cast)
            nd.save(f"{path}-{epoch:04d}.params", {f"{kinds_by_name[param.name]}:{param.name}": param._reduce()
                                                  for is_arg, param in self._cached_op_args if not is_arg})

    def to_jax(self, *inputs: Any) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
        """(apply, params, aux): the block as a pure JAX function; see `mx.interop.block_to_jax`."""
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
    def register_op_hook(self, callback: Callable[[str, str, NDArray], None], monitor_all: bool = False) -> None:
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

    def _call_cached_op(self, *args: Any) -> Any:
        if self._cached_op is None:
            self._build_cache(*args)
        if self._callback:
            self._cached_op._register_op_hook(self._callback, self._monitor_all)
        flat, form = flatten(args, "input")
        if form != self._in_format:
            self._check_format(form)
        given = [arg for arg in flat if arg is not None]
        out = self._cached_op(*[given[p] if is_arg else p.data() for is_arg, p in self._cached_op_args])
        return regroup([out] if isinstance(out, NDArray) else out, self._out_format)

    def _check_format(self, form: list[Any]) -> None:
        """Raises ValueError where inputs differ from the first call's in more than trailing None."""
        known, common = self._in_format, min(len(form), len(self._in_format))
        if form[:common] != known[:common] or any(f != -1 for f in [*form[common:], *known[common:]]):
            raise ValueError("The argument structure of HybridBlock does not match the cached version. Stored format "
                             f"= {known}, input format = {form}")

    def forward(self, x: Any, *args: Any) -> Any:
        """Runs `hybrid_forward` on arrays or symbols, or the compiled graph."""
        given, ctx = (x, *args), None
        for array in given:
            if not isinstance(array, NDArray) or ctx is not None and array._chunk.ctx is not ctx:
                ctx = None
                break
            ctx = array._chunk.ctx
        if ctx is None:  # not just arrays on one context
            has_symbol, has_array, contexts = kinds(given)
            self._check_inputs(has_symbol, has_array, contexts if self._active else [])
            if has_symbol:
                params = {name: param.var() for name, param in self._reg_params.items()}
                with self.name_scope():
                    return self.hybrid_forward(symbol, x, *args, **params)
            ctx = contexts[0]
        elif self._active and len(given) == self._flat_inputs:
            return self._call_flat(given, ctx)
        with ctx:
            if self._active:
                return self._call_cached_op(x, *args)
            params = {}
            for name, param in self._reg_params.items():
                data = param._data
                if data is not None and len(data) == 1 and data[0]._chunk.ctx is ctx and param._stype == "default":
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

    def _call_flat(self, given: tuple[NDArray, ...], ctx: Context) -> Any:
        """Runs the compiled graph on arrays side by side, as the first call had them."""
        values = []
        for is_arg, what in self._cached_op_args:
            if is_arg:
                values.append(given[what])
                continue
            data = what._data
            if data is not None and len(data) == 1 and what._stype == "default":
                values.append(data[0])
            else:
                with ctx:
                    values.append(what.data())
        out = self._cached_op(*values)
        return out if self._out_format == 0 else regroup([out] if isinstance(out, NDArray) else out, self._out_format)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """What the block computes; subclasses define it.

        Args:
            F: `mx.nd` or `mx.sym`.
            x, args: inputs, NDArrays or Symbols.
            kwargs: the block's own parameters, by attribute name.
        """
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")


class SymbolBlock(HybridBlock):
    """A symbol as a block.

    Args:
        outputs: symbol, or list of symbols.
        inputs: those of its variables that are inputs; the others become parameters.
        params: dictionary to take parameters from.

    Raises:
        AssertionError: an input is no variable, or a variable is row_sparse.

    Example:
        >>> data = mx.sym.var("data")
        >>> block = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)
        >>> block.initialize()
        >>> block(mx.nd.ones((3, 4))).shape
        (3, 2)
    """

    @staticmethod
    def imports(symbol_file: str, input_names: str | Sequence[str], param_file: str | None = None,
                ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                ignore_extra: bool = False) -> SymbolBlock:
        """A block of what `HybridBlock.export` or `Module.save_checkpoint` wrote, here or in MXNet.

        Args:
            symbol_file: the `-symbol.json` file.
            input_names: names of the inputs.
            param_file: the `.params` file; without it the parameters have to be initialized.
            ctx: where to put the parameters.
            allow_missing, ignore_extra: see `ParameterDict.load`.
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        # without a file of parameters the inputs are taken for float32, and other types follow from that
        inputs = [symbol.var(name, dtype="float32" if param_file is None else None) for name in names]
        out = symbol.load(symbol_file)
        block = SymbolBlock(out.as_np_ndarray() if is_np_array() else out, inputs)
        if param_file is not None:
            block.collect_params().load(param_file, ctx, allow_missing, ignore_extra, cast_dtype=True,
                                        dtype_source="saved")
        return block

    def __init__(self, outputs: Symbol | Sequence[Symbol], inputs: Symbol | Sequence[Symbol],
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix, self._params = "", ParameterDict("", params)
        if isinstance(inputs, Symbol) and len(inputs.list_outputs()) == 1:
            inputs = [inputs]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        variables, self._in_format = flatten(inputs, "input")
        results, self._out_format = flatten(outputs, "output")
        for variable in variables:
            if len(variable.get_internals().list_outputs()) != 1:
                raise AssertionError(f"Input symbols must be variable, but {variable} is an output of operators")
        out = symbol.Group(results) if len(results) > 1 else results[0]
        for name, attrs in out.attr_dict().items():
            if attrs.get("__storage_type__") == "1":
                raise AssertionError(f"SymbolBlock doesn't support Parameter {name!r} because its storage type is "
                                     "'row_sparse'.")
        names = {variable.name for variable in variables}
        arg_types, aux_types = _parameter_types(variables, out)
        for found, req in ((arg_types, "write"), (aux_types, "null")):
            for name, dtype in found.items():
                if name not in names:
                    self.params.get(name, grad_req=req, allow_deferred_init=True, dtype=dtype)
        self._cached_graph = variables, out
        begin = len(_common_prefix(list(self._params.keys())))
        self._reg_params = {name[begin:]: param for name, param in self._params.items()}

    def __repr__(self) -> str:
        inputs, out = self._cached_graph
        return f"{type(self).__name__}(\n{out} : {len(inputs)} -> {len(out.list_outputs())}\n)"

    def forward(self, x: Any, *args: Any) -> Any:
        """Runs the graph on arrays, or composes it with symbols."""
        if isinstance(x, NDArray):
            with x.context:
                return self._call_cached_op(x, *args)
        if not isinstance(x, Symbol):
            raise AssertionError("HybridBlock requires the first argument to forward be either Symbol or NDArray, but "
                                 f"got {type(x)}")
        flat, form = flatten([x, *args], "input")
        if form != self._in_format:
            raise AssertionError(f"Invalid input format: expected {self._in_format}, got {form}")
        inputs, out = self._cached_graph
        result = out(**{variable.name: value for variable, value in zip(inputs, flat, strict=True)})
        return regroup(list(result), self._out_format)

    def _clear_cached_op(self) -> None:
        graph = getattr(self, "_cached_graph", ())
        super()._clear_cached_op()
        self._cached_graph = graph

    def cast(self, dtype: Any) -> None:
        """Converts all parameters to another dtype; with float16, those of batch normalization stay float32."""
        super().cast(dtype)
        if np_dtype(dtype).name != "float16":
            return
        names = set(self._cached_graph[1].list_inputs())
        for statistic in ("running", "moving"):
            for name in names:
                stem = name.removesuffix(f"{statistic}_var")
                parts = [stem + part for part in (f"{statistic}_mean", f"{statistic}_var", "gamma", "beta")]
                if stem != name and names.issuperset(parts):
                    for part in parts:
                        self.params.get(part).cast("float32")

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Moves all parameters to other contexts (None: the current one), those a backend made included."""
        params = {param.name: param for is_arg, param in self._cached_op_args if not is_arg}
        for param in {**params, **self.collect_params()._params}.values():
            param.reset_ctx(ctx)


def _common_prefix(names: Sequence[str]) -> str:
    """The longest beginning that all names share."""
    if not names:
        return ""
    low, high = min(names), max(names)
    return low[:next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))]


def _parameter_types(inputs: Sequence[Symbol], out: Symbol) -> tuple[dict[str, Any], dict[str, Any]]:
    """dtypes of arguments and auxiliary states by name, as far as the inputs' tell them, else float32."""
    args, aux = out.list_arguments(), out.list_auxiliary_states()
    arg_types = aux_types = None
    known = [variable.infer_type()[0] for variable in inputs]
    if all(known):
        try:
            arg_types, _, aux_types = out.infer_type(**{v.name: t[0] for v, t in zip(inputs, known, strict=True)})
        except MXNetError:
            arg_types = aux_types = None
    return (dict(zip(args, arg_types or ["float32"] * len(args), strict=True)),
            dict(zip(aux, aux_types or ["float32"] * len(aux), strict=True)))
