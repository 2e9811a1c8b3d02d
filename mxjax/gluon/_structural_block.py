"""`Block` of MXNet 2: parameters are named by the attributes that lead to them ("features.0.weight").

It is the `Block` of MXNet 1.x without prefixes, name scopes and parameter dictionaries.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import initializer
from .. import ndarray as nd
from .._support.error_kinds import addressed
from .._support.files import reading, together, write_file
from ..array.file_format import write_numpy
from ..base import MXNetError, Unreadable
from ..context import Context, current_context
from ..device import with_device
from ..ndarray import NDArray
from ..util import is_np_array, is_np_shape, np_shape
from . import _block
from ._parameter import load_named, save_each
from ._structural_parameter import Parameter
from .utils import _brief_print_list

if TYPE_CHECKING:
    from ..initializer import InitializerLike

__all__ = ["Block"]

_OLD = {"prefix": "parameters are named by attributes, see collect_params()",
        "name": "blocks have no names; type(block).__name__ is the name of its class",
        "name_scope": "parameters are named by attributes, so no scope is needed",
        "save_params": "save_parameters", "load_params": "load_parameters"}


class _Old:
    """A member of MXNet 1.x's blocks; those of subclasses and instances come before it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._member = name

    def __get__(self, block: Block, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__}.{self._member} belongs to MXNet 1.x, but this process uses MXNet 2: "
                             f"{_OLD[self._member]}")


class _TypeName:
    """The kind of block, for messages; code for MXNet 2 may have an attribute of the same name, `_name`."""

    def __get__(self, block: Block, owner: type) -> str:
        return owner.__name__.lower()


def _without_prefix(init: Callable[..., None]) -> Callable[..., None]:
    """A layer's `__init__` without the arguments of MXNet 1.x, which are refused below as keywords."""
    signature = inspect.signature(init)
    shown = [p for p in signature.parameters.values() if p.name not in ("prefix", "params")]
    if "prefix" not in signature.parameters or any(p.kind is p.VAR_POSITIONAL for p in shown):
        return init  # `params` alone is an argument of MXNet 2 as well
    names = [p.name for p in shown if p.kind is p.POSITIONAL_OR_KEYWORD][1:]

    @functools.wraps(init)
    def call(self: Any, *args: object, **kwargs: Any) -> None:
        if any(more is not None for more in args[len(names):]):  # the library's own cells hand prefix and params on
            raise TypeError(f"{type(self).__name__} takes {len(names)} arguments at most, got {len(args)}")
        for name, value in zip(names, args, strict=False):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__} got multiple values for {name!r}")
            kwargs[name] = value
        init(self, **kwargs)
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return call


class _Child:
    """A block's child, which code for MXNet 2 calls (`block._children["0"]()`), as references there are weak."""

    __slots__ = ("_block",)

    def __init__(self, block: Block) -> None:
        self._block = block

    def __call__(self) -> Block:
        return self._block


def save_arrays(filename: str, params: dict[str, Parameter]) -> None:
    """Writes parameters by name, as MXNet 2 does: `mx.np.ndarray`s to an .npz file."""
    if is_np_array() or any(type(a) is not NDArray for p in params.values() for a in p._data or ()):
        write_numpy(os.fspath(filename), {name: param._reduce() for name, param in params.items()})
    else:
        save_each(filename, params)


