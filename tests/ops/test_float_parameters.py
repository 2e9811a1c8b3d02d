"""Parameters that are C floats in MXNet are rounded to float32, for float64 arrays, too; doubles are not."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

X = [0.05, 0.5, 0.95, -0.3]
# results of MXNet 1.9.1 for float64
RECORDED = {
    "clip": (lambda x: mx.nd.clip(x, 0.1, 0.9), [0.10000000149011612, 0.5, 0.8999999761581421, 0.10000000149011612]),
    "np.clip": (lambda x: mx.np.clip(x.as_np_ndarray(), 0.1, 0.9),
                [0.10000000149011612, 0.5, 0.8999999761581421, 0.10000000149011612]),
    "elu": (lambda x: mx.nd.LeakyReLU(x, act_type="elu", slope=0.1), [0.05, 0.5, 0.95, -0.02591817831803916]),
    "hard_sigmoid": (lambda x: mx.nd.hard_sigmoid(x, alpha=0.1, beta=0.3),
                     [0.30500001199543475, 0.350000012665987, 0.3950000133365393, 0.27000001147389413]),
    "quadratic": (lambda x: mx.nd.contrib.quadratic(x, a=0.1, b=0.2, c=0.3),
                  [0.31025001207366587, 0.4250000137835741, 0.5802500160969795, 0.24900001116096973]),
    "sgd_update": (lambda x: mx.nd.sgd_update(mx.nd.ones(1, dtype="float64"), mx.nd.ones(1, dtype="float64"), lr=0.1,
                                              wd=0.01), [0.8989999985173345]),
    "plus": (lambda x: x + 0.1, np.array(X) + 0.1),
    "smooth_l1": (lambda x: mx.nd.smooth_l1(x, scalar=0.1), 0.005 * np.square(X)),
    "full": (lambda x: mx.nd.full((1,), 0.1, dtype="float64"), [0.1]),
    "one_hot": (lambda x: mx.nd.one_hot(mx.nd.array([1]), 2, on_value=0.1, off_value=0.2, dtype="float64"),
                [[0.2, 0.1]]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_numbers_of_float64_arrays(name):
    call, expected = RECORDED[name]
    for _ in range(2):  # the second call is a remembered one
        np.testing.assert_allclose(call(mx.nd.array(X, dtype="float64")).asnumpy(), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("always", ["0", "1"])
def test_gradients_are_divided_in_float32(always, monkeypatch):
    monkeypatch.setenv("MXNET_ENFORCE_DETERMINISM", always)
    scale = float(np.float32(0.1) / np.float32(3))
    label = mx.nd.zeros((1, 3), dtype="float64")
    for layer, difference in (
            (lambda x: mx.nd.LinearRegressionOutput(x, label, grad_scale=0.1), np.array([[1.0, 2, 3]])),
            (lambda x: mx.nd.SoftmaxOutput(x.T, label[0], grad_scale=0.1, normalization="batch"), np.zeros((1, 3)))):
        x = mx.nd.array([[1, 2, 3]], dtype="float64")
        x.attach_grad()
        with mx.autograd.record():
            out = layer(x)
        out.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), difference * scale, rtol=1e-15, atol=1e-17)


def test_whole_and_extreme_numbers_stay():
    big = mx.nd.array([2**30 + 1], dtype="int64")
    assert mx.nd.clip(big, 0, 2**30 + 1).asscalar() == 2**30 + 1
    assert mx.nd.clip(mx.nd.array([7.0], dtype="float64"), 0, float("inf")).asscalar() == 7
    assert mx.nd.clip(mx.nd.array([7.0]), "0.5f", "2.5").asscalar() == 2.5
    with pytest.raises(MXNetError, match="a_max"):
        mx.nd.clip(big, 0, "much")


def test_graphs_have_short_numbers():
    data = mx.sym.LeakyReLU(mx.sym.var("data"), slope=0.1)
    assert data.attr("slope") == "0.1" and '"slope": "0.1"' in data.tojson()
    x = mx.nd.ones(2)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.LeakyReLU(x, slope=0.1)
    assert '"slope": "0.1"' in mx.autograd.get_symbol(y).tojson()


def test_optimizers_round_their_rates():
    for weights in (1, 2):  # alone, and prepared for several
        arrays = [mx.nd.ones(1, dtype="float64") for _ in range(weights)]
        trained = [mx.gluon.Parameter(f"p{i}", shape=(1,), dtype="float64") for i in range(weights)]
        for param in trained:
            param.initialize(mx.init.One())
        trainer = mx.gluon.Trainer(trained, "sgd", {"learning_rate": 0.1, "wd": 0.01})
        for _ in range(3):
            with mx.autograd.record():
                loss = sum(param.data().sum() for param in trained)
            loss.backward()
            trainer.step(1)
            for array in arrays:
                mx.nd.sgd_update(array, mx.nd.ones(1, dtype="float64"), out=array, lr=0.1, wd=0.01)
        assert [p.data().asscalar() for p in trained] == [a.asscalar() for a in arrays]
