"""A TrainStep retains the values of parameters and states between its runs; nobody can notice it."""

import functools
import gc
import threading
import weakref

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.eager.chunk import Retained, exclusive

from ..internals import chunk_of, is_retained, updater_of

pytestmark = pytest.mark.usefixtures("at_once")
X, Y = mx.nd.array(np.random.RandomState(0).rand(4, 3)), mx.nd.array(np.random.RandomState(1).rand(4, 2))
RUNS = 8


def _made(optimizer="sgd", **options):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, in_units=3, activation="tanh"), mx.gluon.nn.BatchNorm(in_channels=3),
            mx.gluon.nn.Dense(2, in_units=3))
    net.initialize()
    for i, param in enumerate(net.collect_params().values()):
        if param.name.endswith("weight"):
            param.set_data(mx.nd.array(np.random.RandomState(i).rand(*param.shape)))
    options = options or {"learning_rate": 0.1, "momentum": 0.9}
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, options)
    return net, trainer, mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)


def _values(net):
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.fixture(name="undisturbed")
def _undisturbed(at_once):
    """The losses and final values of a training whose arrays nobody uses."""
    return _alone()


@functools.cache
def _alone():
    net, _, step = _made()
    losses = [step(X, Y) for _ in range(RUNS)]
    assert is_retained(net[0].weight.data()) and is_retained(net[1].running_mean.data())
    return [loss.asnumpy() for loss in losses], _values(net)


def _same(values, expected):
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def _weight(net):
    return net[0].weight.data()


def _read_view(net, trainer):
    assert np.array_equal(_weight(net)[0].asnumpy(), _weight(net).asnumpy()[0])


USES = {
    "read": lambda net, trainer: _weight(net).asnumpy(),
    "view": _read_view,
    "shape": lambda net, trainer: _weight(net).shape,
    "wait": lambda net, trainer: _weight(net).wait_to_read(),
    "predict": lambda net, trainer: net(X).asnumpy(),
    "imperative": lambda net, trainer: (_weight(net) * 2 + net[1].running_var.data()).asnumpy(),
    "rewrite": lambda net, trainer: net[0].weight.set_data(_weight(net).copy()),
    "assign": lambda net, trainer: _weight(net).__setitem__(slice(None), _weight(net) * 1),
    "assign part": lambda net, trainer: _weight(net).__setitem__(0, _weight(net)[0]),
    "assign element": lambda net, trainer: _weight(net)[1].__setitem__(slice(1, 2), _weight(net)[1, 1].asscalar()),
    "in place": lambda net, trainer: _weight(net).__imul__(1),
    "out": lambda net, trainer: mx.nd.identity(_weight(net), out=_weight(net)),
    "copyto": lambda net, trainer: _weight(net).copyto(_weight(net).copy()),
    "states": lambda net, trainer: updater_of(trainer).get_states(),
    "numpy": lambda net, trainer: np.from_dlpack(_weight(net)),
}


@pytest.mark.parametrize("use", USES)
def test_any_use_between_steps_gives_the_same_numbers(use, undisturbed):
    net, trainer, step = _made()
    losses = []
    for i in range(RUNS):
        losses.append(step(X, Y).asnumpy())
        if i in (4, 5):
            USES[use](net, trainer)
    np.testing.assert_array_equal(losses, undisturbed[0])
    _same(_values(net), undisturbed[1])


@pytest.mark.parametrize("write", [
    lambda array: array.__setitem__(slice(None), 0.5),
    lambda array: array.__setitem__(slice(None), mx.nd.full((3, 3), 0.5)),
    lambda array: mx.nd.full((3, 3), 0.5).copyto(array),
    lambda array: mx.nd.abs(mx.nd.full((3, 3), -0.5), out=array),
    lambda array: mx.nd.random.uniform(0.5, 0.5, out=array),
    lambda array: array.reshape(-1).__setitem__(slice(None), 0.5)])
def test_a_value_that_is_written_counts(write):
    net, _, step = _made(learning_rate=0.1)
    for _ in range(6):
        step(X, Y)
    assert is_retained(_weight(net))
    write(_weight(net))
    other, _, again = _made(learning_rate=0.1)
    for param, value in zip(other.collect_params().values(), _values(net), strict=True):
        param.set_data(mx.nd.array(value))
    assert (other[0].weight.data().asnumpy() == 0.5).all()
    for _ in range(3):
        np.testing.assert_array_equal(step(X, Y).asnumpy(), again(X, Y).asnumpy())


def test_views_and_copies_keep_their_values():
    net, _, step = _made()
    for _ in range(4):
        step(X, Y)
    view, copy, buffer = _weight(net)[1], _weight(net).copy(), _weight(net).to_jax()
    before = copy.asnumpy()
    np.testing.assert_array_equal(view.asnumpy(), before[1])
    for _ in range(3):
        step(X, Y)
    assert is_retained(_weight(net))
    np.testing.assert_array_equal(copy.asnumpy(), before)
    np.testing.assert_array_equal(np.asarray(buffer), before)
    now = view.asnumpy()
    assert not np.array_equal(now, before[1])
    np.testing.assert_array_equal(now, _weight(net).asnumpy()[1])


