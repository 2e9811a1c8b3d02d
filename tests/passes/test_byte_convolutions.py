"""Convolutions of 8-bit integers by oneDNN: exact in int32, where the processor adds products of bytes exactly."""

import pathlib
import re

import jax
import numpy as np
import pytest
from jax import lax
from marks import needs_onednn

from mxjax._xla import processor
from mxjax.ops.nn._correlation import dimension_numbers
from mxjax.ops.quantized import layers
from mxjax.passes import passes_for
from mxjax.passes.rewriting import rewritten

RANDOM = np.random.default_rng(11)
RANGES = [np.full(1, edge, "f") for edge in (-1, 1, -1, 1)]


@pytest.fixture(params=[True, False], ids=["bytes", "floats"])
def bytes_or_floats(request, monkeypatch):
    """Programs for processors that multiply bytes exactly, and for others."""
    if request.param and not processor.multiplies_bytes():
        pytest.skip("the processor has no exact products of bytes")
    monkeypatch.setattr(layers, "multiplies_bytes", lambda: request.param)
    return request.param


def program(**params):
    """The operator's int32 results, as a program for CPUs with oneDNN."""
    def results(data, weight):
        return layers.quantized_conv(data, weight, None, *RANGES, no_bias=True, **params)[0]
    return jax.jit(rewritten(results, *passes_for("onednn", False, False, False), target="onednn"))


def takes_bytes(call, *args):
    """Whether oneDNN is called with a weight of 8-bit integers, for 32-bit ones."""
    return re.search(r"onednn.*xi8>\) -> tensor<[0-9x]+xi32>", call.lower(*args).as_text()) is not None


@needs_onednn
@pytest.mark.parametrize("data, weight, params", [
    ((2, 3, 9, 8), (4, 3, 3, 3), {"pad": (1, 1)}),
    ((2, 600, 5, 4), (4, 600, 3, 3), {"stride": (2, 2), "pad": (1, 1)}),  # more than a float32 counts to
    ((1, 16, 7, 6), (16, 1, 3, 3), {"num_group": 16, "dilate": (2, 2)}),
    ((2, 8, 5, 5), (6, 4, 1, 1), {"num_group": 2}),
    ((2, 6, 5, 3), (4, 3, 2, 3), {"layout": "NHWC"}),
    ((2, 4, 9), (3, 4, 3), {}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {}),
])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_exact(bytes_or_floats, data, weight, params, dtype):
    limits = np.iinfo(dtype)
    values = RANDOM.choice([limits.min, limits.max - 1, limits.max], size=data).astype(dtype)
    factors = RANDOM.choice([-128, 126, 127], size=weight).astype("int8")
    dims, layout = len(data) - 2, params.get("layout")
    kernel = weight[1:-1] if layout else weight[2:]
    expected = lax.conv_general_dilated(
        values.astype("int32"), factors.astype("int32"), params.get("stride", (1,) * dims),
        [(p, p) for p in params.get("pad", (0,) * dims)], rhs_dilation=params.get("dilate", (1,) * dims),
        dimension_numbers=dimension_numbers(dims, layout), feature_group_count=params.get("num_group", 1))
    call = program(kernel=kernel, num_filter=weight[0], **params)
    np.testing.assert_array_equal(call(values, factors), expected)
    assert takes_bytes(call, values, factors) == bytes_or_floats


@needs_onednn
def test_what_onednn_is_slow_at_stays_with_floats(monkeypatch):
    """A kernel as large as a picture, and padding larger than a kernel reaches."""
    monkeypatch.setattr(layers, "multiplies_bytes", lambda: True)
    for kernel, pad in (((12, 11), (0, 0)), ((1, 1), (1, 1))):
        call = program(kernel=kernel, num_filter=2, pad=pad)
        assert not takes_bytes(call, np.ones((1, 2, 13, 12), "int8"), np.ones((2, 2, *kernel), "int8"))


@pytest.mark.parametrize("text, told", [
    ("processor : 0\nflags\t\t: fpu avx512f avx512_vnni\n", True), ("flags : fpu avx512f avx512_vnnix\n", False),
    ("vendor_id : avx512_vnni\n", False), ("", False), (None, False)])
def test_processors_are_asked(monkeypatch, text, told):
    def read(path, encoding):
        if text is None:
            raise FileNotFoundError(path)
        return text
    monkeypatch.setattr(pathlib.Path, "read_text", read)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert processor.multiplies_bytes.__wrapped__() == told
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    assert not processor.multiplies_bytes.__wrapped__()
