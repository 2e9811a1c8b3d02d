"""Symbol: a graph of operators on named variables, for inference of shapes, binding and compilation."""

from __future__ import annotations

import copy
import ctypes
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from .. import level
from .._support.files import reading, refusals, write_file
from .._support.handles import taken
from .._support.hash_order import in_hash_order
from .._support.plain_text import plain_text
from ..array.dense import NDArray
from ..attribute import AttrScope
from ..base import MXNetError, NotImplementedForSymbol, UnknownArgument, numeric_types
from ..context import Context, chosen
from ..executor._executor import Executor, GradReq
from ..executor.jax_function import JaxFunction
from ..graph import backends, json_format
from ..graph.control_flow import bind
from ..graph.lowering import Lowered
from ..graph.node import HIDDEN, MOST, Entry, Node, complete, hidden, set_input_attributes, topological
from ..name import NameManager
from ..numpy._dispatch import SYMBOLIC
from ..ops import registry
from ..ops.method_names import PYTHON2
from ..ops.params import CODES, DTypeLike, ShapeLike, np_dtype
from ..plan import Plan
from ..util import is_np_shape
from . import _keys
from ._plan import plan_of

if TYPE_CHECKING:
    from ._stubs.symbol import Base as _Base  # methods that are made of operators
else:
    _Base = object

__all__ = ["Group", "Symbol", "Variable", "fromjson", "load", "load_json", "var"]


class _NumpySymbol:
    """The class of symbols with NumPy's semantics, `mx.sym.np._Symbol`, which sets it."""

    cls: type


numpy_symbol = _NumpySymbol()


# arrays of variables: in order, or by name; None where there is none
Arrays: TypeAlias = Sequence[NDArray | None] | dict[str, NDArray] | None


