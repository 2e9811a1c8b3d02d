"""Export: a graph, node by node, as an ONNX graph."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .._support.files import write_file
from ..base import MXNetError
from ..graph.inference import infer_shapes, infer_types
from ..graph.node import Entry, Node, topological
from ..ndarray import NDArray, load
from ..ops import registry
from ..ops.params import np_dtype
from ..symbol import Symbol
from ..symbol import load as load_symbol
from ..symbol._simpler import simpler

__all__ = ["CONVERTERS", "ExportedNode", "converter", "export_model", "get_operator_support", "package"]

OPSET, IR_VERSION = 17, 8  # supported by onnxruntime since 1.12
Shape = tuple["int | None", ...]
Converter = Callable[["ExportedNode"], "str | Sequence[str]"]
CONVERTERS: dict[str, Converter] = {}
_FAMILIES = ("_to_elemwise", "_to_shape", "_to_nn", "_to_rnn", "_to_detection")


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Registers the decorated function for operators of these names (aliases of one operator need one name)."""
    def decorate(function: Converter) -> Converter:
        for name in names:
            CONVERTERS[registry.get(name).name] = function
        return function
    return decorate


def package() -> Any:
    """The onnx package.

    Raises:
        ImportError: onnx is not installed.
    """
    try:
        return import_module("onnx")
    except ImportError:
        raise ImportError("ONNX files require the package onnx: pip install 'mxjax[onnx]'") from None


def _all_converters() -> dict[str, Converter]:
    for family in _FAMILIES:
        import_module(f".{family}", __package__)
    return CONVERTERS


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Returns the names of the operators that can be exported; `opset_version` (13 or later) has no effect."""
    return sorted(_all_converters())


class Graph:
    """The ONNX graph as it grows: steps (operator, inputs, outputs, attributes) and constant tensors."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, list[str], list[str], dict[str, Any]]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self._known: dict[tuple, str] = {}
        self._count = 0

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"value_{self._count}"

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant tensor; equal ones are one."""
        array = np.ascontiguousarray(np.asarray(value, dtype)).reshape(np.shape(value))
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = name = f"constant_{len(self._known)}"
            self.tensors[name] = array
        return self._known[key]

    def rename(self, first: int, results: list[str], wanted: Sequence[str]) -> None:
        """Has the steps from number `first` on put out `results` under the wanted names."""
        mine = {name for _, _, outputs, _ in self.steps[first:] for name in outputs}
        table = {}
        for result, name in zip(results, wanted, strict=True):
            if result in mine and result not in table:
                table[result] = name
            else:
                self.steps.append(("Identity", [result], [name], {}))
        for _, inputs, outputs, _ in self.steps[first:]:
            inputs[:] = [table.get(n, n) for n in inputs]
            outputs[:] = [table.get(n, n) for n in outputs]

    def needed(self, outputs: Iterable[str]) -> tuple[list, set[str]]:
        """(steps that the outputs depend on, all names in use)."""
        used, kept = set(outputs), []
        for step in reversed(self.steps):
            if used & set(step[2]):
                kept.append(step)
                used |= set(step[1])
        return kept[::-1], used


def definite(shape: Shape) -> tuple[int, ...] | None:
    """The shape; None where a dimension of it is dynamic."""
    result = tuple(n for n in shape if n is not None)
    return result if len(result) == len(shape) else None


class ExportedNode:
    """The argument of a converter: a node with its inputs' names, shapes and dtypes, and the graph to add steps to.

    An unknown (dynamic) dimension is None.
    """

    def __init__(self, model: _Model, node: Node, inputs: list[str]) -> None:
        self._model, self.node, self.inputs = model, node, inputs
        self.p: dict[str, Any] = node.params
        self.op_type = node.op.name

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """Adds a step; returns the name of its output, or a list of names."""
        names = [self._model.graph.fresh() for _ in range(outputs)]
        attrs = {k: v for k, v in attrs.items() if v is not None}
        self._model.graph.steps.append((op_type, list(inputs), names, attrs))
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        """The name of a constant tensor."""
        return self._model.graph.const(value, dtype)

    def scalar(self, value: float, dtype: Any = None) -> str:
        """A number in the dtype of the first input, or another."""
        return self.const(value, self.dtype() if dtype is None else dtype)

    def cast(self, value: str, dtype: Any) -> str:
        """The value in another dtype."""
        helper = package().helper
        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(np_dtype(dtype)))

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input."""
        return self._known_shape(*self._entry(index))

    def ndim(self, index: int = 0) -> int:
        """The number of dimensions of an input."""
        return len(self.shape(index))

    def dtype(self, index: int = 0) -> np.dtype:
        """The dtype of an input."""
        return self._model.dtypes[self._entry(index)]

    def out_shape(self, index: int = 0) -> Shape:
        """The shape of an output."""
        return self._known_shape(id(self.node), index)

    def _known_shape(self, node: int, index: int) -> Shape:
        result = self._model.shapes[node, index]
        if result is None:
            raise MXNetError(f"operator {self.op_type} ({self.node.name}) cannot be exported to ONNX: it needs a shape "
                             "that cannot be inferred from the inputs")
        return result

    def out_dtype(self, index: int = 0) -> np.dtype:
        """The dtype of an output."""
        return self._model.dtypes[id(self.node), index]

    def dims(self, name: str, axes: Sequence[int]) -> str:
        """Some dimensions of a value, as a tensor."""
        return self.op("Gather", self.op("Shape", name), self.const(list(axes)), axis=0)

    def axis(self, axis: int, index: int = 0) -> int:
        """An axis of an input, not negative."""
        return axis % self.ndim(index)

    def has(self, index: int) -> bool:
        """Returns whether there is an input of that number."""
        return index < len(self.inputs)

    def source(self, index: int) -> Node:
        """The node that an input comes from."""
        return self.node.inputs[index][0]

    def value(self, index: int) -> np.ndarray:
        """The value of an input that depends on parameters only.

        Raises:
            MXNetError: it depends on the model's inputs.
        """
        return self._model.value(self.node.inputs[index], self)

    def depends_on_inputs(self, index: int) -> bool:
        """Returns whether an input has no `value`."""
        return bool(self._model.missing(self.node.inputs[index]))

    def need(self, condition: bool, what: str) -> None:
        """Raises MXNetError "cannot be exported: ..." unless the condition holds."""
        if not condition:
            raise MXNetError(f"operator {self.op_type} ({self.node.name}) cannot be exported to ONNX: {what}")

    def static(self, shape: Shape, what: str = "its shape") -> tuple[int, ...]:
        """The shape, if no dimension of it is dynamic."""
        result = definite(shape)
        if result is None:
            raise MXNetError(f"operator {self.op_type} ({self.node.name}) cannot be exported to ONNX: {what} must be "
                             f"known, but is {shape}")
        return result

    def _entry(self, index: int) -> tuple[int, int]:
        source, i = self.node.inputs[index]
        return id(source), i


