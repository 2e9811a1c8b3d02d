"""A variational autoencoder (arXiv:1312.6114) of handwritten digits, trained with one program per step.

    python examples/gluon/vae.py [--epochs 20]
"""

from __future__ import annotations

import argparse

from data import digits

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn


class VAE(gluon.HybridBlock):
    """The negative evidence lower bound of pictures of 64 pixels in [0, 1]."""

    def __init__(self, latent: int = 4, hidden: int = 128, **kwargs) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.encoder, self.decoder = nn.HybridSequential(), nn.HybridSequential()
            self.encoder.add(nn.Dense(hidden, activation="tanh"), nn.Dense(2 * latent))
            self.decoder.add(nn.Dense(hidden, activation="tanh"), nn.Dense(64))
            self.pixels = gluon.loss.SigmoidBinaryCrossEntropyLoss(weight=64)

    def hybrid_forward(self, F, images):
        """Loss of each picture: reconstruction and divergence of the code from a standard normal."""
        mean, log_variance = F.split(self.encoder(images), num_outputs=2, axis=1)
        code = mean + F.exp(0.5 * log_variance) * F.random.normal_like(mean)
        divergence = 0.5 * (F.exp(log_variance) + mean ** 2 - 1 - log_variance).sum(axis=1)
        return self.pixels(self.decoder(code), images.flatten()) + divergence


def main() -> None:
    """Trains, compares bounds, draws samples as text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    mx.random.seed(0)
    (train, _), (test, _) = digits()
    test = mx.nd.array(test)
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(mx.nd.array(train)), batch_size=64, shuffle=True,
                                 last_batch="discard")
    net = VAE()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    start = net(test).mean().asscalar()
    step = gluon.TrainStep(net, None, gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-3}))
    for epoch in range(arguments.epochs):
        for images in data:
            step(images)
        if epoch % 10 == 9:
            print(f"epoch {epoch}: bound of the test pictures {net(test).mean().asscalar():.2f} (at first {start:.2f})")
    if net(test).mean().asscalar() > 0.75 * start:
        raise SystemExit("the bound got too little better")
    drawn = mx.nd.sigmoid(net.decoder(mx.nd.random.normal(shape=(6, 4)))).reshape((6, 8, 8)).asnumpy()
    for row in range(8):
        print("   ".join("".join(" .:*#"[min(4, int(v * 5))] * 2 for v in picture[row]) for picture in drawn))


if __name__ == "__main__":
    main()