def test_exported_memory_is_never_written():
    net, _, step = _made()
    for _ in range(4):
        step(X, Y)
    exported = np.from_dlpack(_weight(net))
    before = exported.copy()
    for _ in range(3):
        step(X, Y)
    assert not is_retained(_weight(net))
    np.testing.assert_array_equal(exported, before)


def test_a_schedule_that_reads_a_weight_sees_the_value_before_the_step(undisturbed):
    net, trainer, step = _made()
    seen, expected = [], []

    class Reading(mx.lr_scheduler.LRScheduler):
        def __call__(self, num_update):
            seen.append(_weight(net).asnumpy().copy())
            return 0.1
    trainer.optimizer.lr_scheduler = Reading()
    for _ in range(RUNS):
        expected.append(_weight(net).asnumpy())
        step(X, Y)
    assert len(seen) >= RUNS
    np.testing.assert_array_equal(seen[-1], expected[-1])
    _same(_values(net), undisturbed[1])


def test_arrays_that_are_read_after_each_step_are_rarely_retained(monkeypatch):
    net, _, step = _made()
    retained, original = [], Retained.retain

    def retain(self, chunks):
        original(self, chunks)
        retained.append(is_retained(_weight(net)))
    monkeypatch.setattr(Retained, "retain", retain)
    for _ in range(40):
        step(X, Y)
        _weight(net).asnumpy()
    assert len(retained) > 30 and sum(retained) <= 6


def test_interrupts_lose_nothing(undisturbed, monkeypatch):
    """Ctrl-C before the program, and after it."""
    net, _, step = _made()
    losses = [step(X, Y).asnumpy() for _ in range(4)]
    retained = chunk_of(_weight(net)).stash

    def interrupted(call, first):
        def run(values, made):
            if not first:
                call(values, made)
            raise KeyboardInterrupt
        return run
    original = Retained.run
    for first in (True, False):
        monkeypatch.setattr(Retained, "run", lambda self, call, f=first: original(self, interrupted(call, f)))
        with pytest.raises(KeyboardInterrupt):
            step(X, Y)
        monkeypatch.undo()
        assert chunk_of(_weight(net)).stash is retained
    losses += [step(X, Y).asnumpy() for _ in range(3)]  # the second interrupted step counts: its program has run
    np.testing.assert_array_equal(losses, undisturbed[0][:4] + undisturbed[0][5:])
    _same(_values(net), undisturbed[1])


def test_an_interrupt_while_values_are_taken_loses_nothing():
    chunks = [chunk_of(mx.nd.ones((2, 2))) for _ in range(3)]
    retained = Retained(chunks, tuple)

    def interrupted():
        yield chunks[0]
        raise KeyboardInterrupt

    class Chunks(list):
        def __iter__(self):
            self.passes = getattr(self, "passes", 0) + 1
            return super().__iter__() if self.passes == 1 else interrupted()
    with pytest.raises(KeyboardInterrupt), exclusive(chunks):
        for chunk in chunks:
            chunk.write(jax.numpy.full((2, 2), 3.0))
        retained.retain(Chunks(chunks))
    assert retained.run(lambda values, made: pytest.fail("some chunks have their values")) is None
    assert [float(chunk.read().sum()) for chunk in chunks] == [12.0] * 3


def test_threads_read_whole_steps():
    """Readers see values of one step, and each step's numbers stay as they are alone."""
    net, _, step = _made()
    weight = _weight(net)
    expected = [weight.asnumpy().tobytes()]
    for _ in range(60):
        step(X, Y)
        expected.append(weight.asnumpy().tobytes())
    net, _, step = _made()
    weight, seen, stop = _weight(net), [], threading.Event()

    def read():
        while not stop.is_set():
            seen.append(weight.asnumpy().tobytes())
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(60):
        step(X, Y)
    stop.set()
    for reader in readers:
        reader.join(60)
    assert seen and set(seen) <= set(expected) and weight.asnumpy().tobytes() == expected[-1]


def test_memory_is_freed_without_garbage_collection():
    chunk = chunk_of(mx.nd.ones((3, 3)))
    gc.disable()
    try:
        retained = Retained([chunk], tuple)
        with exclusive([chunk]):
            chunk.write(jax.numpy.zeros((3, 3)))
            value = weakref.ref(chunk.read())
            retained.retain([chunk])
        assert value() is not None
        del chunk, retained
        assert value() is None
    finally:
        gc.enable()


def test_an_array_outlives_its_training():
    net, trainer, step = _made()
    for _ in range(5):
        loss = step(X, Y)
    weight = _weight(net)
    assert is_retained(weight)
    del net, trainer, step
    gc.collect()
    assert weight.asnumpy().shape == (3, 3) and np.isfinite(loss.asnumpy()).all()
