"""benchmarks/accelerator.py: stages that go on where a run was, and end in time."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def accelerator(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import accelerator
    monkeypatch.setattr(sys, "argv", ["accelerator.py"])
    return accelerator


def test_a_run_goes_on_where_it_was(accelerator, monkeypatch, tmp_path, capsys):
    out, ran, steps = tmp_path / "found.json", [], {"train:lstm": 2.0, "flax:lstm": 4.0}

    def run(stage, seconds, result):
        ran.append(stage)
        result.write_text(json.dumps({"step ms": steps[stage]} if stage in steps else {"device": "none"}))
        return (1 if ran.count("flax:lstm") == 1 and stage == "flax:lstm" else 0), "what it printed"
    monkeypatch.setattr(accelerator, "run_stage", run)
    monkeypatch.setattr(sys, "argv", ["accelerator.py", "--out", str(out), "--only", "^(about|train:lstm|flax:lstm)$"])
    assert accelerator.main() == 0 and ran == ["about", "train:lstm", "flax:lstm"]
    known = json.loads(out.read_text())
    assert known["flax:lstm"]["failed"] == 1 and known["flax:lstm"]["log"] == "what it printed"
    assert accelerator.main() == 0 and ran[3:] == ["flax:lstm"]
    assert "failed" not in json.loads(out.read_text())["flax:lstm"]
    assert "| train:lstm | 2 | 4 | 0.5 | - | - | - |" in out.with_suffix(".md").read_text()
    assert os.listdir(tmp_path) in (["found.json", "found.md"], ["found.md", "found.json"])


def test_a_stage_that_takes_too_long_ends_with_its_processes(accelerator, monkeypatch, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text("import subprocess, sys, time\n"
                      "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
                      "print(child.pid, flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(accelerator, "__file__", str(script))
    monkeypatch.setattr(accelerator, "MARGIN", 1)
    status, log = accelerator.run_stage("about", 0, tmp_path / "result.json")
    assert status is None
    state, end = Path(f"/proc/{int(log)}/stat"), time.monotonic() + 10
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < end:
        time.sleep(0.01)
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_stage(accelerator):
    pytest.importorskip("flax")
    import _stages
    noted = []
    found = _stages.host(argparse.Namespace(on="cpu", small=True, seconds=0.2, note=noted.append))
    assert found["arrays"] == 16 and noted and all(found[f"{who} {what} ms"] > 0 for who in ("mxjax", "flax")
                                                   for what in ("call", "waited"))


def test_every_stage_is_there(accelerator):
    pytest.importorskip("optax")
    import _stages
    assert all(callable(getattr(_stages, name.partition(":")[0])) for name in accelerator.STAGES)
    assert 0.8 * 9 * 60 * (1 - accelerator.LEFT) < sum(accelerator.STAGES.values()) < 1.5 * 9 * 60


def test_launches_in_cuda_graphs(accelerator):
    pytest.importorskip("optax")
    import cuda_graphs
    text = ("001: kConvolution [source] kConvolution\n000: kCommandBuffer [prev]\n"
            "    002: kCustomKernel [source] one\n    003: kDynamicSliceFusion [source]\n"
            "        004: kCopy [sink] kCopy\n"
            "005: kWhile [prev]\ncondition:\n    006: kCustomKernel [source] two\n  body:\n"
            "    000: kCommandBuffer [prev]\n        007: kCublasLtMatmul [source] kCublasLtMatmul\n")
    found = cuda_graphs.counts(text)
    assert found == {"launches": 5, "in graphs": 3, "graphs": 2, "loops": 1,
                     "left": {"kConvolution": 1, "kCustomKernel": 1}}
    assert "| a | 5 | 3, 4 | - |" in cuda_graphs.table({"a": {"xla": found}}, ["xla", "all"])
