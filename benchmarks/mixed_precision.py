"""Training steps in float32, by AMP in bfloat16, and of a network cast to bfloat16, compiled for a TPU or GPU.

    python benchmarks/mixed_precision.py [--on v5e:1x1] [--only REGEX] [--out mixed_precision.json] [--table]

Memory, traffic and launches are counted in the compiled program; the time is a bound by the data sheet, not a
measurement. The device need not be here, its compiler must. What the JSON file has is not done again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import programs
from _networks import case

import mxjax as mx

SMALLEST_FIRST = ("lstm", "resnet18", "mobilenet", "ssd", "bert", "resnet50")
FORMS = {"float32": "float32", "bfloat16": "bfloat16", "amp": "float32"}  # AMP last: it stays on


def table(known: dict[str, Any]) -> str:
    """What the plans say."""
    lines = ["| training step | launches | moved, MB | temporaries, MB | memory, MB | operations, T | at least, ms |",
             "|---" * 7 + "|"]
    for name in sorted(known, key=lambda key: (SMALLEST_FIRST.index(key.split(".")[0]), list(FORMS).index(
            key.split("@")[0].split(".")[1]))):
        p = known[name]
        lines.append(f"| {name} | {p['launches']} | {p['moved'] / 1e6:.0f} | {p['memory']['temporaries'] / 1e6:.0f} | "
                     f"{p['memory']['total'] / 1e6:.0f} | {p['flops'] / 1e12:.3g} | {1e3 * p['step']:.2f} "
                     f"({p['bound']}) |")
    return "\n".join(lines)


def main() -> int:
    """Compiles what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--on", default="v5e:1x1")
    parser.add_argument("--only", default="", help="a regular expression for lstm.amp, resnet18.float32 ...")
    parser.add_argument("--out", default="mixed_precision.json")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    out = Path(given.out)
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for form, dtype in ({} if given.table else FORMS).items():
        if form == "amp":
            mx.contrib.amp.init("bfloat16")
        for network in SMALLEST_FIRST:
            name = f"{network}.{form}@{given.on}"
            if name not in known and re.search(given.only, name):
                known[name] = json.loads(programs.planned(case(network), True, dtype, given.on).to_json())
                print(name, {k: known[name][k] for k in ("launches", "moved", "bound", "step")}, flush=True)
                out.write_text(json.dumps(known, indent=1), encoding="utf-8")
    print(table(known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
