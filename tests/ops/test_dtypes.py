"""The dtypes that operators take, and those of their results, beside MXNet 1.9.1's."""

import gzip
import json
import pathlib

import numpy as np
import pytest

import mxjax as mx

from .cases import arrays

FOLDER = pathlib.Path(__file__).parents[1] / "data/mxnet"
CALLS = json.loads(gzip.decompress((FOLDER / "calls.json.gz").read_bytes()))
RECORDED = json.loads((FOLDER / "dtypes.json").read_text())
DTYPES = ("bool", "int32", "float16", "float64")


def found(name, dtype):
    """Returns the dtypes of an operator's results with this dtype for its floats, or "-" where it says no to it."""
    case = CALLS[name][0]
    swapped = [(shape, dtype if own.startswith("float") else own, kind) for shape, own, kind in case["inputs"]]
    inputs = [mx.nd.array(a, dtype=a.dtype) for a in arrays(name, case["number"], swapped)]
    function = getattr(mx.nd, name, None) or getattr(mx.nd._internal, name)
    try:
        result = function(*inputs, **case["parameters"])
    except mx.MXNetError as error:
        assert dtype in str(error) or "dtype" in str(error) or "bool" in str(error), error
        return "-"
    return " ".join(np.dtype(o.dtype).name for o in (result if isinstance(result, (list, tuple)) else [result]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDED)
def test_dtypes_of_results(name):
    """Where MXNet refuses what mxjax takes, the record has mxjax's dtype behind a plus sign."""
    expected = [row.lstrip("+") for row in RECORDED[name].split(" | ")]
    taken = [found(name, dtype) for dtype in DTYPES]
    assert [t for t, e in zip(taken, expected, strict=True) if e != "?"] == [e for e in expected if e != "?"]
