"""Import: an ONNX graph, node by node, as a symbol with parameters."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from .._support.files import reading
from ..base import MXNetError
from ..context import Context
from ..gluon import SymbolBlock
from ..ndarray import NDArray, array
from ..symbol import Group, Symbol, var
from ..symbol.symbol import apply
from ._export import package

__all__ = ["IMPORTERS", "Derived", "ImportedNode", "described", "get_model_metadata", "graph_to_block",
           "graph_to_symbol", "import_model", "import_to_gluon", "importer"]

_T = TypeVar("_T")
Importer = Callable[["ImportedNode"], Any]
IMPORTERS: dict[str, Importer] = {}
_FAMILIES = ("_from_constants", "_from_elemwise", "_from_shape", "_from_nn", "_from_rnn", "_from_detection")
_MOST_MADE = 1 << 26
# two sets of numbers for dynamic sizes, which have many divisors: for the first two axes, and for those of images
_BATCHES = (24, 72, 120, 168, 216, 264), (240, 336, 528, 624, 816, 912)
_SIZES = (192, 256, 320, 384), (448, 512, 576, 640)


def importer(*op_types: str) -> Callable[[Importer], Importer]:
    """Registers the decorated function for ONNX operators."""
    def decorate(function: Importer) -> Importer:
        IMPORTERS.update(dict.fromkeys(op_types, function))
        return function
    return decorate


class Derived:
    """A value that follows from shapes of the model's inputs.

    Dynamic sizes have no value yet. So it is computed for two different sets of sizes: an equal value does
    not depend on them.

    Args:
        versions: the value for each set of sizes.
        make: returns the value as a symbol that is computed when the graph runs.
    """

    def __init__(self, versions: Sequence[np.ndarray], make: Callable[[], Symbol]) -> None:
        self.versions, self.make = list(versions), make
        first = self.versions[0]
        self.fixed = all(v.shape == first.shape and (v == first).all() for v in self.versions)


class ImportedNode:
    """The argument of an importer: an ONNX node and its inputs in the symbol.

    An importer returns a symbol (or several), a NumPy array for a constant result, or a `Derived`.
    """

    _version: int | None = None  # for which set of sizes `known` answers

    def __init__(self, model: _Model, node: Any) -> None:
        helper = package().helper
        self._model, self.op_type, self.opset = model, node.op_type, model.opset
        self.inputs, self.outputs = list(node.input), list(node.output)
        self.name = node.name or node.output[0]
        self.attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; text as str, lists as tuples."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value

    def has(self, index: int) -> bool:
        """Returns whether there is an input of that number."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def known(self, index: int) -> np.ndarray | None:
        """The value of an input if it is constant, else None."""
        value = self._model.values[self.inputs[index]] if self.has(index) else None
        if isinstance(value, Derived):
            if self._version is not None:
                return value.versions[self._version]
            return value.versions[0] if value.fixed else None
        return value if isinstance(value, np.ndarray) else None

    def derives(self, index: int) -> bool:
        """Returns whether the value of an input depends only on shapes of the model's inputs."""
        return self.has(index) and isinstance(self._model.values[self.inputs[index]], Derived)

    def for_each_size(self, compute: Callable[[], Any]) -> list[Any]:
        """Results of `compute` for each set of sizes, `known` answering accordingly."""
        results = []
        try:
            for number in range(len(self._model.sizes)):
                self._version = number
                results.append(compute())
        finally:
            self._version = None
        return results

    def value(self, index: int) -> np.ndarray:
        """The value of a constant input; an input that depends on parameters only is constant.

        Raises:
            MXNetError: it is not constant.
        """
        result = self.known(index)
        if result is None and self.has(index):
            result = self._model.computed(self.inputs[index], self)
        return self.given(result, f"its input {index} must be constant")

    def listed(self, index: int, name: str, default: Any = None) -> Any:
        """A list of ints that is an input (newer files) or an attribute (older ones)."""
        if self.has(index):
            return tuple(self.value(index).reshape(-1).tolist())
        return self.attr(name, default)

    def sym(self, index: int) -> Symbol:
        """An input as a symbol; a constant becomes a parameter."""
        return self._model.symbol(self.inputs[index])

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape of an input, if it can be inferred."""
        return self._model.shape(self.inputs[index])

    def sized(self, index: int) -> list[tuple[int, ...]] | None:
        """The shape of an input for each set of sizes, if it can be inferred."""
        return self._model.sized(self.inputs[index])

    def stretched(self, data: Symbol, axes: Mapping[int, Sequence[int]]) -> Symbol:
        """Data of length 1 along some axes with the dynamic sizes there that some input of the model has.

        Args:
            data: the symbol.
            axes: {axis: its size for each set of sizes}.
        """
        for axis, sizes in axes.items():
            name, other = self._where(sizes)
            data = self.op("broadcast_like", data, name, lhs_axes=(axis,), rhs_axes=(other,))
        return data

    def counted(self, sizes: Sequence[int]) -> Symbol:
        """0, 1, 2 ... up to a dynamic size that some input of the model has."""
        result, axis = self._where(sizes)
        return self.op("_contrib_arange_like", result, axis=axis)

    def _where(self, sizes: Sequence[int]) -> tuple[Symbol, int]:
        result = self.given(self._model.where(sizes), "a dynamic size that no input has")
        return self._model.symbol(result[0]), result[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the model's inputs and parameters, as far as they are known."""
        return self._model.known_shapes()

    def op(self, name: str, *inputs: Symbol, **params: Any) -> Symbol:
        """A new node."""
        return apply(name, name.lower().strip("_"), inputs, params)

    def param(self, value: np.ndarray, suffix: str) -> Symbol:
        """A new parameter."""
        return self._model.parameter(f"{self.name}_{suffix}", value)

    def make(self, count: float) -> None:
        """Announces a constant of this number of elements; raises MXNetError if a file creates too many."""
        self._model.made += max(count, 0)
        self.need(self._model.made <= _MOST_MADE, f"constants of {count:.0f} elements; all may have {_MOST_MADE}")

    def need(self, condition: bool, what: str) -> None:
        """Raises MXNetError "cannot be imported: ..." unless the condition holds."""
        if not condition:
            raise MXNetError(f"ONNX operator {self.op_type} ({self.name}) cannot be imported: {what}")

    def given(self, value: _T | None, what: str) -> _T:
        """Returns a value; raises MXNetError "cannot be imported: ..." where it is None."""
        if value is None:
            raise MXNetError(f"ONNX operator {self.op_type} ({self.name}) cannot be imported: {what}")
        return value


