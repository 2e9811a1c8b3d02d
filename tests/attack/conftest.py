"""Counting attacks."""

import json
import os
from collections import Counter

import pytest

FULL = os.environ.get("MXJAX_ATTACK") == "full"
BAD = ("crash", "hang", "differs")
_counted = {}


class Tally:
    """Counts outcomes: `ok`, `refused` (by a clear error), `crash`, `hang`, `differs`; the last three are failures."""

    def __init__(self):
        self.counts, self.notes = Counter(), []

    def count(self, outcome, note=""):
        assert outcome in ("ok", "refused", *BAD), outcome
        self.counts[outcome] += 1
        if outcome in BAD:
            self.notes.append(f"{outcome}: {note}")

    def check(self):
        assert not self.notes, "\n".join(self.notes[:20])


@pytest.fixture
def effort():
    """effort(short, full): the first in `make test`, the second in `make attack`."""
    return lambda short, full: full if FULL else short


@pytest.fixture
def tally(record_property):
    """A Tally; it is printed at the end and checked after the test."""
    found = Tally()
    yield found
    record_property("tally", json.dumps(found.counts))
    found.check()


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == "tally":
                _counted[report.nodeid.rpartition("/")[2]] = json.loads(value)


def pytest_terminal_summary(terminalreporter):
    if _counted:
        terminalreporter.section("attacks: tried, right, refused, crashes, hangs, differences")
        for name, counts in sorted(_counted.items()):
            row = [sum(counts.values())] + [counts.get(k, 0) for k in ("ok", "refused", *BAD)]
            terminalreporter.write_line(f"{name:70}" + "".join(f"{n:9}" for n in row))
