"""Modules, checkpoints, FeedForward."""

import logging
import re

import numpy as np
import optax
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.module.executor_group import _prepare_group2ctxs, _split_input_slice

from .internals import executors_of, updater_of

RNG = np.random.RandomState(1)
X = RNG.randn(64, 5).astype(np.float32)
Y = X[:, :3].argmax(1).astype(np.float32)


def mlp():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def batches(batch_size=16, **kwargs):
    return mx.io.NDArrayIter(X, Y, batch_size, **kwargs)


def bound(context=mx.cpu(), **kwargs):
    mx.random.seed(4)
    module = mx.mod.Module(mlp(), context=context, **kwargs)
    data = batches()
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.Xavier())
    return module


def weights(module):
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def step(module, batch):
    module.forward_backward(batch)
    module.update()


# ------------------------------------------------------------------ training
@pytest.mark.parametrize("optimizer, params", [
    ("sgd", {"learning_rate": 0.3, "momentum": 0.9}), ("adam", {"learning_rate": 0.05}),
    (lambda: mx.optimizer.Optax(optax.adamw(0.05), rescale_grad=1 / 16), {})], ids=["sgd", "adam", "optax"])
def test_fit(optimizer, params, caplog):
    np.random.seed(2)
    mx.random.seed(2)
    module, data = mx.mod.Module(mlp()), batches(shuffle=True)
    seen = []
    caplog.set_level("INFO")
    module.fit(data, eval_data=batches(), optimizer=optimizer() if callable(optimizer) else optimizer,
               optimizer_params=params, initializer=mx.init.Xavier(), num_epoch=20,
               batch_end_callback=lambda p: seen.append((p.epoch, p.nbatch)),
               epoch_end_callback=[lambda epoch, sym, arg, aux: seen.append(sorted(arg))])
    assert seen[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"]]
    assert module.score(batches(), "acc")[0][1] > 0.9
    for line, words in zip(caplog.messages[:3], (r"Train-accuracy=0\.\d{6}", r"Time cost=\d+\.\d{3}",
                                                 r"Validation-accuracy=0\.\d{6}"), strict=True):
        assert re.fullmatch(r"Epoch\[0\] " + words, line)  # `parse_log` of MXNet reads them


def test_one_step_is_the_formula():
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "wd": 0.1})
    before, batch = weights(module), batches().next()
    step(module, batch)
    prob = module.get_outputs()[0].asnumpy()
    hidden = np.maximum(X[:16] @ before["fc1_weight"].T + before["fc1_bias"], 0)
    delta = (prob - np.eye(3)[Y[:16].astype(int)]) / 16
    after = weights(module)
    np.testing.assert_allclose(after["fc2_bias"], before["fc2_bias"] - 0.5 * delta.sum(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["fc2_weight"], before["fc2_weight"] * 0.95 - 0.5 * delta.T @ hidden, rtol=1e-4,
                               atol=1e-6)


@pytest.mark.parametrize("devices, kvstore", [(2, "local"), (2, "device"), (3, "local")])
def test_several_devices_are_as_good_as_one(devices, kvstore):
    results = []
    for context in ([mx.cpu()], [mx.cpu(i) for i in range(devices)]):
        module = bound(context)
        module.init_optimizer(kvstore, optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
        for batch in batches():
            step(module, batch)
        assert module.get_outputs()[0].shape == (16, 3)
        metric = mx.metric.Accuracy()
        module.update_metric(metric, batch.label)
        assert metric.num_inst == 16
        results.append(weights(module))
    for name, value in results[0].items():
        np.testing.assert_allclose(results[-1][name], value, rtol=1e-4, atol=1e-6)


def test_update_is_one_call_per_device(monkeypatch):
    module, calls = bound(), []
    module.init_optimizer()
    plain = updater_of(module)
    monkeypatch.setattr(module, "_updater", lambda *args: (calls.append(args[0]), plain(*args)))
    step(module, batches().next())
    assert calls == [[0, 1, 2, 3]] and module._kvstore is None


def test_fixed_parameters_stay():
    module = bound(fixed_param_names=["fc1_weight"])
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    before = weights(module)
    step(module, batches().next())
    after = weights(module)
    assert {name for name in after if (after[name] == before[name]).all()} == {"fc1_weight"}


def test_grad_req_add():
    module = mx.mod.Module(mlp())
    module.bind(batches().provide_data, batches().provide_label, grad_req="add")
    module.init_params(mx.init.Xavier())
    batch, grads = batches().next(), []
    for _ in range(2):
        module.forward_backward(batch)
        grads.append(executors_of(module).grad_arrays[0][0].asnumpy())
    np.testing.assert_allclose(grads[1], 2 * grads[0], rtol=1e-5)


# ------------------------------------------------------------------ shapes
def test_other_shapes_reshape():
    module = bound()
    module.init_optimizer()
    for size in (16, 4, 40, 16):
        step(module, mx.io.DataBatch([mx.nd.array(X[:size])], [mx.nd.array(Y[:size])]))
        assert module.get_outputs()[0].shape == (size, 3)
        assert module.output_shapes == [("softmax_output", (size, 3))]


def test_predict():
    module = bound()
    whole = module.predict(batches(24))
    assert whole.shape == (64, 3), "padding is cut off"
    parts = [out[0].asnumpy() for out, _, _ in module.iter_predict(batches(24))]
    np.testing.assert_allclose(np.concatenate(parts), whole.asnumpy(), rtol=1e-6)
    assert len(module.predict(batches(24), num_batch=2, merge_batches=False)) == 2
    assert module.predict(X[:16]).shape == (16, 3)
    assert isinstance(module.predict(batches(), always_output_list=True), list)


def test_batch_axis_and_several_inputs():
    total = mx.sym.var("a", __layout__="TNC") + 2 * mx.sym.var("b", __layout__="TNC")
    total._set_attr(__layout__="TNC")
    module = mx.mod.Module(total, ["b", "a"], None, context=[mx.cpu(0), mx.cpu(1)])
    shape = (3, 6, 2)
    module.bind([mx.io.DataDesc(name, shape, layout="TNC") for name in "ba"], inputs_need_grad=True)
    module.init_params()
    b, a = np.ones(shape), np.arange(36).reshape(shape)
    module.forward(mx.io.DataBatch([mx.nd.array(b), mx.nd.array(a)]))
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), a + 2 * b)
    module.backward([mx.nd.array(a)])
    np.testing.assert_array_equal(module.get_input_grads()[0].asnumpy(), 2 * a)
    assert [x.shape for x in module.get_outputs(merge_multi_context=False)[0]] == [(3, 3, 2)] * 2


