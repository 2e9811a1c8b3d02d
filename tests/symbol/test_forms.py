"""Graphs of one structure share what is compiled; names, values and mistakes stay their own."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon

from ..internals import lowered, shared_forms


def _net(prefix, hidden=3, **first):
    data = mx.sym.var(f"{prefix}_data", **first)
    out = mx.sym.FullyConnected(data, num_hidden=hidden, name=f"{prefix}_fc")
    return mx.sym.broadcast_add(mx.sym.tanh(out) * 2, mx.sym.var(f"{prefix}_shift"), name=f"{prefix}_sum")


def _programs(symbol):
    return lowered(symbol).forms()


def test_names_do_not_matter():
    first, second = _net("a"), _net("b")
    assert _programs(first) is _programs(second)
    for symbol, prefix in ((first, "a"), (second, "b")):
        x = np.random.RandomState(len(prefix)).rand(2, 4).astype("f")
        bound = symbol.simple_bind(mx.cpu(), **{f"{prefix}_data": (2, 4), f"{prefix}_shift": (2, 3)})
        bound.arg_dict[f"{prefix}_data"][:] = x
        bound.arg_dict[f"{prefix}_fc_weight"][:] = 0.5
        out = bound.forward(is_train=True)[0].asnumpy()
        np.testing.assert_allclose(out, np.tile(2 * np.tanh(0.5 * x.sum(1, keepdims=True)), 3), rtol=1e-5)
        bound.backward(mx.nd.ones((2, 3)))
        assert (bound.grad_dict[f"{prefix}_shift"].asnumpy() == 1).all()


@pytest.mark.parametrize("other", [
    _net("b", hidden=4), _net("b", shape=(2, 4)), mx.sym.Group([_net("b"), mx.sym.var("more")]),
    mx.sym.exp(_net("b")), mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3)],
    ids=["parameter", "shape of a variable", "outputs", "operator", "inputs"])
def test_what_differs_is_compiled_for_itself(other):
    assert _programs(_net("a")) is not _programs(other)


def test_values_of_parameters_matter():
    x = mx.sym.var("x")
    assert _programs(mx.sym.clip(x, 0, 1)) is not _programs(mx.sym.clip(x, 0, 2))
    assert _programs(mx.sym.reshape(x, (2, 3))) is not _programs(mx.sym.reshape(x, (3, 2)))


@pytest.mark.parametrize(("op", "params", "modes"), [
    ("Dropout", {"p": 0}, 1), ("Dropout", {"p": 0.5}, 2), ("Dropout", {"mode": "always"}, 1),
    ("LeakyReLU", {"act_type": "elu"}, 1), ("LeakyReLU", {"act_type": "rrelu"}, 2),
    ("BatchNorm", {"use_global_stats": True}, 1), ("BatchNorm", {}, 2)])
def test_modes_are_compiled_once_where_they_do_the_same(op, params, modes):
    symbol = getattr(mx.sym, op)(mx.sym.var("x") + 1, **params)
    bound = symbol.simple_bind(mx.cpu(), grad_req="null", x=(2, 3))
    for train in (False, True):
        assert bound.forward(is_train=train)[0].asnumpy().shape == (2, 3)
    assert [key[0] for key in _programs(symbol).programs].count("kernel") == modes


def test_mistakes_name_the_graph_in_use():
    for prefix in ("a", "b"):
        call = mx.nd.CachedOp(_net(prefix))
        with pytest.raises(mx.MXNetError, match=f"{prefix}_sum"):
            call(mx.nd.ones((2, 4)), mx.nd.ones((3, 4)), mx.nd.ones(3), mx.nd.ones((5, 3)))


def test_models_made_again_are_compiled_once():
    forms, programs = [], []
    for scale in (1, 2):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4), gluon.nn.BatchNorm())
        net.initialize(mx.init.Constant(0.1 * scale))
        net.hybridize()
        x = mx.nd.array(np.random.RandomState(0).rand(3, 5))
        with autograd.record():
            out = net(x)
        out.backward()
        # the running mean moves by a tenth to the batch's
        np.testing.assert_allclose(net[1].running_mean.data().asnumpy(),
                                   0.1 * scale * 0.1 * x.asnumpy().sum(1).mean(), rtol=1e-4)
        assert (net[1].beta.grad().asnumpy() == 3).all()
        forms.append(shared_forms(net))
        programs.append(len(forms[-1].programs))
    assert forms[0] is forms[1] and programs[0] == programs[1] > 0
