"""Blocks that backward passes compute once more: the numbers of those that are kept, in less memory."""

import json

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn

from ..internals import graph_of, lowered, recomputes, stretches_of


class Cell(gluon.HybridBlock):
    """Residual, with a part that draws random numbers and one that has states."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.up, self.down = nn.Dense(64, activation="tanh"), nn.Dense(8)
            self.drop, self.norm = nn.Dropout(0.3), nn.BatchNorm()

    def hybrid_forward(self, F, x):
        return self.norm(x + self.drop(self.down(self.up(x))))


def made(remat, cells=3):
    mx.random.seed(3)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(*[Cell() for _ in range(cells)], nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize(remat=remat)
    return net


def data():
    return mx.nd.array(np.random.default_rng(0).normal(size=(16, 8))), mx.nd.array(np.arange(32).reshape(16, 2) / 32)


def values(net):
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def kept(out, **shapes):
    """Bytes that a backward pass is given, beside variables and outputs."""
    op = mx.nd.CachedOp(out)
    inferred = out.infer_shape(**shapes)
    sizes = dict(zip([*out.list_arguments(), *out.list_auxiliary_states()], [*inferred[0], *inferred[2]], strict=True))
    names = out.list_inputs()
    key = jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((), "uint32")
    forward = op.derivative([name in out.list_arguments() for name in names], True).residuals(False)
    pull = jax.eval_shape(forward, *[jax.ShapeDtypeStruct(sizes[name], "float32") for name in names], *key)[2]
    return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(pull))


@pytest.mark.parametrize("remat", [True, "dots_saveable"])
def test_recorded_numbers(remat):
    x, y = data()
    results = []
    for choice in (None, remat):
        net = made(choice)
        mx.random.seed(5)
        with autograd.record():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        grads = {n: p.grad().asnumpy() for n, p in net.collect_params().items() if p.grad_req != "null"}
        results.append((loss.asnumpy(), grads, values(net)))
    (one, grads, states), (other, others, also) = results
    np.testing.assert_allclose(one, other, rtol=1e-6)
    for name, grad in grads.items():
        np.testing.assert_allclose(grad, others[name], rtol=1e-4, atol=1e-6, err_msg=name)
    for name, state in states.items():  # the statistics are changed once, not twice
        np.testing.assert_allclose(state, also[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_steps_numbers():
    x, y = data()
    results = []
    for remat in (None, True):
        net = made(remat)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
        mx.random.seed(5)
        losses = [step(x, y).mean().asscalar() for _ in range(4)]
        results.append((losses, values(net)))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4)
    for name, value in results[0][1].items():
        np.testing.assert_allclose(value, results[1][1][name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_less_is_kept():
    outs = {}
    for remat in (None, True, "dots_saveable"):
        net = made(remat)
        net(data()[0])
        outs[remat] = kept(graph_of(net), data=(256, 8))
    assert outs[True] < 0.35 * outs[None]
    assert outs[True] < outs["dots_saveable"] < outs[None]


def stages(net, x):
    net(x)
    nodes = json.loads(graph_of(net).tojson())["nodes"]
    return {n["attrs"].get("__mirror_stage__") for n in nodes if n["op"] != "null" and "attrs" in n} - {None}


def marked(net):
    found = []
    net.apply(lambda block: found.append(block.name) if getattr(block, "_again", None) else None)
    return found


def test_which_blocks():
    x = data()[0]
    net = made(True)
    assert len(stages(net, x)) == 3 and marked(net) == ["net_cell0", "net_cell1", "net_cell2"]
    net = made(None)
    net[1].hybridize(remat=True)
    net.hybridize()  # keeps what was said of one
    assert len(stages(net, x)) == 1 and marked(net) == ["net_cell1"]
    net.hybridize(remat=False)
    assert not stages(net, x) and not marked(net)
    net = gluon.model_zoo.vision.resnet18_v1(classes=2)
    net.hybridize(remat=True)
    assert len(marked(net)) == 8 and all(recomputes(net.features[i][k]) for i in range(4, 8) for k in range(2))
    alone = nn.Dense(2)
    alone.hybridize(remat=True)
    assert recomputes(alone)
    outer = gluon.nn.Sequential()
    outer.add(made(None))
    with pytest.warns(UserWarning, match="HybridSequential"):
        outer.hybridize(remat=True)  # those within a block that is none of graphs
    assert len(marked(outer)) == 3


def test_each_call_is_a_stage():
    cell = Cell()

    class Twice(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def hybrid_forward(self, F, x):
            return self.cell(self.cell(x))
    net = Twice()
    net.initialize()
    cell.hybridize(remat=True)
    net.hybridize()
    assert len(stages(net, data()[0])) == 2


def test_what_others_need_stays_together():
    """What is made between two operators of a stage, and is no part of it, does not divide it."""
    class Masked(gluon.HybridBlock):
        def hybrid_forward(self, F, x, mask):
            return F.broadcast_mul(F.tanh(F.tanh(x)), mask)

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.one, self.two = Masked(), Masked()

        def hybrid_forward(self, F, x):
            mask = F.exp(F.mean(x, axis=0, keepdims=True))
            return self.two(self.one(x, mask), mask)
    net = Net()
    for block in (net.one, net.two):
        block.hybridize(remat=True)
    net.hybridize()
    x = data()[0]
    x.attach_grad()
    with autograd.record():
        out = net(x)
    out.backward()
    found = [s for s in stretches_of(lowered(graph_of(net))) if s.again]
    assert [len(s.steps) for s in found] == [3, 3]
    v = x.asnumpy()
    mask = np.exp(v.mean(0, keepdims=True))
    expected = np.tanh(np.tanh(np.tanh(np.tanh(v)) * mask)) * mask
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_symbols_as_in_mxnet():
    x = mx.sym.var("data")
    plain = mx.sym.exp(mx.sym.tanh(mx.sym.sin(x)))
    with mx.AttrScope(force_mirroring="True"):
        again = mx.sym.exp(mx.sym.tanh(mx.sym.sin(x)))
    assert kept(again, data=(100,)) < kept(plain, data=(100,))
    value = mx.nd.array([0.5, 1.0])
    grads = []
    for out in (plain, again):
        run = out.bind(mx.cpu(), {"data": value}, {"data": mx.nd.zeros(2)})
        run.forward(is_train=True)
        run.backward(mx.nd.ones(2))
        grads.append(run.grad_dict["data"].asnumpy())
    np.testing.assert_allclose(*grads, rtol=1e-6)


def test_mistakes():
    net = nn.HybridSequential()
    net.add(nn.Dense(2))
    for wrong in ("all", 3, ""):
        with pytest.raises(ValueError, match="remat must be"):
            net.hybridize(remat=wrong)
    with mx.AttrScope(force_mirroring="True", __mirror_policy__="all"):
        out = mx.sym.sin(mx.sym.tanh(mx.sym.var("data")))
    with pytest.raises(mx.MXNetError, match="__mirror_policy__ must be .*got 'all'"):
        run = out.bind(mx.cpu(), {"data": mx.nd.ones(2)}, {"data": mx.nd.zeros(2)})
        run.forward(is_train=True)
        run.backward(mx.nd.ones(2))
        run.grad_dict["data"].wait_to_read()
    loaded = gluon.SymbolBlock(mx.sym.tanh(mx.sym.var("data")), mx.sym.var("data"))
    with pytest.raises(ValueError, match="remat requires a block with children"):
        loaded.hybridize(remat=True)
