"""Quantization: the graph pass, calibration, and a digits network on integers in Module and as a block."""

import inspect
import logging

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.graph import quantizing

from ..internals import graph_of, outputs_of

quant = mx.contrib.quant


def layers(sym):
    return {name: name for name in (n.rpartition("_")[0] for n in sym.get_internals().list_outputs())}


def branches():
    data = mx.sym.Variable("data")
    conv = mx.sym.Convolution(data, kernel=(1, 1), num_filter=4, no_bias=True, name="conv")
    total = mx.sym.elemwise_add(conv, data, name="sum")
    relu = mx.sym.Activation(total, act_type="relu", name="relu")
    tanh = mx.sym.Activation(total, act_type="tanh", name="tanh")
    pool = mx.sym.Pooling(mx.sym.Concat(relu, tanh, dim=1, name="cat"), global_pool=True, kernel=(1, 1), name="pool")
    return mx.sym.Group([mx.sym.FullyConnected(mx.sym.Flatten(pool, name="flat"), num_hidden=3, name="fc"), relu])


def test_a_range_is_cut_off_only_where_that_loses_less():
    random = np.random.RandomState(0)
    found = {}
    for name, values in (("few", random.normal(0, 1, 200)), ("outlier", np.append(random.normal(0, 1, 100000), 400))):
        collector = quant._LayerHistogramCollector()
        collector.collect(name, mx.nd.array(values))
        found[name] = quant._get_optimal_thresholds(collector.hist_dict, "int8")[name]
        reach = float(np.abs(values.astype("float32")).max())
        def loss(edge, values=values):
            step = edge / 127.5
            return ((np.clip(np.round(values / step), -128, 127) * step - values) ** 2).sum()
        assert loss(found[name][1]) <= 1.01 * loss(reach)
        assert found[name][0] == -found[name][1]
    assert found["few"][1] == pytest.approx(float(np.abs(np.random.RandomState(0).normal(0, 1, 200)).max()), rel=1e-6)


def test_graph_of_integers():
    """Names were taken from MXNet 1.9.1, which rounds to 8 bits behind `conv`, `sum` and `fc` as well."""
    sym = branches()
    offline = [n for n in sym.list_arguments() if n != "data"]
    qsym, found = quant._quantize_symbol(sym, mx.cpu(), offline_params=offline, quantize_mode="full",
                                         quantized_dtype="auto")
    assert sorted(found) == ["data", "relu_output", "tanh_output"]
    assert qsym.list_arguments() == [
        "data", "conv_weight_quantize", "conv_weight_quantize_min", "conv_weight_quantize_max", "fc_weight_quantize",
        "fc_bias_quantize", "fc_weight_quantize_min", "fc_weight_quantize_max", "fc_bias_quantize_min",
        "fc_bias_quantize_max"]
    assert qsym.list_outputs() == ["fc_dequantize_output", "relu_output"]
    assert qsym.attr_dict()["data_quantize"]["out_type"] == "auto"
    names = set(layers(qsym))
    assert {"quantized_conv", "conv_dequantize", "sum", "tanh", "quantized_cat", "quantized_pool",
            "quantized_flat"} <= names
    assert not any(name.startswith("requantize") for name in names)
    assert mx.sym.load_json(qsym.tojson()).list_arguments() == qsym.list_arguments()


def test_elementwise_operators_on_integers():
    """Sums, activations and normalizations are quantized where they get integers already, and 32 bits become 8."""
    data = mx.sym.var("data")
    pool = mx.sym.Pooling(data, kernel=(2, 2), pool_type="max", name="pool")
    total = mx.sym.elemwise_add(pool, mx.sym.Activation(pool, act_type="relu", name="relu"), name="sum")
    norm = mx.sym.BatchNorm(mx.sym.Flatten(total, name="flat"), name="norm")
    out = mx.sym.Pooling(norm, global_pool=True, name="top")
    qsym, found = quant._quantize_symbol(out, mx.cpu(), quantize_mode="full")
    assert {"quantized_relu", "quantized_sum", "requantize_sum", "quantized_norm"} <= set(layers(qsym))
    assert sorted(found) == ["data", "norm_output", "sum_output"]
    attrs = quant._calibrate_quantized_sym(qsym, {"sum_output": (-1.5, 2), "norm_output": (0, 3)}).attr_dict()
    assert float(attrs["requantize_sum"]["min_calib_range"]) == -1.5
    assert float(attrs["quantized_norm"]["max_calib_range"]) == 3
    assert "min_calib_range" not in attrs["data_quantize"]


