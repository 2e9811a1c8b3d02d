"""Recording, backward, gradients of any order, Function, and what misuse leads to."""

import json
import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.base import MXNetError
from mxjax.eager import backward_program
from mxjax.eager.deferred_call import DeferredCall

from ..internals import chunk_of

X = np.array([0.5, -1.0, 2.0], "float32")


def variable(values=X, req="write", dtype="float32"):
    x = mx.nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def close(array, wanted, rtol=1e-5, atol=1e-5):
    np.testing.assert_allclose(array.asnumpy(), wanted, rtol=rtol, atol=atol)


# ------------------------------------------------------------------ first order
def test_chain_branches_and_head_gradients():
    x, y = variable(), variable(X + 3)
    with autograd.record():
        a = x * y
        z = a.exp() + a * 2 + x
    z.backward(mx.nd.array([1, 2, 3]))
    head = np.array([1, 2, 3])
    slope = head * (np.exp(X * (X + 3)) + 2)
    close(x.grad, slope * (X + 3) + head)
    close(y.grad, slope * X)


def test_several_heads():
    x = variable()
    with autograd.record():
        a, b = x * 2, x * x
    autograd.backward([a, b], [None, mx.nd.array([10, 10, 10])])
    close(x.grad, 2 + 20 * X)


@pytest.mark.parametrize("create_graph", [False, True])
def test_of_a_head_that_comes_twice_the_last_one_counts(create_graph):
    x = variable()
    with autograd.record():
        a, b = x * 2, x * x
    (grad,) = autograd.grad([a, b, a], [x], [mx.nd.full(3, 5), None, mx.nd.full(3, 10)], retain_graph=True,
                            create_graph=create_graph)
    close(grad, 20 + 2 * X)
    autograd.backward([b, b])
    close(x.grad, 2 * X)


@pytest.mark.parametrize("req, times, wanted", [("write", 3, 2 * X), ("add", 3, 6 * X), ("null", 1, None)])
def test_grad_req(req, times, wanted):
    x = variable(req=req)
    other = variable()
    assert x.grad is not None
    for _ in range(times):
        with autograd.record():
            y = x * x + other
        y.backward()
    if wanted is None:
        assert x.grad is None  # as in MXNet
    else:
        close(x.grad, wanted)
    close(other.grad, np.ones(3))


def test_gradients_are_written_to_the_same_array():
    x = variable()
    held = x.grad
    with autograd.record():
        y = x * 3
    y.backward()
    assert held is x.grad
    close(held, [3, 3, 3])
    with autograd.record():
        y = x * 4
    y.backward()
    close(held, [4, 4, 4])
    mine = mx.nd.zeros((3,))
    autograd.mark_variables([x], [mine], "add")
    with autograd.record():
        y = x * 5
    y.backward()
    assert x.grad is mine
    close(mine, [5, 5, 5])


def test_gradients_beyond_the_variables_are_ignored():
    x, mine, other = variable(), mx.nd.zeros((3,)), mx.nd.zeros((3,))
    autograd.mark_variables([x], [mine, other], ["write", "add"])
    with autograd.record():
        y = x * 5
    y.backward()
    close(mine, [5, 5, 5])
    close(other, [0, 0, 0])
    for gradients, requests in (([mine], "write"), ([mine, other], ["write"])):
        with pytest.raises(MXNetError, match="there are 2 variables"):
            autograd.mark_variables([x, variable()], gradients, requests)


def test_retain_graph():
    x = variable(req="add")
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 4 * X)
    with pytest.raises(MXNetError, match="retain_graph"):
        y.backward()


def test_views_in_the_graph():
    x = variable(np.arange(6).reshape(2, 3))
    with autograd.record():
        y = x[0] * x[1] + x.reshape((3, 2))[2, 1] * 10
        z = y.reshape((3, 1))[1:].sum()
    z.backward()
    close(x.grad, [[0, 4, 5], [0, 1, 2 + 20]])


