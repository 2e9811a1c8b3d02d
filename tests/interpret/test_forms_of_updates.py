"""NumPy forms of optimizers' updates beside XLA's programs."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.interpret.operators import updates
from mxjax.kernel.kernel import prepare
from mxjax.ops import registry

from .forms import check, compare

rng = np.random.RandomState(0)
OPTIONS = [{"lr": 0.1}, {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.2}]


def numbers(count, shape=(4, 5), dtype="float32"):
    return [rng.uniform(0.1, 1, shape).astype(dtype) for _ in range(count)]


def gradient(array):
    """The array with numbers of both signs."""
    return (array - array.dtype.type(0.5)).astype(array.dtype)


def arrays(states, dtype="float32", shape=(4, 5)):
    weight, grad, *rest = numbers(2 + states, shape, dtype)
    return [weight, gradient(grad), *rest]


def copies(states, shape=(4, 5), dtype="float16"):
    """A 16-bit weight, its gradient, states of float32 and the float32 copy."""
    weight, grad = numbers(2, shape)
    return [weight.astype(dtype), gradient(grad).astype(dtype), *numbers(states, shape), weight]


SINGLE = [
    ("sgd_update", 0, {}), ("sgd_mom_update", 1, {"momentum": 0.9}), ("nag_mom_update", 1, {"momentum": 0.9}),
    ("signsgd_update", 0, {}), ("signum_update", 1, {"momentum": 0.9, "wd_lh": 0.1}),
    ("adam_update", 2, {"beta1": 0.8, "beta2": 0.9}), ("ftrl_update", 2, {"lamda1": 0.5}),
    ("rmsprop_update", 1, {"clip_weights": 0.7}), ("rmspropalex_update", 3, {"clip_weights": 0.7}),
    ("_sparse_adagrad_update", 1, {}),
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name, states, more", SINGLE)
def test_updates_of_one_weight(name, states, more, options):
    data = arrays(states)
    if name == "rmspropalex_update":  # the mean of squares is at least the square of the mean
        data[2] = data[3] ** 2 + data[2]
    check(name, data, {**options, **more}, gradients=False, pack=True)
    check(name, [a.astype("float64") for a in data], {**options, **more}, gradients=False)


def test_updates_with_other_names_of_the_limit():
    check("ftml_update", arrays(3), {"lr": 0.1, "t": 3, "wd": 0.01, "clip_grad": 0.2}, gradients=False, pack=True)


@pytest.mark.parametrize("limit", [0, 1e-3])
def test_a_limit_of_zero_is_one(limit):
    check("sgd_update", arrays(0), {"lr": 0.1, "clip_gradient": limit}, gradients=False)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name, states, more", [
    ("mp_sgd_update", 0, {}), ("mp_sgd_mom_update", 1, {"momentum": 0.9}), ("mp_nag_mom_update", 1, {"momentum": 0.9}),
])
def test_updates_of_a_copy(name, states, more, dtype):
    check(name, copies(states, dtype=dtype), {**OPTIONS[1], **more}, gradients=False, tolerance=1e-3, pack=True)


def test_the_state_that_is_made_after_the_weight_was_overwritten():
    op, params = registry.get("nag_mom_update"), {"momentum": 0.9, **OPTIONS[1]}
    kernel = prepare(op, op.parse(params), 3, True).in_place
    args = [*arrays(1), *kernel.extras(op.parse(params), False)]
    compare(kernel.form(args)[0](*args), kernel.once(*args), 1e-5)


@pytest.mark.parametrize("scale", [2.0, 0.0, np.inf])
@pytest.mark.parametrize("name", ["_adamw_update", "_mp_adamw_update", "_multi_adamw_update", "_multi_mp_adamw_update"])
def test_adamw(name, scale):
    many, mixed = "multi" in name, "mp" in name
    own = [a for _ in range(1 + many) for a in (copies(2) if mixed else arrays(2))]
    options = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0), "etas": (1, 0.5), "num_weights": 2} if many else \
        {"lr": 0.1, "eta": 0.5, "wd": 0.01}
    check(name, [*own, np.array([scale], "float32")], {**options, "clip_gradient": 0.5}, gradients=False,
          tolerance=1e-3 if mixed else 1e-5)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("momentum", [False, True])
def test_updates_of_many_weights(momentum, mixed, preloaded, pack):
    if preloaded and pack:
        pytest.skip("preloaded updates take their rates as arrays: there are no numbers to pack")
    name = "preloaded_" * preloaded + "multi_" + "mp_" * mixed + "sgd_" + "mom_" * momentum + "update"
    data = [a for shape in ((4, 5), (3,)) for a in (copies if mixed else arrays)(momentum, shape=shape)]
    options = {"num_weights": 2, "rescale_grad": 0.5, "clip_gradient": 0.2, **({"momentum": 0.9} if momentum else {})}
    if preloaded:
        data += [np.array([0.1, 0.2], "float32"), np.array([0.0, 0.01], "float32")]
    else:
        options |= {"lrs": (0.1, 0.2), "wds": (0.0, 0.01)}
    check(name, data, options, gradients=False, tolerance=1e-3 if mixed else 1e-5, pack=pack)


@pytest.mark.parametrize("correction", [True, False])
def test_lamb(correction):
    options = {"t": 2, "wd": 0.01, "bias_correction": correction, "clip_gradient": 0.3}
    check("lamb_update_phase1", arrays(2), options, gradients=False, pack=True)
    check("mp_lamb_update_phase1", copies(2), options, gradients=False)
    norms = [np.array([v], "float32") for v in (2, 3)]
    for bounds in ({}, {"lower_bound": 2.5}, {"upper_bound": 1.5}):
        check("lamb_update_phase2", [*numbers(2), *norms], {"lr": 0.1, **bounds}, gradients=False)
    weight, g = numbers(2)
    check("mp_lamb_update_phase2", [weight.astype("float16"), g, *norms, weight], {"lr": 0.1}, gradients=False,
          tolerance=1e-3)
    check("lamb_update_phase2", [*numbers(2), norms[0], norms[1] * 0], {"lr": 0.1}, gradients=False)
    many = {"learning_rates": (0.1, 0.2), "wds": (0.0, 0.01), "step_count": (1, 2), "num_tensors": 2,
            "bias_correction": correction}
    check("_multi_lamb_update", [*arrays(2), *arrays(2, shape=(3,))], many, gradients=False)
    check("_multi_mp_lamb_update", [*copies(2), *copies(2, shape=(3,))], many, gradients=False, tolerance=1e-3)


@pytest.mark.parametrize("options", OPTIONS)
def test_adagrad_with_a_rate_for_each_row(options):
    options = {name: value for name, value in options.items() if name != "wd"}
    weight, grad, history = *arrays(0, shape=(4, 5, 2)), numbers(1, (4, 1, 1))[0]
    check("_contrib_group_adagrad_update", [weight, grad, history], options, gradients=False)


def test_rates_by_layer():
    sums = numbers(4, (3,))
    sums[1][1] = 0
    check("multi_lars", sums, {"eta": 0.1, "eps": 1e-3, "rescale_grad": 0.5}, gradients=False)


def test_functions_of_many_arrays():
    many = [*numbers(1, (40, 1000)), *numbers(1, (3,))]
    check("multi_sum_sq", many, {"num_arrays": 2}, gradients=False)
    check("multi_sum_sq", [a.astype("float16") for a in many], {"num_arrays": 2}, gradients=False)
    check("reset_arrays", many, {"num_arrays": 2}, gradients=False)
    for bad in (0.0, np.inf, np.nan):
        many[1][1] = bad
        check("multi_all_finite", many, {"num_arrays": 2}, gradients=False)
        check("all_finite", [many[1].astype("float16")], {}, gradients=False)
        for before in (0, 1):
            check("all_finite", [many[1], np.array([before], "float32")], {"init_output": False}, gradients=False)


@pytest.mark.parametrize("name, states, more", [SINGLE[1], SINGLE[5]])
def test_blocks_of_large_arrays(name, states, more, monkeypatch):
    monkeypatch.setattr(updates, "_BLOCK", 7)
    check(name, arrays(states), {**OPTIONS[1], **more}, gradients=False)
    check("mp_sgd_mom_update", copies(1), OPTIONS[1], gradients=False, tolerance=1e-3)
    check("_multi_mp_lamb_update", copies(2), {"learning_rates": 0.1, "wds": 0.01, "step_count": 1, "num_tensors": 1},
          gradients=False, tolerance=1e-3)


def test_weights_and_states_are_replaced_each_by_its_own():
    shapes = (4, 5), (3,)
    weights, grads, states = ([numbers(1, shape)[0] for shape in shapes] for _ in range(3))
    own = [[mx.nd.array(a) for a in arrays] for arrays in (weights, grads, states)]
    mx.nd.multi_sgd_mom_update(*[a for three in zip(*own, strict=True) for a in three], out=own[0], lrs=(0.5, 0.25),
                               wds=(0, 0), momentum=0.5, num_weights=2)
    for k, rate in enumerate((0.5, 0.25)):
        state = 0.5 * states[k] - rate * grads[k]
        np.testing.assert_allclose(own[2][k].asnumpy(), state, 1e-5)
        np.testing.assert_allclose(own[0][k].asnumpy(), weights[k] + state, 1e-5)
