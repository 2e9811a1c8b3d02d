"""Activation functions: values and slopes, also at the kink."""

import numpy as np
import pytest
from opcall import call, gradients, partial_shapes
from scipy.special import erf, expit, ndtr

import mxjax as mx
from mxjax.base import MXNetError

X = np.array([-2, -0.5, 0, 0.5, 3], "float32")
ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
NORMAL = 0.5 * (1 + erf(X / 2 ** 0.5))


@pytest.mark.parametrize("name, params, value, slope", [
    ("Activation", {"act_type": "relu"}, np.maximum(X, 0), X > 0),
    ("Activation", {"act_type": "sigmoid"}, expit(X), expit(X) * expit(-X)),
    ("Activation", {"act_type": "softrelu"}, np.log1p(np.exp(X)), expit(X)),
    ("Activation", {"act_type": "softsign"}, X / (1 + abs(X)), (1 + abs(X)) ** -2.0),
    ("Activation", {"act_type": "tanh"}, np.tanh(X), 1 - np.tanh(X) ** 2),
    ("Activation", {"act_type": "log_sigmoid"}, np.log(expit(X)), expit(-X)),
    ("Activation", {"act_type": "mish"}, X * np.tanh(np.log1p(np.exp(X))),
     np.tanh(np.log1p(np.exp(X))) + X * expit(X) / np.cosh(np.log1p(np.exp(X))) ** 2),
    ("LeakyReLU", {"slope": 0.3}, np.where(X > 0, X, 0.3 * X), np.where(X > 0, 1, 0.3)),
    ("LeakyReLU", {"act_type": "elu", "slope": 0.3}, np.where(X > 0, X, 0.3 * np.expm1(X)),
     np.where(X > 0, 1, 0.3 * np.exp(X))),
    # MXNet's slope of selu on the negative side is not its derivative
    ("LeakyReLU", {"act_type": "selu"}, SCALE * np.where(X > 0, X, ALPHA * np.expm1(X)),
     SCALE * np.where(X > 0, 1, ALPHA + SCALE * ALPHA * np.expm1(X))),
    ("LeakyReLU", {"act_type": "gelu"}, X * NORMAL, NORMAL + X * np.exp(-X * X / 2) / (2 * np.pi) ** 0.5),
])
def test_values_and_slopes(name, params, value, slope):
    np.testing.assert_allclose(call(name, X, **params), value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients(name, X, **params)[0], slope, rtol=1e-5, atol=1e-6)


def test_prelu_learns_a_slope_for_each_channel():
    data = np.array([[[-1, 2], [-3, -4]]], "float32")
    gamma = np.array([0.5, 0.1], "float32")
    np.testing.assert_allclose(call("LeakyReLU", data, gamma, act_type="prelu"), [[[-0.5, 2], [-0.3, -0.4]]], rtol=1e-6)
    by_data, by_gamma = gradients("LeakyReLU", data, gamma, act_type="prelu")
    np.testing.assert_allclose(by_data, [[[0.5, 1], [0.1, 0.1]]])
    np.testing.assert_allclose(by_gamma, [-1, -7])
    assert partial_shapes("LeakyReLU", [(2, 3, 4), None], act_type="prelu")[0] == [(2, 3, 4), (3,)]
    with pytest.raises(MXNetError, match="does not broadcast"):
        call("LeakyReLU", data, np.ones(5, "float32"), act_type="prelu")


def test_rrelu_draws_slopes_in_training():
    data = -np.ones((50, 20), "float32")
    out, slopes = call("LeakyReLU", data, act_type="rrelu", lower_bound=0.2, upper_bound=0.6, train=True)
    np.testing.assert_array_equal(out, -slopes)
    assert slopes.min() >= 0.2 and slopes.max() <= 0.6 and abs(slopes.mean() - 0.4) < 0.02
    np.testing.assert_allclose(call("LeakyReLU", data, act_type="rrelu", lower_bound=0.2, upper_bound=0.6)[0], -0.4)


def test_errors():
    with pytest.raises(MXNetError, match="floating-point"):
        call("Activation", np.array([1]), act_type="relu")
    with pytest.raises(MXNetError, match="act_type"):
        call("Activation", X, act_type="swish")


def test_softsign_is_flat_at_infinity():
    x = mx.nd.array([np.inf, -np.inf, 1.0])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.softsign(x)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [0, 0, 0.25])


def test_softrelu_is_as_exact_as_float32():
    """Its own series is compiled for CPUs: values of a program, not of NumPy's first calls."""
    x = np.linspace(-80, 20, 1 << 18, dtype="float32")
    exact = np.logaddexp(0, x.astype("float64"))
    assert np.abs(call("Activation", x, act_type="softrelu") / exact - 1).max() < 4e-7
    extremes = np.resize(np.array([np.nan, np.inf, -np.inf], "float32"), 1 << 18)
    np.testing.assert_array_equal(call("Activation", extremes, act_type="softrelu")[:3], [np.nan, np.inf, 0])


def test_gelu_of_half_precision_keeps_its_digits():
    x = np.linspace(-4, 4, 33).astype("float16")
    wanted = x.astype("float64") * ndtr(x.astype("float64"))
    found = mx.nd.LeakyReLU(mx.nd.array(x, dtype="float16"), act_type="gelu")
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=3e-3)  # of what is -4 times 3e-5, too
