"""Trainer: updates, stores, stale gradients, state files."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import clear_caches, gluon
from mxjax.kernel import policy

from ..internals import first_steps_of, updater_of

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def _parameter(ctx, **kwargs):
    p = gluon.Parameter("x", shape=(4,), **kwargs)
    p.initialize(ctx=ctx, init="zeros")
    return p


def _backward(p, factor=1.0):
    for array in p.list_data():
        with mx.autograd.record():
            y = array * factor
        y.backward()


@pytest.mark.parametrize("store, on_store", [("device", None), ("device", False), ("local", True), (None, None)])
def test_devices_see_the_sum(store, on_store):
    p = _parameter(CONTEXTS)
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.5}, kvstore=store,
                            update_on_kvstore=on_store)
    for _ in range(2):
        _backward(p)
        trainer.step(2)
    rate = 2.0 if store else 1.0
    for array in p.list_data():
        np.testing.assert_allclose(array.asnumpy(), -rate / 2 * 2.5)


def test_multipliers_and_learning_rate():
    p = _parameter([mx.cpu()], lr_mult=0.5)
    trainer = gluon.Trainer({"x": p}, "sgd", {"learning_rate": 1.0})
    _backward(p)
    trainer.step(1)
    trainer.set_learning_rate(4.0)
    p.lr_mult = 1.0
    _backward(p)
    trainer.step(1)
    assert trainer.learning_rate == 4.0 and p.data().asnumpy().tolist() == [-4.5] * 4


def test_stale_gradients():
    p, other = _parameter([mx.cpu()]), gluon.Parameter("y", shape=(1,), init="zeros")
    other.initialize()
    trainer = gluon.Trainer([p, other], "sgd", {"learning_rate": 1.0})
    _backward(p)
    with pytest.raises(UserWarning, match="Parameter `y`"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    trainer.step(1, ignore_stale_grad=True)
    assert p.data().asnumpy().tolist() == [-1] * 4


def test_gradients_can_be_changed_between_sum_and_update():
    p = _parameter(CONTEXTS)
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    _backward(p, 3.0)
    trainer.allreduce_grads()
    norm = gluon.utils.clip_global_norm([p.grad(mx.cpu(0))], 6.0)
    gluon.utils.clip_global_norm([p.grad(mx.cpu(1))], 6.0)
    assert norm == pytest.approx(12.0)
    trainer.update(1)
    np.testing.assert_allclose(p.data(mx.cpu(1)).asnumpy(), -3.0, rtol=1e-5)
    on_store = gluon.Trainer([_parameter(CONTEXTS)], "sgd", kvstore="device", update_on_kvstore=True)
    for call in (on_store.allreduce_grads, lambda: on_store.update(1)):
        with pytest.raises(AssertionError, match="not supported"):
            call()


@pytest.mark.parametrize("on_store", [True, False])
def test_states_survive_a_file(tmp_path, on_store):
    file = str(tmp_path / "trainer.states")
    p = _parameter(CONTEXTS)
    trainer = gluon.Trainer([p], "adam", {"learning_rate": 0.1}, update_on_kvstore=on_store)
    _backward(p)
    trainer.step(1)
    trainer.save_states(file)
    trainer.load_states(file)
    p.lr_mult = 2.0
    assert trainer.optimizer._get_lr(0) == pytest.approx(0.2)
    other = gluon.Trainer([_parameter(CONTEXTS)], "sgd", update_on_kvstore=on_store)
    other.load_states(file)
    assert isinstance(other.optimizer, mx.optimizer.Adam)
    p.set_data(mx.nd.ones((4,)))
    _backward(p)
    trainer.step(1)
    assert (p.data(mx.cpu(0)).asnumpy() < 1).all()


def test_many_parameters_in_few_programs(compiles):
    params = gluon.ParameterDict()
    for i in range(20):
        params.get(f"p{i}", shape=(3,), init="ones")
    params.initialize()
    trainer = gluon.Trainer(params, "adam", {"learning_rate": 0.1})
    for _ in range(3):
        for p in params.values():
            _backward(p)
        before = len(compiles)
        trainer.step(1)
    assert len(compiles) == before
    np.testing.assert_allclose(params["p7"].data().asnumpy(), 0.7, rtol=1e-4)


def test_wrong_arguments():
    p = _parameter([mx.cpu()])
    with pytest.raises(ValueError, match="list or dict"):
        gluon.Trainer(p, "sgd")
    with pytest.raises(ValueError, match="list or dict of Parameters, got list"):
        gluon.Trainer([1], "sgd")
    with pytest.raises(AssertionError, match="same set of contexts"):
        gluon.Trainer([p, _parameter(CONTEXTS)], "sgd")
    with pytest.raises(AssertionError, match="must be None"):
        gluon.Trainer([p], mx.optimizer.SGD(), {"learning_rate": 1})
    sparse = gluon.Parameter("w", shape=(2, 2), stype="row_sparse", grad_stype="row_sparse", init="ones")
    sparse.initialize()
    trainer = gluon.Trainer([sparse], "sgd", update_on_kvstore=False)
    with pytest.raises(ValueError, match="sparse weights"):
        trainer.step(1)
    with pytest.raises(RuntimeError, match="supports only one"):
        gluon.Trainer([sparse], "sgd")


@pytest.mark.parametrize("whole", [False, True])
def test_constants_are_left_alone(whole):
    """MXNet's test_constant: a Trainer that has a constant among its parameters steps over it."""
    class Shifted(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(2,), init="ones")
            self.shift = self.params.get_constant("shift", [1.0, 2.0])

        def hybrid_forward(self, F, x, weight, shift):
            return F.broadcast_add(F.broadcast_mul(x, weight), shift)
    net = Shifted()
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    x = mx.nd.ones((3, 2))
    if whole:
        mx.gluon.TrainStep(net, None, trainer)(x)
    else:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        trainer.step(3)
    assert net.shift.data().asnumpy().tolist() == [1, 2] and net.shift.grad_req == "null"
    np.testing.assert_allclose(net.weight.data().asnumpy(), [0, 0])


