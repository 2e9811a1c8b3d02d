"""The programs of `make figures` by hand in flax and optax: one jitted step that updates its memory in place.

    python benchmarks/references/flax_reference.py lenet [--seconds 5]

Needs flax and optax. Prints one JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import _timing
import flax
import jax
import jax.numpy as jnp
import optax
from _timing import ADAM, CLASSES, HEADS, LAYERS, SGD, WIDTH, WORDS
from flax import linen

glorot = linen.initializers.glorot_uniform()  # everywhere, as in MXNet's programs
Dense, Norm = partial(linen.Dense, kernel_init=glorot), partial(linen.LayerNorm, epsilon=1e-5)
Conv = partial(linen.Conv, kernel_init=glorot)
Embed = partial(linen.Embed, WORDS, WIDTH, embedding_init=glorot)


class Multilayer(linen.Module):
    """784-128-64-10."""

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        for width in (128, 64):
            x = linen.relu(Dense(width)(x))
        return Dense(CLASSES)(x)


class LeNet(linen.Module):
    """Two convolutions, two layers."""

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        for width in (20, 50):
            x = linen.max_pool(linen.tanh(Conv(width, (5, 5), padding="VALID")(x)), (2, 2), (2, 2))
        return Dense(CLASSES)(linen.tanh(Dense(500)(x.reshape(len(x), -1))))


class ResNet18(linen.Module):
    """Version 1."""

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        def layer(x: Any, width: int, size: int, stride: int = 1) -> Any:
            x = Conv(width, (size, size), (stride, stride), padding=size // 2, use_bias=False)(x)
            return linen.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = linen.max_pool(linen.relu(layer(x, 64, 7, 2)), (3, 3), (2, 2), ((1, 1), (1, 1)))
        for stage in range(4):
            for block in range(2):
                width, stride = 64 << stage, 2 if stage and not block else 1
                y = layer(linen.relu(layer(x, width, 3, stride)), width, 3)
                x = linen.relu((x if x.shape == y.shape else layer(x, width, 1, stride)) + y)
        return Dense(CLASSES)(x.mean((1, 2)))


class Language(linen.Module):
    """Two LSTM layers over words, (time, batch)."""

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        x = Embed()(x)
        for _ in range(2):
            cell = linen.OptimizedLSTMCell(WIDTH, kernel_init=glorot, recurrent_kernel_init=glorot)
            x = linen.RNN(cell, time_major=True)(x)
        return Dense(WORDS)(x)


class Transformer(linen.Module):
    """Layers of attention over words."""

    @linen.compact
    def __call__(self, x: Any, train: bool) -> Any:
        x = Embed()(x)
        for _ in range(LAYERS):
            parts = jnp.split(Dense(3 * WIDTH)(Norm()(x)), 3, axis=-1)
            query, key, value = (t.reshape(*t.shape[:2], HEADS, -1) for t in parts)
            weights = linen.softmax(jnp.einsum("bqhd,bkhd->bhqk", query, key) / (WIDTH / HEADS) ** 0.5)
            x = x + Dense(WIDTH)(jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape))
            x = x + Dense(WIDTH)(linen.gelu(Dense(4 * WIDTH)(Norm()(x)), approximate=False))
        return Dense(WORDS)(x)


NETWORKS = {"mlp": Multilayer, "lenet": LeNet, "resnet18": ResNet18, "lstm": Language, "transformer": Transformer}


def make(program: _timing.Program) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step and a function that counts what is trained."""
    net = NETWORKS[program.network]()
    data, labels = map(jnp.asarray, _timing.batch(program, last=True))
    variables = jax.jit(lambda: net.init(jax.random.key(0), data, True))()
    params, stats = variables["params"], variables.get("batch_stats", {})
    size = sum(p.size for p in jax.tree.leaves(params))
    if not program.train:
        predict = jax.jit(lambda variables, x: net.apply(variables, x, False))
        return lambda: predict(variables, data).block_until_ready(), lambda: size
    rule = optax.adam(ADAM["learning_rate"], eps=ADAM["epsilon"]) if program.optimizer == "adam" else \
        optax.sgd(SGD["learning_rate"], SGD["momentum"])

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(params: Any, stats: Any, state: Any, x: Any, y: Any) -> tuple:
        def loss_of(params: Any) -> tuple:
            out, new = net.apply({"params": params, "batch_stats": stats}, x, True, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), new.get("batch_stats", {})
        (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), new, state, loss
    carry = [params, stats, jax.jit(rule.init)(params)]

    def train() -> Any:
        *carry[:], loss = step(*carry, data, labels)
        return loss.block_until_ready()
    return train, lambda: size


if __name__ == "__main__":
    _timing.report(make, _timing.arguments(__doc__).parse_args(), flax.__version__)