def test_states():
    net = mx.sym.var("data") + mx.sym.var("state")
    module = mx.mod.Module(net, label_names=None, state_names=["state"])
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    module.set_states(value=1)
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))
    module.set_states(states=module.get_outputs(merge_multi_context=False))
    assert (module.get_states(merge_multi_context=False)[0][0].asnumpy() == 2).all()


# ------------------------------------------------------------------ parameters and files
def test_parameters_given_missing_extra():
    module = bound()
    values = {name: mx.nd.ones(array.shape) for name, array in module.get_params()[0].items()}
    module.set_params(values, {})
    assert all((value == 1).all() for value in weights(module).values())
    some = {"fc1_bias": values["fc1_bias"] * 2}
    with pytest.raises(RuntimeError, match="fc1_weight is not among"):
        module.set_params(some, {})
    module.set_params(some, {}, allow_missing=True)
    assert (weights(module)["fc1_bias"] == 2).all()
    with pytest.raises(ValueError, match="other"):
        module.set_params({"other": values["fc1_bias"]}, {}, allow_missing=True)
    module.set_params({"other": values["fc1_bias"]}, {}, allow_missing=True, allow_extra=True)
    with pytest.warns(UserWarning, match="initialized already"):
        module.init_params()


def test_checkpoint(tmp_path):
    prefix = str(tmp_path / "net")
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    data = list(batches())
    step(module, data[0])
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    again = mx.mod.Module.load(prefix, 3, load_optimizer_states=True)
    again.bind(batches().provide_data, batches().provide_label)
    again.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    for one in (module, again):
        step(one, data[1])
    for name, value in weights(module).items():
        np.testing.assert_array_equal(weights(again)[name], value)
    symbol, args, _ = mx.model.load_checkpoint(prefix, 3)
    assert symbol.list_arguments() == module.symbol.list_arguments() and set(args) == set(weights(module))


def test_parameter_files(tmp_path):
    module, path = bound(), str(tmp_path / "p.params")
    module.save_params(path)
    before = weights(module)
    module.init_params(mx.init.Zero(), force_init=True)
    module.load_params(path)
    assert all((weights(module)[name] == value).all() for name, value in before.items())
    mx.nd.save(path, {"strange:x": mx.nd.ones((1,))})
    with pytest.raises(ValueError, match="strange:x"):
        module.load_params(path)


def test_rebinding_keeps_what_was_trained():
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    step(module, batches().next())
    trained = executors_of(module).param_arrays[0][0].asnumpy()
    module.bind(batches(8).provide_data, for_training=False, force_rebind=True)
    np.testing.assert_array_equal(weights(module)["fc1_weight"], trained)


def test_shared_module():
    first = bound()
    second = mx.mod.Module(mlp())
    second.bind([("data", (4, 5))], [("softmax_label", (4,))], shared_module=first)
    executors_of(first).param_arrays[0][0][:] = 7
    assert (executors_of(second).param_arrays[0][0].asnumpy() == 7).all()