def test_excluded_and_smart():
    sym = branches()
    kept, _ = quant._quantize_symbol(sym, mx.cpu(), ["conv"], ["Concat"], quantize_mode="full")
    assert {"conv", "cat", "sum", "quantized_pool", "quantized_fc"} <= set(layers(kept))
    smart, _ = quant._quantize_symbol(sym, mx.cpu(), ["fc"], quantize_mode="smart")
    assert "quantized_conv" in layers(smart)
    assert {"sum", "relu", "pool"} <= set(layers(smart))  # nothing behind them gains
    with pytest.raises(mx.MXNetError, match="mode must be one of full, smart"):
        quant._quantize_symbol(sym, mx.cpu(), quantize_mode="most")


def test_thresholds():
    hist = [0] * 998 + [1000]
    edges = np.linspace(-2, 2, 1000)
    for dtype in ("int8", "auto"):
        assert quant._get_optimal_threshold((hist, edges, -2, 2, 2), dtype, 5)[2] == pytest.approx(2)
    values = np.random.RandomState(0).uniform(-10.5, 10.5, 4000)
    first = (*np.histogram(values, 101, (-12, 12)), values.min(), values.max(), 12.0)
    counts, edges, low, high, reach = quant.combine_histogram(first, values * 2, -21, 21, 21.0)
    assert counts.sum() == 8000 and reach >= 21 and (low, high) == (-21, 21) and len(edges) == len(counts) + 1
    np.testing.assert_array_equal(counts, np.histogram(np.concatenate([values, values * 2]), len(counts),
                                                       (-reach, reach))[0])


# small networks, their layers from NumPy's seeds; the relative errors of MXNet 1.9.1's integers by calibration
def _dense(x):
    hidden = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=8, name="a"), act_type="relu", name="r")
    return mx.sym.FullyConnected(hidden, num_hidden=5, name="b")


def _normalized(x):
    hidden = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, name="a")
    hidden = mx.sym.Activation(mx.sym.BatchNorm(hidden, fix_gamma=False, name="n"), act_type="relu", name="r")
    pooled = mx.sym.Pooling(hidden, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="p")
    return mx.sym.FullyConnected(pooled, num_hidden=5, name="b")


def _residual(x):
    def layer(data, name):
        return mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=4, name=name)
    hidden = mx.sym.Activation(layer(x, "a"), act_type="relu", name="r")
    total = mx.sym.elemwise_add(layer(hidden, "b"), hidden, name="add")
    return mx.sym.FullyConnected(mx.sym.Activation(total, act_type="relu", name="s"), num_hidden=5, name="c")


def _alone(x):
    return mx.sym.Convolution(mx.sym.BatchNorm(x, fix_gamma=False, name="n"), kernel=(3, 3), num_filter=4, name="a")


def network(make, shape):
    """A block of such a network, its arrays by NumPy's seed, and a batch."""
    random = np.random.RandomState(7)
    sym = make(mx.sym.var("data"))
    shapes, _, states = sym.infer_shape(data=(16, *shape))
    params = {}
    names = sym.list_arguments() + sym.list_auxiliary_states()
    for name, size in zip(names, shapes + states, strict=True):
        if name != "data":
            params[name] = mx.nd.array(random.uniform(.5, 1.5, size) if name.endswith(("var", "gamma"))
                                       else random.normal(0, 1 / np.sqrt(np.prod(size[1:])), size))
    block = gluon.SymbolBlock(sym, [mx.sym.var("data")])
    for name, param in block.collect_params().items():
        param._load_init(params[name], mx.cpu())
    return block, mx.nd.array(random.normal(0, 1, (16, *shape)))


