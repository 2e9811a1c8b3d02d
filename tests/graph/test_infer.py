"""Shapes and dtypes worked out in both directions, and contradictions that name the node."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

A, B, C = (mx.sym.Variable(name) for name in "abc")
DATA = mx.sym.Variable("data")


def shapes(symbol, **given):
    """(arguments by name, outputs)."""
    args, outs, _ = symbol.infer_shape(**given)
    return dict(zip(symbol.list_arguments(), args, strict=True)), outs


def test_forwards():
    net = mx.sym.Convolution(DATA, kernel=(3, 3), num_filter=8, name="conv")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="fc")
    args, outs = shapes(net, data=(2, 3, 10, 12))
    assert args == {"data": (2, 3, 10, 12), "conv_weight": (8, 3, 3, 3), "conv_bias": (8,), "fc_weight": (5, 640),
                    "fc_bias": (5,)}
    assert outs == [(2, 5)]


@pytest.mark.parametrize("symbol, given, wanted", [
    (A * B + B * C, {"a": (2, 0), "b": (0, 3)}, {"a": (2, 3), "b": (2, 3), "c": (2, 3)}),
    (mx.sym.exp(A) + B, {"b": (4, 5)}, {"a": (4, 5), "b": (4, 5)}),
    (mx.sym.relu(A * 2) - mx.sym.BlockGrad(B), {"a": (0, 7), "b": (3, 0)}, {"a": (3, 7), "b": (3, 7)}),
    (mx.sym.FullyConnected(DATA, weight=A, num_hidden=4, no_bias=True), {"data": (2, 6)},
     {"data": (2, 6), "a": (4, 6)}),
    (mx.sym.Concat(A, B, dim=1) + C, {"a": (2, 3), "c": (2, 5), "b": (2, 2)}, {"a": (2, 3), "b": (2, 2), "c": (2, 5)})])
def test_backwards(symbol, given, wanted):
    args, outs = shapes(symbol, **given)
    assert args == wanted
    assert all(0 not in s for s in outs)


def test_by_position_and_from_variables():
    assert (A + B).infer_shape((2, 3))[0] == [(2, 3), (2, 3)]
    declared = mx.sym.Variable("d", shape=(2, 0)) + A
    assert declared.infer_shape(a=(0, 9))[0] == [(2, 9), (2, 9)]
    with pytest.raises(ValueError):
        (A + B).infer_shape((2, 3), b=(2, 3))
    with pytest.raises(TypeError, match="a"):
        (A + B).infer_shape(a="wide")


def test_what_stays_unknown():
    with pytest.warns(UserWarning, match="Cannot decide shape.*b"):
        assert mx.sym.dot(A, B).infer_shape(a=(2, 3)) == (None, None, None)
    args, outs, _ = (A + B).infer_shape_partial(a=(2, 0))
    assert args == [(2, 0), (2, 0)] and outs == [(2, 0)]
    assert (A + B).infer_shape_partial()[1] == [()]
    with mx.util.np_shape():
        assert (A + B).infer_shape_partial(a=(2, -1))[0] == [(2, -1), (2, -1)]
        assert (A + B).infer_shape(a=(2, 0))[1] == [(2, 0)], "0 is a size there"


def test_auxiliary_states():
    _, outs, aux = mx.sym.BatchNorm(DATA).infer_shape(data=(2, 6, 3, 3))
    assert outs == [(2, 6, 3, 3)] and aux == [(6,), (6,)]


@pytest.mark.parametrize("symbol, given, words", [
    (mx.sym.elemwise_add(A, B, name="the_sum"), {"a": (2, 3), "b": (2, 4)}, r"the_sum.*\(2, 3\).*\(2, 4\)"),
    (mx.sym.FullyConnected(DATA, num_hidden=4, name="the_fc"), {"data": (2, 3), "the_fc_weight": (4, 5)},
     r"the_fc.*weight.*\(4, 5\).*\(4, 3\)|the_fc.*weight.*\(4, 3\).*\(4, 5\)"),
    (mx.sym.dot(A, B, name="the_product"), {"a": (2, 3), "b": (4, 5)}, "the_product"),
    (mx.sym.Reshape(A, shape=(7, 7), name="the_shape"), {"a": (2, 3)}, "the_shape"),
    (mx.sym.Convolution(DATA, kernel=(3, 3), num_filter=1, name="the_conv"), {"data": (2, 3)}, "the_conv"),
    (mx.sym.Concat(A, B, dim=0, name="the_concat"), {"a": (2, 3), "b": (2, 4)}, "the_concat")])
def test_contradictions_name_the_node(symbol, given, words):
    with pytest.raises(MXNetError, match=words):
        symbol.infer_shape(**given)


def test_inputs_that_the_symbol_does_not_have():
    for infer, value in ((DATA.infer_shape, (2,)), (DATA.infer_shape_partial, (2,)), (DATA.infer_type, "float32")):
        with pytest.raises(MXNetError, match="no input 'other'; its inputs are data"):
            infer(data=value, other=value)
        with pytest.raises(MXNetError, match="no input"):
            infer(value, value)
    assert (DATA * 2).simple_bind(mx.cpu(), data=(2,), other=(3,)).forward()[0].shape == (2,)


def test_types():
    net = mx.sym.FullyConnected(DATA, num_hidden=3, name="fc")
    args, outs, _ = net.infer_type(data="float16")
    assert args == [np.float16] * 3 and outs == [np.float16]
    assert net.infer_type(fc_weight=np.float64)[0] == [np.float64] * 3, "from the weight to the data"
    assert mx.sym.Cast(A, dtype="int32").infer_type(a="float32")[1] == [np.int32]
    args, outs, _ = mx.sym.Embedding(DATA, input_dim=5, output_dim=2, dtype="float64").infer_type(data="int32")
    assert outs == [np.float64] and args == [np.int32, np.float64]
    normed = mx.sym.BatchNorm(DATA).infer_type(data="float16")
    assert normed[0] == [np.float16, np.float32, np.float32] and normed[2] == [np.float32, np.float32]


@pytest.mark.parametrize("out, given, wanted", [
    (mx.sym.where(A, B, C), {"a": "int32", "b": "float16"}, ["float16"]),
    (mx.sym.np.where(A.as_np_ndarray(), B.as_np_ndarray(), C.as_np_ndarray()), {"a": "bool", "c": "int8"}, ["int8"]),
    (mx.sym.contrib.allclose(A, B), {"a": "float32"}, ["uint8"]),
    (mx.sym.sample_gamma(A, B), {"a": "float64"}, ["float32"]),
    (mx.sym.sample_normal(A, B, dtype="float16"), {"a": "float32"}, ["float16"]),
    (mx.sym.histogram(A, B)[0], {"a": "float32"}, ["int64"]),
    (mx.sym.amp_cast(A, dtype="float16"), {"a": "float32"}, ["float16"]),
    (mx.sym.amp_cast(A, dtype="float16"), {"a": "int32"}, ["int32"]),
    (mx.sym.multi_all_finite(A, B, num_arrays=2), {"a": "float16", "b": "float64"}, ["float32"]),
    (mx.sym.image.to_tensor(A), {"a": "uint8"}, ["float32"]),
    (mx.sym.SequenceLast(A, B, True), {"a": "float16"}, ["float16"]),
])
def test_results_of_another_type(out, given, wanted):
    """As MXNet's `infer_type` says, and as they are."""
    assert [np.dtype(t).name for t in out.infer_type(**given)[1]] == wanted


