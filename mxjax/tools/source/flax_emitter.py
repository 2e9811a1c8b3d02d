"""flax (nnx): how each operator is written.

Channels come last; values are transposed where the graph wants otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import control_flow, flax_vision, formulas, vision
from .recurrent import recurrent
from .shared import Dialect, register, short
from .steps import EmittedNode, Ref, Step, Table
from .writer import Target

__all__ = ["TARGET"]

op = Table()


def _special(step: Step) -> str:
    shape = tuple(step.args["shape"])
    if step.call == "CONSTANT":
        fill = step.args["fill"]
        return {0.0: f"jnp.zeros({shape})", 1.0: f"jnp.ones({shape})"}.get(fill, f"jnp.full({shape}, {fill!r})")
    dtype = "" if step.args["dtype"] == "float32" else f', "{step.args["dtype"]}"'
    return f"nnx.{'Param' if step.maker == 'PARAMETER' else 'Variable'}(jnp.zeros({shape}{dtype}))"


# ------------------------------------------------------------ layers
def _first(c: EmittedNode) -> bool:
    return (c.p.get("layout") or "NC").startswith("NC")


@op("Convolution", "Convolution_v1")
def _convolution(c: EmittedNode) -> Ref:
    dims, weight, groups = len(c.p["kernel"]), c.value(1), c.p["num_group"]
    c.need(_first(c), f"layout {c.p['layout']}: channels must come first")
    c.need(c.is_parameter(1), "its weight is used by other operators too")
    tensors = {"kernel": weight.transpose(*range(2, dims + 2), 1, 0), **({"bias": c.value(2)} if c.has(2) else {})}
    return c.layer(
        "nnx.Conv", {"in_channels": weight.shape[1] * groups, "out_channels": weight.shape[0],
                     "kernel_size": tuple(c.p["kernel"])},
        {"strides": (short(c.p["stride"] or (1,) * dims), 1), "padding": (short(c.p["pad"] or (0,) * dims), "SAME"),
         "kernel_dilation": (short(c.p["dilate"] or (1,) * dims), 1), "feature_group_count": (groups, 1),
         "use_bias": (c.has(2), True)}, tensors, c.last(), layout="last")


@op("Deconvolution")
def _deconvolution(c: EmittedNode) -> Ref:
    dims, groups = len(c.p["kernel"]), c.p["num_group"]
    c.need(_first(c), f"layout {c.p['layout']}: channels must come first")
    c.need(not c.p["target_shape"], "target_shape")
    return _transposed(c, tuple(c.p["stride"] or (1,) * dims), c.p["pad"] or (0,) * dims, c.p["adj"] or (0,) * dims,
                       c.p["dilate"] or (1,) * dims, groups)


def _transposed(c: EmittedNode, stride: tuple[int, ...], pad: Sequence[int], more: Sequence[int], dilate: Sequence[int],
                groups: int) -> Ref:
    weight = c.value(1)
    size = weight.shape[2:]
    padding = tuple((d * (k - 1) - p, d * (k - 1) - p + a) for d, k, p, a in zip(
        dilate, size, pad, more, strict=True))
    kernel = np.flip(weight, tuple(range(2, len(size) + 2))).transpose(*range(2, len(size) + 2), 0, 1)
    tensors = {"bias": c.value(2)} if c.has(2) else {}
    if groups == 1:
        return c.layer(
            "nnx.ConvTranspose", {"in_channels": weight.shape[0], "out_channels": weight.shape[1],
                                  "kernel_size": tuple(size)},
            {"strides": (stride, 1), "padding": (padding, "SAME"), "kernel_dilation": (short(dilate), 1),
             "use_bias": (c.has(2), True)}, {"kernel": kernel, **tensors}, c.last(), layout="last")
    width = weight.shape[0] // groups
    kernel = np.concatenate(np.split(kernel, groups, axis=-2), axis=-1)  # the groups beside each other
    return c.layer(
        "nnx.Conv", {"in_channels": weight.shape[0], "out_channels": weight.shape[1] * groups,
                     "kernel_size": tuple(size)},
        {"strides": (1, 1), "padding": (padding, "SAME"), "input_dilation": (short(stride), 1),
         "kernel_dilation": (short(dilate), 1), "feature_group_count": (weight.shape[0] // width, 1),
         "use_bias": (c.has(2), True)}, {"kernel": kernel, **tensors}, c.last(), layout="last")


@op("FullyConnected")
def _fully_connected(c: EmittedNode) -> Ref:
    if c.p["flatten"] and c.ndim() > 2:
        single = set(c.shape()[2:]) == {1}
        data = c.expr("{0}.reshape({0}.shape[0], -1)", c.raw() if single else c.ref(),
                      module="lambda x: x.reshape(x.shape[0], -1)")
    else:
        data = c.ref()
    if not c.is_parameter(1):
        return c.expr("{0} @ {1}.T" + (" + {2}" if c.has(2) else ""), data, *c.refs[1:])
    weight = c.value(1)
    return c.layer("nnx.Linear", {"in_features": weight.shape[1], "out_features": weight.shape[0]},
                   {"use_bias": (c.has(2), True)},
                   {"kernel": weight.T, **({"bias": c.value(2)} if c.has(2) else {})}, data)


@op("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def _batch_norm(c: EmittedNode) -> Ref:
    c.need(c.p.get("axis", 1) in (1, 1 - c.ndim()) or c.ndim() == 2, f"axis {c.p.get('axis')}")
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    gamma = np.ones_like(c.value(1)) if c.p["fix_gamma"] else c.value(1)
    layout = "last" if c.ndim() > 2 else ""
    result = c.layer("nnx.BatchNorm", {"num_features": len(gamma)},
                     {"momentum": (float(c.p["momentum"]), 0.99), "epsilon": (float(c.p["eps"]), 1e-5)},
                     {"scale": gamma, "bias": c.value(2), "mean": c.value(3), "var": c.value(4)}, c.last(),
                     layout=layout)
    return c.expr("nnx.relu({0})", result, module="nnx.relu", layout=layout) if c.kind.endswith("ReLU") else result


@op("Pooling", "Pooling_v1")
def _pooling(c: EmittedNode) -> Ref:
    pool_type, dims = c.p["pool_type"], c.ndim() - 2
    c.need(pool_type in ("max", "avg") and _first(c), f"pool_type {pool_type}, layout {c.p.get('layout')}")
    if c.p["global_pool"]:
        axes, name = tuple(range(1, dims + 1)), {"max": "max", "avg": "mean"}[pool_type]
        axes = axes if dims > 1 else 1
        return c.expr(f"{{0}}.{name}({axes}, keepdims=True)", c.last(), layout="last",
                      module=f"lambda x: x.{name}({axes}, keepdims=True)")
    full = c.p["pooling_convention"] == "full"
    c.need(c.p["pooling_convention"] in ("valid", "full"), f"pooling_convention {c.p['pooling_convention']}")
    kernel, strides, pad = c.p["kernel"], c.p["stride"] or (1,) * dims, c.p["pad"] or (0,) * dims
    more = [max(0, (out - 1) * s + k - n - 2 * p) if full else 0 for n, out, k, s, p in zip(
        c.shape()[2:], c.out_shape()[2:], kernel, strides, pad, strict=True)]
    counted = c.p.get("count_include_pad") is not False
    c.need(pool_type == "max" or not counted or not any(more), "windows beyond the padding, which counts")
    text = f", {tuple(kernel)}, {tuple(strides)}"
    if any(pad) or any(more):
        text += f", {tuple((p, p + m) for p, m in zip(pad, more, strict=True))}"
    if pool_type == "avg" and not counted:
        text += ", count_include_pad=False"
    return c.expr(f"nnx.{pool_type}_pool({{0}}{text})", c.last(), layout="last",
                  module=f"lambda x: nnx.{pool_type}_pool(x{text})")


_ACTIVATIONS = {"relu": "nnx.relu", "sigmoid": "nnx.sigmoid", "tanh": "jnp.tanh", "softrelu": "nnx.softplus",
                "softsign": "nnx.soft_sign", "log_sigmoid": "nnx.log_sigmoid", "mish": "jax.nn.mish"}


def _alike(c: EmittedNode, text: str, module: str = "", count: int = 1) -> Ref:
    values, layout = c.alike(count)
    return c.expr(text, *values, layout=layout, module=module)


@op("Activation")
def _activation(c: EmittedNode) -> Ref:
    name = _ACTIVATIONS[c.p["act_type"]]
    return _alike(c, f"{name}({{0}})", name)


@op("Dropout")
def _dropout(c: EmittedNode) -> Ref:
    (data,), layout = c.alike()
    return c.layer("nnx.Dropout", {"p": float(c.p["p"])}, {}, {}, data, layout=layout)


@op("clip")
def _clip(c: EmittedNode) -> Ref:
    low, high = float(c.p["a_min"]), float(c.p["a_max"])
    return _alike(c, "nnx.relu6({0})", "nnx.relu6") if (low, high) == (0, 6) else _alike(
        c, f"jnp.clip({{0}}, {low:g}, {high:g})")


@op("LeakyReLU")
def _leaky_relu(c: EmittedNode) -> Ref:
    act_type, slope = c.p["act_type"], float(c.p["slope"])
    if act_type == "prelu":
        value = c.value(1).reshape(-1)
        layout = "last" if c.ndim() > 2 else ""
        return c.layer("PReLU", {"features": len(value)}, {}, {"slope": value}, c.last(), layout=layout, helper=_PRELU)
    if act_type == "rrelu":
        slope = float(c.p["lower_bound"] + c.p["upper_bound"]) / 2
    return _alike(c, {"gelu": "nnx.gelu({0}, approximate=False)", "selu": "nnx.selu({0})",
                      "elu": f"nnx.elu({{0}}, {slope:g})"}.get(act_type, f"nnx.leaky_relu({{0}}, {slope:g})"))


_PRELU = '''class PReLU(nnx.Module):
    def __init__(self, features: int, rngs: nnx.Rngs) -> None:
        self.slope = nnx.Param(jnp.full(features, 0.25))

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, x * self.slope)'''


@op("LayerNorm")
def _layer_norm(c: EmittedNode) -> Ref:
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    c.need(c.axis(c.p["axis"]) == c.ndim() - 1, f"axis {c.p['axis']}: it must be the last one")
    return c.layer("nnx.LayerNorm", {"features": c.shape()[-1]}, {"epsilon": (float(c.p["eps"]), 1e-6)},
                   {"scale": c.value(1), "bias": c.value(2)}, c.ref())


@op("InstanceNorm", "GroupNorm")
def _group_norm(c: EmittedNode) -> Ref:
    c.need(not c.p.get("output_mean_var"), "output_mean_var=True")
    channels = c.shape()[1]
    groups = c.p.get("num_groups", channels)
    scale, bias = (np.repeat(v, channels // len(v)) for v in (c.value(1), c.value(2)))
    return c.layer("nnx.GroupNorm", {"channels": channels}, {"num_groups": (groups, 32),
                                                             "epsilon": (float(c.p["eps"]), 1e-6)},
                   {"scale": scale, "bias": bias}, c.last(), layout="last")


@op("LRN")
def _lrn(c: EmittedNode) -> Ref:
    size, alpha, beta, knorm = c.p["nsize"], float(c.p["alpha"]), float(c.p["beta"]), float(c.p["knorm"])
    return c.expr(f"local_response_norm({{0}}, {size}, {alpha:g}, {beta:g}, {knorm:g})", c.last(), layout="last",
                  helper=_LRN)


_LRN = '''def local_response_norm(x: jax.Array, size: int, alpha: float, beta: float, k: float) -> jax.Array:
    """x over a power of the mean square of `size` neighbouring channels."""
    total = nnx.avg_pool(jnp.square(x)[..., None], (1,) * (x.ndim - 2) + (size,), padding=(
        ((0, 0),) * (x.ndim - 2) + ((size // 2, size // 2),)))[..., 0]
    return x / (k + alpha * total) ** beta'''


@op("Embedding", "_contrib_SparseEmbedding")
def _embedding(c: EmittedNode) -> Ref:
    data = c.ref() if c.dtype().kind in "iu" else c.expr('{0}.astype("int32")', c.ref())
    if not c.is_parameter(1):
        return c.expr("{1}[{0}]", data, c.ref(1))
    return c.layer("nnx.Embed", {"input_dim": c.p["input_dim"], "output_dim": c.p["output_dim"]}, {},
                   {"embedding": c.value(1)}, data)


@op("Pad")
def _pad(c: EmittedNode) -> Ref:
    pairs = tuple(tuple(c.p["pad_width"][i:i + 2]) for i in range(0, len(c.p["pad_width"]), 2))
    after = {"edge": ', mode="edge"', "reflect": ', mode="reflect"'}.get(c.p["mode"], "")
    if c.p["mode"] == "constant" and c.p["constant_value"]:
        after = f", constant_values={c.p['constant_value']:g}"
    return c.expr(f"jnp.pad({{0}}, {pairs}{after})", c.ref())


@op("UpSampling")
def _up_sampling(c: EmittedNode) -> Ref:
    n = c.p["scale"]
    if c.p["sample_type"] == "bilinear":
        return _transposed(c, (n, n), (n // 2,) * 2, (0, 0), (1, 1), c.p["num_filter"])
    c.need(len(c.node.inputs) == 1, "several inputs")
    return c.expr(f"{{0}}.repeat({n}, axis=1).repeat({n}, axis=2)", c.last(), layout="last")


_RESIZE = '''def resize(x: jax.Array, size: tuple[int, int], align_corners: bool) -> jax.Array:
    """Images (batch, height, width, channel) in another size, between their pixels; corners or borders stay."""
    def shares(old: int, new: int) -> jax.Array:
        pixel = jnp.arange(new)
        place = pixel * (old - 1) / max(new - 1, 1) if align_corners else (pixel + 0.5) * old / new - 0.5
        return jnp.maximum(1 - jnp.abs(jnp.clip(place, 0, old - 1)[:, None] - jnp.arange(old)), 0)
    return jnp.einsum("ph,nhwc,qw->npqc", shares(x.shape[1], size[0]), x, shares(x.shape[2], size[1]))'''


@op("_contrib_BilinearResize2D")
def _bilinear_resize(c: EmittedNode) -> Ref:
    return c.expr(f"resize({{0}}, {c.out_shape()[2:]}, {c.p['align_corners']})", c.last(), layout="last",
                  helper=_RESIZE)


@op("_contrib_AdaptiveAvgPooling2D")
def _adaptive(c: EmittedNode) -> Ref:
    size = tuple(c.p["output_size"] or (1, 1)) * (2 if len(c.p["output_size"] or (1, 1)) == 1 else 1)
    image = c.shape()[2:]
    c.need(not any(n % k for n, k in zip(image, size, strict=True)), f"an output {size} that does not divide {image}")
    steps = tuple(n // k for n, k in zip(image, size, strict=True))
    return c.expr(f"nnx.avg_pool({{0}}, {steps}, {steps})", c.last(), layout="last")


# ------------------------------------------------------------ recurrent layers
_RECURRENT = '''class NAME(nnx.Module):
    """One layer over (time, batch, width); gates in the order ORDER."""

    def __init__(self, input_size: int, hidden_size: int, rngs: nnx.Rngs, reverse: bool = False) -> None:
        make, rows = nnx.initializers.lecun_normal(), GATES * hidden_size
        self.weight_ih = nnx.Param(make(rngs.params(), (rows, input_size)))
        self.weight_hh = nnx.Param(make(rngs.params(), (rows, hidden_size)))
        self.bias_ih, self.bias_hh = nnx.Param(jnp.zeros(rows)), nnx.Param(jnp.zeros(rows))
        self.reverse = reverse

    def __call__(self, x: jax.Array, *state: jax.Array) -> tuple[jax.Array, ...]:
        weight, bias = self.weight_hh[...].T, self.bias_hh[...]
        zeros = jnp.zeros((x.shape[1], weight.shape[0]), x.dtype)

        def step(state: tuple[jax.Array, ...], given: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
STEP
        given = x @ self.weight_ih.T + self.bias_ih
        state, out = jax.lax.scan(step, state or STATE, given, reverse=self.reverse)
        return out, *state'''
_STEPS = {
    "lstm": ("LSTM", "input, forget, candidate, output", 4, "(zeros, zeros)", """\
            h, c = state
            i, f, g, o = jnp.split(given + h @ weight + bias, 4, axis=-1)
            c = nnx.sigmoid(f) * c + nnx.sigmoid(i) * jnp.tanh(g)
            h = nnx.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
