"""Quantization: integers stand for the floats that they came from, and layers of them for the layers of floats."""

import jax.numpy as jnp
import numpy as np
import pytest
from opcall import call, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.ops.by_device import by_device
from mxjax.ops.quantized import layers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 6, 6)).astype("float32")


def back(values, low, high):
    """The floats that a quantized array stands for; int32 by its range."""
    most = {"int8": 127.5, "uint8": 255.5, "int32": 2.0**31}[values.dtype.name]
    return values * (max(abs(low[0]), abs(high[0])) / most)


def packed(array):
    return call("_contrib_quantize_v2", array, out_type="int8")


@pytest.mark.parametrize("out_type", ["int8", "uint8"])
def test_there_and_back(out_type):
    data = abs(X) if out_type == "uint8" else X
    values, low, high = call("_contrib_quantize_v2", data, out_type=out_type)
    assert values.dtype == out_type and high[0] == abs(X).max()
    np.testing.assert_allclose(call("_contrib_dequantize", values, low, high), data, atol=abs(X).max() / 250)
    limited = call("_contrib_quantize_v2", data, out_type=out_type, min_calib_range=0.0, max_calib_range=0.5)[0]
    assert limited.max() == (127 if out_type == "int8" else 255)
    old, *_ = call("_contrib_quantize", data, np.array([0], "f"), np.array([abs(X).max()], "f"), out_type=out_type)
    assert abs(old.astype(int) - values).max() <= 1


def test_automatic_type_and_asymmetry():
    known = {"min_calib_range": 0.0, "max_calib_range": 1.0}
    assert call("_contrib_quantize_v2", X, out_type="auto", **known)[0].dtype == "uint8"
    assert call("_contrib_quantize_v2", X, out_type="auto")[0].dtype == "int8"
    values, scale, shift = call("_contrib_quantize_asym", X)
    assert values.min() == 0 and values.max() == 255
    np.testing.assert_allclose((values - shift) / scale, X, atol=0.03)


def test_requantize():
    values = np.array([-2**30, 0, 2**29], "int32")
    edge = np.array([3.0], "f")
    small, low, high = call("_contrib_requantize", values, -edge, edge)
    assert small.tolist() == [-127, 0, 64] and high[0] == 1.5 and low[0] == -1.5
    assert call("_contrib_requantize", values, -edge, edge, min_calib_range=-3.0, max_calib_range=3.0)[0][0] == -64


def test_convolution_and_fully_connected():
    weight, bias = RNG.normal(size=(4, 3, 3, 3)).astype("f"), RNG.normal(size=4).astype("f")
    (x, *xr), (w, *wr), (b, *br) = map(packed, (X, weight, bias))
    options = {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)}
    out, low, high = call("_contrib_quantized_conv", x, w, b, *xr, *wr, *br, **options)
    assert out.dtype == "int32"
    np.testing.assert_allclose(back(out, low, high), call("Convolution", X, weight, bias, **options), atol=0.25)
    weight = RNG.normal(size=(4, 108)).astype("f")
    w, *wr = packed(weight)
    out, low, high = call("_contrib_quantized_fully_connected", x, w, b, *xr, *wr, *br, num_hidden=4)
    np.testing.assert_allclose(back(out, low, high), X.reshape(2, -1) @ weight.T + bias, atol=0.4)
    exact = call("_contrib_quantized_fully_connected", x, w, *xr, *wr, num_hidden=4, no_bias=True)[0]
    np.testing.assert_array_equal(exact, x.reshape(2, -1).astype(int) @ w.T.astype(int))
    ins, _ = partial_shapes("_contrib_quantized_conv", [X.shape] + [None] * 8, **options)
    assert ins[1:3] == [(4, 3, 3, 3), (4,)] and ins[3:] == [(1,)] * 6


def test_inputs_by_name_may_leave_out_the_bias():
    (x, low, high), (w, least, most) = (map(mx.nd.array, packed(a)) for a in (X, X[:, :, :1, :1]))
    x, w = x.astype("int8"), w.astype("int8")
    options = {"kernel": (1, 1), "num_filter": 2, "no_bias": True}
    wanted = mx.nd.contrib.quantized_conv(x, w, low, high, least, most, **options)
    ranges = {"min_data": low, "max_data": high, "min_weight": least, "max_weight": most}
    for found in (mx.nd.contrib.quantized_conv(x, w, **ranges, **options),
                  mx.nd.contrib.quantized_conv(data=x, weight=w, **ranges, **options)):
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype and np.array_equal(a.asnumpy(), b.asnumpy())


