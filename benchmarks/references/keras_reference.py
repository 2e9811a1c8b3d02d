"""The programs of `make figures` in Keras 3 on JAX: `compile`, `train_on_batch`, `predict_on_batch`.

    python benchmarks/references/keras_reference.py lenet [--seconds 5]

Needs keras and jax. Prints one JSON.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import _timing
from _timing import ADAM, CLASSES, HEADS, LAYERS, SGD, WIDTH, WORDS

os.environ["KERAS_BACKEND"] = "jax"
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

Norm = partial(layers.LayerNormalization, epsilon=1e-5)
Embedding = partial(layers.Embedding, WORDS, WIDTH, embeddings_initializer="glorot_uniform")


def multilayer(x: Any) -> Any:
    """784-128-64-10."""
    for width in (128, 64):
        x = layers.Dense(width, activation="relu")(x)
    return layers.Dense(CLASSES)(x)


def lenet(x: Any) -> Any:
    """Two convolutions, two layers."""
    for width in (20, 50):
        x = layers.MaxPooling2D(2)(layers.Conv2D(width, 5, activation="tanh")(x))
    return layers.Dense(CLASSES)(layers.Dense(500, activation="tanh")(layers.Flatten()(x)))


def resnet18(x: Any) -> Any:
    """Version 1."""
    def layer(x: Any, width: int, size: int, stride: int = 1) -> Any:
        x = layers.ZeroPadding2D(size // 2)(x) if size > 1 else x  # "same" pads one side only where the stride is 2
        x = layers.Conv2D(width, size, stride, use_bias=False)(x)
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    x = layers.ZeroPadding2D(1)(layers.ReLU()(layer(x, 64, 7, 2)))  # zeros serve: there is nothing below them
    x = layers.MaxPooling2D(3, 2)(x)
    for stage in range(4):
        for block in range(2):
            width, stride = 64 << stage, 2 if stage and not block else 1
            y = layer(layers.ReLU()(layer(x, width, 3, stride)), width, 3)
            x = layers.ReLU()(layers.Add()([x if x.shape == y.shape else layer(x, width, 1, stride), y]))
    return layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))


def language(x: Any) -> Any:
    """Two LSTM layers over words, (batch, time) as Keras has it."""
    x = Embedding()(x)
    for _ in range(2):
        x = layers.LSTM(WIDTH, return_sequences=True, recurrent_initializer="glorot_uniform",
                        unit_forget_bias=False)(x)
    return layers.Dense(WORDS)(x)


def transformer(x: Any) -> Any:
    """Layers of attention over words."""
    x = Embedding()(x)
    for _ in range(LAYERS):
        y = Norm()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, y)])
        y = layers.Dense(4 * WIDTH, activation="gelu")(Norm()(x))
        x = layers.Add()([x, layers.Dense(WIDTH)(y)])
    return layers.Dense(WORDS)(x)


NETWORKS = {"mlp": multilayer, "lenet": lenet, "resnet18": resnet18, "lstm": language, "transformer": transformer}


def make(program: _timing.Program) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step and a function that counts what is trained."""
    keras.utils.set_random_seed(0)
    data, labels = _timing.batch(program, last=True)
    if program.network == "lstm":
        data = labels = np.ascontiguousarray(data.T)
    x = keras.Input(data.shape[1:], dtype=data.dtype.name)
    net = keras.Model(x, NETWORKS[program.network](x))
    size = sum(int(np.prod(v.shape)) for v in net.trainable_variables)
    optimizer = keras.optimizers.Adam(**ADAM) if program.optimizer == "adam" else keras.optimizers.SGD(**SGD)
    net.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    return (lambda: net.train_on_batch(data, labels)) if program.train else (lambda: net.predict_on_batch(data)), \
        lambda: size


if __name__ == "__main__":
    _timing.report(make, _timing.arguments(__doc__).parse_args(), keras.__version__)
