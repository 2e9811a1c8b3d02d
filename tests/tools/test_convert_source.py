"""`convert --to pytorch` and `--to flax`: the written source computes what mxjax computes, and is short.

`make convert-check` runs these tests with PyTorch, in an environment of their own; elsewhere most sources are only
compared with the recorded ones. MXJAX_CONVERT=record records the sources of a run, which needs both libraries.
"""

import ast
import difflib
import gzip
import importlib.util
import json
import os
import pathlib
import re

import numpy as np
import pytest
from opcall import of_arrays

import mxjax as mx
from mxjax import __main__ as command_line
from mxjax import gluon
from mxjax.gluon.model_zoo import vision
from mxjax.tools.source import flax_emitter, project, torch_emitter

pytest.importorskip("safetensors")
sym = mx.sym

# need other inputs
UNFIT = {"arccosh", "_npi_arccosh", "IdentityAttachKLSparseReg", "_contrib_arange_like", "nanprod", "Reshape",
         *(f"_npi_bitwise_{name}" for name in ("and", "or", "xor", "not"))}
TARGETS = {"pytorch": "torch", "flax": "flax"}
RECORD = pathlib.Path(__file__).parents[1] / "data/convert.json.gz"
SOURCES = json.loads(gzip.decompress(RECORD.read_bytes()))  # {target: {model: its source}}


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
    return sym.Group([sym.log_softmax(sym.squeeze(rows, axis=1)), sym.stack(b, c, axis=1), sym.reverse(z, axis=1),
                      sym.space_to_depth(x, block_size=2), sym.depth_to_space(a, block_size=2)])


def mathematics():
    """Formulas of numbers: rounding at halves, logic, remainders by zero, special functions."""
    x, z = sym.var("data"), sym.var("data1")  # (2, 3, 4, 5)
    halves, y = sym.round(x * 4) / 2, x + z
    zeros = sym.round(z)
    found = [sym.cbrt(x), sym.rcbrt(y), sym.round(halves), sym.rint(halves), sym.fix(x * 3), sym.trunc(z * 3),
             sym.gammaln(y), sym.gamma(sym.clip(x, a_min=0.5, a_max=3)), sym.erfinv(sym.tanh(x)),
             sym.logical_not(zeros), sym.broadcast_logical_and(zeros, halves), sym.broadcast_logical_or(zeros, halves),
             sym.broadcast_logical_xor(zeros, halves), sym.broadcast_mod(x, zeros), x % 0.7, 1.5 % zeros, x % 0,
             sym.degrees(x), sym.radians(x), sym.contrib.quadratic(x, a=0.1, b=2, c=3), sym.broadcast_hypot(x, z),
             sym.sign(halves) + sym.relu(x), sym.logical_not(x > z), sym.hard_sigmoid(x), x >= 0.5, halves != 1,
             sym.nansum(x, axis=(1, 2)), sym.nanprod(x, axis=3), sym.square(x).sum(), *sym.moments(x, axes=(0, 2)),
             *[sym.Activation(x, act_type=kind) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign", "mish",
                                                             "log_sigmoid")],
             *[sym.LeakyReLU(x, act_type=kind, slope=0.3)[0] for kind in ("leaky", "elu", "selu", "gelu", "rrelu")]]
    return sym.Group([sym.BatchNorm(sym.Convolution(x, kernel=(1, 1), num_filter=3), name="bn") % 0.5, *found])


