"""Mixed precision: what is cast where, training with a scaled loss, and converted models."""

import json

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.contrib import amp
from mxjax.contrib.amp import _policy, _tables

from ..internals import buffer_of, end_amp, graph_of, scaler_of, set_scale


@pytest.fixture
def initialized():
    """AMP switched on by the test, and off afterwards."""
    yield
    end_amp()


def network():
    data = mx.sym.var("data")
    conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, name="conv")
    relu = mx.sym.Activation(mx.sym.BatchNorm(conv, name="bn"), act_type="relu", name="relu")
    conv2 = mx.sym.Convolution(relu, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv2", no_bias=True)
    exp = mx.sym.exp(mx.sym.elemwise_add(conv2, relu, name="add"), name="exp")
    soft = mx.sym.Activation(exp, act_type="softrelu", name="soft")
    dense = mx.sym.FullyConnected(soft, num_hidden=2, name="fc")
    both = mx.sym.Concat(dense, mx.sym.FullyConnected(dense, num_hidden=2, name="fc2"), name="cat")
    return mx.sym.SoftmaxOutput(both, name="softmax")


def inputs_of(sym):
    graph = json.loads(sym.tojson(remove_amp_cast=False))["nodes"]
    return {n["name"]: [graph[i[0]]["name"] for i in n["inputs"]] for n in graph if n["op"] != "null"}


def test_casts_as_mxnet_puts_them():
    """Taken from MXNet 1.9.1."""
    found = inputs_of(amp.convert_symbol(network(), "float16", excluded_sym_names=["fc2"]))
    assert found["conv"] == ["data_amp_cast_float16", "conv_weight_amp_cast_float16", "conv_bias_amp_cast_float16"]
    assert found["bn"] == ["conv", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    assert found["conv2"] == ["relu", "conv2_weight_amp_cast_float16"]
    assert found["add"] == ["conv2", "relu"]
    assert found["exp"] == ["add_output_amp_cast_float32"]
    assert found["soft"] == ["exp"]
    assert found["fc2"] == ["fc_output_amp_cast_float32", "fc2_weight", "fc2_bias"]
    assert found["cat"] == ["fc_output_amp_cast_float32", "fc2"]
    assert found["softmax"] == ["cat", "softmax_label"]
    a = mx.sym.var("a")
    both = mx.sym.Group([a + mx.sym.var("b"), mx.sym.FullyConnected(a, num_hidden=2, name="fc")])
    converted = amp.convert_symbol(both)
    assert inputs_of(converted)[both.list_outputs()[0].removesuffix("_output")] == ["a_amp_multicast"] * 2
    assert [name.rpartition("_amp_")[2] for name in converted.list_outputs()] == ["cast_float32_output"] * 2
    assert set(converted.infer_type(**dict.fromkeys(converted.list_inputs(), "float16"))[1]) == {np.float32}
    plain = mx.sym.load_json(amp.convert_symbol(network()).tojson())
    wanted = inputs_of(network())  # files hold no casts but that of the result
    assert inputs_of(plain) == wanted and plain.list_outputs() == ["softmax_output"]
    last = mx.sym.load_json(converted.tojson())
    assert len(inputs_of(last)) == 4 and last.list_outputs() == converted.list_outputs()


def test_lists():
    assert {"Convolution", "FullyConnected"} <= set(amp.list_lp16_ops("bfloat16")) < set(amp.list_lp16_ops("float16"))
    assert "softmax" in amp.list_fp32_ops("float16") and "broadcast_add" in amp.list_widest_type_cast("float16")
    assert "concat" in amp.list_lp16_fp32_ops("bfloat16") and "Reshape" in amp.list_fp32_ops("bfloat16")
    assert "Reshape" in amp.list_lp16_fp32_ops("float16") and amp.list_lp16_use_fp32_params("float16") is None
    assert amp.lists.symbol_fp16.FP16_FUNCS == amp.list_lp16_ops("float16")
    assert "SoftmaxOutput" in amp.list_loss_output_functions("float16")
    assert amp.list_conditional_fp32_ops("float16") == [("Activation", "act_type", ["softrelu"]),
                                                        ("LeakyReLU", "act_type", ["elu", "selu"])]
    for one, other in (("low", "fp32"), ("fp32", "both"), ("low", "both"), ("widest", "fp32"), ("widest", "both")):
        for dtype in ("float16", "bfloat16"):
            assert not set(_tables.table(dtype, one)) & set(_tables.table(dtype, other)), (one, other, dtype)


def test_mistakes():
    with pytest.raises(AssertionError, match="float16 and bfloat16"):
        amp.convert_symbol(network(), "int8")
    with pytest.raises(AssertionError, match="two or more lists"):
        amp.convert_symbol(network(), target_dtype_ops=["exp"])
    for lists in ({"fp32_ops": ["elemwise_add"]}, {"target_dtype_ops": ["nothing"]},
                  {"conditional_fp32_ops": [("nothing", "a", ["b"])]}):
        with pytest.raises(AssertionError, match="is in none"):
            amp.convert_symbol(network(), **lists)
    with pytest.raises(mx.MXNetError, match="no node missing"):
        amp.convert_symbol(network(), excluded_sym_names=["missing"])
    with pytest.raises(AssertionError, match="amp.init"):
        amp.init_trainer(None)
    with pytest.raises(AssertionError, match="amp.init_trainer"):
        amp.scale_loss(mx.nd.ones(1), gluon.Trainer([], "sgd")).__enter__()
    for wrong, message in ((mx.optimizer.SGD(), "only compatible with Gluon Trainer"), (3, "instead is <class 'int'>")):
        with pytest.raises(TypeError, match=message):
            amp.unscale(wrong)
    with pytest.raises(AssertionError, match="should be Symbol, got <class 'int'>"):
        amp.convert_model(3, {}, {})
    with pytest.raises(AssertionError, match="should be a HybridBlock, got <class 'int'>"):
        amp.convert_hybrid_block(3)
    with pytest.raises(AssertionError, match="a BucketingModule with buckets"):
        amp.convert_bucketing_module(mx.mod.Module(network()))
    with pytest.raises(RuntimeError, match="hybridize"):
        amp.convert_hybrid_block(gluon.nn.Dense(2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_converted_models(dtype):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.nd.random.uniform(shape=(2, 2, 6, 6))
    want = net(x).asnumpy()
    low = amp.convert_hybrid_block(net, dtype, ctx=mx.cpu(), cast_optional_params=True)
    got = low(x)
    assert got.dtype is np.float32 and np.abs(got.asnumpy() - want).max() > 1e-6
    np.testing.assert_allclose(got.astype("float32").asnumpy(), want, rtol=0.05, atol=0.02)
    dtypes = {name.rstrip("0123456789").rpartition("_")[2]: str(buffer_of(p.data()).dtype)
              for name, p in low.collect_params().items()}
    assert dtypes["weight"] == dtype and dtypes["gamma"] == "float32"
    args = {p.name: p.data() for p in net.collect_params().values() if "running" not in p.name}
    sym, new, _ = amp.convert_model(graph_of(net), args, {}, dtype)
    assert all(v.dtype == np.float32 for v in new.values()) and "amp_cast" in sym.tojson(remove_amp_cast=False)


def test_imperative_calls(initialized):
    x, w = mx.nd.random.uniform(shape=(2, 4)), mx.nd.random.uniform(shape=(3, 4))
    amp.init()
    low = mx.nd.FullyConnected(x, w, num_hidden=3, no_bias=True)
    assert low.dtype == np.float16
    assert mx.nd.softmax(low).dtype == low.softmax().dtype == np.float32
    assert (low + x[:, :3]).dtype == mx.nd.broadcast_add(low, x[:, :3]).dtype == np.float32
    assert mx.nd.relu(low).dtype == np.float16
    assert mx.nd.LeakyReLU(low, act_type="elu").dtype == np.float32
    assert mx.nd.LeakyReLU(low, act_type="leaky").dtype == np.float16
    x.attach_grad()
    with autograd.record():
        loss = mx.nd.FullyConnected(x, w, num_hidden=3, no_bias=True).sum()
    loss.backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad.asnumpy(), np.tile(w.asnumpy().sum(0), (2, 1)), rtol=1e-2)
    _policy.uninstall()
    assert mx.nd.FullyConnected(x, w, num_hidden=3, no_bias=True).dtype == np.float32


def test_every_way_to_call_an_operator(initialized):
    from mxjax.ndarray import FullyConnected  # known before AMP is
    before = FullyConnected, mx.nd.NDArray.__add__, mx.nd.SoftmaxOutput, mx.sym.SoftmaxOutput
    x, w = mx.nd.random.uniform(shape=(2, 4)), mx.nd.random.uniform(shape=(3, 4))
    amp.init()
    assert before == (mx.nd.FullyConnected, mx.nd.NDArray.__add__, mx.nd.SoftmaxOutput, mx.sym.SoftmaxOutput)
    low = FullyConnected(x, w, num_hidden=3, no_bias=True)
    assert low.dtype == np.float16 and FullyConnected(x, weight=w, num_hidden=3, no_bias=True).dtype == np.float16
    assert (1 / low).dtype == (low ** 2).dtype == np.float32  # as MXNet's lists have it
    assert (low * 2).dtype == low.copy().dtype == low[0].dtype == np.float16
    assert mx.nd.log(mx.nd.array([1], dtype="float64")).dtype == np.float64  # only 16 bits and float32 are cast
    assert mx.nd.exp(low, out=mx.nd.zeros_like(low)).dtype == np.float16
    total = mx.nd.zeros((2, 3))
    total += low
    assert total.dtype == np.float32
    npx = mx.npx.fully_connected(x.as_np_ndarray(), w.as_np_ndarray(), num_hidden=3, no_bias=True)
    assert type(npx) is mx.np.ndarray and npx.dtype == np.float16 and mx.npx.softmax(npx).dtype == np.float32


def test_copies_and_what_is_changed_in_place_keep_their_dtype(initialized):
    amp.init("bfloat16")  # everything else is float32
    low = mx.nd.ones((2,), dtype="bfloat16")
    assert low.copy().dtype == low.astype("bfloat16").dtype == low.dtype
    assert mx.nd.negative(low).dtype == np.float32
    weight, grad, momentum = low.copy(), low.copy(), mx.nd.zeros((2,), dtype="bfloat16")
    mx.nd.sgd_mom_update(weight, grad, momentum, out=weight, lr=0.5, momentum=0.9)
    assert weight.dtype == momentum.dtype == low.dtype and weight[0].asscalar() == 0.5


def test_graphs_without_casts_stay_as_they_are(initialized):
    graph = mx.sym.load_json(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc").tojson())
    args = {"data": mx.nd.ones((2, 4)), "fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.zeros((3,))}
    amp.init()
    graph = mx.sym.load_json(graph.tojson())
    executor = graph.bind(mx.cpu(), args)
    assert executor.forward()[0].dtype == np.float32
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append(array.dtype))  # now operator by operator
    assert executor.forward()[0].dtype == np.float32 and seen == [np.float32]


def test_loss_outputs_scale_their_gradient(initialized, caplog):
    x, label = mx.nd.array([[1.0, 2.0]]), mx.nd.array([1])
    x.attach_grad()

    def gradient(**params):
        with autograd.record():
            out = mx.nd.SoftmaxOutput(x, label, **params)
        out.backward()
        return x.grad.asnumpy()
    plain = gradient()
    amp.init()
    np.testing.assert_allclose(gradient(), plain * 2**16, rtol=1e-3)
    np.testing.assert_allclose(gradient(grad_scale=0.5), plain * 2**15, rtol=1e-3)
    mx.sym.SoftmaxOutput(mx.sym.var("data"))
    assert "SoftmaxOutput does not support dynamic loss scaling" in caplog.text


@pytest.mark.parametrize("hybrid", [False, True])
def test_training(initialized, hybrid):
    amp.init("bfloat16" if hybrid else "float16")
    mx.random.seed(1)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="tanh"), gluon.nn.Dense(1))
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    x = mx.nd.random.uniform(-1, 1, (32, 3))
    y = x.sum(axis=1, keepdims=True)
    objective, losses = gluon.loss.L2Loss(), []
    for _ in range(30):
        with autograd.record():
            loss = objective(net(x), y)
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(32)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < 0.1 * losses[0]
    assert {p.data().dtype for p in net.collect_params().values()} == {np.float32}
    if hybrid:
        assert "amp_cast" in graph_of(net).tojson(remove_amp_cast=False)


def test_overflow_and_unscale(initialized):
    amp.init()
    weight = gluon.Parameter("w", shape=(2,))
    weight.initialize(mx.init.One())
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 1.0})
    amp.init_trainer(trainer)
    with autograd.record():
        with amp.scale_loss(weight.data() * 1e36, trainer) as scaled:
            autograd.backward(scaled)
    trainer.step(1)
    np.testing.assert_array_equal(weight.data().asnumpy(), [1, 1])  # left out
    with autograd.record():
        with amp.scale_loss([weight.data() * 0.25], trainer) as scaled:
            autograd.backward(scaled)
    assert weight.grad().asnumpy()[0] == 0.25 * 2**16
    amp.unscale(trainer)
    np.testing.assert_array_equal(weight.grad().asnumpy(), [0.25, 0.25])
    trainer.step(1)
    np.testing.assert_array_equal(weight.data().asnumpy(), [0.75, 0.75])
    assert scaler_of(trainer).loss_scale == 2**15


