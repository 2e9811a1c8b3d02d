"""PyTorch: how each operator is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import control_flow, formulas, torch_vision, vision
from .recurrent import recurrent
from .shared import Dialect, register, short
from .steps import EmittedNode, Ref, Step, Table
from .writer import Target

__all__ = ["TARGET"]

op = Table()


def _special(step: Step) -> str:
    shape = ", ".join(map(str, step.args["shape"]))
    if step.call == "CONSTANT":
        fill = step.args["fill"]
        return {0.0: f"torch.zeros({shape})", 1.0: f"torch.ones({shape})"}.get(
            fill, f"torch.full({step.args['shape']}, {fill!r})")
    if step.maker == "PARAMETER":
        return f"nn.Parameter(torch.zeros({shape}))"
    dtype = "" if step.args["dtype"] == "float32" else f", dtype=torch.{step.args['dtype']}"
    return f'self.register_buffer("?", torch.zeros({shape}{dtype}))'


# ------------------------------------------------------------ layers
def _window(c: EmittedNode) -> dict[str, tuple[Any, Any]]:
    dims = len(c.p["kernel"])
    layout = c.p.get("layout")
    c.need(layout is None or layout.startswith("NC"), f"layout {layout}: channels must come first")
    return {"stride": (short(c.p["stride"] or (1,) * dims), 1), "padding": (short(c.p["pad"] or (0,) * dims), 0)}


@op("Convolution", "Convolution_v1", "Deconvolution")
def _convolution(c: EmittedNode) -> Ref:
    dims, groups, turned = len(c.p["kernel"]), c.p["num_group"], c.kind == "Deconvolution"
    weight = c.value(1)
    c.need(c.is_parameter(1), "its weight is used by other operators too")
    window = _window(c)
    if turned:
        c.need(not c.p["target_shape"], "target_shape")
        window["output_padding"] = (short(c.p["adj"] or (0,) * dims), 0)
    widths = (weight.shape[0], weight.shape[1] * groups) if turned else (weight.shape[1] * groups, weight.shape[0])
    tensors = {"weight": weight, **({"bias": c.value(2)} if c.has(2) else {})}
    return c.layer(f"nn.Conv{'Transpose' if turned else ''}{dims}d",
                   {"in_channels": widths[0], "out_channels": widths[1], "kernel_size": short(c.p["kernel"])},
                   {**window, "dilation": (short(c.p["dilate"] or (1,) * dims), 1), "groups": (groups, 1),
                    "bias": (c.has(2), True)}, tensors, c.ref())


@op("FullyConnected")
def _fully_connected(c: EmittedNode) -> Ref:
    data = c.ref()
    if c.p["flatten"] and c.ndim() > 2:
        data = c.expr("{0}.flatten(1)", data, module="nn.Flatten()")
    if not c.is_parameter(1):
        return c.expr("F.linear({*})", data, *c.refs[1:])
    weight = c.value(1)
    return c.layer("nn.Linear", {"in_features": weight.shape[1], "out_features": weight.shape[0]},
                   {"bias": (c.has(2), True)}, {"weight": weight, **({"bias": c.value(2)} if c.has(2) else {})}, data)


@op("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def _batch_norm(c: EmittedNode) -> Ref:
    c.need(c.p.get("axis", 1) in (1, 1 - c.ndim()) or c.ndim() == 2, f"axis {c.p.get('axis')}")
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    gamma = np.ones_like(c.value(1)) if c.p["fix_gamma"] else c.value(1)
    dims = {2: 1, 3: 1, 4: 2, 5: 3}[c.ndim()]
    tensors = {"weight": gamma, "bias": c.value(2), "running_mean": c.value(3), "running_var": c.value(4),
               "num_batches_tracked": np.array(0, np.int64)}
    result = c.layer(f"nn.BatchNorm{dims}d", {"num_features": len(gamma)},
                     {"eps": (float(c.p["eps"]), 1e-5), "momentum": (round(1 - float(c.p["momentum"]), 6), 0.1)},
                     tensors, c.ref())
    return c.expr("F.relu({0})", result, module="nn.ReLU()") if c.kind.endswith("ReLU") else result


@op("Pooling", "Pooling_v1")
def _pooling(c: EmittedNode) -> Ref:
    pool_type, dims = c.p["pool_type"], c.ndim() - 2
    c.need(pool_type in ("max", "avg"), f"pool_type {pool_type}")
    if c.p["global_pool"]:
        return c.layer(f"nn.Adaptive{pool_type.title()}Pool{dims}d", {"output_size": 1}, {}, {}, c.ref())
    window = _window(c)
    full = c.p["pooling_convention"] == "full"
    c.need(c.p["pooling_convention"] in ("valid", "full"), f"pooling_convention {c.p['pooling_convention']}")
    if full:
        sizes = zip(c.shape()[2:], c.out_shape()[2:], c.p["kernel"], c.p["stride"] or (1,) * dims,
                    c.p["pad"] or (0,) * dims, strict=True)
        c.need(all((out - 1) * s < n + p for n, out, _, s, p in sizes), "a window that lies outside of the image")
    window["stride"] = (window["stride"][0], short(c.p["kernel"]))
    window["ceil_mode"] = (full, False)
    if pool_type == "avg":
        window["count_include_pad"] = (c.p.get("count_include_pad") is not False, True)
    return c.layer(f"nn.{pool_type.title()}Pool{dims}d", {"kernel_size": short(c.p["kernel"])}, window, {}, c.ref())


_ACTIVATIONS = {"relu": ("F.relu({0})", "nn.ReLU()"), "sigmoid": ("torch.sigmoid({0})", "nn.Sigmoid()"),
                "tanh": ("torch.tanh({0})", "nn.Tanh()"), "softrelu": ("F.softplus({0})", "nn.Softplus()"),
                "softsign": ("F.softsign({0})", "nn.Softsign()"), "mish": ("F.mish({0})", "nn.Mish()"),
                "log_sigmoid": ("F.logsigmoid({0})", "nn.LogSigmoid()")}


@op("Activation")
def _activation(c: EmittedNode) -> Ref:
    call, module = _ACTIVATIONS[c.p["act_type"]]
    return c.expr(call, c.ref(), module=module)


@op("Dropout")
def _dropout(c: EmittedNode) -> Ref:
    return c.layer("nn.Dropout", {"p": float(c.p["p"])}, {}, {}, c.ref())


@op("clip")
def _clip(c: EmittedNode) -> Ref:
    low, high = float(c.p["a_min"]), float(c.p["a_max"])
    if (low, high) == (0, 6):
        return c.expr("F.relu6({0})", c.ref(), module="nn.ReLU6()")
    return c.expr(f"{{0}}.clamp({low:g}, {high:g})", c.ref())


@op("LeakyReLU")
def _leaky_relu(c: EmittedNode) -> Ref:
    act_type, slope = c.p["act_type"], float(c.p["slope"])
    if act_type == "prelu":
        weight = c.value(1).reshape(-1)
        return c.layer("nn.PReLU", {"channels": len(weight)}, {}, {"weight": weight}, c.ref())
    if act_type == "rrelu":
        slope = float(c.p["lower_bound"] + c.p["upper_bound"]) / 2
    call, module = {"gelu": ("F.gelu({0})", "nn.GELU()"), "selu": ("F.selu({0})", "nn.SELU()"),
                    "elu": (f"F.elu({{0}}, {slope:g})", f"nn.ELU({slope:g})")}.get(
        act_type, (f"F.leaky_relu({{0}}, {slope:g})", f"nn.LeakyReLU({slope:g})"))
    return c.expr(call, c.ref(), module=module)


@op("LayerNorm")
def _layer_norm(c: EmittedNode) -> Ref:
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    c.need(c.axis(c.p["axis"]) == c.ndim() - 1, f"axis {c.p['axis']}: it must be the last one")
    return c.layer("nn.LayerNorm", {"features": c.shape()[-1]}, {"eps": (float(c.p["eps"]), 1e-5)},
                   {"weight": c.value(1), "bias": c.value(2)}, c.ref())


@op("InstanceNorm")
def _instance_norm(c: EmittedNode) -> Ref:
    return c.layer(f"nn.InstanceNorm{c.ndim() - 2}d", {"num_features": c.shape()[1]},
                   {"eps": (float(c.p["eps"]), 1e-5), "affine": (True, False)},
                   {"weight": c.value(1), "bias": c.value(2)}, c.ref())


@op("GroupNorm")
def _group_norm(c: EmittedNode) -> Ref:
    c.need(not c.p["output_mean_var"], "output_mean_var=True")
    groups, channels = c.p["num_groups"], c.shape()[1]
    weight, bias = (np.repeat(v, channels // len(v)) for v in (c.value(1), c.value(2)))
    return c.layer("nn.GroupNorm", {"num_groups": groups, "channels": channels},
                   {"eps": (float(c.p["eps"]), 1e-5)}, {"weight": weight, "bias": bias}, c.ref())


@op("LRN")
def _lrn(c: EmittedNode) -> Ref:
    return c.layer("nn.LocalResponseNorm", {"size": c.p["nsize"]},
                   {"alpha": (float(c.p["alpha"]), 1e-4), "beta": (float(c.p["beta"]), 0.75),
                    "k": (float(c.p["knorm"]), 1.0)}, {}, c.ref())


@op("Embedding", "_contrib_SparseEmbedding")
def _embedding(c: EmittedNode) -> Ref:
    data = c.ref() if c.dtype().name in ("int32", "int64") else c.expr("{0}.long()", c.ref())
    if not c.is_parameter(1):
        return c.expr("F.embedding({0}, {1})", data, c.ref(1))
    return c.layer("nn.Embedding", {"input_dim": c.p["input_dim"], "output_dim": c.p["output_dim"]}, {},
                   {"weight": c.value(1)}, data)


@op("Pad")
def _pad(c: EmittedNode) -> Ref:
    pairs = [c.p["pad_width"][i:i + 2] for i in range(0, len(c.p["pad_width"]), 2)]
    while pairs and not any(pairs[0]):
        pairs = pairs[1:]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[c.p["mode"]]
    widths = tuple(n for pair in pairs[::-1] for n in pair)
    after = "" if mode == "constant" and not c.p["constant_value"] else (
        f", value={c.p['constant_value']:g}" if mode == "constant" else f', "{mode}"')
    return c.expr(f"F.pad({{0}}, {widths}{after})", c.ref())


@op("UpSampling")
def _up_sampling(c: EmittedNode) -> Ref:
    if c.p["sample_type"] == "bilinear":
        scale, weight = c.p["scale"], c.value(1)
        return c.layer("nn.ConvTranspose2d", {"in_channels": weight.shape[0], "out_channels": weight.shape[0],
                                              "kernel_size": short(weight.shape[2:])},
                       {"stride": (scale, 1), "padding": (scale // 2, 0), "groups": (weight.shape[0], 1),
                        "bias": (False, True)}, {"weight": weight}, c.ref())
    c.need(len(c.node.inputs) == 1, "several inputs")
    return c.expr(f"F.interpolate({{0}}, scale_factor={c.p['scale']})", c.ref(),
                  module=f"nn.Upsample(scale_factor={c.p['scale']})")


@op("_contrib_BilinearResize2D")
def _bilinear_resize(c: EmittedNode) -> Ref:
    return c.expr(f'F.interpolate({{0}}, {c.out_shape()[2:]}, mode="bilinear", '
                  f"align_corners={c.p.get('align_corners', True)})", c.ref())


@op("_contrib_AdaptiveAvgPooling2D")
def _adaptive(c: EmittedNode) -> Ref:
    return c.layer("nn.AdaptiveAvgPool2d", {"output_size": short(c.p["output_size"] or (1, 1))}, {}, {}, c.ref())


@op("RNN")
def _rnn(c: EmittedNode) -> Any:
    p, mode = c.p, c.p["mode"]
    weights, zero = recurrent(c)
    names = {"i2h_weight": "weight_ih", "h2h_weight": "weight_hh", "i2h_bias": "bias_ih", "h2h_bias": "bias_hh"}
    tensors = {f"{names[name]}_l{layer}{'_reverse' if direction else ''}": value
               for (layer, direction, name), value in weights.items()}
    rnn_type = {"lstm": "LSTM", "gru": "GRU"}.get(mode, "RNN")
    keywords = {"num_layers": (p["num_layers"], 1), "dropout": (float(p["p"]) if p["num_layers"] > 1 else 0.0, 0.0),
                "bidirectional": (p["bidirectional"], False)}
    if rnn_type == "RNN":
        keywords["nonlinearity"] = (mode.removeprefix("rnn_"), "tanh")
    states = [] if zero else [c.ref(i) for i in range(2, 4 if rnn_type == "LSTM" else 3)]
    call = ", ({1}, {2})" if len(states) == 2 else ", {1}" if states else ""
    args = {"input_size": c.shape()[2], "hidden_size": p["state_size"]}
    if not c.uses(1) and not c.uses(2):
        return c.layer(f"nn.{rnn_type}", args, keywords, tensors, c.ref(), *states, call=f"{{self}}({{0}}{call})[0]")
    result, state = c.layer(f"nn.{rnn_type}", args, keywords, tensors, c.ref(), *states, call=f"{{self}}({{0}}{call})",
                            results=2)
    return [result, *c.expr("{0}", state, results=2)] if rnn_type == "LSTM" else [result, state]


_DETECT = '''def detect(scores: torch.Tensor, offsets: torch.Tensor, anchors: torch.Tensor, *, threshold: float,
           overlap: float, variances: tuple[float, ...], clip: bool, across: bool, most: int) -> torch.Tensor:
    """Boxes (batch, anchors, 6): class (-1 where there is none), score, corners; the best of those that overlap.

    scores: (batch, classes, anchors), the background first; offsets: (batch, anchors * 4); anchors: (1, anchors, 4) by
    corners; across: boxes suppress those of other classes too; most: how many are looked at, all where negative.
    """
    size = anchors[0, :, 2:] - anchors[0, :, :2]
    centre = (anchors[0, :, :2] + anchors[0, :, 2:]) / 2
    found = []
    for score, offset in zip(scores, offsets):
        best, kind = score[1:].max(0)
        shift, scale = (offset.view(-1, 4) * offset.new_tensor(variances)).split(2, 1)
        middle, half = shift * size + centre, scale.exp() * size / 2
        boxes = torch.cat((middle - half, middle + half), 1)
        boxes = boxes.clamp(0, 1) if clip else boxes
        rows = torch.cat((kind[:, None].to(boxes.dtype), best[:, None], boxes), 1)
        good = best >= threshold
        rows = torch.cat((rows[good][best[good].argsort(descending=True, stable=True)],
                          rows.new_full((int((~good).sum()), 6), -1)))
        count = int(good.sum()) if most <= 0 else min(int(good.sum()), most)
        rows[count:, 0] = -1
        for i in range(count):
            if rows[i, 0] < 0:
                continue
            rest = rows[i + 1:count]
            shared = (torch.minimum(rows[i, 4:], rest[:, 4:]) - torch.maximum(rows[i, 2:4], rest[:, 2:4])).clamp(min=0)
            area = (rows[i, 4:] - rows[i, 2:4]).prod() + (rest[:, 4:] - rest[:, 2:4]).prod(1)
            over = shared.prod(1) >= overlap * (area - shared.prod(1))
            rest[over if across else over & (rest[:, 0] == rows[i, 0]), 0] = -1
        found.append(rows)
    return torch.stack(found)'''


_MASK = '''def sequence_mask(x: torch.Tensor, lengths: torch.Tensor, axis: int, value: float = 0.0) -> torch.Tensor:
    """x with `value` behind the end of each sequence; time is the axis 0 or 1, the batch the other one."""
    inside = torch.arange(x.shape[axis]) < lengths[:, None]  # (batch, time)
    inside = inside if axis == 1 else inside.T
    return torch.where(inside.reshape(*inside.shape, *[1] * (x.ndim - 2)), x, value)'''
_MASKED_SOFTMAX = '''def masked_softmax(x: torch.Tensor, lengths: torch.Tensor, axis: int) -> torch.Tensor:
    """Softmax over the first `lengths` places of an axis, 0 behind them."""
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    inside = torch.arange(x.shape[axis]).reshape(shape) < lengths.unsqueeze(axis)
    return x.masked_fill(~inside, -torch.inf).softmax(axis).masked_fill(~inside, 0)'''
_SELF_SCORES = '''def self_attention_scores(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """(time, batch, heads * 3 * size), queries, keys and values of each head beside each other, as (batch * heads,
    time, time)."""
    query, key, _ = qkv.unflatten(2, (heads, 3, -1)).permute(3, 1, 2, 0, 4).flatten(1, 2)
    return query / query.shape[-1] ** 0.5 @ key.mT'''
_CROSS_SCORES = '''def cross_attention_scores(queries: torch.Tensor, kv: torch.Tensor, heads: int) -> torch.Tensor:
    """(time, batch, heads * size) and (other time, batch, heads * 2 * size) as (batch * heads, time, other time)."""
    query = queries.unflatten(2, (heads, -1)).permute(1, 2, 0, 3).flatten(0, 1)
    key, _ = kv.unflatten(2, (heads, 2, -1)).permute(3, 1, 2, 0, 4).flatten(1, 2)
    return query / query.shape[-1] ** 0.5 @ key.mT'''
_VALUES = '''\
def attention_values(packed: torch.Tensor, attention: torch.Tensor, heads: int, parts: int) -> torch.Tensor:
    """The last of the `parts` beside each other in each head, mixed as the attention says: (time, batch, width)."""
    value = packed.unflatten(2, (heads, parts, -1))[:, :, :, -1].permute(1, 2, 0, 3).flatten(0, 1)
    return (attention @ value).unflatten(0, (-1, heads)).permute(2, 0, 1, 3).flatten(2)'''

_REVERSE = '''def sequence_reverse(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Each sequence of (time, batch, ...) backwards up to its end; what follows stays."""
    time, lengths = torch.arange(x.shape[0])[:, None], lengths.long()
    return x[torch.where(time < lengths, lengths - 1 - time, time), torch.arange(x.shape[1])]'''
_DOWN = '''def round_half_down(x: torch.Tensor) -> torch.Tensor:
    """The nearest whole numbers; halves go down."""
    return torch.where(x - x.floor() <= 0.5, x.floor(), x.ceil())'''
_AWAY = '''def round_half_away(x: torch.Tensor) -> torch.Tensor:
    """The nearest whole numbers; halves go away from zero."""
    low = x.abs().floor()
    return torch.where(x.abs() - low < 0.5, low, x.abs().ceil()) * x.sign()'''
_WRITE = '''def write(x: torch.Tensor, place: tuple | torch.Tensor, value: torch.Tensor | float) -> torch.Tensor:
    """A copy of x with a value at a place."""
    x = x.clone()
    x[place] = value
    return x'''

_FOREACH = '''\
def foreach(step: nn.Module, items: tuple, states: tuple, given: tuple, count: int) -> tuple[torch.Tensor, ...]:
    """Calls `step` with each slice of the items, the states and what is given.

    Of its results the first `count` are outputs, which are stacked, the others the next states.
    """
    outputs = []
    for item in zip(*items):
        found = step(*item, *states, *given)
        found = found if isinstance(found, tuple) else (found,)
        outputs.append(found[:count])
        states = found[count:]
    return *(torch.stack(column) for column in zip(*outputs)), *states'''
_WHILE = '''\
def while_loop(condition: nn.Module, step: nn.Module, variables: tuple, given: tuple, most: int,
               count: int) -> tuple[torch.Tensor, ...]:
    """Calls `step` with the variables and what is given while the condition is true, at most `most` times.

    Of its results the first `count` are outputs, which are stacked (zeros follow), the others the next variables.
    """
    outputs = []

    def call() -> tuple[torch.Tensor, ...]:
        found = step(*variables, *given)
        return found if isinstance(found, tuple) else (found,)
    while len(outputs) < most and condition(*variables, *given):
        found = call()
        outputs.append(found[:count])
        variables = found[count:]
    if len(outputs) < most:
        blank = tuple(torch.zeros_like(value) for value in (outputs[0] if outputs else call()[:count]))
        outputs += [blank] * (most - len(outputs))
    return *(torch.stack(column) for column in zip(*outputs)), *variables'''
_CHOOSE = '''\
def choose(condition: nn.Module, then: nn.Module, otherwise: nn.Module, given: tuple) -> torch.Tensor | tuple:
    """What `then` gives where the condition is true, else what `otherwise` gives."""
    return then(*given) if condition(*given) else otherwise(*given)'''


def _top(count: int, axis: int, last: bool, least: bool) -> str:
    return f"{{0}}.topk({count}, {axis}{', largest=False' if least else ''}).values"


def _padded(pairs: Sequence[tuple[int, int]], value: str) -> str:
    while pairs and not any(pairs[0]):
        pairs = pairs[1:]
    return f"F.pad({{0}}, {tuple(n for pair in pairs[::-1] for n in pair)}, value={value})"


def _solved(right: str, turned: bool, lower: bool) -> str:
    return f"torch.linalg.solve_triangular({{0}}{'.mT' if turned else ''}, {right}, upper={lower == turned})"


DIALECT = Dialect(
    lib="torch", top=_top, pad=_padded, solve=_solved, dim="dim", keep="keepdim",
    functions={"relu": "F.relu", "softsign": "F.softsign", "concat": "torch.cat", "repeat": "torch.repeat_interleave",
               "reduce_max": "amax", "reduce_min": "amin"},
    tensors={"at_least": "{0}.clamp(min={n})", "at_most": "{0}.clamp(max={n})", "clip": "{0}.clamp({low}, {high})",
             "cast": "{0}.to({dtype})", "flatten": "flatten", "transpose": "{0}.permute({axes})",
             "expand_dims": "{0}.unsqueeze({axis})", "flat": "{0}.flatten(1)", "flat_module": "nn.Flatten()",
             "unbind": "{0}.unbind({axis})", "split": "{0}.chunk({count}, {axis})",
             "split_at": "torch.tensor_split({0}, {places}, {axis})", "broadcast_like": "{0}.expand_as({1})",
             "index": "{0}.long()", "gather": "{0}.gather({axis}, {places})", "softmax": "{0}.softmax({axis})",
             "log_softmax": "{0}.log_softmax({axis})", "one_hot": "F.one_hot({0}.long(), {depth})",
             "detect": _DETECT, "masked_softmax": _MASKED_SOFTMAX, "sequence_mask": _MASK,
             "self_attention_scores": _SELF_SCORES,
             "cross_attention_scores": _CROSS_SCORES, "attention_values": _VALUES, "sequence_reverse": _REVERSE,
             "cbrt": "{0}.sign() * {0}.abs() ** (1 / 3)", "erfinv": "torch.erfinv({0})",
             "gammaln": "torch.lgamma({0})",
             "gamma": "torch.where(({0} < 0) & ({0}.floor() % 2 != 0), -1, 1) * torch.lgamma({0}).exp()",
             "round_half_down": _DOWN, "round_half_away": _AWAY, "write": "write({0}, {place}, {value})",
             "write_helper": _WRITE, "ddof": "correction", "array": "torch.tensor",
             "sort": "{0}.sort({axis}, descending={descending}).values",
             "argsort": "{0}.argsort(dim={axis}, descending={descending}, stable=True)",
             "mask": "torch.zeros_like({0}).scatter({axis}, {1}, 1)"})
register(op, DIALECT)
formulas.register(op, DIALECT)
vision.register(op, DIALECT, torch_vision.HELPERS)
control_flow.register(op, "", {"foreach": _FOREACH, "while_loop": _WHILE, "choose": _CHOOSE})


def _head(source: str) -> str:
    functions = "import torch.nn.functional as F\n" if "F." in source else ""
    return f"import pathlib\n\nimport torch\n{functions}from safetensors.torch import load_file\nfrom torch import nn"


_FOOT = '''def load(path: str | pathlib.Path = pathlib.Path(__file__).with_name("model.safetensors")) -> {name}:
    """The model with its weights, ready to predict."""
    model = {name}()
    model.load_state_dict(load_file(path))
    return model.eval()'''

TARGET = Target(
    op, package="torch", extra_name="pytorch", head=_head, foot=_FOOT, given="torch.from_numpy(value)",
    module="nn.Module", call="forward", tensor="torch.Tensor", init="super().__init__()", extra="",
    sequential="nn.Sequential(*)", members="", several="nn.ModuleList([*])", special=_special)
