"""Forms of gradients: by a weight sample by sample or for each of its elements; by the data by phases."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from marks import needs_onednn, sampled

import mxjax as mx
from mxjax.kernel.compiled import Compiled
from mxjax.passes import convolutions
from mxjax.passes.rewriting import rewritten

from ..internals import forget_calls

RANDOM = np.random.default_rng(7)


def _slope(space, kernel, **given):
    def value(data, weight):
        return jnp.sum(jnp.sin(lax.conv_general_dilated(data, weight, **given)))
    data = RANDOM.normal(size=(3, 2, *space)).astype("float32")
    return jax.grad(value, 1), data, RANDOM.normal(size=(4, 2, *kernel)).astype("float32")


@pytest.fixture
def small(monkeypatch):
    """Small ones are treated as large ones are; counts them."""
    count = []
    monkeypatch.setattr(convolutions, "_LEAST", 0)
    monkeypatch.setattr(convolutions, "_LEAST_SPACE", 0)
    monkeypatch.setattr(convolutions, "_FULL_VECTORS", 1)
    original = convolutions.sum_of_products
    monkeypatch.setattr(convolutions, "sum_of_products", lambda *a, **k: count.append(1) or original(*a, **k))
    forget_calls(convolutions)
    yield count
    forget_calls(convolutions)


@pytest.mark.parametrize("space, kernel, given", [
    ((7, 9), (3, 2), dict(window_strides=(1, 1), padding=[(1, 1), (0, 0)])),
    ((8, 9), (3, 3), dict(window_strides=(2, 3), padding=[(1, 1), (2, 2)])),  # what the strides do not reach is cut off
    ((9, 9), (2, 3), dict(window_strides=(2, 1), padding=[(0, 0), (1, 2)], rhs_dilation=(3, 2))),
    ((5, 5), (5, 5), dict(window_strides=(1, 1), padding=[(0, 0), (0, 0)])),  # one place
    ((11,), (4,), dict(window_strides=(3,), padding=[(2, 1)])),
    ((5, 4, 6), (2, 1, 3), dict(window_strides=(1, 2, 1), padding=[(0, 1), (0, 0), (1, 1)])),
])
@pytest.mark.usefixtures("at_once")
def test_values(small, space, kernel, given):
    slope, data, weight = _slope(space, kernel, **given)
    found = Compiled(slope)(data, weight)
    assert small
    np.testing.assert_allclose(found, slope(data, weight), rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients(small):
    slope, data, weight = _slope((6, 6), (3, 3), window_strides=(1, 1), padding=[(1, 1), (1, 1)])
    twice = jax.grad(lambda data, weight: jnp.sum(slope(data, weight) ** 2), (0, 1))
    for found, expected in zip(Compiled(twice)(data, weight), twice(data, weight), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("given", [dict(feature_group_count=2), dict(lhs_dilation=(2, 2))])
def test_others_stay(small, given):
    data, weight = RANDOM.normal(size=(3, 4, 6, 4)).astype("f"), RANDOM.normal(size=(4, 4, 3, 3)).astype("f")
    weight = weight[:, :2] if "feature_group_count" in given else weight
    slope = jax.grad(lambda w: jnp.sum(jnp.sin(
        lax.conv_general_dilated(data, w, (1, 1), [(1, 1), (1, 1)], **given))))
    np.testing.assert_allclose(Compiled(slope)(weight), slope(weight), rtol=1e-4, atol=1e-4)
    assert not small


SHAPES = [((7, 9), (3, 2), dict(window_strides=(1, 1), padding=[(1, 1), (0, 0)])),
          ((8, 9), (3, 3), dict(window_strides=(2, 3), padding=[(1, 1), (2, 2)])),
          ((6, 8), (3, 3), dict(window_strides=(2, 2), padding=[(1, 1), (0, 1)])),
          ((9, 9), (2, 3), dict(window_strides=(2, 1), padding=[(0, 0), (1, 2)], rhs_dilation=(3, 2))),
          ((11,), (4,), dict(window_strides=(3,), padding=[(2, 1)])),
          ((5, 4, 6), (2, 1, 3), dict(window_strides=(1, 2, 1), padding=[(0, 1), (0, 0), (1, 1)]))]


@pytest.mark.parametrize("space, kernel, given", sampled(SHAPES))
@pytest.mark.parametrize("form, wanted", [("_by_element", 1), ("_at_once", 1), ("_by_phase", 0),
                                          ("_phases_at_once", 0)])
@needs_onednn
def test_of_the_library(monkeypatch, form, wanted, space, kernel, given):
    """By the weight, and by the data where the convolution moves by several places."""
    count, original = [], getattr(convolutions, form)
    monkeypatch.setattr(convolutions, form, lambda *a: count.append(1) or original(*a))
    monkeypatch.setattr(convolutions, "_FULL_VECTORS", 1)
    monkeypatch.setattr(convolutions, "_PRODUCTS", 0)
    if form == "_by_element":
        monkeypatch.setattr(convolutions, "_FEW_ROWS", 0)
    if form == "_phases_at_once":
        monkeypatch.setattr(convolutions, "_MOST_PHASES", 0)
    data, weight = (RANDOM.normal(size=shape).astype("f") for shape in ((2, 3, *space), (150, 3, *kernel)))

    def value(data, weight):
        return jnp.sum(jnp.sin(lax.conv_general_dilated(data, weight, **given)))
    slope = jax.grad(value, wanted)
    found = jax.jit(rewritten(slope, functools.partial(convolutions.with_fast_convolutions, library=True)))
    np.testing.assert_allclose(found(data, weight), slope(data, weight), rtol=1e-4, atol=2e-4)
    moves = max(given["window_strides"]) > 1 and "rhs_dilation" not in given
    assert bool(count) == (True if wanted else moves)


@pytest.mark.parametrize("space, kernel, given", sampled(SHAPES))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_in_groups(space, kernel, given, last, dtype):
    """Of three groups with two channels and four filters each, as one convolution without groups for each of them."""
    axes = "DHW"[3 - len(space):]
    numbers = (f"N{axes}C", f"O{axes}I", f"N{axes}C") if last else (f"NC{axes}", f"OI{axes}", f"NC{axes}")
    data, weight = RANDOM.normal(size=(2, 6, *space)), RANDOM.normal(size=(12, 2, *kernel))
    data, weight = [jnp.asarray(np.moveaxis(a, 1, -1) if last else a, dtype) for a in (data, weight)]

    def value(weight):
        return jnp.sum(jnp.sin(lax.conv_general_dilated(
            data, weight, dimension_numbers=numbers, feature_group_count=3, **given).astype("float32")))

    def apart(weight):
        def one(x, w):
            return jnp.sum(jnp.sin(lax.conv_general_dilated(x, w, dimension_numbers=numbers, **given)))
        return sum(map(one, jnp.split(data.astype("float32"), 3, -1 if last else 1), jnp.split(weight, 3)))
    program = rewritten(jax.grad(value), functools.partial(convolutions.with_fast_convolutions, library=False))
    assert not re.search("batch_group_count=[^1]", str(jax.make_jaxpr(program)(weight)))
    found = jax.jit(program)(weight).astype("float32")
    near = 1e-4 if dtype == "float32" else 0.05
    np.testing.assert_allclose(found, jax.grad(apart)(weight.astype("float32")), rtol=near, atol=near)


def test_gradients_of_gradients_in_groups():
    data, weight = RANDOM.normal(size=(2, 4, 5, 5)).astype("f"), RANDOM.normal(size=(6, 2, 3, 3)).astype("f")
    x, w = mx.nd.array(data), mx.nd.array(weight)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Convolution(x, w, kernel=(3, 3), num_filter=6, num_group=2, no_bias=True)
        slope, = mx.autograd.grad((y**2).sum(), [x], create_graph=True)
        total = (slope**3).sum()
    total.backward()

    def whole(data):
        return jnp.sum(lax.conv_general_dilated(data, weight, (1, 1), "VALID", feature_group_count=2)**2)
    wanted = jax.grad(lambda data: jnp.sum(jax.grad(whole)(data)**3))(data)
    np.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("kernel, stride, pad", [(9, 2, 0), (16, 8, 4), (2, 3, 1), (1, 2, 0), (5, 3, 4), (4, 4, 0)])
@pytest.mark.parametrize("groups, filters", [(1, 32), (1, 3), (2, 32)])
@needs_onednn
def test_transposed_by_phases(kernel, stride, pad, groups, filters):
    """Of kernels larger and smaller than what they move by, with padding that cuts off all that some elements give."""
    data = RANDOM.normal(size=(2, 4 * groups, 5, 3)).astype("f")
    weight = RANDOM.normal(size=(4 * groups, filters // groups, kernel, kernel)).astype("f")
    size = [(n - 1) * stride + kernel - 2 * pad for n in data.shape[2:]]
    given = dict(kernel=(kernel,) * 2, stride=(stride,) * 2, pad=(pad,) * 2, num_filter=filters, num_group=groups)
    found = mx.nd.Deconvolution(mx.nd.array(data), mx.nd.array(weight), **given).asnumpy()
    whole = np.zeros((2, filters, *[n + 2 * pad for n in size]))
    part, kept = filters // groups, 4
    for g, i, j in np.ndindex(groups, *data.shape[2:]):
        given = np.einsum("nc,cfhw->nfhw", data[:, g * kept:][:, :kept, i, j], weight[g * kept:][:kept].astype(float))
        whole[:, g * part:(g + 1) * part, i * stride:i * stride + kernel, j * stride:j * stride + kernel] += given
    wanted = whole[:, :, pad:pad + size[0], pad:pad + size[1]]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_small_ones_stay_unless_there_are_few_filters_and_large_ones_are_a_loop():
    for channels, loops in ((8, 1), (24, 0), (64, 1)):
        data, weight = (np.ones(shape, "f") for shape in ((2, channels, 28, 28), (channels, channels, 3, 3)))
        slope = jax.grad(lambda w, data=data: jnp.sum(lax.conv_general_dilated(data, w, (1, 1), "SAME") ** 2))
        closed = convolutions.with_fast_convolutions(jax.make_jaxpr(slope)(weight), library=False)
        assert str(closed).count("scan[") == loops


@pytest.mark.parametrize("groups", [2, 16])
@pytest.mark.parametrize("given", [dict(window_strides=(1, 1)), dict(window_strides=(2, 1), rhs_dilation=(1, 2)),
                                   dict(window_strides=(1, 1), lhs_dilation=(2, 1))])
def test_groups_in_float64(monkeypatch, groups, given):
    """XLA takes up to 90 times as long for all groups at once."""
    monkeypatch.setattr(convolutions, "_PRODUCTS", 0)
    with jax.enable_x64(True):
        data, weight = RANDOM.normal(size=(3, 32, 7, 6)), RANDOM.normal(size=(32, 32 // groups, 3, 2))

        def value(data, weight):
            return lax.conv_general_dilated(data, weight, padding=[(1, 1), (1, 0)], feature_group_count=groups, **given)
        closed = convolutions.with_fast_convolutions(jax.make_jaxpr(value)(data, weight), library=False)
        assert f"feature_group_count={groups}" not in str(closed)
        found = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, data, weight)[0]
        np.testing.assert_allclose(found, value(data, weight), rtol=1e-10, atol=1e-12)
