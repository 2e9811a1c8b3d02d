"""Convolution: every formulation against XLA's own, with gradients."""

import jax
import numpy as np
import pytest
from jax import lax
from opcall import call

from mxjax.ops.conv import _as_product, _product_is_faster

RANDOM = np.random.default_rng(3)
CASES = [  # data, kernel, stride, dilate, pad
    ((2, 3, 9, 9), (7, 8), (1, 1), (1, 1), (0, 0)),  # few windows
    ((2, 3, 9, 9), (4, 4), (2, 1), (2, 2), (0, 0)),
    ((2, 3, 5, 5), (5, 5), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 9, 9), (3, 2), (2, 1), (1, 2), (1, 0)),  # small kernels
    ((1, 2, 6), (4,), (2,), (1,), (1,))]


@pytest.mark.parametrize("shape, kernel, stride, dilate, pad", CASES)
def test_product_of_windows(shape, kernel, stride, dilate, pad):
    data = RANDOM.normal(size=shape).astype("float32")
    weight = RANDOM.normal(size=(4, shape[1], *kernel)).astype("float32")

    def whole(data, weight):
        return lax.conv_general_dilated(data, weight, stride, [(p, p) for p in pad], rhs_dilation=dilate)

    def product(data, weight):
        return _as_product(data, weight, kernel, stride, dilate, pad, False)
    expected, pull = jax.vjp(whole, data, weight)
    found, own_pull = jax.vjp(product, data, weight)
    head = RANDOM.normal(size=expected.shape).astype("float32")
    for a, b in zip([found, *own_pull(head)], [expected, *pull(head)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    out = call("Convolution", data, weight, kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_filter=4,
               no_bias=True)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_kernels_as_large_as_the_picture_take_the_product():
    large = jax.ShapeDtypeStruct((4, 3, 64, 64), "float32")
    assert _product_is_faster(large, (64, 64), (1, 1), (1, 1), (0, 0), None)
    assert not _product_is_faster(large, (32, 32), (1, 1), (1, 1), (0, 0), None)
