"""`convert --to pytorch` and `--to flax`: the written source computes what mxjax computes, and is short.

`make convert-check` runs these tests with PyTorch, in an environment of their own; elsewhere its part is skipped.
"""

import ast
import importlib.util
import json
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax import __main__ as command_line
from mxjax import gluon
from mxjax.gluon.model_zoo import vision
from mxjax.tools.source import project

pytest.importorskip("safetensors")
sym = mx.sym

TARGETS = [pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(package) is None,
                                                       reason=f"{package} is not installed"))
           for name, package in (("pytorch", "torch"), ("flax", "flax"))]


# ------------------------------------------------------------ models
def _zoo(name, **kwargs):
    return lambda: vision.get_model(name, **kwargs)


def mlp():
    x = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=32, name="fc1"), act_type="relu", name="relu1")
    x = sym.Activation(sym.FullyConnected(x, num_hidden=16, name="fc2"), act_type="tanh", name="tanh1")
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=4, name="fc3"), name="softmax")


def lenet():
    x = sym.Activation(sym.Convolution(sym.var("data"), kernel=(5, 5), num_filter=8), act_type="tanh")
    x = sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2))
    x = sym.Activation(sym.Convolution(x, kernel=(5, 5), num_filter=16, dilate=(1, 1)), act_type="tanh")
    x = sym.Pooling(x, pool_type="avg", kernel=(3, 3), stride=(2, 2), pooling_convention="full",
                    count_include_pad=False)
    x = sym.Activation(sym.FullyConnected(sym.Flatten(x), num_hidden=20), act_type="tanh")
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=10), name="softmax")


class Language(gluon.HybridBlock):
    """Words into an LSTM, scores of the next ones."""

    def __init__(self, cell, **kwargs):
        super().__init__()
        self.words, self.lstm = gluon.nn.Embedding(50, 12), cell(16, num_layers=2, **kwargs)
        self.out = gluon.nn.Dense(50, flatten=False)

    def hybrid_forward(self, F, x):
        return self.out(self.lstm(self.words(x)))


class Stateful(gluon.HybridBlock):
    """A recurrent layer with its states."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def hybrid_forward(self, F, x, *states):
        out, states = self.cell(x, list(states))
        return [out, *states]


def shared():
    """A layer that is called twice, and words that are looked up and scored with the same table."""
    table, weight = sym.var("table"), sym.var("weight")
    x = sym.Embedding(sym.var("data"), weight=table, input_dim=20, output_dim=8)
    for i in range(2):
        x = sym.FullyConnected(x, weight=weight, num_hidden=8, flatten=False, no_bias=True, name=f"fc{i}")
        x = sym.Activation(x, act_type="tanh")
    return sym.FullyConnected(x, weight=table, num_hidden=20, flatten=False, no_bias=True, name="out")


def bert():
    """An encoder as gluonnlp's BERT has it: interleaved attention, a mask of lengths, parts by node names."""
    width, heads, layers = 16, 2, 3

    def dense(x, count, name, **kwargs):
        return sym.FullyConnected(x, num_hidden=count, flatten=False, name=name, **kwargs)

    def norm(x, name):
        return sym.LayerNorm(x, name=name, eps=1e-12)
    ids, kinds, lengths = (sym.var(n) for n in ("data0", "data1", "data2"))
    x = sym.Embedding(ids, input_dim=30, output_dim=width, name="bert_word_embed")
    x = x + sym.Embedding(kinds, input_dim=2, output_dim=width, name="bert_token_type_embed")
    places = sym.contrib.arange_like(ids, axis=1, name="bert_arange")
    x = sym.broadcast_add(x, sym.expand_dims(sym.Embedding(places, input_dim=32, output_dim=width,
                                                           name="bert_position_embed"), axis=0))
    inside = sym.broadcast_lesser(sym.expand_dims(places, axis=0), sym.expand_dims(lengths, axis=1), name="bert_inside")
    bias = sym.expand_dims(sym.repeat((1 - inside) * -1e4, repeats=heads, axis=0), axis=1)
    x = sym.transpose(sym.Dropout(norm(x, "bert_embed_ln"), p=0.1), axes=(1, 0, 2))
    for i in range(layers):
        name = f"bert_layer{i}_"
        qkv = dense(x, 3 * width, name + "qkv")
        scores = sym.contrib.interleaved_matmul_selfatt_qk(qkv, heads=heads, name=name + "qk")
        weights = sym.Dropout(sym.softmax(sym.broadcast_add(scores, bias, name=name + "masked"), name=name + "softmax"),
                              p=0.1, name=name + "dropout0")
        mixed = sym.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=heads, name=name + "valatt")
        mixed = sym.elemwise_add(dense(mixed, width, name + "proj"), x, name=name + "plus0")
        x = norm(mixed, name + "ln0")
        y = sym.LeakyReLU(dense(x, 4 * width, name + "ffn1"), act_type="gelu", name=name + "gelu")
        x = norm(sym.elemwise_add(dense(y, width, name + "ffn2"), x, name=name + "plus1"), name + "ln1")
    first = sym.slice_axis(x, axis=0, begin=0, end=1)
    pooled = sym.Activation(dense(sym.Reshape(first, shape=(-3, -1)), width, "bert_pooler"), act_type="tanh")
    return sym.Group([sym.transpose(x, axes=(1, 0, 2)), pooled])


