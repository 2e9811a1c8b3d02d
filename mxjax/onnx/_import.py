"""Import: an ONNX graph, node by node, as a symbol with parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .._files import reading
from ..base import MXNetError
from ..context import Context
from ..gluon import SymbolBlock
from ..ndarray import NDArray, array
from ..symbol import Group, Symbol, var
from ..symbol.symbol import apply
from ._export import package

__all__ = ["IMPORTERS", "Call", "described", "get_model_metadata", "graph_to_block", "graph_to_symbol", "import_model",
           "import_to_gluon", "importer"]

Importer = Callable[["Call"], Any]
IMPORTERS: dict[str, Importer] = {}
_MOST_MADE = 1 << 26


def importer(*kinds: str) -> Callable[[Importer], Importer]:
    """Registers the decorated function for ONNX operators."""
    def decorate(function: Importer) -> Importer:
        IMPORTERS.update(dict.fromkeys(kinds, function))
        return function
    return decorate


class Call:
    """What an importer gets: an ONNX node and what its inputs are in the symbol.

    It returns a symbol (or several), or a NumPy array where the result is a constant, e.g. a shape.
    """

    def __init__(self, model: _Model, node: Any) -> None:
        helper = package().helper
        self._model, self.kind, self.opset = model, node.op_type, model.opset
        self.inputs, self.outputs = list(node.input), list(node.output)
        self.name = node.name or node.output[0]
        self.attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; text as str, lists as tuples."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value

    def has(self, index: int) -> bool:
        """Whether there is an input of that number."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def known(self, index: int) -> np.ndarray | None:
        """An input's value where it is constant, else None."""
        value = self._model.values[self.inputs[index]] if self.has(index) else None
        return value if isinstance(value, np.ndarray) else None

    def value(self, index: int) -> np.ndarray:
        """A constant input's value.

        Raises:
            MXNetError: it is not constant.
        """
        found = self.known(index)
        self.need(found is not None, f"its input {index} must be constant")
        return found

    def listed(self, index: int, name: str, default: Any = None) -> Any:
        """A list of ints that is an input (newer files) or an attribute (older ones)."""
        if self.has(index):
            return tuple(self.value(index).reshape(-1).tolist())
        return self.attr(name, default)

    def sym(self, index: int) -> Symbol:
        """An input as a symbol; a constant becomes a parameter."""
        return self._model.symbol(self.inputs[index])

    def shape(self, index: int) -> tuple[int, ...] | None:
        """An input's shape where it can be told."""
        return self._model.shape(self.inputs[index])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the model's inputs and parameters, as far as they are known."""
        return self._model.known_shapes()

    def op(self, kind: str, *inputs: Symbol, **params: Any) -> Symbol:
        """A new node."""
        return apply(kind, kind.lower().strip("_"), inputs, params)

    def param(self, value: np.ndarray, suffix: str) -> Symbol:
        """A new parameter."""
        return self._model.parameter(f"{self.name}_{suffix}", value)

    def make(self, count: float) -> None:
        """Says that a constant of so many elements will be made; raises MXNetError where a file makes too many."""
        self._model.made += max(count, 0)
        self.need(self._model.made <= _MOST_MADE, f"constants of {count:.0f} elements; all may have {_MOST_MADE}")

    def need(self, condition: bool, what: str) -> None:
        """Raises MXNetError "cannot be imported: ..." unless the condition holds."""
        if not condition:
            raise MXNetError(f"ONNX operator {self.kind} ({self.name}) cannot be imported: {what}")


class _Model:
    def __init__(self, graph: Any, opset: int) -> None:
        onnx = package()
        self.opset = opset
        self.made = 0.0  # elements of the constants that nodes stand for
        self.values: dict[str, Any] = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        self.params: dict[str, np.ndarray] = {}
        self.shapes = {name: shape for name, shape, _ in described(graph)["input_tensor_data"] if all(shape)}
        self.inputs = [i.name for i in graph.input if i.name not in self.values]
        self.values.update({name: var(name) for name in self.inputs})
        import_module("._from_onnx", __package__)
        for node in graph.node:
            self._convert(node)
        outputs = [self.symbol(o.name) for o in graph.output]
        self.sym = Group(outputs) if len(outputs) > 1 else outputs[0]

    def _convert(self, node: Any) -> None:
        if node.op_type not in IMPORTERS:
            raise NotImplementedError(f"Operator {node.op_type} not implemented.")
        call = Call(self, node)
        result = IMPORTERS[node.op_type](call)
        results = result.singles() if isinstance(result, Symbol) else \
            list(result) if isinstance(result, (list, tuple)) else [result]
        if isinstance(result, Symbol) and result._outputs[0][0].op is not None:
            result._outputs[0][0].name = call.name
        self.values.update(zip(call.outputs, results, strict=False))

    def parameter(self, name: str, value: np.ndarray) -> Symbol:
        self.params[name] = value if value.ndim else value.reshape(1)
        return var(name, shape=self.params[name].shape)

    def symbol(self, name: str) -> Symbol:
        if name not in self.values:
            raise MXNetError(f"ONNX value {name!r} is not one that can be imported: no input, and no node gives it")
        value = self.values[name]
        if isinstance(value, np.ndarray):
            value = self.values[name] = _Parameter(value, self.parameter(name, value))
        return value.symbol if isinstance(value, _Parameter) else value

    def known_shapes(self) -> dict[str, tuple[int, ...]]:
        return {**self.shapes, **{k: v.shape for k, v in self.params.items()}}

    def shape(self, name: str) -> tuple[int, ...] | None:
        value = self.values[name]
        if not isinstance(value, Symbol):
            return value.shape
        names = set(value.list_inputs())
        given = {k: s for k, s in self.known_shapes().items() if k in names}
        found = value.infer_shape_partial(**given)[1][0]
        return found if found and 0 not in found else None


class _Parameter(np.ndarray):
    """A constant that is used as a parameter too."""

    symbol: Symbol

    def __new__(cls, value: np.ndarray, symbol: Symbol) -> _Parameter:
        made = value.view(cls)
        made.symbol = symbol
        return made


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
    """An ONNX file as a checkpoint.

    Returns:
        (symbol, arguments, auxiliary states).

    Raises:
        NotImplementedError: there is no importer for an operator.
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
    """An ONNX file as a block on one or several contexts; errors as in `import_model`."""
    with _importing(model_file):
        return graph_to_block(*_graph(model_file), ctx)


def graph_to_block(graph: Any, opset: int, ctx: Context | Sequence[Context] | None) -> SymbolBlock:
    """`import_to_gluon` of a GraphProto that uses this version of the operators."""
    sym, args, auxs = graph_to_symbol(graph, opset)
    names = [name for name, *_ in described(graph)["input_tensor_data"]]
    block = SymbolBlock(sym, [var(name) for name in names])
    block.collect_params().load_dict({**args, **auxs}, ctx, cast_dtype=True, dtype_source="saved")
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
    """Inputs and outputs of an ONNX file.

    Returns:
        {"input_tensor_data": [(name, shape, ONNX dtype)], "output_tensor_data": [(name, shape)]}; 0 is an unknown
        dimension.
    """
    with _importing(model_file):
        return described(_graph(model_file)[0])