class _Model:
    def __init__(self, graph: Any, opset: int) -> None:
        onnx = package()
        self.opset = opset
        self.made = 0.0  # elements of the constants that nodes stand for
        self.values: dict[str, Any] = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        self.params: dict[str, np.ndarray] = {}
        self.shapes = {name: shape for name, shape, _ in described(graph)["input_tensor_data"] if all(shape)}
        self.sizes = _assumed(graph, self.values)
        self.inputs = [i.name for i in graph.input if i.name not in self.values]
        self.values.update({name: var(name) for name in self.inputs})
        self._makes = False  # values from shapes are computed when the graph runs
        for family in _FAMILIES:
            import_module(f".{family}", __package__)
        for node in graph.node:
            self._convert(node)
        outputs = [self._output(o.name) for o in graph.output]
        self.sym = Group(outputs) if len(outputs) > 1 else outputs[0]

    def _convert(self, node: Any) -> None:
        if node.op_type not in IMPORTERS:
            raise NotImplementedError(f"Operator {node.op_type} not implemented.")
        call = ImportedNode(self, node)
        result = IMPORTERS[node.op_type](call)
        results = result.singles() if isinstance(result, Symbol) else \
            list(result) if isinstance(result, (list, tuple)) else [result]
        if isinstance(result, Symbol) and result.handle[0][0].op is not None:
            result.handle[0][0].name = call.name
        self.values.update(zip(call.outputs, results, strict=False))

    def _output(self, name: str) -> Symbol:
        """A result of the graph; one that derives from an input's shape still takes the input."""
        self._makes = isinstance(self.values.get(name), Derived)
        try:
            return self.symbol(name)
        finally:
            self._makes = False

    def parameter(self, name: str, value: np.ndarray) -> Symbol:
        self.params[name] = value if value.ndim else value.reshape(1)
        return var(name, shape=self.params[name].shape)

    def symbol(self, name: str) -> Symbol:
        if name not in self.values:
            raise MXNetError(f"ONNX value {name!r} cannot be imported: it is not an input, and no node produces it")
        value = self.values[name]
        if isinstance(value, Derived):
            if self._makes or not value.fixed:
                return value.make()
            value = value.versions[0]
        if isinstance(value, np.ndarray) and not isinstance(value, _Parameter):
            value = self.values[name] = _Parameter(value, self.parameter(name, value))
        return value.symbol if isinstance(value, _Parameter) else value

    def computed(self, name: str, call: ImportedNode) -> np.ndarray | None:
        """The value of a symbol that depends on parameters only; else None."""
        value = self.values[name]
        if not isinstance(value, Symbol) or set(value.list_inputs()) - set(self.params):
            return None
        shape = self.shape(name)
        call.make(math.prod(shape) if shape else 0)
        params = {n: array(self.params[n], dtype=self.params[n].dtype) for n in value.list_inputs()}
        return value.eval(None, **params)[0].asnumpy()

    def known_shapes(self) -> dict[str, tuple[int, ...]]:
        return {**self.shapes, **{k: v.shape for k, v in self.params.items()}}

    def shape(self, name: str) -> tuple[int, ...] | None:
        return self._inferred(name, self.shapes)

    def sized(self, name: str) -> list[tuple[int, ...]] | None:
        results = []
        for number, sizes in enumerate(self.sizes):
            value = self.values[name]
            try:
                shape = value.versions[number].shape if isinstance(value, Derived) else self._inferred(name, sizes)
            except MXNetError:
                return None  # such sizes are too small for the layers before
            results.append(shape)
        return None if None in results else results

    def where(self, sizes: Sequence[int]) -> tuple[str, int] | None:
        """(input, axis) that has these sizes."""
        for name, shape in self.sizes[0].items():
            for axis in range(len(shape)):
                if [shapes[name][axis] for shapes in self.sizes] == list(sizes):
                    return name, axis
        return None

    def _inferred(self, name: str, inputs: dict[str, tuple[int, ...]]) -> tuple[int, ...] | None:
        value = self.values[name]
        if isinstance(value, Derived):
            return value.versions[0].shape if len({v.shape for v in value.versions}) == 1 else None
        if not isinstance(value, Symbol):
            return value.shape
        names = set(value.list_inputs())
        known = {**inputs, **{k: v.shape for k, v in self.params.items()}}
        result = value.infer_shape_partial(**{k: s for k, s in known.items() if k in names})[1][0]
        return result if result and 0 not in result else None


