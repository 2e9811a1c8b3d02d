"""Recurrent layers: products with the inputs of all steps at once, and a loop over the steps for products with the
state.

The gradients are computed from a second forward pass, which keeps the gates. Values that do not depend on later steps
are computed for all steps together. Sigmoids are (1 + tanh(x / 2)) / 2, so that one call computes all gates of a step;
the factor 1/2 is in the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ops.nn.recurrent import pieces
from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

Sizes = tuple[int, ...]
_HALVED = {"lstm": (0, 1, 3), "gru": (0, 1)}  # gates that are sigmoids


# ------------------------------------------------------------ weights
class _Weights(NamedTuple):
    """The weights of a layer in one direction: for the inputs, for the state, and both biases."""

    inputs: Any
    state: Any
    input_bias: Any
    state_bias: Any


def _unpacked(p: dict[str, Any], width: int, parameters: Array) -> list[_Weights]:
    """Returns views of the packed parameters for each layer and each of its directions."""
    directions = 1 + p["bidirectional"]
    results: list[list[Any]] = [[] for _ in range(p["num_layers"] * directions)]
    start = 0
    for piece in pieces(p["mode"], width, p["state_size"], p["num_layers"], directions, None):
        stop = start + math.prod(piece.shape)
        results[piece.layer * directions + piece.direction].append(parameters[start:stop].reshape(piece.shape))
        start = stop
    return [_Weights(*each) for each in results]


def _halved(mode: str, weights: Array) -> Any:
    """Returns the weights, or biases, with those of sigmoids divided by 2."""
    gates = _HALVED.get(mode, ())
    if not gates:
        return weights
    weights = weights.copy()
    size = len(weights) // (4 if mode == "lstm" else 3)
    for gate in gates:
        weights[gate * size:(gate + 1) * size] /= 2
    return weights


# ------------------------------------------------------------ one layer in one direction
def _forward(mode: str, data: Array, weights: _Weights, state: Sequence[Any], out: Array, back: bool,
             keeps: bool) -> tuple[list[Any], tuple]:
    """Runs a layer and writes its outputs to `out` (time, batch, size).

    Returns:
        The last state, and the values for the gradients: activated gates and, depending on the mode, the cells or the
        candidates' part from the state.
    """
    inputs, hidden, input_bias, state_bias = [_halved(mode, w) for w in weights]
    steps, batch, size = out.shape
    gates = (data.reshape(steps * batch, -1) @ inputs.T).reshape(steps, batch, -1)
    candidate = slice(2 * size, None)
    if mode == "gru":
        input_bias = input_bias.copy()
        input_bias[:2 * size] += state_bias[:2 * size]
    else:
        input_bias = input_bias + state_bias
    gates += input_bias
    h: Any = state[0]
    cell: Any = state[1] if mode == "lstm" else None
    more: Any = np.empty((steps if keeps else 1, batch, size), out.dtype) if mode in ("lstm", "gru") else None
    hidden, product, part = hidden.T, np.empty(gates.shape[1:], out.dtype), np.empty((batch, size), out.dtype)
    for step in range(steps - 1, -1, -1) if back else range(steps):
        now, after = gates[step], out[step]
        np.matmul(h, hidden, out=product)
        if mode == "lstm":
            now += product
            np.tanh(now, out=now)
            _to_sigmoid(now[:, :2 * size])
            _to_sigmoid(now[:, 3 * size:])
            np.multiply(now[:, :size], now[:, candidate.start:3 * size], out=part)
            following = more[step if keeps else 0]
            np.multiply(now[:, size:2 * size], cell, out=following)
            following += part
            cell = following
            np.tanh(cell, out=part)
            np.multiply(now[:, 3 * size:], part, out=after)
        elif mode == "gru":
            sigmoids, new = now[:, :2 * size], now[:, candidate]
            sigmoids += product[:, :2 * size]
            _to_sigmoid(np.tanh(sigmoids, out=sigmoids))
            from_state = np.add(product[:, candidate], state_bias[candidate], out=more[step if keeps else 0])
            np.multiply(sigmoids[:, :size], from_state, out=part)
            new += part
            np.tanh(new, out=new)
            np.subtract(h, new, out=part)
            part *= sigmoids[:, size:]
            np.add(new, part, out=after)
        else:
            now += product
            np.maximum(now, 0, out=after) if mode == "rnn_relu" else np.tanh(now, out=after)
        h = after
    return [h] if cell is None else [h, cell.copy()], (gates, more)


def _to_sigmoid(halves: Array) -> None:
    halves *= 0.5
    halves += 0.5


def _backward(mode: str, weights: _Weights, state: Sequence[Any], out: Array, kept: tuple, out_grad: Array,
              last: Sequence[Any], back: bool) -> tuple[Any, Any, Any, list[Any]]:
    """Runs a layer's gradients from its last step to the first.

    Args:
        state: state before the first step.
        out, kept: results of `_forward`.
        out_grad: gradients of the outputs.
        last: gradients of the last state.

    Returns:
        The gradients of the gates' parts from the inputs and from the state, (time, batch, gates · size), the states
        before each step, and the gradients of the state before the first one.
    """
    gates, more = kept
    steps, batch, size = out.shape
    before = _shifted(out, state[0], back)
    split = gates.reshape(steps, batch, -1, size)
    carry: Any = None
    cell: Any = None
    by_cell: Any = None
    by_new: Any = None
    if mode == "lstm":
        i, f, g, o = [split[:, :, gate] for gate in range(4)]
        squashed = np.tanh(more)
        slopes = np.empty_like(split)
        np.multiply(g, i * (1 - i), out=slopes[:, :, 0])
        np.multiply(_shifted(more, state[1], back), f * (1 - f), out=slopes[:, :, 1])
        np.multiply(i, 1 - g * g, out=slopes[:, :, 2])
        np.multiply(squashed, o * (1 - o), out=slopes[:, :, 3])
        by_cell = o * (1 - squashed * squashed)
        cell = last[1].copy()
    elif mode == "gru":
        r, carry, n = [split[:, :, gate] for gate in range(3)]
        slopes = np.empty_like(split)
        by_new = (1 - carry) * (1 - n * n)
        np.multiply(by_new * more, r * (1 - r), out=slopes[:, :, 0])
        np.multiply(before - n, carry * (1 - carry), out=slopes[:, :, 1])
        np.multiply(by_new, r, out=slopes[:, :, 2])
    else:
        slopes = ((out > 0).astype(out.dtype) if mode == "rnn_relu" else 1 - out * out)[:, :, None]
    by_gates: Any = np.empty(slopes.shape, out.dtype)
    by_out: Any = np.empty(out.shape, out.dtype) if mode == "gru" else None
    hidden, h = weights.state, last[0].copy()
    flat = by_gates.reshape(steps, batch, -1)
    for step in range(steps) if back else range(steps - 1, -1, -1):
        h += out_grad[step]
        if mode == "lstm":
            cell += h * by_cell[step]
            np.multiply(slopes[step, :, :3], cell[:, None], out=by_gates[step, :, :3])
            np.multiply(slopes[step, :, 3], h, out=by_gates[step, :, 3])
            cell *= split[step, :, 1]
            np.matmul(flat[step], hidden, out=h)
        else:
            np.multiply(slopes[step], h[:, None], out=by_gates[step])
            following = flat[step] @ hidden
            if mode == "gru":
                by_out[step] = h
                h *= carry[step]
                following += h
            h = following
    by_inputs = flat
    if mode == "gru":
        by_inputs = flat.copy()
        np.multiply(by_new, by_out, out=by_inputs[..., 2 * size:])
    return by_inputs, flat, before, [h] if cell is None else [h, cell]


def _shifted(out: Array, state: Array, back: bool) -> Any:
    """Returns the states before each step."""
    first = np.broadcast_to(state, (1, *state.shape))
    return np.concatenate([out[1:], first] if back else [first, out[:-1]])


# ------------------------------------------------------------ the operator
def _checked(p: dict[str, Any], data: Array, parameters: Array, *states: Array) -> list[_Weights]:
    """Returns the weights of all layers and directions."""
    need(not (p["projection_size"] or p["use_sequence_length"] or p["p"] and p["_train"] and p["num_layers"] > 1))
    need(p["lstm_state_clip_min"] is None or p["lstm_state_clip_max"] is None)
    need(data.ndim == 3 and data.size and len(states) == 1 + (p["mode"] == "lstm"))
    directions = 1 + p["bidirectional"]
    need(all(s.shape == (p["num_layers"] * directions, data.shape[1], p["state_size"]) for s in states))
    need(parameters.shape == (sum([math.prod(piece.shape) for piece in pieces(
        p["mode"], data.shape[2], p["state_size"], p["num_layers"], directions, None)]),))
    return _unpacked(p, data.shape[2], parameters)


def _layers(p: dict[str, Any], data: Array, weights: Sequence[_Weights], states: Sequence[Any],
            keeps: bool) -> Iterator[tuple[Any, Any, list]]:
    """Runs the layers, and returns for each of them its inputs, its outputs and the results of its directions."""
    directions: int = 1 + p["bidirectional"]
    size: int = p["state_size"]
    for layer in range(p["num_layers"]):
        out = np.empty((*data.shape[:2], directions * size), data.dtype)
        layers = []
        for direction in range(directions):
            place = layer * directions + direction
            layers.append(_forward(p["mode"], data, weights[place], [s[place] for s in states],
                                   out[..., direction * size:(direction + 1) * size], bool(direction), keeps))
        yield data, out, layers
        data = out


def _rnn_backward(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], data: Array,
                  parameters: Array, *states: Array) -> list[Any]:
    weights = _checked(p, data, parameters, *states)
    layers = list(_layers(p, data, weights, states, True))
    by_parameters = np.empty(parameters.shape, parameters.dtype)
    grads = _unpacked(p, data.shape[2], by_parameters)
    of_states = [*out_grads[1:], None, None][:len(states)]
    last = [np.zeros(s.shape, s.dtype) if grad is None else grad for grad, s in zip(of_states, states, strict=True)]
    by_states = [np.empty(s.shape, s.dtype) for s in states]
    directions, size = 1 + p["bidirectional"], p["state_size"]
    out_grad = np.zeros(layers[-1][1].shape, data.dtype) if out_grads[0] is None else out_grads[0]
    for layer in reversed(range(p["num_layers"])):
        inputs, out, made = layers.pop()
        below: Any = None
        rows = inputs.reshape(-1, inputs.shape[2])
        for direction in range(directions):
            place, part = layer * directions + direction, slice(direction * size, (direction + 1) * size)
            by_inputs, by_gates, before, first = _backward(
                p["mode"], weights[place], [s[place] for s in states], out[..., part], made[direction][1],
                out_grad[..., part], [s[place] for s in last], bool(direction))
            by_inputs, by_gates = [g.reshape(len(rows), -1) for g in (by_inputs, by_gates)]
            if needs_grad[1]:
                np.matmul(by_inputs.T, rows, out=grads[place].inputs)
                np.matmul(by_gates.T, before.reshape(len(rows), -1), out=grads[place].state)
                by_inputs.sum(0, out=grads[place].input_bias)
                by_gates.sum(0, out=grads[place].state_bias)
            if layer or needs_grad[0]:
                if below is None:
                    below = np.empty(inputs.shape, inputs.dtype)
                    np.matmul(by_inputs, weights[place].inputs, out=below.reshape(rows.shape))
                else:
                    below += (by_inputs @ weights[place].inputs).reshape(below.shape)
            for result, by_state in zip(by_states, first, strict=True):
                result[place] = by_state
        out_grad = below
    return [out_grad if needs_grad[0] else None, by_parameters, *by_states]


_OPERATIONS = 40.0  # of a layer: it compiles in 150 ms, its gradients in 400


def _rnn_work(p: dict[str, Any], data: Sizes, parameters: Sizes, *states: tuple[int, ...]) -> Work:
    steps, batch = data[:2]
    layers = p["num_layers"] * (1 + p["bidirectional"])
    outputs = steps * batch * p["state_size"] * layers
    calls = 3000.0 * steps * layers  # each step has a constant cost
    return Work(math.prod(data) + 10 * outputs + calls, steps * batch * parameters[0], _OPERATIONS * layers)


@numpy_form("RNN", backward=_rnn_backward, work=_rnn_work, reads=lambda p, needs_grad: [True] * len(needs_grad))
def _rnn(p: dict[str, Any], data: Array, parameters: Array, *states: Array) -> Any:
    weights = _checked(p, data, parameters, *states)
    last: list[Any] = []
    out: Any = None
    for layer in _layers(p, data, weights, states, False):
        out = layer[1]
        last += [state for state, _ in layer[2]]
    return (out, *map(np.stack, zip(*last, strict=True))) if p["state_outputs"] else out
