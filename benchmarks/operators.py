"""The most used operators, forward and forward + backward, in three sizes: mxjax against MXNet 1.9.1.

    python benchmarks/operators.py --mxnet /path/to/python/that/has/mxnet --out table.md

The same program text runs under both, each in processes of its own, in turns; the table is Markdown, milliseconds are
the best of all repeats. Without `--mxnet` only mxjax is measured.
"""

# ruff: noqa: B905  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import fnmatch
import importlib

import _measure
import numpy as np

# operator: (parameters, inputs of three sizes, which inputs get a gradient: how many of the first, or their places, or
# None: forward only). An input is a shape, or (what it holds, shape): "below N" (whole numbers), "positive", "boxes",
# "scores".
_MAPS = [(1, 16, 28, 28), (8, 32, 28, 28), (16, 64, 56, 56)]
_PLAIN = [(64, 64), (512, 512), (2048, 1024)]
_ROWS = [(16, 10), (256, 1000), (2048, 4096)]


def _same(shapes, count=1, kind=None):
    return [[(kind, s) if kind else s] * count for s in shapes]


def _layer(shapes, *others):
    """Data of these shapes and further inputs by functions of the shape."""
    return [[s, *(f(s) for f in others)] for s in shapes]


def _channels(s):
    return (s[1],)


_NORM = _layer(_MAPS, _channels, _channels)
_BATCH_NORM = _layer(_MAPS, _channels, _channels, _channels, lambda s: ("positive", (s[1],)))
_RNN = {"lstm": 4, "gru": 3}


def _rnn(mode):
    sizes = []
    for steps, batch, width, state in [(10, 4, 16, 16), (35, 16, 128, 128), (35, 32, 256, 256)]:
        count = _RNN[mode] * state * (width + state + 2)
        sizes.append([(steps, batch, width), (count,), (1, batch, state), *([(1, batch, state)] * (mode == "lstm"))])
    return {"mode": mode, "num_layers": 1, "state_outputs": False}, sizes


