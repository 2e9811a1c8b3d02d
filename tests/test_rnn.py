"""Cells of `mx.rnn`, their weights, sentences."""

import numpy as np
import pytest

import mxjax as mx

RNG = np.random.RandomState(0)
BATCH, STEPS, SIZE, HIDDEN = 2, 3, 4, 5
DATA = RNG.randn(BATCH, STEPS, SIZE).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_rnn(i2h, h2h, states):
    out = np.tanh(i2h + h2h)
    return out, [out]


def numpy_lstm(i2h, h2h, states):
    i, f, c, o = np.split(i2h + h2h, 4, axis=1)
    cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(c)
    out = sigmoid(o) * np.tanh(cell)
    return out, [out, cell]


def numpy_gru(i2h, h2h, states):
    (ir, iz, i), (hr, hz, h) = np.split(i2h, 3, axis=1), np.split(h2h, 3, axis=1)
    update = sigmoid(iz + hz)
    out = (1 - update) * np.tanh(i + sigmoid(ir + hr) * h) + update * states[0]
    return out, [out]


CELLS = {"rnn": (mx.rnn.RNNCell, numpy_rnn, 1, 1), "lstm": (mx.rnn.LSTMCell, numpy_lstm, 4, 2),
         "gru": (mx.rnn.GRUCell, numpy_gru, 3, 1)}


def evaluated(outputs):
    """Outputs of a symbol for the data and for weights drawn at random; and all arguments."""
    symbol = mx.sym.Group(outputs) if isinstance(outputs, list) else outputs
    shapes = zip(symbol.list_arguments(), symbol.infer_shape(data=DATA.shape)[0], strict=True)
    rng = np.random.RandomState(1)
    args = {name: mx.nd.array(DATA if name == "data" else rng.randn(*shape) * 0.5) for name, shape in shapes}
    return [out.asnumpy() for out in symbol.bind(mx.cpu(), args).forward()], args


