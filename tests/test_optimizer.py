"""Optimizers: one row each, with what MXNet 1.9.1 computes, and what every row owes."""

import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mxjax as mx
from mxjax import optimizer as opt
from mxjax.base import MXNetError
from mxjax.ops import registry
from mxjax.ops.by_device import traced_for

from .internals import address_of, kinds_of_steps, updates_together

# name, arguments, and the first rows of two weights after 4 updates by MXNet 1.9.1 (see `trained`)
TABLE = [
    ("sgd", {}, [-1.008175, -0.49, -0.066257, -1.892416, -1.066752, -0.368366]),
    ("sgd", {"momentum": 0.9}, [-1.203954, -0.493344, 0.19249, -1.899034, -0.808653, -0.144956]),
    ("ccsgd", {"momentum": 0.5}, [-1.07805, -0.474686, 0.045405, -1.878481, -0.955339, -0.285049]),
    ("nag", {}, [-1.008175, -0.49, -0.066257, -1.892416, -1.066752, -0.368366]),
    # without decay: MXNet's kernel takes the decay of the momentum from the weight it has just overwritten
    ("nag", {"momentum": 0.9, "wd": 0.0}, [-1.20474, -0.401546, 0.28546, -1.801546, -0.714539, -0.138826]),
    ("signum", {"momentum": 0.0}, [-0.995606, -0.397604, 0.000199, -1.8, -1.0, -0.4]),
    ("signum", {"momentum": 0.9, "wd_lh": 0.01}, [-1.195406, -0.597204, 0.200199, -1.991612, -0.795807, 0.000998]),
    ("lars", {"momentum": 0.9, "eta": 0.1}, [-1.020218, -0.589895, -0.162102, -1.899034, -0.808653, -0.144956]),
    ("lbsgd", {"momentum": 0.9, "batch_scale": 2, "warmup_epochs": 1, "updates_per_epoch": 4},
     [-1.045973, -0.494765, 0.008788, -1.897692, -0.992002, -0.349]),
    ("lbsgd", {"warmup_strategy": "lars"}, [-1.006181, -0.547373, -0.134191, -1.902783, -1.073548, -0.366919]),
    ("dcasgd", {}, [-1.008132, -0.490112, -0.066423, -1.892524, -1.066917, -0.368431]),
    ("adam", {}, [-1.230739, -0.609319, 0.160852, -2.012017, -0.83915, -0.143282]),
    ("adamax", {}, [-1.221043, -0.619004, 0.127347, -2.021323, -0.872944, -0.151]),
    ("nadam", {}, [-1.068138, -0.514337, 0.036323, -1.887387, -0.99972, -0.344756]),
    ("adagrad", {}, [-1.061607, -0.515303, 0.017181, -1.917811, -0.983091, -0.316692]),
    ("adadelta", {}, [-0.960803, -0.55458, -0.165606, -1.978228, -1.172835, -0.396217]),
    ("rmsprop", {}, [-1.182846, -0.308289, 0.488136, -1.711846, -0.509536, -0.152908]),
    ("rmsprop", {"centered": True, "clip_weights": 0.8}, [-0.8, -0.343871, 0.8, -0.350308, 0.8, 0.8]),
    ("ftml", {}, [-1.066106, -0.536067, 0.002128, -1.93704, -0.997704, -0.316719]),
    ("ftrl", {}, [-0.390986, -0.159871, 0.021404, -0.651073, -0.271291, -0.123273]),
    ("lamb", {}, [-1.185353, -0.549183, 0.151121, -1.944006, -0.574281, 0.004988]),
    ("lamb", {"bias_correction": False, "lower_bound": 0.1, "upper_bound": 1.0},
     [-1.110038, -0.573129, 0.003504, -1.974614, -0.999701, -0.274832]),
    # these by MXNet 2.0.0b1
    ("lans", {}, [-1.170563, -0.525794, 0.12545, -1.906467, -0.613406, -0.033432]),
    ("lans", {"lower_bound": 0.1, "upper_bound": 1.0, "clip_gradient": 0.3},
     [-1.096259, -0.567026, -0.007247, -1.970281, -1.009584, -0.290168]),
    ("adamw", {}, [-1.23236, -0.611396, 0.160896, -2.012016, -0.839173, -0.143289]),
    ("adamw", {"correct_bias": False, "beta1": 0.8}, [-2.540075, -0.212617, 2.647156, -1.61653, 1.650769, 1.368375]),
    ("adamw", {"use_fused_step": False}, [-1.232293, -0.611379, 0.160813, -2.012014, -0.839169, -0.143295]),
    ("adabelief", {}, [-1.260627, -0.611106, 0.218056, -2.014128, -0.781924, -0.110143]),
    ("adabelief", {"correct_bias": False, "epsilon": 0.001},
     [-1.442497, -0.517543, 0.507708, -1.92485, -0.492985, 0.115129]),
    ("test", {}, [-0.865837, -2.119481, -1.976121, -3.519481, -2.976121, -0.799804]),
    ("groupadagrad", {"wd": 0.0}, [-1.085228, -0.52492, -0.001457, -1.925514, -1.002857, -0.294314]),
]
IDS = [f"{name} {' '.join(kwargs)}".strip() for name, kwargs, _ in TABLE]
COMMON = {"learning_rate": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.6,
          "param_idx2name": {0: "x_weight", 1: "x_bias"}}


