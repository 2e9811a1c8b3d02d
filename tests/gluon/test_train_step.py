"""TrainStep: the numbers of the classic loop, in one program."""

import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.eager import trace as trace

from ..internals import address_of, states_of, traced_programs

DATA = np.random.RandomState(0).randn(16, 6).astype("float32")
LABEL = np.random.RandomState(1).randint(0, 3, 16).astype("float32")


def network(dropout=0.0):
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dropout(dropout),
            mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Uniform(0.5))
    return net


def trained(optimizer, steps=3, make=None, net=None, **params):
    """Parameters and the last loss after some steps of the classic loop, or of what `make` returns."""
    net = net or network()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **params})
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    step = make(net, loss, trainer) if make else None
    if step is None:
        net.hybridize()
    for _ in range(steps):
        if step is not None:
            value = step(x, y)
            continue
        with mx.autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(len(DATA))
    return [p.data().asnumpy() for p in net.collect_params().values()] + [value.asnumpy()]


@pytest.mark.parametrize("optimizer, params", [("sgd", {"momentum": 0.9, "wd": 1e-3}), ("adam", {})])
def test_same_numbers_as_the_classic_loop(optimizer, params):
    expected = trained(optimizer, **params)
    found = trained(optimizer, make=mx.gluon.TrainStep, **params)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


_MESH = """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
import mxjax as mx
random = np.random.RandomState(0)
x, y = mx.nd.array(random.randn(16, 6)), mx.nd.array(random.randint(0, 3, 16))

def trained(mesh, looks):
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Uniform(0.5))
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, mesh=mesh)
    for _ in range(3):
        loss = step(x, y)
        if looks:
            assert np.isfinite(net(x).asnumpy()).all()  # an ordinary call on one device, in between
    return step, [p.data().asnumpy() for p in net.collect_params().values()] + [loss.asnumpy()]

_, expected = trained(None, False)
for mesh, looks in ((jax.make_mesh((4,), ("data",)), False), (jax.make_mesh((2, 2), ("batch", "other")), True)):
    step, found = trained(mesh, looks)
    for a, b in zip(expected, found):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
try:
    step(x[:3], y[:3])
except mx.MXNetError as error:
    assert "cannot be split" in str(error)
else:
    raise AssertionError("3 rows on 2 devices")
print("good")
"""


def test_mesh_gives_the_numbers_of_one_device():
    done = subprocess.run([sys.executable, "-W", "error", "-c", _MESH], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "good", done.stderr


@pytest.mark.parametrize("optimizer, params", [("sgd", {"momentum": 0.9}), ("adam", {}), ("lbsgd", {})])
def test_one_program_for_all_steps_and_learning_rates(optimizer, params):
    net = network(dropout=0.5)
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=0.1)
    params = {"learning_rate": 0.1, "lr_scheduler": schedule, **params}
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, params)
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    before = len(traced_programs())
    losses = [step(x, y).asnumpy() for _ in range(12)]  # the loop's updates become one program after some
    assert len(traced_programs()) == before + 1
    assert not np.array_equal(losses[2], losses[3])  # new random numbers in each step


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("options", [{"clip_norm": 1.0}, {"accumulate": 2}, {"accumulate": 2, "clip_norm": 1.0}])
def test_steps_that_cannot_be_replayed_are_one_program_and_in_place(options):
    net, x, y = network(), mx.nd.array(DATA), mx.nd.array(LABEL)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **options)
    step(x, y).wait_to_read()
    before, places = len(traced_programs()), []
    for _ in range(10):
        step(x, y).wait_to_read()
        places.append(net[0].weight.data().to_jax().unsafe_buffer_pointer())
    assert len(traced_programs()) == before
    assert len(set(places)) == 1


@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}])
def test_arrays_that_somebody_holds_stay_and_compile_nothing(options, compiles):
    """They are copied, as another program that spares them would take long to compile."""
    net, x, y = network(), mx.nd.array(DATA), mx.nd.array(LABEL)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **options)
    for _ in range(3):
        step(x, y).wait_to_read()
    compiles.clear()
    held, values = [], []
    for block in (net[0], net[3], net[0]):
        held.append(block.weight.data().to_jax())
        values.append(block.weight.data().asnumpy().copy())
        step(x, y).wait_to_read()
    assert not compiles
    for array, value in zip(held, values, strict=True):
        np.testing.assert_array_equal(array, value)
    assert (net[0].weight.data().asnumpy() != values[2]).all()


@pytest.mark.usefixtures("at_once")
def test_memory_is_updated_in_place_and_gradients_are_left_alone():
    net = network()
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    step(x, y)
    weight = net[0].weight
    address = weight.data().to_jax().unsafe_buffer_pointer()
    step(x, y)
    assert weight.data().to_jax().unsafe_buffer_pointer() == address
    assert not weight.grad().asnumpy().any()
    held = weight.data().to_jax()
    value = np.array(held)
    step(x, y)
    np.testing.assert_array_equal(held, value)  # somebody's own array stays as it was


def test_imperative_blocks_and_losses_inside():
    class Net(mx.gluon.Block):
        def __init__(self):
            super().__init__()
            self.dense = mx.gluon.nn.Dense(3)

        def forward(self, x, y):
            return mx.gluon.loss.SoftmaxCrossEntropyLoss()(self.dense(x), y)
    mx.random.seed(3)
    net = Net()
    net.initialize()
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    step = mx.gluon.TrainStep(net, None, trainer)
    losses = [step(x, y).mean().asscalar() for _ in range(6)]
    assert losses[-1] < losses[0]


