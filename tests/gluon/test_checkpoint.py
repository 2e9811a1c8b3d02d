"""Checkpoints of a TrainStep: what is resumed prints the numbers of the undisturbed run, on whatever devices."""

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax._random import streams as random_streams

sys.path.append(str(Path(__file__).parents[1] / "kvstore"))
from launching import environment, launch  # noqa: E402  what starts jobs of several processes

from ..internals import has_values, scaler_of, set_scale, state_arrays_of

pytest.importorskip("orbax.checkpoint")
JOB = Path(__file__).with_name("checkpoint_job.py")
RNG = np.random.RandomState(0)
X, Y = RNG.randn(24, 6).astype(np.float32), RNG.randint(0, 5, 24)


class Made:
    """A network with dropout and batch normalization, its step, and a loader that shuffles."""

    def __init__(self, optimizer="adam", options=None, dtype="float32", width=8, **more):
        # names as in a process of its own: trainers sort by them, "dense10" before "dense9", and the order of a step's
        # operations may decide the last bits
        self.net = mx.gluon.nn.HybridSequential(prefix="net_")
        with self.net.name_scope():
            self.net.add(mx.gluon.nn.Dense(width, activation="relu"), mx.gluon.nn.BatchNorm(),
                         mx.gluon.nn.Dropout(0.3), mx.gluon.nn.Dense(5))
        self.net.cast(dtype)
        self.net.initialize(mx.init.Uniform(0.3))
        options = {"learning_rate": 0.01, **(options or {})}
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), optimizer, options)
        self.step = mx.gluon.TrainStep(self.net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), self.trainer, **more)
        self.loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(X.astype(dtype), Y), 4, shuffle=True)
        self.batches = self.endless()

    def endless(self):
        while True:
            yield from self.loader

    def go(self, count):
        return [self.step(*batch).asnumpy().tolist() for batch in itertools.islice(self.batches, count)]

    def values(self):
        return [a.asnumpy() for p in self.net._collect_params_with_prefix().values()
                for a in (p.data(), *state_arrays_of(self.trainer, p))]


def same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def schedule():
    return {"lr_scheduler": mx.lr_scheduler.MultiFactorScheduler([3, 8], 0.5, base_lr=0.02), "learning_rate": 0.02}


@pytest.mark.parametrize("optimizer, options, dtype", [
    ("sgd", {"momentum": 0.9, "wd": 1e-3}, "float32"), ("adam", schedule, "float32"), ("nadam", {}, "float64"),
    ("sgd", {"momentum": 0.9, "multi_precision": True}, "float16")])
def test_what_is_resumed_is_what_would_have_been(tmp_path, optimizer, options, dtype):
    def made():
        return Made(optimizer, options() if callable(options) else options, dtype)
    mx.random.seed(3)
    np.random.seed(3)
    first = made()
    first.go(7)  # in the middle of the second epoch
    first.step.save(tmp_path, data={"loader": first.loader})
    expected = first.go(7)
    mx.random.seed(4)
    np.random.seed(4)
    second = made()
    assert not has_values(second.net[0].weight)  # its shape is not known yet
    assert second.step.restore(tmp_path, data={"loader": second.loader}) == 7
    assert second.go(7) == expected and second.trainer.learning_rate == first.trainer.learning_rate
    same(second.values(), first.values())
    second.step.restore(tmp_path, data={"loader": second.loader})  # of a step that goes already
    second.batches = second.endless()
    assert second.go(7) == expected


def test_saving_compiles_no_step(tmp_path, compiles):
    one = Made()
    one.go(12)
    one.step.save(tmp_path)  # its copies are programs
    one.go(3)
    del compiles[:]
    one.step.save(tmp_path)
    one.go(3)
    one.step.wait()
    assert not compiles


