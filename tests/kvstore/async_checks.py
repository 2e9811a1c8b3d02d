"""Checks that every worker of an asynchronous job makes; each prints its name when it has passed."""

import os
import tempfile

import mxnet as mx
import numpy as np

from tests.internals import shards_of

store = mx.kv.create("dist_async")
rank, size = store.rank, store.num_workers
everybody = size * (size + 1) // 2
shape, big = (2, 3), (1200, 900)


def _pulled(key, shape=shape, dtype="float32"):
    out = mx.nd.zeros(shape, dtype=dtype)
    store.pull(key, out)
    return out.asnumpy()


def _together():
    """Everything that anybody has sent is done."""
    store.wait()
    store._barrier()


def check_values_begin_as_worker_0_says():
    store.init([3, 5], [mx.nd.ones(shape) * (rank + 5)] * 2)
    assert (_pulled(3) == 5).all() and (_pulled(5) == 5).all()


def check_a_push_before_the_optimizer_is_an_error():
    store.push(3, mx.nd.ones(shape))
    try:
        store.pull(3, mx.nd.zeros(shape))
    except mx.MXNetError as error:
        assert "call set_optimizer before push" in str(error)
    else:
        raise AssertionError("nothing was raised")
    assert (_pulled(3) == 5).all()  # it is told once
    _together()  # before worker 0 sends an optimizer


def check_servers_update_with_each_gradient():
    store.set_optimizer(mx.optimizer.create("test", rescale_grad=2))
    for _ in range(3):
        store.push(3, [mx.nd.ones(shape, ctx=mx.cpu(i)) * (rank + 1) for i in range(2)])
    _together()
    assert (_pulled(3) == 5 + 3 * 2 * 2 * everybody).all()


def check_big_arrays_are_spread_over_servers():
    rows = np.arange(big[0], dtype="f")[:, None] * np.ones(big, "f")
    store.init(99, mx.nd.zeros(big))
    assert [server for server, _, _ in shards_of(store, 99)] == list(range(size))
    store.push(99, mx.nd.array(rows))
    _together()
    np.testing.assert_array_equal(_pulled(99, big), 2 * size * rows)
    out = mx.nd.zeros(big, stype="row_sparse")
    store.row_sparse_pull(99, out=out, row_ids=mx.nd.array([[1100, 3], [3, 700]]))
    assert out.indices.asnumpy().tolist() == [3, 700, 1100]
    np.testing.assert_array_equal(out.data.asnumpy(), 2 * size * rows[[3, 700, 1100]])
    _together()
    store.push(99, out)
    _together()
    assert (_pulled(99, big)[:, 0] == 2 * size * rows[:, 0] * np.where(out.asnumpy()[:, 0] != 0, 1 + 2 * size, 1)).all()


def check_gradients_age():
    store.init(7, mx.nd.zeros(shape))
    _pulled(7)
    _together()
    for _ in range(2):
        store.push(7, mx.nd.ones(shape))
    _together()
    found = store.staleness()[7]
    ages = sum(range(2 * size))  # every update makes those that follow one older
    assert (found["updates"], found["mean"], found["max"]) == (2 * size, ages / (2 * size), 2 * size - 1)
    store._barrier()
    for turn in range(size):  # in turn, each having pulled: nothing is stale
        if turn == rank:
            _pulled(7)
            store.push(7, mx.nd.ones(shape))
            store.wait()
        store._barrier()
    assert store.staleness()[7] == {"updates": 3 * size, "mean": ages / (3 * size), "max": 2 * size - 1}


def check_unlike_arrays_are_refused():
    try:
        store.init(11, mx.nd.ones((rank + 2, 2)))
    except mx.MXNetError as error:
        assert "worker 1 has key 11=default float32(3, 2)" in str(error)
    else:
        raise AssertionError("nothing was raised")


def check_states_are_saved_and_loaded():
    with tempfile.TemporaryDirectory() as folder:
        store.save_optimizer_states(os.path.join(folder, "states"))
        assert len(os.listdir(folder)) == size
        store.load_optimizer_states(os.path.join(folder, "states"))
    store._barrier()


def check_a_trainer_learns():
    rng = np.random.RandomState(rank)
    net = mx.gluon.nn.Dense(1, in_units=3)
    net.initialize(mx.init.Zero())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05}, kvstore="dist_async")
    for _ in range(60):
        data = mx.nd.array(rng.randn(8, 3))
        with mx.autograd.record():
            loss = (net(data) - mx.nd.sum(data, axis=1, keepdims=True)).square()
        loss.backward()
        trainer.step(8)
    np.testing.assert_allclose(net.weight.data().asnumpy(), np.ones((1, 3)), atol=0.2)
    assert trainer._kvstore.bytes_sent > 60 * 16
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_states(os.path.join(folder, "states"))
        trainer.load_states(os.path.join(folder, "states"))
    assert trainer.learning_rate == 0.05
    store._barrier()


def check_servers_can_be_profiled():
    store._barrier()
    if rank == 0:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "server.json")
            mx.profiler.set_kvstore_handle(store.handle)
            mx.profiler.set_config(filename=path, profile_all=True, profile_process="server")
            mx.profiler.set_state("run", profile_process="server")
            store.push(3, mx.nd.ones(shape))
            store.wait()
            mx.profiler.dump(profile_process="server")
            with open(path, encoding="utf-8") as file:  # the servers of this job share the file: one's events are there
                assert "traceEvents" in file.read()
    store._barrier()


def check_packed_gradients():
    packed = mx.kv.create("dist_async")
    packed.init(0, mx.nd.zeros(big))
    packed.set_optimizer(mx.optimizer.create("test"))
    packed.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    before = packed.bytes_sent
    packed.push(0, mx.nd.ones(big) * 0.6)
    assert big[0] * big[1] / 4 <= packed.bytes_sent - before < big[0] * big[1] / 4 + 1000
    packed.wait()
    packed._barrier()
    out = mx.nd.zeros(big)
    packed.pull(0, out)
    assert (out.asnumpy() == 0.5 * size).all()
    packed._barrier()


for name, check in list(globals().items()):
    if name.startswith("check_"):
        check()
        print("passed", name, "(both)", flush=True)
