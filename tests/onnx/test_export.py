"""Export to ONNX: what onnxruntime computes is what the graph computes; and import brings the same back."""

import numpy as np
import pytest
from opcall import of_arrays

import mxjax as mx
from mxjax import gluon

from ..internals import graph_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

sym = mx.sym
RNG = np.random.RandomState(0)


def variables(count):
    return [sym.var(f"x{i}") for i in range(count)]


def run_onnx(path, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return session.run(None, {k: v for k, v in values.items() if k in names})


def check(tmp_path, out, arrays, params=None, back=True, dynamic=False, tol=1e-4):
    """Exports a symbol of x0, x1, ... and parameters; compares with onnxruntime, and with what import makes of it."""
    arrays = [np.asarray(a, "float32") for a in arrays]
    values = {f"x{i}": a for i, a in enumerate(arrays)}
    params = {k: mx.nd.array(v) for k, v in (params or {}).items()}
    bound = {k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()} | params
    expected = [o.asnumpy() for o in out.bind(
        mx.cpu(), {k: v for k, v in bound.items() if k in out.list_arguments()},
        aux_states={k: bound[k] for k in out.list_auxiliary_states()}).forward()]
    given = [values[n] for n in out.list_inputs() if n in values]
    path = mx.onnx.export_model(out, params, [a.shape for a in given], [a.dtype for a in given],
                                str(tmp_path / "model.onnx"), dynamic=dynamic)
    for got, want in zip(run_onnx(path, values), expected, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    if back:
        again, args, auxs = mx.contrib.onnx.import_model(path)
        args = {**{k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()}, **args}
        found = again.bind(mx.cpu(), {k: args[k] for k in again.list_arguments()}, aux_states=auxs).forward()
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got.asnumpy(), want, rtol=tol, atol=tol)
    return path


def test_elementwise(tmp_path):
    a, b = variables(2)
    positive = RNG.uniform(0.1, 0.9, (2, 3))
    unary = [f(a) for f in (
        sym.abs, sym.exp, sym.log, sym.sqrt, sym.sin, sym.cos, sym.tan, sym.arcsin, sym.arctan, sym.tanh, sym.sigmoid,
        sym.relu, sym.reciprocal, sym.erf, sym.sign, sym.softsign, sym.square, sym.log2, sym.log10, sym.log1p,
        sym.expm1, sym.rsqrt, sym.cbrt, sym.round, sym.rint, sym.ceil, sym.floor, sym.trunc, sym.hard_sigmoid,
        sym.logical_not, sym.degrees, sym.BlockGrad, sym.negative, sym.arctanh)]
    binary = [a + b, a - b, a * b, a / b, a ** b, a % b, a > b, a <= b, sym.broadcast_not_equal(a, b),
              sym.broadcast_maximum(a, b), sym.hypot(a, b), sym.broadcast_logical_and(a, b)]
    number = [a + 2, 2 - a, a * 3, 1 / a, a ** 2, 2 ** a, a % 0.3, a > 0.5, sym.maximum(a, 0.5), sym.clip(a, 0.2, 0.7),
              sym.smooth_l1(a - 0.5, scalar=2), sym.where(a > 0.5, a, b), sym.Cast(a, "int32"), sym.add_n(a, b, a)]
    check(tmp_path, sym.Group([*unary, *binary, *number]), [positive, positive[::-1] * 1.1])


def test_each_operator_of_one_or_two_arrays(tmp_path):
    """All whose other parameters have defaults, in one graph."""
    inputs, moving = variables(2), {"IdentityAttachKLSparseReg"}  # its state has another shape
    found = [symbol for name, symbol in of_arrays(mx.onnx.get_operator_support(), inputs) if name not in moving]
    found.append(sym._internal._npi_concatenate(*inputs, axis=None))
    assert len(found) > 180
    check(tmp_path, sym.Group(found), RNG.uniform(0.1, 0.9, (2, 2, 3)), back=False)


def test_remainders_halves_and_ranges(tmp_path):
    a, b = variables(2)
    found = [a % b, a % -0.75, sym.rint(a), sym.round(a), sym.arange(4), sym.arange(2, 8, 3), sym.Cast(a, "int32") %
             sym.Cast(b, "int32")]
    values = np.array([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, -7, 7]]), np.array([[2, -2, 0, 3], [-3, 0, 3, -3]])
    check(tmp_path, sym.Group(found), values, back=False)
    check(tmp_path, a % 3, values[:1])