def test_the_state_of_random_numbers():
    def drawn():
        return [mx.nd.random.normal(shape=(n,)).asnumpy().tolist() for n in (70, 3, 200_000)] + [
            mx.nd.shuffle(mx.nd.arange(30)).asnumpy().tolist()]
    for _ in range(2):
        drawn()
    state = json.loads(json.dumps(random_streams.state_dict()))
    expected = drawn()
    mx.random.seed(8)
    random_streams.load_state_dict(state)
    assert drawn() == expected
    for damage in ({}, {**state, "source": {}}, {**state, "streams": [["cpu", 0, [1], 2]]}):
        with pytest.raises(ValueError, match="corrupt"):
            random_streams.load_state_dict(damage)


MESHES = """
import sys, jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
import mxjax as mx
from mxjax.gluon._sharding import arrays
from jax.sharding import PartitionSpec as P
rng = np.random.RandomState(0)
x, y = mx.nd.array(rng.randn(16, 24)), mx.nd.array(rng.randint(0, 5, 16))

def made(count, sharding="fsdp", dtype="float32"):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(128),
            mx.gluon.nn.Dense(5))
    net.cast(dtype)
    net.initialize(mx.init.Uniform(0.3))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9,
                                                             "multi_precision": True}, kvstore=None)
    if count == 6:
        net[0].weight.sharding, net[2].weight.sharding = P("model", "data"), P(None, "model")
    mesh = {8: ((8,), ("data",)), 4: ((4,), ("data",)), 6: ((2, 2), ("data", "model"))}.get(count)
    more = {"mesh": jax.make_mesh(*mesh, devices=jax.devices()[:np.prod(mesh[0])]), "sharding": sharding} if mesh \
        else {}
    return net, trainer, mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **more)

def values(net, trainer):
    return [a.asnumpy() for p in net._collect_params_with_prefix().values()
            for a in (p.data(), *arrays(trainer._updaters[0].states.get(trainer._param2idx[p.name])))]

def whole_on_one():
    "bytes of what is not in parts, on the device that has most"
    return sum(a.nbytes for a in jax.live_arrays() if len(a.sharding.device_set) == 1)

TWO = {"nothing": P()}
for dtype in ("float32", "bfloat16"):
    given = x.astype(dtype)
    net, trainer, step = made(8, dtype=dtype)
    for _ in range(3):
        loss = step(given, y)
    step.save(sys.argv[1] + dtype)
    expected = values(net, trainer)
    losses = [step(given, y).asnumpy() for _ in range(2)]
    chain = [(4, "fsdp"), (8, "replicated"), (6, TWO), (1, None), (8, "fsdp")]
    for number, (count, sharding) in enumerate(chain if dtype == "float32" else chain[2:3]):
        folder = sys.argv[1] + dtype + (str(number - 1) if number else "")
        net, trainer, step = made(count, sharding, dtype)
        if dtype == "float32":  # from one arrangement to the next
            step.restore(folder)
            if count > 1:
                split = [p for p in net.collect_params().values() if not step.sharding.of(p).is_fully_replicated]
                assert bool(split) == (sharding != "replicated"), split
                for p in split:
                    assert p.data().chunk.peek().buffer_or_none().sharding == step.sharding.of(p) and \\
                        p.data().chunk.peek().value is None, p
            step.save(sys.argv[1] + dtype + str(number), 3, wait=True)
        else:
            step.restore(sys.argv[1] + dtype)
        for a, b in zip(values(net, trainer), expected, strict=True):
            assert a.dtype == b.dtype and (a == b).all()
        for loss in losses:
            np.testing.assert_allclose(step(given, y).asnumpy().astype(float), loss.astype(float),
                                       rtol=2e-2 if dtype == "bfloat16" else 1e-5)
net, trainer, step = made(8)
before = whole_on_one()
step.restore(sys.argv[1] + "float32")
small = sum(4 * np.prod(p.shape) for p in net.collect_params().values() if step.sharding.of(p).is_fully_replicated)
assert whole_on_one() - before <= 3 * small + 1024, (whole_on_one() - before, small)
print("good")
"""


