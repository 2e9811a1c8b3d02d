"""Examples in docstrings run and print what they say; most operators, layers and functions of mx.np have one."""

import inspect
import re

import doctests

import mxjax as mx


def test_a_sample_of_the_examples_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = dict(doctests.examples("", (0, 50)))
    assert len(said) > 10
    assert not [text for text in said.values() if text]


def test_most_operators_and_layers_have_an_example():
    found = doctests.count()
    for kind in ("operators", "layers and losses"):
        some, every = found[kind]
        assert some >= 0.8 * every, f"{some} of {every} {kind} have an example"


def numpy_functions():
    """{name: function} of what mx.np, mx.npx and their modules define, and of the methods of mx.np's array."""
    found = {}
    for module in (mx.np, mx.np.linalg, mx.np.random, mx.npx, mx.npx.random):
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name)
            home = getattr(value, "__module__", None) or ""
            if inspect.isfunction(value) and name[0] != "_" and re.match(r"mxjax\.numpy(_extension)?\b", home):
                found[f"{module.__name__}.{name}"] = value
    for owner in mx.np.ndarray.__mro__[:2]:
        found.update({f"ndarray.{n}": v for n, v in vars(owner).items()
                      if inspect.isfunction(v) and n[0] != "_" and v.__module__.startswith("mxjax.numpy")})
    return found


def test_functions_of_np_tell_what_their_arguments_mean():
    for name, function in numpy_functions().items():
        doc = inspect.getdoc(function)
        told = "\n".join(re.findall(r"^(?:Args:|Parameters\n-+)\n(.*?)(?:\n\n|\Z)", doc, re.DOTALL | re.MULTILINE))
        missing = {p.name for p in inspect.signature(function).parameters.values()
                   if not re.search(rf"\b{p.name}\b", told)} - {"self"}
        if "fallback" in function.__module__:  # NumPy's signature, which changes with its versions
            missing = set() if told else missing
        if "\nParameters\n" in doc:  # an operator's: these three mean the same everywhere
            missing -= {"out", "name", "kwargs"}
        assert not missing, f"{name} says nothing of {missing}"


def test_most_functions_of_np_have_an_example():
    found = numpy_functions()
    without = [name for name, function in found.items() if ">>>" not in (function.__doc__ or "")]
    assert len(found) > 350
    assert len(without) <= 0.05 * len(found), without
