"""`mx.sym.zeros`, `arange` ...: functions without inputs take every argument of their counterparts in `mx.nd`."""

import numpy as np
import pytest

import mxjax as mx


@pytest.mark.parametrize("name, arguments, options", [
    ("zeros", [(2, 3)], {"dtype": "int32"}), ("ones", [(2,)], {"dtype": "float64"}), ("zeros", [2], {}),
    ("full", [(2, 2), 1.5], {"dtype": "float16"}), ("full", [(2,), 3], {}),
    ("eye", [3], {}), ("eye", [2, 4, 1], {"dtype": "int32"}), ("eye", [3], {"M": 2, "k": -1}),
    ("arange", [3], {}), ("arange", [1, 7, 2], {"dtype": "int32"}), ("arange", [5, 1], {"step": -1.5, "repeat": 2}),
    ("linspace", [1, 2, 5], {}), ("linspace", [3, -1, 4], {"endpoint": False, "dtype": "float64"})])
def test_constants_are_those_of_arrays(name, arguments, options):
    graph = getattr(mx.sym, name)(*arguments, **options, name="made")
    result, expected = graph.eval()[0], getattr(mx.nd, name)(*arguments, **options)
    assert graph.list_outputs() == ["made_output"] and result.dtype == expected.dtype
    np.testing.assert_array_equal(result.asnumpy(), expected.asnumpy())


V, W = mx.sym.var("v"), mx.sym.var("w")


@pytest.mark.parametrize("graph, inputs, wanted", [
    (mx.sym.histogram(V, 3, range=(0, 3)), {"v": [0, 1, 1, 3]}, [[1, 2, 1], [0, 1, 2, 3]]),
    (mx.sym.histogram(V, W), {"v": [0, 1, 1, 3], "w": [0, 2, 4]}, [[3, 1], [0, 2, 4]]),
    (mx.sym.split_v2(V, (1,)), {"v": [1, 2, 3]}, [[1], [2, 3]]), (V.split_v2(2), {"v": [1, 2]}, [[1], [2]]),
    (mx.sym.pow(2, V), {"v": [1, 3]}, [[2, 8]]), (mx.sym.power(V, 2), {"v": [1, 3]}, [[1, 9]]),
    (mx.sym.pow(V, W), {"v": [3], "w": [2]}, [[9]]), (mx.sym.maximum(2, V), {"v": [1, 3]}, [[2, 3]]),
    (mx.sym.minimum(V, 2), {"v": [1, 3]}, [[1, 2]]), (mx.sym.hypot(3, V), {"v": [4]}, [[5]]),
    (mx.sym.hypot(V, W), {"v": [3], "w": [4]}, [[5]]), (mx.sym.add_n([V, W]), {"v": [3], "w": [4]}, [[7]]),
    (abs(V), {"v": [-3]}, [[3]]), (mx.sym.take(V, W, 0), {"v": [5, 6], "w": [1]}, [[6]]),
    (mx.sym.FullyConnected(V, weight=W, num_hidden=1, no_bias=True), {"v": [[5, 6]], "w": [[1, 1]]}, [[[11]]]),
])
def test_functions_of_symbols(graph, inputs, wanted):
    found = graph.bind(mx.cpu(), {name: mx.nd.array(value) for name, value in inputs.items()}).forward()
    assert [part.asnumpy().tolist() for part in found] == wanted


def test_functions_of_two_numbers():
    assert (mx.sym.pow(2, 3), mx.sym.maximum(2, 3), mx.sym.minimum(2, 3), mx.sym.hypot(3, 4)) == (8, 3, 2, 5)


def remainder():
    symbol = V
    symbol %= 2
    return symbol


def test_a_remainder_in_place_is_another_symbol():
    """As in MXNet, unlike `+=`."""
    assert remainder().eval(v=mx.nd.array([5]))[0].asscalar() == 1 and remainder() is not V


