"""Damaged files for every reader: it reads them, or refuses them by its own error, soon and without much memory."""

import importlib.util
import os
import subprocess
import sys

import pytest

FUZZ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz")


def _module(name):
    found = importlib.util.spec_from_file_location(name, os.path.join(FUZZ, name + ".py"))
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# half of the readers in each process, so that two workers share the time
READERS = [["params", "buffer", "handle", "npz", "npz_entry", "safetensors", "block_params", "checkpoint_params",
            "states", "trainer_states", "csv", "libsvm", "mnist", "lists"],
           ["symbol", "symbol_block", "block_names", "onnx", "records", "index", "image_records", "detection_label",
            "image", "mnist_gz", "mnist_gz_content", "cifar", "archive", "embedding"]]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_damaged_files(tally, effort, half):
    for package in ("safetensors", "onnx", "cv2"):
        pytest.importorskip(package)
    seed = os.environ.get("MXJAX_FUZZ_SEED", "0")
    counts, notes = _module("fuzz").attack(READERS[half], effort(1.0, 60.0), seed)
    for name, outcome, told, raw in notes:
        tally.count(outcome, f"{name}: {told}: {raw[:2000].hex()}")
    for found in counts.values():
        for outcome in ("ok", "refused"):
            tally.counts[outcome] += found[outcome]
    assert set(counts) == set(READERS[half]) and all(found["ok"] + found["refused"] for found in counts.values())


def test_all_readers_are_here():
    listed = subprocess.run([sys.executable, "-c", "import readers; print(*readers.READERS)"], cwd=FUZZ,
                            capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(READERS[0] + READERS[1])
