"""Composition, names, attributes, parts of graphs, JSON."""

import copy
import functools
import json
import operator
import pathlib
import pickle

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

MXNET = pathlib.Path(__file__).parent.parent / "data" / "mxnet"


def mlp():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")


def values_of(symbol, seed=0, **shapes):
    """The outputs for inputs that depend on their names' places alone."""
    args, _, aux = symbol.infer_shape(**shapes)
    rng = np.random.default_rng(seed)
    made = [[mx.nd.array(rng.uniform(0.5, 1, s)) for s in part] for part in (args, aux)]
    return [o.asnumpy() for o in symbol.bind(mx.cpu(), made[0], aux_states=made[1]).forward()]


# ------------------------------------------------------------------ composition and names
def test_lists():
    net = mlp()
    assert net.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"]
    assert net.list_outputs() == ["softmax_output"] and net.name == "softmax" and repr(net) == "<Symbol softmax>"
    normed = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    assert normed.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert normed.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert set(normed.list_inputs()) == {"data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"}


def test_names_of_outputs():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    points = mx.sym.contrib.hawkesll(*[mx.sym.Variable(c) for c in "abcdefgh"], name="points")
    for symbol, wanted in [
            (mx.sym.SliceChannel(a, num_outputs=1, name="s"), ["s_output0"]),
            (mx.sym.linalg.det(a, name="s"), ["s_output0"]), (mx.sym.CTCLoss(a, b, name="s"), ["s_output0"]),
            (mx.sym.topk(a, name="s"), ["s_output"]), (mx.sym.sort(a, name="s"), ["s_output0"]),
            (mx.sym.make_loss(a, name="s"), ["s_loss"]), (mx.sym.MakeLoss(a, name="s"), ["s_output"]),
            (points, ["points_output", "points_out_state"])]:
        assert symbol.list_outputs() == wanted


def test_automatic_names():
    with mx.name.NameManager():
        a = mx.sym.Variable("a")
        assert [(a + a).name, (a + a).name, (a * 2).name, mx.sym.exp(a).name] == \
            ["_plus0", "_plus1", "_mulscalar0", "exp0"]
        assert mx.sym.FullyConnected(a, num_hidden=1).list_arguments() == \
            ["a", "fullyconnected0_weight", "fullyconnected0_bias"]
    with mx.name.Prefix("layer_"):
        assert mx.sym.exp(a).name.startswith("layer_exp")
        assert mx.sym.exp(a, name="given").name == "layer_given"


def test_compose():
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    second = mx.sym.FullyConnected(mx.sym.Variable("input"), num_hidden=3, name="second")
    both = second(input=first, name="both")
    assert both.list_arguments() == ["data", "first_weight", "first_bias", "second_weight", "second_bias"]
    assert second.list_arguments() == ["input", "second_weight", "second_bias"], "composing changes no original"
    assert both.infer_shape(data=(2, 5))[1] == [(2, 3)]
    shared = mx.sym.FullyConnected(first, weight=mx.sym.Variable("w"), num_hidden=3, no_bias=True)
    assert "w" in shared.list_arguments()
    for wrong, error in ((lambda: second(nothing=first), MXNetError), (lambda: second(first, input=first), TypeError),
                         (lambda: second(input=3), TypeError), (lambda: mx.sym.exp(3), (TypeError, MXNetError))):
        with pytest.raises(error):
            wrong()


