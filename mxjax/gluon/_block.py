"""`Block`: names, children, parameters, hooks and files."""

from __future__ import annotations

import json
import re
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import initializer
from .. import name as _name
from .._support.error_kinds import addressed
from .._support.files import reading, together, write_file
from ..attribute import PerThread
from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..util import is_np_array
from . import _summary
from ._formats import check_np
from ._parameter import Parameter, ParameterDict, load_named, save_each
from .utils import HookHandle, _brief_print_list, _indent, any_arguments

if TYPE_CHECKING:
    from ..initializer import InitializerLike
    from ..ops.params import DTypeLike

__all__ = ["Block", "_BlockScope"]


class _BlockScope:
    """The name scope of a block: blocks and parameters created inside get its prefix and its numbers."""

    _current = PerThread(lambda: None)

    def __init__(self, block: Block) -> None:
        self.block = block
        self._counter: dict[str, int] = defaultdict(int)

    @classmethod
    def create(cls, prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameter dictionary of a new block.

        Args:
            prefix: the prefix that the user chose; None: `hint` and a number.
            params: dictionary to share parameters with.
            hint: the block's kind.
        """
        current = cls._current.value
        if prefix is None:
            own = f"{_name.current().get(None, hint)}_" if current is None else current.numbered(hint)
        else:
            own = prefix
        outer = "" if current is None else current.block.prefix
        if params is not None:
            params = ParameterDict(params.prefix, params)
        elif current is None:
            params = ParameterDict(own)
        else:
            parent = current.block.params
            params = ParameterDict(parent.prefix + own, parent._shared)
        return outer + own, params

    def numbered(self, hint: str) -> str:
        """Returns the prefix of the next block of this kind in the scope."""
        number = self._counter[hint]
        self._counter[hint] += 1
        return f"{hint}{number}_"

    def __enter__(self) -> _BlockScope:
        if not self.block._empty_prefix:
            names, current = _name.Prefix(self.block.prefix), self._current
            current.outer.append((current.value, names))
            current.value = self
            names.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.block._empty_prefix:
            outer, names = self._current.outer.pop()
            names.__exit__(*exc)
            self._current.value = outer


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

    _passes_on = False  # whether it only calls its children, so that it has no row in a summary

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

    def __setattr__(self, name: str, value: object) -> None:
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

    @property
    def _unique(self) -> str:
        """A name that no other block of this process has."""
        return self._prefix

    def name_scope(self) -> _BlockScope:
        """A `with` scope in which new blocks and parameters get this block's prefix."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without those of its children."""
        return self._params

    def _make_parameter(self, name: str, **kwargs: Any) -> Parameter:
        """The block's own parameter of this name, made if need be."""
        return self.params.get(name, **kwargs)

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """The parameters of the block and all blocks in it.

        Args:
            select: regular expression. Only parameters whose names match it from the beginning are
                returned, e.g. ".*weight|.*bias".
        """
        self._warn_of_hidden_blocks()
        result = ParameterDict(self._params.prefix)
        pattern = re.compile(select or "")
        result.update({name: param for name, param in self.params.items() if pattern.match(name)})
        for child in self._child_blocks():
            result.update(child.collect_params(select=select))
        return result

    def _warn_of_hidden_blocks(self) -> None:
        """Warns of blocks in lists and dicts, whose parameters would not be collected."""
        children = set(self._child_blocks())

        def hidden(data: object) -> bool:
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

    def _child_items(self) -> Iterable[tuple[str, Block]]:
        """The blocks directly in this one, by name."""
        return self._children.items()

    def _child_blocks(self) -> list[Block]:
        """The blocks directly in this one."""
        return [child for _, child in self._child_items()]

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Calls `fn` on every descendant and then on the block itself; returns the block."""
        for child in self._child_blocks():
            child.apply(fn)
        fn(self)
        return self

    def cast(self, dtype: DTypeLike) -> None:
        """Converts all parameters to another dtype."""
        for child in self._child_blocks():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    def initialize(self, init: InitializerLike = initializer.Uniform(), ctx: Context | Sequence[Context] | None = None,  # noqa: B008
                   verbose: bool = False, force_reinit: bool = False) -> None:
        """Initializes all parameters; arguments as in `ParameterDict.initialize`."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridizes the HybridBlocks in this block; see `HybridBlock.hybridize`."""
        for child in self._child_blocks():
            child.hybridize(active, **kwargs)

    # ------------------------------------------------------------ files
    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by the attributes that lead to them ("features.0.weight")."""
        prefix += "." if prefix else ""
        result = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._child_items():
            result.update(child._collect_params_with_prefix(prefix + name))
        return result

    _write_params = staticmethod(save_each)

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Writes all parameters to a file, for `load_parameters`.

        Args:
            filename: the file.
            deduplicate: write a parameter that several blocks share only once.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            params = {name: param for param, name in {p: n for n, p in params.items()}.items()}
        self._write_params(filename, params)

    def load_parameters(self, filename: str, ctx: Context | Sequence[Context] | None = None,
                        allow_missing: bool = False, ignore_extra: bool = False, cast_dtype: bool = False,
                        dtype_source: str = "current") -> None:
        """Reads parameters that `save_parameters` (here or in MXNet), `export` or `ParameterDict.save` wrote.

        Args:
            filename: the file.
            ctx: context for parameters that are not initialized yet; by default the CPU.
            allow_missing: keep the values of parameters that the file does not contain.
            ignore_extra: skip arrays that belong to no parameter.
            cast_dtype, dtype_source: cast to the dtype of the parameter ("current") or of the file
                ("saved").

        Raises:
            AssertionError: a parameter is missing, or shapes or dtypes do not fit.
            ValueError: the file contains arrays that belong to no parameter.
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
                    raise AssertionError(addressed(
                        f"Parameter {name!r} is missing in file {filename!r}, which contains "
                        f"parameters: {_brief_print_list(loaded)}. Set allow_missing=True to ignore "
                        "missing parameters."))
        for name, array in loaded.items():
            if name in params:
                params[name]._load_init(array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise ValueError(addressed(
                    f"Parameter {name!r} loaded from file {filename!r} is not present in ParameterDict, "
                    f"which contains parameters {_brief_print_list(params)}. Set ignore_extra=True to "
                    "ignore."))

    def save_params(self, filename: str) -> None:
        """Deprecated: writes parameters under their prefixed names; use `save_parameters`."""
        warnings.warn("save_params is deprecated. Please use save_parameters, or export for a file that SymbolBlock "
                      "loads.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename: str, ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                    ignore_extra: bool = False) -> None:
        """Deprecated name of `load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Writes `prefix-model.json` (names of all blocks, graphs of hybridized ones) and `prefix-model.params`.

        Both files are written completely before either one is replaced, so a failure changes
        neither.
        """
        numbers: Iterator[int] = iter(range(1 << 62))

        def describe(block: Block, structure: dict[str, Any]) -> None:
            model: dict[str, Any] = {"orig_name": block.name, **block._describe_graph()}
            structure[f"{type(block).__name__.lower()}{next(numbers)}"] = model
            model["children"] = {}
            for name, child in block._child_items():
                model["children"][child.name] = name
                describe(child, model)
        structure: dict[str, Any] = {}
        describe(self, structure)
        with together():
            write_file(f"{prefix}-model.json", json.dumps(structure))
            self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix: str) -> None:
        """Loads the files that `save` wrote for a block with the same structure and names."""
        numbers: Iterator[int] = iter(range(1 << 62))

        def restore(block: Block, structure: dict[str, Any]) -> None:
            model = structure[f"{type(block).__name__.lower()}{next(numbers)}"]
            block._name = model["orig_name"]
            block._restore_graph(model)
            own = block.params
            own._params = OrderedDict((f"{block.name}_{name[len(own.prefix):]}", param) for name, param in own.items())
            for child in block._child_blocks():
                restore(child, model)
            children = OrderedDict((model["children"][child.name], child) for child in block._child_blocks())
            if len(children) != len(block._children):
                raise MXNetError(f"two children of {block.name} have the same name")
            block._children = children
        with reading(f"{prefix}-model.json", "the names of such a block"), \
                open(f"{prefix}-model.json", encoding="utf-8") as file:
            restore(self, json.load(file))
        self.load_parameters(f"{prefix}-model.params")

    def _describe_graph(self) -> dict[str, Any]:
        """Returns the description of a block's graph that `save` writes."""
        return {}

    def _restore_graph(self, model: dict[str, Any]) -> None:
        """The reverse of `_describe_graph`."""

    # ------------------------------------------------------------ running
    @any_arguments
    def __call__(self, *args: object) -> Any:
        """Runs the block: hooks and `forward`."""
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        out = self.forward(*args)
        for hook in self._forward_hooks.values():
            hook(self, args, out)
        if is_np_array():
            check_np(out)
        return out

    @any_arguments
    def forward(self, *args: object) -> Any:
        """Computes the block's outputs from NDArrays; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def register_forward_pre_hook(self, hook: Callable[[Block, tuple], None]) -> HookHandle:
        """Calls `hook(block, inputs)` before each `forward`; returns a handle that detaches the hook."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[[Block, tuple, Any], None]) -> HookHandle:
        """Calls `hook(block, inputs, outputs)` after each `forward`; returns a handle that detaches the hook."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Callable[[Any, Any, NDArray], None], monitor_all: bool = False) -> None:
        """Calls `callback(name, operator, array)` for the outputs of every operator in hybridized blocks.

        Args:
            callback: function that accepts the array's name, the operator's name and the array. The names are bytes at
                level 1, as in MXNet (`mx.base.py_str(name)` is the text), and str at level 2.
            monitor_all: call it for the operators' inputs, too.
        """
        for child in self._child_blocks():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: NDArray) -> None:
        """Prints a table of the blocks with their output shapes and parameter counts.

        Args:
            inputs: example inputs. The block must be initialized and not hybridized.

        Raises:
            AssertionError: a block is hybridized.
        """
        _summary.summary(self, inputs)

    def _repr_html_(self) -> str:
        return _summary.as_html(self)