CASES = {
    "elemwise_add": ({}, _same(_PLAIN, 2), 2),
    "broadcast_add": ({}, _layer(_PLAIN, lambda s: (1, s[1])), 2),
    "broadcast_sub": ({}, _layer(_PLAIN, lambda s: (s[0], 1)), 2),
    "broadcast_mul": ({}, _layer(_PLAIN, lambda s: (1, s[1])), 2),
    "broadcast_div": ({}, _layer(_PLAIN, lambda s: ("positive", (1, s[1]))), 2),
    "broadcast_maximum": ({}, _layer(_PLAIN, lambda s: (1, s[1])), 2),
    "add_n": ({}, _same(_PLAIN, 3), 3),
    "relu": ({}, _same(_PLAIN), 1),
    "sigmoid": ({}, _same(_PLAIN), 1),
    "tanh": ({}, _same(_PLAIN), 1),
    "exp": ({}, _same(_PLAIN), 1),
    "log": ({}, _same(_PLAIN, 1, "positive"), 1),
    "sqrt": ({}, _same(_PLAIN, 1, "positive"), 1),
    "square": ({}, _same(_PLAIN), 1),
    "abs": ({}, _same(_PLAIN), 1),
    "erf": ({}, _same(_PLAIN), 1),
    "clip": ({"a_min": -0.5, "a_max": 0.5}, _same(_PLAIN), 1),
    "where": ({}, [[("below 2", s), s, s] for s in _PLAIN], (1, 2)),
    "smooth_l1": ({"scalar": 1.0}, _same(_PLAIN), 1),
    "LeakyReLU": ({"act_type": "gelu"}, _same(_PLAIN), 1),
    "Activation": ({"act_type": "softrelu"}, _same(_PLAIN), 1),
    "sum": ({"axis": 1}, _same(_PLAIN), 1),
    "mean": ({}, _same(_PLAIN), 1),
    "max": ({"axis": 1}, _same(_PLAIN), 1),
    "argmax": ({"axis": 1}, _same(_PLAIN), None),
    "norm": ({"axis": 1}, _same(_PLAIN), 1),
    "transpose": ({}, _same(_PLAIN), 1),
    "concat": ({"dim": 1}, _same(_PLAIN, 3), 3),
    "split": ({"num_outputs": 2, "axis": 1}, _same(_PLAIN), 1),
    "slice_axis": ({"axis": 1, "begin": 8, "end": 40}, _same(_PLAIN), 1),
    "stack": ({"axis": 1}, _same(_PLAIN, 3), 3),
    "tile": ({"reps": (2, 2)}, _same(_PLAIN), 1),
    "pad": ({"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)}, _same(_MAPS), 1),
    "flip": ({"axis": 1}, _same(_PLAIN), 1),
    "take": ({}, [[s, ("below 64", (n,))] for s, n in zip(_PLAIN, (16, 512, 8192))], 1),
    "Embedding": ({}, [[("below 60", i), w] for i, w in [((4, 8), (64, 16)), ((32, 35), (10000, 128)),
                                                         ((64, 64), (50000, 256))]], (1,)),
    "pick": ({"axis": 1}, [[s, ("below 10", s[:1])] for s in _ROWS], 1),
    "one_hot": ({"depth": 100}, [[("below 100", (n,))] for n in (16, 1024, 65536)], None),
    "gather_nd": ({}, [[s, ("below 64", (2, n))] for s, n in zip(_PLAIN, (16, 4096, 65536))], 1),
    "topk": ({"k": 10, "ret_typ": "value"}, _same(_ROWS), 1),
    "sort": ({"axis": 1}, _same(_ROWS), 1),  # MXNet's gradient needs the axis
    "argsort": ({}, _same(_ROWS), None),
    "dot": ({}, [[(n, n), (n, n)] for n in (64, 256, 1024)], 2),
    "batch_dot": ({}, [[(b, n, n), (b, n, n)] for b, n in ((4, 16), (32, 64), (64, 128))], 2),
    "FullyConnected": ({}, [[(b, n), (m, n), (m,)] for b, n, m in ((8, 64, 32), (64, 512, 256), (256, 2048, 1024))], 3),
    "Convolution 3x3": ({"kernel": (3, 3), "pad": (1, 1)}, _layer(_MAPS, lambda s: (s[1], s[1], 3, 3), _channels), 3),
    "Convolution 1x1": ({"kernel": (1, 1)}, _layer(_MAPS, lambda s: (s[1], s[1], 1, 1), _channels), 3),
    "Convolution 7x7/2": ({"kernel": (7, 7), "stride": (2, 2), "pad": (3, 3)}, [
        [(n, 3, w, w), (f, 3, 7, 7), (f,)] for n, w, f in ((1, 32, 16), (4, 64, 32), (8, 112, 64))], 3),
    "Convolution depthwise": ({"kernel": (3, 3), "pad": (1, 1), "no_bias": True},
                              _layer(_MAPS, lambda s: (s[1], 1, 3, 3)), 2),
    "Deconvolution": ({"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 16},
                      _layer([(1, 16, 8, 8), (8, 32, 14, 14), (8, 64, 28, 28)], lambda s: (s[1], 16, 4, 4)), 2),
    "Pooling max": ({"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"}, _same(_MAPS), 1),
    "Pooling max 3x3/2": ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}, _same(_MAPS), 1),
    "Pooling avg": ({"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"}, _same(_MAPS), 1),
    "Pooling global": ({"global_pool": True, "pool_type": "avg"}, _same(_MAPS), 1),
    "BatchNorm": ({"fix_gamma": False}, _BATCH_NORM, 3),
    "LayerNorm": ({}, _layer(_ROWS, _channels, _channels), 3),
    "InstanceNorm": ({}, _NORM, 3),
    "GroupNorm": ({"num_groups": 4}, _layer(_MAPS, lambda s: (4,), lambda s: (4,)), 3),
    "L2Normalization": ({}, _same(_ROWS), 1),
    "LRN": ({"nsize": 5}, _same(_MAPS), 1),
    "Dropout": ({"p": 0.5}, _same(_PLAIN), 1),
    "softmax": ({}, _same(_ROWS), 1),
    "log_softmax": ({}, _same(_ROWS), 1),
    "SoftmaxOutput": ({}, [[s, ("below 10", s[:1])] for s in _ROWS], 1),
    "softmax_cross_entropy": ({}, [[s, ("below 10", s[:1])] for s in _ROWS], 1),
    "CTCLoss": ({}, [[(t, b, 30), ("below 29", (b, n))] for t, b, n in ((20, 2, 4), (100, 8, 20), (200, 32, 40))], 1),
    "RNN lstm": (*_rnn("lstm"), 2),
    "RNN gru": (*_rnn("gru"), 2),
    "SequenceMask": ({"use_sequence_length": True}, [[s, ("below 8", s[1:2])] for s in
                                                     ((8, 4, 16), (35, 32, 128), (64, 64, 256))], 1),
    "UpSampling": ({"scale": 2, "sample_type": "nearest"}, _same(_MAPS), 1),
    "contrib.BilinearResize2D": ({"height": 40, "width": 40}, _same(_MAPS), 1),
    "contrib.ROIAlign": ({"pooled_size": (7, 7), "spatial_scale": 0.25, "sample_ratio": 2},
                         [[s, ("boxes", (n, 5))] for s, n in zip(_MAPS, (8, 64, 128))], 1),
    "contrib.box_iou": ({}, [[("boxes", (n, 4)), ("boxes", (m, 4))] for n, m in ((8, 8), (128, 128), (2048, 64))],
                        None),
    "contrib.box_nms": ({"topk": 400, "overlap_thresh": 0.5, "coord_start": 1, "score_index": 0},
                        [[("scores", (b, n, 5))] for b, n in ((1, 100), (4, 1000), (8, 4000))], None),
    "contrib.interleaved_matmul_selfatt_qk": ({"heads": 4}, _same([(8, 2, 3 * 4 * 8), (64, 8, 3 * 4 * 32),
                                                                   (128, 16, 3 * 4 * 64)]), 1),
    "sgd_mom_update": ({"lr": 0.1, "momentum": 0.9, "wd": 1e-4}, _same(_PLAIN, 3), None),
    "adam_update": ({"lr": 1e-3}, [[s, s, s, ("positive", s)] for s in _PLAIN], None),
    "random.normal": ({}, [[]] * 3, None),
}


def _values(spec, random):
    kind, shape = spec if isinstance(spec[0], str) else ("any", spec)
    if kind.startswith("below"):
        return random.randint(0, int(kind.split()[1]), shape).astype("float32")
    if kind in ("boxes", "scores"):
        start = random.rand(*shape[:-1], 2) * 80
        boxes = np.concatenate([start, start + 4 + random.rand(*shape[:-1], 2) * 30], -1)
        first = [np.zeros((*shape[:-1], 1)) if kind == "boxes" else random.rand(*shape[:-1], 1)] * (shape[-1] == 5)
        return np.concatenate([*first, boxes], -1).astype("float32")
    values = random.randn(*shape).astype("float32")
    return np.abs(values) + 0.1 if kind == "positive" else values


def _further(name, inputs):
    """Parameters that follow from the inputs' shapes."""
    op = name.split()[0]
    if op in ("Convolution", "Deconvolution"):
        groups = inputs[0].shape[1] // inputs[1].shape[1] if op == "Convolution" else 1
        return {"num_filter": inputs[1].shape[0], "num_group": groups} if op == "Convolution" else {"no_bias": True}
    if op == "FullyConnected":
        return {"num_hidden": inputs[1].shape[0]}
    if op == "Embedding":
        return {"input_dim": inputs[1].shape[0], "output_dim": inputs[1].shape[1]}
    return {"state_size": inputs[2].shape[2]} if op == "RNN" else {}


def measure(package, only, seconds):
    """Yields names and three rows of [forward ms, forward + backward ms or None]."""
    mx = importlib.import_module(package)
    for name, (params, sizes, wanted) in CASES.items():
        if not fnmatch.fnmatch(name, only):
            continue
        function = mx.nd
        for part in name.split()[0].split("."):
            function = getattr(function, part)
        rows = []
        for number, specs in enumerate(sizes):
            random = np.random.RandomState(0)
            inputs = [mx.nd.array(_values(s, random)) for s in specs]
            given = {**params, **_further(name, inputs)}
            if name == "random.normal":
                given["shape"] = _PLAIN[number]
            places = range(wanted) if isinstance(wanted, int) else wanted or ()
            rows.append(_measure.timed(mx, function, inputs, given, [inputs[i] for i in places], seconds))
        yield name, rows


if __name__ == "__main__":
    _measure.main(__file__, __doc__, measure, _measure.table)
