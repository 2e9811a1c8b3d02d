"""What a small imperative call costs beside the raw `jax.jit` call it makes.

    python benchmarks/dispatch.py [--seconds 0.5]

Every line is the best of several repetitions on an otherwise idle machine; only the difference means anything.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax

import mxjax as mx


def best(step: Callable[[], Any], seconds: float, inner: int = 500) -> float:
    """Microseconds of one step."""
    for _ in range(50):
        step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            step()
        mx.nd.waitall()
        times.append((time.perf_counter() - start) / inner)
    return min(times) * 1e6


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5)
    seconds = parser.parse_args().seconds
    a, b = mx.nd.ones((64, 64)), mx.nd.ones((64, 64))
    x, y = a.to_jax(), b.to_jax()
    add = jax.jit(lambda x, y: (x + y,))
    scalar = jax.jit(lambda x, s: (x + s.astype(x.dtype),))
    dot = jax.jit(lambda x, y: (x @ y,))
    rows = [("a + b", lambda: a + b, lambda: add(x, y)), ("a + 1.0", lambda: a + 1.0, lambda: scalar(x, 1.0)),
            ("nd.dot(a, b)", lambda: mx.nd.dot(a, b), lambda: dot(x, y))]
    print(f"{'call':16s}{'mxjax us':>10s}{'raw jit us':>12s}{'overhead us':>13s}")
    for name, ours, raw in rows:
        pairs = [(best(ours, seconds), best(raw, seconds)) for _ in range(3)]
        mine, theirs = min(p[0] for p in pairs), min(p[1] for p in pairs)
        print(f"{name:16s}{mine:10.1f}{theirs:12.1f}{mine - theirs:13.1f}")


if __name__ == "__main__":
    main()
