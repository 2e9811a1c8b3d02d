"""What layers, losses, optimizers, metrics, schedules, initializers and transforms make of each option, beside MXNet's.

`data/mxnet/options.py` has the rows, and records MXNet's.
"""

import gzip
import json
import math
import pathlib
import re
import sys

import pytest

import mxjax as mx

FOLDER = pathlib.Path(__file__).parent / "data/mxnet"
RECORDED = json.loads(gzip.decompress((FOLDER / "options.json.gz").read_bytes()))
# MXNet refuses these: its own mistakes in weights' shapes, sizes, states
TAKEN = re.compile(r"Conv\dDTranspose\(.*(output_padding|dilation|groups)|PoissonNLLLoss\(compute_full|FusedRNN|"
                   r"Conv1D\w+Cell\(.*NWC|ModulatedDeformableConvolution\(.*groups|DCASGD\(momentum")
# other graphs that compute the same
UNLIKE_GRAPHS = re.compile(r"CosineEmbeddingLoss|PixelShuffle3D")


def _plain(found):
    """Returns a row with one way to write activations and booleans."""
    for node in found.get("nodes", ()) if isinstance(found, dict) else ():
        if node[0] == "Activation" and node[2]["act_type"] in ("relu", "sigmoid", "softsign", "tanh"):
            node[0], node[2] = node[2]["act_type"], {}
        node[2] = {key: {"True": "1", "False": "0"}.get(text, text) for key, text in node[2].items()}
    return found


def _same(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=2e-5) or one != one and other != other
    return one == other


@pytest.mark.parametrize("kind", RECORDED)
def test_each_option(kind, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    rows = dict(__import__("options").rows(mx, kind))
    sys.modules.pop("options")
    wrong = []
    for row, expected in RECORDED[kind].items():
        found, expected = _plain(json.loads(json.dumps(rows[row]))), _plain(expected)
        if expected == "raises" and TAKEN.match(row):
            continue
        if UNLIKE_GRAPHS.match(row):
            found, expected = found["params"], expected["params"]
        if not _same(found, expected):
            wrong.append(f"{row}:\n  {found}, not\n  {expected}")
    assert not wrong, "\n".join(wrong)
