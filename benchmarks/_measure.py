"""What the comparing benchmarks share: one program under mxjax and MXNet 1.9.1, in processes of its own, in turns."""

# ruff: noqa: B905  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time


def best(step, seconds):
    """Milliseconds of a call: the best of many."""
    for _ in range(4):
        step()
    fastest, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e3


def timed(mx, function, inputs, params, variables, seconds):
    """[milliseconds forward, forward + backward or None] of a function; `variables` are the inputs with gradients."""
    def forward():
        out = function(*inputs, **params)
        for o in out if isinstance(out, (list, tuple)) else [out]:
            o.wait_to_read()

    def both():
        with mx.autograd.record():
            out = function(*inputs, **params)
        (out[0] if isinstance(out, (list, tuple)) else out).backward()
        for x in variables:
            x.grad.wait_to_read()

    row = [best(forward, seconds), None]
    if variables:
        for x in variables:
            x.attach_grad()
        row[1] = best(both, seconds)
    return row


def run(script, python, package, only, seconds):
    """{name: figures} of the script's `measure` in a process of its own."""
    command = [python, "-W", "ignore", os.path.abspath(script), "--measure", package, "--only", only, "--seconds",
               str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                          cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                          env={**os.environ, "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0",
                               # MXNet's own choice is half of the processors
                               "OMP_NUM_THREADS": str(os.cpu_count())})
    return {k: v for line in done.stdout.splitlines() if line.startswith("{") for k, v in json.loads(line).items()}


def better(a, b):
    """The smaller of two measurements everywhere."""
    if not isinstance(b, list):
        return b if a is None or b is None else min(a, b)
    return [better(x, y) for x, y in zip(a, b)]


def summary(ratios):
    """A line about ratios mxjax / MXNet."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return (f"Geometric mean of {len(ratios)} ratios: **{mean:.2f}**; above 3: {sum(r > 3 for r in ratios)}; "
            f"below 1: {sum(r < 1 for r in ratios)}.")


def table(ours, theirs, what="operator"):
    """The Markdown table: ratios mxjax / MXNet for all sizes, and milliseconds for the largest."""
    lines = [f"| {what} | forward | forward + backward | mxjax ms | MXNet ms |", "|---|---|---|---|---|"]
    ratios = []
    for name, rows in ours.items():
        other = theirs.get(name, [[None, None]] * len(rows))
        cells = []
        for which in (0, 1):
            known = [m[which] / t[which] for m, t in zip(rows, other) if m[which] and t[which]]
            ratios += known
            cells.append(" / ".join(f"{r:.2f}" for r in known) or "-")
        last = ["-" if r[-1][0] is None else f"{r[-1][1] or r[-1][0]:.3g}" for r in (rows, other)]
        lines.append(f"| `{name}` | {cells[0]} | {cells[1]} | {last[0]} | {last[1]} |")
    return "\n".join([*lines, "", summary(ratios)] if ratios else lines)


def main(script, doc, measure, show, further=()):
    """Measures and prints.

    Args:
        script: the benchmark's file.
        doc: its description.
        measure: function(side, pattern of names, seconds) that yields (name, figures) with the package `side`.
        show: function({name: figures} for each side: mxjax, mxnet, further ones) -> the table.
        further: sides beside "mxjax" and "mxnet" that mxjax's interpreter measures.
    """
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--mxnet", help="interpreter that has MXNet 1.9.1")
    parser.add_argument("--only", default="*", help="what to measure, may have * and ?")
    parser.add_argument("--seconds", type=float, default=0.1, help="seconds for each measurement")
    parser.add_argument("--turns", type=int, default=2, help="how often each side is measured; the best counts")
    parser.add_argument("--out", help="write the table to this file, too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        for name, figures in measure(given.measure, given.only, given.seconds):
            print(json.dumps({name: figures}), flush=True)
        return
    sides = {"mxjax": sys.executable, "mxnet": given.mxnet, **dict.fromkeys(further, sys.executable)}
    found = {side: {} for side in sides}
    for _ in range(given.turns):
        for side, python in sides.items():
            for name, rows in (run(script, python, side, given.only, given.seconds) if python else {}).items():
                found[side][name] = better(found[side].get(name, rows), rows)
    text = show(*found.values())
    print(text)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as f:
            f.write(text + "\n")
