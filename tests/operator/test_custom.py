"""Custom operators: any Python, run by the engine; its errors appear where a result is looked at."""

import threading
import time

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

X = np.float32([1, 2, 3])


def define(name, forward, backward=None, arguments=("data",), outputs=("output",), states=(), **options):
    """Registers a custom operator out of two functions with the signatures of CustomOp's methods."""
    class Op(mx.operator.CustomOp):
        pass
    Op.forward = lambda self, **named: forward(self, **named)  # MXNet names the arguments
    if backward is not None:
        Op.backward = lambda self, **named: backward(self, **named)

    class Prop(mx.operator.CustomOpProp):
        def __init__(self, **kwargs):
            super().__init__(**options)
            self.kwargs = kwargs

        def list_arguments(self):
            return list(arguments)

        def list_outputs(self):
            return list(outputs)

        def list_auxiliary_states(self):
            return list(states)

        def infer_shape(self, in_shape):
            return in_shape, [in_shape[0]] * len(outputs), [in_shape[0]] * len(states)

        def create_operator(self, ctx, shapes, dtypes):
            op = Op()
            op.kwargs = self.kwargs
            return op
    mx.operator.register(name)(Prop)


def scale(self, is_train, req, in_data, out_data, aux):
    factor = float(self.kwargs.get("factor", 2))
    self.assign(out_data[0], req[0], mx.nd.array(in_data[0].asnumpy() * factor, dtype=in_data[0].dtype))


def scale_gradient(self, req, out_grad, in_data, out_data, in_grad, aux):
    self.assign(in_grad[0], req[0], out_grad[0] * float(self.kwargs.get("factor", 2)))


define("test_scale", scale, scale_gradient)


def test_forward_and_backward():
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x * 1, op_type="test_scale", factor=5)
        z = (y * y).sum()
    z.backward()
    np.testing.assert_array_equal(y.asnumpy(), 5 * X)
    np.testing.assert_array_equal(x.grad.asnumpy(), 50 * X)
    assert mx.nd.Custom(mx.nd.array(X, dtype="float64"), op_type="test_scale").dtype == np.float64


def test_several_arrays_and_states():
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0] + in_data[1])
        self.assign(out_data[1], req[1], in_data[0] * in_data[1] + aux[0] * is_train)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] + out_grad[1] * in_data[1])
        self.assign(in_grad[1], req[1], out_grad[0] + out_grad[1] * in_data[0])
    define("test_pair", forward, backward, ("a", "b"), ("sum", "product"), ("calls",))
    a, b, calls = mx.nd.array(X), mx.nd.array(X + 1), mx.nd.zeros((3,))
    for array in (a, b):
        array.attach_grad()
    with mx.autograd.record():
        total, product = mx.nd.Custom(a, b, calls, op_type="test_pair")
        loss = total * 10 + product
    loss.backward()
    np.testing.assert_array_equal(product.asnumpy(), X * (X + 1) + 1)
    np.testing.assert_array_equal(a.grad.asnumpy(), 10 + X + 1)
    np.testing.assert_array_equal(b.grad.asnumpy(), 10 + X)
    np.testing.assert_array_equal(calls.asnumpy(), [1, 1, 1])
    symbol = mx.sym.Custom(op_type="test_pair", name="p")
    assert symbol.list_arguments() == ["p_a", "p_b"] and symbol.list_auxiliary_states() == ["p_calls"]
    assert symbol.list_outputs() == ["p_sum", "p_product"]


def test_states_are_those_of_now_in_the_backward_too():
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = 2
        self.assign(out_data[0], req[0], in_data[0] * 3)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * aux[0])
        aux[0][:] = 7
    define("test_state_in_backward", forward, backward, states=("state",))
    x, state = mx.nd.array(X), mx.nd.zeros((3,))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, state, op_type="test_state_in_backward")
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 2, 2])
    np.testing.assert_array_equal(state.asnumpy(), [7, 7, 7])


def test_no_inputs():
    class Made(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], mx.nd.ones((2, 3)))

    @mx.operator.register("test_no_inputs")
    class MadeProp(mx.operator.CustomOpProp):
        def list_arguments(self):
            return []

        def infer_shape(self, in_shape):
            return [], [(2, 3)], []

        def infer_type(self, in_type):
            return [], [np.float32], []

        def create_operator(self, ctx, shapes, dtypes):
            return Made()
    np.testing.assert_array_equal(mx.nd.Custom(op_type="test_no_inputs").asnumpy(), np.ones((2, 3)))