def ssd():
    """Two scales, each with heads for classes and boxes, and the detections."""
    def block(x, count, stride, name):
        x = sym.Convolution(x, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), num_filter=count,
                            name=f"{name}_conv")
        x = sym.BatchNorm(x, name=f"{name}_bn", fix_gamma=False)
        return sym.Activation(x, act_type="relu", name=f"{name}_relu")
    x, classes, boxes, anchors = sym.var("data"), [], [], []
    for i, size in enumerate((0.3, 0.6)):
        x = block(block(x, 8, 1, f"scale{i}_a"), 8, 2, f"scale{i}_b")
        y = x if i else sym.broadcast_mul(sym.L2Normalization(x, mode="channel"), sym.var("factor", shape=(1, 8, 1, 1)))
        for found, count, name in ((classes, 4 * 3, "cls"), (boxes, 4 * 4, "loc")):
            head = sym.Convolution(y, kernel=(3, 3), pad=(1, 1), num_filter=count, name=f"{name}{i}")
            found.append(sym.Flatten(sym.transpose(head, axes=(0, 2, 3, 1))))
        anchors.append(sym.Flatten(sym.contrib.MultiBoxPrior(x, sizes=(size, size + 0.1), ratios=(1, 2, 0.5))))
    scores = sym.transpose(sym.Reshape(sym.Concat(*classes, dim=1), shape=(0, -1, 3)), axes=(0, 2, 1))
    scores = sym.SoftmaxActivation(scores, mode="channel", name="cls_prob")
    priors = sym.Reshape(sym.Concat(*anchors, dim=1), shape=(0, -1, 4))
    return sym.contrib.MultiBoxDetection(scores, sym.Concat(*boxes, dim=1), priors, nms_threshold=0.3, threshold=0.3,
                                         name="detection")


