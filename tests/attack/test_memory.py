"""Memory that grows: ever new shapes, parameters, graphs."""

import os
import subprocess
import sys

import pytest

_GROW = """
import sys, mxjax as mx
from mxjax import autograd, gluon
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20
kind, steps = sys.argv[1], int(sys.argv[2])
if kind == "batches":
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.Dense(10))
    net.initialize()
    net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
most, begin = 0, resident()
x = mx.nd.ones((3,))
for i in range(1, steps + 1):
    if kind == "shapes":
        y = mx.nd.ones((i, 37))
        for _ in range(3):
            mx.nd.softmax(y * 2).wait_to_read()
    elif kind == "batches":
        with autograd.record():
            value = loss(net(mx.nd.ones((i, 3, 8, 8))), mx.nd.zeros((i,)))
        value.backward()
        trainer.step(i)
        value.wait_to_read()
    elif kind == "numbers":
        for k in range(50):
            mx.nd.clip(x, -i, i + k / 50)
            mx.nd.clip(x, a_min=-k, a_max=float(i))
            x * (i * 50 + k)
            mx.np.clip(x.as_np_ndarray(), -i, k)
    elif kind == "parameters":
        mx.nd.LeakyReLU(x, act_type="leaky", slope=i / steps).wait_to_read()
        mx.nd.Pooling(mx.nd.ones((1, 1, 4, 4)), kernel=(2, 2), stride=(i, i)).wait_to_read()
    else:
        a = mx.sym.var("a")
        for k in range(i % 20 + 1):
            a = a * (i + k) + 1
        a.eval(a=x)[0].wait_to_read()
    most = max(most, resident())
print(begin, most)
"""


@pytest.mark.slow
def test_memory_stays_bounded(tally, effort):
    """With 64 MB for programs a process stays within some hundred MB of where it began, whatever it is asked for."""
    for kind, short, full in (("shapes", 120, 2500), ("batches", 12, 140), ("numbers", 100, 1000),
                              ("parameters", 60, 2000), ("graphs", 30, 500)):
        done = subprocess.run([sys.executable, "-c", _GROW, kind, str(effort(short, full))], capture_output=True,
                              text=True, timeout=900, env={**os.environ, "MXJAX_PROGRAM_MEMORY": "64"})
        if done.returncode:
            tally.count("crash", f"{kind}: {done.stderr[-500:]}")
            continue
        begin, most = map(int, done.stdout.split())
        tally.count("ok" if most - begin < 500 else "differs", f"{kind}: from {begin} to {most} MB")


def test_a_wrong_limit_is_told():
    done = subprocess.run([sys.executable, "-c", "import mxjax as mx; mx.nd.ones((2,)) + 1"], capture_output=True,
                          text=True, env={**os.environ, "MXJAX_PROGRAM_MEMORY": "lots"})
    assert done.returncode and "MXJAX_PROGRAM_MEMORY='lots'" in done.stderr