def test_groups_and_parts():
    net = mlp()
    inside = net.get_internals()
    assert inside["fc1_output"].list_arguments() == ["data", "fc1_weight", "fc1_bias"]
    assert "relu1_output" in inside.list_outputs() and inside[0].name == "data"
    group = mx.sym.Group([net, inside["relu1_output"]])
    assert len(group) == 2 and group.list_outputs() == ["softmax_output", "relu1_output"]
    assert [s.name for s in group] == ["softmax", "relu1"] and group.name is None
    assert net.get_children().list_outputs() == ["fc2_output", "softmax_label"]
    assert mx.sym.Variable("x").get_children() is None
    parts = mx.sym.split(mx.sym.Variable("x"), num_outputs=3, axis=1, name="s")
    assert parts.list_outputs() == ["s_output0", "s_output1", "s_output2"]
    assert [o.shape for o in values_of(parts[1:], x=(2, 6))] == [(2, 2)] * 2
    for index, error in ((5, IndexError), ("nothing", ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            parts[index]


def test_classic_names_make_classic_symbols():
    total = mx.sym.cumsum(mx.sym.var("x"), axis=0)
    assert type(total) is mx.sym.Symbol and total.name.startswith("cumsum") and '"op": "_np_cumsum"' in total.tojson()
    assert type(mx.sym.np.cumsum(mx.sym.var("x").as_np_ndarray())) is mx.sym.np._Symbol


def test_truth_and_other_python():
    a = mx.sym.Variable("a")
    with pytest.raises(mx.base.NotImplementedForSymbol):
        bool(a == a)
    for same in (copy.copy(mlp()), copy.deepcopy(mlp()), pickle.loads(pickle.dumps(mlp()))):
        assert same.tojson() == mlp().tojson()


@pytest.mark.parametrize("build, wanted", [
    (lambda a, b: a + b * 2 - 1, lambda a, b: a + b * 2 - 1), (lambda a, b: 2 / a + b**2, lambda a, b: 2 / a + b**2),
    (lambda a, b: (a > b) * a + (a <= 0.7), lambda a, b: (a > b) * a + (a <= 0.7)),
    (lambda a, b: -a % b, lambda a, b: -a % b),
    (lambda a, b: a.sum(axis=0) + b.reshape((3, 2)).max(axis=1), lambda a, b: a.sum(0) + b.reshape(3, 2).max(1))])
def test_arithmetic(build, wanted):
    symbol = build(mx.sym.Variable("a"), mx.sym.Variable("b"))
    a, b = (np.random.default_rng(i).uniform(0.5, 1, (2, 3)).astype("float32") for i in range(2))
    got = symbol.bind(mx.cpu(), {"a": mx.nd.array(a), "b": mx.nd.array(b)}).forward()[0]
    np.testing.assert_allclose(got.asnumpy(), wanted(a, b), rtol=1e-5)
    np.testing.assert_allclose(symbol.eval(a=mx.nd.array(a), b=mx.nd.array(b))[0].asnumpy(), wanted(a, b), rtol=1e-5)


# ------------------------------------------------------------------ attributes
def test_attributes():
    with mx.AttrScope(ctx_group="stage1", __lr_mult__="2"):
        x = mx.sym.Variable("x", attr={"__lr_mult__": "3"}, shape=(2, 3), init=mx.init.One())
        y = mx.sym.FullyConnected(x, num_hidden=3, name="fc", attr={"mood": "good"})
    assert x.attr("ctx_group") == "stage1" and x.attr("__lr_mult__") == "3" and x.attr("nothing") is None
    assert y.attr("__lr_mult__") == "2" and y.attr("mood") == "good" and y.attr("num_hidden") == "3"
    assert y.attr_dict()["fc_weight"]["__lr_mult__"] == "2"
    y._set_attr(mood="better")
    assert y.list_attr()["mood"] == "better"
    assert y.infer_shape()[1] == [(2, 3)], "a variable's shape is known"
    loaded = mx.sym.load_json(y.tojson())
    assert loaded.attr_dict() == y.attr_dict()
    with pytest.raises(ValueError):
        y._set_attr(mood=1)
    with pytest.raises(ValueError):
        mx.AttrScope(mood=1)


def test_an_attribute_with_the_name_of_a_parameter_is_the_parameter():
    x = mx.sym.Variable("x", shape=(2, 3))
    dense = mx.sym.FullyConnected(x, num_hidden=4, name="fc", attr={"num_hidden": "7", "no_bias": "True"})
    assert dense.list_arguments() == ["x", "fc_weight"] and dense.infer_shape()[1] == [(2, 7)]
    assert dense.list_attr() == {"num_hidden": "7", "no_bias": "True"}
    with mx.AttrScope(dim="0"):
        assert mx.sym.concat(x, x, dim=1).infer_shape()[1] == [(4, 3)]


def test_wrong_parameters_are_named():
    data = mx.sym.Variable("data")
    for make, words in ((lambda: mx.sym.FullyConnected(data), "FullyConnected.*num_hidden"),
                        (lambda: mx.sym.Activation(data, act_type="wavy"), "Activation.*act_type.*relu.*wavy"),
                        (lambda: mx.sym.Convolution(data, kernel="wide", num_filter=1), "Convolution.*kernel.*wide"),
                        (lambda: mx.sym.FullyConnected(data, num_hidden=2, colour="red"), "FullyConnected.*colour")):
        with pytest.raises(MXNetError, match=words):
            make()


# ------------------------------------------------------------------ JSON
def zoo():
    data = mx.sym.Variable("data")
    yield "mlp", mlp(), {"data": (2, 5)}
    normed = mx.sym.BatchNorm(mx.sym.Convolution(data, kernel=(3, 3), num_filter=2))
    yield "conv", mx.sym.Pooling(normed, kernel=(2, 2), pool_type="avg"), {"data": (1, 2, 6, 6)}
    parts = mx.sym.split(data, num_outputs=2, axis=1)
    yield "group", mx.sym.Group([parts[1] * 2 + parts[0], mx.sym.sum(data, axis=(0, 1))]), {"data": (2, 4)}
    yield "made", mx.sym.zeros((2, 2)) + mx.sym.arange(4).reshape((2, 2)) + data, {"data": (2, 2)}
    yield "slice", mx.sym.slice(data, begin=(0, None), end=(None, 2), step=(1, 1)).transpose(), {"data": (3, 4)}


@pytest.mark.parametrize("symbol, shapes", [pytest.param(*row[1:], id=row[0]) for row in zoo()])
def test_json_round_trip(symbol, shapes, tmp_path):
    text = symbol.tojson()
    loaded = mx.sym.load_json(text)
    assert loaded.tojson() == text
    assert loaded.list_arguments() == symbol.list_arguments() and loaded.list_outputs() == symbol.list_outputs()
    for got, wanted in zip(values_of(loaded, **shapes), values_of(symbol, **shapes), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    symbol.save(str(tmp_path / "x.json"))
    assert mx.sym.load(str(tmp_path / "x.json")).tojson() == text
    graph = json.loads(text)
    assert graph["attrs"]["mxnet_version"] == ["int", 10901]
    assert graph["arg_nodes"] == [i for i, n in enumerate(graph["nodes"]) if n["op"] == "null"]


def test_json_of_mxnet_0_8():
    net = mx.sym.load(str(MXNET / "save_000800.json"))
    assert net.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "fc3_weight",
                                    "fc3_bias", "batchnorm0_gamma", "batchnorm0_beta", "softmax_label"]
    assert net.list_auxiliary_states() == ["batchnorm0_moving_mean", "batchnorm0_moving_var"]
    attributes = net.attr_dict()
    assert attributes["fc1_weight"]["__lr_mult__"] == "1.2" and attributes["fc1_weight"]["__wd_mult__"] == "0.3"
    assert attributes["data"]["__ctx_group__"] == "stage1" and net.attr_dict()["fc1"]["num_hidden"] == "128"
    prob = values_of(net, data=(2, 20))[0]
    assert prob.shape == (2, 10)
    np.testing.assert_allclose(prob.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("path", sorted(MXNET.rglob("*-symbol.json")), ids=lambda path: path.stem)
def test_what_mxnet_wrote_comes_out_the_same(path, tmp_path):
    """Byte for byte: converters of MXNet's files read them by lines."""
    symbol = mx.sym.load(str(path))
    assert symbol.tojson(remove_amp_cast=False) == path.read_text()
    symbol.save(str(tmp_path / "again.json"))
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_layout_of_json():
    """MXNet breaks lines for attributes from two on and for lists of more than ten values."""
    x = mx.sym.var("x", attr={"text": 'a"b\\c\nd\te \u00e9 \x01'})
    lines = mx.sym.Dropout(mx.sym.Pooling(x, kernel=(2, 2), name="p"), name="d").tojson().split("\n")
    assert lines[:7] == ["{", '  "nodes": [', "    {", '      "op": "null", ', '      "name": "x", ',
                         '      "attrs": {"text": "a\\"b\\\\c\\nd\\te \u00e9 \x01"}, ', '      "inputs": []']
    assert lines[7:16] == ["    }, ", "    {", '      "op": "Pooling", ', '      "name": "p", ',
                           '      "attrs": {"kernel": "(2, 2)"}, ', '      "inputs": [[0, 0, 0]]', "    }, ", "    {",
                           '      "op": "Dropout", ']
    assert lines[-5:] == ['  "arg_nodes": [0], ', '  "node_row_ptr": [0, 1, 3, 5], ', '  "heads": [[2, 0, 0]], ',
                          '  "attrs": {"mxnet_version": ["int", 10901]}', "}"]
    many = mx.sym.concat(*[mx.sym.var(f"v{i}") for i in range(11)], dim=0)
    text = many.tojson()
    assert '"inputs": [\n        [0, 0, 0], \n        [1, 0, 0], \n' in text
    assert '"arg_nodes": [\n    0, \n    1, \n' in text and text.endswith('[11, 0, 0]], \n  "attrs": {"mxnet_version": '
                                                                         '["int", 10901]}\n}')
    assert mx.sym.load_json(text).tojson() == text
    with mx.util.np_shape():
        assert x.tojson().endswith('"attrs": {\n    "is_np_shape": ["int", 1], \n    "mxnet_version": ["int", 10901]\n'
                                   '  }\n}')


# ------------------------------------------------------------------ damaged files
def damaged(text, rng):
    """The text with a few characters changed, cut out, doubled, or the end cut off."""
    for _ in range(rng.integers(1, 4)):
        place, kind = int(rng.integers(len(text) + 1)), rng.integers(4)
        piece = int(rng.integers(1, 30))
        if kind == 0:
            text = text[:place] + chr(rng.integers(32, 127)) + text[place + 1:]
        elif kind == 1:
            text = text[:place] + text[place + piece:]
        elif kind == 2:
            text = text[:place] + text[place:place + piece] + text[place:]
        elif rng.integers(5) == 0:
            text = text[:place]
    return text


def rewired(text, rng):
    """The graph with one to three values replaced by others: valid JSON, wrong content."""
    graph = json.loads(text)
    values = [None, -1, 10**9, 10**30, 1.5, True, "", "text", [], [0], [[0, 0]], {}, {"op": "null"}, "(1,", "(("]
    for _ in range(rng.integers(1, 4)):
        place = graph
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if isinstance(place[key], (dict, list)) and rng.integers(4):
                place = place[key]
                continue
            place[key] = copy.deepcopy(values[rng.integers(len(values))])
            break
    return json.dumps(graph)


@pytest.mark.parametrize("name", ["bilstm_lm-symbol.json", "save_000800.json"])
@pytest.mark.parametrize("change", [damaged, rewired], ids=lambda f: f.__name__)
def test_damaged_json_gives_mxnet_errors(name, change):
    text, rng, failures = (MXNET / name).read_text(), np.random.default_rng(7), 0
    for _ in range(1000):
        try:
            mx.sym.load_json(change(text, rng)).list_arguments()
        except MXNetError as error:
            failures += 1
            assert str(error)
    assert failures > 100


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "12", '{"nodes": [], "heads": []}', "[" * 100000,
                                  '{"nodes": [{"op": "null", "name": "a", "inputs": [[0, 0]]}], "heads": [[0, 0]]}',
                                  '{"nodes": [{"op": "exp", "name": "a", "inputs": [[0, 0]]}], "heads": [[0, 0]]}'],
                         ids=range(9))
def test_no_symbol(text):
    with pytest.raises(MXNetError):
        mx.sym.load_json(text)


def test_damage_is_named():
    text = mlp().tojson()
    with pytest.raises(MXNetError, match="fc1.*there is no operator 'FullyDisconnected'"):
        mx.sym.load_json(text.replace("FullyConnected", "FullyDisconnected"))
    with pytest.raises(MXNetError, match="num_hidden"):
        mx.sym.load_json(text.replace('"num_hidden": "4"', '"num_hidden": "many"'))


def test_attributes_given_with_a_call_become_text():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc", attr={"__count__": 3})
    assert net.attr("__count__") == "3" and net.attr_dict()["fc_weight"]["__count__"] == "3"


@pytest.mark.parametrize("make, expected", [
    (lambda a, b: mx.sym.Concat(num_args=2, name="c"), ["c_arg0", "c_arg1"]),
    (lambda a, b: mx.sym.add_n(num_args=3, name="c"), ["c_arg0", "c_arg1", "c_arg2"]),
    (lambda a, b: mx.sym.stack(a, num_args=2, name="c"), ["a", "c_arg1"]),
    (lambda a, b: mx.sym.Concat(arg1=b, num_args=2, name="c"), ["c_arg0", "b"]),
    (lambda a, b: mx.sym.Concat(arg1=b, arg0=a, name="c"), ["a", "b"]), (lambda a, b: mx.sym.Concat(a, b), ["a", "b"])])
def test_inputs_that_are_only_counted_become_variables(make, expected):
    made = make(mx.sym.var("a"), mx.sym.var("b"))
    assert made.list_arguments() == mx.sym.load_json(made.tojson()).list_arguments() == expected
    shapes, _, _ = made.infer_shape(**{name: (2, 3) for name in expected})
    assert shapes == [(2, 3)] * len(expected)
    for wrong in ({}, {"num_args": 0}, {"num_args": -1}, {"num_args": "two"}, {"num_args": 10 ** 12}):
        with pytest.raises(MXNetError):
            mx.sym.Concat(**wrong)
    with pytest.raises(MXNetError, match="num_args"):
        mx.sym.Concat(mx.sym.var("a"), num_args="two")


@pytest.mark.parametrize("make, name, text", [
    (lambda a: a * 2, "scalar", "2"), (lambda a: 2 - a, "scalar", "2"), (lambda a: a > np.int64(1), "scalar", "1"),
    (lambda a: a / 2.5, "scalar", "2.5"), (lambda a: a ** np.float32(2), "scalar", "2.0"),
    (lambda a: mx.sym.transpose(a, axes=[1, 0]), "axes", "[1, 0]"),
    (lambda a: mx.sym.sum(a, axis=(0,)), "axis", "(0,)"),
    (lambda a: mx.sym.arange(2), "stop", "None"), (lambda a: mx.sym.var("q", shape=[2, 3]), "__shape__", "[2, 3]")])
def test_attributes_are_the_text_of_what_was_given(make, name, text):
    a = mx.sym.var("a")
    made = make(a)
    assert made.list_attr()[name] == text
    x = {n: mx.nd.ones((2, 3)) for n in made.list_arguments()}
    read = mx.sym.load_json(made.tojson())
    np.testing.assert_array_equal(made.eval(ctx=mx.cpu(), **x)[0].asnumpy(), read.eval(ctx=mx.cpu(), **x)[0].asnumpy())


def test_attributes_have_numbers_of_numpy_as_plain_numbers():
    two = np.int64(2)
    weight = mx.sym.var("w", shape=(two, 3), __sizes__=[np.float32(0.1), two], __flags__={"a": np.bool_(True)})
    assert weight.list_attr() == {"__shape__": "(2, 3)", "__sizes__": "[0.1, 2]", "__flags__": "{'a': True}"}
    assert mx.sym.load_json(weight.tojson()).infer_shape() == ([(2, 3)], [(2, 3)], [])
    param = mx.gluon.Parameter("w", shape=(two, np.int32(3)))
    assert "(shape=(2, 3)," in repr(param) and param.var().infer_shape()[1] == [(2, 3)]


@pytest.mark.parametrize("make", [
    lambda a: mx.sym.stop_gradient(a, "named"), lambda a: mx.sym.sum(a, 1, False, False, "named"),
    lambda a: mx.sym.FullyConnected(a, None, None, 3, True, False, "named"), lambda a: a.exp("named"),
    lambda a: mx.sym.linalg.syrk(a, False, 1.0, "named"), lambda a: mx.sym.broadcast_add(a, a, "named"),
    lambda a: mx.sym.Dropout(a, 0.5, "always", (0,), False, "named")])
def test_names_and_attributes_follow_the_parameters_by_position(make):
    assert make(mx.sym.var("a")).list_outputs() == ["named_output"]
    assert mx.sym.exp(mx.sym.var("a"), None, {"__mood__": "calm"}, None).attr("__mood__") == "calm"


def test_inplace_of_methods_means_nothing():
    a = mx.sym.var("a", shape=(1, 2))
    for made, shape in ((a.expand_dims(0, True), (1, 1, 2)), (a.flatten(True), (1, 2)), (a.squeeze(0, True), (2,)),
                        (a.squeeze(axis=0, inplace=True, name="s"), (2,))):
        assert made.name != "True" and made.infer_shape()[1] == [shape]


def test_positional_arguments_that_mean_nothing_are_refused():
    a = mx.sym.var("a")
    with pytest.raises(TypeError, match="exp takes at most 4 positional arguments"):
        mx.sym.exp(a, "name", None, None, 1)
    with pytest.raises(TypeError, match="multiple values for name"):
        mx.sym.exp(a, "one", name="two")
    with pytest.raises(TypeError, match="positional arguments must be Symbols, got str"):
        mx.sym.add_n(a, a, "name")


@pytest.mark.parametrize("np_shape", [False, True])
def test_shapes_that_python_2_wrote_are_read(np_shape):
    text = mx.sym.reshape(mx.sym.var("data", shape=(2, 6)), shape=(3, 4)).tojson()
    text = text.replace("(2, 6)", "(2L, 6L)").replace("(3, 4)", "(3L, 4L,)")
    with mx.util.np_shape(np_shape):
        loaded = mx.sym.load_json(text)
        assert loaded.infer_shape() == ([(2, 6)], [(3, 4)], [])
    assert loaded.get_internals()["data"].attr("__shape__") in ("(2L, 6L)", "(2, 6)")
    with pytest.raises(mx.MXNetError, match=r"parameter shape must be Shape\(tuple\)"):
        mx.sym.load_json(text.replace("(3L, 4L,)", "(3l, 4)"))


def test_files_say_how_often_a_state_has_been_changed():
    a, mean, var = mx.sym.var("a"), mx.sym.var("m"), mx.sym.var("v")
    one = mx.sym.BatchNorm(a, moving_mean=mean, moving_var=var, name="one")
    two = mx.sym.BatchNorm(one, moving_mean=mean, moving_var=var, name="two") + mean
    rows = {row["name"]: row["inputs"] for row in json.loads(two.tojson())["nodes"] if row["op"] != "null"}
    assert [version for _, _, version in rows["one"]] == [0, 0, 0, 1, 1]
    assert [version for _, _, version in rows["two"]] == [0, 0, 0, 2, 2]


@pytest.mark.parametrize("x", [mx.sym.var("x"), mx.nd.array([1, 2]), mx.np.array([1, 2])], ids=["sym", "nd", "np"])
def test_operators_by_the_names_of_python_2(x):
    def value(y):
        y = y.eval(ctx=mx.cpu(), x=mx.nd.array([1, 2]))[0] if isinstance(y, mx.sym.Symbol) else y
        return y.asnumpy().tolist()
    assert value(x.__div__(2)) == [0.5, 1] and value(x.__rdiv__(2)) == [2, 1]
    if not isinstance(x, mx.sym.Symbol):
        assert value(x.copy().__idiv__(2)) == [0.5, 1] and x[:1].__nonzero__() is True


def test_attributes_of_nodes_of_one_name_are_merged():
    x = mx.sym.var("c", shape=(2, 3))
    y = mx.sym.Activation(mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="c"), act_type="relu", name="c")
    assert y.attr_dict()["c"] == {"__shape__": "(2, 3)", "kernel": "(3, 3)", "num_filter": "2", "act_type": "relu"}
    assert y.list_attr() == {"act_type": "relu"}
    two = mx.sym.var("x", attr={"a": "1"}) + mx.sym.var("x", attr={"b": "2", "a": "3"})
    assert two.attr_dict() == {"x": {"a": "3", "b": "2"}}


