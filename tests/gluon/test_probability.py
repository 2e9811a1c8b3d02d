"""`mx.gluon.probability`, against SciPy, numerical integration and samples."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats as st

import mxjax as mx
from mxjax.gluon import probability as P


@pytest.fixture(autouse=True)
def numpy_arrays():
    with mx.util.np_array(True), mx.util.np_shape(True):
        mx.random.seed(7)
        yield


def A(values, dtype="float32"):  # noqa: N802
    return mx.np.array(np.array(values, dtype), dtype=dtype)


ONE, TWO = np.array([0.7, 2.5]), np.array([1.5, 3.2])
PROB = np.array([0.3, 0.6])

# distribution, its parameters, SciPy's; what each has is compared
CONTINUOUS = {
    "Normal": (lambda a, b: P.Normal(a, b), (ONE, TWO), lambda a, b: st.norm(a, b)),
    "Laplace": (lambda a, b: P.Laplace(a, b), (ONE, TWO), lambda a, b: st.laplace(a, b)),
    "Cauchy": (lambda a, b: P.Cauchy(a, b), (ONE, TWO), lambda a, b: st.cauchy(a, b)),
    "Gumbel": (lambda a, b: P.Gumbel(a, b), (ONE, TWO), lambda a, b: st.gumbel_r(a, b)),
    "Uniform": (lambda a, b: P.Uniform(a, a + b), (ONE, TWO), lambda a, b: st.uniform(a, b)),
    "Exponential": (lambda a: P.Exponential(a), (ONE,), lambda a: st.expon(0, a)),
    "Gamma": (lambda a, b: P.Gamma(a, b), (ONE, TWO), lambda a, b: st.gamma(a, 0, b)),
    "Chi2": (lambda a: P.Chi2(a), (TWO,), lambda a: st.chi2(a)),
    "Beta": (lambda a, b: P.Beta(a, b), (ONE, TWO), lambda a, b: st.beta(a, b)),
    "FisherSnedecor": (lambda a, b: P.FisherSnedecor(a, b), (TWO, 8 + TWO), lambda a, b: st.f(a, b)),
    "StudentT": (lambda d, a, b: P.StudentT(d, a, b), (5 + TWO, ONE, TWO), lambda d, a, b: st.t(d, a, b)),
    "HalfNormal": (lambda a: P.HalfNormal(a), (TWO,), lambda a: st.halfnorm(0, a)),
    "HalfCauchy": (lambda a: P.HalfCauchy(a), (TWO,), lambda a: st.halfcauchy(0, a)),
    "Pareto": (lambda a, b: P.Pareto(a, b), (4 + ONE, TWO), lambda a, b: st.pareto(a, 0, b)),
    "Weibull": (lambda a, b: P.Weibull(a, b), (ONE, TWO), lambda a, b: st.weibull_min(a, 0, b)),
}
DISCRETE = {
    "Bernoulli": (lambda p: P.Bernoulli(p), (PROB,), lambda p: st.bernoulli(p)),
    "Bernoulli logit": (lambda p: P.Bernoulli(logit=P.prob2logit(p)), (PROB,), lambda p: st.bernoulli(p)),
    "Geometric": (lambda p: P.Geometric(p), (PROB,), lambda p: st.geom(p, -1)),
    "Binomial": (lambda p: P.Binomial(5, p), (PROB,), lambda p: st.binom(5, p)),
    "Poisson": (lambda a: P.Poisson(a), (TWO,), lambda a: st.poisson(a)),
}
Q = np.array([[0.1, 0.3], [0.5, 0.62], [0.9, 0.97]])


def close(found, expected, rtol=2e-5, atol=2e-6):
    found = found.asnumpy() if isinstance(found, mx.np.ndarray) else found
    np.testing.assert_allclose(found, np.broadcast_to(expected, np.shape(found)), rtol=rtol, atol=atol)


@pytest.mark.parametrize("row", CONTINUOUS.values(), ids=CONTINUOUS)
def test_continuous(row):
    make, params, reference = row
    ours, theirs = make(*map(A, params)), reference(*params)
    x = theirs.ppf(Q)
    close(ours.log_prob(A(x)), theirs.logpdf(x), rtol=1e-4, atol=1e-5)
    close(ours.pdf(A(x)), theirs.pdf(x), rtol=1e-4)
    for call, expected, argument in ((ours.cdf, Q, x), (ours.icdf, x, Q)):
        try:
            close(call(A(argument)), expected, rtol=1e-4, atol=1e-5)
        except NotImplementedError:
            assert isinstance(ours, P.Gamma | P.Beta | P.FisherSnedecor | P.StudentT)  # which have no formula
    if not isinstance(ours, P.FisherSnedecor):
        close(ours.entropy(), theirs.entropy(), rtol=1e-4, atol=1e-5)
    _compare_moments(ours, theirs)


def _compare_moments(ours, theirs):
    if isinstance(ours, P.Cauchy | P.HalfCauchy):
        assert math.isnan(ours.mean) and math.isnan(ours.variance)
        return
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var(), rtol=1e-4)
    close(ours.stddev, theirs.std(), rtol=1e-4)


@pytest.mark.parametrize("row", DISCRETE.values(), ids=DISCRETE)
def test_discrete(row):
    make, params, reference = row
    ours, theirs = make(*map(A, params)), reference(*params)
    x = np.array([[0.0], [1.0], [1.0]]) * np.ones(2)
    close(ours.log_prob(A(x)), theirs.logpmf(x), rtol=1e-4)
    if not isinstance(ours, P.Binomial | P.Poisson):
        close(ours.entropy(), theirs.entropy(), rtol=1e-4)
    _compare_moments(ours, theirs)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_samples(name):
    """Draws have SciPy's quantiles or moments, and the shapes asked for."""
    make, params, reference = {**CONTINUOUS, **DISCRETE}[name]
    ours, theirs = make(*map(A, params)), reference(*params)
    draws = ours.sample_n(4000)
    assert draws.shape == (4000, 2) and ours.sample().shape == (2,) and ours.sample((3, 2)).shape == (3, 2)
    draws = draws.asnumpy().astype("float64")
    if name in CONTINUOUS:
        for i in range(2):
            args = [p[i] for p in params]
            assert st.kstest(draws[:, i], reference(*args).cdf).pvalue > 1e-4
        return
    np.testing.assert_allclose(draws.mean(axis=0), theirs.mean(), atol=6 * theirs.std().max() / 4000 ** 0.5)
    np.testing.assert_allclose(draws.var(axis=0), theirs.var(), rtol=0.2)


