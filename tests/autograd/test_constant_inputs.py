"""Gradients end at inputs whose gradients are always zero (MXNet 1.9.1's results)."""

import numpy as np
import pytest

import mxjax as mx

X = np.array([-1, 0, 4], "float32")  # where the derivative of sqrt is NaN, infinite, and 1/4


def _cases():
    def root(F, x):
        return F.sqrt(x)
    return {
        "BlockGrad": (lambda F, x: F.BlockGrad(root(F, x)) + x, [1, 1, 1]),
        "floor": (lambda F, x: F.floor(root(F, x)), [0, 0, 0]),
        "comparison": (lambda F, x: root(F, x) > 1, [0, 0, 0]),
        "one_hot": (lambda F, x: F.one_hot(root(F, x), depth=3), [0, 0, 0]),
        "argmax": (lambda F, x: F.argmax(root(F, x), axis=0), [0, 0, 0]),
        "ones_like": (lambda F, x: F.ones_like(root(F, x)) * x, [1, 1, 1]),
        "positions": (lambda F, x: F.topk(root(F, x)), [0, 0, 0]),
        "condition": (lambda F, x: F.where(root(F, x), x, x * 2), [1, 2, 1]),
        "index": (lambda F, x: F.pick(F.ones((3, 4)), root(F, x)), [0, 0, 0]),
        "shape of another": (lambda F, x: F.broadcast_like(F.ones((1,)), root(F, x)), [0, 0, 0]),
    }


def _imperative(function, x):
    with mx.autograd.record():
        y = function(mx.nd, x)
    y.backward()
    return x.grad


def _hybridized(function, x):
    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return function(F, x)
    block = Block()
    block.hybridize()
    return _imperative(lambda _, x: block(x), x)


def _bound(function, x):
    executor = function(mx.sym, mx.sym.var("x")).bind(mx.cpu(), {"x": x}, args_grad={"x": x.grad})
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones(out.shape) for out in executor.outputs])
    return x.grad


@pytest.mark.parametrize("run", [_imperative, _hybridized, _bound])
@pytest.mark.parametrize("name", _cases())
def test_zero_is_not_multiplied_by_an_infinite_derivative(name, run):
    function, expected = _cases()[name]
    x = mx.nd.array(X)
    x.attach_grad()
    x.grad[:] = 7  # a gradient of zero replaces it
    np.testing.assert_array_equal(run(function, x).asnumpy(), np.array(expected, "float32"))


def test_the_same_by_xla(at_once):
    for run in (_imperative, _hybridized, _bound):
        for name in ("BlockGrad", "comparison", "condition"):
            function, expected = _cases()[name]
            x = mx.nd.array(X)
            x.attach_grad()
            np.testing.assert_array_equal(run(function, x).asnumpy(), expected)


def test_gradients_that_are_added_stay():
    x = mx.nd.array(X)
    x.attach_grad("add")
    x.grad[:] = 7
    np.testing.assert_array_equal(_imperative(lambda F, x: F.floor(F.sqrt(x)), x).asnumpy(), [7, 7, 7])


def test_a_loss_over_two_calls_of_a_block():
    net = mx.gluon.nn.Dense(1, in_units=3, use_bias=False)
    net.initialize()
    net.hybridize()
    x = mx.nd.array(X).reshape((1, 3))
    for _ in range(3):  # the third time as one program
        with mx.autograd.record():
            near, far = net(x), net(x)
            distance = mx.nd.sqrt(((near - far) ** 2).sum())  # zero
            loss = (distance > 0.5) + near.sum()
        loss.backward()
        np.testing.assert_array_equal(net.weight.grad().asnumpy(), x.asnumpy())


def test_rows_that_no_gradient_reaches():
    weight = mx.nd.ones((4, 2))
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = mx.nd.BlockGrad(mx.nd.Embedding(mx.nd.array([1]), weight, input_dim=4, output_dim=2, sparse_grad=True))
    y.backward()
    assert weight.grad.stype == "row_sparse"
    np.testing.assert_array_equal(weight.grad.asnumpy(), np.zeros((4, 2)))


def test_gradients_of_gradients_end_there_too():
    x = mx.nd.array([4.0])
    x.attach_grad()
    with mx.autograd.record():
        y = x * x * mx.nd.floor(x)
        grad = mx.autograd.grad(y, x, create_graph=True)[0]
    grad.backward()
    assert grad.asscalar() == 32 and x.grad.asscalar() == 8
    with mx.autograd.record():
        y = mx.nd.floor(x)
    assert mx.autograd.grad(y, x)[0].asscalar() == 0


@pytest.mark.parametrize("constant", [
    lambda F, x: F.ones_like(x), lambda F, x: F.BlockGrad(x), lambda F, x: x > 0, lambda F, x: F.argmax(x, axis=1)])