@pytest.mark.parametrize("op, param, missing", [
    ("BatchNorm", {"eps": "0.1"}, {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}),
    ("LeakyReLU", {"act_type": "prelu"}, {"gamma": '["Constant", {"value": 0.25}]'}),
    ("IdentityAttachKLSparseReg", {}, {"moving_avg": '["zero", {}]'})])
def test_variables_that_old_files_leave_out_know_their_initializers(op, param, missing):
    rows = [{"op": "null", "param": {}, "name": "d", "inputs": [], "backward_source_id": -1},
            {"op": op, "param": param, "name": "n", "inputs": [[0, 0]], "backward_source_id": -1}]
    symbol = mx.sym.load_json(json.dumps({"nodes": rows, "arg_nodes": [0], "heads": [[1, 0]]}))
    attributes = symbol.attr_dict()
    assert {name: attributes[f"n_{name}"]["__init__"] for name in missing} == missing


def test_heads_that_are_hidden_outputs():
    """Files may name outputs that a node does not show: they load, compute, and are saved as they were."""
    x = mx.nd.array(np.arange(24).reshape(2, 3, 2, 2) % 7)
    data = mx.sym.var("x")
    nodes = {"mean": (mx.sym.BatchNorm(data, name="node"), 1), "var": (mx.sym.BatchNorm(data, name="node"), 2),
             "mask": (mx.sym.Dropout(data, p=0.5, name="node"), 1),
             "tmp_norm": (mx.sym.LRN(data, nsize=3, name="node"), 1),
             "std": (mx.sym.LayerNorm(data, axis=1, name="node"), 2)}
    found = {}
    for name, (symbol, output) in nodes.items():
        graph = json.loads(symbol.tojson())
        graph["heads"][0][1] = output
        loaded = mx.sym.load_json(json.dumps(graph))
        assert loaded.list_outputs() == [f"node_{name}"]
        assert json.loads(loaded.tojson())["heads"] == graph["heads"]
        assert json.loads(loaded.tojson())["nodes"] == graph["nodes"]
        bound = loaded.simple_bind(mx.cpu(), x=x.shape, grad_req="null")
        found[name] = bound.forward(is_train=True, x=x)[0].asnumpy()
    values = x.asnumpy()
    np.testing.assert_allclose(found["mean"], values.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(found["var"], 1 / np.sqrt(values.var((0, 2, 3)) + 1e-3), rtol=1e-5)
    assert set(np.unique(found["mask"])) <= {0, 2} and found["mask"].shape == x.shape
    squares = np.pad(values ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    np.testing.assert_allclose(found["tmp_norm"], 2 + 1e-4 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]),
                               rtol=1e-6)
    np.testing.assert_allclose(found["std"], np.sqrt(values.var(1, keepdims=True) + 1e-5), rtol=1e-5)
    graph["heads"][0][1] = 3
    with pytest.raises(MXNetError, match="node node has 3 outputs"):
        mx.sym.load_json(json.dumps(graph))


