"""Type checkers find nothing wrong in correct scripts, which run, and the mistakes in `mistakes.py`."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mxjax as mx

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORRECT = sorted(path.name for path in HERE.glob("*.py") if path.name not in ("mistakes.py", Path(__file__).name))
WRONG = {n for n, line in enumerate((HERE / "mistakes.py").read_text(encoding="utf-8").splitlines(), 1)
         if "# wrong" in line}


@pytest.mark.parametrize("script", CORRECT)
def test_the_correct_scripts_run(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mx.random.seed(0)
    try:
        runpy.run_path(str(HERE / script), run_name="__main__")
    finally:
        mx.npx.reset_np()


def _checked(found, scripts):
    """Asserts that all that was found are the mistakes, each on its line."""
    correct = [row for row in found if row[0] != "mistakes.py"]
    assert not correct and len(scripts) > 5
    assert {line for name, line, _ in found} == WRONG, found
    assert any("kernal" in text for _, _, text in found)


@pytest.mark.slow
def test_mypy(tmp_path):
    scripts = [*CORRECT, "mistakes.py"]
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--cache-dir",
                           str(tmp_path), *scripts], cwd=HERE, env={**os.environ, "MYPYPATH": str(ROOT)},
                          capture_output=True, text=True, check=False)
    rows = [re.match(r"(\w+\.py):(\d+): error: (.*)", line) for line in done.stdout.splitlines()]
    _checked([(m[1], int(m[2]), m[3]) for m in rows if m], scripts)


def test_pyright(tmp_path):
    command = shutil.which("basedpyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    scripts = [*CORRECT, "mistakes.py"]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({
        "include": [str(HERE / script) for script in scripts], "extraPaths": [str(ROOT)],
        "typeCheckingMode": "standard", "pythonVersion": "3.11"}), encoding="utf-8")
    done = subprocess.run([command, "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"],
                          capture_output=True, text=True, check=False)
    rows = [row for row in json.loads(done.stdout)["generalDiagnostics"] if row["severity"] == "error"]
    _checked([(Path(row["file"]).name, row["range"]["start"]["line"] + 1, row["message"]) for row in rows], scripts)


def test_an_editable_install_is_found(tmp_path):
    """The build backend makes a path of it: pyright and mypy do not follow the import hook that it makes otherwise."""
    script = "import sys\nfrom setuptools import build_meta\nprint(build_meta.build_editable(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        paths = [wheel.read(name).decode().strip() for name in wheel.namelist() if name.endswith(".pth")]
    assert [Path(path).resolve() for path in paths] == [ROOT.resolve()]
