"""What the text of a compiled program says: launches, bytes that they move, and what devices send each other."""

from __future__ import annotations

import collections
import re
from typing import Any

__all__ = ["figures"]

_WIDTH = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "f32": 4, "s32": 4, "u32": 4, "f16": 2, "bf16": 2, "s16": 2, "u16": 2}
_NOTHING = frozenset("parameter get-tuple-element tuple bitcast constant after-all partition-id replica-id copy-done "
                     "all-reduce-done all-gather-done collective-permute-done async-done async-update".split())
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_INSTRUCTION = re.compile(r"\s*(?:ROOT )?(%?[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")


def _bytes(kind: str) -> int:
    """Of a type, or of all types in a tuple."""
    total = 0
    for name, lengths in re.findall(r"\b([a-z]+\d+|pred)\[([\d,]*)\]", kind):
        count = 1
        for length in lengths.split(","):
            count *= int(length) if length else 1
        total += _WIDTH.get(name, 1) * count
    return total


def figures(text: str) -> dict[str, Any]:
    """What a program does on each device.

    Args:
        text: of the compiled program (`compiled.as_text()`).

    Returns:
        `launches`: instructions that start something on the device; `moved`: bytes that these read and write;
        `collectives`: for each kind how many there are, and bytes of their results; `kinds`: how many launches of each
        kind of instruction.
    """
    entry = text.split("\nENTRY ", 1)[-1].split("\n}", 1)[0]
    types: dict[str, str] = {}
    kinds: collections.Counter[str] = collections.Counter()
    moved, collectives = 0, {name: [0, 0] for name in _COLLECTIVES}
    for line in entry.splitlines():
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        name, kind, operation, rest = found.groups()
        types[name] = kind
        if operation in _NOTHING:
            continue
        kinds[operation] += 1
        inputs = re.findall(r"%[\w.\-]+", rest.split("), ")[0])
        moved += _bytes(kind) + sum(_bytes(types.get(i, "")) for i in inputs)
        which = next((c for c in _COLLECTIVES if operation in (c, f"{c}-start")), None)
        if which is not None:
            collectives[which][0] += 1
            collectives[which][1] += sum(_bytes(types.get(i, "")) for i in inputs)
    return {"launches": sum(kinds.values()), "moved": moved, "kinds": dict(kinds.most_common()),
            "collectives": {name: tuple(row) for name, row in collectives.items() if row[0]}}
