"""Stores: sums over devices, updaters, many keys, sparse rows, compression, stores of one's own."""

import subprocess
import sys
import types

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kvstore import KVStoreBase
from mxjax.kvstore.kvstore import KVStore

SHAPE = (4, 3)


def store_with(kind="local", keys=(3,), value=0):
    store = mx.kv.create(kind)
    store.init(list(keys), [mx.nd.full(SHAPE, value)] * len(keys))
    return store


def pulled(store, key):
    out = mx.nd.empty(SHAPE)
    store.pull(key, out)
    return out.asnumpy()


def copies(count, value=1.0):
    """`count` arrays on as many contexts, i-th full of value * (i + 1); their sum is value * count (count + 1) / 2."""
    return [mx.nd.full(SHAPE, value * (i + 1), ctx=mx.cpu(i)) for i in range(count)]


# ------------------------------------------------------------------ sums
@pytest.mark.parametrize("kind", ["local", "device", "nccl", "local_allreduce_cpu", "local_allreduce_device"])
def test_sum_of_devices(kind):
    store = store_with(kind)
    assert store.type == kind and (store.rank, store.num_workers) == (0, 1)
    store.push(3, copies(4))
    outs = [mx.nd.empty(SHAPE, ctx=mx.cpu(i)) for i in range(4)]
    store.pull(3, outs)
    for out in outs:
        np.testing.assert_array_equal(out.asnumpy(), np.full(SHAPE, 10))
    store.push(3, mx.nd.ones(SHAPE))
    np.testing.assert_array_equal(pulled(store, 3), np.ones(SHAPE), err_msg="without an updater a push replaces")


@pytest.mark.parametrize("keys", [(5, 7, 11), ("a", "b", "c")])
def test_several_keys(keys):
    store = store_with(keys=keys)
    store.push(list(keys), [copies(2, i + 1) for i in range(3)])
    for i, key in enumerate(keys):
        np.testing.assert_array_equal(pulled(store, key), np.full(SHAPE, 3 * (i + 1)))
    outs = [[mx.nd.empty(SHAPE)] * 2 for _ in keys]
    store.pull(list(keys), outs)
    np.testing.assert_array_equal(outs[2][1].asnumpy(), np.full(SHAPE, 9))
    store.push([keys[0], keys[0]], [mx.nd.ones(SHAPE), mx.nd.ones(SHAPE)])
    np.testing.assert_array_equal(pulled(store, keys[0]), np.full(SHAPE, 2), err_msg="one key twice: a sum")


def test_pushpull_and_broadcast():
    store = mx.kv.create("device")
    outs = [mx.nd.empty(SHAPE, ctx=mx.cpu(i)) for i in range(2)]
    store.broadcast("w", mx.nd.full(SHAPE, 7), outs)
    assert all((o.asnumpy() == 7).all() for o in outs)
    values = copies(2)
    store.pushpull("w", values)
    assert all((v.asnumpy() == 3).all() for v in values)
    store.pushpull("w", values, out=outs[0])
    assert (outs[0].asnumpy() == 6).all() and (outs[1].asnumpy() == 7).all()


def test_pulled_arrays_are_independent():
    store = store_with(value=1)
    first, second = mx.nd.empty(SHAPE), mx.nd.empty(SHAPE)
    store.pull(3, [first, second])
    first += 10
    first *= 2
    np.testing.assert_array_equal(second.asnumpy(), np.ones(SHAPE))
    np.testing.assert_array_equal(pulled(store, 3), np.ones(SHAPE))
    pushed = mx.nd.full(SHAPE, 5)
    store.push(3, pushed)
    pushed += 1
    np.testing.assert_array_equal(pulled(store, 3), np.full(SHAPE, 5))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_dtypes(dtype):
    store = mx.kv.create("device")
    store.init("x", mx.nd.zeros(SHAPE, dtype=dtype))
    store.push("x", [mx.nd.ones(SHAPE, dtype=dtype, ctx=mx.cpu(i)) for i in range(3)])
    out = mx.nd.zeros(SHAPE, dtype=dtype)
    store.pull("x", out)
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out.asnumpy(), np.full(SHAPE, 3))


