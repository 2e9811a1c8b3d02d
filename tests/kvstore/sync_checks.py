"""Checks that every worker of a job makes; each prints its name when it has passed (see test_dist_sync.py)."""

import os
import tempfile
import time

import jax
import mxnet as mx  # the launcher's `mxjax run` makes this mxjax
import numpy as np

from tests.internals import collectives_of, compression_of

store = mx.kv.create("dist_sync")
rank, size = store.rank, store.num_workers
everybody = size * (size + 1) // 2
shape, big = (2, 3), (300, 400)


def _pulled(key, shape=shape, dtype="float32"):
    out = mx.nd.zeros(shape, dtype=dtype)
    store.pull(key, out)
    return out.asnumpy()


def check_worker_0_says_what_values_are_at_first():
    store.init(["a", "b"], [mx.nd.ones(shape) * (rank + 5)] * 2)
    assert (_pulled("a") == 5).all() and (_pulled("b") == 5).all()
    for dtype, value in (("float16", -0.0), ("float64", 1 / 3), ("int32", -7), ("uint8", 200)):
        store.init("of_" + dtype, mx.nd.array(np.full(shape, value if rank == 0 else 1), dtype=dtype))
        assert _pulled("of_" + dtype, dtype=dtype).tobytes() == np.full(shape, value, dtype).tobytes()


def check_pushes_are_summed_over_workers_and_devices():
    store.init("sum", mx.nd.zeros(shape))
    for repeat in range(1, 3):
        store.push("sum", [mx.nd.ones(shape, ctx=mx.cpu(i)) * (rank + 1) * repeat for i in range(2)])
        assert (_pulled("sum") == 2 * repeat * everybody).all()


def check_many_keys_of_several_dtypes_go_in_one_call():
    keys = [f"many{i}" for i in range(6)]
    values = [mx.nd.ones((i + 1, 7), dtype="float16" if i % 2 else "float32") * (rank + i) for i in range(6)]
    store.init(keys, [v * 0 for v in values])
    outs = [mx.nd.zeros(v.shape, dtype=v.dtype) for v in values]
    store.pushpull(keys, values, out=outs)
    for i, out in enumerate(outs):
        assert (out.asnumpy() == sum(r + i for r in range(size))).all()
    store.pushpull(keys, values)  # into the values themselves
    assert (values[3].asnumpy() == sum(r + 3 for r in range(size))).all()


def check_buckets_are_as_good_as_one_buffer():
    workers = collectives_of(store)
    before, workers.bucket = workers.bucket, 1 << 14
    try:
        values = [mx.nd.arange(n * 1000) * (rank + 1) for n in (1, 9, 2, 3)]
        assert len(workers.buckets([v.to_jax() for v in values])) > 2
        for n, total in zip((1, 9, 2, 3), workers.all_reduce([v.to_jax() for v in values]), strict=True):
            np.testing.assert_array_equal(total, np.arange(n * 1000) * everybody)
    finally:
        workers.bucket = before


def check_rows_of_sparse_gradients_are_summed():
    store.init("rows", mx.nd.ones((5, 3)).tostype("row_sparse"))
    grad = mx.nd.zeros((5, 3))
    grad[rank] = rank + 1
    grad[4] = 10
    store.push("rows", grad.tostype("row_sparse"))
    out = mx.nd.zeros((5, 3), stype="row_sparse")
    store.row_sparse_pull("rows", out=out, row_ids=mx.nd.array([[0, 1], [4, 4]]))
    expected = np.zeros((5, 3))
    expected[:2] = [[1], [2]]
    expected[4] = 10 * size
    np.testing.assert_array_equal(out.asnumpy(), expected)
    store.push("rows", mx.nd.sparse.zeros("row_sparse", (5, 3)))  # nobody has any
    store.row_sparse_pull("rows", out=out, row_ids=mx.nd.array([]))
    assert (out.asnumpy() == 0).all()


def check_unlike_arrays_are_refused_by_name():
    try:
        store.init("unlike", mx.nd.ones((rank + 2, 2)))
    except mx.MXNetError as error:
        assert "worker 1 has key 'unlike'=default float32(3, 2), worker 0 has key 'unlike'=default float32(2, 2)" \
            in str(error), error
    else:
        raise AssertionError("nothing was raised")
    store.init("unlike", mx.nd.ones((2, 2)))  # it has not been initialized


