"""Arrays out of nothing: constants, ranges, random numbers and densities."""

import numpy as np
import pytest
import scipy.stats
from opcall import call, gradients, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.ops import registry


def test_constants():
    assert call("_zeros", shape=(2,), dtype="bool").tolist() == [False, False]
    assert call("_ones", shape=(2, 1)).tolist() == [[1], [1]]
    assert call("_full", shape=(2,), value=3.7, dtype="int32").tolist() == [3, 3]
    wide = call("_full", shape=(1,), value=2**53, dtype="int64")
    assert wide.dtype == np.int64 and wide[0] == 2**53
    np.testing.assert_array_equal(call("_eye", N=2, M=3, k=1), np.eye(2, 3, 1))
    assert call("ones_like", np.zeros(2, "int8")).dtype == np.int8
    assert partial_shapes("_zeros", [], [(None, 3)], shape=(2, 0)) == ([], [(2, 3)])
    assert not registry.get("_zeros").get_attr("FShapeKnown")({"shape": (0, 2)})


@pytest.mark.parametrize("params, expected", [
    ({"start": 5}, [0, 1, 2, 3, 4]), ({"start": 5, "stop": 0, "step": -2}, [5, 3, 1]),
    ({"start": 0, "stop": 2, "repeat": 2}, [0, 0, 1, 1]), ({"start": 0.5, "stop": 3, "dtype": "int32"}, [0, 1, 2]),
    ({"start": 2**40, "stop": 2**40 + 2, "dtype": "int64"}, [2**40, 2**40 + 1])])
def test_arange(params, expected):
    assert call("_arange", **params).tolist() == expected


def test_other_ranges():
    np.testing.assert_array_equal(call("_arange", start=0, stop=1, step=0.1, dtype="float64"), np.arange(0, 1, 0.1))
    np.testing.assert_allclose(call("_linspace", start=0, stop=1, num=5, endpoint=False), [0, 0.2, 0.4, 0.6, 0.8])
    x = np.zeros((2, 4), "float32")
    assert call("_contrib_arange_like", x, start=1).tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert call("_contrib_arange_like", x, axis=-1, repeat=2, step=0.5).tolist() == [0, 0, 0.5, 0.5]
    assert partial_shapes("_arange", [], start=1, stop=4)[1] == [(3,)]


MOMENTS = {  # name: parameters, mean, variance
    "uniform": ({"low": 2.0, "high": 4.0}, 3, 1 / 3), "normal": ({"loc": 1.0, "scale": 2.0}, 1, 4),
    "gamma": ({"alpha": 3.0, "beta": 0.5}, 1.5, 0.75), "exponential": ({"lam": 4.0}, 1 / 4, 1 / 16),
    "poisson": ({"lam": 4.0}, 4, 4), "negative_binomial": ({"k": 3, "p": 0.4}, 4.5, 11.25),
    "generalized_negative_binomial": ({"mu": 2.0, "alpha": 0.3}, 2, 3.2)}


@pytest.mark.parametrize("name", MOMENTS)
def test_random_numbers_have_their_moments(name):
    parameters, mean, variance = MOMENTS[name]
    arrays = [np.array([v, v], "float32") for v in parameters.values()]
    draws = [call(f"_sample_{name}", *arrays, shape=(10000,))]
    if name in ("uniform", "normal", "exponential"):  # the others take seconds to compile
        draws += [call(f"_random_{name}", shape=(20000,), **parameters),
                  call(f"_random_{name}_like", np.zeros(20000, "float32"), **parameters)]
    for drawn in draws:
        assert drawn.size == 20000 and drawn.dtype == np.float32
        assert abs(drawn.mean() - mean) < 5 * (variance / 20000) ** 0.5
        assert abs(drawn.var() - variance) < 0.15 * variance
    check = registry.get(f"_random_{name}").get_attr("FCheck")
    assert check(parameters) is None
    assert isinstance(check({n: -5.0 - i for i, n in enumerate(parameters)}), MXNetError)


def test_dtypes_of_random_numbers():
    assert call("_random_normal", shape=(3,), dtype="float64").dtype == np.float64
    assert call("_random_normal", shape=(3,), dtype="float16").dtype == np.float16
    assert call("_random_normal").shape == (1,)
    assert call("_sample_uniform", np.zeros(2, "int32"), np.ones(2, "int32")).dtype == np.float32
    wide = call("_random_randint", low=2**40, high=2**40 + 5, shape=(50,), dtype="int64")
    assert wide.dtype == np.int64 and set(wide.tolist()) == set(range(2**40, 2**40 + 5))


