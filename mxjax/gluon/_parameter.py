"""Parameters of blocks: their values and gradients on every context, and deferred initialization."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import autograd, initializer, registry, symbol
from .. import ndarray as nd
from .._support.error_kinds import addressed
from .._support.plain_text import plain_text
from .._xla.process import when_forked
from ..array.creation import zeros_later
from ..array.file_format import write_each
from ..base import MXNetError, mx_real_t
from ..context import Context, chosen, cpu, current_context
from ..eager.chunk import forget
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..symbol import Symbol
from ..util import is_np_array, is_np_shape
from .utils import _brief_print_list, _indent, shape_is_known

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..initializer import InitializerLike
    from ..ops.params import DTypeLike
    from .trainer import Trainer

__all__ = ["Constant", "ConstantValue", "DeferredInitializationError", "Parameter", "ParameterDict",
           "changes", "has_dense_gradient", "is_dense", "merged", "tensor_types"]

tensor_types = (Symbol, NDArray)
DEFAULT_INIT = initializer.Uniform()
_STYPES = ("default", "row_sparse", "csr")
_REQS = ("write", "add", "null")
_initializing = threading.RLock()  # several threads may call a network for the first time


@when_forked
def _begin_in_child() -> None:
    """Replaces the lock, which a thread of the parent may hold."""
    global _initializing
    _initializing = threading.RLock()


class DeferredInitializationError(MXNetError):
    """A parameter was accessed while its initialization is deferred until its shape is known."""


class _Deferred(NamedTuple):
    """The arguments of an initialization that waits for the shape."""

    init: Any
    ctx: list[Context]
    default_init: Any
    data: NDArray | None


def _contexts(ctx: Context | Sequence[Context] | None) -> list[Context]:
    """Contexts as a list; by default the current one."""
    return [chosen(c) for c in ctx] if isinstance(ctx, (list, tuple)) else [chosen(ctx)]


def _in_numpy_mode(array: NDArray) -> NDArray:
    """The same dense array with NumPy's semantics where these are on."""
    return array.as_np_ndarray() if is_np_array() and array.stype == "default" else array


def _places(contexts: Sequence[Context]) -> list[list[int | None]]:
    """Returns where each context is in the list: [devices, hosts], by number; all kinds of host memory are one.

    Libraries read it as `places[ctx.device_typeid & 1][ctx.device_id]`, which MXNet's types allow and ours keep to.
    """
    places: list[list[int | None]] = [[], []]
    for i, ctx in enumerate(contexts):
        row = places[ctx.device_typeid & 1]
        row += [None] * (ctx.device_id + 1 - len(row))
        row[ctx.device_id] = i
    return places


class _Changes:
    """A mark of all parameters' arrays, modes and multipliers: another object whenever one of them is set."""

    mark = object()


changes = _Changes()