@pytest.mark.parametrize("make, shape, errors", [
    (_dense, (12,), {("none", ""): 0.00966, ("naive", ""): 0.01138, ("naive", "r"): 0.00718,
                     ("entropy", ""): 0.04453}),
    (_normalized, (3, 10, 10), {("none", ""): 0.01382, ("naive", ""): 0.00908, ("naive", "r"): 0.0089}),
    (_residual, (3, 10, 10), {("none", "r"): 0.01271, ("naive", ""): 0.01053}),
    (_alone, (3, 10, 10), {("none", ""): 0.0115, ("naive", ""): 0.01503, ("naive", "a"): 0.01114}),  # none: no MXNet
])
def test_errors_are_not_larger_than_mxnets(make, shape, errors):
    for (mode, excluded), recorded in errors.items():
        net, x = network(make, shape)
        exact = net(x)
        qnet = quant.quantize_net_v2(net, exclude_layers=[excluded] if excluded else None, calib_mode=mode,
                                     calib_data=[[x]])
        error = float(((qnet(x) - exact).norm() / exact.norm()).asscalar())
        assert error <= 1.05 * recorded, (mode, excluded, error)


def test_a_range_for_each_channel():
    """Channels of very different size are equally exact; the float form computes what the network does."""
    random = np.random.RandomState(3)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=2), gluon.nn.BatchNorm(in_channels=4))
    net.initialize()
    weight = random.normal(0, 1, (4, 2, 3, 3)) * np.array([1e-3, 1, 50, 0])[:, None, None, None]
    net[0].weight.set_data(mx.nd.array(weight))
    net[0].bias.set_data(mx.nd.array([3, -2, 1, 4]))
    net[1].running_var.set_data(mx.nd.array([1e-6, 2, 900, 1]))
    net[1].running_mean.set_data(mx.nd.array([3, 0, 1, 1]))
    x = mx.nd.array(random.normal(0, 1, (2, 2, 6, 6)))
    exact = net(x).asnumpy()
    got = quant.quantize_net_v2(net, calib_mode="naive", calib_data=[[x]])(x).asnumpy()
    error = np.sqrt(((got - exact) ** 2).sum((0, 2, 3)) / (exact ** 2).sum((0, 2, 3)))
    assert (error < 0.02).all() and error[3] < 1e-6
    values = {"w": mx.nd.array(weight.reshape(4, -1)), "b": mx.nd.array([3, -2, 1, 4])}
    dense = mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("b"), num_hidden=4)
    outputs, parts, _ = quantizing.by_channel(outputs_of(dense), {k: v.asnumpy() for k, v in values.items()})
    parts = {name: mx.nd.array(part) for name, part in parts.items()}
    flat = mx.nd.array(random.normal(0, 1, (3, 18)))
    same = mx.sym.Symbol(outputs).bind(mx.cpu(), {**parts, "x": flat}).forward()[0]
    np.testing.assert_allclose(same.asnumpy(), dense.bind(mx.cpu(), {**values, "x": flat}).forward()[0].asnumpy(),
                               rtol=1e-5, atol=1e-4)


@pytest.fixture(scope="module")
def digits():
    """A small convolutional network trained on scikit-learn's digits, and the data."""
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    x, y = (found.images / 16).astype("float32")[:, None], found.target.astype("float32")
    held = np.arange(len(y)) % 4 == 0
    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, use_bias=False), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
            gluon.nn.MaxPool2D(2), gluon.nn.Conv2D(16, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
            gluon.nn.Flatten(), gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 5e-3})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(x[~held], y[~held]), 50, last_batch="discard")
    for _ in range(4):
        for data, label in batches:
            with autograd.record():
                losses = loss(net(data), label)
            losses.backward()
            trainer.step(50)
    return net, batches, mx.nd.array(x[held]), y[held]


