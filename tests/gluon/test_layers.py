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
