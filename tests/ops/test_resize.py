"""Resizing, adaptive pooling, count sketch, Fourier transforms, Hawkes processes."""

import jax
import numpy as np
import pytest
from opcall import call, check_derivatives, gradients

from mxjax.base import MXNetError
from mxjax.ops.nn import hawkes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 5, 6)).astype("float32")


@pytest.mark.parametrize(("options", "size"), [
    ({"height": 7, "width": 3}, (7, 3)), ({"scale_height": 2.0, "scale_width": 1.5}, (10, 9)),
    ({"mode": "odd_scale", "scale_height": 2.0, "scale_width": 0.5}, (9, 3)), ({"mode": "to_even_down"}, (4, 6)),
    ({"mode": "to_even_up"}, (6, 6)), ({"mode": "to_odd_down"}, (5, 5)), ({"mode": "to_odd_up"}, (5, 7))])
def test_sizes(options, size):
    ramp = np.broadcast_to(np.linspace(0, 1, 6) + np.linspace(0, 10, 5)[:, None], (1, 1, 5, 6)).astype("float32")
    wanted = np.linspace(0, 1, size[1]) + np.linspace(0, 10, size[0])[:, None]
    np.testing.assert_allclose(call("_contrib_BilinearResize2D", ramp, **options)[0, 0], wanted, rtol=1e-4, atol=1e-5)


def test_bilinear_resize():
    wanted = jax.image.resize(X, (2, 3, 10, 12), "bilinear")
    np.testing.assert_allclose(call("_contrib_BilinearResize2D", X, height=10, width=12, align_corners=False), wanted,
                               rtol=1e-4, atol=1e-5)
    like = np.zeros((2, 1, 10, 12), "float32")
    grad, zero = gradients("_contrib_BilinearResize2D", X, like, mode="like", align_corners=False)
    np.testing.assert_allclose(grad.sum(), like.size * 3, rtol=1e-4)
    assert not zero.any()
    with pytest.raises(MXNetError, match="both scales"):
        call("_contrib_BilinearResize2D", X, mode="odd_scale")


def test_adaptive_pooling():
    np.testing.assert_allclose(call("_contrib_AdaptiveAvgPooling2D", X), X.mean((2, 3), keepdims=True), rtol=1e-4,
                               atol=1e-6)
    out = call("_contrib_AdaptiveAvgPooling2D", X, output_size=(2, 3))
    np.testing.assert_allclose(out[:, :, 1, 0], X[:, :, 2:5, 0:2].mean((2, 3)), rtol=1e-4, atol=1e-6)


def test_count_sketch():
    places, signs = np.array([[0, 2, 2, 1, 0, 3]], "float32"), np.array([[1, -1, 1, 1, -1, 1]], "float32")
    out = call("_contrib_count_sketch", X, places, signs, out_dim=4)
    np.testing.assert_allclose(out[..., 2], X[..., 2] - X[..., 1], rtol=1e-5)
    grads = gradients("_contrib_count_sketch", X, places, signs, out_dim=4)
    np.testing.assert_array_equal(grads[0], np.broadcast_to(signs, X.shape))
    assert not grads[2].any()


def test_fourier():
    pairs = call("_contrib_fft", X)
    wanted = np.fft.fft(X)
    np.testing.assert_allclose(pairs[..., ::2] + 1j * pairs[..., 1::2], wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(call("_contrib_ifft", pairs), X * 6, rtol=1e-4, atol=1e-5)
    head = RNG.normal(size=pairs.shape).astype("float32")
    np.testing.assert_allclose(gradients("_contrib_fft", X, heads=[head])[0], call("_contrib_ifft", head), rtol=1e-4,
                               atol=1e-4)


def test_hawkes_likelihood():
    rates, alpha, beta = np.array([[1.5, 2.0]]), np.array([0.2, 0.3]), np.array([1.0, 2.0])
    lags, marks, end = np.array([[0.5, 1.0, 0.25, 9.0]]), np.array([[0, 1, 0, 1]], "int32"), 3.0
    times, wanted = np.cumsum(lags[0, :3]), 0.0
    for k in range(2):
        mine = [t for t, m in zip(times, marks[0], strict=False) if m == k]
        for t in mine:
            wanted += np.log(rates[0, k] + alpha[k] * beta[k] * sum(np.exp(-beta[k] * (t - s)) for s in mine if s < t))
        wanted -= rates[0, k] * end + alpha[k] * sum(1 - np.exp(-beta[k] * (end - s)) for s in mine)
    rest = np.zeros((1, 2)), lags, marks, np.array([3.0]), np.array([end])
    found, state = call("_contrib_hawkesll", rates, alpha, beta, *rest)
    np.testing.assert_allclose(found, [wanted], rtol=1e-6)
    np.testing.assert_allclose(state[0, 1], np.exp(-beta[1] * (end - times[1])), rtol=1e-6)
    check_derivatives(lambda *a: hawkes.hawkesll(*a, *rest)[0], (rates, alpha, beta), 1)
