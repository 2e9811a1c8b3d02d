"""Softmax and its relatives."""

import numpy as np
import pytest
import scipy.special as special
from opcall import call, gradients, partial_shapes

from mxjax.base import MXNetError

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


@pytest.mark.parametrize("name, reference", [
    ("softmax", special.softmax), ("log_softmax", special.log_softmax),
    ("softmin", lambda x, axis: special.softmax(-x, axis))])
def test_values(name, reference):
    np.testing.assert_allclose(call(name, X), reference(X, axis=-1), rtol=2e-5)
    np.testing.assert_allclose(call(name, X, axis=1, temperature=3.0), reference(X / 3, axis=1), rtol=2e-5)
    assert call(name, X.astype("float16"), dtype="float32").dtype == np.float32
    assert call(name, X.astype("float64")).dtype == np.float64


def test_lengths_mask_what_is_behind():
    length = np.array([[1, 3, 0, 2], [3, 3, 3, 3]], "int32")
    out = call("softmax", X, length, axis=1, use_length=True)
    np.testing.assert_allclose(out[1], special.softmax(X[1], axis=0), rtol=2e-5)
    assert out[0, :, 0].tolist() == [1, 0, 0] and out[0, :, 2].tolist() == [0, 0, 0]
    np.testing.assert_allclose(out[0, :2, 3], special.softmax(X[0, :2, 3]), rtol=2e-5)
    slope = gradients("softmax", X, length, axis=1, use_length=True, heads=[X])[0]
    assert np.isfinite(slope).all() and not slope[0, :, 2].any() and slope[0, :2, 3].all()
    assert partial_shapes("softmax", [(2, 3, 4), None], axis=1, use_length=True)[0][1] == (2, 4)
    with pytest.raises(MXNetError, match="length must have the shape"):
        call("softmax", X, length[:, :3], axis=1, use_length=True)


def test_softmax_activation():
    np.testing.assert_allclose(call("SoftmaxActivation", X, mode="channel"), special.softmax(X, axis=1), rtol=2e-5)
    np.testing.assert_allclose(call("SoftmaxActivation", X), special.softmax(X, axis=-1), rtol=2e-5)


def test_softmax_cross_entropy():
    x, label = X[0], np.array([1, 0, 3], "float32")
    picked = special.log_softmax(x, axis=1)[range(3), label.astype(int)]
    np.testing.assert_allclose(call("softmax_cross_entropy", x, label), [-picked.sum()], rtol=1e-5)
    np.testing.assert_allclose(gradients("softmax_cross_entropy", x, label)[0],
                               special.softmax(x, axis=1) - np.eye(4)[label.astype(int)], rtol=1e-4, atol=1e-6)
    certain = np.array([[0, 100]], "float32")
    zero = np.zeros(1, "float32")
    np.testing.assert_allclose(call("softmax_cross_entropy", certain, zero), [-np.log(1e-8)], rtol=1e-6)
    assert gradients("softmax_cross_entropy", certain, zero)[0].tolist() == [[-1, 1]]


def test_only_floats():
    with pytest.raises(MXNetError, match="floating-point"):
        call("softmax", np.array([1, 2]))
