"""Output layers: values, and gradients that do not depend on the head gradient."""

import numpy as np
import pytest
import scipy.special as special
from opcall import call, gradients, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3)).astype("float32")
LABEL = np.array([0, 2, 1, 2], "float32")
P, HOT = special.softmax(X, axis=1), np.eye(3)[LABEL.astype(int)]
SMOOTH = 0.9 * HOT + 0.05 * (1 - HOT)
KEPT = (LABEL != 2)[:, None]


@pytest.mark.parametrize("params, gradient", [
    ({}, P - HOT), ({"grad_scale": 2.0}, 2 * (P - HOT)), ({"normalization": "batch"}, (P - HOT) / 4),
    ({"smooth_alpha": 0.1}, P - SMOOTH), ({"use_ignore": True, "ignore_label": 2}, KEPT * (P - HOT)),
    ({"use_ignore": True, "ignore_label": 2, "normalization": "valid"}, KEPT * (P - HOT) / 2),
    ({"normalization": "valid"}, (P - HOT) / 4),
    # MXNet 1.9 multiplies by the output
    ({"out_grad": True}, (P - HOT) * P),
])
def test_softmax_output(params, gradient):
    np.testing.assert_allclose(call("SoftmaxOutput", X, LABEL, **params), P, rtol=1e-5)
    for head in (np.ones_like(X), X):
        found, none = gradients("SoftmaxOutput", X, LABEL, heads=[head], **params)
        np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-6)
        assert not none.any()


@pytest.mark.parametrize("normalization, divisor", [("null", 5), ("batch", 10), ("valid", 10)])
def test_softmax_output_with_positions(normalization, divisor):
    data = RNG.normal(size=(2, 3, 5)).astype("float32")
    label = RNG.integers(0, 3, (2, 5)).astype("float32")
    p = special.softmax(data, axis=1)
    wanted = (p - np.moveaxis(np.eye(3)[label.astype(int)], 2, 1)) / divisor
    np.testing.assert_allclose(gradients("SoftmaxOutput", data, label, multi_output=True,
                                         normalization=normalization)[0], wanted, rtol=1e-4, atol=1e-6)


def test_softmax_output_labels():
    assert partial_shapes("SoftmaxOutput", [(4, 3), None])[0][1] == (4,)
    assert partial_shapes("SoftmaxOutput", [(2, 3, 4, 5), None], multi_output=True)[0][1] == (2, 20)
    assert partial_shapes("SoftmaxOutput", [(2, 3, 4), None], preserve_shape=True)[0][1] == (2, 3)
    assert partial_shapes("SoftmaxOutput", [(4, 3), (4, 3)])[0][1] == (4, 3)
    np.testing.assert_allclose(gradients("SoftmaxOutput", X, HOT.astype("float32"))[0], P - HOT, rtol=1e-4, atol=1e-6)
    data = np.stack([X, X])
    np.testing.assert_allclose(gradients("Softmax", data, np.stack([LABEL, LABEL]), preserve_shape=True)[0],
                               np.stack([P - HOT] * 2), rtol=1e-4, atol=1e-6)
    with pytest.raises(MXNetError, match="label"):
        partial_shapes("SoftmaxOutput", [(2, 3, 4), (2, 5)], multi_output=True)


@pytest.mark.parametrize("name, value, slope", [
    ("LinearRegressionOutput", X, X - P), ("MAERegressionOutput", X, np.sign(X - P)),
    ("LogisticRegressionOutput", special.expit(X), special.expit(X) - P)])
def test_regression(name, value, slope):
    np.testing.assert_allclose(call(name, X, P), value, rtol=1e-5)
    np.testing.assert_allclose(gradients(name, X, P, grad_scale=2.0)[0], 2 * slope / 3, rtol=1e-4, atol=1e-6)
    assert partial_shapes(name, [(4, 1), None])[0][1] == (4,)
    for label in (P[:2], P.ravel(), P.T, P[None]):  # of another size, or for another number of instances
        with pytest.raises(MXNetError, match="does not match"):
            call(name, X, label)
    np.testing.assert_allclose(call(name, X, P[..., None]), value, rtol=1e-5)


@pytest.mark.parametrize("name", ["SoftmaxOutput", "SVMOutput"])
def test_labels_of_another_shape_are_refused(name):
    for shape in ((3,), (1,), (2, 1), (1, 2)):
        with pytest.raises(MXNetError, match="label"):
            call(name, np.ones((2, 3), "float32"), np.zeros(shape, "float32"))


