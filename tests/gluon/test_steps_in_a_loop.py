"""`TrainStep.run`: many steps as one program, with the numbers of as many calls."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.base import MXNetError
from mxjax.gluon import _replay

from ..internals import change_updates

STEPS = 5
DATA = np.random.RandomState(3).rand(STEPS, 8, 5).astype("f")
LABEL = np.random.RandomState(4).randint(0, 3, (STEPS, 8)).astype("f")


@pytest.fixture
def loops(monkeypatch, at_once):
    """The number of steps of each loop that ran as one program."""
    counts, original = [], _replay.Loop.__call__

    def call(self, *args):
        done = original(self, *args)
        counts.append(done and done[1])
        return done
    monkeypatch.setattr(_replay.Loop, "__call__", call)
    return counts


def made(**options):
    mx.random.seed(5)
    np.random.seed(5)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(6, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dropout(0.3),
            gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    schedule = mx.lr_scheduler.FactorScheduler(4, 0.5)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01, "lr_scheduler": schedule})
    return net, gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **options), trainer


def compare(rounds, **options):
    """Trains by `run`, then step by step from the same seeds."""
    net, step, trainer = made(**options)
    losses = [step.run(mx.nd.array(DATA), mx.nd.array(LABEL)).asnumpy() for _ in range(rounds)]
    other, single, _ = made(**options)
    for loss in losses:
        wanted = [single(mx.nd.array(x), mx.nd.array(y)).asnumpy() for x, y in zip(DATA, LABEL, strict=True)]
        np.testing.assert_allclose(loss, np.stack(wanted), 1e-5, 1e-6)
    for one, two in zip(net.collect_params().values(), other.collect_params().values(), strict=True):
        np.testing.assert_allclose(one.data().asnumpy(), two.data().asnumpy(), 1e-4, 1e-5)
    return net, step, trainer


def test_numbers_are_those_of_calls(loops):
    _, _, trainer = compare(4)
    assert loops == [STEPS] * 3  # the first call's steps are done one by one
    assert trainer.optimizer.num_update == 4 * STEPS and trainer.learning_rate < 0.01 / 15


def test_other_numbers_of_steps_and_single_steps_in_between(loops):
    _, step, trainer = compare(2)
    assert step.run(mx.nd.array(DATA[:2]), mx.nd.array(LABEL[:2])).shape == (2, 8)
    step(mx.nd.array(DATA[0]), mx.nd.array(LABEL[0]))
    assert loops == [STEPS, 2] and trainer.optimizer.num_update == 2 * STEPS + 3


def test_steps_that_are_more_than_their_program_are_done_one_by_one(loops):
    compare(3, accumulate=2)
    net, seen = made()[0], []
    net.register_forward_hook(lambda *_: seen.append(1))
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    for _ in range(3):
        step.run(mx.nd.array(DATA), mx.nd.array(LABEL))
    assert len(seen) == 3 * STEPS and loops == []


def test_an_optimizer_that_changes_within_the_loop(loops):
    _, step, trainer = compare(2)
    calls = []

    def later(name, options):
        calls.append(1)
        return name, options if len(calls) < 9 else {**options, "epsilon": 1e-3}
    change_updates(trainer.optimizer, later)
    losses = step.run(mx.nd.array(DATA), mx.nd.array(LABEL))
    assert losses.shape == (STEPS, 8) and np.isfinite(losses.asnumpy()).all()
    assert trainer.optimizer.num_update == 3 * STEPS


def test_mistakes():
    step = made()[1]
    with pytest.raises(TypeError, match="inputs must be NDArrays, got ndarray"):
        step.run(DATA, LABEL)
    for inputs in ((mx.nd.array(DATA), mx.nd.array(LABEL[:2])), (mx.nd.array(DATA[:0]), mx.nd.array(LABEL[:0])),
                   (mx.nd.ones(3), mx.nd.ones(3))):
        with pytest.raises(MXNetError, match=r"each input must have the shape \(steps, batch, ...\)"):
            step.run(*inputs)
