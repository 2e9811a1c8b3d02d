"""Networks for images. Each family has its file, each size a function; `get_model` finds all of them by name."""

from __future__ import annotations

from typing import Any

from ...block import HybridBlock
from .alexnet import AlexNet, alexnet
from .densenet import DenseNet, densenet121, densenet161, densenet169, densenet201
from .inception import Inception3, inception_v3
from .mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from .resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v2,
    resnet101_v1,
    resnet101_v2,
    resnet152_v1,
    resnet152_v2,
)
from .squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from .vgg import VGG, get_vgg, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn

_SPECIAL = {"squeezenet1.0": squeezenet1_0, "squeezenet1.1": squeezenet1_1, "inceptionv3": inception_v3,
            "mobilenet1.0": mobilenet1_0, "mobilenet0.75": mobilenet0_75, "mobilenet0.5": mobilenet0_5,
            "mobilenet0.25": mobilenet0_25, "mobilenetv2_1.0": mobilenet_v2_1_0,
            "mobilenetv2_0.75": mobilenet_v2_0_75, "mobilenetv2_0.5": mobilenet_v2_0_5,
            "mobilenetv2_0.25": mobilenet_v2_0_25}
_MODELS = {function.__name__: function for function in (
    alexnet, densenet121, densenet161, densenet169, densenet201, resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1,
    resnet152_v1, resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2, vgg11, vgg13, vgg16, vgg19,
    vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn)} | _SPECIAL


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """Creates a network by name.

    Args:
        name: e.g. "resnet50_v1"; case does not matter.
        pretrained: load parameters trained on ImageNet.
        classes: number of classes.
        ctx: context of the parameters.
        root: directory of the parameter files.

    Raises:
        ValueError: there is no such network; the message lists the available ones.

    Example:
        >>> net = get_model("resnet18_v1", classes=10)
    """
    make = _MODELS.get(name.lower())
    if make is None:
        raise ValueError(f"Model {name.lower()} is not supported. Available options are\n\t"
                         + "\n\t".join(sorted(_MODELS)))
    return make(**kwargs)