class _Model:
    """One export: shapes, dtypes and names of the entries of the graph."""

    def __init__(self, sym: Symbol, params: dict[str, NDArray],
                 inputs: dict[str, tuple[Shape, tuple, np.dtype]]) -> None:
        self.sym, self.params, self.graph = sym, params, Graph()
        self.nodes = topological(sym.handle)
        known = {n.name: (tuple(params[n.name].shape), np_dtype(params[n.name].dtype)) for n in self.nodes
                 if n.op is None and n.name in params}
        examples = {name: example for name, (_, example, _) in inputs.items()}
        types = {k: t.name for k, (_, t) in known.items()} | {k: t.name for k, (_, _, t) in inputs.items()}
        fixed = {k: shape for k, (shape, _) in known.items()}
        result = infer_types(sym.handle, types)
        self.dtypes = {key: np_dtype(name or "float32") for key, name in result.items()}
        self.shapes: dict[tuple[int, int], Shape | None] = self._inferred({**fixed, **examples}, types)
        for name, (wanted, example, _) in inputs.items():  # a dimension that follows another one is dynamic with it
            for axis, dim in enumerate(wanted):
                if dim is None:
                    other = {**examples, name: tuple(2 * n if k == axis else n for k, n in enumerate(example))}
                    try:
                        shapes = self._inferred({**fixed, **other}, types)
                    except MXNetError:
                        continue  # the parameters allow one size only
                    self.shapes = {k: tuple(n if n == m else None for n, m in zip(s, shapes[k], strict=True))
                                   if s is not None else None for k, s in self.shapes.items()}

    @classmethod
    def of(cls, sym: Symbol, params: dict[str, NDArray], inputs: dict[str, tuple[Shape, tuple, np.dtype]]) -> _Model:
        """The export of a graph, in which others stand for operators that have no converter."""
        table = _all_converters()

        def infer(outputs: Sequence[Entry]) -> tuple[dict, dict]:
            model = cls(Symbol(outputs), params, inputs)
            return model.shapes, model.dtypes
        outputs = simpler(sym.handle, table.__contains__, infer)
        return cls(sym if outputs is sym.handle else Symbol(outputs), params, inputs)

    def _inferred(self, shapes: dict[str, tuple], types: dict[str, str]) -> dict[tuple[int, int], Any]:
        return infer_shapes(self.sym.handle, shapes, types)

    def names(self, node: Node) -> list[str]:
        """Names of a node's outputs in the file."""
        count = node.num_outputs
        if count == 1 or node.op.name == "RNN":
            return [node.name, *(f"{node.name}{i}" for i in range(1, count))]
        if node.num_visible == 1:
            return [node.name, *(f"{node.name}_hidden{i}" for i in range(1, count))]
        return [f"{node.name}{i}" for i in range(count)]

    def missing(self, entry: Entry) -> list[str]:
        """The model's inputs that a value depends on."""
        return [n for n in Symbol([entry]).list_inputs() if n not in self.params]

    def value(self, entry: Entry, call: ExportedNode) -> np.ndarray:
        part, missing = Symbol([entry]), self.missing(entry)
        call.need(not missing, f"it needs values that do not depend on inputs, but got some of {', '.join(missing)}")
        return part.eval(None, **{n: self.params[n] for n in part.list_inputs()})[0].asnumpy()

    def _is_constant(self, node: Node) -> bool:
        """Returns whether a node's only result depends on no input, and is no random number."""
        below = [n for n in topological([(node, 0)]) if n.op is not None]
        return node.num_outputs == 1 and not self.missing((node, 0)) and not any(
            "random" in (n.op.get_attr("FResourceRequest") or ()) for n in below)

    def build(self, verbose: bool) -> list[str]:
        """Converts all nodes; returns the names of the outputs."""
        table, entries = _all_converters(), {}
        for node in self.nodes:
            if node.op is None:
                entries[id(node), 0] = node.name
                continue
            if verbose:
                logging.info("Converting op: %s, name: %s", node.op.name, node.name)
            call = ExportedNode(self, node, [entries[id(n), i] for n, i in node.inputs])
            if node.op.name not in table and self._is_constant(node):
                entries[id(node), 0] = call.const(self.value((node, 0), call), call.out_dtype())
                continue
            if node.op.name not in table:
                raise AttributeError(f"No conversion function registered for op type {node.op.name} yet (node "
                                     f"{node.name}).")
            first = len(self.graph.steps)
            results = table[node.op.name](call)
            results = [results] if isinstance(results, str) else list(results)
            wanted = self.names(node)[:len(results)]
            self.graph.rename(first, results, wanted)
            entries.update({(id(node), i): name for i, name in enumerate(wanted)})
        return [entries[id(n), i] for n, i in self.sym.handle]


