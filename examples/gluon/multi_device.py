"""Data parallel training on four devices, the classic way and as one program, against one device: equal numbers.

    python examples/gluon/multi_device.py

Without accelerators the devices are four parts of the host (XLA_FLAGS, set below before JAX starts).
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from data import digits  # noqa: E402

import mxjax as mx  # noqa: E402
from mxjax import autograd, gluon  # noqa: E402
from mxjax.gluon import nn  # noqa: E402

STEPS, BATCH = 10, 64


def network(contexts: list[mx.Context]) -> tuple[gluon.Block, gluon.Trainer]:
    """The same network each time, on these contexts, and its trainer."""
    mx.random.seed(7)
    np.random.seed(7)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(32, activation="relu", in_units=64), nn.Dense(10, in_units=32))
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.hybridize()
    kvstore = "device" if len(contexts) > 1 else None
    return net, gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=kvstore)


def classic(contexts: list[mx.Context], images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """`split_and_load`, a loss per device, and a Trainer that sums gradients over the devices."""
    (net, trainer), loss_fn = network(contexts), gluon.loss.SoftmaxCrossEntropyLoss()
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        parts = zip(gluon.utils.split_and_load(images[part], contexts),
                    gluon.utils.split_and_load(labels[part], contexts), strict=True)
        with autograd.record():
            losses = [loss_fn(net(x), y) for x, y in parts]
        autograd.backward(losses)
        trainer.step(BATCH)
    return [p.data(contexts[0]).asnumpy() for p in net.collect_params().values()]


def one_program(images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """`TrainStep` over a mesh: XLA splits the batch and sums the gradients."""
    net, trainer = network([mx.cpu()])
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("data",))
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer, mesh=mesh)
    for number in range(STEPS):
        part = slice(number * BATCH, (number + 1) * BATCH)
        step(mx.nd.array(images[part]), mx.nd.array(labels[part]))
    return [p.data().asnumpy() for p in net.collect_params().values()]


def main() -> None:
    """Trains three times and compares the parameters."""
    if len(jax.devices()) < 4:
        raise SystemExit("this example needs four devices; set XLA_FLAGS=--xla_force_host_platform_device_count=4")
    (images, labels), _ = digits()
    alone = classic([mx.cpu()], images, labels)
    for name, found in (("split_and_load and kvstore 'device'", classic([mx.cpu(i) for i in range(4)], images, labels)),
                        ("TrainStep over a mesh", one_program(images, labels))):
        furthest = max(float(np.abs(a - b).max()) for a, b in zip(alone, found, strict=True))
        print(f"{name}: parameters after {STEPS} steps differ from one device's by at most {furthest:.1e}")
        if furthest > 1e-4:
            raise SystemExit("the numbers of four devices are not those of one")


if __name__ == "__main__":
    main()
