"""`python -m mxjax serve --manifest`: what KServe gets, read by kserve's own classes."""

import argparse
import importlib.util
import json
import subprocess
import sys

import pytest

from mxjax.base import MXNetError
from mxjax.tools import serve
from mxjax.tools.serve_manifest import manifest

yaml = pytest.importorskip("yaml")

# in a process of its own: kserve's protocol buffers and tritonclient's have the same names
READ = """
import json, re, sys
import kserve.models, kubernetes.client.models

def check(value, kind, place):
    listed = re.fullmatch(r"[lL]ist\\[(.+)\\]", kind)
    if listed:
        for i, one in enumerate(value):
            check(one, listed[1], f"{place}[{i}]")
        return
    model = getattr(kserve.models, kind, None) or getattr(kubernetes.client.models, kind, None)
    if model is None:  # a text, a number, or a dictionary of such
        plain = {"str": str, "int": int}.get(kind, object)
        assert isinstance(value, plain), f"{place}: {value!r} is no {kind}"
        return
    names = {there: here for here, there in model.attribute_map.items()}
    assert set(value) <= set(names), f"{place}: {kind} has no {set(value) - set(names)}"
    for name, one in value.items():
        check(one, model.openapi_types[names[name]], f"{place}.{name}")
    model(**{names[name]: one for name, one in value.items()})  # which looks for what must be there

for one, kind in zip(json.load(sys.stdin), ("V1alpha1ServingRuntime", "V1beta1InferenceService")):
    check(one, kind, kind)
"""


@pytest.fixture
def given(tmp_path):
    """Arguments of the command from words."""
    (tmp_path / "twice.py").write_text("class Model:\n    shapes = {'x': (1, 2)}\n    output_names = ['y']\n"
                                       "    def predict(self, inputs):\n        return {'y': inputs['x'] * 2}\n")

    def parsed(*words, model="Twice_2={}/twice.py"):
        parser = argparse.ArgumentParser()
        serve.add_arguments(parser)
        return parser.parse_args([model.format(tmp_path), "--manifest", "images/mxjax:1", "s3://models/twice",
                                  "--no-cache", *words])
    return parsed


def test_the_manifest_runs_the_same_command(given):
    arguments = given("--max-batch", "8", "--shape", "x=1,2", "--replicas", "1:4", "--ctx", "gpu(0)")
    runtime, service = yaml.safe_load_all(manifest(arguments, serve.models_of(given())[0]))
    [container] = runtime["spec"]["containers"]
    assert container["image"] == "images/mxjax:1" and container["command"] == ["python", "-m", "mxjax"]
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    again = parser.parse_args(container["args"][1:])
    assert container["args"][0] == "serve" and again.models == ["twice-2=/mnt/models/twice.py"]
    assert (again.host, again.port, again.grpc_port) == ("0.0.0.0", 8080, 0)
    for option in ("shape", "dtype", "ctx", "warm", "max_batch", "max_delay_ms", "queue", "timeout", "max_request_mb",
                   "linger", "grace", "no_cache"):
        assert getattr(again, option) == getattr(arguments, option)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    predictor = service["spec"]["predictor"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (1, 4)
    assert predictor["model"]["runtime"] == runtime["metadata"]["name"] == "mxjax-twice-2"
    assert predictor["model"]["storageUri"] == "s3://models/twice"
    assert predictor["terminationGracePeriodSeconds"] > arguments.linger + arguments.grace
    assert predictor["model"]["modelFormat"] in runtime["spec"]["supportedModelFormats"]


@pytest.mark.skipif(importlib.util.find_spec("kserve") is None, reason='needs the extra "serve"')
def test_kserves_classes_know_all_of_it(given):
    documents = list(yaml.safe_load_all(manifest(given(), serve.models_of(given())[0])))

    def read():
        return subprocess.run([sys.executable, "-c", READ], input=json.dumps(documents), capture_output=True,
                              text=True).stderr
    assert "Error" not in read()
    documents[0]["spec"]["containers"][0]["readinessProbe"]["httpget"] = {}
    assert "V1Probe has no {'httpget'}" in read()


def test_what_no_manifest_is_for(given, tmp_path):
    arguments = given()
    arguments.models.append(f"other={tmp_path}/twice.py")
    with pytest.raises(MXNetError, match="must have one model, got Twice_2, other"):
        manifest(arguments, serve.models_of(arguments)[0])
