"""The commands on saved models: `convert` and `inspect`."""

import json
import os
import sys
import textwrap

import numpy as np
import pytest

import mxjax as mx
from mxjax import __main__ as command_line
from mxjax import gluon
from mxjax.tools import _beside, _model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(prefix, input, output) of a saved network."""
    prefix = str(tmp_path_factory.mktemp("model") / "net")
    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=2), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.nd.random.uniform(shape=(2, 2, 6, 6))
    want = net(x).asnumpy()
    net.export(prefix, 3)
    return prefix, x.asnumpy(), want


def run(capsys, *args):
    assert command_line.main([str(a) for a in args]) == 0
    return capsys.readouterr().out


def test_npz_and_stablehlo(model, capsys, tmp_path):
    prefix, _, _ = model
    assert "net.npz" in run(capsys, "convert", prefix, 3, "--to", "npz", "--shape", "data=2,2,6,6")
    with np.load(prefix + ".npz") as arrays:
        saved = mx.model.load_params(prefix, 3)
        assert set(arrays) == {*saved[0], *saved[1]}
    run(capsys, "convert", prefix, 3, "--to", "safetensors", "--shape", "data=2,2,6,6")
    found = mx.nd.load(prefix + ".safetensors")
    assert {k: v.asnumpy().tolist() for k, v in found.items()} == {
        k: v.asnumpy().tolist() for part in saved for k, v in part.items()}
    run(capsys, "convert", prefix, 3, "--to", "stablehlo", "--shape", "data=2,2,6,6", "--output", tmp_path / "program")
    assert b"StableHLO" in (tmp_path / "program").read_bytes()[:64]


def test_the_first_axis_is_open_where_the_network_allows(capsys, tmp_path):
    pytest.importorskip("flatbuffers")
    data = mx.sym.var("data")
    for name, net in (("fixed", mx.sym.broadcast_add(data, mx.sym.ones((2, 3)))), ("open", mx.sym.relu(data))):
        net.save(str(tmp_path / f"{name}-symbol.json"))
        given = ("convert", tmp_path / f"{name}-symbol.json", "--to", "jax", "--shape", "data=2,3")
        length = "the given length" if name == "fixed" else "any length"
        assert "of values up to" in (told := run(capsys, *given)) and f"(first axis: {length})" in told
        assert "(first axis: the given length)" in run(capsys, *given, "--fixed-batch")
    with pytest.raises(SystemExit):
        run(capsys, "convert", tmp_path / "fixed-symbol.json", "--to", "jax", "--shape", "data=2,3", "--dynamic-batch")
    assert "cannot" in capsys.readouterr().err


def test_what_does_not_agree_is_told(model, capsys, monkeypatch):
    pytest.importorskip("onnxruntime")
    prefix, _, _ = model
    monkeypatch.setattr(_beside, "expected", lambda model, values: [np.ones((len(values["data"]), 3))])
    assert command_line.main(["convert", prefix, "3", "--to", "onnx", "--shape", "data=1,2,6,6"]) == 1
    assert "they do not agree" in capsys.readouterr().out


def test_jax(model, capsys):
    pytest.importorskip("flatbuffers")
    import jax.export
    prefix, x, want = model
    told = run(capsys, "convert", prefix, 3, "--to", "jax", "--shape", "data=1,2,6,6")
    assert "XLA: largest difference to mxjax" in told and "(first axis: any length)" in told
    with open(prefix + ".jax", "rb") as file:
        program = jax.export.deserialize(bytearray(file.read()))
    np.testing.assert_allclose(program.call(x)[0], want, rtol=1e-5, atol=1e-6)


def test_onnx(model, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    prefix, x, want = model
    told = run(capsys, "convert", prefix, 3, "--to", "onnx", "--shape", "data=1,2,6,6")
    assert "onnxruntime: largest difference to mxjax" in told and "(first axis: any length)" in told
    session = onnxruntime.InferenceSession(prefix + ".onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"data": x})[0], want, rtol=1e-4, atol=1e-5)


def test_inspect(model, capsys):
    prefix, _, _ = model
    text = run(capsys, "inspect", prefix, 3, "--shape", "data=2,2,6,6")
    lines = {line.split()[1]: line.split() for line in text.splitlines() if "x" in line and len(line.split()) > 4}
    assert lines["Convolution"][2:4] == ["2x4x4x4", "76"]
    assert float(lines["Convolution"][4]) == pytest.approx(2 * 9 * 2 * 4 * 32 / 1000, rel=0.1)  # in thousands
    assert lines["FullyConnected"][3] == "195"
    assert "parameters  287 in 1.148 kB" in text and "memory" in text and "data float32(2, 2, 6, 6)" in text


def test_mistakes(model, capsys):
    prefix, _, _ = model
    for args, message in ((("inspect", prefix, 4), "no such model"), (("inspect", prefix, 3), "--shape data=N,N,..."),
                          (("inspect", prefix, 3, "--shape", "x=1"), "unknown input x"),
                          (("inspect", prefix, 3, "--shape", "data"), "NAME=VALUE"),
                          (("convert", prefix, 3, "--to", "npz", "--shape", "data=a"), "--shape")):
        with pytest.raises(SystemExit) as failed:
            command_line.main([str(a) for a in args])
        assert failed.value.code == 2 and message in capsys.readouterr().err


def test_each_form_of_a_model(model, capsys, tmp_path):
    prefix, _, _ = model
    run(capsys, "convert", prefix, 3, "--to", "npz", "--output", tmp_path / "one.npz")
    wanted = dict(np.load(tmp_path / "one.npz"))
    for source in (prefix, f"{prefix}:3", f"{prefix}-symbol.json", os.path.dirname(prefix), f"{prefix}-0003.params",
                   tmp_path / "one.npz"):
        run(capsys, "convert", source, "--to", "npz", "--output", tmp_path / "other.npz")
        found = dict(np.load(tmp_path / "other.npz"))
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
    (tmp_path / "two").mkdir()
    for args, message in ((("inspect", tmp_path / "one.npz", "--shape", "data=1,2,6,6"), "only parameters"),
                          (("inspect", tmp_path / "two"), "got 0"),
                          (("inspect", tmp_path / "none.npz"), "no file"),
                          (("plan", tmp_path / "one.npz", "--on", "h100"), "only parameters")):
        with pytest.raises(SystemExit) as failed:
            command_line.main([str(a) for a in args])
        assert failed.value.code == 2 and message in capsys.readouterr().err


def test_code_that_is_imported_first(capsys, tmp_path, monkeypatch):
    """A graph with an operator of the user's, whose class is in a file."""
    (tmp_path / "my_ops.py").write_text(textwrap.dedent("""
        import mxnet as mx

        @mx.operator.register("tools_test_double")
        class Property(mx.operator.CustomOpProp):
            def create_operator(self, ctx, shapes, dtypes):
                return Double()

        class Double(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)
        """))
    graph = {"nodes": [{"op": "null", "name": "data", "inputs": []},
                       {"op": "Custom", "name": "twice", "attrs": {"op_type": "tools_test_double"},
                        "inputs": [[0, 0, 0]]}],
             "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    (tmp_path / "net-symbol.json").write_text(json.dumps(graph))
    arguments = ["inspect", str(tmp_path), "--shape", "data=2,3"]
    with pytest.raises(SystemExit):
        command_line.main(arguments)
    assert "tools_test_double" in capsys.readouterr().err
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(_model, "install_mxnet_alias", lambda: None)  # it would stay for the other tests
    monkeypatch.setitem(sys.modules, "mxnet", mx)
    with pytest.raises(SystemExit):
        command_line.main([*arguments, "--import", str(tmp_path / "none.py")])
    assert "--import" in capsys.readouterr().err
    assert "twice" in run(capsys, *arguments, "--import", tmp_path / "my_ops.py")