def test_layers_that_keep_the_range():
    x, *r = packed(X)
    assert (call("_contrib_quantized_act", x, *r, act_type="relu")[0] == np.maximum(x, 0)).all()
    assert call("_contrib_quantized_flatten", x, *r)[0].shape == (2, 108)
    assert call("_contrib_quantized_reshape", x, *r, shape=(0, -1))[0].shape == (2, 108)
    blocks = x.reshape(2, 3, 3, 2, 3, 2)
    options = {"kernel": (2, 2), "stride": (2, 2)}
    np.testing.assert_array_equal(call("_contrib_quantized_pooling", x, *r, **options)[0], blocks.max((3, 5)))
    np.testing.assert_array_equal(call("_contrib_quantized_pooling", x, *r, pool_type="avg", **options)[0],
                                  blocks.astype(float).mean((3, 5)).round())
    table = RNG.integers(-127, 127, (4, 5)).astype("int8")
    rows = call("_contrib_quantized_embedding", np.array([2, 0], "f"), table, *r, input_dim=4, output_dim=5)[0]
    np.testing.assert_array_equal(rows, table[[2, 0]])
    with pytest.raises(MXNetError, match="relu"):
        call("_contrib_quantized_act", x, *r, act_type="tanh")


def test_layers_that_join_ranges():
    other = RNG.normal(size=X.shape).astype("f") / 3
    (x, *xr), (y, *yr) = packed(X), packed(other)
    joined = call("_contrib_quantized_concat", x, y, *xr, *yr, num_args=2, dim=1)
    np.testing.assert_allclose(back(*joined), np.concatenate([X, other], 1), atol=0.03)
    for known in ({}, {"min_calib_range": -5.0, "max_calib_range": 5.0}):
        np.testing.assert_allclose(back(*call("_contrib_quantized_elemwise_add", x, y, *xr, *yr, **known)), X + other,
                                   atol=0.05)
        np.testing.assert_allclose(back(*call("_contrib_quantized_elemwise_mul", x, y, *xr, *yr, **known)), X * other,
                                   atol=0.1)
    floats = call("_contrib_quantized_elemwise_mul", x, y, *xr, *yr, enable_float_output=True)
    np.testing.assert_allclose(floats, X * other, atol=0.1)


def test_batch_norm():
    gamma, beta, mean, var = (RNG.uniform(0.5, 1, 3).astype("f") for _ in range(4))
    x, *r = packed(X)
    out = call("_contrib_quantized_batch_norm", x, gamma, beta, mean, var, *r, min_calib_range=-8.0,
               max_calib_range=8.0)
    wanted = (X - mean[:, None, None]) / np.sqrt(var + 1e-3)[:, None, None] * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(back(*out), wanted, atol=0.1)
    with pytest.raises(MXNetError, match="calib"):
        call("_contrib_quantized_batch_norm", x, gamma, beta, mean, var, *r)


def test_recurrent_layer():
    data, weight = RNG.uniform(-1, 1, (5, 2, 4)).astype("f"), RNG.uniform(-1, 1, 4 * 3 * (4 + 3 + 2)).astype("f")
    state, options = np.zeros((1, 2, 3), "f"), {"state_size": 3, "num_layers": 1, "mode": "lstm"}
    out = call("_contrib_quantized_rnn", *call("_contrib_quantize_asym", data)[:1], weight, state, state,
               *call("_contrib_quantize_asym", data)[1:], **options)
    np.testing.assert_allclose(out, call("RNN", data, weight, state, state, **options), atol=0.01)


def test_entropy_calibration_cuts_off_outliers():
    values = np.append(RNG.normal(size=20000), [-30, 30])
    counts, edges = np.histogram(values, bins=401, range=(-30, 30))
    threshold, divergence = call("_contrib_calibrate_entropy", counts.astype("f"), edges.astype("f"),
                                 num_quantized_bins=31)
    assert 2 < threshold[0] < 10 and 0 < divergence[0] < 1


def wavy(bins, shape):
    """Counts of a histogram from -6 to 6 that is no smooth curve, with something at both ends; its edges."""
    places = np.arange(bins)
    counts = np.floor(shape(np.linspace(-6, 6, bins)) * (1 + 0.25 * np.sin(1.7 * places)))
    counts[[0, -1]] = 2
    return counts.astype("f"), np.linspace(-6, 6, bins + 1).astype("f")


