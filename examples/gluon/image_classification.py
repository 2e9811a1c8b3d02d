"""A convolutional network on handwritten digits: DataLoader, augmentation, hybridized training, export, reload.

    python examples/gluon/image_classification.py [--epochs 6]
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


def shifted(image, label):
    """The picture moved by up to one pixel each way."""
    rows, columns = (int(n) for n in mx.nd.random.randint(0, 3, shape=(2,)).asnumpy())
    padded = mx.nd.pad(image.expand_dims(0), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
    return padded[0, :, rows:rows + 8, columns:columns + 8], label


def accuracy(net: gluon.Block, data: gluon.data.DataLoader) -> float:
    """Share of right answers."""
    metric = mx.metric.Accuracy()
    for images, labels in data:
        metric.update(labels, net(images))
    return metric.get()[1]


def main() -> None:
    """Trains, measures, saves and reloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    mx.random.seed(1)
    train, test = (gluon.data.ArrayDataset(mx.nd.array(x), mx.nd.array(y)) for x, y in digits())
    train_data = gluon.data.DataLoader(train.transform(shifted), batch_size=64, shuffle=True, last_batch="discard")
    test_data = gluon.data.DataLoader(test, batch_size=150)

    net, loss_fn = network(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3})
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
        symbol_file, params_file = net.export(f"{folder}/digits")
        again = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
        assert accuracy(again, test_data) == score  # noqa: S101
    print(f"test accuracy {score:.3f}, and the same after export and reload")


if __name__ == "__main__":
    main()
