"""Forks, exits and interrupts: no child hangs, no exit aborts, no Ctrl-C loses an array."""

import random
import signal
import subprocess
import sys
import time


def _run(code, *, seconds=60, interrupt=None, args=()):
    """(exit status or "hang", output); `interrupt`: seconds after its first line at which Ctrl-C comes."""
    if interrupt is not None:  # processes in the background ignore it
        code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, *map(str, args)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    first = ""
    try:
        if interrupt is not None:
            first = child.stdout.readline()
            time.sleep(interrupt)
            child.send_signal(signal.SIGINT)
            try:
                out, _ = child.communicate(timeout=10)
                return child.returncode, first + out
            except subprocess.TimeoutExpired:  # Python ignores what a destructor or a callback of its own is hit by
                child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        return "hang", first + child.communicate()[0]
    return child.returncode, first + out


_FORK = """
import os, sys, mxjax as mx
a, big = mx.nd.arange(6).reshape((2, 3)) * 1, mx.nd.ones((512, 512))
view, product = a[1], mx.nd.dot(big, big)
rows = mx.nd.sparse.row_sparse_array(([[1., 2.]], [1]), shape=(3, 2))
view.wait_to_read()
child = os.fork()
if child == 0:
    told = []
    assert a.asnumpy().sum() == 15 and product.asnumpy()[0, 0] == 512 and rows.asnumpy()[1, 1] == 2
    mx.nd.save(sys.argv[1], {"a": a, "product": product})
    mx.nd.waitall()
    for call in (lambda: a + 1, lambda: mx.nd.dot(big, big), lambda: mx.nd.zeros((3,)), lambda: a.__iadd__(2),
                 lambda: mx.nd.random.uniform(shape=(3,)), lambda: mx.sym.var("x").eval(x=big + 1)):
        try:
            call()
        except mx.MXNetError as error:
            told.append("spawn" in str(error))
    assert a.asnumpy().sum() == 15
    os._exit(0 if told == [True] * 6 else 3)
assert os.waitpid(child, 0)[1] == 0
assert (a + 1).asnumpy().sum() == 21 and mx.nd.dot(big, big).asnumpy()[0, 0] == 512
print("good")
"""

_FORK_FIRST = """
import os, mxjax as mx
child = os.fork()
x = mx.nd.ones((512, 512))
assert mx.nd.dot(x, x).asnumpy()[0, 0] == 512
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("good")
"""


def test_forks(tally, effort, tmp_path):
    for _ in range(effort(2, 30)):
        for code in (_FORK, _FORK_FIRST):
            status, out = _run(code, args=[tmp_path / "saved"])
            tally.count("hang" if status == "hang" else "ok" if (status, out.strip()) == (0, "good") else "differs",
                        f"{status} {out[-300:]}")


_EXIT = """
import sys, threading, time, mxjax as mx
a = mx.nd.ones((200, 200))
def compute():
    while True:
        b = mx.nd.dot(a, a)
        b += 1
        b.asnumpy()
def look():
    while True:
        a.asnumpy()
def write():
    while True:
        a[:] = 1
        a[3] += 1
def record():
    net = mx.gluon.nn.Dense(3)
    net.initialize()
    net.hybridize()
    while True:
        with mx.autograd.record():
            loss = net(a).sum()
        loss.backward()
        mx.nd.waitall()
for work in (compute, look, write, record) * 2:
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


def test_exits_with_daemon_threads_at_work(tally, effort):
    draw = random.Random(1)
    for _ in range(effort(3, 40)):
        status, out = _run(_EXIT, args=[draw.uniform(0.05, 1.0)])
        tally.count("hang" if status == "hang" else "ok" if status == 0 else "crash", f"{status} {out[-300:]}")


_INTERRUPTED = """
import sys, mxjax as mx
from mxjax import autograd, gluon
mx.random.seed(1)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(64, activation="relu", in_units=32), gluon.nn.BatchNorm(in_channels=64),
        gluon.nn.Dense(8, in_units=64))
net.initialize()
net.hybridize()
params = net.collect_params()
trainer = gluon.Trainer(params, "adam")
loss = gluon.loss.SoftmaxCrossEntropyLoss()
step = gluon.TrainStep(net, loss, trainer)
x, y = mx.nd.random.uniform(shape=(64, 32)), mx.nd.zeros((64,))
kind = sys.argv[1]
print("go", flush=True)
try:
    while True:
        if kind == "step":
            step(x, y)
        elif kind == "loop":
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(64)
        elif kind == "in place":
            for param in params.values():
                data = param.data()
                data += 1e-9
                data[0] = data[0] * 1
        else:
            mx.nd.dot(x.T, x).sum()
            mx.nd.waitall()
except KeyboardInterrupt:
    pass
for name, param in params.items():
    assert param.data().asnumpy().size, name
step(x, y).wait_to_read()
with autograd.record():
    value = loss(net(x), y)
value.backward()
trainer.step(64)
assert sum(float(abs(p.data()).sum().asscalar()) for p in params.values()) > 0
mx.nd.waitall()
print("good")
"""


def test_interrupts_lose_nothing(tally, effort):
    """Ctrl-C at any moment of training, the first step's compilation included: the parameters are there, it goes on."""
    draw = random.Random(2)
    for _ in range(effort(2, 40)):
        for kind in ("step", "loop", "in place", "wait"):
            status, out = _run(_INTERRUPTED, args=[kind], interrupt=draw.uniform(0, 1.5))
            good = status == 0 and out.split()[-1:] == ["good"]
            tally.count("hang" if status == "hang" else "ok" if good else "differs", f"{kind}: {status} {out[-600:]}")


def test_a_killed_worker_of_a_pool_is_told(tally):
    code = """
import os, signal, mxjax as mx
from mxjax.gluon.data import ArrayDataset, DataLoader
class Data(ArrayDataset):
    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)
if __name__ == "__main__":
    try:
        for _ in DataLoader(Data(mx.nd.arange(16)), 2, num_workers=1):
            pass
    except Exception as error:
        print("told", type(error).__name__)
"""
    status, out = _run(code)
    told = [line for line in out.splitlines() if line.startswith("told")]
    outcome = "hang" if status == "hang" else "refused" if status == 0 and told else "differs"
    tally.count(outcome, f"{status} {out[-500:]}")