def test_a_failed_inference_prints_the_shapes(capsys):
    with pytest.raises(MXNetError):
        mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=3).infer_shape(b=(2, 3))
    assert capsys.readouterr().out == "infer_shape error. Arguments:\n  b: (2, 3)\n"


@pytest.mark.parametrize("of", [operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le])
def test_comparisons(of):
    """0 and 1, as arrays have them: with another symbol, with a number, and with a number before it."""
    x, y = mx.sym.var("x"), mx.sym.var("y")
    a, b = np.float32([1, 2, 3]), np.float32([3, 2, 1])
    found = mx.sym.Group([of(x, y), of(x, 2), of(2, x)]).eval(x=mx.nd.array(a), y=mx.nd.array(b))
    for one, expected in zip(found, (of(a, b), of(a, 2), of(2, a)), strict=True):
        assert one.dtype == np.float32 and one.asnumpy().tolist() == expected.tolist()


def test_a_group_has_the_attributes_of_its_first_symbol():
    x = mx.sym.var("x")
    group = mx.sym.Group([mx.sym.relu(x, name="r", attr={"__mood__": "good"}), x])
    assert group.attr("__mood__") is None and group.list_attr()["__mood__"] == "good"
    halves = mx.sym.split(x, num_outputs=2)
    assert halves.attr("num_outputs") == "2"


