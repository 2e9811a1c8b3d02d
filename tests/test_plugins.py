"""Plug-ins, mx.rtc and mx.executor_manager."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import library


def test_a_plug_in_registers_operators(tmp_path, caplog):
    plugin = tmp_path / "plugin.py"
    plugin.write_text("import mxjax as mx\n"
                      "mx.operator.from_jax(lambda x: x * x + 1, name='plugin_square_plus')\n")
    caplog.set_level("INFO")
    library.load(str(plugin))
    assert "plugin_square_plus" in caplog.text
    assert mx.nd.plugin_square_plus(mx.nd.array([1, 2])).asnumpy().tolist() == [2, 5]
    x = mx.sym.var("x")
    assert mx.sym.plugin_square_plus(x).eval(x=mx.nd.array([3]))[0].asnumpy().tolist() == [10]
    library.load(str(plugin))  # a second time: nothing happens


def test_what_is_no_plug_in_is_refused(tmp_path):
    for name, content, message in (("a.so", b"", "shared library.*Python file"), ("b.txt", b"", "NOT a library file"),
                                   ("c.py", b"1 / 0", "ZeroDivisionError")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(mx.MXNetError, match=message):
            library.load(str(tmp_path / name))
    with pytest.raises(mx.MXNetError, match="does NOT exist"):
        library.load(str(tmp_path / "none.py"))


def test_pallas_kernels_read_and_write_arrays():
    pallas = pytest.importorskip("jax.experimental.pallas")

    def axpy(x, y, alpha, block):
        rows = pallas.ds(pallas.program_id(0) * block[0], block[0])
        y[rows] += alpha[0] * x[rows]

    kernel = mx.rtc.CudaModule(axpy).get_kernel("axpy", "const float *x, float *y, float alpha")
    x, y = mx.nd.arange(6), mx.nd.ones((6,))
    for _ in range(2):
        kernel.launch([x, y, 3.0], mx.cpu(), (3, 1, 1), (2, 1, 1))
    assert y.asnumpy().tolist() == (1 + 6 * np.arange(6)).tolist()
    assert x.asnumpy().tolist() == list(range(6))


def test_kernels_and_their_arguments_are_checked():
    with pytest.raises(mx.MXNetError, match="CUDA C source cannot be compiled.*Pallas"):
        mx.rtc.CudaModule("__global__ void axpy() {}")
    module = mx.rtc.CudaModule({"copy": lambda x, y: None})
    with pytest.raises(mx.MXNetError, match="no kernel 'move'; there are copy"):
        module.get_kernel("move", "float *x")
    with pytest.raises(ValueError, match="Invalid function prototype"):
        module.get_kernel("copy", "const *x")
    with pytest.raises(TypeError, match="Unsupported kernel argument type"):
        module.get_kernel("copy", "const complex *x")
    kernel = module.get_kernel("copy", "const float *x, float *")
    with pytest.raises(AssertionError, match="expects 2 arguments but got 1"):
        kernel.launch([mx.nd.ones((2,))], mx.cpu(), (1, 1, 1), (1, 1, 1))
    with pytest.raises(AssertionError, match="1-th argument.*float32 but got float64"):
        kernel.launch([mx.nd.ones((2,)), mx.nd.ones((2,), dtype="float64")], mx.cpu(), (1, 1, 1), (1, 1, 1))


def _network(width):
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=width, name="fc"), name="softmax")


def test_executor_manager_trains_on_two_devices():
    rng = np.random.RandomState(0)
    x, y = rng.randn(8, 3).astype("f"), rng.randint(0, 2, 8)
    batches = mx.io.NDArrayIter(x, y, batch_size=4)
    network = _network(2)
    args = network.list_arguments()
    params = ["fc_weight", "fc_bias"]
    manager = mx.executor_manager.DataParallelExecutorManager(
        network, [mx.cpu(0), mx.cpu(1)], batches, args, params, network.list_auxiliary_states())
    values = {"fc_weight": mx.nd.array(rng.randn(2, 3)), "fc_bias": mx.nd.zeros((2,))}
    manager.set_params(values, {})
    batch = next(batches)
    manager.load_data_batch(batch)
    manager.forward(is_train=True)
    manager.backward()
    logits = x[:4] @ values["fc_weight"].asnumpy().T
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - np.eye(2)[y[:4]]
    total = sum(grad.asnumpy() for grad in manager.grad_arrays[manager.execgrp.param_names.index("fc_bias")])
    np.testing.assert_allclose(total, expected.sum(0), rtol=1e-4)
    metric = mx.metric.Accuracy()
    manager.update_metric(metric, batch.label)
    assert metric.num_inst == 4
    out = {name: mx.nd.zeros(value.shape) for name, value in values.items()}
    manager.copy_to(out, {})
    np.testing.assert_allclose(out["fc_weight"].asnumpy(), values["fc_weight"].asnumpy())
    with pytest.raises(AssertionError, match="Expected 4, got 8"):
        manager.load_data_batch(mx.io.DataBatch([mx.nd.array(x)], [mx.nd.array(y)]))


def test_executor_group_refuses_names_used_twice():
    twice = mx.sym.var("w") + mx.sym.FullyConnected(mx.sym.var("w"), num_hidden=1)
    with pytest.raises(ValueError, match='duplicated argument name "w"'):
        mx.executor_manager.DataParallelExecutorGroup(twice, [], [], [mx.cpu()], [slice(0, 1)], None)


def manager(**options):
    network = _network(2)
    batches = mx.io.NDArrayIter(np.ones((4, 3), "f"), np.zeros(4), 4)
    batches.default_bucket_key = 3
    return mx.executor_manager.DataParallelExecutorManager(
        network, [mx.cpu()], batches, network.list_arguments(), ["fc_weight", "fc_bias"], [], **options), batches


def test_executor_manager_of_buckets():
    buckets, batches = manager(sym_gen=lambda key: _network(2))
    buckets.set_params({"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.array([1, 0])}, {})
    batch = next(batches)
    batch.bucket_key = 5
    with pytest.raises(ValueError, match="must specify its shapes by provide_data and provide_label"):
        buckets.load_data_batch(batch)
    batch.provide_data, batch.provide_label = batches.provide_data, batches.provide_label
    buckets.load_data_batch(batch)
    buckets.forward()
    metric = mx.metric.Accuracy()
    buckets.update_metric(metric, batch.label)
    assert metric.get()[1] == 1 and sorted(buckets.execgrp_bucket) == [3, 5]
    assert [arrays[0].asnumpy().tolist() for arrays in buckets.param_arrays] == [[[1] * 3] * 2, [1, 0]]
    assert buckets.aux_arrays == []
    with pytest.raises(NotImplementedError, match="not implemented for bucketing"):
        buckets.install_monitor(None)


def test_executor_manager_is_watched_and_refuses():
    plain, batches = manager()
    with pytest.raises(RuntimeError, match="no batch is loaded"):
        plain.forward()
    monitor = mx.mon.Monitor(1, lambda x: x.sum(), ".*output")
    plain.install_monitor(monitor)
    plain.load_data_batch(next(batches))
    monitor.tic()
    plain.forward()
    assert [entry[1] for entry in monitor.toc()] == ["fc_output", "softmax_output"]
    with pytest.raises(AssertionError, match=r"Invalid settings for work load: \[1, 2\] for 1 devices"):
        manager(work_load_list=[1, 2])


def test_parameters_are_updated_by_device():
    """By the function that scripts took from `mx.model`; numbers of MXNet 1.9.1."""
    for store, wanted in ((None, [[0, 0], [-1, -1]]), (mx.kv.create("local"), [[-2, -2], [-2, -2]])):
        params = [[mx.nd.ones(2), mx.nd.ones(2)], [mx.nd.ones(1), mx.nd.ones(1)], [mx.nd.ones(3), mx.nd.ones(3)]]
        grads = [[mx.nd.ones(2), mx.nd.full(2, 2)], [None, None], [mx.nd.ones(3), mx.nd.ones(3)]]
        calls = []

        def update(indices, gradients, weights, calls=calls):
            calls.append(list(indices))
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= gradient
        for number, arrays in enumerate(params if store else ()):
            store.init(str(number), arrays[0])
        mx.model._update_params(params, grads, update, 2, store)
        assert calls == [[0, 4], [1, 5]]
        assert [array.asnumpy().tolist() for array in params[0]] == wanted
        assert params[1][0].asscalar() == 1  # it has no gradient


def test_stores_that_modules_refuse():
    from mxjax.kvstore import training
    with pytest.raises(TypeError, match="kvstore must be a KVStore, its name or None, got int"):
        training._create_kvstore(3, 1, {})
    with pytest.raises(TypeError, match="row_sparse parameters require a KVStore or its name, got 3"):
        training._create_sparse_kvstore(3)


def test_failures_of_numpys_protocols():
    def fails(*_):
        raise KeyError("k")
    protocol = mx.numpy_dispatch_protocol
    assert protocol.with_array_function_protocol(lambda x: x)(3) is None  # as in MXNet: for tests only
    for decorate, name in ((protocol.with_array_function_protocol, "function"),
                           (protocol.with_array_ufunc_protocol, "ufunc")):
        with pytest.raises(RuntimeError, match=f"function fails with NumPy array {name} protocol failed .*'k'"):
            decorate(fails)(3)