def test_the_scale_grows_after_2000_steps_without_overflow():
    """Results of MXNet 1.9.1, but for the upper limit."""
    scaler, weight = amp.loss_scaler.LossScaler(), gluon.Parameter("w", shape=(1,))
    weight.initialize()
    set_scale(scaler, 2.0**16, 1998)
    assert [(scaler.has_overflow([weight]), scaler.loss_scale) for _ in range(3)] == [
        (False, 2**16), (False, 2**16), (False, 2**17)]
    set_scale(scaler, 2.0**24, 1999)
    assert [(scaler.has_overflow([weight]), scaler.loss_scale) for _ in range(2)] == [(False, 2**24)] * 2
    weight.grad()[:] = np.inf
    assert [(scaler.has_overflow([weight]), scaler.loss_scale) for _ in range(2)] == [(True, 2**24), (True, 2**23)]


def test_module(initialized):
    amp.init()
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), name="softmax")
    assert inputs_of(out)["fc"][0] == "data_amp_cast_float16"
    total = mx.sym.broadcast_add(mx.sym.var("a"), mx.sym.var("b"), name="total")
    assert inputs_of(total)["total"] == ["total_amp_multicast"] * 2
    x = np.random.RandomState(0).randn(64, 4).astype("float32")
    data = mx.io.NDArrayIter(x, (x[:, 0] > 0).astype("float32"), 16, label_name="softmax_label")
    mod = mx.mod.Module(out)
    mod.fit(data, num_epoch=8, optimizer_params={"learning_rate": 1.0})
    assert mod.score(data, "acc")[0][1] > 0.9


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("options, low", [
    ({"target_dtype_ops": ["Convolution"]}, {"fc0", "fc1"}),  # they get what it puts out, and need no casts
    ({}, set()), ({"cast_optional_params": True}, {"conv", "fc0", "fc1"}),
    ({"target_dtype_ops": ["Convolution"], "cast_optional_params": True}, {"conv", "fc0", "fc1"}),
    ({"target_dtype_ops": ["Convolution"], "fp32_ops": ["FullyConnected"]}, set())])