def test_bound_arrays_have_the_inferred_types():
    net = mx.sym.FullyConnected(DATA, num_hidden=3)
    executor = net.simple_bind(mx.cpu(), data=(2, 4), type_dict={"data": "float64"})
    assert {a.dtype for a in executor.arg_arrays} == {np.float64} and executor.forward()[0].dtype == np.float64
    with pytest.raises(MXNetError, match="data"):
        net.simple_bind(mx.cpu())


def test_a_range_as_long_as_what_it_meets():
    total = mx.sym.arange(start=2, step=3, repeat=2, infer_range=True) + mx.sym.var("a")
    assert total.infer_shape(a=(5,)) == ([(5,)], [(5,)], [])
    assert total.eval(a=mx.nd.zeros((5,)))[0].asnumpy().tolist() == [2, 2, 5, 5, 8]


def test_made_arrays_of_unknown_shape():
    total = mx.sym.ones(shape=(2, -1)) + mx.sym.transpose(mx.sym.ones(shape=(3, 0)))
    assert total.eval()[0].asnumpy().tolist() == [[2, 2, 2], [2, 2, 2]]


def test_simple_bind_ignores_what_is_no_shape():
    assert (A * 2).simple_bind(mx.cpu(), a=(2, 3), force_rebind=True).outputs[0].shape == (2, 3)


def test_slices_of_unknown_lengths_are_unknown():
    data = mx.sym.var("data", shape=(0, 20))
    assert mx.sym.slice(data, begin=(None, 3), end=(5, 10)).infer_shape_partial()[1] == [(0, 7)]
    assert mx.sym.slice_axis(data, axis=0, begin=0, end=5).infer_shape_partial()[1] == [(0, 20)]


def test_arrays_made_without_a_shape_have_that_of_the_graph():
    x = mx.sym.var("x")
    for made in (mx.sym.random.randn(loc=1, data=mx.sym.ones((9,))), mx.sym.zeros(()), mx.sym.random.uniform(shape=())):
        out = made + x
        assert out.list_arguments() == ["x"] and out.infer_shape(x=(2, 3))[1] == [(2, 3)]
        assert out.eval(x=mx.nd.zeros((2, 3)))[0].shape == (2, 3)
    with mx.np_shape():
        assert mx.sym.zeros(()).infer_shape()[1] == [()]


