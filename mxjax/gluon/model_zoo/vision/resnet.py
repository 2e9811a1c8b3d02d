"""ResNet, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ....util import is_np_array
from ... import nn
from ..._chosen_block import named, scope_of
from ...block import HybridBlock
from ._family import ROOT, Classifier, trained, variant

if TYPE_CHECKING:
    from ....context import Context
    from ..._types import Tensor

__all__ = ["BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2", "get_resnet",
           "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2", "resnet18_v1", "resnet18_v2",
           "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2"]


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _relu(F: ModuleType, x: Tensor) -> Any:  # noqa: N803
    return (F.npx.activation if is_np_array() else F.Activation)(x, act_type="relu")


class _BlockV1(HybridBlock):
    """relu(x + body(x)); x is convolved where the number of channels or the size changes."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(**named(""))
        self._fill(channels, stride, in_channels)
        self.downsample = None
        if downsample:
            self.downsample = nn.HybridSequential(**named(""))
            self.downsample.add(nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels),
                                nn.BatchNorm())

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        """Makes the body."""
        raise NotImplementedError

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Computes the block's output."""
        residual = x if self.downsample is None else self.downsample(x)
        return _relu(F, residual + self.body(x))


class BasicBlockV1(_BlockV1):
    """Two 3x3 convolutions. He et al., 2015, arXiv:1512.03385.

    Args:
        channels: number of output channels.
        stride: of the first convolution.
        downsample: use a convolution in the shortcut connection.
        in_channels: number of input channels; 0: inferred at the first call.
    """

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"),
                      _conv3x3(channels, 1, channels), nn.BatchNorm())


class BottleneckV1(_BlockV1):
    """A 3x3 convolution with a quarter of the channels between two 1x1 convolutions; arguments as in `BasicBlockV1`."""

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.body.add(nn.Conv2D(inner, 1, stride), nn.BatchNorm(), nn.Activation("relu"),
                      _conv3x3(inner, 1, inner), nn.BatchNorm(), nn.Activation("relu"),
                      nn.Conv2D(channels, 1, 1), nn.BatchNorm())


class _BlockV2(HybridBlock):
    """x + convolutions(x), each behind batch normalization and ReLU: conv1, bn1, conv2, ..."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stages = []
        for i, (out, kernel, step, known) in enumerate(self._convolutions(channels, stride, in_channels), start=1):
            norm = nn.BatchNorm()
            convolution = nn.Conv2D(out, kernel, step, kernel // 2, use_bias=False, in_channels=known)
            setattr(self, f"bn{i}", norm)
            setattr(self, f"conv{i}", convolution)
            self._stages.append((f"bn{i}", f"conv{i}"))
        self.downsample = nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels) \
            if downsample else None

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> list[tuple[int, int, int, int]]:
        """Channels, kernel size, stride and input channels of each convolution."""
        raise NotImplementedError

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Computes the block's output."""
        residual = x
        for i, (norm, convolution) in enumerate(self._stages):
            x = _relu(F, getattr(self, norm)(x))
            if i == 0 and self.downsample is not None:
                residual = self.downsample(x)
            x = getattr(self, convolution)(x)
        return x + residual


class BasicBlockV2(_BlockV2):
    """Two 3x3 convolutions. He et al., 2016, arXiv:1603.05027. Arguments as in `BasicBlockV1`."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> list[tuple[int, int, int, int]]:
        return [(channels, 3, stride, in_channels), (channels, 3, 1, channels)]


class BottleneckV2(_BlockV2):
    """A 3x3 convolution with a quarter of the channels between two 1x1 convolutions; arguments as in `BasicBlockV1`."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> list[tuple[int, int, int, int]]:
        inner = channels // 4
        return [(inner, 1, 1, 0), (inner, 3, stride, inner), (channels, 1, 1, 0)]


def _start(features: nn.HybridSequential, channels: int, thumbnail: bool) -> None:
    """Adds the first convolution: a small one for small images."""
    if thumbnail:
        features.add(_conv3x3(channels, 1, 0))
    else:
        features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                     nn.MaxPool2D(3, 2, 1))


def _add_stages(features: nn.HybridSequential, block: type, layers: Sequence[int], channels: Sequence[int]) -> None:
    """Adds the residual blocks."""
    if len(layers) != len(channels) - 1:
        raise AssertionError(f"{len(layers)} stages need {len(layers) + 1} numbers of channels, got {len(channels)}")
    for i, count in enumerate(layers):
        before, after = channels[i], channels[i + 1]
        stage = nn.HybridSequential(**named(f"stage{i + 1}_"))
        with scope_of(stage):
            stage.add(block(after, 2 if i else 1, after != before, in_channels=before, **named("")))
            for _ in range(count - 1):
                stage.add(block(after, 1, False, in_channels=after, **named("")))
        features.add(stage)


class ResNetV1(Classifier):
    """ResNet, version 1. He et al., 2015, arXiv:1512.03385.

    Args:
        block: class of the blocks: BasicBlockV1 or BottleneckV1.
        layers: number of blocks in each stage.
        channels: number of channels of the first convolution and of each stage.
        classes: number of classes.
        thumbnail: begin with a 3x3 convolution, for small images.
    """

    def __init__(self, block: type, layers: Sequence[int], channels: Sequence[int], classes: int = 1000,
                 thumbnail: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            _start(self.features, channels[0], thumbnail)
            _add_stages(self.features, block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(Classifier):
    """ResNet, version 2. He et al., 2016, arXiv:1603.05027. Arguments as in `ResNetV1`."""

    def __init__(self, block: type, layers: Sequence[int], channels: Sequence[int], classes: int = 1000,
                 thumbnail: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            self.features.add(nn.BatchNorm(scale=False, center=False))
            _start(self.features, channels[0], thumbnail)
            _add_stages(self.features, block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


_SMALL, _LARGE = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
resnet_spec = {18: ("basic_block", [2, 2, 2, 2], _SMALL), 34: ("basic_block", [3, 4, 6, 3], _SMALL),
               50: ("bottle_neck", [3, 4, 6, 3], _LARGE), 101: ("bottle_neck", [3, 4, 23, 3], _LARGE),
               152: ("bottle_neck", [3, 8, 36, 3], _LARGE)}
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [{"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
                         {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2}]


@with_device
def get_resnet(version: int, num_layers: int, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
               root: str = ROOT, **kwargs: Any) -> ResNetV1 | ResNetV2:
    """Creates a ResNet.

    Args:
        version: 1 or 2.
        num_layers: 18, 34, 50, 101 or 152.
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `ResNetV1`.

    Raises:
        AssertionError: another version or number of layers.
    """
    if num_layers not in resnet_spec:
        raise AssertionError(f"Invalid number of layers: {num_layers}. Options are {list(resnet_spec)}")
    if version not in (1, 2):
        raise AssertionError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    block_type, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][block_type], layers, channels, **kwargs)
    return trained(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1, resnet152_v1 = (
    variant(f"resnet{n}_v1", f"ResNet with {n} layers, version 1", get_resnet, 1, n) for n in resnet_spec)
resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2 = (
    variant(f"resnet{n}_v2", f"ResNet with {n} layers, version 2", get_resnet, 2, n) for n in resnet_spec)
