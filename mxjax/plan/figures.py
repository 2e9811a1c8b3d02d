"""Statistics from the text of a compiled program: launches, bytes that they move, and collectives."""

from __future__ import annotations

import collections
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["figures"]

_WIDTH = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "f32": 4, "s32": 4, "u32": 4, "f16": 2, "bf16": 2, "s16": 2, "u16": 2}
_NOTHING = frozenset("""parameter get-tuple-element tuple bitcast constant after-all partition-id replica-id copy-done
    all-reduce-done all-gather-done collective-permute-done async-done async-update slice-done fusion-done""".split())
_ON_NUMBERS = frozenset("""add and compare copy convert maximum minimum multiply not or remainder select
    subtract""".split())  # scalars of a loop
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_PARTS = ("dynamic-slice", "slice", "gather")  # they read as much of their first operand as they give, at once or
                                               # in the background (slice-start)
_SAME = ("bitcast", "reshape", "copy", "convert")  # inside a fusion
_COMPUTATION = re.compile(r"(ENTRY )?(%?[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s*(ROOT )?(%?[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")
_ARRAY = re.compile(r"\b([a-z]+\d+|pred)\[([\d,]*)\](\{[^}]*\})?")


class _Instruction(NamedTuple):
    """One of a computation. kind: type of the result; rest: operands and attributes, as text."""

    root: bool
    name: str
    kind: str
    operation: str
    rest: str

    @property
    def inputs(self) -> list[str]:
        return re.findall(r"%[\w.\-]+", self.rest.split("), ")[0])

    def attribute(self, name: str) -> list[str]:
        """Returns the computations that an attribute names."""
        match = re.search(rf"\b{name}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.rest)
        return re.findall(r"%[\w.\-]+", match[1]) if match else []


@dataclass
class _Cost:
    """Of a computation, once."""

    moved: int = 0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    collectives: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0] for name in _COLLECTIVES})

    def add(self, other: _Cost, times: int) -> None:
        self.moved += times * other.moved
        for name, count in other.kinds.items():
            self.kinds[name] += times * count
        for name, row in other.collectives.items():
            self.collectives[name] = [a + times * b for a, b in zip(self.collectives[name], row, strict=True)]


def figures(text: str, on_chip: bool = False) -> dict[str, Any]:
    """Returns the work of a program per device.

    Loops are multiplied by their number of iterations, if the text contains it. If a launch reads
    or writes a part of an array, only that part counts.

    Args:
        text: text of the compiled program (`compiled.as_text()`).
        on_chip: whether arrays in memory space 1 are in a TPU's fast memory and cause no traffic.

    Returns:
        `launches`: number of instructions that start work on the device; `moved`: bytes that they
        read and write; `collectives`: number and operand bytes of each kind; `kinds`: number of
        launches of each kind of instruction.
    """
    program = _Program(text, on_chip)
    cost = program.cost(program.entry)
    return {"launches": sum(cost.kinds.values()), "moved": cost.moved, "kinds": dict(cost.kinds.most_common()),
            "collectives": {name: tuple(row) for name, row in cost.collectives.items() if row[0]}}