# ------------------------------------------------------------------ wrong use
def test_mistakes_are_named(caplog):
    with pytest.raises(ValueError, match="no input 'x'. Did you mean one of data, softmax_label"):
        mx.mod.Module(mlp(), data_names=["x"])
    module = mx.mod.Module(mlp())
    with pytest.raises(MXNetError, match="call bind first"):
        module.forward(batches().next())
    with pytest.raises(TypeError, match="shape of data must be a tuple"):
        module.bind([("data", mx.nd.ones((2,)))])
    assert not module.binded
    with pytest.raises(ValueError, match=r"data_shapes are for \['x'\]"):
        module.bind([("x", (2, 5))])
    module.bind(batches().provide_data, batches().provide_label)
    with pytest.raises(MXNetError, match="call init_params first"):
        module.update()
    with caplog.at_level(logging.WARNING):
        module.bind(batches().provide_data)
    assert "Already bound" in caplog.text
    with pytest.raises(AssertionError, match="num_epoch"):
        module.fit(batches())
    with pytest.raises(AssertionError, match="same batch size"):
        mx.mod.Module(mlp()).bind([("data", (4, 5))], [("softmax_label", (5,))])
    with pytest.raises(ValueError, match="too small to be split"):
        mx.mod.Module(mlp(), context=[mx.cpu(0), mx.cpu(1)]).bind([("data", (1, 5))], [("softmax_label", (1,))])


def test_splitting():
    assert _split_input_slice(10, [1, 1, 1]) == [slice(0, 3), slice(3, 6), slice(6, 10)]
    assert _split_input_slice(4, [3, 1]) == [slice(0, 3), slice(3, 4)]
    assert _prepare_group2ctxs({"a": mx.cpu(1), "b": [mx.cpu(2), mx.cpu(3)]}, 2) \
        == [{"a": mx.cpu(1), "b": mx.cpu(2)}, {"a": mx.cpu(1), "b": mx.cpu(3)}]
    with pytest.raises(ValueError, match="expected 1 or 3"):
        _prepare_group2ctxs({"b": [mx.cpu(2), mx.cpu(3)]}, 3)


# ------------------------------------------------------------------ other modules
def bucketing():
    def sym_gen(length):
        data = mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True)
        net = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
        return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]

    return mx.mod.BucketingModule(sym_gen, default_bucket_key=6)


def bucket(length):
    data = mx.nd.array(RNG.randn(4, length))
    return mx.io.DataBatch([data], [mx.nd.array([0, 1, 0, 1])], bucket_key=length,
                           provide_data=[("data", (4, length))], provide_label=[("softmax_label", (4,))])


def test_bucketing(tmp_path):
    module = bucketing()
    assert module.data_names == ["data"] and module.output_names == ["softmax_output"]
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    values = []
    for length in (6, 3, 6, 2):
        module.prepare(bucket(length))
        step(module, bucket(length))
        values.append(weights(module)["fc_weight"])
    assert len({value.tobytes() for value in values}) == 4, "every bucket trains the same weight"
    prefix = str(tmp_path / "b")
    module.save_checkpoint(prefix, 1)
    again = mx.mod.BucketingModule.load(prefix, 1, module._sym_gen, 6)
    again.bind([("data", (4, 6))], [("softmax_label", (4,))])
    assert sorted(again._buckets) == [2, 3, 6]
    np.testing.assert_array_equal(weights(again)["fc_weight"], values[-1])


def test_sequential_and_python_loss():
    first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), label_names=None)
    loss = mx.mod.PythonLossModule(
        data_names=["scores"], grad_func=lambda scores, labels: mx.nd.softmax(scores) - mx.nd.one_hot(labels, 3))
    chain = mx.mod.SequentialModule().add(first).add(loss, take_labels=True, auto_wiring=True)
    np.random.seed(1)
    chain.fit(batches(shuffle=True), optimizer_params={"learning_rate": 0.5}, initializer=mx.init.Xavier(),
              num_epoch=15)
    assert chain.score(batches(), "acc")[0][1] > 0.9
    assert chain.output_shapes == [("pyloss_output", (16, 3))]
    with pytest.raises(AssertionError, match="unknown meta"):
        chain.add(loss, wiring=True)


def test_monitor():
    module = bound()
    monitor = mx.mon.Monitor(2, pattern="fc.*", sort=True)
    module.install_monitor(monitor)
    module.init_optimizer()
    seen = []
    for batch in batches():
        monitor.tic()
        step(module, batch)
        seen.append({name for _, name, _ in monitor.toc()})
    assert seen[1] == seen[3] == set() and {"fc1_output", "fc2_output", "fc1_weight", "fc2_bias"} <= seen[0]


def test_feed_forward(tmp_path):
    np.random.seed(1)
    mx.random.seed(1)
    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward.create(mlp(), X, Y, num_epoch=12, learning_rate=0.5, numpy_batch_size=16,
                                            initializer=mx.init.Xavier())
    assert model.score(batches()) > 0.9
    outputs, data, label = model.predict(batches(24), return_data=True)
    assert outputs.shape == (64, 3) and data.shape == X.shape and label.shape == (64,)
    model.save(str(tmp_path / "m"))
    with pytest.warns(DeprecationWarning):
        again = mx.model.FeedForward.load(str(tmp_path / "m"), 12)
    np.testing.assert_allclose(again.predict(X), outputs, rtol=1e-5)
    bare = mx.io.NDArrayIter(X, batch_size=16)  # without labels, as predictions need none
    outputs, data, label = again.predict(bare, return_data=True)
    np.testing.assert_allclose(outputs, again.predict(X), rtol=1e-5)
    assert data.shape == X.shape and label == []
    assert again.score(mx.io.NDArrayIter(X, Y, batch_size=16, label_name="other")) == again.score(batches())


