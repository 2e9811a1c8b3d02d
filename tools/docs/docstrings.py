"""Docstrings as Markdown: the Google-like ones of hand-written code, and those of generated operators."""

import inspect
import re
import textwrap
from collections.abc import Collection
from typing import Any, NamedTuple

import arguments

_SECTIONS = {"Args", "Attributes", "Example", "Examples", "Note", "Notes", "Raises", "Returns", "Source", "Yields"}
_NAME = r"\*{0,2}[A-Za-z_][\w.]*"
_ITEM = re.compile(rf"^({_NAME}(?: ?[,/] ?(?:{_NAME}|\.\.\.))*|\.\.\.)(?: \([^)]*\))? ?: ?(.*)$")
_LIST = re.compile(r"^(?:[-*]|\d+\.) ")
_TOLD = re.compile(r"^(\*?\w+(?:, \*?\w+)*)((?: \([^)]*\))?): (.*)", re.DOTALL)  # "data, label (if any): (batch, ...)"
_SHAPE = re.compile(r"^(\((?:[^()]|\([^()]*\))*\))[,;:]? ?(.*)", re.DOTALL)


class Row(NamedTuple):
    """A parameter (or an error) and what is said of it."""

    name: str
    kind: str
    text: str
    shape: str = ""


class Doc(NamedTuple):
    """A docstring in its parts: paragraphs, then sections."""

    body: list[str]
    rows: list[Row]
    returns: str
    raises: list[Row]
    examples: str
    notes: list[str]


def escape(text: str) -> str:
    """Plain text with `code` in it as Markdown that shows it as it is, on one line."""
    parts = re.split(r"(``?[^`]+``?)", " ".join(text.split()))
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*_\[\]{}#])", r"\\\1", part).replace("&", "&amp;").replace("<", "&lt;").replace(
                "|", "&#124;")
        else:
            parts[i] = part.replace("|", "&#124;") if "|" not in part else f"<code>{_html(part.strip('`'))}</code>"
    return "".join(parts)


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")


def first_sentence(doc: str) -> str:
    """The beginning of a docstring, plain."""
    paragraph = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0].rstrip(":")


def _items(text: str) -> list[Row]:
    """The entries "name: what it means" of a section; later lines are indented."""
    found: list[list[str]] = []
    for line in textwrap.dedent(text).splitlines():
        match = _ITEM.match(line)
        if match and not line.startswith(" "):
            found.append([match[1], match[2]])
        elif found:
            found[-1][1] += "\n" + line.strip()
        elif line.strip():
            found.append(["", line.strip()])
    return [Row(name, "", text.strip()) for name, text in found]


def _operator(text: str) -> tuple[str, list[Row], str]:
    """What stands before "Parameters", the parameters, and the examples of a generated docstring."""
    head, _, rest = text.partition("\nParameters\n----------\n")
    if not _:
        head, _, examples = text.partition("\nExamples\n--------\n")
        return head, [], examples
    listed, _, examples = rest.partition("\nExamples\n--------\n")
    rows: list[Row] = []
    for line in listed.splitlines():
        if line.startswith("    ") and rows:
            rows[-1] = rows[-1]._replace(text=f"{rows[-1].text} {line.strip()}".strip())
        elif " : " in line:
            name, _, kind = line.partition(" : ")
            rows.append(Row(name, kind.replace("NDArray-or-Symbol", "array"), ""))
    return head, rows, examples


def parse(doc: str) -> Doc:
    """A docstring's parts."""
    head, rows, examples = _operator(inspect.cleandoc(doc))
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in head.splitlines():
        stripped = line.strip()
        if stripped.endswith(":") and stripped[:-1] in _SECTIONS and not line.startswith("     "):
            current = stripped[:-1]
            sections.setdefault(current, [])
        elif current and line.strip() and not line.startswith(" ") and current in ("Example", "Examples") and \
                not line.startswith((">>>", "...")):
            current = ""
            sections[""] += ["", line]
        else:
            sections[current].append(line)

    def joined(*names: str) -> str:
        return "\n\n".join("\n".join(sections[n]) for n in names if n in sections)
    body = [p.strip("\n") for p in re.split(r"\n\s*\n", "\n".join(sections[""])) if p.strip()]
    shown = textwrap.dedent(joined("Example", "Examples")).strip("\n") or examples.strip("\n")
    returns = " ".join(joined("Returns", "Yields").split())
    notes = [textwrap.dedent(n) for n in re.split(r"\n\s*\n", joined("Note", "Notes")) if n.strip()]
    notes += ["From: " + " ".join(joined("Source").split())] if "Source" in sections else []
    return Doc(body, [*rows, *_items(joined("Args", "Attributes"))], returns, _items(joined("Raises")), shown, notes)


def paragraph(text: str, inputs: Collection[str] = ()) -> list[str]:
    """A paragraph as lines of Markdown: prose, a list, or code where it is indented."""
    lines = text.strip("\n").splitlines()
    if any(line.lstrip().startswith(">>>") for line in lines):
        return ["```pycon", *textwrap.dedent(text).strip("\n").splitlines(), "```", ""]
    if all(line.startswith("    ") for line in lines if line.strip()):
        return ["```text", *textwrap.dedent(text).strip("\n").splitlines(), "```", ""]
    if _LIST.match(lines[0]):
        entries: list[str] = []
        for line in lines:
            if _LIST.match(line):
                entries.append(line.split(" ", 1)[1])
            elif entries:
                entries[-1] += " " + line.strip()
        return [*(f"- {escape(e)}" for e in entries), ""]
    about = re.match(r"([\w, ]+?)(?: \([^)]*\))?: ", text)
    label = "**Shapes.** " if about and {n.strip() for n in about[1].split(",")} <= set(inputs) else ""
    return [label + escape(text), ""]


