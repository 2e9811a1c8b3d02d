"""Fused optimizer updates against NumPy formulas; the `mp_` and `multi_` forms against the single ones."""

import numpy as np
import pytest
from opcall import call

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel import kernel
from mxjax.ops import registry

RNG = np.random.default_rng(0)
W, G, M = RNG.normal(size=(3, 2, 3)).astype("float32")
V = abs(M)
COMMON = {"rescale_grad": 0.5, "clip_gradient": 0.2}
NAG_APART, NAG_OVER = [-0.010000005, 0.084999993], [-0.0068000033, 0.081424996]
CLIPPED = np.clip(0.5 * G, -0.2, 0.2)


def _adam_like(g, mean=M, var=V, beta1=0.9, beta2=0.99):
    return beta1 * mean + (1 - beta1) * g, beta2 * var + (1 - beta2) * g * g


def _sgd_mom(momentum=0.9, lr=0.1, wd=0.3):
    mom = momentum * M - lr * (CLIPPED + wd * W)
    return W + mom, mom


def _nag():
    step = 0.1 * (CLIPPED + 0.3 * W)
    mom = 0.9 * M - step
    return W + 0.9 * mom - step, mom


def _signum():
    mom = 0.9 * M - 0.1 * (CLIPPED + 0.3 * W)
    return (1 - 0.1 * 0.01) * W + 0.1 * np.sign(mom), mom


def _adam():
    mean, var = _adam_like(np.clip(0.5 * G + 0.3 * W, -0.2, 0.2))
    return W - 0.1 * mean / (np.sqrt(var) + 1e-8), mean, var


def _rmsprop():
    g = np.clip(0.5 * G + 0.3 * W, -0.2, 0.2)
    n = 0.95 * V + 0.05 * g * g
    return np.clip(W - 0.1 * g / np.sqrt(n + 1e-8), -0.5, 0.5), n


def _ftrl():
    n = V + CLIPPED ** 2
    z = M + CLIPPED - (np.sqrt(n) - np.sqrt(V)) * W / 0.1
    return np.where(abs(z) > 0.01, (np.sign(z) * 0.01 - z) / ((1 + np.sqrt(n)) / 0.1 + 0.3), 0), z, n