# ------------------------------------------------------------------ updaters and optimizers
def test_updater():
    store, seen = store_with(keys=("a", "b"), value=1), []

    def update(key, received, stored):
        seen.append(key)
        stored += received * 2
    store._set_updater(update)
    for _ in range(2):
        store.push(["a", "b"], [copies(2), mx.nd.ones(SHAPE)])
    np.testing.assert_array_equal(pulled(store, "a"), np.full(SHAPE, 1 + 2 * 2 * 3))
    np.testing.assert_array_equal(pulled(store, "b"), np.full(SHAPE, 1 + 2 * 2))
    assert seen == [b"a", b"b", b"a", b"b"], "C calls updaters in MXNet, with its strings"


def test_optimizer_on_the_store(tmp_path):
    store = store_with(value=1)
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
    weight, momentum = np.ones(SHAPE), np.zeros(SHAPE)

    def step(target):
        nonlocal weight, momentum
        target.push(3, copies(2))
        momentum = 0.9 * momentum - 0.1 * 3
        weight = weight + momentum
        np.testing.assert_allclose(pulled(target, 3), weight, rtol=1e-5)
    step(store)
    step(store)
    path = str(tmp_path / "x.states")
    store.save_optimizer_states(path, dump_optimizer=True)
    other = mx.kv.create("local")
    other.init(3, mx.nd.array(weight))
    with pytest.raises(MXNetError, match="set_optimizer"):
        other.load_optimizer_states(path)
    other.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
    other.load_optimizer_states(path)
    step(other)


# ------------------------------------------------------------------ sparse
def test_row_sparse():
    store = mx.kv.create("local")
    table = mx.nd.array(np.arange(12).reshape(4, 3))
    store.init("t", table.tostype("row_sparse"))
    out = mx.nd.zeros(SHAPE, stype="row_sparse")
    store.row_sparse_pull("t", out, row_ids=mx.nd.array([1, 3, 1]))
    wanted = np.zeros(SHAPE)
    wanted[[1, 3]] = table.asnumpy()[[1, 3]]
    np.testing.assert_array_equal(out.asnumpy(), wanted)
    assert out.indices.asnumpy().tolist() == [1, 3]
    rows = [mx.nd.sparse.row_sparse_array((np.ones((1, 3)), [i]), shape=SHAPE) for i in (0, 0, 2)]
    store.push("t", rows)
    store.row_sparse_pull("t", out, row_ids=mx.nd.arange(4))
    np.testing.assert_array_equal(out.asnumpy(), [[2] * 3, [0] * 3, [1] * 3, [0] * 3])


# ------------------------------------------------------------------ compression
@pytest.mark.parametrize("kind, sent", [("2bit", lambda r: np.where(r >= 0.5, 0.5, np.where(r <= -0.5, -0.5, 0))),
                                        ("1bit", lambda r: np.where(r > 0.5, 1, -1))])
def test_compression(kind, sent):
    store = mx.kv.create("device")
    store.init(0, mx.nd.zeros(SHAPE))
    store.set_gradient_compression({"type": kind, "threshold": 0.5})
    rng, residual = np.random.default_rng(0), np.zeros(SHAPE, "float32")
    for _ in range(5):
        gradient = rng.normal(size=SHAPE).astype("float32")
        store.push(0, mx.nd.array(gradient))
        total = residual + gradient
        residual = total - sent(total).astype("float32")
        np.testing.assert_allclose(pulled(store, 0), sent(total), rtol=1e-6)


def test_compression_mistakes():
    with pytest.raises(MXNetError, match="not supported"):
        mx.kv.create("local").set_gradient_compression({"type": "2bit"})
    store = mx.kv.create("device")
    for params in ({}, {"type": "3bit"}, {"type": "2bit", "threshold": 0}, {"type": "2bit", "speed": 1},
                   {"type": "2bit", "threshold": "x"}):
        with pytest.raises(MXNetError):
            store.set_gradient_compression(params)
    with pytest.raises(AssertionError, match="must be a dict, got str"):
        store.set_gradient_compression("2bit")


