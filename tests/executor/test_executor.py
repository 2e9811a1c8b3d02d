"""Executors: one program for forward and backward, requests, reshaping, sharing, monitors, devices, mirrors, cuts."""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel.policy import training

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype("float32")
W = RNG.normal(size=(3, 5)).astype("float32")
LABEL = np.float32([0, 1, 2, 1])


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def classifier():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, no_bias=True, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def bound(symbol=None, **kwargs):
    executor = (classifier() if symbol is None else symbol).simple_bind(mx.cpu(), data=X.shape, **kwargs)
    fill(executor)
    return executor


def fill(executor):
    for name, value in (("data", X), ("fc_weight", W), ("softmax_label", LABEL)):
        if name in executor.arg_dict:
            executor.arg_dict[name][:] = value


PROB = softmax(X @ W.T)
SLOPE = (PROB - np.eye(3)[LABEL.astype(int)]).T @ X


@pytest.fixture
def programs(monkeypatch):
    """Names of the programs of graphs, in the order of their calls."""
    from mxjax.kernel import kernel
    called = []

    def observe(name, kind, call, *args):
        if kind == "symbolic":
            called.append(name)
        return call(*args)
    monkeypatch.setattr(kernel, "_observer", observe)
    return called


# ------------------------------------------------------------------ laziness
def test_forward_and_backward_are_one_program(programs):
    executor = bound()
    outputs = executor.forward(is_train=True)
    assert programs == []
    executor.backward()
    assert programs == ["forward and backward"]
    np.testing.assert_allclose(outputs[0].asnumpy(), PROB, rtol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), SLOPE, rtol=1e-4, atol=1e-5)
    assert programs == ["forward and backward"]


def test_outputs_read_first(programs):
    executor = bound()
    outputs = executor.forward(is_train=True)
    np.testing.assert_allclose(outputs[0].asnumpy(), PROB, rtol=1e-5)
    assert programs == ["CachedOp"]
    executor.backward()
    assert programs == ["CachedOp", "backward"], "the forward is not computed again"
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), SLOPE, rtol=1e-4, atol=1e-5)


def test_a_backward_runs_the_forward_that_is_missing(programs):
    executor = bound()
    executor.backward()
    assert programs == ["forward and backward"]
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), SLOPE, rtol=1e-4, atol=1e-5)


def test_a_recorded_forward_nobody_looks_at_is_never_run(programs):
    executor = bound()
    for _ in range(3):
        executor.forward(is_train=True)
    assert programs == []
    executor.outputs[0].wait_to_read()
    assert programs == ["CachedOp"]


def test_steps_compile_once(compiles):
    executor = bound()
    for step in range(6):
        if step == 2:
            mx.nd.waitall()
            compiles.clear()
        executor.forward(is_train=True, data=mx.nd.array(X + step))
        executor.backward()
        mx.nd.sgd_update(executor.arg_dict["fc_weight"], executor.grad_dict["fc_weight"], lr=0.1 / (step + 1),
                         out=executor.arg_dict["fc_weight"])
    mx.nd.waitall()
    assert compiles == []


def test_a_forward_sees_the_values_of_its_time():
    executor = bound()
    output = executor.forward()[0]
    executor.arg_dict["fc_weight"][:] = 0
    np.testing.assert_allclose(output.asnumpy(), PROB, rtol=1e-5)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), 1 / 3, rtol=1e-5)
    np.testing.assert_allclose(output.asnumpy(), 1 / 3, rtol=1e-5, err_msg="later forwards write to the same arrays")


# ------------------------------------------------------------------ requests
@pytest.mark.parametrize("look_first", [False, True])
def test_gradient_requests(look_first):
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    symbol = x * y + mx.sym.Variable("z")
    args = {n: mx.nd.full((2,), v) for n, v in (("x", 2), ("y", 3), ("z", 1))}
    grads = {n: mx.nd.full((2,), 100) for n in "xyz"}
    executor = symbol.bind(mx.cpu(), args, grads, {"x": "add", "y": "write", "z": "null"})
    for _ in range(2):
        executor.forward(is_train=True)
        if look_first:
            executor.outputs[0].asnumpy()
        executor.backward([mx.nd.array([1, 10])])
    np.testing.assert_array_equal(grads["x"].asnumpy(), [106, 160])
    np.testing.assert_array_equal(grads["y"].asnumpy(), [2, 20])
    np.testing.assert_array_equal(grads["z"].asnumpy(), [100, 100])