def test_broadcast_to_and_numbers():
    for make, params, _ in [*CONTINUOUS.values(), *DISCRETE.values()]:
        narrow = make(*map(A, params))
        wide = narrow.broadcast_to((3, 2))
        x = A([[0.9, 0.8]]) if isinstance(narrow, P.Beta) else A([[1.0, 1.0]])
        close(wide.log_prob(x), narrow.log_prob(x).asnumpy())
        assert wide.sample().shape == (3, 2) and type(wide) is type(narrow)
    close(P.Normal(0.0, 2.0).log_prob(A([1.0])), st.norm(0, 2).logpdf(1))
    assert P.Gamma(2.0, 3.0).sample().shape == () and P.Exponential(2.0).sample_n((2, 3)).shape == (2, 3)


def test_negative_binomial_is_as_mxnet_has_it():
    """log_prob takes the probability of a success, the moments and samples that of a failure."""
    n, x = np.array([3.0, 5.0]), np.array([2.0, 1.0])
    ours = P.NegativeBinomial(A(n), A(PROB))
    close(ours.log_prob(A(x)), st.nbinom(n, PROB).logpmf(x), rtol=1e-4)
    close(ours.mean, st.nbinom(n, 1 - PROB).mean(), rtol=1e-4)
    close(ours.variance, st.nbinom(n, 1 - PROB).var(), rtol=1e-4)
    close(ours.sample_n(4000).mean(axis=0), st.nbinom(n, 1 - PROB).mean(), rtol=0.1)


# ------------------------------------------------------------------ vectors and classes
CLASSES = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])