def test_debug_str_tells_the_versions_of_variables():
    out = mx.sym.BatchNorm(mx.sym.relu(mx.sym.var("x"), name="r"), name="bn")
    lines = out.debug_str().splitlines()
    assert [line for line in lines if "arg[" in line] == [
        "\targ[0]=x(0) version=0", "\targ[0]=r(0)", "\targ[1]=bn_gamma(0) version=0", "\targ[2]=bn_beta(0) version=0",
        "\targ[3]=bn_moving_mean(0) version=1", "\targ[4]=bn_moving_var(0) version=1"]
    assert mx.sym.var("x").debug_str() == "Variable:x\n"


def test_an_attribute_scope_hears_that_a_variable_has_no_attributes():
    class Heard(mx.AttrScope):
        def get(self, attr):
            heard.append(attr)
            return super().get(attr)

    heard = []
    with Heard(__group__="1"):
        x = mx.sym.var("x", lr_mult=2)
    assert heard == [None] and x.list_attr()["__group__"] == "1" and x.attr("__lr_mult__") == "2"


# names of outputs that MXNet 1.9.1 gives, by operator
OUTPUTS = [
    ("RNN", {"state_size": 2, "num_layers": 1, "mode": "lstm"}, "output"),
    ("RNN", {"state_size": 2, "num_layers": 1, "mode": "lstm", "state_outputs": True},
     "output state_output statecell_output"),
    ("RNN", {"state_size": 2, "num_layers": 1, "mode": "gru", "state_outputs": True}, "output state_output"),
    ("BatchNorm", {"output_mean_var": True}, "output mean var"), ("BatchNorm", {}, "output"),
    ("LayerNorm", {"output_mean_var": True}, "output mean std"),
    ("GroupNorm", {"output_mean_var": True}, "output mean std"),
    ("LeakyReLU", {"act_type": "rrelu"}, "output mask"), ("LeakyReLU", {}, "output"),
    ("SliceChannel", {"num_outputs": 1}, "output0"), ("split", {"num_outputs": 2}, "output0 output1"),
    ("sort", {}, "output0"), ("argsort", {}, "output"), ("topk", {"ret_typ": "both"}, "output0 output1"),
    ("make_loss", {}, "loss"), ("MakeLoss", {}, "output"), ("ctc_loss", {}, "output0"),
    ("linalg.det", {}, "output0"), ("linalg.slogdet", {}, "output0 output1"), ("moments", {}, "output0 output1"),
    ("contrib.MultiBoxTarget", {}, "loc_target loc_mask cls_target"), ("contrib.Proposal", {}, "output"),
    ("contrib.Proposal", {"output_score": True}, "output score"), ("contrib.hawkesll", {}, "output out_state"),
    ("contrib.quantize_v2", {}, "output0 output1 output2"), ("contrib.dequantize", {}, "output"),
    ("contrib.quantized_flatten", {}, "output min_output max_output"),
]