def test_integer_and_wide_arguments():
    symbol = mx.sym.take(mx.sym.Variable("w"), mx.sym.Variable("i")) * 2
    w = mx.nd.array(np.arange(3) + 2.0**-40, dtype="float64")
    executor = symbol.bind(mx.cpu(), {"w": w, "i": mx.nd.array([2, 2], dtype="int64")},
                           {"w": mx.nd.zeros((3,), dtype="float64")})
    out = executor.forward(is_train=True)[0]
    executor.backward([mx.nd.ones((2,), dtype="float64")])
    np.testing.assert_array_equal(out.asnumpy(), 2 * (2 + 2.0**-40) * np.ones(2))
    np.testing.assert_array_equal(executor.grad_dict["w"].asnumpy(), [0, 0, 4])


def test_auxiliary_states_move_in_the_backward_of_training_only():
    executor = bound(mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, momentum=0.5, name="bn"))
    mean = executor.aux_dict["bn_moving_mean"]
    executor.forward(is_train=False)[0].wait_to_read()
    np.testing.assert_array_equal(mean.asnumpy(), np.zeros(5))
    executor.forward(is_train=True)[0].wait_to_read()
    np.testing.assert_array_equal(mean.asnumpy(), np.zeros(5))
    executor.backward([mx.nd.ones(X.shape)])
    np.testing.assert_allclose(mean.asnumpy(), X.mean(0) / 2, rtol=1e-4, atol=1e-6)


def _normed(reqs="write"):
    """Two normalizations with fixed gammas, momentum 0.5, bound with these requests of gradients."""
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.BatchNorm(net, momentum=0.5, name=f"bn{i}")
    executor = net.simple_bind(mx.cpu(), grad_req=reqs, data=(4, 3))
    executor.arg_dict["data"][:] = np.arange(12).reshape(4, 3)
    for i in range(2):
        executor.arg_dict[f"bn{i}_gamma"][:] = 5
    return executor


def _changed(executor):
    return [a.asnumpy().round(3).tolist() for i in range(2) for a in
            (executor.arg_dict[f"bn{i}_gamma"], executor.aux_dict[f"bn{i}_moving_mean"])][:3]


def test_what_batch_normalization_changes_in_executors():
    """MXNet's numbers: fixed gammas in each forward, moving averages in each backward, where gradients come by."""
    one, five, zero, mean = [1.0] * 3, [5.0] * 3, [0.0] * 3, [2.25, 2.75, 3.25]
    for train in (False, True):
        executor = _normed()
        executor.forward(is_train=train)[0].wait_to_read()
        assert _changed(executor) == [one, zero, one]
    for wanted in (mean, [3.375, 4.125, 4.875]):
        executor.backward([mx.nd.ones((4, 3))])
        assert _changed(executor) == [one, wanted, one]
    executor = _normed("null")
    executor.forward(is_train=True)[0].wait_to_read()
    assert _changed(executor) == [five, zero, five]
    reqs = {"data": "null", "bn0_gamma": "null", "bn0_beta": "null", "bn1_gamma": "write", "bn1_beta": "write"}
    executor = _normed(reqs)
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((4, 3))])
    assert _changed(executor) == [five, zero, one]


def test_random_operators_differ_from_step_to_step():
    executor = bound(mx.sym.Dropout(mx.sym.Variable("data"), p=0.5))
    executor.arg_dict["data"][:] = 1
    first = executor.forward(is_train=True)[0].asnumpy()
    executor.backward([mx.nd.ones(X.shape)])
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), first, err_msg="the same mask both ways")
    second = executor.forward(is_train=True)[0].asnumpy()
    assert set(np.unique([first, second])) <= {0, 2} and (first != second).any()
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), np.ones(X.shape))