def test_parameters_get_the_dtype_in_which_they_are_used(dtype, options, low):
    """As MXNet 1.9.1 does for the same calls."""
    data = mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(2, 3), name="conv")
    data = mx.sym.BatchNorm(data, fix_gamma=False, name="bn")
    data = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=5, name="fc0"), act_type="relu")
    sym = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="fc1"), name="softmax")
    shapes, _, aux = sym.infer_shape(data=(2, 3, 8, 8))
    args = {n: mx.nd.ones(s) for n, s in zip(sym.list_arguments(), shapes, strict=True)
            if n not in ("data", "softmax_label")}
    states = {n: mx.nd.ones(s) for n, s in zip(sym.list_auxiliary_states(), aux, strict=True)}
    converted, args, states = amp.convert_model(sym, args, states, target_dtype=dtype, **options)
    found = {name.partition("_")[0] for name, array in args.items() if np.dtype(array.dtype).name == dtype}
    assert found == low and all(array.dtype is np.float32 for array in states.values())
    executor = converted.simple_bind(mx.cpu(), data=(2, 3, 8, 8), grad_req="null")
    assert {n: a.dtype for n, a in args.items()} == {n: executor.arg_dict[n].dtype for n in args}


@pytest.mark.parametrize("inputs, more, dtypes", [
    ((None, "float32"), [], {"b": "float16"}),  # a has no dtype of its own: it is data
    (("float32", "float16"), [], {"a": "float16", "b": "float16"}),
    (("float32", "float32"), ["float32"], {"a": "float32", "b": "float16"}),
    (("float16", "float32"), ["float16"], {"a": "float16", "b": "float16"})])
