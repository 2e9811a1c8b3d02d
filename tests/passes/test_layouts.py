"""Programs that lay what they write over: the numbers of those that do not, whatever happens to arrays in between."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Layout

import mxjax as mx
from mxjax.eager import trace as trace
from mxjax.kernel import xla
from mxjax.kernel.policy import Programs
from mxjax.ops import registry
from mxjax.ops.by_device import traced_for
from mxjax.passes import layouts
from mxjax.plan import program

from ..internals import address_of, buffer_of


def turned(shape):
    return Layout(tuple(range(len(shape)))[::-1])


@pytest.fixture
def turning(monkeypatch):
    """Training steps here have XLA lay parameters the other way round, as a compiler that wants them so would."""
    monkeypatch.setattr(xla, "CHOOSE", frozenset({"cpu"}))
    monkeypatch.setattr(layouts, "preferred", turned)
    monkeypatch.setattr(trace, "_programs", Programs())


def order(param):
    return buffer_of(param.data()).format.layout.major_to_minor


def network():
    mx.random.seed(3)
    net = mx.gluon.nn.HybridSequential(prefix="laid_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3, in_channels=2), mx.gluon.nn.BatchNorm(in_channels=4),
                mx.gluon.nn.Dense(3, in_units=4 * 16))
    net.initialize(mx.init.Xavier())
    return net


def history(folder):
    """What some steps give while values are written, looked at, saved and loaded in between."""
    net, random = network(), np.random.RandomState(0)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    x, y = mx.nd.array(random.randn(4, 2, 6, 6)), mx.nd.array([0, 1, 2, 1])
    found, orders = [], []
    for turn in range(6):
        found.append(step(x, y).asnumpy())
        orders.append(order(net[0].weight))
        assert net[0].weight.data().asnumpy().flags.c_contiguous
        if turn == 1:
            net[0].weight.set_data(net[0].weight.data() * 0.5)
        if turn == 2:
            net[2].weight.data()[1:] = 0.01
        if turn == 3:
            net.save_parameters(str(folder / "net.params"))
            trainer.save_states(str(folder / "net.states"))
            net.load_parameters(str(folder / "net.params"))
            trainer.load_states(str(folder / "net.states"))
    found += [net(x).asnumpy(), (net[0].weight.data() * 2).asnumpy(), net[0].weight.data()[1, 1].asnumpy()]
    with mx.autograd.record():
        loss = net(x).sum()
    loss.backward()
    trainer.step(4)  # the classic loop goes on from there
    return found + [p.data().asnumpy() for p in net.collect_params().values()], orders


@pytest.mark.usefixtures("at_once")
def test_the_numbers_are_those_of_other_programs(tmp_path, request):
    expected, plain = history(tmp_path)
    request.getfixturevalue("turning")
    found, orders = history(tmp_path)
    assert set(plain) == {(0, 1, 2, 3)} and set(orders) == {(3, 2, 1, 0)}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("at_once")
def test_steps_write_over_what_they_are_given(turning):
    net = network()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "adam"))
    x, y = mx.nd.ones((4, 2, 6, 6)), mx.nd.zeros((4, 3))

    def pointers():
        return [address_of(p.data()) for p in net.collect_params().values()]
    step(x, y).wait_to_read()
    before = pointers()
    for _ in range(3):
        step(x, y).wait_to_read()
    assert pointers() == before


def test_one_program_for_each_device():
    """What is compiled in a layout is for the devices that it was compiled for."""
    done = subprocess.run([sys.executable, "-c", """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 2)
from mxjax.passes.layouts import AutoLayout
given = np.arange(6, dtype="float32").reshape(2, 3)
laid = AutoLayout(lambda x, by: (x * by,), {0: 0}, 1, lambda lowered: lowered.compile())
for turn in range(2):
    for number, device in enumerate(jax.devices()):
        found, = laid(jax.device_put(given, device), np.float32(number))
        assert found.devices() == {device}
        np.testing.assert_array_equal(found, given * number)
