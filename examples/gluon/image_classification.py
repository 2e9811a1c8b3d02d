"""A convolutional network on handwritten digits: DataLoader, augmentation, hybridized training, export, reload.

    python examples/gluon/image_classification.py [--epochs 5]
"""

from __future__ import annotations

import argparse
import tempfile

from data import digits

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


def network() -> nn.HybridSequential:
    """Two convolutions with batch normalization, then two dense layers."""
    net = nn.HybridSequential()
    for channels in (16, 32):
        net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.MaxPool2D())
    net.add(nn.Flatten(), nn.Dense(64, activation="relu"), nn.Dropout(0.2), nn.Dense(10))
    return net


def varied(image, label):
    """The picture with another contrast."""
    return image * mx.nd.random.uniform(0.7, 1.3, shape=(1, 1, 1)), label


def accuracy(net: gluon.Block, data: gluon.data.DataLoader) -> float:
    """Share of right answers."""
    metric = mx.metric.Accuracy()
    for images, labels in data:
        metric.update(labels, net(images))
    return metric.get()[1]


def main() -> None:
    """Trains, measures, saves and reloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    mx.random.seed(1)
    train, test = (gluon.data.ArrayDataset(mx.nd.array(x), mx.nd.array(y)) for x, y in digits())
    train_data = gluon.data.DataLoader(train.transform(varied), batch_size=64, shuffle=True, last_batch="discard")
    test_data = gluon.data.DataLoader(test, batch_size=150)

    net, loss_fn = network(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    schedule = mx.lr_scheduler.CosineScheduler(arguments.epochs * len(train_data), base_lr=1e-2, final_lr=1e-4)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule})
    for epoch in range(arguments.epochs):
        total = 0.0
        for images, labels in train_data:
            with autograd.record():
                loss = loss_fn(net(images), labels)
            loss.backward()
            trainer.step(len(images))
            total += loss.mean().asscalar()
        print(f"epoch {epoch}: loss {total / len(train_data):.3f}, test accuracy {accuracy(net, test_data):.3f}")
    score = accuracy(net, test_data)
    if score < 0.95:
        raise SystemExit(f"the network reached only {score:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/digits")
        again = gluon.SymbolBlock.imports(f"{folder}/digits-symbol.json", ["data"], f"{folder}/digits-0000.params")
        if accuracy(again, test_data) != score:
            raise SystemExit("the reloaded network answers differently")
    print(f"test accuracy {score:.3f}, and the same after export and reload")


if __name__ == "__main__":
    main()