@pytest.mark.parametrize("of", ["prob", "logit"])
def test_classes(of):
    given = {of: A(CLASSES if of == "prob" else np.log(CLASSES) + 3)}
    number, hot = P.Categorical(3, **given), P.OneHotCategorical(3, **given)
    close(number.log_prob(A([2, 0])), np.log([0.5, 0.1]))
    close(number.log_prob(A([[2, 0], [1, 1]])), np.log([[0.5, 0.1], [0.3, 0.8]]))
    close(hot.log_prob(A([[0, 0, 1], [1, 0, 0]])), np.log([0.5, 0.1]))
    close(number.entropy(), [st.entropy(row) for row in CLASSES])
    close(hot.mean, CLASSES)
    close(hot.variance, CLASSES * (1 - CLASSES))
    assert number.enumerate_support().asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    close(hot.enumerate_support()[1], [[0, 1, 0]] * 2)
    draws = number.sample_n(4000).asnumpy()
    close(np.stack([(draws == i).mean(axis=0) for i in range(3)], -1), CLASSES, atol=0.04)
    assert number.sample((5, 2)).shape == (5, 2) and hot.sample_n(4).shape == (4, 2, 3)
    assert (hot.sample_n(4).sum(axis=-1).asnumpy() == 1).all()
    assert number.broadcast_to((4, 2)).sample().shape == (4, 2)


def test_multinomial():
    ours = P.Multinomial(3, A(CLASSES), total_count=4)
    x = np.array([[1, 1, 2], [0, 3, 1]])
    close(ours.log_prob(A(x)), [st.multinomial(4, p).logpmf(v) for p, v in zip(CLASSES, x, strict=True)], rtol=1e-4)
    close(ours.mean, 4 * CLASSES)
    draws = ours.sample_n(2000)
    assert draws.shape == (2000, 2, 3) and (draws.sum(axis=-1).asnumpy() == 4).all()
    close(draws.mean(axis=0), 4 * CLASSES, atol=0.15)
    close(draws.var(axis=0), ours.variance.asnumpy(), atol=0.15)


def test_dirichlet():
    alpha = np.array([[0.7, 1.5, 2.0], [3.0, 1.2, 0.9]])
    ours, theirs = P.Dirichlet(A(alpha)), [st.dirichlet(a) for a in alpha]
    close(ours.log_prob(A(CLASSES)), [t.logpdf(v) for t, v in zip(theirs, CLASSES, strict=True)], rtol=1e-4)
    close(ours.mean, [t.mean() for t in theirs])
    close(ours.variance, [t.var() for t in theirs])
    close(ours.entropy(), [t.entropy() for t in theirs], rtol=1e-4)
    draws = ours.sample_n(4000)
    close(draws.mean(axis=0), ours.mean.asnumpy(), atol=0.03)
    close(draws.var(axis=0), ours.variance.asnumpy(), atol=0.02)
    assert ours.sample((5, 2)).shape == (5, 2, 3)


COV = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("given", ["cov", "precision", "scale_tril"])
def test_multivariate_normal(given):
    matrix = {"cov": COV, "precision": np.linalg.inv(COV), "scale_tril": np.linalg.cholesky(COV)}[given]
    loc = np.array([[1.0, -1.0], [0.0, 2.0]])
    ours = P.MultivariateNormal(A(loc), **{given: A(matrix)}, validate_args=True)
    x = np.array([[0.3, 0.4], [1.0, 1.0]])
    close(ours.log_prob(A(x)), [st.multivariate_normal(m, COV).logpdf(v) for m, v in zip(loc, x, strict=True)], 1e-4)
    close(ours.entropy(), st.multivariate_normal(loc[0], COV).entropy(), rtol=1e-4)
    close(ours.cov, COV, rtol=1e-4)
    close(ours.precision, np.linalg.inv(COV), rtol=1e-4)
    close(ours.variance, np.diag(COV), rtol=1e-4)
    draws = ours.sample_n(4000).asnumpy()
    assert draws.shape == (4000, 2, 2)
    close(draws.mean(axis=0), loc, atol=0.12)
    close(np.cov(draws[:, 0].T), COV, atol=0.15)


