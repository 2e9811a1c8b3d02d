"""The defaults of all public functions, classes and operators, beside those recorded from MXNet 1.9.1."""

import functools
import inspect
import json
import math
import os
import pathlib
import sys

import numpy as np
import pytest

import mxjax as mx
from mxjax.io.image_parameters import DetParameters, ImageParameters
from mxjax.ops import registry
from mxjax.ops.params import schema

RECORDED = json.loads((pathlib.Path(__file__).parent / "data/mxnet/defaults.json").read_text())
# `stop` has no default that can be read; None stands for (0, 1)
UNLIKE = {("_npi_linspace", "stop"), ("_npi_rot90", "axes")}
# a scale of 0 draws nothing but zeros
UNLIKE_ARGUMENTS = {("mx.symbol.numpy.random.rayleigh", "scale")}
ABSENT = {"mx.libinfo.find_conf_path", "mx.libinfo.find_lib_path", "mx.notebook.callback.LiveBokehChart",
          "mx.notebook.callback.LiveLearningCurve", "mx.notebook.callback.PandasLogger"}


def same(expected, value):
    if isinstance(expected, list):
        return isinstance(value, (list, tuple)) and len(expected) == len(value) and all(map(same, expected, value))
    if isinstance(expected, float) and math.isnan(expected):
        return value != value
    if isinstance(expected, str) and isinstance(value, type):  # a dtype
        return expected == np.dtype(value).name
    if isinstance(expected, float) and isinstance(value, float):
        return np.float32(expected) == np.float32(value)  # MXNet's operators keep float32
    return str(value) == os.path.expanduser(expected) if isinstance(expected, str) else value == expected


def _parameters(path):
    """Returns the parameters of a public name."""
    module, _, name = path.replace("mx.", "mxjax.", 1).rpartition(".")
    while module not in sys.modules:  # functions come before modules of their name
        module, _, more = module.rpartition(".")
        name = f"{more}.{name}"
    return inspect.signature(functools.reduce(getattr, name.split("."), sys.modules[module])).parameters


def differences(path, parameters, defaults):
    """Returns what differs in the parameters of a function from recorded defaults, and how many were compared."""
    wrong, compared = [], 0
    for name, expected in defaults.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.default is parameter.empty:
            if not {p.kind for p in parameters.values()} & {inspect.Parameter.VAR_KEYWORD}:
                wrong.append(f"{path}({name}) has no default")
            continue
        compared += 1
        if not same(expected, parameter.default):
            wrong.append(f"{path}({name}={parameter.default!r}), not {expected!r}")
    return wrong, compared


def test_functions_and_classes():
    wrong, compared = [], 0
    for path, defaults in RECORDED["functions"].items():
        if path in ABSENT:
            continue
        defaults = {name: value for name, value in defaults.items() if (path, name) not in UNLIKE_ARGUMENTS}
        more, count = differences(path, _parameters(path), defaults)
        wrong, compared = wrong + more, compared + count
    assert not wrong, "\n".join(wrong)
    assert compared > 1600


def test_operators():
    wrong, compared = [], 0
    for name, defaults in RECORDED["operators"].items():
        params = registry.get(name).params
        for key, text in defaults.items():
            if key not in params or (name, key) in UNLIKE:
                continue
            compared += 1
            try:
                expected = params[key].parse(text)
            except mx.MXNetError as error:
                wrong.append(f"{name}({key}): {text!r} cannot be read: {error}")
                continue
            if not same(expected, params[key].filled):
                wrong.append(f"{name}({key}={params[key].default!r}), not {text!r}")
    assert not wrong, "\n".join(wrong)
    assert compared > 1000


@pytest.mark.parametrize("name, parameters", [
    ("ImageRecordIter", ImageParameters), ("ImageDetRecordIter", DetParameters)])
def test_image_iterators(name, parameters):
    known = schema(name, parameters)
    wrong = [f"{name}({key}={known[key].default!r}), not {text!r}" for key, text in RECORDED["iterators"][name].items()
             if not same(known[key].parse(text), known[key].default)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["sgd", "nag", "adam", "lamb", "rmsprop", "ftrl", "signum"])
def test_rates_of_optimizers(name):
    rates = {"adam": 0.001, "lamb": 0.001, "rmsprop": 0.001, "ftrl": 0.1}
    assert mx.optimizer.create(name).learning_rate == rates.get(name, 0.01)