def test_feed_forward_initializes_moving_averages():
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="bn")
    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward(mx.sym.SoftmaxOutput(net, name="softmax"), num_epoch=0)
    model.fit(mx.io.NDArrayIter(np.ones((4, 2), "float32"), np.zeros(4), 4))
    assert {name: value.asnumpy().tolist() for name, value in model.aux_params.items()} == {
        "bn_moving_mean": [0, 0, 0], "bn_moving_var": [1, 1, 1]}


@pytest.mark.parametrize("epochs", [0, 1])
def test_feed_forward_draws_and_logs_as_mxnet(epochs, caplog):
    x = mx.sym.var("data")
    for name, units in (("z9", 20), ("z8", 12)):
        x = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=units, name=name), act_type="tanh")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="a"), name="softmax")
    rng = np.random.RandomState(0)
    data = rng.rand(64, 10).astype("float32")
    label = data[:, :3].argmax(1).astype("float32")
    mx.random.seed(7)
    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward(net, num_epoch=epochs, learning_rate=0.1, initializer=mx.init.Uniform(0.1))
    seen = []
    with caplog.at_level("INFO"):
        model.fit(mx.io.NDArrayIter(data, label, 16), eval_data=mx.io.NDArrayIter(data, label, 16),
                  batch_end_callback=lambda param: seen.append((param.epoch, param.nbatch)))
    if not epochs:  # the sums that MXNet draws: parameters in the order of list_arguments
        sums = {name: round(float(abs(value.asnumpy()).sum()), 4) for name, value in model.arg_params.items()}
        assert sums == {"z9_weight": 9.9537, "z9_bias": 0, "z8_weight": 12.8746, "z8_bias": 0, "a_weight": 2.0126,
                        "a_bias": 0}
        assert caplog.messages == ["Start training with [cpu(0)]"]
        return
    assert seen == [(0, n) for n in (1, 2, 3, 4)]
    assert [m.split("=")[0] for m in caplog.messages] == [
        "Start training with [cpu(0)]", "Epoch[0] Resetting Data Iterator", "Epoch[0] Time cost",
        "Epoch[0] Validation-accuracy"]


@pytest.mark.parametrize("epoch_size", [2, 3, 5])
def test_feed_forward_epochs_of_some_batches(epoch_size):
    data = np.random.RandomState(0).rand(12, 10).astype("float32")  # three batches
    counts = []
    with pytest.warns(DeprecationWarning):
        mx.model.FeedForward.create(mlp(), mx.io.NDArrayIter(data, np.zeros(12), 4), num_epoch=2, epoch_size=epoch_size,
                                    batch_end_callback=lambda param: counts.append(param.nbatch))
    assert counts == list(range(1, epoch_size + 1)) * 2


@pytest.mark.parametrize("epoch_size", [None, 2])
def test_feed_forward_refuses_an_iterator_without_batches(epoch_size):
    class Empty(mx.io.NDArrayIter):
        def iter_next(self):
            return False

    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="no batches"):
        mx.model.FeedForward.create(mlp(), Empty(np.zeros((12, 10)), np.zeros(12), 4), num_epoch=1,
                                    epoch_size=epoch_size)


SPARSE = [("sgd", {"wd": 0.1}, [[1.0600033, 0.7364017], [1.0074875, 0.9631155], [1, 1], [0.7005445, 0.8813527]]),
          ("sgd", {"momentum": 0.9}, [[1.1375721, 0.7347665], [0.9746993, 0.9949932], [1, 1], [0.7005445, 0.8813527]]),
          ("sgd", {"momentum": 0.9, "lazy_update": False},
           [[1.1375721, 0.7347665], [0.9746993, 0.9949932], [1, 1], [0.4310345, 0.7745700]]),
          ("adam", {"wd": 0.1}, [[0.9727028, 0.8801955], [0.8436028, 1.0582210], [1, 1], [0.9255858, 0.9255859]]),
          ("nag", {"momentum": 0.9}, [[1.1937809, 0.5206524], [0.9918531, 0.9623728], [1, 1], [0.1464580, 0.6546882]]),
          ("ftml", {}, [[0.9631385, 0.8927068], [0.9544581, 0.9804740], [1, 1], [0.9116340, 0.9116340]]),
          ("nadam", {}, [[0.9596304, 0.8722644], [0.9509634, 0.9759522], [1, 1], [0.9007421, 0.9007421]])]


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("name,options,expected", SPARSE)
def test_weights_of_csr_data_are_updated_by_rows(name, options, expected, stype):
    weight = mx.sym.var("w", stype=stype, shape=(4, 2), init=mx.init.One())
    product = mx.sym.dot(mx.sym.var("x", stype="csr"), weight)
    moved = mx.sym.broadcast_add(product, mx.sym.var("b", init=mx.init.Zero(), shape=(1,)))
    net = mx.sym.LinearRegressionOutput(moved, mx.sym.var("y"))
    module = mx.mod.Module(net, data_names=["x"], label_names=["y"])
    module.bind([("x", (3, 4))], [("y", (3, 2))])
    module.init_params()
    module.init_optimizer(optimizer=name, optimizer_params={"learning_rate": 0.1, **options})
    for step in range(3):  # nothing is stored in the third column, and in the last one only in the second step
        data = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, -4]]) * [1, 1, 1, step == 1]
        label = 3 * np.sin(1.7 * np.arange(6) + step).reshape(3, 2)
        module.forward_backward(mx.io.DataBatch([mx.nd.array(data).tostype("csr")], [mx.nd.array(label)]))
        module.update()
    executor, = executors_of(module).execs
    assert executor.grad_dict["w"].stype == "row_sparse" and executor.grad_dict["b"].stype == "default"
    np.testing.assert_allclose(module.get_params()[0]["w"].asnumpy(), expected, rtol=1e-5)  # MXNet's numbers


