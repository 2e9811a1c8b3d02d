"""Unrolled recurrent networks: time to the first step (compilation included) and of a step, forward and backward.

    python benchmarks/unrolled.py [--steps 10 20 40] [--package mxnet] [--no-barriers]

Three LSTM layers of 40 cells, batch 32; runs under MXNet, too. `--no-barriers` shows what XLA makes of mxjax's programs
without `mxjax/passes/barriers.py` (40 steps then take minutes).
"""

from __future__ import annotations

import argparse
import importlib
import time

import _measure

BATCH, CELLS, LAYERS = 32, 40, 3


def measure(mx, steps):
    """Seconds of the first step, and milliseconds of the fastest of those in the next second."""
    stack = mx.rnn.SequentialRNNCell()
    for i in range(LAYERS):
        stack.add(mx.rnn.LSTMCell(CELLS, prefix=f"l{i}_"))
    out, _ = stack.unroll(steps, inputs=mx.sym.Variable("data"), merge_outputs=True)
    executor = out.simple_bind(mx.cpu(), data=(BATCH, steps, CELLS))
    for array in executor.arg_arrays:
        array[:] = mx.nd.random.normal(0, 0.1, array.shape)
    mx.nd.waitall()

    def step():
        executor.forward(is_train=True)
        executor.backward(executor.outputs[0])
        mx.nd.waitall()
    start = time.perf_counter()
    step()
    return time.perf_counter() - start, _measure.best(step, 1)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 20, 40])
    parser.add_argument("--package", default="mxjax")
    parser.add_argument("--no-barriers", action="store_true")
    options = parser.parse_args()
    mx = importlib.import_module(options.package)
    if options.no_barriers:
        importlib.import_module("mxjax.passes.barriers")._LONGEST = float("inf")
    print("| steps | first s | step ms |\n|---|---|---|")
    for steps in options.steps:
        first, step = measure(mx, steps)
        print(f"| {steps} | {first:.1f} | {step:.1f} |", flush=True)


if __name__ == "__main__":
    main()