def test_it_runs_off_the_callers_thread():
    threads, started = [], threading.Event()

    def slow(self, is_train, req, in_data, out_data, aux):
        threads.append(threading.current_thread())
        started.wait(10)
        self.assign(out_data[0], req[0], in_data[0] + 1)
    define("test_slow", slow)
    begun = time.perf_counter()
    y = mx.nd.Custom(mx.nd.array(X), op_type="test_slow")
    z = y * 2 + mx.nd.array(X)    # waits for nobody
    assert z.shape == (3,) and time.perf_counter() - begun < 5
    started.set()
    np.testing.assert_array_equal(z.asnumpy(), 2 * (X + 1) + X)
    assert threads[0] is not threading.current_thread()


def test_two_run_side_by_side():
    both = threading.Barrier(2, timeout=20)

    def meet(self, is_train, req, in_data, out_data, aux):
        both.wait()
        self.assign(out_data[0], req[0], in_data[0] + 1)
    define("test_meet", meet)
    results = [mx.nd.Custom(mx.nd.array(X), op_type="test_meet") for _ in range(2)]
    for result in results:
        np.testing.assert_array_equal(result.asnumpy(), X + 1)


def test_many_in_many_threads():
    failures = []

    def work(seed):
        try:
            x = mx.nd.array(X + seed)
            x.attach_grad()
            for _ in range(10):
                with mx.autograd.record():
                    y = mx.nd.Custom(mx.nd.Custom(x, op_type="test_scale"), op_type="test_scale", factor=3) * 1
                y.backward()
                np.testing.assert_array_equal(y.asnumpy(), 6 * (X + seed))
                np.testing.assert_array_equal(x.grad.asnumpy(), [6, 6, 6])
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(t.is_alive() for t in threads)


def test_an_operator_may_use_operators():
    def nested(self, is_train, req, in_data, out_data, aux):
        with mx.autograd.record():
            inner = mx.nd.Custom(in_data[0], op_type="test_scale")
        self.assign(out_data[0], req[0], mx.nd.dot(inner, inner) * mx.nd.ones((3,)))
    define("test_nested", nested)
    y = mx.nd.Custom(mx.nd.array(X), op_type="test_nested")
    np.testing.assert_array_equal(y.asnumpy(), [56, 56, 56])


# ------------------------------------------------------------------ errors
class Special(Exception):
    pass


def fail(*_, **named):
    raise Special("in the operator")


define("test_fail", fail)
define("test_fail_backward", scale, fail)


def test_errors_appear_at_the_wait_point():
    x = mx.nd.array(X)
    y = mx.nd.Custom(x, op_type="test_fail")
    z = y * 2 + 1
    w = x * 3
    for look in (z.asnumpy, y.wait_to_read, y.asnumpy):
        with pytest.raises(MXNetError, match="forward of custom operator test_fail: Special: in the operator") as told:
            look()
        assert isinstance(told.value.__cause__, Special)
    np.testing.assert_array_equal(w.asnumpy(), 3 * X)
    kept = mx.nd.Custom(x, op_type="test_fail")
    with pytest.raises(MXNetError, match="in the operator"):
        mx.nd.waitall()
    mx.nd.waitall()
    assert kept.shape == x.shape


def test_errors_of_the_backward():
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="test_fail_backward")
    np.testing.assert_array_equal(y.asnumpy(), 2 * X)
    with pytest.raises(MXNetError, match="backward of custom operator test_fail_backward: Special: in the operator"):
        y.backward()
        x.grad.asnumpy()
    x.grad[:] = 0
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0, 0])


def test_errors_in_a_graph():
    net = mx.sym.Custom(mx.sym.Variable("data") * 2, op_type="test_fail", name="custom") + 1
    executor = net.simple_bind(mx.cpu(), data=(3,))
    with pytest.raises(MXNetError, match="in the operator"):
        executor.forward(is_train=True)[0].asnumpy()