ALIKE = {"add": lambda s, a, b: s.elemwise_add(a, b), "plus": lambda s, a, b: a + b, "dot": lambda s, a, b: s.dot(a, b),
         "concat": lambda s, a, b: s.concat(a, b, dim=0), "stack": lambda s, a, b: s.stack(a, b),
         "dense": lambda s, a, b: s.FullyConnected(a, b, no_bias=True, num_hidden=2),
         "loss": lambda s, a, b: s.LinearRegressionOutput(a, b),
         "prelu": lambda s, a, b: s.LeakyReLU(a, b, act_type="prelu"),
         "choice": lambda s, a, b: s.where(a, a, b), "sum": lambda s, a, b: s.add_n(a, b),
         "maximum": lambda s, a, b: s.broadcast_maximum(a, b)}


@pytest.mark.parametrize("name", ALIKE)
def test_inputs_of_different_dtypes_are_refused(name):
    """In inference, in calls, hybridized and when an executor is made, as MXNet does."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    symbol = ALIKE[name](mx.sym, a, b)
    with pytest.raises(MXNetError, match="the same dtype, got .*float16.*float32"):
        symbol.infer_type(a="float16", b="float32")
    assert symbol.infer_type(a="float16")[0] == [np.float16] * 2
    with pytest.raises(MXNetError, match="the same dtype"):
        symbol.simple_bind(mx.cpu(), a=(2, 2), b=(2, 2), type_dict={"a": "float16", "b": "float32"})
    half, whole = mx.nd.ones((2, 2), dtype="float16"), mx.nd.ones((2, 2))
    with pytest.raises(MXNetError, match="the same dtype"):
        ALIKE[name](mx.nd, half, whole).wait_to_read()
    net = mx.gluon.nn.HybridLambda(lambda F, x, y: ALIKE[name](F, x, y))
    net.hybridize()
    with pytest.raises(MXNetError, match="the same dtype"):
        net(half, whole).wait_to_read()


def test_networks_refuse_data_of_another_dtype():
    for hybrid in (False, True):
        net = mx.gluon.nn.Dense(2, in_units=2)
        net.initialize()
        net.cast("float16")
        net.hybridize(hybrid)
        with pytest.raises(MXNetError, match="the same dtype, got data float32, weight float16"):
            net(mx.nd.ones((2, 2))).wait_to_read()
        assert net(mx.nd.ones((2, 2), dtype="float16")).dtype == np.float16


def test_inputs_whose_dtypes_are_their_own():
    a, b, c = (mx.sym.var(name) for name in "abc")
    for symbol in (mx.sym.take(a, b), mx.sym.slice_like(a, b), mx.sym.where(b, a, a), mx.sym.broadcast_like(a, b),
                   mx.sym.reshape_like(a, b), mx.sym.SequenceMask(a, b, use_sequence_length=True)):
        types, outs, _ = symbol.infer_type(a="float16", b="int32")
        assert dict(zip(symbol.list_arguments(), types, strict=True)) == {"a": np.float16, "b": np.int32}
        assert outs == [np.float16]
    lengths = mx.sym.RNN(a, state_size=3, num_layers=1, mode="gru", use_sequence_length=True, name="r")
    assert lengths.infer_type(a="float16")[0] == [np.float16] * 4
    assert lengths.infer_type(a="float16", r_sequence_length="int32")[0][3] == np.int32
    norm = mx.sym.BatchNorm(a, b, c)
    assert norm.infer_type(a="float16")[0] == [np.float16, np.float32, np.float32]
    with pytest.raises(MXNetError, match="the same dtype"):
        norm.infer_type(a="float64", b="float32")
    x, gamma = mx.nd.ones((2, 3), dtype="float64"), mx.nd.ones(3)
    with pytest.raises(MXNetError, match="the same dtype"):
        mx.nd.BatchNorm(x, gamma, gamma, gamma, gamma).wait_to_read()
    update = mx.sym.multi_mp_sgd_update(a, b, c, lrs=(0.1,), wds=(0,), num_weights=1)
    assert update.infer_type(a="float16")[::2] == ([np.float16] * 2, [np.float32])
    update = mx.sym.mp_lamb_update_phase1(a, b, c, mx.sym.var("d"), mx.sym.var("e"), t=1, wd=0)
    assert update.infer_type(a="float16") == ([np.float16] * 2 + [np.float32], [np.float32], [np.float32] * 2)
    lengths = mx.sym.softmax(a, b, use_length=True, axis=1)
    assert lengths.infer_type(a="float16")[:2] == ([np.float16, np.int32], [np.float16])
