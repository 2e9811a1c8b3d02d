"""flax modules as Gluon blocks, Gluon blocks as flax modules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")
from mxjax.interop import flax as interop  # noqa: E402

X = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")


class Net(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.relu(linen.Dense(6)(x))
        x = linen.BatchNorm(use_running_average=not train, momentum=0.5)(x)
        return linen.Dense(3)(linen.Dropout(0.5, deterministic=not train)(x))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(5, 6, rngs=rngs), nnx.BatchNorm(6, momentum=0.5, rngs=rngs)
        self.drop, self.last = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(6, 3, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(self.norm(nnx.relu(self.first(x)))))


def blocks():
    yield interop.FlaxBlock(Net(), mx.nd.array(X), options=lambda train: {"train": train})
    yield interop.FlaxBlock(Nnx(nnx.Rngs(0)))


@pytest.mark.parametrize("which", [0, 1])
def test_a_flax_module_trains_saves_and_loads_as_a_block(which, tmp_path):
    mx.random.seed(0)
    block, other = list(blocks())[which], list(blocks())[which]
    x, y = mx.nd.array(X), mx.nd.array(X[:, :3].argmax(1))
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(block.collect_params(), "adam", {"learning_rate": 0.05})
    before = {n: np.array(v) for n, v in block.variables().items()}
    losses = []
    for _ in range(15):
        with mx.autograd.record():
            value = loss(block(x), y)
        value.backward()
        trainer.step(8)
        losses.append(value.mean().asscalar())
    after = block.variables()
    assert losses[-1] < losses[0] and all((np.array(after[n]) != before[n]).any() for n in before)
    plain = block(x).asnumpy()
    assert (plain == block(x).asnumpy()).all()  # nothing random outside training
    block.save_parameters(str(tmp_path / "x.params"))
    other.load_parameters(str(tmp_path / "x.params"))
    np.testing.assert_allclose(other(x).asnumpy(), plain, rtol=1e-6)


def test_the_numbers_are_flaxs():
    block = next(blocks())
    params = {n: v for n, v in block.variables().items() if not n.startswith("batch_stats")}
    tree = {"params": {}, "batch_stats": {}}
    for name, value in block.variables().items():
        group, (layer, leaf) = "params" if name in params else "batch_stats", name.split(".")[-2:]
        tree[group].setdefault(layer, {})[leaf] = value
    np.testing.assert_allclose(block(mx.nd.array(X)).asnumpy(), Net().apply(tree, X), rtol=1e-5, atol=1e-6)
    with mx.autograd.record(train_mode=False):
        total = block(mx.nd.array(X)).square().sum()
    total.backward()
    grads = jax.grad(lambda p: (Net().apply({**tree, "params": p}, X) ** 2).sum())(tree["params"])
    for name in params:
        layer, leaf = name.split(".")
        np.testing.assert_allclose(block._reg_params[name].grad().asnumpy(), grads[layer][leaf], rtol=1e-4, atol=1e-5)


def gluon_net():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(2))
    net.initialize()
    return net


def test_a_block_as_a_linen_module():
    net = gluon_net()
    module = interop.to_linen(net, mx.nd.array(X))
    variables = module.init(jax.random.key(0), X)
    np.testing.assert_allclose(module.apply(variables, X), net(mx.nd.array(X)).asnumpy(), rtol=1e-5, atol=1e-6)

    def total(params):
        out, changed = module.apply({**variables, "params": params}, X, train=True, mutable=["batch_stats"])
        return (out ** 2).sum(), changed
    grads, changed = jax.grad(total, has_aux=True)(variables["params"])
    with mx.autograd.record():
        value = net(mx.nd.array(X)).square().sum()
    value.backward()
    for name, grad in grads.items():
        np.testing.assert_allclose(grad, net.collect_params()[name].grad().asnumpy(), rtol=1e-4, atol=1e-4)
    for name, state in changed["batch_stats"].items():
        np.testing.assert_allclose(state, net.collect_params()[name].data().asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_block_as_an_nnx_module():
    net = gluon_net()
    module = interop.to_nnx(net, mx.nd.array(X))
    np.testing.assert_allclose(module(jnp.asarray(X)), net(mx.nd.array(X)).asnumpy(), rtol=1e-5, atol=1e-6)


def test_mistakes():
    with pytest.raises(TypeError, match="FlaxBlock expects"):
        interop.FlaxBlock(object())
    with pytest.raises(MXNetError, match="example inputs"):
        interop.FlaxBlock(Net())
