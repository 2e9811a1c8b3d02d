"""Reductions."""

import numpy as np
import pytest
from opcall import call, gradients

from mxjax.base import MXNetError

F = np.array([[1, 2, np.nan], [4, 5, 6]], "float32")
I = np.array([[1, 2, 3], [4, 5, 6]], "int32")


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "nansum", "nanprod"])
def test_reductions_agree_with_numpy(name):
    reference = getattr(np, name)
    np.testing.assert_allclose(call(name, F, axis=1), reference(F, 1), rtol=1e-6)
    for params, axes in [({}, (0, 1)), ({"axis": ()}, (0, 1)), ({"axis": (), "exclude": True}, (0, 1)),
                         ({"exclude": True}, (0, 1)),
                         ({"axis": -1}, 1), ({"axis": 0, "exclude": True}, 1)]:
        for keepdims in (False, True):
            got = call(name, I, keepdims=keepdims, **params)
            expected = np.atleast_1d(reference(I, axes, keepdims=keepdims).astype("int32"))
            assert got.dtype == np.int32 and got.shape == expected.shape
            np.testing.assert_array_equal(got, expected)
    assert call(name, I, axis=(0, 1), exclude=True).tolist() == I.tolist()
    if name != "mean":
        assert call(name, np.array([200, 100], "uint8")).dtype == np.uint8


def test_half_precision_sums_do_not_stall():
    assert call("sum", np.full(4096, 0.5, "float16")).tolist() == [2048]


@pytest.mark.parametrize("name, x, slope", [
    ("max", [1, 1, 0], [1, 1, 0]), ("min", [1, 0, 0], [0, 1, 1]), ("sum", [2, 3, 4], [1, 1, 1]),
    ("prod", [2, 3, 4], [12, 8, 6]), ("nansum", [2, np.nan, 3], [1, 0, 1]), ("nanprod", [2, np.nan, 3], [3, 0, 2])])
def test_gradients(name, x, slope):
    assert gradients(name, np.array(x, "float32"))[0].tolist() == slope
    column = np.array(x, "float32").reshape(3, 1)
    assert gradients(name, column, axis=0, keepdims=True)[0].ravel().tolist() == slope


def test_norm():
    x = np.array([[1, -2], [3, 4]], "float32")
    np.testing.assert_allclose(call("norm", x), [30 ** 0.5], rtol=1e-6)
    np.testing.assert_allclose(call("norm", x, ord=1, axis=1), [3, 7])
    np.testing.assert_allclose(call("norm", x, axis=1, keepdims=True), [[5 ** 0.5], [5]], rtol=1e-6)
    assert call("norm", np.full(3, 300, "float16"), out_dtype="float32").dtype == np.float32
    np.testing.assert_allclose(call("norm", np.full(4, 300, "float16")), [600])
    np.testing.assert_allclose(gradients("norm", x)[0], x / 30 ** 0.5, rtol=1e-6)
    assert gradients("norm", np.zeros(2, "float32"), ord=1)[0].tolist() == [0, 0]


def test_positions_have_the_dtype_of_the_data():
    assert call("argmax", F, axis=1).tolist() == [2, 2]
    assert call("argmin", I, axis=0).dtype == np.int32
    assert call("argmax", F).shape == (1,)
    assert call("argmax", F, keepdims=True).shape == (1, 1)
    assert call("argmax_channel", np.arange(24, dtype="float32").reshape(2, 3, 4)).tolist() == [[2] * 4] * 2


def test_means_of_narrow_integers_divide_by_a_count_of_their_dtype():
    assert call("mean", np.full((40, 36, 3), 3, "uint8")).tolist() == [(3 * 4320 % 256) // (4320 % 256)]
    assert call("mean", np.full((3, 300), -1, "int8"), axis=1).tolist() == [-44 // 44] * 3
    assert call("mean", np.full((16, 16), 1, "uint8")).tolist() == [0]  # MXNet divides by zero, which ends the process
    assert call("mean", np.array([2**24 + 1, 2**24 + 1], "int32")).tolist() == [2**24 + 1]
    mean, variance = call("moments", np.array([[1, 2], [4, 9]], "int32"), axes=(0,))
    assert mean.dtype == variance.dtype == np.int32 and mean.tolist() == [2, 5] and variance.tolist() == [2, 12]


def test_moments_and_cumsum():
    mean, var = call("moments", I.astype("float32"), axes=(0,))
    assert mean.tolist() == [2.5, 3.5, 4.5] and var.tolist() == [2.25] * 3
    assert call("cumsum", I).tolist() == [1, 3, 6, 10, 15, 21]
    assert call("cumsum", np.array([200, 100], "uint8")).tolist() == [200, 44]
    wide = call("cumsum", I, axis=1, dtype="int64")
    assert wide.dtype == np.int64 and wide.tolist() == [[1, 3, 6], [4, 9, 15]]


@pytest.mark.parametrize("name, params, message", [
    ("sum", {"axis": 2}, "out of range"), ("sum", {"axis": (0, 0)}, "repeated"), ("norm", {"ord": 3}, "ord must be"),
    ("argmax", {"axis": 5}, "out of range"), ("moments", {}, "at least one axis")])
def test_mistakes_are_named(name, params, message):
    with pytest.raises(MXNetError, match=message):
        call(name, F, **params)


@pytest.mark.parametrize("operator, shapes, params", [
    ("sum", [(400, 90)], {"axis": 0}), ("nansum", [(400, 90)], {}), ("Pooling", [(1, 2, 64, 64)],
     {"kernel": (1, 1), "global_pool": True, "pool_type": "avg"}), ("broadcast_mul", [(5000, 2), (1, 2)], {}),
    ("Convolution", [(4, 2, 40, 40), (2, 2, 3, 3), (2,)], {"kernel": (3, 3), "num_filter": 2}),
    ("FullyConnected", [(5000, 2), (2, 2), (2,)], {"num_hidden": 2}), ("broadcast_like", [(1, 2), (5000, 2)], {}),
    ("_npi_add", [(5000, 2), (2,)], {})])
def test_halves_are_added_up_exactly_and_rounded_once(operator, shapes, params):
    random = np.random.RandomState(0)
    inputs = [random.rand(*shape).astype("float16") for shape in shapes]
    half, double = ([call(operator, *arrays, **params), *gradients(operator, *arrays, **params)]
                    for arrays in (inputs, [a.astype("float64") for a in inputs]))
    for found, wanted in zip(half, double, strict=True):
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, wanted, rtol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_equals_and_nan(name, dtype):
    """Large enough for a compiled program: the first of equal extremes, or the first NaN."""
    values = np.random.RandomState(0).randint(0, 60, (512, 70)).astype(dtype)
    if dtype.startswith("f"):
        values[3, 40] = values[3, 50] = values[9, 0] = np.nan
        values[4, 7], values[5, 8] = np.inf, -np.inf
    for axis in (0, 1):
        expected = getattr(np, name)(values, axis)
        for given in ({}, {"keepdims": True}):
            found = call(name, values, axis=axis, **given)
            np.testing.assert_array_equal(found.reshape(-1), expected)
            assert found.ndim == 1 + bool(given)
    deep = np.resize(values, (7, 6, 10, 8, 9))
    np.testing.assert_array_equal(call(name, deep, axis=1), getattr(np, name)(deep, 1))
    flat = call(name, values.astype("float32"), keepdims=True)
    assert flat.shape == (1, 1) and flat == getattr(np, name)(values.astype("float32"))