@pytest.mark.parametrize("bins, levels, shape, threshold, divergence", [
    (401, 31, lambda x: 3000 * np.exp(-x * x / 2), 3.4862843, 0.017901449),
    (1001, 127, lambda x: 3000 * np.exp(-x * x / 2), 4.00999, 0.015044458),
    (1001, 255, lambda x: 2000 * np.exp(-1.5 * np.abs(x)), 5.088911, 0.014972067),
    (2001, 255, lambda x: np.where(x >= 0, 900 * np.exp(-x), 0), 5.952024, 0.016323175),
    (801, 63, lambda x: 400 * np.exp(-3 * (np.abs(x) - 2) ** 2), 3.378277, 0.018231282),
])
def test_entropy_calibration_as_by_mxnet(bins, levels, shape, threshold, divergence):
    found = call("_contrib_calibrate_entropy", *wavy(bins, shape), num_quantized_bins=levels)
    np.testing.assert_allclose(np.ravel(found), [threshold, divergence], rtol=1e-6)


def test_entropy_calibration_of_little():
    """An even number of bins, no counts at all, and what is no histogram."""
    edges = np.linspace(-1, 1, 9).astype("f")
    threshold, divergence = call("_contrib_calibrate_entropy", np.array([0, 0, 1, 4, 4, 1, 0, 0], "f"), edges,
                                 num_quantized_bins=3)
    assert threshold[0] in edges[4:] and np.isfinite(divergence[0])
    assert call("_contrib_calibrate_entropy", np.zeros(8, "f"), edges, num_quantized_bins=3)[1][0] == np.inf
    with pytest.raises(MXNetError, match="hist must contain"):
        call("_contrib_calibrate_entropy", np.array([1e-5, 0, 0, 1, 1, 0, 0, 1e-5], "f"), edges, num_quantized_bins=3)
    with pytest.raises(MXNetError, match="num_quantized_bins=9 must be from 1 to the number of bins, 8"):
        call("_contrib_calibrate_entropy", np.ones(8, "f"), edges, num_quantized_bins=9)
    with pytest.raises(MXNetError, match="8 bins must have 9 edges, got 8"):
        call("_contrib_calibrate_entropy", np.ones(8, "f"), edges[1:], num_quantized_bins=3)


DTYPES = ("int8", "uint8", "int32", "float16", "float32", "float64")
LAYER = (X[:, 0, :, 0], np.ones((4, 6)), np.ones(4))
CONVOLVED = (X, np.ones((4, 3, 2, 2)), np.ones(4))
RANGE = np.array([-1], "f"), np.array([1], "f")


@pytest.mark.parametrize("name, arrays, params, which, allowed, inferred", [
    ("quantize", (X,), {}, 0, ["float32"], ["float32"]),
    ("quantize_v2", (X,), {}, 0, ["float32", "int8", "uint8"], ["float32", "int8", "uint8"]),
    ("quantize_asym", (X,), {}, 0, ["float32"], ["float32"]),
    ("dequantize", (X,), {}, 0, ["int8", "uint8"], ["int8", "uint8"]),
    ("requantize", (X,), {}, 0, ["int32"], ["int32"]),
    ("quantized_fully_connected", LAYER, {"num_hidden": 4}, 0, ["int8", "uint8"], ["int8", "uint8"]),
    ("quantized_fully_connected", LAYER, {"num_hidden": 4}, 1, ["int8"], ["int8"]),
    ("quantized_fully_connected", LAYER, {"num_hidden": 4}, 2, ["int8"], ["int8"]),
    ("quantized_conv", CONVOLVED, {"num_filter": 4, "kernel": (2, 2)}, 0, ["int8", "uint8"], DTYPES),
    ("quantized_conv", CONVOLVED, {"num_filter": 4, "kernel": (2, 2)}, 1, ["int8"], ["int8"]),
    ("quantized_act", (X,), {"act_type": "relu"}, 0, ["int8", "uint8"], DTYPES),
    ("quantized_pooling", (X,), {"kernel": (2, 2)}, 0, ["int8", "uint8"], DTYPES),
    ("quantized_flatten", (X,), {}, 0, DTYPES, DTYPES),
    ("quantized_concat", (X, X), {"num_args": 2}, 1, ["int8", "uint8"], ["int8", "uint8"]),
    ("quantized_elemwise_add", (X, X), {}, 0, ["int8", "uint8"], ["int8", "uint8"]),
    ("quantized_elemwise_mul", (X, X), {}, 1, ["int8", "uint8"], DTYPES),
    ("quantized_embedding", (X[0, 0], np.ones((4, 3))), {"input_dim": 4, "output_dim": 3}, 0, DTYPES, DTYPES),
    ("quantized_embedding", (X[0, 0], np.ones((4, 3))), {"input_dim": 4, "output_dim": 3}, 1, ["int8"], ["int8"]),
    ("calibrate_entropy", (np.ones(9), np.linspace(-1, 1, 10)), {"num_quantized_bins": 3}, 0, ["float32"],
     ["float32"]),
])
def test_dtypes_that_are_refused(name, arrays, params, which, allowed, inferred):
    """As by MXNet, in calls, and where it does so in inference of dtypes."""
    plain = {"quantize": 0, "quantize_v2": 0, "quantize_asym": 0, "calibrate_entropy": 0, "requantize": 1,
             "dequantize": 1, "quantized_embedding": 1}.get(name, len(arrays))
    ranges = RANGE * (1 if name == "quantize" else plain)
    usual = {"requantize": ["int32"], "quantized_embedding": ["float32", "int8"], "calibrate_entropy": ["float32"] * 2}
    usual = usual.get(name, ["int8"] * len(arrays))
    symbols = [mx.sym.var(f"v{i}") for i in range(len(arrays) + len(ranges))]
    node = getattr(mx.sym.contrib, name)(*symbols, **params)
    for dtype in DTYPES:
        dtypes = [dtype if i == which else t for i, t in enumerate(usual)]
        given = [np.abs(a).astype(t) for a, t in zip(arrays, dtypes, strict=True)]
        if dtype in allowed:
            call(f"_contrib_{name}", *given, *ranges, **params)
        else:
            with pytest.raises(MXNetError, match=f"{name}: .* must be of dtype {' or '.join(allowed)}, got {dtype}"):
                call(f"_contrib_{name}", *given, *ranges, **params)
        types = {f"v{i}": t for i, t in enumerate(dtypes)}
        if dtype in inferred:
            assert node.infer_type(**types)[1][0] is not None
        else:
            with pytest.raises(MXNetError, match=f"{name}: .* must be of dtype"):
                node.infer_type(**types)