# ------------------------------------------------------------------ reshape, sharing, parameters
def test_reshape_shares_parameters():
    executor = bound()
    smaller = executor.reshape(data=(2, 5), softmax_label=(2,))
    np.testing.assert_allclose(smaller.forward(data=mx.nd.array(X[:2]))[0].asnumpy(), PROB[:2], rtol=1e-5)
    smaller.arg_dict["fc_weight"][:] = 0
    assert not executor.arg_dict["fc_weight"].asnumpy().any()
    with pytest.raises((AssertionError, MXNetError), match="allow_up_sizing"):
        executor.reshape(data=(8, 5), softmax_label=(8,))
    larger = executor.reshape(data=(8, 5), softmax_label=(8,), allow_up_sizing=True)
    assert larger.outputs[0].shape == (8, 3)
    with pytest.raises((AssertionError, MXNetError), match="partial_shaping"):
        executor.reshape(data=(4, 4))
    assert executor.reshape(data=(4, 4), partial_shaping=True).arg_dict["fc_weight"].shape == (3, 4)


def test_new_shapes_are_not_traced_for_the_heads_that_a_pass_reads(monkeypatch):
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc", no_bias=True)
    executor = mx.sym.Group([mx.sym.tanh(data), mx.sym.MakeLoss(data * data, grad_scale=0.5)]).simple_bind(
        mx.cpu(), data=(2, 5))
    executor.arg_dict["fc_weight"][:] = W
    training.begin()  # else XLA computes, after the trainings of other tests
    traced, counts, original = [], [], jax.make_jaxpr
    monkeypatch.setattr(jax, "make_jaxpr", lambda *args, **kwargs: traced.append(args) or original(*args, **kwargs))
    for count in range(2, 7):
        x, head = np.random.RandomState(count).rand(count, 5).astype("f"), np.full((count, 3), 2, "f")
        larger = executor.reshape(data=(count, 5), allow_up_sizing=True)
        larger.forward(is_train=True, data=mx.nd.array(x))
        larger.backward([mx.nd.array(head)])  # that of a loss is not read
        slope = 2 * (1 - np.tanh(x @ W.T) ** 2) + 0.5 * 2 * (x @ W.T)
        np.testing.assert_allclose(larger.grad_dict["data"].asnumpy(), slope @ W, rtol=1e-4)
        counts.append(len(traced))
    assert counts[1:] == counts[1:2] * 4


def test_shared_executor():
    first = bound()
    second = classifier().simple_bind(mx.cpu(), data=X.shape, shared_exec=first)
    assert second.arg_dict["fc_weight"] is first.arg_dict["fc_weight"]
    np.testing.assert_allclose(second.forward()[0].asnumpy(), PROB, rtol=1e-5)


def test_copy_params_from():
    executor = classifier().simple_bind(mx.cpu(), data=X.shape)
    executor.copy_params_from({"fc_weight": mx.nd.array(W, dtype="float64")})
    np.testing.assert_array_equal(executor.arg_dict["fc_weight"].asnumpy(), W)
    with pytest.raises(ValueError, match="nobody"):
        executor.copy_params_from({"nobody": mx.nd.zeros((1,))})
    executor.copy_params_from({"nobody": mx.nd.zeros((1,))}, allow_extra_params=True)


def test_wrong_use():
    executor = bound()
    with pytest.raises(TypeError, match="colour"):
        executor.forward(colour=mx.nd.ones(1))
    with pytest.raises(ValueError, match=r"data.*\(4, 5\).*\(2, 5\)"):
        executor.forward(data=mx.nd.ones((2, 5)))
    executor.forward(is_train=True)
    with pytest.raises(TypeError, match="NDArray"):
        executor.backward([X])
    network = classifier()
    pair = bound(mx.sym.Group([network, network.get_internals()["data"] * 2]))
    pair.forward(is_train=True)
    with pytest.raises(MXNetError, match="1 head gradients for 2"):
        pair.backward([mx.nd.ones((4, 3))])
    with pytest.raises(MXNetError, match=r"head gradient has shape \(2, 3\), but its head has shape \(4, 5\)"):
        pair.backward([mx.nd.ones((4, 3)), mx.nd.ones((2, 3))])
    with pytest.raises(ValueError, match="grad_req"):
        classifier().simple_bind(mx.cpu(), grad_req="often", data=X.shape)


