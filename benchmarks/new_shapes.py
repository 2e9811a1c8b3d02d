"""Loops whose shapes are ever new: sentences, episodes, boxes, prefixes, pictures as they come.

    python benchmarks/new_shapes.py [--package mxnet] [NAME ...]
    python benchmarks/references/torch_new_shapes.py [NAME ...]     (PyTorch)

Seconds of each loop in a fresh state, what it compiles included; runs under MXNet, too.
"""

from __future__ import annotations

import argparse
import importlib
import time

import numpy as np

rng = np.random.RandomState(0)
mx = None


def trained(blocks, batches):
    """Steps with Adam on batches; `batches` gives (function of no arguments -> loss, batch size)."""
    parameters = mx.gluon.ParameterDict()
    for block in blocks:
        block.initialize()
        parameters.update(block.collect_params())
    trainer = mx.gluon.Trainer(parameters, "adam")
    for loss_of, size in batches:
        with mx.autograd.record():
            loss = loss_of()
        loss.backward()
        trainer.step(size)
        loss.mean().asscalar()


def labels(count, classes=5):
    return mx.nd.array(rng.randint(0, classes, count))


def lstm():
    """40 batches of 8 sentences of 5 to 44 words through a fused LSTM."""
    embed, layer, out = mx.gluon.nn.Embedding(100, 32), mx.gluon.rnn.LSTM(64), mx.gluon.nn.Dense(5)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def of(length):
        words, y = mx.nd.array(rng.randint(0, 100, (length, 8))), labels(8)
        return lambda: loss(out(layer(embed(words))[-1]), y)
    trained([embed, layer, out], [(of(length), 8) for length in rng.permutation(40) + 5])


def bags_of_words():
    """60 batches of 8 sentences of 5 to 64 words: the mean of their words' vectors."""
    embed, out, loss = mx.gluon.nn.Embedding(100, 32), mx.gluon.nn.Dense(5), mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def of(length):
        words, y = mx.nd.array(rng.randint(0, 100, (8, length))), labels(8)
        return lambda: loss(out(embed(words).mean(axis=1)), y)
    trained([embed, out], [(of(length), 8) for length in rng.permutation(60) + 5])


def attention():
    """40 batches of 4 sentences of 5 to 44 words that attend to themselves."""
    maps = [mx.gluon.nn.Dense(32, flatten=False, use_bias=False) for _ in range(3)]
    embed, out, loss = mx.gluon.nn.Embedding(100, 32), mx.gluon.nn.Dense(5), mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def of(length):
        words, y = mx.nd.array(rng.randint(0, 100, (4, length))), labels(4)

        def value():
            query, key, values = [each(embed(words)) for each in maps]
            scores = mx.nd.softmax(mx.nd.batch_dot(query, key, transpose_b=True) / 32 ** 0.5)
            return loss(out(mx.nd.batch_dot(scores, values).max(axis=1)), y)
        return value
    trained([*maps, embed, out], [(of(length), 4) for length in rng.permutation(40) + 5])


def episodes():
    """Policy gradients: 60 episodes of 10 to 109 steps."""
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.Dense(2))

    def of(steps):
        states, actions, gains = mx.nd.array(rng.randn(steps, 4)), labels(steps, 2), mx.nd.array(rng.randn(steps))
        gains = (gains - gains.mean()) / ((gains - gains.mean()) ** 2).mean().sqrt()
        return lambda: -(mx.nd.pick(mx.nd.log_softmax(net(states)), actions) * gains).sum()
    trained([net], ((of(int(steps)), int(steps)) for steps in rng.permutation(100)[:60] + 10))


def prefixes():
    """Deviations of 100 prefixes of 300 numbers, and sums of densities."""
    x = mx.nd.array(rng.randn(300))
    for count in range(2, 300, 3):
        part = x[:count]
        ((part - part.mean()) ** 2).mean().sqrt().asscalar()
        mx.nd.exp(-part * part).sum().asscalar()


def products():
    """49 products of matrices, each larger than the last."""
    a, b = mx.nd.array(rng.randn(100, 40)), mx.nd.array(rng.randn(40, 100))
    for count in range(2, 100, 2):
        mx.nd.dot(a[:count], b[:, :count]).sum().asscalar()


def pictures(hybridize=False):
    """A small convolutional network on 10 pictures, each of another size."""
    net = mx.gluon.nn.HybridSequential()
    for channels in (8, 16, 32):
        net.add(mx.gluon.nn.Conv2D(channels, 3, padding=1), mx.gluon.nn.BatchNorm(),
                mx.gluon.nn.Activation("relu"), mx.gluon.nn.MaxPool2D())
    net.add(mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Dense(5))
    net.initialize()
    if hybridize:
        net.hybridize()
    for size in range(32, 72, 4):
        net(mx.nd.array(rng.randn(1, 3, size, size + 8))).sum().asscalar()


def pictures_hybridized():
    """The same, hybridized."""
    pictures(True)


LOOPS = {f.__name__: f for f in (lstm, bags_of_words, attention, episodes, prefixes, products, pictures,
                                 pictures_hybridized)}


def main():
    """Prints the table."""
    global mx
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *LOOPS], metavar="NAME")
    parser.add_argument("--package", default="mxjax")
    options = parser.parse_args()
    mx = importlib.import_module(options.package)
    mx.gluon.Trainer, mx.gluon.rnn.LSTM, mx.nd.waitall()  # mxjax loads its modules on first use
    for name in options.names or LOOPS:
        rng.seed(0)
        start = time.perf_counter()
        LOOPS[name]()
        mx.nd.waitall()
        print(f"{name:20s}{time.perf_counter() - start:8.2f} s   {LOOPS[name].__doc__.strip()}", flush=True)


if __name__ == "__main__":
    main()