def _assumed(graph: Any, params: dict[str, Any]) -> list[dict[str, tuple[int, ...]]]:
    """Sets of the inputs' shapes: one where all are known; else two, in which all dynamic sizes differ."""
    numbers: dict[Any, tuple[int, int]] = {}

    def size(dim: Any, key: tuple[str, int], which: int) -> int:
        if dim.dim_value:
            return dim.dim_value
        table = _SIZES if key[1] > 1 else _BATCHES
        index = sum(n in table[0] for n, _ in numbers.values()) % len(table[0])
        return numbers.setdefault(dim.dim_param or key, (table[0][index], table[1][index]))[which]
    inputs = {i.name: i.type.tensor_type.shape.dim for i in graph.input if i.name not in params}
    sets = [{name: tuple(size(dim, (name, axis), which) for axis, dim in enumerate(dims))
             for name, dims in inputs.items()} for which in (0, 1)]
    return sets if numbers else sets[:1]


class _Parameter(np.ndarray):
    """A constant that is used as a parameter too."""

    symbol: Symbol

    def __new__(cls, value: np.ndarray, symbol: Symbol) -> _Parameter:
        array = value.view(cls)
        array.symbol = symbol
        return array


@contextlib.contextmanager
def _importing(model_file: str) -> Iterator[None]:
    """A block that reads an ONNX file; an operator without importer is no damage."""
    missing = None
    with reading(model_file, "an ONNX model"):
        try:
            yield
        except NotImplementedError as error:
            missing = error
    if missing is not None:
        raise missing


def _graph(model_file: str) -> tuple[Any, int]:
    """(GraphProto, version of the operators) of a file."""
    proto = package().load_model(model_file)
    return proto.graph, max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)


def import_model(model_file: str) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Imports an ONNX file as a checkpoint.

    Returns:
        (symbol, arguments, auxiliary states).

    Raises:
        NotImplementedError: an operator has no importer.
        MXNetError: an operator is used in a way that is not supported, or the file is damaged.
    """
    with _importing(model_file):
        return graph_to_symbol(*_graph(model_file))


def graph_to_symbol(graph: Any, opset: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """`import_model` of a GraphProto that uses this version of the operators."""
    model = _Model(graph, opset)
    params = {name: array(value, dtype=value.dtype) for name, value in model.params.items()}
    return (model.sym, {k: params[k] for k in model.sym.list_arguments() if k in params},
            {k: params[k] for k in model.sym.list_auxiliary_states() if k in params})


def import_to_gluon(model_file: str, ctx: Context | Sequence[Context] | None) -> SymbolBlock:
    """Imports an ONNX file as a block on one or several contexts; errors as in `import_model`."""
    with _importing(model_file):
        return graph_to_block(*_graph(model_file), ctx)


def graph_to_block(graph: Any, opset: int, ctx: Context | Sequence[Context] | None) -> SymbolBlock:
    """`import_to_gluon` of a GraphProto that uses this version of the operators."""
    sym, args, auxs = graph_to_symbol(graph, opset)
    names = [name for name, *_ in described(graph)["input_tensor_data"]]
    block = SymbolBlock(sym, [var(name) for name in names])
    block.set_values({**args, **auxs}, ctx)
    return block


def described(graph: Any) -> dict[str, list]:
    """`get_model_metadata` of a GraphProto."""
    params = {tensor.name for tensor in graph.initializer}

    def shape(info: Any) -> tuple[int, ...]:
        return tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
    return {"input_tensor_data": [(i.name, shape(i), i.type.tensor_type.elem_type) for i in graph.input
                                  if i.name not in params],
            "output_tensor_data": [(o.name, shape(o)) for o in graph.output]}


def get_model_metadata(model_file: str) -> dict[str, list]:
    """Returns the inputs and outputs of an ONNX file.

    Returns:
        {"input_tensor_data": [(name, shape, ONNX dtype)], "output_tensor_data": [(name, shape)]}; 0 is an unknown
        dimension.
    """
    with _importing(model_file):
        return described(_graph(model_file)[0])
