"""Parameters in parts on a mesh: the numbers of one device, an eighth of the memory."""

import subprocess
import sys

import jax
import pytest
from jax.sharding import PartitionSpec as P

import mxjax as mx

from ..internals import has_begun, has_values, states_of

SETUP = """
import gc, sys
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
from jax.sharding import PartitionSpec as P
import mxjax as mx
rng = np.random.RandomState(0)
X, Y = mx.nd.array(rng.randn(16, 24)), mx.nd.array(rng.randint(0, 5, 16))

def made(optimizer, options, **more):
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.BatchNorm(),
                mx.gluon.nn.Dense(128, activation="tanh"), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Uniform(0.3))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01, **options})
    return net, trainer, mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **more)

DATA = jax.make_mesh((8,), ("data",))
BOTH = jax.make_mesh((4, 2), ("data", "model"))
TENSOR = {"dense0.*weight": P("model", None), "dense1.*weight": P(None, "model"), ".": P()}
TWO = {"dense0.*weight": P("model", "data"), "dense1.*weight": P("data", "model")}
"""

NUMBERS = SETUP + """
from mxjax.passes import all_gather
uses, together = [], all_gather._Parts.together
all_gather._Parts.together = lambda self, beside: uses.append(self.whole) or together(self, beside)
for optimizer, options, clip in (("adam", {}, None), ("sgd", {"momentum": 0.9, "wd": 1e-3}, 0.5), ("lamb", {}, None)):
    def losses(steps, **more):
        net, _, step = made(optimizer, options, clip_norm=clip, **more)
        found = []
        for i in range(steps):
            found.append(step(X, Y).asnumpy())
            if i == 1:
                net(X).asnumpy()  # looked at in between, as a whole
                net[0].weight.lr_mult = 0.5
                net[2].bias.set_data(mx.nd.ones((128,)))
        return np.array(found)
    steps = 20 if optimizer == "adam" else 6
    expected = losses(steps)
    arrangements = [(DATA, "replicated"), (DATA, "fsdp"), (BOTH, TENSOR), (BOTH, TWO)]
    for mesh, rule in arrangements if optimizer == "adam" else arrangements[1::2]:
        uses.clear()
        np.testing.assert_allclose(losses(steps, mesh=mesh, sharding=rule), expected, rtol=2e-4, atol=2e-5)
        # both weights forward, the later one backward; those that no device of the batch's axis shares as they are
        assert len(uses) % 3 == 0 and bool(uses) == (rule in ("fsdp", TWO)), (rule, uses)
        assert {use.spec for use in uses} <= {P(None), P(None, None), P("model", None), P(None, "model")}
print("good")
"""

SCALED = SETUP + """
from mxjax.contrib import amp
amp.init("float16")
def losses(**more):
    net, trainer, _ = made("adam", {})
    amp.init_trainer(trainer)
    each = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    def loss(out, label):  # no block, which calls operators one by one; the gradients are looked at before the update
        with amp.scale_loss(each(out, label), trainer) as scaled:
            return scaled
    step = mx.gluon.TrainStep(net, loss, trainer, **more)
    found = [step(X, Y).asnumpy() for _ in range(6)]
    return np.array(found), trainer._amp_loss_scaler.loss_scale
expected, scale = losses()
for rule in ("replicated", "fsdp"):
    found, now = losses(mesh=DATA, sharding=rule)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * scale)
    assert now == scale
print("good")
"""

REMAT = SETUP + """
class Cell(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.up, self.down = mx.gluon.nn.Dense(128, activation="tanh"), mx.gluon.nn.Dense(24)
    def hybrid_forward(self, F, x):
        return x + self.down(self.up(x))
def losses(remat, **more):
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential()
    net.add(Cell(), Cell(), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Uniform(0.1))
    net.hybridize(remat=remat)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **more)
    return [step(X, Y).asnumpy() for _ in range(6)]
expected = losses(None)
np.testing.assert_allclose(losses(True, mesh=DATA, sharding="fsdp"), expected, rtol=2e-4, atol=2e-5)
np.testing.assert_allclose(losses(True, mesh=DATA, sharding="fsdp", accumulate=2), expected, rtol=2e-4, atol=2e-5)
print("good")
"""

