"""Hybrid mx.np: integers and booleans meet a number; results, dtypes and attributes are MXNet 1.9.1's."""

import json

import numpy as np
import pytest

import mxjax as mx


class Both(mx.gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F.np, x)


CASES = [
    (lambda F, x: x + 2.5, "float64", [3.5, 4.5, 5.5]), (lambda F, x: x + 3, "int32", [4, 5, 6]),
    (lambda F, x: 3 + x, "int32", [4, 5, 6]), (lambda F, x: 3 - x, "float64", [2, 1, 0]),
    (lambda F, x: 3 * x, "float64", [3, 6, 9]), (lambda F, x: x * True, "int32", [1, 2, 3]),
    (lambda F, x: 2.5 % x, "float64", [0.5, 0.5, 2.5]), (lambda F, x: x**2.5, "float64", [1, 2**2.5, 3**2.5]),
    (lambda F, x: F.maximum(x, 2.5), "float64", [2.5, 2.5, 3]), (lambda F, x: F.maximum(x, 2), "int32", [2, 2, 3]),
    (lambda F, x: F.hypot(x, 2.5), "float64", np.hypot([1, 2, 3], 2.5)),
    (lambda F, x: F.arctan2(x, 2.5), "float64", np.arctan2([1, 2, 3], 2.5)),
    (lambda F, x: F.ldexp(x, 2.5), "float64", np.array([1, 2, 3]) * 2**2.5),
    (lambda F, x: x / 2.5, "float32", [0.4, 0.8, 1.2]), (lambda F, x: x > 2.5, "bool", [0, 0, 1]),
    (lambda F, x: x == 2.5, "bool", [0, 0, 0])]


@pytest.mark.parametrize("function, dtype, expected", CASES)
def test_integers_and_a_number(function, dtype, expected):
    with mx.util.np_shape(True), mx.util.np_array(True):
        net = Both(function)
        net.hybridize()
        found = net(mx.np.array([1, 2, 3], dtype="int32"))
        assert found.dtype == dtype
        rtol = 1e-6 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(found.asnumpy().astype("float64"), expected, rtol)
        symbol = function(mx.sym.np, mx.sym.Variable("x").as_np_ndarray())
        assert np.dtype(symbol.infer_type(x="int32")[1][0]) == dtype
        floats = Both(function)
        floats.hybridize()
        assert floats(mx.np.ones(3, dtype="float16")).dtype == ("bool" if dtype == "bool" else "float16")


def test_booleans_and_a_fraction_give_float64():
    with mx.util.np_shape(True), mx.util.np_array(True):
        net = Both(lambda F, x: x + 2.5)
        net.hybridize()
        found = net(mx.np.array([True, False], dtype="bool"))
        assert found.dtype == "float64" and found.asnumpy().tolist() == [3.5, 2.5]


@pytest.mark.parametrize("make, name, attrs", [
    (lambda x: x + 3, "_npi_add_scalar", {"is_int": "True", "scalar": "3.0"}),
    (lambda x: 2.5 + x, "_npi_add_scalar", {"is_int": "False", "scalar": "2.5"}),
    (lambda x: x - True, "_npi_subtract_scalar", {"is_int": "True", "scalar": "1.0"}),
    (lambda x: 3 - x, "_npi_rsubtract_scalar", {"is_int": "False", "scalar": "3.0"}),
    (lambda x: x == 3, "_npi_equal_scalar", {"is_int": "True", "scalar": "3.0"}),
    (lambda x: mx.sym.np.maximum(3, x), "_maximum_scalar", {"is_int": "False", "scalar": "3.0"})])
def test_files_say_whether_a_number_is_an_integer(make, name, attrs):
    row = json.loads(make(mx.sym.Variable("x").as_np_ndarray()).tojson())["nodes"][-1]
    assert (row["op"], row["attrs"]) == (name, attrs)


def test_classic_operators_of_numpy_symbols():
    x, y = mx.sym.Variable("x").as_np_ndarray(), mx.sym.Variable("y")
    for made in (mx.sym.FullyConnected(x, num_hidden=2), mx.sym.broadcast_add(y, x), mx.sym.concat(x, x, dim=0), y + x):
        assert isinstance(made, mx.sym.np._Symbol) and type(made.as_nd_ndarray()) is mx.sym.Symbol
    assert type(mx.sym.broadcast_add(y, y)) is mx.sym.Symbol


@pytest.mark.parametrize("op", ["_plus_scalar", "_maximum_scalar", "_equal_scalar", "_rdiv_scalar"])
def test_the_classic_operators_say_what_they_give(op):
    def types(dtype, is_int):
        node = getattr(mx.sym._internal, op)(mx.sym.Variable("x"), scalar=2.5, is_int=is_int)
        return np.dtype(node.infer_type(x=dtype)[1][0]).name

    assert [types(t, False) for t in ("int32", "bool", "uint8", "float16")] == ["float64"] * 3 + ["float16"]
    assert [types(t, True) for t in ("int32", "bool", "uint8", "float16")] == ["int32", "int64", "uint8", "float16"]