@pytest.mark.parametrize("name, states, params, expected", [
    ("sgd_update", (), {}, lambda: ((1 - 0.1 * 0.3) * W - 0.1 * CLIPPED,)),
    ("sgd_mom_update", (M,), {"momentum": 0.9}, _sgd_mom),
    ("nag_mom_update", (M,), {"momentum": 0.9}, _nag),
    ("signsgd_update", (), {}, lambda: ((1 - 0.1 * 0.3) * W - 0.1 * np.sign(G),)),
    ("signum_update", (M,), {"momentum": 0.9, "wd_lh": 0.01}, _signum),
    ("adam_update", (M, V), {"beta2": 0.99}, _adam),
    ("rmsprop_update", (V,), {"clip_weights": 0.5}, _rmsprop),
    ("ftrl_update", (M, V), {}, _ftrl),
])
def test_formulas(name, states, params, expected):
    op, params = registry.get(name), {"lr": 0.1, "wd": 0.3, **COMMON, **params}
    prepared = kernel.prepare(op, op.parse(params), 2 + len(states), False)
    values = kernel.run(prepared, [W, G, *states, *(op.parse(params)[n] for n in prepared.dynamic)], False)
    for got, wanted in zip(values, expected(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)


def _run(name, *arrays, **params):
    """All results, states included."""
    op = registry.get(name)
    canonical = op.parse(params)
    prepared = kernel.prepare(op, canonical, len(arrays), False)
    return prepared, [np.asarray(r) for r in kernel.run(prepared, [*arrays, *(canonical[n] for n in prepared.dynamic)],
                                                        False)]


@pytest.mark.parametrize("mixed", [False, True])
def test_many_at_once_are_the_single_ones(mixed):
    prefix, half = "mp_" * mixed, np.float16 if mixed else np.float32
    def group(factor):
        return [(factor * W).astype(half), G.astype(half), M, *([factor * W] if mixed else [])]
    options = {"momentum": 0.9, **COMMON}
    singles = [_run(f"{prefix}sgd_mom_update", *group(f), lr=lr, wd=wd, **options)[1]
               for f, lr, wd in [(1, 0.1, 0.3), (2, 0.2, 0.0)]]
    wanted = [s[0] for s in singles] + singles[0][1:] + singles[1][1:]
    lrs, wds = (0.1, 0.2), (0.3, 0.0)
    arrays = group(1) + group(2)
    prepared, got = _run(f"multi_{prefix}sgd_mom_update", *arrays, lrs=lrs, wds=wds, num_weights=2, **options)
    _, loaded = _run(f"preloaded_multi_{prefix}sgd_mom_update", *arrays, np.float32(lrs), np.float32(wds),
                     num_weights=2, **options)
    for results in (got, loaded):
        for a, b in zip(results, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-3 if mixed else 1e-6)
    compiled = prepared.jitted.forms()
    _run(f"multi_{prefix}sgd_mom_update", *arrays, lrs=(0.3, 0.4), wds=wds, num_weights=2, **options)
    assert prepared.jitted.forms() == compiled, "new learning rates must not compile anything"


def test_wrong_numbers_of_arrays_and_rates():
    arrays = mx.nd.ones(2), mx.nd.ones(2)
    with pytest.raises(MXNetError, match="num_weights=2 requires 4 arrays"):
        mx.nd.multi_sgd_update(*arrays, lrs=(0.1, 0.1), wds=(0, 0), num_weights=2)
    with pytest.raises(MXNetError, match="num_weights=1 requires 3 arrays"):  # it does not follow from the arrays
        mx.nd.multi_sgd_mom_update(*arrays, lrs=(0.1, 0.1), wds=(0, 0))
    symbol = mx.sym.multi_sgd_update(mx.sym.var("w"), lrs=(0.1,), wds=(0,), name="m")
    assert symbol.list_arguments() == ["w", "m_grad_0"]
    with pytest.raises(MXNetError, match="1 lrs for 2 weights"):
        _run("multi_sgd_update", W, G, W, G, lrs=(0.1,), wds=(0, 0), num_weights=2)


@pytest.mark.parametrize("scale, changes", [(0.5, True), (0.0, False), (np.inf, False)])
def test_adamw_skips_updates_that_overflowed(scale, changes):
    _, (w, mean, var, grad) = _run("_adamw_update", W, G, M, V, np.float32([scale]), lr=0.1, beta2=0.99, wd=0.3,
                                   eta=0.5, clip_gradient=0.2)
    if not changes:
        assert (w == W).all() and (mean == M).all() and (var == V).all() and (grad == G).all()
        return
    np.testing.assert_allclose(grad, CLIPPED, rtol=1e-6)  # MXNet leaves it there
    wanted_mean, wanted_var = _adam_like(CLIPPED)
    np.testing.assert_allclose(w, W - 0.5 * (0.1 * wanted_mean / (np.sqrt(wanted_var) + 1e-8) + 0.3 * W), rtol=2e-5)
    np.testing.assert_allclose(mean, wanted_mean, rtol=1e-5)


def test_lamb_in_one_step_is_its_two_phases():
    params = {"beta2": 0.99, "wd": 0.3, **COMMON}
    _, (direction, mean, var) = _run("lamb_update_phase1", W, G, M, V, t=3, **params)
    m, v = _adam_like(CLIPPED)
    m, v = m / (1 - 0.9 ** 3), v / (1 - 0.99 ** 3)
    np.testing.assert_allclose(direction, m / (np.sqrt(v) + 1e-6) + 0.3 * W, rtol=2e-4)
    norms = [np.float32([np.linalg.norm(a)]) for a in (W, direction)]
    stepped = call("lamb_update_phase2", W, direction, *norms, lr=0.1, upper_bound=1.5)
    np.testing.assert_allclose(stepped, W - 0.1 * min(norms[0][0], 1.5) / norms[1][0] * direction, rtol=1e-5)
    params["wds"] = (params.pop("wd"),)
    _, whole = _run("_multi_lamb_update", W, G, M, V, learning_rates=(0.1,), step_count=(3,), upper_bound=1.5, **params)
    for a, b in zip(whole, [stepped, mean, var], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_rates_by_layer():
    rates = call("multi_lars", np.float32([1, 1, 1]), np.float32([4, 0, 4]), np.float32([9, 9, 0]),
                 np.float32([0.1, 0, 0]), eta=0.1, eps=0.01, rescale_grad=0.5)
    np.testing.assert_allclose(rates, [0.1 * 2 / (1.5 + 0.2 + 0.01), 1, 1], rtol=1e-6)
    assert call("multi_sum_sq", W, np.full(3, 300, "float16"), num_arrays=2)[1] == 270000


def test_finite():
    bad = W.copy()
    bad[1, 1] = np.inf
    assert call("multi_all_finite", W, G, num_arrays=2).tolist() == [1]
    assert call("multi_all_finite", W, bad, num_arrays=2).tolist() == [0]
    assert call("all_finite", bad).tolist() == [0] and call("all_finite", W).tolist() == [1]
    _, zeros = _run("reset_arrays", W, G, num_arrays=2)
    assert len(zeros) == 2 and not zeros[0].any()


@pytest.mark.parametrize("start, values, expected", [(1, [1, 2], 1), (0, [1, 2], 0), (1, [1, float("inf")], 0)])
def test_all_finite_goes_on_from_out(start, values, expected):
    import mxjax as mx
    for name, given in (("all_finite", {}), ("multi_all_finite", {"num_arrays": 1})):
        out = mx.nd.array([start])
        getattr(mx.nd, name)(mx.nd.array(values), init_output=False, out=out, **given)
        assert out.asscalar() == expected
        getattr(mx.nd, name)(mx.nd.array([1.0]), out=out, **given)
        assert out.asscalar() == 1


def test_lamb_of_a_half_weight_takes_the_norm_of_the_weight_itself():
    params = {"beta2": 0.99, "learning_rates": (0.1,), "wds": (0.3,), "step_count": (3,), **COMMON}
    low = (3 * W).astype("float16")  # three times its float32 copy: so is the step
    _, (half, *_, whole) = _run("_multi_mp_lamb_update", low, G.astype("float16"), M, V, W, **params)
    _, (plain, *_) = _run("_multi_lamb_update", W, G.astype("float16").astype("f"), M, V, **params)
    np.testing.assert_allclose(whole - W, 3 * (plain - W), rtol=2e-3)
    np.testing.assert_allclose(half, whole, rtol=1e-3)


def test_nesterov_over_its_weight_keeps_a_momentum_of_the_new_one():
    """The numbers are MXNet's, which overwrites the weight before it computes the momentum."""
    weight, grad, mom = mx.nd.array([0.1, -0.3]), mx.nd.array([0.5, 0.2]), mx.nd.array([0.05, 0.1])
    options = {"lr": 0.1, "momentum": 0.9, "wd": 0.5}
    other = mom.copy()
    new = mx.nd.nag_mom_update(weight, grad, other, **options)
    np.testing.assert_allclose(other.asnumpy(), NAG_APART, rtol=1e-6)
    mx.nd.nag_mom_update(weight, grad, mom, out=weight, **options)
    np.testing.assert_allclose(weight.asnumpy(), new.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(mom.asnumpy(), NAG_OVER, rtol=1e-6)
    for prepared in (False, True):
        optimizer = mx.optimizer.NAG(learning_rate=0.1, momentum=0.9, wd=0.5)
        weight, state = mx.nd.array([0.1, -0.3]), mx.nd.array([0.05, 0.1])
        if prepared:
            updater = mx.optimizer.get_updater(optimizer)
            updater.states[0], updater.states_synced[0] = state, True
            updater([0], [grad], [weight])
        else:
            optimizer.update(0, weight, grad, state)
        np.testing.assert_allclose(state.asnumpy(), NAG_OVER, rtol=1e-6)


def test_mixed_nesterov_keeps_a_momentum_of_the_new_weight():
    """The numbers are MXNet's."""
    weight, grad = mx.nd.array([0.1, -0.3], dtype="float16"), mx.nd.array([0.5, 0.2], dtype="float16")
    mom, whole = mx.nd.array([0.05, 0.1]), weight.astype("float32")
    mx.nd.mp_nag_mom_update(weight, grad, mom, whole, lr=0.1, momentum=0.9, wd=0.5, out=weight)
    np.testing.assert_allclose(mom.asnumpy(), [-0.00679889, 0.08143163], rtol=1e-5)
    np.testing.assert_allclose(weight.asnumpy(), [0.03598, -0.2285], rtol=1e-3)


@pytest.mark.parametrize("rates", [0.25, (0.25,), [0.25], "0.25", "(0.25,)", 1])
def test_rates_in_every_form_call_after_call(rates):
    """MXNet takes a number for a tuple of one; a call is remembered by the forms of its arguments."""
    for _ in range(3):
        weight = mx.nd.ones((2,))
        mx.nd.multi_sgd_update(weight, mx.nd.ones((2,)), lrs=rates, wds=0.0, num_weights=1, out=weight)
        np.testing.assert_array_equal(weight.asnumpy(), [0.0 if rates == 1 else 0.75] * 2)


@pytest.mark.parametrize("name,states,rates,expected", [
    ("multi_mp_sgd_update", ["float32"], 0, [0.6875, -2.375, 3.3125]),
    ("multi_mp_sgd_mom_update", ["float32", "float32"], 0, [0.8125, -2.375, 3.8125]),
    ("preloaded_multi_sgd_update", [], 2, [0.6875, -2.375, 3.3125]),
    ("preloaded_multi_sgd_mom_update", ["float16"], 2, [0.8125, -2.375, 3.8125]),
    ("preloaded_multi_mp_sgd_mom_update", ["float32", "float32"], 2, [0.8125, -2.375, 3.8125]),
])
def test_half_weights_beside_rates_and_copies_of_float32(name, states, rates, expected):
    values = {"mom": [0.25, 0, 1], "weight32": [1, -2, 3]}
    weight = mx.nd.array(values["weight32"], dtype="float16")
    grad = mx.nd.array([0.5, 1, -1], dtype="float16")
    has_momentum = "mom" in name
    names = ["mom"] * has_momentum + ["weight32"] * (len(states) - has_momentum)
    arrays = [mx.nd.array(values[n], dtype=t) for n, t in zip(names, states, strict=True)]
    options = {"momentum": 0.5} if has_momentum else {}
    if rates:
        arrays += [mx.nd.array([0.5]), mx.nd.array([0.125])]
    else:
        options |= {"lrs": (0.5,), "wds": (0.125,)}
    getattr(mx.nd, name)(weight, grad, *arrays, out=weight, num_weights=1, **options)
    assert weight.dtype == np.float16
    np.testing.assert_allclose(weight.asnumpy(), np.float16(expected))  # MXNet's numbers
    with pytest.raises(MXNetError, match="the same dtype, got float16, float32"):
        getattr(mx.nd, name)(weight, grad.astype("float32"), *arrays, num_weights=1, **options).wait_to_read()


@pytest.mark.parametrize("many", [False, True])
def test_half_weights_of_a_symbol(many):
    names = ["weight", "grad", "weight32"]
    variables = [mx.sym.var(f"{n}{i}") for i in range(1 + many) for n in names]
    out = mx.sym.multi_mp_sgd_update(*variables, lrs=(0.5,) * (1 + many), wds=(0.0,) * (1 + many), num_weights=1 + many)
    ins, outs, states = out.infer_type(weight0="float16")
    assert ins == [np.float16] * 2 * (1 + many) and outs == [np.float16] * (1 + many)
    assert states == [np.float32] * (1 + many)


def _half(*shape, scale=0.5, seed=3):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float16")


@pytest.mark.parametrize("options", [{"lr": 0.01}, {"lr": 0.01, "wd": 0.1, "clip_gradient": 0.5, "rescale_grad": 0.25,
                                                   "epsilon": 1e-3}])
def test_adam_of_half_weights_rounds_after_every_operation(options):
    """As MXNet does, whose results equal those of NumPy's half arithmetic in this order bit by bit."""
    half = np.float16
    weight, grad, mean = (_half(500, seed=i) for i in range(3))
    var = abs(_half(500, seed=4)) + half(0.01)
    p = {"wd": 0, "clip_gradient": -1, "rescale_grad": 1, "epsilon": 1e-8} | options
    p = {k: half(v) for k, v in p.items()}
    b1, b2, one = half(0.9), half(0.999), half(1)
    g = grad * p["rescale_grad"] + weight * p["wd"]
    g = np.clip(g, -p["clip_gradient"], p["clip_gradient"]) if p["clip_gradient"] >= 0 else g
    means = b1 * mean + (one - b1) * g
    variances = b2 * var + (one - b2) * g * g
    expected = weight - p["lr"] * means / (np.sqrt(variances) + p["epsilon"])
    arrays = [mx.nd.array(a, dtype="float16") for a in (weight, grad, mean, var)]
    mx.nd.adam_update(*arrays, out=arrays[0], **options)
    for found, wanted in zip((arrays[0], *arrays[2:]), (expected, means, variances), strict=True):
        np.testing.assert_array_equal(found.asnumpy(), wanted)


def test_sgd_of_half_weights_rounds_by_the_number_of_weights():
    weight, grad = _half(500, seed=1), _half(500, seed=2)
    lr, wd, one, clipped = np.float16(0.1), np.float16(0.1), np.float16(1), np.clip(np.float16(0.3) * grad, -0.5, 0.5)
    arrays = [mx.nd.array(a, dtype="float16") for a in (weight, grad)]
    options = {"clip_gradient": 0.5, "rescale_grad": 0.3}
    found = mx.nd.sgd_update(*arrays, lr=0.1, wd=0.1, **options)
    np.testing.assert_array_equal(found.asnumpy(), (one - lr * wd) * weight - lr * clipped)
    found = mx.nd.multi_sgd_update(*arrays, lrs=(0.1,), wds=(0.1,), num_weights=1, **options)
    np.testing.assert_array_equal(found.asnumpy(), weight + (-lr * wd * weight - lr * clipped))


@pytest.mark.parametrize("name, count, params", [
    ("sgd_update", 2, {"lr": 0.1}), ("signum_update", 3, {"lr": 0.1}), ("adam_update", 4, {"lr": 0.1}),
    ("mp_sgd_mom_update", 4, {"lr": 0.1}), ("lamb_update_phase1", 4, {"t": 1, "wd": 0.0}),
    ("mp_lamb_update_phase1", 5, {"t": 1, "wd": 0.0}),
    ("multi_sgd_update", 2, {"lrs": (0.1,), "wds": (0.0,), "num_weights": 1})])
def test_arrays_that_would_broadcast_are_refused(name, count, params):
    for shape in ((3,), (1,), (2, 1)):
        with pytest.raises(MXNetError, match="must have one shape"):
            call(name, W, *[W] * (count - 2), np.ones(shape, "float32"), **params)


def test_shapes_of_a_step_of_lamb():
    one = np.ones(1, "float32")
    with pytest.raises(MXNetError, match="must have one shape"):
        call("lamb_update_phase2", W, W[0], one, one, lr=0.1)
    with pytest.raises(MXNetError, match="must have one element"):
        call("lamb_update_phase2", W, G, one, W[0], lr=0.1)