def start(dtype="float32"):
    return [mx.nd.array(np.linspace(-1, 1, 6).reshape(2, 3) * (1 + i), dtype=dtype) for i in range(2)]


def gradients(step, dtype="float32"):
    return [mx.nd.array(2 * np.cos(np.arange(6) + step + i).reshape(2, 3), dtype=dtype) for i in range(2)]


def trained(update, weights, steps=range(4), listed=True):
    dtype = weights[0].dtype
    for step in steps:
        if listed:
            update([0, 1], gradients(step, dtype), weights)
        else:
            for i, grad in enumerate(gradients(step, dtype)):
                update(i, grad, weights[i])
    return [weight.asnumpy() for weight in weights]


@pytest.mark.parametrize("name, kwargs, expected", TABLE, ids=IDS)
def test_numbers_are_those_of_mxnet(name, kwargs, expected):
    update = opt.get_updater(opt.create(name, **{**COMMON, **kwargs}))
    weights = trained(update, start())
    np.testing.assert_allclose(np.concatenate([w[0] for w in weights]), expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name, expected", [
    ("lans", [-1.170898, -0.525879, 0.125488, -1.90625, -0.61377, -0.033264]),
    ("adamw", [-1.232422, -0.611328, 0.160889, -2.011719, -0.839355, -0.143188]),
    ("adabelief", [-1.260742, -0.611328, 0.21814, -2.013672, -0.782227, -0.110046])])
def test_halves_are_those_of_mxnet(name, expected):
    """float16 weights with float32 copies, listed and one by one."""
    for listed in (True, False):
        update = opt.get_updater(opt.create(name, **COMMON, multi_precision=True))
        weights = trained(update, start("float16"), listed=listed)
        np.testing.assert_allclose(np.concatenate([w[0] for w in weights]), expected, rtol=2e-3)
        assert {array.dtype for array in (update.states[0][0], *update.states[0][1])} == {np.float32}


@pytest.mark.parametrize("name", ["lans", "adamw", "adabelief"])
def test_trainer_and_train_step_agree(name):
    """Five weights, more than one call of an operator takes; steps of a Trainer and of a TrainStep."""
    x, ends = mx.nd.array(np.linspace(-1, 1, 12).reshape(4, 3)), []
    for whole in (False, True):
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(3, in_units=3), mx.gluon.nn.Dense(3, in_units=3), mx.gluon.nn.Dense(2, in_units=3))
        net.initialize(mx.init.Constant(0.3))
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1, "wd": 0.01})
        loss = mx.gluon.loss.L2Loss()
        step = mx.gluon.TrainStep(net, loss, trainer) if whole else None
        for i in range(4):
            y = mx.nd.array(np.cos(np.arange(8) + i).reshape(4, 2))
            if whole:
                step(x, y)
                continue
            with mx.autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(4)
        ends.append([p.data().asnumpy() for p in net.collect_params().values()])
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
        assert (np.abs(one - (0.3 if one.ndim == 2 else 0.0)) > 1e-3).any()


def test_lans_keeps_wide_states_and_takes_few_weights():
    assert [s.dtype for s in opt.LANS().create_state(0, mx.nd.ones((2,), dtype="float16"))] == [np.float32] * 2
    with pytest.raises(AssertionError, match="at most 45"):
        opt.LANS(aggregate_num=46)


def test_adabelief_writes_the_gradient_and_skips_an_overflow():
    """Values of MXNet 2.0.0b1; where the factor of the gradients is infinite, nothing changes."""
    def arrays():
        return [mx.nd.array(x) for x in ([1, -2, 3], [.5, .25, -1], [.1, .2, .3], [.01, .02, .03])]
    weight, grad, mean, var = new = arrays()
    options = {"lr": .1, "eta": .5, "wd": .1, "clip_gradient": .8}
    mx.nd.contrib.adabelief_update(*new, mx.nd.array([2]), out=weight, **options)
    np.testing.assert_allclose(weight.asnumpy(), [0.91659814, -2.0742683, 2.9460001], rtol=1e-6)
    np.testing.assert_allclose(grad.asnumpy(), [.8, .3, -.8], rtol=1e-6)
    np.testing.assert_allclose(mean.asnumpy(), [.17, .21, .19], rtol=1e-6)
    np.testing.assert_allclose(var.asnumpy(), [0.010386906, 0.01998811, 0.030950096], rtol=1e-6)
    for factor in (0.0, np.inf):
        new = arrays()
        mx.nd.contrib.adabelief_update(*new, factor, out=new[0], **options)
        for array, old in zip(new, arrays(), strict=True):
            np.testing.assert_array_equal(array.asnumpy(), old.asnumpy())


