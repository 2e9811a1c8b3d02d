"""MobileNet and MobileNetV2."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ... import nn
from ..._chosen_block import named, scope_of
from ...block import HybridBlock
from ._family import ROOT, Classifier, trained, variant

if TYPE_CHECKING:
    from ....context import Context
    from ..._types import Tensor

__all__ = ["MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_25", "mobilenet0_5",
           "mobilenet0_75", "mobilenet1_0", "mobilenet_v2_0_25", "mobilenet_v2_0_5", "mobilenet_v2_0_75",
           "mobilenet_v2_1_0"]


class RELU6(HybridBlock):
    """Clips x to [0, 6]."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Clips x."""
        return F.clip(x, 0, 6, name="relu6")


def _convolution(out: nn.HybridSequential, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1,
                 activation: HybridBlock | None = None) -> None:
    """Adds a convolution that keeps the size (but for the stride), batch normalization and an activation."""
    out.add(nn.Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False), nn.BatchNorm(scale=True))
    if activation is not None:
        out.add(activation)


class LinearBottleneck(HybridBlock):
    """An inverted residual: expansion to many channels, a depthwise convolution, and a linear
    projection to few channels.

    Args:
        in_channels, channels: number of input and output channels.
        t: expansion factor of the channels.
        stride: of the middle convolution.
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with self._scope:
            self.out = nn.HybridSequential()
            _convolution(self.out, inner, activation=RELU6())
            _convolution(self.out, inner, 3, stride, inner, RELU6())
            _convolution(self.out, channels)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Computes the block's output."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Classifier):
    """MobileNet. Howard et al., 2017, arXiv:1704.04861.

    Args:
        multiplier: factor of the number of channels in all layers.
        classes: number of classes.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        channels = [int(n * multiplier) for n in (32, 64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)]
        strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            _convolution(self.features, channels[0], 3, 2, activation=nn.Activation("relu"))
            for before, after, stride in zip(channels, channels[1:], strides, strict=False):
                _convolution(self.features, before, 3, stride, before, nn.Activation("relu"))
                _convolution(self.features, after, activation=nn.Activation("relu"))
            self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Classifier):
    """MobileNetV2. Sandler et al., 2018, arXiv:1801.04381.

    Args:
        multiplier: factor of the number of channels in all layers.
        classes: number of classes.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        repeated = ((32, 1), (16, 1), (24, 2), (32, 3), (64, 4), (96, 3), (160, 3), (320, 1))
        channels = [int(n * multiplier) for n, times in repeated for _ in range(times)]
        strides = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
        with self._scope:
            self.features = nn.HybridSequential(**named("features_"))
            with scope_of(self.features):
                _convolution(self.features, channels[0], 3, 2, activation=RELU6())
                for i, stride in enumerate(strides):
                    self.features.add(LinearBottleneck(channels[i], channels[i + 1], 6 if i else 1, stride))
                _convolution(self.features, int(1280 * max(multiplier, 1.0)), activation=RELU6())
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(**named("output_"))
            with scope_of(self.output):
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, **named("pred_")), nn.Flatten())


def _suffix(multiplier: float) -> str:
    """Returns a multiplier as the names of parameter files contain it."""
    return f"{multiplier:.2f}".removesuffix("0") if multiplier in (1.0, 0.5) else f"{multiplier:.2f}"


@with_device
def get_mobilenet(multiplier: float, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
                  root: str = ROOT, **kwargs: Any) -> MobileNet:
    """Creates a MobileNet.

    Args:
        multiplier: 1.0, 0.75, 0.5 or 0.25; any number if not `pretrained`.
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `MobileNet`.
    """
    return trained(MobileNet(multiplier, **kwargs), f"mobilenet{_suffix(multiplier)}", pretrained, ctx, root)


@with_device
def get_mobilenet_v2(multiplier: float, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
                     root: str = ROOT, **kwargs: Any) -> MobileNetV2:
    """Creates a MobileNetV2; arguments as in `get_mobilenet`."""
    return trained(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_suffix(multiplier)}", pretrained, ctx, root)


mobilenet1_0, mobilenet0_75, mobilenet0_5, mobilenet0_25 = (
    variant(f"mobilenet{m}".replace(".", "_"), f"MobileNet with {m} times the channels", get_mobilenet, m)
    for m in (1.0, 0.75, 0.5, 0.25))
mobilenet_v2_1_0, mobilenet_v2_0_75, mobilenet_v2_0_5, mobilenet_v2_0_25 = (
    variant(f"mobilenet_v2_{m}".replace(".", "_"), f"MobileNetV2 with {m} times the channels", get_mobilenet_v2, m)
    for m in (1.0, 0.75, 0.5, 0.25))