def arcface():
    """insightface's network for faces, with fewer units."""
    def norm(x, name, fixed=False):
        return sym.BatchNorm(x, fix_gamma=fixed, eps=2e-5, momentum=0.9, name=name)

    def conv(x, count, kernel, stride, name):
        return sym.Convolution(x, num_filter=count, kernel=(kernel, kernel), stride=(stride, stride),
                               pad=(kernel // 2, kernel // 2), no_bias=True, name=name)
    x = (sym.var("data") - 127.5) * 0.0078125
    x = sym.LeakyReLU(norm(conv(x, 8, 3, 1, "conv0"), "bn0"), act_type="prelu", name="relu0")
    for stage, count in enumerate((8, 16, 32), 1):
        for unit in range(1, 4):
            name, stride = f"stage{stage}_unit{unit}", 2 if unit == 1 else 1
            y = norm(conv(norm(x, f"{name}_bn1"), count, 3, 1, f"{name}_conv1"), f"{name}_bn2")
            y = sym.LeakyReLU(y, act_type="prelu", name=f"{name}_relu1")
            y = norm(conv(y, count, 3, stride, f"{name}_conv2"), f"{name}_bn3")
            x = y + (x if unit > 1 else norm(conv(x, count, 1, stride, f"{name}_conv1sc"), f"{name}_sc"))
    x = sym.Dropout(norm(x, "bn1"), p=0.4)
    return norm(sym.FullyConnected(x, num_hidden=16, name="pre_fc1"), "fc1", True)


def shapes():
    """Operators that pick, cut and move."""
    x = sym.var("data")  # (2, 3, 8, 8)
    up = sym.UpSampling(sym.Deconvolution(x, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=4, no_bias=True,
                                          name="up"), scale=2, sample_type="nearest")
    a = sym.Pooling(sym.LRN(up, nsize=3), kernel=(4, 4), stride=(4, 4), pool_type="avg")
    b, c = sym.SliceChannel(sym.concat(a, sym.slice(a, begin=(None, 0), end=(None, 2)), dim=1), num_outputs=2, axis=1)
    y = sym.reshape(b * c, shape=(0, 0, -3)) / 3 + sym.clip(sym.reshape(c, shape=(0, 0, -1)), a_min=0, a_max=0.5)
    y = sym.batch_dot(y, sym.swapaxes(y, 1, 2))
    z = sym.where(y > 0, sym.sqrt(sym.abs(y)), -y)
    z = sym.broadcast_add(z, sym.mean(y, axis=(1, 2), keepdims=True))
    z = sym.broadcast_maximum(z, sym.max(z, axis=2, keepdims=True) - 1)
    best = sym.topk(z, k=2, axis=2, ret_typ="value")
    most = sym.expand_dims(sym.argmax(z, axis=2), axis=2)
    rows = sym.reshape(sym.concat(best, most, sym.norm(z, axis=2, keepdims=True), dim=2), shape=(-4, -1, 1, -2))
    return sym.Group([sym.log_softmax(sym.squeeze(rows, axis=1)), sym.stack(b, c, axis=1), sym.reverse(z, axis=1)])


# name: (network, shapes of inputs, most lines, most classes)
MODELS = {
    "mlp": (mlp, {"data": (5, 20)}, 45, 1), "lenet": (lenet, {"data": (2, 1, 28, 28)}, 45, 1),
    "resnet18_v1": (_zoo("resnet18_v1", classes=10), {"data": (1, 3, 32, 32)}, 90, 3),
    "resnet18_v2": (_zoo("resnet18_v2", classes=10), {"data": (1, 3, 32, 32)}, 95, 4),
    "resnet50_v1": (_zoo("resnet50_v1", classes=10), {"data": (1, 3, 32, 32)}, 105, 4),
    "mobilenet": (_zoo("mobilenet0.25"), {"data": (1, 3, 64, 64)}, 75, 2),
    "squeezenet": (_zoo("squeezenet1.1"), {"data": (1, 3, 224, 224)}, 70, 2),
    "densenet121": (_zoo("densenet121"), {"data": (1, 3, 224, 224)}, 85, 3),
    "lstm": (lambda: Language(gluon.rnn.LSTM), {"data": (7, 3)}, 75, 2),
    "gru": (lambda: Language(gluon.rnn.GRU, bidirectional=True), {"data": (7, 3)}, 85, 2),
    "states": (lambda: Stateful(gluon.rnn.LSTM(6, num_layers=2, input_size=5, bidirectional=True)),
               {"data": (7, 3, 5), "state0": (4, 3, 6), "state1": (4, 3, 6)}, 85, 2),
    "shared": (shared, {"data": (2, 5)}, 45, 1),
    "bert": (bert, {"data0": (2, 9), "data1": (2, 9), "data2": (2,)}, 115, 2),
    "ssd": (ssd, {"data": (2, 3, 32, 32)}, 130, 3), "arcface": (arcface, {"data": (1, 3, 32, 32)}, 110, 5),
    "shapes": (shapes, {"data": (2, 3, 8, 8)}, 75, 1),
}


def save(make, inputs, prefix):
    """Saves a model whose parameters are all random."""
    net = make()
    if isinstance(net, gluon.Block):
        net.initialize()
        net(*(mx.nd.zeros(s) for s in inputs.values()))
        outputs = net(*(sym.var(n) for n in inputs))
        net = sym.Group(outputs) if isinstance(outputs, (list, tuple)) else outputs
    args, _, aux = net.infer_shape(**inputs)
    rng = np.random.default_rng(0)

    def values(names, sizes):
        found = {}
        for name, size in zip(names, sizes, strict=True):
            if name in inputs or name.endswith("label"):
                continue
            low = 0.5 if name.endswith(("gamma", "var")) else -0.5
            found[name] = mx.nd.array(rng.uniform(low, low + 1, size) / (
                1 if len(size) < 2 else np.sqrt(np.prod(size[1:]) / 6)))
        return found
    mx.model.save_checkpoint(prefix, 0, net, values(net.list_arguments(), args),
                             values(net.list_auxiliary_states(), aux))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", list(MODELS))
def test_source_agrees_and_is_short(name, target, tmp_path, capsys):
    make, inputs, most, classes = MODELS[name]
    prefix = str(tmp_path / name)
    save(make, inputs, prefix)
    given = [f for n, s in inputs.items() for f in ("--shape", f"{n}={','.join(map(str, s))}")]
    status = command_line.main(["convert", prefix, "0", "--to", target, *given])
    told = capsys.readouterr().out
    found = re.search(r"largest difference to mxjax (\S+), of values up to (\S+)", told)
    source = (tmp_path / f"{name}-{target}" / "model.py").read_text()
    assert status == 0 and found and float(found[1]) <= 1e-4 * float(found[2]), told + source
    assert source.count("\n") <= most, source
    assert len(re.findall(r"^class ", source, re.MULTILINE)) <= classes, source
    assert max(map(len, source.splitlines())) <= 120, source


@pytest.mark.parametrize("target", ["pytorch", "flax"])
def test_operators_without_counterpart_are_named_and_nothing_is_written(target, tmp_path, capsys):
    x = sym.var("data")
    x = sym.BilinearSampler(x, sym.GridGenerator(sym.var("theta"), transform_type="affine", target_shape=(8, 8),
                                                 name="grid"), name="sampler")
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 0, x, {}, {})
    with pytest.raises(SystemExit):
        command_line.main(["convert", prefix, "0", "--to", target, "--shape", "data=1,2,8,8", "--shape", "theta=1,6"])
    told = capsys.readouterr().err
    assert "BilinearSampler (sampler)" in told and "GridGenerator (grid)" in told
    assert not (tmp_path / f"net-{target}").exists()


@pytest.mark.parametrize("target", ["pytorch", "flax"])
def test_names_in_a_file_are_no_code(target, tmp_path, monkeypatch, capsys):
    """What is written is run: a graph's names, which may be anything, must stay names."""
    monkeypatch.setattr(project, "check", lambda *given: ("not checked", True))
    evil = 'x"""\nimport os; os.remove("/")\n\'\'\'\\'
    x = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), act_type="relu", name="act")
    graph = json.loads(sym.FullyConnected(x, num_hidden=2, name="out").tojson())
    for node in graph["nodes"]:
        node["name"] += evil if node["name"] == "data" else ""
        node["name"] = node["name"].replace("fc", f"fc{evil}").replace("act", f"act{evil}")
    text = json.dumps(graph)
    (tmp_path / "net-symbol.json").write_text(text)
    symbol = mx.sym.load_json(text)
    names = symbol.list_arguments()
    shapes, _, _ = symbol.infer_shape(**{names[0]: (1, 4)})
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"arg:{n}": mx.nd.ones(s) for n, s in zip(
        names[1:], shapes[1:], strict=True)})
    assert command_line.main(["convert", str(tmp_path / "net"), "0", "--to", target, "--shape", f"{names[0]}=1,4"]) == 0
    source = ast.parse((tmp_path / f"net-{target}" / "model.py").read_text())
    imported = {alias.name for node in ast.walk(source) if isinstance(node, ast.Import) for alias in node.names}
    assert "os" not in imported
    kinds = ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef
    assert all(isinstance(node, kinds) for node in source.body[1:])
