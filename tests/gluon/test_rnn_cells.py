"""Recurrent cells: steps against NumPy, unrolling, combinations."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import rnn

X = np.random.RandomState(0).randn(2, 3, 4).astype("float32") / 2


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _rnn(x, h, w, u):
    new = np.tanh(x @ w.T + h[0] @ u.T)
    return new, [new]


def _lstm(x, h, w, u):
    i, f, c, o = np.split(x @ w.T + h[0] @ u.T, 4, axis=1)
    cell = _sigmoid(f) * h[1] + _sigmoid(i) * np.tanh(c)
    return _sigmoid(o) * np.tanh(cell), [_sigmoid(o) * np.tanh(cell), cell]


def _gru(x, h, w, u):
    (a, b, c), (d, e, f) = np.split(x @ w.T, 3, axis=1), np.split(h[0] @ u.T, 3, axis=1)
    z = _sigmoid(b + e)
    new = (1 - z) * np.tanh(c + _sigmoid(a + d) * f) + z * h[0]
    return new, [new]


@pytest.mark.parametrize("kind, step", [(rnn.RNNCell, _rnn), (rnn.LSTMCell, _lstm), (rnn.GRUCell, _gru)])
def test_cells(kind, step):
    cell = kind(5)
    cell.initialize(mx.init.Uniform(0.5))
    outputs, states = cell.unroll(3, mx.nd.array(X), merge_outputs=True)
    w, u = cell.i2h_weight.data().asnumpy(), cell.h2h_weight.data().asnumpy()
    h, expected = [np.zeros((2, 5), "float32")] * len(states), []
    for t in range(3):
        out, h = step(X[:, t], h, w, u)
        expected.append(out)
    np.testing.assert_allclose(outputs.asnumpy(), np.stack(expected, 1), rtol=1e-4, atol=1e-5)
    for found, state in zip(states, h, strict=True):
        np.testing.assert_allclose(found.asnumpy(), state, rtol=1e-4, atol=1e-5)
    _, early = cell.unroll(3, mx.nd.array(X), valid_length=mx.nd.array([1, 3]))
    first = step(X[:, 0], [np.zeros((2, 5), "float32")] * len(states), w, u)[1]
    np.testing.assert_allclose(early[0].asnumpy()[0], first[0][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(early[0].asnumpy()[1], h[0][1], rtol=1e-4, atol=1e-5)


def test_names_of_operators_and_parameters():
    cell = rnn.LSTMCell(2, prefix="cell_")
    outputs, _ = cell.unroll(2, [mx.sym.var("a"), mx.sym.var("b")])
    names = mx.sym.Group(outputs).get_internals().list_outputs()
    assert mx.sym.Group(outputs).list_outputs() == ["cell_t0_out_output", "cell_t1_out_output"]
    assert {"cell_t0_i2h_output", "cell_t1_slice_output0", "cell_t1_activation0_output"} <= set(names)


def test_bidirectional_runs_backwards_within_the_valid_length():
    cell = rnn.BidirectionalCell(rnn.RNNCell(2, prefix="l_"), rnn.RNNCell(2, prefix="r_"))
    cell.initialize(mx.init.One())
    x = mx.nd.array(X)
    outputs, states = cell.unroll(3, x, merge_outputs=True, valid_length=mx.nd.array([2, 3]))
    assert outputs.shape == (2, 3, 4) and len(states) == 2 and (outputs.asnumpy()[0, 2] == 0).all()
    back, _ = rnn.RNNCell(2, prefix="r_", params=cell._children["r_cell"].params).unroll(
        2, mx.nd.array(X[:1, 1::-1]), merge_outputs=True)
    np.testing.assert_allclose(outputs.asnumpy()[0, :2, 2:], back.asnumpy()[0, ::-1], rtol=1e-5)
    with pytest.raises(NotImplementedError, match="unroll"):
        cell(x, states)


def test_stack_and_modifiers():
    stack = rnn.HybridSequentialRNNCell()
    stack.add(rnn.ResidualCell(rnn.GRUCell(4)))
    stack.add(rnn.DropoutCell(0.5))
    stack.add(rnn.ZoneoutCell(rnn.LSTMCell(3), zoneout_outputs=0.3, zoneout_states=0.2))
    stack.initialize(mx.init.Zero())
    assert len(stack) == 3 and len(stack.state_info()) == 3
    outputs, states = stack.unroll(3, mx.nd.array(X))
    assert len(outputs) == 3 and outputs[0].shape == (2, 3) and [s.shape[1] for s in states] == [4, 3, 3]
    out, _ = stack[0].unroll(3, mx.nd.array(X), merge_outputs=True)
    np.testing.assert_allclose(out.asnumpy(), X, rtol=1e-6)  # zero weights: the residual alone
    stepped, after = stack(mx.nd.array(X[:, 0]), stack.begin_state(batch_size=2, func=mx.nd.zeros))
    assert stepped.shape == (2, 3) and len(after) == 3
    with pytest.raises(AssertionError, match="modifier"):
        stack[0].base_cell.begin_state(batch_size=2)
    with pytest.raises(AssertionError, match="already modified"):
        rnn.ResidualCell(stack[0].base_cell)
    with pytest.raises(AssertionError, match="BidirectionalCell"):
        rnn.ZoneoutCell(rnn.BidirectionalCell(rnn.RNNCell(1), rnn.RNNCell(1)))


@pytest.mark.parametrize("both", [False, True])
def test_layers_are_stacks_of_cells(both):
    layer = rnn.GRU(3, num_layers=2, dropout=0.5, bidirectional=both, input_size=4)
    layer.initialize()
    cells = layer._unfuse()
    kind = rnn.BidirectionalCell if both else rnn.GRUCell
    assert [type(cells[i]) for i in range(len(cells))] == [kind, rnn.DropoutCell, kind]
    x = mx.nd.array(X.swapaxes(0, 1))
    outputs, _ = cells.unroll(len(x), x, layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(outputs.asnumpy(), layer(x).asnumpy(), rtol=1e-4, atol=1e-5)


def test_layers_name_parameters_as_their_cells():
    layer = rnn.LSTM(3, num_layers=2, bidirectional=True, prefix="lstm_")
    assert "_unfused.1.r_cell.h2h_bias" in layer._collect_params_with_prefix()
    assert layer.r1_i2h_weight.name == "lstm_r1_i2h_weight" and layer.r1_i2h_weight.shape == (12, 6)
    cells = layer._unfuse()
    assert cells.collect_params()["lstm_r1_i2h_weight"] is layer.r1_i2h_weight
    assert repr(layer) == "LSTM(None -> 3, TNC, num_layers=2, bidirectional)"
    assert [s["shape"] for s in rnn.LSTM(3, projection_size=2).state_info(5)] == [(1, 5, 2), (1, 5, 3)]
    with pytest.raises(AssertionError, match="layout"):
        rnn.GRU(3, layout="NCT")


@mx.util.use_np
def test_states_of_layers_to_begin_with_are_of_the_kind_in_use():
    for layer in (rnn.GRU(3), rnn.LSTM(3, bidirectional=True)):
        assert {type(state) for state in layer.begin_state(batch_size=2)} == {mx.np.ndarray}


def test_a_cell_of_ones_own_unrolls_itself_by_mxnets_functions():
    from mxjax.gluon.rnn.rnn_cell import (
        _format_sequence,
        _get_begin_state,
        _mask_sequence_variable_length,
        _reverse_sequences,
    )
    x, cell = mx.nd.arange(12).reshape((2, 3, 2)), rnn.RNNCell(2, input_size=2)
    steps, axis, F, size = _format_sequence(3, x, "NTC", False)
    assert len(steps) == 3 and (axis, F, size) == (1, mx.nd, 2)
    assert _format_sequence(3, x, "TNC", None, "NTC")[0].shape == (3, 2, 2)
    assert _get_begin_state(cell, F, None, steps, size)[0].shape == (2, 2)
    back = _reverse_sequences(steps, 3, mx.nd.array([3, 2]))
    assert [step[1, 0].asscalar() for step in back] == [8, 6, 10]
    masked = _mask_sequence_variable_length(F, steps, 3, mx.nd.array([3, 1]), axis, True)
    assert masked[:, :, 0].asnumpy().tolist() == [[0, 2, 4], [6, 0, 0]]