def ordering():
    """Places in order, with equal values among them; what is chosen by places."""
    x = sym.round(sym.var("data") * 2)  # (3, 4, 6)
    place = sym.argmax(x, axis=2)
    found = [sym.argsort(x, axis=1), sym.argsort(x, is_ascend=False), sym.sort(x, axis=1, is_ascend=False),
             sym.sort(x, axis=None), sym.topk(x, k=3, axis=1), sym.topk(x, k=2, is_ascend=True, ret_typ="value"),
             *sym.topk(x, k=2, ret_typ="both", axis=2), sym.topk(x, k=2, axis=1, ret_typ="mask"),
             # of more than 16 values MXNet's order of equal ones is not JAX's
             sym.topk(x + sym.arange(72).reshape((3, 4, 6)) / 100, axis=None, k=4),
             sym.argmin(x, axis=1, keepdims=True), sym.argmax_channel(x), sym.argmax(x), sym.pick(x, place),
             sym.pick(x, sym.argmin(x, axis=1) - 3, axis=1, keepdims=True, mode="wrap"),
             sym.one_hot(place, depth=6), sym.one_hot(place, depth=6, on_value=2, off_value=-1),
             sym.take(x, sym.slice_axis(place, axis=0, begin=0, end=1), axis=2), sym.take(x, place + 5, mode="wrap"),
             sym.gather_nd(x, sym.stack(sym.zeros_like(place), place % 4)),
             sym.batch_take(sym.slice_axis(x, axis=2, begin=0, end=1).reshape((3, 4)),
                            sym.slice_axis(place, axis=1, begin=0, end=1).reshape((3,)) % 4),
             sym.where(sym.max(x, axis=(1, 2)) > 4, x, -x), sym.where(x > 1, x, x * 2),
             sym.scatter_nd(sym.max(x, axis=(1, 2)), sym.expand_dims(
                 sym.argsort(sym.max(x, axis=(1, 2))), axis=0), shape=(4,))]
    return sym.Group(found)


def sequences():
    """Sequences of different lengths; shapes taken from other values."""
    x, lengths = sym.var("data"), sym.broadcast_add(sym.arange(1, 4), sym.round(sym.clip(sym.var("more"), 0, 1)))
    cut = dict(sequence_length=lengths, use_sequence_length=True)  # (5, 3, 4), lengths (3,)
    y = sym.slice_axis(x, axis=2, begin=0, end=1)
    kv = sym.concat(x, -x, dim=2)
    scores = sym.contrib.interleaved_matmul_encdec_qk(sym.reverse(x, axis=0), kv, heads=2)
    return sym.Group([
        scores, sym.contrib.interleaved_matmul_encdec_valatt(kv, sym.softmax(scores), heads=2),
        sym.SequenceMask(x, value=-1, **cut), sym.SequenceLast(x, **cut), sym.SequenceReverse(x, **cut),
        sym.SequenceReverse(x), sym.SequenceLast(x), sym.SequenceLast(x, sequence_length=lengths - 1,
                                                                      use_sequence_length=True),
        sym.softmax(x, length=sym.cast(sym.SequenceLast(sym.round(sym.abs(x)), **cut) + 1, "int32"), use_length=True,
                    axis=0), sym.broadcast_like(y, x), sym.broadcast_like(y, x, lhs_axes=(2,), rhs_axes=(0,)),
        sym.slice_like(x, sym.transpose(x), axes=(0,)), sym.reshape_like(sym.Flatten(x), x),
        sym.reshape_like(sym.reshape(x, (60,)), x, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=3),
        sym.cumsum(x, axis=0), sym.cumsum(x), sym.diag(x, axis1=1, axis2=2, k=1), sym.diag(lengths),
        sym.contrib.index_copy(x, sym.argmax(lengths, axis=0), sym.slice_axis(x * 2, axis=0, begin=0, end=1))])


def matrices():
    """What Gaussian processes and state spaces take."""
    x = sym.var("data")  # (2, 4, 4)
    a = sym.broadcast_add(sym.linalg.gemm2(x, x, transpose_b=True), sym.expand_dims(sym.eye(4), axis=0))
    lower = sym.linalg.potrf(a)
    found = [lower, sym.linalg.potri(lower), sym.linalg.sumlogdiag(lower), sym.linalg.inverse(a), sym.linalg.det(a),
             *sym.linalg.slogdet(a), sym.linalg.syrk(x, alpha=0.5), sym.linalg.syrk(x, transpose=True),
             sym.linalg.extractdiag(x), sym.linalg.makediag(sym.linalg.extractdiag(x))]
    for transpose in (False, True):
        for right in (False, True):
            found += [sym.linalg.trsm(lower, x, transpose=transpose, rightside=right, alpha=2),
                      sym.linalg.trmm(x, a, transpose=transpose, rightside=right, lower=right)]
    return sym.Group(found)


