"""foreach, while_loop and cond: results, gradients and files against the same loops written out."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
DATA, STATE, WEIGHT = RNG.normal(size=(3, 2)), RNG.normal(size=2), RNG.normal(size=2)


def bound(outputs, train=True, **values):
    """(outputs, gradients by name) of a symbol for head gradients of ones."""
    symbol = mx.sym.Group(outputs)
    arrays = {k: mx.nd.array(v) for k, v in values.items()}
    grads = {k: mx.nd.zeros(v.shape) for k, v in arrays.items()}
    executor = symbol.bind(mx.cpu(), arrays, grads)
    executor.forward(is_train=train)
    executor.backward([mx.nd.ones(o.shape) for o in executor.outputs])
    return [o.asnumpy() for o in executor.outputs], {k: g.asnumpy() for k, g in grads.items()}


def recorded(function, *values):
    """The same of a function of NDArrays."""
    arrays = [mx.nd.array(v) for v in values]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        outputs = function(*arrays)
        total = mx.nd.add_n(*[o.sum() for o in outputs])
    total.backward()
    return [o.asnumpy() for o in outputs], [a.grad.asnumpy() for a in arrays]


def loop(F, data, state, weight):
    def inner(x, s):
        return x * weight, s + x

    def body(x, states):
        outs, total = F.contrib.foreach(inner, F.stack(x, x + 1), states[0])
        return [F.tanh(outs).sum(axis=0), total], [states[0] * 0.5 + x * weight]
    outs, states = F.contrib.foreach(body, data, [state])
    return [*outs, *states]


def search(F, x, limit, weight):
    outs, (x, n) = F.contrib.while_loop(lambda x, n: F.sum(n) < F.sum(limit), lambda x, n: (x * weight, [x * 2, n + 1]),
                                        [x, limit * 0], max_iterations=5)
    return [outs, x]


def choose(F, a, b, c):
    return [F.contrib.cond(F.sum(a) > F.sum(c), lambda: a * F.contrib.cond(F.sum(b) > 0, lambda: b, lambda: c * c),
                           lambda: b - c)]


def vectors(F, x, s):
    outs, state = F.contrib.foreach(lambda x, s: (x + s, s * 2), x, s)
    return [outs, state]


CASES = {"vectors": (vectors, [STATE, np.full(1, 3.0)]),
         "nested foreach": (loop, [DATA, STATE, WEIGHT]), "while_loop": (search, [STATE, np.full(1, 3.0), WEIGHT]),
         "no iteration": (lambda *a: search(*a)[1:], [STATE, np.full(1, 0.0), WEIGHT]),
         "cond, first": (choose, [[5.0], [2.0], [1.0]]), "cond, inner": (choose, [[5.0], [-2.0], [1.0]]),
         "cond, second": (choose, [[0.0], [2.0], [1.0]])}


@pytest.mark.parametrize("name", CASES)
def test_graphs_do_what_imperative_loops_do(name):
    function, values = CASES[name]
    names = [f"in{i}" for i in range(len(values))]
    outputs = function(mx.sym, *map(mx.sym.var, names))
    reloaded = list(mx.sym.load_json(mx.sym.Group(outputs).tojson()))
    wanted, wanted_grads = recorded(lambda *a: function(mx.nd, *a), *values)
    found, grads = bound(reloaded, **dict(zip(names, values, strict=True)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for n, b in zip(names, wanted_grads, strict=True):
        np.testing.assert_allclose(grads[n], b, rtol=1e-5, atol=1e-6)


def test_a_graph_is_what_mxnet_writes():
    free = mx.sym.var("w") * 2
    outs, states = mx.sym.contrib.foreach(
        lambda x, s: (mx.sym.FullyConnected(x + s * free, num_hidden=3, name="fc"), s + 1), mx.sym.var("data"),
        mx.sym.var("state"))
    group = mx.sym.Group([outs, states])
    assert group.list_arguments() == ["data", "state", "w", "fc_weight", "fc_bias"]
    node = next(n for n in json.loads(group.tojson())["nodes"] if n["op"] == "_foreach")
    assert node["attrs"] == {"in_data_locs": "[0]", "in_state_locs": "[1]", "num_args": "6", "num_out_data": "1",
                             "num_outputs": "2", "remain_locs": "[2, 3, 4]"}
    (graph,) = node["subgraphs"]
    assert [n["name"] for n in graph["nodes"] if n["op"] == "null"][:3] == ["data-0", "state-0", free.list_outputs()[0]]
    assert "attrs" not in graph
    args, out, _ = group.infer_shape(data=(4, 2, 5))
    assert args == [(4, 2, 5), (2, 5), (2, 5), (3, 5), (3,)] and out == [(4, 2, 3), (2, 5)]
    assert group.infer_type(data="float16")[1] == [np.float16] * 2


class _Squared(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("control_flow_square")
class _SquaredProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return _Squared()


@pytest.mark.parametrize("name", CASES)
def test_host_code_inside(name):
    function, values = CASES[name]
    names = [f"in{i}" for i in range(len(values))]

    def with_host(F, *args):
        def same(x):
            return F.Custom(F.sqrt(F.abs(x)), op_type="control_flow_square") * F.sign(x)
        functions = {"contrib": F.contrib, "stack": F.stack, "sum": lambda x: F.sum(same(x)),
                     "tanh": lambda x: F.tanh(same(x))}
        return function(SimpleNamespace(**functions), *args)
    found, grads = bound(with_host(mx.sym, *map(mx.sym.var, names)), **dict(zip(names, values, strict=True)))
    wanted, wanted_grads = recorded(lambda *a: function(mx.nd, *a), *values)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for n, b in zip(names, wanted_grads, strict=True):
        np.testing.assert_allclose(grads[n], b, rtol=1e-5, atol=1e-6)


class _Scan(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cell, self.norm = gluon.rnn.GRUCell(3), gluon.nn.BatchNorm(axis=-1)

    def hybrid_forward(self, F, x, state):
        def body(x, states):
            out, states = self.cell(x, states)
            return self.norm(out), states
        return F.contrib.foreach(body, x, [state])[0]


def test_hybridized_blocks():
    block = _Scan()
    block.initialize()
    x, state = mx.nd.array(RNG.normal(size=(4, 2, 3))), mx.nd.zeros((2, 3))
    results = []
    for hybrid in (False, True):
        block.norm.running_mean.set_data(mx.nd.zeros(3)) if hybrid else None
        block.hybridize(hybrid)
        with autograd.record():
            out = block(x, state)
        out.backward(mx.nd.array(np.arange(24.0).reshape(4, 2, 3)))
        results.append([out, block.norm.running_mean.data().copy(), block.cell.i2h_weight.grad().copy()])
    (out, imperative, slope), (out_of_graph, in_graph, slope_of_graph) = results
    np.testing.assert_allclose(out.asnumpy(), out_of_graph.asnumpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slope.asnumpy(), slope_of_graph.asnumpy(), rtol=1e-4, atol=1e-5)
    means, states = [], [state]
    for t in range(4):
        cell, states = block.cell(x[t], states)
        means.append(cell.asnumpy().mean(0))
    # recorded calls change the average in the backward pass, which comes to the last iteration first
    for found, order in ((imperative, means[::-1]), (in_graph, means)):
        expected = np.zeros(3)
        for mean in order:
            expected = 0.9 * expected + 0.1 * mean
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_random_numbers_differ_from_step_to_step():
    outs, _ = mx.sym.contrib.foreach(lambda x, s: (mx.sym.Dropout(x, p=0.5), s + x), mx.sym.var("x"), mx.sym.var("s"))
    drawn = bound([outs], x=np.ones((8, 20)), s=np.zeros(20))[0][0]
    assert len({tuple(row) for row in drawn}) > 1 and set(drawn.ravel()) == {0, 2}


def test_errors():
    x, s = mx.sym.var("x"), mx.sym.var("s")
    with pytest.raises(AssertionError, match="have to be used"):
        mx.sym.contrib.foreach(lambda x, s: (x, x), x, s)
    with pytest.raises(AssertionError, match="different format"):
        mx.sym.contrib.foreach(lambda x, s: (x, [s]), x, s)
    with pytest.raises(AssertionError, match="list of Symbol"):
        mx.sym.contrib.foreach(lambda x, s: (x, s), 3, s)
    with pytest.raises(ValueError, match="max_iterations"):
        mx.sym.contrib.while_loop(lambda x: x, lambda x: ([], x), x)
    with pytest.raises(ValueError, match="doesn't involve"):
        mx.sym.contrib.while_loop(lambda x, s: x, lambda x, s: ([], [x + 1, x]), [x, s], max_iterations=2)
    with pytest.raises(ValueError, match="differs between"):
        mx.sym.contrib.cond(x, lambda: x, lambda: [x, s])
    with pytest.raises(ValueError, match="consistent"):
        mx.nd.contrib.while_loop(lambda x: x, lambda x: ([], []), [mx.nd.ones(1)], max_iterations=2)
    grown = mx.sym.contrib.foreach(lambda x, s: (x, mx.sym.concat(s, s, dim=0)), x, s)[1]
    with pytest.raises(MXNetError, match="foreach"):
        grown.eval(x=mx.nd.ones((2, 2)), s=mx.nd.ones(2))


@pytest.mark.parametrize("func", [lambda d: d, lambda d: [d], lambda d: [d, d]])
def test_branches_that_give_what_they_were_given(func):
    """XLA's program of such a `cond` has no results of its own."""
    class Layer(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, data):
            return F.contrib.cond(data.slice_axis(axis=0, begin=0, end=1), lambda: func(data), lambda: func(data))
    data = mx.nd.array([0.5, -1.0])
    for hybrid in (False, True):
        layer = Layer()
        layer.initialize()
        layer.hybridize(hybrid)
        for _ in range(3):
            out = layer(data)
            assert type(out) is type(func(data))
            for one in out if isinstance(out, list) else [out]:
                assert one.asnumpy().tolist() == [0.5, -1.0]


