"""Layers: shapes, values against NumPy, how they show themselves."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import nn

# layer, input shape, output shape, text
SHAPES = [
    (lambda: nn.Dense(3, in_units=4), (2, 4), (2, 3), "Dense(4 -> 3, linear)"),
    (lambda: nn.Dense(3, flatten=False, activation="tanh"), (2, 5, 4), (2, 5, 3),
     "Dense(4 -> 3, Activation(tanh))"),
    (lambda: nn.Conv1D(4, 3, groups=2), (1, 2, 6), (1, 4, 4),
     "Conv1D(1 -> 4, kernel_size=(3,), stride=(1,), groups=2)"),
    (lambda: nn.Conv2D(4, (3, 2), padding=1, layout="NHWC", use_bias=False), (1, 5, 5, 2), (1, 5, 6, 4), None),
    (lambda: nn.Conv3D(2, 2, strides=2), (1, 1, 4, 4, 4), (1, 2, 2, 2, 2), None),
    (lambda: nn.Conv2DTranspose(3, 3, strides=2, output_padding=1), (1, 2, 4, 4), (1, 3, 10, 10), None),
    (lambda: nn.MaxPool2D(ceil_mode=True), (1, 2, 5, 5), (1, 2, 3, 3),
     "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=True, global_pool=False, pool_type=max, "
     "layout=NCHW)"),
    (lambda: nn.AvgPool1D(3, 1, 1), (1, 2, 5), (1, 2, 5), None),
    (lambda: nn.GlobalAvgPool3D(), (1, 2, 3, 3, 3), (1, 2, 1, 1, 1), None),
    (lambda: nn.ReflectionPad2D(1), (1, 1, 3, 3), (1, 1, 5, 5), None),
    (lambda: nn.Embedding(5, 2), (3,), (3, 2), "Embedding(5 -> 2, float32)"),
    (lambda: nn.Flatten(), (2, 3, 4), (2, 12), "Flatten"),
    (lambda: nn.Dropout(0.3, axes=(1,)), (2, 3), (2, 3), "Dropout(p = 0.3, axes=(1,))"),
    (lambda: nn.InstanceNorm(axis=2), (2, 3, 4), (2, 3, 4),
     "InstanceNorm(eps=1e-05, axis=2, center=True, scale=False, in_channels=4)"),
]


@pytest.mark.parametrize("make, given, expected, text", SHAPES)
def test_shapes(make, given, expected, text):
    layer = make()
    layer.initialize()
    assert layer(mx.nd.ones(given)).shape == expected
    assert layer(mx.sym.var("data")).infer_shape(data=given)[1] == [expected]
    assert text is None or repr(layer) == text


def _normalized(x, axis):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


@pytest.mark.parametrize("layer, expected", [
    (nn.LayerNorm(), lambda x: _normalized(x, 2)),
    (nn.LayerNorm(axis=1), lambda x: _normalized(x, 1)),
    (nn.InstanceNorm(), lambda x: _normalized(x, 2)),
    (nn.GroupNorm(2), lambda x: _normalized(x.reshape(2, 2, -1), 2).reshape(x.shape)),
    (nn.BatchNorm(), lambda x: _normalized(x, (0, 2))),
    (nn.basic_layers._BatchNorm(1, 0.9, 1e-5, True, True, False, True),
     lambda x: np.maximum(_normalized(x, (0, 2)), 0)),
    (nn.BatchNormReLU(axis=2), lambda x: np.maximum(_normalized(x, (0, 1)), 0)),
])
def test_normalization(layer, expected):
    x = np.random.RandomState(1).randn(2, 4, 3).astype("float32")
    layer.initialize()
    with mx.autograd.train_mode():
        np.testing.assert_allclose(layer(mx.nd.array(x)).asnumpy(), expected(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layer, expected", [
    (nn.LeakyReLU(0.2), [-0.2, 2.0]), (nn.PReLU(), [-0.25, 2.0]), (nn.ELU(2.0), [-1.26424, 2.0]),
    (nn.SELU(), [-1.11133, 2.1014]), (nn.GELU(), [-0.15866, 1.9545]), (nn.Swish(), [-0.26894, 1.76159]),
    (nn.Activation("softsign"), [-0.5, 0.66667])])
def test_activations(layer, expected):
    layer.initialize()
    np.testing.assert_allclose(layer(mx.nd.array([[-1.0, 2.0]])).asnumpy(), [expected], atol=1e-4)


def test_batch_norm_stays_float32_beside_float16():
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.BatchNorm())
    net.cast("float16")
    assert [np.dtype(p.dtype).name for p in net.collect_params().values()] == ["float16"] * 2 + ["float32"] * 4


def test_containers_and_lambdas():
    net = nn.Sequential()
    net.add(nn.Dense(4), nn.Lambda("relu"), nn.HybridLambda(lambda F, x: F.exp(x) * 0 + 1))
    net.initialize()
    assert len(net) == 3 and len(net[1:]) == 2 and repr(net[1]) == "Lambda(relu)"
    assert net(mx.nd.ones((2, 3))).asnumpy().tolist() == [[1] * 4] * 2
    hybrid = nn.HybridSequential()
    hybrid.add(nn.HybridLambda("tanh"))
    hybrid.hybridize()
    assert repr(hybrid) == "HybridSequential(\n  (0): HybridLambda(tanh)\n)"
    assert hybrid(mx.nd.zeros((1,))).asscalar() == 0
    plain = nn.Sequential()
    plain.add(nn.Dense(1))
    with pytest.warns(UserWarning, match="HybridSequential"):
        plain.hybridize()
    with pytest.raises(AssertionError, match="not found"):
        nn.Lambda("no_such_function")
    with pytest.raises(ValueError, match="Unrecognized"):
        nn.HybridLambda(3)


def test_wrong_sizes_and_layouts():
    with pytest.raises(AssertionError, match="kernel_size"):
        nn.Conv2D(1, (3, 3, 3))
    with pytest.raises(AssertionError, match="layout"):
        nn.Conv1D(1, 3, layout="NWC")
    with pytest.raises(AssertionError, match="layout"):
        nn.MaxPool2D(layout="NC")
    with pytest.raises(AssertionError, match="Slope"):
        nn.LeakyReLU(-1)


# -------------------------------------------------------------------- what batch normalization changes
def _two(hybridize, frozen=(), scale=True):
    """Two layers with momentum 0.5, whose moving means are 1 and gammas 5."""
    net = nn.HybridSequential()
    net.add(*[nn.BatchNorm(in_channels=3, momentum=0.5, scale=scale) for _ in range(2)])
    net.initialize()
    for layer in net:
        layer.gamma.set_data(mx.nd.full(3, 5))
        layer.running_mean.set_data(mx.nd.ones(3))
    for i in frozen:
        net[i].collect_params().setattr("grad_req", "null")
    if hybridize:
        net.hybridize()
    return net


def _means(net):
    return [layer.running_mean.data().asnumpy().round(4).tolist() for layer in net]


ROWS = mx.nd.arange(12).reshape((4, 3))
START, ONCE, TWICE = [[1.0] * 3] * 2, [[2.75, 3.25, 3.75], [0.5] * 3], [[3.625, 4.375, 5.125], [0.25] * 3]


@pytest.mark.parametrize("hybridize", [False, True])
def test_moving_averages_change_once_for_each_backward(hybridize):
    """MXNet's numbers on CPUs, whose kernel does it there; cuDNN's does it in the forward."""
    net = _two(hybridize)
    with mx.autograd.train_mode():
        net(ROWS).wait_to_read()
    assert _means(net) == START
    for options, wanted in (({"train_mode": False}, START), ({}, ONCE), ({}, TWICE)):
        before = _means(net)
        with mx.autograd.record():
            out = net(ROWS)
        out.wait_to_read()
        assert _means(net) == before
        out.backward(**options)
        assert _means(net) == wanted
    net = _two(hybridize)
    with mx.autograd.record():
        out = net(ROWS)
    for retain, wanted in ((True, ONCE), (False, TWICE)):
        out.backward(retain_graph=retain)
        assert _means(net) == wanted
    net = _two(hybridize)
    with mx.autograd.record():
        out = net(ROWS) + net(ROWS * 2)
    out.backward()
    assert _means(net) == [[4.75, 5.75, 6.75], [0.25] * 3]
    np.testing.assert_allclose(net[0].running_var.data().asnumpy(), [17.125] * 3, rtol=1e-5)
    net = _two(hybridize)
    with mx.autograd.record():
        out = net(ROWS)
    mx.autograd.grad(out, [net[0].beta.data()])
    assert _means(net) == ONCE


@pytest.mark.parametrize("hybridize", [False, True])
def test_moving_averages_stay_where_no_gradient_comes_by(hybridize):
    for frozen, wanted in ((0, [START[0], ONCE[1]]), (1, ONCE)):
        net = _two(hybridize, [frozen])
        with mx.autograd.record():
            out = net(ROWS)
        out.backward()
        assert _means(net) == wanted
    net = _two(hybridize)
    with mx.autograd.record():
        out = net[1](net[0](ROWS).detach())
    out.backward()
    assert _means(net) == [START[0], ONCE[1]]


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_fixed_gamma_becomes_one(hybridize):
    net = _two(hybridize, scale=False)
    net(ROWS).wait_to_read()  # MXNet's hybridized blocks write it in recorded calls only
    assert [layer.gamma.data().asnumpy().tolist() for layer in net] == [[5.0 if hybridize else 1.0] * 3] * 2
    with mx.autograd.record():
        net(ROWS).wait_to_read()
    assert [layer.gamma.data().asnumpy().tolist() for layer in net] == [[1.0] * 3] * 2
    net = _two(hybridize)
    with mx.autograd.record():
        net(ROWS).wait_to_read()
    assert net[0].gamma.data().asnumpy().tolist() == [5.0] * 3


@pytest.mark.parametrize("call", [
    mx.nd.BatchNorm, mx.nd.contrib.BatchNormWithReLU, lambda *a: mx.nd.contrib.SyncBatchNorm(*a, key="x")],
    ids=["plain", "relu", "sync"])
def test_operators_of_batch_normalization_write_alike(call):
    x, gamma, beta, mean, var = [ROWS.reshape((4, 3, 1, 1)), mx.nd.full(3, 5), *[mx.nd.zeros(3) for _ in range(3)]]
    beta.attach_grad()
    with mx.autograd.record():
        out = call(x, gamma, beta, mean, var)
    assert gamma.asnumpy().tolist() == [1] * 3 and mean.asnumpy().tolist() == [0] * 3
    out.backward()
    np.testing.assert_allclose(mean.asnumpy(), [0.45, 0.55, 0.65], rtol=1e-6)
    np.testing.assert_allclose(var.asnumpy(), [1.125] * 3, rtol=1e-5)


def test_shapes_of_weights_for_layers_of_ones_own():
    infer = mx.gluon.nn.conv_layers._infer_weight_shape
    options = {"kernel": (3, 3), "num_filter": 8, "num_group": 1, "no_bias": False, "layout": "NCHW"}
    assert infer("Convolution", (0, 3, 0, 0), options) == [(0, 3, 0, 0), (8, 3, 3, 3), (8,)]
    assert infer("Deconvolution", (0, 4, 0, 0), {**options, "num_group": 2, "no_bias": True})[1:] == [(4, 4, 3, 3)]