def accuracy(logits, labels):
    return (logits.asnumpy().argmax(1) == labels).mean()


@pytest.mark.parametrize("mode, dtype, excluded", [("none", "uint8", []), ("entropy", "int8", ["conv"])])
def test_quantized_block_is_as_good(digits, mode, dtype, excluded):
    net, batches, x, y = digits
    exact = accuracy(net(x), y)
    assert exact > 0.9
    qnet = quant.quantize_net_v2(net, dtype, calib_data=batches, calib_mode=mode, num_calib_examples=100,
                                 exclude_layers_match=excluded)
    assert abs(accuracy(qnet(x), y) - exact) <= 0.01
    params = qnet.collect_params()
    assert {p.dtype for name, p in params.items() if name.endswith("weight_quantize")} == {np.int8}
    assert any("batchnorm" in name for name in params) == bool(excluded)  # else folded into the convolutions
    assert any("conv" in name and "quantize" in name for name in params) != bool(excluded)


def test_quantized_module_is_as_good(digits, tmp_path):
    net, batches, x, y = digits
    net.export(str(tmp_path / "net"))
    sym, args, auxs = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    data = mx.io.NDArrayIter(np.concatenate([d.asnumpy() for d, _ in batches])[:200], batch_size=100)
    seen = []
    logger = type("Log", (), {"info": lambda self, *a: seen.append(a), "debug": lambda self, *a: seen.append(a)})()
    qsym, qargs, qauxs = quant.quantize_model(sym, args, auxs, calib_mode="naive", calib_data=data, logger=logger)
    assert seen and sorted(qauxs) == sorted(auxs) == sorted(qsym.list_auxiliary_states())
    mod = mx.mod.Module(qsym, label_names=None)
    mod.bind([("data", x.shape)], for_training=False)
    mod.set_params(qargs, qauxs)
    mod.forward(mx.io.DataBatch([x]), is_train=False)
    assert abs(accuracy(mod.get_outputs()[0], y) - accuracy(net(x), y)) <= 0.01


def test_by_hand_with_monitor(digits):
    """`quantize_graph`, statistics through an executor's monitor, `calib_graph`."""
    net, _, x, y = digits
    sym, params = graph_of(net), {p.name: p.data() for p in net.collect_params().values()}
    args = {k: params[k] for k in sym.list_arguments() if k in params}
    auxs = {k: params[k] for k in sym.list_auxiliary_states()}
    qsym, _, _, collector = quant.quantize_graph(sym, args, auxs, calib_mode="naive")
    bound = sym.bind(mx.cpu(), {**args, "data": x}, aux_states=auxs)
    bound.set_monitor_callback(collector.collect, monitor_all=True)
    expected = bound.forward()[0]
    assert "data" in collector.min_max_dict
    qsym, qargs, auxs = quant.calib_graph(qsym, args, auxs, collector, "naive")
    logits = qsym.bind(mx.cpu(), {**qargs, "data": x}, aux_states=auxs).forward()[0]
    assert abs(accuracy(logits, y) - accuracy(expected, y)) <= 0.01


