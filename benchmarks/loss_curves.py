"""The losses of seeded training, for comparing MXNet with mxjax: both print the same curve.

    python benchmarks/loss_curves.py mxnet > mxnet.txt        # in an environment with MXNet 1.9.1
    python benchmarks/loss_curves.py mxjax > mxjax.txt
    diff mxnet.txt mxjax.txt

LeNet, and a perceptron with dropout, hybridized and not, 100 steps of SGD each. What differs is rounding.
"""

import importlib
import sys

import numpy as np


def lenet(nn):
    """Convolutions and tanh."""
    net = nn.HybridSequential()
    for channels in (20, 50):
        net.add(nn.Conv2D(channels, 5, activation="tanh"), nn.MaxPool2D(2, 2))
    net.add(nn.Flatten(), nn.Dense(500, activation="tanh"), nn.Dense(10))
    return net


def perceptron(nn):
    """Two hidden layers, each with dropout."""
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dropout(0.5), nn.Dense(128, activation="relu"), nn.Dropout(0.3),
            nn.Dense(10))
    return net


def losses(mx, make, hybridize, steps=100, batch=64):
    """The loss of each step."""
    rng = np.random.RandomState(1)
    pictures = rng.rand(8 * batch, 1, 28, 28).astype("float32")
    labels = rng.randint(0, 10, 8 * batch).astype("float32")
    mx.random.seed(42)
    net = make(mx.gluon.nn)
    net.initialize(mx.init.Xavier(magnitude=2.24))
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for step in range(steps):
        part = slice(step % 8 * batch, (step % 8 + 1) * batch)
        with mx.autograd.record():
            loss = criterion(net(mx.nd.array(pictures[part])), mx.nd.array(labels[part]))
        loss.backward()
        trainer.step(batch)
        yield float(loss.mean().asscalar())


def main():
    """Prints the curves of the package named on the command line."""
    package = importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "mxjax")
    for make in (lenet, perceptron):
        for hybridize in (False, True):
            for step, loss in enumerate(losses(package, make, hybridize)):
                print(f"{make.__name__} {'hybridized' if hybridize else 'imperative'} {step} {loss:.5f}")


if __name__ == "__main__":
    main()