def test_a_store_updates_sparse_weights_from_their_first_values():
    product = mx.sym.dot(mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse", shape=(4, 2)))
    net = mx.sym.LinearRegressionOutput(mx.sym.broadcast_add(product, mx.sym.var("b", shape=(1,))), mx.sym.var("y"))
    first = {"w": mx.nd.array(np.arange(8).reshape(4, 2)).tostype("row_sparse"), "b": mx.nd.array([0.5])}
    batch = mx.io.DataBatch([mx.nd.array([[0, 1, 0, 2], [0, 0, 0, 1]]).tostype("csr")], [mx.nd.ones((2, 2))])
    found = []
    for store in (mx.kv.create("local"), None):
        module = mx.mod.Module(net, data_names=["x"], label_names=["y"])
        module.bind([("x", (2, 4))], [("y", (2, 2))])
        module.init_params(arg_params=first)
        module.init_optimizer(store, optimizer_params={"learning_rate": 0.1})
        if store is not None:
            rows = mx.nd.sparse.zeros("row_sparse", (4, 2))
            store.row_sparse_pull("w", out=rows, row_ids=mx.nd.arange(4))
            assert np.array_equal(rows.asnumpy(), first["w"].asnumpy())
        assert np.array_equal(module.get_params()[0]["w"].asnumpy(), first["w"].asnumpy())
        for _ in range(2):
            if store is not None:
                module.prepare(batch, lambda batch: {"w": mx.nd.array([1, 3])})
            module.forward_backward(batch)
            module.update()
        found.append({name: value.asnumpy() for name, value in module.get_params()[0].items()})
    for name in first:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-6)
        assert not np.array_equal(found[0][name], first[name].asnumpy())


@pytest.mark.parametrize("of", [lambda rows, whole: rows + whole, lambda rows, whole: whole + rows])
def test_gradients_of_weights_with_other_uses_are_whole(of):
    weight, ids = mx.sym.var("w"), mx.sym.var("i")
    rows = mx.sym.Embedding(ids, weight, input_dim=4, output_dim=2, sparse_grad=True).sum()
    executor = mx.sym.MakeLoss(of(rows, weight.sum())).simple_bind(mx.cpu(), grad_req={"w": "write", "i": "null"},
                                                                  w=(4, 2), i=(3,))
    executor.forward(is_train=True, i=mx.nd.array([3, 1, 3]))
    executor.backward()
    assert executor.grad_dict["w"].stype == "default"
    assert executor.grad_dict["w"].asnumpy().tolist() == [[1, 1], [2, 2], [1, 1], [3, 3]]


def test_what_is_not_there_yet_is_an_early_error():
    loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores - labels)
    loss.bind([("data", (2, 1))], [("softmax_label", (2, 1))])
    for call, first in ((loss.get_outputs, "forward"), (loss.get_input_grads, "backward"),
                        (loss.backward, "forward with is_train=True")):
        with pytest.raises(MXNetError, match=f"PythonLossModule: call {first} first"):
            call()
    module = bound()
    with pytest.raises(ValueError, match="equal shapes"):
        module.forward([mx.io.DataBatch([mx.nd.ones((count, 5))]) for count in (2, 3)], is_train=False)
    for batch, missing in ((mx.io.DataBatch(data=[]), "data"), (mx.io.DataBatch([mx.nd.ones((2, 1))]), "a label")):
        with pytest.raises(ValueError, match=f"a batch without {missing}"):
            loss.forward(batch, is_train=True)
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    module.init_optimizer()
    with pytest.raises(MXNetError, match="for_training=True"):
        module.update()
    with pytest.raises(ValueError, match="without data"):
        module.forward(mx.io.DataBatch(data=None))
    module.bind([mx.io.DataDesc("data", (2, 3), layout="TC")], force_rebind=True)
    with pytest.raises(ValueError, match="no input's layout has an N"):
        module.init_optimizer(force_init=True)


def test_feed_forward_says_what_is_missing():
    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1))
    with pytest.raises(TypeError, match="num_epoch"):
        model.fit(np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="no parameters to save"):
        model.save("unused", 1)


def test_callbacks_read_the_current_batch_of_fit():
    data = mx.io.NDArrayIter(np.arange(4, dtype="float32").reshape(4, 1), np.zeros(4), 2, label_name="out_label")
    symbol = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), name="out")
    seen = []

    def told(param):
        seen.append((param.locals["data_batch"].data[0].asnumpy().ravel().tolist(), param.locals["end_of_batch"]))
    mx.mod.Module(symbol, label_names=["out_label"]).fit(data, num_epoch=1, batch_end_callback=told, eval_metric="mse")
    assert seen == [([0, 1], False), ([2, 3], True)]