"""], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def test_a_result_that_would_lie_otherwise_lies_as_its_argument():
    """The next call is given it: XLA would copy it there each time."""
    tried = []

    def compile(before, after):
        tried.append((before[0].layout, after[0].layout))
        return jax.jit(lambda x: (x.T @ x,), in_shardings=before, out_shardings=after,
                       donate_argnums=0).trace(x).lower().compile()
    x = jnp.eye(4)
    one, other = Layout((0, 1)), Layout((1, 0))
    chosen = iter([one, other])

    def differently(before, after):
        if not tried:  # as if XLA had chosen so
            before, after = ((layouts.Format(next(chosen), f.sharding),) for f in (before[0], after[0]))
        return compile(before, after)
    program, formats = layouts.compile_laid({0: 0}, [x.sharding], [x.sharding], lambda i: Layout.AUTO, differently)
    orders = [(a.major_to_minor, b.major_to_minor) for a, b in tried]
    assert orders == [((0, 1), (1, 0)), ((0, 1), (0, 1))]
    assert formats[0].layout == program.output_formats[0].layout and formats[0].layout.major_to_minor == (0, 1)


def test_what_is_not_read_may_lie_anyhow(turning):
    """Its memory is taken for a result all the same, whose layout the next call need not care for."""
    compiled_for = []

    def compile(lowered):
        compiled_for.append(lowered)
        return lowered.compile()
    laid = layouts.AutoLayout(lambda w, label, m, x: (w * x, jnp.ones((3, 4))), {0: 0, 2: 1}, 2, compile)
    w, m = jnp.arange(6.0).reshape(2, 3), jnp.zeros((3, 4))
    for _ in range(3):
        w, m = laid(w, jnp.ones(5), m, np.float32(2))
    np.testing.assert_array_equal(w, 8 * np.arange(6.0).reshape(2, 3))
    assert w.format.layout.major_to_minor == (1, 0) and len(compiled_for) == 1


def test_updates_of_the_classic_loop_lay_nothing(turning):
    """Whose forward programs take the weights as they lie."""
    net = network()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for _ in range(3):
        with mx.autograd.record():
            loss = net(mx.nd.ones((4, 2, 6, 6))).sum()
        loss.backward()
        trainer.step(4)
        assert order(net[0].weight) == (0, 1, 2, 3)


def test_arguments_that_give_their_memory_are_paired_as_jax_does():
    a, b = jax.ShapeDtypeStruct((2, 3), "float32"), jax.ShapeDtypeStruct((2, 3), "bfloat16")
    assert layouts.replaced([3, 0, 1], [a, b, a, a], [b, a, a]) == {0: 1, 1: 0, 3: 2}
    assert layouts.replaced([0], [a], [b]) == {}


def test_mistakes_stay_what_they_are():
    laid = layouts.AutoLayout(jax.jit(lambda x, y: (x + y,)), {0: 0}, 1, lambda lowered: lowered.compile())
    laid(jnp.ones(3), jnp.ones(3))
    kept = jnp.ones(3)
    with pytest.raises((TypeError, ValueError)):
        laid(kept, jnp.ones((2, 3)))
    assert not kept.is_deleted()


_MESH = """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
from jax.experimental.layout import Layout
import mxjax as mx
from mxjax.kernel import xla
from mxjax.passes import layouts
def run(rule):
    random = np.random.RandomState(0)
    x, y = mx.nd.array(random.randn(16, 8)), mx.nd.array(random.randint(0, 4, 16))
    net = mx.gluon.nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, in_units=8), mx.gluon.nn.Dense(4, in_units=8))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    trainer, mesh = mx.gluon.Trainer(net.collect_params(), "adam", kvstore=None), jax.make_mesh((4,), ("data",))
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, mesh=mesh, sharding=rule)
    losses = [step(x, y).asnumpy() for _ in range(3)]
    held = net[0].weight.data().chunk.peek().buffer_or_none()
    return losses + [net(x).asnumpy()], held.format.layout.major_to_minor
for rule in ("replicated", {".*weight": jax.sharding.PartitionSpec("data")}):
    xla.CHOOSE = frozenset()
    mx.clear_caches()
    before, plain = run(rule)
    xla.CHOOSE, layouts.preferred = frozenset({"cpu"}), lambda shape: Layout(tuple(range(len(shape)))[::-1])
    mx.eager.trace._programs = mx.eager.trace.Programs()
    after, turned = run(rule)
    assert (plain, turned) == ((0, 1), (1, 0)), (plain, turned)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
print("alike")
"""


@pytest.mark.slow
def test_on_a_mesh():
    done = subprocess.run([sys.executable, "-c", _MESH], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "alike\n", done.stderr


def test_a_plan_of_a_step_lays_what_the_step_lays(monkeypatch):
    """A TPU's compiler is asked as the step would ask it; a prediction's parameters stay as they are."""
    asked = []

    class Asked(Exception):
        pass

    def run(command, **options):
        asked.append(dict(json.loads(Path(command[-2]).read_text(encoding="utf-8"))["follows"]))
        raise Asked
    monkeypatch.setattr(program.subprocess, "run", run)
    net = mx.gluon.nn.Dense(3, in_units=2)
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(),
                              mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9}))
    for plan, count in [(lambda on: step.plan(mx.nd.ones((4, 2)), mx.nd.ones((4, 3)), on=on), 4),
                        (lambda on: net.plan(mx.nd.ones((4, 2)), on=on), 0)]:
        for on, chosen in [("v5e:1x1", count), ("h100", 0)]:
            with pytest.raises(Asked):
                plan(on)
            assert len(asked[-1]) == chosen == len(set(asked[-1].values()))


@pytest.mark.parametrize("shape, given", [
    ((2, 3, 9, 8), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((2, 5, 6, 3), {"kernel": (2, 3), "layout": "NHWC"}),
    ((1, 2, 5, 6, 4), {"kernel": (2, 2, 2), "stride": (2, 1, 1), "pooling_convention": "full"})])
def test_maximum_over_windows_on_gpus(shape, given):
    values, answers = np.random.default_rng(0).normal(size=shape).astype("float32"), []
    for kind in ("cpu", "cuda"):
        with traced_for(kind):
            out, pull = jax.vjp(lambda v: registry.get("Pooling").get_attr("FCompute")(v, **given), values)
        answers.append((out, *pull(jnp.arange(out.size, dtype=jnp.float32).reshape(out.shape))))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
