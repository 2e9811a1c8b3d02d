"""Arguments of `python -m mxjax serve`: which models they name, and mistakes."""

import argparse

import pytest

from mxjax.base import MXNetError
from mxjax.tools import serve

TWICE = """
class Model:
    shapes, output_names = {"x": (1, 2)}, ["y"]
    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""


def _parsed(*words):
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args([*words, "--no-cache"])


def _models(*words):
    return serve.models_of(_parsed(*map(str, words)))[0]


@pytest.fixture
def files(tmp_path):
    """A folder with the model `twice.py`, its versions 9 and 10, and two handlers."""
    for place in ("twice.py", "versions/10/model.py", "versions/9/model.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(TWICE)
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("def model_fn(model_dir):\n    return None\n")
    return tmp_path


def test_names_and_versions(files):
    models = _models(files / "twice.py", f"other={files}/twice.py", f"{files}/versions/", files / "one.py",
                     "--shape", "x=1,7")
    assert [(m.name, getattr(m, "version", None)) for m in models] == [
        ("twice", ""), ("other", ""), ("versions", "9"), ("versions", "10"), ("one", None)]
    assert all(m.shapes == {"x": (1, 7)} for m in models[:-1])


@pytest.mark.parametrize("words, message", [
    (["{0}/twice.py", "{0}/twice.py"], "two models have the name twice"),
    (["{0}/one.py", "{0}/two.py"], "at most one file with model_fn can be served, got one, two"),
    (["{0}/twice.py", "--shape", "image=1,2"], "no model has an input image; the inputs are x"),
    (["{0}/twice.py", "--shape", "x=1,a"], "--shape x must be numbers separated by commas, got '1,a'"),
    (["{0}/twice.py", "--ctx", "gpu(a)"], "--ctx must be like"),
    (["{0}/twice.py", "--device", "gpu(7)"], r"gpu\(7\)"),
    (["{0}/none"], "no such model"),
])
def test_mistakes(files, words, message):
    with pytest.raises(MXNetError, match=message):
        _models(*(word.format(files) for word in words))


def test_a_model_is_loaded_again_as_it_is_then(files):
    models, loaders = serve.models_of(_parsed(f"{files}/versions", f"a={files}/twice.py", f"{files}/one.py"))
    assert sorted(loaders) == ["a", "versions"] and [m.version for m in loaders["versions"]()] == ["9", "10"]
    (files / "versions" / "11").mkdir()
    (files / "versions" / "11" / "model.py").write_text(TWICE)
    assert [(m.name, m.version) for m in loaders["versions"]()] == [
        ("versions", "9"), ("versions", "10"), ("versions", "11")]
    with pytest.raises(MXNetError, match="--allow-load requires a single process"):
        serve.main(_parsed(f"{files}/twice.py", "--on", "ray", "--allow-load"))


def test_replicas_are_for_ray(files):
    with pytest.raises(MXNetError, match="--replicas requires --on ray or --manifest"):
        serve.main(_parsed(str(files / "twice.py"), "--replicas", "2"))
