"""Blocks as text: a class for each, and the names that its parameters have in the file of weights."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .steps import Ref, Step, Table
from .structure import Block, Body, Param

__all__ = ["Target", "text", "weights"]

_WIDTH = 108  # of a written line
_CHAIN = 8  # steps from which on a chain without a name of its own is a layer
_VARIABLES = ("x", "y", "z", "u", "v", "w")


@dataclass(frozen=True)
class Target:
    """The properties of a target library.

    package, extra_name: what must be installed, and mxjax's extra for it; head: imports for a source text; foot: the
    function `load`, of {name}; given: makes a tensor of the NumPy array `value`; module, call: the base class and the
    method that computes; tensor: the type of values; init: the constructor's first line; extra: what every layer's
    constructor takes besides, e.g. "rngs=rngs"; sequential, members, several: a chain, what its parameters' names have
    between, a list of layers; special: text of parameters, buffers and constants; turn: text of a transposition, where
    channels come last; compiled: the loaded model, as one program where the library compiles.
    """

    table: Table
    package: str
    extra_name: str
    head: Callable[[str], str]
    foot: str
    given: str
    module: str
    call: str
    tensor: str
    init: str
    extra: str
    sequential: str
    members: str
    several: str
    special: Callable[[Step], str]
    turn: str = ""
    compiled: str = "load()"


@dataclass
class _Item:
    """A statement to be: a step, a chain, or a loop over blocks."""

    places: list[int]
    name: str = ""
    kind: str = "step"
    inputs: list[Ref] = field(default_factory=list)
    call: str = ""


def _identifier(name: str) -> str:
    name = re.sub(r"\W+", "_", name).strip("_").lower() or "value"
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def _camel(name: str) -> str:
    result = "".join(p[:1].upper() + p[1:] for p in re.split(r"\W+|_", name) if p)
    return result if result.isidentifier() and not keyword.iskeyword(result) else f"Net{result}"


def _show(value: Any) -> str:
    if isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
        return f"({', '.join(map(str, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


# ------------------------------------------------------------ the shape of a class
class _Class:
    """A block on its way to text: its statements and the names of its layers."""

    def __init__(self, block: Block, target: Target) -> None:
        self.block, self.target, self.steps = block, target, block.steps
        self.top = len(block.bodies) == 1
        self.users: Counter = Counter(r for s in self.steps for r in s.inputs)
        self.users.update(block.bodies[0].outputs)
        self.taken: set[str] = set()
        self.items = self._items()
        self.attrs: dict[int, str] = {}
        self._name_layers()

    def _chained(self, place: int) -> bool:
        """Returns whether a step takes only the result of the one before, and no other step takes it."""
        return self.steps[place].inputs == [(place - 1, 0)] and self.users[place - 1, 0] == 1

    def _layer_like(self, place: int) -> bool:
        step = self.steps[place]
        return len(step.inputs) == 1 and step.results == 1 and not step.shared and (
            step.child is not None or bool(step.module) or bool(step.maker) and step.call == "{self}({0})")

    def _items(self) -> list[_Item]:
        """Groups that are chains, rows of equal blocks and long chains become one statement each."""
        items: list[_Item] = []
        place, count = 0, len(self.steps)
        while place < count:
            step = self.steps[place]
            chain = self._run(place)
            group = [p for p in chain if self.steps[p].group[:1] == step.group[:1]] if step.group else []
            group = group[:next((i for i, p in enumerate(group) if p != place + i), len(group))]
            whole = group and (group[-1] + 1 == count or self.steps[group[-1] + 1].group[:1] != step.group[:1]) and (
                place == 0 or self.steps[place - 1].group[:1] != step.group[:1])
            equal = [p for p in chain if self.steps[p].child is step.child] if step.child is not None else []
            equal = equal[:next((i for i, p in enumerate(equal) if p != place + i), len(equal))]
            loose = chain[:next((i for i, p in enumerate(chain) if self.steps[p].group), len(chain))]
            loop = self._loop(place)
            if whole and len(group) > 1:
                items.append(_Item(group, _identifier(step.group[0]), "chain"))
            elif len(loose) >= _CHAIN:
                items += self._parts(loose)
                group = loose
            elif len(equal) >= 3 and not step.name:
                items.append(_Item(equal, self._plural(step), "chain"))
                group = equal
            elif len(loop) >= 2:
                items.append(_Item(loop, self._plural(step), "loop"))
                group = loop
            else:
                items.append(_Item([place]))
                group = [place]
            place += len(group)
        for item in items:
            item.inputs = list(self.steps[item.places[0]].inputs)
        return items

    def _short(self, block: Block) -> str:
        """Returns the name of a block that the model gives none: after its layer if it has but one, else its class."""
        heavy = [s for s in block.steps if s.tensors or s.child is not None]
        names = {re.sub(r"\d+$", "", s.name) for s in heavy if "Norm" not in s.maker}
        if len(block.steps) <= 3 and len(names) == 1 and (name := names.pop()):
            return name
        return re.sub(r"(?<!^)(?=[A-Z])", "_", block.name.rstrip("0123456789"))

    def _plural(self, step: Step) -> str:
        return _identifier(self._short(step.child)) + "s"

    def _run(self, place: int) -> list[int]:
        """The chain of layers that begins at a step."""
        if not self._layer_like(place):
            return []
        end = place + 1
        while end < len(self.steps) and self._chained(end) and self._layer_like(end):
            end += 1
        return list(range(place, end))

    def _loop(self, place: int) -> list[int]:
        """Equal blocks, each taking the result of the one before in the same place, and else the same values."""
        step, result = self.steps[place], [place]
        if step.child is None or len(step.inputs) < 2:
            return []
        while result[-1] + 1 < len(self.steps):
            last, other = result[-1], self.steps[result[-1] + 1]
            mine = (last, 0)
            if other.child is not step.child or other.inputs.count(mine) != 1 or self.users[mine] != 1:
                break
            spot = other.inputs.index(mine)
            if any(a != b for i, (a, b) in enumerate(zip(step.inputs, other.inputs, strict=True)) if i != spot) or (
                    len(result) > 1 and self.steps[last].inputs.index((last - 1, 0)) != spot):
                break
            result.append(last + 1)
        return result

    def _parts(self, chain: list[int]) -> list[_Item]:
        """Splits a long chain: features, and the rest from the first flat layer on."""
        def flat(place: int) -> bool:
            step = self.steps[place]
            return "Linear" in step.maker or "latten" in step.module or "shape[0], -1" in step.module
        first = next((i for i, p in enumerate(chain) if flat(p)), len(chain))
        heavy = any(self.steps[p].tensors for p in chain[first:])
        cut = [chain[:first], chain[first:]] if (first >= 3 or not first) and heavy else [chain, []]
        names = ("features", "classifier") if self.top else ("layers", "last")
        return [_Item(part, name, "chain") for part, name in zip(cut, names, strict=True) if part]

    def _unique(self, name: str) -> str:
        result, number = name, 2
        while result in self.taken:
            result, number = f"{name}_{number}", number + 1
        self.taken.add(result)
        return result

    def _name_layers(self) -> None:
        """Attributes: in the model itself as the names there are, in blocks numbered from 0 for each kind."""
        wanted: dict[int, str] = {}
        for item in self.items:
            if item.kind != "step":
                item.name = self._unique(item.name)
                continue
            step = self.steps[item.places[0]]
            if step.child is not None:
                wanted[item.places[0]] = step.name or self._short(step.child)
            elif step.maker:
                wanted[item.places[0]] = step.name if self.top else re.sub(r"(?<=\D)\d+$", "", step.name)
        if not self.top:
            wanted = dict(zip(wanted, _unprefixed(list(wanted.values())), strict=True))
        twice = {n for n, count in Counter(wanted.values()).items() if count > 1}
        if self.top:
            wanted = {p: "_".join((*self.steps[p].group, n)) if n in twice and self.steps[p].name else n
                      for p, n in wanted.items()}
        counts, seen, shared = Counter(map(_identifier, wanted.values())), Counter(), {}
        for place, name in wanted.items():
            step, name = self.steps[place], _identifier(name)
            if step.shared and (step.maker, step.key) in shared:
                self.attrs[place] = shared[step.maker, step.key]
                continue
            if counts[name] > 1 and not step.shared:
                seen[name] += 1
                name = f"{name}{seen[name] - 1}" if name[-1:].isalpha() else f"{name}_{seen[name] - 1}"
            self.attrs[place] = shared[step.maker, step.key] = self._unique(name)

    def paths(self) -> Iterator[tuple[int, str]]:
        """(position of a step, the name of its layer as parameters' names begin)."""
        for item in self.items:
            if item.kind == "step":
                if item.places[0] in self.attrs:
                    yield item.places[0], self.attrs[item.places[0]]
            else:
                between = self.target.members if item.kind == "chain" else ""
                for i, place in enumerate(item.places):
                    yield place, f"{item.name}{between}.{i}"

    # -------------------------------------------------------- constructor
    def _argument(self, place: int, key: str, value: Any) -> str:
        return self.block.texts.get((place, key)) or _show(value)

    def made(self, place: int) -> str:
        """The constructor's call for a step's layer."""
        step = self.steps[place]
        if step.maker in ("PARAMETER", "BUFFER"):
            return self.target.special(step)
        if step.child is not None:
            parts = []
            for param, default in _ordered(step.child):
                shown = self._argument(place, param.name, step.body.values[param.name])
                if default is None:
                    parts.append(shown)
                elif shown != _show(default[0]):
                    parts.append(f"{param.name}={shown}")
            return f"{step.child.name}({', '.join([*parts, *self._extra()])})"
        if not step.maker:
            return step.module
        parts = []
        for key, value in step.args.items():
            shown = self._argument(place, key, value)
            if key not in step.defaults:
                parts.append(shown)
            elif shown != _show(step.defaults[key]):
                parts.append(f"{key}={shown}")
        bare = not step.tensors and "Dropout" not in step.maker
        return f"{step.maker}({', '.join(parts if bare else [*parts, *self._extra()])})"

    def _extra(self) -> list[str]:
        return [self.target.extra] if self.target.extra else []

    def _members(self, places: list[int]) -> list[str]:
        """The texts of layers in a row; equal ones as a comprehension."""
        texts = [self.made(p) for p in places]
        result, i = [], 0
        while i < len(texts):
            same = next((k for k in range(i, len(texts)) if texts[k] != texts[i]), len(texts)) - i
            row = self._progression(texts[i:])
            if same > 2:
                result.append(f"*[{texts[i]} for _ in range({same})]")
                i += same
            elif row is not None:
                result.append(row[0])
                i += row[1]
            else:
                result.append(texts[i])
                i += 1
        return result

    def _progression(self, texts: list[str]) -> tuple[str, int] | None:
        """(comprehension, length) where texts differ in one number that grows evenly."""
        split = [re.split(r"(?<![\w.])(\d+)(?![\w.])", t) for t in texts]
        if len(split) < 4 or len(split[0]) != len(split[1]):
            return None
        differ = [i for i, (a, b) in enumerate(zip(split[0], split[1], strict=True)) if a != b]
        if len(differ) != 1 or differ[0] % 2 == 0:
            return None
        at, first = differ[0], int(split[0][differ[0]])
        step, count = int(split[1][at]) - first, 1
        while count < len(split) and split[count] == [*split[0][:at], str(first + count * step), *split[0][at + 1:]]:
            count += 1
        if count < 4:
            return None
        text = "".join([*split[0][:at], "n", *split[0][at + 1:]])
        return f"*[{text} for n in range({first}, {first + count * step}, {step})]", count

    def constructor(self) -> list[str]:
        """The lines that make the layers."""
        lines: list[str] = []
        done: set[str] = set()
        for item in self.items:
            if item.kind == "step":
                place = item.places[0]
                attr = self.attrs.get(place)
                if attr is None or attr in done:
                    continue
                done.add(attr)
                code = self.made(place)
                lines += [f"{code.replace('?', attr)}"] if code.startswith("self.") else _wrapped(
                    f"self.{attr} = ", code)
                continue
            container = self.target.sequential if item.kind == "chain" else self.target.several
            opened, closed = container.split("*")
            members = self._members(item.places)
            if len(members) == 1 and len(members[0]) < 90:
                inner = members[0][1:] if opened.endswith("[") else members[0]
                if opened.endswith("["):
                    opened, closed = opened[:-1], closed[1:]
                lines += [f"self.{item.name} = {opened}{inner}{closed}"]
                continue
            lines += [f"self.{item.name} = {opened}", *_packed(members, self), closed]
        return lines

    # -------------------------------------------------------- computation
    def computation(self, inputs: list[str]) -> list[str]:
        """The lines of the method that computes."""
        values: dict[Ref, str] = {(-1 - i, 0): name for i, name in enumerate(inputs)}
        last: dict[Ref, int] = {}
        for at, item in enumerate(self.items):
            last.update(dict.fromkeys([r for p in item.places for r in self.steps[p].inputs], at))
        outputs = self.block.bodies[0].outputs
        last.update(dict.fromkeys(outputs, len(self.items)))
        crowded = self._crowded(last)
        lines: list[str] = []
        waiting: dict[Ref, tuple[str, int]] = {}  # expressions that the next statement takes in
        for at, item in enumerate(self.items):
            names = [waiting[r][0] if r in waiting else values[r] for r in item.inputs]
            depth = max((waiting[r][1] for r in item.inputs if r in waiting), default=0) + 1
            end = item.places[-1]
            step = self.steps[end]
            taken_in = bool(waiting)
            waiting = {}
            results = [(end, i) for i in range(step.results)]
            if item.kind == "loop":
                spot = self.steps[end].inputs.index((end - 1, 0))
                name = self._variable(step, values, last, at, crowded)
                if names[spot] != name:
                    lines.append(f"{name} = {names[spot]}")
                shown = [name if i == spot else n for i, n in enumerate(names)]
                single = _identifier(item.name[:-1])
                lines += [f"for {single} in self.{item.name}:", f"    {name} = {single}({', '.join(shown)})"]
                values[results[0]] = name
                continue
            expression = self._expression(item, names)
            if step.call == "{self}":  # a parameter, or a block that an expression calls
                values[results[0]] = expression
                continue
            if names and expression == names[0] and step.results == 1 and not taken_in:
                values[results[0]] = expression
                last[results[0]] = max(last.get(results[0], 0), last[item.inputs[0]])
                continue
            users = self.users[results[0]]
            following = self.items[at + 1] if at + 1 < len(self.items) else None
            if step.results == 1 and users == 1 and depth < 5 and self._nests(following, results[0], expression):
                waiting = {results[0]: (expression, depth)}
                continue
            if following is None and outputs == [results[0]] and step.results == 1:
                return [*lines, *_wrapped("return ", expression)]
            targets = []
            for r in results:
                if r not in last:
                    targets.append("_")
                    continue
                values[r] = self._variable(step, values, last, at, crowded)
                targets.append(values[r])
            lines += _wrapped(f"{', '.join(targets)} = ", expression)
        result = ", ".join(values[r] for r in outputs)
        return [*lines, *(_wrapped("return ", f"({result})") if len(result) > _WIDTH - 7 else [f"return {result}"])]

    def _crowded(self, last: dict[Ref, int]) -> bool:
        """Returns whether there are more values at a time than short names."""
        begins = {(-1 - i, 0): -1 for i in range(self.block.bodies[0].inputs)}
        begins |= {(item.places[-1], i): at for at, item in enumerate(self.items)
                 for i in range(self.steps[item.places[-1]].results)}
        alive = (sum(a <= at < last.get(r, -1) for r, a in begins.items()) for at in range(len(self.items)))
        return max(alive, default=0) > len(_VARIABLES)

    def _variable(self, step: Step, values: dict[Ref, str], last: dict[Ref, int], at: int, crowded: bool) -> str:
        """Returns a name for a result: a short one that is no longer used."""
        taken = {name for r, name in values.items() if last.get(r, -1) > at}
        if not crowded:
            free = next((n for n in _VARIABLES if n not in taken), None)
            if free:
                return free
        name, number = _identifier(step.name or step.child.name), 2
        result = "x" if "x" not in taken else name
        while result in taken:
            result, number = f"{name}_{number}", number + 1
        return result

    def _template(self, item: _Item) -> str:
        step = self.steps[item.places[0]]
        if item.kind == "chain":
            return f"self.{item.name}({{0}})"
        if step.call == "{self}" and step.child is not None:
            return f"self.{self.attrs[item.places[0]]}"
        if step.child is not None:
            inputs = ", ".join(f"{{{i}}}" for i in range(len(step.inputs)))
            return f"self.{self.attrs[item.places[0]]}({inputs})"
        if step.call == "CONSTANT":
            return self.target.special(step)
        return step.call

    def _expression(self, item: _Item, names: list[str]) -> str:
        call = self._template(item)
        infix = _infix(call)

        def name(match: re.Match) -> str:
            value = names[int(match[1])]
            tight = infix or call[match.end():].startswith((".", "[")) or call[:match.start()].endswith("-")
            return f"({value})" if tight and _infix(value) else value
        call = re.sub(r"\{(\d+)\}", name, call.replace("{*}", ", ".join(names)))
        return call.replace("{self}", f"self.{self.attrs.get(item.places[0], '')}")

    def _nests(self, item: _Item | None, ref: Ref, expression: str) -> bool:
        """Returns whether the next statement takes in an expression."""
        if item is None or item.kind == "loop" or item.inputs.count(ref) != 1:
            return False
        call = self._template(item)
        where = item.inputs.index(ref)
        if "{*}" in call:
            return False
        return call.count(f"{{{where}}}") == 1 and len(expression) + len(call) < 90 and not (
            _infix(call) and len(expression) > 60)


def _unprefixed(names: list[str]) -> list[str]:
    """Names without the words that all begin with."""
    split = [n.split("_") for n in names]
    while len(split) > 1 and all(len(s) > 1 for s in split) and len({s[0] for s in split}) == 1:
        split = [s[1:] for s in split]
    return ["_".join(s) for s in split]


def _infix(call: str) -> bool:
    """Returns whether an expression is one of operators, outside of brackets."""
    while (flat := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", call)) != call:
        call = flat
    return bool(re.search(r" (?:[-+*/%@<>&|]|//|\*\*|[<>=!]=) ", call)) or call.startswith("-")


def _wrapped(start: str, text: str) -> list[str]:
    """A statement, in several lines where it is long."""
    whole = start + text
    if len(whole) <= _WIDTH:
        return [whole]
    opened = whole.find("(") + 1
    if not opened:
        return [whole]
    lines, line = [], whole[:opened]
    inset = " " * opened if start.startswith("def ") else "    "
    for part in re.split(r"(?<=,) (?!\.\.\.)", whole[opened:]):
        if len(line) + len(part) + 1 > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = inset
        line += part if line.endswith(("(", inset)) else f" {part}"
    return [*lines, line]


def _indented(depth: int, lines: list[str]) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _packed(members: list[str], owner: _Class) -> list[str]:
    """Members of a chain in lines: each layer with parameters begins a new one."""
    lines: list[str] = []
    for text in members:
        light = "()" in text or "Pool" in text or "Dropout" in text or "relu" in text
        if lines and light and len(lines[-1]) + len(text) < 100:
            lines[-1] += f" {text},"
        else:
            lines.append(f"    {text},")
    return lines


def _ordered(block: Block) -> list[tuple[Param, tuple | None]]:
    """A class's arguments with their defaults (as a tuple of one): those without first."""
    results = []
    for param in block.params:
        common, count = Counter(param.values).most_common(1)[0]
        plain = not isinstance(common, int) or isinstance(common, bool) or param.name.startswith(
            ("stride", "padding", "dilation"))
        results.append((param, (common,) if plain and 2 * count > len(param.values) else None))
    return sorted(results, key=lambda pair: pair[1] is not None)


def _kind(values: Sequence[Any]) -> str:
    types = sorted({"tuple[int, ...]" if isinstance(v, tuple) else type(v).__name__ for v in values})
    return " | ".join(types)


def _classes(blocks: list[Block], title: str, target: Target) -> list[_Class]:
    taken = {_camel(title)}
    blocks[-1].name = _camel(title)
    results = []
    for block in blocks:
        if not block.name:
            base = _block_name(block)
            if base in taken and any(" + " in s.call for s in block.steps):
                base = f"Residual{base}" if "Block" not in base else base
            block.name, number = base, 2
            while block.name in taken:
                block.name, number = f"{base}{number}", number + 1
            taken.add(block.name)
        results.append(_Class(block, target))
    return results


def _block_name(block: Block) -> str:
    """Returns the model's name of a block, else one for its operators."""
    sources = {re.sub(r"_?\d+$", "", s) for s in block.source}
    if len(sources) == 1:
        name = _camel(sources.pop())
        return name if len(name) > 1 else f"Block{name}"
    steps = block.steps
    words = [_camel(re.sub(r"\d+$", "", s.name)) for s in steps]
    if len(steps) <= 3 and all(len(s.inputs) == 1 for s in steps):
        return "".join(words)
    if any("softmax" in s.call for s in steps):
        return "Layer"
    joins = [s for s in steps if len(s.inputs) > 1]
    if joins and "+" in joins[-1].call and any("Conv" in s.maker or s.child for s in steps):
        early = any(p < 0 for p, _ in joins[-1].inputs)
        return "ResidualBlock" if early else "DownsampleBlock"
    return "DenseLayer" if joins and "cat" in joins[-1].call and any(p < 0 for p, _ in joins[-1].inputs) else "Block"


def text(blocks: list[Block], inputs: list[str], title: str, target: Target) -> tuple[str, list[_Class]]:
    """Returns the source of the classes, and the table for `weights`."""
    classes = _classes(blocks, title, target)
    parts = list(dict.fromkeys(s.helper for b in blocks for s in b.steps if s.helper))
    for cls in classes:
        block = cls.block
        body = block.bodies[0]
        if block is blocks[-1] and body.inputs > 1:
            names = [_identifier(n) for n in inputs]
        else:
            names = [*_VARIABLES[:body.inputs], *(f"x{i}" for i in range(len(_VARIABLES), body.inputs))]
        params = [f"{p.name}: {_kind(p.values)}" + ("" if d is None else f" = {_show(d[0])}")
                  for p, d in _ordered(block)]
        arguments = [*params, *([f"{target.extra.split('=')[0]}: nnx.Rngs"] if target.extra else [])]
        if target.extra and any("=" in p for p in params):  # arguments without a default come first
            arguments = [a for a in arguments if "=" not in a] + [a for a in arguments if "=" in a]
        constructor = cls.constructor()
        lines = [f"class {block.name}({target.module}):"]
        if constructor or arguments:
            lines += _indented(1, _wrapped(f"def __init__({', '.join(['self', *arguments])}) -> None:", ""))
            lines += _indented(2, ([target.init] if target.init else []) + constructor or ["pass"]) + [""]
        typed = ", ".join(f"{n}: {target.tensor}" for n in names)
        result = target.tensor if len(body.outputs) == 1 else f"tuple[{target.tensor}, ...]"
        lines += _indented(1, _wrapped(f"def {target.call}(self, {typed}) -> {result}:", ""))
        lines += _indented(2, cls.computation(names))
        parts.append("\n".join(lines))
    return "\n\n\n".join(parts), classes


def weights(classes: list[_Class], block: Block, body: Body, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The parameters of a use of a block with their names."""
    cls = next(c for c in classes if c.block is block)
    for place, path in cls.paths():
        step = body.steps[place]
        if step.child is not None:
            yield from weights(classes, step.child, step.body, f"{prefix}{path}.")
        for key, value in step.tensors.items():
            yield f"{prefix}{path}.{key}".rstrip("."), value
