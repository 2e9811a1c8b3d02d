"""Operators compiled for accelerators that are not here."""

import json
import subprocess
import sys
from pathlib import Path

import accelerators
import pytest

from mxjax.ops import registry

TOOLS = Path(__file__).parents[2] / "tools"
COMPILERS = {"h100": "jax_plugins.xla_cuda12", "v5e:1x1": "libtpu"}

CALLS = [json.loads(line) for line in accelerators.CALLS.read_text(encoding="utf-8").splitlines()]


def test_calls_are_of_operators_that_are_here():
    names = {name for name, *_ in CALLS}
    for name, inputs, params, _ in CALLS:
        registry.get(name).parse(accelerators.arguments(registry.get(name), params, len(inputs)))
    device = [op.name for op in registry.operators() if op.get_attr("FHost") is None and not op.eager and
              getattr(op.get_attr("FCompute"), "__module__", "").startswith("mxjax.ops")]  # tests register others
    assert len(names & set(device)) >= 0.98 * len(device), sorted(set(device) - names)


def test_the_table():
    call = ["exp", [[[2], "float32"]], {}, True]
    other, host = ["dot", [], {}, True], ["_cvimread", [], {}, False]
    known = {accelerators.key("h100", call): {"compiled": "forward"},
             accelerators.key("h100", other): {"refused": "XlaRuntimeError: no"},
             accelerators.key("h100", host): {"host": "OpenCV"}}
    text = accelerators.table(["h100"], [call, other, host], known)
    assert "| h100 | 3 | 1 (50.0 %) | 1 | 1 |" in text and "`dot`" in text and "| `_cvimread` | OpenCV |" in text


def test_what_is_written_by_hand_stays(tmp_path):
    page = tmp_path / "page.md"
    accelerators.write(page, "old\n")
    assert page.read_text() == "old\n"
    page.write_text(f"old\n{accelerators.BY_HAND}\n\n## By hand\n")
    for _ in range(2):
        accelerators.write(page, "new\n")
    assert page.read_text() == f"new\n\n{accelerators.BY_HAND}\n\n## By hand\n"


@pytest.mark.parametrize("target", COMPILERS)
def test_a_sample_compiles(target, tmp_path):
    if not accelerators.installed(COMPILERS[target]):
        pytest.skip("needs the compiler's package")
    out = tmp_path / "out.jsonl"
    for _ in range(2):  # the second time nothing is left to be done
        done = subprocess.run([sys.executable, str(TOOLS / "accelerators.py"), "--on", target, "--only",
                               "^(softmax|Dropout|topk|sgd_mom_update|_contrib_DeformableConvolution)$", "--out",
                               str(out)], capture_output=True, text=True, check=True, timeout=600)
        assert "| 5 (100.0 %) | 0 | 0 |" in done.stdout
        lines = out.read_text().splitlines()
    assert len(lines) == len({json.loads(line)["key"] for line in lines})
