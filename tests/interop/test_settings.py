"""JAX's settings that a user may have changed for own code: what mxjax computes stays what it is."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn
from mxjax.passes import division

from ..internals import forget_calls

SETTINGS = {
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "no jit": jax.disable_jit,
    "transfers": lambda: jax.transfer_guard("disallow"),
    "nans": lambda: jax.debug_nans(True),
    "leaks": jax.checking_leaks,
    "wide": lambda: jax.enable_x64(True),
}
setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


def trained(hybridized):
    """Losses and weights of a small network after three steps, and what its metric says."""
    mx.random.seed(1)
    np.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Embedding(20, 6), nn.Dense(8, activation="tanh", flatten=False), nn.LayerNorm(), nn.BatchNorm(axis=2),
            nn.Dropout(0.3), nn.Dense(4))
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    x = mx.nd.array(np.random.randint(0, 20, (8, 5)))
    y = mx.nd.array(np.random.randint(0, 4, 8))
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    metric, losses = mx.metric.Accuracy(), []
    for _ in range(3):
        with autograd.record():
            out = net(x)
            loss = loss_of(out, y)
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values() if p.grad_req != "null"], 1.0)
        trainer.step(8)
        metric.update([y], [out])
        losses.append(loss.asnumpy())
    return [*losses, np.array(metric.get()[1]), *[p.data().asnumpy() for p in net.collect_params().values()]]


def test_a_division_is_one_call_without_jit():
    """Its equation is kept for later programs."""
    forget_calls(division)
    with jax.disable_jit():
        x, lengths = mx.nd.ones((1, 2, 3)), mx.nd.array([[1, 2, 2]], dtype="int32")
        found = mx.nd.softmax(x, length=lengths, axis=1, use_length=True).asnumpy()
        assert division.is_quotient(division.equation_of((1, 2, 3), (1, 1, 3), np.dtype("float32"), True, True))
    np.testing.assert_allclose(found[0, 0], [1, 0.5, 0.5])


def gradients():
    """Gradients of operators that have them of their own."""
    x = mx.nd.arange(96).reshape((2, 4, 3, 4)) / 50
    w, shift, sequence = mx.nd.ones((4, 1, 3, 3)) / 7, mx.nd.ones(4), mx.nd.arange(24).reshape((3, 2, 4)) / 20
    weights, state = mx.nd.ones(4 * 3 * 4 + 4 * 3 * 3 + 24) / 9, mx.nd.ones((1, 2, 3)) / 3
    given = [x, w, shift, sequence, weights, state]
    for one in given:
        one.attach_grad()
    with autograd.record():
        y = mx.nd.Convolution(x, w, shift, kernel=(3, 3), num_filter=4, num_group=4)
        z = mx.nd.BatchNorm(mx.nd.LRN(x, nsize=3), shift, shift, mx.nd.zeros(4), mx.nd.ones(4), fix_gamma=False)
        r = mx.nd.RNN(sequence, weights, state, state, state_size=3, num_layers=1, mode="lstm")
        taken = mx.nd.Embedding(mx.nd.array([1, 0]), w.reshape((4, 9)), 4, 9)
        loss = (y * y).sum() + (z * x).sum() + (r * r).sum() + taken.sum()
    loss.backward()
    return [one.grad.asnumpy() for one in given]


def operators():
    """What operators give whose formulas mix ranks and dtypes."""
    x = mx.nd.arange(24).reshape((2, 3, 4)) / 7
    x.attach_grad()
    with autograd.record():
        y = mx.nd.softmax(x, length=mx.nd.array([[2, 3, 1, 3], [1, 2, 3, 3]], dtype="int32"), axis=1, use_length=True)
        z = mx.nd.linalg.gemm2(y, x, transpose_b=True) + mx.nd.take(x, mx.nd.array([1, 0]), axis=2).sum()
        z = z * mx.nd.SequenceMask(z, mx.nd.array([1, 2, 1]), use_sequence_length=True)
    z.backward()
    parts = [y, z, x.grad, x[1, 1:, ::2], x > 1, mx.nd.topk(x, k=2, ret_typ="both")[1], mx.nd.where(x > 1, x, -x),
             mx.nd.one_hot(mx.nd.array([1, 2]), 4, dtype="int32") + 1, mx.np.add(mx.np.ones((2, 1)), mx.np.arange(3)),
             mx.np.array([1, 2], dtype="int32") / 2, mx.nd.random.uniform(shape=(0,))]
    x[0] = 5
    x[:, 1] *= mx.nd.arange(4)
    return [part.asnumpy() for part in [*parts, x]]


@setting
@pytest.mark.parametrize("work", [lambda: trained(False), lambda: trained(True), operators, gradients],
                         ids=["imperative", "hybridized", "operators", "gradients"])
def test_numbers_do_not_depend_on_a_users_settings(work, setting):
    expected = work()
    with setting():
        found = work()
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("setting", [s for n, s in SETTINGS.items() if n != "transfers"],  # `jax.grad` itself has some
                         ids=[n for n in SETTINGS if n != "transfers"])
def test_gradients_by_jax_through_operators(setting):
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def loss(value):
        a = mx.nd.from_jax(value)
        return (mx.nd.softmax(mx.nd.Activation(a, act_type="softsign")) * mx.nd.arange(4)).sum().to_jax()[0]

    value = jnp.asarray(x)
    expected = jax.grad(loss)(value)
    with setting():
        found = jax.grad(loss)(value)
    np.testing.assert_allclose(expected, found, rtol=2e-5, atol=1e-6)


def test_own_code_keeps_a_users_settings():
    with jax.numpy_rank_promotion("raise"):
        mx.nd.softmax(mx.nd.ones((2, 3)))
        with pytest.raises(ValueError, match="rank"):
            jnp.ones((2, 3)) + jnp.ones(3)


_DEVICES = """
import jax
import jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
import mxjax as mx
a, other = mx.nd.array([1.0, 2.0]), mx.nd.ones((2,), ctx=mx.cpu(1))
net = mx.gluon.nn.Dense(2, in_units=2)
net.initialize()
for given in jax.devices()[2], "cpu":
    with jax.default_device(given):
        made = [a, a * 2, a + mx.nd.ones(2), mx.nd.array([3.0]), mx.nd.random.uniform(shape=(2,)), other, other * 3]
        a[:] = 5
        a += 1
        with mx.autograd.record():
            loss = net(a.reshape((1, 2))).sum()
        loss.backward()
        made += [a, loss, net.weight.grad(), mx.nd.from_jax(jnp.ones(2))]
    for array in [*made, made[-1] * 2]:
        assert array.to_jax().devices() == {array.context.jax_device}, (given, array.context, array.to_jax().devices())
    assert a.asnumpy().tolist() == [6, 6]
"""


def test_arrays_stay_where_their_context_says():
    done = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