def test_what_is_chosen_has_its_own_dtype(tmp_path):
    condition, values = mx.nd.array([1, 0, 2], dtype="int32"), mx.nd.array([1, 2, 3], dtype="float16")
    given = sym.var("x1")
    out = sym.where(sym.var("x0"), given, given * 2)
    path = mx.onnx.export_model(out, {}, [(3,), (3,)], ["int32", "float16"], str(tmp_path / "where.onnx"))
    found = run_onnx(path, {"x0": condition.asnumpy(), "x1": values.asnumpy()})[0]
    assert found.dtype == np.float16 and found.tolist() == [1, 4, 3]


def test_files_without_parameters(tmp_path):
    class Twice(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return F.Crop(x, offset=(1, 0), h_w=(2, 3)) * 2
    net = Twice()
    net.hybridize()
    x = mx.nd.array(RNG.randn(1, 2, 4, 5))
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    path = mx.onnx.export_model(f"{tmp_path}/net-symbol.json", f"{tmp_path}/net-0000.params", [x.shape], np.float32,
                                str(tmp_path / "net.onnx"))
    np.testing.assert_array_equal(run_onnx(path, {"data": x.asnumpy()})[0], want)


def test_windows_beyond_the_padding(tmp_path):
    image = sym.var("x0")
    found = [sym.Pooling(image, kernel=(3, 4), stride=stride, pad=pad, pool_type=kind, pooling_convention="full", **how)
             for stride, pad in (((2, 3), (0, 0)), ((3, 4), (1, 2)), ((4, 5), (2, 3)))
             for kind, how in (("max", {}), ("avg", {"count_include_pad": True}), ("avg", {"count_include_pad": False}),
                               ("sum", {}), ("lp", {"p_value": 2}))]
    check(tmp_path, sym.Group(found), [RNG.uniform(0.1, 1, (1, 2, 9, 9))], back=False)


def test_draws(tmp_path):
    like = sym.var("x0")
    found = [sym.random.uniform(2, 3, shape=(40, 50), dtype="float64"), sym.random.normal(5, 0.1, shape=(40, 50)),
             sym.random.uniform_like(like, -3, -2), sym.random.normal_like(like, -5, 0.1)]
    classes = sym.sample_multinomial(sym.var("x1"), shape=(300,))
    path = mx.onnx.export_model(sym.Group([*found, classes]), {}, [(30, 20), (2, 3)], [np.float16, np.float32],
                                str(tmp_path / "draws.onnx"))
    given = {"x0": np.zeros((30, 20), "float16"), "x1": np.array([[0.2, 0.8, 0], [1, 0, 0]], "float32")}
    back = mx.contrib.onnx.import_to_gluon(mx.onnx.export_model(
        sym.Group([*found[:2], classes]), {}, [(2, 3)], onnx_file_path=str(tmp_path / "some.onnx")), mx.cpu())
    again = [a.asnumpy() for a in back(mx.nd.array(given["x1"]))]
    got = run_onnx(path, given)
    for uniform, dtype, low in ((got[0], "float64", 2), (got[2], "float16", -3), (again[0], None, 2)):
        assert (dtype is None or uniform.dtype == dtype) and low <= uniform.min() and uniform.max() <= low + 1
        assert 0.4 < uniform.mean() - low < 0.6
    for normal, mean in ((got[1], 5), (got[3], -5), (again[1], 5)):
        assert abs(normal.mean() - mean) < 0.05 and 0.07 < normal.std() < 0.13
    for drawn in (got[4], again[2]):
        assert drawn.shape == (2, 300) and not drawn[1].any() and 0.65 < drawn[0].mean() < 0.95


def test_reductions(tmp_path):
    a = sym.var("x0")
    found = [f(a, axis=axis, keepdims=keep) for f in (sym.sum, sym.mean, sym.max, sym.min, sym.prod)
             for axis, keep in ((1, False), ((0, 2), True))]
    found += [sym.sum(a), sym.sum(a, axis=1, exclude=True), sym.norm(a, ord=2, axis=1), sym.norm(a, ord=1, axis=2),
              sym.argmax(a, axis=1), sym.argmin(a, axis=2, keepdims=True)]
    check(tmp_path, sym.Group(found), [RNG.randn(2, 3, 4)])


def test_shapes(tmp_path):
    a, b = variables(2)
    found = [a.reshape((0, -1)), a.reshape((-3, 0)), a.reshape((0, 0, -4, 2, -1)), sym.Flatten(a), a.transpose(),
             a.transpose((1, 0, 2)), sym.swapaxes(a, 0, 2), a.expand_dims(1), sym.squeeze(a.expand_dims(0)),
             sym.slice(a, (0, 1), (None, 3)), sym.slice(a, (None, None), (None, None), (1, -1)), sym.tile(a, (2, 1, 1)),
             sym.slice_axis(a, axis=-1, begin=1, end=None), sym.slice_like(a, b, axes=(1,)), sym.concat(a, a, dim=1),
             sym.stack(a, a, axis=1), *sym.split(a, num_outputs=2, axis=2), sym.repeat(a, 2, axis=1),
             sym.split_v2(a, (1, 3), axis=2)[1], sym.reverse(a, axis=1), sym.broadcast_axis(
                 sym.slice_axis(a, axis=1, begin=0, end=1), axis=1, size=5), sym.zeros_like(a), sym.ones_like(a) * 2,
             sym.shape_array(a), sym.arange(0, 6), sym.contrib.arange_like(a, axis=1), sym.broadcast_like(
                 sym.slice_axis(a, axis=0, begin=0, end=1), a)]
    check(tmp_path, sym.Group(found), [RNG.randn(2, 3, 4), RNG.randn(9, 2, 9)])


def test_indexing(tmp_path):
    a, b = variables(2)
    places = np.array([[0, 2], [1, 1]], "float32")
    found = [sym.take(a, b), sym.take(a, b, axis=1), sym.one_hot(b, 3), sym.gather_nd(a, b),
             sym.pick(a, sym.slice_axis(b, axis=1, begin=0, end=1).reshape((-1,)).tile(2).slice_axis(0, 0, 3), axis=1),
             sym.topk(a, k=2, ret_typ="value"), sym.sort(a, axis=0, is_ascend=True), sym.argsort(a)]
    check(tmp_path, sym.Group(found), [RNG.randn(3, 4), places], back=False)
    ids = sym.Embedding(sym.var("x0"), input_dim=5, output_dim=3, name="embed")
    check(tmp_path, ids, [np.array([[1, 4], [0, 2]], "float32")], {"embed_weight": RNG.randn(5, 3)})
    lengths = sym.var("x1")
    backwards = [sym.SequenceReverse(a), sym.SequenceReverse(a, sym.var("x1"), True)]
    check(tmp_path, sym.Group(backwards), [RNG.randn(4, 3, 2), np.array([1, 2, 4], "float32")])
    masked = [sym.SequenceMask(a, lengths, True, value=-1), sym.SequenceLast(a, lengths, True),
              sym.softmax(sym.transpose(a), lengths, use_length=True)]
    check(tmp_path, sym.Group(masked), [RNG.randn(4, 3), np.array([1, 2, 4], "float32")], back=False)


def test_layers(tmp_path):
    a = sym.var("x0")
    image = sym.var("x1")
    params = {}

    def param(name, *shape):
        params[name] = RNG.uniform(0.5, 1.5, shape)
        return sym.var(name)
    conv = sym.Convolution(image, param("cw", 4, 2, 3, 3), param("cb", 4), kernel=(3, 3), num_filter=4, pad=(1, 1),
                           stride=(2, 2))
    back = sym.Deconvolution(conv, param("dw", 4, 2, 4, 4), kernel=(4, 4), num_filter=2, stride=(2, 2), pad=(1, 1),
                             no_bias=True)
    norm = sym.BatchNorm(image, param("bg", 2), param("bb", 2), param("bm", 2), param("bv", 2), fix_gamma=False)
    pools = [sym.Pooling(image, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=t, pooling_convention=c)
             for t, c in (("max", "full"), ("avg", "valid"), ("max", "valid"))]
    pools += [sym.Pooling(image, kernel=(2, 2), pool_type="avg", count_include_pad=False),
              sym.Pooling(image, global_pool=True, kernel=(1, 1), pool_type="avg"),
              sym.contrib.AdaptiveAvgPooling2D(image, output_size=3)]
    dense = sym.FullyConnected(a, param("fw", 5, 12), param("fb", 5), num_hidden=5)
    rows = sym.FullyConnected(a, param("rw", 5, 4), num_hidden=5, no_bias=True, flatten=False)
    acts = [sym.Activation(a, act_type=t) for t in ("relu", "softrelu", "tanh", "softsign")]
    acts += [sym.LeakyReLU(a, act_type=t) for t in ("leaky", "elu", "selu", "gelu")]
    acts += [sym.LeakyReLU(image, param("pg", 2), act_type="prelu"), sym.softmax(a, axis=1, temperature=2.0),
             sym.log_softmax(a), sym.softmin(a), sym.SoftmaxActivation(image, mode="channel")]
    norms = [sym.LayerNorm(a, param("lg", 4), param("lb", 4)), sym.LayerNorm(a, param("mg", 3), param("mb", 3), axis=1),
             sym.InstanceNorm(image, param("ig", 2), param("ib", 2)), sym.L2Normalization(a), sym.LRN(image, nsize=3),
             sym.GroupNorm(conv, param("gg", 2), param("gb", 2), num_groups=2), sym.Dropout(a)]
    resized = [sym.UpSampling(image, scale=2, sample_type="nearest"), sym.Pad(image, mode="edge",
               pad_width=(0, 0, 0, 0, 1, 2, 0, 1)), sym.contrib.BilinearResize2D(image, height=9, width=4),
               sym.space_to_depth(image, 3), sym.depth_to_space(conv, 2)]
    out = sym.Group([conv, back, norm, *pools, dense, rows, *acts, *norms, *resized])
    check(tmp_path, out, [RNG.randn(2, 3, 4), RNG.randn(2, 2, 6, 6)], params, tol=2e-4)


def test_attention(tmp_path):
    a, b = variables(2)
    scores = sym.contrib.interleaved_matmul_selfatt_qk(a, heads=2)
    found = [scores, sym.contrib.interleaved_matmul_selfatt_valatt(a, sym.softmax(scores), heads=2)]
    cross = sym.contrib.interleaved_matmul_encdec_qk(b, sym.slice_axis(a, axis=2, begin=0, end=16), heads=2)
    found += [cross, sym.contrib.interleaved_matmul_encdec_valatt(sym.slice_axis(a, axis=2, begin=0, end=16),
                                                                 cross, heads=2), sym.contrib.div_sqrt_dim(a),
              sym.batch_dot(a, a, transpose_b=True),
              sym.dot(a, sym.slice_axis(b, axis=0, begin=0, end=1).reshape((8, 2)).tile((3, 1))),
              sym.linalg.gemm2(a, a, transpose_a=True, alpha=0.5)]
    check(tmp_path, sym.Group(found), [RNG.randn(5, 2, 24), RNG.randn(4, 2, 8)])


def test_softmax_of_several_axes(tmp_path):
    """In prediction the last axis counts, or that of the channels."""
    for shape in ((2, 3, 4), (2, 3, 2, 4)):
        x, = variables(1)
        data = [RNG.randn(*shape)]
        for out in (sym.SoftmaxActivation(x), sym.SoftmaxActivation(x, mode="channel"), sym.softmax(x, axis=1)):
            check(tmp_path, out, data)
        values = mx.nd.array(data[0])
        for wanted, params in ((values.softmax(axis=1), {"multi_output": True}), (values.softmax(), {})):
            path = mx.onnx.export_model(sym.SoftmaxOutput(x, name="loss", **params), {}, [shape], np.float32,
                                        str(tmp_path / "loss.onnx"))
            np.testing.assert_allclose(run_onnx(path, {"x0": values.asnumpy()})[0], wanted.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_relu"])
def test_recurrent(tmp_path, mode):
    layer = {"lstm": gluon.rnn.LSTM, "gru": gluon.rnn.GRU, "rnn_relu": gluon.rnn.RNN}[mode](
        4, num_layers=2, bidirectional=mode != "gru")
    layer.initialize(mx.init.Uniform(0.5))
    layer.hybridize()
    x = mx.nd.array(RNG.randn(3, 2, 5))
    state = [mx.nd.array(RNG.randn(*s.shape)) for s in layer.begin_state(2)]
    want, last = layer(x, state)
    out, params = graph_of(layer), {p.name: p.data() for p in layer.collect_params().values()}
    path = mx.onnx.export_model(out, params, [x.shape, *(s.shape for s in state)],
                                onnx_file_path=str(tmp_path / "rnn.onnx"))
    names = [n for n in out.list_inputs() if n not in params]
    values = dict(zip(names, [a.asnumpy() for a in (x, *state)], strict=True))
    for got, expected in zip(run_onnx(path, values), [want, *last], strict=True):
        np.testing.assert_allclose(got, expected.asnumpy(), rtol=1e-4, atol=1e-5)
    order = [n for end in ("weight", "bias") for n in params if n.endswith(end)]
    flat = sym.concat(*(sym.var(n).reshape((-1,)) for n in order), dim=0)  # weights that are inputs
    starts = [sym.var(f"state{i}") for i in range(len(state))]
    free = sym.RNN(sym.var("data"), flat, *starts, state_size=4, num_layers=2, bidirectional=mode != "gru", mode=mode)
    inputs = {"data": x, **{f"state{i}": s for i, s in enumerate(state)}, **params}
    free_path = mx.onnx.export_model(free, {}, [inputs[n].shape for n in free.list_inputs()],
                                     onnx_file_path=str(tmp_path / "free.onnx"))
    found = run_onnx(free_path, {k: v.asnumpy() for k, v in inputs.items()})[0]
    np.testing.assert_allclose(found, want.asnumpy(), rtol=1e-4, atol=1e-5)
    block = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    for got, expected in zip(block(x, *state), [want, *last], strict=True):
        np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


def test_boxes(tmp_path):
    rows = RNG.rand(2, 12, 6)
    rows[..., 0] = RNG.randint(0, 2, (2, 12))
    rows[..., 4:] += rows[..., 2:4]
    a = sym.var("x0")
    found = [sym.contrib.box_nms(a, overlap_thresh=0.2, valid_thresh=0.1, id_index=0, force_suppress=force,
                                 topk=topk)[0] for force, topk in ((True, -1), (False, -1), (False, 7))]
    check(tmp_path, sym.Group(found), [rows], back=False)
    rois = np.array([[0, 1, 1, 5, 5], [1, 0, 0, 3, 3]])
    aligned = sym.contrib.ROIAlign(a, sym.var("x1"), pooled_size=(2, 2), spatial_scale=0.5, sample_ratio=2)
    check(tmp_path, aligned, [RNG.randn(2, 2, 6, 6), rois])
    rois[0, 0] = -1  # of no image
    check(tmp_path, aligned, [RNG.randn(2, 2, 6, 6), rois], back=False)
    decoded = sym.contrib.box_decode(a, sym.var("x1"), 0.1, 0.1, 0.2, 0.2, format="corner")
    check(tmp_path, decoded, [RNG.randn(2, 3, 4), np.array([[[0, 0, 1, 1], [0, 0, 2, 1], [1, 1, 2, 3]]])])


def test_dynamic_shapes(tmp_path):
    a = sym.var("x0")
    hidden = sym.Activation(sym.Convolution(a, kernel=(3, 3), num_filter=4, name="conv"), act_type="relu")
    half = sym.slice_axis(hidden, axis=1, begin=0, end=2)
    mixed = hidden.reshape((0, -4, 2, -1, -2)).sum(axis=1) + sym.zeros_like(half)
    out = sym.softmax(sym.FullyConnected(sym.Pooling(mixed, global_pool=True, kernel=(1, 1), pool_type="avg"),
                                         num_hidden=3, name="fc"))
    shapes = dict(zip(out.list_arguments(), out.infer_shape(x0=(1, 2, 8, 8))[0], strict=True))
    params = {n: mx.nd.array(RNG.randn(*s)) for n, s in shapes.items() if n != "x0"}
    path = str(tmp_path / "dynamic.onnx")
    mx.onnx.export_model(out, params, [(1, 2, 8, 8)], onnx_file_path=path, dynamic=True,
                         dynamic_input_shapes=[("batch", 2, None, None)])
    for shape in ((1, 2, 8, 8), (3, 2, 6, 11)):
        x = RNG.randn(*shape).astype("float32")
        want = out.bind(mx.cpu(), {"x0": mx.nd.array(x), **params}).forward()[0].asnumpy()
        np.testing.assert_allclose(run_onnx(path, {"x0": x})[0], want, rtol=1e-4, atol=1e-5)
    assert mx.contrib.onnx.get_model_metadata(path)["input_tensor_data"] == [("x0", (0, 2, 0, 0), 1)]


@pytest.mark.parametrize("version", [1, 2])
def test_residual_networks(tmp_path, version):
    zoo = gluon.model_zoo.vision
    kind, block = ((zoo.ResNetV1, zoo.BasicBlockV1), (zoo.ResNetV2, zoo.BasicBlockV2))[version - 1]
    net = kind(block, [1, 1], [8, 8, 16], classes=10)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.array(RNG.randn(1, 3, 32, 32))
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    path = mx.onnx.export_model(f"{tmp_path}/net-symbol.json", f"{tmp_path}/net-0000.params", [x.shape], np.float32,
                                str(tmp_path / "net.onnx"))
    scale = np.abs(want).max()
    assert np.abs(run_onnx(path, {"data": x.asnumpy()})[0] - want).max() < 1e-4 * scale
    again, args, auxs = mx.contrib.onnx.import_model(path)
    assert set(auxs) == {n for n, p in net.collect_params().items() if "running" in n}
    out = again.bind(mx.cpu(), {"data": x, **args}, aux_states=auxs).forward()[0]
    assert np.abs(out.asnumpy() - want).max() < 1e-4 * scale


def test_parameters_beside_the_file(tmp_path):
    out = sym.FullyConnected(sym.var("x0"), sym.var("w"), sym.var("b"), num_hidden=3, name="fc")
    params = {"w": mx.nd.random.normal(shape=(3, 4)), "b": mx.nd.ones(3)}
    path = mx.onnx.export_model(out, params, [(2, 4)], onnx_file_path=str(tmp_path / "large.onnx"), large_model=True)
    assert (tmp_path / "w").stat().st_size == 48 and (tmp_path / "b").stat().st_size == 12
    x = RNG.randn(2, 4).astype("float32")
    want = mx.nd.FullyConnected(mx.nd.array(x), params["w"], params["b"], num_hidden=3).asnumpy()
    np.testing.assert_allclose(run_onnx(path, {"x0": x})[0], want, rtol=1e-5)


def test_labels_and_mistakes(tmp_path):
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("x0"), num_hidden=3, name="fc"), name="softmax")
    params = [{"fc_weight": mx.nd.ones((3, 2)), "fc_bias": mx.nd.zeros(3)}, {}]
    path = mx.onnx.export_model(net, params, [(4, 2)], onnx_file_path=str(tmp_path / "m.onnx"),
                                run_shape_inference=True)
    assert mx.contrib.onnx.get_model_metadata(path) == {"input_tensor_data": [("x0", (4, 2), 1)],
                                                       "output_tensor_data": [("softmax", (4, 3))]}
    assert "FullyConnected" in mx.onnx.get_operator_support()
    with pytest.raises(ValueError, match="inputs x0, softmax_label, got 3 shapes"):
        mx.onnx.export_model(net, params, [(4, 2), (4,), (4,)])
    with pytest.raises(ValueError, match="files or objects"):
        mx.onnx.export_model(net, "file.params", [(4, 2)])
    with pytest.raises(AttributeError, match="op type erfinv"):
        mx.onnx.export_model(sym.erfinv(sym.var("x0")), {}, [(2,)])
    with pytest.raises(mx.MXNetError, match="cannot be exported to ONNX: layout NHWC"):
        mx.onnx.export_model(sym.Pooling(sym.var("x0"), kernel=(2, 2), layout="NHWC"), {}, [(1, 4, 4, 2)])


