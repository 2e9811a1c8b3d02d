"""Random numbers of mx.np: shapes, moments, gradients of what they depend on, seeds."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import np, npx

# call, mean, standard deviation
DRAWS = {
    "uniform": (lambda s: np.random.uniform(1, 3, s), 2, 0.577),
    "normal": (lambda s: np.random.normal(1, 2, s), 1, 2),
    "lognormal": (lambda s: np.random.lognormal(0, 0.5, s), 1.133, 0.604),
    "gamma": (lambda s: np.random.gamma(4, 2, s), 8, 4),
    "logistic": (lambda s: np.random.logistic(1, 1, s), 1, 1.814),
    "gumbel": (lambda s: np.random.gumbel(0, 1, s), 0.577, 1.283),
    "exponential": (lambda s: np.random.exponential(2, s), 2, 2),
    "rayleigh": (lambda s: np.random.rayleigh(1, s), 1.253, 0.655),
    "weibull": (lambda s: np.random.weibull(2, s), 0.886, 0.463),
    "pareto": (lambda s: np.random.pareto(5, s), 0.25, 0.323),
    "power": (lambda s: np.random.power(2, s), 0.667, 0.236),
    "beta": (lambda s: np.random.beta(2, 2, s), 0.5, 0.224),
    "chisquare": (lambda s: np.random.chisquare(4, s), 4, 2.83),
    "randint": (lambda s: np.random.randint(0, 5, s), 2, 1.414),
    "choice": (lambda s: np.random.choice(5, s), 2, 1.414),
    "bernoulli": (lambda s: npx.random.bernoulli(0.25, size=s), 0.25, 0.433),
    "rand": (lambda s: np.random.rand(s), 0.5, 0.289),
    "randn": (lambda s: np.random.randn(s), 0, 1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_moments(name):
    mx.random.seed(7)
    draw, mean, deviation = DRAWS[name]
    values = draw(20000).asnumpy().astype("float64")
    assert values.shape == (20000,)
    assert abs(values.mean() - mean) < 0.05 * max(1, deviation) and abs(values.std() - deviation) < 0.06 * deviation


def test_arrays_as_parameters():
    loc = np.array([0.0, 100.0])
    assert np.random.normal(loc, 1).shape == (2,) and np.random.normal(loc, 1, size=(3, 2)).shape == (3, 2)
    assert npx.random.normal_n(loc, 1, batch_shape=(5,)).shape == (5, 2)
    assert np.random.uniform().shape == () and np.random.uniform(size=(0, 2)).shape == (0, 2)
    assert np.random.exponential(np.ones(3)).shape == (3,)
    with pytest.raises(mx.MXNetError):
        np.random.normal(np.zeros((3,)), 1, size=(2,))


@pytest.mark.parametrize("draw", [lambda a: np.random.normal(0, a), lambda a: np.random.exponential(a),
                                  lambda a: np.random.weibull(a), lambda a: np.random.gumbel(a, 1)])
def test_gradients_reach_the_parameters(draw):
    a = np.array([1.0, 2.0])
    a.attach_grad()
    with mx.autograd.record():
        loss = draw(a).sum()
    loss.backward()
    assert onp.isfinite(a.grad.asnumpy()).all() and a.grad.asnumpy().any()


def test_seed_and_shuffle():
    npx.random.seed(3)
    a = np.random.uniform(size=(4,)).tolist()
    npx.random.seed(3)
    assert np.random.uniform(size=(4,)).tolist() == a
    rows = np.arange(6).reshape(3, 2)
    np.random.shuffle(rows)
    assert sorted(rows[:, 0].tolist()) == [0, 2, 4] and (rows[:, 1] - rows[:, 0]).tolist() == [1, 1, 1]


def test_counts():
    assert np.random.multinomial(10, [0.2, 0.8], size=3).sum(axis=1).tolist() == [10, 10, 10]
    with pytest.raises(ValueError, match="sum"):
        np.random.multinomial(10, [0.9, 0.8, 0.1])
    assert sorted(np.random.choice(4, 4, replace=False).tolist()) == [0, 1, 2, 3]
    assert np.random.choice(np.array([5.0, 6.0]), 10).min() >= 5
    assert np.random.multivariate_normal(np.zeros(2), np.eye(2), size=(3,)).shape == (3, 2)


@pytest.mark.parametrize("call", [
    lambda bad: np.random.normal(0.0, bad, (2,)), lambda bad: np.random.gamma(1.0, bad),
    lambda bad: np.random.beta(bad, 1), lambda bad: np.random.pareto(bad),
    lambda bad: npx.random.bernoulli(bad), lambda bad: npx.random.bernoulli(3 + bad)])
@pytest.mark.parametrize("array", [False, True])
def test_impossible_parameters_are_an_error_at_the_first_look(call, array):
    draws = call(np.array([0.5, -1.0]) if array else -1.0)
    with pytest.raises(ValueError, match="must be"):
        draws.asnumpy()


def test_bernoulli_takes_one_of_two_parameters():
    with pytest.raises(ValueError, match="Either"):
        npx.random.bernoulli()
