"""Times of making a quantized network, and its first call: CPU seconds. It runs under MXNet, too.

    python -m mxjax run benchmarks/quantizing.py
    python benchmarks/quantizing.py               # with the Python that has MXNet 1.9.1
"""

import logging
import time
from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.contrib import quantization

SAMPLES = 64


def chain(convolutions: int) -> gluon.HybridBlock:
    """Convolutions with batch normalization one after the other, of 25 shapes."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        for i in range(convolutions):
            net.add(gluon.nn.Conv2D(8 + i // 4, 3, padding=1), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"))
        net.add(gluon.nn.Dense(3))
    return net


def timed(name: str, call: Callable[[], Any]) -> Any:
    """The result of a call, whose CPU seconds are printed."""
    start = time.process_time()
    result = call()
    print(f"{name:45s}{time.process_time() - start:8.2f}", flush=True)
    return result


def histogram() -> None:
    """The entropy calibration of one layer's histogram."""
    values = np.random.RandomState(0).randn(100000).astype("float32")
    reach = np.abs(values).max()
    counts, edges = np.histogram(values, 8001, (-reach, reach))
    mx.nd.contrib.calibrate_entropy(mx.nd.array(counts), mx.nd.array(edges))[0].wait_to_read()


def network(name: str, net: gluon.HybridBlock, x: Any, mode: str) -> None:
    """A network quantized and called."""
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(x).wait_to_read()
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(x, mx.nd.zeros(len(x))), 32)
    made = timed(f"{name}: quantized, {mode}", lambda: quantization.quantize_net_v2(
        net, "auto", calib_mode=mode, calib_data=batches, num_calib_examples=len(x)))
    made.hybridize()
    for call in ("first call", "second call"):
        timed(f"{name}: {call}", lambda: made(x).wait_to_read())


def main() -> None:
    """Prints the table."""
    logging.disable(logging.CRITICAL)
    mx.random.seed(1)
    timed("entropy calibration of a layer", histogram)
    resnet = gluon.model_zoo.vision.resnet18_v1()
    network("resnet18_v1", resnet, mx.nd.random.uniform(shape=(SAMPLES, 3, 64, 64)), "entropy")
    network("98 convolutions", chain(98), mx.nd.random.uniform(shape=(2, 8, 16, 16)), "naive")


if __name__ == "__main__":
    main()
