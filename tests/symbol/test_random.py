"""`mx.sym.random`: the numbers of MXNet 1.9.1 for the seed 3."""

import numpy as np
import pytest

import mxjax as mx

V, W = mx.sym.var("v"), mx.sym.var("w")
R = mx.sym.random


@pytest.mark.parametrize("graph, inputs, wanted", [
    (R.poisson(4, shape=3), {}, [4, 3, 3]), (R.poisson(4, shape=(3,), dtype="float64"), {}, [4, 3, 3]),
    (R.exponential(2, shape=3), {}, [1.7604, 1.0952, 1.1646]), (R.gamma(2, 3, shape=3), {}, [0.9633, 1.6751, 0.684]),
    (R.negative_binomial(2, 0.5, shape=3), {}, [0, 0, 0]),
    (R.generalized_negative_binomial(2, 0.5, shape=3), {}, [0, 0, 0]),
    (R.uniform(0, 1, shape=2), {}, [0.5853, 0.4217]), (R.normal(0, 1, shape=2), {}, [-1.6361, -1.9028]),
    (R.randint(0, 10, shape=3), {}, [9, 1, 4]), (R.shuffle(V), {"v": [1, 2, 3, 4]}, [1, 4, 2, 3]),
    (R.uniform(V, W), {"v": [0, 10], "w": [1, 20]}, [0.5853, 14.2166]),
    (R.poisson(V, shape=2), {"v": [1, 10]}, [[1, 1], [9, 7]]), (R.exponential(V), {"v": [1, 10]}, [0.8802, 5.4759]),
    (R.gamma(V, W), {"v": [1, 10], "w": [1, 2]}, [0.0244, 12.8703]),
    (R.multinomial(V, shape=3), {"v": [0.1, 0.9]}, [1, 1, 1]),
    (R.uniform(), {}, [0.5853]), (R.poisson(), {}, [1]),  # where MXNet finds no shape
])
def test_draws(graph, inputs, wanted):
    mx.random.seed(3)
    found = graph.bind(mx.cpu(), {name: mx.nd.array(value) for name, value in inputs.items()}).forward()
    np.testing.assert_allclose(found[0].asnumpy(), wanted, atol=6e-5)
    if len(found) == 2:  # logarithms of probabilities
        np.testing.assert_allclose(found[1].asnumpy(), np.log([0.9] * 3), rtol=1e-5)


def test_dtypes_and_names():
    assert R.poisson(4, shape=3, dtype="float64").infer_type()[1] == [np.float64]
    assert R.poisson(4, shape=3, name="a").list_outputs() == ["a_output"] == R.shuffle(V, name="a").list_outputs()
    assert R.multinomial(V, name="a").list_outputs() == ["a_output0", "a_output1"]
    for name in ("negative_binomial", "generalized_negative_binomial"):
        assert getattr(R, name)(V, W, shape=2).infer_shape(v=(3,), w=(3,))[1] == [(3, 2)]
    for wrong in ((V, 1), (1, V), (1, "a"), ("a", 1)):
        with pytest.raises((AssertionError, ValueError), match="must all be Symbol or all be numbers"):
            R.uniform(*wrong)