class Symbol(_Base):
    """One or more outputs of a graph.

    Symbols are created by `mx.sym.Variable` and operators (`mx.sym.FullyConnected(data, num_hidden=10)`). They are
    composed by calling, bound to arrays (`simple_bind`), saved as JSON, and converted to JAX functions (`to_jax`).

    Example:
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> (a * b).infer_shape(a=(2, 3), b=(2, 3))[1]
        [(2, 3)]
    """

    __slots__ = ("_outputs", "_lowered", "listed", "__weakref__")
    split_v2: Callable[..., Any]  # see `_functions`
    flatten: Callable[..., Symbol]
    expand_dims: Callable[..., Symbol]
    squeeze: Callable[..., Symbol]
    __array_priority__ = 1000.0
    __array_ufunc__ = None  # NumPy's operators leave symbols to those of this class
    numpy_semantics = False  # whether it is of `mx.sym.np`

    def __init__(self, handle: Any) -> None:
        """Wraps a list of entries (node, output number), or a pointer from a function of `mx.base._LIB`."""
        if isinstance(handle, ctypes.c_void_p):
            handle = taken(handle, Symbol).handle
        self._outputs: list[Entry] = list(handle or ())  # None: MXNet's pickles call `__setstate__` next
        self._lowered: Lowered | None = None
        self.listed = False  # whether one output may be iterated within blocks: a result of another graph

    @property
    def handle(self) -> list[Entry]:
        """The outputs as entries of the graph."""
        return self._outputs

    # ------------------------------------------------------------ names and attributes
    @property
    def name(self) -> str | None:
        """The node's name; None for a group."""
        names = {id(n): n.name for n, _ in self._outputs}
        return next(iter(names.values())) if len(names) == 1 else None

    def list_arguments(self) -> list[str]:
        """Names of the arguments: inputs and parameters, without auxiliary states."""
        return self.lowered().args

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states: variables that operators change."""
        return self.lowered().aux

    def list_inputs(self) -> list[str]:
        """Names of all variables."""
        return [n.name for n in topological(self._outputs) if n.op is None]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        nodes = {id(n): n for n, _ in self._outputs}
        names = {number: node.output_names() for number, node in nodes.items()}  # once: a node may have thousands
        return [names[id(n)][i] for n, i in self._outputs]

    def attr(self, key: str) -> str | None:
        """An attribute of the node, or None; a group of several nodes has none."""
        attrs = self._outputs[0][0].attrs
        return attrs.get(key, attrs.get(hidden(key))) if len({id(node) for node, _ in self._outputs}) == 1 else None

    def _single(self, what: str) -> Node:
        nodes = {id(n): n for n, _ in self._outputs}
        if len(nodes) != 1:
            raise MXNetError(f"{what} requires a symbol with one node, got a group of {len(nodes)}")
        return next(iter(nodes.values()))

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """All attributes of the node, of a group those of its first one.

        Raises:
            DeprecationWarning: `recursive`; use `attr_dict`.
        """
        if recursive:
            raise DeprecationWarning("Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict "
                                     "instead.")
        return _shown(self._outputs[0][0].attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes of all nodes that have any, by node name; nodes with the same name share an entry."""
        result: dict[str, dict[str, str]] = {}
        for node in topological(self._outputs):
            if node.attrs:
                result.setdefault(node.name, {}).update(_shown(node.attrs))
        return result

    def _set_attr(self, **kwargs: str) -> None:
        """Sets attributes of the node; values are strings."""
        node = self._single("_set_attr")
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError("Set Attr only accepts string values")
            if key == "name":
                node.name = value
                continue
            node.attrs[hidden(key)] = value
            if node.op is not None and key in node.op.params:
                node.params[key] = node.op.params[key].parse(value)
        self._lowered = None

    # ------------------------------------------------------------ parts
    def get_internals(self) -> Symbol:
        """A group of every output of every node."""
        entries = [(n, i) for n in topological(self._outputs) for i in range(n.num_visible)]
        return type(self)(entries)

    def get_children(self) -> Symbol | None:
        """A group of the node's inputs; None for a variable."""
        entries = [e for n in dict.fromkeys(n for n, _ in self._outputs) for e in n.inputs]
        return type(self)(entries) if entries else None

    def _gen_atomic_symbol(self) -> Symbol:
        """The (single) node's operator with the same parameters, applied to new variables."""
        node = self._single("_gen_atomic_symbol")
        if node.op is None:
            raise MXNetError(f"{node.name} is a variable and has no operator")
        inputs = [(Node(None, f"{node.name}_{name}", {}), 0) for name in node.input_names()]
        copied = Node(node.op, node.name, dict(node.attrs), dict(node.params), inputs, node.subgraphs)
        return Symbol([(copied, i) for i in range(copied.num_visible)])

    def get_inputs(self) -> Symbol:
        """A group of all variables."""
        return type(self)([(n, 0) for n in topological(self._outputs) if n.op is None])

    def __getitem__(self, index: int | str | slice) -> Symbol:
        names = self.list_outputs() if isinstance(index, str) else []
        return type(self)([self._outputs[i] for i in _keys.positions(self._outputs, names, index, self.listed)])

    def __len__(self) -> int:
        if not self.listed:
            _keys.refuse_as_array(self._outputs, "len()")
        return len(self._outputs)

    @property
    def num_outputs(self) -> int:
        """The number of outputs, even if `len` is not available because the symbol stands for an array."""
        return len(self._outputs)

    def __iter__(self) -> Iterator[Symbol]:
        if not self.listed:
            _keys.refuse_as_array(self._outputs, "iteration (also by *, zip, sum, max, list, unpacking)")
        return iter(self.singles())

    def singles(self) -> list[Self]:
        """Returns each output as a symbol, even if the symbol stands for an array and so cannot be iterated."""
        return [type(self)([entry]) for entry in self._outputs]

    def __contains__(self, value: object) -> bool:
        raise NotImplementedForSymbol("__contains__", "in", value, self)

    def __repr__(self) -> str:
        name = self.name
        if name is None:
            return f"<{type(self).__name__} group [{', '.join(n.name for n, _ in self._outputs)}]>"
        return f"<{type(self).__name__} {name}>"

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol("__bool__", "bool", self)

    def __hash__(self) -> int:
        return id(self) >> 4

    # ------------------------------------------------------------ composition
    def __call__(self, *args: Symbol, **kwargs: object) -> Symbol:
        """Returns a copy in which variables are replaced by other symbols, by position or by name."""
        result = copy.copy(self)
        result._compose(*args, **kwargs)
        return result

    def _compose(self, *args: Symbol, **kwargs: Any) -> None:
        """Replaces this symbol's variables, in place."""
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise TypeError("compose only accepts input symbols either as positional or keyword arguments, not both")
        for value in [*args, *kwargs.values()]:
            if not isinstance(value, Symbol):
                raise TypeError("Compose expect `Symbol` as arguments")
        names = self.list_inputs()
        if len(args) > len(names):
            raise MXNetError(f"compose: got {len(args)} symbols for {len(names)} variables")
        replacements = dict(zip(names, args, strict=False)) if args else kwargs
        unknown = set(replacements) - set(names)
        if unknown:
            raise MXNetError(f"compose: unknown variable {', '.join(sorted(unknown))}; the variables are "
                             f"{', '.join(names)}")
        for symbol in replacements.values():
            if len(symbol.handle) != 1:
                raise MXNetError("compose: a symbol with several outputs cannot replace a variable")
        copied: dict[int, Node] = {}
        mapping = {k: v.handle[0] for k, v in replacements.items()}
        for node in topological(self._outputs):
            if node.op is None and node.name in mapping:
                continue
            copied[id(node)] = duplicate = node.copied()
            duplicate.inputs = [_moved(e, copied, mapping) for e in node.inputs]
            if any(n.op is None and n.name in mapping for n, _ in node.inputs):
                duplicate.applied()
        self._outputs = [_moved(e, copied, mapping) for e in self._outputs]
        if name and len(self._outputs) == 1:
            self._outputs[0][0].name = name
        self._lowered = None

    def __copy__(self) -> Symbol:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict) -> Symbol:
        copied: dict[int, Node] = {}
        for node in topological(self._outputs):
            copied[id(node)] = node.copied((copied[id(n)], i) for n, i in node.inputs)
        return type(self)([(copied[id(n)], i) for n, i in self._outputs])

    def renamed(self, names: dict[str, str]) -> Symbol:
        """Returns a copy whose variables are renamed by `names`."""
        result = copy.copy(self)
        for node in topological(result.handle):
            if node.op is None:
                node.name = names.get(node.name, node.name)
        return result

    def without_amp_casts(self) -> Symbol:
        """Returns a copy without the casts of automatic mixed precision."""
        return type(self)(json_format.loads(self.tojson()))

    def __getstate__(self) -> dict[str, str]:
        return {"handle": self.tojson(remove_amp_cast=False)}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__init__(json_format.loads(state["handle"]))

    # ------------------------------------------------------------ inference
    def infer_shape(self, *args: ShapeLike | None, **kwargs: ShapeLike | None) -> tuple:
        """Infers the shapes of arguments, outputs and auxiliary states from the known ones.

        Args:
            args, kwargs: shapes in the order of `list_arguments`, or by name. 0 is an unknown dimension (-1 under
                NumPy shape semantics), () or None an unknown shape.

        Returns:
            Three lists of tuples; (None, None, None) if a shape stays unknown.

        Raises:
            MXNetError: the shapes contradict each other, or a name is not an input of the symbol. As in MXNet, the
                given shapes are printed.
        """
        try:
            self._check_names("infer_shape", args, kwargs)
            result = self._infer_shape(args, kwargs)
        except MXNetError:
            print("infer_shape error. Arguments:")
            for name, shape in (*((f"#{i}", shape) for i, shape in enumerate(args)), *kwargs.items()):
                print(f"  {name}: {shape}")
            raise
        missing = [n for n, s in zip(self.list_arguments() + self.list_auxiliary_states(), result[0] + result[2],
                                     strict=True) if not complete(s)]
        if missing or not all(map(complete, result[1])):
            if missing:
                warnings.warn(f"Cannot decide shape for the following arguments: {', '.join(missing)}. Consider "
                              "providing them as input.", stacklevel=2)
            return None, None, None
        return result

    def infer_shape_partial(self, *args: ShapeLike | None, **kwargs: ShapeLike | None) -> tuple:
        """Like `infer_shape`, but unknown shapes appear in the lists as 0 / () (-1 / None under NumPy semantics)."""
        self._check_names("infer_shape_partial", args, kwargs)
        return self._infer_shape(args, kwargs)

    def _check_names(self, what: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises MXNetError if a name is not an input of the symbol."""
        graph = self.lowered()
        unknown = [n for n in kwargs if n not in graph.args and n not in graph.aux] if kwargs else \
            args[len(graph.args):]
        if unknown:
            raise MXNetError(f"{what}: the symbol has no input {unknown[0]!r}; its inputs are "
                             f"{', '.join(self.list_inputs())}")

    def _infer_shape(self, args: Sequence[Any], kwargs: dict[str, Any],
                     types: dict[str, str] | None = None) -> tuple[list, list, list]:
        graph = self.lowered()
        if args and kwargs:
            raise ValueError("Can only specify known argument shapes either by positional or kwargs way.")
        named = dict(zip(graph.args, args, strict=False)) if args else kwargs
        known_names = {*graph.args, *graph.aux}
        shapes_by_name = {}
        for name, shape in named.items():
            if shape is None:
                continue
            if not isinstance(shape, (tuple, list)):
                raise TypeError(f"Arguments need to be shapes (tuple), but argument {name} is {type(shape).__name__}.")
            if name in known_names:
                shapes_by_name[name] = _internal_shape(tuple(shape))
        shapes = graph.inference.shapes(shapes_by_name, types)
        return ([_public_shape(shapes[id(n), 0]) for n in graph.arg_nodes],
                [_public_shape(shapes[id(n), i]) for n, i in self._outputs],
                [_public_shape(shapes[id(n), 0]) for n in graph.aux_nodes])

    def infer_type(self, *args: DTypeLike, **kwargs: DTypeLike) -> tuple:
        """Infers the dtypes (NumPy classes) of arguments, outputs and auxiliary states from the known ones.

        Returns:
            Three lists; (None, None, None) if a dtype stays unknown.

        Raises:
            MXNetError: the dtypes contradict each other, or a name is not an input of the symbol.
        """
        result = self.infer_type_partial(*args, **kwargs)
        if any(t is None for part in result for t in part):
            return None, None, None
        return result

    def infer_type_partial(self, *args: DTypeLike, **kwargs: DTypeLike) -> tuple:
        """Like `infer_type`, but unknown dtypes appear in the lists as None."""
        graph = self.lowered()
        if args and kwargs:
            raise ValueError("Can only specify known argument types either by positional or kwargs way.")
        self._check_names("infer_type", args, kwargs)
        named = dict(zip(graph.args, args, strict=False)) if args else kwargs
        types = graph.inference.types({k: np_dtype(v).name for k, v in named.items() if v is not None})

        def classes(entries: Sequence[Entry]) -> list:
            return [None if types[id(n), i] is None else np_dtype(types[id(n), i]).type for n, i in entries]
        return (classes([(n, 0) for n in graph.arg_nodes]), classes(self._outputs),
                classes([(n, 0) for n in graph.aux_nodes]))

    # ------------------------------------------------------------ files
    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as JSON text that MXNet 1.9.1 can load."""
        return json_format.dumps(self._outputs, remove_amp_cast)

    def save(self, fname: str | os.PathLike, remove_amp_cast: bool = True) -> None:
        """Writes `tojson()` to a file.

        Raises:
            TypeError: `fname` is not a path.
            MXNetError: the file cannot be written; an existing file is unchanged.
        """
        if not isinstance(fname, (str, os.PathLike)):
            raise TypeError("fname need to be string")
        with refusals(f"cannot write {os.fspath(fname)}"):
            write_file(fname, self.tojson(remove_amp_cast))

    def debug_str(self) -> str:
        """The graph as readable text."""
        nodes = topological(self._outputs)
        if len(nodes) == 1 and nodes[0].op is None:
            return f"Variable:{nodes[0].name}\n"
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{k}]={n.name}({i})" for k, (n, i) in enumerate(self._outputs)]
        for node in nodes:
            if node.op is None:
                lines.append(f"Variable:{node.name}")
                continue
            versions = node.versions or [source.changes for source, _ in node.inputs]
            lines += ["-" * 20, f"Op:{node.op.name}, Name={node.name}", "Inputs:"]
            lines += [f"\targ[{k}]={n.name}({i})" + f" version={version}" * (n.op is None)
                      for k, ((n, i), version) in enumerate(zip(node.inputs, versions, strict=True))]
            if node.attrs:
                lines += ["Attrs:"] + [f"\t{k}={v}" for k, v in sorted(node.attrs.items())]
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------ execution
    def lowered(self) -> Lowered:
        """Returns the graph as JAX functions are made of it; used by the library, not part of MXNet's interface."""
        if self._lowered is None:
            self._lowered = Lowered(self._outputs)
        return self._lowered

    def bind(self, ctx: Context, args: Arrays, args_grad: Arrays = None, grad_req: GradReq = "write",
             aux_states: Arrays = None, group2ctx: dict[str, Context] | None = None, shared_exec: object = None) -> Any:
        """Binds the symbol to arrays.

        Args:
            ctx: context to run on.
            args: arrays of all arguments, a list in order or a dictionary.
            args_grad: arrays for gradients, a list (None: no gradient) or a dictionary.
            grad_req: "write", "add" or "null": one value for all arguments, a list or a dictionary.
            aux_states: arrays of the auxiliary states.
            group2ctx: context of each `ctx_group`.
            shared_exec: an executor with which to share compiled programs and memory.

        Returns:
            An `mx.executor.Executor`.

        Raises:
            MXNetError, ValueError, TypeError: an array is missing or does not match.
        """
        symbol = backends.for_binding(self)
        graph, ctx = symbol.lowered(), chosen(ctx)
        arrays = _arranged(args, graph.args, "args", False)
        aux = _arranged(aux_states if aux_states is not None else [], graph.aux, "aux_states", False)
        grads = _arranged(args_grad, graph.args, "args_grad", True)
        return Executor.of_arrays(symbol, ctx, arrays, grads, grad_req, aux, group2ctx)

    def simple_bind(self, ctx: Context | None = None, grad_req: GradReq = "write",
                    type_dict: Any = None, stype_dict: Any = None,
                    group2ctx: dict[str, Context] | None = None, shared_arg_names: Sequence[str] | None = None,
                    shared_exec: Executor | None = None, shared_buffer: dict[str, NDArray] | None = None,
                    **kwargs: ShapeLike) -> Any:
        """Allocates arrays for all arguments, gradients and auxiliary states, and binds the symbol to them.

        Args:
            ctx, grad_req, group2ctx: as in `bind`.
            type_dict: dtypes of arguments by name.
            stype_dict: storage types of arguments by name.
            shared_arg_names, shared_exec: arguments that use the arrays of another executor.
            shared_buffer: arrays by name, which are reused if they are large enough; new arrays are added.
            kwargs: shapes of arguments by name; other values are ignored.

        Raises:
            MXNetError: shapes cannot be inferred, or contradict each other.
        """
        return Executor.of_shapes(backends.for_binding(self), chosen(ctx), grad_req, type_dict or {},
                                  stype_dict or {}, group2ctx, shared_arg_names, shared_exec, shared_buffer,
                                  {name: shape for name, shape in kwargs.items() if isinstance(shape, (tuple, list))})

    _bind, _simple_bind = bind, simple_bind  # their names in MXNet 2

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[Any]:
        """Binds the arguments given by name and runs forward; returns the outputs."""
        return self.bind(chosen(ctx), kwargs).forward()

    def to_jax(self) -> JaxFunction:
        """The graph as a pure JAX function; see `mxjax.interop.to_jax`."""
        return JaxFunction(self)

    def plan(self, on: str, train: str | None = None, dtype: DTypeLike = "float32", batch: int | str | None = None,
             **shapes: Sequence[int]) -> Plan:
        """Returns the plan of this graph on devices, which need not be present: its memory, time and parts.

        Args:
            on: the devices: "h100", "h200", "a100", "l4", "h100x8"; "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...
            train: "sgd" (with momentum) or "adam" for a training step; None for inference.
            dtype: dtype of the inputs and of everything inferred from them.
            batch: another size of the inputs' first axis, or "largest" for the largest that fits a device.
            shapes: shapes of the inputs over all devices; the first axis is divided among them.

        Returns:
            Memory of a device, operations, bytes moved, launches, collectives, and a roofline estimate of the time.

        Raises:
            MXNetError: shapes are missing; the devices are unknown, or their compiler (mxjax[cuda12], mxjax[cuda13],
                mxjax[plan-tpu]) is not installed, or refuses the graph.

        Example:
            >>> net.plan("h100", train="sgd", data=(64, 3, 224, 224)).fits  # doctest: +SKIP
            True
        """
        return plan_of(self, on, shapes, train=train, dtype=dtype, batch=batch)

    def gradient(self, wrt: object) -> Symbol:
        """Not available, as in MXNet 1.9.1.

        Raises:
            MXNetError: always; use `bind` and `backward`, or `to_jax` and `jax.grad`.
        """
        raise MXNetError("Symbol.gradient is not implemented in MXNet 1.9.1; bind the symbol and call backward, or use "
                         "symbol.to_jax() with jax.grad")

    def optimize_for(self, backend: str, args: dict[str, NDArray] | None = None, aux: dict[str, NDArray] | None = None,
                     ctx: Context | None = None, shape_dict: Mapping[str, ShapeLike] | None = None,
                     type_dict: dict[str, DTypeLike] | None = None, stype_dict: dict[str, str] | None = None,
                     skip_infer: bool = False, **kwargs: object) -> Symbol:
        """Returns the graph transformed for a backend; "default" (XLA) leaves it unchanged.

        Args:
            backend: name of a backend, see `register_backend`; an unknown one is logged, and the graph is unchanged.
            args, aux: arrays by name; a backend may add and remove some.
            ctx, shape_dict, type_dict, stype_dict, skip_infer: options of MXNet's backends.
            kwargs: options of the backend.

        Raises:
            TypeError: `backend` is not a string.
            RuntimeError: the backend created parameters, and there is no dictionary to store them.
        """
        if not isinstance(backend, str):
            raise TypeError(f"the name of a backend must be a str, got {type(backend).__name__}")
        return backends.optimize(self, backend, args, aux, kwargs)

    def get_backend_symbol(self, backend: str) -> Symbol:
        """`optimize_for` without arrays and options.

        Raises:
            MXNetError: the backend is unknown.
        """
        backends.find(backend)
        return self.optimize_for(backend)

    def as_np_ndarray(self) -> Symbol:
        """The same outputs as a symbol with NumPy's semantics."""
        return numpy_symbol.cls(self._outputs)

    def as_nd_ndarray(self) -> Symbol:
        """The symbol itself."""
        return self

    # ------------------------------------------------------------ operators of Python
    def __neg__(self) -> Symbol:
        return self.__mul__(-1.0)

    def __abs__(self) -> Symbol:
        return apply("abs", "abs", [self], {})

    def __iadd__(self, other: Symbol | float) -> Symbol:
        raise NotImplementedForSymbol(self.__iadd__, "+=", other)

    def __isub__(self, other: Symbol | float) -> Symbol:
        raise NotImplementedForSymbol(self.__isub__, "-=", other)

    def __imul__(self, other: Symbol | float) -> Symbol:
        raise NotImplementedForSymbol(self.__imul__, "*=", other)

    def __itruediv__(self, other: Symbol | float) -> Symbol:
        raise NotImplementedForSymbol(self.__itruediv__, "/=", other)



