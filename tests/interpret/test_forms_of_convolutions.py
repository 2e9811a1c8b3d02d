"""NumPy forms of convolutions beside XLA's programs."""

import jax
import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


def arrays_of(data, outer, inner, kernel, bias, last, dtype="float32"):
    data = numbers(*data, dtype=dtype)
    weight = (outer, *kernel, inner) if last else (outer, inner, *kernel)
    return [data, numbers(*weight, dtype=dtype), *[numbers(bias, dtype=dtype)] * bool(bias)]


@pytest.mark.parametrize("space, options", [
    ((9,), {"kernel": (3,)}),
    ((9, 8), {"kernel": (3, 2), "pad": (1, 1)}),
    ((9, 8), {"kernel": (1, 1)}),
    ((9, 8), {"kernel": (1, 1), "stride": (2, 2), "num_group": 2}),
    ((9, 8), {"kernel": (3, 3), "stride": (2, 3), "dilate": (1, 2), "pad": (2, 1)}),
    ((9, 8), {"kernel": (3, 3), "num_group": 2, "pad": (3, 0)}),
    ((14, 15), {"kernel": (3, 3), "pad": (1, 1)}),
    ((14, 15), {"kernel": (3, 3), "pad": (1, 1), "num_group": 4}),
    ((14, 15), {"kernel": (1, 1)}),
    ((5, 6, 4), {"kernel": (2, 3, 2), "stride": (1, 2, 1), "pad": (1, 0, 1)}),
    ((1, 1), {"kernel": (3, 3), "pad": (1, 1)}),
])
def test_convolution(space, options):
    groups = options.get("num_group", 1)
    arrays = arrays_of((3, 4, *space), 8, 4 // groups, options["kernel"], 8 if groups > 1 else 0, False)
    check("Convolution", arrays, {**options, "num_filter": 8, "no_bias": groups == 1})


@pytest.mark.parametrize("space, options", [
    ((9,), {"kernel": (3,), "stride": (2,), "dilate": (2,)}),
    ((5, 4), {"kernel": (2, 2), "stride": (2, 2)}),
    ((5, 4), {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "adj": (1, 2), "dilate": (2, 1)}),
    ((5, 4), {"kernel": (4, 4), "stride": (2, 2), "target_shape": (10, 8)}),
    ((5, 4), {"kernel": (4, 4), "stride": (2, 2), "target_shape": (11, 7), "num_group": 2}),
    ((14, 13), {"kernel": (3, 3), "pad": (1, 1)}),
    ((3, 4, 2), {"kernel": (2, 3, 2), "stride": (1, 2, 1)}),
])
def test_transposed_convolution(space, options):
    groups = options.get("num_group", 1)
    arrays = arrays_of((3, 4, *space), 4, 6 // groups, options["kernel"], 6, False)
    check("Deconvolution", arrays, {**options, "num_filter": 6, "no_bias": False})


def test_channels_last():
    options = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 6, "layout": "NHWC"}
    check("Convolution", arrays_of((2, 7, 6, 4), 6, 4, (3, 2), 6, True), {**options, "no_bias": False})
    check("Deconvolution", arrays_of((2, 4, 5, 4), 4, 6, (3, 2), 0, True), {**options, "no_bias": True})


def test_double_precision():
    arrays = arrays_of((2, 4, 7, 7), 4, 1, (3, 3), 0, False, "float64")
    with jax.enable_x64(True):
        check("Convolution", arrays, {"kernel": (3, 3), "num_filter": 4, "num_group": 4, "no_bias": True}, 1e-12)


def test_columns_in_parts(monkeypatch):
    from mxjax.interpret.operators import convolutions
    monkeypatch.setattr(convolutions, "_CACHE", 1 << 12)
    monkeypatch.setattr(convolutions, "_MOST", 1 << 12)
    for space in (6, 5), (40, 20):
        arrays = arrays_of((5, 4, *space), 3, 4, (3, 3), 3, False)
        check("Convolution", arrays, {"kernel": (3, 3), "num_filter": 3, "pad": (1, 0)}, 1e-4)
        check("Convolution", arrays, {"kernel": (3, 3), "num_filter": 3, "stride": (2, 1)}, 1e-4)