def arrays():
    """Operators of the NumPy interface, writing at places, images before a network."""
    x = sym.var("data")  # (3, 4, 4)

    def op(name, *inputs, **params):
        return getattr(sym._internal, name)(*inputs, **params)
    first = sym.slice_axis(x, axis=0, begin=0, end=1)
    place = op("_npi_argmax", sym.slice_axis(x, axis=2, begin=0, end=1).reshape((3, 4)), axis=1)
    rows = sym.argsort(sym.max(x, axis=(1, 2)))
    image = sym.transpose(x, axes=(1, 2, 0))
    return sym.Group([
        op("_slice_assign", x, first * 2, begin=(1, 0), end=(2, 4)),
        op("_slice_assign_scalar", x, scalar=3, begin=(0, 1), end=(3, 3), step=(2, 1)),
        op("_scatter_set_nd", x, x * 2, sym.expand_dims(rows, axis=0), shape=(3, 4, 4)), sym.cast(place, "float32"),
        op("_npi_std", x, axis=(0, 1), ddof=1), op("_npi_var", x, keepdims=True), op("_np_prod", x, axis=(1,)),
        sym.cast(op("_np_any", x > 1, axis=(0,)), "float32"), sym.cast(op("_np_all", x, axis=(2,)), "float32"),
        op("_npi_tensordot_int_axes", x, x, axes=0), op("_npi_tensordot", x, x, a_axes_summed=(1, 2),
                                                        b_axes_summed=(2, 1)),
        op("_np_dot", x, x), op("_npi_einsum", x, x, subscripts="ijk,ilk->ijl"), op("_np_trace", x, axis1=1, axis2=2),
        op("_npi_hstack", x, x), op("_npi_vstack", x, x), op("_np_roll", x, shift=(1,), axis=(0, 2)),
        op("_np_moveaxis", x, source=(0,), destination=(2,)), op("_npi_pad", x, pad_width=((0, 0), (1, 2), (0, 1)),
                                                                 mode="constant", constant_value=2),
        op("_npi_tril", x, k=1), op("_npi_around", x, decimals=1), op("_npi_nan_to_num", sym.log(x), neginf=-9),
        op("_npi_where_lscalar", x > 0, x, scalar=2), op("_npi_where_rscalar", x > 0, x, scalar=2),
        op("_npi_rint", x * 4), op("_npi_arctan2", x, x + 1), op("_npi_full_like", x, fill_value=2.5),
        op("_npi_boolean_mask_assign_scalar", x, x > 0, value=1), op("_npi_copysign", x, x - 1),
        op("_npi_solve", op("_npi_matmul", x, x), x), op("_npi_log1p", sym.abs(x)), op("_npi_degrees", x),
        sym.image.normalize(sym.image.to_tensor(image), mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.6)),
        op("_image_crop", image, x=1, y=0, width=2, height=3), op("_image_flip_left_right", image)])


def detections():
    """Boxes: decoded, compared, suppressed (with equal scores, classes, and by centres)."""
    x = sym.var("data")  # (2, 12, 6)
    score = sym.round(sym.slice_axis(x, axis=2, begin=0, end=1) * 8) / 8
    low, size = sym.slice_axis(x, axis=2, begin=1, end=3), sym.abs(sym.slice_axis(x, axis=2, begin=3, end=5))
    kind = sym.round(sym.abs(sym.slice_axis(x, axis=2, begin=5, end=6)))
    corners, centred = sym.concat(low, low + size, dim=2), sym.concat(low, size, dim=2)
    rows, found = sym.concat(kind, score, corners, dim=2), []
    found.append(sym.contrib.box_nms(rows, overlap_thresh=0.1, valid_thresh=-0.5, id_index=0))
    found.append(sym.contrib.box_nms(rows, overlap_thresh=0.1, topk=5, id_index=0, force_suppress=True))
    found.append(sym.contrib.box_nms(rows, overlap_thresh=0.2, valid_thresh=-2, id_index=0, background_id=1))
    found.append(sym.contrib.box_nms(sym.concat(score, centred, dim=2), overlap_thresh=0.1, coord_start=1,
                                     score_index=0, in_format="center", out_format="center"))
    anchors = sym.slice_axis(centred, axis=0, begin=0, end=1)
    decoded = sym.contrib.box_decode(corners, anchors, std0=0.1, std1=0.1, std2=0.2, std3=0.2, clip=0.3)
    found += [decoded, sym.contrib.box_decode(corners, sym.slice_axis(decoded, axis=0, begin=0, end=1),
                                              format="corner"),
              sym.contrib.box_iou(corners, decoded), sym.contrib.box_iou(centred, centred, format="center")]
    return sym.Group(found)


