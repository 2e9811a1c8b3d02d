"""DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ... import nn
from ..._chosen_block import named, scope_of
from ...contrib.nn import HybridConcurrent, Identity
from ._family import ROOT, Classifier, trained, variant

if TYPE_CHECKING:
    from ....context import Context

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


def _normalized(out: nn.HybridSequential, channels: int, kernel: int, padding: int = 0) -> None:
    """Adds batch normalization, ReLU and a convolution."""
    out.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, kernel, padding=padding, use_bias=False))


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """The input, and `growth_rate` new channels made of it."""
    new = nn.HybridSequential(**named(""))
    _normalized(new, bn_size * growth_rate, 1)
    _normalized(new, growth_rate, 3, 1)
    if dropout:
        new.add(nn.Dropout(dropout))
    out = HybridConcurrent(axis=1, **named(""))
    out.add(Identity(), new)
    return out


def _transition(channels: int) -> nn.HybridSequential:
    out = nn.HybridSequential(**named(""))
    _normalized(out, channels, 1)
    out.add(nn.AvgPool2D(2, 2))
    return out


class DenseNet(Classifier):
    """DenseNet. Huang et al., 2017, arXiv:1608.06993.

    Args:
        num_init_features: channels of the first convolution.
        growth_rate: channels that each layer adds.
        block_config: number of layers in each block.
        bn_size: channels of the 1x1 convolutions, as a multiple of the growth rate.
        dropout: dropout rate after each layer.
        classes: number of classes.
    """

    def __init__(self, num_init_features: int, growth_rate: int, block_config: Sequence[int], bn_size: int = 4,
                 dropout: float = 0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            self.features.add(nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False), nn.BatchNorm(),
                              nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for number, count in enumerate(block_config, start=1):
                stage = nn.HybridSequential(**named(f"stage{number}_"))
                with scope_of(stage):
                    for _ in range(count):
                        stage.add(_dense_layer(growth_rate, bn_size, dropout))
                self.features.add(stage)
                channels += count * growth_rate
                if number < len(block_config):
                    channels //= 2
                    self.features.add(_transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)


densenet_spec = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]), 169: (64, 32, [6, 12, 32, 32]),
                 201: (64, 32, [6, 12, 48, 32])}


@with_device
def get_densenet(num_layers: int, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
                 root: str = ROOT, **kwargs: Any) -> DenseNet:
    """Creates a DenseNet.

    Args:
        num_layers: 121, 161, 169 or 201.
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `DenseNet`.
    """
    return trained(DenseNet(*densenet_spec[num_layers], **kwargs), f"densenet{num_layers}", pretrained, ctx, root)


densenet121, densenet161, densenet169, densenet201 = (
    variant(f"densenet{n}", f"DenseNet with {n} layers", get_densenet, n) for n in densenet_spec)
