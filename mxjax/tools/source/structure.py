"""Recovers the blocks of a model: parts of the sequence of steps that repeat become classes with arguments.

The graph has names and edges only. What is repeated (the same operators, wired alike, entered by a few values and left
by one) is found greedily: always the part whose class saves most lines, within the groups that the names tell of, until
nothing more is saved. Classes are searched too, so that blocks of blocks are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .steps import Ref, Step

__all__ = ["Block", "Body", "Param", "find"]

_LONGEST, _ENTRIES = 120, 4  # steps of a repeated part, values it takes
_ARGUMENTS, _TRIED = 8, 40  # arguments that a class may have; parts that are looked at closely
_HEADER, _ENTRY = 6, 5  # cost of a class, and of each argument of a use beyond the first


@dataclass(eq=False)
class Body:
    """The steps of one use of a block, with the values of its arguments."""

    steps: list[Step]
    inputs: int
    outputs: list[Ref]
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Param:
    """An argument of a block's class, and its value in each use."""

    name: str
    values: tuple


@dataclass(eq=False)
class Block:
    """A class: all its uses, alike but for numbers; the first one is the model of the text.

    source: what the model calls those that are the whole of a group; texts: what is written for the numbers at
    (step, key) that are arguments, or follow from them.
    """

    bodies: list[Body]
    name: str = ""
    source: list[str] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)
    texts: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        """Returns the steps of the first use."""
        return self.bodies[0].steps


def find(inputs: list[str], steps: list[Step], outputs: list[Ref]) -> list[Block]:
    """The blocks of a sequence of steps, each after those it is made of; the last is the model."""
    blocks: list[Block] = []
    _gather(Block([Body(steps, len(inputs), outputs)]), blocks)
    while (best := _best(blocks)) is not None:
        length, spots = best
        new = Block([])
        for block in blocks:
            starts = [start for b, start in spots if b is block]
            if starts:
                for body in block.bodies:
                    _replace(body, starts, length, new)
        blocks.append(new)
    order: list[Block] = []
    _visit(blocks[0], order)
    for block in order:
        _parametrize(block)
    return order


def _gather(block: Block, blocks: list[Block]) -> None:
    """A block and those that it has from the start: bodies of loops."""
    blocks.append(block)
    for step in block.steps:
        if step.child is not None:
            _gather(step.child, blocks)


def _visit(block: Block, order: list[Block]) -> None:
    for step in block.steps:
        if step.child is not None and step.child not in order:
            _visit(step.child, order)
    order.append(block)


# ------------------------------------------------------------ repeated parts
def _lasts(body: Body) -> list[int]:
    """For each step the last one that uses it."""
    last = list(range(len(body.steps)))
    for place, step in enumerate(body.steps):
        for p, _ in step.inputs:
            if p >= 0:
                last[p] = place
    for p, _ in body.outputs:
        if p >= 0:
            last[p] = len(body.steps)
    return last


def _parts(block: Block, table: dict[tuple, int]) -> Iterator[tuple[tuple[int, int, int], int]]:
    """((number of its form, length, values it takes), start) of the parts that could be blocks."""
    steps, last = block.steps, _lasts(block.bodies[0])
    keys = [table.setdefault(s.signature, len(table)) for s in steps]
    for start in range(len(steps)):
        form, entries, reach = -1, {}, 0
        for end in range(start, min(len(steps), start + _LONGEST)):
            step = steps[end]
            if step.shared or step.maker in ("PARAMETER", "BUFFER") and end == start:
                break
            wiring = []
            for p, i in step.inputs:
                if p >= start:
                    wiring.append((p - start, i))
                else:
                    wiring.append((-1, entries.setdefault((p, i), len(entries))))
            if len(entries) > _ENTRIES:
                break
            form = table.setdefault((form, keys[end], tuple(wiring)), len(table))
            reach = max(reach, last[end - 1] if end > start else 0)
            length = end - start + 1
            if length > 1 and reach <= end and step.results == 1 and length < len(steps) and entries:
                yield (form, length, len(entries)), start


def _alone(steps: list[Step], start: int, length: int) -> bool:
    """Returns whether a part is the whole of a group."""
    common = _common(steps[start:start + length])
    beside = (*steps[max(start - 1, 0):start], *steps[start + length:start + length + 1])
    return bool(common) and all(step.path[:len(common)] != common for step in beside)


