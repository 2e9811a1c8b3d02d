"""The layers: what import-linter's contracts in pyproject.toml do not say of the graph of imports."""

import pathlib
import subprocess
import sys

import grimp
import pytest

import mxjax

ROOT = pathlib.Path(mxjax.__file__).parent
LARGEST = 3  # files that may know each other


@pytest.fixture(scope="module")
def imports():
    """Which modules each one imports, inside functions and for types too."""
    graph = grimp.build_graph("mxjax", exclude_type_checking_imports=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def _circles(imports):
    """Strongly connected sets of more than one module (Tarjan)."""
    sys.setrecursionlimit(10_000)
    number, lowest, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in imports[module]:
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            place = stack.index(module)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]
    for module in sorted(imports):
        if module not in number:
            visit(module)
    return found


def test_circles_are_seen():
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_circle_is_large_or_between_folders(imports):
    circles = _circles(imports)
    assert not [c for c in circles if len(c) > LARGEST]
    assert not [c for c in circles if len({module.rpartition(".")[0] for module in c}) > 1]


def test_the_layers_hold():
    done = subprocess.run([sys.executable, "-c", "from importlinter.cli import lint_imports_command; "
                           "lint_imports_command()"], cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "0 broken" in done.stdout, done.stdout + done.stderr