def test_variables_of_the_same_name():
    executor = (mx.sym.var("x") * mx.sym.var("x")).simple_bind(mx.cpu(), x=(2,))
    for name in ("arg_dict", "grad_dict"):
        with pytest.raises(ValueError, match=r"Duplicate names detected, \['x', 'x'\]"):
            getattr(executor, name)
    assert executor.aux_dict == {} and "x" in executor.debug_str()


def test_head_gradients_may_have_more_elements_than_are_read():
    x = mx.sym.var("x")
    executor = mx.sym.exp(mx.sym.sum(x, axis=1)).simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True)
    executor.backward([mx.nd.array([[1, 2, 3], [4, 5, 6]])])
    assert executor.grad_dict["x"].asnumpy().tolist() == [[1] * 3, [2] * 3]


@pytest.mark.parametrize("make, gradient", [
    (mx.sym.BlockGrad, 0), (mx.sym.round, 0), (lambda x: x == 1, 0), (lambda x: mx.sym.MakeLoss(x * 2), 2),
    (lambda x: mx.sym.LinearRegressionOutput(x, mx.sym.zeros((4, 2))), .25), (lambda x: mx.sym.topk(x, k=1), 0)])
def test_head_gradients_that_are_not_read_have_any_shape(make, gradient):
    executor = make(mx.sym.var("x")).simple_bind(mx.cpu(), x=(4, 2))
    executor.forward(is_train=True, x=mx.nd.full((4, 2), .5))
    executor.backward([mx.nd.ones((1,))])
    assert executor.grad_dict["x"].asnumpy().tolist() == [[gradient] * 2] * 4


def test_head_gradients_that_are_read_or_not():
    x, label = mx.sym.var("x"), mx.sym.zeros((4,))
    loss = mx.sym.SoftmaxOutput(x, label)
    executor = mx.sym.Group([x * 2, loss]).simple_bind(mx.cpu(), x=(4, 2))
    for heads in [mx.nd.ones((4, 2))], [mx.nd.ones((4, 2)), mx.nd.ones((3,))]:
        executor.forward(is_train=True)
        executor.backward(heads)
        assert executor.grad_dict["x"].asnumpy().tolist() == [[1.5, 2.5]] * 4
    other = mx.sym.Group([loss, x * 2]).simple_bind(mx.cpu(), x=(4, 2))
    other.forward(is_train=True)
    with pytest.raises(MXNetError, match="1 head gradients for 2 outputs"):
        other.backward([mx.nd.ones((4, 2))])
    constants = (x * 2).simple_bind(mx.cpu(), grad_req="null", x=(4, 2))
    constants.forward(is_train=True)
    constants.backward([mx.nd.ones((1,))])


@pytest.mark.parametrize("kind, other", [("int32", "float16"), ("float32", "int8"), ("int32", "int64")])
def test_casts_pass_gradients(kind, other):
    executor = mx.sym.Cast(mx.sym.var("x", dtype=kind), dtype=other).simple_bind(mx.cpu(), x=(3,))
    executor.forward(is_train=True, x=np.array([1, -2, 3], kind))
    executor.backward([mx.nd.array([4, 5, -6], dtype=other)])
    gradient = executor.grad_dict["x"]
    assert np.dtype(gradient.dtype) == kind and gradient.asnumpy().tolist() == [4, 5, -6]


def test_scale_of_a_loss_when_outputs_are_looked_at_before_the_backward():
    loss = mx.sym.LinearRegressionOutput(mx.sym.var("data"), mx.sym.var("label"), grad_scale=3.0)
    executor = loss.simple_bind(mx.cpu(), data=(2, 2), label=(2, 2), grad_req={"data": "write", "label": "null"})
    for step in range(3):
        executor.forward(is_train=True, data=mx.nd.ones((2, 2)) * step)
        assert executor.outputs[0].asnumpy()[0, 0] == step
        executor.backward()
        np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), 1.5 * step)


