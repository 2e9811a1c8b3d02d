"""Graph backends: partitioning, what stands for a part, parameters that a backend makes, and Gluon's way to them."""

import logging

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon, library
from mxjax.graph import backends

from ..internals import outputs_of

RNG = np.random.RandomState(0)


@pytest.fixture
def backend():
    """Registers backends under names that are free again after the test."""
    names = []

    def register(name, **methods):
        names.append(name)
        kind = type(name, (library.Backend,), methods)
        return library.register_backend(name)(kind)
    yield register
    for name in names:
        del backends.BACKENDS[name]


def selected(*ops):
    return lambda self, node: node.op.name in ops


def operators(sym):
    nodes = {id(n): n for n, _ in outputs_of(sym.get_internals())}
    return [n.op.name for n in nodes.values() if n.op is not None]


def graphs():
    data = mx.sym.var("data", shape=(2, 3, 4, 4))
    exp = mx.sym.exp(data)
    both = mx.sym.cos(exp) + mx.sym.sin(exp)
    yield both, ("exp", "sin", "elemwise_add")  # cos would be outside of a part, and inside of it again
    yield mx.sym.BatchNorm(mx.sym.BatchNorm(both)), ("exp", "BatchNorm")
    yield mx.sym.Group([exp, exp, exp]), ("exp",)
    yield data + data, ("elemwise_add",)
    total = mx.sym.sin(data) + mx.sym.sin(data)
    yield mx.sym.cos(total) - mx.sym.cos(total), ("sin", "elemwise_add")
    weight = mx.sym.sin(mx.sym.var("w", shape=(1, 0, 2, 2)))
    yield mx.sym.Convolution(data, weight, kernel=(2, 2), num_filter=1), ("sin", "Convolution")
    long = mx.sym.cos(mx.sym.cos(mx.sym.sin(data)))
    yield mx.sym.sin(data) + long, ("sin", "elemwise_add")


@pytest.mark.parametrize("case", range(7))
def test_parts_as_nodes(backend, case):
    """MXNet's cases: the same names and values, parts without cycles."""
    sym, ops = list(graphs())[case]
    backend("parts", select=selected(*ops))
    part = sym.optimize_for("parts")
    assert part.list_inputs() == sym.list_inputs()
    assert part.list_auxiliary_states() == sym.list_auxiliary_states()
    assert "_CachedOp" in operators(part) and not set(ops) & set(operators(part))
    shapes = sym.infer_shape()
    args = [mx.nd.array(RNG.uniform(size=s)) for s in shapes[0]]
    aux = [mx.nd.array(RNG.uniform(size=s)) for s in shapes[2]]
    for one, other in zip(sym.bind(mx.cpu(), args, aux_states=aux).forward(),
                          part.bind(mx.cpu(), args, aux_states=aux).forward(), strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5)
    assert mx.sym.load_json(part.tojson()).infer_shape()[1] == shapes[1]


def test_connected_parts_are_one(backend):
    data = mx.sym.var("data")
    seen = []
    backend("seen", select=selected("exp", "sin"),
            subgraph=lambda self, symbol, args, aux, **options: seen.append((operators(symbol), options)))
    out = mx.sym.exp(mx.sym.cos(mx.sym.sin(mx.sym.exp(data))))
    assert operators(out.optimize_for("seen", level=3)) == operators(out)  # None leaves a part alone
    assert seen == [(["exp", "sin"], {"level": 3}), (["exp"], {"level": 3})]


def test_own_symbol_and_parameters(backend):
    def subgraph(self, symbol, args, aux, factor=2.0):
        args["scale"] = mx.nd.array([factor])
        return mx.sym.broadcast_mul(symbol, mx.sym.var("scale"))
    backend("scaled", select=selected("FullyConnected"), subgraph=subgraph)
    out = mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="fc"))
    x = mx.nd.array(RNG.randn(3, 4))
    args = {"data": x, "fc_weight": mx.nd.array(RNG.randn(2, 4))}
    new = out.optimize_for("scaled", args, {}, factor=5.0)
    assert set(args) == set(new.list_arguments()) == {"data", "fc_weight", "scale"}
    want = np.maximum(5 * x.asnumpy() @ args["fc_weight"].asnumpy().T, 0)
    np.testing.assert_allclose(new.eval(**args)[0].asnumpy(), want, rtol=1e-5)
    with pytest.raises(RuntimeError, match="args is None"):
        out.optimize_for("scaled")
    backend("wrong", select=selected("relu"), subgraph=lambda self, symbol, args, aux: mx.sym.Group([symbol, symbol]))
    with pytest.raises(mx.MXNetError, match="2 outputs instead of 1"):
        out.optimize_for("wrong")


def test_whole_graph(backend):
    def transform(self, symbol, args, aux, **options):
        args["bias"] = args.pop("weight") + 1
        return mx.sym.var("data") + mx.sym.var("bias")
    backend("whole", transform=transform)
    args = {"data": mx.nd.ones((2,)), "weight": mx.nd.ones((2,))}
    out = (mx.sym.var("data") * mx.sym.var("weight")).optimize_for("whole", args)
    assert set(args) == {"data", "bias"}
    np.testing.assert_array_equal(out.eval(**args)[0].asnumpy(), [3, 3])


def test_gluon(backend):
    def subgraph(self, symbol, args, aux, by=1.0):
        args["by"] = mx.nd.array([by])
        return mx.sym.broadcast_add(symbol, mx.sym.var("by"))
    backend("shifted", select=selected("FullyConnected"), subgraph=subgraph)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3, in_units=2), gluon.nn.Activation("tanh"))
    net.initialize()
    x = mx.nd.ones((1, 2))
    dense = net[0](x).asnumpy()
    net.optimize_for(x, backend="shifted", by=2.0)
    np.testing.assert_allclose(net(x).asnumpy(), np.tanh(dense + 2), rtol=1e-5)
    net.hybridize(backend="shifted", by=-1.0)
    np.testing.assert_allclose(net(x).asnumpy(), np.tanh(dense - 1), rtol=1e-5)
    net.hybridize(backend="default")
    np.testing.assert_allclose(net(x).asnumpy(), np.tanh(dense), rtol=1e-5)


def test_names(caplog):
    sym = mx.sym.exp(mx.sym.var("a"))
    with caplog.at_level(logging.ERROR):
        assert operators(sym.optimize_for("nothing")) == ["exp"]
    assert "backend 'nothing' cannot be found" in caplog.text
    with pytest.raises(mx.MXNetError, match="SubgraphProperty nothing is not found in SubgraphBackendRegistry"):
        sym.get_backend_symbol("nothing")
    assert operators(sym.get_backend_symbol("default")) == ["exp"]
    with pytest.raises(TypeError, match="str"):
        sym.optimize_for(3)
    with pytest.raises(TypeError, match="derived from"):
        library.register_backend("x")(int)
