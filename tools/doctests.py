"""Runs the examples in docstrings: of all modules and of all operators.

    python tools/doctests.py [REGEX] [--count] [--part I/N] [--fill]

Examples know `mx` and `np` (NumPy), and whatever their module defines. --count tells how many operators, layers and
other public names have one; --part runs each N-th of them; --fill writes into `mxjax/ops/examples.txt` what its
examples print, in the order of names.
"""

import argparse
import contextlib
import doctest
import importlib
import inspect
import io
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

import mxjax as mx
from mxjax.ops import manual, registry

LAYERS = r"mxjax\.gluon\.(nn|rnn|loss|contrib\.(nn|rnn))\b.*\.[A-Z]\w*$"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> Iterator:
    """All modules that can be imported here."""
    for found in pkgutil.walk_packages(mx.__path__, "mxjax."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                yield importlib.import_module(found.name)


def documented() -> Iterator[tuple[str, str, dict]]:
    """(name, docstring, names that its examples know) of operators, functions, classes and methods, each once."""
    seen: set[str] = set()
    for name in sorted({registry.get(name).name for name in registry.names()}):
        op = registry.get(name)
        seen.add(op.doc)
        yield f"operator {name}", f"{op.doc}\n\n{manual.examples(name)}", {}
    finder = doctest.DocTestFinder(exclude_empty=False)
    for module in modules():
        for test in finder.find(module, module.__name__, module):
            doc = test.docstring or ""
            if doc and doc not in seen:
                seen.add(doc)
                yield test.name, doc, vars(module)


def run(name: str, doc: str, known: dict) -> str:
    """What failed; "" if nothing."""
    told = io.StringIO()
    names = {**known, "mx": mx, "np": np}
    test = doctest.DocTestParser().get_doctest(doc, names, name, None, 0)
    mx.random.seed(0)
    np.random.seed(0)
    with mx.util.np_shape(False), mx.util.np_array(False):
        doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=told.write)
    return told.getvalue()


def examples(pattern: str = "", part: tuple[int, int] = (0, 1)) -> Iterator[tuple[str, str]]:
    """(name, what failed) of each docstring that has examples."""
    chosen = [row for row in documented() if ">>>" in row[1] and re.search(pattern, row[0])]
    for name, doc, known in chosen[part[0]::part[1]]:
        yield name, run(name, doc, known)


def fill(pattern: str) -> None:
    """Writes what the examples of operators print into their file."""
    text = manual.EXAMPLES.read_text(encoding="utf-8")
    parts = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name, section in sections.items():
        if re.search(pattern, name):
            sections[name] = printed(section)
    manual.EXAMPLES.write_text("\n".join(f"[{name}]\n{sections[name].rstrip()}\n" for name in sorted(
        sections, key=lambda name: (name.lower().strip("_"), name))), encoding="utf-8")


def printed(section: str) -> str:
    """Examples with what they print."""
    names, lines = {"mx": mx, "np": np}, []
    mx.random.seed(0)
    np.random.seed(0)
    for example in doctest.DocTestParser().get_examples(section + "\n"):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(example.source, "example", "single"), names)  # noqa: S102
        first, *rest = example.source.rstrip("\n").split("\n")
        lines += [f">>> {first}", *(f"... {line}" for line in rest)]
        lines += [line.rstrip() or "<BLANKLINE>" for line in told.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def count() -> dict[str, tuple[int, int]]:
    """{kind: (with an example, all)} of public names."""
    found: dict[str, list[int]] = {"operators": [0, 0], "layers and losses": [0, 0], "others": [0, 0]}
    for name, doc, _ in documented():
        if any(part.startswith("_") for part in name.removeprefix("operator ").split(".")) and \
                not name.startswith("operator "):
            continue
        kind = "operators" if name.startswith("operator ") else \
            "layers and losses" if re.match(LAYERS, name) else "others"
        found[kind][0] += ">>>" in doc
        found[kind][1] += 1
    return {kind: (a, b) for kind, (a, b) in found.items()}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=inspect.cleandoc(__doc__).split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--fill", action="store_true")
    given = parser.parse_args()
    if given.fill:
        fill(given.pattern)
        return 0
    if given.count:
        for kind, (some, every) in count().items():
            print(f"{kind:20s} {some:5d} of {every:5d} have an example ({100 * some / max(every, 1):.0f} %)")
        return 0
    failures = total = 0
    first, step = map(int, given.part.split("/"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for _, said in examples(given.pattern, (first, step)):
            total += 1
            failures += bool(said)
            print(said, end="")
    print(f"{total} docstrings with examples, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