MEMORY = SETUP + """
def held_by_each():
    gc.collect()
    return sum(a.dtype.itemsize * np.prod(a.sharding.shard_shape(a.shape)) for a in jax.live_arrays()
               if len(a.sharding.device_set) == 8)
net, trainer, step = made("adam", {}, mesh=DATA, sharding="fsdp")
for _ in range(3):
    step(X, Y).wait_to_read()
table = step.shardings()
split = [row for row in table if row.spec != P()]
assert {row.name for row in split} == {"net_dense0_weight", "net_dense1_weight"}, split
assert all(row.bytes * 8 == 4 * np.prod(row.shape) for row in split)
assert "net_dense1_weight" in str(table) and "data" in str(table)
states = 3 * sum(row.bytes for row in table if "running" not in row.name) + sum(
    row.bytes for row in table if "running" in row.name)
assert states <= held_by_each() <= states + 1024, (held_by_each(), states)
whole = net[2].weight.data().asnumpy()
assert whole.shape == (128, 64) and not isinstance(net[2].weight.data().chunk.pending, type(None))
step(X, Y)
assert net[2].weight.data().chunk.pending.value is None  # what was put together to be looked at is given back
net.save_parameters(sys.argv[1])
assert all(p.data().chunk.pending.value is None for p in (net[0].weight, net[2].weight))
again, _, _ = made("adam", {})
again.load_parameters(sys.argv[1])
np.testing.assert_array_equal(again[2].weight.data().asnumpy(), net[2].weight.data().asnumpy())
print("good")
"""


def run(code, *args):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *args], capture_output=True, text=True,
                          timeout=280)
    assert done.stdout.strip() == "good", done.stderr


@pytest.mark.slow
def test_numbers_are_those_of_one_device():
    run(NUMBERS)


@pytest.mark.slow
def test_float16_with_a_loss_that_is_no_block():
    run(SCALED)


@pytest.mark.slow
def test_blocks_computed_again():
    run(REMAT)


def test_each_device_has_its_part(tmp_path):
    run(MEMORY, str(tmp_path / "net.params"))


def step(**more):
    net = mx.gluon.nn.Dense(6, in_units=4, prefix="dense_")
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    return net, mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer, **more)


@pytest.mark.parametrize("spec, what", [
    (P("data", None, None), "more entries"), (P("none"), "no axis 'none'"), (P("data", "data"), "twice")])
def test_rules_that_do_not_fit_are_refused(spec, what):
    mesh = jax.make_mesh((1,), ("data",))
    one = step(mesh=mesh, sharding={"weight": spec})[1]
    with pytest.raises(ValueError, match=rf"dense_weight.*\(6, 4\).*{what}"):
        one(mx.nd.ones((2, 4)), mx.nd.ones((2, 6)))


def test_mistakes():
    mesh = jax.make_mesh((1,), ("data",))
    for more, what in (({"sharding": "fsdp"}, "a mesh"), ({"mesh": mesh, "sharding": "some"}, "sharding must be"),
                       ({"mesh": mesh, "axis": "model"}, "no axis 'model'"), ({"clip_norm": 0}, "must be positive")):
        with pytest.raises(ValueError, match=what):
            step(**more)
    with pytest.raises(ValueError, match="no mesh"):
        step()[1].shardings()


def test_a_parameters_own_sharding_comes_first():
    net, one = step(mesh=jax.make_mesh((1,), ("data",)))
    net.weight.sharding = P(None, "data")
    assert [row.spec for row in one.shardings()] == [P(), P(None, "data")]  # by name