@pytest.mark.parametrize("name", CELLS)
def test_cell_is_the_formula(name):
    make, step, gates, count = CELLS[name]
    cell = make(HIDDEN, prefix="c_")
    outputs, states = cell.unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
    assert outputs.infer_shape(data=DATA.shape)[1] == [(BATCH, STEPS, HIDDEN)]
    (merged, *last), args = evaluated([outputs, *states])
    w = {key: value.asnumpy() for key, value in args.items()}
    assert w["c_i2h_weight"].shape == (gates * HIDDEN, SIZE)
    state = [np.zeros((BATCH, HIDDEN))] * count
    for t in range(STEPS):
        out, state = step(DATA[:, t] @ w["c_i2h_weight"].T + w["c_i2h_bias"],
                          state[0] @ w["c_h2h_weight"].T + w["c_h2h_bias"], state)
        np.testing.assert_allclose(merged[:, t], out, rtol=1e-4, atol=1e-5)
    for one, other in zip(last, state, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_names_of_nodes():
    outputs, _ = mx.rnn.LSTMCell(HIDDEN, prefix="l_").unroll(2, mx.sym.var("data"))
    assert mx.sym.Group(outputs).list_outputs() == ["l_t0_out_output", "l_t1_out_output"]
    internals = outputs[0].get_internals().list_outputs()
    assert {"l_t0_i2h_output", "l_t0_h2h_output", "l_t0_slice_output0", "l_t0_f_output", "l_t0_state_output"} \
        <= set(internals)


def test_layouts_and_forms_agree():
    def run(layout, data, merge):
        outputs, _ = mx.rnn.GRUCell(HIDDEN, prefix="g_").unroll(STEPS, data, layout=layout, merge_outputs=merge)
        return evaluated(outputs)[0]

    batch_major = run("NTC", mx.sym.var("data"), True)[0]
    steps = list(mx.sym.split(mx.sym.var("data"), num_outputs=STEPS, axis=1, squeeze_axis=1))
    time_major = run("TNC", mx.sym.swapaxes(mx.sym.var("data"), dim1=0, dim2=1), True)[0]
    np.testing.assert_allclose(batch_major, time_major.swapaxes(0, 1), rtol=1e-6)
    np.testing.assert_allclose(batch_major, np.stack(run("NTC", steps, False), 1), rtol=1e-6)
    with pytest.raises(AssertionError, match="3 steps got 2 inputs"):
        mx.rnn.GRUCell(HIDDEN).unroll(3, steps[:2])


def test_bidirectional_reads_backward():
    def run(make):
        outputs, _ = make().unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
        return evaluated(outputs)

    both, args = run(lambda: mx.rnn.BidirectionalCell(mx.rnn.RNNCell(HIDDEN, prefix="l_"),
                                                      mx.rnn.RNNCell(HIDDEN, prefix="r_")))
    single, _ = mx.rnn.RNNCell(HIDDEN, prefix="r_").unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
    weights = {name: value.asnumpy() for name, value in args.items() if name.startswith("r_")}
    shapes = {**weights, "data": DATA[:, ::-1]}
    backward = single.bind(mx.cpu(), {k: mx.nd.array(shapes[k]) for k in single.list_arguments()}).forward()[0]
    np.testing.assert_allclose(both[0][..., HIDDEN:], backward.asnumpy()[:, ::-1], rtol=1e-5)


def test_modifiers():
    inner = mx.rnn.RNNCell(SIZE, prefix="c_")
    residual, _ = mx.rnn.ResidualCell(inner).unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
    plain, _ = mx.rnn.RNNCell(SIZE, prefix="c_").unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
    np.testing.assert_allclose(evaluated(residual)[0][0], evaluated(plain)[0][0] + DATA, rtol=1e-5)
    with pytest.raises(RuntimeError, match="modifier cell"):
        inner.unroll(STEPS, mx.sym.var("data"))
    zoned, _ = mx.rnn.ZoneoutCell(mx.rnn.RNNCell(HIDDEN), 0.5, 0.5).unroll(STEPS, mx.sym.var("data"))
    assert mx.sym.Group(zoned).infer_shape(data=DATA.shape)[1] == [(BATCH, HIDDEN)] * STEPS
    with pytest.raises(AssertionError, match="can run single steps"):
        mx.rnn.ZoneoutCell(mx.rnn.FusedRNNCell(HIDDEN))


@pytest.mark.parametrize("name, shape", [("ConvRNNCell", 1), ("ConvLSTMCell", 4), ("ConvGRUCell", 3)])
def test_convolutional(name, shape):
    cell = getattr(mx.rnn, name)((1, 3, 6, 4), 5, prefix="c_")
    outputs, states = cell.unroll(2, [mx.sym.var("a"), mx.sym.var("b")])
    group = mx.sym.Group(outputs)
    args, outs, _ = group.infer_shape(a=(2, 3, 6, 4), b=(2, 3, 6, 4))
    assert outs == [(2, 5, 6, 4)] * 2
    assert dict(zip(group.list_arguments(), args, strict=True))["c_h2h_weight"] == (5 * shape, 5, 3, 3)
    with pytest.raises(AssertionError, match="odd"):
        getattr(mx.rnn, name)((1, 3, 6, 4), 5, h2h_kernel=(2, 2))


@pytest.mark.parametrize("mode", ["rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fused_weights_unpack_and_pack(mode, bidirectional):
    fused = mx.rnn.FusedRNNCell(HIDDEN, 2, mode, bidirectional, prefix="f_")
    directions, gates = 1 + bidirectional, len(fused._gate_names)
    size = directions * gates * HIDDEN * (SIZE + HIDDEN + 2 + directions * HIDDEN + HIDDEN + 2)
    packed = {"f_parameters": mx.nd.arange(size), "other": mx.nd.ones((1,))}
    parts = fused.unpack_weights(packed)
    assert set(packed) == {"f_parameters", "other"} and "f_parameters" not in parts
    assert len(parts) == 1 + 2 * directions * 4 * gates
    assert parts[f"f_l0_i2h{fused._gate_names[0]}_weight"].shape == (HIDDEN, SIZE)
    again = fused.pack_weights(parts)
    assert set(again) == set(packed)
    np.testing.assert_array_equal(again["f_parameters"].asnumpy(), np.arange(size))
    stack = fused.unfuse()
    unfused = stack.pack_weights(parts)
    assert unfused["f_l0_i2h_weight"].shape == (gates * HIDDEN, SIZE)
    assert set(stack.unpack_weights(unfused)) == set(parts)


def test_checkpoints_hold_unpacked_weights(tmp_path):
    cell = mx.rnn.LSTMCell(HIDDEN, prefix="c_")
    outputs, _ = cell.unroll(STEPS, mx.sym.var("data"), merge_outputs=True)
    _, args = evaluated(outputs)
    args.pop("data")
    prefix = str(tmp_path / "m")
    mx.rnn.do_rnn_checkpoint(cell, prefix)(0, outputs, args, {})
    assert "c_i2h_f_weight" in mx.model.load_params(prefix, 1)[0]
    _, loaded, _ = mx.rnn.load_rnn_checkpoint(cell, prefix, 1)
    assert set(loaded) == set(args)
    np.testing.assert_array_equal(loaded["c_h2h_weight"].asnumpy(), args["c_h2h_weight"].asnumpy())


def test_fused_initializer():
    array = mx.nd.zeros((4 * HIDDEN * (SIZE + HIDDEN + 2),))
    mx.init.FusedRNN(mx.init.One(), HIDDEN, 1, "lstm", forget_bias=3.0)(mx.init.InitDesc(
        "parameters", {"__init__": mx.init.FusedRNN(mx.init.One(), HIDDEN, 1, "lstm", forget_bias=3.0).dumps()}), array)
    parts = mx.rnn.FusedRNNCell(HIDDEN, prefix="").unpack_weights({"parameters": array})
    assert (parts["l0_i2h_i_weight"].asnumpy() == 1).all() and (parts["l0_h2h_f_bias"].asnumpy() == 3).all()
    assert (parts["l0_i2h_i_bias"].asnumpy() == 0).all()


def test_encode_sentences():
    coded, vocab = mx.rnn.encode_sentences([["a", "b"], ["b", "c"]], invalid_label=1)
    assert coded == [[0, 2], [2, 3]] and vocab == {"\n": 1, "a": 0, "b": 2, "c": 3}
    coded, vocab = mx.rnn.encode_sentences([["a", "x", "y"]], {"a": 5}, unknown_token="?", start_label=9)
    assert coded == [[5, 9, 10]] and vocab == {"a": 5, "?": 10}  # as in MXNet, a number for each unknown word
    with pytest.raises(AssertionError, match="'x' is not in the vocabulary"):
        mx.rnn.encode_sentences([["x"]], {"a": 1})


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_bucket_sentences(layout):
    sentences = [[1, 2], [3, 4, 5], [6, 7], [8, 9, 10], [1] * 9]
    batches = mx.rnn.BucketSentenceIter(sentences, 2, buckets=[4, 2], invalid_label=0, layout=layout)
    assert batches.buckets == [2, 4] and batches.default_bucket_key == 4
    seen = {}
    for batch in batches:
        data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
        if layout == "TN":
            data, label = data.T, label.T
        seen[batch.bucket_key] = sorted(data.astype(int).tolist())
        np.testing.assert_array_equal(label[:, :-1], data[:, 1:])
        assert (label[:, -1] == 0).all() and batch.provide_data[0].shape == batch.data[0].shape
    assert seen == {2: [[1, 2], [6, 7]], 4: [[3, 4, 5, 0], [8, 9, 10, 0]]}
    with pytest.raises(ValueError, match="layout"):
        mx.rnn.BucketSentenceIter(sentences, 2, layout="T")


# ------------------------------------------------------------ fused cells; numbers of MXNet 1.9.1
def told(outputs, states, **shapes):
    """For each output of an unrolled cell with certain weights: its shape, its sum, and a sum that tells the order."""
    joined = outputs if isinstance(outputs, mx.sym.Symbol) else mx.sym.Group(outputs)
    symbol = mx.sym.Group([joined, *states])
    args = {}
    for name, shape in zip(symbol.list_arguments(), symbol.infer_shape(**shapes)[0], strict=True):
        values = (np.arange(np.prod(shape)) * 7 % 13 - 6) / 10
        args[name] = mx.nd.array(values * (0 if "begin_state" in name else 1)).reshape(shape)
    found = [out.asnumpy() for out in symbol.bind(mx.cpu(), args).forward()]
    return [(out.shape, out.sum(), (out.ravel() * np.arange(out.size)).sum()) for out in found]


LAST = [((2, 2, 3), -0.3955, -3.942), ((2, 2, 3), -0.9415, -8.201)]
LAST_NTC = [((2, 2, 3), -0.3887, -4.182), ((2, 2, 3), -0.9143, -8.581)]


@pytest.mark.filterwarnings("ignore:FusedRNNCell is faster")
@pytest.mark.parametrize("layout, merge, several, options, wanted", [
    ("TNC", None, False, {}, [((4, 2, 3), -2.0332, -23.997), *LAST]),
    ("TNC", None, False, {"get_next_state": False}, [((4, 2, 3), -2.0332, -23.997)]),
    ("NTC", None, False, {}, [((2, 4, 3), -2.0206, -22.803), *LAST_NTC]),
    ("NTC", True, False, {}, [((2, 4, 3), -2.0206, -22.803), *LAST_NTC]),
    ("NTC", False, False, {}, [((2, 3), -0.3926, -0.793), ((2, 3), -0.5014, -1.026), ((2, 3), -0.5555, -1.148),
                               ((2, 3), -0.5711, -1.141), *LAST_NTC]),
    ("TNC", False, False, {}, [((2, 3), -0.3932, -0.792), ((2, 3), -0.5294, -1.097), ((2, 3), -0.5499, -1.122),
                               ((2, 3), -0.5608, -1.118), *LAST]),
    ("NTC", True, True, {}, [((2, 4, 3), -2.1636, -23.67), ((2, 2, 3), -0.277, -4.014), ((2, 2, 3), -0.886, -8.843)]),
    ("TNC", None, False, {"mode": "gru"}, [((4, 2, 3), 4.1246, 44.098), ((2, 2, 3), -0.1875, 3.929)]),
    ("TNC", None, False, {"mode": "rnn_tanh"}, [((4, 2, 3), 0.1837, -11.892), ((2, 2, 3), 0.0548, -6.543)]),
    ("TNC", None, False, {"mode": "rnn_relu", "bidirectional": True},
     [((4, 2, 6), 10.2697, 237.574), ((4, 2, 3), 6.3752, 73.624)]),
    ("NTC", None, False, {"bidirectional": True, "num_layers": 1},
     [((2, 4, 6), -3.9668, -74.264), ((2, 2, 3), -1.2317, -8.648), ((2, 2, 3), -3.0568, -21.327)]),
])
def test_fused_cells(layout, merge, several, options, wanted):
    cell = mx.rnn.FusedRNNCell(3, **{"num_layers": 2, "get_next_state": True, "prefix": "f_", **options})
    names = [f"x{i}" for i in range(4)] if several else ["x"]
    inputs = [mx.sym.var(name) for name in names]
    outputs, states = cell.unroll(4, inputs if several else inputs[0], layout=layout, merge_outputs=merge)
    assert all(state.attr("__layout__") == "LNC" for state in states)
    shape = (2, 5) if several else (4, 2, 5) if layout == "TNC" else (2, 4, 5)
    found = told(outputs, states, **dict.fromkeys(names, shape))
    assert [one[0] for one in found] == [one[0] for one in wanted]
    np.testing.assert_allclose([one[1:] for one in found], [one[1:] for one in wanted], atol=2e-3)


def test_states_and_parts_of_fused_cells():
    state = {"shape": (1, 0, 3), "__layout__": "LNC"}
    fused = mx.rnn.FusedRNNCell(3, prefix="f_")
    assert fused.state_info == [state, state] and fused.state_shape == [(1, 0, 3)] * 2
    assert mx.rnn.FusedRNNCell(3, mode="gru", bidirectional=True).state_info == [{**state, "shape": (2, 0, 3)}]
    stack = mx.rnn.FusedRNNCell(3, 2, "gru", dropout=0.5, prefix="f_").unfuse()
    assert stack.state_shape == [(0, 3)] * 2
    names = mx.sym.Group(stack.unroll(1, mx.sym.var("x"))[0]).get_internals().list_outputs()
    assert sum(name.startswith("dropout") for name in names) == 1  # between the layers
    with pytest.raises(NotImplementedError, match="FusedRNNCell cannot run single steps"):
        fused(mx.sym.var("x"), [])
    with pytest.warns(UserWarning, match="faster with layout TNC"):
        fused.unroll(2, mx.sym.var("x"))


def two_cells():
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(3, prefix="a_"))
    cell.add(mx.rnn.GRUCell(3, prefix="b_"))
    return cell


@pytest.mark.parametrize("cell, shape, sums", [
    (two_cells(), [(0, 3)] * 3, [0.3071, -0.0933, 0.099, 0.3071]),
    (mx.rnn.ResidualCell(mx.rnn.RNNCell(3, prefix="r_")), [(0, 3)], [-3.433, -2.533]),
    (mx.rnn.ZoneoutCell(mx.rnn.RNNCell(3, prefix="r_"), 0.0, 0.0), [(0, 3)], [-2.533, -2.533]),
    (mx.rnn.DropoutCell(0.0), [], [-0.9])])
def test_single_steps(cell, shape, sums):
    assert cell.state_shape == shape
    found = told(*cell(mx.sym.var("x"), cell.begin_state()), x=(2, 3))
    np.testing.assert_allclose([one[1] for one in found], sums, atol=1e-4)
    assert {one[0] for one in found} == {(2, 3)}


def test_the_deprecated_function():
    with pytest.warns(DeprecationWarning, match="rnn_unroll is deprecated"):
        outputs, _ = mx.rnn.rnn_unroll(mx.rnn.RNNCell(3, prefix="r_"), 2, input_prefix="q_")
    assert [n for n in mx.sym.Group(outputs).list_arguments() if n[0] == "q"] == ["q_t0_data", "q_t1_data"]


@pytest.mark.parametrize("call, error, message", [
    (lambda: mx.rnn.RNNCell(3).unroll(None, mx.sym.var("x")), ValueError, "unroll needs length"),
    (lambda: mx.rnn.RNNCell(3).unroll(2, [mx.sym.var("x")]), AssertionError, "unroll over 2 steps got 1 inputs"),
    (lambda: mx.rnn.BidirectionalCell(mx.rnn.RNNCell(3), mx.rnn.RNNCell(3))(1, []), NotImplementedError, "Bidir"),
    (lambda: mx.rnn.BaseRNNCell()(1, 2), NotImplementedError, "BaseRNNCell cannot run single steps"),
    (lambda: mx.rnn.BaseRNNCell().state_info, NotImplementedError, None),
    (lambda: mx.rnn.ZoneoutCell(mx.rnn.FusedRNNCell(3)), AssertionError, "unfuse a FusedRNNCell"),
    (lambda: mx.rnn.SequentialRNNCell(mx.rnn.RNNParams("a_")).add(mx.rnn.RNNCell(3, params=mx.rnn.RNNParams("b_"))),
     AssertionError, "either SequentialRNNCell or its cells may have params"),
    (lambda: mx.rnn.BucketSentenceIter([[1, 2], [1]], 2), ValueError, "no length has 2 sentences"),
    (lambda: mx.rnn.BucketSentenceIter([[1, 2]], 1, layout="XX"), ValueError, "layout must be NT .*'XX'"),
])
def test_what_cells_refuse(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_buckets_are_the_lengths_of_enough_sentences(capsys):
    made = mx.rnn.BucketSentenceIter([[1, 2], [1, 2], [1, 2, 3], [1]], 2)
    assert (made.buckets, made.default_bucket_key, made.data[0].shape) == ([2], 2, (3, 2))
    assert "discarded 1 sentences" in capsys.readouterr().out
    assert sorted(made.data[0].tolist()) == [[1, -1], [1, 2], [1, 2]]
