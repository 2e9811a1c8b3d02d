"""A process that speaks level 2, for tests of what it does."""

import os
import subprocess
import sys
import textwrap

import pytest


def run_at_2(code: str) -> None:
    """Runs `python -c code` at level 2; fails where that fails."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          env={**os.environ, "MXJAX_API": "2", "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(name="run_at_2")
def _run_at_2():
    return run_at_2
