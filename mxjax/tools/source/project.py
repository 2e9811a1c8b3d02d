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
from ...graph.node import topological
from ...ndarray import array
from .._model import Model
from .steps import read
from .structure import find
from .writer import Target, text, weights

__all__ = ["check", "compared", "random_inputs", "target", "write"]

_AGREES = 1e-3  # largest difference, relative to the largest value, that rounding explains
_PROBABILITIES = ("SoftmaxOutput", "SoftmaxActivation", "softmax", "LogisticRegressionOutput")

_RUN = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("model", sys.argv[1])
source = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)
vars().update(vars(source))
with np.load(sys.argv[2]) as given:
    values = [given[str(i)] for i in range(len(given))]
model = load()
found = model(*[GIVEN for value in values])
found = found if isinstance(found, tuple) else (found,)
np.savez(sys.argv[3], *[np.asarray(value.detach() if hasattr(value, "detach") else value) for value in found])
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
    for i, given in enumerate(inputs):
        lines.append(f"{'Inputs:' if i == 0 else '       '} {_said(given)}, {model.dtypes[given].name}, for example of "
                     f"the shape {model.shapes[given]}.")
    for i, (output, shape) in enumerate(zip(model.symbol.list_outputs(), model.output_shapes, strict=True)):
        kind = model.symbol._outputs[i][0].op
        what = "probabilities, " if kind is not None and kind.name in _PROBABILITIES else ""
        lines.append(f"{'Outputs:' if i == 0 else '        '} {_said(output)}, {what}then {tuple(shape)}.")
    count = len(model.output_shapes)
    results = ", ".join(f"output{i}" for i in range(count)) if count < 9 else "outputs"
    lines += ["", "    from model import load", "    model = load()  # with the weights of model.safetensors",
              f"    {results} = model({', '.join(_plain(i) for i in inputs)})", '"""', "", ""]
    return "\n".join(lines)


def _said(name: str) -> str:
    """A name within a docstring: a file's names may be anything, and what is written will be run."""
    return "".join(c if c.isalnum() or c in " _-.:/[]()" else "_" for c in name)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


# ------------------------------------------------------------ the check
def check(model: Model, folder: str, inputs: list[str], to: Target) -> tuple[str, bool]:
    """(what to print, whether all is well) of the written source beside mxjax on random inputs of these names."""
    if importlib.util.find_spec(to.package) is None:
        return (f"not checked: {to.package} is not installed here (pip install 'mxjax[{to.extra_name}]')", True)
    values = random_inputs(model)
    program, _ = model.function()
    wanted = [np.asarray(value) for value in program(*[values[n] for n in model.shapes])]
    with tempfile.TemporaryDirectory() as place:
        given, found = os.path.join(place, "given.npz"), os.path.join(place, "found.npz")
        np.savez(given, **{str(i): values[n] for i, n in enumerate(inputs)})
        done = subprocess.run([sys.executable, "-c", _RUN.replace("GIVEN", to.given),
                               os.path.join(folder, "model.py"), given, found], capture_output=True, text=True)
        if done.returncode:
            raise MXNetError(f"the written source fails: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        with np.load(found) as arrays:
            results = [arrays[name] for name in arrays]
    return compared(wanted, results, "the written source")


def compared(wanted: list[np.ndarray], results: list[np.ndarray], what: str) -> tuple[str, bool]:
    """(what to print, whether all is well) of what mxjax computes and what something else does."""
    worst, size = 0.0, 0.0
    for ours, theirs in zip(wanted, results, strict=True):
        if ours.shape != theirs.shape:
            return f"{what} gives the shape {theirs.shape}, mxjax {ours.shape}", False
        if ours.size:
            ours, theirs = ours.astype("float64"), theirs.astype("float64")
            with np.errstate(invalid="ignore"):
                same = (ours == theirs) | np.isnan(ours) & np.isnan(theirs)
                worst = float(np.maximum(worst, np.where(same, 0, np.abs(ours - theirs)).max()))  # NaN stays
            size = max(size, float(np.abs(ours[np.isfinite(ours)]).max(initial=0)))
    good = worst <= _AGREES * max(size, 1e-30)
    return (f"largest difference to mxjax {worst:.2g}, of values up to {size:.3g}"
            f"{'' if good else ': they do not agree'}", good)


def random_inputs(model: Model) -> dict[str, np.ndarray]:
    """Random inputs: places in a table where they look something up, else numbers."""
    rng, counts = np.random.default_rng(0), {}
    for node in topological(model.symbol._outputs):
        if node.op is not None and node.op.name in ("Embedding", "one_hot", "take"):
            source = node.inputs[1 if node.op.name == "take" else 0][0]
            while source.op is not None and source.inputs:
                source = source.inputs[0][0]
            count = node.params.get("input_dim") or node.params.get("depth")
            if count:
                counts[source.name] = min(count, counts.get(source.name, count))
    return {name: (rng.integers(0, counts.get(name, 2), shape) if name in counts or dtype.kind in "iub" else
                   rng.standard_normal(shape)).astype(dtype) for name, (shape, dtype) in
            ((n, (model.shapes[n], model.dtypes[n])) for n in model.shapes)}
