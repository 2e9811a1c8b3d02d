"""CachedOp: one program, one node on the tape."""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError


def _net():
    data, w = mx.sym.var("data"), mx.sym.var("w")
    bn = mx.sym.BatchNorm(mx.sym.FullyConnected(data, w, num_hidden=2, no_bias=True), fix_gamma=False, name="bn")
    return mx.nd.CachedOp(mx.sym.Group([bn, mx.sym.sum(bn * bn)]))


def _arrays():
    rng = np.random.RandomState(0)
    shapes = [(4, 3), (2, 3), (2,), (2,), (2,), (2,)]
    values = [rng.rand(*shapes[0]), rng.rand(*shapes[1]), np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)]
    return [mx.nd.array(v) for v in values]


def _imperative(data, w, gamma, beta, mean, var):
    out = mx.nd.BatchNorm(mx.nd.FullyConnected(data, w, num_hidden=2, no_bias=True), gamma, beta, mean, var,
                          fix_gamma=False)
    return out, (out * out).sum()


@pytest.mark.parametrize("look", [False, True])
def test_gradients_and_states(look):
    results = []
    for function in (_net(), _imperative):
        arrays = _arrays()
        arrays[1].attach_grad()
        with mx.autograd.record():
            out, total = function(*arrays)
            if look:
                out.asnumpy()
        mx.autograd.backward([total, out], [None, mx.nd.array(np.arange(8).reshape(4, 2))])
        results.append([out, total, arrays[1].grad, arrays[4], arrays[5]])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-4, atol=1e-5)


def test_forward_and_backward_are_one_program(compiles):
    op, arrays = _net(), _arrays()
    arrays[1].attach_grad()
    for _ in range(2):
        with mx.autograd.record():
            total = op(*arrays)[1]
        total.backward()
        total.asnumpy()
    first = len(compiles)
    with mx.autograd.record():
        total = op(*arrays)[1]
    total.backward()
    assert len(compiles) == first <= 2  # the ones of the head gradient, and the program


def test_graphs_and_calls_between_them_go_back_together(compiles):
    op, arrays = _net(), _arrays()
    loss = mx.nd.CachedOp(mx.sym.mean(mx.sym.var("x") * mx.sym.var("y"), axis=1))
    arrays[1].attach_grad("add")
    found = []
    for between in (lambda x: x, lambda x: x * 2):
        arrays[1].grad[:] = 0
        programs = []
        for _ in range(5):
            with mx.autograd.record():
                out = between(op(*arrays)[0])
                each = loss(out, out)
            each.backward()
            each.asnumpy()
            programs.append(len(compiles))
        assert programs[2] == programs[4]
        found.append(arrays[1].grad.asnumpy() / 5)
        assert each.shape == (4,) and out.shape == (4, 2)
    np.testing.assert_allclose(found[0] * 4, found[1], rtol=1e-4, atol=1e-6)
    arrays[1].grad[:] = 0
    with mx.autograd.record():
        out = _imperative(*arrays)[0]
        each = (out * out).mean(axis=1)
    each.backward()
    np.testing.assert_allclose(found[0], arrays[1].grad.asnumpy(), rtol=1e-3, atol=1e-6)


def test_results_of_a_net_used_twice():
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    square, loss = mx.nd.CachedOp(mx.sym.var("x") ** 2), mx.nd.CachedOp(mx.sym.var("x") * 3)
    with mx.autograd.record():
        y = square(x)
        one, two = loss(y), loss(y)
    mx.autograd.backward([one, two, y])
    assert x.grad.asnumpy().tolist() == [14, 28] and y.asnumpy().tolist() == [1, 4]
    with mx.autograd.record():
        y = square(x)
        one, two = loss(y), loss(y)
    one.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [6, 12]
    two.backward()
    assert x.grad.asnumpy().tolist() == [6, 12] and two.asnumpy().tolist() == [3, 12]


def test_prediction_leaves_states_alone():
    op, arrays = _net(), _arrays()
    op(*arrays)
    assert arrays[4].asnumpy().tolist() == [0, 0]
    for array in arrays[:2]:
        array.attach_grad()
    with mx.autograd.record():
        outputs = op(*arrays)
    assert arrays[4].asnumpy().tolist() == [0, 0]  # they change in the backward pass, on CPUs
    mx.autograd.backward(outputs)
    assert (arrays[4].asnumpy() != 0).all()