@pytest.mark.parametrize("call, error, told", [
    (lambda: mx.sym.histogram(V, 2.5, range=(0, 3)), ValueError, "bins argument should be either an integer"),
    (lambda: mx.sym.histogram(V, 3), ValueError, "null range is not supported in symbol mode"),
    (lambda: mx.sym.split_v2(V, "a"), ValueError, "indices_or_sections must be int or tuple of ints"),
    (lambda: mx.sym.pow("a", 2), TypeError, r"power: types \(str, int\) not supported"),
    (lambda: mx.sym.Convolution(V, 3, kernel=(1, 1)), AssertionError, "input weight must be a Symbol, got int"),
    (lambda: mx.sym.Convolution(V, weight=3, kernel=(1, 1)), AssertionError, "input weight must be a Symbol, got int"),
    (lambda: mx.sym.Convolution(V, W, data=V, num_filter=2, kernel=(1, 1)), TypeError, "values for input data"),
    (lambda: mx.sym.Convolution(V, V, V, V, num_filter=2, kernel=(1, 1)), mx.MXNetError, r"takes 3 inputs .* got 4"),
    (lambda: mx.sym.expand_dims(V, 0, axis=1), TypeError, "got multiple values for parameter axis"),
    (lambda: mx.sym.add_n([V, 3]), AssertionError, "positional arguments must be Symbols, got int"),
    (lambda: mx.sym.concat(V, W, 1), AssertionError, "positional arguments must be Symbols, got int"),
    (lambda: mx.sym.exp(V, "a", name="b"), TypeError, "got multiple values for name"),
    (lambda: mx.sym.exp(V, 3), TypeError, "operator exp: name must be text, got int"),
    (lambda: mx.sym.exp(V, "a", None, None, 3), TypeError, "takes at most 4 positional arguments"),
    (lambda: mx.sym.exp(mx.sym.Group([V, W])), mx.MXNetError, "a group of 2 outputs; select one"),
    (lambda: mx.sym.exp(V, nothing=W), mx.MXNetError, "has no input nothing; it takes data"),
    (lambda: mx.sym.exp(V).list_attr(recursive=True), DeprecationWarning, "use attr_dict"),
    (lambda: V._set_attr(a=3), ValueError, "Set Attr only accepts string values"),
    (lambda: mx.sym.var("x", attr={"a": 3}), ValueError, "Attributes need to be strings"),
    (lambda: mx.sym.var("x", foo="b"), ValueError, "Attribute name=foo is not supported"),
    (lambda: mx.sym.Group([1]), TypeError, "Expected a list of symbols as input"),
    (lambda: mx.sym.Group([V, V])["v"], ValueError, "There are multiple outputs with name 'v'"),
    (lambda: mx.sym.Group([V, W])._set_attr(a="3"), mx.MXNetError, "a group of 2"),
    (lambda: mx.sym.load(3), TypeError, "fname need to be string"),
    (lambda: mx.sym.load_json(3), TypeError, "json_str need to be string"),
    (lambda: V.save(3), TypeError, "fname need to be string"),
    (lambda: V.gradient(["v"]), mx.MXNetError, "gradient is not implemented"),
    (lambda: V.infer_type("float32", v="float32"), ValueError, "known argument types either by positional or kwargs"),
    (lambda: V.infer_shape((2,), v=(2,)), ValueError, "known argument shapes either by positional or kwargs"),
    (lambda: mx.sym.exp(V)(V, W), mx.MXNetError, "compose: got 2 symbols for 1 variables"),
    (lambda: mx.sym.exp(V)(v=mx.sym.split(V, num_outputs=2)), mx.MXNetError, "several outputs cannot replace"),
    (lambda: mx.sym.exp(V)(v=1), TypeError, "Compose expect `Symbol` as arguments"),
    (lambda: (V + W).bind(mx.cpu(), [mx.nd.ones(1)]), ValueError, r"Length of args .* 1 arrays for 2 \(v, w\)"),
    (lambda: V.__iadd__(1), mx.base.NotImplementedForSymbol, "__iadd__.*'\\+='"),
    (lambda: V.__isub__(1), mx.base.NotImplementedForSymbol, "__isub__.*'-='"),
    (lambda: V.__imul__(1), mx.base.NotImplementedForSymbol, "__imul__.*'\\*='"),
    (lambda: V.__itruediv__(1), mx.base.NotImplementedForSymbol, "__itruediv__.*'/='"),
])
def test_mistakes_are_named(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_representations_and_parts():
    halves = mx.sym.split(V, num_outputs=2, name="halves")
    assert repr(mx.sym.Group([halves, W])) == "<Symbol group [halves, halves, w]>" and repr(halves) == "<Symbol halves>"
    assert halves.get_inputs().list_outputs() == ["v"] and V.as_nd_ndarray() is V
    assert len({V, W, V}) == 2 and hash(V) == hash(V)


def test_name_and_attributes_may_come_by_position():
    """As in MXNet, after an operator's parameters."""
    assert mx.sym.exp(V, "a").name == V.exp("a").name == mx.sym.expand_dims(V, 1, "a").name == "a"
    assert mx.sym.exp(V, "a", {"__x__": "1"}, None).attr("__x__") == "1"
    assert mx.sym.FullyConnected(V, W, None, 10, True, False, "a").list_outputs() == ["a_output"]
    assert mx.sym.FullyConnected(V, W, None, 10, name="b").list_arguments() == ["v", "w", "b_bias"]