def _whole(steps: list[Step], start: int, length: int) -> bool:
    """Returns whether a part begins and ends no group in the middle, is no row of groups, and cuts no row of equal
    blocks.
    """
    part, end = steps[start:start + length], start + length
    common = len(_common(part))
    paths = [s.path for s in part]
    before, after = steps[start - 1].path if start else (), steps[end].path if end < len(steps) else ()
    if any(path[common:] and path[:common + 1] == beside[:common + 1] for path, beside in (
            (paths[0], before), (paths[-1], after))):
        return False
    inner = [path[:common + 1] for path in paths if len(path) > common]
    alone = _alone(steps, start, length)
    rows = ((a, b) for a, b in ((start - 1, start), (end - 1, end)) if 0 <= a and b < len(steps))
    if not alone and (length < 3 or any(
            steps[a].child is not None and steps[a].child is steps[b].child for a, b in rows)):
        return False
    return alone or len(inner) < length or len(set(inner)) < 2


def _best(blocks: list[Block]) -> tuple[int, list[tuple[Block, int]]] | None:
    """(length, places) of the part whose class saves most; where several do, the one with fewest arguments."""
    table: dict[tuple, int] = {}
    result: dict[tuple[int, int, int], list[tuple[Block, int]]] = {}
    forms: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # (block, start, length): its kind
    for number, block in enumerate(blocks):
        for form, start in _parts(block, table):
            result.setdefault(form, []).append((block, start))
            forms[number, start, form[1]] = form
    numbers = {id(block): number for number, block in enumerate(blocks)}
    choices = []
    for (_, length, entries), spots in result.items():
        if len(spots) < 2:
            continue
        unit = _unit(forms, numbers[id(spots[0][0])], spots[0][1], length)
        if unit is not None and min(_variety(length, _apart(spots, length, turned)) for turned in (False, True)
                                    ) >= _variety(unit[1], result[unit]):
            continue
        spots = [(b, start) for b, start in spots if _whole(b.steps, start, length) and (
            unit is not None or _alone(b.steps, start, length) or not _cuts(forms, numbers[id(b)], start, length))]
        for turned in (False, True):
            apart = _apart(spots, length, turned)
            saved = (len(apart) - 1) * (length - 1) - _HEADER - _ENTRY * (entries - 1) * len(apart)
            if len(apart) > 1 and saved > 0:
                choices.append((saved, length, apart))
    choices.sort(key=lambda c: (-c[0], c[1]))
    best = [(gain - variety + _opening(spots[0]), -place, length, spots)
            for place, (gain, length, spots) in enumerate(choices[:_TRIED])
            if (variety := _variety(length, spots)) <= _ARGUMENTS]
    if not best:
        return None
    gain, _, length, spots = max(best, key=lambda b: b[:2])
    return (length, spots) if gain > -3 else None


