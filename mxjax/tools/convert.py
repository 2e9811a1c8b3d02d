"""`python -m mxjax convert MODEL --to onnx --shape data=1,3,224,224`: a checkpoint in another format.

onnx: an ONNX file. stablehlo: the program as portable StableHLO bytecode, for runtimes of OpenXLA. jax: the program as
`jax.export` writes it; `jax.export.deserialize(content).call(inputs)` runs it. npz, safetensors: the parameters alone,
which `mx.nd.load` reads too. In the programs the parameters are constants; they compute in inference mode. pytorch,
flax: a folder with readable source (`model.py`: a class for each kind of block) and its weights (`model.safetensors`).
savedmodel: a folder for TensorFlow, with its parameters as variables.

The first axis of the inputs may have any length where the network allows that. The result is run beside mxjax where its
library (for stablehlo IREE, else XLA) is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .._support.files import replacing, write_file
from ..array.safetensors_format import dumps
from ..base import MXNetError
from ..ndarray import load
from . import _model
from ._beside import Inputs, Run, each, measured, written

__all__ = ["add_arguments", "main"]


def _onnx(model: _model.Model, path: str, is_open: bool) -> tuple[Run | None, str]:
    from ..onnx import export_model  # needs the extra "onnx"
    order = [n for n in model.symbol.list_inputs() if n in model.shapes]
    shapes = [model.shapes[n] for n in order]
    wanted = [("batch", *s[1:]) for s in shapes] if is_open else None
    export_model(model.symbol, model.params, shapes, [model.dtypes[n] for n in order], path, dynamic=is_open,
                 dynamic_input_shapes=wanted)
    if importlib.util.find_spec("onnxruntime") is None:
        return None, "onnxruntime"
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return each(lambda values: session.run(None, values)), "onnxruntime"


def _exported(model: _model.Model, is_open: bool) -> Any:
    import jax
    import jax.export
    program, specs = model.function()
    if is_open:
        batch = jax.export.symbolic_shape("batch")
        specs = [jax.ShapeDtypeStruct((*batch, *s.shape[1:]), s.dtype) for s in specs]
    try:
        return jax.export.export(jax.jit(program))(*specs)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise MXNetError(f"the graph cannot be exported: {str(error).splitlines()[0]}") from None


def _stablehlo(model: _model.Model, path: str, is_open: bool) -> tuple[Run | None, str]:
    exported = _exported(model, is_open)
    write_file(path, exported.mlir_module_serialized)
    if is_open or importlib.util.find_spec("iree") is None:  # IREE takes programs of known shapes
        return each(lambda values: exported.call(*[values[n] for n in model.shapes])), "XLA"
    compiler, runtime = map(importlib.import_module, ("iree.compiler", "iree.runtime"))
    code = compiler.compile_str(exported.mlir_module_serialized, input_type="stablehlo", target_backends=["llvm-cpu"],
                                extra_args=["--iree-llvmcpu-target-cpu=host"])
    config = runtime.Config("local-task")
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)

    def run(values: Inputs) -> list:
        result = module.main(*[values[n] for n in model.shapes])
        return list(result) if isinstance(result, list | tuple) else [result]
    return each(run), "IREE"


def _jax(model: _model.Model, path: str, is_open: bool) -> tuple[Run | None, str]:
    import jax.export
    try:
        content = _exported(model, is_open).serialize()
    except ImportError:
        raise MXNetError("--to jax requires flatbuffers: pip install 'mxjax[export]'") from None
    write_file(path, content)
    program = jax.export.deserialize(bytearray(content))
    return each(lambda values: program.call(*[values[n] for n in model.shapes])), "XLA"


def npz(model: _model.Model, path: str) -> dict[str, np.ndarray]:
    """Writes the parameters as a file of NumPy arrays; returns those that the file contains."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=True, **{name: value.asnumpy() for name, value in model.params.items()})
    with np.load(path) as arrays:
        return dict(arrays)


def _safetensors(model: _model.Model, path: str) -> dict[str, np.ndarray]:
    write_file(path, dumps(list(model.params.values()), list(model.params), path))
    return {name: value.asnumpy() for name, value in load(path).items()}


_PROGRAMS: dict[str, tuple[Callable[[_model.Model, str, bool], tuple[Run | None, str]], str]] = {
    "onnx": (_onnx, ".onnx"), "stablehlo": (_stablehlo, ".mlirbc"), "jax": (_jax, ".jax")}
_ARRAYS: dict[str, tuple[Callable[[_model.Model, str], dict[str, np.ndarray]], str]] = {
    "npz": (npz, ".npz"), "safetensors": (_safetensors, ".safetensors")}
_SOURCES = ("pytorch", "flax")  # a folder of files
_SAVED_MODEL = "savedmodel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    _model.add_arguments(parser)
    parser.add_argument("--to", required=True, choices=[*_PROGRAMS, *_ARRAYS, *_SOURCES, _SAVED_MODEL],
                        help="the format")
    parser.add_argument("--output", metavar="PATH",
                        help="the output file or folder; default: PREFIX with the suffix of the format")
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument("--dynamic-batch", action="store_const", dest="batch", const="open", default="",
                       help="fail unless the first axis of the inputs can have any size")
    batch.add_argument("--fixed-batch", action="store_const", dest="batch", const="fixed",
                       help="fix the first axis to the size in --shape")


def _source(args: argparse.Namespace) -> int:
    from .source import project  # for these two alone
    target, model = project.target(args.to), _model.Model(args)
    folder = args.output or f"{model.prefix}-{args.to}"
    paths, inputs = project.write(model, model.prefix, folder, target)
    for path in paths:
        print(f"{path}: {os.path.getsize(path) / 1e6:.3f} MB")
    report, good = project.check(model, folder, inputs, target, args.batch)
    print(report)
    return 0 if good else 1


def _saved_model(args: argparse.Namespace) -> int:
    from . import _savedmodel  # TensorFlow is optional
    model = _model.Model(args)
    folder = args.output or f"{model.prefix}-savedmodel"
    report, good = _savedmodel.write(model, folder, args.batch)
    print(f"{folder}: {report}")
    return 0 if good else 1


def _arrays(args: argparse.Namespace) -> int:
    write, ending = _ARRAYS[args.to]
    model = _model.Model(args, runs=False)
    path = args.output or model.prefix + ending
    result = write(model, path)
    same = sum(name in result and np.array_equal(value.asnumpy(), result[name]) for name, value in model.params.items())
    print(f"{path}: {os.path.getsize(path) / 1e6:.2f} MB; {same} of {len(model.params)} arrays are read back unchanged")
    return 0 if same == len(model.params) else 1


def _program(args: argparse.Namespace) -> int:
    write, ending = _PROGRAMS[args.to]
    model = _model.Model(args)
    path = args.output or model.prefix + ending

    def convert(is_open: bool) -> tuple[str, bool]:
        run, runtime = write(model, path, is_open)
        if run is None:
            return f"not checked: {runtime} is not installed here", True
        report, good = measured(model, run, runtime, is_open)
        return f"{runtime}: {report}", good
    report, good = written(model, args.batch, convert)
    print(f"{path}: {os.path.getsize(path) / 1e6:.2f} MB")
    print(report)
    return 0 if good else 1


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    run = _source if args.to in _SOURCES else _saved_model if args.to == _SAVED_MODEL else \
        _arrays if args.to in _ARRAYS else _program
    return run(args)
