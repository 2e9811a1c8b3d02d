"""Signatures, documentation and type stubs that come from the registry."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mxjax as mx

ROOT = Path(mx.__file__).parent


def test_stubs_are_fresh():
    # in a process of its own: tests before this one may have registered operators
    done = subprocess.run([sys.executable, "-m", "mxjax", "stubs", "--check"], capture_output=True, text=True,
                          cwd=ROOT.parent)
    assert done.returncode == 0, f"run `python -m mxjax stubs`\n{done.stdout}{done.stderr}"


def test_a_stale_stub_is_found(tmp_path, monkeypatch, capsys):
    from mxjax.tools import stubs
    stale = tmp_path / "op.pyi"
    stale.write_text("def f() -> None: ...\n")
    monkeypatch.setattr(stubs, "_ROOT", tmp_path)
    monkeypatch.setattr(stubs, "stubs", lambda: iter([(stale, "def g() -> None: ...\n")]))
    given = type("Given", (), {"check": True})
    assert stubs.main(given) == 1 and "out of date" in capsys.readouterr().out
    given.check = False
    assert stubs.main(given) == 0 and "def g" in stale.read_text()
    given.check = True
    assert stubs.main(given) == 0


@pytest.mark.parametrize("path", sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("*/_stubs/*.pyi")))
def test_stubs_are_python(path):
    ast.parse((ROOT / path).read_text())


def _arguments(tree, name):
    found = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    return [a.arg for a in found.args.args]


@pytest.mark.parametrize("front", ["ndarray", "symbol"])
@pytest.mark.parametrize("name", ["Convolution", "Concat", "topk", "BatchNorm_v1"])
def test_stub_and_signature_agree(front, name):
    tree = ast.parse((ROOT / front / "_stubs" / "op.pyi").read_text())
    function = getattr(mx.nd if front == "ndarray" else mx.sym, name)
    kinds = inspect.Parameter
    assert _arguments(tree, name) == [p.name for p in inspect.signature(function).parameters.values()
                                      if p.kind is kinds.POSITIONAL_OR_KEYWORD]


def test_signatures_leave_out_what_mxnet_does():
    assert "moving_mean" not in inspect.signature(mx.nd.BatchNorm_v1).parameters
    assert [p.kind.name for p in inspect.signature(mx.sym.Custom).parameters.values()] == ["VAR_POSITIONAL",
                                                                                          "VAR_KEYWORD"]


def test_documentation_names_types_ranges_and_defaults():
    text = mx.nd.Dropout.__doc__
    assert "p : float in [0, 1], optional, default=0.5" in text
    assert "mode : {'training', 'always'}, optional, default='training'" in text
    assert "num_hidden : int >= 1, required" in mx.sym.FullyConnected.__doc__
