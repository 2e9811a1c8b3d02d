"""Tests of level 2: each in a process of its own, as a process has one level."""

import os
import subprocess
import sys
import textwrap

import pytest


def _run_at_2(code: str) -> None:
    """Runs a script that speaks MXNet 2; it must end without an error."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          timeout=250, env={**os.environ, "MXJAX_API": "2"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def run_at_2():
    """A function that runs a script at level 2."""
    return _run_at_2
