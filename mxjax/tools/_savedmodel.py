"""TensorFlow's SavedModel: the program through `jax.experimental.jax2tf`, its parameters as variables."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from types import ModuleType
from typing import Any

import numpy as np

from ..base import MXNetError
from ..interop import JaxFunction
from ._beside import Inputs, Run, each, measured, written
from ._model import Model

__all__ = ["write"]

_RAN = "tensorflow-cpu 2.21.0 with jax 0.10.2"  # versions with which this was run


def _libraries() -> tuple[ModuleType, ModuleType]:
    """(tensorflow, jax2tf); raises MXNetError where one of them is missing."""
    if importlib.util.find_spec("tensorflow") is None:
        raise MXNetError(f"--to savedmodel requires TensorFlow: pip install tensorflow-cpu (tested with {_RAN})")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow
        from jax.experimental import jax2tf
    except ImportError as error:
        raise MXNetError(f"--to savedmodel: incompatible version of TensorFlow or JAX: {error} (tested with {_RAN}); "
                         "--to onnx and --to stablehlo do not require TensorFlow") from None
    return tensorflow, jax2tf


def _names(names: list[str]) -> list[str]:
    """Names as a signature may have them, each once."""
    results: list[str] = []
    for name in names:
        name = re.sub(r"[^A-Za-z0-9_]", "_", name)
        name = name if name[:1].isalpha() else f"value_{name}"
        number = sum(n == name or n.startswith(f"{name}__") for n in results)
        results.append(f"{name}__{number}" if number else name)
    return results


def _save(model: Model, folder: str, dynamic: bool, libraries: tuple[ModuleType, ModuleType]) -> None:
    import jax
    tf, jax2tf = libraries
    graph, outputs = JaxFunction(model.symbol), _names(model.symbol.list_outputs())

    def program(args: dict[str, Any], aux: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        rest = model.unfed(inputs[0].shape[0]) if inputs and inputs[0].ndim else model.rest
        values = {**rest, **args, **dict(zip(model.shapes, inputs, strict=True))}
        return dict(zip(outputs, graph(values, aux, jax.random.key(0))[0], strict=True))
    module = tf.Module()
    module.args = {n: tf.Variable(v.asnumpy()) for n, v in model.args.items()}
    module.aux = {n: tf.Variable(v.asnumpy()) for n, v in model.aux.items()}
    sizes = list(model.shapes.values())
    shapes = [f"(batch, {', '.join(map(str, s[1:]))})" for s in sizes] if dynamic else [None] * len(sizes)
    converted = jax2tf.convert(program, polymorphic_shapes=[None, None, *shapes], with_gradient=False)
    module.predict = tf.function(
        lambda *inputs: converted(module.args, module.aux, *inputs), autograph=False,
        input_signature=[tf.TensorSpec([None, *s[1:]] if dynamic else s, model.dtypes[n], name) for (n, s), name in zip(
            model.shapes.items(), _names(list(model.shapes)), strict=True)])
    tf.saved_model.save(module, folder, signatures={"serving_default": module.predict})


def _runner(model: Model, folder: str, tf: ModuleType) -> Run:
    run = tf.saved_model.load(folder).signatures["serving_default"]
    names, outputs = _names(list(model.shapes)), _names(model.symbol.list_outputs())

    def call(values: Inputs) -> list[np.ndarray]:
        result = run(**{name: tf.constant(values[n]) for n, name in zip(model.shapes, names, strict=True)})
        return [result[name].numpy() for name in outputs]
    return each(call)


def write(model: Model, folder: str, batch: str) -> tuple[str, bool]:
    """Writes a folder that `tf.saved_model.load` and TensorFlow Serving read, and runs it beside mxjax.

    Args:
        model: the checkpoint.
        folder: where; a SavedModel that is there is replaced.
        batch: as for `written`.

    Returns:
        Text to print, and whether the outputs agree.

    Raises:
        MXNetError: TensorFlow is missing or cannot run the program, or the folder holds something else.
    """
    libraries = _libraries()
    if os.path.exists(folder) and not os.path.exists(os.path.join(folder, "saved_model.pb")):
        raise MXNetError(f"{folder} exists and is not a SavedModel")
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as place:
        written_to = os.path.join(place, "model")

        def save(is_open: bool) -> tuple[str, bool]:
            shutil.rmtree(written_to, ignore_errors=True)
            _save(model, written_to, is_open, libraries)
            return measured(model, _runner(model, written_to, libraries[0]), "the SavedModel", is_open)
        report = written(model, batch, save)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(written_to, folder)
    return report
