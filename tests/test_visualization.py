"""Networks as tables and drawings."""

import numpy as np
import pytest

import mxjax as mx


def net():
    x = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.Pooling(mx.sym.Activation(x, act_type="relu", name="act"), kernel=(2, 2), stride=(2, 2), name="pool")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x, name="flat"), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def test_summary(capsys):
    mx.viz.print_summary(net(), {"data": (2, 3, 10, 10)}, line_length=80)
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("(")[0]: line.split() for line in lines if "(" in line and "Layer" not in line}
    assert all(len(line) == 80 for line in lines if not line.startswith("Total"))
    assert rows["conv"] == ["conv(Convolution)", "4x8x8", str(4 * 3 * 9 + 4), "data"]
    assert rows["pool"] == ["pool(Pooling)", "4x4x4", "0", "act"]
    assert rows["fc"] == ["fc(FullyConnected)", "10", str(64 * 10 + 10), "flat"]
    assert "Total params: 762" in lines


def test_summary_without_shapes(capsys):
    mx.viz.print_summary(mx.sym.Embedding(net(), input_dim=5, output_dim=3, name="table"), line_length=80)
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("(")[0]: line.split() for line in lines if "(" in line and "Layer" not in line}
    assert rows["conv"] == ["conv(Convolution)", "4", "data"] and rows["fc"] == ["fc(FullyConnected)", "10", "flat"]
    assert rows["table"][1] == "15" and rows["pool"][1] == "0" and "Total params: 29" in lines  # as MXNet counts
    with pytest.raises(TypeError, match="must be a Symbol"):
        mx.viz.print_summary(3)


def test_drawing():
    pytest.importorskip("graphviz")
    source = mx.viz.plot_network(net(), shape={"data": (2, 3, 10, 10)}, dtype={"data": np.float32},
                                 node_attrs={"fixedsize": "false"}).source
    for text in ('"Convolution\n3x3/1, 4"', '"Pooling\nmax, 2x2/2x2"', '"FullyConnected\n10"', "fixedsize=false",
                 'label="4x8x8(float32)"', "shape=oval"):
        assert text in source, text
    assert "fc -> flat" in source and "conv_weight" not in source
    assert "conv_weight" in mx.viz.plot_network(net(), hide_weights=False).source


def test_repeated_names_warn():
    pytest.importorskip("graphviz")
    twice = mx.sym.FullyConnected(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), num_hidden=2,
                                  name="fc")
    with pytest.warns(RuntimeWarning, match="same name.*fc"):
        mx.viz.plot_network(twice)