@pytest.mark.slow
def test_onto_another_mesh(tmp_path):
    done = subprocess.run([sys.executable, "-c", MESHES, str(tmp_path / "net")], capture_output=True, text=True,
                          timeout=280)
    assert done.stdout.strip() == "good", done.stderr


def told(output):
    """(step, digest) of each line of `checkpoint_job.py`."""
    lines = [line[line.index("step "):].split() for line in output.splitlines() if "step " in line]
    return [(int(number), digest) for _, number, digest in lines]


def alone(*args):
    done = subprocess.run([sys.executable, str(JOB), *map(str, args)], env=environment(), timeout=250,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return told(done.stdout)


@pytest.mark.slow
def test_two_processes_and_one(tmp_path):
    code, output = launch("-n", 2, sys.executable, JOB, tmp_path / "two", 3, 2, "fsdp")
    assert code == 0, output
    two = told(output)
    assert len(two) == 6 and len(set(two)) == 3  # both have the same
    one = alone(tmp_path / "two", 4, 4, "fsdp")
    assert one[0] == max(two) and [number for number, _ in one] == [3, 4]
    code, output = launch("-n", 2, sys.executable, JOB, tmp_path / "two", 4, 1, "replicated")
    assert code == 0 and told(output) == [one[-1]] * 2, output  # of one process, in two


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
    expected, rng, resumed = dict(alone("-", 8, 0, "-", 8000)), random.Random(time.time_ns()), 0
    command = [sys.executable, str(JOB), str(tmp_path), "8", "0", "-", "8000"]
    for _ in range(3):
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as job:
            lines = [job.stdout.readline() for _ in range(rng.randint(1, 3))]
            time.sleep(rng.random() * 0.3)
            job.kill()
            lines += job.stdout.readlines()
        found = told("".join(lines))
        assert found and found[0][0] >= resumed and all(expected[number] == digest for number, digest in found)
        resumed = found[0][0]
    rest = alone(tmp_path, 8, 0, "-", 8000)
    assert rest[-1][0] == 8 and all(expected[number] == digest for number, digest in rest)
    alone(tmp_path, 9, 0, "-", 8000)  # saves, and so removes what a kill behind the last save has left
    assert len([name for name in os.listdir(tmp_path) if name.isdigit()]) <= 3


FULL = """
import os, resource, sys
import mxjax as mx
net = mx.gluon.nn.Dense(400, in_units=2000)
net.initialize()
step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
x, y = mx.nd.ones((2, 2000)), mx.nd.ones((2, 400))
step(x, y)
step.save(sys.argv[1], wait=True)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
for ask in (step.wait, lambda: step.save(sys.argv[1]), lambda: step.restore(sys.argv[1])):
    step(x, y)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # as a full disk
    step.save(sys.argv[1])
    try:
        ask()
        print("nothing was said")
    except mx.MXNetError as error:
        assert f"the checkpoint of step {step._trainer._optimizer.num_update} in" in str(error), error
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert step.restore(sys.argv[1]) == 1
step(x, y)
step.save(sys.argv[1])  # finished at the end
print("good")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE stands for a full disk; Windows lacks it")
def test_what_goes_wrong_in_the_background_is_told_and_the_end_waits(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=250)
    assert done.stdout.strip() == "good" and done.returncode == 0, done.stdout + done.stderr
    assert {name for name in os.listdir(tmp_path) if name.isdigit()} == {"1", "2"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the checkpoints of steps 1, 2 and 3, of which the last two are kept, and the values of the last."""
    folder, one = tmp_path_factory.mktemp("saved"), Made()
    for _ in range(3):
        one.go(1)
        one.step.save(folder, keep=2)
    one.step.wait()
    return folder, one.values()


def test_retention_and_choice(saved):
    folder, values = saved
    assert sorted(os.listdir(folder)) == ["2", "3"]
    one = Made()
    assert one.step.restore(folder, 2) == 2 and one.trainer.optimizer.num_update == 2
    assert one.step.restore(folder) == 3
    same(one.values(), values)
    with pytest.raises(mx.MXNetError, match=r"no checkpoint of step 1; it has \[3, 2\]"):
        one.step.restore(folder, 1)
    with pytest.raises(mx.MXNetError, match="already has a checkpoint of step 3"):
        one.step.save(folder, 3)


def test_what_is_torn_or_foreign_is_passed_over(saved, tmp_path):
    folder, values = saved
    shutil.copytree(folder, tmp_path / "some")
    folder = tmp_path / "some"
    os.rename(folder / "3", folder / "3.orbax-checkpoint-tmp")
    (folder / "notes").mkdir()
    one = Made()
    assert one.step.restore(folder) == 2
    (folder / "7").mkdir()
    (folder / "7" / "mine.txt").write_text("not a checkpoint")
    with pytest.warns(UserWarning, match="7 is skipped"):
        assert one.step.restore(folder) == 2
    with pytest.raises(mx.MXNetError, match="7 is not a complete checkpoint"):
        one.step.restore(folder, 7)
    path = next((folder / "2" / "state").glob("metadata"))
    state = json.loads(path.read_text())
    before = one.values()
    for damage in ({"format": 99}, {"parameters": 3}, {"attributes": {}}, {"counts": {"net.0.weight": "x"}},
                   {"counts": {"net.9.weight": 3}},
                   {"rows": [1, 5]}, {"parameters": {**state["parameters"], "net.0.bias": [[9], "float32"]}},
                   {"states": {**state["states"], "net.0.bias.0": [[8], "float64"]}}):
        path.write_text(json.dumps({**state, **damage}))
        with pytest.raises(mx.MXNetError, match=r"/2\b"):
            one.step.restore(folder, 2)
        same(one.values(), before)
    path.write_text("{")
    with pytest.warns(UserWarning, match="is skipped"):
        assert one.step.restore(folder, missing=-1) == -1
    path.write_text(json.dumps(state))
    for path in (folder / "2" / "arrays").rglob("d/*"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(mx.MXNetError, match="cannot be read as a checkpoint"):
        one.step.restore(folder, 2)
    same(one.values(), before)


def test_what_does_not_fit_is_named_before_anything_changes(saved):
    folder, _ = saved

    def refused(match, make, **more):
        one = make()
        before = one.values() if has_values(one.net[0].weight) else None
        with pytest.raises(mx.MXNetError, match=match):
            one.step.restore(folder, **more)
        if before is not None:
            same(one.values(), before)
        else:
            assert not has_values(one.net[0].weight)

    def more_layers():
        one = Made()
        one.net.add(mx.gluon.nn.Dense(2))
        return one

    def begun():
        one = Made("sgd", {"momentum": 0.9})
        one.go(1)
        return one
    refused(r"another network: it lacks net.4.bias, net.4.weight", more_layers)
    refused(r"'net.0.bias' has the shape \(8,\) in the checkpoint, expected \(9,\)", lambda: Made(width=9))
    refused("'net.0.bias' has the dtype float32 in the checkpoint, expected float64", lambda: Made(dtype="float64"))
    refused("the optimizer is Adam in the checkpoint, expected SGD", begun)
    refused("the scheduler is None in the checkpoint, expected MultiFactorScheduler",
            lambda: Made(options=schedule()))
    one = Made()
    refused("no data position", lambda: one, data={"loader": one.loader})
    with pytest.raises(TypeError, match="list_iterator has no state_dict"):
        one.step.save(folder, 9, data={"batches": iter([1])})
    for wrong in ({"step": -1}, {"step": 1.5}, {"keep": 0}):
        with pytest.raises(ValueError, match="TrainStep.save"):
            one.step.save(folder, **wrong)
    with pytest.raises(mx.MXNetError, match="no checkpoint"):
        one.step.restore(folder / "nowhere")
    assert one.step.restore(folder / "nowhere", missing=5) == 5
    with pytest.raises(RuntimeError, match="not been initialized"):
        one.step.save(folder, 9)


def test_loss_scales_are_kept(tmp_path):
    first, second = Made(), Made()
    for one in (first, second):
        one.trainer._amp_loss_scaler = mx.contrib.amp.loss_scaler.LossScaler()
    first.go(1)
    scaler = scaler_of(first.trainer)
    set_scale(scaler, 256.0, 17)
    first.step.save(tmp_path, wait=True)
    second.step.restore(tmp_path)
    assert vars(scaler_of(second.trainer)) == vars(scaler)
    with pytest.raises(mx.MXNetError, match="init_trainer"):
        Made().step.restore(tmp_path)


def test_without_the_package(monkeypatch, tmp_path):
    code = "import sys, mxjax as mx; mx.gluon.TrainStep; sys.exit('orbax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    one = Made()
    one.go(1)
    with pytest.raises(mx.MXNetError, match=r"mxjax\[checkpoint\]"):
        one.step.save(tmp_path)


def test_the_callback(tmp_path):
    one = Made()
    save = mx.callback.step_checkpoint(one.step, tmp_path, period=2, keep=2, data=one.loader)
    for _ in range(7):
        one.go(1)
        save()
    one.step.wait()
    assert sorted(os.listdir(tmp_path)) == ["4", "6"]


def test_the_estimators_handler(tmp_path):
    from mxjax.gluon.contrib import estimator

    def fit(epochs):
        one = Made()
        loss, accuracy = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy()
        trained = estimator.Estimator(one.net, loss, train_metrics=accuracy, trainer=one.trainer)
        handler = estimator.CheckpointHandler(str(tmp_path), "net", step=one.step, max_checkpoints=2,
                                              resume_from_checkpoint=True)
        trained.fit(one.loader, epochs=epochs, event_handlers=[handler])
        return one, handler
    first, _ = fit(2)
    assert sorted(os.listdir(tmp_path / "net")) == ["12", "6"]
    second, handler = fit(3)
    assert second.trainer.optimizer.num_update == 18 and handler.trained_epoch == 1
    assert sorted(os.listdir(tmp_path / "net")) == ["12", "18"]


def test_parameters_in_parts_are_put_together_one_at_a_time(tmp_path):
    code = MESHES.split("TWO =")[0] + """
net, trainer, step = made(8)
for _ in range(2):
    step(x, y)
small = 2 * sum(4 * np.prod(p.shape) for p in net.collect_params().values() if step.sharding.of(p).is_fully_replicated)
kept, most, together = whole_on_one(), [0], mx.eager.trace.on_one_device
def counted(value):
    most[0] = max(most[0], whole_on_one() - kept)
    return together(value)
mx.eager.trace.on_one_device = counted
for save in (net.save_parameters, net.collect_params().save, trainer.save_states):
    save(sys.argv[1])
    assert 0 <= whole_on_one() - kept <= small, (whole_on_one(), kept, small)
    assert 0 < most[0] <= 128 * 64 * 4 + small, most  # the larger one when the smaller one is put together
print("good")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True,
                          timeout=280)
    assert done.stdout.strip() == "good", done.stderr


def test_a_step_of_a_mesh_of_one_device(tmp_path):
    one = Made(mesh=jax.make_mesh((1,), ("data",)), sharding="fsdp")
    one.go(2)
    one.step.save(tmp_path, data=[one.loader], wait=True)
    expected = one.go(2)
    two = Made()
    two.step.restore(tmp_path, data=[two.loader])
    np.testing.assert_allclose(two.go(2), expected, rtol=1e-5)


def test_where_no_thread_begins_at_the_end_it_is_written_at_once(tmp_path, monkeypatch):
    from mxjax.gluon import _checkpoint_files
    monkeypatch.setattr(_checkpoint_files, "_ENDS_EARLY", True)  # as on Python 3.12.0 to 3.12.2
    made = Made()
    for number in (1, 2):
        made.go(1)
        made.step.save(tmp_path)
        assert (tmp_path / str(number)).is_dir()  # it has this name when it is whole
