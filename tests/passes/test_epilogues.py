"""Predictions whose convolutions do what follows them, and what is kept of weights: the numbers of those without."""

import functools
import gc
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from marks import needs_onednn

import mxjax as mx
from mxjax.kernel.compiled import Compiled
from mxjax.passes import channels_last, convolutions, epilogues, onednn
from mxjax.passes.rewriting import rewritten

from ..internals import derived_of, holds_derived

pytestmark = needs_onednn
RANDOM = np.random.default_rng(5)


def normal(*shape):
    return jnp.asarray(RANDOM.normal(size=shape).astype("float32"))


DATA, IMAGE, VOLUME = normal(2, 4, 6, 5), normal(2, 4, 6, 5), normal(2, 4, 5, 4, 3)
WEIGHT, VECTOR, OTHER = normal(4, 4, 3, 3), normal(4, 1, 1), normal(4)


def conv(x, w=WEIGHT, **given):
    return lax.conv_general_dilated(x, w, *(given.pop("strides", [1] * (x.ndim - 2)), "SAME"), **given)


def normalized(x):
    return (x - VECTOR) * (lax.rsqrt(jnp.abs(OTHER.reshape(4, 1, 1)) + 1e-3) * VECTOR) + OTHER.reshape(1, 4, 1, 1)


def twice(x):
    made = conv(x)
    return jax.nn.relu(made) + jnp.tanh(made)


CASES = {  # the function, and what its convolutions do
    "a bias": (lambda x: conv(x) + VECTOR, ["BIAS"]),
    "a bias and a relu": (lambda x: jnp.maximum(conv(x) + VECTOR, 0), ["BIAS RELU"]),
    "normalized": (lambda x: normalized(conv(x)), ["BIAS"]),
    "normalized, with a shortcut": (lambda x: jax.nn.relu(normalized(conv(x)) + x), ["BIAS BINARY_ADD RELU"]),
    "a shortcut first": (lambda x: jax.nn.relu(x + conv(x)), ["BINARY_ADD RELU"]),
    "two convolutions added": (lambda x: jax.nn.relu(normalized(conv(x)) + conv(jnp.tanh(x)) * VECTOR),
                               ["BIAS BINARY_ADD RELU", ""]),
    "numbers": (lambda x: (conv(x) * 2 + 3) * VECTOR - 0.5, ["BIAS"]),
    "a factor alone": (lambda x: conv(x) * VECTOR, [""]),
    "behind a shortcut": (lambda x: (conv(x) + x) * VECTOR, ["BINARY_ADD"]),
    "two shortcuts": (lambda x: conv(x) + x + IMAGE, ["BINARY_ADD"]),
    "a function": (lambda x: jax.jit(jax.nn.relu)(jax.jit(normalized)(conv(x))), ["BIAS RELU"]),
    "one behind the other": (lambda x: conv(jax.nn.relu(conv(x) + VECTOR)) + OTHER.reshape(4, 1, 1),
                             ["BIAS RELU", "BIAS"]),
    "read twice": (twice, []),
    "subtracted": (lambda x: VECTOR - conv(x), []),
    "another bound": (lambda x: jnp.maximum(conv(x), 0.5), []),
    "a result of the program": (lambda x: (made := conv(x), made + VECTOR), []),
    "groups": (lambda x: jax.nn.relu(normalized(conv(x, WEIGHT[:, :2], feature_group_count=2, strides=(2, 1))) +
                                     conv(x, strides=(2, 1))), ["BIAS BINARY_ADD RELU"]),
    "one dimension": (lambda x: jax.nn.relu(conv(x[:, :, 0], WEIGHT[:, :, 0]) * VECTOR[:, 0] + OTHER[:, None]),
                      ["BIAS RELU"]),
    "three dimensions": (lambda x: jax.nn.relu(conv(VOLUME, WEIGHT[..., None]) * VECTOR[..., None] + VOLUME),
                         ["BINARY_ADD RELU"]),
}
PASSES = channels_last.with_channels_last, epilogues.with_epilogues, functools.partial(
    convolutions.with_fast_convolutions, library=True)


def close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_numbers(monkeypatch, name):
    function, expected = CASES[name]
    asked = []
    epilogues.fused.cache_clear()
    monkeypatch.setattr(epilogues, "by_onednn", lambda *a: asked.append(" ".join(a[4])) or onednn.by_onednn(*a))
    close(jax.jit(rewritten(function, *PASSES))(DATA), function(DATA))
    assert sorted(asked) == sorted(expected)