# ------------------------------------------------------------------ monitor, devices, mirror, cut
def test_monitor():
    executor, seen = bound(), {}
    executor.set_monitor_callback(lambda name, array: seen.setdefault(name.decode(), array.asnumpy()), monitor_all=True)
    executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_allclose(seen["fc_output"], X @ W.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(seen["softmax_output"], PROB, rtol=1e-5)
    assert {"data", "fc_weight"} <= set(seen)
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), SLOPE, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="callable"):
        executor.set_monitor_callback(3)
    names = []
    executor = mx.sym.Activation(mx.sym.var("data") * 2, "relu", name="act").simple_bind(mx.cpu(), data=(2,))
    executor.set_monitor_callback(lambda name, array: names.append((name.decode(), array.shape)), monitor_all=True)
    executor.reshape(data=(1,)).forward()
    assert [n for n, _ in names][::4] == ["data", "act_output"] and {s for _, s in names} == {(1,)}, \
        "a variable is seen under its own name and as input; reshaped executors are watched too"


def test_group2ctx():
    with mx.AttrScope(ctx_group="first"):
        hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, no_bias=True, name="fc")
    with mx.AttrScope(ctx_group="second"):
        net = mx.sym.SoftmaxOutput(hidden, name="softmax")
    executor = net.simple_bind(mx.cpu(), group2ctx={"first": mx.cpu(1), "second": mx.cpu(2)}, data=X.shape)
    assert executor.outputs[0].context == mx.cpu(2), "before the first forward, too"
    fill(executor)
    assert executor.arg_dict["fc_weight"].context == mx.cpu(1)
    assert executor.forward(is_train=True)[0].context == mx.cpu(2)
    executor.backward()
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), PROB, rtol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), SLOPE, rtol=1e-4, atol=1e-5)


def test_mirror(monkeypatch):
    """With MXNET_BACKWARD_DO_MIRROR the backward computes activations again instead of keeping them."""
    net = mx.sym.Variable("data")
    for _ in range(4):
        net = mx.sym.tanh(mx.sym.exp(net * 0.1))
    results, kept = {}, {}
    for value in ("0", "1"):
        monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", value)
        executor = net.simple_bind(mx.cpu(), data=(256, 1024))
        executor.arg_dict["data"][:] = 0.5
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((256, 1024))])
        results[value] = executor.grad_dict["data"].asnumpy()
        kept[value] = int(executor.debug_str().split("\n")[-3].split()[1])  # as scripts that plan memory read it
    np.testing.assert_allclose(results["0"], results["1"], rtol=1e-6)
    assert kept["1"] < kept["0"]


@mx.operator.register("test_executor_square")
class SquareProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        class Square(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], mx.nd.array(in_data[0].asnumpy()**2))

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])
        return Square()


@pytest.mark.parametrize("look_first", [False, True])
def test_a_custom_operator_cuts_the_graph(look_first):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, no_bias=True, name="fc")
    net = mx.sym.Custom(net * 2, op_type="test_executor_square", name="square") + 1
    executor = bound(mx.sym.sum(net, axis=1), grad_req="add")
    z = X @ W.T
    for _ in range(2):
        executor.forward(is_train=True)
        if look_first:
            executor.outputs[0].asnumpy()
        executor.backward([mx.nd.ones((4,))])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), (4 * z**2 + 1).sum(1), rtol=1e-4)
    np.testing.assert_allclose(executor.grad_dict["fc_weight"].asnumpy(), 2 * (8 * z).T @ X, rtol=1e-3, atol=1e-3)


def _with_a_custom_operator():
    """Layers that draw and have states, on both sides of a custom operator, and a branch around it."""
    net = mx.sym.var("data")
    for k in range(3):
        net = mx.sym.FullyConnected(net, num_hidden=5, name=f"fc{k}")
        net = mx.sym.Dropout(mx.sym.tanh(mx.sym.BatchNorm(net, name=f"norm{k}", fix_gamma=False)), p=0.3)
        if k == 1:
            net = mx.sym.Custom(net * 2, op_type="test_executor_square") + 1 + mx.sym.cos(net)
    return mx.sym.broadcast_add(net, mx.sym.zeros((0, 5)) + mx.sym.var("bias", shape=(1, 5)))


