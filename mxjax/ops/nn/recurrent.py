"""Recurrent layers in one operator: RNN, LSTM, GRU, several layers, both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._random.mersenne import Source
from ...base import MXNetError
from ..common import Array, by_own_rules
from ..infer import agree, exact, filled
from ..params import Count, Double, Fraction
from ..random import _draw
from ..registry import register

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


# ------------------------------------------------------------ the packed parameters
class Piece(NamedTuple):
    """A part of the packed parameter vector."""

    layer: int
    direction: int
    name: str
    shape: tuple[int, ...]


def pieces(mode: str, input_size: int, state_size: int, num_layers: int, directions: int,
           projection: int | None) -> Iterator[Piece]:
    """The parts of the packed parameters in their order, which is cuDNN's: all weights, then all biases.

    i2h: (gates · state, input); h2h: (gates · state, output); h2r: (projection, state), only with a projection;
    two biases (gates · state,).  Gates: input, forget, candidate, output (LSTM); reset, update, candidate (GRU).
    """
    rows, out = GATES[mode] * state_size, projection or state_size
    for layer in range(num_layers):
        for direction in range(directions):
            yield Piece(layer, direction, "i2h_weight", (rows, input_size if layer == 0 else out * directions))
            yield Piece(layer, direction, "h2h_weight", (rows, out))
            if projection:
                yield Piece(layer, direction, "h2r_weight", (projection, state_size))
    for layer in range(num_layers):
        for direction in range(directions):
            yield Piece(layer, direction, "i2h_bias", (rows,))
            yield Piece(layer, direction, "h2h_bias", (rows,))


def _layout(p: dict[str, Any], input_size: int) -> list[Piece]:
    return list(pieces(p["mode"], input_size, p["state_size"], p["num_layers"], 1 + p["bidirectional"],
                       p["projection_size"]))


def _size(p: dict[str, Any], input_size: int) -> int:
    return sum(_count(piece.shape) for piece in _layout(p, input_size))


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def _unpacked(layout: list[Piece], parameters: Array) -> dict[tuple[int, str], list[Array]]:
    """Arrays by layer and name, one for each direction."""
    result: dict[tuple[int, str], list[Array]] = {}
    parts = lax.split(parameters, [_count(piece.shape) for piece in layout])  # whose gradient is one concatenation
    for piece, values in zip(layout, parts, strict=True):
        result.setdefault((piece.layer, piece.name), []).append(values.reshape(piece.shape))
    return result


# ------------------------------------------------------------ one step
State = tuple[Array, ...]
Step = Callable[[tuple[Array, ...], State], State]


def _step(mode: str, clip: Callable[[Array], Array]) -> Step:
    """function(gates, (h, [c])) -> new (h, [c]), before projection; element by element.

    The gates are the parts of the input and of the state: their sum, or both for a GRU.
    """
    def lstm(gates: tuple[Array, ...], state: State) -> State:
        i, f, g, o = jnp.split(gates[0], 4, axis=-1)
        c = clip(jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g))
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    def gru(gates: tuple[Array, ...], state: State) -> State:
        (xr, xz, xn), (hr, hz, hn) = [jnp.split(part, 3, axis=-1) for part in gates]
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        return ((1 - z) * n + z * state[0],)
    if mode in ("lstm", "gru"):
        return {"lstm": lstm, "gru": gru}[mode]
    function = jax.nn.relu if mode == "rnn_relu" else jnp.tanh
    return lambda gates, state: (function(gates[0]),)


def _clipping(low: float | None, high: float | None, nan: bool) -> Callable[[Array], Array]:
    """The limits of an LSTM's cell; NaN stays unless `nan` asks for it to become `low`."""
    if low is None or high is None:
        return lambda c: c

    def clip(c: Array) -> Array:
        limited = jnp.clip(c, low, high)
        return jnp.where(jnp.isnan(c), low, limited) if nan else limited
    return clip


# ------------------------------------------------------------ one layer in one direction
class _Layer(NamedTuple):
    """The constants of all steps: the function of one step, and whether it takes a sum of gates."""

    step: Step
    summed: bool


def _scan(body: Callable[[State, tuple], tuple[State, Any]], start: State, each: tuple, back: bool = False) -> tuple:
    """`lax.scan`; a single step without a loop, which would take longer to compile and to run."""
    if each[0].shape[0] != 1:
        return lax.scan(body, start, each, reverse=back)
    last, made = body(start, jax.tree.map(lambda x: x[0], each))
    return last, jax.tree.map(lambda x: x[None], made)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recurrence(layer: _Layer, inputs: Array, valid: Array | None, start: State, weight: Array, bias: Array,
                projection: Array | None) -> tuple[Array, State]:
    """All steps: inputs (time, batch, gates · state) -> (h after each step, last state).

    The gradient is a loop over the steps backward, which multiplies with the weight as it is; those of the weights are
    products over all steps, not sums made step by step.
    """
    return _recurrence_forward(layer, inputs, valid, start, weight, bias, projection)[0]  # residuals are dead code


