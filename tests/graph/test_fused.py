"""Nodes that MXNet's oneDNN backend made of several, in its files: what they compute, quantized and in floats."""

import json
import pathlib

import numpy as np
import pytest

import mxjax as mx

FILES = pathlib.Path(__file__).parent.parent / "data" / "mxnet" / "fused"
NAMES = sorted(path.name.removesuffix("-symbol.json") for path in FILES.glob("*-symbol.json"))


def expected(name):
    with np.load(FILES / f"{name}_expected.npz") as found:
        return found["data"], found["out"]


def prefix(name):
    return str(FILES / name)


@pytest.mark.parametrize("name", NAMES)
def test_what_mxnet_computes(name, tmp_path):
    data, out = expected(name)
    sym, args, aux = mx.model.load_checkpoint(prefix(name), 0)
    again = mx.sym.load_json(sym.tojson())
    for symbol in (sym, again):
        executor = symbol.bind(mx.cpu(), {**args, "data": mx.nd.array(data)}, grad_req="null", aux_states=aux)
        np.testing.assert_allclose(executor.forward()[0].asnumpy(), out, rtol=1e-5, atol=1e-6)
    net = mx.gluon.SymbolBlock.imports(f"{prefix(name)}-symbol.json", ["data"], f"{prefix(name)}-0000.params")
    net.hybridize()
    np.testing.assert_allclose(net(mx.nd.array(data)).asnumpy(), out, rtol=1e-5, atol=1e-6)


def test_there_are_all_kinds():
    found = {node["op"] for name in NAMES for node in json.loads((FILES / f"{name}-symbol.json").read_text())["nodes"]}
    assert {f"_sg_mkldnn_{kind}" for kind in ("conv", "fully_connected", "selfatt_qk", "selfatt_valatt")} <= found


def test_shapes_types_and_names():
    sym = mx.sym.load(f"{prefix('residual_calibrated')}-symbol.json")
    args, (out,), aux = sym.infer_shape(data=(2, 3, 8, 8))
    found = dict(zip(sym.list_arguments(), args, strict=True))
    assert out == (2, 4) and found["conv1_weight"] == (8, 8, 3, 3) and found["fc0_weight_quantize"] == (10, 128)
    assert found["fc0_bias_quantize_max"] == (1,) and set(aux) == {(8,)}
    assert sym.list_auxiliary_states() == ["bn0_moving_mean", "bn0_moving_var", "bn1_moving_mean", "bn1_moving_var"]
    types = dict(zip(sym.list_arguments(), sym.infer_type(data="float32")[0], strict=True))
    assert types["fc0_weight_quantize"] is np.int8 and types["conv1_weight"] is np.float32
    inside = sym.get_internals()
    first = inside["quantized_sg_mkldnn_conv_bn_act_0_output"]
    assert first.infer_type(data="float32")[1] == [np.uint8]
    assert first.infer_shape(data=(2, 3, 8, 8))[1] == [(2, 8, 8, 8)]
    assert "quantized_sg_mkldnn_conv_bn_add_act_1_output_min" in inside.list_outputs()
    assert "quantized_sg_mkldnn_fully_connected_eltwise_0_max_output" in inside.list_outputs()


def fully_connected(weight, bias, **attrs):
    """A symbol and its arguments: FullyConnected of int8 data and weights as one node, with a float result."""
    inner = mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("b"), num_hidden=len(weight))
    names = ["data", "weight", "bias", *(f"{edge}_{n}" for n in ("data", "weight", "bias") for edge in ("min", "max"))]
    graph = {"nodes": [{"op": "null", "name": n, "inputs": []} for n in names], "arg_nodes": [*range(9)],
             "heads": [[9, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    graph["nodes"].append({"op": "_sg_mkldnn_fully_connected", "name": "fc", "inputs": [[i, 0, 0] for i in range(9)],
                           "attrs": {"quantized": "true", "enable_float_output": "true", **attrs},
                           "subgraphs": [json.loads(inner.tojson())]})
    args = {}
    for name, value in (("weight", weight), ("bias", bias)):
        edge = np.abs(value).max()
        args[name] = mx.nd.array(np.round(value * 127.5 / edge).clip(-127, 127), dtype="int8")
        args[f"min_{name}"], args[f"max_{name}"] = mx.nd.array([-edge]), mx.nd.array([edge])
    return graph, args


def test_a_bias_that_would_not_fit_widens_the_steps_of_the_weight():
    rng = np.random.RandomState(0)
    data, bias = rng.randint(-127, 128, (4, 6)), rng.uniform(-1, 1, 5)
    for size in (1.0, 1e-9):  # of weight and data: the bias is some 1e16 steps of their product
        weight = rng.uniform(-size, size, (5, 6))
        graph, args = fully_connected(weight, bias)
        args |= {"data": mx.nd.array(data, dtype="int8"), "min_data": mx.nd.array([-size]),
                 "max_data": mx.nd.array([size])}
        out = mx.sym.load_json(json.dumps(graph)).bind(mx.cpu(), args).forward()[0].asnumpy()
        np.testing.assert_allclose(out, data * (size / 127.5) @ weight.T + bias, atol=0.02)


@pytest.mark.parametrize("damage, message", [
    (lambda node: node.pop("subgraphs"), "operator _sg_mkldnn_fully_connected must have 1 subgraphs, got 0"),
    (lambda node: node.update(subgraphs=node["subgraphs"] * 2), "must have 1 subgraphs, got 2"),
    (lambda node: node.update(inputs=node["inputs"][:2]), "3 inputs and gets .* of 2"),
    (lambda node: node["subgraphs"][0].update(heads=[[3, 0, 0], [3, 0, 0]]), "requests 1 outputs, .* has 2"),
    (lambda node: node.update(op="_sg_mkldnn_conv"), "has 0 nodes of Convolution, expected 1"),
    (lambda node: node["attrs"].update(min_calib_range="low"), "min_calib_range"),
    (lambda node: node["subgraphs"][0]["nodes"][-1].update(op="_contrib_boolean_mask", attrs={},
                                                           inputs=[[0, 0], [1, 0]]),
     "an operator that runs on the host"),
])
def test_damaged_nodes(damage, message):
    graph, _ = fully_connected(np.ones((5, 6)), np.ones(5))
    damage(graph["nodes"][-1])
    with pytest.raises(mx.MXNetError, match=message):
        mx.sym.load_json(json.dumps(graph)).bind(mx.cpu(), {})