# ------------------------------------------------------------ every kind of module, before and after bind
SHAPES = [("data", (2, 3))], [("softmax_label", (2,))]


def classifier(_=None):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)


def chain():
    first = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="a")
    last = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="b"), name="softmax")
    result = mx.mod.SequentialModule()
    return result.add(mx.mod.Module(first, label_names=None)).add(mx.mod.Module(last), take_labels=True,
                                                                  auto_wiring=True)


KINDS = {"module": lambda: mx.mod.Module(classifier()[0]), "sequential": chain,
         "bucketing": lambda: mx.mod.BucketingModule(classifier, default_bucket_key=3)}


def one_batch():
    data = mx.io.NDArrayIter(np.arange(6).reshape(2, 3).astype("float32") / 10, np.array([0, 1]), 2)
    batch = next(data)
    batch.bucket_key, batch.provide_data, batch.provide_label = 3, data.provide_data, data.provide_label
    return batch


def ready(kind, **kwargs):
    module = KINDS[kind]()
    module.bind(*SHAPES, **kwargs)
    module.init_params(mx.init.One())
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_calls_of_every_kind(kind, caplog):
    """Results of MXNet 1.9.1."""
    unbound = KINDS[kind]()
    assert (list(unbound.data_names), unbound.output_names) == (["data"], ["softmax_output"])
    for read in (lambda: unbound.data_shapes, lambda: unbound.label_shapes, lambda: unbound.output_shapes,
                 lambda: unbound.get_outputs(), lambda: unbound.forward(one_batch()), lambda: unbound.backward()):
        with pytest.raises(AssertionError, match="call bind first"):
            read()
    module = ready(kind, inputs_need_grad=True)
    assert [tuple(d)[:2] for d in module.data_shapes] == SHAPES[0]
    assert [tuple(d)[:2] for d in module.label_shapes] == SHAPES[1]
    assert module.output_shapes == [("softmax_output", (2, 2))]
    module.bind(*SHAPES)
    module.init_optimizer()
    module.init_optimizer()
    assert "Already bound, ignoring bind()" in caplog.text
    assert "optimizer already initialized, ignoring" in caplog.text
    batch = one_batch()
    module.forward_backward(batch)
    assert module.get_outputs()[0].asnumpy().tolist() == [[0.5, 0.5]] * 2
    assert module.get_input_grads()[0].asnumpy().tolist() == [[0, 0, 0]] * 2  # the rows of weights are equal
    metric = mx.metric.Accuracy()
    module.update_metric(metric, batch.label)
    assert metric.get()[1] == 0.5
    module.update()
    name, wanted = ("fc_weight", [0.99925, 1.00075]) if kind != "sequential" else ("b_weight", [0.99775, 1.00225])
    np.testing.assert_allclose(module.get_params()[0][name].asnumpy(), np.repeat(wanted, 3).reshape(2, 3), rtol=2e-5)
    heard = []
    with pytest.raises(AssertionError, match="call bind first"):
        unbound.install_monitor(None)
    monitor = mx.mon.Monitor(1, lambda x: x.sum(), pattern=".*output")
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(batch)
    heard += [entry[1] for entry in monitor.toc()]
    assert heard == (["a_output", "b_output", "softmax_output"] if kind == "sequential" else
                     ["fc_output", "softmax_output"])


@pytest.mark.parametrize("kind", ["module", "bucketing"])
def test_states_and_parameters_of_modules_without_states(kind):
    module, given = ready(kind), {"fc_weight": mx.nd.full((2, 3), 5), "fc_bias": mx.nd.ones(2)}
    with pytest.raises(AssertionError, match="cannot merge devices"):
        module.get_states()
    assert module.get_states(merge_multi_context=False) == []
    with pytest.raises(AssertionError, match="either states or value"):
        module.set_states()
    with pytest.warns(UserWarning, match="initialized already; set_params does nothing without force_init=True"):
        module.set_params(given, {}, allow_missing=True, force_init=False)
    assert module.get_params()[0]["fc_weight"].asnumpy().max() == 1
    module.set_params(given, {})
    assert module.get_params()[0]["fc_weight"].asnumpy().min() == 5
    fresh = KINDS[kind]()
    fresh.bind(*SHAPES)
    fresh.set_params(given, {})
    assert fresh.get_params()[0]["fc_weight"].asnumpy().min() == 5


def bind(**kwargs):
    return mx.mod.Module(classifier()[0]).bind(*SHAPES, **kwargs)


class Empty(mx.io.DataIter):
    """An iterator without batches."""

    provide_data, provide_label = [("data", (16, 5))], [("softmax_label", (16,))]

    def next(self):
        raise StopIteration