@pytest.mark.parametrize("name, kwargs, expected", TABLE, ids=IDS)
def test_contract(name, kwargs, expected):
    """A multiplier of 0 stops a weight; states keep shape and dtype; saved states go on as if never saved."""
    kwargs = {**COMMON, **kwargs}
    update = opt.get_updater(opt.create(name, **kwargs))
    if name not in ("test", "adadelta"):  # which have no learning rate
        still = opt.get_updater(opt.create(name, **{**kwargs, "clip_gradient": None}))
        still.optimizer.set_lr_mult({"x_weight": 0.0})
        still.optimizer.set_wd_mult({"x_weight": 0.0})
        if name not in ("ftrl", "ftml", "rmsprop", "signum"):  # which divide by the rate, or move the weight otherwise
            np.testing.assert_array_equal(trained(still, start())[0], start()[0].asnumpy())
    weights = start()
    trained(update, weights, range(2))
    shapes = [spec(update.states[i]) for i in range(2)]
    again = opt.get_updater(opt.create(name, **kwargs))
    again.set_states(update.get_states(dump_optimizer=True))
    copies = [weight.copy() for weight in weights]
    for one, other in zip(trained(update, weights, range(2, 4)), trained(again, copies, range(2, 4)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [spec(update.states[i]) for i in range(2)] == shapes


def test_gradients_of_zeros_move_nothing():
    """Or do what they do in MXNet: Ftrl has no other memory of a weight, AdaMax and LANS divide 0 by 0."""
    moved = {"ftrl": 0, "adamax": np.nan, "lans": np.nan}
    for name, kwargs, _ in TABLE:
        options = {**COMMON, **kwargs, "wd": 0.0, **({"wd_lh": 0.0} if name == "signum" else {})}
        update = opt.get_updater(opt.create(name, **options))
        weights = [mx.nd.array([[-0.5, 0, 0.25]]), mx.nd.zeros((1, 3))]
        before = [np.full((1, 3), moved[name]) if name in moved else weight.asnumpy() for weight in weights]
        for _ in range(2):
            update([0, 1], [mx.nd.zeros((1, 3))] * 2, weights)
        for weight, old in zip(weights, before, strict=True):
            np.testing.assert_array_equal(weight.asnumpy(), old, err_msg=f"{name} {kwargs}")


def spec(state):
    if isinstance(state, tuple | list):
        return [spec(part) for part in state]
    return None if state is None else (state.shape, state.dtype)


@pytest.mark.parametrize("name, kwargs, expected", TABLE, ids=IDS)
def test_one_by_one_as_listed(name, kwargs, expected):
    if name == "nadam":
        pytest.skip("its schedule runs over the updates of all parameters, in their order")
    listed, single = (trained(opt.get_updater(opt.create(name, **{**COMMON, **kwargs})), start(), listed=listed)
                      for listed in (True, False))
    for one, other in zip(listed, single, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name, kwargs, expected", TABLE, ids=IDS)
def test_multi_precision_follows_float32(name, kwargs, expected):
    if name == "test":
        pytest.skip("keeps its weight as state")
    update = opt.get_updater(opt.create(name, multi_precision=True, **{**COMMON, **kwargs}))
    weights = start("float16")
    trained(update, weights)
    assert all(weight.dtype == np.float16 for weight in weights)
    np.testing.assert_allclose(np.concatenate([w.asnumpy()[0] for w in weights]), expected, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("name, kwargs", [
    ("sgd", {"momentum": 0.9}), ("nag", {"momentum": 0.9}), ("adam", {}), ("rmsprop", {}), ("ftml", {}),
    ("nadam", {}), ("adamax", {}), ("lamb", {}), ("signum", {}), ("dcasgd", {"momentum": 0.5})])
def test_finds_a_minimum(name, kwargs):
    update = opt.get_updater(opt.create(name, learning_rate=0.05, **kwargs))
    target, weight = mx.nd.array([1.0, -2.0, 0.5]), mx.nd.array([0.5, -0.5, 0.1])
    for _ in range(250):
        update(0, weight - target, weight)
    assert abs(weight - target).max().asscalar() < 0.15


def test_sgld_is_a_random_walk_around_the_gradient_step():
    mx.random.seed(3)
    weight = mx.nd.zeros((10000,))
    opt.get_updater(opt.create("sgld", learning_rate=0.04))(0, mx.nd.full((10000,), 5), weight)
    np.testing.assert_allclose([weight.asnumpy().mean(), weight.asnumpy().std()], [-0.1, 0.2], atol=0.01)


# ------------------------------------------------------------------ the base class
def test_rates_and_multipliers():
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0)
    optimizer = opt.Optimizer(lr_scheduler=schedule, wd=0.1, param_idx2name={0: "a_weight", 1: "a_bias", 2: "a_gamma"})
    assert optimizer._get_wds([0, 1, 2]) == [0.1, 0, 0.1]
    optimizer.set_lr_mult({"a_bias": 2.0, 2: 3.0})
    assert optimizer._get_lrs([0, 1, 2]) == [1, 2, 3]
    optimizer._update_count([0, 0, 1])
    assert optimizer.num_update == 2 and optimizer.learning_rate == 0.5
    with pytest.raises(UserWarning):
        optimizer.set_learning_rate(1)
    optimizer.param_dict = {0: type("P", (), {"lr_mult": 5, "wd_mult": 7})}
    assert optimizer._get_lr(0) == 2.5 and np.isclose(optimizer._get_wd(0), 0.7)


def test_multipliers_from_the_network():
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, bias=mx.sym.var("fc_bias", lr_mult=3, wd_mult=2), num_hidden=2, name="fc")
    optimizer = opt.create("sgd", sym=net, param_idx2name={0: "fc_weight", 1: "fc_bias"}, wd=1.0, learning_rate=1.0)
    assert optimizer._get_lrs([0, 1]) == [1, 3] and optimizer._get_wds([0, 1]) == [1, 2]


def test_adadelta_scales_the_gradient_itself():
    """As in MXNet; the other optimizers leave it alone."""
    for name, wanted in (("adadelta", [1, -2]), ("adam", [2, -4]), ("adagrad", [2, -4])):
        grad = mx.nd.array([2.0, -4])
        opt.get_updater(opt.create(name, rescale_grad=0.5, clip_gradient=0.1))(0, grad, mx.nd.ones(2))
        assert grad.asnumpy().tolist() == wanted


def test_registry():
    with pytest.raises(ValueError, match="cannot find optimizer 'nothing'; known: .*adam"):
        opt.create("nothing")
    assert isinstance(opt.create("SGD"), opt.SGD)
    with pytest.warns(UserWarning, match="overriding"):
        opt.register(type("Test", (opt.Test,), {}))
    opt.Optimizer.opt_registry["test"] = opt.Test


def test_16_bits_without_multi_precision_warn():
    with pytest.warns(UserWarning, match="multi_precision"):
        opt.create("sgd").create_state_multi_precision(0, start("float16")[0])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name, given", [("sgd", {"momentum": 0.9}), ("adam", {}), ("lamb", {})])
def test_weights_of_one_shape_keep_their_memory(name, given):
    """What replaces an array takes its memory, not that of another one of its shape: that would be copied first."""
    def arrays():
        return [mx.nd.ones((300, 2), ctx=mx.cpu()) for _ in range(3)]
    weights, grads = arrays(), arrays()
    alone = mx.nd.ones((300, 2), ctx=mx.cpu())
    update, update_alone = (opt.get_updater(opt.create(name, **given)) for _ in range(2))
    for step in range(3):
        before = [address_of(w) for w in weights]
        update([0, 1, 2], grads, weights)
        update_alone(0, grads[0], alone)
        if step:
            assert [address_of(w) for w in weights] == before
    for weight in weights:
        np.testing.assert_allclose(weight.asnumpy(), alone.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("name, given", [("sgd", {"momentum": 0.9}), ("sgd", {"clip_gradient": 0.1}), ("adam", {}),
                                         ("nag", {"momentum": 0.9, "wd": 0.1}), ("rmsprop", {"clip_weights": 0.9}),
                                         ("rmsprop", {"centered": True}), ("signum", {"wd_lh": 0.1}), ("ftrl", {}),
                                         ("signum", {"momentum": 0.0, "wd": 0.1})])
def test_many_weights_are_updated_one_by_one_first(name, given, monkeypatch):
    """... and by one program from then on, with the same results."""
    monkeypatch.setattr("mxjax.optimizer.updater.STEADY", 1)  # for one step for each weight
    monkeypatch.setattr("mxjax.optimizer.updater.CALL_NUMBERS", 7)  # more than their mean
    weights = [mx.nd.array(np.linspace(-1, 1, 6 + i % 2), ctx=mx.cpu()) for i in range(20)]
    alone = [w.copy() for w in weights]
    grads = [w * 0.5 + 1 for w in weights]
    make = functools.partial(opt.create, name, learning_rate=0.1, rescale_grad=0.5, **given)
    update, update_alone = opt.get_updater(make()), opt.get_updater(make())
    together = []
    for _ in range(23):
        update(list(range(20)), grads, weights)
        together.append(updates_together(update))
        for i in range(20):
            update_alone(i, grads[i], alone[i])
    assert together == [False] * 19 + [True] * 4
    for weight, other in zip(weights, alone, strict=True):
        np.testing.assert_allclose(weight.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-6)


def test_large_weights_are_always_updated_one_by_one(monkeypatch):
    monkeypatch.setattr("mxjax.optimizer.updater.CALL_NUMBERS", 6)
    weights, grads = ([mx.nd.full((6,), n, ctx=mx.cpu()) for _ in range(20)] for n in (40, 1))
    update = opt.get_updater(opt.create("sgd", learning_rate=1, rescale_grad=1))
    for _ in range(30):
        update(list(range(20)), grads, weights)
    assert not updates_together(update)
    assert all((w.asnumpy() == 10).all() for w in weights)


@pytest.mark.parametrize("count", [2, 20])
def test_updates_do_not_take_each_others_numbers(count):
    """Programs are shared, whatever numbers they were made with."""
    def updated(**given):
        weights, grads = ([mx.nd.full((5,), n, ctx=mx.cpu()) for _ in range(count)] for n in (1, 2))
        opt.get_updater(opt.create("sgd", learning_rate=0.5, rescale_grad=1, **given))(
            list(range(count)), grads, weights)
        return weights[-1].asnumpy()[0]
    assert [updated(clip_gradient=0.1), updated(), updated(clip_gradient=1)] == pytest.approx([0.95, 0, 0.5])


def test_aggregation_size(monkeypatch):
    sizes = []

    class Spy(opt.SGD):
        def update_multi_precision(self, index, weight, grad, state):
            sizes.append(len(index))
            super().update_multi_precision(index, weight, grad, state)

    for limit, expected in (("2", [2, 1, 1]), ("50", [3, 1])):
        monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", limit)
        arrays = [mx.nd.ones((2,)) for _ in range(3)] + [mx.nd.ones((2,), dtype="float64")]
        opt.get_updater(Spy())(list(range(4)), arrays, [a.copy() for a in arrays])
        assert sizes == expected
        sizes.clear()


def test_own_optimizer_takes_lists_of_16_bit_weights():
    class Listed(opt.Optimizer):
        def create_state(self, index, weight):
            return mx.nd.zeros_like(weight)

        def update(self, index, weight, grad, state):
            assert index == [0, 1] and {array.dtype for array in (*weight, *grad, *state)} == {np.float32}
            for i, one, slope, momentum in zip(index, weight, grad, state, strict=True):
                momentum += slope
                one -= (i + 1) * momentum
    optimizer = Listed(multi_precision=True)
    weights = [mx.nd.ones(2, dtype="float16"), mx.nd.ones(3, dtype="float16")]
    states = [optimizer.create_state_multi_precision(i, weight) for i, weight in enumerate(weights)]
    grads = [mx.nd.full(weight.shape, 0.25, dtype="float16") for weight in weights]
    for _ in range(2):
        optimizer.update_multi_precision([0, 1], weights, grads, states)
    assert [weight.asnumpy().tolist() for weight in weights] == [[0.25] * 2, [-0.5] * 3]
    assert [master.asnumpy().tolist() for master, _ in states] == [[0.25] * 2, [-0.5] * 3]


def test_own_optimizer_gets_master_copies():
    class Plain(opt.Optimizer):
        def update(self, index, weight, grad, state):
            assert weight.dtype == grad.dtype == np.float32
            weight -= 1e-4 * grad

    update = opt.get_updater(Plain(multi_precision=True))
    weight = mx.nd.ones((2,), dtype="float16")
    for _ in range(10):  # each step is too small for float16
        update(0, mx.nd.ones((2,), dtype="float16"), weight)
    np.testing.assert_allclose(weight.asnumpy(), 0.999, atol=5e-4)


@pytest.mark.parametrize("name", ["signum", "rmsprop", "adam", "lamb"])
def test_many_weights_of_16_bits_have_wider_copies(name):
    """Whether they are updated as a list or each by itself."""
    weights = [mx.nd.array(np.linspace(-1, 1, 5), dtype="float16", ctx=mx.cpu()) for _ in range(17)]
    alone = [w.copy() for w in weights]
    grads = [w * 0.5 + 1 for w in weights]
    update, update_alone = (opt.get_updater(opt.create(name, learning_rate=1e-4, multi_precision=True))
                            for _ in range(2))
    for _ in range(10):
        update(list(range(17)), grads, weights)
        for i in range(17):
            update_alone(i, grads[i], alone[i])
    for found, expected in zip(weights, alone, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())
    assert (weights[0].asnumpy() != np.linspace(-1, 1, 5).astype("float16")).any()


def test_lists_of_many_weights_compile_what_one_does(compiles):
    """LAMB's operator of several weights is a larger program the more there are."""
    update = opt.get_updater(opt.create("lamb"))
    weights = [mx.nd.array(np.linspace(-1, 1, 7 + i % 2), ctx=mx.cpu()) for i in range(20)]
    grads = [w * 0.5 + 1 for w in weights]
    compiles.clear()
    for _ in range(12):
        update(list(range(20)), grads, weights)
    assert len(compiles) <= 2  # one for each shape


def test_new_learning_rates_compile_nothing_new(compiles):
    update = opt.get_updater(opt.create("sgd", momentum=0.9))
    weights = start()
    trained(update, weights, range(1))
    compiles.clear()
    for step in range(3):
        update.optimizer.lr = 0.01 * (step + 1)
        trained(update, weights, range(1))
    assert not compiles


# ------------------------------------------------------------------ files
def test_states_hold_nothing_foreign():
    class Evil:
        def __reduce__(self):
            return (print, ("gotcha",))

    with pytest.raises(MXNetError, match="builtins.print is not allowed"):
        opt.get_updater(opt.SGD()).set_states(pickle.dumps({0: Evil()}))
    with pytest.raises(MXNetError, match="bytearray"):
        opt.get_updater(opt.SGD()).set_states(b"\x80\x03cbuiltins\nbytearray\nK\x05\x85R.")
    with pytest.raises(MXNetError, match="expected a dict"):
        opt.get_updater(opt.SGD()).set_states(pickle.dumps([1]))


def test_states_that_an_old_pickle_holds():
    """Protocol 0 writes a dictionary by one step, with its pairs before it."""
    update = opt.get_updater(opt.SGD())
    update.set_states(pickle.dumps({0: None, 3: (None, True)}, 0))
    assert update.states == {0: None, 3: (None, True)}
    for protocol in range(3):  # none of them has bytes; Python 3 writes a call of `_codecs.encode` instead
        update.set_states(pickle.dumps({0: np.float64(2.5)}, protocol))
        assert update.states == {0: 2.5}
    update.set_states(b"(I0\nNI4\nNd.")
    assert update.states == {0: None, 4: None}
    with pytest.raises(MXNetError):
        update.set_states(b"(I0\nNI4\nd.")  # a key without a value


def test_damaged_states():
    update = opt.get_updater(opt.create("adam", **COMMON))
    trained(update, start(), range(1))
    good, rng, failed = update.get_states(dump_optimizer=True), np.random.RandomState(5), 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(3):
            bad[rng.randint(len(bad))] = rng.randint(256)
        try:
            opt.get_updater(opt.SGD()).set_states(bytes(bad[:rng.randint(1, len(bad) + 1)]))
        except MXNetError:
            failed += 1
    assert failed > 200


def test_states_name_mxnets_classes():
    update = opt.get_updater(opt.create("adam", lr_scheduler=mx.lr_scheduler.FactorScheduler(3), **{
        **COMMON, "learning_rate": None}))
    trained(update, start(), range(1))
    raw = update.get_states(dump_optimizer=True)
    assert b"mxjax" not in raw
    for name in (b"mxnet.ndarray.ndarray\nNDArray", b"mxnet.optimizer.optimizer\nAdam",
                 b"mxnet.lr_scheduler\nFactorScheduler"):
        assert name in raw


# ------------------------------------------------------------------ optax
def test_optax_is_adam():
    ours = trained(opt.get_updater(opt.create("adam", **{**COMMON, "wd": 0.0, "clip_gradient": None})), start())
    wrapped = opt.Optax(optax.adam(0.1), **{**COMMON, "wd": 0.0, "clip_gradient": None, "learning_rate": 1.0})
    theirs = trained(opt.get_updater(wrapped), start())
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_optax_sees_all_parameters_by_name():
    def biases(params):
        return {name: name.endswith("bias") for name in params}

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.masked(optax.scale(0.0), biases), optax.scale(-1.0))
    weights = trained(opt.get_updater(opt.Optax(tx, param_idx2name=COMMON["param_idx2name"])), start(), range(1))
    grads = [grad.asnumpy() for grad in gradients(0)]
    norm = np.sqrt(sum((grad ** 2).sum() for grad in grads))
    np.testing.assert_allclose(weights[0], start()[0].asnumpy() - grads[0] / norm, rtol=1e-5)
    np.testing.assert_array_equal(weights[1], start()[1].asnumpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_optax_states_round_trip(dtype):
    def fresh():
        return opt.get_updater(opt.Optax(optax.adamw(1e-2), multi_precision=True,
                                         lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0)))

    update, again, weights = fresh(), fresh(), start(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(update, weights, range(2))
    again.set_states(update.get_states())
    again.optimizer.num_update = 2
    again.optimizer.begin_num_update = 2
    copies = [weight.copy() for weight in weights]
    for one, other in zip(trained(update, weights, range(2, 4)), trained(again, copies, range(2, 4)), strict=True):
        assert one.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(one, other)


def test_optax_takes_transformations_only():
    with pytest.raises(TypeError, match="optax transformation"):
        opt.Optax(optax.adam)


@pytest.mark.parametrize("name, states, options", [("sgd_update", 0, {}), ("sgd_mom_update", 1, {"momentum": 0.9}),
                                                   ("adam_update", 2, {})])
def test_updates_of_bfloat16_on_a_tpu_round_once(name, states, options):
    """At the end: 0.1 alone would be rounded to 0.1001."""
    random, op = np.random.RandomState(3), registry.get(name)
    compute, given = op.get_attr("FCompute"), op.parse({**options, "lr": 0.1, "wd": 0.037})
    arrays = [jnp.asarray(random.rand(40), "bfloat16") for _ in range(2 + states)]
    with traced_for("tpu"):
        found = jax.jit(lambda *a: compute(*a, **given))(*arrays)
    exact = compute(*[a.astype("float32") for a in arrays], **given)
    rounded = compute(*arrays, **given)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == jnp.bfloat16
        np.testing.assert_allclose(one.astype("float32"), other, rtol=2 ** -8)
    assert any(np.any(np.asarray(one != other)) for one, other in zip(found, rounded, strict=True))


def test_lars_corrects_the_momentum_of_the_first_four_weights():
    """As MXNet does, whose correction knows one rate before for all weights; its numbers."""
    weights = [mx.nd.array(np.full(3, 1 + i)) for i in range(6)]
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=0.1)
    update = mx.optimizer.get_updater(mx.optimizer.create("lars", momentum=0.9, eta=1.0, lr_scheduler=schedule))
    size = update.optimizer.aggregate_num
    for _ in range(3):
        for k in range(0, 6, size):
            update(list(range(6))[k:k + size], [mx.nd.array(np.full(3, 0.5))] * len(weights[k:k + size]),
                   weights[k:k + size])
    found = [float(w[0].asscalar()) for w in weights]
    np.testing.assert_allclose(found, [0.74925, 1.4985, 2.24775, 2.997, 3.121875, 3.74625], rtol=1e-6)


def test_a_subclass_of_sgd_may_override_update_impl():
    class Told(opt.SGD):
        def _update_impl(self, indices, weights, grads, states, multi_precision=False):
            seen.append((indices, type(weights), multi_precision))
            super()._update_impl(indices, weights, grads, states, multi_precision=multi_precision)

    seen, weights = [], [mx.nd.ones(2), mx.nd.ones(3)]
    update = opt.get_updater(Told(learning_rate=0.5))
    update([0, 1], [mx.nd.ones(2), mx.nd.ones(3)], weights)
    assert seen == [((0, 1), tuple, False)]
    assert weights[1].asnumpy().tolist() == [0.5, 0.5, 0.5]


def test_a_subclass_of_lamb_may_override_update_impl():
    class Told(opt.LAMB):
        def _update_impl(self, index, weight, grad, state, multi_precision=False):
            seen.append((index, type(state), multi_precision))
            super()._update_impl(index, weight, grad, state, multi_precision=multi_precision)

        def update(self, *arguments):
            raise AssertionError("nobody calls it")

    seen, weights = [], [mx.nd.ones(2, dtype="float16"), mx.nd.ones(2, dtype="float16")]
    opt.get_updater(Told(multi_precision=True))([0, 1], [mx.nd.ones(2, dtype="float16")] * 2, weights)
    assert seen == [((0, 1), list, True)] and (weights[1].asnumpy() < 1).all()


def test_a_subclass_of_signum_may_override_update_impl():
    class Told(opt.Signum):
        def _update_impl(self, index, weight, grad, state):
            seen.append(index)
            super()._update_impl(index, weight, grad, state)

    seen, weight = [], mx.nd.ones(2)
    opt.get_updater(Told(learning_rate=0.5))([3, 4], [mx.nd.ones(2)] * 2, [weight, mx.nd.ones(2)])
    assert seen == [3, 4] and weight.asnumpy().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["nag", "lamb", "signum", "adam"])
def test_a_subclass_may_define_the_rate_alone(name):
    kind = opt.Optimizer.opt_registry[name]
    halved = type("Halved", (kind,), {"_get_lr": lambda self, index: 0.5 * kind._get_lr(self, index)})
    moved = []
    for made in (kind(learning_rate=0.5), halved(learning_rate=0.5)):
        weight = mx.nd.ones(2)
        opt.get_updater(made)([0], [mx.nd.ones(2)], [weight])
        moved.append(1 - float(weight[0].asscalar()))
    np.testing.assert_allclose(moved[0], 2 * moved[1], rtol=1e-5)


def test_an_updater_takes_optimizers_only():
    with pytest.raises(AttributeError, match="expected an Optimizer, got 'sgd'"):
        mx.kv.create("local").set_optimizer("sgd")


# ------------------------------------------------------------ options that few programs pass; numbers of MXNet 1.9.1
def after_two(optimizer, dtype="float32", shape=(2, 3)):
    weight = mx.nd.array(np.arange(1, 7).reshape(2, 3)[:shape[0], :shape[-1]].reshape(shape) / 4, dtype=dtype)
    state = optimizer.create_state_multi_precision(0, weight)
    for factor in (0.5, 1):
        gradient = mx.nd.array((np.arange(weight.size).reshape(shape) % 3 - 1) * factor, dtype=dtype)
        optimizer.update_multi_precision(0, weight, gradient, state)
    return weight.asnumpy()


@pytest.mark.parametrize("make, options, wanted", [
    (opt.SGLD, {}, [[-0.1445, 0.9172, 1.5622], [1.0278, 1.005, 0.7904]]),
    (opt.Signum, {"momentum": 0.9, "wd_lh": 0.1}, [[0.444, 0.2911, 0.5361], [1.1791, 1.0261, 1.2711]]),
    (opt.Signum, {"momentum": 0, "clip_gradient": 0.3}, [[0.4494, 0.499, 0.5486], [1.1979, 1.2475, 1.2971]]),
    (opt.contrib.GroupAdaGrad, {"wd": 0}, [[0.482, 0.5, 0.518], [1.232, 1.25, 1.268]]),
    (opt.RMSProp, {"clip_weights": 0.5}, [[0.5, 0.07, 0.1486], [0.5, 0.3772, 0.2156]]),
    (opt.RMSProp, {"clip_weights": 0.5, "centered": True}, [[0.5, -0.2459, -0.1967], [0.5, 0.0661, -0.1127]]),
    (opt.LARS, {}, [[0.2502, 0.5, 0.7498], [1.0002, 1.25, 1.4998]]),
    (opt.LAMB, {"lower_bound": 0.5, "upper_bound": 2}, [[0.449, 0.499, 0.549], [1.1974, 1.2475, 1.2975]]),
    (opt.LAMB, {"bias_correction": False}, [[0.4862, 0.4997, 0.5131], [1.2357, 1.2492, 1.2627]]),
    (opt.Test, {"rescale_grad": 0.5}, [[-0.5, 0.5, 1.5], [0.25, 1.25, 2.25]]),
    (opt.LBSGD, {"momentum": 0.5, "warmup_strategy": "lars", "batch_scale": 2},
     [[0.3674, 0.4992, 0.6311], [1.1162, 1.248, 1.3799]]),
    (opt.LBSGD, {"warmup_strategy": "sqrt", "batch_scale": 4}, [[0.25, 0.5, 0.75], [1, 1.25, 1.5]]),
    (opt.NAG, {"clip_gradient": 0.2, "momentum": 0.3}, [[0.3031, 0.4987, 0.6942], [1.0511, 1.2466, 1.4422]]),
    (opt.AdaGrad, {"clip_gradient": 0.2}, [[0.4201, 0.499, 0.5779], [1.1686, 1.2475, 1.3264]]),
    (opt.DCASGD, {}, [[0.3993, 0.499, 0.5988], [1.1478, 1.2475, 1.3473]])])
def test_options_that_few_programs_pass(make, options, wanted):
    mx.random.seed(1)
    found = after_two(make(learning_rate=0.1, **{"wd": 0.01, **options}))
    np.testing.assert_allclose(found, wanted, atol=2e-4)


def test_weights_of_16_bits_with_and_without_copies():
    for copies, wanted in ((True, [0.4443, 0.4985, 0.5527]), (False, [0.4443, 0.4985, 0.5527])):
        found = after_two(opt.SGD(learning_rate=0.1, wd=0.01, momentum=0.9, multi_precision=copies), "float16")
        np.testing.assert_allclose(found[0], wanted, atol=1e-3)


def test_factors_of_rates():
    named = opt.SGD(learning_rate=1, param_idx2name={0: "a_weight", 1: "b_bias"}, wd=1)
    assert named._get_wds([0, 1]) == [1, 0]  # biases do not decay
    named.set_lr_mult({"a_weight": 0.5})
    named.set_wd_mult({"a_weight": 0.3})
    assert (named._get_lrs([0, 1]), named._get_wds([0, 1])) == ([0.5, 1], [0.3, 0])

    class Parameter:
        lr_mult, wd_mult = 0.25, 0.75
    own = opt.SGD(learning_rate=1, wd=1, param_dict={0: Parameter()})
    assert (own._get_lrs([0]), own._get_wds([0])) == ([0.25], [0.75])


def test_updaters_take_one_or_several():
    for optimizer, wanted in ((opt.SGD(learning_rate=0.1), 0.8), (opt.Adam(), 0.998),
                              (opt.DCASGD(learning_rate=0.1), 0.8004)):
        update, weight = opt.get_updater(optimizer), mx.nd.ones(2)
        update(0, mx.nd.ones(2), weight)
        update([0, 1], [mx.nd.ones(2)] * 2, [weight, weight * 2])
        np.testing.assert_allclose(weight.asnumpy(), wanted, atol=1e-4)


@pytest.mark.parametrize("call, error, told", [
    (lambda: opt.contrib.GroupAdaGrad(wd=0.1).update(0, mx.nd.ones((1, 1)), mx.nd.ones((1, 1)), mx.nd.ones((1, 1))),
     AssertionError, "GroupAdaGrad does not support weight decay"),
    (lambda: opt.contrib.GroupAdaGrad().create_state(0, mx.nd.ones(3)), AssertionError, "weights of 2 dimensions"),
    (lambda: opt.SGD(param_idx2name=3), AssertionError, "must be a dict of names by index, got int"),
    (lambda: opt.Optimizer().update(0, 1, 2, 3), NotImplementedError, None),
    (lambda: opt.Optimizer().set_lr_scale({}), DeprecationWarning, "replaced by set_lr_mult"),
    (lambda: opt.create("odd"), ValueError, "odd"),
    (lambda: opt.get_updater(opt.SGD()).set_states(b"abc"), MXNetError, "optimizer states: a value is missing"),
])
def test_what_optimizers_refuse(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_kinds_of_steps_come_back_and_are_checked():
    def stepped(optimizer, steps):
        updater = mx.optimizer.get_updater(optimizer)
        weight = mx.nd.ones((3,))
        for _ in range(steps):
            updater(0, mx.nd.ones((3,)), weight)
        return updater
    saved = stepped(mx.optimizer.Adam(), 6)
    other = stepped(mx.optimizer.Adam(), 0)
    other.set_states(saved.get_states(dump_optimizer=True))
    assert kinds_of_steps(other.optimizer) == kinds_of_steps(saved.optimizer) != {}
    kinds_of_steps(saved.optimizer)[1] = "many"
    with pytest.raises(mx.MXNetError, match="values other than integers"):
        other.set_states(saved.get_states(dump_optimizer=True))
