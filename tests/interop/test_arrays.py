"""NDArrays in plain JAX code and back: no copies, tracers inside NDArrays, no writes from a foreign trace."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mxjax as mx
from mxjax import interop
from mxjax.base import MXNetError

X = np.float32([[0.5, -1, 2], [3, 0.25, -0.5]])


def program(x, w):
    """Something a user of MXNet would write: operators, methods, indexing, in-place changes."""
    y = mx.nd.dot(x, w)
    y += 1
    y[0] = y[1] * 2
    z = mx.nd.zeros((2,))
    z[:] = y.sum(axis=1)
    return mx.nd.tanh(y).reshape((-1,))[1:3] + z


def plain(x, w):
    y = x @ w + 1
    y = np.stack([y[1] * 2, y[1]])
    return np.tanh(y).reshape(-1)[1:3] + y.sum(1)


W = np.float32([[1, 0.5], [0.25, -1], [0.1, 0.2]])


def test_no_copies():
    array = mx.nd.array(X)
    value = array.to_jax()
    assert isinstance(value, jax.Array) and value.unsafe_buffer_pointer() == array.to_jax().unsafe_buffer_pointer()
    back = interop.from_jax(value)
    assert back.to_jax() is value and interop.to_jax_array(back) is value
    back += 1
    np.testing.assert_array_equal(np.asarray(value), X, err_msg="a jax.Array never changes")
    np.testing.assert_array_equal(array.asnumpy(), X)
    params = interop.params_to_jax({"w": array})
    assert interop.params_from_jax(params)["w"].shape == (2, 3)


def test_jit():
    compiled = jax.jit(program)
    for _ in range(2):
        result = compiled(mx.nd.array(X), mx.nd.array(W))
        assert isinstance(result, mx.nd.NDArray)
        np.testing.assert_allclose(result.asnumpy(), plain(X, W), rtol=1e-5)
    raw = jax.jit(lambda x, w: program(mx.nd.NDArray(x), mx.nd.NDArray(w)).to_jax())(X, W)
    np.testing.assert_allclose(raw, plain(X, W), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_64_bits_stay_wide_within_a_transformation(dtype, at_once):
    value, wide = mx.nd.array([2**40 + 1, 3], dtype=dtype), np.dtype(dtype)
    with jax.enable_x64(True):
        result = jax.jit(lambda x: mx.nd.relu(x + 1) * 2)(value)
    assert result.dtype == wide and result.asnumpy().tolist() == [2**41 + 4, 8]
    leaves, tree = jax.tree_util.tree_flatten(value)
    again = jax.tree_util.tree_unflatten(tree, leaves)
    assert again.sum().dtype == wide and again.sum().asnumpy().tolist() == [2**40 + 4]


def test_grad_and_value_and_grad():
    def loss(w):
        return program(mx.nd.array(X), w).sum().to_jax()[0]
    slope = jax.grad(loss)(mx.nd.array(W))
    assert isinstance(slope, mx.nd.NDArray) and slope.shape == W.shape
    step = 1e-2
    for place in ((0, 0), (2, 1)):
        moved = [W.astype("float64"), W.astype("float64")]
        moved[0][place] += step
        moved[1][place] -= step
        wanted = (plain(X, moved[0]).sum() - plain(X, moved[1]).sum()) / (2 * step)
        np.testing.assert_allclose(slope.asnumpy()[place], wanted, rtol=1e-2)
    hessian = jax.jacfwd(jax.grad(lambda x: (mx.nd.NDArray(x)**3).sum().to_jax()[0]))(jnp.float32([1, 2]))
    np.testing.assert_allclose(hessian, [[6, 0], [0, 12]], rtol=1e-5)


def test_vmap():
    batch = np.stack([X, X + 1, X * 2])
    mapped = jax.vmap(program, in_axes=(0, None))(mx.nd.array(batch), mx.nd.array(W))
    np.testing.assert_allclose(mapped.asnumpy(), [plain(x, W) for x in batch], rtol=1e-5)


def test_scan_and_cond():
    def step(carry, x):
        carry = mx.nd.tanh(carry + x)
        return carry, carry * 2
    last, rows = jax.lax.scan(step, mx.nd.zeros((3,)), mx.nd.array(X))
    wanted = np.tanh(np.tanh(X[0]) + X[1])
    np.testing.assert_allclose(last.asnumpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(rows.asnumpy()[1], 2 * wanted, rtol=1e-5)


def test_jax_functions_take_ndarrays():
    array = mx.nd.array(X)
    np.testing.assert_allclose(jnp.sum(array), X.sum(), rtol=1e-6)
    np.testing.assert_allclose(jax.nn.relu(array.to_jax()), np.maximum(X, 0))
    assert jax.tree.map(lambda leaf: leaf.shape, jax.tree.leaves({"a": array})) == [(2, 3)]
    doubled = jax.tree.map(lambda leaf: leaf * 2, {"a": array})
    assert isinstance(doubled["a"], mx.nd.NDArray) and doubled["a"].context == array.context


def test_64_bits_pass_through():
    wide = mx.nd.array([1 + 2.0**-45], dtype="float64")
    value = wide.to_jax()
    assert value.dtype == np.float64
    with jax.enable_x64(True):
        assert jax.jit(lambda a: a * 2)(wide).dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_writes_from_a_foreign_trace_are_refused():
    outer = mx.nd.zeros((2, 3))

    def assign(x):
        outer[:] = mx.nd.NDArray(x)
        return x

    def add(x):
        nonlocal outer
        outer += mx.nd.NDArray(x)
        return x

    def view(x):
        outer[0] = mx.nd.NDArray(x)[0]
        return x

    def output(x):
        mx.nd.sqrt(mx.nd.NDArray(x), out=outer)
        return x
    for function in (assign, add, view, output):
        for transform in (jax.jit, lambda f: jax.grad(lambda x: f(x).sum()), jax.vmap):
            with pytest.raises(MXNetError, match="outside a JAX transformation"):
                transform(function)(jnp.ones((2, 3)) if transform is not jax.vmap else jnp.ones((4, 2, 3)))
        np.testing.assert_array_equal(outer.asnumpy(), np.zeros((2, 3)))


def test_looking_at_a_tracer():
    for look in (lambda a: a.asnumpy(), lambda a: a.asscalar(), lambda a: float(a), lambda a: bool(a.sum() > 0)):
        with pytest.raises(MXNetError, match="inside a JAX transformation"):
            jax.jit(lambda x, look=look: look(mx.nd.NDArray(x)[0:1]))(jnp.ones((3,)))
    jax.jit(lambda x: repr(mx.nd.NDArray(x)) and x)(jnp.ones(2))


def test_recorded_gradients_and_jax_gradients_agree():
    w = mx.nd.array(W)
    w.attach_grad()
    with mx.autograd.record():
        y = mx.nd.tanh(mx.nd.dot(mx.nd.array(X), w)).sum()
    y.backward()
    jax_slope = jax.grad(lambda w: mx.nd.tanh(mx.nd.dot(mx.nd.array(X), w)).sum().to_jax()[0])(mx.nd.array(W))
    np.testing.assert_allclose(w.grad.asnumpy(), jax_slope.asnumpy(), rtol=1e-5)


def test_optax():
    params = {"w": mx.nd.array(W)}
    optimizer = optax.adam(0.1)
    states = optimizer.init(params)

    @jax.jit
    def step(params, states):
        slopes = jax.grad(lambda p: mx.nd.square(mx.nd.dot(mx.nd.array(X), p["w"])).sum().to_jax()[0])(params)
        updates, states = optimizer.update(slopes, states, params)
        return optax.apply_updates(params, updates), states
    losses = []
    for _ in range(30):
        params, states = step(params, states)
        losses.append(mx.nd.square(mx.nd.dot(mx.nd.array(X), params["w"])).sum().asscalar())
    assert losses[-1] < losses[0] / 5