class Parameter:
    """A parameter of a block, with one array and one gradient per context.

    Args:
        name: its name.
        grad_req: "write" (each backward pass overwrites the gradient), "add" (adds to it) or "null"
            (no gradient).
        shape: its shape; a 0 is an unknown dimension, None an unknown shape.
        dtype: element type.
        lr_mult, wd_mult: factors on the learning rate and the weight decay.
        init: initializer of this parameter.
        allow_deferred_init: let `initialize` defer the initialization until the shape is known.
        differentiable: whether it can have a gradient.
        stype, grad_stype: storage types of value and gradient: "default", "row_sparse" or "csr".

    Attributes:
        sharding: a `jax.sharding.PartitionSpec` for the mesh of a `TrainStep`; None: the rule of
            the `TrainStep` decides.

    Raises:
        AssertionError: unknown grad_req or storage type.

    Example:
        >>> weight = mx.gluon.Parameter("fc_weight", shape=(3, 2), init=mx.init.One())
        >>> weight.initialize(ctx=mx.cpu(0))
        >>> weight.data().sum().asnumpy()
        array([6.], dtype=float32)
    """

    own_name: str | None = None  # of its variable, where a graph has another (MXNet 2)
    own_arrays = False  # whether a class computes its arrays from the stored ones, as weight dropout does

    def __init_subclass__(cls, own_arrays: bool | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if own_arrays is None:
            own_arrays = cls.own_arrays or not vars(cls).keys().isdisjoint(("data", "grad", "list_data", "list_grad"))
        cls.own_arrays = own_arrays

    def __init__(self, name: str, grad_req: str = "write", shape: int | Sequence[int] | None = None,
                 dtype: DTypeLike = mx_real_t, lr_mult: float = 1.0, wd_mult: float = 1.0, init: InitializerLike = None,
                 allow_deferred_init: bool = False, differentiable: bool = True, stype: str = "default",
                 grad_stype: str = "default") -> None:
        self.name = name
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        self._shape: Sequence[int] | None = (shape,) if isinstance(shape, int) else shape
        self._dtype = dtype
        self._differentiable, self._allow_deferred_init = differentiable, allow_deferred_init
        self._var: Symbol | None = None
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] | None = None
        self._ctx_map: list[list[int | None]] | None = None
        self._trainer: Trainer | None = None
        self._deferred_init: _Deferred | tuple[()] = ()
        self._grad_req = ""
        self.sharding: Any = None
        self.grad_req = grad_req
        for value, what in ((grad_stype, "grad_stype"), (stype, "stype")):
            if value not in _STYPES:
                raise AssertionError(f"Parameter {name!r}: {what} must be one of {', '.join(_STYPES)}, got {value!r}")
        self._grad_stype, self._stype = grad_stype, stype
        self.as_stored = stype == "default" and not self.own_arrays  # `data` returns the stored array

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("_data", "_grad_req", "lr_mult", "wd_mult"):
            changes.mark = object()

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={plain_text(self.shape)}, dtype={self.dtype})"

    # ------------------------------------------------------------ properties
    @property
    def grad_req(self) -> str:
        """Mode in which a backward pass writes the gradient: "write", "add" or "null". It can be
        changed at any time."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _REQS:
            raise AssertionError(f"grad_req must be one of {', '.join(_REQS)}, got {req!r}")
        req = req if self._differentiable else "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if self._data is None:
            return
        if req == "null" and self._grad is not None:
            self._grad, self._data = None, [array.detach() for array in self._data]
        else:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """Element type; setting it casts the parameter."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DTypeLike) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape; unknown dimensions are 0 (-1 under NumPy shape semantics). Assignments can only
        fill in unknown dimensions."""
        if self._shape is None or not is_np_shape():
            return self._shape  # pyright: ignore[reportReturnType]  a list, where the user gave one, as in MXNet
        return tuple(size if size else -1 for size in self._shape)

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        if self._shape is not None and (len(self._shape) != len(new_shape) or not all(
                old in (-1, 0, new) for new, old in zip(new_shape, self._shape, strict=True))):
            raise AssertionError(f"Parameter {self.name!r}: expected a shape compatible with {self._shape}, got "
                                 f"{tuple(new_shape)}")
        self._shape = new_shape

    def _set_trainer(self, trainer: Trainer | None) -> None:
        """Notes the trainer that updates this parameter; a sparse one can have only one."""
        known = self._its_trainer()
        if self._stype != "default" and known and trainer and known is not trainer:
            raise RuntimeError(f"Parameter {self.name!r} already has a trainer; a {self._stype} parameter supports "
                               "only one")
        self._trainer = trainer

    def _its_trainer(self) -> Trainer | None:
        """The trainer that updates this parameter."""
        return self._trainer

    @property
    def waits_for_shape(self) -> bool:
        """True from `initialize` until the shape is known; not in MXNet."""
        return bool(self._deferred_init)

    @property
    def variable_name(self) -> str:
        """Name of the variable in graphs, which also identifies the parameter in trainers; not in MXNet."""
        return self.name

    def var(self) -> Symbol:
        """Returns the symbol of this parameter in graphs."""
        if self._var is None:
            self._var = symbol.var(self.name, shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult,
                                   wd_mult=self.wd_mult, init=self.init, stype=self._stype)
        return self._var.as_np_ndarray() if is_np_array() else self._var

    # ------------------------------------------------------------ initialization
    def initialize(self, init: InitializerLike = None, ctx: Context | Sequence[Context] | None = None,
                   default_init: InitializerLike = DEFAULT_INIT, force_reinit: bool = False) -> None:
        """Creates the value and gradient arrays; if the shape is unknown, defers that to the first forward pass.

        Args:
            init: initializer; by default the parameter's own, otherwise `default_init`.
            ctx: context or list of contexts, each of which gets a copy; by default the current one.
            default_init: initializer if there is no other.
            force_reinit: reinitialize an initialized parameter. Otherwise this warns and does
                nothing.

        Raises:
            ValueError: the shape is unknown and deferred initialization is not allowed.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(f"Parameter {self.name!r} is already initialized, ignoring. Set force_reinit=True to "
                          "re-initialize.", stacklevel=2)
            return
        self._data = self._grad = None
        if init is None:
            init = default_init if self.init is None else self.init
        waiting = _Deferred(init, _contexts(ctx), default_init, None)
        if not shape_is_known(self.shape) and not self._allow_deferred_init:
            raise ValueError(addressed(
                f"Cannot initialize Parameter {self.name!r} because its shape is not known: {self.shape}"))
        self._deferred_init = waiting
        if shape_is_known(self.shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Does an initialization that has waited for the shape."""
        with _initializing:
            if not self._deferred_init:
                return
            init, ctx, default_init, data = self._deferred_init
            try:
                shape = self.known_shape()
                with autograd.pause():
                    if data is None:
                        data = _in_numpy_mode(zeros_later(shape, cpu(), self.dtype) if self._stype == "default" else
                                          nd.zeros(shape, cpu(), self.dtype, self._stype))
                        initializer.create(default_init)(initializer.InitDesc(self.name, {"__init__": init}), data)
                    self._init_impl(data, ctx)
            finally:
                self._deferred_init = ()

    def known_shape(self) -> tuple[int, ...]:
        """Returns the shape if all its dimensions are known; not in MXNet.

        Raises:
            AssertionError: it is not known yet.
        """
        shape = self.shape
        if not shape_is_known(shape):
            raise AssertionError(f"Cannot initialize Parameter {self.name!r} because its shape is not known: "
                                 f"{shape}. Please specify in_units, in_channels, etc for `Block`s.")
        return shape

    def imagine(self, ctx: Context) -> None:
        """Sets the value to zeros, which need no memory until they are read."""
        self._ctx_list = [ctx]
        self._ctx_map = _places(self._ctx_list)
        self._data = [_in_numpy_mode(zeros_later(self.known_shape(), ctx, self.dtype))]
        self._deferred_init = ()
        self._init_grad()

    def _init_impl(self, data: NDArray, ctx_list: Sequence[Context]) -> None:
        """Copies a value to contexts and makes gradients there."""
        self._ctx_list = list(ctx_list)
        self._ctx_map = _places(self._ctx_list)
        arrays = [_in_numpy_mode(data.copyto(ctx)) for ctx in self._ctx_list]
        self._init_grad(arrays)
        self._data = arrays  # last, because other threads use the parameter as soon as it has data

    def _init_grad(self, arrays: list[NDArray] | None = None) -> None:
        """Creates gradient arrays for `arrays`, by default the data, and attaches them."""
        arrays = self._data if arrays is None else arrays
        if self.grad_req == "null" or arrays is None:
            self._grad = None
            return
        self._grad = [_in_numpy_mode(zeros_later(d.shape, d.context, d.dtype) if self._grad_stype == "default" else
                                 nd.zeros(d.shape, d.context, d.dtype, self._grad_stype)) for d in arrays]
        autograd.mark_variables(arrays, self._grad, self.grad_req)

    def _load_init(self, data: NDArray, ctx: Context | Sequence[Context] | None, cast_dtype: bool = False,
                   dtype_source: str = "current") -> None:
        """Takes a loaded value, initializing the parameter with it if need be.

        Args:
            data: the value.
            ctx: where to, for a parameter that is not initialized.
            cast_dtype: convert where dtypes differ.
            dtype_source: whose dtype then stays: "current" (the parameter's) or "saved" (the value's).
        """
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise AssertionError(f'dtype_source must be "current" or "saved", got {dtype_source!r}')
        if self.shape:
            unknown = -1 if is_np_shape() else 0
            if len(self.shape) != len(data.shape) or any(
                    own not in (unknown, loaded) for own, loaded in zip(self.shape, data.shape, strict=True)):
                raise AssertionError(addressed(
                    f"Failed loading Parameter {self.name!r} from saved params: its shape is {self.shape}, but the "
                    f"saved shape is {data.shape}"))
            self.shape = data.shape
        if self.dtype and np_dtype(self.dtype) != np_dtype(data.dtype):
            if not cast_dtype:
                raise AssertionError(addressed(
                    f"Failed loading Parameter {self.name!r} from saved params: its dtype is "
                    f"{np_dtype(self.dtype)}, but the saved dtype is {np_dtype(data.dtype)}. "
                    "Set cast_dtype=True to cast the dtype of saved params."))
            if dtype_source == "current":
                data = data.astype(self.dtype)
            else:
                self.dtype = data.dtype
        if data.stype != self._stype:
            data = data.tostype(self._stype)
        if isinstance(ctx, Context):
            ctx = [ctx]
        known = self._ctx_list if self._data is not None else self._deferred_init[1] if self._deferred_init else None
        if ctx is not None and known is not None and set(ctx) != set(known):
            raise AssertionError(f"Failed to load Parameter {self.name!r} on {ctx}: it was previously initialized on "
                                 f"{known}")
        if self._data is None:
            self._init_impl(data, known or ctx or [cpu()])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Moves the parameter to other contexts.

        Args:
            ctx: context or list of contexts; None: the current one.

        Raises:
            ValueError: it has not been initialized.
        """
        if self._data:
            data = self._reduce()
            with autograd.pause():
                self._init_impl(data, _contexts(ctx))
        elif self._deferred_init:
            self._deferred_init = self._deferred_init._replace(ctx=_contexts(ctx))
        else:
            raise ValueError(f"Cannot reset context for Parameter {self.name!r} because it has not been initialized.")

    def cast(self, dtype: DTypeLike) -> None:
        """Converts value and gradient to another dtype."""
        self._dtype = dtype
        self._var = None
        if self._data is None:
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            if self._grad is not None:
                self._grad = [array.astype(dtype) for array in self._grad]
                autograd.mark_variables(self._data, self._grad, self.grad_req)

    # ------------------------------------------------------------ values and gradients
    def _check_and_get(self, arrays: list[NDArray] | None, ctx: Any) -> Any:
        """One context's array (None: the only one, or the current context's), or with ctx=list all of them."""
        if arrays is not None:
            if ctx is list:
                return arrays
            if ctx is None:
                if len(arrays) == 1:
                    return arrays[0]
                ctx = current_context()
            row = (self._ctx_map or _places(()))[ctx.device_typeid & 1]
            index = row[ctx.device_id] if ctx.device_id < len(row) else None
            if index is not None:
                return arrays[index]
            raise RuntimeError(addressed(
                f"Parameter {self.name!r} was not initialized on context {ctx}. It was only "
                f"initialized on {self._ctx_list}."))
        if self._deferred_init or self._data is not None:  # or another thread has initialized it in between
            raise DeferredInitializationError(
                f"Parameter {self.name!r} has not been initialized yet because initialization was deferred until its "
                "shape is known. Pass one batch of data through the network first, or tell layers in_units, "
                "in_channels, etc.")
        raise RuntimeError(addressed(
            f"Parameter {self.name!r} has not been initialized: call the block's initialize() first. "
            "Block.collect_params() has all parameters, for a Trainer too; Block.params lacks those of "
            "children."))

    def all_arrays(self) -> list[NDArray]:
        """The arrays on all contexts as they are stored, whatever `data` makes of them."""
        return self._check_and_get(self._data, list)

    def _need_stype(self, method: str, stype: str, instead: str) -> None:
        if self._stype != stype:
            raise RuntimeError(f"{method}() requires a parameter of storage type {stype}, but Parameter "
                               f"{self.name!r} is {self._stype}: use {instead}()")

    def data(self, ctx: Context | None = None) -> NDArray:
        """Returns the array on a context.

        Args:
            ctx: context; optional if there is only one.

        Raises:
            RuntimeError: the parameter is not initialized on this context, or is sparse.
            DeferredInitializationError: its initialization is deferred until its shape is known.
        """
        self._need_stype("data", "default", "row_sparse_data")
        return self._check_and_get(self._data, ctx)

    def list_data(self) -> list[NDArray]:
        """Returns the arrays on all contexts, in the order of `list_ctx`."""
        self._need_stype("list_data", "default", "list_row_sparse_data")
        return self._check_and_get(self._data, list)

    def _get_row_sparse(self, arrays: list[NDArray] | None, ctx: Context | type[list] | None, row_id: NDArray) -> Any:
        """Arrays with these rows as the trainer's store has them."""
        if not isinstance(row_id, NDArray):
            raise TypeError(f"row_id must be an NDArray, got {type(row_id).__name__}")
        trainer = self._its_trainer()
        if not trainer:
            raise RuntimeError(f"Cannot get row_sparse data for Parameter {self.name!r} when no Trainer is created "
                               "with it.")
        results = self._check_and_get(arrays, ctx)
        trainer._row_sparse_pull(self, results, row_id)
        return results

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Returns the rows `row_id` of a row_sparse parameter, on the context of `row_id`."""
        self._need_stype("row_sparse_data", "row_sparse", "data")
        return self._get_row_sparse(self._data, row_id.context, row_id)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Returns the rows `row_id` of a row_sparse parameter, on all contexts."""
        self._need_stype("list_row_sparse_data", "row_sparse", "list_data")
        return self._get_row_sparse(self._data, list, row_id)

    def _need_grad(self) -> None:
        if self._data is not None and self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter {self.name!r} because grad_req='null'")

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Returns the gradient on a context.

        Raises:
            RuntimeError: the parameter has no gradient (grad_req is "null") or is not initialized.
        """
        self._need_grad()
        return self._check_and_get(self._grad, ctx)

    def list_grad(self) -> list[NDArray]:
        """Returns the gradients on all contexts, in the order of `list_ctx`."""
        self._need_grad()
        return self._check_and_get(self._grad, list)

    def list_device(self) -> list[Context]:
        """Returns the contexts that the parameter is, or after deferred initialization will be, initialized on.

        Raises:
            RuntimeError: it has not been initialized.
        """
        if self._data is not None and self._ctx_list is not None:
            return self._ctx_list
        if self._deferred_init:
            return self._deferred_init.ctx
        raise RuntimeError(f"Parameter {self.name!r} has not been initialized")

    def list_ctx(self) -> list[Context]:
        """Returns the contexts; see `list_device`."""
        return self.list_device()

    def set_data(self, data: NDArray) -> None:
        """Sets the value on all contexts (`data`: an array of the parameter's shape)."""
        self.shape = data.shape
        if self._data is None:
            if not self._deferred_init:
                raise AssertionError(f"Parameter {self.name!r} has not been initialized")
            self._deferred_init = self._deferred_init._replace(data=data)
            return
        trainer = self._its_trainer()
        if trainer and trainer._kv_initialized and trainer._update_on_kvstore and self not in trainer._params_to_init:
            trainer._reset_kvstore()
        for array in self._data:
            array[:] = data

    def zero_grad(self) -> None:
        """Sets the gradients to zero; does nothing if there are none."""
        for grad in self._grad or ():
            nd.zeros_like(grad, out=grad)

    def _reduce(self) -> NDArray:
        """The mean over the contexts, on the CPU."""
        ctx = cpu()
        if self._stype != "default":
            trainer, shape = self._its_trainer(), self.known_shape()
            if not trainer:
                raise RuntimeError(f"Cannot read the rows of Parameter {self.name!r}, which is {self._stype}, when no "
                                   "Trainer is created with it.")
            data = nd.zeros(shape, ctx, stype="row_sparse")
            trainer._row_sparse_pull(self, data, nd.arange(0, shape[0], dtype="int64", ctx=ctx), full_idx=True)
            return data
        arrays = [array.copyto(ctx) for array in self.list_data()]
        for array in self.list_data():
            forget(array.chunk)
        return arrays[0] if len(arrays) == 1 else nd.add_n(*arrays) / len(arrays)


def _registered(constant: ConstantValue) -> str:
    """Registers an initializer that fills arrays with a constant's value, and returns its name."""
    value = constant.value

    class Init(initializer.Initializer):
        def _init_weight(self, name: str, arr: NDArray) -> None:
            value.copyto(arr)

    name = f"Constant_{constant.name}_{id(constant)}"  # type: ignore[attr-defined]
    initializer.alias(name)(Init)
    weakref.finalize(constant, registry.forget, initializer.Initializer, name)
    return name


class ConstantValue:
    """Common base of the constants of both API levels."""

    def _begin(self, name: str, value: NDArray) -> None:
        """Makes the parameter."""
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype,  # type: ignore[call-arg]
                         init=initializer.Constant(value))

    def var(self) -> Symbol:
        """Returns the symbol of this constant in graphs.

        The graph does not contain its value, but the name of an initializer that lives as long as the constant.
        """
        if getattr(self, "_var", None) is None:
            fill, self.init = self.init, _registered(self)  # type: ignore[has-type]
            try:
                return super().var()  # type: ignore[misc]
            finally:
                self.init = fill
        return super().var()  # type: ignore[misc]

    @property
    def grad_req(self) -> str:
        """Always "null"."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        self._grad_req = "null"
        if req != "null":
            warnings.warn(f"Constant parameter {self.name!r} does not support grad_req "  # type: ignore[attr-defined]
                          f"other than \"null\"; {req!r} is ignored.", stacklevel=2)


class Constant(ConstantValue, Parameter):
    """A parameter that only `set_data` changes, never autograd or a Trainer.

    Args:
        name: its name.
        value: its value: an array, or anything that `mx.nd.array` accepts.

    Example:
        >>> mx.gluon.Constant("const", [[1, 2], [3, 4]]).shape
        (2, 2)
    """

    def __init__(self, name: str, value: ArrayLike) -> None:
        array = value if isinstance(value, NDArray) else nd.array(value)
        if array is not value and is_np_array():
            array = array.as_np_ndarray()
        self._begin(name, array)


_NAMING = "the naming of blocks by prefixes and name_scope()"


class ParameterDict:
    """A dictionary of parameters by name.

    Args:
        prefix: prefix of the names of all parameters that `get` creates.
        shared: another dict, in which `get` looks before it creates a parameter.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix, self._shared = prefix, shared
        self._params: OrderedDict[str, Parameter] = OrderedDict()

    def __repr__(self) -> str:
        rows = "\n".join(_indent(f"  {param}", 2) for param in self.values())
        return f"{self._prefix + ' ' if self._prefix else ''}(\n{rows}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def items(self) -> ItemsView[str, Parameter]:
        """(name, parameter) pairs."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """Begins the names of all parameters made by `get`."""
        return self._prefix

    def _find(self, name: str) -> Parameter | None:
        """A parameter of this or the shared dict by its full name."""
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Returns the parameter `prefix + name` of this or the shared dict, or creates it.

        Args:
            name: name without the prefix.
            kwargs: arguments of `Parameter`; an existing one must agree with them.

        Raises:
            AssertionError: an existing parameter does not.
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, wanted in kwargs.items():
            existing = getattr(param, key, None)
            if existing is None:
                setattr(param, key, wanted)
                continue
            if key == "shape":
                both = merged(wanted, existing)
                if both is not None:
                    param._shape = both
                    continue
            elif key == "dtype" and np_dtype(wanted) == np_dtype(existing):
                continue
            if wanted is not None and wanted != existing:
                raise AssertionError(f"Cannot retrieve Parameter {name!r} because desired attribute does not match "
                                     f"with stored for attribute {key!r}: desired {wanted!r} vs stored {existing!r}.")
        return param

    def get_constant(self, name: str, value: ArrayLike | None = None) -> Constant:
        """Returns the constant `prefix + name` of this or the shared dict, or creates it.

        Args:
            name: name without the prefix.
            value: its value; an existing constant must have the same value.

        Raises:
            KeyError: there is no such constant and `value` is missing.
            AssertionError: the existing parameter is not a constant or has another value.
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            if value is None:
                raise KeyError(f"No constant named {name!r}. Please specify value if you want to create a new "
                               "constant.")
            param = self._params[name] = Constant(name, value)
        elif value is not None:
            value = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            if not isinstance(param, Constant):
                raise AssertionError(f"Parameter {name!r} already exists but it is not a constant.")
            if param.shape != value.shape or (param.value.asnumpy() != value).any():
                raise AssertionError(f"Constant {name!r} already exists but has another value")
        return param  # pyright: ignore[reportReturnType]  without a value MXNet returns any parameter

    def update(self, other: ParameterDict | dict[str, Parameter]) -> None:
        """Adds all parameters of another dict.

        Raises:
            AssertionError: it has another parameter of the same name.
        """
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise AssertionError("Cannot update self with other because they have different Parameters with the "
                                     f"same name {name!r}")
        self._params.update(other.items())

    # ------------------------------------------------------------ all of them
    def initialize(self, init: InitializerLike = initializer.Uniform(), ctx: Context | Sequence[Context] | None = None,  # noqa: B008
                   verbose: bool = False, force_reinit: bool = False) -> None:
        """Initializes all parameters; arguments as in `Parameter.initialize`.

        Args:
            init: initializer of parameters without one of their own.
            ctx: context or list of contexts.
            verbose: log each initialization.
            force_reinit: reinitialize parameters that are initialized already.
        """
        if verbose:
            init = initializer.create(init)
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Sets all gradients to zero, in one call per context."""
        by_ctx: dict[Context, list[NDArray]] = defaultdict(list)
        for param in self.values():
            for grad in param._grad or ():
                if grad.stype == "default":
                    by_ctx[grad.context].append(grad)
                else:
                    nd.zeros_like(grad, out=grad)
        for grads in by_ctx.values():
            nd.reset_arrays(*grads, num_arrays=len(grads))

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Moves all parameters to other contexts (None: the current one)."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Returns all contexts on which at least one parameter is initialized."""
        return list(dict.fromkeys(ctx for param in self.values() for ctx in param.list_device()))

    def setattr(self, name: str, value: object) -> None:
        """Sets an attribute of all parameters, e.g. `setattr("grad_req", "null")`."""
        for param in self.values():
            setattr(param, name, value)

    # ------------------------------------------------------------ files
    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Writes all parameters to a file.

        Args:
            filename: the file.
            strip_prefix: remove this prefix from the names.

        Raises:
            ValueError: a name does not begin with `strip_prefix`.
        """
        named = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ValueError(f"Prefix {strip_prefix!r} is to be stripped before saving, but Parameter's name "
                                 f"{param.name!r} does not start with it: its block shares parameters of another one, "
                                 f"or was created outside name_scope(). See {_NAMING}.")
            named[param.name[len(strip_prefix):]] = param
        save_each(filename, named)

    def load(self, filename: str, ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
             ignore_extra: bool = False, restore_prefix: str = "", cast_dtype: bool = False,
             dtype_source: str = "current") -> None:
        """Reads parameters from a file; arguments and errors as in `load_dict`."""
        self.load_dict(load_named(filename), ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype,
                       dtype_source)

    def load_dict(self, param_dict: Mapping[str, NDArray] | Iterable[tuple[str, NDArray]],
                  ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                  ignore_extra: bool = False, restore_prefix: str = "", filename: str | None = None,
                  cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Sets the values from a dictionary.

        Args:
            param_dict: arrays by name; the prefixes "arg:" and "aux:" are dropped.
            ctx: context for parameters that are not initialized yet.
            allow_missing: keep the values of parameters that the dictionary does not contain.
            ignore_extra: skip arrays that belong to no parameter.
            restore_prefix: prefix to add to the names.
            filename: file name for error messages.
            cast_dtype, dtype_source: cast to the dtype of the parameter ("current") or of the array
                ("saved").

        Raises:
            AssertionError: names, shapes or dtypes do not fit.
        """
        wrong = next((name for name in self.keys() if not name.startswith(restore_prefix)), None)
        if wrong is not None:
            raise AssertionError(addressed(
                f"restore_prefix is {restore_prefix!r} but Parameters name {wrong!r} does not start "
                f"with it. See {_NAMING}."))
        loaded = {restore_prefix + (name[4:] if name.startswith(("arg:", "aux:")) else name): array
                  for name, array in dict(param_dict).items()}
        source = f"file: {filename}" if filename else "param_dict"
        if not allow_missing:
            missing = next((name for name in self.keys() if name not in loaded), None)
            if missing is not None:
                raise AssertionError(f"Parameter {missing[len(restore_prefix):]!r} is missing in {source}, which "
                                     f"contains parameters: {_brief_print_list(loaded)}. Please make sure source and "
                                     f"target networks have the same prefix; see {_NAMING}.")
        for name, array in loaded.items():
            if name in self._params:
                self[name]._load_init(array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise AssertionError(f"Parameter {name[len(restore_prefix):]!r} loaded from {source} is not present "
                                     f"in ParameterDict, choices are: {_brief_print_list(self.keys())}. Set "
                                     "ignore_extra to True to ignore. Please make sure source and target networks "
                                     f"have the same prefix; see {_NAMING}.")


def is_dense(parameter: Parameter) -> bool:
    """Returns whether the value of a parameter is dense, not sparse."""
    return parameter._stype == "default"


def has_dense_gradient(parameter: Parameter) -> bool:
    """Returns whether the gradient of a parameter is dense, not sparse."""
    return parameter._grad_stype == "default"


def save_each(filename: str, params: Mapping[str, Parameter]) -> None:
    """Writes parameters by name to a file, one after another, so that only one sharded parameter at
    a time is gathered."""
    write_each(os.fspath(filename), (param._reduce() for param in params.values()), len(params), list(params))


def load_named(filename: str) -> dict[str, NDArray]:
    """Reads the arrays of a file by name.

    Raises:
        MXNetError: the file is corrupt, or its arrays have no names.
    """
    loaded = nd.load(filename)
    if loaded and not isinstance(loaded, dict):
        raise MXNetError(f"{filename} contains arrays without names, which cannot be parameters")
    return dict(loaded)


def merged(wanted: Sequence[int] | None, existing: Sequence[int]) -> tuple[int, ...] | None:
    """Merges two partially known shapes; None if they contradict each other."""
    if wanted is None or len(wanted) != len(existing):
        return None
    if any(a != b and a > 0 and b > 0 for a, b in zip(wanted, existing, strict=True)):
        return None
    return tuple(b if a in (0, -1) else a for a, b in zip(wanted, existing, strict=True))
