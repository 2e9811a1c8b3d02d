"""The commands on models, and exporters, at level 2: on what this level exports."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon, np, npx
from mxjax.__main__ import main

nn = gluon.nn


class Block(gluon.HybridBlock):
    """A function as `forward`."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def logic(x):
    inside = np.logical_and(x > 0, x < 2)
    return np.where(inside, x, 0.0) + np.any(inside, axis=1, keepdims=True) + np.all(inside) + np.argmax(x, axis=1,
                                                                                                        keepdims=True)


def shapes(x):
    rolled = np.roll(x, 1, axis=1)
    product = np.tensordot(x, rolled, axes=([1], [1]))
    return np.tril(product) + np.triu(np.einsum("ij,kj->ik", x, rolled), 1) + np.diff(x, axis=1) + np.vstack(
        [x, rolled]).mean() + np.moveaxis(x, 0, -1).max() + np.tile(x, (1, 2)).sum() + np.full_like(product, 2.0)


def numbers(x):
    y = np.square(x) + np.log1p(np.abs(x)) - np.expm1(x / 10)
    y = y / np.std(x, axis=-1, keepdims=True) + np.var(x, axis=0, ddof=1)
    return np.mod(np.where(y > 1, y, np.floor(y) / 2), 3) + np.prod(x, axis=1, keepdims=True) + np.linalg.norm(
        x, axis=1, keepdims=True) + np.arange(4) + x[:, -1:]


def layers():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=2, padding=1), nn.GroupNorm(2, in_channels=4), nn.LeakyReLU(0.1),
            nn.BatchNorm(in_channels=4), nn.GlobalAvgPool2D(), nn.Dense(3, in_units=4))
    return net


def attention():
    class Attention(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.keys = nn.Dense(4, flatten=False, in_units=6)
            self.norm, self.rnn = nn.LayerNorm(in_channels=4), gluon.rnn.GRU(3, layout="NTC", input_size=4)

        def forward(self, x):
            k = self.keys(x)
            weights = npx.softmax(np.matmul(k, np.swapaxes(k, 1, 2)) / 2)
            y = self.rnn(self.norm(np.matmul(weights, k)))
            return np.concatenate([y, y[:, ::-1]], axis=1)[:, -1]
    return Attention()


MODELS = {"logic": (lambda: Block(logic), (3, 4)), "shapes": (lambda: Block(shapes), (3, 4)),
          "numbers": (lambda: Block(numbers), (3, 4)), "layers": (layers, (2, 2, 6, 6)),
          "attention": (attention, (2, 5, 6))}


def exported(name, folder):
    """(prefix of the files, input, output) of a model."""
    make, shape = MODELS[name]
    block, x = make(), onp.random.RandomState(0).standard_normal(shape).astype("float32")
    if name == "shapes":
        x = x[:, :3]
        block.function = lambda x: shapes(np.concatenate([x, x[:, :1]], axis=1))
    block.initialize(mx.init.Uniform(0.5))
    block.hybridize()
    y = block(np.array(x)).asnumpy()
    block.export(str(folder / name))
    return str(folder / name), x, y


def convert(prefix, x, to, output):
    shape = ",".join(map(str, x.shape))
    return main(["convert", prefix, "0", "--to", to, "--shape", f"data={shape}", "--output", output])


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    prefix, x, y = exported(name, tmp_path)
    assert convert(prefix, x, "onnx", prefix + ".onnx") == 0
    session = runtime.InferenceSession(prefix + ".onnx")
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    onp.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)


def test_onnx_comes_back(tmp_path):
    pytest.importorskip("onnx")
    prefix, x, y = exported("layers", tmp_path)
    mx.onnx.export_model(prefix + "-symbol.json", prefix + "-0000.params", [x.shape], onnx_file_path=prefix + ".onnx")
    block = mx.onnx.import_to_gluon(prefix + ".onnx", mx.cpu())
    onp.testing.assert_allclose(block(np.array(x)).asnumpy(), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "attention" else pytest.mark.slow)
                                  for name in MODELS])
def test_source(name, tmp_path, capsys):
    """flax's is run beside mxjax's by the command itself; PyTorch's where it is installed."""
    prefix, x, _ = exported(name, tmp_path)
    assert convert(prefix, x, "flax", prefix + "-flax") == 0
    assert "largest difference to mxjax" in capsys.readouterr().out
    assert convert(prefix, x, "pytorch", prefix + "-pytorch") == 0
    compile(pathlib.Path(prefix + "-pytorch", "model.py").read_text(), "model.py", "exec")


def test_programs_and_parameters(tmp_path):
    import jax.export
    prefix, x, y = exported("layers", tmp_path)
    assert convert(prefix, x, "jax", prefix + ".jax") == 0
    program = jax.export.deserialize(bytearray(pathlib.Path(prefix + ".jax").read_bytes()))
    onp.testing.assert_allclose(program.call(x)[0], y, rtol=1e-4, atol=1e-5)
    assert convert(prefix, x, "stablehlo", prefix + ".mlirbc") == 0
    assert convert(prefix, x, "safetensors", prefix + ".safetensors") == 0
    loaded = mx.nd.load(prefix + ".safetensors")
    assert sorted(loaded) == sorted(n for n in json_names(prefix) if n != "data")


def json_names(prefix):
    return [node["name"] for node in json.loads(pathlib.Path(prefix + "-symbol.json").read_text())["nodes"]
            if node["op"] == "null"]


def test_looking(tmp_path, capsys):
    prefix, _, _ = exported("layers", tmp_path)
    assert main(["inspect", prefix, "0", "--shape", "data=2,2,6,6"]) == 0
    told = capsys.readouterr().out
    assert "Convolution" in told and "GFLOP" not in told
    assert main(["doctor", prefix + "-symbol.json"]) == 0
    symbol = mx.sym.load(prefix + "-symbol.json")
    mx.visualization.print_summary(symbol, shape={"data": (2, 2, 6, 6)})
    assert "Total params: " in capsys.readouterr().out
    pytest.importorskip("graphviz")
    drawn = mx.visualization.plot_network(symbol, shape={"data": (2, 2, 6, 6)}).source
    assert "Convolution" in drawn and "weight" not in drawn


def test_plan(tmp_path, capsys):
    pytest.importorskip("libtpu")
    prefix, _, _ = exported("layers", tmp_path)
    assert main(["plan", prefix + "-symbol.json", "--shape", "data=2,2,6,6", "--on", "v5e"]) == 0
    assert "fits" in capsys.readouterr().out


def test_readers_of_the_other_level(tmp_path):
    """What this level exports is converted by a process of level 1."""
    prefix, x, _ = exported("attention", tmp_path)
    command = [sys.executable, "-m", "mxjax", "convert", prefix, "0", "--to", "flax", "--shape", "data=2,5,6"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MXJAX_API": "1"})
    assert done.returncode == 0 and "largest difference" in done.stdout, done.stdout + done.stderr
