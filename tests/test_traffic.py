"""What a training step moves between the host and an accelerator, which a second device of the host stands for here."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import collections, json, sys
import jax
jax.config.update("jax_num_cpu_devices", 3)
import numpy as np
import mxjax as mx
from mxjax import autograd, context, gluon, nd
from mxjax._xla import transfer as _transfer

devices = jax.local_devices(backend="cpu")
context._devices = lambda kind: tuple(devices[1:] if kind == "gpu" else devices[:1])
moves = collections.Counter()


def watched(name):
    real = getattr(_transfer, name)

    def function(value, device=None, *args, **kwargs):
        of = devices.index(next(iter(value.devices()))) if isinstance(value, jax.Array) else 0
        if device in devices and devices.index(device) != of:
            moves[f"{of} to {devices.index(device)}"] += value.nbytes
        return real(value, device, *args, **kwargs)
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is real:
            setattr(module, name, function)


watched("moved")
watched("to_device")
images, labels = nd.random.uniform(shape=(8, 3, 12, 12)), nd.array(np.arange(8) % 4)
batch = images.size * 4 + labels.size * 4
found = {}


def steps(name, step):
    for _ in range(12):  # first calls are NumPy's on what looks like the host
        step()
    nd.waitall()
    moves.clear()
    step()
    nd.waitall()
    found[name] = dict(moves)


def module(name, contexts, store, **optimizer):
    data = mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(3, 3))
    data = mx.sym.FullyConnected(mx.sym.Activation(mx.sym.BatchNorm(data), act_type="relu"), num_hidden=4)
    made = mx.mod.Module(mx.sym.SoftmaxOutput(data, name="softmax"), context=contexts)
    made.bind([("data", images.shape)], [("softmax_label", labels.shape)])
    made.init_params()
    made.init_optimizer(kvstore=store, **optimizer)
    given = mx.io.DataBatch([images], [labels])

    def step():
        made.forward_backward(given)
        made.update()
    steps(name, step)
    return sum([value.size * 4 for value in made.get_params()[0].values()])


def trainer(name, hybrid, store):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.Dense(4))
    net.initialize(ctx=mx.gpu(0))
    if hybrid:
        net.hybridize()
    loss, rule = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), "adam", kvstore=store)

    def step():
        with autograd.record():
            value = loss(net(images.as_in_context(mx.gpu(0))), labels.as_in_context(mx.gpu(0)))
        value.backward()
        rule.step(8)
    steps(name, step)


module("module", mx.gpu(0), None, optimizer="sgd", optimizer_params={"momentum": 0.9})
for kind in ("local", "device"):
    module(f"module with a {kind} store", mx.gpu(0), mx.kv.create(kind), optimizer="adam")
module("module with a store on the host", mx.gpu(0), mx.kv.create("local_update_cpu"), optimizer="adam")
weights = module("module on two", [mx.gpu(0), mx.gpu(1)], "device", optimizer="adam")
trainer("trainer", False, "device")
trainer("trainer with a store", True, mx.kv.create("device"))
print(json.dumps([batch, weights, found]))
"""


@pytest.fixture(scope="module")
def traffic():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "MXNET_ENFORCE_DETERMINISM": "1"})  # NumPy's results are moved, each
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", ["module", "module with a local store", "module with a device store", "trainer",
                                     "trainer with a store"])
def test_a_step_moves_the_batch_alone(traffic, program):
    batch, _, found = traffic
    assert found[program] == {"0 to 1": batch}


def test_a_step_on_two_devices_moves_new_weights_to_the_second(traffic):
    batch, weights, found = traffic
    assert found["module on two"] == {"0 to 1": batch // 2, "0 to 2": batch // 2, "1 to 2": weights}


def test_a_store_that_is_asked_to_updates_on_the_host(traffic):
    batch, weights, found = traffic
    assert found["module with a store on the host"] == {"0 to 1": batch + weights, "1 to 0": weights}