def regions():
    """A region proposal network, and what pools its regions; an image under maps."""
    x, maps = sym.var("data"), sym.var("maps")  # (2, 3, 32, 48), (2, 6)
    y = sym.Activation(sym.Convolution(x, kernel=(3, 3), stride=(4, 4), num_filter=8, pad=(1, 1)), act_type="relu")
    score = sym.reshape(sym.softmax(sym.reshape(sym.Convolution(y, kernel=(1, 1), num_filter=12), (0, 2, -1)), axis=1),
                        (0, 12, 8, 12))
    info = sym.broadcast_add(sym.slice_axis(maps * 0, axis=1, begin=0, end=3), sym.var("info", shape=(1, 3)) * 8 + 24)
    rois = sym.contrib.MultiProposal(score, sym.Convolution(y, kernel=(1, 1), num_filter=24) * 0.3, info, scales=(1, 2),
                                     ratios=(0.5, 1, 2), feature_stride=4, rpn_min_size=0, rpn_post_nms_top_n=8,
                                     threshold=0.5)
    found = [rois, sym.ROIPooling(y, rois, pooled_size=(3, 2), spatial_scale=0.25)]
    for kwargs in ({}, {"sample_ratio": 2}, {"aligned": True}, {"position_sensitive": True, "pooled_size": (2, 2)}):
        found.append(sym.contrib.ROIAlign(y, rois, **{"pooled_size": (3, 3), "spatial_scale": 0.25, **kwargs}))
    grid = sym.GridGenerator(maps, transform_type="affine", target_shape=(6, 5))
    found += [sym.BilinearSampler(x, grid), sym.SpatialTransformer(x, maps, target_shape=(4, 4),
                                                                  transform_type="affine", sampler_type="bilinear"),
              sym.GridGenerator(sym.slice_axis(x, axis=1, begin=0, end=2), transform_type="warp"),
              sym.contrib.BilinearResize2D(y, height=11, width=20),
              sym.contrib.BilinearResize2D(y, height=4, width=15, align_corners=False),
              sym.UpSampling(y, sym.var("kernel"), scale=2, sample_type="bilinear", num_filter=8, name="up"),
              sym.Deconvolution(y, kernel=(3, 3), stride=(2, 2), adj=(1, 1), num_filter=4, num_group=2, name="wide"),
              sym.Crop(x, y, offset=(3, 5)), sym.Crop(x, h_w=(6, 8), center_crop=True)]
    return sym.Group(found)


def loops():
    """A cell step by step with its layers inside, a loop while a number is small, a choice; one within another."""
    x, start, extra = sym.var("data"), sym.var("state"), sym.var("extra")  # (5, 2, 4), (2, 6), (2, 6)

    def step(item, state):
        both = sym.FullyConnected(item, num_hidden=6, name="i2h") + sym.FullyConnected(state, num_hidden=6, name="h2h")
        new = sym.Activation(both + sym.tanh(extra), act_type="tanh")
        return [new, sym.slice_axis(new, axis=1, begin=0, end=1) * 2], new
    (outs, first), last = sym.contrib.foreach(step, x, start)

    def more(total, number):
        return sym.sum(number) < 4

    def double(total, number):
        folded = sym.contrib.foreach(lambda i, s: (s, s + i), sym.reshape(total, (12,)), sym.zeros((1,)))[1]
        return total * 0.5, [total + extra + sym.reshape(folded, (1, 1)).broadcast_to((2, 6)) * 0.01, number + 1]
    halves, (total, number) = sym.contrib.while_loop(more, double, [last, sym.sum(start * 0)], max_iterations=6)
    chosen = sym.contrib.cond(sym.sum(total) > 0, lambda: sym.FullyConnected(total, num_hidden=3, name="yes"),
                              lambda: sym.FullyConnected(last, num_hidden=3, name="no"))
    return sym.Group([outs, first, last, halves, total, number, chosen])