class Counting(mx.operator.CustomOp):
    """Multiplies by the number of its calls, after the shape that its property has seen."""

    def __init__(self, shape):
        self.shape, self.calls = shape, 0

    def forward(self, is_train, req, in_data, out_data, aux):
        self.calls += 1
        self.assign(out_data[0], req[0], in_data[0] * self.calls + 10 * self.shape[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.calls)


@mx.operator.register("test_counting")
class CountingProp(mx.operator.CustomOpProp):
    made = 0

    def __init__(self, scale="1"):
        super().__init__()
        CountingProp.made += 1

    def infer_shape(self, in_shape):
        self.shape = in_shape[0]
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        assert dtypes == [0], "float32 in MXNet"
        return Counting(self.shape)


@pytest.mark.parametrize("alone", [True, False])
def test_an_executor_keeps_its_operator(alone):
    before = CountingProp.made
    net = mx.sym.Custom(mx.sym.var("x"), op_type="test_counting", scale=3)
    net = net if alone else mx.sym.negative(mx.sym.negative(net * 1) * 1)
    executor = net.simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = 1
    for call in (1, 2, 3):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(2))
        assert executor.outputs[0].asnumpy().tolist() == [20 + call] * 2
        assert executor.grad_dict["x"].asnumpy().tolist() == [call] * 2
    for _ in range(5):
        executor.forward()
    assert executor.outputs[0].asnumpy().tolist() == [28, 28], "calls that nobody waited for ran in order"
    assert CountingProp.made == before + 1
    other = executor.reshape(x=(1,), partial_shaping=True)
    other.forward(x=mx.nd.ones(1))
    assert other.outputs[0].asnumpy().tolist() == [11]


def test_operators_are_made_for_inputs_and_states():
    seen = []

    class Prop(CountingProp):
        def list_auxiliary_states(self):
            return ["state"]

        def infer_shape(self, in_shape):
            return in_shape, [in_shape[0]], [(1,)]

        def create_operator(self, ctx, shapes, dtypes):
            seen.append((shapes, dtypes))
            return mx.operator.CustomOp()
    mx.operator.register("test_made_for")(Prop)
    mx.nd.Custom(mx.nd.ones((2, 3)), mx.nd.zeros(1), op_type="test_made_for")
    assert seen == [([[2, 3], [1]], [0, 0])]


def test_blocks_keep_operators_with_static_alloc_only():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, op_type="test_counting")
    for static, last in ((False, 21), (True, 23)):
        net = Net()
        net.hybridize(static_alloc=static)
        for _ in range(3):
            y = net(mx.nd.ones(2))
        assert y.asnumpy().tolist() == [last] * 2
        assert net(mx.nd.ones(3)).asnumpy().tolist() == [31] * 3, "another shape has another operator"


def test_a_property_that_fails_is_an_error_of_the_operator():
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return self.nothing
    mx.operator.register("test_nothing")(Prop)
    with pytest.raises(MXNetError, match="create_operator of custom operator test_nothing: AttributeError"):
        mx.nd.Custom(mx.nd.ones(2), op_type="test_nothing")


def test_arguments_are_text_with_plain_numbers():
    seen = []

    @mx.operator.register("noting")
    class NotingProp(mx.operator.CustomOpProp):
        def __init__(self, **kwargs):
            super().__init__()
            seen.append(kwargs)
    given = {"ratios": (np.float32(0.1), 1), "sizes": [np.int64(2)], "table": {"a": np.float64(3)}, "one": np.int32(4)}
    expected = {"ratios": "(0.1, 1)", "sizes": "[2]", "table": "{'a': 3.0}", "one": "4"}
    node = mx.sym.Custom(mx.sym.var("x"), op_type="noting", **given)
    assert node.list_attr() == {**expected, "op_type": "noting"}
    mx.sym.load_json(node.tojson())
    assert seen and all(kwargs == expected for kwargs in seen)


def test_misuse():
    x = mx.nd.array(X)
    for wrong, words in ((lambda: mx.nd.Custom(x, op_type="nothing"), "nothing"),
                         (lambda: mx.nd.Custom(x, x, op_type="test_scale"), "test_scale|Custom"),
                         (lambda: mx.operator.register("test_wrong")(int), "CustomOpProp"),
                         (lambda: mx.sym.Custom(mx.sym.Variable("x"), op_type="test_scale").to_jax(), "pure JAX")):
        with pytest.raises(MXNetError, match=words):
            wrong()
    with pytest.raises(MXNetError, match="create_graph"):
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type="test_scale")
            mx.autograd.grad(y, x, create_graph=True)


