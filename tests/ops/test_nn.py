"""Fully connected layers and dropout."""

import numpy as np
import pytest
from opcall import call, gradients, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError

X = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")


def test_fully_connected():
    weight, bias = np.ones((5, 6), "float32"), np.arange(5, dtype="float32")
    np.testing.assert_allclose(call("FullyConnected", X, weight, bias, num_hidden=5),
                               X.sum((1, 2))[:, None] + bias, rtol=1e-5, atol=1e-6)
    out = call("FullyConnected", X, weight[:, :3], num_hidden=5, no_bias=True, flatten=False)
    np.testing.assert_allclose(out, X @ weight[:, :3].T, rtol=1e-5, atol=1e-6)
    assert partial_shapes("FullyConnected", [(4, 2, 3), None, None], num_hidden=5)[0][1:] == [(5, 6), (5,)]
    assert partial_shapes("FullyConnected", [(4, 2, 3), None, None], num_hidden=5, flatten=False)[0][1] == (5, 3)
    np.testing.assert_array_equal(call("FullyConnected", X, weight, bias[:, None], num_hidden=5),
                                  call("FullyConnected", X, weight, bias, num_hidden=5))  # as of row_sparse weights
    for shape in [(1,), (1, 5)]:
        with pytest.raises(MXNetError, match=r"bias must have the shape \(5,\)"):
            call("FullyConnected", X, weight, np.ones(shape, "float32"), num_hidden=5)


def test_dropout():
    ones = np.ones((100, 50), "float32")
    out = call("Dropout", ones, p=0.3, train=True)
    kept = out != 0
    assert abs(kept.mean() - 0.7) < 0.03 and np.allclose(out[kept], 1 / 0.7)
    np.testing.assert_array_equal(gradients("Dropout", ones, p=0.3)[0], out)
    np.testing.assert_array_equal(call("Dropout", ones, p=0.3), ones)
    np.testing.assert_array_equal(call("Dropout", ones, p=0.3, mode="always"), out)
    rows = call("Dropout", ones, p=0.3, axes=(1,), train=True)
    assert (rows == rows[:, :1]).all() and 0 < (rows == 0).mean() < 1
    assert np.isnan(call("Dropout", ones, p=1, train=True)).all()
    with pytest.raises(MXNetError, match="parameter p"):
        call("Dropout", ones, p=1.5)


def test_gradient_of_a_bias_with_two_axes():
    x, weight, bias = mx.nd.ones((2, 3)), mx.nd.ones((4, 3)), mx.nd.ones((4, 1))
    bias.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FullyConnected(x, weight, bias, num_hidden=4)
    y.backward()
    np.testing.assert_array_equal(bias.grad.asnumpy(), np.full((4, 1), 2))