def test_mistakes():
    sym, data = branches(), mx.io.NDArrayIter(np.zeros((2, 4, 3, 3), "float32"))
    for kwargs, message in (({"excluded_sym_names": "conv"}, "list of names"), ({"quantized_dtype": "int4"}, "int4"),
                            ({"calib_mode": "naive"}, "calib_data must be provided"), ({"ctx": [mx.cpu()]}, "single"),
                            ({"calib_mode": "best", "calib_data": data}, "unknown calibration mode"),
                            ({"quantize_granularity": "row"}, "quantize_granularity")):
        with pytest.raises(ValueError, match=message):
            quant.quantize_model(sym, {}, {}, **kwargs)
    net = gluon.nn.Dense(2)
    net.initialize()
    shapes = [mx.io.DataDesc("data", (2, 3))]
    for kwargs, error, message in (({}, ValueError, "data_shapes required"),
                                   ({"calib_mode": "naive"}, ValueError, "calib_data must be provided"),
                                   ({"calib_data": 3}, TypeError, "not a valid iterator"),
                                   ({"calib_data": [mx.nd.ones((2, 3))], "calib_mode": "customize"}, ValueError,
                                    "unknown calibration mode customize"),
                                   ({"calib_data": [], "data_shapes": shapes, "calib_mode": "naive"}, ValueError,
                                    "calib_data has no batches"),
                                   ({"calib_data": [[]], "data_shapes": shapes, "calib_mode": "naive"}, ValueError,
                                    "batch has no data")):
        with pytest.raises(error, match=message):
            quant.quantize_net_v2(net, **kwargs)
    for ctx in ([mx.cpu()], mx.gpu()):
        with pytest.raises(ValueError, match="single CPU context"):
            quant.quantize_model_mkldnn(sym, {}, {}, ctx=ctx)
    with pytest.raises(ValueError, match="naive, entropy or customize, got none"):
        quant.calib_graph(sym, {}, {}, None, "none")


def test_a_collector_of_ones_own(caplog):
    """Its ranges end in the graph. A batch of more arrays than the block has inputs may hold labels."""
    class Wide:
        include_layer, min_max_dict = None, {}

        def collect(self, name, value):
            self.min_max_dict[name] = (-8.0, 8.0)
    net, logger = gluon.nn.Dense(2, in_units=3), logging.getLogger("quantizing")
    net.initialize(mx.init.One())
    x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    with caplog.at_level("DEBUG", "quantizing"):
        out = quant.quantize_net_v2(net, "int8", calib_mode="customize", calib_data=[[x, mx.nd.ones(2)]] * 2,
                                    num_calib_examples=1, LayerOutputCollector=Wide(), logger=logger)(x)
        step = 8 / 127.5
        np.testing.assert_allclose(out.asnumpy(), np.round(x.asnumpy() / step).sum(1, keepdims=True) * [step, step],
                                   rtol=1e-5)
        assert "Collected layer statistics of 1 batches, 2 examples" in caplog.text
        assert "These layers have been excluded []" in caplog.text
        for mode in ("naive", "entropy"):
            caplog.clear()
            data = mx.io.NDArrayIter(x.asnumpy(), None, 2)
            out = quant.quantize_net_v2(net, calib_mode=mode, calib_data=data, logger=logger)(x)
            np.testing.assert_allclose(out.asnumpy(), [[6, 6], [15, 15]], rtol=0.005)
            assert "Collecting layer data of shape (2, 3)" in caplog.text
            assert ("layer=data, min_val=1.000000, max_val=6.000000, th=6.0" in caplog.text) == (mode == "entropy")


def test_a_range_for_each_channel_of_a_checkpoint():
    """MXNet's function needs oneDNN on Intel's processors; ours makes of a bias the sum after the layer."""
    sym = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    args = {"fc_weight": mx.nd.array([[1, 0.5], [0.001, 0.002]]), "fc_bias": mx.nd.array([1, 2])}
    qsym, qargs, auxs = quant.quantize_model_mkldnn(sym, args, {}, calib_mode="none")
    x = mx.nd.array([[1, -1], [3, 4]])
    out = qsym.bind(mx.cpu(), {**qargs, "data": x}, aux_states=auxs).forward()[0].asnumpy()
    want = x.asnumpy() @ args["fc_weight"].asnumpy().T + [1, 2]
    np.testing.assert_allclose(out, want, atol=0.03)
    np.testing.assert_allclose(out[:, 1], want[:, 1], atol=1e-4)  # its own range