def test_files_of_others():
    """Older and newer forms of operators, constants in nodes, shapes that are computed, and graphs in memory."""
    helper, tensor = onnx.helper, onnx.numpy_helper.from_array
    weight = RNG.randn(4, 2, 3, 3).astype("float32")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
             helper.make_node("Clip", ["c"], ["r"], min=0.0, max=6.0),  # opset 6
             helper.make_node("Shape", ["r"], ["s"]),
             helper.make_node("Constant", [], ["i"], value=tensor(np.array(0))),
             helper.make_node("Gather", ["s", "i"], ["n"], axis=0),
             helper.make_node("Unsqueeze", ["n"], ["u"], axes=[0]),
             helper.make_node("Concat", ["u", "m"], ["t"], axis=0), helper.make_node("Reshape", ["r", "t"], ["f"]),
             helper.make_node("Gemm", ["f", "g", "h"], ["y"], alpha=0.5), helper.make_node("Softmax", ["y"], ["z"])]
    params = {"w": weight, "m": np.array([-1]), "g": RNG.randn(36, 3).astype("float32"), "h": np.ones(3, "float32")}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 2, 5, 5])],
                              [helper.make_tensor_value_info("z", 1, [2, 3])],
                              [tensor(v, k) for k, v in params.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=6)
    x = RNG.randn(2, 2, 5, 5).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {"x": x})
    proto = mx.contrib.onnx.onnx2mx.import_onnx.GraphProto()
    out, args, auxs = proto.from_onnx(graph, 9)
    np.testing.assert_allclose(out.eval(x=mx.nd.array(x), **args)[0].asnumpy(), want[0], rtol=1e-4, atol=1e-6)
    assert not auxs and proto.get_graph_metadata(graph)["output_tensor_data"] == [("z", (2, 3))]
    block = proto.graph_to_gluon(graph, mx.cpu(), 9)
    np.testing.assert_allclose(block(mx.nd.array(x)).asnumpy(), want[0], rtol=1e-4, atol=1e-6)
    nodes[0].op_type = "NoSuchOperator"
    with pytest.raises(NotImplementedError, match="Operator NoSuchOperator not implemented"):
        proto.from_onnx(helper.make_graph(nodes, "g", graph.input, graph.output, graph.initializer), 9)