def test_ranges_are_float32():
    with pytest.raises(MXNetError, match="min_range must be of dtype float32, got float64"):
        call("_contrib_quantize", X, np.array([0.0]), np.array([1.0]))
    node = mx.sym.contrib.requantize(mx.sym.var("x"), mx.sym.var("low"), mx.sym.var("high"))
    with pytest.raises(MXNetError, match="max_range must be of dtype float32, got int8"):
        node.infer_type(x="int32", high="int8")
    assert node.infer_type()[0] == [np.int32, np.float32, np.float32]


def test_products_of_unsigned_integers():
    x, y = np.abs(X), np.abs(X[::-1])
    pair = [call("_contrib_quantize_v2", a, out_type="uint8") for a in (x, y)]
    inputs = [pair[0][0], pair[1][0], *pair[0][1:], *pair[1][1:]]
    floats = call("_contrib_quantized_elemwise_mul", *inputs, enable_float_output=True)
    np.testing.assert_allclose(floats, x * y, atol=0.05)
    np.testing.assert_allclose(back(*call("_contrib_quantized_elemwise_mul", *inputs)), x * y, atol=0.05)


def test_nothing_is_flattened():
    for shape, flat in (((0, 3, 4), (0, 12)), ((2, 0, 3), (2, 0)), ((2, 3, 0), (2, 0)), ((0,), (0, 1))):
        assert call("_contrib_quantized_flatten", np.zeros(shape, "int8"), *RANGE)[0].shape == flat


@pytest.mark.parametrize("kind", ["cuda", "tpu"])
def test_accelerators_forms_are_exact(kind, monkeypatch):
    """What GPUs and TPUs compute of 8-bit integers, computed here: their programs multiply int8."""
    def form_of(*args, default, **forms):
        return forms.get(kind, default)(*args)
    rng, one = np.random.RandomState(0), jnp.ones(1)
    ranges = -one, one, -one, one, None, None
    results = []
    for form in (by_device, form_of):
        monkeypatch.setattr(layers, "by_device", form)
        rng.seed(0)
        for dtype, low in (("uint8", 0), ("int8", -128)):
            data = rng.randint(low, low + 256, (2, 3, 5, 6)).astype(dtype)
            rows = jnp.asarray(rng.randint(-128, 128, (4, 90)), jnp.int8)
            results.append(layers.quantized_fully_connected(jnp.asarray(data), rows, None, *ranges, num_hidden=4,
                                                            no_bias=True)[0])
            for kernel, pad, layout, axes in (((1, 1), (0, 0), "NHWC", (0, 2, 3, 1)),
                                              ((2, 3), (1, 2), "NCHW", (0, 1, 2, 3))):
                weight = rng.randint(-128, 128, (4, 3, *kernel)).astype("int8")
                results.append(layers.quantized_conv(
                    jnp.asarray(data.transpose(axes)), jnp.asarray(weight.transpose(axes)), None, *ranges,
                    kernel=kernel, stride=(2, 1), pad=pad, num_filter=4, no_bias=True, layout=layout)[0])
    half = len(results) // 2
    for there, here in zip(results[half:], results[:half], strict=True):
        assert there.dtype == np.int32
        np.testing.assert_array_equal(there, here)