def test_detach_blocks_and_pause():
    x = variable()
    with autograd.record():
        with autograd.pause():
            constant = x * 100
            assert not autograd.is_recording()
        y = x.detach() * x + constant + mx.nd.BlockGrad(x * x)
    y.backward()
    close(x.grad, X)


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(slice(None), 7), lambda x: mx.nd.ones(3).copyto(x),
                                   lambda x: mx.nd.elemwise_add(x, x, out=x)], ids=["slice", "copyto", "out"])
def test_a_write_after_a_recorded_call_does_not_change_gradients(write):
    x, factor = variable(), mx.nd.array([2, 3, 4])
    with autograd.record():
        y = x * factor * x
        with autograd.pause():
            write(factor)
    write(x)
    y.backward()
    close(x.grad, 2 * X * [2, 3, 4])


def test_modes():
    x = mx.nd.ones((200,))
    with autograd.record():
        assert autograd.is_training() and autograd.is_recording()
        with autograd.predict_mode():
            assert not autograd.is_training() and autograd.is_recording()
            close(mx.nd.Dropout(x, p=0.5), np.ones(200))
        assert (mx.nd.Dropout(x, p=0.5).asnumpy() == 0).any()
    with autograd.record(train_mode=False):
        close(mx.nd.Dropout(x, p=0.5), np.ones(200))
    with autograd.train_mode():
        assert autograd.is_training() and not autograd.is_recording()
    assert not autograd.set_recording(True)
    assert autograd.set_recording(False)


def test_recording_is_the_threads_own():
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append((autograd.is_recording(), autograd.is_training())))
        thread.start()
        thread.join()
    assert seen == [(False, False)]


def test_out_keeps_its_place_in_the_graph():
    x = variable()
    y = mx.nd.zeros((3,))
    with autograd.record():
        mx.nd.square(x, out=y)
        z = y * 2
    z.backward()
    close(x.grad, 4 * X)


def _raised(y):
    y += 1
    y /= 2


@pytest.mark.parametrize("change", [
    _raised, lambda y: mx.nd.elemwise_add(y, y, out=y), lambda y: mx.nd.ones(3).copyto(y),
    lambda y: mx.random.uniform(shape=(3,), out=y), lambda y: y.__setitem__(slice(1, 2), 5)])
def test_changes_outside_of_a_recording_keep_the_graph(change):
    x = mx.nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
    change(y)
    assert (y.asnumpy() != [1, 4, 9]).any()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4, 6])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    x = variable(X, dtype=dtype)
    with autograd.record():
        y = (x * x * 3).sum()
    y.backward()
    assert x.grad.dtype == x.dtype
    close(x.grad.astype("float32"), 6 * X, rtol=1e-2)


def test_integer_arrays():
    x = variable([1, 2, 3], dtype="int32")
    with autograd.record():
        y = x * x
    y.backward()
    assert x.grad.dtype == np.int32
    close(x.grad, [2, 4, 6])
    labels, w = mx.nd.array([0, 2, 2], dtype="int32"), variable()
    with autograd.record():
        y = mx.nd.take(w, labels) * labels.astype("float32")
    y.backward()
    close(w.grad, [0, 0, 4])


def test_a_long_chain():
    """Thousands of recorded calls: no recursion, and the same answer as the formula."""
    x = variable([1.0])
    with autograd.record():
        y = x
        for _ in range(3000):
            y = y * 1.001
    y.backward()
    close(x.grad, [1.001**3000], rtol=1e-3)


# ------------------------------------------------------------------ grad and higher orders
def test_grad_returns_and_leaves_the_buffers_alone():
    x = variable()
    with autograd.record():
        y = x * x
        z = y * 3
    found = autograd.grad(z, [x, y])
    close(found[0], 6 * X)
    close(found[1], [3, 3, 3])
    close(x.grad, [0, 0, 0])