def _recurrence_forward(layer: _Layer, inputs: Array, valid: Array | None, start: State, weight: Array, bias: Array,
                        projection: Array | None) -> tuple:
    def body(state: State, now: tuple) -> tuple[State, tuple]:
        x, keep = now
        h = state[0] @ weight.T + bias
        gates = (x + h,) if layer.summed else (x, h)
        inner, *cell = layer.step(gates, state)
        after = (inner if projection is None else inner @ projection.T, *cell)
        if keep is not None:
            after = tuple(jnp.where(keep, a, s) for a, s in zip(after, state, strict=True))
        return after, (after[0], gates, state, None if projection is None else inner)
    last, (outputs, *kept) = _scan(body, start, (inputs, valid))
    return (outputs, last), (kept, valid, weight, projection)


@by_own_rules
def _recurrence_backward(layer: _Layer, saved: tuple, heads: tuple) -> tuple:
    (gates, states, inner), valid, weight, projection = saved

    def body(after: State, now: tuple) -> tuple[State, tuple]:
        head, gates, state, keep = now
        after = (after[0] + head, *after[1:])
        skipped = [0] * len(after)
        if keep is not None:  # elsewhere a step leaves its state as it was
            skipped = [jnp.where(keep, 0, a) for a in after]
            after = tuple(jnp.where(keep, a, 0) for a in after)
        new = after if projection is None else (after[0] @ projection, *after[1:])
        by_gates, before = jax.vjp(layer.step, gates, state)[1](new)
        before = (before[0] + by_gates[-1] @ weight, *before[1:])
        before = tuple(b + s for b, s in zip(before, skipped, strict=True))
        return before, (by_gates, None if projection is None else after[0])
    by_start, (by_gates, projected) = _scan(body, heads[1], (heads[0], gates, states, valid), back=True)
    by_weight = jnp.einsum("tng,tnh->gh", by_gates[-1], states[0])
    by_projection = None if projection is None else jnp.einsum("tnp,tnh->ph", projected, inner)
    return by_gates[0], None, by_start, by_weight, by_gates[-1].sum((0, 1)), by_projection


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)


def _direction(layer: _Layer, data: Array, valid: Array | None, state: State, i2h: Array, h2h: Array, i2h_bias: Array,
               h2h_bias: Array, h2r: Array | None) -> tuple[Array, State]:
    """A layer in one direction; the products with the inputs of all steps are one matrix product."""
    return _recurrence(layer, jnp.einsum("tni,gi->tng", data, i2h) + i2h_bias, valid, state, h2h, h2h_bias, h2r)


# ------------------------------------------------------------ the operator
def _inputs(p: dict[str, Any]) -> list[str]:
    return ["data", "parameters", "state", *["state_cell"] * (p["mode"] == "lstm"),
            *["sequence_length"] * p["use_sequence_length"]]


def _outputs(p: dict[str, Any]) -> list[str]:
    if not p["state_outputs"]:
        return ["output"]
    return ["output", "state_output", *["statecell_output"] * (p["mode"] == "lstm")]


def _types(p: dict[str, Any], ins: list, outs: list) -> None:
    """All arrays have one dtype. The lengths may have another one, if it is given."""
    own = len(ins) - p["use_sequence_length"]
    names = _inputs(p)[:own]
    common = agree(ins[:own], names) or next((t for t in outs if t), None)
    ins[:] = [t or common for t in ins]


def _state_shape(size: str) -> Callable[[dict[str, Any], tuple], tuple]:
    def shape(p: dict[str, Any], x: tuple[int, ...]) -> tuple[int, ...]:
        return (p["num_layers"] * (1 + p["bidirectional"]), x[1], p[size] or p["state_size"])
    return shape


def output_shapes(p: dict[str, Any], x: tuple, *_: Any) -> list[tuple]:
    """The shapes of the outputs (FPartialShape)."""
    out = (*x[:2], (1 + p["bidirectional"]) * (p["projection_size"] or p["state_size"]))
    return [out, _state_shape("projection_size")(p, x), _state_shape("state_size")(p, x)][:len(_outputs(p))]