def test_outputs_have_the_names_of_mxnet():
    for name, options, expected in OUTPUTS:
        made = functools.reduce(getattr, name.split("."), mx.sym)(name="o", **options)
        assert made.list_outputs() == [f"o_{output}" for output in expected.split()], name


def test_attributes_are_listed_in_the_order_of_a_hash_table():
    """Recorded from MXNet 1.9.1."""
    data = mx.sym.var("data")
    convolution = mx.sym.Convolution(data, kernel=(3, 3), num_filter=3, pad=(1, 1), stride=(1, 1), no_bias=True,
                                     num_group=1, name="c", lr_mult=2)
    shown = ["num_filter", "pad", "num_group", "stride", "no_bias", "kernel", "__lr_mult__", "lr_mult"]
    assert [list(attrs) for attrs in convolution.attr_dict().values()] == [shown] * 2
    loaded = mx.sym.load_json(convolution.tojson())
    assert list(loaded.list_attr()) == ["pad", "stride", "num_group", "num_filter", "no_bias", "kernel", *shown[-2:]]
    many = ["__lr_mult__", "__mood__", "__init__", "__bc__", "__x3__", "__k%d__", "__force_mirroring__",
            "__wd_mult__", "__shape__", "__a__", "__storage_type__", "__x1__"]
    assert list(mx.sym.var("x", attr=dict.fromkeys(many, "1")).list_attr()) == [
        "__x1__", "__lr_mult__", "lr_mult", "__x3__", "__mood__", "__wd_mult__", "wd_mult", "__init__",
        "__storage_type__", "__k%d__", "__force_mirroring__", "force_mirroring", "__shape__", "__bc__", "__a__"]


