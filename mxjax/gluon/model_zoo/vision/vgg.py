"""VGG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ....initializer import Xavier
from ... import nn
from ..._chosen_block import named
from ._family import ROOT, Classifier, trained, variant

if TYPE_CHECKING:
    from ....context import Context

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]


class VGG(Classifier):
    """VGG. Simonyan and Zisserman, 2014, arXiv:1409.1556.

    Args:
        layers: number of convolutions in each stage.
        filters: their channels.
        classes: number of classes.
        batch_norm: normalize after each convolution.
    """

    def __init__(self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000, batch_norm: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dense: dict[str, Any] = {"weight_initializer": "normal", "bias_initializer": "zeros"}
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            for count, channels in zip(layers, filters, strict=True):
                for _ in range(count):
                    self._add_convolution(channels, batch_norm)
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", **dense), nn.Dropout(0.5))
            self.output = nn.Dense(classes, **dense)

    def _add_convolution(self, channels: int, batch_norm: bool) -> None:
        init = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
        self.features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=init, bias_initializer="zeros"))
        if batch_norm:
            self.features.add(nn.BatchNorm())
        self.features.add(nn.Activation("relu"))


_FILTERS = [64, 128, 256, 512, 512]
vgg_spec = {11: ([1, 1, 2, 2, 2], _FILTERS), 13: ([2, 2, 2, 2, 2], _FILTERS), 16: ([2, 2, 3, 3, 3], _FILTERS),
            19: ([2, 2, 4, 4, 4], _FILTERS)}


@with_device
def get_vgg(num_layers: int, pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(),
            root: str = ROOT, **kwargs: Any) -> VGG:
    """Creates a VGG.

    Args:
        num_layers: 11, 13, 16 or 19.
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `VGG`.
    """
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    return trained(VGG(*vgg_spec[num_layers], **kwargs), name, pretrained, ctx, root)


vgg11, vgg13, vgg16, vgg19 = (variant(f"vgg{n}", f"VGG with {n} layers", get_vgg, n) for n in vgg_spec)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (
    variant(f"vgg{n}_bn", f"VGG with {n} layers and batch normalization", get_vgg, n, batch_norm=True)
    for n in vgg_spec)