def check_workers_at_different_calls_are_told():
    try:
        store._barrier() if rank == 0 else store.init("elsewhere", mx.nd.ones(shape))
    except mx.MXNetError as error:
        assert "worker 0 is at 'barrier', worker 1 is at 'kvstore init'" in str(error), error
    else:
        raise AssertionError("nothing was raised")


def check_barrier_and_workers():
    store._barrier()
    assert (store.type, store.get_num_dead_node(7), store.is_recovery) == ("dist_sync", 0, False)
    assert jax.process_count() == size and jax.process_index() == rank
    assert mx.cpu().jax_device.process_index == rank


def check_gradients_go_compressed():
    for kind, steps in (("2bit", ((0.4, 0), (0.1, size / 2), (0.2, 0), (-1.0, -size / 2))),
                        ("1bit", ((0.6, size), (0.6, -size), (-0.1, size), (1.5, size)))):
        packed = mx.kv.create("dist_device_sync")
        packed.set_gradient_compression({"type": kind, "threshold": 0.5})
        keys = [f"{kind}{i}" for i in range(2)]
        packed.init(keys, [mx.nd.ones((5, 3)), mx.nd.ones((7,))])
        outs = [mx.nd.zeros((5, 3)), mx.nd.zeros((7,))]
        packed.pull(keys, out=outs)
        assert (outs[0].asnumpy() == 1).all()  # first values are not compressed
        for sent, expected in steps:
            packed.push(keys, [mx.nd.ones((5, 3)) * sent, mx.nd.ones((7,)) * sent])
            packed.pull(keys, out=outs)
            assert all((out.asnumpy() == expected).all() for out in outs), (kind, sent, expected, outs[1])
        assert compression_of(packed).pack("x", mx.nd.ones(big).to_jax()).nbytes == big[0] * big[1] * int(kind[0]) // 8


def check_many_workers_would_compute_parts():
    wire = mx.kvstore.kvstore.Compression({"type": "2bit"})
    packed = wire.pack("parts", mx.nd.array(np.random.RandomState(rank).randn(37, 3)).to_jax())
    whole, parts = (collectives_of(store).combine(packed, wire.sum_signs, spread) for spread in (False, True))
    np.testing.assert_array_equal(whole, parts)
    assert 0 < np.abs(np.asarray(whole)).max() <= size


def check_random_gradients_lose_nothing_for_ever():
    packed = mx.kv.create("dist_sync")
    packed.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    packed.init("random", mx.nd.zeros(shape))
    rng, residual, sums = np.random.RandomState(3), np.zeros(shape, "f"), np.zeros(shape, "f")
    for _ in range(5):
        grad = rng.rand(*shape).astype("f")  # the same on all workers
        packed.push("random", mx.nd.array(grad))
        residual += grad
        sums = np.where(residual >= 0.5, 0.5, np.where(residual <= -0.5, -0.5, 0)).astype("f")
        residual -= sums
        out = mx.nd.zeros(shape)
        packed.pull("random", out)
        np.testing.assert_allclose(out.asnumpy(), sums * size, rtol=1e-6)


def check_a_trainer_does_what_one_process_would():
    data = np.random.RandomState(0).randn(4 * size, 3).astype("f")
    label = data.sum(1, keepdims=True)
    mine = slice(4 * rank, 4 * rank + 4)

    def trained(kvstore, part, batch, on_store):
        mx.random.seed(7)
        net = mx.gluon.nn.Dense(1, in_units=3)
        net.initialize(mx.init.Normal(1))
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kvstore,
                                   update_on_kvstore=on_store)
        for _ in range(3):
            with mx.autograd.record():
                loss = (net(mx.nd.array(data[part])) - mx.nd.array(label[part])).square()
            loss.backward()
            trainer.step(batch)
        return net

    expected = trained(None, slice(None), 4 * size, None)
    for on_store in (True, False):
        net = trained("dist_sync", mine, 4 * size, on_store)
        np.testing.assert_allclose(net.weight.data().asnumpy(), expected.weight.data().asnumpy(), rtol=1e-4)
        assert len(mx.kv.same_everywhere(net, "trained parameters")) == 64


