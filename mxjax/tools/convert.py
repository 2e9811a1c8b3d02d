"""`python -m mxjax convert MODEL --to onnx --shape data=1,3,224,224`: a checkpoint in another format.

onnx: an ONNX file (with --dynamic-batch for any batch). stablehlo: the program as portable StableHLO bytecode, for
runtimes of OpenXLA. jax: the program as `jax.export` writes it; `jax.export.deserialize(content).call(inputs)` runs it.
npz, safetensors: the parameters alone, which `mx.nd.load` reads too. In the programs the parameters are constants; they
compute in inference mode. pytorch, flax: a folder with readable source (`model.py`: a class for each kind of block) and
its weights (`model.safetensors`), checked against mxjax where the library is installed. savedmodel: a folder for
TensorFlow, with its parameters as variables, checked too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import numpy as np

from .._support.files import replacing, write_file
from ..array.safetensors_format import dumps
from ..base import MXNetError
from . import _model

__all__ = ["add_arguments", "main"]


def _onnx(model: _model.Model, path: str, dynamic: bool) -> None:
    from ..onnx import export_model  # needs the extra "onnx"
    order = [n for n in model.symbol.list_inputs() if n in model.shapes]
    shapes = [model.shapes[n] for n in order]
    wanted = [("batch", *s[1:]) for s in shapes] if dynamic else None
    export_model(model.symbol, model.params, shapes, [model.dtypes[n] for n in order], path, dynamic=dynamic,
                 dynamic_input_shapes=wanted)


def _exported(model: _model.Model, dynamic: bool) -> object:
    import jax
    import jax.export
    program, specs = model.function()
    if dynamic:
        batch = jax.export.symbolic_shape("batch")
        specs = [jax.ShapeDtypeStruct((*batch, *s.shape[1:]), s.dtype) for s in specs]
    try:
        return jax.export.export(jax.jit(program))(*specs)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise MXNetError(f"the graph cannot be exported: {str(error).splitlines()[0]}") from None


def _stablehlo(model: _model.Model, path: str, dynamic: bool) -> None:
    write_file(path, _exported(model, dynamic).mlir_module_serialized)


def _jax(model: _model.Model, path: str, dynamic: bool) -> None:
    try:
        content = _exported(model, dynamic).serialize()
    except ImportError:
        raise MXNetError("--to jax needs flatbuffers: pip install 'mxjax[export]'") from None
    write_file(path, content)


def _npz(model: _model.Model, path: str, dynamic: bool) -> None:
    with replacing(path) as file:
        np.savez(file, **{name: value.asnumpy() for name, value in model.params.items()})


def _safetensors(model: _model.Model, path: str, dynamic: bool) -> None:
    write_file(path, dumps(list(model.params.values()), list(model.params), path))


_FORMATS: dict[str, tuple[Callable[[_model.Model, str, bool], None], str]] = {
    "onnx": (_onnx, ".onnx"), "stablehlo": (_stablehlo, ".mlirbc"), "jax": (_jax, ".jax"), "npz": (_npz, ".npz"),
    "safetensors": (_safetensors, ".safetensors")}

_SOURCES = ("pytorch", "flax")  # a folder of files
_SAVED_MODEL = "savedmodel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    _model.add_arguments(parser)
    parser.add_argument("--to", required=True, choices=[*_FORMATS, *_SOURCES, _SAVED_MODEL], help="the format")
    parser.add_argument("--output", metavar="PATH",
                        help="the file or folder; PREFIX with the format's ending where not given")
    parser.add_argument("--dynamic-batch", action="store_true", help="the first axis of the inputs may have any length")


def _source(given: argparse.Namespace) -> int:
    from .source import project  # for these two alone
    target, model = project.target(given.to), _model.Model(given)
    folder = given.output or f"{model.prefix}-{given.to}"
    paths, inputs = project.write(model, model.prefix, folder, target)
    for path in paths:
        print(f"{path}: {os.path.getsize(path) / 1e6:.3f} MB")
    told, good = project.check(model, folder, inputs, target)
    print(told)
    return 0 if good else 1


def _saved_model(given: argparse.Namespace) -> int:
    from . import _savedmodel  # TensorFlow is optional
    model = _model.Model(given)
    folder = given.output or f"{model.prefix}-savedmodel"
    told, good = _savedmodel.write(model, folder, given.dynamic_batch)
    print(f"{folder}: {told}")
    return 0 if good else 1


def main(given: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    if given.to in _SOURCES:
        return _source(given)
    if given.to == _SAVED_MODEL:
        return _saved_model(given)
    write, ending = _FORMATS[given.to]
    model = _model.Model(given, runs=write not in (_npz, _safetensors))
    path = given.output or model.prefix + ending
    write(model, path, given.dynamic_batch)
    print(f"{path}: {os.path.getsize(path) / 1e6:.2f} MB")
    return 0
