"""The predictor: files, objects and raw content in, other shapes, outputs of layers, and mistakes."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.predictor import Predictor, load_ndarray_file

RNG = np.random.RandomState(0)


@pytest.fixture
def model(tmp_path):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(7), gluon.nn.BatchNorm(), gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 3)))
    net.export(str(tmp_path / "net"))
    return net, tmp_path / "net-symbol.json", tmp_path / "net-0000.params"


def test_files_and_content(model):
    net, symbol, params = model
    first, second = RNG.rand(1, 3), RNG.rand(4, 3)
    for predictor in (Predictor(symbol.read_text(), params.read_bytes(), {"data": (1, 3)}),
                      Predictor(str(symbol), str(params), {"data": (1, 3)}),
                      Predictor(mx.sym.load(symbol), mx.nd.load(str(params)), {"data": (1, 3)})):
        predictor.forward(data=first)
        np.testing.assert_allclose(predictor.get_output(0), net(mx.nd.array(first)).asnumpy(), rtol=1e-5)
        predictor.reshape({"data": (4, 3)})
        predictor.set_input("data", mx.nd.array(second))
        predictor.forward()
        np.testing.assert_allclose(predictor.get_output(), net(mx.nd.array(second)).asnumpy(), rtol=1e-5)
        assert predictor.output_shapes == [(4, 3)]


def test_outputs_of_layers(model):
    net, symbol, params = model
    predictor = Predictor(symbol, params, {"data": (2, 3)}, outputs=["net_dense0_fwd", "net_batchnorm0_fwd_output"])
    assert predictor.output_names == ["net_dense0_fwd_output", "net_batchnorm0_fwd_output"]
    x = RNG.rand(2, 3)
    predictor.forward(data=x)
    np.testing.assert_allclose(predictor.get_output(0), net[0](mx.nd.array(x)).asnumpy(), rtol=1e-5)
    assert predictor.get_output(1).shape == (2, 7)


def test_labels_are_not_asked_for():
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax")
    params = {"arg:fc_weight": mx.nd.ones((2, 3)), "arg:fc_bias": mx.nd.zeros(2)}
    predictor = Predictor(out, params, {"data": (4, 3)})
    predictor.forward(data=np.ones((4, 3)))
    np.testing.assert_allclose(predictor.get_output(0), np.full((4, 2), 0.5))


def test_mistakes(model):
    _, symbol, params = model
    predictor = Predictor(symbol, params, {"data": (1, 3)})
    for call, message in ((lambda: predictor.forward(data=np.ones((2, 3))), r"shape \(1, 3\), got \(2, 3\)"),
                          (lambda: predictor.set_input("x", 1), "unknown input x; known: data"),
                          (lambda: predictor.get_output(1), "no output 1"),
                          (lambda: predictor.reshape({"x": (1,)}), "unknown input x"),
                          (lambda: Predictor(symbol, {}, {}), "the shape of data, .*is not known"),
                          (lambda: Predictor(symbol, 3, {}), "parameters must be"),
                          (lambda: Predictor(symbol, params, {"data": (1, 3)}, outputs=["no"]), "unknown output no")):
        with pytest.raises(mx.MXNetError, match=message):
            call()


def test_load_ndarray_file(tmp_path):
    path = str(tmp_path / "a.params")
    mx.nd.save(path, {"a": mx.nd.ones((2,))})
    with open(path, "rb") as file:
        assert load_ndarray_file(file.read())["a"].tolist() == [1, 1]
    mx.nd.save(path, [mx.nd.ones((2,))])
    with open(path, "rb") as file:
        assert load_ndarray_file(file.read())[0].tolist() == [1, 1]