def _insertion_order(op: Any, params: dict[str, Any]) -> list[str]:
    """Returns the parameters that were passed, in the order in which MXNet's function for the operator adds them."""
    if op.variadic:
        return list(params)
    declared = [name for name in op.params if name in params and name != "dtype"]
    return declared + [name for name in params if name not in declared]


def _shown(attrs: dict[str, str]) -> dict[str, str]:
    """Returns attributes as users see them: in MXNet's order, and hidden ones under both names."""
    shown = {}
    for key in in_hash_order(tuple(attrs), level.current()):
        shown[key] = attrs[key]
        if key[2:-2] in HIDDEN and key == hidden(key[2:-2]):
            shown[key[2:-2]] = attrs[key]
    return shown


def _moved(entry: Entry, copied: dict[int, Node], mapping: dict[str, Entry]) -> Entry:
    node, output = entry
    if node.op is None and node.name in mapping:
        return mapping[node.name]
    return copied[id(node)], output


def _internal_shape(shape: tuple) -> tuple | None:
    """Returns a shape with None for unknown parts: () and 0, or -1 under NumPy semantics."""
    if is_np_shape():
        return tuple(None if n is None or n < 0 else int(n) for n in shape)
    return tuple(None if n is None or n <= 0 else int(n) for n in shape) or None