def _stored_by_rows():
    """An unrolled LSTM, whose first states' shapes nothing but their surroundings tells, beside a sparse input."""
    cell = mx.rnn.LSTMCell(4, prefix="lstm_")
    outputs, _ = cell.unroll(3, mx.sym.var("data"), merge_outputs=True)
    words = mx.sym.var("words", stype="csr")
    sums = mx.sym.dot(words, mx.sym.var("table", shape=(7, 3)))
    both = mx.sym.concat(mx.sym.tanh(sums), mx.sym.Flatten(outputs), words)
    return mx.sym.FullyConnected(mx.sym.Dropout(both, p=0.2), num_hidden=2, name="fc")


@pytest.mark.parametrize("make, shapes, most", [
    (_with_a_custom_operator, {"data": (4, 6)}, 2), (_stored_by_rows, {"data": (4, 3, 2), "words": (4, 7)}, 3)],
    ids=["custom", "sparse"])
def test_a_graph_in_parts_is_the_same_graph(programs, make, shapes, most):
    """Outputs, draws, states and gradients are those of calls one by one, which a monitor asks for."""
    found = {}
    for seen in (True, False):
        random, executor = np.random.default_rng(3), make().simple_bind(mx.cpu(), **shapes)
        for name, array in (*executor.arg_dict.items(), *executor.aux_dict.items()):
            value = random.normal(size=array.shape).astype("float32")
            if name == "words":
                value *= random.random(array.shape) < 0.4
                array[:] = mx.nd.array(value).tostype("csr")
            else:
                array[:] = abs(value) if "var" in name else value
        if seen:
            executor.set_monitor_callback(lambda name, array: None)
        mx.random.seed(5)
        results = []
        for _ in range(2):
            programs.clear()
            executor.forward(is_train=True)
            results.append(executor.outputs[0].asnumpy())
            executor.backward([mx.nd.array(random.normal(size=executor.outputs[0].shape))])
            if not seen:
                assert 2 <= len(programs) <= 2 * most, programs
            results += [g.asnumpy() for n, g in executor.grad_dict.items() if n != "words"]
            results += [a.asnumpy() for a in executor.aux_arrays]
        found[seen] = results
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_sparse_arrays_that_sparse_arrays_are_made_of():
    value = np.float32([[0, 1, 0], [0, 0, 0], [2, 0, 3]])
    net = mx.sym.var("x", stype="row_sparse")
    for _ in range(12):
        net = mx.sym.sqrt(net)
    net = mx.sym.sin(mx.sym.cos(net + mx.sym.var("y")) * 2)
    executor = net.simple_bind(mx.cpu(), x=(3, 3), y=(3, 3), grad_req={"x": "null", "y": "write"})
    executor.arg_dict["x"][:] = mx.nd.array(value).tostype("row_sparse")
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3, 3))])
    inner = value**(1 / 4096)
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), np.sin(2 * np.cos(inner)), rtol=1e-4)
    np.testing.assert_allclose(executor.grad_dict["y"].asnumpy(), -2 * np.cos(2 * np.cos(inner)) * np.sin(inner),
                               rtol=1e-4, atol=1e-6)


def test_positions_out_of_range_are_refused_where_the_output_is_looked_at():
    net = mx.sym.take(mx.sym.Variable("data"), mx.sym.Variable("at"), mode="raise") * 2
    executor = net.bind(mx.cpu(), {"data": mx.nd.array(X), "at": mx.nd.array([0, 9])}, {"data": mx.nd.zeros(X.shape)})
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="out of range"):
        executor.outputs[0].asnumpy()
    executor.backward([mx.nd.ones((2, X.shape[1]))])
    executor.forward(is_train=True, at=mx.nd.array([0, 2]))
    executor.backward([mx.nd.ones((2, X.shape[1]))])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), 2 * X[[0, 2]])
    assert executor.grad_dict["data"].asnumpy().sum(1).tolist() == [2 * X.shape[1], 0, 2 * X.shape[1], 0]