def test_windows_that_reach_over_the_end_of_an_unknown_image():
    helper = onnx.helper
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["n", 2, None, None])],
                              [helper.make_tensor_value_info("y", 1, ["n", 2, None, None])])
    out, _, _ = mx.contrib.onnx.onnx2mx.import_onnx.GraphProto().from_onnx(graph, 13)
    assert out.infer_shape(x=(1, 2, 8, 7))[1] == [(1, 2, 4, 3)]


def _result(model, arrays, path):
    """What import makes of an ONNX model; None where it refuses, or the arrays are of a kind that MXNet lacks."""
    onnx.save(model, path)
    try:
        out, args, auxs = mx.contrib.onnx.import_model(path)
        given = {i.name: mx.nd.array(a, dtype=np.asarray(a).dtype)
                 for i, a in zip(model.graph.input, arrays, strict=True)}
        return out.bind(mx.cpu(), {k: given.get(k, args.get(k)) for k in out.list_arguments()},
                        aux_states={k: given.get(k, auxs.get(k)) for k in out.list_auxiliary_states()}).forward()
    except (NotImplementedError, mx.MXNetError, TypeError, ValueError):
        return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the cases' own arithmetic
def test_the_standards_own_cases(tmp_path):
    """An operator of a file is what the standard says, or it is refused."""
    from onnx.backend.test.case.node import collect_testcases

    checked, wrong = 0, []
    for case in collect_testcases(None):
        for arrays, wanted in (case.data_sets or ()) if case.model is not None else ():
            found = _result(case.model, arrays, str(tmp_path / "case.onnx"))
            checked += found is not None
            for got, want in zip(found or (), map(np.asarray, wanted), strict=False):
                got = got.asnumpy().astype(np.float64)
                if got.size != want.size or not np.allclose(got.reshape(want.shape), want.astype(np.float64), 1e-3,
                                                            1e-5, True):
                    wrong.append(case.name)
    assert checked > 300
    assert {name.rstrip("0123456789") for name in wrong} <= {"test_mod_float_edge_cases_fmod_0_float"}, \
        "in MXNet the remainder of a division by 0 is 0"