def test_training_stays():
    def value(w):
        return jnp.sum(jnp.sin(normalized(conv(DATA, w))))
    closed = channels_last.with_channels_last(jax.make_jaxpr(jax.value_and_grad(value))(WEIGHT))
    assert epilogues.with_epilogues(closed) is closed
    assert epilogues.with_epilogues(other := jax.make_jaxpr(jnp.sin)(DATA)) is other


def network(x, w, scale, shift):
    return jax.nn.relu(conv(x, w) * scale[:, None, None] + shift[:, None, None]) * 2


@pytest.fixture
def made(monkeypatch):
    """Counts how often something was made of weights."""
    count, original = [], epilogues.WeightCache.__init__

    def counting(self, places, before):
        original(self, places, lambda *weights: count.append(1) or before(*weights))
    monkeypatch.setattr(epilogues.WeightCache, "__init__", counting)
    return count


def parameters(factor=1.0):
    return [jnp.asarray(factor * np.asarray(a)) for a in (normal(64, 16, 3, 3), normal(64), normal(64))]


def images(count):
    return normal(count, 16, 20, 20)


@pytest.mark.usefixtures("at_once")
def test_what_is_made_of_weights_is_kept_while_they_are_the_same(made):
    program, first = Compiled(network), parameters()
    for _ in range(3):
        x = images(4)
        close(program(x, *first), network(x, *first))
    assert len(made) == 1
    second = [first[0] + 1, *first[1:]]
    for weights in (second, second, first):
        close(program(x, *weights), network(x, *weights))
    assert len(made) == 3
    derived, = derived_of(program).values()
    assert holds_derived(derived)
    del second, weights, first[0]
    for _ in range(100):  # a program that still runs may hold them
        gc.collect()
        if not holds_derived(derived):
            break
        time.sleep(0.05)
    assert not holds_derived(derived)  # as weights go, so does what was made of them


@pytest.mark.usefixtures("at_once")
def test_batches_of_every_size_share_it(made):
    program, weights = Compiled(network), parameters()
    for count in (4, 6, 4):
        x = images(count)
        close(program(x, *weights), network(x, *weights))
    assert len(derived_of(program)) == 1
    assert len(made) == 1


@pytest.mark.usefixtures("at_once")
def test_trees_and_numpy_arrays(made):
    weights, x = parameters(), images(4)
    program = Compiled(lambda given, x: {"out": network(x, *given)})
    for given in (weights, weights, [np.asarray(w) for w in weights]):
        close(program(given, x)["out"], network(x, *weights))
    as_executors = Compiled(lambda args, aux, key, more: network(*args))  # as many arrays as arguments
    close(as_executors([x, *weights], [], (), None), network(x, *weights))
    assert len(made) >= 2


def test_threads_with_weights_of_their_own():
    program, x, wrong = Compiled(network), images(4), []
    each = [parameters(i) for i in (1.0, 2.0, 3.0)]
    expected = [network(x, *weights) for weights in each]

    def work(i):
        for _ in range(20):
            if not np.allclose(program(x, *each[i]), expected[i], atol=1e-5 * np.max(expected[i])):
                wrong.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_a_network_that_is_trained_in_between():
    net = mx.gluon.nn.HybridSequential()
    nn = mx.gluon.nn
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=16), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(8, 3, in_channels=32), nn.GlobalAvgPool2D(), nn.Flatten())
    net.initialize(ctx=mx.cpu())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02, "momentum": 0.9})
    x = mx.nd.array(RANDOM.normal(size=(8, 16, 12, 12)), ctx=mx.cpu())
    seen = []
    for _ in range(3):
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(8)
        found = net(x).asnumpy()
        net.hybridize(False)
        np.testing.assert_allclose(found, net(x).asnumpy(), rtol=1e-4, atol=1e-5)
        net.hybridize()
        seen.append(found)
    assert not np.allclose(seen[0], seen[1]) and not np.allclose(seen[1], seen[2])
    net[1].gamma.data()[:] = 0  # in place
    net[1].beta.data()[:] = -1
    np.testing.assert_allclose(net(x).asnumpy(), np.broadcast_to(net[3].bias.data().asnumpy(), (8, 8)), atol=1e-6)