@pytest.mark.parametrize("look_first", [False, True])
def test_head_gradients_of_integers_count_for_nothing(look_first):
    executor = mx.sym.shape_array(mx.sym.Variable("data")).bind(mx.cpu(), [mx.nd.ones((3, 4))], [mx.nd.ones((3, 4))])
    outputs = executor.forward(is_train=True)
    if look_first:
        assert outputs[0].asnumpy().tolist() == [3, 4]
    executor.backward([mx.nd.ones((3, 4))])
    assert executor.grad_arrays[0].asnumpy().any() == 0


def test_mistakes_name_the_node():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="the_fc")
    with pytest.raises(MXNetError, match="the_fc"):
        net.bind(mx.cpu(), [mx.nd.ones((2, 5)), mx.nd.ones((3, 4)), mx.nd.ones((3,))])
    with pytest.raises((MXNetError, ValueError), match="fc_weight"):
        classifier().bind(mx.cpu(), {"data": mx.nd.ones((2, 5))})


def test_no_jax_setting_is_changed():
    before = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_platforms", "jax_default_prng_impl")}
    bound().forward()[0].asnumpy()
    assert before == {name: getattr(jax.config, name) for name in before}


@pytest.mark.parametrize("make", [
    lambda x: mx.sym.square(x), lambda x: mx.sym.square(mx.sym.identity(x)),
    lambda x: mx.sym.square(mx.sym.contrib.boolean_mask(x, mx.sym.var("mask")))], ids=["one", "two", "cut"])
def test_backward_after_a_forward_in_prediction_mode(make):
    out = make(mx.sym.var("x"))
    arrays = {"x": mx.nd.array([[1.0, 2], [3, 4]]), "mask": mx.nd.array([1, 1])}
    grad = mx.nd.zeros((2, 2))
    executor = out.bind(mx.cpu(), {n: arrays[n] for n in out.list_arguments()}, args_grad={"x": grad})
    for _ in range(2):
        executor.forward(is_train=False)
        executor.backward(mx.nd.array([[1.0, 1], [1, 2]]))
        assert grad.asnumpy().tolist() == [[2, 4], [6, 16]]
        assert executor.outputs[0].asnumpy().tolist() == [[1, 4], [9, 16]]


def test_backward_in_prediction_mode_knows_what_was_drawn():
    executor = mx.sym.Dropout(mx.sym.var("x"), mode="always").simple_bind(mx.cpu(), x=(100,))
    executor.arg_dict["x"][:] = 1
    executor.forward(is_train=False)
    executor.backward(mx.nd.ones(100))
    out = executor.outputs[0].asnumpy()
    assert set(out.tolist()) == {0, 2}
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), out)


def test_head_gradients_without_elements():
    executor = mx.sym.contrib.index_array(mx.sym.var("x"), axes=(0, 1)).bind(
        mx.cpu(), {"x": mx.nd.array(np.zeros((0, 2, 3)))}, args_grad={"x": mx.nd.array(np.zeros((0, 2, 3)))})
    executor.forward(is_train=True)
    assert executor.outputs[0].shape == (0, 2, 3, 2)
    executor.backward(mx.nd.array(np.ones((0, 2))))
    assert executor.grad_dict["x"].shape == (0, 2, 3)


@pytest.mark.parametrize(("operator", "given", "gradient"), [
    ("MakeLoss", "n_data", "n_backward_data"), ("LeakyReLU", "n_data", "n_backward_output"),
    ("IdentityAttachKLSparseReg", "n_data", "n_backward_data"), ("relu", "n_input0", "n_backward_output")])
def test_monitors_name_arrays_as_mxnet(operator, given, gradient):
    """Gradients of operators of MXNet's first interface are named like the inputs."""
    executor = getattr(mx.sym, operator)(mx.sym.var("data"), name="n").simple_bind(mx.cpu(), data=(2, 3))
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append(name.decode()), monitor_all=True)
    executor.forward(is_train=True)
    assert seen[:2] == ["data", given]
    executor.backward(mx.nd.ones((2, 3)))
    assert seen[-1] == gradient