def test_multinomial():
    sure = np.array([[0, 0, 1.0], [1, 0, 0]], "float32")
    assert call("_sample_multinomial", sure, shape=(2, 1)).tolist() == [[[2], [2]], [[0], [0]]]
    assert call("_sample_multinomial", sure[0]).tolist() == [2]
    fair = np.full((1, 4), 0.25, "float32")
    classes, logs = call("_sample_multinomial", fair, shape=8000, get_prob=True, dtype="float64")
    assert classes.dtype == np.float64 and np.abs(np.bincount(classes[0].astype(int)) - 2000).max() < 200
    np.testing.assert_allclose(logs, np.log(0.25), rtol=1e-6)
    slope = gradients("_sample_multinomial", sure[0], heads=[np.zeros(1, "int32"), np.ones(1, "float32")],
                      get_prob=True)[0]
    assert slope.tolist() == [0, 0, 1]


def test_classes_of_a_zipfian_are_those_of_mxnet():
    mx.random.seed(2)
    drawn, true, expected = mx.nd.contrib.rand_zipfian(mx.nd.array([3]), 6, 50)
    assert drawn.asnumpy().tolist() == [8, 14, 1, 0, 48, 0]
    np.testing.assert_allclose(true.asnumpy(), [0.3405189937], rtol=1e-9)
    np.testing.assert_allclose(expected.asnumpy()[:3], [0.1607810602, 0.0984863427, 0.6187432699], rtol=1e-9)


def test_unique_zipfian():
    classes, tries = call("_sample_unique_zipfian", range_max=100, shape=(3, 50))
    assert classes.shape == (3, 50) and classes.dtype == np.int64 and classes.min() >= 0 and classes.max() < 100
    assert all(len(set(row)) == 50 for row in classes.tolist()) and (tries >= 50).all()
    assert (classes < 10).sum() > (classes >= 90).sum()


def test_shuffle_keeps_rows():
    rows = np.arange(200, dtype="float32").reshape(100, 2)
    mixed = call("_shuffle", rows)
    assert (mixed != rows).any() and sorted(map(tuple, mixed)) == sorted(map(tuple, rows))


DENSITIES = {
    "uniform": ([0.5, 2.5], scipy.stats.uniform(0.5, 2).pdf), "normal": ([1.0, 2.0], scipy.stats.norm(1, 2).pdf),
    "gamma": ([3.0, 2.0], scipy.stats.gamma(3, scale=1 / 2).pdf),
    "exponential": ([2.0], scipy.stats.expon(scale=1 / 2).pdf),
    "poisson": ([2.0], scipy.stats.poisson(2).pmf), "negative_binomial": ([3.0, 0.4], scipy.stats.nbinom(3, 0.4).pmf),
    "generalized_negative_binomial": ([2.0, 0.5], scipy.stats.nbinom(2, 0.5).pmf)}


@pytest.mark.parametrize("name", DENSITIES)
def test_densities(name):
    parameters, reference = DENSITIES[name]
    x = np.array([[1, 2, 2]], "float32")
    arrays = [np.array([p], "float32") for p in parameters]
    np.testing.assert_allclose(call(f"_random_pdf_{name}", x, *arrays), reference(x), rtol=1e-5)
    np.testing.assert_allclose(call(f"_random_pdf_{name}", x, *arrays, is_log=True), np.log(reference(x)), rtol=1e-5)


def test_dirichlet_density():
    x, alpha = np.array([[[0.3, 0.7], [0.5, 0.5]]], "float32"), np.array([[1, 2]], "float32")
    np.testing.assert_allclose(call("_random_pdf_dirichlet", x, alpha), [[1.4, 1.0]], rtol=1e-5)


@pytest.mark.parametrize("name, arrays, params, message", [
    ("_arange", (), {"start": 5, "stop": 5}, "invalid"),
    ("_arange", (), {"start": 0, "stop": 5, "step": 0}, "invalid"),
    ("_linspace", (), {"start": 0, "stop": 1, "num": -1}, "num"), ("_full", (), {"shape": (2,)}, "value"),
    ("_random_normal_like", (np.zeros(2, "int32"),), {}, "floating-point dtype"),
    ("_sample_normal", (np.zeros(2, "float32"), np.ones(3, "float32")), {}, "the same shape"),
    ("_sample_unique_zipfian", (), {"range_max": 3, "shape": (1, 4)}, "at most"),
    ("_random_pdf_normal", (np.zeros(2, "float32"),) + (np.ones(1, "float32"),) * 2, {}, "must begin with")])
def test_mistakes_are_named(name, arrays, params, message):
    with pytest.raises(MXNetError, match=message):
        call(name, *arrays, **params)


@pytest.mark.parametrize("draw", [
    lambda: mx.nd.random.uniform(shape=(-1, 2)), lambda: mx.nd.random.normal(shape=-1),
    lambda: mx.nd.random.exponential(shape=(2, -3)), lambda: mx.nd.random.randint(0, 3, shape=(-1, 2)),
    lambda: mx.nd.random.uniform(mx.nd.zeros(2), mx.nd.ones(2), shape=-1)])
def test_shapes_with_negative_lengths_are_refused(draw):
    with pytest.raises(mx.MXNetError, match="not contain negative sizes"):
        draw().wait_to_read()
