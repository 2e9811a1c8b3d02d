"""A TrainStep that has been seen is replayed, with the numbers of the loop that it stands for, whatever changes."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import _replay

from ..internals import address_of, chunk_of, forget_replays, updater_of

DATA = np.random.RandomState(3).rand(8, 5).astype("f")
LABEL = np.array([0, 1, 2, 0, 1, 2, 0, 1], "f")


@pytest.fixture
def replayed(monkeypatch):
    """How often a step was replayed: (tried, done)."""
    counts, original = [0, 0], _replay.Replay.__call__

    def call(self, *args):
        done = original(self, *args)
        counts[0] += 1
        counts[1] += done is not None
        return done
    monkeypatch.setattr(_replay.Replay, "__call__", call)
    return counts


def _network(dropout=0.0, normalized=True):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(6, in_units=5, activation="relu"))
    if normalized:
        net.add(mx.gluon.nn.BatchNorm(in_channels=6))
    if dropout:
        net.add(mx.gluon.nn.Dropout(dropout))
    net.add(mx.gluon.nn.Dense(3, in_units=6))
    net.initialize(mx.init.Constant(0.1))
    for i, param in enumerate(net.collect_params().values()):
        if param.name.endswith("weight"):
            param.set_data(mx.nd.array(np.random.RandomState(i).rand(*param.shape) - 0.5))
    net.hybridize()
    return net


def _pair(name="sgd", normalized=True, **options):
    """A network with its trainer and TrainStep, and the same with a loop."""
    rows = []
    for _ in range(2):
        net, loss = _network(normalized=normalized), mx.gluon.loss.SoftmaxCrossEntropyLoss()
        loss.hybridize()
        rows.append((net, loss, mx.gluon.Trainer(net.collect_params(), name, dict(options))))
    (net, loss, trainer), other = rows
    return net, trainer, mx.gluon.TrainStep(net, loss, trainer), other


def _loop(net, loss, trainer, x, y):
    with mx.autograd.record():
        value = loss(net(x), y)
    value.backward()
    trainer.step(x.shape[0])
    return value


def _values(net):
    return [p.data().asnumpy() for p in net.collect_params().values()]


def _same(net, other):
    for mine, theirs in zip(_values(net), _values(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def _set_momentum(net, trainer):
    trainer.optimizer.momentum = 0.5


def _set_data(net, trainer):
    net[0].weight.set_data(net[0].weight.data() * 2)


def _assign(net, trainer):
    net[2].bias.data()[:] = 0.25


def _freeze(net, trainer):
    net[0].weight.grad_req = "null"


def _graph_anew(net, trainer):
    net.hybridize()


def _new_states(net, trainer):
    updater_of(trainer).set_states(updater_of(trainer).get_states())


def _clip(net, trainer):
    trainer.optimizer.clip_gradient = 0.01


def _rate(net, trainer):
    trainer.set_learning_rate(0.01)


def _decay(net, trainer):
    net[0].weight.wd_mult, trainer.optimizer.wd = 3.0, 0.1


def _rate_of_one(net, trainer):
    net[0].weight.lr_mult = 0.1


def _decay_of_one(net, trainer):
    net[0].weight.wd_mult = 5.0


def _other_arrays(net, trainer):
    net[0].weight.initialize(mx.init.Constant(0.1), force_reinit=True)


@pytest.mark.parametrize("change", [_set_momentum, _set_data, _assign, _freeze, _graph_anew, _new_states, _clip, _rate,
                                    _decay, _rate_of_one, _decay_of_one, _other_arrays], ids=lambda f: f.__name__)
def test_what_changes_between_steps_counts(change, replayed):
    net, trainer, step, (net2, loss2, trainer2) = _pair(learning_rate=0.1, momentum=0.9, wd=0.05)
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    for i in range(9):
        if i == 5:
            change(net, trainer)
            change(net2, trainer2)
        mine, theirs = step(x, y), _loop(net2, loss2, trainer2, x, y)
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=2e-5, atol=2e-6)
    _same(net, net2)
    assert replayed[1] >= 4


@pytest.mark.parametrize(("name", "options"), [
    ("sgd", {}), ("sgd", {"momentum": 0.9, "wd": 0.01}), ("nag", {"momentum": 0.9}), ("adam", {})])
def test_optimizers_and_schedules(name, options, replayed):
    schedules = [mx.lr_scheduler.FactorScheduler(step=2, factor=0.7, base_lr=0.05) for _ in range(2)]
    # Adam divides by what is nearly zero in front of a batch normalization
    net, trainer, step, (net2, loss2, trainer2) = _pair(name, name != "adam", **options)
    trainer.optimizer.lr_scheduler, trainer2.optimizer.lr_scheduler = schedules
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    for i in range(16):
        step(x + i, y)
        _loop(net2, loss2, trainer2, x + i, y)
    _same(net, net2)
    assert trainer.optimizer.num_update == trainer2.optimizer.num_update == 16
    assert replayed[0] == replayed[1] > 2


def test_a_schedule_is_asked_once_a_step(replayed):
    asked = []

    class Noted(mx.lr_scheduler.LRScheduler):
        def __call__(self, num_update):
            asked.append(num_update)
            return 0.1 / num_update
    _, _, step, _ = _pair(lr_scheduler=Noted())
    for _ in range(6):
        step(mx.nd.array(DATA), mx.nd.array(LABEL))
    assert asked == [1, 2, 3, 4, 5, 6] and replayed[1] > 2


def test_batches_of_several_shapes(replayed):
    net, _, step, (net2, loss2, trainer2) = _pair(learning_rate=0.1, momentum=0.9)
    for i in range(12):
        size = (8, 4, 2)[i % 3]
        x, y = mx.nd.array(DATA[:size]), mx.nd.array(LABEL[:size])
        step(x, y)
        _loop(net2, loss2, trainer2, x, y)
    _same(net, net2)
    assert replayed[1] == 6


def test_random_numbers_go_on(replayed):
    def losses(replays):
        mx.random.seed(5)
        net, loss = _network(dropout=0.5), mx.gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        step = mx.gluon.TrainStep(net, loss, trainer)
        found = []
        for _ in range(6):
            if not replays:
                forget_replays(step)
            found.append(step(mx.nd.array(DATA), mx.nd.array(LABEL)).asnumpy())
        return found
    with_replays = losses(True)
    assert replayed[1] == 4
    np.testing.assert_allclose(with_replays, losses(False), rtol=2e-5, atol=2e-6)
    assert replayed[1] == 4 and not np.array_equal(with_replays[3], with_replays[4])


def test_python_of_ones_own_is_never_passed_over(replayed):
    calls = []

    class Noted(mx.gluon.nn.HybridSequential):
        def forward(self, x):
            calls.append(x.shape)
            return super().forward(x)
    net = Noted()
    net.add(mx.gluon.nn.Dense(3, in_units=5))
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    for _ in range(5):
        step(mx.nd.array(DATA), mx.nd.array(LABEL))
    assert len(calls) == 5 and replayed == [0, 0]


def test_an_optimizer_of_ones_own_is_never_passed_over(replayed):
    class Halved(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            super().update(index, weight, [g * 0.5 for g in grad], state)

        update_multi_precision = update
    net, other = _network(normalized=False), _network(normalized=False)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    step = mx.gluon.TrainStep(net, loss, mx.gluon.Trainer(net.collect_params(), Halved(learning_rate=0.2)))
    half = mx.gluon.TrainStep(other, loss, mx.gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.1}))
    for _ in range(5):
        for one in (step, half):
            one(mx.nd.array(DATA), mx.nd.array(LABEL))
    _same(net, other)
    assert replayed[0] == replayed[1] > 2


def test_hooks_see_every_step(replayed):
    net, _, step, _ = _pair(learning_rate=0.1)
    x, y, seen = mx.nd.array(DATA), mx.nd.array(LABEL), []
    for _ in range(4):
        step(x, y)
    handle = net.register_forward_hook(lambda block, inputs, output: seen.append(output.shape))
    for _ in range(3):
        step(x, y)
    handle.detach()
    step(x, y)
    assert seen == [(8, 3)] * 3 and replayed[1] >= 2


@pytest.mark.usefixtures("at_once")
def test_results_are_new_arrays_and_memory_is_given_away():
    net, _, step, _ = _pair(learning_rate=0.1, momentum=0.9)
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    losses = [step(x, y) for _ in range(6)]
    assert len({id(chunk_of(loss)) for loss in losses}) == 6
    assert not np.array_equal(losses[4].asnumpy(), losses[5].asnumpy())
    before = address_of(net[0].weight.data())
    held = net[2].weight.data().to_jax()
    was = np.array(held)
    step(x, y)
    assert address_of(net[0].weight.data()) == before
    np.testing.assert_array_equal(np.asarray(held), was)  # somebody holds it: it is not written over


def test_a_replayed_step_sets_a_fixed_gamma_to_one(replayed):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(6, in_units=5), mx.gluon.nn.BatchNorm(in_channels=6, scale=False))
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    for i in range(6):
        if i in (0, 4):
            net[1].gamma.set_data(mx.nd.full(6, 7))
        step(mx.nd.array(DATA), mx.nd.array(LABEL))
        assert net[1].gamma.data().asnumpy().tolist() == [1] * 6
    assert replayed[0] == replayed[1] > 2
