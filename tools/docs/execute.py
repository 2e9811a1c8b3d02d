"""Runs the code of a Markdown page and shows what it prints.

    python tools/docs/execute.py PAGE.md

Blocks marked `python` and `bash` run in their order, in one process and one temporary folder; what they print, and the
value of a block's last expression, is put below them. Blocks marked otherwise (`py`, `sh`, `text`) are only shown. The
first failure ends it, with the page and the number of the block. Prints the page as it is to be rendered.
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(\w+)?[^\n]*\n(.*?)^```[ \t]*\n?", re.MULTILINE | re.DOTALL)
MOST = 40  # lines of output that are shown


class Failure(Exception):
    """A block failed."""


def _run_python(code: str, names: dict[str, Any], label: str) -> str:
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


def execute(page: Path) -> tuple[str, int]:
    """The page with the output of its blocks, and how many there are.

    Raises:
        Failure: a block raised an error or ended with another status than 0.
    """
    text = page.read_text(encoding="utf-8")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    count = 0

    def with_output(match: re.Match) -> str:
        nonlocal count
        language, code = match[1], match[2]
        if language not in ("python", "bash"):
            return match[0]
        count += 1
        label = f"{page.name}, block {count}"
        try:
            printed = _run_python(code, vars(main), label) if language == "python" else _run_shell(code)
        except BaseException as error:
            said = str(error) if isinstance(error, Failure) else traceback.format_exc()
            raise Failure(f"{label} failed:\n\n{code}\n{said}") from None
        return match[0] + _shown(printed)
    return _FENCE.sub(with_output, text), count


def main() -> int:
    """Runs the page of the command line in a temporary folder."""
    page = Path(sys.argv[1]).resolve()
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    output = os.dup(1)
    os.dup2(2, 1)  # what programs write past Python goes to the log
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["PWD"] = os.getcwd()
        sys.path.insert(0, folder)
        try:
            text, count = execute(page)
        except Failure as failure:
            print(failure, file=sys.stderr)
            return 1
        finally:
            os.chdir("/")
    with os.fdopen(output, "w", encoding="utf-8") as file:
        file.write(f"{count}\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
