"""All operators beside those of MXNet 1.9.1: names, aliases, inputs, outputs, parameters."""

import ast
import json
import pathlib
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.ops import registry

RECORDED = json.loads((pathlib.Path(__file__).parents[1] / "data/mxnet/operators.json").read_text())
# the same formula under names with registrations of their own
SEVERAL = {"_npi_det": "_linalg_det", "_npi_slogdet": "_linalg_slogdet", "_npi_tile": "tile"}
MAIN = {"_CrossDeviceCopy": "_copy"}
# the names of inputs are those of their keywords; states have numbers; heads are counted by the shapes
UNLIKE_SYMBOLS = {"_cvimdecode", "_multi_adamw_update", "_multi_lamb_update", "_multi_mp_adamw_update",
                  "_multi_mp_lamb_update", "_npi_multinomial", "_sg_mkldnn_selfatt_qk", "_sg_mkldnn_selfatt_valatt"}
ABSENT = {"Custom op_type", "_linspace step", "_linspace repeat", "_linspace infer_range", "_npi_dstack dim",
          "_npi_hstack dim", "_sg_mkldnn_selfatt_qk heads", "_sg_mkldnn_selfatt_valatt heads"}
# more is taken than MXNet's texts say: numbers that need not be whole, or that are not rounded to float32
UNLIKE_TYPES = {"_random_negative_binomial k", "_random_negative_binomial_like k", "ftml_update t",
                "lamb_update_phase1 t", "mp_lamb_update_phase1 t", "_contrib_SyncBatchNorm eps", "smooth_l1 scalar",
                "_cvcopyMakeBorder value", "_cvcopyMakeBorder values", "_linspace stop"}
TAKE_ANY_AXIS = {"Dropout", "_contrib_boolean_mask", "_contrib_getnnz", "_np_roll", "_npi_concatenate", "_npi_dsplit",
                 "_npi_hsplit", "_npi_insert_tensor", "_npi_unique", "_npx_quantized_transpose",
                 "_contrib_quantized_batch_norm", "_contrib_quantized_concat", "_npi_tensordot_int_axes"}
# {type: (text, value)} of valid and invalid values
VALID = {
    "boolean": [("True", True), ("0", False)], "string": [("a word", "a word")],
    "int": [("3", 3)], "long": [("3", 3)], "int (non-negative)": [("3", 3)], "long (non-negative)": [("3", 3)],
    "float": [("0.1", float(np.float32(0.1))), ("1", 1.0)], "double": [("0.1", 0.1), ("1", 1.0)],
    "Shape": [("(3, 4)", (3, 4)), ("[3]", (3,))], "Shape(tuple)": [("(3, 4)", (3, 4)), ("[3]", (3,))],
    "tuple of <long>": [("(3, 4)", (3, 4))], "tuple of <float>": [("(0.1, 1)", (float(np.float32(0.1)), 1.0))],
    "tuple of <double>": [("(0.1, 1)", (0.1, 1.0))], "tuple of <Shape(tuple)>": [("((3, 4), (5,))", ((3, 4), (5,)))],
}


def test_names_and_aliases():
    """Names that MXNet gives one operator are those of one operator."""
    for name, told in RECORDED.items():
        others = set(told.get("aliases", "").split())
        assert registry.get(name).name == MAIN.get(name, name)
        assert {alias for alias in others if registry.get(alias) is not registry.get(name)} <= set(SEVERAL), name


@pytest.mark.parametrize("name, other", SEVERAL.items())
def test_names_of_one_formula(name, other):
    assert set(registry.get(name).params) == set(registry.get(other).params)


def composed(name):
    """Returns a symbol of an operator, and the number of inputs that it is given: those of any number, up to two."""
    told = RECORDED[name]
    count = min(2, len(told["inputs"].split())) if registry.get(name).variadic else 0
    function = getattr(mx.sym, name, None) or getattr(mx.sym._internal, name)
    return function(*map(mx.sym.var, "abcdef"[:count]), name="n", **told.get("given", {})), count


def test_inputs_and_outputs_of_symbols():
    """A symbol names what it is not given, and its outputs."""
    for name, told in RECORDED.items():
        if "inputs" in told and name not in UNLIKE_SYMBOLS:
            symbol, count = composed(name)
            listed = (symbol.list_arguments()[count:], symbol.list_auxiliary_states(), symbol.list_outputs())
            expected = (told["inputs"].split()[count:], told["aux"].split(), told["outputs"].split())
            assert tuple([n.removeprefix("n_") for n in names] for names in listed) == expected, name


def types():
    """Yields (place, parameter, type without "or None", optional, required) of each parameter that is recorded."""
    for name, told in RECORDED.items():
        op = registry.get(name)
        for parameter, text in told.get("parameters", {}).items():
            place = f"{name} {parameter}"
            if place in ABSENT or parameter == op.variadic:
                continue
            kind = text.removesuffix(", required").removesuffix(" or None")
            yield place, op.params[parameter], kind, " or None" in text, text.endswith(", required")


def test_values_of_parameters():
    """Valid texts have the value that their type says; other texts are refused."""
    tested = 0
    for place, parameter, kind, optional, required in types():
        words = kind.strip("{}").replace("'", "").split(", ") if kind.startswith("{") else []
        if place in UNLIKE_TYPES or (not words and kind not in VALID):
            continue
        tested += 1
        for text, value in VALID[kind] if not words else [(word, word) for word in words if word != "None"]:
            assert parameter.parse(text) == value, place
        if optional or "None" in words:
            assert parameter.parse("None") is None and parameter.parse(None) is None, place
        if kind != "string":
            with pytest.raises(mx.MXNetError, match=f"parameter {parameter.name} must be"):
                parameter.parse("(a word")
        assert not (parameter.required and not required), place
    assert tested > 1200


def test_words_are_those_of_mxnet():
    """A parameter that takes one of some words takes no others, but layouts and activations that
    MXNet's texts lack."""
    for place, parameter, kind, _, _ in types():
        if kind.startswith("{") and parameter.choices is not None:
            known = set(ast.literal_eval(kind)) - {None}
            assert set(parameter.choices) - known <= {"NCW", "NWC", "log_sigmoid", "mish"}, place


@pytest.mark.parametrize("key", ["axis", "axes", "dim", "dim1", "axis1"])
def test_an_axis_that_is_not_there(key):
    """The error names the operator, which is one, and the axis."""
    seen = 0
    for op in registry.operators():
        if key not in op.params or op.name in TAKE_ANY_AXIS:
            continue
        function = getattr(mx.sym, op.name, None) or getattr(mx.sym._internal, op.name)
        given = {**RECORDED.get(op.name, {}).get("given", {}), key: "(99,)" if key == "axes" else "99"}
        symbol = function(*map(mx.sym.var, "ab"[:2 if op.variadic else 0]), name="n", **given)
        with pytest.raises(mx.MXNetError) as caught:
            symbol.infer_shape(**dict.fromkeys(symbol.list_arguments(), (2, 3)))
        named = set(re.findall(r"operator (\w\S*?):", str(caught.value))) - {"n"}
        assert op.name in named and "99" in str(caught.value), op.name
        assert all(registry.find(name) or registry.find(f"_contrib_{name}") for name in named), (op.name, named)
        seen += 1
    assert seen
