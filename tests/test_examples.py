"""The example scripts run to their end; each compares what it computes and fails where something does not agree."""

import pathlib
import runpy
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
SCRIPTS = ["operators/quadratic.py", "operators/abs.py", "operators/smooth_l1.py", "operators/softmax_customop.py",
           "operators/convolution_property.py", "engine/schedule_files.py"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_example(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str((EXAMPLES / script).parent))
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert capsys.readouterr().out


def test_every_operator_example_is_run():
    there = {f"operators/{path.name}" for path in (EXAMPLES / "operators").glob("*.py")} - {"operators/checks.py"}
    assert there <= set(SCRIPTS)