def _public_shape(shape: tuple | None) -> tuple | None:
    if is_np_shape():
        return None if shape is None else tuple(-1 if n is None else n for n in shape)
    return () if shape is None else tuple(0 if n is None else n for n in shape)


def _arranged(arrays: Arrays, names: Sequence[str], what: str, partial: bool) -> list[Any]:
    """Arrays in the order of `names`, out of a list or a dictionary."""
    if arrays is None:
        return [None] * len(names)
    if isinstance(arrays, dict):
        present = [n for n in names if n in arrays]
        _need_arrays(present, [arrays[n] for n in present], what, partial)
        if len(present) < len(names) and not partial:
            raise ValueError(f"key `{next(n for n in names if n not in arrays)}` is missing in `{what}`")
        return [arrays.get(n) for n in names]
    else:
        value = list(arrays)
        if len(value) != len(names):
            if partial and not value:
                return [None] * len(names)
            raise ValueError(f"Length of {what} does not match the number of arguments: {len(value)} arrays for "
                             f"{len(names)} ({', '.join(names)})")
    _need_arrays(names, value, what, partial)
    return value


def _need_arrays(names: Sequence[str], arrays: list[Any], what: str, partial: bool) -> None:
    for name, array in zip(names, arrays, strict=True):
        if not (isinstance(array, NDArray) or partial and array is None):
            raise TypeError(f"{what}: {name} must be an NDArray, got {type(array).__name__}")


