"""The fused recurrent operator against a loop in NumPy."""

import numpy as np
import pytest
from marks import sampled
from opcall import call, check_derivatives, gradients, partial_shapes
from scipy.special import expit

from mxjax.base import MXNetError
from mxjax.ops.nn import recurrent

RNG = np.random.default_rng(0)
T, N, I, H = 4, 2, 3, 2


def _cell(mode, x, h, state):
    if mode == "lstm":
        i, f, g, o = np.split(x + h, 4, -1)
        c = expit(f) * state[1] + expit(i) * np.tanh(g)
        return [expit(o) * np.tanh(c), c]
    if mode == "gru":
        (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, -1), np.split(h, 3, -1)
        z = expit(xz + hz)
        return [(1 - z) * np.tanh(xn + expit(xr + hr) * hn) + z * state[0]]
    return [np.tanh(x + h) if mode == "rnn_tanh" else np.maximum(x + h, 0)]


def _reference(mode, data, parameters, states, layers, directions, projection=None, lengths=None):
    """Outputs and last states, one sequence and step at a time."""
    layout = list(recurrent.pieces(mode, data.shape[2], H, layers, directions, projection))
    parts, position = {}, 0
    for piece in layout:
        parts[piece[:3]] = parameters[position:position + np.prod(piece.shape)].reshape(piece.shape)
        position += np.prod(piece.shape)
    assert position == len(parameters)
    ends = [np.zeros_like(s) for s in states]
    lengths = [T] * N if lengths is None else lengths
    for layer in range(layers):
        out = np.zeros((T, N, directions * (projection or H)))
        for d in range(directions):
            w = {name: parts[layer, d, name] for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")}
            for n in range(N):
                state = [s[layer * directions + d, n] for s in states]
                for t in range(lengths[n])[::-1 if d else 1]:
                    state = _cell(mode, w["i2h_weight"] @ data[t, n] + w["i2h_bias"],
                                  w["h2h_weight"] @ state[0] + w["h2h_bias"], state)
                    if projection:
                        state[0] = parts[layer, d, "h2r_weight"] @ state[0]
                    out[t, n, d * len(state[0]):(d + 1) * len(state[0])] = state[0]
                for end, s in zip(ends, state, strict=True):
                    end[layer * directions + d, n] = s
        data = out
    return [data, *ends]


def _arguments(mode, layers, directions, projection=None):
    params = {"mode": mode, "state_size": H, "num_layers": layers, "bidirectional": directions == 2,
              "projection_size": projection}
    size = sum(np.prod(p.shape) for p in recurrent.pieces(mode, I, H, layers, directions, projection))
    states = [RNG.normal(size=(layers * directions, N, projection or H))]
    if mode == "lstm":
        states.append(RNG.normal(size=(layers * directions, N, H)))
    return [RNG.normal(size=(T, N, I)), RNG.normal(size=size), *states], params


@pytest.mark.parametrize("mode, layers, directions, projection", [
    ("rnn_relu", 1, 2, None), ("rnn_tanh", 2, 1, None), ("lstm", 2, 2, None), ("gru", 2, 2, None), ("lstm", 2, 1, 3)])
def test_values(mode, layers, directions, projection):
    arrays, params = _arguments(mode, layers, directions, projection)
    got = call("RNN", *arrays, state_outputs=True, **params)
    wanted = _reference(mode, *arrays[:2], arrays[2:], layers, directions, projection)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert partial_shapes("RNN", [arrays[0].shape] + [None] * (len(arrays) - 1), **params)[0] == [
        a.shape for a in arrays]


@pytest.mark.parametrize("mode", ["gru", "lstm"])
def test_lengths(mode):
    arrays, params = _arguments(mode, 1, 2)
    lengths = np.array([2, 4], "int32")
    got = call("RNN", *arrays, lengths, state_outputs=True, use_sequence_length=True, **params)
    for a, b in zip(got, _reference(mode, *arrays[:2], arrays[2:], 1, 2, lengths=lengths), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode, projection", [("rnn_tanh", None), ("gru", None),
                                              pytest.param("lstm", 3, marks=pytest.mark.slow)])
def test_derivatives(mode, projection):
    arrays, params = _arguments(mode, 2, 1, projection)
    check_derivatives(lambda *a: recurrent.rnn(*a, state_outputs=True, **params), tuple(arrays), 2, rtol=1e-4)


@pytest.mark.parametrize("mode, projection", [("lstm", 3), ("gru", None)])
@pytest.mark.parametrize("steps", sampled([T, 1]))
def test_derivatives_of_lengths(mode, projection, steps):
    arrays, params = _arguments(mode, 1, 2, projection)
    arrays[0] = arrays[0][:steps]
    lengths = np.array([max(steps - 2, 0), steps], "int32")
    check_derivatives(lambda *a: recurrent.rnn(*a, lengths, state_outputs=True, use_sequence_length=True, **params),
                      tuple(arrays), 1, rtol=1e-4)


def test_clipped_cell():
    arrays, params = _arguments("lstm", 1, 1)
    cell = call("RNN", *arrays, state_outputs=True, lstm_state_clip_min=-0.1, lstm_state_clip_max=0.1, **params)[2]
    assert abs(cell).max() <= 0.1


def test_dropout_between_layers_only_in_training():
    arrays, params = _arguments("rnn_relu", 2, 1)
    plain = call("RNN", *arrays, **params)
    np.testing.assert_array_equal(call("RNN", *arrays, p=0.5, **params), plain)
    assert (call("RNN", *arrays, p=0.5, train=True, **params) != plain).any()
    one = {**params, "num_layers": 1}
    arrays = _arguments("rnn_relu", 1, 1)[0]
    np.testing.assert_array_equal(call("RNN", *arrays, p=0.5, train=True, **one), call("RNN", *arrays, **one))
    assert gradients("RNN", *arrays, **one)[1].any()


def test_errors():
    arrays, params = _arguments("gru", 1, 1)
    with pytest.raises(MXNetError, match="parameters must have the shape"):
        call("RNN", arrays[0], arrays[1][:-1], arrays[2], **params)
    with pytest.raises(MXNetError, match="requires mode='lstm'"):
        call("RNN", *arrays, **{**params, "projection_size": 3})
