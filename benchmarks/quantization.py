"""int8 models against the float32 ones they were made of: milliseconds of a call, and how far the outputs are apart.

    python benchmarks/quantization.py [--batch 8] [--size 96]

Where the processor multiplies 8-bit integers exactly (AVX-512 VNNI), oneDNN convolves them as they are. Elsewhere that
is done exactly in floats, so that a convolutional int8 model costs about what the float one does, and more where the
convolutions are small (each channel by itself), for the conversions between them remain. What it always saves is
memory: the parameters are a quarter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import mxjax as mx
from mxjax import gluon


def digits() -> tuple[gluon.HybridBlock, tuple[int, ...]]:
    """The convolutional network of the tests."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 3, use_bias=False), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
            gluon.nn.MaxPool2D(2), gluon.nn.Conv2D(32, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
            gluon.nn.Flatten(), gluon.nn.Dense(10))
    return net, (1, 28, 28)


def dense() -> tuple[gluon.HybridBlock, tuple[int, ...]]:
    """Three dense layers."""
    net = gluon.nn.HybridSequential()
    net.add(*(gluon.nn.Dense(1024, activation="relu") for _ in range(3)), gluon.nn.Dense(10))
    return net, (1024,)


def best(call: Callable[[], mx.nd.NDArray], repeats: int) -> float:
    """Milliseconds of the fastest of some calls."""
    call().wait_to_read()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call().wait_to_read()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def megabytes(net: gluon.Block) -> float:
    """The size of all parameters."""
    return sum(p.data().asnumpy().nbytes for p in net.collect_params().values()) / 1e6


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=96, help="width and height of the pictures for the large networks")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    zoo = gluon.model_zoo.vision
    models = {"digits CNN": digits(), "3 dense layers": dense(),
              "resnet18_v1": (zoo.resnet18_v1(), (3, given.size, given.size)),
              "mobilenet0.25": (zoo.mobilenet0_25(), (3, given.size, given.size))}
    print(f"batch {given.batch}\n{'model':16s}{'float ms':>10s}{'int8 ms':>10s}{'ratio':>8s}{'float MB':>10s}"
          f"{'int8 MB':>9s}{'difference':>12s}")
    for name, (net, shape) in models.items():
        net.initialize(mx.init.Xavier())
        net.hybridize()
        x = mx.nd.random.uniform(shape=(given.batch, *shape))
        qnet = mx.contrib.quant.quantize_net_v2(net, "int8", calib_data=[x], calib_mode="naive")
        qnet.hybridize()
        exact, approximate = net(x).asnumpy(), qnet(x).asnumpy()
        apart = np.abs(exact - approximate).max() / np.abs(exact).max()
        times = [best(lambda model=model, x=x: model(x), given.repeats) for model in (net, qnet)]
        print(f"{name:16s}{times[0]:10.2f}{times[1]:10.2f}{times[1] / times[0]:8.2f}{megabytes(net):10.2f}"
              f"{megabytes(qnet):9.2f}{apart:12.1%}")


if __name__ == "__main__":
    main()
