"""The cost model of docs/design/scaling.md: the time of a data-parallel step over workers, size, bandwidth, latency.

    python benchmarks/scaling.py                            # tables up to 1000 workers
    python benchmarks/scaling.py --check out.json --gbit 1  # beside what benchmarks/distributed.py measured

All times in seconds, sizes in bytes, bandwidths in bytes a second and direction.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from typing import NamedTuple


class Network(NamedTuple):
    """What lies between the workers.

    Args:
        bandwidth: of each worker's link.
        latency: from one worker's send to another's receive, small message.
        shared: all workers share one link (processes of one machine on a limited loopback).
    """

    bandwidth: float
    latency: float
    shared: bool = False

    def seconds(self, size: float, workers: int) -> float:
        """How long each worker takes to send so many bytes, all at once."""
        return size * (workers if self.shared else 1) / self.bandwidth


def ring(size: float, workers: int, net: Network) -> float:
    """All-reduce in a ring: N-1 rounds of adding up, N-1 of handing out, a Nth of the data in each."""
    rounds = 2 * (workers - 1)
    return rounds * net.latency + net.seconds(rounds / workers * size, workers)


def tree(size: float, workers: int, net: Network) -> float:
    """All-reduce in two trees, pipelined (NCCL with many workers): the ring's bytes, logarithmically many rounds."""
    return 2 * math.ceil(math.log2(workers)) * net.latency + net.seconds(2 * size, workers) if workers > 1 else 0.0


def gathered(size: float, workers: int, net: Network, bits: int = 2) -> float:
    """Packed gradients of all to all: what up to 16 workers do."""
    return (workers - 1) * net.latency + net.seconds((workers - 1) * size * bits / 32, workers)


def in_parts(size: float, workers: int, net: Network, bits: int = 2) -> float:
    """Packed gradients, each worker sums a part, sums of 16 bits come back: what more than 16 workers do."""
    share = (workers - 1) / workers
    return 2 * (workers - 1) * net.latency + net.seconds(share * size * (bits / 32 + 0.5), workers)


def servers(size: float, workers: int, net: Network, count: int) -> float:
    """A push and a pull of all values: the workers' links, or the servers' where these are fewer."""
    if workers == 1 and not net.shared:
        return 0.0
    return 4 * net.latency + net.seconds(2 * size * max(1.0, workers / count), workers if net.shared else 1)


def straggling(spread: float, workers: int) -> float:
    """What waiting for the slowest costs: the mean of the largest of N normal deviates, for deviation `spread`."""
    return spread * math.sqrt(2 * math.log(workers)) if workers > 1 else 0.0


def step(compute: float, communicate: float, buckets: int, overlap: bool, latency: float = 0.0) -> float:
    """A step: computing and communicating one after the other, or bucket by bucket beside the backward pass.

    With overlap, the backward pass (two thirds of the computation) hides all but the last bucket.
    """
    communicate += (buckets - 1) * latency
    if not overlap:
        return compute + communicate
    backward = compute * 2 / 3
    return compute + max(communicate - backward * (buckets - 1) / buckets, communicate / buckets)


_MODELS = (("ResNet-50, 25.6 M parameters, 0.10 s", 25.6e6 * 4, 0.10), ("BERT-large, 340 M, 0.30 s", 340e6 * 4, 0.30))
_NETWORKS = (("10 Gbit/s, 30 us", Network(1.25e9, 30e-6)), ("100 Gbit/s, 5 us", Network(12.5e9, 5e-6)))
_COUNTS = (1, 2, 4, 8, 16, 64, 256, 1000)


def tables() -> None:
    """Prints the extrapolation."""
    for model, size, compute in _MODELS:
        for network, net in _NETWORKS:
            print(f"\n{model}; {network}: efficiency (time of one worker / time of a step)")
            print(f"{'workers':>8s}{'key by key':>12s}{'ring':>8s}{'tree':>8s}{'overlap':>9s}{'2-bit':>8s}"
                  f"{'N servers':>11s}{'straggle':>10s}")
            for n in _COUNTS:
                key_by_key = ring(size, n, net) + 160 * 2 * (n - 1) * net.latency
                packed = min(gathered(size, n, net), in_parts(size, n, net)) if n > 1 else 0.0
                buckets = max(1, round(size / (16 << 20)))
                times = [compute + key_by_key, compute + ring(size, n, net), compute + tree(size, n, net),
                         step(compute, tree(size, n, net), buckets, True, 2 * net.latency), compute + packed,
                         compute + servers(size, n, net, n), compute * (1 + straggling(0.02, n))]
                print(f"{n:8d}" + "".join(f"{compute / t:{w}.0%}" for t, w in
                                          zip(times, (12, 8, 8, 9, 8, 11, 10), strict=True)))


def compare(paths: Sequence[str], gbit: float, latency: float, local: float) -> None:
    """Prints measurements beside the model.

    Args:
        paths: JSON files of benchmarks/distributed.py.
        gbit: what the loopback was limited to; 0: not at all.
        latency: of a small message, seconds.
        local: what packing, summing and unpacking cost, seconds for each byte of the model and worker of the machine.
    """
    print(f"{'store':11s}{'compression':>12s}{'workers':>8s}{'MB':>6s}{'measured ms':>12s}{'model ms':>10s}")
    net = Network(gbit / 8 * 1e9 if gbit else math.inf, latency, shared=True)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        for row in rows:
            n, size = row["workers"], row["million parameters"] * 4e6
            if row["kvstore"] == "dist_async":
                sent = servers(size, n, net, n)
            elif row["compression"] != "none":
                sent = gathered(size, n, net, int(row["compression"][0]))
            else:
                sent = ring(size, n, net)
            at_work = n if n > 1 or row["kvstore"] == "dist_async" else 0
            model = row["ms computing"] / 1e3 + sent + local * size * at_work
            print(f"{row['kvstore']:11s}{row['compression']:>12s}{n:8d}{size / 1e6:6.0f}{row['ms a step']:12.1f}"
                  f"{1e3 * model:10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", nargs="+", help="results of benchmarks/distributed.py")
    parser.add_argument("--gbit", type=float, default=0, help="bandwidth of the loopback in these; 0: unlimited")
    parser.add_argument("--latency", type=float, default=2e-4, help="seconds for a small message")
    parser.add_argument("--local", type=float, default=1e-9, help="seconds a byte and worker on this machine")
    given = parser.parse_args()
    if given.check:
        compare(given.check, given.gbit, given.latency, given.local)
    else:
        tables()


if __name__ == "__main__":
    main()
