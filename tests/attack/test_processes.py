"""Forks, exits and interrupts: children compute and end, no exit aborts, no Ctrl-C loses an array."""

import random
import signal
import subprocess
import sys
import time

import pytest


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


_COMPUTE = """
import os, sys, mxjax as mx, numpy as np
from mxjax import autograd, gluon, nd
mx.random.seed(3)
a, big = nd.arange(6).reshape((2, 3)) * 1, nd.ones((512, 512))
view, csr = a[1], nd.array([[0, 2.], [1, 0]]).tostype("csr")
rows = nd.sparse.row_sparse_array(([[1., 2.]], [1]), shape=(3, 2))
data = nd.array(np.random.RandomState(0).rand(4, 3, 9, 9))

def steps():
    mx.random.seed(7)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.MaxPool2D(2), gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    for _ in range(3):
        with autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(data), nd.array([0, 1, 2, 3]))
        loss.backward()
        trainer.step(4)
    return loss

def augmented():
    mx.random.seed(5)
    picture = nd.array(np.arange(300).reshape(10, 10, 3), dtype="uint8")
    apply = gluon.data.vision.transforms.Compose([
        gluon.data.vision.transforms.RandomFlipLeftRight(), gluon.data.vision.transforms.Resize(6),
        gluon.data.vision.transforms.ToTensor(), gluon.data.vision.transforms.Normalize(0.3, 0.2)])
    return apply(picture)

def bound():
    x = mx.sym.var("x")
    executor = mx.sym.dot(x, x).simple_bind(mx.cpu(), x=(3, 3))
    executor.arg_dict["x"][:] = nd.arange(9).reshape((3, 3))
    executor.forward(is_train=True)
    executor.backward(nd.ones((3, 3)))
    return executor.grad_arrays[0]

CALLS = [lambda: a + 1, lambda: nd.dot(big, big) / 3, lambda: nd.zeros((3,)), lambda: view * 2, steps, augmented, bound,
         lambda: nd.random.normal(shape=(4,)), lambda: nd.dot(csr, nd.ones((2, 3))), lambda: nd.softmax(data, axis=1),
         lambda: nd.contrib.box_nms(nd.array([[[0, .9, 0, 0, 1, 1], [0, .8, 0, 0, 1, .9]]]), overlap_thresh=0.5),
         lambda: nd.contrib.boolean_mask(a, nd.array([0, 1])), lambda: data.astype("float16").sum(),
         lambda: mx.np.linalg.inv(mx.np.array([[2., 1], [1, 3]])), lambda: mx.np.unique(mx.np.array([3, 1, 3])),
         lambda: nd.array([2**40], dtype="int64") + 1]

def values():
    mx.random.seed(3)
    return [np.array(call().asnumpy()) for call in CALLS]
"""

_SAME = _COMPUTE + """
if len(sys.argv) > 2:  # what the parent has compiled; else the child is the first to call most of it
    values()
nd.waitall()
r, w = os.pipe()
child = os.fork()
if child == 0:
    mx.nd.save(sys.argv[-1], {"a": a, "big": big})
    assert mx.nd.load(sys.argv[-1])["big"].asnumpy().sum() == 512 * 512
    assert a.asnumpy().sum() == 15 and rows.asnumpy().tolist() == [[0, 0], [1, 2], [0, 0]]
    found = values()
    a += 2
    a[0] = 9
    assert view.asnumpy().tolist() == [5, 6, 7] and a.asnumpy()[0].tolist() == [9] * 3
    nd.waitall()
    with os.fdopen(w, "wb") as out:
        np.savez(out, *found)
    sys.exit(7)
os.close(w)
with os.fdopen(r, "rb") as given:
    import io
    found = np.load(io.BytesIO(given.read()))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
for i, expected in enumerate(values()):
    got = found[f"arr_{i}"]
    assert got.dtype == expected.dtype and got.shape == expected.shape, i
    np.testing.assert_allclose(got, expected, 2e-4, 2e-5, err_msg=str(i))
print("good")
"""

_THREADS = """
import faulthandler, os, sys, threading, time, numpy as np, mxjax as mx
shared, counts = mx.nd.ones((30, 30)), []
def work(seed):
    state = np.random.RandomState(seed)
    while True:
        x = mx.nd.array(state.rand(*state.randint(1, 40, 2)))
        (x * 2 + 1).exp().sum(axis=seed % 2).asnumpy()
        shared[:] = 3
        mx.nd.random.uniform(shape=(2,))
        net = mx.gluon.nn.Dense(int(state.randint(1, 9)))
        net.initialize()
        net.hybridize()
        net(x)
for seed in range(2):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
time.sleep(1)
for i in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        x = mx.nd.ones((i + 2, 5))
        shared[:] = 4
        net = mx.gluon.nn.Dense(3)
        net.initialize()
        good = net(x).shape == (i + 2, 3) and mx.nd.random.uniform(shape=(2,)).shape == (2,)
        os._exit(0 if good and shared.asnumpy().sum() == 3600 and (x * 2).exp().asnumpy().size == 5 * (i + 2) else 3)
    counts.append(os.waitpid(child, 0)[1])
print("good" if not any(counts) else counts)
os._exit(0)
"""

_POOL = """
import multiprocessing, mxjax as mx, numpy as np
table = mx.nd.arange(12).reshape((4, 3))
mean = table.mean().asscalar()
def row(i):
    if i == 9:
        table.reshape((5, 5))
    return (table[i % 4] - mean) / 2, int(mx.nd.argmax(table[i % 4], axis=0).asscalar())
with multiprocessing.get_context("fork").Pool(2) as pool:
    made = pool.map(row, range(8))
    assert [n for _, n in made] == [2] * 8
    np.testing.assert_allclose(np.stack([a.asnumpy() for a, _ in made[:4]]), (table.asnumpy() - mean) / 2)
    try:
        pool.map(row, [9])
    except mx.MXNetError as error:
        assert "eshape" in str(error)
        print("good")
"""

_REFUSED = """
import os, jax, mxjax as mx
a = mx.nd.ones((2, 2))
(a + 1).wait_to_read()
child = os.fork()
if child == 0:
    told = []
    for call in (lambda: jax.jit(lambda x: x * 3)(a.to_jax()), lambda: mx.nd.array([[1.]]).to_jax() @ a.to_jax()[:1]):
        try:
            call()
        except mx.MXNetError as error:
            told.append("spawn" in str(error))
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if (a * 2).asnumpy().sum() == 8 else 5)
    os._exit(0 if told == [True, True] and os.waitpid(grandchild, 0)[1] == 0 else 4)
assert os.waitpid(child, 0)[1] == 0
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


_FORKS = {"before arrays are used": (_FORK_FIRST,), "the child is the first to call": (_SAME,),
          "the parent has programs": (_SAME, "called"), "other threads are at work": (_THREADS, 6),
          "a pool": (_POOL,), "what is refused": (_REFUSED,)}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name in ("before arrays are used", "the parent has programs") else ())
    for name in _FORKS])
def test_forks(name, tally, effort, tmp_path):
    code, *args = _FORKS[name]
    for _ in range(effort(2, 30)):
        status, out = _run(code, seconds=120, args=[*args, tmp_path / "saved"])
        tally.count("hang" if status == "hang" else "ok" if (status, out.strip()) == (0, "good") else "differs",
                    f"{name}: {status} {out[-600:]}")


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


@pytest.mark.slow
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


@pytest.mark.slow
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