class _Function(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self._function = function

    def hybrid_forward(self, F, x):
        return self._function(F, x)


def _twice(F, x):
    return F.concat(x, x, dim=0)


UNEVEN = {  # for [1, 2] and [-1, -2]: results and gradients of their sums, as in MXNet
    "length": (lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x, lambda: _twice(F, x)),
               ([1, 2], [1, 1]), ([-1, -2, -1, -2], [2, 2])),
    "rank": (lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x * 3, lambda: x.expand_dims(0)),
             ([3, 6], [3, 3]), ([[-1, -2]], [1, 1])),
    "further": (lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x, lambda: _twice(F, x)).sum() + 1,
                ([4], [1, 1]), ([-5], [2, 2])),
    "several": (lambda F, x: F.contrib.cond(x.sum() > 0, lambda: [x, x.sum()], lambda: [_twice(F, x), x.sum()])[0],
                ([1, 2], [1, 1]), ([-1, -2, -1, -2], [2, 2])),
    "nested": (lambda F, x: F.contrib.cond(
        x.sum() > -9, lambda: F.contrib.cond(x.sum() > 0, lambda: x, lambda: _twice(F, x)), lambda: x.expand_dims(0)),
        ([1, 2], [1, 1]), ([-1, -2, -1, -2], [2, 2])),
    "in a loop": (lambda F, x: F.contrib.while_loop(
        lambda i, v: i < 3,
        lambda i, v: ([], [i + 1, F.contrib.cond(v.sum() > 0, lambda: v, lambda: _twice(F, v)).sum()]),
        [F.zeros((1,)), x.sum()], max_iterations=4)[1][1], ([3], [1, 1]), ([-24], [8, 8])),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_branches_of_unequal_shapes(name):
    function, positive, negative = UNEVEN[name]
    for hybrid in (False, True):
        block = _Function(function)
        block.hybridize(hybrid)
        for value, (result, gradient) in (([1, 2], positive), ([-1, -2], negative), ([1, 2], positive)):
            assert block(mx.nd.array(value)).asnumpy().tolist() == result
            (out,), (grad,) = recorded(lambda x, block=block: [block(x)], value)
            assert out.tolist() == result and grad.tolist() == gradient


