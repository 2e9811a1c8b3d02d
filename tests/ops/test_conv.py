"""Convolution: every formulation against XLA's own, with gradients."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from marks import sampled
from opcall import call, gradients

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel.arguments import kind_of
from mxjax.kernel.compiled import Compiled
from mxjax.ops.nn._correlation import dimension_numbers
from mxjax.ops.nn._depthwise import depthwise
from mxjax.ops.nn.convolution import as_product, convolution, product_is_faster
from mxjax.passes import onednn

RANDOM = np.random.default_rng(3)
CASES = [  # data, kernel, stride, dilate, pad
    ((2, 3, 9, 9), (7, 8), (1, 1), (1, 1), (0, 0)),  # few windows
    ((2, 3, 9, 9), (4, 4), (2, 1), (2, 2), (0, 0)),
    ((2, 3, 5, 5), (5, 5), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 9, 9), (3, 2), (2, 1), (1, 2), (1, 0)),  # small kernels
    ((2, 3, 9, 9), (3, 2), (1, 1), (1, 1), (2, 1)),  # a result larger than the data
    ((1, 2, 6), (4,), (2,), (1,), (1,))]


def _head(shape):
    return np.random.default_rng(5).normal(size=shape).astype("float32")


def _with_gradients(function, data, weight):
    """The result and the gradients for a random head gradient, as one program."""
    @jax.jit
    def both(data, weight):
        out, pull = jax.vjp(function, data, weight)
        return out, *pull(_head(out.shape))
    return both(data, weight)


@pytest.mark.parametrize("shape, kernel, stride, dilate, pad", CASES)
def test_product_of_windows(shape, kernel, stride, dilate, pad):
    data = RANDOM.normal(size=shape).astype("float32")
    weight = RANDOM.normal(size=(4, shape[1], *kernel)).astype("float32")

    def whole(data, weight):
        return lax.conv_general_dilated(data, weight, stride, [(p, p) for p in pad], rhs_dilation=dilate)

    def product(data, weight):
        return as_product(data, weight, kernel, stride, dilate, pad, False)
    expected, found = (_with_gradients(function, data, weight) for function in (whole, product))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    out = call("Convolution", data, weight, kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_filter=4,
               no_bias=True)
    np.testing.assert_allclose(out, expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout, space, kernel, options", sampled([
    (None, (6, 5), (3, 5), {}), (None, (6, 5), (6, 2), {"stride": (1, 2), "pad": (0, 1)}),
    (None, (6, 5), (6, 2), {"dilate": (1, 3)}), ("NHWC", (6, 5), (3, 5), {"pad": (1, 0)}),
    ("NHWC", (6, 5), (6, 3), {"stride": (2, 1)}), (None, (4, 5, 3), (4, 2, 3), {}), (None, (4, 5, 3), (2, 5, 2), {}),
    ("NDHWC", (4, 5, 3), (4, 2, 3), {}), ("NDHWC", (4, 5, 3), (2, 5, 2), {"pad": (1, 0, 1)}),
    (None, (9, 52), (3, 50), {}), ("NHWC", (52, 9), (50, 3), {"pad": (0, 1)}),  # nearly as long
    (None, (9, 50), (3, 50), {"pad": (1, 1), "stride": (2, 1)}), (None, (60, 9), (29, 5), {"dilate": (2, 1)}),
    (None, (9, 52, 5), (2, 50, 4), {"stride": (1, 2, 1)}), ("NDHWC", (52, 3, 6), (50, 1, 3), {"pad": (1, 0, 1)})]))
def test_kernels_as_long_as_the_data_along_some_axes_have_channels_there(layout, space, kernel, options):
    dims, shapes = len(kernel), [(*s, 3) if layout else (s[0], 3, *s[1:]) for s in ((2, *space), (4, *kernel))]
    data, weight = (RANDOM.normal(size=shape).astype("float32") for shape in shapes)

    def expected(data, weight):
        return lax.conv_general_dilated(
            data, weight, options.get("stride", (1,) * dims), [(p, p) for p in options.get("pad", (0,) * dims)],
            rhs_dilation=options.get("dilate"), dimension_numbers=dimension_numbers(dims, layout))

    def found(data, weight):
        return convolution(data, weight, kernel=kernel, num_filter=4, no_bias=True, layout=layout, **options)
    for a, b in zip(*(_with_gradients(function, data, weight) for function in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    strides = re.findall(r"window_strides=\(([^)]*)\)", str(jax.make_jaxpr(found)(data, weight)))
    assert strides and all(len(re.findall(r"\d+", each)) < dims for each in strides)


def test_kernels_as_large_as_the_picture_take_the_product():
    large = jax.ShapeDtypeStruct((4, 3, 64, 64), "float32")
    assert product_is_faster(large, 8, (64, 64), (1, 1), (1, 1), (0, 0), None)
    assert not product_is_faster(large, 8, (32, 32), (1, 1), (1, 1), (0, 0), None)


@pytest.mark.parametrize("library", ["0", "1"])
def test_they_keep_it_where_a_library_computes_the_others(monkeypatch, library):
    monkeypatch.setenv("MXNET_MKLDNN_ENABLED", library)
    onednn.available.cache_clear()
    try:
        shapes = (2, 3, 24, 24), (4, 3, 24, 24)
        args = [jnp.ones(shape, jnp.float32, device=jax.local_devices(backend="cpu")[0]) for shape in shapes]
        slope = jax.grad(lambda *given: jnp.sum(convolution(*given, kernel=(24, 24), num_filter=4)), (0, 1))
        program = Compiled(slope)
        assert "conv_general_dilated" not in str(program.xla.form(kind_of(args), 0).trace(*args).jaxpr)
        for found, shape, expected in zip(program(*args), shapes, (4, 2), strict=True):
            np.testing.assert_array_equal(found, np.full(shape, expected))
    finally:
        onednn.available.cache_clear()


def test_much_weight_for_few_places_takes_the_product():
    deep = jax.ShapeDtypeStruct((16, 512, 4, 4), "float32")
    assert product_is_faster(deep, 512, (3, 3), (1, 1), (1, 1), (1, 1), None)
    assert not product_is_faster(deep, 32, (3, 3), (1, 1), (1, 1), (1, 1), None)


def test_windows_of_many_channels_take_the_product_where_the_result_is_small():
    for channels, size, product in ((8, 28, True), (32, 28, False), (32, 7, True)):
        data = jax.ShapeDtypeStruct((8, channels, size, size), "float32")
        assert product_is_faster(data, 32, (4, 4), (1, 1), (1, 1), (0, 0), None) == product


@pytest.mark.parametrize("filters, layout, kernel, stride, dilate, pad", [
    (1, "NCHW", (3, 3), (2, 1), (1, 1), (1, 1)), (2, "NHWC", (3, 2), (2, 1), (1, 2), (2, 1)),
    (1, "NCW", (5,), (3,), (2,), (0,)), (1, "NCHW", (1, 1), (2, 2), (1, 1), (0, 0))])
def test_depthwise(filters, layout, kernel, stride, dilate, pad):
    last, dims = layout[-1] == "C", len(kernel)
    space = (11, 8)[:dims]
    data = RANDOM.normal(size=(2, *space, 4) if last else (2, 4, *space)).astype("float32")
    weight = RANDOM.normal(size=(4 * filters, *kernel, 1) if last else (4 * filters, 1, *kernel)).astype("float32")

    def whole(data, weight):
        return lax.conv_general_dilated(data, weight, stride, [(p, p) for p in pad], rhs_dilation=dilate,
                                        dimension_numbers=dimension_numbers(dims, layout), feature_group_count=4)
    expected, *wanted = _with_gradients(whole, data, weight)
    head = _head(expected.shape)
    given = dict(kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_filter=4 * filters, num_group=4,
                 no_bias=True, layout=layout)
    np.testing.assert_allclose(call("Convolution", data, weight, **given), expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(gradients("Convolution", data, weight, heads=[head], **given), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_depthwise_in_half_precision_adds_in_float32():
    data, weight = np.full((1, 2, 8, 8), 1, "float16"), np.full((2, 1, 8, 8), 2.0**-6, "float16")
    weight[:, :, 0, 0] = 512
    out = call("Convolution", data, weight, kernel=(8, 8), num_filter=2, num_group=2, no_bias=True)
    np.testing.assert_allclose(out.astype("float32").ravel(), 513, rtol=2e-3)


@pytest.mark.parametrize("layout, kernel, stride, dilate, pad, adj, groups", [
    ("NCHW", (4, 2), (2, 1), (1, 1), (1, 0), (1, 0), 1), ("NHWC", (4, 3), (2, 3), (1, 1), (1, 1), (0, 2), 1),
    ("NCW", (3,), (2,), (2,), (1,), (1,), 2), ("NHWC", (2, 2), (2, 2), (1, 1), (0, 0), (0, 0), 2)])
def test_transposed(layout, kernel, stride, dilate, pad, adj, groups):
    """The gradient of a convolution with respect to its data; its own gradients follow from that."""
    last, dims = layout[-1] == "C", len(kernel)
    space = (5, 4)[:dims]
    size = [s * (n - 1) + d * (k - 1) + 1 - 2 * p + a
            for s, n, d, k, p, a in zip(stride, space, dilate, kernel, pad, adj, strict=True)]
    data = RANDOM.normal(size=(2, *space, 4) if last else (2, 4, *space)).astype("float32")
    weight = RANDOM.normal(size=(4, *kernel, 6 // groups) if last else (4, 6 // groups, *kernel)).astype("float32")

    def whole(data, weight):
        def convolution(image):
            return lax.conv_general_dilated(image, weight, stride, [(p, p) for p in pad], rhs_dilation=dilate,
                                            dimension_numbers=dimension_numbers(dims, layout),
                                            feature_group_count=groups)
        zeros = np.zeros((2, *size, 6) if last else (2, 6, *size), "float32")
        return jax.vjp(convolution, zeros)[1](data)[0]
    expected, *wanted = _with_gradients(whole, data, weight)
    given = dict(kernel=kernel, stride=stride, dilate=dilate, pad=pad, adj=adj, num_filter=6, num_group=groups,
                 no_bias=True, layout=layout)
    np.testing.assert_allclose(call("Deconvolution", data, weight, **given), expected, rtol=1e-4, atol=1e-5)
    found = gradients("Deconvolution", data, weight, heads=[_head(expected.shape)], **given)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_kernels_larger_than_the_data_are_refused():
    with pytest.raises(MXNetError, match=r"the kernel \(3, 3\) .* larger than the input of size \(2, 4\)"):
        call("Convolution", np.ones((1, 1, 2, 4), "f"), np.ones((1, 1, 3, 3), "f"), kernel=(3, 3), num_filter=1,
             no_bias=True)


def test_deconvolution_of_mxnet_2s_files_has_target_shape_none():
    data, weight = np.ones((1, 1, 3, 3), "f"), np.ones((1, 1, 3, 3), "f")
    given = {"kernel": (3, 3), "num_filter": 1, "no_bias": True}
    np.testing.assert_array_equal(call("Deconvolution", data, weight, target_shape="None", **given),
                                  call("Deconvolution", data, weight, **given))


def test_weights_of_another_shape_are_refused():
    with pytest.raises(MXNetError, match=r"Deconvolution: weight must have the shape \(1, 4, 3, 3\)"):
        call("Deconvolution", np.ones((1, 1, 5, 5), "f"), np.ones((4, 1, 3, 3), "f"), kernel=(3, 3), num_filter=4,
             no_bias=True)


@pytest.mark.parametrize("kernel", [(2, 2), (1, 17)])
def test_nan_is_no_maximum(kernel):
    data = np.ones((1, 1, *kernel), "float32")
    for place in (0, -1):
        data[0, 0].flat[:] = np.arange(data.size)
        data[0, 0].flat[place] = np.nan
        best = data.size - 1 if place == 0 else data.size - 2
        assert call("Pooling", data, kernel=kernel).item() == best
        grad = gradients("Pooling", data, kernel=kernel)[0].ravel()
        assert grad.sum() == 1 and grad[best] == 1


def test_windows_behind_the_end():
    """The convention "full" makes one where the stride steps over the end: 0, or the lowest number for the maximum."""
    data, kwargs = np.arange(1, 5, dtype="float32").reshape(1, 1, 4), {"kernel": (1,), "stride": (2,)}
    for kind, last in (("avg", 0), ("sum", 0), ("lp", 0), ("max", np.finfo("float32").min)):
        params = dict(kwargs, pool_type=kind, pooling_convention="full")
        assert call("Pooling", data, **params).ravel().tolist() == [1, 3, last]
        assert gradients("Pooling", data, **params)[0].ravel().tolist() == [1, 0, 1, 0]
    params["count_include_pad"] = False
    assert call("Pooling", data, **dict(params, pool_type="avg")).ravel().tolist() == [1, 3, 0]


@pytest.mark.parametrize("space, kernel, stride, pad", [
    ((13, 12), (9, 10), (1, 1), (4, 5)), ((17, 16), (13, 7), (1, 2), (6, 3)), ((15, 11), (5, 6), (2, 1), (2, 2)),
    ((21, 20), (10, 9), (10, 9), (0, 0)), ((20, 18), (10, 9), (10, 9), (0, 0)), ((12, 9), (12, 9), (1, 1), (0, 0)),
    ((9, 9), (4, 3), (1, 1), (0, 1)), ((25,), (17,), (1,), (8,)), ((9, 8, 7), (6, 6, 5), (1, 1, 2), (2, 3, 2))])
@pytest.mark.parametrize("kind", ["max", "avg", "sum"])
def test_pooling_window_by_window(space, kernel, stride, pad, kind):
    """Of equal values the first one has the gradient, in the order of rows."""
    data = RANDOM.integers(-2, 3, size=(2, 3, *space)).astype("float32")
    lowest = -np.inf if kind == "max" else 0
    padded = np.pad(data, [(0, 0), (0, 0), *[(p, p) for p in pad]], constant_values=lowest).reshape(6, *[
        n + 2 * p for n, p in zip(space, pad, strict=True)])
    counts = [(n - k) // s + 1 for n, k, s in zip(padded.shape[1:], kernel, stride, strict=True)]
    head, found, slopes = _head((6, *counts)), np.zeros((6, *counts)), np.zeros(padded.shape)
    for image, *place in np.ndindex(found.shape):
        window = (image, *[slice(i * s, i * s + k) for i, s, k in zip(place, stride, kernel, strict=True)])
        values, at = padded[window], (image, *place)
        if kind == "max":
            found[at] = values.max()
            slopes[window].reshape(kernel)[np.unravel_index(values.argmax(), kernel)] += head[at]
        else:
            part = 1 / values.size if kind == "avg" else 1
            found[at] = values.sum() * part
            slopes[window] += head[at] * part
    params = dict(kernel=kernel, stride=stride, pad=pad, pool_type=kind)
    np.testing.assert_allclose(call("Pooling", data, **params), found.reshape(2, 3, *counts), rtol=1e-5, atol=1e-5)
    slopes = slopes[(slice(None), *[slice(p, p + n) for p, n in zip(pad, space, strict=True)])]
    given = gradients("Pooling", data, heads=[head.reshape(2, 3, *counts)], **params)[0]
    np.testing.assert_allclose(given, slopes.reshape(data.shape), rtol=1e-4, atol=1e-4)


def test_power_pooling_keeps_signs():
    """The root of a sum of plain powers, as MXNet computes it; where it is 0, so is the gradient of a true root."""
    data, head = np.array([[[1, -2, 3, -1.5, 0, 0, -2, -2]]], "float32"), np.array([[[1, 2, 3, 4]]], "float32")
    for power, values, slopes in [
            (1, [-1, 1.5, 0, -4], [1, 1, 2, 2, 3, 3, 4, 4]),
            (2, [2.236068, 3.354102, 0, 2.828427],
             [0.4472136, -0.8944272, 1.7888544, -0.8944272, 0, 0, -2.828427, -2.828427]),
            (3, [-1.9129312, 2.8693967, 0, -2.5198421],
             [0.27327588, 1.0931035, 2.186207, 0.54655176, 0, 0, 2.5198421, 2.5198421])]:
        params = {"kernel": (2,), "stride": (2,), "pool_type": "lp", "p_value": power}
        np.testing.assert_allclose(call("Pooling", data, **params).ravel(), values, rtol=1e-5)
        np.testing.assert_allclose(gradients("Pooling", data, heads=[head], **params)[0].ravel(), slopes, rtol=1e-5)
    with pytest.raises(MXNetError, match="p_value must be 1, 2 or 3, got 4"):
        call("Pooling", data, **dict(params, p_value=4))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_gradients_of_depthwise_gradients(layout):
    """On a CPU the weight's gradient is one loop over all sums; its own gradients are those of XLA's convolution."""
    last = layout[-1] == "C"
    data = jnp.asarray(RANDOM.normal(size=(2, 6, 5, 3) if last else (2, 3, 6, 5)), "float32")
    weight = jnp.asarray(RANDOM.normal(size=(3, 3, 3, 1) if last else (3, 1, 3, 3)), "float32")

    def slopes(function):
        def value(data, weight):
            by_data, by_weight = jax.grad(lambda d, w: jnp.sum(jnp.sin(function(d, w))), (0, 1))(data, weight)
            return jnp.sum(by_data ** 2) + jnp.sum(by_weight ** 3)
        return jax.jit(jax.grad(value, (0, 1)))(data, weight)

    def whole(data, weight):
        return lax.conv_general_dilated(data, weight, (2, 1), [(1, 1), (1, 1)], feature_group_count=3,
                                        dimension_numbers=dimension_numbers(2, layout))

    def ours(data, weight):
        return depthwise(data, weight, (2, 1), (1, 1), (1, 1), last)
    for found, expected in zip(slopes(ours), slopes(whole), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("shapes", "params", "said"), [
    (((1, 2, 4, 4), (2, 2, 3, 3)), {"stride": (0, 0)}, r"stride must be positive, got \(0, 0\)"),
    (((1, 2, 4, 4), (2, 2, 3, 3)), {"dilate": (0, 1)}, "dilate must be positive"),
    (((1, 3, 4, 4), (2, 1, 3, 3)), {"num_group": 2}, "num_group=2 must divide the 3 channels of the data"),
    (((1, 2, 4, 4), (2, 2, 3, 3), (3,)), {"no_bias": False}, r"bias must have the shape \(2,\), got \(3,\)")])
def test_mistakes_in_plain_words(shapes, params, said):
    arrays = [mx.nd.ones(shape) for shape in shapes]
    with pytest.raises(mx.MXNetError, match=f"operator Convolution: {said}"):
        mx.nd.Convolution(*arrays, kernel=(3, 3), num_filter=2, **{"no_bias": True, **params})


@pytest.mark.parametrize("hybrid", [False, True])
def test_all_arrays_have_one_dtype(hybrid):
    """A layer cast to float16 takes no float32, as in MXNet."""
    for layer in (mx.gluon.nn.Conv2D(2, 3, in_channels=3), mx.gluon.nn.Conv2DTranspose(2, 3, in_channels=3)):
        layer.initialize()
        layer.cast("float16")
        layer.hybridize(hybrid)
        with pytest.raises(mx.MXNetError, match="the same dtype, got data float32, weight float16"):
            layer(mx.nd.ones((1, 3, 5, 5)))


@pytest.mark.parametrize("convention", ["valid", "full"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_refuses_kernels_beyond_the_padded_input(dims, convention):
    params = {"kernel": (5,) * dims, "stride": (2,) * dims, "pooling_convention": convention}
    with pytest.raises(mx.MXNetError, match=r"kernel \(5\) is larger than the padded input \(2\)"):
        mx.nd.Pooling(mx.nd.ones((1, 2) + (2,) * dims), **params)
    with pytest.raises(mx.MXNetError, match="larger than the padded input"):
        mx.sym.Pooling(mx.sym.Variable("x"), **params).infer_shape(x=(1, 2) + (2,) * dims)
    assert mx.nd.Pooling(mx.nd.ones((1, 2) + (3,) * dims), pad=(1,) * dims, **params).shape == (1, 2) + (1,) * dims
