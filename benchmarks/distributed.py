"""Throughput of data-parallel training over local processes, and bytes on the wire with and without compression.

    python benchmarks/distributed.py                    # 1, 2, 4 processes; 2-bit and 1-bit; dist_async
    python benchmarks/distributed.py --json out.json --workers 1 2 --million 1 4

Every worker does a step of a model of so many parameters: some computation, then the store's `pushpull` of all keys.
Bytes are those that the kernel counts on the loopback interface, divided by workers and steps (a job alone on the
machine; headers included). The figures of the cost model in docs/design/scaling.md come from here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

_KEYS = 20


def _loopback() -> int:
    """Bytes sent over the loopback interface so far; 0 where the kernel does not say."""
    try:
        with open("/proc/net/dev", encoding="utf-8") as file:
            line = next(text for text in file if text.strip().startswith("lo:"))
        return int(line.split(":")[1].split()[8])
    except (OSError, StopIteration):
        return 0


def worker(given: argparse.Namespace) -> None:
    """What each process does; worker 0 prints the result."""
    import mxjax as mx
    store = mx.kv.create(given.kvstore)
    size = int(given.million[0] * 1e6) // _KEYS
    keys = list(range(_KEYS))
    store.init(keys, [mx.nd.zeros((size,))] * _KEYS)
    if given.kvstore == "dist_async":
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    if given.compression != "none":
        store.set_gradient_compression({"type": given.compression, "threshold": 0.5})
    gradients = [mx.nd.random.normal(shape=(size,)) for _ in keys]
    outs = [mx.nd.zeros((size,)) for _ in keys]
    weight = mx.nd.random.normal(shape=(256, 256))

    def step(exchange: bool) -> None:
        value = weight
        for _ in range(given.work):
            value = mx.nd.dot(value, weight)
        value.wait_to_read()
        if exchange:
            store.pushpull(keys, gradients, out=outs)
            outs[-1].wait_to_read()

    def measured(exchange: bool) -> tuple[float, float]:
        for _ in range(3):
            step(exchange)
        store._barrier()
        before, begun = _loopback(), time.perf_counter()
        for _ in range(given.steps):
            step(exchange)
        store._barrier()
        seconds = (time.perf_counter() - begun) / given.steps
        return seconds, (_loopback() - before) / given.steps / store.num_workers

    alone, _ = measured(False)
    together, sent = measured(True)
    if store.rank == 0:
        print("RESULT " + json.dumps({
            "kvstore": given.kvstore, "compression": given.compression, "workers": store.num_workers,
            "million parameters": given.million[0], "ms computing": 1e3 * alone, "ms a step": 1e3 * together,
            "MB sent by a worker a step": sent / 1e6}), flush=True)


def run(workers: int, million: float, kvstore: str, compression: str, given: argparse.Namespace) -> dict:
    """One measurement in a job of its own."""
    command = [sys.executable, "-m", "mxjax", "launch", "-n", str(workers), os.path.abspath(__file__), "--worker",
               "--kvstore", kvstore, "--compression", compression, "--million", str(million), "--steps",
               str(given.steps), "--work", str(given.work)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
                          env=dict(os.environ, JAX_PLATFORMS=os.environ.get("JAX_PLATFORMS", "cpu")))
    line = next((text for text in done.stdout.splitlines() if "RESULT " in text), None)
    if done.returncode or line is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
    return json.loads(line.partition("RESULT ")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--million", type=float, nargs="+", default=[1, 4], help="millions of float32 parameters")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--work", type=int, default=4, help="256x256 products before each exchange")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kvstore", default="dist_sync", help=argparse.SUPPRESS)
    parser.add_argument("--compression", default="none", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return worker(given)
    cases = [(n, m, "dist_sync", "none") for n in given.workers for m in given.million]
    cases += [(max(given.workers[:2]), given.million[-1], "dist_sync", kind) for kind in ("2bit", "1bit")]
    cases += [(n, given.million[-1], "dist_async", "none") for n in given.workers]
    rows = []
    print(f"{'store':11s}{'compression':>12s}{'workers':>9s}{'M params':>9s}{'ms compute':>11s}{'ms step':>9s}"
          f"{'steps/s, all':>13s}{'MB sent':>9s}")
    for case in cases:
        row = run(*case, given)
        rows.append(row)
        print(f"{row['kvstore']:11s}{row['compression']:>12s}{row['workers']:9d}{row['million parameters']:9.2f}"
              f"{row['ms computing']:11.2f}{row['ms a step']:9.2f}{row['workers'] * 1e3 / row['ms a step']:13.1f}"
              f"{row['MB sent by a worker a step']:9.3f}", flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return None


if __name__ == "__main__":
    main()