class _Program:
    """The computations of a program by name."""

    def __init__(self, text: str, on_chip: bool) -> None:
        self.parts: dict[str, list[_Instruction]] = {}
        self.entry, self._on_chip, lines = "", on_chip, []
        for line in text.splitlines():
            header = _COMPUTATION.match(line)
            match = None if header else _INSTRUCTION.match(line)
            if header:
                lines = self.parts.setdefault(header[2], [])
                self.entry = header[2] if header[1] else self.entry
            elif match:
                lines.append(_waited_for(_Instruction(bool(match[1]), *match.groups()[1:])))
        self._channels: set[str] = set()
        self.cost = functools.cache(self._cost)

    def _bytes(self, text: str, everywhere: bool = False) -> int:
        """Of a type, or of all types in a tuple; `everywhere`: in fast memory, too."""
        return sum(self._size(*one, everywhere=everywhere) for one in _ARRAY.findall(text))

    def _size(self, name: str, lengths: str, layout: str, everywhere: bool = False) -> int:
        if self._on_chip and "S(1)" in layout and not everywhere:
            return 0
        return _WIDTH.get(name, 1) * math.prod(int(length) for length in lengths.split(",") if length)

    def _cost(self, name: str) -> _Cost:
        cost, types = _Cost(), {}
        taken = {(one.inputs[0], one.rest.partition("index=")[2].partition(",")[0]) for one in self.parts.get(name, ())
                 if one.operation == "get-tuple-element"}
        for one in self.parts.get(name, ()):
            types[one.name] = one.kind
            if one.operation == "custom-call" and one.kind.startswith("(") and not one.root:
                one = _without_scratch(one, taken)
            if one.operation in _NOTHING or one.operation in _ON_NUMBERS and "[]" in one.kind:
                continue
            if one.operation == "while":
                for body in one.attribute("body"):
                    cost.add(self.cost(body), self._trips(one))
                continue
            if one.operation in ("call", "conditional"):
                inner = [self.cost(part) for key in ("to_apply", "branch_computations", "true_computation",
                                                     "false_computation") for part in one.attribute(key)]
                if inner:  # of branches, the one that does most
                    cost.add(max(inner, key=lambda part: part.moved), 1)
                    continue
            sizes = [self._bytes(types.get(i, "")) for i in one.inputs]
            cost.kinds[one.operation] += 1
            cost.moved += self._moved(one, sizes, types)
            which = next((c for c in _COLLECTIVES if one.operation in (c, f"{c}-start")), None)
            channel = re.search(r"channel_id=(\d+)", one.rest)
            if which is not None and (channel is None or channel[1] not in self._channels):
                self._channels |= {channel[1]} if channel else set()  # one channel may have several stages
                count, size = cost.collectives[which]
                cost.collectives[which] = [count + 1, size + sum(self._bytes(types.get(i, ""), True)
                                                                 for i in one.inputs)]
            for part in one.attribute("calls"):  # collectives inside a fused launch
                cost.add(_Cost(collectives=self.cost(part).collectives), 1)
        return cost

    def _trips(self, loop: _Instruction) -> int:
        """Returns how often a loop runs: by XLA's trip count, else by what its condition compares with, else once."""
        trip_count = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest)
        if trip_count:
            return int(trip_count[1])
        compared = [one.rest for name in loop.attribute("condition") for one in self.parts.get(name, ())
                    if one.operation == "constant" and one.kind.startswith("s32[]")]
        return max([int(match[1]) for rest in compared if (match := re.match(r"(\d+)\)", rest))], default=1)

    def _moved(self, one: _Instruction, sizes: list[int], types: dict[str, str]) -> int:
        if one.operation.removesuffix("-start") in _PARTS:
            array = _ARRAY.findall(one.kind)[len(sizes) if one.operation.endswith("-start") else 0]
            return (self._size(*array, everywhere=True) if sizes[0] else 0) + self._size(*array)
        if one.operation == "dynamic-update-slice":
            return 2 * sizes[1]
        if one.operation.endswith("-start") and one.kind.startswith("("):  # it names the operands again
            return max(self._bytes(one.kind), sum(sizes))
        inner = self.parts.get(next(iter(one.attribute("calls")), ""), []) if one.operation == "fusion" else []
        if not inner:
            return self._bytes(one.kind) + sum(sizes)
        return sum(self._read(inner, i, size) for i, size in enumerate(sizes)) + self._written(inner, one.kind)

    def _read(self, inner: list[_Instruction], number: int, size: int) -> int:
        """Bytes that a fusion reads of an operand: parts of it where it only takes those, nothing to overwrite some."""
        start = next((one.name for one in inner if one.operation == "parameter" and
                      one.rest.startswith(f"{number})")), None)
        if start is None or not size:
            return size
        total = 0
        for user, name in _users(inner, start):
            if user.operation in _PARTS and user.inputs[0] == name:
                total += self._bytes(user.kind)
            elif user.operation != "dynamic-update-slice" or user.inputs[0] != name:
                return size
        return min(total, size)

    def _written(self, inner: list[_Instruction], text: str) -> int:
        """Bytes that a fusion writes: of an array that it changes in part, that part."""
        known = {one.name: one for one in inner}
        root = next(one for one in inner if one.root)
        ends = [known[i] for i in root.inputs if i in known] if root.operation == "tuple" else [root]
        arrays = [m[0] for m in _ARRAY.finditer(text)]
        total = 0
        for end, whole in zip(ends, arrays, strict=False):
            while end.operation in _SAME and end.inputs and end.inputs[0] in known:
                end = known[end.inputs[0]]
            part = known.get(end.inputs[1]) if end.operation == "dynamic-update-slice" else None
            total += min(self._bytes(whole), self._bytes(part.kind)) if part else self._bytes(whole)
        return total


def _without_scratch(one: _Instruction, taken: set[tuple[str, str]]) -> _Instruction:
    """A library's call without the room that it was given for itself: bytes that nothing takes afterwards."""
    results = [result[0] for result in _ARRAY.finditer(one.kind)]
    kept = [r for i, r in enumerate(results) if (one.name, str(i)) in taken or not r.startswith(("s8[", "u8["))]
    return one._replace(kind=f"({', '.join(kept)})")


def _waited_for(one: _Instruction) -> _Instruction:
    """A fusion that others run beside as one that is waited for: its type names operands, results, and a number."""
    if one.operation != "fusion-start":
        return one
    results = [result[0] for result in _ARRAY.finditer(one.kind)][len(one.inputs):-1]
    return one._replace(operation="fusion", kind=f"({', '.join(results)})" if len(results) > 1 else results[0])


def _users(inner: list[_Instruction], start: str) -> Iterator[tuple[_Instruction, str]]:
    """Returns the readers of a value in a fusion, and its name there: its own, or that of another form of it."""
    names = {start}
    for one in inner:  # each after its operands
        for name in one.inputs:
            if name in names:
                if one.operation in ("bitcast", "reshape") and not one.root:
                    names.add(one.name)
                else:
                    yield one, name
                break