def test_parameters_that_several_casts_read(inputs, more, dtypes):
    """As MXNet 1.9.1 gives them."""
    a, b = (mx.sym.var(name, **({"dtype": dtype} if dtype else {})) for name, dtype in zip("ab", inputs, strict=True))
    sym = mx.sym.Group([mx.sym.amp_multicast(a, b, num_outputs=2), *[mx.sym.amp_cast(a, dtype=d) for d in more]])
    converted = amp.convert_symbol(sym, target_dtype_ops=[], fp32_ops=[], cast_optional_params=True)
    executor = converted.simple_bind(mx.cpu(), a=(1, 2), b=(1, 2))
    assert {n: np.dtype(executor.arg_dict[n].dtype).name for n in dtypes} == dtypes
    assert executor.arg_dict["a"].dtype is np.float32 or inputs[0] is not None


def test_mxnets_own_dtype_for_bfloat16():
    theirs = np.dtype([("bfloat16", np.uint16)])
    x = mx.nd.array([1.5, -2.25])
    for made in (x.astype(theirs), mx.nd.amp_cast(x, dtype=theirs),
                 mx.nd.zeros((2,), dtype=theirs) + x.astype("bfloat16")):
        assert made.dtype is x.astype("bfloat16").dtype
        np.testing.assert_array_equal(made.astype("float32").asnumpy(), x.asnumpy())
    sym = mx.sym.exp(mx.sym.var("x", dtype=theirs))
    assert sym.simple_bind(mx.cpu(), x=(2,)).arg_dict["x"].dtype is x.astype("bfloat16").dtype


def test_a_bucketing_module_is_converted():
    def network_of(key):
        data = mx.sym.var("data")
        return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), name="softmax"), \
            ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(network_of, default_bucket_key=3, context=mx.cpu())
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params()
    converted = amp.convert_bucketing_module(module, "bfloat16")
    converted.bind([("data", (2, 3))], [("softmax_label", (2,))], for_training=False)
    converted.forward(mx.io.DataBatch([mx.nd.ones((2, 3))], bucket_key=3, provide_data=[("data", (2, 3))],
                                      provide_label=[("softmax_label", (2,))]), is_train=False)
    assert converted.get_outputs()[0].shape == (2, 2)
    assert "amp_cast" in converted.symbol.tojson(remove_amp_cast=False)