def plain():
    """All operators of one or two arrays, of numbers between 0.1 and 0.9."""
    inputs = [sym.sigmoid(sym.var(name)) * 0.8 + 0.1 for name in ("data", "more")]
    names = [name for name in torch_emitter.op.emitters if name in flax_emitter.op.emitters and name not in UNFIT]
    return sym.Group([symbol for _, symbol in of_arrays(names, inputs)])


# name: (network, shapes of inputs, most lines, most classes)
MODELS = {
    "mlp": (mlp, {"data": (5, 20)}, 45, 1), "lenet": (lenet, {"data": (2, 1, 28, 28)}, 45, 1),
    "resnet18_v1": (_zoo("resnet18_v1", classes=10), {"data": (1, 3, 32, 32)}, 90, 3),
    "resnet18_v2": (_zoo("resnet18_v2", classes=10), {"data": (1, 3, 32, 32)}, 95, 4),
    "resnet50_v1": (_zoo("resnet50_v1", classes=10), {"data": (1, 3, 32, 32)}, 105, 4),
    "mobilenet": (_zoo("mobilenet0.25"), {"data": (1, 3, 64, 64)}, 75, 2),
    "squeezenet": (_zoo("squeezenet1.1"), {"data": (1, 3, 224, 224)}, 70, 2),
    "densenet": (lambda: vision.DenseNet(16, 8, [3, 6, 4, 3], classes=10), {"data": (1, 3, 224, 224)}, 85, 3),
    "lstm": (lambda: Language(gluon.rnn.LSTM), {"data": (7, 3)}, 75, 2),
    "gru": (lambda: Language(gluon.rnn.GRU, bidirectional=True), {"data": (7, 3)}, 85, 2),
    "states": (lambda: Stateful(gluon.rnn.LSTM(6, num_layers=2, input_size=5, bidirectional=True)),
               {"data": (7, 3, 5), "state0": (4, 3, 6), "state1": (4, 3, 6)}, 85, 2),
    "shared": (shared, {"data": (2, 5)}, 45, 1),
    "bert": (bert, {"data0": (2, 9), "data1": (2, 9), "data2": (2,)}, 115, 2),
    "ssd": (ssd, {"data": (2, 3, 32, 32)}, 130, 3), "arcface": (arcface, {"data": (1, 3, 32, 32)}, 110, 5),
    "shapes": (shapes, {"data": (2, 3, 8, 8)}, 75, 1),
    "mathematics": (mathematics, {"data": (2, 3, 4, 5), "data1": (2, 3, 4, 5)}, 150, 1),
    "ordering": (ordering, {"data": (3, 4, 6)}, 110, 1),
    "sequences": (sequences, {"data": (5, 3, 4), "more": (3,)}, 135, 1),
    "detections": (detections, {"data": (2, 12, 6)}, 150, 1),
    "regions": (regions, {"data": (2, 3, 32, 48), "maps": (2, 6)}, 260, 1),
    "loops": (loops, {"data": (5, 2, 4), "state": (2, 6), "extra": (2, 6)}, 170, 9),
    "arrays": (arrays, {"data": (3, 4, 4)}, 130, 1),
    "plain": (plain, {"data": (2, 3), "more": (2, 3)}, 700, 1),
    "matrices": (matrices, {"data": (2, 4, 4)}, 80, 1),
}


def save(make, inputs, prefix):
    """Saves a model whose parameters are all random."""
    with mx.name.NameManager():  # the same names in each run
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


LARGE = ("arcface", "densenet", "mobilenet", "resnet18_v1", "resnet18_v2", "resnet50_v1", "squeezenet")
# programs of these are run wherever the library is; those of the others only with MXJAX_CONVERT (`make convert-check`),
# since they equal recorded ones, which were run
CHECKED = ("lenet", "lstm")


@pytest.mark.parametrize("name, target", [
    pytest.param(name, target, marks=pytest.mark.slow if name in LARGE else ())
    for name in MODELS for target in TARGETS])