@pytest.mark.parametrize("call, error, told", [
    (lambda: mx.mod.Module(classifier()[0], work_load_list=[1, 2]), AssertionError, "2 entries for 1 devices"),
    (lambda: bind(for_training=False, inputs_need_grad=True), AssertionError, "requires for_training=True"),
    (lambda: bind(shared_module=KINDS["module"]()), AssertionError, "must be a bound Module with initialized"),
    (lambda: bind(shared_module=3), AssertionError, "must be a bound Module"),
    (lambda: bind(grad_req=3), ValueError, "grad_req must be a string, list or dict, got 3"),
    (lambda: bind(grad_req=["write"]), AssertionError, "grad_req has 1 entries, but the network has 4 arguments"),
    (lambda: mx.mod.Module(classifier()[0], context=[mx.cpu(0), mx.cpu(1)], group2ctxs=[{}]).bind(*SHAPES),
     AssertionError, "group2ctxs has 1 entries for 2 devices"),
    (lambda: mx.mod.Module(classifier()[0], group2ctxs=3).bind(*SHAPES), AssertionError, "must be a dict of contexts"),
    (lambda: ready("module").init_optimizer(optimizer=3), AssertionError, "must be an Optimizer or the name of one"),
    (lambda: ready("module").forward([]), ValueError, "an empty list of batches"),
    (lambda: ready("module").update(), AssertionError, "call init_optimizer first"),
    (lambda: ready("module").get_input_grads(), AssertionError, "inputs_need_grad=True first"),
    (lambda: ready("module").borrow_optimizer(ready("module")), AssertionError, "call init_optimizer first"),
    (lambda: ready("module").predict(3), ValueError, "eval_data must be a DataIter or an array, got int"),
    (lambda: ready("module").fit(batches(), num_epoch=None), AssertionError, "requires num_epoch"),
    (lambda: mx.mod.BucketingModule(classifier), AssertionError, "requires default_bucket_key"),
    (lambda: KINDS["bucketing"]().bind(*SHAPES, shared_module=3), AssertionError, "does not support shared_module"),
    (lambda: KINDS["bucketing"]().save_checkpoint("x", 1), mx.MXNetError, "no bucket to save; call bind first"),
    (lambda: KINDS["bucketing"]().switch_bucket(3, SHAPES[0]), AssertionError, "call bind first"),
    (lambda: mx.mod.BucketingModule.load_dict({3: classifier()[0]}, sym_gen=classifier, arg_params={}, aux_params={},
                                              default_bucket_key=4), ValueError,
     r"default_bucket_key 4 is not among the loaded \[3\]"),
    (lambda: mx.mod.BucketingModule.load_dict({3: classifier()[0]}, sym_gen=classifier, aux_params={},
                                              default_bucket_key=3), ValueError, "requires arg_params"),
    (lambda: unfilled().init_params(None), ValueError, "fc_(weight|bias) has neither a value nor an initializer"),
    (lambda: bind(shared_module=ready("module"), grad_req=["write"]), AssertionError, "1 entries"),
    (lambda: mx.mod.Module(classifier()[0], context=[mx.cpu(0), mx.cpu(1)]).bind(*SHAPES,
                                                                                 shared_module=ready("module")),
     ValueError, "shared_module has 1 devices, but this module has 2"),
    (lambda: mx.mod.Module(mlp()).fit(Empty(), num_epoch=1), ValueError, "train_data has no batches"),
    (lambda: twice().init_params(mx.init.One()), AssertionError, "modules 0 and 1 both have a parameter named a_"),
    (lambda: python_loss().update_metric(mx.metric.Accuracy(), [[mx.nd.ones(1)]], pre_sliced=True), RuntimeError,
     "does not accept labels by device"),
    (lambda: chain().bind(*SHAPES, shared_module=3), AssertionError, "does not support shared_module"),
    (lambda: chain().bind(*SHAPES, for_training=False, inputs_need_grad=True), AssertionError, "for_training=True"),
    (lambda: mx.mod.SequentialModule().bind(*SHAPES), AssertionError, "SequentialModule is empty"),
    (lambda: chain().add(KINDS["module"](), foo=True), AssertionError, "unknown meta foo"),
    (lambda: mx.mod.PythonModule(["data"], ["l"], ["out"]).bind(SHAPES[0], grad_req="add"), AssertionError,
     "only writes gradients, got grad_req='add'"),
    (lambda: mx.mod.PythonModule(["data"], ["l"], ["out"]).forward(one_batch()), NotImplementedError, None),
    (lambda: mx.mod.PythonLossModule(data_names=["a", "b"]), AssertionError, "one data and one label input"),
    (lambda: mx.mod.PythonLossModule().install_monitor(None), NotImplementedError, "no executor to monitor"),
    (lambda: python_loss().backward([mx.nd.ones(1)]), AssertionError, "does not accept out_grads"),
    (lambda: python_loss().backward(), NotImplementedError, "needs a grad_func or its own _backward_impl"),
])
def test_what_modules_refuse(call, error, told):
    with pytest.raises(error, match=told):
        call()


def python_loss(**kwargs):
    loss = mx.mod.PythonLossModule(**kwargs)
    loss.bind(*SHAPES)
    loss.forward(one_batch())
    return loss