# ---------------------------------------------------------------- making nodes
on_compose: Callable[[Node], None] | None = None  # mixed precision: changes new nodes' inputs


def Variable(name: str, attr: dict[str, str] | None = None, shape: ShapeLike | None = None,  # noqa: N802
             lr_mult: float | None = None, wd_mult: float | None = None, dtype: DTypeLike = None, init: Any = None,
             stype: str | None = None, profiler_scope: str | None = None, **kwargs: Any) -> Symbol:
    """A named input of a graph.

    Args:
        name: its name.
        attr: further attributes; values are strings.
        shape, dtype: known shape (0: unknown dimension) and dtype.
        lr_mult, wd_mult: multipliers of learning rate and weight decay.
        init: an initializer, or its JSON text.
        stype: storage type.
        profiler_scope: the scope for its memory in profiles.
        kwargs: attributes of the form __name__.

    Raises:
        TypeError: the name is not a string.
        ValueError: an attribute's name is not of the form __name__.
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attributes = dict(AttrScope.innermost().get(attr))
    extra = {"__shape__": shape,
             "__lr_mult__": lr_mult, "__wd_mult__": wd_mult,
             "__dtype__": None if dtype is None else CODES[np_dtype(dtype).name],
             "__init__": init.dumps() if hasattr(init, "dumps") else init,
             "__storage_type__": None if stype is None else {"default": 0, "row_sparse": 1, "csr": 2}[stype],
             "__profiler_scope__": profiler_scope}
    attributes.update({k: plain_text(v) for k, v in extra.items() if v is not None})
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"Attribute name={key} is not supported. Additional attributes must start and end with "
                             "double underscores, e.g, __yourattr__")
        attributes[key] = plain_text(value)
    for value in attributes.values():
        if not isinstance(value, str):
            raise ValueError("Attributes need to be strings")
    return Symbol([(Node(None, name, {hidden(k): v for k, v in attributes.items()}), 0)])


var = Variable


def Group(symbols: Sequence[Symbol], create_fn: Callable = Symbol) -> Symbol:  # noqa: N802
    """A symbol with the outputs of several symbols.

    Raises:
        TypeError: an argument is not a symbol.
    """
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return create_fn([e for s in symbols for e in s.handle])


def load(fname: str | os.PathLike) -> Symbol:
    """Loads a symbol from a JSON file of any MXNet version.

    Raises:
        TypeError: `fname` is not a path.
        MXNetError: the file is damaged; the message names it and the node.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError("fname need to be string")
    with reading(fname, "a symbol"), open(fname, encoding="utf-8", newline="") as file:
        return Symbol(json_format.loads(file.read(), os.fspath(fname)))


