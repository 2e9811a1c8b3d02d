"""The example scripts run to their end; each compares what it computes and fails where something does not agree."""

import os
import pathlib
import runpy
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
SCRIPTS = ["operators/quadratic.py", "operators/abs.py", "operators/smooth_l1.py", "operators/softmax_customop.py",
           "operators/convolution_property.py", "engine/schedule_files.py", "gluon/image_classification.py",
           "gluon/word_language_model.py", "gluon/vae.py", "gluon/transfer_learning.py",
           "sparse/factorization_machine.py", "sparse/wide_deep.py"]
SLOW = ("gluon/image_classification.py", "gluon/word_language_model.py", "gluon/transfer_learning.py",
        "sparse/wide_deep.py")


@pytest.mark.parametrize("script", [pytest.param(script, marks=pytest.mark.slow if script in SLOW else ())
                                    for script in SCRIPTS])
def test_example(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str((EXAMPLES / script).parent))
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.slow
def test_several_devices():
    """In a process of its own: the number of the host's devices is settled when JAX starts."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, str(EXAMPLES / "gluon/multi_device.py")], capture_output=True, text=True,
                          env=environment, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("differ from one device's by at most") == 2


@pytest.mark.slow
def test_gpt_on_one_and_on_several_devices():
    def bits(*more):
        environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
        command = [sys.executable, str(EXAMPLES / "large/gpt.py"), "--steps", "4", "--batch", "4", "--length", "16"]
        done = subprocess.run([*command, *more], capture_output=True, text=True, env=environment, cwd=EXAMPLES.parent)
        assert done.returncode == 0, done.stderr
        assert ("data" in done.stdout) == bool(more)
        return [line for line in done.stdout.splitlines() if "bits a letter" in line]
    alone = bits()
    assert len(alone) == 2 and bits("--mesh", "data=4", "--sharding", "fsdp") == alone
    assert bits("--mesh", "data=2,model=2", "--sharding", "tensor") == alone


def test_every_operator_example_is_run():
    there = {f"operators/{path.name}" for path in (EXAMPLES / "operators").glob("*.py")} - {"operators/checks.py"}
    assert there <= set(SCRIPTS)
