"""Runs the code of a Markdown page and shows what it prints.

    python tools/docs/execute.py PAGE.md [--pictures FOLDER]

Blocks marked `python` and `bash` run in their order, in one process and one temporary folder; what they print, and the
value of a block's last expression, is put below them. Blocks marked otherwise (`py`, `sh`, `text`) are only shown. The
first failure ends it, with the page and the number of the block. Prints the page as it is to be rendered.

With `--pictures`, figures of matplotlib that a block leaves open are saved in that folder and shown below the block, as
files of the folder `images` beside the page.

A page may show code for both levels of the API in tabs:

    === "MXNet 1.9.1"

        ```python
        ...

    === "MXNet 2"

        ```python
        ...

Such a page is run a second time by a process with `MXJAX_API=2`. A block in a tab is run at its level alone; the other
blocks are run at both, and must print the same.
"""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import traceback
import types
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^( {4}|)```(\w+)?[^\n]*\n(.*?)^\1```[ \t]*\n?", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r'^===[!+]? "MXNet (1\.9\.1|2)"', re.MULTILINE)
MOST = 40  # lines of output that are shown
DPI = 150  # of pictures, whose width on the page is 100 pixels for an inch of the figure


class Failure(Exception):
    """A block failed."""


def run_python(code: str, names: dict[str, Any], label: str) -> str:
    """What a block prints, with the value of its last expression."""
    tree = ast.parse(code, label)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(tree, label, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), label, "eval"), names)
            if value is not None:
                print(repr(value))
    return told.getvalue()


def _run_shell(code: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Failure(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _shown(text: str) -> str:
    """The output as a block of Markdown; the temporary folder's name, another in each run, is left out."""
    lines = [line.rstrip() for line in text.replace(os.path.join(os.getcwd(), ""), "").rstrip().splitlines()]
    if not any(lines):
        return ""
    if len(lines) > MOST:
        lines = [*lines[:MOST - 1], f"... ({len(lines) - MOST + 1} more lines)"]
    return "\n``` { .text .output }\n" + "\n".join(lines) + "\n```\n"


def _pictures(page: Path, already: int, folder: Path | None) -> str:
    """Saves and closes the open figures; returns the Markdown that shows them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or folder is None:
        return ""
    shown = []
    for count, number in enumerate(pyplot.get_fignums(), already + 1):
        figure = pyplot.figure(number)
        title = figure.get_suptitle() or ", ".join(filter(None, (axes.get_title() for axes in figure.axes)))
        if not title:
            raise Failure(f"{page.name}, figure {count}: it has no title, which is its text for screen readers")
        figure.savefig(folder / f"{page.stem}-{count}.png", dpi=DPI, bbox_inches="tight")
        width = round(figure.get_figwidth() * 100)
        shown.append(f"\n![{title}](images/{page.stem}-{count}.png){{ .picture width={width} }}\n")
        pyplot.close(figure)
    return "".join(shown)


def blocks(text: str) -> list[tuple[re.Match, int | None]]:
    """The blocks to run, each with the level of its tab, or None outside of tabs."""
    found = []
    for match in _FENCE.finditer(text):
        tab = ([None, *_TAB.finditer(text, 0, match.start())] if match[1] else [None])[-1]
        if tab and re.search(r"^\S", text[text.index("\n", tab.end()):match.start()], re.MULTILINE):
            tab = None  # a list's block, behind the tabs
        if match[2] in ("python", "bash"):
            found.append((match, None if not tab else 2 if tab[1] == "2" else 1))
    return found


def outputs(page: Path, level: int, folder: Path | None = None) -> dict[int, str]:
    """Runs the page's blocks for a level in this process.

    Args:
        page: the Markdown file.
        level: 1 or 2, the level that this process speaks. Blocks in tabs of the other one are skipped.
        folder: where pictures are saved; None: nowhere.

    Returns:
        The output of each block as Markdown, by its number, from 1.

    Raises:
        Failure: a block raised an error or ended with another status than 0.
    """
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    printed: dict[int, str] = {}
    pictures = 0
    for number, (match, tab) in enumerate(blocks(page.read_text(encoding="utf-8")), 1):
        if tab not in (None, level):
            continue
        label = f"{page.name}, block {number}"
        code = textwrap.dedent(match[3]) if match[1] else match[3]
        try:
            told = run_python(code, vars(main), label) if match[2] == "python" else _run_shell(code)
            figures = _pictures(page, pictures, folder)
        except BaseException as error:
            said = str(error) if isinstance(error, Failure) else traceback.format_exc()
            raise Failure(f"{label} failed{' at level 2' if level == 2 else ''}:\n\n{code}\n{said}") from None
        printed[number] = _shown(told) + figures
        pictures += figures.count("](images/")
    return printed


def _outputs_at_level_2(page: Path) -> dict[int, str]:
    done = subprocess.run([sys.executable, __file__, str(page), "--level-2"], capture_output=True, text=True,
                          env={**os.environ, "MXJAX_API": "2"})
    if done.returncode:
        raise Failure(done.stderr)
    return {int(number): text for number, text in json.loads(done.stdout).items()}


def execute(page: Path, folder: Path | None = None) -> tuple[str, int]:
    """Runs a page at level 1, and at level 2 as well where it has a tab for it.

    Args:
        page: the Markdown file.
        folder: where pictures are saved; None: nowhere.

    Returns:
        The page with the output of its blocks, and how many blocks there are.

    Raises:
        Failure: a block failed, or a block outside of tabs prints something else at level 2.
    """
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    printed = outputs(page, 1, folder)
    if any(tab == 2 for _, tab in found):
        second = _outputs_at_level_2(page)
        for number in printed.keys() & second.keys():
            if printed[number] != second[number]:
                raise Failure(f"{page.name}, block {number} is not in a tab, and prints at level 1{printed[number]}\n"
                              f"and at level 2{second[number]}")
        printed |= second
    pieces, end = [], 0
    for number, (match, _) in enumerate(found, 1):
        pieces += [text[end:match.end()], textwrap.indent(printed[number], match[1])]
        end = match.end()
    return "".join(pieces) + text[end:], len(found)


def main() -> int:
    """Runs the page of the command line in a temporary folder; with `--level-2` prints level 2's outputs as JSON."""
    page, options = Path(sys.argv[1]).resolve(), sys.argv[2:]
    pictures = Path(options[options.index("--pictures") + 1]).resolve() if "--pictures" in options else None
    os.environ.setdefault("MPLBACKEND", "agg")
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    output = os.dup(1)
    os.dup2(2, 1)  # what programs write past Python goes to the log
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["PWD"] = os.getcwd()
        sys.path.insert(0, folder)
        try:
            if "--level-2" in options:
                result = json.dumps(outputs(page, 2))
            else:
                text, count = execute(page, pictures)
                result = f"{count}\n{text}"
        except Failure as failure:
            print(failure, file=sys.stderr)
            return 1
        finally:
            os.chdir("/")
    with os.fdopen(output, "w", encoding="utf-8") as file:
        file.write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