def load_json(json_str: str) -> Symbol:
    """Loads a symbol from JSON text of any MXNet version.

    Raises:
        TypeError: the argument is not a string.
        MXNetError: the text does not describe a graph.
    """
    if not isinstance(json_str, str):
        raise TypeError("json_str need to be string")
    return Symbol(json_format.loads(json_str))


fromjson = load_json  # its name in MXNet 2


def apply(op_name: str, hint: str, inputs: Sequence[Symbol], params: dict[str, Any], name: str | None = None,
          attr: dict[str, str] | None = None, named: dict[str, Symbol] | None = None,
          subgraphs: list[Lowered] | None = None) -> Symbol:
    """A new node.

    Args:
        op_name: the operator.
        hint: start of the name that an unnamed node gets.
        inputs: inputs by position.
        params: parameters as the user gave them (any value whose `str` parses).
        name, attr: name and attributes.
        named: inputs by name; those missing become variables "<name>_<input>".
        subgraphs: the graphs inside the node.
    """
    op = registry.get(op_name) if not subgraphs else bind(registry.get(op_name), subgraphs)
    attributes = {key: plain_text(value) for key, value in AttrScope.innermost().get(attr).items()}
    for key in [k for k in params if hidden(k) != k or k.startswith("__") and k.endswith("__")]:
        attributes[key] = plain_text(params.pop(key))
    # in MXNet, an attribute with a parameter's name is the parameter, and precedes the argument of the call
    params = {**params, **{key: attributes.pop(key) for key in list(attributes) if key in op.params}}
    named = dict(named or {})
    entries = [_one(s, op.name) for s in inputs] if not op.variadic else [e for s in inputs for e in s.handle]
    numbered = op.variadic and not op.input_names and op.get_attr("FListInputNames") is None
    if op.variadic and not op.input_names:
        entries = _numbered(op, entries, named, params.get(op.variadic)) if numbered else \
            entries + [_one(s, op.name) for s in named.values()]
        op.require_arrays(len(entries))
    if op.variadic and (not op.input_names or op.variadic in op.params) and op.variadic not in params \
            and not op.get_attr("own_count"):
        params = {**params, op.variadic: len(entries)}
    canonical = op.parse(dict(params))
    own: str = NameManager.innermost().get(name, hint)
    texts = {k: _text(op, k, params[k], canonical) for k in _insertion_order(op, params)
             if params[k] is not None or k in canonical}
    others = {hidden(k): v for k, v in attributes.items()}
    attrs = {**texts, **others} if op.variadic else {**others, **texts}
    filled: list[Entry] = [(Node(None, f"{own}_arg{i}", dict(attrs)), 0) if entry is None else entry
                           for i, entry in enumerate(entries)]  # none is missing but among numbered ones
    node = Node(op, own, attrs, canonical, filled, subgraphs)
    if op.input_names or not op.variadic or op.get_attr("FListInputNames") is not None:
        _fill_inputs(node, filled, named)
    if on_compose is not None:
        on_compose(node)
    node.applied()
    cls = next((type(s) for s in [*inputs, *named.values()] if type(s) is not Symbol), Symbol)
    if cls is Symbol and op_name.startswith("_np"):
        cls = numpy_symbol.cls
    return cls([(node, i) for i in range(node.num_visible)])


