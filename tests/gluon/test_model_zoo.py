"""Tests of the model zoo: names and shapes of all parameters against MXNet's, forward passes, the store."""

import hashlib

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon.model_zoo import model_store, vision

# number of parameters, and the beginning of the SHA-1 of their names, shapes and grad_reqs, recorded with MXNet 1.9.1
RECORDED = {
    "alexnet": (16, "d27b02f355a8"),
    "densenet121": (606, "10389e888df6"),
    "densenet161": (806, "5708a6f32103"),
    "inceptionv3": (472, "34ed09857ff8"),
    "mobilenet0.25": (137, "2d3ab1e728dd"),
    "mobilenet1.0": (137, "cde097e30a50"),
    "mobilenetv2_0.25": (266, "71305ff8d446"),
    "mobilenetv2_1.0": (266, "648b8cf8af46"),
    "resnet18_v1": (102, "b29a99f1f1ea"),
    "resnet50_v1": (299, "ce1905eee209"),
    "resnet18_v2": (98, "bbb92d40c1a8"),
    "resnet50_v2": (259, "a001439bd1ad"),
    "squeezenet1.0": (52, "6cca8f00d808"),
    "squeezenet1.1": (52, "be0bd31ad9fc"),
    "vgg11": (22, "c88962ac1eb0"),
    "vgg11_bn": (54, "bbd44a5bd397"),
    "vgg19": (38, "a139950d7a2c"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_parameters_are_mxnets(name):
    with mx.name.NameManager():
        net = vision.get_model(name, classes=10)
    prefix = net.prefix
    base = prefix.rstrip("_0123456789")
    lines = [f"{key.replace(prefix, base + '#_', 1)} {tuple(p.shape)} {p.grad_req}"
             for key, p in net.collect_params().items()]
    text = "\n".join([*lines, *net._collect_params_with_prefix()])
    assert (len(lines), hashlib.sha1(text.encode()).hexdigest()[:12]) == RECORDED[name]


@pytest.mark.parametrize("net", [
    lambda: vision.ResNetV1(vision.BasicBlockV1, [2], [4, 8], classes=3, thumbnail=True),
    lambda: vision.ResNetV2(vision.BottleneckV2, [1], [4, 8], classes=3, thumbnail=True)])
def test_forward(net):
    net = net()
    net.initialize(mx.init.Constant(0.1))
    net.hybridize()
    out = net(mx.nd.array(np.random.RandomState(0).rand(2, 3, 4, 4)))
    assert out.shape == (2, 3) and np.isfinite(out.asnumpy()).all()


def test_names():
    assert vision.resnet18_v1.__name__ == "resnet18_v1" and "18 layers" in vision.resnet18_v1.__doc__
    with pytest.raises(ValueError, match="Model lenet is not supported.*\n\talexnet\n"):
        vision.get_model("LeNet")
    with pytest.raises(AssertionError, match="Invalid number of layers: 7"):
        vision.get_resnet(1, 7)


def test_store(tmp_path, monkeypatch):
    content = b"parameters"
    monkeypatch.setitem(model_store._model_sha1, "alexnet", hashlib.sha1(content).hexdigest())
    path = tmp_path / f"alexnet-{model_store.short_hash('alexnet')}.params"
    path.write_bytes(content)
    assert model_store.get_model_file("alexnet", root=str(tmp_path)) == str(path)
    model_store.purge(str(tmp_path))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="lenet is not available"):
        model_store.get_model_file("lenet")
