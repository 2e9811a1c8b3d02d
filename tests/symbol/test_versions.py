"""Files of symbols say which state of a variable an operator reads; the numbers here are MXNet 1.9.1's."""

import copy
import json
import pickle

import pytest

import mxjax as mx


def _versions(text):
    return [tuple(r) for row in json.loads(text)["nodes"] for r in row["inputs"] if r[2]]


def _chain():
    mean = mx.sym.Variable("mm")
    first = mx.sym.BatchNorm(mx.sym.Variable("a"), moving_mean=mean, name="b1")
    return first, mx.sym.BatchNorm(first, moving_mean=mean, name="b2") + mean


SHARED = [(3, 0, 1), (4, 0, 1), (3, 0, 2), (8, 0, 1), (3, 0, 2)]


def test_operators_that_change_a_variable_make_versions():
    first, both = _chain()
    assert _versions(both.tojson()) == SHARED
    assert _versions(first.tojson()) == [(3, 0, 1), (4, 0, 1)]


def test_copies_and_files_keep_versions():
    both = _chain()[1]
    for made in (copy.deepcopy(both), pickle.loads(pickle.dumps(both)), mx.sym.load_json(both.tojson())):
        assert _versions(made.tojson()) == SHARED


def test_what_is_applied_to_a_loaded_symbol_starts_anew():
    inner = mx.sym.load_json(_chain()[1].tojson()).get_internals()
    more = mx.sym.BatchNorm(inner["b1_output"], moving_mean=inner["mm"], name="b3")
    assert _versions(more.tojson()) == [(3, 0, 1), (4, 0, 1), (3, 0, 1), (8, 0, 1)]


def test_replaced_variables_are_read_anew():
    assert _versions(_chain()[1](a=mx.sym.Variable("z")).tojson()) == [
        (3, 0, 3), (4, 0, 2), (3, 0, 2), (8, 0, 1), (3, 0, 2)]
    assert _versions(_chain()[1](mm=mx.sym.Variable("q")).tojson()) == [
        (3, 0, 1), (4, 0, 2), (3, 0, 2), (8, 0, 2), (3, 0, 2)]


def test_a_file_of_zeros_stays_one():
    data = json.loads(_chain()[0].tojson())
    for row in data["nodes"]:
        row["inputs"] = [[n, i, 0] for n, i, _ in row["inputs"]]
    assert _versions(mx.sym.load_json(json.dumps(data)).tojson()) == []


@pytest.mark.parametrize("wrong", [-1, "1", None, True, 1.5])
def test_a_damaged_version_is_refused(wrong):
    data = json.loads(_chain()[0].tojson())
    data["nodes"][-1]["inputs"][-1][2] = wrong
    with pytest.raises(mx.MXNetError, match="version must be a number"):
        mx.sym.load_json(json.dumps(data))


def _exported(path, prepare):
    net = mx.gluon.nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(2, 1), mx.gluon.nn.BatchNorm(), mx.gluon.nn.BatchNorm(in_channels=2))
    net.initialize()
    prepare(net, mx.nd.ones((1, 2, 3, 3)))
    net.export(str(path / "net"))
    return _versions((path / "net-symbol.json").read_text())


def test_exports_count_how_often_a_block_was_traced(tmp_path):
    def first_eager(net, x):
        net(x)
        net.hybridize()
        net(x)

    def hybrid(net, x):
        net.hybridize()
        net(x)

    assert _exported(tmp_path, first_eager) == [(6, 0, 2), (7, 0, 2), (11, 0, 1), (12, 0, 1)]  # its shape was unknown
    assert _exported(tmp_path, hybrid) == [(6, 0, 1), (7, 0, 1), (11, 0, 1), (12, 0, 1)]


def _old(version):
    rows = [{"op": "null", "param": {}, "name": "x", "inputs": [], "backward_source_id": -1},
            {"op": "null", "param": {}, "name": "slopes", "inputs": [], "backward_source_id": -1},
            {"op": "LeakyReLU", "param": {"act_type": "prelu"}, "name": "r", "inputs": [[0, 0], [1, 0]],
             "backward_source_id": -1}]
    attrs = {} if version is None else {"attrs": {"mxnet_version": ["int", version]}}
    return json.dumps({"nodes": rows, "arg_nodes": [0, 1], "heads": [[2, 0]], **attrs})


@pytest.mark.parametrize("version, there", [(None, True), (903, True), (904, False), (10901, False)])
def test_files_from_before_initializers_were_attributes_get_them(version, there):
    attrs = mx.sym.load_json(_old(version)).attr_dict().get("slopes", {})
    assert attrs == ({"__init__": '["Constant", {"value": 0.25}]'} if there else {})


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("version, axis, kept", [
    (904, "-1", False), (905, "-1", True), (904, "0", True), (10901, "-1", True)])
def test_an_axis_of_minus_1_was_the_default_once(name, version, axis, kept):
    rows = [{"op": "null", "name": "x", "inputs": []},
            {"op": name, "name": "found", "attr": {"axis": axis}, "inputs": [[0, 0, 0]]}]
    graph = {"nodes": rows, "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", version]}}
    attrs = mx.sym.load_json(json.dumps(graph)).attr_dict().get("found", {})
    assert attrs == ({"axis": axis} if kept else {})
