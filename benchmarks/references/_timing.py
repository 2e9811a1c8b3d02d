"""What the programs of this folder share: their data, the clock, and the JSON that each prints.

It runs under the Python 3.9 of an MXNet installation, too, and imports NumPy only. `figures.py` starts the programs;
by hand, `python benchmarks/references/flax_reference.py lenet --seconds 3` is one of them.
"""

from __future__ import annotations

import time

START = time.perf_counter()  # the programs import this file first: what they import later is their "import"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
from typing import Any, Callable, NamedTuple  # noqa: E402, UP035

import numpy as np  # noqa: E402

WORDS, WIDTH, HEADS, LAYERS, CLASSES = 2000, 256, 4, 4, 10
SGD = {"learning_rate": 0.01, "momentum": 0.9}
ADAM = {"learning_rate": 1e-3, "epsilon": 1e-8}
NOTED = 10  # the step whose loss is noted beside the first one's
MANY = 50  # steps whose time is noted as a whole


class Program(NamedTuple):
    """What is run: `network` on inputs of `shape`; images are (batch, channels, height, width)."""

    network: str
    shape: tuple
    train: bool = True
    optimizer: str = "sgd"


PROGRAMS = {
    "mlp": Program("mlp", (64, 784)),
    "lenet": Program("lenet", (64, 1, 28, 28)),
    "resnet18": Program("resnet18", (16, 3, 112, 112)),
    "resnet18-predict": Program("resnet18", (16, 3, 112, 112), train=False),
    "lstm": Program("lstm", (35, 32)),
    "transformer": Program("transformer", (8, 128), optimizer="adam"),
}


def batch(program: Program, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels, the same for each package; `last`: channels are the last axis of images."""
    numbers = np.random.RandomState(0)
    if program.network in ("lstm", "transformer"):
        words = numbers.randint(0, WORDS, program.shape).astype("int32")
        return words, words
    data = numbers.uniform(size=program.shape).astype("float32")
    labels = numbers.randint(0, CLASSES, program.shape[0]).astype("int32")
    return (data.transpose(0, 2, 3, 1).copy() if last and data.ndim == 4 else data), labels


def peak() -> float:
    """The most memory that this process has had, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def mean(loss: Any) -> float:
    """Of a package's array of losses."""
    return float(np.mean(loss.asnumpy() if hasattr(loss, "asnumpy") else np.asarray(loss)))


def arguments(doc: str) -> argparse.ArgumentParser:
    """What each program can be told."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long steps are timed")
    return parser


def report(make: Callable[[Program], tuple[Callable[[], Any], Callable[[], int]]], given: argparse.Namespace,
           version: str) -> None:
    """Times a program and prints the JSON.

    Args:
        make: function(program) -> (a step that is over when it returns, and returns the loss if it trains; how many
            numbers are trained, known after a step).
        given: the command line.
        version: of the package.
    """
    imported = time.perf_counter() - START
    program = PROGRAMS[given.program]
    start = time.perf_counter()
    step, count = make(program)
    value = step()
    first = time.perf_counter() - start
    losses, times, end = [value], [], time.perf_counter() + given.seconds
    while len(times) < MANY - 1 or time.perf_counter() < end:
        start = time.perf_counter()
        value = step()
        times.append(time.perf_counter() - start)
        if len(times) == NOTED - 1:
            losses.append(value)
    beneath = {"jax": sys.modules["jax"].__version__} if "jax" in sys.modules else {}
    print(json.dumps({
        "program": given.program, "version": version, **beneath, "import": round(imported, 3), "first": round(first, 3),
        "many": round(first + sum(times[:MANY - 1]), 3),
        "step": round(statistics.median(times[2:]), 6), "steps": len(times) - 2, "memory": round(peak(), 1),
        "parameters": count(), "losses": [round(mean(v), 4) for v in losses] if program.train else []}), flush=True)
