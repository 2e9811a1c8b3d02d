"""`mx.nd.contrib` and `mx.nd.random`: functions that are more than one operator. Numbers of MXNet 1.9.1 and 2.0."""

import numpy as np
import pytest

import mxjax as mx

C = mx.nd.contrib


def test_numbers_that_are_not_finite():
    x = mx.nd.array([1, np.nan, np.inf, -np.inf])
    assert C.isfinite(x).asnumpy().tolist() == [1, 0, 0, 0] and C.isnan(x).asnumpy().tolist() == [0, 1, 0, 0]
    assert C.isinf(x).asnumpy().tolist() == [0, 0, 1, 1]


def lists(low):
    """Weights, gradients and states, of two lengths; for 16-bit weights also those in 32 bits."""
    dtype = "float16" if low else "float32"
    made = [mx.nd.ones(2, dtype=dtype), mx.nd.full(3, 2, dtype=dtype)], \
        [mx.nd.full(2, 0.5, dtype=dtype), mx.nd.ones(3, dtype=dtype)], *[[mx.nd.zeros(2), mx.nd.zeros(3)] for _ in "mv"]
    return (*made, [mx.nd.ones(2), mx.nd.full(3, 2)]) if low else made


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("name, extra, options, weights, means", [
    ("adamw", mx.nd.ones(1), {"etas": [1, 1]}, (0.683774, 1.167546), (0.05, 0.1)),
    ("adabelief", mx.nd.ones(1), {"etas": [1, 1]}, (0.6486, 1.2973), (0.05, 0.12)),
    ("lamb", [1, 1], {}, (0.9, 1.6), (0.05, 0.1)), ("lans", [1, 1], {}, (0.9, 1.6), (0.0707, 0.0577))])
def test_updates_of_lists(name, extra, options, weights, means, low):
    arrays = lists(low)
    function = getattr(C, f"multi_{'mp_' if low else ''}{name}_update")
    found = function(*arrays, extra, out=arrays[0], lrs=[0.1, 0.2], wds=[0, 0.1], **options)
    for place in range(2):
        assert found[place] is arrays[0][place]
        np.testing.assert_allclose(found[place].asnumpy(), weights[place], rtol=1e-3)
        np.testing.assert_allclose(arrays[2][place].asnumpy(), means[place], rtol=2e-3)
        if low:
            np.testing.assert_allclose(arrays[4][place].asnumpy(), weights[place], rtol=1e-4)


def test_one_update_with_32_bits():
    weight, weight32 = mx.nd.ones(2, dtype="float16"), mx.nd.ones(2)
    mean, variance = mx.nd.zeros(2), mx.nd.zeros(2)
    C.mp_adabelief_update(weight, weight * 1, mean, variance, weight32, 1.0, lr=0.1, wd=0.1, eta=1, out=weight)
    np.testing.assert_allclose(weight32.asnumpy(), 0.6486, rtol=1e-4)
    np.testing.assert_allclose(weight.asnumpy(), 0.6484, rtol=1e-4)
    np.testing.assert_allclose(mean.asnumpy(), 0.11, rtol=1e-5)


def test_loops():
    outs, last = C.while_loop(lambda i: "a", lambda i: (i, i + 1), mx.nd.zeros(1), max_iterations=3)
    assert outs.asnumpy().tolist() == [[0], [1], [2]] and last.asscalar() == 3
    assert C.cond("a", lambda: mx.nd.ones(1), lambda: mx.nd.zeros(1)).asscalar() == 1


@pytest.mark.parametrize("call, error, told", [
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), mx.nd.zeros(1)), ValueError, "should be specified"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [], 3), ValueError, "at least one element"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), mx.nd.zeros(1), "a"), ValueError, "Cannot convert"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (mx.nd.ones(int(i.asscalar()) + 1), i + 1), mx.nd.zeros(1), 3),
     ValueError, r"outputs of step 1 have shapes \[\(2,\)\], but those of step 0 have shapes \[\(1,\)\]"),
    (lambda: C.rand_zipfian(3, 2, 5), mx.MXNetError, "true_classes must be an NDArray, got int"),
])
def test_mistakes_are_named(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_normal_numbers_by_their_shape():
    mx.random.seed(3)
    wide = mx.nd.random.randn(2, 3)
    np.testing.assert_allclose(wide[0].asnumpy(), [-1.6361, -1.9028, -0.8918], atol=6e-5)
    near = mx.nd.random.randn(2, loc=5, scale=0.1, dtype="float64")
    assert near.dtype == np.float64 and (abs(near.asnumpy() - 5) < 1).all() and near.shape == (2,)
    assert mx.nd.random.binomial(3, 1, shape=2).asnumpy().tolist() == [3, 3]
