"""Training steps of four networks: the classic Gluon loop and `TrainStep` against hand-written flax and optax.

    python benchmarks/training.py [--only 'mlp*'] [--seconds 5] [--out table.md]

All three take turns in one process, a step each, so that they meet the same noise; the best step of each counts.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _networks import WORDS, FlaxLanguage, FlaxResNet, FlaxTransformer, Language, transformer
from flax import linen

import mxjax as mx
from mxjax.gluon import nn
from mxjax.gluon.model_zoo import vision


def multilayer() -> nn.HybridBlock:
    """784-128-64-10."""
    net = nn.HybridSequential()
    net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    return net


class FlaxMultilayer(linen.Module):
    """`multilayer` in flax."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for width in (128, 64):
            x = linen.relu(linen.Dense(width)(x))
        return linen.Dense(10)(x)


_numbers = np.random.default_rng(0)
_words = [_numbers.integers(0, WORDS, shape).astype("int32") for shape in ((35, 32), (8, 128))]
_images = _numbers.random((16, 3, 112, 112), "float32")
# name: (Gluon network, flax module, Gluon's input, flax's input, labels, optimizer)
CASES = {
    "mlp": (multilayer, FlaxMultilayer, _numbers.random((64, 784), "float32"), None, np.zeros(64, "int32"), "sgd"),
    "lstm": (Language, FlaxLanguage, _words[0], None, _words[0], "sgd"),
    "transformer": (transformer, FlaxTransformer, _words[1], None, _words[1], "adam"),
    "resnet18": (lambda: vision.resnet18_v1(classes=10), lambda: FlaxResNet((2, 2, 2, 2), 10), _images,
                 _images.transpose(0, 2, 3, 1), np.zeros(16, "int32"), "sgd"),
}
OPTIMIZERS = {"sgd": ({"learning_rate": 0.01, "momentum": 0.9}, lambda: optax.sgd(0.01, 0.9)),
              "adam": ({"learning_rate": 1e-3}, lambda: optax.adam(1e-3))}


def gluon_step(make: Callable, x: np.ndarray, y: np.ndarray, optimizer: str, whole: bool) -> Callable[[], Any]:
    """A training step with Gluon: as a `TrainStep`, or the loop of record, backward and step, hybridized."""
    net, loss = make(), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize()
    net.hybridize()
    loss.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, OPTIMIZERS[optimizer][0])
    data, label = mx.nd.array(x, dtype=x.dtype), mx.nd.array(y, dtype=y.dtype)
    if whole:
        step = mx.gluon.TrainStep(net, loss, trainer)
        return lambda: step(data, label).wait_to_read()

    def classic() -> None:
        with mx.autograd.record():
            value = loss(net(data), label)
        value.backward()
        trainer.step(len(x))
        mx.nd.waitall()
    return classic


def flax_step(module: linen.Module, x: np.ndarray, y: np.ndarray, optimizer: str) -> Callable[[], Any]:
    """The same by hand: one jitted step that updates its memory in place."""
    rule = OPTIMIZERS[optimizer][1]()
    variables = jax.jit(lambda: module.init(jax.random.key(0), x))()
    params, stats = variables["params"], variables.get("batch_stats", {})

    def loss(params: Any, stats: Any, x: Any, y: Any) -> tuple:
        out, changed = module.apply({"params": params, "batch_stats": stats}, x, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), changed.get("batch_stats", {})

    def step(params: Any, stats: Any, state: Any, x: Any, y: Any) -> tuple:
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, stats, x, y)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), stats, state, value
    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    carry = [params, stats, jax.jit(rule.init)(params)]
    data, label = jnp.asarray(x), jnp.asarray(y)

    def run() -> None:
        *carry[:], value = compiled(*carry, data, label)
        value.block_until_ready()
    return run


def measure(name: str, seconds: float) -> list[float]:
    """Milliseconds of a step: classic, TrainStep, flax."""
    make, module, x, other, y, optimizer = CASES[name]
    steps = [gluon_step(make, x, y, optimizer, whole) for whole in (False, True)]
    steps.append(flax_step(module(), x if other is None else other, y, optimizer))
    for step in steps * 3:
        step()
    fastest, end = [math.inf] * 3, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, step in enumerate(steps):
            start = time.perf_counter()
            step()
            fastest[i] = min(fastest[i], time.perf_counter() - start)
    return [1e3 * t for t in fastest]


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="*", help="which networks, may have * and ?")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each network")
    parser.add_argument("--out", help="write the table to this file, too")
    given = parser.parse_args()
    lines = ["| step | loop ms | `TrainStep` ms | flax ms | loop / flax | `TrainStep` / flax |", "|---" * 6 + "|"]
    for name in fnmatch.filter(CASES, given.only):
        classic, whole, flax = measure(name, given.seconds)
        figures = [f"{t:.3g}" for t in (classic, whole, flax)] + [f"{t / flax:.2f}" for t in (classic, whole)]
        lines.append(f"| {name} | {' | '.join(figures)} |")
        print(lines[-1], flush=True)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