@pytest.mark.parametrize("hybrid", [False, True])
def test_moving_averages_and_fresh_gradients_do_not_need_a_gradient(constant, hybrid):
    norm, rest = mx.gluon.nn.BatchNorm(in_channels=3), mx.gluon.nn.HybridLambda(constant)
    norm.initialize()
    norm.gamma.grad_req = "add"
    if hybrid:
        norm.hybridize()
        rest.hybridize()
    factor = mx.nd.ones(1)
    factor.attach_grad()
    with mx.autograd.record():
        y = rest(norm(mx.nd.arange(12).reshape((4, 3)))) * factor
    y.backward()
    np.testing.assert_allclose(norm.running_mean.data().asnumpy(), [.45, .55, .65], rtol=1e-6)
    assert norm.gamma.data()._fresh_grad
    assert norm.beta.data()._fresh_grad


def test_forms_of_a_pass_by_xla_and_by_numpy_are_used_by_turns(at_once, monkeypatch):
    class Two(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.a, self.b = mx.gluon.nn.Dense(1, in_units=2), mx.gluon.nn.Dense(1, in_units=2)

        def hybrid_forward(self, F, x):
            return self.a(x), F.ones_like(self.b(x))
    net = Two()
    net.initialize()
    net.hybridize()

    def gradients(n):
        with mx.autograd.record():
            a, b = net(mx.nd.ones((n, 2)))
            y = (a * b).sum()
        y.backward()
        return [p.grad().asnumpy().tolist() for p in net.collect_params().values()]
    assert gradients(1) == [[[1, 1]], [1], [[0, 0]], [0]]
    monkeypatch.delenv("MXNET_ENFORCE_DETERMINISM")
    assert gradients(2) == [[[2, 2]], [2], [[0, 0]], [0]]  # by NumPy
    assert gradients(1) == [[[1, 1]], [1], [[0, 0]], [0]]


@pytest.mark.parametrize("mode", ["first calls", "at once"])
@pytest.mark.parametrize("constant", [lambda F, x: F.ones_like(x) * 2, lambda F, x: F.mean(x > 1)])
def test_hybridized_blocks_end_a_backward_pass(request, constant, mode):
    if mode == "at once":
        request.getfixturevalue("at_once")
    first, second = mx.gluon.nn.HybridLambda(lambda F, x: F.sqrt(x)), mx.gluon.nn.HybridLambda(constant)
    first.hybridize()
    second.hybridize()
    x = mx.nd.array([0, 1, 2])
    x.attach_grad()
    for _ in range(3):
        with mx.autograd.record():
            y = second(first(x))
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0, 0])  # 0 times infinity would be NaN


LOSSES = {
    "SoftmaxOutput": (lambda F, x: F.SoftmaxOutput(x, F.ones((2,))), [[0.7310586, -0.7310586], [0.5, -0.5]]),
    "MakeLoss": (lambda F, x: F.MakeLoss(x * x, grad_scale=3), [[12, 6], [6, 6]]),
    "make_loss": (lambda F, x: F.make_loss(x * x), [[4, 2], [2, 2]]),
    "LinearRegressionOutput": (lambda F, x: F.LinearRegressionOutput(x, F.ones((2, 2))), [[0.5, 0], [0, 0]]),
    "SVMOutput": (lambda F, x: F.SVMOutput(x, F.ones((2,)), use_linear=True), [[1, 0], [1, 0]]),
}
ENDS = {
    "BlockGrad": lambda F, y: -F.log(F.pick(F.BlockGrad(y), F.ones((2,)))).sum(),
    "argmax": lambda F, y: F.argmax(y, axis=1),
    "comparison": lambda F, y: y > 0.5,
}


@pytest.mark.parametrize("run", [_imperative, _hybridized, _bound])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_behind_a_zero_gradient_still_has_its_gradient(loss, end, run):
    function, expected = LOSSES[loss]
    x = mx.nd.array([[2, 1], [1, 1]])
    x.attach_grad()
    found = run(lambda F, x: ENDS[end](F, function(F, x)), x)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


def test_losses_behind_zero_gradients_by_xla(at_once):
    for run in (_imperative, _hybridized, _bound):
        test_a_loss_behind_a_zero_gradient_still_has_its_gradient("SoftmaxOutput", "BlockGrad", run)


def test_a_hybridized_loss_whose_result_is_blocked_outside():
    x = mx.nd.array([[2, 1], [1, 1]])
    x.attach_grad()

    class Loss(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return LOSSES["SoftmaxOutput"][0](F, x)
    loss = Loss()
    loss.hybridize()
    for _ in range(3):  # the third time as one program
        with mx.autograd.record():
            y = mx.nd.BlockGrad(loss(x)).sum() + 2 * x.sum()
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 + np.array(LOSSES["SoftmaxOutput"][1]), rtol=1e-6)
    with mx.autograd.record():
        y = mx.nd.BlockGrad(loss(x)).sum()
    found = mx.autograd.grad(y, x, create_graph=True)[0]
    np.testing.assert_allclose(found.asnumpy(), LOSSES["SoftmaxOutput"][1], rtol=1e-6)
