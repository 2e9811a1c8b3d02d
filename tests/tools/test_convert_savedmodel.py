"""`convert --to savedmodel`: what TensorFlow loads computes what mxjax computes."""

import importlib.util
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax import __main__ as command_line
from mxjax.tools import _savedmodel

needs_tensorflow = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None,
                                      reason="tensorflow is not installed (pip install tensorflow-cpu)")
sym = mx.sym


def save(symbol, prefix, **shapes):
    """Saves a graph with random parameters; returns them: (arguments, auxiliary states)."""
    sizes, _, states = symbol.infer_shape(**shapes)
    rng = np.random.default_rng(0)
    args = {n: mx.nd.array(rng.uniform(-0.5, 0.5, s)) for n, s in zip(symbol.list_arguments(), sizes, strict=True)
            if n not in shapes}
    aux = {n: mx.nd.array(rng.uniform(0.5, 1, s)) for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)}
    mx.model.save_checkpoint(prefix, 0, symbol, args, aux)
    return args, aux


def convert(prefix, *more):
    """The command's exit status."""
    return command_line.main(["convert", prefix, "0", "--to", "savedmodel", *more])


@needs_tensorflow
def test_saved_model_agrees_for_any_batch(tmp_path, capsys):
    import tensorflow as tf
    x = sym.var("data")
    for i in range(2):
        x = sym.Convolution(x, kernel=(3, 3), stride=(2, 2), num_filter=8, name=f"conv{i}")
        x = sym.Activation(sym.BatchNorm(x, fix_gamma=False, name=f"bn{i}"), act_type="relu")
    x = sym.FullyConnected(sym.mean(x, axis=(2, 3)), num_hidden=5, name="fc")
    net = sym.SoftmaxOutput(x, name="softmax")
    args, aux = save(net, str(tmp_path / "net"), data=(2, 3, 32, 32), softmax_label=(2,))
    assert convert(str(tmp_path / "net"), "--shape", "data=2,3,32,32") == 0
    told = capsys.readouterr().out
    found = re.search(r"largest difference to mxjax (\S+), of values up to (\S+);.*any length", told)
    assert found and float(found[1]) <= 1e-4 * float(found[2]), told
    x = np.random.default_rng(1).standard_normal((5, 3, 32, 32)).astype("float32")
    run = tf.saved_model.load(str(tmp_path / "net-savedmodel")).signatures["serving_default"]
    (value,) = run(data=tf.constant(x)).values()
    wanted = net.bind(mx.cpu(), {**args, "data": mx.nd.array(x), "softmax_label": mx.nd.zeros(5)},
                      aux_states=aux).forward()[0].asnumpy()
    np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-4, atol=1e-6)
    assert convert(str(tmp_path / "net"), "--shape", "data=1,3,32,32", "--dynamic-batch") == 0  # replaces it


@needs_tensorflow
def test_several_inputs_and_outputs_with_any_names_and_a_fixed_first_axis(tmp_path, capsys):
    x, y = sym.var("a b/0"), sym.var("0:y")
    both = sym.concat(x, sym.reshape(y, (3, 4)), dim=0)  # 5 rows: no other first length fits
    out = sym.Group([sym.sum(both, axis=0, name="sum/1"), sym.FullyConnected(both, num_hidden=3, name="fc")])
    save(out, str(tmp_path / "net"), **{"a b/0": (2, 4), "0:y": (2, 6)})
    given = ["--shape", "a b/0=2,4", "--shape", "0:y=2,6"]
    assert convert(str(tmp_path / "net"), *given, "--output", str(tmp_path / "out")) == 0
    assert "the given length" in capsys.readouterr().out
    assert (tmp_path / "out" / "saved_model.pb").exists()
    with pytest.raises(SystemExit):
        convert(str(tmp_path / "net"), *given, "--output", str(tmp_path / "other"), "--dynamic-batch")
    assert "cannot become a SavedModel" in capsys.readouterr().err and not (tmp_path / "other").exists()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("mine")
    with pytest.raises(SystemExit):
        convert(str(tmp_path / "net"), *given, "--output", str(tmp_path / "kept"))
    assert "is not a SavedModel" in capsys.readouterr().err and (tmp_path / "kept" / "file").exists()


def test_without_tensorflow_the_command_says_what_to_install(tmp_path, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(_savedmodel.importlib.util, "find_spec",
                        lambda name, *more: None if name == "tensorflow" else found(name, *more))
    save(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), str(tmp_path / "net"), data=(2, 4))
    with pytest.raises(SystemExit):
        convert(str(tmp_path / "net"), "--shape", "data=2,4")
    assert "pip install tensorflow-cpu" in capsys.readouterr().err
    assert not (tmp_path / "net-savedmodel").exists()