@pytest.mark.parametrize("batch", [1, 4])
def test_clipping_by_the_norm_of_all_gradients(batch):
    def trained(clip):
        net, one = step(**clip)
        net.collect_params().initialize(mx.init.One(), force_reinit=True)
        before = net.weight.data().asnumpy(), net.bias.data().asnumpy()
        one(mx.nd.ones((batch, 4)), mx.nd.zeros((batch, 6)))
        return [after.data().asnumpy() - b for after, b in zip((net.weight, net.bias), before, strict=True)]
    free, clipped = trained({}), trained({"clip_norm": 0.5})
    norm = sum((g ** 2).sum() for g in free) ** 0.5 / 0.01
    assert norm > 0.5
    for a, b in zip(free, clipped, strict=True):
        mx.test_utils.assert_almost_equal(a * 0.5 / norm, b, rtol=1e-5)


ACCUMULATED = SETUP + """
def trained(steps=6, optimizer="adam", **more):
    mx.random.seed(7)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Uniform(0.3))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **more)
    return np.array([step(X, Y).asnumpy() for _ in range(steps)]), net
expected, _ = trained()
for more in ({}, {"mesh": jax.make_mesh((4,), ("data",), devices=jax.devices()[:4]), "sharding": "fsdp"}):
    found, net = trained(accumulate=4, **more)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    assert not net[0].weight.grad().asnumpy().any() and net[0].weight.grad_req == "write"
with mx.autograd.record():
    loss = net(X).sum()
loss.backward()
first = net[0].weight.grad().asnumpy()
with mx.autograd.record():
    loss = net(X).sum()
loss.backward()
np.testing.assert_array_equal(net[0].weight.grad().asnumpy(), first)  # written again, not added
try:
    trained(accumulate=3)
except mx.MXNetError as error:
    assert "cannot be divided" in str(error)
print("good")
"""


def test_gradients_of_parts_of_a_batch_are_added():
    run(ACCUMULATED)
    with pytest.raises(ValueError, match="accumulate must be"):
        step(accumulate=0)


def test_a_failed_part_leaves_gradients_to_be_written():
    calls = []

    def loss(out, label):
        calls.append(out)
        if len(calls) == 2:
            raise RuntimeError("the second part")
        return (out - label) ** 2
    net, _ = step()
    one = mx.gluon.TrainStep(net, loss, mx.gluon.Trainer(net.collect_params(), "sgd"), accumulate=2)
    with pytest.raises(RuntimeError, match="second part"):
        one(mx.nd.ones((4, 4)), mx.nd.ones((4, 6)))
    for _ in range(2):
        with mx.autograd.record():
            out = net(mx.nd.ones((1, 4))).sum()
        out.backward()
    assert (net.weight.grad().asnumpy() == 1).all()


def test_a_plan_of_a_step_on_a_mesh_places_nothing(monkeypatch):
    asked = []
    monkeypatch.setattr("mxjax.gluon._plan.make_plan", lambda *given, **more: asked.append((given[2], more)))
    net = mx.gluon.nn.Dense(64, prefix="dense_")
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    one = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer, mesh=jax.make_mesh((1,), ("data",)), sharding="fsdp")
    x, y = mx.nd.ones((8, 32)), mx.nd.ones((8, 64))
    one.plan(x, y, on="v5e:2x2")
    assert not has_values(net.weight) and not has_begun(one) and not states_of(trainer)
    one(x, y)
    before = net.weight.data().asnumpy(), trainer.optimizer.num_update
    one.plan(x, y, on="v5e:2x2")
    assert (net.weight.data().asnumpy() == before[0]).all() and trainer.optimizer.num_update == before[1]
    first, later = ({g.name: list(zip([s.shape for s in g.arguments], g.specs, strict=True)) for g in groups}
                    for groups, _ in asked)
    assert sorted(first["optimizer states"]) == sorted(later["optimizer states"])
    assert ((64, 32), ("data",)) in first["parameters"] and ((64, 32), ("data",)) in later["parameters"]
