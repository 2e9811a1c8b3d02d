"""Convolution on a CPU: XLA's own, one matrix product of all windows, and mxjax's, forward + backward, in one run.

    python benchmarks/convolution.py

The rule in `mxjax/ops/nn/convolution.py` (`product_is_faster`) comes from this table; mxjax's programs have oneDNN's
convolutions where jaxlib is known to have them, and then products for kernels of size 1 and very few channels alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from mxjax.kernel.compiled import Compiled
from mxjax.ops.nn.convolution import as_product, convolution, product_is_faster

SHAPES = [(64, 1, 28, 20, 5, 1, 0), (64, 20, 12, 50, 5, 1, 0), (32, 3, 32, 32, 3, 1, 1), (32, 32, 16, 64, 3, 1, 1),
          (16, 64, 28, 64, 3, 1, 1), (16, 128, 14, 128, 3, 1, 1), (16, 256, 7, 256, 3, 1, 1), (16, 3, 112, 64, 7, 2, 3),
          (16, 512, 4, 512, 3, 1, 1), (16, 256, 7, 512, 3, 2, 1), (16, 64, 28, 128, 1, 2, 0),
          (16, 256, 14, 64, 1, 1, 0)]


def best(steps: list[Callable[[], Any]], repeats: int = 8) -> list[float]:
    """Milliseconds of each, taken in turns."""
    for step in steps:
        jax.block_until_ready(step())
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(repeats):
        for row, step in zip(times, steps, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(step())
            row.append(time.perf_counter() - start)
    return [min(row) * 1e3 for row in times]


def main() -> None:
    """Prints the table."""
    print(f"{'batch, channels, size, filters, kernel, stride, pad':52s}{'XLA ms':>9s}{'product ms':>12s}"
          f"{'mxjax ms':>10s}{'rule':>9s}")
    for batch, channels, size, filters, kernel, stride, pad in SHAPES:
        random = np.random.RandomState(0)
        x = random.rand(batch, channels, size, size).astype("float32")
        w = random.rand(filters, channels, kernel, kernel).astype("float32")
        rule = ((kernel,) * 2, (stride,) * 2, (1, 1), (pad,) * 2)

        def native(x: Any, w: Any, stride: int = stride, pad: int = pad) -> Any:
            return lax.conv_general_dilated(x, w, (stride,) * 2, [(pad, pad)] * 2)

        def product(x: Any, w: Any, rule: tuple = rule) -> Any:
            return as_product(x, w, *rule, False)

        def operator(x: Any, w: Any, rule: tuple = rule) -> Any:
            kernel, stride, _, pad = rule
            return convolution(x, w, kernel=kernel, stride=stride, pad=pad, num_filter=len(w), no_bias=True)
        x, w = jax.device_put(x), jax.device_put(w)
        steps = []
        for function, compiles in ((native, jax.jit), (product, jax.jit), (operator, Compiled)):
            step = compiles(lambda x, w, f=function: jax.vjp(f, x, w)[1](f(x, w)))
            steps.append(lambda step=step, x=x, w=w: step(x, w))
        times = best(steps)
        label = f"{batch, channels, size, filters, kernel, stride, pad}"
        chosen = "product" if product_is_faster(x, filters, *rule, None) else "XLA"
        print(f"{label:52s}{times[0]:9.2f}{times[1]:12.2f}{times[2]:10.2f}{chosen:>9s}")


if __name__ == "__main__":
    main()
