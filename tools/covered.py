"""A pytest plugin that writes which tests run which lines of the package, for `mutation.py --covered`.

    PYTHONPATH=tools COVERED=folder python -m pytest -p covered -n 2 tests
    PYTHONPATH=tools COVERED=folder MXJAX_API=2 python -m pytest -p covered -p no:xdist tests/level/two

Needs Python 3.12 or newer. Each process writes one JSON file into the folder that COVERED names: for every file of the
package and every line the tests that run it, those that run the least besides first, at most `MOST` of them. Lines that
run while a module is imported belong to no test.
"""

import heapq
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

PACKAGE = str(Path(__file__).resolve().parents[1] / "mxjax") + os.sep
MOST = 40
EVENTS = sys.monitoring.events

_lines: set[tuple[str, int]] = set()  # what the current test has run
_tests: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)


def _starts(code: CodeType, _offset: int) -> object:
    if code.co_filename.startswith(PACKAGE):  # events of lines cost time, so only the package's functions have them
        sys.monitoring.set_local_events(sys.monitoring.COVERAGE_ID, code, EVENTS.LINE)
    return sys.monitoring.DISABLE


def _line(code: CodeType, line: int) -> object:
    _lines.add((code.co_filename, line))
    return sys.monitoring.DISABLE  # until the next test


def pytest_configure() -> None:
    """Begins to listen."""
    sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "covered")
    sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, EVENTS.PY_START, _starts)
    sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, EVENTS.LINE, _line)
    sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, EVENTS.PY_START)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keeps the lines that a test runs, with its fixtures."""
    _lines.clear()
    sys.monitoring.restart_events()
    try:
        return (yield)
    finally:
        lines = set(_lines)
        for place in lines:
            # Of those that run a line, the tests that run the fewest others are likely to check it.
            (heapq.heappush if len(_tests[place]) < MOST else heapq.heappushpop)(_tests[place],
                                                                                 (-len(lines), item.nodeid))


def pytest_sessionfinish() -> None:
    """Writes what was kept."""
    sys.monitoring.free_tool_id(sys.monitoring.COVERAGE_ID)
    files: dict[str, dict[int, list]] = defaultdict(dict)
    for (file, line), tests in _tests.items():
        files[Path(file.removeprefix(PACKAGE)).as_posix()][line] = [[-size, test] for size, test in tests]
    folder = Path(os.environ["COVERED"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.json").write_text(json.dumps(files), encoding="utf-8")