def test_relaxed():
    """The densities integrate to 1; cold samples are nearly 0 or 1, with the given probability."""
    x = np.linspace(1e-4, 1 - 1e-4, 20001)
    density = P.RelaxedBernoulli(0.7, A(0.3)).pdf(A(x)).asnumpy()
    np.testing.assert_allclose(scipy.integrate.trapezoid(density, x), 1, atol=5e-3)
    cold = P.RelaxedBernoulli(0.05, A(PROB)).sample_n(4000).asnumpy()
    close((cold > 0.5).mean(axis=0), PROB, atol=0.04)
    pair = np.stack([x, 1 - x], -1)
    density = P.RelaxedOneHotCategorical(1.3, 2, A([0.4, 0.6])).log_prob(A(pair)).asnumpy()
    np.testing.assert_allclose(scipy.integrate.trapezoid(np.exp(density), x), 1, atol=5e-3)
    hot = P.RelaxedOneHotCategorical(0.05, 3, A(CLASSES)).sample_n(4000)
    close(hot.mean(axis=0), CLASSES, atol=0.04)


# ------------------------------------------------------------------ divergences
# numbers of which no term vanishes, such as the logarithm of 1 or of gamma(2)
PAIRS = {
    "Normal": (CONTINUOUS["Normal"], (0.3, 1.2), CONTINUOUS["Normal"], (1.1, 2.3)),
    "Laplace": (CONTINUOUS["Laplace"], (0.3, 1.2), CONTINUOUS["Laplace"], (1.1, 2.3)),
    "Cauchy": (CONTINUOUS["Cauchy"], (0.3, 1.2), CONTINUOUS["Cauchy"], (1.1, 2.3)),
    "Gumbel": (CONTINUOUS["Gumbel"], (0.3, 1.2), CONTINUOUS["Gumbel"], (1.1, 2.3)),
    "Uniform": (CONTINUOUS["Uniform"], (0.3, 1.2), CONTINUOUS["Uniform"], (0.1, 2.3)),
    "Exponential": (CONTINUOUS["Exponential"], (0.3,), CONTINUOUS["Exponential"], (1.1,)),
    "Gamma": (CONTINUOUS["Gamma"], (1.3, 1.2), CONTINUOUS["Gamma"], (2.3, 0.7)),
    "Beta": (CONTINUOUS["Beta"], (1.3, 1.2), CONTINUOUS["Beta"], (2.3, 1.7)),
    "HalfNormal": (CONTINUOUS["HalfNormal"], (1.3,), CONTINUOUS["HalfNormal"], (2.3,)),
    "Pareto": (CONTINUOUS["Pareto"], (3.0, 1.2), CONTINUOUS["Pareto"], (2.3, 0.7)),
    "Uniform Normal": (CONTINUOUS["Uniform"], (0.3, 1.2), CONTINUOUS["Normal"], (1.1, 2.3)),
    "Uniform Gumbel": (CONTINUOUS["Uniform"], (0.3, 1.2), CONTINUOUS["Gumbel"], (1.1, 2.3)),
    "Exponential Gumbel": (CONTINUOUS["Exponential"], (1.3,), CONTINUOUS["Gumbel"], (1.1, 2.3)),
    "Exponential Normal": (CONTINUOUS["Exponential"], (1.3,), CONTINUOUS["Normal"], (1.1, 2.3)),
    "Exponential Gamma": (CONTINUOUS["Exponential"], (1.3,), CONTINUOUS["Gamma"], (2.3, 0.7)),
    "Bernoulli": (DISCRETE["Bernoulli"], (0.3,), DISCRETE["Bernoulli"], (0.6,)),
    "Geometric": (DISCRETE["Geometric"], (0.3,), DISCRETE["Geometric"], (0.6,)),
    "Binomial": (DISCRETE["Binomial"], (0.3,), DISCRETE["Binomial"], (0.6,)),
    "Poisson": (DISCRETE["Poisson"], (0.8,), DISCRETE["Poisson"], (1.6,)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_divergences(pair):
    (make_p, _, reference_p), p, (make_q, _, reference_q), q = pair
    found = P.kl_divergence(make_p(*map(A, p)), make_q(*map(A, q)))
    p, q = reference_p(*p), reference_q(*q)
    if hasattr(p, "logpdf") and isinstance(p.dist, st.rv_continuous):
        u = (np.arange(200000) + 0.5) / 200000  # the mean over quantiles
        x = p.ppf(u)
        expected, rtol = (p.logpdf(x) - q.logpdf(x)).mean(), 2e-3
    else:
        x = np.arange(0, 120) if p.support()[1] == np.inf else np.arange(0, p.support()[1] + 1)
        x = x[p.pmf(x) > 1e-200]
        expected, rtol = (p.pmf(x) * (p.logpmf(x) - q.logpmf(x))).sum(), 1e-4
    np.testing.assert_allclose(found.item(), expected, rtol=rtol)


def test_divergences_of_vectors():
    for one, two in [
            (P.Categorical(3, A(CLASSES[:1])), P.Categorical(3, A(CLASSES[1:]))),
            (P.OneHotCategorical(3, A(CLASSES[:1])), P.OneHotCategorical(3, logit=A(np.log(CLASSES[1:]) + 2)))]:
        close(P.kl_divergence(one, two), st.entropy(*CLASSES), rtol=1e-4)
    one, two = (P.Dirichlet(A([a])) for a in ([0.7, 1.5, 2.0], [3.0, 1.2, 0.9]))
    close(P.kl_divergence(one, two), P.empirical_kl(one, two, 20000).asnumpy(), rtol=0.05)
    loc = A([[1.0, -1.0]])
    one, two = P.MultivariateNormal(loc, cov=A([COV])), P.MultivariateNormal(loc * 0, precision=A([COV]))
    m, inv = np.array([1.0, -1.0]), np.linalg.inv(COV)
    expected = 0.5 * (np.trace(COV @ COV) + m @ COV @ m - 2 + math.log(np.linalg.det(inv) / np.linalg.det(COV)))
    close(P.kl_divergence(one, two), expected, rtol=1e-4)


def test_where_divergences_are_not_finite_or_not_known():
    assert P.kl_divergence(P.Uniform(A(0.0), A(2.0)), P.Uniform(A(0.0), A(1.0))).item() == math.inf
    assert math.isnan(P.kl_divergence(P.Pareto(A(2.0), A(1.0)), P.Pareto(A(2.0), A(1.5))).item())
    with pytest.raises(NotImplementedError, match="Normal and Poisson"):
        P.kl_divergence(P.Normal(), P.Poisson())
    with pytest.raises(TypeError, match="has 1"):
        P.register_kl(P.Normal, P.Poisson)(lambda p: 0)
    with pytest.raises(ValueError, match="already"):
        P.register_kl(P.Normal, P.Normal)(lambda p, q: 0)


# ------------------------------------------------------------------ made of others, transformations
def test_independent_and_transformed():
    base = P.Normal(A(np.stack([ONE, TWO])), A(np.ones((2, 2))))
    rows = P.Independent(base, 1)
    x = A([[0.1, 0.2], [0.3, 0.4]])
    close(rows.log_prob(x), base.log_prob(x).asnumpy().sum(-1))
    close(rows.entropy(), base.entropy().asnumpy().sum(-1))
    assert rows.event_dim == 1 and rows.sample_n(3).shape == (3, 2, 2)
    assert rows.broadcast_to((4, 2)).mean.shape == (4, 2, 2)
    logs = P.TransformedDistribution(P.Normal(A(ONE), A(TWO)), P.ExpTransform())
    falling = P.TransformedDistribution(P.Normal(A(ONE), A(TWO)), [P.AffineTransform(1.0, -2.0)])
    for ours, theirs in ((logs, st.lognorm(TWO, 0, np.exp(ONE))), (falling, st.norm(1 - 2 * ONE, 2 * TWO))):
        x = theirs.ppf(Q)
        close(ours.log_prob(A(x)), theirs.logpdf(x), rtol=1e-4, atol=1e-5)
        close(ours.cdf(A(x)), Q, rtol=1e-4)
        close(ours.icdf(A(Q)), x, rtol=2e-3)
        assert ours.sample_n(3).shape == (3, 2)


TRANSFORMS = [P.ExpTransform(), P.AffineTransform(1.0, -2.0), P.PowerTransform(1.7), P.SigmoidTransform(),
              P.ComposeTransform([P.AffineTransform(0.5, 2.0), P.ExpTransform()])]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: type(t).__name__)
def test_transformations(transform):
    x = np.array([0.3, 0.9, 1.6])
    y = transform(A(x))
    close(transform.inv(y), x, rtol=1e-4)
    close(transform.inv.inv(A(x)), y.asnumpy())
    slope = (transform(A(x + 1e-3)).asnumpy() - transform(A(x - 1e-3)).asnumpy()) / 2e-3
    close(transform.log_det_jacobian(A(x), y), np.log(np.abs(slope)), atol=2e-3)
    close(transform.inv.log_det_jacobian(y, A(x)), -np.log(np.abs(slope)), atol=2e-3)
    assert np.sign(slope[0]) == transform.sign


@pytest.mark.parametrize(("constraint", "inside", "outside"), [
    (P.Real(), [1.0], [math.nan]), (P.Boolean(), [0.0, 1.0], [0.5]), (P.Interval(0, 1), [0.0, 1.0], [1.5]),
    (P.OpenInterval(0, 1), [0.5], [0.0]), (P.HalfOpenInterval(0, 1), [0.0], [1.0]), (P.UnitInterval(), [1.0], [-1.0]),
    (P.IntegerInterval(0, 3), [0.0, 3.0], [1.5]), (P.IntegerOpenInterval(0, 3), [1.0], [3.0]),
    (P.IntegerHalfOpenInterval(0, 3), [0.0], [3.0]), (P.GreaterThan(2), [2.5], [2.0]),
    (P.GreaterThanEq(2), [2.0], [1.0]),
    (P.LessThan(2), [1.0], [2.0]), (P.LessThanEq(2), [2.0], [3.0]), (P.IntegerGreaterThan(2), [3.0], [2.0]),
    (P.IntegerGreaterThanEq(2), [2.0], [2.5]), (P.IntegerLessThan(2), [1.0], [2.0]),
    (P.IntegerLessThanEq(2), [2.0], [0.5]),
    (P.Positive(), [1.0], [0.0]), (P.NonNegative(), [0.0], [-1.0]), (P.PositiveInteger(), [1.0], [0.0]),
    (P.NonNegativeInteger(), [0.0], [0.5]), (P.Simplex(), [0.5, 0.5], [0.5, 0.6]),
    (P.LowerTriangular(), [[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]),
    (P.LowerCholesky(), [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, -1.0]]),
    (P.PositiveDefinite(), [[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
    (P.Cat([P.Positive(), P.Boolean()], lengths=[1, 2]), [3.0, 0.0, 1.0], [3.0, 0.0, 2.0]),
    (P.Stack([P.Positive(), P.Boolean()]), [3.0, 1.0], [-3.0, 1.0]),
], ids=lambda x: type(x).__name__ if isinstance(x, P.Constraint) else "")
def test_constraints(constraint, inside, outside):
    close(constraint.check(A(inside)), inside)
    with pytest.raises(ValueError, match="Constraint violated"):
        constraint.check(A(outside)).asnumpy()


def test_maps_to_constraints():
    x = A([-3.0, 0.0, 2.0])
    for constraint in (P.Positive(), P.GreaterThan(2), P.GreaterThanEq(-1), P.LessThan(5), P.Interval(0, 1),
                       P.Interval(-2, 7), P.HalfOpenInterval(1, 2)):
        y = P.transform_to(constraint)(x)
        constraint.check(y).asnumpy()
        close(P.biject_to(constraint).inv(y), x.asnumpy(), rtol=1e-3, atol=1e-3)
    with pytest.raises(NotImplementedError, match="Simplex"):
        P.biject_to(P.Simplex())
    with pytest.raises(TypeError, match="constraint"):
        P.biject_to.register(int, lambda c: None)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: P.Bernoulli(), ValueError, "either `prob` or `logit`"),
    (lambda: P.Categorical(0, A([0.5])), ValueError, "greater than zero"),
    (lambda: P.Binomial(-1, 0.5), ValueError, "non-negative integer"),
    (lambda: P.MultivariateNormal(A([0.0])), ValueError, "exactly one"),
    (lambda: P.Normal(0.0, -1.0, validate_args=True), ValueError, "> 0"),
    (lambda: P.Normal(A([0.0]), A([-1.0]), validate_args=True).scale.asnumpy(), ValueError, "> 0"),
    (lambda: P.Bernoulli(A([0.5]), validate_args=True).log_prob(A([0.5])).asnumpy(), ValueError, "0 or 1"),
    (lambda: P.Gamma(1.0).cdf(A([0.5])), NotImplementedError, "Gamma has no cdf"),
    (lambda: P.Normal().enumerate_support(), NotImplementedError, "too many"),
    (lambda: P.Distribution.set_default_validate_args(3), ValueError, "True or False"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ------------------------------------------------------------------ gradients, graphs, blocks
def test_samples_have_gradients():
    for make in (lambda a: P.Normal(a, 2.0), lambda a: P.Laplace(a, 2.0), lambda a: P.Gumbel(a, 2.0)):
        loc = A([1.0, 2.0])
        loc.attach_grad()
        with mx.autograd.record():
            total = make(loc).sample_n(5).sum()
        total.backward()
        close(loc.grad, [5, 5])


@pytest.mark.parametrize("x", [0.2, 1.0, 3.5, 30.0, -0.4])
def test_digamma(x):
    import scipy.special
    close(P.digamma()(A([x])), scipy.special.digamma(x), rtol=1e-5)
    assert abs(P.digamma()(x) - scipy.special.digamma(x)) < 1e-6 * max(1, abs(scipy.special.digamma(x)))


class _Probabilities(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, loc, scale, x):  # noqa: N803
        normal, gamma = P.Normal(loc, scale), P.Gamma(scale, scale)
        return normal.log_prob(x), normal.cdf(x), gamma.entropy(), P.kl_divergence(normal, P.Normal(x, scale * 2))


def test_within_hybridized_blocks():
    arrays = [A(ONE), A(TWO), A([0.3, 0.4])]
    net = _Probabilities()
    plain = net(*arrays)
    net.hybridize()
    for one, other in zip(plain, net(*arrays), strict=True):
        close(one, other.asnumpy(), rtol=1e-5)


class _Draws(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, loc, prob):  # noqa: N803
        return P.Normal(loc, 1.0).sample((2000, 2)), P.Laplace(loc, 1.0).sample(), P.Bernoulli(prob).sample((2000, 2))


def test_draws_within_hybridized_blocks():
    net = _Draws()
    net.hybridize()
    normal, laplace, bernoulli = net(A(ONE), A(PROB))
    close(normal.mean(axis=0), ONE, atol=0.15)
    close(bernoulli.mean(axis=0), PROB, atol=0.07)
    assert laplace.shape == (2,) and (normal[0] != normal[1]).all()
    with pytest.raises(NotImplementedError, match="pass the whole size to sample"):
        P.Normal(mx.sym.var("loc").as_np_ndarray()).sample_n(3)


class _Sized(P.StochasticBlock):
    @P.StochasticBlock.collectLoss
    def hybrid_forward(self, F, x):  # noqa: N803
        self.add_loss((x * x).sum())
        return x * 2


def test_stochastic_blocks():
    x = A([1.0, 2.0])
    for hybrid in (False, True):
        block = _Sized()
        block.hybridize(hybrid)
        close(block(x), [2, 4])
        assert [loss.item() for loss in block.losses] == [5.0]
        chain = P.StochasticSequential()
        chain.add(_Sized(), mx.gluon.nn.Identity(), block)
        close(chain(x), [4, 8])
        assert [[loss.item() for loss in losses] for losses in chain.losses] == [[5.0], [20.0]]
        assert len(chain) == 3 and chain[2] is block and len(chain[1:]) == 2

    class Plain(P.StochasticBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return x
    with pytest.raises(ValueError, match="collectLoss"):
        Plain()(x)