def _unit(forms: dict[tuple[int, int, int], tuple[int, int, int]], block: int, start: int,
          length: int) -> tuple[int, int, int] | None:
    """The kind of the smaller parts that a part is a row of."""
    for count in range(length // 2, 1, -1):
        if length % count == 0:
            size = length // count
            units = {forms.get((block, start + i * size, size)) for i in range(count)}
            if len(units) == 1 and None not in units:
                return units.pop()
    return None


def _cuts(forms: dict[tuple[int, int, int], tuple[int, int, int]], block: int, start: int, length: int) -> bool:
    """Returns whether a part ends within a row of equal smaller ones, or begins there."""
    for size in range(2, length):
        for place in (start, start + length):
            form = forms.get((block, place, size))
            if form is not None and form == forms.get((block, place - size, size)):
                return True
    return False


def _apart(spots: list[tuple[Block, int]], length: int, turned: bool) -> list[tuple[Block, int]]:
    """Returns the places that do not overlap, taken from the front or from the back."""
    kept: list[tuple[Block, int]] = []
    for block, start in (spots[::-1] if turned else spots):
        if not kept or kept[-1][0] is not block or abs(start - kept[-1][1]) >= length:
            kept.append((block, start))
    return kept[::-1] if turned else kept


def _variety(length: int, spots: list[tuple[Block, int]]) -> int:
    """Returns the number of different rows of numbers, which would be arguments."""
    uses = [[value for step in body.steps[start:start + length] for value in _numbers(step)]
            for block, start in spots for body in block.bodies]
    return sum(len(set(row)) > 1 for row in set(zip(*uses, strict=True)))


def _opening(spot: tuple[Block, int]) -> int:
    """Between parts that are the same but for where they begin, those are blocks that begin with a layer of weights."""
    step = spot[0].steps[spot[1]]
    return 2 if step.child is not None or step.tensors and "Norm" not in step.maker else -2 if not step.tensors else 0


def _numbers(step: Step) -> Iterator[Any]:
    """Returns all numbers in a step and in the steps that it represents."""
    yield from step.args.values()
    for inner in step.body.steps if step.body is not None else ():
        yield from _numbers(inner)


# ------------------------------------------------------------ blocks in the place of steps
def _replace(body: Body, starts: list[int], length: int, new: Block) -> None:
    steps: list[Step] = []
    moved: dict[int, int] = {}  # old position -> new one

    def renamed(refs: list[Ref]) -> list[Ref]:  # a block has one result
        refs = [(moved[p] if p >= 0 else p, i) for p, i in refs]
        return [(p, 0 if p >= 0 and steps[p].child is new else i) for p, i in refs]
    groups = [s.group for s in body.steps]
    place = 0
    while place < len(body.steps):
        if place not in starts:
            step = body.steps[place]
            step.inputs = renamed(step.inputs)
            moved[place] = len(steps)
            steps.append(step)
            place += 1
            continue
        part, entries = body.steps[place:place + length], {}
        group = _common(part)
        alone = bool(group) and sum(g[:len(group)] == group for g in groups) == length
        for step in part:
            step.inputs = [(p - place, i) if p >= place else (-1 - entries.setdefault((p, i), len(entries)), 0)
                           for p, i in step.inputs]
            step.group = step.group[len(group):]
        outer = [r for r, _ in sorted(entries.items(), key=lambda e: e[1])]
        users = {i for s in body.steps[place + length:] for p, i in s.inputs if p == place + length - 1}
        users |= {i for p, i in body.outputs if p == place + length - 1}
        inner = Body(part, len(entries), [(length - 1, min(users, default=0))])
        new.bodies.append(inner)
        if alone:
            new.source.append(group[-1])
        call = Step(group[-1] if alone else "", "{self}(...)", renamed(outer), child=new, body=inner,
                    group=group[:-1] if alone else group)
        for i in range(length):
            moved[place + i] = len(steps)
        steps.append(call)
        place += length
    body.steps, body.outputs = steps, renamed(body.outputs)


def _common(part: list[Step]) -> tuple[str, ...]:
    group = part[0].group
    for step in part:
        while step.group[:len(group)] != group:
            group = group[:-1]
    return group


# ------------------------------------------------------------ arguments
_WIDTHS = frozenset(["in_channels", "out_channels", "in_features", "out_features", "num_features", "num_groups",
                     "channels", "hidden", "groups"])
_NAMES = (({"in_channels", "out_channels"}, "channels"), ({"in_features", "out_features"}, "features"),
          ({"in_channels", "channels"}, "channels"),
          ({"in_channels"}, "in_channels"), ({"out_channels"}, "channels"))


def _parametrize(block: Block) -> None:
    """Makes arguments of the numbers in which the uses of a block differ."""
    rows: dict[tuple, list[tuple[int, str]]] = {}
    for place, step in enumerate(block.steps):
        for key in _args(step):
            row = tuple(_args(body.steps[place])[key] for body in block.bodies)
            if len(set(map(repr, row))) > 1:
                rows.setdefault(row, []).append((place, key))
    names: set[str] = set()
    for row, slots in rows.items():
        keys = [key for _, key in slots]
        widths = all(k in _WIDTHS for k in keys)
        base = next((p for p in block.params if widths and p.name in ("channels", "out_channels")
                     and _ratio(row, p.values)), None)
        if base is not None:
            text = _ratio(row, base.values).replace("?", base.name)
        else:
            name = next((n for needed, n in _NAMES if needed <= set(keys)), keys[0])
            name = "out_channels" if name == "channels" and "channels" in names else name
            text, number = name, 2
            while text in names:
                text, number = f"{name}{number}", number + 1
            names.add(text)
            block.params.append(Param(text, row))
        for slot in slots:
            block.texts[slot] = text
    for i, body in enumerate(block.bodies):
        body.values = {p.name: p.values[i] for p in block.params}


def _ratio(row: tuple, base: tuple) -> str:
    """Returns how a row of numbers follows from another one, "" where it does not."""
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in row + base):
        return ""
    for k in range(2, 9):
        if all(a == k * b for a, b in zip(row, base, strict=True)):
            return f"{k} * ?"
        if all(a * k == b for a, b in zip(row, base, strict=True)):
            return f"? // {k}"
    return ""


def _args(step: Step) -> dict[str, Any]:
    return step.args if step.child is None else step.body.values
