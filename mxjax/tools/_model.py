"""Shared parts of the commands on saved models: their arguments, and the model as a JAX function."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checkpoints import find_model, load_named_params
from ..base import MXNetError
from ..interop import JaxFunction, install_mxnet_alias
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..symbol import Symbol, load

__all__ = ["Model", "add_arguments", "graph_of", "import_code", "pairs"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares MODEL, EPOCH and the inputs' shapes and dtypes."""
    parser.add_argument("model", metavar="MODEL", help="PREFIX of PREFIX-symbol.json and PREFIX-EPOCH.params, the "
                                                       "first file, a folder with such files, or a parameter file")
    parser.add_argument("epoch", metavar="EPOCH", type=int, nargs="?", help="epoch number; default: the newest")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=N,N,...",
                        help="shape of an input, e.g. data=1,3,224,224; repeat for each input")
    parser.add_argument("--dtype", action="append", default=[], metavar="NAME=DTYPE",
                        help="dtype of an input; default: float32")


def import_code(texts: list[str]) -> None:
    """Imports the modules of `--import`, such as custom operators; `import mxnet` imports mxjax there.

    Args:
        texts: names of modules, or files of Python.

    Raises:
        MXNetError: there is no such module, or it raises.
    """
    if not texts:
        return
    install_mxnet_alias()
    sys.path.insert(0, os.getcwd())
    for text in texts:
        try:
            if text.endswith(".py"):
                name = os.path.splitext(os.path.basename(text))[0]
                spec = importlib.util.spec_from_file_location(name, text)
                if spec is None or spec.loader is None:
                    raise ImportError("Python has no loader for it")
                sys.modules[name] = module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            else:
                importlib.import_module(text)
        except Exception as error:
            raise MXNetError(f"--import {text}: {type(error).__name__}: {error}") from error


def pairs(option: str, texts: list[str]) -> dict[str, str]:
    """NAME=VALUE texts of an option as a dictionary."""
    for text in texts:
        if "=" not in text:
            raise MXNetError(f"{option} must be NAME=VALUE, got {text!r}")
    return dict(text.split("=", 1) for text in texts)


def graph_of(source: str) -> str:
    """Returns the path of a model's graph.

    Raises:
        MXNetError: there is none.
    """
    prefix, graph, params = find_model(source)
    if graph is None:
        raise MXNetError(f"{params} contains only parameters; this command requires the graph, a file "
                         f"{prefix}-symbol.json")
    return graph


class Model:
    """A checkpoint with its inputs' shapes.

    runs: whether the graph will be run, for which the inputs' shapes are needed; prefix: beginning of the files' names;
    shapes, dtypes: of the inputs, labels of loss outputs left out; sizes: shapes of all variables and outputs. Without
    a file of parameters all arguments are inputs.

    Raises:
        MXNetError: a file is missing, or the shapes are not enough.
    """

    def __init__(self, options: argparse.Namespace, runs: bool = True) -> None:
        try:
            shapes = {name: tuple(int(n) for n in text.split(",")) for name, text in pairs("--shape",
                                                                                           options.shape).items()}
        except ValueError as error:
            raise MXNetError(f"--shape: {error}") from None
        self.prefix, graph, params = find_model(options.model, options.epoch)
        if runs:
            graph_of(options.model)
        self._symbol = symbol = load(graph) if graph else None
        if symbol is not None and params and not os.path.exists(params) \
                and set(symbol.list_inputs()) == set(shapes):
            params = None  # a graph without parameters, named with an epoch
        try:
            values = load_named_params(params) if params else {}
        except OSError as error:
            raise MXNetError(f"there is no such model: {error}") from None
        states = set(symbol.list_auxiliary_states()) if symbol is not None else set()
        self.args = {n: v for n, v in values.items() if n not in states}
        self.aux = {n: v for n, v in values.items() if n in states}
        if not runs:
            return
        free = [n for n in self.symbol.list_arguments() if n not in self.args]
        unknown = set(shapes) - set(free)
        if unknown:
            raise MXNetError(f"--shape: unknown input {', '.join(sorted(unknown))}; the inputs are {', '.join(free)}")
        types = pairs("--dtype", options.dtype)
        known = {n: v.shape for n, v in {**self.args, **self.aux}.items()}
        args, outs, aux = self.symbol.infer_shape_partial(**known, **shapes)
        sizes = dict(zip(self.symbol.list_arguments(), args, strict=True))
        missing = [n for n in free if not sizes[n] or 0 in sizes[n]]
        if missing:
            raise MXNetError(f"the shape of {', '.join(missing)} is not known; pass --shape {missing[0]}=N,N,...")
        self.output_shapes = outs
        self.rest = {n: np.zeros(sizes[n], np_dtype(types.get(n, "float32"))) for n in free if n not in shapes}
        self.shapes = shapes or {n: sizes[n] for n in free}
        self.rest = {n: v for n, v in self.rest.items() if n not in self.shapes}
        self.dtypes = {n: np_dtype(types.get(n, "float32")) for n in self.shapes}

    @property
    def symbol(self) -> Symbol:
        """The graph; raises MXNetError where there are parameters alone."""
        if self._symbol is None:
            raise MXNetError(f"{self.prefix} contains only parameters; this command requires the graph, a file "
                             f"{self.prefix}-symbol.json")
        return self._symbol

    @property
    def params(self) -> dict[str, NDArray]:
        """All parameters and auxiliary states."""
        return {**self.args, **self.aux}

    def unfed(self, length: Any) -> dict[str, Any]:
        """Values for the labels of loss outputs and the like, for inputs whose first axis has this length."""
        import jax.numpy as jnp
        batch = next(iter(self.shapes.values()), ())[:1]
        return {n: jnp.zeros((length, *v.shape[1:]), v.dtype) if v.shape[:1] == batch else v
                for n, v in self.rest.items()}

    def function(self) -> tuple[Callable[..., list], list[Any]]:
        """(function of the inputs in the order of `shapes`, their ShapeDtypeStructs)."""
        import jax
        graph = JaxFunction(self.symbol)
        fixed = {n: v.to_jax() for n, v in self.args.items()}
        aux = {n: v.to_jax() for n, v in self.aux.items()}

        def program(*inputs: Any) -> list:
            rest = self.unfed(inputs[0].shape[0]) if inputs and inputs[0].ndim else self.rest
            return graph({**fixed, **rest, **dict(zip(self.shapes, inputs, strict=True))}, aux, jax.random.key(0))[0]
        return program, [jax.ShapeDtypeStruct(s, self.dtypes[n]) for n, s in self.shapes.items()]


