"""Normalisation against NumPy formulas; derivatives by finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from opcall import call, check_derivatives, gradients, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel import kernel
from mxjax.ops import registry
from mxjax.ops.nn import normalization

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, size=(4, 3, 2, 5)).astype("float32")
GAMMA, BETA, MEAN = RNG.normal(size=(3, 3)).astype("float32")
VAR = np.array([1, 2, 3], "float32")
ROW = (1, 3, 1, 1)


def _unit(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _all(name, *arrays, train=True, **params):
    """All results, new moving statistics included."""
    op = registry.get(name)
    prepared = kernel.prepare(op, op.parse(params), len(arrays), train)
    return [np.asarray(r) for r in kernel.run(prepared, list(arrays), False)]


@pytest.mark.parametrize("name, extra", [("BatchNorm", {}), ("BatchNorm_v1", {}), ("_contrib_BatchNormWithReLU", {}),
                                         ("_contrib_SyncBatchNorm", {"key": "k"})])
def test_batch_norm_in_training(name, extra):
    out, mean, var = _all(name, X, GAMMA, BETA, MEAN, VAR, fix_gamma=False, momentum=0.8, **extra)
    wanted = _unit(X, (0, 2, 3), 1e-3) * GAMMA.reshape(ROW) + BETA.reshape(ROW)
    np.testing.assert_allclose(out, np.maximum(wanted, 0) if "ReLU" in name else wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, 0.8 * MEAN + 0.2 * X.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(var, 0.8 * VAR + 0.2 * X.var((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("train, params", [(False, {}), (True, {"use_global_stats": True})])
def test_batch_norm_with_moving_statistics(train, params):
    out, mean, var = _all("BatchNorm", X, GAMMA, BETA, MEAN, VAR, train=train, **params)
    np.testing.assert_allclose(out, (X - MEAN.reshape(ROW)) / np.sqrt(VAR.reshape(ROW) + 1e-3) + BETA.reshape(ROW),
                               rtol=1e-4, atol=1e-5)
    assert (mean == MEAN).all() and (var == VAR).all()


def test_batch_norm_outputs_and_axis():
    last = np.moveaxis(X, 1, -1).copy()
    out, mean, scale = call("BatchNorm", last, GAMMA, BETA, MEAN, VAR, fix_gamma=False, output_mean_var=True, axis=-1,
                            train=True)
    wanted = _unit(X, (0, 2, 3), 1e-3) * GAMMA.reshape(ROW) + BETA.reshape(ROW)
    np.testing.assert_allclose(np.moveaxis(out, -1, 1), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, X.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(scale, 1 / np.sqrt(X.var((0, 2, 3)) + 1e-3), rtol=1e-5)


def test_batch_norm_shapes_and_types():
    assert partial_shapes("BatchNorm", [(2, 7, 3), None, None, None, None])[0][1:] == [(7,)] * 4
    assert partial_shapes("BatchNorm", [None] * 5, [(2, 3, 7)], axis=-1)[0] == [(2, 3, 7)] + [(7,)] * 4
    ins, outs = ["float16"] + [None] * 4, [None]
    registry.get("BatchNorm").get_attr("FInferType")({}, ins, outs)
    assert ins == ["float16"] + ["float32"] * 4 and outs == ["float16"]
    half = call("BatchNorm", X.astype("float16"), GAMMA, BETA, MEAN, VAR, fix_gamma=False, train=True)
    assert half.dtype == np.float16
    with pytest.raises(MXNetError, match=r"must have the shape \(3,\)"):
        call("BatchNorm", X, GAMMA[:2], BETA, MEAN, VAR)


def test_batch_norm_reads_vectors_of_other_shapes():
    column = GAMMA[:, None]
    by_column, by_row = (gradients("BatchNorm", X, gamma, BETA, MEAN, VAR, fix_gamma=False, heads=[X])[1]
                         for gamma in (column, GAMMA))
    np.testing.assert_allclose(by_column, by_row[:, None], rtol=1e-6)
    found = _all("BatchNorm", X, column, BETA.reshape(ROW), MEAN[None], VAR[:, None], fix_gamma=False)
    for one, other in zip(found, _all("BatchNorm", X, GAMMA, BETA, MEAN, VAR, fix_gamma=False), strict=True):
        np.testing.assert_allclose(one.ravel(), other.ravel(), rtol=1e-6)
    assert [r.shape for r in found] == [X.shape, (1, 3), (3, 1)]
    ins, _ = partial_shapes("BatchNorm", [X.shape, (3, 1), None, None, None])
    assert ins == [X.shape, (3, 1), (3,), (3,), (3,)]


def test_fixed_gamma_has_no_gradient():
    by = gradients("BatchNorm", X, GAMMA, BETA, MEAN, VAR, heads=[X])
    assert not by[1].any() and not by[3].any() and not by[4].any()
    np.testing.assert_allclose(by[2], X.sum((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("axes, shape", [((0, 2, 3), ROW), ((2, 3), ROW), ((3,), (1, 1, 1, 5)), ((1, 2), (1, 3, 1, 1))])
def test_derivatives_of_the_common_formula(axes, shape):
    gamma, beta = RNG.normal(size=(2, *shape))
    check_derivatives(lambda *a: normalization.standardize(*a, None, axes, 1e-3)[0],
                      (X.astype("float64"), gamma, beta), 2, rtol=1e-4)


@pytest.mark.parametrize("offset, near", [(0, 0), (3, 0), (1e3, 999.0), (-1e4, -1e4)])
def test_moments_in_one_pass(offset, near):
    """As accelerators take them: around what the mean may be close to, where squares would cancel, or merged."""
    data = (X + offset).astype("float32")
    wide = data.astype("float64")
    for axes in ((0, 2, 3), (1,)):
        shape = tuple(1 if a in axes else n for a, n in enumerate(data.shape))
        around = normalization.moments_near(axes, jnp.asarray(data), jnp.full(shape, near, "float32"))
        for (mean, var), digits in ((around, 2e-4), (normalization.moments_merged(axes, jnp.asarray(data)), 2e-3)):
            np.testing.assert_allclose(mean, wide.mean(axes, keepdims=True), rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(var, wide.var(axes, keepdims=True), rtol=digits)


def test_merged_moments_stand_an_outlier():
    data = np.random.default_rng(1).normal(1000, 3, (8, 768)).astype("float32")
    data[0, 0] = 1e6
    mean, var = normalization.moments_merged((1,), jnp.asarray(data))
    np.testing.assert_allclose(mean[:, 0], data.astype("float64").mean(1), rtol=1e-6)
    np.testing.assert_allclose(var[:, 0], data.astype("float64").var(1), rtol=1e-4)


def test_layer_norm():
    gamma, beta = RNG.normal(size=(2, 2)).astype("float32")
    out, mean, deviation = call("LayerNorm", X, gamma, beta, axis=2, output_mean_var=True)
    np.testing.assert_allclose(out, _unit(X, 2, 1e-5) * gamma[:, None] + beta[:, None], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, X.mean(2, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, np.sqrt(X.var(2, keepdims=True) + 1e-5), rtol=1e-4)


def test_group_norm():
    data = RNG.normal(size=(2, 4, 3)).astype("float32")
    gamma, beta = RNG.normal(size=(2, 2)).astype("float32")
    out, mean, _ = call("GroupNorm", data, gamma, beta, num_groups=2, output_mean_var=True)
    wanted = _unit(data.reshape(2, 2, 6), 2, 1e-5) * gamma[:, None] + beta[:, None]
    np.testing.assert_allclose(out, wanted.reshape(data.shape), rtol=1e-4, atol=1e-5)
    assert mean.shape == (2, 2)
    with pytest.raises(MXNetError, match="num_groups=3"):
        call("GroupNorm", data, gamma, beta, num_groups=3)


def test_instance_norm():
    np.testing.assert_allclose(call("InstanceNorm", X, GAMMA, BETA),
                               _unit(X, (2, 3), 1e-3) * GAMMA.reshape(ROW) + BETA.reshape(ROW), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode, axes", [("instance", (1, 2, 3)), ("channel", 1), ("spatial", (2, 3))])
def test_l2_normalization(mode, axes):
    np.testing.assert_allclose(call("L2Normalization", X, mode=mode),
                               X / np.sqrt((X ** 2).sum(axes, keepdims=True) + 1e-10), rtol=1e-5)


@pytest.mark.parametrize("nsize", [1, 3, 17])  # 17: a loop over windows on all devices
def test_gradient_of_lrn(nsize):
    def formula(x):
        padded = jnp.pad(x * x, [(0, 0), (nsize // 2, nsize // 2), (0, 0), (0, 0)])
        around = sum(padded[:, i:i + x.shape[1]] for i in range(nsize))
        return x * (1.5 + 0.3 / nsize * around) ** -0.5
    expected = jax.jit(jax.grad(lambda x: (formula(x) * X[::-1]).sum()))(X)
    found, = gradients("LRN", X, nsize=nsize, alpha=0.3, beta=0.5, knorm=1.5, heads=[X[::-1]])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alpha, beta, knorm",
                         [(-3, 1, 1), (-3, 2, 1), (1, 1, -2), (-3, 0.75, 1), (1, 0, 0), (0, 0.75, 0)])
def test_lrn_of_any_base(alpha, beta, knorm):
    around = np.pad(X.astype("float64") ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    base = knorm + alpha / 3 * (around[:, :-2] + around[:, 1:-1] + around[:, 2:])
    with np.errstate(all="ignore"):
        power, slope = base ** -beta, -beta * base ** (-beta - 1.0) * X
        by_data = np.pad(slope, [(0, 0), (1, 1), (0, 0), (0, 0)])
        expected = power + 2 * alpha / 3 * X * (by_data[:, :-2] + by_data[:, 1:-1] + by_data[:, 2:])
    given = {"nsize": 3, "alpha": alpha, "beta": beta, "knorm": knorm}
    np.testing.assert_allclose(call("LRN", X, **given), X * power, rtol=1e-3)
    if np.isfinite(expected).all():
        np.testing.assert_allclose(gradients("LRN", X, **given)[0], expected, rtol=1e-2, atol=1e-3)


def test_lrn():
    squares = np.pad(X ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    around = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    np.testing.assert_allclose(call("LRN", X, nsize=3, alpha=0.3, beta=0.5, knorm=1.5), X / np.sqrt(1.5 + 0.1 * around),
                               rtol=1e-5)


@pytest.mark.parametrize("nsize, values", [
    (2, [0.6667, 0.6667, 0.5455, 0.4444, 0.3704, 0.3158]), (4, [0.4444, 0.4444, 0.3636, 0.2963, 0.2469, 0.3692]),
    (8, [0.2105, 0.254, 0.2424, 0.3232, 0.4082, 0.5106])])
def test_lrn_of_an_even_size(nsize, values):
    """Recorded from MXNet: one channel less, divided by the size as it was asked for."""
    x = np.arange(1, 7, dtype="float32").reshape(1, 6, 1, 1)
    np.testing.assert_allclose(call("LRN", x, nsize=nsize, alpha=1, beta=1, knorm=1).ravel(), values, atol=6e-5)
    if nsize == 2:
        head = np.arange(6, dtype="float32").reshape(x.shape)
        base = 1 + x * x / 2
        expected = head * (base ** -0.75 - 0.75 * x * x * base ** -1.75)
        np.testing.assert_allclose(gradients("LRN", x, heads=[head], nsize=2, alpha=1, beta=0.75, knorm=1)[0],
                                   expected, rtol=1e-4, atol=1e-6)


def test_mistakes_of_norms():
    with pytest.raises(MXNetError, match="num_groups must be 1 or more, got 0"):
        call("GroupNorm", np.ones((2, 4, 3), "f"), np.ones(4, "f"), np.ones(4, "f"), num_groups=0)
    layer = mx.sym.LayerNorm(mx.sym.var("x"), axis=-4)
    with pytest.raises(MXNetError, match="axis -4 is out of range for an array of 3 dimensions"):
        layer.infer_shape(x=(2, 3, 4))
    assert mx.sym.LayerNorm(mx.sym.var("x"), axis=-3).infer_shape_partial(x=(0, 3, 4))[0] == [(0, 3, 4), (0,), (0,)]
