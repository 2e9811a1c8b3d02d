"""Scripts and notebooks as texts: finds and reads them, and finds names in those that do not parse."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from ..base import MXNetError

__all__ = ["cells", "decoded", "names_in", "scripts_in"]

_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python2", "%%python3")
# strings and comments; imports and chains of names
_LITERALS = re.compile(r'[uUbBrR]{0,2}(?:"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|'
                       r"'(?:[^'\\\n]|\\.)*')|#[^\n]*", re.DOTALL)
_NAMES = re.compile(r"(?m)^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+)?import[ \t]+(?P<imported>\([^)]*\)|(?:[^\n;]*"
                    r"\\\n)*[^\n;]*)|(?P<name>(?<![\w.])[A-Za-z_]\w*(?:[ \t]*\.[ \t]*[A-Za-z_]\w*)+)")


def scripts_in(folder: Path) -> list[Path]:
    """The scripts and notebooks of a folder, without the copies that Jupyter saves."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".ipynb") and path.is_file()
                  and ".ipynb_checkpoints" not in path.parts)


def decoded(content: bytes) -> str:
    """A file's text in the encoding that it declares; else every byte is a character."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        return content.decode("latin-1")


def cells(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """(number from 1, source) of a notebook's cells of Python; IPython's own lines do nothing."""
    try:
        book = json.loads(text)
        result = book["cells"] if "cells" in book else [c for sheet in book["worksheets"] for c in sheet["cells"]]
        sources = [(c["cell_type"], "".join(c.get("source", c.get("input", "")))) for c in result]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MXNetError(f"doctor: {path} is not a notebook") from None
    for number, (cell_type, source) in enumerate(sources, 1):
        first = source.lstrip().partition("\n")[0]
        if cell_type == "code" and not (first.startswith("%%") and first.split()[0] not in _PYTHON_CELLS):
            yield number, re.sub(r"(?m)^([ \t]*)(?:[%!].*|[^#\n]*\?)$", r"\1pass", source)


def names_in(text: str) -> Iterator[ast.Import | ast.ImportFrom | ast.expr]:
    """Imports and chains of names ("mx.nd.ones") of a text that does not parse, e.g. of Python 2, with their lines."""
    text = _LITERALS.sub(lambda match: "\n" * match[0].count("\n") or '""', text)
    for match in _NAMES.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["name"] is not None:
            first, *rest = re.sub(r"\s", "", match["name"]).split(".")
            node: ast.expr = ast.Name(first, lineno=line)
            for name in rest:
                node = ast.Attribute(node, name, lineno=line)
            yield node
            continue
        parts = re.sub(r"[()\\\n]", " ", match["imported"]).split(",")
        names = [ast.alias(*[*re.split(r"\s+as\s+", part.strip()), None][:2]) for part in parts if part.strip()]
        yield ast.ImportFrom(match["module"], names, 0, lineno=line) if match["module"] else \
            ast.Import(names, lineno=line)
