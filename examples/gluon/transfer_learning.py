"""Transfer learning: the layers of a LeNet that MXNet itself trained, with a new head for another task.

    python examples/gluon/transfer_learning.py

The new task is to tell digits with a closed loop (0, 6, 8, 9) from the others, out of 40 labelled pictures.
"""

from __future__ import annotations

import pathlib

import numpy as np
from data import digits

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn

MODEL = pathlib.Path(__file__).resolve().parent.parent / "demo" / "mxnet_model" / "lenet_digits"


def features() -> gluon.SymbolBlock:
    """The trained network up to its last hidden layer, frozen."""
    symbol, args, auxiliary = mx.model.load_checkpoint(str(MODEL), 8)
    inner = symbol.get_internals()
    last = [name for name in inner.list_outputs() if name.endswith("_output")][-3]  # before fc2 and softmax
    net = gluon.SymbolBlock(inner[last], mx.sym.var("data"))
    params = net.collect_params()
    for name, value in {**args, **auxiliary}.items():
        if name in params:
            params[name]._load_init(value, mx.cpu())
    params.setattr("grad_req", "null")
    return net


def trained(body: gluon.Block, images: mx.nd.NDArray, labels: mx.nd.NDArray, rate: float) -> gluon.Block:
    """`body` with a new output layer, after 60 steps over all pictures at once."""
    net, loss_fn = nn.HybridSequential(), gluon.loss.SigmoidBCELoss()
    net.add(body, nn.Dense(1))
    net[1].initialize(mx.init.Xavier())
    net.hybridize()
    wanted = {n: p for n, p in net.collect_params().items() if p.grad_req != "null"}
    trainer = gluon.Trainer(wanted, "adam", {"learning_rate": rate})
    for _ in range(60):
        with autograd.record():
            loss = loss_fn(net(images), labels)
        loss.backward()
        trainer.step(len(images))
    return net


def main() -> None:
    """Trains with and without MXNet's layers."""
    mx.random.seed(7)
    np.random.seed(3)
    (x_train, y_train), (x_test, y_test) = digits()
    closed = [np.isin(y, (0, 6, 8, 9)).astype(np.float32) for y in (y_train, y_test)]
    few, labels, test = mx.nd.array(x_train[:40]), mx.nd.array(closed[0][:40]), mx.nd.array(x_test)
    scratch = nn.HybridSequential()
    scratch.add(nn.Conv2D(20, 3, padding=1, activation="tanh"), nn.MaxPool2D(), nn.Flatten(),
                nn.Dense(128, activation="tanh"))
    scratch.initialize(mx.init.Xavier())
    scores = {}
    for name, body in (("from scratch", scratch), ("on MXNet's layers", features())):
        net = trained(body, few, labels, 0.01)
        scores[name] = float(((net(test).asnumpy()[:, 0] > 0) == closed[1]).mean())
        print(f"{name}: test accuracy {scores[name]:.3f}")
    if scores["on MXNet's layers"] < max(0.93, scores["from scratch"]):
        raise SystemExit("the trained layers did not help")


if __name__ == "__main__":
    main()