def test_the_first_name_warns_where_it_is_called(monkeypatch):
    later, given = inspect.signature(quant.quantize_net_v2), []
    monkeypatch.setattr("mxjax.contrib._quantization.quantize_net_v2", lambda *args: given.append(later.bind(*args)))
    with pytest.warns(UserWarning, match="deprecated in favour of quantize_net_v2") as told:
        quant.quantize_net("net", "int8", calib_mode="naive", num_calib_examples=3)
    assert told[0].filename == __file__
    expected = later.bind("net", "int8", calib_mode="naive", num_calib_examples=3)
    expected.apply_defaults()
    assert given[0].arguments == expected.arguments


@pytest.mark.parametrize("dtype, groups, channels", [("int8", 1, 150), ("uint8", 1, 150), ("uint8", 2, 8)])
def test_convolution_is_exact(dtype, groups, channels):
    """With the largest values too, whose sums float32 cannot hold."""
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    random = np.random.RandomState(0)
    x = random.choice([low, high, 77], (1, channels, 4, 4)).astype(dtype)
    w = random.choice([-128, 127, 3], (2, channels // groups, 3, 3)).astype("int8")
    w[0] = -128
    x[..., 1:, 1:] = low or high
    ends = [mx.nd.array([-1.0]), mx.nd.array([1.0])] * 2
    ranges = dict(zip(("min_data", "max_data", "min_weight", "max_weight"), ends, strict=True))
    out = mx.nd.contrib.quantized_conv(mx.nd.array(x, dtype=dtype), mx.nd.array(w, dtype="int8"), **ranges,
                                       kernel=(3, 3), num_filter=2, num_group=groups, no_bias=True)[0].asnumpy()
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("int64"), (3, 3), (2, 3))
    windows = windows.reshape(1, groups, channels // groups, 2, 2, 3, 3)
    want = np.einsum("ngcyxhw,gochw->ngoyx", windows, w.astype("int64").reshape(groups, -1, channels // groups, 3, 3))
    np.testing.assert_array_equal(out, want.reshape(1, 2, 2, 2))


class Described(mx.io.DataIter):
    """One batch, described by tuples, as iterators that users write do it."""

    provide_data, provide_label = [("data", (2, 3, 6, 6))], []

    def __init__(self):
        super().__init__(2)
        self.left = 1

    def next(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return mx.io.DataBatch([mx.nd.ones((2, 3, 6, 6))], [])

    def reset(self):
        self.left = 1


def test_calibration_data_may_be_described_by_tuples():
    sym = mx.sym.Convolution(mx.sym.var("data"), kernel=(1, 1), num_filter=2, name="conv")
    args = {"conv_weight": mx.nd.ones((2, 3, 1, 1)), "conv_bias": mx.nd.zeros(2)}
    _, args, _ = mx.contrib.quant.quantize_model(sym, args, {}, calib_mode="naive", calib_data=Described(),
                                                 ctx=mx.cpu(), label_names=None)
    assert args["conv_weight_quantize"].dtype is np.int8


def test_shapes_are_found_backwards_through_quantized_layers():
    """The first states of an unrolled cell: what is added to a quantized layer's result tells their rows."""
    cell = mx.rnn.LSTMCell(num_hidden=8)
    outputs, _ = cell.unroll(2, mx.sym.var("data"))
    sym = mx.sym.Group(outputs)
    shapes, _, _ = sym.infer_shape(data=(4, 2, 5))
    args = {n: mx.nd.random.uniform(-1, 1, s) for n, s in zip(sym.list_arguments(), shapes, strict=True) if n != "data"}
    quantized, args, _ = mx.contrib.quant.quantize_model(
        sym, args, {}, calib_mode="none", quantize_mode="full", excluded_op_names=["elemwise_add", "elemwise_mul"],
        ctx=mx.cpu(), quantized_dtype="int8")
    data = mx.nd.random.uniform(-1, 1, (4, 2, 5))
    found = quantized.bind(mx.cpu(), {**args, "data": data}).forward()
    assert [out.shape for out in found] == [(4, 8)] * 2
