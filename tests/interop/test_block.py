"""Gluon blocks as pure JAX functions and as StableHLO files."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

X = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")


def network():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(6, activation="tanh"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dropout(0.5),
                mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Uniform(0.5))
    return net


def test_values_states_and_gradients():
    net = network()
    apply, params, aux = net.to_jax(mx.nd.array(X))
    assert sorted(aux) == ["net_batchnorm0_running_mean", "net_batchnorm0_running_var"]
    out, same = jax.jit(apply)(params, aux, X)
    np.testing.assert_allclose(out, net(mx.nd.array(X)).asnumpy(), rtol=1e-5, atol=1e-6)
    assert all((same[n] == aux[n]).all() for n in aux)
    net[2]._rate = 0.0  # so that both draw the same (nothing)
    net._clear_cached_op()
    apply, params, aux = net.to_jax(mx.nd.array(X))
    with mx.autograd.record():
        loss = net(mx.nd.array(X)).square().sum()
    loss.backward()
    grads, states = jax.grad(lambda p: (lambda o, s: ((o ** 2).sum(), s))(*apply(p, aux, X, train=True)),
                             has_aux=True)(params)
    for name, param in net.collect_params(".*weight|.*bias|.*gamma").items():
        np.testing.assert_allclose(grads[name], param.grad().asnumpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(states["net_batchnorm0_running_mean"],
                               net[1].running_mean.data().asnumpy(), rtol=1e-5, atol=1e-6)


def test_random_numbers_come_from_the_key():
    apply, params, aux = network().to_jax(mx.nd.array(X))
    a, b, c = (apply(params, aux, X, rng=jax.random.key(k), train=True)[0] for k in (1, 1, 2))
    assert (a == b).all() and (a != c).any()


def test_structures_and_mistakes():
    class Two(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, pair):
            return [x + pair[0], (x * pair[1],)]
    block = Two()
    with pytest.raises(MXNetError, match="pass example inputs"):
        block.to_jax()
    one = mx.nd.ones((2,))
    apply, params, aux = block.to_jax(one, [one, one])
    assert params == {} and aux == {}
    (a, (b,)), _ = apply({}, {}, jnp.ones(2), [jnp.ones(2) * 2, jnp.ones(2) * 3])
    assert a.tolist() == [3, 3] and b.tolist() == [3, 3]
    with pytest.raises(MXNetError, match="grouped"):
        apply({}, {}, jnp.ones(2), jnp.ones(2))


def test_a_file_that_plain_jax_runs(tmp_path):
    net = network()
    expected = net(mx.nd.array(X)).asnumpy()
    path = mx.interop.export_block(net, tmp_path / "net.stablehlo", mx.nd.array(X), dynamic_batch=True)
    np.save(tmp_path / "x.npy", X[:3])
    code = (f"import jax.export, sys, numpy as np; f = jax.export.deserialize(open({path!r}, 'rb').read());"
            f"np.save({str(tmp_path / 'y.npy')!r}, f.call(np.load({str(tmp_path / 'x.npy')!r})));"
            "assert 'mxjax' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected[:3], rtol=1e-5, atol=1e-6)