# ------------------------------------------------------------------ mistakes, registration
def test_mistakes():
    store = store_with()
    for wrong, error, words in (
            (lambda: store.init(3, mx.nd.ones(SHAPE)), MXNetError, "already initialized"),
            (lambda: store.push(4, mx.nd.ones(SHAPE)), MXNetError, "4 has not been initialized"),
            (lambda: store.pull(4, mx.nd.ones(SHAPE)), MXNetError, "4 has not been initialized"),
            (lambda: store.push("3", mx.nd.ones(SHAPE)), MXNetError, "keys must be int"),
            (lambda: store.push(1.5, mx.nd.ones(SHAPE)), TypeError, "1.5"),
            (lambda: store.push(3, mx.nd.ones((9,))), MXNetError, r"\(9,\).*\(4, 3\)"),
            (lambda: store.pull(3, mx.nd.ones((9,))), MXNetError, r"\(9,\).*\(4, 3\)"),
            (lambda: store.pull(3), MXNetError, "out"),
            (lambda: store.is_capable("flying"), ValueError, "flying"),
            (lambda: mx.kv.create("dist_remote"), MXNetError, "remote.*local"),
            (lambda: mx.kv.create(3), TypeError, "string")):
        with pytest.raises(error, match=words):
            wrong()
    np.testing.assert_array_equal(pulled(store, 3), np.zeros(SHAPE))


def test_other_names_are_local_stores_with_a_warning(caplog):
    remote = mx.kv.create("Remote")
    assert remote.type == "remote" and type(remote) is type(mx.kv.create("local"))
    assert "unknown kvstore 'Remote'" in caplog.text


def test_a_store_of_ones_own():
    @KVStoreBase.register
    class Doubling(KVStore):
        def __init__(self):
            super().__init__("doubling")

        def push(self, key, value, priority=0):
            super().push(key, [v * 2 for v in value] if isinstance(value, list) else value * 2, priority)
    store = mx.kv.create("doubling")
    store.init("x", mx.nd.zeros(SHAPE))
    store.pushpull("x", mx.nd.ones(SHAPE), out=(out := mx.nd.zeros(SHAPE)))
    assert (out.asnumpy() == 2).all()
    plain = mx.kv.create("teststore")
    values = copies(2)
    plain.pushpull(0, values)
    assert (values[1].asnumpy() == 3).all() and not plain.is_capable("optimizer")
    with pytest.raises(TypeError):
        KVStoreBase.register("not a class")


def test_a_trainer_lets_a_store_of_ones_own_sum_in_place():
    class Summing(KVStoreBase.kv_registry["teststore"]):
        def pushpull(self, key, value, out=None, priority=0):
            outs.append(out)
            super().pushpull(key, value, out, priority)

    outs, weight = [], mx.gluon.Parameter("weight", shape=(2,), init="ones")
    weight.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 1.0}, kvstore=Summing())
    with mx.autograd.record():
        losses = [weight.data(ctx) * 2 for ctx in weight.list_ctx()]
    mx.autograd.backward(losses)
    trainer.step(1)
    assert outs == [None]
    np.testing.assert_array_equal(weight.data(mx.cpu(1)).asnumpy(), [-3, -3])