@pytest.mark.parametrize("function, derivatives", [
    (mx.nd.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
    (lambda x: x * x * x, [lambda x: 3 * x**2, lambda x: 6 * x, lambda x: 6 + 0 * x]),
    (mx.nd.sigmoid, [lambda x: s(x) * (1 - s(x)), lambda x: s(x) * (1 - s(x)) * (1 - 2 * s(x)),
                     lambda x: s(x) * (1 - s(x)) * (1 - 6 * s(x) + 6 * s(x)**2)])], ids=["sin", "cube", "sigmoid"])
def test_higher_orders(function, derivatives):
    x = variable()
    with autograd.record():
        y = function(x)
        for order, wanted in enumerate(derivatives, 1):
            y, = autograd.grad(y, x, create_graph=True, retain_graph=True)
            close(y, wanted(X), rtol=1e-4)
            assert order
    y.backward()
    assert x.grad.shape == (3,)


def s(x):
    return 1 / (1 + np.exp(-x))


def test_gradient_penalty():
    """A loss that contains a gradient: d/dx (x² + (d(x³)/dx)²) = 2 x + 36 x³."""
    x = variable()
    with autograd.record():
        slope, = autograd.grad(x * x * x, x, create_graph=True, retain_graph=True)
        loss = x * x + slope * slope
    loss.backward()
    close(x.grad, 2 * X + 36 * X**3, rtol=1e-4)


def test_mixed_second_derivative():
    x, w = variable(), variable(X + 1)
    with autograd.record():
        y = x * x * w
        dx, = autograd.grad(y, x, create_graph=True, retain_graph=True)
    dx.backward()
    close(w.grad, 2 * X)


def test_constant_gradients():
    """The gradient of something linear depends on nothing: alone nothing is behind it, in sums it adds 0."""
    x = variable()
    with autograd.record():
        slope, = autograd.grad(mx.nd.identity(x), x, create_graph=True)
        square, total = slope * slope, x * x + slope
    for head in (slope, square):
        with pytest.raises(MXNetError, match="requires a gradient"):
            head.backward()
    total.backward()
    close(x.grad, 2 * X)


# ------------------------------------------------------------------ Function
class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + mx.nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        y, = self.saved_tensors
        return dy * y * (1 - y)


def test_a_function_is_called_once():
    f = Sigmoid()
    f(mx.nd.ones(2))
    for kind in (AssertionError, MXNetError):
        with pytest.raises(kind, match="only once"):
            f(mx.nd.ones(2))


class TwoByTwo(autograd.Function):
    def forward(self, x, y):
        return x + y, x * 10

    def backward(self, da, db):
        return da + 10 * db, da


def test_function():
    x = variable()
    with autograd.record():
        y = Sigmoid()(x * 2) * 3
    y.backward()
    close(y, 3 * s(2 * X))
    close(x.grad, 6 * s(2 * X) * (1 - s(2 * X)))


def test_function_with_several_arrays():
    x, y = variable(), variable()
    with autograd.record():
        a, b = outputs = TwoByTwo()(x, y)
        z = a * 2 + b
    z.backward()
    close(x.grad, [12, 12, 12])
    close(y.grad, [2, 2, 2])
    assert type(outputs) is tuple


def test_function_errors():
    class Wrong(TwoByTwo):
        def backward(self, da, db):
            return da

    function, x, y = Wrong(), variable(), variable()
    with autograd.record():
        a, _ = function(x, y)
    with pytest.raises(MXNetError, match="Wrong.backward returned 1 gradients for 2 inputs"):
        a.backward()
    with pytest.raises(MXNetError, match="once"):
        function(x, y)


# ------------------------------------------------------------------ misuse
def test_backward_without_a_graph():
    with pytest.raises(MXNetError, match="not in a computational graph"):
        mx.nd.ones(2).backward()
    x = variable()
    y = x * 2     # outside record
    with pytest.raises(MXNetError, match="record"):
        y.backward()


def test_in_place_changes_while_recording():
    x = variable()
    with autograd.record():
        y = x * 2
        for change in (lambda: y.__iadd__(1), lambda: y.__setitem__(0, 1), lambda: x.__imul__(2),
                       lambda: x.__setitem__(slice(None), 0)):
            with pytest.raises(MXNetError, match="Inplace operations"):
                change()
        with pytest.raises(IndexError):  # which comes first
            y[7] = 1
    y.backward()
    close(x.grad, [2, 2, 2])


def test_wrong_arguments():
    x = variable()
    with autograd.record():
        y = x * 2
    with pytest.raises(MXNetError, match=r"\(2,\).*\(3,\)"):
        y.backward(mx.nd.ones(2))
    with pytest.raises(MXNetError, match="1 heads but 2"):
        autograd.backward([y], [None, None])
    with pytest.raises(MXNetError, match="attach_grad"):
        autograd.grad(y, mx.nd.ones(3))
    with pytest.raises(AssertionError, match="no variables"):
        autograd.grad(y, [])
    with pytest.raises(MXNetError, match="grad_req"):
        x.attach_grad("sometimes")


def test_get_symbol():
    x, y = variable(), variable()
    with autograd.record():
        z = mx.nd.exp(x * y) + x
    symbol = autograd.get_symbol(z)
    names = symbol.list_arguments()
    out = symbol.bind(mx.cpu(), dict(zip(names, (x, y), strict=True))).forward()[0]
    close(out, z.asnumpy())

    class Same(autograd.Function):
        def forward(self, x):
            return x

        def backward(self, head):
            return head
    with autograd.record():
        own = Same()(x) * 2
    for array, told in ((mx.nd.ones(1), "not part of a recorded graph"), (own, "contains host code")):
        with pytest.raises(MXNetError, match=f"get_symbol: .*{told}"):
            autograd.get_symbol(array)


@pytest.mark.parametrize("key", [np.s_[:, 1:3], np.s_[1], np.s_[:, 2, 1:], np.s_[:, ::2, ::-1], np.s_[:, None, 1]])
def test_get_symbol_of_an_indexed_array(key):
    x = mx.nd.arange(24).reshape((2, 3, 4))
    x.attach_grad()
    with autograd.record():
        y = (x + 1)[key] * 2
    symbol = mx.sym.load_json(autograd.get_symbol(y).tojson())
    np.testing.assert_array_equal(symbol.eval(**{symbol.list_arguments()[0]: x})[0].asnumpy(), y.asnumpy())


def test_get_symbol_of_hybridized_blocks():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, in_units=2), mx.gluon.nn.Dense(3, in_units=3), mx.gluon.nn.Dense(1, in_units=3))
    net.initialize(mx.init.One())
    x = mx.nd.array([[1, 2]])
    counts = []
    for limit in (3, 0):  # operators of a small graph are nodes of their own, a larger graph is one node
        net.hybridize(inline_limit=limit)
        with autograd.record():
            y = net(x)
        symbol = mx.sym.load_json(autograd.get_symbol(y).tojson())
        counts.append(sum(node["op"] != "null" for node in json.loads(symbol.tojson())["nodes"]))
        values = dict.fromkeys(symbol.list_arguments())
        shapes = {(3, 2): 1, (3, 3): 1, (1, 3): 1, (3,): 0, (1,): 0}
        found = symbol.infer_shape(**{symbol.list_arguments()[0]: (1, 2)})[0] if limit else [p.shape for p in [
            x, *net.collect_params().values()]]
        values = {n: x if s == (1, 2) else mx.nd.full(s, shapes[s]) for n, s in zip(values, found, strict=True)}
        close(symbol.bind(mx.cpu(), values).forward()[0], y.asnumpy())
    assert counts == [3, 1]


