"""Calls with parameters, shapes and dtypes drawn at random: results, gradients, changed arrays beside MXNet 1.9.1's."""

import gzip
import json
import pathlib

import numpy as np
import pytest

import mxjax as mx
from mxjax._support.bounded import clear_all
from mxjax.interpret import direct
from mxjax.kernel import bound_form
from mxjax.ops import registry

from .cases import arrays, heads, summary

RECORDED = json.loads(gzip.decompress((pathlib.Path(__file__).parents[1] / "data/mxnet/calls.json.gz").read_bytes()))
TOLERANCES = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-4}
FLOATS = ("float16", "float32", "float64")


def check(what, array, expected, tolerance):
    """Compares an array with its recorded shape, dtype and sums."""
    shape, dtype, total, size = summary(array.asnumpy())
    assert [shape, dtype] == expected[:2], what
    assert abs(total - expected[2]) <= tolerance * max(size, expected[3], 1e-3), what


def called(name, case):
    """Calls an operator, and compares everything with MXNet's record."""
    tolerance = max(TOLERANCES.get(dtype, 1e-6) for _, dtype, *_ in [*case["inputs"], *case["outputs"]])
    inputs = [mx.nd.array(a, dtype=a.dtype) for a in arrays(name, case["number"], case["inputs"])]
    floats = [a for a in inputs if np.dtype(a.dtype).name in FLOATS]
    for a in floats:
        a.attach_grad()
    function = getattr(mx.nd, name, None) or getattr(mx.nd._internal, name)
    with mx.autograd.record():
        result = function(*inputs, **case["parameters"])
    outputs = result if isinstance(result, (list, tuple)) else [result]
    assert len(outputs) == len(case["outputs"])
    for i, (output, expected) in enumerate(zip(outputs, case["outputs"], strict=True)):
        check(f"output {i} of {case}", output, expected, tolerance)
    for i, expected in case["changed"].items():
        check(f"changed input {i} of {case}", inputs[int(i)], expected, tolerance)
    if case["gradients"]:
        chosen = [o for o in outputs if np.dtype(o.dtype).name in FLOATS]
        mx.autograd.backward(chosen, [mx.nd.array(heads(o.shape, o.dtype), dtype=o.dtype) for o in chosen])
        for i, (array, expected) in enumerate(zip(inputs, case["gradients"], strict=True)):
            if expected is not None:
                check(f"gradient of input {i} of {case}", array.grad, expected, 2 * tolerance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDED)
def test_calls(name):
    for case in RECORDED[name]:
        called(name, case)


@pytest.fixture(scope="module")
def no_forms():
    """Calls are computed by the formulas alone, by NumPy's rules for their programs or compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound_form, "form_of", lambda name: None)
        clear_all()
        yield
    clear_all()


WITH_FORMS = [name for name in RECORDED if direct.form_of(registry.get(name).name)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_FORMS)
def test_formulas(name, no_forms):
    """Those of operators that have NumPy forms besides."""
    for case in RECORDED[name][:2]:
        called(name, case)


@pytest.mark.slow  # with the two calls above, they make up all of them
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in WITH_FORMS if len(RECORDED[name]) > 2])
def test_formulas_of_further_calls(name, no_forms):
    for case in RECORDED[name][2:]:
        called(name, case)