def test_gradients_that_add_up_are_kept():
    def grad(step_of):
        mx.random.seed(3)
        net = mx.gluon.nn.Dense(1, in_units=6)
        net.initialize()
        net.weight.grad_req = "add"
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0})
        step = step_of(net, mx.gluon.loss.L2Loss(), trainer)
        for _ in range(2):
            step(mx.nd.array(DATA), mx.nd.array(LABEL))
        return net.weight.grad().asnumpy()

    def classic(net, loss, trainer):
        def step(x, y):
            with mx.autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(16)
        return step
    np.testing.assert_allclose(grad(mx.gluon.TrainStep), grad(classic), rtol=1e-5)


def test_mistakes():
    net = network()
    loss = mx.gluon.loss.L2Loss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(TypeError, match="trainer must be"):
        mx.gluon.TrainStep(net, loss, "sgd")
    with pytest.raises(TypeError, match="net must be callable"):
        mx.gluon.TrainStep(None, loss, trainer)
    step = mx.gluon.TrainStep(net, loss, trainer)
    with pytest.raises(TypeError, match="must be NDArrays"):
        step(DATA, LABEL)
    two = network()
    two.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    with pytest.raises(ValueError, match="2 contexts"):
        mx.gluon.TrainStep(two, loss, mx.gluon.Trainer(two.collect_params(), "sgd"))


def test_a_mistake_in_a_shape_leaves_the_network_as_it_was():
    net = network()
    x, y = mx.nd.array(DATA), mx.nd.array(LABEL)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    step(x, y)
    before = net[0].weight.data().asnumpy()
    with pytest.raises(mx.MXNetError):
        step(mx.nd.ones((4, 5)), y)
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), before)
    assert np.isfinite(step(x, y).asnumpy()).all()


def test_many_shapes_are_reported():
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
    with pytest.warns(UserWarning, match="different shapes"):
        for n in range(1, 9):
            step(mx.nd.ones((n, 2)), mx.nd.ones((n, 1)))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_every_result_takes_the_memory_of_what_it_replaces(optimizer):
    """Another's would have to be copied first: several parameters and states have one shape here."""
    net = mx.gluon.nn.HybridSequential()
    for _ in range(2):
        net.add(mx.gluon.nn.Dense(8, in_units=8), mx.gluon.nn.BatchNorm(in_channels=8))
    net.initialize()
    options = {"momentum": 0.9} if optimizer == "sgd" else {}
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **options})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)

    def pointers():
        states = jax.tree.leaves(list(states_of(trainer).values()), is_leaf=lambda x: isinstance(x, mx.nd.NDArray))
        arrays = [p.data() for p in net.collect_params().values()] + states
        return [address_of(a) for a in arrays]
    x, y = mx.nd.ones((4, 8)), mx.nd.zeros((4, 8))
    for _ in range(2):
        step(x, y).wait_to_read()
    before = pointers()
    for _ in range(3):
        step(x, y).wait_to_read()
    assert pointers() == before and len(set(before)) == len(before)


_LAYERS = """
import mxjax as mx
net = mx.gluon.nn.HybridSequential()
net.add(*[mx.gluon.nn.Conv2D(48, 3, padding=1, in_channels=48, activation="tanh") for _ in range(3)])
net.initialize(ctx=mx.cpu())
trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
x = mx.nd.ones((4, 48, 12, 12), ctx=mx.cpu())
for _ in range(3):
    step(x, x).wait_to_read()
"""


def test_weights_are_not_copied_before_they_are_written_over(tmp_path):
    """Each layer's gradient by its data reads the weight: XLA copies it where nothing says that this comes first."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "MXNET_ENFORCE_DETERMINISM": "1",
                   "XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", _LAYERS], env=environment, check=True, timeout=300)
    texts = [path.read_text() for path in tmp_path.glob("*after_optimizations.txt")]
    program = max(texts, key=len)
    assert program.count("f32[48,48,3,3]") > 20
    assert not re.findall(r"f32\[48,48,3,3\]\S* copy\(%values", program)


def test_a_recurrent_layer_alone():
    """Its call adds the states that its graph takes."""
    net = mx.gluon.rnn.LSTM(3, layout="NTC")
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    x, y = mx.nd.ones((2, 4, 5)), mx.nd.ones((2, 4, 3))
    losses = [step(x, y).mean().asscalar() for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("plan", ["eet" + "e" * 20, "e" * 22 + "t", "etb" * 7 + "te"])
def test_steps_of_many_weights_in_turns(plan, monkeypatch):
    """By the loop (e), as one program (t) and with calls in bulk (b): updates one by one and together are the same."""
    monkeypatch.setattr("mxjax.optimizer.updater.STEADY", 1)  # the loop's become one program after 16 steps
    def trained(plan):
        net = mx.gluon.nn.HybridSequential()
        for _ in range(8):
            net.add(mx.gluon.nn.Dense(4, activation="tanh", in_units=4))
        net.initialize(mx.init.One())
        net.hybridize()
        data, label = mx.nd.array(np.linspace(-1, 1, 8).reshape(2, 4)), mx.nd.zeros((2, 4))
        loss = mx.gluon.loss.L2Loss()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=None)
        step = mx.gluon.TrainStep(net, loss, trainer)
        for kind in plan:
            if kind == "t":
                step(data, label)
                continue
            with mx.engine.bulk(50 if kind == "b" else 0):
                with mx.autograd.record():
                    value = loss(net(data), label)
                value.backward()
                trainer.step(2)
        return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])
    np.testing.assert_allclose(trained(plan), trained("e" * len(plan)), rtol=1e-4, atol=1e-6)