# ------------------------------------------------------------------ memory and compile counts
def test_a_backward_frees_what_was_kept():
    import weakref
    x, big = variable(np.ones(1000)), mx.nd.ones((1000,))
    with autograd.record():
        y = (x * big).exp().sum()
    kept = weakref.ref(big.chunk.buffer)
    del big
    assert kept() is not None
    y.backward()
    assert kept() is None


def test_what_the_backward_does_not_read_is_not_kept():
    import weakref
    x, big = variable(np.ones(1000)), mx.nd.ones((1000,))
    with autograd.record():
        y = (x + big).sum()
    freed = weakref.ref(big.chunk.buffer)
    del big
    assert freed() is None, "a sum needs none of its inputs"
    y.backward()
    close(x.grad, np.ones(1000))


def test_a_loop_stops_compiling(compiles):
    x = variable()
    for step in range(12):
        if step == 6:
            compiles.clear()
        with autograd.record():
            y = (mx.nd.tanh(x * (1 + step / 100)) * x).sum()
        y.backward()
        x -= (0.1 + step / 50) * x.grad
    x.wait_to_read()
    assert compiles == []


@pytest.mark.parametrize("away", [False, True])
def test_a_long_pass_is_a_program_on_accelerators_once_it_has_come_often(away, compiles, monkeypatch):
    monkeypatch.setattr(backward_program, "_is_away", lambda ctx: away)  # a CPU that stands for one
    monkeypatch.setattr(backward_program, "OFTEN", 3)
    x, made = variable(), []
    for turn in range(6):
        with autograd.record():
            y = x
            for i in range(backward_program.MOST_CALLS + 6 + (0, 0, 1, 0, 2, 0)[turn]):
                y = y * 0.99 if i % 2 else y + x
        mx.nd.waitall()
        before = len(compiles)
        y.backward()
        made.append((x.grad.asnumpy(), len(compiles) - before))
    assert [count for _, count in made[3:]] == [0, 0, int(away)]
    for turn in (1, 3, 5):
        np.testing.assert_allclose(made[turn][0], made[0][0], rtol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("name, wanted", [("astype", 1), ("mean", 0.5)])
def test_gradients_pass_casts_to_integers(name, wanted, hybrid):
    x = mx.np.array([1.5, 2.5])
    x.attach_grad()
    graph = mx.nd.CachedOp(getattr(mx.sym.var("x").as_np_ndarray(), name)(dtype="int64"))
    with autograd.record():
        y = graph(x) if hybrid else getattr(x, name)(dtype="int64")
    y.backward()
    assert y.dtype == np.int64
    close(x.grad, np.full(2, wanted))


@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients_that_are_added_up_are_part_of_the_program(hybrid, compiles):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=3, activation="tanh"), mx.gluon.nn.Dense(2, in_units=4))
    net.initialize(mx.init.Constant(0.2))
    params = list(net.collect_params().values())
    for param in params:
        param.grad_req = "add"
    if hybrid:
        net.hybridize()
    x = mx.nd.array(np.arange(6).reshape(2, 3) * 0.1)
    sums, held = [np.zeros(p.shape, "f") for p in params], None
    for step in range(8):
        if step == 5:
            mx.nd.waitall()
            compiles.clear()
        if step == 7:
            assert compiles == []
            held, before = params[0].grad().to_jax(), params[0].grad().asnumpy()
        with mx.autograd.record():
            out = (net(x * (step + 1)) ** 2).sum()
        single = mx.autograd.grad(out, [p.data() for p in params], retain_graph=True)
        out.backward()
        for total, param, grad in zip(sums, params, single, strict=True):
            total += grad.asnumpy()
            np.testing.assert_allclose(param.grad().asnumpy(), total, rtol=1e-4, atol=1e-6)
            assert param.data()._fresh_grad
    np.testing.assert_array_equal(np.asarray(held), before)  # what somebody holds is not written over