def test_branches_of_unequal_shapes_in_executors():
    a = mx.sym.var("a")
    out = mx.sym.contrib.cond(a.sum() > 0, lambda: a, lambda: mx.sym.concat(a, a, dim=0))
    out = mx.sym.load_json(out.tojson())
    assert out.infer_shape_partial(a=(2,))[1] == [()]
    for value, result in (([1, 2], [1, 2]), ([-1, -2], [-1, -2, -1, -2])):
        outputs, grads = bound([out], a=value)
        assert outputs[0].tolist() == result and grads["a"].tolist() == [len(result) / 2] * 2
    array = mx.nd.array([1, 2])
    executor = out.bind(mx.cpu(), {"a": array})
    for sign in (1, -1, 1):
        array[:] = sign
        assert executor.forward()[0].shape == ((2,) if sign > 0 else (4,))
    with pytest.raises(MXNetError, match="branches return float32.2,. and float32.4,."):
        out.to_jax()({"a": np.ones(2, "float32")}, {})


def test_branches_of_unequal_dtypes_are_refused_in_graphs():
    block = _Function(lambda F, x: F.contrib.cond(x.sum() > 0, lambda: x, lambda: x.astype("float16")))
    assert block(mx.nd.array([-1])).dtype == np.float16
    block.hybridize()
    with pytest.raises(MXNetError, match="float32.* and float16"):
        block(mx.nd.array([-1]))


def test_a_loop_that_takes_no_array_in_training():
    block = _Function(lambda F, x: F.contrib.while_loop(lambda i: i < 3, lambda i: (i, [i + 1]), [F.zeros((1,))],
                                                        max_iterations=3)[0])
    block.hybridize()
    with autograd.record():
        assert block(mx.nd.ones(1)).asnumpy().tolist() == [[0], [1], [2]]