# ------------------------------------------------------------------ the oldest forms
@pytest.mark.parametrize("kind", [mx.operator.NumpyOp, mx.operator.NDArrayOp])
def test_python_ops(kind):
    class Cube(kind):
        def forward(self, in_data, out_data):
            assert isinstance(in_data[0], np.ndarray) == (kind is mx.operator.NumpyOp)
            out_data[0][:] = in_data[0]**3

        def backward(self, out_grad, in_data, out_data, in_grad):
            in_grad[0][:] = 3 * in_data[0]**2 * out_grad[0]
    symbol = Cube()(mx.sym.Variable("x") * 1, name="cube")
    mx.test_utils.check_symbolic_forward(symbol, [X], [X**3], rtol=1e-5)
    mx.test_utils.check_symbolic_backward(symbol, [X], [np.float32([1, 2, 3])], [3 * X**2 * [1, 2, 3]], rtol=1e-5)


class Stored(mx.operator.CustomOpProp):
    """The identity, whose arrays have the storage types they are given, but for those said."""

    seen: list = []

    def __init__(self, output="", gradient=""):
        super().__init__()
        self.output, self.gradient = output, gradient

    def infer_storage_type(self, in_stype):
        return in_stype, [self.output or in_stype[0]]

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        self.seen.append((ograd_stype, in_stype, out_stype, igrad_stype, aux_stype))
        return ograd_stype, in_stype, out_stype, [self.gradient] if self.gradient else igrad_stype, aux_stype

    def create_operator(self, ctx, shapes, dtypes):
        return Identity()


class Identity(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        Stored.seen.append((in_data[0].stype, out_data[0].stype))
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        Stored.seen.append(tuple(part[0].stype for part in (out_grad, in_data, out_data, in_grad)))
        self.assign(in_grad[0], req[0], out_grad[0])


mx.operator.register("test_stored")(Stored)
SQUARE = mx.nd.array([[0, 1], [2, 0]])
HEAD = mx.nd.array([[0, 3], [4, 5]])


@pytest.mark.parametrize("stype, head, grad_stype", [
    ("csr", None, None), ("csr", "csr", "csr"), ("csr", None, "row_sparse"), ("row_sparse", "default", "default")])
def test_storage_types(stype, head, grad_stype):
    x = SQUARE.tostype(stype)
    x.attach_grad(stype=grad_stype)
    Stored.seen.clear()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="test_stored")
    y.backward(head and HEAD.tostype(head))
    gradient = grad_stype or stype
    assert (y.stype, x.grad.stype) == (stype, gradient)
    np.testing.assert_array_equal(y.asnumpy(), SQUARE.asnumpy())
    np.testing.assert_array_equal(x.grad.asnumpy(), HEAD.asnumpy() if head else np.ones((2, 2)))
    head = head or "default"
    assert Stored.seen == [(stype, stype), ([head], [stype], [stype], [gradient], []), (head, stype, stype, gradient)]


def test_storage_types_along_a_chain_and_in_graphs():
    x = SQUARE.tostype("csr")
    x.attach_grad()
    with mx.autograd.record():
        z = mx.nd.Custom(mx.nd.Custom(x, op_type="test_stored"), op_type="test_stored", gradient="csr")
    Stored.seen.clear()
    z.backward(HEAD)
    assert [seen[3] for seen in Stored.seen] == [["undefined"], "csr", ["csr"], "csr"] and x.grad.stype == "csr"
    np.testing.assert_array_equal(x.grad.asnumpy(), HEAD.asnumpy())
    net = mx.sym.Custom(mx.sym.var("data", stype="csr"), op_type="test_stored")
    executor = net.bind(mx.cpu(), {"data": x}, {"data": mx.nd.zeros((2, 2)).tostype("csr")})
    assert executor.forward(is_train=True)[0].stype == "csr"
    executor.backward([HEAD.tostype("csr")])
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), HEAD.asnumpy())
    dense = SQUARE.copy()
    dense.attach_grad()
    with mx.autograd.record():  # a stored gradient goes on to operators that know nothing of it
        y = mx.nd.Custom(dense * 2, op_type="test_stored", gradient="csr")
    y.backward(HEAD)
    np.testing.assert_array_equal(dense.grad.asnumpy(), 2 * HEAD.asnumpy())


