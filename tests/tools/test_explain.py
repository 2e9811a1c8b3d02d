"""Kinds of errors: their addresses in messages, their sections, `mxjax explain`."""

import importlib
import pathlib
import pickle
import re

import pytest

import mxjax as mx
from mxjax import __main__ as commands
from mxjax._support.error_kinds import CODES, addressed, kind_of
from mxjax.base import MissingFile
from mxjax.tools import explain

ROOT = pathlib.Path(__file__).parents[2]


def test_each_code_has_a_section_and_each_section_a_code():
    found = explain.sections()
    assert len(CODES) == len(set(CODES)) >= 40
    assert set(found) == set(CODES)
    for code, text in found.items():
        assert "**Cause.**" in text and "**Solution.**" in text, code


def test_codes_of_classes_are_codes():
    classes, found = [mx.MXNetError], set()
    while classes:
        found.add(classes[-1].code)
        classes += classes.pop().__subclasses__()
    assert found <= {*CODES, ""} and "symbol-in-block" in found


def test_the_examples_of_the_page_raise_what_they_explain(monkeypatch, tmp_path):
    """Run as the documentation does; each prints its own address."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    monkeypatch.chdir(tmp_path)
    names, shown = {}, 0
    for code, text in explain.sections().items():
        printed = "".join(importlib.import_module("execute").run_python(block, names, code)
                          for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        shown += bool(printed)
        assert not printed or f"[mxjax explain {code}]" in printed, (code, printed)
    assert shown >= 30


def test_an_address_stands_at_the_end_once():
    text = "operator dot: shapes (2, 3) and (4, 2) do not match"
    once = addressed(text)
    assert once == f"{text} [mxjax explain shape-mismatch]" and addressed(once) == once
    assert addressed(f"worker 1 failed: {once} [inputs]") == (
        f"worker 1 failed: {text} [inputs] [mxjax explain shape-mismatch]")
    assert addressed("all is well") == "all is well" == str(mx.MXNetError("all is well"))


def test_errors_keep_what_they_hold():
    error = mx.MXNetError("there is no operator x")
    assert error.args == ("there is no operator x",)  # the address is shown, not stored
    assert str(error) == "there is no operator x [mxjax explain unknown-operator]"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    missing = MissingFile(2, "No such file or directory", "a.params")
    assert missing.errno == 2
    assert str(missing) == "[Errno 2] No such file or directory: 'a.params' [mxjax explain file-missing]"


@pytest.mark.parametrize("message,code", [
    ("gpu(0) is not available: JAX sees 0 gpu device(s); where the machine has one, pip install 'mxjax[cuda12]'",
     "device-missing"),
    ("images need OpenCV: pip install 'mxjax[image]'", "package-missing"),
    ("plan: there is no compiler for h100: pip install 'mxjax[cuda12]'", "compiler-missing"),
    ("a job over several machines needs a secret that only its processes know, and there is none", "secret-missing"),
    ("key 'a' has not been initialized", "kvstore-key"),
    ("engine: f waits for work that itself waits for it", "engine"),
])
def test_kinds_of_what_cannot_be_raised_here(message, code):
    assert kind_of(message) == code


def test_explain(capsys):
    assert commands.main(["explain", "graph-freed"]) == 0
    assert "retain_graph=True" in capsys.readouterr().out
    assert commands.main(["explain", "[mxjax explain out-of-memory]"]) == 0
    assert capsys.readouterr().out.startswith("out-of-memory\n\n**Cause.**")
    assert commands.main(["explain", "operator sum: axis 3 is out of range for an array of 1 dimensions"]) == 0
    assert capsys.readouterr().out.startswith("axis-out-of-range\n")
    assert commands.main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CODES)
    with pytest.raises(SystemExit) as ended:
        commands.main(["explain", "shape-mismach"])
    assert ended.value.code == 2 and "did you mean shape-mismatch?" in capsys.readouterr().err