def _kept(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
    """FDraw: where values between layers are kept, read in order.

    Not in float32, where MXNet's CPUs (oneDNN) draw nothing, and drop nothing.
    """
    layers, p = params["num_layers"] - 1, np.float32(params["p"])
    if not (train and p and layers > 0) or inputs[0].dtype == np.float32:
        return None
    steps, batch, _ = inputs[0].shape
    size = params["projection_size"] or params["state_size"]
    shape = layers, steps, batch, size * (2 if params["bidirectional"] else 1)
    return (source.uniform(math.prod(shape)) >= p).reshape(shape)


@register("RNN", aliases=("_npx_rnn",), FDraw=_kept, FPartialShape=exact(
    output_shapes, lambda p, x, *_: len(x) == 3 and (p["mode"] == "lstm" or not p["projection_size"])), inputs=_inputs,
          output_names=_outputs, num_outputs=lambda p: len(_outputs(p)),
          FResourceRequest=("random",), train_when=lambda p: p["p"] > 0 and p["num_layers"] > 1,
          infer_type=_types, infer_shape=filled(
              parameters=lambda p, x: (_size(p, x[2]),), state=_state_shape("projection_size"),
              state_cell=_state_shape("state_size"), sequence_length=lambda p, x: (x[1],)))
def rnn(data: Array, parameters: Array, state: Array, state_cell: Array | None = None,
        sequence_length: Array | None = None, *, state_size: Count, num_layers: Count, bidirectional: bool = False,
        mode: Literal["gru", "lstm", "rnn_relu", "rnn_tanh"], p: Fraction = 0.0,
        state_outputs: bool = False, projection_size: int | None = None, lstm_state_clip_min: Double | None = None,
        lstm_state_clip_max: Double | None = None, lstm_state_clip_nan: bool = False,
        use_sequence_length: bool = False, _train: bool = False, _key: Any = None) -> Array | tuple[Array, ...]:
    """Recurrent layers over a whole sequence: with tanh or relu, LSTM (with projection: arXiv:1402.1128), or GRU.

    data: (time, batch, input) float; parameters: a vector, see `pieces`; state: (layers · directions, batch, size),
    for an LSTM also state_cell; sequence_length: (batch,) int, with `use_sequence_length`: later outputs are 0
    -> (time, batch, directions · size); with `state_outputs` also the last state (and cell).
    `p` is the probability of dropout between layers in training; the cell of an LSTM is clipped to the given bounds.
    """
    if use_sequence_length and mode != "lstm" and sequence_length is None:
        state_cell, sequence_length = None, state_cell
    directions, size = 1 + bidirectional, projection_size or state_size
    if projection_size and mode != "lstm":
        raise MXNetError("RNN: projection_size requires mode='lstm'")
    if data.ndim != 3:
        raise MXNetError(f"RNN takes data (time, batch, input), got shape {data.shape}")
    steps, batch, width = data.shape
    layout = list(pieces(mode, width, state_size, num_layers, directions, projection_size))
    total = sum(_count(piece.shape) for piece in layout)
    expected = {"parameters": (parameters, (total,)), "state": (state, (num_layers * directions, batch, size)),
                "state_cell": (state_cell, (num_layers * directions, batch, state_size)),
                "sequence_length": (sequence_length, (batch,))}
    for name, (array, shape) in expected.items():
        if array is not None and array.shape != shape:
            raise MXNetError(f"RNN: {name} must have the shape {shape}, got {array.shape}")

    weights = _unpacked(layout, parameters)
    kind = _Layer(_step(mode, _clipping(lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan)), mode != "gru")
    valid = None
    if use_sequence_length:
        if sequence_length is None:
            raise MXNetError("RNN: use_sequence_length requires the input sequence_length")
        valid = (jnp.arange(steps)[:, None] < sequence_length.astype(jnp.int32))[..., None]
    starts = [state] if mode != "lstm" else [state, state_cell]
    last: list[State] = []
    for layer in range(num_layers):
        if layer and p and _train:
            keep = _key.values[layer - 1] if isinstance(_key, _draw.Drawn) else \
                _draw.bernoulli(jax.random.fold_in(_key, layer), data.shape, 1 - p)
            data = jnp.where(keep, data / (1 - p), 0)
        outputs = []
        for direction in range(directions):
            def turned(array: Array, back: int = direction) -> Array:
                return jnp.flip(array, 0) if back else array
            own = [weights[layer, name][direction] for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")]
            projection = weights[layer, "h2r_weight"][direction] if (layer, "h2r_weight") in weights else None
            begin = tuple(s[layer * directions + direction] for s in starts)
            counts = None if valid is None else turned(valid)
            out, end = _direction(kind, turned(data), counts, begin, *own, h2r=projection)
            outputs.append(turned(out))
            last.append(end)
        data = jnp.concatenate(outputs, axis=-1) if bidirectional else outputs[0]
        if valid is not None:
            data = jnp.where(valid, data, 0)
    if not state_outputs:
        return data
    return (data, *(jnp.stack(states) for states in zip(*last, strict=True)))