def test_absolute_error_of_zero_goes_down():
    x = np.array([[1, 2, 0]], "float32")
    np.testing.assert_allclose(gradients("MAERegressionOutput", x, np.ones_like(x))[0] * 3, [[-1, 1, -1]], rtol=1e-6)


@pytest.mark.parametrize("linear", [True, False])
def test_svm(linear):
    sign = np.where(HOT, -1, 1)
    slack = 0.5 + sign * X
    wanted = 0.1 * sign * ((slack > 0) if linear else 2 * np.maximum(slack, 0))
    np.testing.assert_array_equal(call("SVMOutput", X, LABEL), X)
    np.testing.assert_allclose(gradients("SVMOutput", X, LABEL, margin=0.5, regularization_coefficient=0.1,
                                         use_linear=linear)[0], wanted, rtol=1e-5, atol=1e-7)


def test_sparseness_penalty():
    data, average = special.expit(X), np.full(3, 0.3, "float32")
    moved = 0.9 * average + 0.1 * data.mean(0)
    wanted = 1 + 0.01 * ((1 - 0.2) / (1 - moved) - 0.2 / moved)
    found = gradients("IdentityAttachKLSparseReg", data, average, sparseness_target=0.2, penalty=0.01)[0]
    np.testing.assert_allclose(found, np.broadcast_to(wanted, X.shape), rtol=1e-5)
    np.testing.assert_array_equal(call("IdentityAttachKLSparseReg", data, average, train=True), data)


def test_predictions_of_images_are_over_the_last_axis():
    """As MXNet's oneDNN: only predictions of 4-D data; training takes all values of a sample."""
    data, symbol = np.random.RandomState(0).rand(2, 4, 3, 2), mx.sym.SoftmaxOutput(mx.sym.var("data"), name="softmax")
    for dtype, train, axes in (("float32", False, 3), ("float32", True, (1, 2, 3)), ("float64", False, (1, 2, 3))):
        x = data.astype(dtype)
        executor = symbol.bind(mx.cpu(), {"data": mx.nd.array(x, dtype=dtype),
                                          "softmax_label": mx.nd.zeros((2, 4, 3), dtype=dtype)})
        got = executor.forward(is_train=train)[0].asnumpy()
        np.testing.assert_allclose(got, np.exp(x) / np.exp(x).sum(axes, keepdims=True), rtol=1e-5)


def _penalized(steps):
    """The moving average (and gradients) after each step of an executor: f forward in training, b backward."""
    sym = mx.sym.IdentityAttachKLSparseReg(mx.sym.var("d"), sparseness_target=0.1, penalty=0.5, momentum=0.9, name="k")
    bound = sym.simple_bind(mx.cpu(), d=(2, 2))
    bound.arg_dict["d"][:] = mx.nd.array([[0.2, 0.4], [0.6, 0.3]])
    average = bound.aux_dict["k_moving_avg"]
    average[:] = mx.nd.array([0.5, 0.25])
    seen = []
    for step in steps:
        if step == "f":
            bound.forward(is_train=True)
        else:
            bound.backward(mx.nd.ones((2, 2)))
            seen.append(bound.grad_dict["d"][0].asnumpy())
        seen.append(average.asnumpy())
    return seen


def test_sparseness_average_moves_in_the_backward():
    """Recorded from MXNet: once for each backward pass, and not in a forward without one."""
    first, second, gradient, moved = _penalized("ffb")
    np.testing.assert_allclose([first, second], [[0.5, 0.25]] * 2)
    np.testing.assert_allclose(gradient, [1.7803, 1.4158], atol=1e-4)
    np.testing.assert_allclose(moved, [0.49, 0.26], atol=1e-6)
    np.testing.assert_allclose(_penalized("fbfb")[-1], [0.481, 0.269], atol=1e-6)
    data, average = mx.nd.array([[0.2, 0.4], [0.6, 0.3]]), mx.nd.array([0.5, 0.25])
    data.attach_grad()
    with mx.autograd.record():
        out = mx.nd.IdentityAttachKLSparseReg(data, average, sparseness_target=0.1, penalty=0.5)
    np.testing.assert_allclose(average.asnumpy(), [0.5, 0.25])
    out.backward()
    np.testing.assert_allclose(average.asnumpy(), [0.49, 0.26], atol=1e-6)