class Block(_block.Block):
    """Base of all layers and networks in imperative style: define `forward`, assign child blocks as attributes.

    Example:
        >>> class Model(mx.gluon.Block):  # doctest: +SKIP
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.dense = mx.gluon.nn.Dense(2, in_units=3)
        ...     def forward(self, x):
        ...         return mx.npx.relu(self.dense(x))
        >>> model = Model()  # doctest: +SKIP
        >>> model.initialize()  # doctest: +SKIP
        >>> list(model.collect_params())  # doctest: +SKIP
        ['dense.weight', 'dense.bias']
    """

    prefix, name, name_scope, save_params, load_params = (_Old() for _ in _OLD)  # type: ignore[assignment]
    _name = _TypeName()  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("mxjax."):
            shown = _without_prefix(cls.__init__)
            if shown is not cls.__init__:
                cls.__init__ = shown  # type: ignore[method-assign]

    def __init__(self, prefix: None = None, params: None = None) -> None:
        if prefix is not None or params is not None:
            argument = "prefix" if prefix is not None else "params"
            raise TypeError(f"{type(self).__name__}: blocks of MXNet 2 have no {argument}; parameters are named by "
                            "attributes and shared by share_parameters()")
        self._prefix = None
        self._scope: Any = nullcontext()  # where layers of MXNet 1.x have name scopes
        self._children: OrderedDict[str, _Child] = OrderedDict()  # type: ignore[assignment]
        self._reg_params: dict[str, Parameter] = {}  # type: ignore[assignment]
        self._forward_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()

    def __dir__(self) -> list[str]:
        cls = type(self)
        return [name for name in super().__dir__() if name not in _OLD or name in self.__dict__
                or not isinstance(inspect.getattr_static(cls, name), _Old)]

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Parameter):
            existing = self.__dict__.get(name)
            if isinstance(existing, _block.Block):
                raise TypeError(f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not "
                                "allowed.")
            self._reg_params[name] = value
            object.__setattr__(self, name, value)
            return
        super().__setattr__(name, value)

    def _make_parameter(self, name: str, **kwargs: Any) -> Parameter:
        return Parameter(name, **kwargs)

    @property
    def _unique(self) -> str:
        return f"{type(self).__name__.lower()}_{id(self):x}"

    def register_child(self, block: _block.Block, name: str | None = None) -> None:
        """Makes a block a child of this one; assigning it as an attribute does the same."""
        self._children[str(len(self._children)) if name is None else name] = \
            _Child(block)  # pyright: ignore[reportArgumentType]  all blocks of this level are of this class

    def _child_items(self) -> list[tuple[str, Block]]:
        return [(name, child()) for name, child in self._children.items()]

    # ------------------------------------------------------------ parameters
    @property
    def params(self) -> dict[str, Parameter]:  # type: ignore[override]
        """The block's own parameters by attribute name, without those of its children."""
        return self._reg_params

    @params.setter
    def params(self, value: object) -> None:
        raise AttributeError("params cannot be assigned: assign each parameter to the attribute of its name, or use "
                             "share_parameters()")

    def collect_params(self, select: str | None = None) -> dict[str, Parameter]:  # type: ignore[override]
        """Returns the parameters of the block and all its descendants by attribute path.

        Args:
            select: regular expression. Only parameters whose names match it from the beginning are
                returned, e.g. ".*weight|.*bias".
        """
        self._warn_of_hidden_blocks()
        params = cast(dict[str, Parameter], self._collect_params_with_prefix())  # all of this level
        if select is None:
            return params
        pattern = re.compile(select)
        return {name: param for name, param in params.items() if pattern.match(name)}

    @with_device
    def initialize(self, init: InitializerLike = initializer.Uniform(), ctx: Context | Sequence[Context] | None = None,  # noqa: B008
                   verbose: bool = False, force_reinit: bool = False) -> None:
        """Initializes all parameters.

        Args:
            init: initializer of parameters without one of their own.
            ctx: device or list of devices, each of which gets a copy; by default the current one.
            verbose: log each initialization.
            force_reinit: reinitialize parameters that are initialized already.
        """
        if verbose:
            init = initializer.create(init)
            init.set_verbosity(verbose=verbose)
        for param in self.collect_params().values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def share_parameters(self, shared: dict[str, Parameter] | None) -> Block:
        """Replaces parameters of this block by those of another one.

        Args:
            shared: parameters by their names in this block, such as `other.collect_params()`.

        Returns:
            The block.

        Raises:
            ValueError: `shared` is not a dict.
        """
        if shared is None:
            return self
        if not isinstance(shared, dict):
            raise ValueError(f"'shared' should be in type of Dict. Get type {type(shared)}!")
        unknown = set(shared)
        self._take_parameters(shared, unknown, "")
        for name in sorted(unknown):
            warnings.warn(f"Parameter name {name} is not in the current model!", stacklevel=2)
        return self

    def _take_parameters(self, shared: dict[str, Parameter], unknown: set[str], prefix: str) -> None:
        for name in list(self._reg_params):
            if shared.get(prefix + name) is not None:
                setattr(self, name, shared[prefix + name])
                unknown.discard(prefix + name)
        for name, child in self._child_items():
            child._take_parameters(shared, unknown, f"{prefix}{name}.")

    def setattr(self, name: str, value: object) -> None:
        """Sets an attribute of all parameters, e.g. `setattr("grad_req", "null")`."""
        for param in self.collect_params().values():
            setattr(param, name, value)

    def zero_grad(self) -> None:
        """Sets all gradients to zero, in one call per device."""
        dense: dict[Context, list[NDArray]] = defaultdict(list)
        for param in self.collect_params().values():
            for grad in param._grad or ():
                if grad.stype == "default":
                    dense[grad.context].append(grad.as_nd_ndarray())
                else:
                    nd.zeros_like(grad, out=grad)
        for grads in dense.values():
            nd.reset_arrays(*grads, num_arrays=len(grads))

    def reset_device(self, device: Context | Sequence[Context] | None) -> None:
        """Moves all parameters to other devices (None: the current one)."""
        for param in self.collect_params().values():
            param.reset_ctx(device)

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Deprecated name of `reset_device`."""
        warnings.warn("Block.reset_ctx has been renamed to Block.reset_device", DeprecationWarning, stacklevel=2)
        self.reset_device(ctx)

    # ------------------------------------------------------------ files
    _write_params = staticmethod(save_arrays)  # .npz (without NumPy's semantics as MXNet 1.x does)

    @with_device
    def load_parameters(self, filename: str, ctx: Context | Sequence[Context] | None = None,
                        allow_missing: bool = False, ignore_extra: bool = False, cast_dtype: bool = False,
                        dtype_source: str = "current") -> None:
        """Reads parameters that `save_parameters` or `export` (here, in MXNet 2 or in MXNet 1.x) wrote.

        Args:
            filename: the file.
            ctx: device for parameters that are not initialized yet; by default the current one.
            allow_missing: keep the values of parameters that the file does not contain.
            ignore_extra: skip arrays that belong to no parameter.
            cast_dtype, dtype_source: cast to the dtype of the parameter ("current") or of the file
                ("saved").

        Raises:
            AssertionError: a parameter is missing, or shapes or dtypes do not fit.
            ValueError: the file contains arrays that belong to no parameter.
        """
        loaded = _loaded(filename)
        if loaded:
            self._take_values(loaded, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source, f"file: {filename}")

    @with_device
    def load_dict(self, param_dict: dict[str, Any], ctx: Context | Sequence[Context] | None = None,
                  allow_missing: bool = False, ignore_extra: bool = False, cast_dtype: bool = False,
                  dtype_source: str = "current") -> None:
        """Sets values by name; other arguments and errors as in `load_parameters`.

        Args:
            param_dict: arrays (also NumPy arrays) by parameter name; the prefixes "arg:" and "aux:"
                are dropped.
            ctx, allow_missing, ignore_extra, cast_dtype, dtype_source: see `load_parameters`.
        """
        self._take_values(param_dict, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source, "param_dict")

    def _take_values(self, values: dict[str, Any], ctx: Context | Sequence[Context] | None, allow_missing: bool,
                     ignore_extra: bool, cast_dtype: bool, dtype_source: str, source: str) -> None:
        params = self.collect_params()
        loaded = {name[4:] if name.startswith(("arg:", "aux:")) else name: array for name, array in values.items()}
        if not allow_missing:
            names = defaultdict(list)
            for name, param in params.items():
                names[param].append(name)
            for name, param in params.items():
                if not any(other in loaded for other in names[param]):
                    raise AssertionError(f"Parameter '{name}' is missing in '{source}', which contains parameters: "
                                         f"{_brief_print_list(loaded)}. Set allow_missing=True to ignore missing "
                                         "parameters.")
        for name, array in loaded.items():
            if name in params:
                if isinstance(array, np.ndarray):
                    array = nd.array(array, dtype=array.dtype)
                params[name]._load_init(array, ctx or current_context(), cast_dtype=cast_dtype,
                                        dtype_source=dtype_source)
            elif not ignore_extra:
                raise ValueError(addressed(
                    f"Parameter '{name}' loaded from '{source}' is not present in Dict, which contains "
                    f"parameters {_brief_print_list(params)}. Set ignore_extra=True to ignore. "))

    def save(self, prefix: str) -> None:
        """Writes `prefix-model.json` (all blocks, graphs of hybridized ones) and `prefix-model.params`.

        Both files are written completely before either one is replaced, so a failure changes
        neither.
        """
        with together():
            write_file(f"{prefix}-model.json", json.dumps(dict([self._described([0])])))
            self.save_parameters(f"{prefix}-model.params")

    def _described(self, count: list[int]) -> tuple[str, dict[str, Any]]:
        """Returns a block's name in the file of `save` and its entry; `count` has the number of entries before it."""
        name = f"{type(self).__name__.lower()}{count[0]}"
        count[0] += 1
        model = {**self._describe_graph(), "params": {name: p._uuid for name, p in self._reg_params.items()}}
        model.update(child._described(count) for _, child in self._child_items())
        return name, model

    def load(self, prefix: str) -> None:
        """Loads the files that `save` wrote for a block with the same structure."""
        with reading(f"{prefix}-model.json", "the parts of such a block"), \
                open(f"{prefix}-model.json", encoding="utf-8") as file:
            self._restored(json.load(file), [0])
        self.load_parameters(f"{prefix}-model.params")

    def _restored(self, structure: dict[str, Any], count: list[int]) -> None:
        model = structure[f"{type(self).__name__.lower()}{count[0]}"]
        count[0] += 1
        self._restore_graph(model)
        for name, uuid in model["params"].items():
            self._reg_params[name]._rename(uuid)
        for _, child in self._child_items():
            child._restored(model, count)


def _loaded(filename: str) -> dict[str, NDArray]:
    """The arrays of a file by name, whichever semantics of shapes it was written with."""
    try:
        return load_named(filename)
    except MXNetError as error:
        if "NumPy shape semantics" not in str(error):
            raise Unreadable(str(error)) from error
        with np_shape(not is_np_shape()):
            return load_named(filename)
