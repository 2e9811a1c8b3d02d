"""AlexNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ... import nn
from ..._chosen_block import named
from ._family import ROOT, Classifier, trained

if TYPE_CHECKING:
    from ....context import Context

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Classifier):
    """AlexNet, in the variant of Krizhevsky, 2014, arXiv:1404.5997.

    Args:
        classes: number of classes.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)

        def convolution(channels: int, kernel: int, padding: int, strides: int = 1) -> nn.Conv2D:
            return nn.Conv2D(channels, kernel, strides, padding, activation="relu")
        with self._scope:
            self.features = nn.HybridSequential(**named(""))
            self.features.add(
                convolution(64, 11, 2, 4), nn.MaxPool2D(3, 2), convolution(192, 5, 2), nn.MaxPool2D(3, 2),
                convolution(384, 3, 1), convolution(256, 3, 1), convolution(256, 3, 1), nn.MaxPool2D(3, 2),
                nn.Flatten(), nn.Dense(4096, activation="relu"), nn.Dropout(0.5),
                nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


@with_device
def alexnet(pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(), root: str = ROOT,
            **kwargs: Any) -> AlexNet:
    """Creates an AlexNet. Args: pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `AlexNet`.
    """
    return trained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