@pytest.mark.parametrize("hybridize", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_training_that_is_resumed_has_the_bits_of_one_that_is_not(hybridize, monkeypatch, tmp_path):
    """NumPy computes the first steps; what becomes one program when, and which updates, is as it was. A hybridized
    network has two batch sizes, each with steps of its own."""
    monkeypatch.setattr(policy, "MOST_STEPS", 2)
    data = mx.nd.random.uniform(shape=(12, 16, 6))
    labels = mx.nd.arange(16) % 3
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def trained(begin, end):
        clear_caches()
        mx.random.seed(3)
        net = mx.gluon.nn.HybridSequential(prefix="net_")  # states are by the order of the parameters' names
        with net.name_scope():
            for _ in range(5):
                net.add(mx.gluon.nn.Dense(8, activation="tanh", flatten=False), mx.gluon.nn.BatchNorm())
        net.initialize()
        net(data[0])
        if hybridize:
            net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "adam")
        if begin:
            net.load_parameters(str(tmp_path / "net"))
            trainer.load_states(str(tmp_path / "trainer"))
        for step in range(begin, end):
            rows = 16 - hybridize * (step % 2)
            with mx.autograd.record():
                loss = loss_of(net(data[step, :rows]), labels[:rows])
            loss.backward()
            trainer.step(rows)
        net.save_parameters(str(tmp_path / "net"))
        trainer.save_states(str(tmp_path / "trainer"))
        assert end < 6 or first_steps_of(updater_of(trainer).optimizer) == 2 * policy.SETTLED + 2 * (1 + hybridize)
        return [p.data().asnumpy().tobytes() for p in net.collect_params().values()]
    expected = trained(0, 12)
    for stop in (2, 6, 10):
        trained(0, stop)
        assert trained(stop, 12) == expected
