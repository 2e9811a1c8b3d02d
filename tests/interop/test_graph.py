"""`symbol.to_jax()`: a graph as a pure function under jit, grad, vmap and shard_map; symbols bound to JAX functions."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype("float32")
LABEL = np.float32([0, 1, 2, 1])


def net():
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    symbol = mx.sym.BatchNorm(symbol, fix_gamma=False, momentum=0.5, name="bn")
    return mx.sym.FullyConnected(mx.sym.Activation(symbol, act_type="tanh"), num_hidden=3, name="fc2")


def values(symbol):
    args, _, aux = symbol.infer_shape(data=X.shape)
    rng = np.random.default_rng(1)
    made = {n: jnp.asarray(rng.normal(size=s), "float32") for n, s in zip(symbol.list_arguments(), args, strict=True)}
    states = {n: jnp.ones(s) for n, s in zip(symbol.list_auxiliary_states(), aux, strict=True)}
    return {**made, "data": jnp.asarray(X)}, states


def executed(symbol, args, aux, train):
    executor = symbol.bind(mx.cpu(), {n: mx.nd.NDArray(v) for n, v in args.items()},
                           args_grad={n: mx.nd.zeros(v.shape) for n, v in args.items()},
                           aux_states={n: mx.nd.NDArray(v) for n, v in aux.items()})
    out = executor.forward(is_train=train)[0]
    if train:
        executor.backward([mx.nd.ones(out.shape)])
    return executor


@pytest.mark.parametrize("train", [False, True])
def test_same_numbers_as_the_executor(train):
    symbol = net()
    args, aux = values(symbol)
    function = symbol.to_jax()
    assert function.arg_names == symbol.list_arguments() and function.output_names == ["fc2_output"]
    outputs, states = jax.jit(function, static_argnames="train")(args, aux, train=train)
    executor = executed(symbol, args, aux, train)
    np.testing.assert_allclose(outputs[0], executor.outputs[0].asnumpy(), rtol=1e-4, atol=1e-5)
    for name, state in states.items():
        np.testing.assert_allclose(state, executor.aux_dict[name].asnumpy(), rtol=1e-4, atol=1e-5)
    assert (np.asarray(states["bn_moving_mean"]) != 1).any() == train
    plain, _ = function({n: mx.nd.NDArray(v) for n, v in args.items()}, aux, train=train)
    np.testing.assert_allclose(plain[0], outputs[0], rtol=1e-4, atol=1e-5)


def test_grad():
    symbol = net()
    args, aux = values(symbol)
    function = symbol.to_jax()
    slopes = jax.grad(lambda a: function(a, aux, train=True)[0][0].sum())(args)
    executor = executed(symbol, args, aux, True)
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, executor.grad_dict[name].asnumpy(), rtol=1e-3, atol=1e-4)


def test_vmap():
    symbol = net()
    args, aux = values(symbol)
    function = symbol.to_jax()
    rows = jax.vmap(lambda row: function({**args, "data": row[None]}, aux)[0][0][0])(args["data"])
    np.testing.assert_allclose(rows, function(args, aux)[0][0], rtol=1e-4, atol=1e-5)


def test_loss_outputs_keep_mxnets_gradient():
    symbol = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), mx.sym.Variable("label"))
    function = symbol.to_jax()
    data = jnp.asarray(X[:, :3])
    slope = jax.grad(lambda d: function({"data": d, "label": LABEL}, train=True)[0][0].sum())(data)
    np.testing.assert_allclose(slope, jax.nn.softmax(data) - np.eye(3)[LABEL.astype(int)], rtol=1e-5, atol=1e-6)


def test_random_numbers():
    function = mx.sym.Dropout(mx.sym.Variable("data"), p=0.5).to_jax()
    ones = {"data": jnp.ones((100,))}
    draw = jax.jit(lambda key: function(ones, rng=key, train=True)[0][0])
    first, again, other = draw(jax.random.key(0)), draw(jax.random.key(0)), draw(jax.random.PRNGKey(1))
    np.testing.assert_array_equal(first, again)
    assert (np.asarray(first) != np.asarray(other)).any() and set(np.unique(first)) == {0, 2}
    np.testing.assert_array_equal(function(ones)[0][0], np.ones(100))


def test_what_is_missing_is_named():
    symbol = net()
    args, aux = values(symbol)
    function = symbol.to_jax()
    del args["fc2_bias"]
    with pytest.raises(MXNetError, match="args lacks fc2_bias"):
        function(args, aux)
    with pytest.raises(MXNetError, match="aux lacks bn_moving_mean"):
        function({**args, "fc2_bias": jnp.zeros(3)}, {})


def test_a_graph_that_is_no_program():
    symbol = mx.sym.contrib.boolean_mask(mx.sym.Variable("data"), mx.sym.Variable("index"), name="mask")
    with pytest.raises(MXNetError, match="mask"):
        symbol.to_jax()


_SHARDED = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
from jax.sharding import Mesh, PartitionSpec as P
import mxjax as mx
net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
f = net.to_jax()
rng = np.random.default_rng(0)
w, b = rng.normal(size=(3, 5)).astype("float32"), rng.normal(size=3).astype("float32")
x = rng.normal(size=(8, 5)).astype("float32")
mesh = Mesh(np.array(jax.devices()), ("batch",))
def local(params, x):
    return jax.lax.psum((f({**params, "data": x})[0][0] ** 2).sum(), "batch")
loss = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("batch")), out_specs=P())
params = {"fc_weight": jnp.asarray(w), "fc_bias": jnp.asarray(b)}
value, slopes = jax.jit(jax.value_and_grad(loss))(params, x)
z = x @ w.T + b
np.testing.assert_allclose(value, (z ** 2).sum(), rtol=1e-5)
np.testing.assert_allclose(slopes["fc_weight"], 2 * z.T @ x, rtol=1e-4)
print("good")
"""


def test_shard_map():
    done = subprocess.run([sys.executable, "-c", _SHARDED], capture_output=True, text=True, timeout=200)
    assert done.stdout.endswith("good\n"), done.stderr[-3000:]