def _text(op: registry.Op, key: str, value: object, canonical: dict[str, Any]) -> str:
    """A parameter as text: the user's own where it is plain, dtypes by name."""
    if key not in op.params:
        return plain_text(value)
    if op.params[key].kind == "dtype":
        return str(canonical[key])
    if isinstance(value, (tuple, list, np.ndarray)):
        sequence = list if isinstance(value, list) else tuple
        return str(sequence(v.item() if isinstance(v, np.generic) else v for v in value))
    return str(value.item() if isinstance(value, np.generic) else value)


def _numbered(op: registry.Op, entries: list[Entry], named: dict[str, Symbol], stated: Any) -> list[Entry | None]:
    """Returns the inputs of a variadic operator, by position and as arg0, arg1, ...; None if one is missing.

    stated: the number of inputs if the user passes it.
    """
    if stated is not None and not (str(stated).isdecimal() and int(stated) <= MOST):
        raise MXNetError(f"operator {op.name}: {op.variadic}={stated!r} is not a valid number of inputs")
    if entries and named:
        raise TypeError(f"operator {op.name}: inputs come either by position or by name, not both")
    count = max(len(entries) + len(named), int(stated or 0))
    result = dict(enumerate(entries))
    for key, symbol in named.items():
        place = int(key[3:]) if key[:3] == "arg" and key[3:].isdecimal() else count
        if place >= count:
            raise MXNetError(f"operator {op.name}: has no input {key}; it takes arg0 to arg{count - 1}")
        result[place] = _one(symbol, op.name)
    return [result.get(i) for i in range(count)]


