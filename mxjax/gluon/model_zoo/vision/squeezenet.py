"""SqueezeNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ... import nn
from ..._chosen_block import named
from ...contrib.nn import HybridConcurrent
from ._family import ROOT, Classifier, trained, variant

if TYPE_CHECKING:
    from ....context import Context

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]


def _convolution(channels: int, kernel: int, padding: int = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(**named(""))
    out.add(nn.Conv2D(channels, kernel, padding=padding), nn.Activation("relu"))
    return out


def _fire(squeezed: int, expanded: int) -> nn.HybridSequential:
    """A fire module: few channels by a 1x1 convolution, then many by a 1x1 and a 3x3 one side by side."""
    out, paths = nn.HybridSequential(**named("")), HybridConcurrent(axis=1, **named(""))
    out.add(_convolution(squeezed, 1))
    paths.add(_convolution(expanded, 1), _convolution(expanded, 3, 1))
    out.add(paths)
    return out


_STAGES = {  # version: first convolution (channels, kernel), then fire modules (squeezed, expanded) between poolings
    "1.0": ((96, 7), [[(16, 64), (16, 64), (32, 128)], [(32, 128), (48, 192), (48, 192), (64, 256)], [(64, 256)]]),
    "1.1": ((64, 3), [[(16, 64), (16, 64)], [(32, 128), (32, 128)], [(48, 192), (48, 192), (64, 256), (64, 256)]])}


class SqueezeNet(Classifier):
    """SqueezeNet. Iandola et al., 2016, arXiv:1602.07360.

    Args:
        version: "1.0", or "1.1", which is as accurate at less than half the cost.
        classes: number of classes.

    Raises:
        AssertionError: another version.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if version not in _STAGES:
            raise AssertionError(f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected")
        (channels, kernel), stages = _STAGES[version]
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            self.features.add(nn.Conv2D(channels, kernel, strides=2), nn.Activation("relu"))
            for stage in stages:
                self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
                for sizes in stage:
                    self.features.add(_fire(*sizes))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(**named(""))
            self.output.add(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())


@with_device
def get_squeezenet(version: str, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
                   root: str = ROOT, **kwargs: Any) -> SqueezeNet:
    """Creates a SqueezeNet.

    Args:
        version: "1.0" or "1.1".
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `SqueezeNet`.
    """
    return trained(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


squeezenet1_0 = variant("squeezenet1_0", "SqueezeNet 1.0", get_squeezenet, "1.0")
squeezenet1_1 = variant("squeezenet1_1", "SqueezeNet 1.1", get_squeezenet, "1.1")
