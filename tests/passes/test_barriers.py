"""Barriers: a value that is selected from others is equal to one of them."""

import numpy as np
import pytest

import mxjax as mx

S = mx.sym
CHAINS = {"product and sum": lambda x: x * 1.1 + 0.3, "quotient": lambda x: x / 3 + x * 0.7,
          "function": lambda x: S.tanh(x * 1.3) + x * 0.1}
X = np.random.RandomState(0).randn(20, 2, 3, 4).astype("float32")


@pytest.mark.parametrize("chain", CHAINS)
def test_extremes_are_values_of_their_arrays(chain, at_once):
    y = CHAINS[chain](S.var("x"))
    largest, smallest = S.max(y, axis=2, keepdims=True), S.min(y, axis=2, keepdims=True)
    positions = S.argmax(y, axis=2, keepdims=True)
    equal = [S.sum(S.broadcast_equal(y, z), axis=2) for z in (largest, smallest)]
    whole = mx.nd.CachedOp(S.Group([*equal, S.pick(y, positions, axis=2, keepdims=True) - largest, positions]))
    for x in X:
        *counts, difference, place = [v.asnumpy() for v in whole(mx.nd.array(x))]
        assert (np.stack(counts) == 1).all() and not difference.any()
        np.testing.assert_array_equal(place[..., 0], x.argmax(2))  # the chains increase


def test_a_gradient_goes_to_the_extreme(at_once):
    y = CHAINS["product and sum"](S.var("x"))
    whole = mx.nd.CachedOp(S.max(y, axis=2))
    for x in X:
        array = mx.nd.array(x)
        array.attach_grad()
        with mx.autograd.record():
            out = whole(array)
        out.backward()
        expected = np.where(x == x.max(2, keepdims=True), np.float32(1.1), 0)
        np.testing.assert_allclose(array.grad.asnumpy(), expected, rtol=1e-6)