def test_a_node_may_be_renamed_and_its_parameters_changed():
    """Which an attribute of that name does."""
    symbol = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc")
    symbol._set_attr(name="other", num_hidden="5", __note__="a")
    assert (symbol.name, symbol.attr("num_hidden"), symbol.attr("__note__")) == ("other", "5", "a")
    assert symbol.infer_shape(x=(2, 3))[1] == [(2, 5)]


def test_arrays_for_a_variable_may_be_left_out_where_none_is_needed():
    symbol = mx.sym.exp(mx.sym.var("x"))
    bound = symbol.bind(mx.cpu(), [mx.nd.zeros(2)], args_grad=[])
    assert bound.forward(is_train=True)[0].asnumpy().tolist() == [1, 1] and bound.grad_dict == {"x": None}


def test_inputs_by_name_fill_the_gaps():
    x, y, z = (mx.sym.var(name) for name in "xyz")
    assert mx.sym.concat(arg1=y, arg0=x).list_arguments() == ["x", "y"]
    assert mx.sym.concat(arg1=y, arg3=z, num_args=4, name="c").list_arguments() == ["c_arg0", "y", "c_arg2", "z"]
    with pytest.raises(TypeError, match="either by position or by name, not both"):
        mx.sym.concat(y, arg0=x)
    for names in ({"arg1": y, "arg3": z}, {"first": x, "second": y}):
        with pytest.raises(mx.MXNetError, match=f"has no input {list(names)[-1] if 'arg1' in names else 'first'}; it"):
            mx.sym.concat(**names)
    with pytest.raises(mx.MXNetError, match="num_args='a' is not a valid number"):
        mx.sym.concat(x, num_args="a")


def test_the_operator_of_a_symbol_on_new_variables():
    data, states = mx.sym.var("data"), [mx.sym.var("h"), mx.sym.var("c")]
    recurrent = mx.sym.RNN(data + 1, mx.sym.var("p"), *states, state_size=3, num_layers=1, mode="lstm",
                           state_outputs=True, name="rnn")
    made = recurrent._gen_atomic_symbol()
    assert made.list_outputs() == recurrent.list_outputs() and len(made) == 3
    assert made.list_arguments() == ["rnn_data", "rnn_parameters", "rnn_state", "rnn_state_cell"]
    assert made.list_attr()["state_size"] == "3"
    with pytest.raises(mx.MXNetError, match="data is a variable"):
        data._gen_atomic_symbol()