def test_only_arrays_with_a_gradient_have_a_fresh_one():
    x = mx.nd.ones(2)
    assert not x._fresh_grad
    with pytest.raises(mx.MXNetError, match="attach_grad"):
        x._fresh_grad = False


# ------------------------------------------------------------ operators after a graph's run
@pytest.fixture
def forwards(monkeypatch):
    """Counts the runs whose forward was computed by itself."""
    seen, original = [], DeferredCall.forward

    def forward(self):
        seen.append(self.origin)
        return original(self)
    monkeypatch.setattr(DeferredCall, "forward", forward)
    return seen


def hybrid():
    mx.random.seed(4)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(6, activation="tanh", in_units=3), mx.gluon.nn.Dense(4, in_units=6))
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    return net, mx.nd.array(np.random.default_rng(1).normal(size=(5, 3)))


def test_a_loss_of_operators_is_in_the_program_of_its_network(forwards):
    net, x = hybrid()
    label, loss = mx.nd.array([0, 3, 1, 2, 0]), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    found = []
    for look in (False, True):
        with autograd.record():
            out = net(x)
            value = loss(out, label) * 2
        if look:
            value.asnumpy()
        value.backward()
        assert bool(forwards) == look
        found.append([value.asnumpy(), out.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_operators_on_several_runs_wait_for_neither(forwards):
    net, x = hybrid()
    with autograd.record():
        total = net(x).sum() + net(x * 2).sum()
    total.backward()
    assert forwards
    grads = [p.grad().asnumpy() for p in net.collect_params().values()]
    separate = [np.zeros_like(g) for g in grads]
    for factor in (1, 2):
        with autograd.record():
            out = net(x * factor).sum()
        out.backward()
        separate = [a + p.grad().asnumpy() for a, p in zip(separate, net.collect_params().values(), strict=True)]
    for one, other in zip(grads, separate, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_derivatives_of_higher_order_through_operators_after_a_run():
    net, x = hybrid()
    x.attach_grad()
    grads = []
    for hybridized in (True, False):
        net.hybridize(hybridized)
        with autograd.record():
            out = (net(x) ** 2).sum()
            slope = autograd.grad(out, [x], create_graph=True, retain_graph=True)[0]
            again = (slope * slope).sum()
        again.backward()
        grads.append(x.grad.asnumpy())
    np.testing.assert_allclose(*grads, rtol=1e-4, atol=1e-5)


def test_symbols_of_operators_after_a_run():
    net, x = hybrid()
    with autograd.record():
        out = mx.nd.log_softmax(net(x) * 2.0)
    found = autograd.get_symbol(out)
    assert "log_softmax" in found.tojson() and "_mul_scalar" in found.tojson()


def test_mistakes_after_a_run_are_told_at_once():
    net, x = hybrid()
    with autograd.record(), pytest.raises(MXNetError):
        net(x) + mx.nd.ones((7, 7))


@pytest.mark.parametrize("hybrid", [False, True])
def test_head_gradients_of_too_few_elements(hybrid):
    x = mx.nd.full((4, 2), .5)
    x.attach_grad()

    def given_one(function):
        block = mx.gluon.nn.HybridLambda(lambda F, x: function(F, x))
        block.hybridize(hybrid)
        with mx.autograd.record():
            y = block(x)
        y.backward(mx.nd.ones((1,)))
        return x.grad.asnumpy().tolist()
    assert given_one(lambda F, x: F.round(x)) == [[0, 0]] * 4
    assert given_one(lambda F, x: F.MakeLoss(x)) == [[1, 1]] * 4
    assert given_one(lambda F, x: F.SoftmaxOutput(x, F.zeros((4,)))) == [[-.5, .5]] * 4
    with pytest.raises(mx.MXNetError, match=r"head gradient has shape \(1,\), but its head has shape \(4, 2\)"):
        given_one(lambda F, x: x * 2)


@pytest.mark.parametrize("of", [mx.nd.relu, lambda x: mx.nd.Activation(x, act_type="relu")])
def test_relu_keeps_its_result_and_not_its_input(of):
    x = mx.nd.array([-2.0, -0.0, 0.0, 3.0])
    x.attach_grad()
    with autograd.record():
        inner = x * 2
        y = of(inner)
        assert y.entry[0].args[0] is chunk_of(y).peek()
        first = autograd.grad((y ** 3).sum(), x, create_graph=True)[0]
    np.testing.assert_array_equal(first.asnumpy(), [0, 0, 0, 3 * 36 * 2])
    first.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0, 0, 6 * 6 * 4])


def test_a_result_that_is_written_over_does_not_change_the_gradient_of_relu():
    x = mx.nd.array([-1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = mx.nd.relu(x)
    y[:] = -5
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 1])


def test_gradients_that_read_no_values_have_64_bits(at_once):
    """All arguments of these passes are placeholders or ones, so no argument tells that they need 64-bit mode."""
    x = mx.nd.array([1, 2], dtype="float64")
    x.attach_grad("add")
    for _ in range(3):
        with autograd.record():
            y = x * 0.1 + x
        y.backward()
    assert x.grad.dtype == np.float64
    np.testing.assert_allclose(x.grad.asnumpy(), 3.3, rtol=1e-14)
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = x * 0.1 + x
        y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 1.1, rtol=1e-14)
    with autograd.record():
        grad = autograd.grad((x * 0.1).sum(), x, create_graph=True)[0]
    np.testing.assert_allclose(grad.asnumpy(), 0.1, rtol=1e-14)