def test_source_agrees_and_is_short(name, target, tmp_path, capsys, monkeypatch):
    make, inputs, most, classes = MODELS[name]
    prefix = str(tmp_path / name)
    run = name in CHECKED or os.environ.get("MXJAX_CONVERT")
    if not run or importlib.util.find_spec(TARGETS[target]) is None:
        monkeypatch.setattr(project, "check", lambda *given: ("largest difference to mxjax 0, of values up to 1", True))
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
    if os.environ.get("MXJAX_CONVERT") == "record":
        SOURCES[target][name] = source
        RECORD.write_bytes(gzip.compress(json.dumps(SOURCES).encode(), mtime=0))
    recorded = SOURCES[target].get(name, source)
    assert source == recorded, "\n".join(difflib.unified_diff(recorded.split("\n"), source.split("\n"), lineterm=""))


@pytest.mark.parametrize("target", ["pytorch", "flax"])
def test_operators_without_counterpart_are_named_and_nothing_is_written(target, tmp_path, capsys):
    x = sym.var("data")

    def step(item, state):
        return item + sym.random.normal_like(state, name="drawn"), state
    outs, _ = sym.contrib.foreach(step, sym.Correlation(x, x, name="agreement"), sym.var("state"), name="loop")
    inner, _ = sym.contrib.foreach(step, x, sym.var("state"), name="loop")
    prefix = str(tmp_path / "net")
    mask = sym.Group([sym.LeakyReLU(x, act_type="rrelu", name="slopes")[1], sym.var("state")])
    for symbol, state, named in ((outs, "9,6,6", "Correlation (agreement)"), (inner, "2,8,8", "(drawn)"),
                                 (mask, "2,8,8", "LeakyReLU (slopes): its output 1")):
        mx.model.save_checkpoint(prefix, 0, symbol, {}, {})
        with pytest.raises(SystemExit):
            command_line.main(["convert", prefix, "0", "--to", target, "--shape", "data=1,2,8,8", "--shape",
                               f"state={state}"])
        assert named in capsys.readouterr().err
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


@pytest.mark.parametrize("target", ["pytorch", "flax"])
def test_names_and_texts_in_inner_graphs_are_no_code(target, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(project, "check", lambda *given: ("not checked", True))
    evil = 'x"""\n{self}{0}\nimport os; os.remove("/")\n\'\'\'\\'

    def renamed(graph):
        for node in graph["nodes"]:
            node["name"] = f"{node['name']}{evil}"
            for inner in node.get("subgraphs", ()):
                renamed(inner)
        return graph

    def step(item, state):
        new = sym.tanh(sym.FullyConnected(item, num_hidden=4, name="fc") + state, name="new")
        return new, new
    outs, _ = sym.contrib.foreach(step, sym.var("data"), sym.var("state"))
    text = json.dumps(renamed(json.loads(outs.tojson())))
    (tmp_path / "net-symbol.json").write_text(text)
    symbol = mx.sym.load_json(text)
    given = {n: (3, 2, 4) if n.startswith("data") else (2, 4) for n in symbol.list_arguments()
             if n.startswith(("data", "state"))}
    sizes, _, _ = symbol.infer_shape(**given)
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"arg:{n}": mx.nd.ones(s) for n, s in zip(
        symbol.list_arguments(), sizes, strict=True) if n not in given})
    shapes = [f for n, s in given.items() for f in ("--shape", f"{n}={','.join(map(str, s))}")]
    assert command_line.main(["convert", str(tmp_path / "net"), "0", "--to", target, *shapes]) == 0
    source = ast.parse((tmp_path / f"net-{target}" / "model.py").read_text())
    kinds = ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef
    assert all(isinstance(node, kinds) for node in source.body[1:])
    assert "os" not in {node.id for node in ast.walk(source) if isinstance(node, ast.Name)}

    graph = json.loads(sym.square(sym.var("data")).tojson())
    graph["nodes"][1].update(op="_npi_einsum", attrs={"subscripts": 'ij->ji"); import os; ("', "num_args": "1"})
    (tmp_path / "two-symbol.json").write_text(json.dumps(graph))
    with pytest.raises(SystemExit):
        command_line.main(["convert", str(tmp_path / "two"), "0", "--to", target, "--shape", "data=2,3"])
    assert not (tmp_path / f"two-{target}").exists()
