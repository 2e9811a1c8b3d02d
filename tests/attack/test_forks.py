"""Ways of touching the library before a fork x ways of computing after it: right, or refused in words; never for ever.

`make test` tries some of each, `make attack` all of all: `forks.py` has both lists.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from marks import sampled

PROGRAM = Path(__file__).with_name("forks.py")
_FOUND = importlib.util.spec_from_file_location("forks", PROGRAM)
forks = importlib.util.module_from_spec(_FOUND)
_FOUND.loader.exec_module(forks)
# states of the parent that differ most; each tries other ways of computing
SAMPLE = ["import", "import at work", "from files, hybridized", "module", "hybridized training", "engine at work",
          "profiler at work", "pictures in an epoch"]
REFUSED = {"jax"}  # a script's own programs
LEFT = {"loader's processes in an epoch", "loader's threads in an epoch", "pictures in an epoch"}  # and workers
SECONDS = 900  # for all children of a parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    subprocess.run([sys.executable, PROGRAM, folder, "make files"], check=True)
    return folder


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("before", forks.BEFORE if os.environ.get("MXJAX_ATTACK") == "full" else sampled(SAMPLE))
def test_forked_children_compute(before, files, tally, effort):
    step = effort(2 * len(SAMPLE), 1)
    after = list(forks.AFTER)[SAMPLE.index(before) if step > 1 else 0::step]
    try:
        done = subprocess.run([sys.executable, "-W", "ignore", PROGRAM, files, before, *after], capture_output=True,
                              text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        tally.count("hang", f"{before}, the parent: {error.stderr}")
        return
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for name, outcome, note in found:
        right = outcome != "refused" or name in REFUSED or name == "the parent's" and before in LEFT
        tally.count(outcome if right else "differs", f"{before}, then {name}: {note}")
    assert done.returncode == 0 and {name for name, *_ in found} >= set(after), done.stderr[-2000:]
