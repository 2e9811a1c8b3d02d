"""The gallery: its examples as notebooks and scripts, and their cards on the page that lists them.

An example is a page of `docs/gallery` that begins with a heading and a paragraph, whose first sentence is the text of
its card. Its code is run like that of other pages (`execute.py`); the last picture that it draws is on its card.
`docs/gallery/index.md` names the examples, in groups: `<!-- examples: gan lstm -->`.
"""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from execute import blocks

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_GROUP = re.compile(r"<!-- examples: ([\w -]+) -->")
_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)\s]+\)")


class Example(NamedTuple):
    """An example: the name of its file, its heading, the first sentence, and its Markdown."""

    name: str
    title: str
    summary: str
    text: str


def read(page: Path) -> Example:
    """Reads an example.

    Raises:
        ValueError: the page does not begin with a heading and a sentence, or a notebook cannot show its code.
    """
    text = _FRONT.sub("", page.read_text(encoding="utf-8"))
    begin = re.match(r"\s*# (.+)\n\n((?:.+\n)+)", text)
    sentence = re.match(r"(.+?[.!?])(?:\s|$)", " ".join(begin[2].split())) if begin else None
    if begin is None or sentence is None:
        raise ValueError(f"{page.name}: an example begins with a heading and a paragraph")
    wrong = next((match for match, tab in blocks(text) if match[1] or tab or match[2] != "python"), None)
    if wrong is not None:
        raise ValueError(f"{page.name}: an example has Python code outside of tabs only, got\n{wrong[0]}")
    return Example(page.stem, begin[1], _plain(sentence[1]), text)


def examples(folder: Path) -> dict[str, Example]:
    """Returns the examples of a folder, by name."""
    return {page.stem: read(page) for page in sorted(folder.glob("*.md")) if page.stem != "index"}


def groups(index: str) -> list[list[str]]:
    """Returns the names of the examples that the page of the gallery lists, group by group."""
    return [match[1].split() for match in _GROUP.finditer(index)]


def notebook(example: Example) -> str:
    """Returns an example as a Jupyter notebook, in nbformat 4.5."""
    cells = []
    for number, (kind, text) in enumerate(_cells(example.text)):
        cell = {"cell_type": kind, "id": f"{example.name}-{number}", "metadata": {},
                "source": text.splitlines(keepends=True)}
        cells.append(cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
                       "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def script(example: Example) -> str:
    """Returns an example as a Python script, whose cells editors know by "# %%"."""
    cells = _cells(example.text)
    parts = [f"# %%\n{text}" if kind == "code" else "\n".join(
        ["# %% [markdown]", *(f"# {line}".rstrip() for line in text.splitlines())]) for kind, text in cells]
    if any("plt." in text for kind, text in cells if kind == "code"):
        parts.append("plt.show()")
    return "\n\n".join(parts) + "\n"


def cards(index: str, found: Mapping[str, Example], pictures: Mapping[str, str]) -> str:
    """Returns the page of the gallery with a card for each example.

    Args:
        index: the page.
        found: the examples by name.
        pictures: the link to each example's picture, by the example's name.

    Raises:
        ValueError: an example is listed that is not there, twice, or not at all, or it has no picture.
    """
    listed = [name for group in groups(index) for name in group]
    for name in {*listed, *found}:
        if listed.count(name) != 1 or name not in found or name not in pictures:
            raise ValueError(f"the gallery lists {name!r} {listed.count(name)} times; such a page is "
                             f"{'' if name in found else 'not '}there, with {'a' if name in pictures else 'no'} "
                             "picture")

    def group(match: re.Match) -> str:
        return '<ul class="gallery">\n' + "".join(_card(found[name], pictures[name]) for name in match[1].split()) + \
            "</ul>"
    return _GROUP.sub(group, index)


def _card(example: Example, picture: str) -> str:
    return (f'<li><a href="{example.name}.html"><img src="{picture}" alt="" loading="lazy">'
            f"<span>{html.escape(_plain(example.title))}</span></a>"
            f"<p>{html.escape(example.summary)}</p></li>\n")


def with_downloads(markdown: str, name: str) -> str:
    """Returns the page of an example with links to its notebook and its script below the heading."""
    links = (f'<p class="up" markdown="span" data-search-exclude>[Gallery](index.md) · Download this page: '
             f"[notebook]({name}.ipynb), [Python script]({name}.py)</p>\n\n")
    return re.sub(r"\A\s*# .+\n\n", lambda match: match[0] + links, markdown)


def _cells(text: str) -> list[tuple[str, str]]:
    """Returns (kind, text) of a page's cells; links to other pages, which a file elsewhere cannot follow, are text."""
    cells, end = [], 0
    for match, _ in blocks(text):
        cells += [("markdown", text[end:match.start()]), ("code", match[3])]
        end = match.end()
    cells.append(("markdown", text[end:]))
    return [(kind, _LINK.sub(r"\1", part.strip()) if kind == "markdown" else part.rstrip()) for kind, part in cells
            if part.strip()]


def _plain(text: str) -> str:
    """Returns a line of Markdown as text."""
    return re.sub(r"[`*]", "", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text))
