"""Initializers: which rule fits which name, and the distributions."""

import json
import math

import numpy as np
import pytest

import mxjax as mx
from mxjax import initializer as I
from mxjax.initializer import InitDesc


def filled(init, name="x_weight", shape=(60, 50), attrs=None, dtype="float32"):
    array = mx.nd.zeros(shape, dtype=dtype) - 7
    init(InitDesc(name, attrs), array)
    return array.asnumpy()


@pytest.mark.parametrize("name, value", [
    ("a_weight", 3), ("a_bias", 0), ("a_gamma", 1), ("a_beta", 0), ("a_min", 0), ("a_max", 1), ("a_bias_quantize", 0)])
def test_rule_by_ending(name, value):
    assert (filled(I.Constant(3), name, (4,)) == value).all()


def test_unknown_name():
    with pytest.raises(ValueError, match="'strange'"):
        filled(I.One(), "strange")


def test_variables_own_initializer_wins():
    assert (filled(I.Zero(), "a_bias", (4,), {"__init__": I.Constant(5).dumps()}) == 5).all()


@pytest.mark.parametrize("name, value", [
    ("upsampling0_weight", None), ("stn_loc_fc_weight", 0), ("bn_moving_var", 1), ("bn_moving_mean", 0),
    ("w_weight", 3)])
def test_plain_names_follow_the_old_rules(name, value):
    array = mx.nd.zeros((1, 1, 4, 4))
    with pytest.warns(DeprecationWarning):
        I.Constant(3)(name, array)
    expected = np.outer([0.25, 0.75, 0.75, 0.25], [0.25, 0.75, 0.75, 0.25]) if value is None else value
    assert (array.asnumpy() == expected).all()


@pytest.mark.parametrize("init, low, high, deviation", [
    (I.Uniform(0.5), -0.5, 0.5, 0.5 / math.sqrt(3)),
    (I.Normal(0.3), -np.inf, np.inf, 0.3),
    (I.Xavier(), -math.sqrt(3 / 55), math.sqrt(3 / 55), math.sqrt(1 / 55)),
    (I.Xavier("gaussian", "in", 2), -np.inf, np.inf, math.sqrt(2 / 50)),
    (I.MSRAPrelu("out", 0.0), -np.inf, np.inf, math.sqrt(2 / 60)),
])
def test_random(init, low, high, deviation):
    mx.random.seed(5)
    values = filled(init)
    assert low <= values.min() and values.max() <= high
    assert abs(values.mean()) < 4 * deviation / math.sqrt(values.size)
    assert abs(values.std() / deviation - 1) < 0.1
    mx.random.seed(5)
    assert (filled(init) == values).all(), "a seed fixes the values"


def test_dtype_is_the_parameters():
    assert filled(I.Uniform(), dtype="float16").dtype == np.float16


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 3, 2)])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_orthogonal(shape, kind):
    matrix = filled(I.Orthogonal(scale=2.0, rand_type=kind), shape=shape).reshape(shape[0], -1)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-4)


def test_bilinear():
    row = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(filled(I.Bilinear(), shape=(2, 1, 4, 4))[1, 0], np.outer(row, row))


def test_lstm_bias():
    assert filled(I.LSTMBias(2.0), "x_weight", (8,)).tolist() == [0, 0, 2, 2, 0, 0, 0, 0]
    assert filled(I.LSTMBias(2.0), "x_weight", (4, 2)).tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]


def test_load_and_mixed():
    init = I.Load({"arg:a": mx.nd.ones((2,)), "aux:b": mx.nd.zeros((3,))}, default_init=I.Constant(4))
    a, other = mx.nd.zeros((2,)), mx.nd.zeros((2,))
    init(InitDesc("a"), a)
    init(InitDesc("c_weight"), other)
    assert a.asnumpy().tolist() == [1, 1] and other.asnumpy().tolist() == [4, 4]
    with pytest.raises(AssertionError, match="parameter b has shape .*loaded"):
        init("b", a)
    mixed = I.Mixed([".*bias", ".*"], [I.Zero(), I.Constant(2)])
    mixed(InitDesc("a_weight"), a)
    assert a.asnumpy().tolist() == [2, 2]
    with pytest.raises(AssertionError, match="expected one initializer per pattern .2., got 1"):
        I.Mixed(["a", "b"], [I.Zero()])
    with pytest.raises(ValueError, match="no pattern"):
        I.Mixed(["a"], [I.Zero()])("b", a)


@pytest.mark.parametrize("init", [I.Uniform(0.1), I.Xavier("gaussian", "in", 2), I.MSRAPrelu(), I.Constant(1.5),
                                  I.LSTMBias(2.0), I.Zero(), I.FusedRNN(I.One(), 4, 1, "lstm")],
                         ids=lambda init: type(init).__name__)
def test_dumps_round_trip(init):
    again = I.create(init.dumps())
    assert type(again) is type(init) and again == init and again.dumps() == init.dumps()


def test_constant_array_dumps():
    assert json.loads(I.Constant(mx.nd.ones((2,))).dumps()) == ["constant", {"value": [1.0, 1.0]}]


def test_verbosity(caplog):
    import logging
    with caplog.at_level(logging.INFO):
        filled(I.One().set_verbosity(True), "x_weight", (4,))
    assert caplog.messages == ["Initialized x_weight as weight: 1.0"]