def table(rows: list[Row], types: dict[str, tuple[str, str]], heading: str = "Parameter") -> list[str]:
    """A table of parameters; columns in which nothing stands are left out."""
    cells: list[list[str]] = []
    for row in rows:
        known = [types.get(n.strip().lstrip("*"), ("", "")) for n in row.name.split(",")]
        kind = " or ".join(dict.fromkeys(k for k, _ in known if k))
        default = ", ".join(dict.fromkeys(d for _, d in known if d))
        if row.kind:  # "int >= 1, optional, default=0"
            kind, _, default = row.kind.partition(", optional, default=")
            kind, _, required = kind.partition(", required")
            default = default.strip()
        names = ", ".join(f"`{n.strip()}`" for n in row.name.split(",")) if row.name else ""
        cells.append([names, escape(kind), f"<code>{_html(default)}</code>" if default else "",
                      f"<code>{_html(row.shape)}</code>" if row.shape else "", escape(row.text)])
    heads = [heading, "Type", "Default", "Shape", "Meaning"]
    used = [i for i in range(5) if any(c[i] for c in cells)]
    if not used:
        return []
    return ["| " + " | ".join(heads[i] for i in used) + " |", "|" + "---|" * len(used),
            *("| " + " | ".join(c[i] for i in used) + " |" for c in cells), ""]


def _shape(text: str) -> tuple[str, str]:
    """The shape at the beginning of a meaning, and the rest: "(batch, 2): boxes" -> "(batch, 2)", "boxes"."""
    match = _SHAPE.match(text)
    if match and "," in match[1] and not re.match(r"or\b|channels last", match[2]):
        return " ".join(match[1].split()), match[2]
    return (text, "") if re.match(r"(\(\w.*,|any shape|the shape of|of (the same|any) shape)", text) else ("", text)


def _told(parts: Doc) -> Doc:
    """Inputs' shapes, which operators tell in a paragraph "data: ...; weight: ... -> ...", moved to their rows."""
    for i, text in enumerate(parts.body):
        rows = {r.name.lstrip("*"): r for r in parts.rows if r.kind}
        before, arrow, after = " ".join(text.split()).partition(" -> ")
        found: dict[str, str] = {}
        names: list[str] = []
        for said in before.split("; "):
            match = _TOLD.match(said)
            named = [n.strip("* ") for n in match[1].split(",")] if match else []
            if match and set(named) <= set(rows):
                names = named
                found.update(dict.fromkeys(names, f"{match[3]}{match[2]}"))
            elif not names:
                break
            else:  # goes on after a semicolon
                found.update({n: f"{found[n]}; {said}" for n in names})
        if not found or any(rows[n].text for n in found):
            continue
        rest = ""
        if not arrow:  # what follows the last one's sentence is of the result
            last, *more = re.split(r"\.\s+(?=[A-Z])", found[names[-1]], maxsplit=1)
            found.update(dict.fromkeys(names, last.rstrip(".")))
            rest = "".join(more)
        body = [*parts.body[:i], *([rest] if rest else []), *parts.body[i + 1:]]
        rows = [r._replace(text=found.get(r.name.lstrip("*"), r.text)) for r in parts.rows]
        return parts._replace(body=body, rows=rows, returns=parts.returns or after)
    return parts


def _meant(rows: list[Row], types: dict[str, tuple[str, str]], function: str) -> list[Row]:
    """Rows with a meaning each, and rows for parameters that the docstring leaves out."""
    told = {n.strip().lstrip("*") for r in rows for n in r.name.split(",")}
    left = [Row(n, "", "") for n in types if n not in told | {"self", "args", "kwargs"}]
    found = []
    for row in [*rows, *(left if rows or any(arguments.meaning(r.name, function) for r in left) else [])]:
        shape, text = _shape(row.text)
        known = dict.fromkeys(arguments.meaning(name, function) for name in row.name.split(","))
        also, said = _shape(" or ".join(filter(None, known)))
        found.append(row._replace(text=text or said, shape=shape or (also if not text else "")))
    return found


def render(doc: str, types: dict[str, tuple[str, str]] | None = None, *, level: int = 0, name: str = "") -> list[str]:
    """A docstring as lines of Markdown. `level` 0 has headings for its parts, others have bold words.

    name: of what it documents, by which arguments without a meaning get theirs.
    """
    parts, types = _told(parse(doc)), types or {}

    def head(title: str) -> list[str]:
        return [f"## {title}", ""] if level == 0 else [f"**{title}**", ""]
    if parts.rows or level == 0 and parts.body:
        parts = parts._replace(rows=_meant(parts.rows, types, name))
    lines: list[str] = []
    for text in [*parts.body, *parts.notes]:
        lines += paragraph(text, [r.name for r in parts.rows if r.kind])
    if parts.rows:
        lines += [*head("Parameters"), *table(parts.rows, types)]
    if parts.returns:
        lines += [*head("Returns"), escape(parts.returns), ""]
    if parts.raises:
        lines += [*head("Errors"), *(f"- `{r.name or 'Error'}`: {escape(r.text)}" for r in parts.raises), ""]
    if parts.examples:
        language = "pycon" if ">>>" in parts.examples else "python"
        lines += [*head("Example"), f"```{language}", *parts.examples.splitlines(), "```", ""]
    return lines


def default(value: Any) -> str:
    """A default value as text that is the same in every run."""
    if inspect.ismodule(value) or inspect.isroutine(value) or inspect.isclass(value):
        return value.__name__
    text = repr(value)
    return "..." if text.startswith("<") or " at 0x" in text or len(text) > 60 else text