def _one(symbol: Symbol, op_name: str) -> Entry:
    if not isinstance(symbol, Symbol):
        raise TypeError(f"operator {op_name}: inputs must be Symbols, got {type(symbol).__name__}")
    if len(symbol.handle) != 1:
        raise MXNetError(f"operator {op_name}: an input is a group of {len(symbol.handle)} outputs; select one, such "
                         "as s[0]")
    return symbol.handle[0]


def _fill_inputs(node: Node, entries: list[Entry], named: dict[str, Symbol]) -> None:
    """Completes a node's inputs: by name, and with new variables where nothing was given."""
    op = node.op
    names = op.inputs(node.params, len(entries))
    if op.variadic and op.get_attr("FListInputNames") is None:
        names = names[:max(len(op.input_names), len(entries))]
    optional = op.optional_inputs if op.get_attr("FListInputNames") is None else set()
    if len(entries) > len(names):
        raise MXNetError(f"operator {op.name} ({node.name}): takes {len(names)} inputs ({', '.join(names)}), "
                         f"got {len(entries)}")
    unknown = set(named) - set(names)
    if unknown:
        raise MXNetError(f"operator {op.name} ({node.name}): has no input {', '.join(unknown)}; it takes "
                         f"{', '.join(names)}")
    result = list(entries)
    for position, wanted in enumerate(names):
        if position < len(entries):
            if wanted in named:
                raise UnknownArgument(f"operator {op.name} ({node.name}): got multiple values for input {wanted}")
            continue
        if wanted in named:
            result.append(_one(named[wanted], op.name))
        elif wanted in optional:
            if any(later in named for later in names[position + 1:]):
                raise MXNetError(f"operator {op.name} ({node.name}): input {wanted} is missing")
            break
        else:
            result.append((Node(None, f"{node.name}_{wanted}", dict(node.attrs)), 0))
    for (source, _), wanted in zip(result, names, strict=False):
        if source.op is None:
            set_input_attributes(source, op, wanted)
    node.inputs = result


# ---------------------------------------------------------------- operators of Python, methods
def _binary(name: str, tensor: str, scalar: str, reverse: bool = False) -> Callable[[Symbol, Any], Symbol]:
    """A two-argument method; nodes are named after MXNet's CamelCase aliases ("_plus0", "_plusscalar0")."""
    def method(self: Symbol, other: Symbol | float) -> Symbol:
        if isinstance(other, Symbol):
            pair = [other, self] if reverse else [self, other]
            return apply(tensor, tensor.lower(), pair, {})
        if isinstance(other, numeric_types):
            return apply(scalar, scalar.lower(), [self], {"scalar": float(other) if isinstance(other, bool) else other})
        if type(other) is NDArray:
            raise TypeError(f"type {type(other)} not supported")
        return NotImplemented
    method.__name__ = name
    return method


for _name, _tensor, _rscalar in [("add", "_Plus", "_PlusScalar"), ("sub", "_Minus", "_RMinusScalar"),
                                 ("mul", "_Mul", "_MulScalar"), ("truediv", "_Div", "_RDivScalar"),
                                 ("mod", "_Mod", "_RModScalar"), ("pow", "_Power", "_RPowerScalar")]:
    setattr(Symbol, f"__{_name}__", _binary(f"__{_name}__", _tensor, _tensor + "Scalar"))
    setattr(Symbol, f"__r{_name}__", _binary(f"__r{_name}__", _tensor, _rscalar, True))
for _name, _op_name in [("eq", "_equal"), ("ne", "_not_equal"), ("gt", "_greater"), ("ge", "_greater_equal"),
                        ("lt", "_lesser"), ("le", "_lesser_equal")]:
    setattr(Symbol, f"__{_name}__", _binary(f"__{_name}__", _op_name, _op_name + "_scalar"))
for _name, _function in PYTHON2.items():
    setattr(Symbol, _name, _function)


def _imperative(name: str) -> Callable:
    def method(self: Symbol, *args: object, **kwargs: object) -> Any:
        raise NotImplementedForSymbol(name, None, self, *args)
    method.__name__ = name
    method.__doc__ = "Only for NDArray."
    return method


for _name in ("wait_to_read", "asnumpy", "asscalar", "copy", "as_in_context", "detach", "backward"):
    setattr(Symbol, _name, _imperative(_name))
SYMBOLIC.kind, SYMBOLIC.apply = Symbol, apply
