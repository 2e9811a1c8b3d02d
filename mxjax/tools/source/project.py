"""A model as a folder with its source and its weights, and the check that it computes what mxjax computes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np

from ..._support.files import together, write_file
from ...array.safetensors_format import dumps
from ...base import MXNetError
from ...ndarray import array
from .._beside import measured, written
from .._model import Model
from .steps import read
from .structure import find
from .writer import Target, text, weights

__all__ = ["check", "target", "write"]

_PROBABILITIES = ("SoftmaxOutput", "SoftmaxActivation", "softmax", "LogisticRegressionOutput")

_RUN = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("model", sys.argv[1])
source = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)
vars().update(vars(source))
with np.load(sys.argv[2]) as given:
    sets = {}
    for name in given:
        sets.setdefault(name.split(".")[0], []).append(given[name])
model, results = COMPILED, {}
for number, values in sets.items():
    found = model(*[GIVEN for value in values])
    for i, value in enumerate(found if isinstance(found, tuple) else (found,)):
        results[f"{number}.{i}"] = np.asarray(value.detach() if hasattr(value, "detach") else value)
np.savez(sys.argv[3], **results)
"""


def target(name: str) -> Target:
    """The target of this name: "pytorch" or "flax"."""
    module = {"pytorch": "torch_emitter", "flax": "flax_emitter"}[name]
    return importlib.import_module(f".{module}", __package__).TARGET


def write(model: Model, prefix: str, folder: str, to: Target) -> tuple[list[str], list[str]]:
    """Writes `model.py` and `model.safetensors` into a folder.

    Returns:
        Their paths, and the names of the inputs.

    Raises:
        MXNetError: operators have no counterpart; nothing is written.
        OSError: the system refuses.
    """
    inputs, steps, outputs = read(model, to.table, to.turn)
    blocks = find(inputs, steps, outputs)
    source, classes = text(blocks, inputs, os.path.basename(prefix), to)
    tensors = dict(weights(classes, blocks[-1], blocks[-1].bodies[0]))
    source = _head(model, prefix, inputs, blocks[-1].name) + "\n\n".join(
        [to.head(source) + "\n", source + "\n", to.foot.replace("{name}", blocks[-1].name) + "\n"])
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, name) for name in ("model.safetensors", "model.py")]
    packed = dumps([array(v, dtype=v.dtype) for v in tensors.values()], list(tensors), paths[0])
    with together():
        for path, content in zip(paths, (packed, source), strict=True):
            write_file(path, content)
    return paths, inputs


def _head(model: Model, prefix: str, inputs: list[str], name: str) -> str:
    lines = [f'"""{name}: the MXNet model {_said(os.path.basename(prefix))}, for prediction.', ""]
    for i, input_name in enumerate(inputs):
        lines.append(f"{'Inputs:' if i == 0 else '       '} {_said(input_name)}, {model.dtypes[input_name].name}, "
                     f"for example of the shape {model.shapes[input_name]}.")
    for i, (output, shape) in enumerate(zip(model.symbol.list_outputs(), model.output_shapes, strict=True)):
        op = model.symbol.handle[i][0].op
        what = "probabilities, " if op is not None and op.name in _PROBABILITIES else ""
        lines.append(f"{'Outputs:' if i == 0 else '        '} {_said(output)}, {what}then {tuple(shape)}.")
    count = len(model.output_shapes)
    results = ", ".join(f"output{i}" for i in range(count)) if count < 9 else "outputs"
    lines += ["", "    from model import load", "    model = load()  # with the weights of model.safetensors",
              f"    {results} = model({', '.join(_plain(i) for i in inputs)})", '"""', "", ""]
    return "\n".join(lines)


def _said(name: str) -> str:
    """Returns a name for a docstring: a file's names may be any text, and the written source will be run."""
    return "".join(c if c.isalnum() or c in " _-.:/[]()" else "_" for c in name)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


# ------------------------------------------------------------ the check
def check(model: Model, folder: str, inputs: list[str], to: Target, batch: str = "") -> tuple[str, bool]:
    """Runs the written source beside mxjax on random inputs.

    Args:
        model: the checkpoint.
        folder: of the source.
        inputs: their names, in the source's order.
        to: its library.
        batch: as for `written`.

    Returns:
        The text to print, and whether all is well.

    Raises:
        MXNetError: the source fails.
    """
    if importlib.util.find_spec(to.package) is None:
        return (f"not checked: {to.package} is not installed here (pip install 'mxjax[{to.extra_name}]')", True)
    return written(model, batch, lambda is_open: measured(
        model, lambda sets: _run(folder, [[values[n] for n in inputs] for values in sets], to), "the written source",
        is_open))


def _run(folder: str, sets: list[list[np.ndarray]], to: Target) -> list[list[np.ndarray]]:
    with tempfile.TemporaryDirectory() as place:
        arguments, result = os.path.join(place, "given.npz"), os.path.join(place, "found.npz")
        np.savez(arguments, allow_pickle=True,
                 **{f"{i}.{j}": value for i, values in enumerate(sets) for j, value in enumerate(values)})
        quickly = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # each program runs once
        done = subprocess.run([sys.executable, "-c", _RUN.replace("GIVEN", to.given).replace("COMPILED", to.compiled),
                               os.path.join(folder, "model.py"), arguments, result],
                              capture_output=True, text=True, env=quickly)
        if done.returncode:
            raise MXNetError(f"the generated source fails: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        with np.load(result) as arrays:
            return [[arrays[name] for name in arrays if name.startswith(f"{i}.")] for i in range(len(sets))]