def _objects(sym: Any, params: Any) -> tuple[Symbol, dict[str, NDArray]]:
    """Symbol and parameters out of files or objects."""
    if isinstance(sym, (str, os.PathLike)) and isinstance(params, (str, os.PathLike)):
        sym, params = load_symbol(sym), load(os.fspath(params)) or {}  # a file without parameters is an empty list
    if isinstance(params, (list, tuple)) and len(params) == 2:
        params = {**params[0], **params[1]}
    if not isinstance(sym, Symbol) or not isinstance(params, dict):
        raise ValueError("Input sym and params should either be files or objects")
    return sym, {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in params.items()}


def _without_labels(sym: Symbol, known: dict[str, Any], count: int) -> list[str]:
    """Names of the inputs that are to be given: labels of loss outputs are not needed."""
    free = [n for n in sym.list_inputs() if n not in known]
    if len(free) > count:
        labels = {n.inputs[1][0].name for n in topological(sym.handle) if n.op is not None and len(n.inputs) == 2
                  and n.op.name.endswith("Output")}
        free = [n for n in free if n not in labels]
    return free


def export_model(sym: Symbol | str, params: Any, in_shapes: Sequence[tuple] | None = None, in_types: Any = np.float32,
                 onnx_file_path: str = "model.onnx", verbose: bool = False, dynamic: bool = False,
                 dynamic_input_shapes: Sequence[tuple] | None = None, run_shape_inference: bool = False,
                 input_type: Any = None, input_shape: Sequence[tuple] | None = None, large_model: bool = False) -> str:
    """Exports a model to an ONNX file (opset 17) for inference.

    Args:
        sym: symbol, or its JSON file.
        params: dictionary of parameters and auxiliary states, the two as a list, or their file.
        in_shapes: shapes of the inputs, in the order of `sym.list_inputs()`, without labels of loss outputs.
        in_types: dtype of the inputs, or a list of them.
        onnx_file_path: path of the file to write.
        verbose: whether to log each node.
        dynamic: whether the shapes of the inputs may vary; `in_shapes` are then examples.
        dynamic_input_shapes: shapes in which dynamic dimensions are None or a name; by default all are dynamic.
        run_shape_inference: whether to store the shapes of all values in the file.
        input_type, input_shape: older names of `in_types` and `in_shapes`.
        large_model: whether to store each parameter in a separate file next to the model, as models above 2 GB require.

    Returns:
        `onnx_file_path`.

    Raises:
        AttributeError: an operator has no converter.
        MXNetError: an operator is used in a way that ONNX does not support.
        ValueError: `sym` or `params` has the wrong type, or shapes and types do not match the inputs.

    Example:
        mx.onnx.export_model("net-symbol.json", "net-0000.params", [(1, 3, 224, 224)], onnx_file_path="net.onnx")
    """
    onnx = package()
    helper = onnx.helper
    sym, values = _objects(sym, params)
    examples = [tuple(s) for s in (in_shapes if input_shape is None else input_shape) or ()]
    types = in_types if input_type is None else input_type
    types = list(types) if isinstance(types, (list, tuple)) else [types] * len(examples)
    names = _without_labels(sym, values, len(examples))
    if not len(examples) == len(types) == len(names):
        raise ValueError(f"the model has the inputs {', '.join(names)}, got {len(examples)} shapes and {len(types)} "
                         "types")
    wanted: list[tuple] = examples
    if dynamic:
        wanted = [tuple(s) for s in dynamic_input_shapes] if dynamic_input_shapes else [(None,) * len(s)
                                                                                      for s in examples]
        if [len(s) for s in wanted] != [len(s) for s in examples]:
            raise ValueError(f"dynamic_input_shapes {wanted} do not match in_shapes {examples}")
    elif dynamic_input_shapes is not None:
        raise ValueError("dynamic_input_shapes is specified. Please set dynamic=True to enable dynamic input shapes")
    dtypes = [np_dtype(t) for t in types]
    model = _Model.of(sym, values, {
        name: (tuple(d if isinstance(d, int) else None for d in shape), example, dtype)
        for name, shape, example, dtype in zip(names, wanted, examples, dtypes, strict=True)})
    outputs = model.build(verbose)
    steps, used = model.graph.needed(outputs)

    def info(name: str, dtype: np.dtype, shape: Sequence[Any] | None) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype),
                                             None if shape is None else list(shape))
    tensors = {**{k: v.asnumpy() for k, v in values.items() if k in used},
               **{k: v for k, v in model.graph.tensors.items() if k in used}}
    graph = helper.make_graph(
        [helper.make_node(op_type, inputs, results, name=results[0], **attrs)
         for op_type, inputs, results, attrs in steps],
        sym.name or "mxjax", [info(*item) for item in zip(names, dtypes, wanted, strict=True)],
        [info(name, model.dtypes[id(n), i], model.shapes[id(n), i])
         for name, (n, i) in zip(outputs, model.sym.handle, strict=True)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
         for name, array in tensors.items()])
    proto = helper.make_model(graph, producer_name="mxjax", opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION)
    if run_shape_inference:
        proto = onnx.shape_inference.infer_shapes(proto)
    if large_model:
        _move_parameters(onnx, proto.graph.initializer, os.path.dirname(onnx_file_path))
    else:
        onnx.checker.check_model(proto)
    write_file(onnx_file_path, proto.SerializeToString())
    if large_model:
        onnx.checker.check_model(onnx_file_path)  # a path, since the checker serializes a model
    return onnx_file_path


def _move_parameters(onnx: Any, tensors: Any, folder: str) -> None:
    """Writes the values of tensors into files of their names, which the tensors refer to from then on."""
    for tensor in tensors:
        name = tensor.name.replace(os.sep, "_")
        write_file(os.path.join(folder, name), tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, name)
        tensor.ClearField("raw_data")
