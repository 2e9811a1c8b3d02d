"""The level of MXNet's API: how it is chosen, and the errors that name the other one."""

import os
import pathlib
import subprocess
import sys

import pytest

TWO = pathlib.Path(__file__).parent / "two"
PYTEST = ("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider")


def run(code, *arguments, **environment):
    """A script in a process of its own; returns (exit status, its output)."""
    done = subprocess.run([sys.executable, *(arguments or ("-c", code))], capture_output=True, text=True, timeout=590,
                          env={**os.environ, "MXJAX_API": "", **environment})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["amp", 0, 1])
def test_at_level_2(part):
    """The files of `two` are run by further pytests, whose processes speak MXNet 2; AMP cannot be switched off."""
    amp = str(TWO / "test_amp.py")
    others = sorted({*map(str, TWO.glob("test_*.py"))} - {amp})
    status, output = run("", *PYTEST, *([amp] if part == "amp" else others[part::2]), MXJAX_API="2")
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_slow_ones_at_level_2():
    status, output = run("", *PYTEST, "-m", "slow", str(TWO), MXJAX_API="2")
    assert status == 0, output


def test_default_is_1():
    status, output = run("import mxjax as mx; print(mx.__version__, mx.util.is_np_array(), mx.gluon.ParameterDict)")
    assert status == 0 and output.startswith("1.9.1 False"), output


@pytest.mark.parametrize("code, environment", [
    ("import mxjax as mx", {"MXJAX_API": "2"}),
    ("import mxjax.interop; mxjax.interop.install_mxnet_alias(api=2); import mxnet as mx", {}),
])
def test_chosen(code, environment):
    status, output = run(f"{code}\nprint(mx.__version__, mx.util.is_np_array(), hasattr(mx.gluon, 'ParameterDict'))",
                         **environment)
    assert status == 0 and output.startswith("2.0.0 True False"), output


def test_run_command(tmp_path):
    script = tmp_path / "x.py"
    script.write_text("import subprocess, sys, mxnet as mx\nprint(mx.__version__, flush=True)\n"
                      "subprocess.run([sys.executable, '-c', 'import mxnet; print(mxnet.__version__)'], check=True)\n")
    status, output = run("", "-m", "mxjax", "run", "--no-cache", "--api", "2", str(script))
    assert status == 0 and output.split() == ["2.0.0", "2.0.0"], output


def test_one_level_for_a_process():
    status, output = run("import mxjax as mx; mx.gluon.nn.Dense; mx.interop.install_mxnet_alias(api=2)")
    assert status == 1 and "this process uses MXNet 1.9.1 since mxjax.gluon was loaded" in output, output


def test_a_level_chosen_late_changes_what_was_called_before():
    status, output = run("""
from mxjax import level
import mxjax as mx
a = mx.np.array([1, 2], dtype="int32")
assert (a + 1.5).dtype == mx.np.sqrt(a).dtype == "int32" and not hasattr(a, "__floordiv__")
level.choose(2)
assert (a + 1.5).dtype == "float64" and mx.np.sqrt(a).dtype == "float32" and (a // 2).asnumpy().tolist() == [0, 1]
assert mx.np.zeros(2, None, "C", mx.cpu()).dtype == "float32" and mx.np.max(a, 0, None, True).shape == (1,)
""")
    assert status == 0, output


def test_no_such_level():
    assert "api must be 1 (MXNet 1.9.1) or 2 (MXNet 2.0), got 3" in run(
        "import mxjax; mxjax.interop.install_mxnet_alias(api=3)")[1]
    assert "MXJAX_API must be 1" in run("import mxjax", MXJAX_API="two")[1]


def test_names_of_the_other_level():
    status, output = run("""
import mxjax as mx
try:
    mx.mod
except AttributeError as error:
    print(error)
mx.interop.install_mxnet_alias()
try:
    import mxnet.module
except ImportError as error:
    print(error)
try:
    mx.gluon.nn.Dense(2).name_scope
except AttributeError as error:
    print(error)
""", MXJAX_API="2")
    assert status == 0
    assert output.count("belongs to MXNet 1.x, but this process uses MXNet 2") == 3, output
    assert "mx.gluon stands for it" in output and "MXJAX_API=1" in output