# ------------------------------------------------------------------ real devices, in a process of their own
_DEVICES = """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
import mxjax as mx
assert len(jax.devices()) == 8 and mx.cpu(7).jax_device == jax.devices()[7]
rng = np.random.default_rng(0)
for count in range(1, 9):
    for kind in ("local", "device"):
        store = mx.kv.create(kind)
        shapes = [(3, 4), (5,), (2, 2, 2)]
        values = [[rng.normal(size=s).astype("float32") for _ in range(count)] for s in shapes]
        arrays = [[mx.nd.array(v, ctx=mx.cpu(i)) for i, v in enumerate(row)] for row in values]
        store.init(["a", "b", "c"], [mx.nd.zeros(s) for s in shapes])
        outs = [[mx.nd.zeros(s, ctx=mx.cpu(i)) for i in range(count)] for s in shapes]
        store.pushpull(["a", "b", "c"], arrays, out=outs)
        for row, out in zip(values, outs):
            for i, array in enumerate(out):
                assert array.to_jax().devices() == {jax.devices()[i]}
                np.testing.assert_allclose(array.asnumpy(), np.sum(row, 0), rtol=1e-5, atol=1e-6)
source = np.ones((64, 64), "float32")
elsewhere = mx.nd.array(source, ctx=mx.cpu(3))
source[:] = 0
elsewhere += 1
assert (elsewhere.asnumpy() == 2).all() and elsewhere.to_jax().devices() == {jax.devices()[3]}
wide = mx.kv.create("device")
wide.init(0, mx.nd.zeros((2,), dtype="float64"))
wide.push(0, [mx.nd.array([2.0**-40, 1], dtype="float64", ctx=mx.cpu(i)) for i in range(3)])
wide.pull(0, out := mx.nd.zeros((2,), dtype="float64"))
np.testing.assert_array_equal(out.asnumpy(), [3 * 2.0**-40, 3])
x = np.random.RandomState(0).randn(32, 5).astype("float32")
y = x[:, :3].argmax(1).astype("float32")
weights = []
for contexts in ([mx.cpu(0)], [mx.cpu(i) for i in range(4)]):
    mx.random.seed(1)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(net, context=contexts)
    data = mx.io.NDArrayIter(x, y, 16)
    module.fit(data, num_epoch=3, kvstore="device", initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.3})
    weights.append(module.get_params()[0]["fc_weight"].asnumpy())
np.testing.assert_allclose(*weights, rtol=1e-4, atol=1e-5)
print("good")
"""

_MANY = """
import jax, threading
jax.config.update("jax_num_cpu_devices", 2)
import mxjax as mx
store = mx.kv.create("device")
keys = ["a", "b", "c"]
store.init(keys, [mx.nd.zeros((7,))] * 3)
values = [[mx.nd.ones((7,), ctx=mx.cpu(i)) for i in range(2)] for _ in keys]
def push(count):
    for i in range(count):
        store.push(keys[i % 3], values[i % 3], priority=-i)
threads = [threading.Thread(target=push, args=(2500,)) for _ in range(2)]
for thread in threads: thread.start()
push(5000)
for thread in threads: thread.join()
store.pull(keys, outs := [mx.nd.zeros((7,), ctx=mx.cpu(1)) for _ in keys])
assert all((out.asnumpy() == 2).all() for out in outs)
print("good")
"""


def run(script, seconds):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0 and done.stdout.endswith("good\n"), done.stderr[-3000:]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind, more, expected", [("local", 1, False), ("local", 0, True), ("device", 1, True)])
def test_large_arrays_are_not_updated_by_a_store_on_the_host(kind, more, expected):
    large = types.SimpleNamespace(shape=(2 ** 12, 2 ** 12 + more))
    store, updates = mx.model._create_kvstore(kind, 2, {"weight": large})
    assert store.type == kind and updates is expected


def test_up_to_eight_devices():
    run(_DEVICES, 220)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_10_000_pushes_do_not_deadlock():
    run(_MANY, 220)


@pytest.mark.parametrize("wanted, rows", [([0, 2], [0, 2]), ([2, 0, 2], [0, 2]), ([[2, 1], [1, 0]], [0, 1, 2])])
def test_pulled_rows_come_once_and_zeros_where_nothing_is_stored(wanted, rows):
    store, dense = mx.kv.create("local"), np.array([[0, 0], [1, 2], [3, 4], [0, 0]], np.float32)
    store.init("w", mx.nd.array(dense).tostype("row_sparse"))
    out = mx.nd.sparse.zeros("row_sparse", (4, 2))
    store.row_sparse_pull("w", out=out, row_ids=mx.nd.array(wanted))
    assert out.indices.asnumpy().tolist() == rows
    assert out.data.asnumpy().tolist() == dense[rows].tolist()


def test_states_of_an_updater_without_any(tmp_path):
    store = mx.kv.create("local")
    store._set_updater(lambda key, grad, weight: None)
    with pytest.raises(mx.MXNetError, match="no optimizer"):
        store.save_optimizer_states(str(tmp_path / "states"))