def test_second_derivative_and_retained_graph():
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    cube = mx.nd.CachedOp(mx.sym.var("x") ** 3)
    with mx.autograd.record():
        y = cube(x)
        first = mx.autograd.grad(y, [x], create_graph=True)[0]
    first.backward()
    assert x.grad.asnumpy().tolist() == [6, 12]
    with mx.autograd.record():
        y = cube(x)
    for _ in range(2):
        y.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [3, 12]
    y.backward()
    with pytest.raises(MXNetError, match="retain_graph"):
        y.backward()


def test_random_numbers_differ_between_calls_and_follow_the_seed():
    drop = mx.nd.CachedOp(mx.sym.Dropout(mx.sym.Dropout(mx.sym.var("x"), p=0.5), p=0.5))
    x = mx.nd.ones((50,))
    draws = []
    for seed in (3, 3, None):
        if seed:
            mx.random.seed(seed)
        with mx.autograd.record():
            draws.append(drop(x).asnumpy().tolist())
    assert draws[0] == draws[1] != draws[2]


def test_host_operators_run_call_by_call():
    class Double(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("cached_op_double")
    class DoubleProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Double()

    op = mx.nd.CachedOp(mx.sym.Custom(mx.sym.var("x") + 1, op_type="cached_op_double") * 3)
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        y = op(x)
    y.backward()
    assert y.asnumpy().tolist() == [12, 18] and x.grad.asnumpy().tolist() == [6, 6]


def test_wrong_arguments():
    op = _net()
    with pytest.raises(MXNetError, match="expects 6 arrays"):
        op(mx.nd.ones((1,)))
    with pytest.raises(TypeError, match="must be an NDArray"):
        op(*_arrays()[:-1], 3)
    arrays = _arrays()
    arrays[1] = mx.nd.ones((2, 7))
    arrays[1].attach_grad()
    with pytest.raises(MXNetError, match="FullyConnected"), mx.autograd.record():
        op(*arrays)


def test_integer_variables_get_gradients():
    x = mx.nd.array([[1, 2], [3, 4]], dtype="int32")
    x.attach_grad()
    op = mx.nd.CachedOp(mx.sym.sum(mx.sym.var("x") * 3, axis=0))
    with mx.autograd.record():
        y = op(x)
    y.backward()
    assert y.dtype == x.grad.dtype == np.int32 and (x.grad.asnumpy() == 3).all()


def test_out_has_as_many_arrays_as_results():
    net, arrays = _net(), _arrays()
    out, total = mx.nd.zeros((4, 2)), mx.nd.zeros((1,))
    assert net(*arrays, out=[out, total])[0] is out
    np.testing.assert_allclose(total.asscalar(), (out.asnumpy() ** 2).sum(), rtol=1e-5)
    with pytest.raises(MXNetError, match="out has 1 arrays, expected 2"):
        net(*arrays, out=out)


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_given_is_saved_without_a_copy_and_as_it_was(kept):
    """The result is looked at before the backward pass, which sees inputs and weights of the forward pass."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, in_units=4, use_bias=False), mx.gluon.nn.Dense(2, in_units=3, use_bias=False))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    for _ in range(3):
        x = mx.nd.array(np.arange(8).reshape(2, 4))
        x.attach_grad()
        first, second = (layer.weight.data().asnumpy() for layer in net)
        with mx.autograd.record():
            out = net(x)
        given = x.asnumpy()
        out.wait_to_read()
        x[:] = 7
        net[1].weight.set_data(mx.nd.ones((2, 3)))
        for _ in range(1 + kept):
            out.backward(retain_graph=kept)
            head = np.ones((2, 2), "f")
            np.testing.assert_allclose(x.grad.asnumpy(), head @ second @ first, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(net[0].weight.grad().asnumpy(), (head @ second).T @ given, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(net[1].weight.grad().asnumpy(), head.T @ (given @ first.T), rtol=1e-5, atol=1e-5)


def test_a_program_saves_no_copies_of_what_it_was_given():
    a, b, c = (mx.sym.var(name) for name in "abc")
    op = mx.nd.CachedOp((a * b + 1) * c)
    structs = [jax.ShapeDtypeStruct((5, 7), "float32")] * 3
    saved = jax.eval_shape(op.derivative((True,) * 3, False).residuals(False), *structs)[2]
    assert [array.shape for array in saved.new] == [(5, 7)]  # a * b + 1; not a, b, c
