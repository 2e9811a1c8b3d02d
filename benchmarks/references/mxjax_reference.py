"""The programs of `make figures` as an MXNet user writes them: the same script for MXNet 1.9.1 and mxjax.

    python benchmarks/references/mxjax_reference.py lenet --package mxnet|mxjax [--step] [--seconds 5]

Hybridized Gluon, autograd and `Trainer`; --step: mxjax's `TrainStep` in place of the last two. Prints one JSON.
"""

# ruff: noqa: UP007, UP045  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import importlib
import math
from typing import Any, Callable  # noqa: UP035

import _timing
from _timing import ADAM, CLASSES, HEADS, LAYERS, SGD, WIDTH, WORDS


def networks(mx: Any) -> dict[str, Callable[[], Any]]:
    """{name: function that makes the Gluon block}."""
    gluon, nn = mx.gluon, mx.gluon.nn

    def mlp() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(CLASSES))
        return net

    def lenet() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(20, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="tanh"),
                nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="tanh"), nn.Dense(CLASSES))
        return net

    class Language(gluon.HybridBlock):
        """Two LSTM layers over words, (time, batch)."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(WORDS, WIDTH), gluon.rnn.LSTM(WIDTH, num_layers=2)
            self.out = nn.Dense(WORDS, flatten=False)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            """Scores of words at each place."""
            return self.out(self.lstm(self.words(x)))

    class Layer(gluon.HybridBlock):
        """Attention and a network of two layers, each after a normalization and added to what comes in."""

        def __init__(self) -> None:
            super().__init__()
            self.into, self.mix = nn.Dense(3 * WIDTH, flatten=False), nn.Dense(WIDTH, flatten=False)
            self.up, self.down = nn.Dense(4 * WIDTH, flatten=False), nn.Dense(WIDTH, flatten=False)
            self.one, self.two, self.gelu = nn.LayerNorm(), nn.LayerNorm(), nn.GELU()

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            """(batch, places, width), the same shape out."""
            query, key, value = (t.reshape((0, 0, HEADS, -1)).transpose((0, 2, 1, 3)).reshape((-3, 0, 0))
                                 for t in F.split(self.into(self.one(x)), num_outputs=3, axis=2))
            weights = F.softmax(F.batch_dot(query, key, transpose_b=True) / math.sqrt(WIDTH / HEADS))
            mixed = F.batch_dot(weights, value).reshape((-4, -1, HEADS, 0, 0)).transpose((0, 2, 1, 3))
            x = x + self.mix(mixed.reshape((0, 0, -3)))
            return x + self.down(self.gelu(self.up(self.two(x))))

    def transformer() -> Any:
        net = nn.HybridSequential()
        net.add(nn.Embedding(WORDS, WIDTH), *[Layer() for _ in range(LAYERS)], nn.Dense(WORDS, flatten=False))
        return net
    return {"mlp": mlp, "lenet": lenet, "lstm": Language, "transformer": transformer,
            "resnet18": lambda: mx.gluon.model_zoo.vision.resnet18_v1(classes=CLASSES)}


def make(mx: Any, program: _timing.Program, whole: bool) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step and a function that counts what is trained; `whole`: a `TrainStep`."""
    net = networks(mx)[program.network]()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    data, labels = (mx.nd.array(a, dtype=a.dtype) for a in _timing.batch(program))

    def count() -> int:
        return sum(math.prod(p.shape) for p in net.collect_params().values() if p.grad_req != "null")

    def predict() -> None:
        net(data).wait_to_read()
    if not program.train:
        return predict, count
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), program.optimizer, ADAM if program.optimizer == "adam" else SGD)
    fused = mx.gluon.TrainStep(net, loss_of, trainer) if whole else None

    def train() -> Any:
        if fused:
            loss = fused(data, labels)
        else:
            with mx.autograd.record():
                loss = loss_of(net(data), labels)
            loss.backward()
            trainer.step(len(data))
        mx.nd.waitall()
        return loss
    return train, count


def main() -> None:
    """Times one program."""
    parser = _timing.arguments(__doc__)
    parser.add_argument("--package", choices=("mxnet", "mxjax"), default="mxjax")
    parser.add_argument("--step", action="store_true", help="mxjax's TrainStep")
    given = parser.parse_args()
    mx = importlib.import_module(given.package)
    mx.nd.waitall()
    for name in ("gluon.nn", "gluon.rnn", "gluon.loss", "optimizer"):  # mxjax loads its modules on first use
        importlib.import_module(f"{given.package}.{name}")
    version = mx.__version__ if given.package == "mxnet" else mx.libinfo.__mxjax_version__
    _timing.report(lambda program: make(mx, program, given.step), given, version)


if __name__ == "__main__":
    main()
