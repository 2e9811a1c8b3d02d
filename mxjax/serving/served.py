"""Saved models as functions of NumPy arrays, with their metadata for clients."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .._checkpoints import find_model, load_named_params
from ..base import MXNetError
from ..context import Context, cpu
from ..executor import CachedOp
from ..ndarray import NDArray, array, zeros
from ..ops.params import np_dtype
from ..symbol import load as load_symbol

__all__ = ["Served", "module_of", "versions_of"]


def versions_of(source: str) -> dict[str, str]:
    """Finds the versions of a model in the layout of Triton's model repositories: `MODEL/1/...`, `MODEL/2/...`.

    Args:
        source: a directory with numbered subdirectories, or any other form of a model.

    Returns:
        Sources by version, the newest last; a model without versions has the version "".

    Raises:
        MXNetError: a version's directory contains neither a graph nor a single `.py` file.

    Example:
        >>> versions_of("models/lenet")  # doctest: +SKIP
        {'1': 'models/lenet/1', '2': 'models/lenet/2'}
    """
    numbers = [n for n in os.listdir(source) if n.isdecimal()] if os.path.isdir(source) else []
    result = {n: _of_folder(os.path.join(source, n)) for n in sorted(numbers, key=int)}
    return result or {"": source}


def _of_folder(folder: str) -> str:
    files = [name for name in os.listdir(folder) if name.endswith(".py")] if os.path.isdir(folder) else []
    if len(files) > 1:
        raise MXNetError(f"the directory {folder} may contain only one .py file, it contains "
                         f"{', '.join(sorted(files))}")
    return os.path.join(folder, files[0]) if files else folder


class Served:
    """A model that answers requests: a graph with its parameters, and optional pre- and postprocessing.

    name: its name for clients; version: a number, or ""; input_names, output_names: names in order;
    shapes: known shapes of inputs, with -1 for any length; dtypes: dtypes of the inputs.

    Args:
        source: `PREFIX:EPOCH`, `PREFIX` (the newest epoch), a `-symbol.json` file (with the newest
            epoch in its directory), a directory with such a file, or a `.py` file with a class
            `Model`.
        name: by default the name of the file.
        ctx: context on which it runs.
        shapes: shapes of inputs by name with batch size 1, e.g. {"data": (1, 3, 224, 224)};
            required to compile before the first request.
        dtypes: dtypes of inputs by name; by default float32.
        version: version among several models of this name.
        shared: whether `shapes` and `dtypes` may name inputs of other models.

    The class `Model` of a `.py` file may define `preprocess(inputs)` and `postprocess(outputs)`,
    which map dictionaries of NumPy arrays to dictionaries of NumPy arrays. It must have either an
    attribute `source` (one of the forms above, relative to the file) or a method `predict(inputs)`.

    Raises:
        MXNetError: there is no such model, or it lacks a required part.

    Example:
        >>> model = mxjax.serving.Served("lenet:10", shapes={"data": (1, 1, 28, 28)})  # doctest: +SKIP
        >>> model.warm([1, 8, 32])  # doctest: +SKIP
        >>> model({"data": images})["softmax_output"].shape  # doctest: +SKIP
        (5, 10)
    """

    def __init__(self, source: str, name: str | None = None, ctx: Context | None = None,
                 shapes: Mapping[str, Sequence[int]] | None = None, dtypes: Mapping[str, Any] | None = None,
                 version: str = "", shared: bool = False) -> None:
        self._code: Any = None
        self._lock = threading.Lock()
        self._seen: set[tuple] = set()
        self.compiled = 0  # how many forms of inputs have been met, each of which is compiled once
        self._ctx, self.version = ctx or cpu(), version
        folder = ""
        self.name = name or os.path.basename(source.removesuffix(".py") if source.endswith(".py")
                                             else find_model(source)[0])
        if source.endswith(".py"):
            folder, self._code = os.path.dirname(source), _class_of(source)
            source = getattr(self._code, "source", "")
        own = getattr(self._code, "shapes", None) or {}
        self.shapes = {n: tuple(s) for n, s in {**own, **(shapes or {})}.items()}
        self.dtypes = {n: np_dtype(t) for n, t in {**(getattr(self._code, "dtypes", None) or {}),
                                                   **(dtypes or {})}.items()}
        self._graph: CachedOp | None = None
        if source:
            self._load(os.path.join(folder, source), shared)
        elif hasattr(self._code, "predict"):
            self.input_names = list(own if shared else self.shapes)
            self.output_names = list(getattr(self._code, "output_names", ()))
        else:
            raise MXNetError(f"{self.name}: its class Model has neither `source` nor `predict`")
        self.shapes = {n: s for n, s in self.shapes.items() if n in self.input_names}

    def _load(self, source: str, shared: bool) -> None:
        _, graph, path = find_model(source)
        if graph is None:
            raise MXNetError(f"there is no such model: {path} has only parameters")
        symbol = load_symbol(graph)
        try:
            params = load_named_params(path) if path else {}
        except OSError as error:
            raise MXNetError(f"there is no such model: {error}") from None
        free = [n for n in symbol.list_arguments() if n not in params]
        labels = [n for n in free if n.endswith("label") and n not in self.shapes and len(free) > 1]
        self.input_names = [n for n in free if n not in labels]
        unknown = [n for n in self.shapes if n not in self.input_names]
        if unknown and not shared:
            raise MXNetError(f"{self.name}: unknown input {', '.join(unknown)}; known: "
                             f"{', '.join(self.input_names)}")
        self.output_names = symbol.list_outputs()
        self._symbol, self._labels = symbol, labels
        self._graph = CachedOp(symbol)
        self._values = {n: v.as_in_context(self._ctx) for n, v in params.items()}
        self._order = symbol.list_inputs()

    # ------------------------------------------------------------ requests of clients
    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Returns name, dtype and shape of each input; -1 is any length, [-1] an unknown shape."""
        return [{"name": n, "dtype": self.dtypes.get(n, np.dtype("float32")),
                 "shape": [-1, *self.shapes[n][1:]] if n in self.shapes else [-1]} for n in self.input_names]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Returns name, dtype and shape of each output."""
        shapes: Sequence[Any] = [None] * len(self.output_names)
        if self._graph is not None and self.shapes:
            known = {n: v.shape for n, v in self._values.items()}
            shapes = self._symbol.infer_shape_partial(**known, **self.shapes)[1]
        return [{"name": n, "dtype": np.dtype("float32"),
                 "shape": [-1, *s[1:]] if s and 0 not in s else [-1]} for n, s in zip(self.output_names, shapes,
                                                                                      strict=True)]

    def checked(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Checks the inputs and converts them to the model's dtypes.

        Raises:
            ValueError: an input is missing or unknown, or its shape or dtype does not fit.
        """
        names = self.input_names
        missing, unknown = [n for n in names if n not in inputs], [n for n in inputs if names and n not in names]
        if missing or unknown:
            raise ValueError(f"model {self.name} expects the inputs {', '.join(names)}, got "
                             f"{', '.join(inputs) or 'none'}")
        arrays = {}
        for name, value in inputs.items():
            shape, dtype = self.shapes.get(name), self.dtypes.get(name, np.dtype("float32"))
            if shape is not None and (value.ndim != len(shape) or any(
                    own != length for own, length in zip(shape[1:], value.shape[1:], strict=True))):
                raise ValueError(f"input {name} of model {self.name} must have shape {[-1, *shape[1:]]}, got "
                                 f"{list(value.shape)}")
            if value.dtype.kind not in "biuf":
                raise ValueError(f"input {name} of model {self.name} must have a numeric dtype, got {value.dtype}")
            arrays[name] = np.ascontiguousarray(value, dtype)
        return arrays

    # ------------------------------------------------------------ running
    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the model on a batch.

        Args:
            inputs: arrays by name.

        Returns:
            Arrays by name.
        """
        values = dict(inputs)
        if hasattr(self._code, "preprocess"):
            values = self._code.preprocess(values)
        outputs = self._code.predict(values) if self._graph is None else self._computed(self._graph, values)
        return self._code.postprocess(outputs) if hasattr(self._code, "postprocess") else outputs

    def _computed(self, graph: Callable[..., Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with self._lock:
            form = tuple((n, inputs[n].shape) for n in self.input_names)
            if form not in self._seen:
                if len(self._seen) >= 1024:  # clients choose the forms: a bound
                    self._seen.clear()
                self._seen.add(form)
                self.compiled += 1
            rows = next(iter(inputs.values())).shape[0]
            values = {**self._values, **{n: self._at(n, inputs[n]) for n in self.input_names},
                      **{n: zeros((rows,), self._ctx) for n in self._labels}}
            results = graph(*[values[n] for n in self._order])
            results = results if isinstance(results, list) else [results]
            return dict(zip(self.output_names, [r.asnumpy() for r in results], strict=True))

    def _at(self, name: str, value: np.ndarray) -> NDArray:
        return array(value, self._ctx, self.dtypes.get(name, "float32"))

    def warm(self, sizes: Sequence[int]) -> None:
        """Compiles the model for these batch sizes by running it on zeros.

        Raises:
            MXNetError: the shapes of the inputs are unknown.
        """
        lacking = [n for n in self.input_names if n not in self.shapes]
        if lacking:
            raise MXNetError(f"{self.name}: to compile before the first request, the shape of {', '.join(lacking)} "
                             f"must be known: --shape {lacking[0]}=1,...")
        for size in sizes:
            self({n: np.zeros((size, *self.shapes[n][1:]), self.dtypes.get(n, np.float32)) for n in self.input_names})


def module_of(path: str) -> ModuleType:
    """Runs a Python file and returns its module.

    Raises:
        MXNetError: there is no such file, or it is not a Python file.
    """
    spec = importlib.util.spec_from_file_location(f"mxjax_served_{re.sub(r'[^a-zA-Z0-9]', '_', path)}", path)
    if spec is None or not isinstance(spec.loader, importlib.abc.SourceLoader):
        raise MXNetError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        # not by Python's compiled files: they are taken for new where a file changes twice within a second
        exec(spec.loader.source_to_code(spec.loader.get_data(path), path), vars(module))
    except FileNotFoundError as error:
        raise MXNetError(f"there is no such model: {error}") from None
    return module


def _class_of(path: str) -> Any:
    """An instance of the class `Model` in a file."""
    module = module_of(path)
    if not hasattr(module, "Model"):
        raise MXNetError(f"{path} has no class Model")
    return module.Model()