def test_losses_in_python(caplog):
    loss, values = python_loss(grad_func=lambda scores, labels: scores * 2), one_batch().data[0].asnumpy()
    loss.backward()
    loss.bind(*SHAPES)
    assert "Already bound, ignoring bind()" in caplog.text
    np.testing.assert_allclose(loss.get_input_grads()[0].asnumpy(), 2 * values)
    np.testing.assert_allclose(loss.get_outputs()[0].asnumpy(), values)
    assert loss.output_shapes == [("pyloss_output", (2, 3))] and loss.output_names == ["pyloss_output"]
    plain = mx.mod.PythonModule(["data"], ["l"], ["out"])
    assert (plain.data_names, plain.output_names, plain.get_params()) == (["data"], ["out"], ({}, {}))
    assert plain.data_shapes is plain.label_shapes is plain.output_shapes is None


def unfilled():
    module = KINDS["module"]()
    module.bind(*SHAPES)
    return module


def twice():
    """Two networks with parameters of one name, one after the other."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="a")
    result = mx.mod.SequentialModule()
    result.add(mx.mod.Module(net, label_names=None)).add(mx.mod.Module(net, label_names=None), auto_wiring=True)
    result.bind(SHAPES[0])
    return result


def test_requests_for_gradients_by_position():
    module = unfilled()
    module.bind(*SHAPES, force_rebind=True, grad_req=["null", "write", "null", "null"])
    module.init_params(mx.init.One())
    module.forward_backward(one_batch())
    gradients = dict(zip(executors_of(module).param_names, executors_of(module).grad_arrays, strict=True))
    np.testing.assert_allclose(gradients["fc_weight"][0].asnumpy()[0], [0.15] * 3, rtol=1e-5)
    assert gradients["fc_bias"][0] is None
    assert module.label_names == ["softmax_label"]
    with pytest.warns(UserWarning, match="the optimizer has rescale_grad=2.0, not 1/batch size"):
        module.init_optimizer(optimizer=mx.optimizer.SGD(rescale_grad=2.0))


# ------------------------------------------------------------ FeedForward, with the numbers of MXNet 1.9.1
FEW, LABELS = np.arange(12).reshape(4, 3).astype("float32") / 10, np.arange(4) % 2


def feed_forward(symbol=None, **kwargs):
    with pytest.warns(DeprecationWarning, match="FeedForward is deprecated"):
        return mx.model.FeedForward(classifier()[0] if symbol is None else symbol, initializer=mx.init.One(),
                                    numpy_batch_size=4, **kwargs)


@pytest.mark.parametrize("options, make", [
    ({}, lambda: None), ({"eval_data": (FEW, LABELS)}, lambda: None), ({"monitor": mx.mon.Monitor(1)}, lambda: None),
    ({"eval_data": (FEW.tolist(), LABELS.tolist())}, lambda: None),
    ({}, lambda: lambda key: classifier()[0])])
def test_feed_forward_learns_what_mxnet_learns(options, make):
    model, heard = feed_forward(make(), num_epoch=1), []
    if make() is None:
        model.fit(FEW, LABELS, eval_end_callback=lambda param: heard.append(param.epoch), **options)
    else:
        data = mx.io.NDArrayIter(FEW, LABELS, 4)
        data.default_bucket_key = 3
        for_each = data.next

        def following():
            batch = for_each()
            batch.bucket_key, batch.provide_data, batch.provide_label = 3, data.provide_data, data.provide_label
            return batch
        data.next = following
        model.fit(data)
    np.testing.assert_allclose(model.arg_params["fc_weight"].asnumpy(), [[0.99925] * 3, [1.00075] * 3], rtol=2e-5)
    assert heard == ([0] if "eval_data" in options else [])
    if make() is None:
        np.testing.assert_allclose(model.predict(FEW)[:, 0], [0.4999, 0.4996, 0.4992, 0.4989], atol=6e-5)


@pytest.mark.parametrize("call, error, told", [
    (lambda: feed_forward(num_epoch=1).fit("a"), TypeError, "X must be a DataIter, NDArray or numpy.ndarray, got str"),
    (lambda: feed_forward(num_epoch=1).fit(FEW), ValueError, "y is required when X is an array"),
    (lambda: feed_forward(num_epoch=1).fit(FEW, LABELS[:3]), ValueError, r"y must have shape \(4,\) .* got \(3,\)"),
    (lambda: feed_forward(num_epoch=1).fit(FEW, np.ones((4, 2))), ValueError, r"got \(4, 2\)"),
    (lambda: feed_forward(num_epoch=1).fit(FEW, LABELS, eval_data=3), TypeError, "eval_data must be a DataIter"),
    (lambda: feed_forward(num_epoch=1).fit(FEW, LABELS, eval_data=(None, 3)), TypeError, "eval_data must be"),
    (lambda: feed_forward().fit(FEW, LABELS), TypeError, "fit needs a number of epochs"),
    (lambda: feed_forward().save("x"), ValueError, "the epoch is unknown"),
    (lambda: feed_forward(num_epoch=1).save("x"), ValueError, "no parameters to save"),
])
def test_what_feed_forward_refuses(call, error, told):
    with pytest.raises(error, match=told):
        call()