def check_a_module_trains_and_its_states_are_saved():
    mx.random.seed(1)
    data = mx.nd.array(np.random.RandomState(rank).randn(8, 3))
    out = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"), name="lro")
    batches = mx.io.NDArrayIter(data, mx.nd.sum(data, axis=1), batch_size=4, label_name="lro_label")
    module = mx.mod.Module(out, label_names=("lro_label",))
    kvstore = mx.kv.create("dist_device_sync")
    module.fit(batches, num_epoch=2, kvstore=kvstore, optimizer="sgd", eval_metric="mse",
               optimizer_params={"learning_rate": 0.05, "momentum": 0.9}, initializer=mx.init.Uniform(1))
    mx.kv.same_everywhere(module.get_params()[0], "module parameters")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "states")
        kvstore.save_optimizer_states(path)
        kvstore.load_optimizer_states(path)


def check_a_store_of_sparse_parameters_cannot_be_reset():
    params = mx.gluon.ParameterDict()
    weight = params.get("sparse_weight", shape=(4, 2), stype="row_sparse")
    params.initialize(init="zeros")
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 0.1}, kvstore="dist_sync")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "params")
        params.save(path)
        assert weight.row_sparse_data(mx.nd.arange(0, 4)).shape == (4, 2)
        assert trainer._kv_initialized and trainer._update_on_kvstore
        try:
            params.load(path)
        except RuntimeError as error:
            assert "Cannot reset distributed KVStore" in str(error)
        else:
            raise AssertionError("nothing was raised")


def check_what_differs_between_workers_is_found():
    mx.kv.same_everywhere({"w": mx.nd.ones((3,))})
    try:
        mx.kv.same_everywhere({"v": mx.nd.ones((3,)), "w": mx.nd.ones((3,)) * (1 + 1e-6 * (rank == size - 1))}, "net")
    except mx.MXNetError as error:
        assert f"net: worker {size - 1} has w=" in str(error)
    else:
        raise AssertionError("nothing was raised")


def check_one_program_over_all_workers_devices():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
    data = np.random.RandomState(2).randn(4 * size, 3).astype("f")
    label = data.sum(1, keepdims=True)

    dense = mx.gluon.nn.Dense(1, in_units=3)
    dense.initialize()
    trainer = mx.gluon.Trainer(dense.collect_params(), "sgd", kvstore="dist_sync")
    try:
        mx.gluon.TrainStep(dense, mx.gluon.loss.L2Loss(), trainer, mesh=mesh)(mx.nd.array(data), mx.nd.array(label))
    except ValueError as error:
        assert "kvstore=None" in str(error)
    else:
        raise AssertionError("nothing was raised")

    def trained(mesh, part):
        mx.random.seed(11)
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(4, in_units=3, activation="relu"), mx.gluon.nn.BatchNorm(in_channels=4),
                mx.gluon.nn.Dense(1, in_units=4))
        net.initialize(mx.init.Xavier())
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=None)
        step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer, mesh=mesh)
        for _ in range(3):
            step(mx.nd.array(data[part]), mx.nd.array(label[part]))
            if mesh is not None:
                mx.kv.same_everywhere(net)
        return [p.data().asnumpy() for p in net.collect_params().values()]

    for got, expected in zip(trained(mesh, slice(4 * rank, 4 * rank + 4)), trained(None, slice(None)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def check_an_optimizer_on_the_store():  # the last: from here on pushes are gradients
    store.set_optimizer(mx.optimizer.create("test", rescale_grad=2))
    for dtype in ("float32", "float16"):
        store.init("weight" + dtype, mx.nd.ones(big, dtype=dtype))
        for repeat in range(1, 4):
            store.push("weight" + dtype, mx.nd.ones(big, dtype=dtype) * (rank + 1))
            assert (_pulled("weight" + dtype, big, dtype) == 1 + 2 * everybody * repeat).all()


for name, check in list(globals().items()):
    if name.startswith("check_"):
        begun = time.monotonic()
        check()
        print("passed", name, f"({time.monotonic() - begun:.1f} s)", flush=True)