def test_a_monitor_sees_what_backward_reads():
    """Names as MXNet gives them; values: gradients, inputs and outputs of the operator."""
    data = mx.sym.var("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), act_type="tanh", name="act")
    out = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(hidden, num_hidden=1, name="fc2"), name="out")
    executor = out.simple_bind(mx.cpu(), data=(2, 3), out_label=(2, 1))
    for name, array in executor.arg_dict.items():
        array[:] = np.linspace(-0.5, 0.6, array.size).reshape(array.shape) + len(name) / 10
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name.decode(), array)), monitor_all=True)
    executor.forward(is_train=True)
    forward = dict(seen)
    seen.clear()
    executor.backward()
    assert [name for name, _ in seen] == [
        "out_label", "out_backward_input0", "out_backward_input1", "out_backward_output0", "out_backward_output1",
        "fc2_backward_input0", "fc2_backward_input1", "fc2_weight", "fc2_backward_input2", "fc2_backward_output0",
        "fc2_backward_output1", "fc2_backward_output2", "act_backward_input0", "act_backward_input1",
        "act_backward_input2", "act_backward_output", "fc_backward_input0", "data", "fc_backward_input1", "fc_weight",
        "fc_backward_input2", "fc_backward_output0", "fc_backward_output1", "fc_backward_output2"]
    shown = {name: array.asnumpy() for name, array in seen}
    np.testing.assert_array_equal(shown["fc2_backward_input0"], shown["out_backward_output0"])
    np.testing.assert_array_equal(shown["fc2_backward_input1"], forward["act_output"].asnumpy())
    np.testing.assert_array_equal(shown["act_backward_input1"], forward["act_output"].asnumpy())
    np.testing.assert_array_equal(shown["act_backward_input2"], forward["fc_output"].asnumpy())
    np.testing.assert_allclose(shown["act_backward_output"], shown["act_backward_input0"] * (
        1 - shown["act_backward_input1"] ** 2), rtol=1e-5, atol=1e-6)


_SX, _SW, _BY_ROWS = mx.sym.Variable("x"), mx.sym.Variable("w"), {"w": "row_sparse"}


@pytest.mark.parametrize("symbol, shapes, stypes, expected", [
    (mx.sym.abs(_SW), {}, _BY_ROWS, "row_sparse"),
    (mx.sym.abs(_SW), {}, {}, "default"),
    (-_SW * 2, {}, _BY_ROWS, "row_sparse"),
    (_SW - 1, {}, _BY_ROWS, "default"),
    (mx.sym.sin(_SW), {}, _BY_ROWS, "default"),
    (mx.sym.sum(_SW), {}, _BY_ROWS, "default"),
    (mx.sym._internal._square_sum(_SW, axis=1), {}, _BY_ROWS, "row_sparse"),
    (mx.sym.elemwise_add(_SW, mx.sym.abs(_SW)), {}, _BY_ROWS, "row_sparse"),
    (mx.sym.elemwise_add(_SW, _SX), {}, _BY_ROWS, "default"),
    (mx.sym.elemwise_mul(_SW, _SW), {}, _BY_ROWS, "default"),
    (mx.sym.dot(_SX, _SW), {"x": (2, 4)}, {"x": "csr", **_BY_ROWS}, "row_sparse"),
    (mx.sym.dot(mx.sym.square(_SX), mx.sym.square(_SW)), {"x": (2, 4)}, {"x": "csr", **_BY_ROWS}, "row_sparse"),
    (mx.sym.dot(mx.sym.cast_storage(_SX, "csr"), _SW), {"x": (2, 4)}, {}, "row_sparse"),
    (mx.sym.dot(_SX, _SW), {"x": (2, 4)}, _BY_ROWS, "default"),
    (mx.sym.Embedding(_SX, _SW, input_dim=4, output_dim=3), {"x": (2,)}, _BY_ROWS, "default"),
    (mx.sym.Embedding(_SX, _SW, input_dim=4, output_dim=3, sparse_grad=True), {"x": (2,)}, {}, "row_sparse"),
    (mx.sym.sum(mx.sym.Embedding(_SX, _SW, input_dim=4, output_dim=3, sparse_grad=True)) + mx.sym.sum(_SW),
     {"x": (2,)}, _BY_ROWS, "default"),
])
def test_storage_types_of_gradients(symbol, shapes, stypes, expected):
    executor = symbol.simple_bind(mx.cpu(), w=(4, 3), stype_dict=stypes, **shapes)
    assert executor.grad_dict["w"].stype == expected