def test_errors_of_the_backward_of_sparse_arrays(monkeypatch):
    x = SQUARE.tostype("csr")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="test_stored")
    monkeypatch.setattr(Identity, "backward", fail)
    with pytest.raises(MXNetError, match="backward of custom operator test_stored: Special: in the operator"):
        y.backward(HEAD)


def test_storage_types_have_to_agree():
    with pytest.raises(MXNetError, match="accepts only dense inputs"):
        mx.nd.Custom(SQUARE.tostype("csr"), op_type="test_scale")
    x = SQUARE.tostype("csr")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="test_stored", gradient="default")
    with pytest.raises(MXNetError, match="infer_storage_type_backward of custom operator test_stored"):
        y.backward()


# ------------------------------------------------------------ results of MXNet 1.9.1
def test_assignments_by_request():
    given, found = mx.nd.ones(2), []
    for request in ("null", "write", "inplace", "add"):
        mx.operator.CustomOp().assign(given, request, mx.nd.full(2, 3))
        found.append(given.asnumpy().tolist())
    assert found == [[1, 1], [3, 3], [3, 3], [6, 6]]


def test_operators_of_numpys_fallbacks():
    def custom(*arrays, **options):
        return mx.nd.Custom(*arrays, **options)
    x, mean, cov = mx.nd.ones((2, 3)), mx.nd.array([1, 2]), mx.nd.array([[1e-10, 0], [0, 1e-10]])
    like = custom(x, op_type="empty_like_fallback", dtype="float64")
    assert (like.shape, like.dtype) == ((2, 3), np.float64)
    assert custom(x, op_type="empty_like_fallback").dtype == np.float32
    assert custom(x, op_type="resize_fallback", new_shape="(3, 3)").asnumpy().tolist() == [[1] * 3] * 3
    index = mx.nd.array([1, 5], dtype="int32")
    assert custom(index, op_type="unravel_index_fallback", shape="(2, 3)").asnumpy().tolist() == [[0, 1], [1, 2]]
    for size, shape in (("(3,)", (3, 2)), ("3", (3, 2)), ("None", (2,))):
        drawn = custom(mean, cov, op_type="mvn_fallback", size=size).asnumpy()
        assert drawn.shape == shape and np.allclose(drawn, np.broadcast_to([1, 2], shape), atol=1e-2)
    with pytest.raises(MXNetError, match=r"mean must contain vectors .* got shapes \(3,\) and \(2, 2\)"):
        custom(mx.nd.zeros(3), cov, op_type="mvn_fallback")
    with mx.util.np_array(True), pytest.raises(MXNetError, match="cov is not positive definite"):
        mx.np.random.multivariate_normal(mx.np.zeros(2), mx.np.ones((2, 2))).wait_to_read()
    mean.attach_grad()
    with mx.autograd.record():
        drawn = custom(mean, cov, op_type="mvn_fallback")
    with pytest.raises(Exception, match="mvn_fallback does not support gradient computation"):
        drawn.backward()
        mean.grad.wait_to_read()


def test_defaults_of_python_operators():
    for kind in (mx.operator.NumpyOp, mx.operator.NDArrayOp):
        operator, x = kind(need_top_grad=False), mx.nd.array([2, 3])
        bound = operator(data=mx.sym.var("x")).bind(mx.cpu(), [x], args_grad=[mx.nd.zeros(2)])
        assert bound.forward(is_train=True)[0].asnumpy().tolist() == [2, 3]
        bound.backward()
        assert bound.grad_arrays[0].asnumpy().tolist() == [1, 1]
        assert not operator.need_top_grad() and operator.list_arguments() == ["data"]
    assert mx.operator.NDArrayOp().declare_backward_dependency([1], [2], [3]) == [1, 2, 3]
    assert mx.operator.NDArrayOp(False).declare_backward_dependency([1], [2], [3]) == [2, 3]


@pytest.mark.parametrize("shape, told", [
    (lambda shapes: (shapes, [3]), "must return shapes .* got 3"),
    (lambda shapes: (shapes,), "must return 2 or 3 lists, got 1")])
def test_shapes_that_are_none(shape, told):
    class Prop(mx.operator.CustomOpProp):
        def infer_shape(self, in_shape):
            return shape(in_shape)
    mx.operator.register("shapes_that_are_none")(Prop)
    with pytest.raises(MXNetError, match=told):
        mx.nd.Custom(mx.nd.ones(2), op_type="shapes_that_are_none")