"""), "gru": ("GRU", "reset, update, candidate", 3, "(zeros,)", """\
            h, = state
            (xr, xz, xn), (hr, hz, hn) = jnp.split(given, 3, axis=-1), jnp.split(h @ weight + bias, 3, axis=-1)
            z = nnx.sigmoid(xz + hz)
            h = (1 - z) * jnp.tanh(xn + nnx.sigmoid(xr + hr) * hn) + z * h
            return (h,), h
"""), "rnn_tanh": ("RNN", "one", 1, "(zeros,)", """\
            h = jnp.tanh(given + state[0] @ weight + bias)
            return (h,), h
"""), "rnn_relu": ("RNNRelu", "one", 1, "(zeros,)", """\
            h = nnx.relu(given + state[0] @ weight + bias)
            return (h,), h
""")}
_PIECES = {"i2h_weight": "weight_ih", "h2h_weight": "weight_hh", "i2h_bias": "bias_ih", "h2h_bias": "bias_hh"}


@op("RNN")
def _rnn(c: EmittedNode) -> Any:
    p = c.p
    weights, zero = recurrent(c)
    name, order, gates, state, step = _STEPS[p["mode"]]
    helper = _RECURRENT.replace("STEP", step).replace("NAME", name).replace("ORDER", order).replace(
        "GATES", str(gates)).replace("STATE", state)
    count = 2 if name == "LSTM" else 1
    starts = [] if zero else [c.ref(i) for i in range(2, 2 + count)]
    wanted, ends, data = c.uses(1) or c.uses(2), [], c.ref()
    directions = 1 + p["bidirectional"]
    for layer in range(p["num_layers"]):
        out = []
        for direction in range(directions):
            tensors = {_PIECES[n]: v for (a, b, n), v in weights.items() if (a, b) == (layer, direction)}
            starting = [c.expr(f"{{0}}[{layer * directions + direction}]", s) for s in starts]
            call = "".join(f", {{{i + 1}}}" for i in range(len(starting)))
            result = c.layer(name, {"input_size": tensors["weight_ih"].shape[1], "hidden_size": p["state_size"]},
                             {"reverse": (bool(direction), False)}, tensors, data, *starting, helper=helper,
                             call=f"{{self}}({{0}}{call})" + ("" if wanted else "[0]"), results=1 + count * wanted)
            out.append(result[0] if wanted else result)
            ends.append(result[1:] if wanted else [])
        data = out[0] if directions == 1 else c.expr("jnp.concatenate(({*}), axis=-1)", *out)
    if not wanted:
        return [data]
    return [data, *(c.expr("jnp.stack(({*},))", *column) for column in zip(*ends, strict=True))]


# ------------------------------------------------------------ detection
_DETECT = '''def detect(scores: jax.Array, offsets: jax.Array, anchors: jax.Array, *, threshold: float, overlap: float,
           variances: tuple[float, ...], clip: bool, across: bool, most: int) -> jax.Array:
    """Boxes (batch, anchors, 6): class (-1 where there is none), score, corners; the best of those that overlap.

    scores: (batch, classes, anchors), the background first; offsets: (batch, anchors * 4); anchors: (1, anchors, 4) by
    corners; across: boxes suppress those of other classes too; most: how many are looked at, all where negative.
    """
    size = anchors[0, :, 2:] - anchors[0, :, :2]
    centre = (anchors[0, :, :2] + anchors[0, :, 2:]) / 2

    def one(score: jax.Array, offset: jax.Array) -> jax.Array:
        best, kind = score[1:].max(0), score[1:].argmax(0)
        shift, scale = jnp.split(offset.reshape(-1, 4) * jnp.array(variances), 2, axis=1)
        middle, half = shift * size + centre, jnp.exp(scale) * size / 2
        boxes = jnp.concatenate((middle - half, middle + half), 1)
        boxes = jnp.clip(boxes, 0, 1) if clip else boxes
        good, places = best >= threshold, jnp.arange(len(best))
        rows = jnp.where(good[:, None], jnp.column_stack((kind, best, boxes)), -1)
        rows = rows[jnp.argsort(jnp.where(good, -best, jnp.inf), stable=True)]
        areas = (rows[:, 4:] - rows[:, 2:4]).prod(1)

        def suppress(i: jax.Array, kept: jax.Array) -> jax.Array:
            shared = jnp.maximum(jnp.minimum(rows[i, 4:], rows[:, 4:]) - jnp.maximum(rows[i, 2:4], rows[:, 2:4]), 0)
            shared = shared.prod(1)
            over = (shared >= overlap * (areas[i] + areas - shared)) & (across | (rows[:, 0] == rows[i, 0]))
            return kept & ~(over & (places > i) & kept[i])
        looked_at = places < (jnp.minimum(good.sum(), most) if most > 0 else good.sum())
        kept = jax.lax.fori_loop(0, len(best), suppress, looked_at)
        return rows.at[:, 0].set(jnp.where(kept, rows[:, 0], -1))
    return jax.vmap(one)(scores, offsets)'''


_MASK = '''def sequence_mask(x: jax.Array, lengths: jax.Array, axis: int, value: float = 0.0) -> jax.Array:
    """x with `value` behind the end of each sequence; time is the axis 0 or 1, the batch the other one."""
    inside = jnp.arange(x.shape[axis]) < lengths[:, None]  # (batch, time)
    inside = inside if axis == 1 else inside.T
    return jnp.where(inside.reshape(*inside.shape, *[1] * (x.ndim - 2)), x, value)'''
_MASKED_SOFTMAX = '''def masked_softmax(x: jax.Array, lengths: jax.Array, axis: int) -> jax.Array:
    """Softmax over the first `lengths` places of an axis, 0 behind them."""
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    inside = jnp.arange(x.shape[axis]).reshape(shape) < jnp.expand_dims(lengths, axis)
    return jnp.where(inside, nnx.softmax(jnp.where(inside, x, -jnp.inf), axis), 0)'''
_SELF_SCORES = '''def self_attention_scores(qkv: jax.Array, heads: int) -> jax.Array:
    """(time, batch, heads * 3 * size), queries, keys and values of each head beside each other, as (batch * heads,
    time, time)."""
    time, batch = qkv.shape[:2]
    parts = qkv.reshape(time, batch, heads, 3, -1).transpose(3, 1, 2, 0, 4)
    query, key, _ = parts.reshape(3, batch * heads, time, -1)
    return query / query.shape[-1] ** 0.5 @ key.mT'''
_CROSS_SCORES = '''def cross_attention_scores(queries: jax.Array, kv: jax.Array, heads: int) -> jax.Array:
    """(time, batch, heads * size) and (other time, batch, heads * 2 * size) as (batch * heads, time, other time)."""
    time, batch = queries.shape[:2]
    query = queries.reshape(time, batch * heads, -1).swapaxes(0, 1)
    key = kv.reshape(kv.shape[0], batch * heads, 2, -1)[:, :, 0].swapaxes(0, 1)
    return query / query.shape[-1] ** 0.5 @ key.mT'''
_VALUES = '''def attention_values(packed: jax.Array, attention: jax.Array, heads: int, parts: int) -> jax.Array:
    """The last of the `parts` beside each other in each head, mixed as the attention says: (time, batch, width)."""
    batch = packed.shape[1]
    value = packed.reshape(packed.shape[0], batch * heads, parts, -1)[:, :, -1].swapaxes(0, 1)
    return (attention @ value).swapaxes(0, 1).reshape(attention.shape[1], batch, -1)'''

_REVERSE = '''def sequence_reverse(x: jax.Array, lengths: jax.Array) -> jax.Array:
    """Each sequence of (time, batch, ...) backwards up to its end; what follows stays."""
    time, lengths = jnp.arange(x.shape[0])[:, None], lengths.astype("int32")
    return x[jnp.where(time < lengths, lengths - 1 - time, time), jnp.arange(x.shape[1])]'''
_DOWN = '''def round_half_down(x: jax.Array) -> jax.Array:
    """The nearest whole numbers; halves go down."""
    return jnp.where(x - jnp.floor(x) <= 0.5, jnp.floor(x), jnp.ceil(x))'''
_AWAY = '''def round_half_away(x: jax.Array) -> jax.Array:
    """The nearest whole numbers; halves go away from zero."""
    low = jnp.floor(jnp.abs(x))
    return jnp.where(jnp.abs(x) - low < 0.5, low, jnp.ceil(jnp.abs(x))) * jnp.sign(x)'''

_FOREACH = '''\
def foreach(step: nnx.Module, items: tuple, states: tuple, given: tuple, count: int) -> tuple[jax.Array, ...]:
    """Calls `step` with each slice of the items, the states and what is given.

    Of its results the first `count` are outputs, which are stacked, the others the next states.
    """
    def call(states: tuple, item: tuple) -> tuple[tuple, tuple]:
        found = step(*item, *states, *given)
        found = found if isinstance(found, tuple) else (found,)
        return found[count:], found[:count]
    states, outputs = jax.lax.scan(call, states, items)
    return *outputs, *states'''
_WHILE = '''\
def while_loop(condition: nnx.Module, step: nnx.Module, variables: tuple, given: tuple, most: int,
               count: int) -> tuple[jax.Array, ...]:
    """Calls `step` with the variables and what is given while the condition is true, at most `most` times.

    Of its results the first `count` are outputs, which are stacked (zeros follow), the others the next variables.
    """
    def call(variables: tuple) -> tuple[tuple, tuple]:
        found = step(*variables, *given)
        found = found if isinstance(found, tuple) else (found,)
        return found[count:], found[:count]
    blank = tuple(jnp.zeros(value.shape, value.dtype) for value in jax.eval_shape(call, variables)[1])

    def body(state: tuple, _: None) -> tuple[tuple, tuple]:
        going, variables = state
        going &= condition(*variables, *given).reshape(()) != 0
        variables, outputs = jax.lax.cond(going, call, lambda variables: (variables, blank), variables)
        return (going, variables), outputs
    (_, variables), outputs = jax.lax.scan(body, (jnp.array(True), variables), length=most)
    return *outputs, *variables'''
_CHOOSE = '''\
def choose(condition: nnx.Module, then: nnx.Module, otherwise: nnx.Module, given: tuple) -> jax.Array | tuple:
    """What `then` gives where the condition is true, else what `otherwise` gives."""
    return jax.lax.cond(condition(*given).reshape(()) != 0, lambda: then(*given), lambda: otherwise(*given))'''


def _top(count: int, axis: int, last: bool, least: bool) -> str:
    return f"jax.lax.top_k({{0}}, {count})[0]" if last and not least else ""


def _padded(pairs: Sequence[tuple[int, int]], value: str) -> str:
    return f"jnp.pad({{0}}, {tuple(pairs)}, constant_values={value})"


def _solved(right: str, turned: bool, lower: bool) -> str:
    return f"jax.scipy.linalg.solve_triangular({{0}}, {right}, trans={int(turned)}, lower={lower})"


DIALECT = Dialect(
    lib="jnp", top=_top, pad=_padded, solve=_solved, dim="axis", keep="keepdims",
    functions={"relu": "nnx.relu", "sigmoid": "nnx.sigmoid", "softsign": "nnx.soft_sign", "erf": "jax.lax.erf",
               "rsqrt": "jax.lax.rsqrt", "concat": "jnp.concatenate", "repeat": "jnp.repeat"},
    tensors={"at_least": "jnp.maximum({0}, {n})", "at_most": "jnp.minimum({0}, {n})",
             "clip": "jnp.clip({0}, {low}, {high})", "cast": "{0}.astype({dtype})",
             "transpose": "jnp.transpose({0}, ({axes}))", "expand_dims": "jnp.expand_dims({0}, {axis})",
             "flat": "{0}.reshape({0}.shape[0], -1)", "flat_module": "lambda x: x.reshape(x.shape[0], -1)",
             "unbind": "jnp.unstack({0}, axis={axis})", "split": "jnp.split({0}, {count}, axis={axis})",
             "split_at": "jnp.split({0}, {places}, axis={axis})",
             "broadcast_like": "jnp.broadcast_to({0}, {1}.shape)", "index": '{0}.astype("int32")',
             "gather": "jnp.take_along_axis({0}, {places}, {axis})", "softmax": "nnx.softmax({0}, {axis})",
             "log_softmax": "nnx.log_softmax({0}, {axis})", "one_hot": 'nnx.one_hot({0}.astype("int32"), {depth})',
             "detect": _DETECT, "masked_softmax": _MASKED_SOFTMAX, "sequence_mask": _MASK,
             "self_attention_scores": _SELF_SCORES,
             "cross_attention_scores": _CROSS_SCORES, "attention_values": _VALUES, "sequence_reverse": _REVERSE,
             "cbrt": "jnp.cbrt({0})", "erfinv": "jax.lax.erf_inv({0})", "gammaln": "jax.lax.lgamma({0})",
             "gamma": "jax.scipy.special.gamma({0})", "round_half_down": _DOWN, "round_half_away": _AWAY,
             "write": "{0}.at[{place}].set({value})", "write_helper": "", "ddof": "ddof", "array": "jnp.array",
             "sort": "jnp.sort({0}, {axis}, descending={descending})",
             "argsort": "jnp.argsort({0}, {axis}, descending={descending})",
             "mask": "jnp.put_along_axis(jnp.zeros_like({0}), {1}, 1, {axis}, inplace=False)"})
register(op, DIALECT)
formulas.register(op, DIALECT)
vision.register(op, DIALECT, flax_vision.HELPERS)
_TURN = "jnp.transpose({0}, ({axes}))"
control_flow.register(op, _TURN, {"foreach": _FOREACH, "while_loop": _WHILE, "choose": _CHOOSE})


def _head(source: str) -> str:
    return ("import pathlib\n\nimport jax\nimport jax.numpy as jnp\nfrom flax import nnx\n"
            "from safetensors.flax import load_file")


_FOOT = '''def load(path: str | pathlib.Path = pathlib.Path(__file__).with_name("model.safetensors")) -> {name}:
    """The model with its weights, ready to predict."""
    @nnx.jit  # so that no random weights are computed first
    def filled(weights: dict[str, jax.Array]) -> {name}:
        model = {name}(nnx.Rngs(0))
        variables = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
        nnx.update(model, nnx.from_flat_state([(k, v.replace(weights[".".join(map(str, k))])) for k, v in variables]))
        return model
    model = filled(load_file(path))
    model.eval()
    return model'''

TARGET = Target(
    op, package="flax", extra_name="flax", head=_head, foot=_FOOT, given="jax.numpy.asarray(value)",
    module="nnx.Module", call="__call__", tensor="jax.Array", init="", extra="rngs=rngs",
    sequential="nnx.Sequential(*)", members=".layers", several="nnx.List([*])", special=_special,
    turn=_TURN, compiled="nnx.jit(load())")
